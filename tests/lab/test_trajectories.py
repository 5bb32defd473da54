"""What was run: our own episodes with their children, and the folders of rlm-code, read only."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import UsageError
from rlm_ci.evaluation import RLMEventBus, RLMRunner

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.evaluation import RLMRuntimeEvent


class Tree:
    """Delegates twice at every node down to a depth, by the name of its task."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.lock = threading.Lock()
        self.calls = 0

    def generate_response(self, prompt: str) -> str:
        with self.lock:
            self.calls += 1
        if "Child 2" in prompt:
            return json.dumps({"action": "final", "final_response": "both are done"})
        name = prompt.rpartition("TASK: ")[2].split()[0]
        if name.count(".") == self.depth:
            return json.dumps({"action": "final", "final_response": f"leaf {name}"})
        tasks = [f"TASK: {name}.1", f"TASK: {name}.2"]
        return json.dumps({"action": "delegate_batch", "tasks": tasks})


class Engine:
    def execute_code(self, _code: str) -> str:
        return ""


def test_every_child_of_a_deep_tree_runs_with_two_slots(tmp_path: Path) -> None:
    bus, events, tree = RLMEventBus(), list["RLMRuntimeEvent"](), Tree(4)
    bus.subscribe(events.append)
    runner = RLMRunner(tree, Engine(), workdir=tmp_path, event_bus=bus, max_parallelism=2)
    result = runner.run_task("TASK: r", max_depth=4)
    assert (result.completed, result.total_reward) == (True, 1.7)
    starts = [one for one in events if one.name == "run_start"]
    assert len(starts) == 31
    assert {one.depth for one in starts} == set(range(5))
    assert result.usage_summary is not None
    assert result.usage_summary["total_calls"] == tree.calls == 46
    seen = runner.visualize_run(max_depth=9)
    names, waiting = set[str](), [seen]
    while waiting:
        one = waiting.pop()
        names.add(one["task"])
        waiting += one["children"]
    assert len(names) == 31
    child = seen["children"][1]["children"][0]["run_id"]
    assert {one.parent_run_id for one in starts} == {
        None,
        *(one.run_id for one in starts if one.depth < 4),
    }
    assert runner.get_run_status(child)["completed"]  # type: ignore[index]
    assert [one["run_id"] for one in runner.list_runs()] == [result.run_id]


def test_a_cycle_is_told_and_the_task_is_not_run_again(tmp_path: Path) -> None:
    class Loop:
        def generate_response(self, prompt: str) -> str:
            if "cycle" in prompt:
                return json.dumps({"action": "final", "final_response": "I did it myself"})
            return json.dumps({"action": "delegate", "task": "TASK"})

    bus, events = RLMEventBus(), list["RLMRuntimeEvent"]()
    bus.subscribe(events.append)
    result = RLMRunner(Loop(), Engine(), workdir=tmp_path, event_bus=bus).run_task("TASK")
    assert (result.completed, result.total_reward) == (True, 0.75)
    [guard] = [one for one in events if one.name == "run_cycle_guard"]
    assert (guard.run_id, guard.payload["task"]) == (result.run_id, "TASK")


def test_runs_of_rlm_code_are_read_and_ids_are_no_paths(tmp_path: Path) -> None:
    folder = tmp_path / ".rlm_code" / "rlm" / "runs"
    folder.mkdir(parents=True)
    step = {"type": "step", "step": 1, "action": {"action": "run_python", "code": "1/0"},
            "observation": {"success": False, "stderr": "ZeroDivisionError"}, "reward": -0.2,
            "timestamp": "2025-01-01T00:00:00"}  # fmt: skip
    final = {"type": "final", "completed": True, "steps": 1, "total_reward": -0.2}
    huge = json.dumps({**final, "total_reward": 10**400})
    lines = [json.dumps(step), "not JSON", "[1]", json.dumps(final)]
    (folder / "run_20250101_000000_1.jsonl").write_text("\n".join(lines))
    (folder / "huge.jsonl").write_text(huge)
    (tmp_path / "secret.jsonl").write_text(json.dumps(final))
    (folder / "link.jsonl").symlink_to(tmp_path / "secret.jsonl")
    runner = RLMRunner(None, None, workdir=tmp_path)
    only, other = runner.list_runs()
    assert (other["run_id"], other["total_reward"]) == ("huge", 0.0)
    assert (only["run_id"], only["completed"], only["steps"]) == ("run_20250101_000000_1", True, 1)
    seen = runner.visualize_run("run_20250101_000000_1")
    assert seen["failures"] == [{"step": 1, "action": "run_python", "error": "ZeroDivisionError"}]
    for wrong in ("../../../secret", "link", str(tmp_path / "secret"), "nothing", ""):
        assert runner.load_run_events(wrong) == []
        assert runner.get_run_status(wrong) is None
        with pytest.raises(UsageError):
            runner.visualize_run(wrong)
