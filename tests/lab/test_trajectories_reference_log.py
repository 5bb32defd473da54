"""The log of an episode for the visualizer of the reference library, by the types that it reads."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import UsageError
from rlm_ci.evaluation import RLMRunner

if TYPE_CHECKING:
    from pathlib import Path

#: As its types.ts has them.
METADATA = {
    "type": str, "timestamp": str, "root_model": str, "max_depth": int, "max_iterations": int,
    "backend": str, "backend_kwargs": dict, "environment_type": str, "environment_kwargs": dict,
    "other_backends": type(None),
}  # fmt: skip
ITERATION = {
    "type": str, "iteration": int, "timestamp": str, "prompt": list, "response": str,
    "code_blocks": list, "final_answer": str | None, "iteration_time": type(None),
}  # fmt: skip
RESULT = {"stdout": str, "stderr": str, "locals": dict, "execution_time": float, "rlm_calls": list}
CALL = {
    "prompt": str, "response": str, "prompt_tokens": int, "completion_tokens": int,
    "execution_time": float,
}  # fmt: skip


def fits(record: dict[str, Any], shape: dict[str, Any]) -> bool:
    return record.keys() == shape.keys() and all(
        isinstance(record[name], kind) for name, kind in shape.items()
    )


class Connector:
    def generate_response(self, prompt: str) -> str:
        if "Child 1 is done" in prompt or "TASK: part" in prompt:
            return json.dumps({"action": "final", "final_response": "42"})
        if "ran" in prompt.rpartition("whole")[2]:
            return json.dumps({"action": "delegate", "task": "TASK: part"})
        return json.dumps({"action": "run_python", "code": "print('x')"})


class Engine:
    def execute_code(self, code: str) -> tuple[str, str]:
        return f"ran {code}", ""


def test_each_line_has_what_the_visualizer_reads(tmp_path: Path) -> None:
    runner = RLMRunner(Connector(), Engine(), workdir=tmp_path)
    result = runner.run_task("the whole")
    log = tmp_path / "log.jsonl"
    assert runner.export_log(result.run_id, log) == 3
    metadata, *iterations = (json.loads(line) for line in log.read_text().splitlines())
    assert fits(metadata, METADATA)
    assert all(fits(one, ITERATION) for one in iterations)
    blocks = [block for one in iterations for block in one["code_blocks"]]
    assert all(fits(block["result"], RESULT) for block in blocks)
    assert blocks[0]["code"] == "print('x')"
    [call] = blocks[1]["result"]["rlm_calls"]
    assert fits(call, CALL)
    assert (call["prompt"], call["response"]) == ("TASK: part", "42")
    assert [one["final_answer"] for one in iterations] == [None, None, "42"]
    with pytest.raises(UsageError):
        runner.export_log("nothing", log)
