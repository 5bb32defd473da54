"""The trajectories on disk, of our own runs and of rlm-code's, and their export as a log.

Those are read only. The id of a run comes from callers: it is looked up, and never a path.

A line of metadata, then one for each step. A step has only what its prompt added, so a log grows
with the steps and not with their square.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import Counter

from rlm_ci.errors import UsageError
from rlm_ci.lab.episodes import episode
from rlm_ci.pipelines.definition import EPISODE
from rlm_ci.runs import is_task_id, request
from rlm_ci.runs.find import LATEST
from rlm_ci.system import files
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.pipelines.stored_runs import StoredRuns


#: Where rlm-code keeps its runs.
RLM_CODE = os.path.join(".rlm_code", "rlm", "runs")
_ENDING = ".jsonl"
_PREVIEW = 260
#: Numbers beyond this are no rewards.
_HIGHEST = 1 << 53
_CHILDREN = "children"


class StoredTrajectory(Value):
    """A trajectory: ``folder`` is that of a run of ours, "" for a file of rlm-code."""

    run_id: str
    path: str
    folder: str = ""

    def lines(self) -> list[dict[str, Any]]:
        return list(episode.read(self.path))

    def children(self) -> list[StoredTrajectory]:
        """Those that it delegated to, in their order."""
        if not self.folder:
            return []
        names = _names(os.path.join(self.folder, "rlm", _CHILDREN))
        below = [name for name in names if name.startswith(f"{self.run_id}.")]
        children = [name for name in below if name[len(self.run_id) :].count(".") == 2]
        return [_child(self.folder, name) for name in sorted(children, key=_order)]


class Trajectories:
    """All of a repository: those of ``runs``, and those in the folders ``others``."""

    def __init__(self, runs: StoredRuns, others: tuple[str, ...]) -> None:
        self._runs = runs
        self._others = others

    def recent(self, *, replays: bool = False) -> Iterator[StoredTrajectory]:
        """The newest first; those of rlm-code come after ours. ``replays`` are of other runs."""
        for entry in self._runs.entries():
            if entry.manifest is not None and entry.run.pipeline_id == EPISODE:
                if not (replays or request.is_kept(entry.path)):
                    continue
                path = os.path.join(entry.path, "rlm", episode.NAME)
                if os.path.isfile(path):
                    yield StoredTrajectory(entry.run_id, path, entry.path)
        pairs = [(folder, name) for folder in self._others for name in _names(folder)]
        for folder, name in sorted(pairs, key=lambda pair: pair[1], reverse=True):
            yield StoredTrajectory(name, os.path.join(folder, f"{name}{_ENDING}"))

    def find(self, run_id: str | None) -> StoredTrajectory | None:
        """That of ``run_id``, which may be a child's; of the latest run for None."""
        if run_id in (None, LATEST):
            return next(self.recent(), None)
        if not is_task_id(str(run_id)):
            return None
        root = run_id.partition(".")[0]
        for stored_trajectory in self.recent(replays=True):
            if stored_trajectory.run_id == run_id:
                return stored_trajectory
            if stored_trajectory.folder and stored_trajectory.run_id == root:
                child = _child(stored_trajectory.folder, run_id)
                return child if os.path.isfile(child.path) else None
        return None

    def require(self, run_id: str | None) -> StoredTrajectory:
        """As ``find``. Raises UsageError for an unknown one."""
        stored_trajectory = self.find(run_id)
        if stored_trajectory is None:
            what = "there is no episode yet" if run_id is None else "there is no such episode"
            raise UsageError(
                what,
                where=printable(str(run_id))[:80],
                hint="name an episode: list_runs() or rlm-ci list has the ids",
            )
        return stored_trajectory


