"""The wiki's objective: facts from the sources, and sentences of a model if there is one."""

from __future__ import annotations

from rlm_ci.recursion.nodes import COMPLETED, FAILED, PARTIAL, NodeResult
from rlm_ci.report.findings import Evidence
from rlm_ci.text.printable import count
from rlm_ci.wiki import VERSION
from rlm_ci.wiki.facts.file_facts import facts_of, pack
from rlm_ci.wiki.prose.model_prose import (
    NOTHING,
    ProseResult,
    grounds,
    is_due,
    judged,
    merged,
    sum_up,
    tell,
)
from rlm_ci.wiki.update.state import Prose, ProseSentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafTask, Node

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
) -> dict[str, Any]:
    """All that the results depend on.

    ``known`` are earlier sentences by path; ``settled`` are files that need no question;
    ``whole`` are the marks of the sentences from which the whole was summed up; ``doubted`` are
    earlier sentences, with the lines that they quote, of which nobody asked whether these support
    them.
    """
    kept = {path: one.to_dict() for path, one in (known or {}).items()}
    return {
        "version": VERSION,
        "known": kept,
        "settled": sorted(settled),
        "whole": list(whole),
        "doubted": [[said.to_list(), list(lines)] for said, lines in doubted],
    }


class WikiObjective:
    """Leaves read their files, parents collect that; the pages are made of the root's ``data``.

    It has the packed facts of files, ``ProseResult.data``, and ``whole``.
    """

    name = NAME
    domain = "architecture"
    analyse = staticmethod(analyse)

    def __init__(self, chosen: Mapping[str, Any] | None = None) -> None:
        self.options = dict(chosen if chosen is not None else options())
        self._known = {path: Prose.from_dict(one) for path, one in self.options["known"].items()}
        self._settled = frozenset(self.options["settled"])

    def judge(
        self, node: Node, task: LeafTask, analysis: Mapping[str, Any], ask: Ask | None
    ) -> NodeResult:
        asked = [one for one in task.texts if one.path not in self._settled]
        told = ProseResult() if ask is None else tell(ask, asked, self._known)
        data = {**NOTHING, **told.data, "packed": [analysis["packed"]]}
        status = PARTIAL if told.uncovered else COMPLETED
        files = analysis["files"]
        return self._result(
            node, ask, status, told.counts, data, files=files, uncovered=told.uncovered
        )

    def aggregate(self, node: Node, children: Sequence[NodeResult], ask: Ask | None) -> NodeResult:
        alive = [child for child in children if child.status != FAILED]
        data: dict[str, Any] = {"prose": {}, "shown": {}, "quoted": {}}
        for key in ("packed", "displaced", "done"):
            data[key] = [one for child in alive for one in child.data[key]]
        counts = Evidence()
        for child in alive:
            data["quoted"] |= child.data["quoted"]
            for key in ("prose", "shown"):
                for path, rows in child.data[key].items():
                    data[key].setdefault(path, []).extend(rows)
            counts += child.counts
        files = int(sum(child.metrics["files"] for child in alive))
        status = COMPLETED if len(alive) == len(children) else PARTIAL
        return self._result(node, ask, status, counts, data, files=files)

    def _result(
        self,
        node: Node,
        ask: Ask | None,
        status: str,
        counts: Evidence,
        data: dict[str, Any],
        *,
        files: int,
        uncovered: tuple[tuple[str, str], ...] = (),
    ) -> NodeResult:
        """The result of a node; at the root, all sentences are judged, and the whole summed up."""
        if ask is not None and node.parent is None:
            for more in (self._judged, self._whole):
                told = more(ask, data)
                data |= told.data
                status = PARTIAL if told.uncovered else status
                uncovered = (*uncovered, *told.uncovered)
                counts += told.counts
            data["quoted"] = {}
        return NodeResult(
            node.id,
            status,
            count(files, "file"),
            1.0,
            uncovered=uncovered,
            counts=counts,
            metrics={"files": files, "sentences": sum(map(len, data["prose"].values()))},
            data=data,
        )

    def _judged(self, ask: Ask, data: Mapping[str, Any]) -> ProseResult:
        doubted = [(ProseSentence.from_list(row), lines) for row, lines in self.options["doubted"]]
        return judged(ask, doubted, data)

    def _whole(self, ask: Ask, data: Mapping[str, Any]) -> ProseResult:
        """What is said of all files, those that this run left alone too; asked where it is new."""
        known = grounds(merged({path: one.said for path, one in self._known.items()}, data))
        return sum_up(ask, known) if is_due(known, self.options["whole"]) else ProseResult()
