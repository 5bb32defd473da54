"""The steps of an episode in the log format of the reference library, for its visualizer.

A line of metadata, then one for each step. A step has only what its prompt added, so a log grows
with the steps and not with their square.
"""

from __future__ import annotations

import itertools
import json
import os

from rlm_ci.system import files
from rlm_ci.text.printable import encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.lab.trajectories import StoredTrajectory

#: The file with the result of a run, and its bytes at most.
_RESULT, _LIMIT = "run.json", 16 << 20


def write(trajectory: StoredTrajectory, path: str) -> int:
    """Write the log of an episode to ``path``; the number of its steps. Raises StorageError."""
    lines = trajectory.lines()
    steps = [line for line in lines if line.get("type") == "step"]
    final: Mapping[str, Any] = next(
        (line for line in reversed(lines) if line.get("type") == "final"), {}
    )
    iterations = list(_iterations(steps, final))
    records = [_metadata(trajectory, lines), *iterations]
    data = "".join(f"{json.dumps(record)}\n" for record in records)
    files.write(path, encodable(data).encode(), 0o600)
    return len(iterations)


def _metadata(trajectory: StoredTrajectory, lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    first = lines[0] if lines else {}
    result: Any = {}
    data = (
        files.read_or_none(os.path.join(trajectory.folder, _RESULT), _LIMIT)
        if trajectory.folder
        else None
    )
    try:
        result = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        result = {}
    result = result if isinstance(result, dict) else {}
    return {
        "type": "metadata",
        "timestamp": first.get("timestamp"),
        "root_model": result.get("model"),
        "max_depth": result.get("max_depth"),
        "max_iterations": result.get("max_steps"),
        "backend": result.get("provider"),
        "backend_kwargs": {},
        "environment_type": first.get("environment"),
        "environment_kwargs": {},
        "other_backends": None,
    }


def _iterations(
    steps: Sequence[Mapping[str, Any]], final: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The steps by their number: one may have several actions."""
    prompt = [{"role": "user", "content": str(steps[0].get("task", ""))}] if steps else []
    grouped = [list(group) for _, group in itertools.groupby(steps, lambda step: step.get("step"))]
    for number, actions in enumerate(grouped, 1):
        is_last = number == len(grouped)
        yield {
            "type": "iteration",
            "iteration": number,
            "timestamp": str(actions[0].get("timestamp", "")),
            "prompt": prompt,
            "response": str(actions[0].get("planner_raw", "")),
            "code_blocks": [_block(action) for action in actions],
            "final_answer": final.get("final_response") if is_last and _is_done(final) else None,
            "iteration_time": None,
        }
        prompt = [{"role": "user", "content": _output(action)} for action in actions]


def _is_done(final: Mapping[str, Any]) -> bool:
    return final.get("completed") is True


def _block(step: Mapping[str, Any]) -> dict[str, Any]:
    """An action as a code block: its code, or the call that it is."""
    action, seen = _table(step.get("action")), _table(step.get("observation"))
    arguments = {name: value for name, value in action.items() if name != "action"}
    call = f"{action.get('action', 'unknown')}({json.dumps(arguments, ensure_ascii=False)})"
    failed = seen.get("success") is False
    seconds = seen.get("seconds")
    return {
        "code": str(action["code"]) if isinstance(action.get("code"), str) else call,
        "result": {
            "stdout": "" if failed else _output(step),
            "stderr": _output(step) if failed else "",
            "locals": {},
            "execution_time": float(seconds) if isinstance(seconds, int | float) else 0.0,
            "rlm_calls": list(_calls(action, seen)),
        },
    }


def _calls(action: Mapping[str, Any], seen: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The children of an action."""
    tasks = action.get("tasks") or [action.get("task", "")]
    children = seen.get("children")
    for task, child in zip(tasks, children if isinstance(children, list) else (), strict=False):
        answer = _table(child)
        yield {
            "prompt": str(task),
            "response": str(answer.get("answer") or answer.get("reason") or ""),
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "execution_time": 0.0,
        }


def _output(step: Mapping[str, Any]) -> str:
    seen = _table(step.get("observation"))
    return str(seen.get("text", seen.get("stdout", "")))


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