def status(stored_trajectory: StoredTrajectory) -> dict[str, Any] | None:
    """A summary of one episode; None for a file without a line."""
    lines = stored_trajectory.lines()
    if not lines:
        return None
    final = _final(lines)
    first, last = lines[0], final or lines[-1]
    return {
        "run_id": stored_trajectory.run_id,
        "path": stored_trajectory.path,
        "steps": final.get("steps", sum(line.get("type") == "step" for line in lines)),
        "completed": bool(final.get("completed", False)),
        "cancelled": bool(final.get("cancelled", False)),
        "total_reward": _number(final.get("total_reward")),
        "environment": str(last.get("environment", "unknown")),
        "framework": str(last.get("framework", "native")),
        "task": str(last.get("task", "")),
        "started_at": str(first.get("timestamp", "")),
        "finished_at": str(last.get("timestamp", "")),
        "usage": _table(final.get("usage")),
    }


def picture(
    stored_trajectory: StoredTrajectory, *, include_children: bool, max_depth: int, depth: int = 0
) -> dict[str, Any]:
    """An episode for a viewer: what it did step by step, and its children, nested."""
    lines = stored_trajectory.lines()
    steps = [line for line in lines if line.get("type") == "step"]
    final = _final(lines)
    timeline = list(_timeline(steps))
    counts = Counter(entry["action"] for entry in timeline)
    children = []
    if include_children and depth < max_depth:
        children = [
            picture(child, include_children=True, max_depth=max_depth, depth=depth + 1)
            for child in stored_trajectory.children()
        ]
    return {
        **(
            status(stored_trajectory)
            or {"run_id": stored_trajectory.run_id, "path": stored_trajectory.path}
        ),
        "run_path": stored_trajectory.path,
        "depth": depth,
        "step_count": len(steps),
        "final_response_preview": _preview(final.get("final_response")),
        "action_counts": dict(sorted(counts.items())),
        "timeline": timeline,
        "reward_curve": [
            {key: entry[key] for key in ("step", "reward", "cumulative_reward")}
            for entry in timeline
        ],
        "failures": [
            {key: entry[key] for key in ("step", "action", "error")}
            for entry in timeline
            if "error" in entry
        ],
        "child_refs": [child.run_id for child in stored_trajectory.children()],
        "children": children,
    }


def _timeline(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    total = 0.0
    for step in steps:
        action, seen = _table(step.get("action")), _table(step.get("observation"))
        reward = _number(step.get("reward"))
        total = round(total + reward, 6)
        entry = {
            "step": step.get("step"),
            "timestamp": str(step.get("timestamp", "")),
            "action": str(action.get("action", "unknown")),
            "reward": reward,
            "cumulative_reward": total,
            "success": seen.get("success"),
            "planner_preview": _preview(step.get("planner_raw")),
            "code_preview": _preview(action.get("code")),
            "output_preview": _preview(seen.get("text", seen.get("stdout"))),
        }
        if seen.get("success") is False or seen.get("error"):
            entry["error"] = _preview(seen.get("error") or seen.get("text") or seen.get("stderr"))
        yield entry


def _final(lines: list[dict[str, Any]]) -> dict[str, Any]:
    return next((line for line in reversed(lines) if line.get("type") == "final"), {})


def _names(folder: str) -> list[str]:
    """The ids of the trajectories in a folder; links are left out."""
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
    except OSError:
        return []
    ids = (name.removesuffix(_ENDING) for name in names if name.endswith(_ENDING))
    return [name for name in ids if is_task_id(name)]


def _child(folder: str, run_id: str) -> StoredTrajectory:
    path = os.path.join(folder, "rlm", _CHILDREN, f"{run_id}{_ENDING}")
    return StoredTrajectory(run_id, path, folder)


def _order(run_id: str) -> list[tuple[int, str]]:
    """Sorts 2 before 10."""
    return [(int(part) if part.isdigit() else 0, part) for part in run_id.split(".")]


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and abs(value) < _HIGHEST else 0.0


def _preview(value: object) -> str:
    text = " ".join(str(value or "").split())
    return text if len(text) <= _PREVIEW else f"{text[:_PREVIEW]}…"


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
