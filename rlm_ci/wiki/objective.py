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
    first = [text for text in task.texts if text.line_start == 1]
    facts = [facts_of(text.path, text.complete) for text in first]
    return {"packed": pack(facts), "files": len(task.texts)}


def options(
    *,
    proses: Mapping[str, Prose] | None = None,
    settled: Collection[str] = (),
    grounds: Collection[str] = (),
    doubted: Iterable[tuple[ProseSentence, Sequence[str]]] = (),
    flows: Collection[str] = (),
    tree: str = "",
) -> dict[str, Any]:
    """All that the results depend on.

    ``proses`` are earlier sentences by path; ``settled`` are files that need no question;
    ``grounds`` are the marks of the sentences from which the whole was summed up; ``doubted`` are
    earlier sentences, with the lines that they quote, of which nobody asked whether these support
    them; ``flows`` are the digests of those that were asked about; ``tree`` is a hash of
    all files, as flows lead through those that are settled, too.
    """
    records = {path: prose.to_dict() for path, prose in (proses or {}).items()}
    return {
        "version": VERSION,
        "known": records,
        "settled": sorted(settled),
        "whole": list(grounds),
        "doubted": [[sentence.to_list(), list(lines)] for sentence, lines in doubted],
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
        self._known = {
            path: Prose.from_dict(option) for path, option in self.options["known"].items()
        }
        self._settled = frozenset(self.options["settled"])

    def judge(
        self, node: Node, task: LeafTask, analysis: Mapping[str, Any], ask: Ask | None
    ) -> NodeResult:
        texts = [text for text in task.texts if text.path not in self._settled]
        result = ProseResult(NOTHING)
        if ask is not None:
            result = tell(ask, texts, self._known, defers=self._sources is not None)
        data = {**result.data, "packed": [analysis["packed"]]}
        return self._result(node, ask, result.replace(data=data), files=analysis["files"])

    def aggregate(self, node: Node, children: Sequence[NodeResult], ask: Ask | None) -> NodeResult:
        alive = [child for child in children if child.status != FAILED]
        data = gathered(child.data for child in alive)
        data["packed"] = [row for child in alive for row in child.data["packed"]]
        counts = sum((child.counts for child in alive), Evidence())
        files = int(sum(child.metrics["files"] for child in alive))
        is_whole = len(alive) == len(children)
        result = ProseResult(data, counts)
        return self._result(node, ask, result, files=files, is_whole=is_whole)

    def _result(
        self,
        node: Node,
        ask: Ask | None,
        result: ProseResult,
        *,
        files: int,
        is_whole: bool = True,
    ) -> NodeResult:
        """The result of a node; at the root, all sentences are judged, and the whole summed up."""
        is_root = node.parent is None
        if ask is not None and (is_root or sum(result.data["later"].values()) >= WINDOW):
            result = self._rest(ask, result, is_root=is_root)
        if ask is not None and is_root:
            for more in (self._judged, self._whole):
                prose_result = more(ask, result.data)
                result = ProseResult(
                    {**result.data, **prose_result.data},
                    result.counts + prose_result.counts,
                    (*result.uncovered, *prose_result.uncovered),
                )
            result = result.replace(data={**result.data, "quoted": {}})
        return NodeResult(
            node.id,
            COMPLETED if is_whole and not result.uncovered else PARTIAL,
            count(files, "file"),
            1.0,
            uncovered=result.uncovered,
            counts=result.counts,
            metrics={"files": files, "sentences": sum(map(len, result.data["prose"].values()))},
            data=result.data,
        )

    def _rest(self, ask: Ask, result: ProseResult, *, is_root: bool) -> ProseResult:
        """With what was left for later, and at the root with the flows that are others now."""
        if self._sources is None:
            return result
        data = result.data
        flows, sentences = [], []
        if is_root:
            before = self.options["flows"]
            every = self._sources.flows(data["packed"])
            flows = [text for text in every if text.digest not in before]
            prose_sentences = grounds({path: prose.said for path, prose in self._known.items()})
            sentences = (
                prose_sentences if is_due(prose_sentences, self.options["whole"], EARLY) else []
            )
        prose_result = tell_rest(
            ask,
            self._sources.texts(data["later"]),
            self._known,
            data["shown"],
            flows=flows,
            sentences=sentences,
            background=self._sources.background(data["packed"]) if sentences else "",
            first=1 + result.turns,
        )
        both = gathered((data, prose_result.data)) | {"packed": data["packed"], "later": {}}
        if "whole" in prose_result.data:
            both["whole"] = prose_result.data["whole"]
        return ProseResult(
            both, result.counts + prose_result.counts, (*result.uncovered, *prose_result.uncovered)
        )

    def _judged(self, ask: Ask, data: Mapping[str, Any]) -> ProseResult:
        doubted = [(ProseSentence.from_list(row), lines) for row, lines in self.options["doubted"]]
        return judged(ask, doubted, data)

    def _whole(self, ask: Ask, data: Mapping[str, Any]) -> ProseResult:
        """What is said of all files, those that this run left alone too; asked where it is new."""
        sentences = grounds(merged({path: prose.said for path, prose in self._known.items()}, data))
        before = data["whole"]["shown"] if "whole" in data else self.options["whole"]
        if not is_due(sentences, before):
            return ProseResult()
        background = self._sources.background(data["packed"]) if self._sources else ""
        return sum_up(ask, sentences, background)
