"""The wiki: what the sources themselves tell, and a model's words on top where there is one."""

from __future__ import annotations

from rlm_ci.findings import Evidence
from rlm_ci.recursion.nodes import COMPLETED, FAILED, PARTIAL, NodeResult
from rlm_ci.recursion.wiki import VERSION
from rlm_ci.recursion.wiki.facts import facts_of, pack, shifted
from rlm_ci.recursion.wiki.prose import Told, added, sum_up, tell
from rlm_ci.recursion.wiki.state import WHOLE, Said
from rlm_ci.texts import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.recursion.nodes import Node, Probe, Task
    from rlm_ci.recursion.objective import Ask

NAME = "wiki"


def analyse(task: Task) -> dict[str, Any]:
    """The facts of each text, packed."""
    found = [shifted(facts_of(one.path, one.content), one.line_start - 1) for one in task.texts]
    return {"packed": pack(found), "files": len(found)}


def options(*, prose: Mapping[str, Sequence[Said]] | None = None) -> dict[str, Any]:
    """All that the results depend on; ``prose`` is what was said before of other folders."""
    kept = {folder: [list(one) for one in said] for folder, said in (prose or {}).items()}
    return {"version": VERSION, "prose": kept}


class Wiki:
    """Leaves tell of their files, parents lay it side by side; the pages are made of the root's.

    ``data`` has ``packed``, the facts of files, and ``prose``: by folder, and for the whole;
    ``unfinished`` are the folders of which more would have been said.
    """

    name = NAME
    domain = "architecture"
    analyse = staticmethod(analyse)

    def __init__(self, chosen: Mapping[str, Any] | None = None) -> None:
        self.options = dict(chosen if chosen is not None else options())

    def settled(self, probe: Probe) -> str | None:  # noqa: ARG002 - the contract's
        """Never: to split costs nothing, and small leaves are done side by side."""
        return None

    def risk(self, probe: Probe) -> float:
        return float(probe.size)

    def judge(
        self, node: Node, task: Task, analysis: Mapping[str, Any], ask: Ask | None
    ) -> NodeResult:
        told = Told() if ask is None else tell(ask, task.texts)
        prose = {folder: list(map(list, said)) for folder, said in told.said.items()}
        counts, uncovered = told.counts, told.uncovered
        if ask is not None and node.parent is None:
            whole = self._whole(ask, prose)
            counts, uncovered = added(counts, whole.counts), uncovered + whole.uncovered
            prose |= _told(whole)
        return NodeResult(
            node.id,
            PARTIAL if uncovered else COMPLETED,
            count(analysis["files"], "file"),
            1.0,
            uncovered=uncovered,
            counts=counts,
            metrics={"files": analysis["files"], "sentences": sum(map(len, prose.values()))},
            data={
                "packed": [analysis["packed"]],
                "prose": prose,
                "unfinished": list(told.unfinished),
            },
        )

    def aggregate(self, node: Node, children: Sequence[NodeResult], ask: Ask | None) -> NodeResult:
        packed: list[str] = []
        unfinished: list[str] = []
        prose: dict[str, list[Any]] = {}
        counts = Evidence()
        uncovered: tuple[tuple[str, str], ...] = ()
        alive = [child for child in children if child.status != FAILED]
        for child in alive:
            packed += child.data["packed"]
            unfinished += child.data["unfinished"]
            for folder, said in child.data["prose"].items():
                prose.setdefault(folder, []).extend(said)
            counts = added(counts, child.counts)
        if ask is not None and node.parent is None:
            whole = self._whole(ask, prose)
            counts, uncovered = added(counts, whole.counts), whole.uncovered
            prose |= _told(whole)
        files = int(sum(child.metrics["files"] for child in alive))
        return NodeResult(
            node.id,
            PARTIAL if uncovered or len(alive) < len(children) else COMPLETED,
            count(files, "file"),
            1.0,
            uncovered=uncovered,
            counts=counts,
            metrics={"files": files, "sentences": sum(map(len, prose.values()))},
            data={"packed": packed, "prose": prose, "unfinished": sorted(set(unfinished))},
        )

    def _whole(self, ask: Ask, prose: Mapping[str, Sequence[Sequence[Any]]]) -> Told:
        """What is said of all folders, those that this run left alone too."""
        every = {**self.options["prose"], **prose}
        return sum_up(ask, {folder: [Said.of(row) for row in every[folder]] for folder in every})


def _told(whole: Told) -> dict[str, list[Any]]:
    """What was said of the whole; nothing where that is still open, so that it is asked again."""
    return {} if whole.unfinished else {WHOLE: list(map(list, whole.said.get("", ())))}
