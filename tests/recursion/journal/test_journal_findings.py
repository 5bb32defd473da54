"""Findings stand in the journal once: above, a number stands for each."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.recursion.journal.journal import Journals
from rlm_ci.recursion.nodes import COMPLETED, PARTIAL, NodeResult, TracedFinding
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report.findings import Finding, Location, Severity
from testing.journal_checks import verify
from testing.killed_runs import recursion_killed_after, written, written_with_result
from testing.solver_cases import Counting, records, rewritten, shop, solve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafTask, Node

    Records = list[dict[str, Any]]

FILES = shop() | {f"shop/{place}/{name}.txt": b"" for place in ("cart", "till") for name in "pqr"}


class Verbose(Counting):
    """Says much of each file; what the parts of a folder agree on, it says of the folder."""

    def __init__(self, length: int = 40) -> None:
        super().__init__()
        self._said = "much " * length

    def judge(self, node: Node, task: LeafTask, analysis: Any, ask: Ask | None) -> NodeResult:
        found = tuple(TracedFinding(self._finding(one.path), (node.id,)) for one in task.texts)
        return super().judge(node, task, analysis, ask).replace(findings=found)

    def aggregate(self, node: Node, children: Sequence[NodeResult], ask: Ask | None) -> NodeResult:
        found = [one for child in reversed(children) for one in child.findings]
        nodes = tuple(sorted({*found[0].nodes, *found[-1].nodes}))
        first = TracedFinding(found[0].finding.replace(message="\udcff"), nodes)
        return super().aggregate(node, children, ask).replace(findings=(*found[1:], first))

    def _finding(self, path: str) -> Finding:
        place = Location(path, 1, 1, quote=self._said)
        return Finding("counting/said", Severity.LOW, f"of {path}: {self._said}", evidence=(place,))


def parents(folder: Path) -> Records:
    split = {one["parent_id"] for one in records(folder, "nodes") if one["status"] == "queued"}
    return [one for one in records(folder, "results") if one["node_id"] in split]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("done") / "rlm"
    solve(folder, shop(), objective=Verbose())
    return folder


def test_a_record_does_not_grow_with_what_stands_below(tmp_path: Path) -> None:
    results = {
        length: solve(tmp_path / str(length), FILES, objective=Verbose(length))
        for length in (10, 1000)
    }
    for length in results:
        for one in parents(tmp_path / str(length)):
            # One is its own, with a quote; the others are numbers.
            assert len(json.dumps(one["findings"])) < 5 * length + 600
    assert verify(str(tmp_path / "10")) == []
    assert len(results[10].findings) == len(results[1000].findings) >= len(FILES)


def test_whoever_reads_a_result_again_sees_what_was_given(done: Path, tmp_path: Path) -> None:
    whole = solve(tmp_path / "whole", shop(), objective=Verbose())
    folder = tmp_path / "again"
    shutil.copytree(done, folder)
    again = solve(folder, shop(), objective=Verbose())
    assert again == whole
    assert again.findings[-1].finding.message == "\\xff"
    assert len(again.findings[-1].nodes) == 2


def test_resumed_behind_any_result_it_comes_to_the_same(done: Path, tmp_path: Path) -> None:
    whole = solve(tmp_path / "whole", shop(), objective=Verbose())
    for stop in range(0, written(done), 7):
        folder = tmp_path / f"cut-{stop}"
        recursion_killed_after(done, stop, folder)
        assert solve(folder, shop(), objective=Verbose()) == whole, stop
        assert parents(folder) != []


def test_a_secret_is_hidden_once_and_for_all(tmp_path: Path) -> None:
    place = Location("a.py", 1, 1)
    found = [
        TracedFinding(Finding("c/r", Severity.LOW, message, evidence=(place,)), ("0" * 16,))
        for message in ("token-0123456789", "fine")
    ]
    leaf = NodeResult("0" * 16, COMPLETED, "", 1.0, tuple(found))
    with Journals.open(str(tmp_path), redactor=Redactor({"A_TOKEN": "token-0123456789"})) as store:
        child = store.result(leaf)
        above = NodeResult("1" * 16, COMPLETED, "token-0123456789", 1.0, child.findings[::-1])
        given = store.result(above, (child,))
    assert records(tmp_path, "results")[1]["findings"] == [1, 0]
    with Journals.open(str(tmp_path)) as store:
        assert store.finished_result(child.node_id) == child
        assert store.finished_result(given.node_id) is None, "it is made again of its parts"
    assert [one.finding.message for one in given.findings] == ["fine", "[redacted]"]
    assert given.summary == "[redacted]"


# -- what was done again ------------------------------------------------------------------------


class Mending(Verbose):
    bad = "till"

    def judge(self, node: Node, task: LeafTask, analysis: Any, ask: Ask | None) -> NodeResult:
        if self.bad and any(self.bad in text.path for text in task.texts):
            raise ValueError("not today")
        return super().judge(node, task, analysis, ask)


def test_killed_between_a_node_done_again_and_the_one_above(tmp_path: Path) -> None:
    """What is above rests on a result that another one has replaced: it is done again, too."""
    folder, objective = tmp_path / "rlm", Mending()
    assert solve(folder, shop(), objective=objective).status == PARTIAL
    before = len(records(folder, "results"))
    objective.bad = ""
    expected = solve(folder, shop(), objective=objective)
    assert expected.status == COMPLETED
    again = records(folder, "results")[before:]
    assert len(again) > 2
    for number in range(before + 1, before + len(again)):
        cut = tmp_path / f"cut-{number}"
        recursion_killed_after(folder, written_with_result(folder, number), cut)
        assert solve(cut, shop(), objective=objective) == expected
        assert verify(str(cut)) == []


# -- damage -------------------------------------------------------------------------------------


def _beyond(found: Records) -> None:
    found[-1]["findings"][0] = 10_000


def _negative(found: Records) -> None:
    found[-1]["findings"][0] = -1


def _later(found: Records) -> None:
    one = next(one for one in found if "children" in one)
    one["children"][0] = found[-1]["node_id"]


def _stranger(found: Records) -> None:
    found[-1]["children"][0] = "f" * 16


def _none(found: Records) -> None:
    del found[-1]["children"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (_beyond, "no number 10000"),
        (_negative, "minimum"),
        (_later, "before it"),
        (_stranger, "no result of ffffffffffffffff"),
        (_none, "its children have 0 findings"),
    ],
)
def test_a_finding_that_is_nowhere_is_noticed(
    done: Path, tmp_path: Path, change: Callable[[Records], None], told: str
) -> None:
    folder = tmp_path / "damaged"
    rewritten(done, folder, change)
    assert any(told in one for one in verify(str(folder)))
    again = solve(folder, shop(), objective=Verbose())
    assert again == solve(tmp_path / "whole", shop(), objective=Verbose()), "it was made again"


def test_a_finding_of_a_node_elsewhere_is_told(done: Path, tmp_path: Path) -> None:
    def change(found: Records) -> None:
        above = [one for one in found if "children" in one]
        above[-1]["children"].append(above[0]["children"][0])

    folder = tmp_path / "elsewhere"
    rewritten(done, folder, change)
    assert any("no child of it" in one for one in verify(str(folder)))
