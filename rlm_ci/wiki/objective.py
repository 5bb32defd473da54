"""The wiki's objective: facts from the sources, and sentences of a model if there is one."""

from __future__ import annotations

from rlm_ci.recursion.nodes import COMPLETED, FAILED, PARTIAL, NodeResult
from rlm_ci.report.findings import Evidence
from rlm_ci.text.printable import count
from rlm_ci.wiki import VERSION
from rlm_ci.wiki.facts.file_facts import facts_of, pack
from rlm_ci.wiki.prose.model_prose import WINDOW, judged, merged, tell, tell_rest
from rlm_ci.wiki.prose.prose_result import NOTHING, ProseResult, gathered
from rlm_ci.wiki.prose.whole_prose import EARLY, grounds, is_due, sum_up
from rlm_ci.wiki.update.state import Prose, ProseSentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafTask, Node
    from rlm_ci.wiki.update.survey import WikiSources

NAME = "wiki"


def analyse(task: LeafTask) -> dict[str, Any]:
    """The facts of the leaf's files; those of a file in slices come with its first slice."""
    first = [one for one in task.texts if one.line_start == 1]
    found = [facts_of(one.path, one.complete) for one in first]
    return {"packed": pack(found), "files": len(task.texts)}


def options(
    *,
    known: Mapping[str, Prose] | None = None,
    settled: Collection[str] = (),
    whole: Collection[str] = (),
    doubted: Iterable[tuple[ProseSentence, Sequence[str]]] = (),
    flows: Collection[str] = (),
    tree: str = "",
) -> dict[str, Any]:
    """All that the results depend on.

    ``known`` are earlier sentences by path; ``settled`` are files that need no question;
    ``whole`` are the marks of the sentences from which the whole was summed up; ``doubted`` are
    earlier sentences, with the lines that they quote, of which nobody asked whether these support
    them; ``flows`` are the digests of those that were asked about; ``tree`` is a hash of
    all files, as flows lead through those that are settled, too.
    """
    kept = {path: one.to_dict() for path, one in (known or {}).items()}
    return {
        "version": VERSION,
        "known": kept,
        "settled": sorted(settled),
        "whole": list(whole),
        "doubted": [[said.to_list(), list(lines)] for said, lines in doubted],
        "flows": sorted(flows),
        "tree": tree,
    }


class WikiObjective:
    """Leaves read their files, parents collect that; the pages are made of the root's ``data``.

    It has the packed facts of files, ``ProseResult.data``, and ``whole``. What leaves leave for
    ``later`` is asked about together, and with the flows of calls; ``sources`` reads what that
    needs.
    """

    name = NAME
    domain = "architecture"
    analyse = staticmethod(analyse)

    def __init__(
        self, chosen: Mapping[str, Any] | None = None, sources: WikiSources | None = None
    ) -> None:
        self.options = dict(chosen if chosen is not None else options())
        self._sources = sources
        self._known = {path: Prose.from_dict(one) for path, one in self.options["known"].items()}
        self._settled = frozenset(self.options["settled"])

    def judge(
        self, node: Node, task: LeafTask, analysis: Mapping[str, Any], ask: Ask | None
    ) -> NodeResult:
        asked = [one for one in task.texts if one.path not in self._settled]
        told = ProseResult(NOTHING)
        if ask is not None:
            told = tell(ask, asked, self._known, defers=self._sources is not None)
        data = {**told.data, "packed": [analysis["packed"]]}
        return self._result(node, ask, told.replace(data=data), files=analysis["files"])

    def aggregate(self, node: Node, children: Sequence[NodeResult], ask: Ask | None) -> NodeResult:
        alive = [child for child in children if child.status != FAILED]
        data = gathered(child.data for child in alive)
        data["packed"] = [one for child in alive for one in child.data["packed"]]
        counts = sum((child.counts for child in alive), Evidence())
        files = int(sum(child.metrics["files"] for child in alive))
        is_whole = len(alive) == len(children)
        told = ProseResult(data, counts)
        return self._result(node, ask, told, files=files, is_whole=is_whole)

    def _result(
        self,
        node: Node,
        ask: Ask | None,
        told: ProseResult,
        *,
        files: int,
        is_whole: bool = True,
    ) -> NodeResult:
        """The result of a node; at the root, all sentences are judged, and the whole summed up."""
        is_root = node.parent is None
        if ask is not None and (is_root or sum(told.data["later"].values()) >= WINDOW):
            told = self._rest(ask, told, is_root=is_root)
        if ask is not None and is_root:
            for more in (self._judged, self._whole):
                found = more(ask, told.data)
                told = ProseResult(
                    {**told.data, **found.data},
                    told.counts + found.counts,
                    (*told.uncovered, *found.uncovered),
                )
            told = told.replace(data={**told.data, "quoted": {}})
        return NodeResult(
            node.id,
            COMPLETED if is_whole and not told.uncovered else PARTIAL,
            count(files, "file"),
            1.0,
            uncovered=told.uncovered,
            counts=told.counts,
            metrics={"files": files, "sentences": sum(map(len, told.data["prose"].values()))},
            data=told.data,
        )

    def _rest(self, ask: Ask, told: ProseResult, *, is_root: bool) -> ProseResult:
        """With what was left for later, and at the root with the flows that are others now."""
        if self._sources is None:
            return told
        data = told.data
        flows, whole = [], []
        if is_root:
            before = self.options["flows"]
            every = self._sources.flows(data["packed"])
            flows = [one for one in every if one.digest not in before]
            known = grounds({path: one.said for path, one in self._known.items()})
            whole = known if is_due(known, self.options["whole"], EARLY) else []
        found = tell_rest(
            ask,
            self._sources.texts(data["later"]),
            self._known,
            data["shown"],
            flows=flows,
            whole=whole,
            background=self._sources.background(data["packed"]) if whole else "",
            first=1 + told.turns,
        )
        both = gathered((data, found.data)) | {"packed": data["packed"], "later": {}}
        if "whole" in found.data:
            both["whole"] = found.data["whole"]
        return ProseResult(both, told.counts + found.counts, (*told.uncovered, *found.uncovered))

    def _judged(self, ask: Ask, data: Mapping[str, Any]) -> ProseResult:
        doubted = [(ProseSentence.from_list(row), lines) for row, lines in self.options["doubted"]]
        return judged(ask, doubted, data)

    def _whole(self, ask: Ask, data: Mapping[str, Any]) -> ProseResult:
        """What is said of all files, those that this run left alone too; asked where it is new."""
        known = grounds(merged({path: one.said for path, one in self._known.items()}, data))
        before = data["whole"]["shown"] if "whole" in data else self.options["whole"]
        if not is_due(known, before):
            return ProseResult()
        background = self._sources.background(data["packed"]) if self._sources else ""
        return sum_up(ask, known, background)
