"""What a node only passes on of its children is written once, by whoever has it first."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.recursion.journal.journal import Journals
from rlm_ci.recursion.journal.node_records import RESULTS
from rlm_ci.recursion.nodes import COMPLETED, PARTIAL, NodeResult
from rlm_ci.redaction.redactor import Redactor
from testing.journal_checks import verify
from testing.killed_runs import recursion_killed_after, written
from testing.solver_cases import Counting, records, rewritten, shop, solve

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafTask, Node

    Records = list[dict[str, Any]]


class Packing(Counting):
    """Says something of each file, and something of its own of each folder; some are left out."""

    def judge(self, node: Node, task: LeafTask, analysis: Any, ask: Ask | None) -> NodeResult:
        found = super().judge(node, task, analysis, ask)
        left = tuple((one.path, "odd: it is") for one in task.texts if one.path.endswith("b.py"))
        status = PARTIAL if left else COMPLETED
        packed = [f"<{one.path}:{one.line_start}>" for one in task.texts]
        data = {**found.data, "packed": packed}
        return found.replace(data=data, uncovered=left, status=status)

    def aggregate(self, node: Node, children: Sequence[NodeResult], ask: Ask | None) -> NodeResult:
        found = super().aggregate(node, children, ask)
        packed = [one for child in children for one in child.data.get("packed", ())]
        data = {**found.data, "packed": [*packed, f"<{node.id}>"], "own": ["mine"]}
        return found.replace(data=data, uncovered=((f"{node.id}/", "odd: so is this"),))


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("done") / "rlm"
    solve(folder, shop(), objective=Packing())
    return folder


def test_each_thing_is_written_once(done: Path) -> None:
    whole = (done / RESULTS).read_text()
    told = [one for record in records(done, "results") for one in record["data"]["packed"]]
    assert len(told) == len(set(told)) > len(shop())
    assert whole.count('["shop/till/b.py","odd: it is"]') == 1
    assert verify(str(done)) == []


def test_whoever_reads_it_sees_all_of_it(done: Path, tmp_path: Path) -> None:
    given = solve(tmp_path / "whole", shop(), objective=Packing())
    folder = tmp_path / "again"
    shutil.copytree(done, folder)
    assert solve(folder, shop(), objective=Packing()) == given
    told = [one for record in records(done, "results") for one in record["data"]["packed"]]
    assert sorted(given.data["packed"]) == sorted(told)
    assert given.data["own"] == ["mine"] * given.data["own"].count("mine")
    left = [path for path, _ in given.uncovered]
    assert len(left) == len(set(left))
    assert {"shop/till/b.py", f"{given.node_id}/"} <= set(left)


@pytest.mark.full
def test_resumed_behind_any_result_it_comes_to_the_same(done: Path, tmp_path: Path) -> None:
    whole = solve(tmp_path / "whole", shop(), objective=Packing())
    for stop in range(0, written(done), 11):
        folder = tmp_path / f"cut-{stop}"
        recursion_killed_after(done, stop, folder)
        assert solve(folder, shop(), objective=Packing()) == whole, stop
        assert verify(str(folder)) == []


class Mending(Packing):
    bad = "till"

    def judge(self, node: Node, task: LeafTask, analysis: Any, ask: Ask | None) -> NodeResult:
        if self.bad and any(self.bad in text.path for text in task.texts):
            raise ValueError("not today")
        return super().judge(node, task, analysis, ask)


def test_what_is_done_again_is_passed_on_again(tmp_path: Path) -> None:
    folder, objective = tmp_path / "rlm", Mending()
    first = solve(folder, shop(), objective=objective)
    assert ("shop/till/a.py", "failed: not today") in first.uncovered
    objective.bad = ""
    expected = solve(tmp_path / "whole", shop(), objective=objective)
    assert solve(folder, shop(), objective=objective) == expected
    assert verify(str(folder)) == []


def test_a_secret_is_hidden_wherever_it_comes_from(tmp_path: Path) -> None:
    leaf = NodeResult("0" * 16, COMPLETED, "", 1.0, data={"packed": ["token-0123456789", "fine"]})
    with Journals.open(str(tmp_path), redactor=Redactor({"A_TOKEN": "token-0123456789"})) as store:
        child = store.result(leaf)
        data = {"packed": [*child.data["packed"], "token-0123456789"]}
        given = store.result(NodeResult("1" * 16, COMPLETED, "", 1.0, data=data), (child,))
    assert given.data["packed"] == ["[redacted]", "fine", "[redacted]"]
    assert records(tmp_path, "results")[1]["data"] == {"packed": ["[redacted]"]}


def _orphan(found: Records) -> None:
    del found[-1]["children"]


def _nothing(found: Records) -> None:
    found[-1]["gathered"] = ["data.nothing"]


@pytest.mark.parametrize("change", [_orphan, _nothing])
def test_what_no_run_writes_is_noticed_and_made_again(
    done: Path, tmp_path: Path, change: Callable[[Records], None]
) -> None:
    folder = tmp_path / "damaged"
    rewritten(done, folder, change)
    assert verify(str(folder)) != []
    again = solve(folder, shop(), objective=Packing())
    assert again == solve(tmp_path / "whole", shop(), objective=Packing())
    stored, mended = records(done, "results")[-1], records(folder, "results")[-1]
    assert {**stored, "seq": 0, "crc": ""} == {**mended, "seq": 0, "crc": ""}
