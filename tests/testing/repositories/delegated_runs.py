"""Run folders and task indexes, as delegated runs leave them and as vandals might."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

TASK = "0101-checkout"


def run_id(number: int) -> str:
    """The id of the run of this number, a UTC time and eight hex digits; sorts as numbers do."""
    minutes, seconds = divmod(number, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    return f"202601{days + 1:02}T{hours:02}{minutes:02}{seconds:02}Z-{number:08x}"


def manifest(task: str, run: str, *, status: str = "succeeded", **more: Any) -> dict[str, Any]:
    """A manifest as a run writes it; keywords replace or add fields."""
    return {
        "version": 1, "task_id": task, "run_id": run, "parent_run_id": None, "pipeline_id": "rlm",
        "status": status, "status_detail": None, "started_at": "2026-01-05T09:00:00Z",
        "updated_at": "2026-01-05T09:04:00Z", "heartbeat_at": "2026-01-05T09:04:00Z",
        "completed_at": "2026-01-05T09:04:00Z", "artifact_root": f".runs/{task}/cli/{run}",
        "log_path": f".runs/{task}/cli/{run}/runner.log", "summary": "Goal reached.",
        "commands": [], "child_runs": [], "sandbox": "bubblewrap", "exit_code": 0,
    } | more  # fmt: skip


def write_run(
    root: Path, task: str, run: str, content: str | bytes | None = None, **fields: Any
) -> Path:
    """``root/<task>/cli/<run>/manifest.json``: ``content``, or a good manifest with ``fields``."""
    path = root / task / "cli" / run / "manifest.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if content is None:
        content = json.dumps(manifest(task, run, **fields))
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def guard_runs(
    root: Path, task: str = TASK, count: int = 1, *, stream: str = "docs", **fields: Any
) -> list[Path]:
    """``count`` good runs under ``root`` (the ``.runs`` folder), all of one subagent stream."""
    return [
        write_run(root, f"{task}-{stream}", run_id(number), **fields) for number in range(count)
    ]


def _nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


#: Contents of a manifest.json that is no manifest, by name; the run folder is as it should be.
BAD_MANIFESTS: dict[str, str | bytes] = {
    "empty": b"",
    "blank": b" \n",
    "garbage": b"\x00\xff\xfe not json",
    "cut": json.dumps(manifest(f"{TASK}-docs", run_id(0)))[:-20],
    "two values": "{}{}",
    "list": "[]",
    "number": "7",
    "string": '"succeeded"',
    "null": "null",
    "not a number": '{"task_id": NaN, "status": Infinity}',
    "utf-16": '{"task_id": "x"}'.encode("utf-16"),
    "lone surrogate": '{"task_id": "\\ud800"}',
    "deep": _nested(100_000),
    "deep list": "[" * 200_000,
    "large": '{"summary": "' + "x" * 20_000_000 + '"}',
    "many digits": '{"version": ' + "9" * 100_000 + "}",
    "task id of another folder": json.dumps(manifest("0999-other-docs", run_id(0))),
    "task id no string": json.dumps(manifest(TASK, run_id(0)) | {"task_id": ["x"]}),
}


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link_to_manifest(path: Path) -> None:
    target = path.parent / "real.json"
    target.write_text(json.dumps(manifest(f"{TASK}-docs", path.parent.name)))
    path.symlink_to(target)


def _unreadable(path: Path) -> None:
    path.write_text(json.dumps(manifest(f"{TASK}-docs", path.parent.name)))
    path.chmod(0)


#: Things named manifest.json that are no regular file, or that no one may read (POSIX only;
#: root may read anything): each makes itself at the path given.
ODD_MANIFESTS: dict[str, Callable[[Path], None]] = {
    "folder": lambda path: path.mkdir(),
    "fifo": _fifo,
    "symlink to a manifest": _link_to_manifest,
    "symlink to a device": lambda path: path.symlink_to("/dev/zero"),
    "symlink to the environment": lambda path: path.symlink_to("/proc/self/environ"),
    "symlink to itself": lambda path: path.symlink_to(path.name),
    "symlink to nothing": lambda path: path.symlink_to("nowhere"),
    "unreadable": _unreadable,
}


def odd_manifest(root: Path, kind: str, task: str = TASK, *, stream: str = "docs") -> Path:
    """A run whose manifest.json is of this kind of :data:`ODD_MANIFESTS`."""
    path = root / f"{task}-{stream}" / "cli" / run_id(0) / "manifest.json"
    path.parent.mkdir(parents=True)
    ODD_MANIFESTS[kind](path)
    return path


def candidate_folders(root: Path, task: str = TASK) -> dict[str, str]:
    """Run folders that come close and do not count: folder (from ``root``) to what it lacks."""
    lacks = {
        f"{task}-a-no-cli": "missing cli directory",
        f"{task}-b-no-run": "no run directories",
        f"{task}-c-no-manifest/cli/{run_id(1)}": "manifest.json missing",
        f"{task}-d-no-manifest/cli/{run_id(2)}": "manifest.json missing",
    }
    for folder in lacks:
        (root / folder).mkdir(parents=True)
    (root / f"{task}-b-no-run" / "cli").mkdir()
    (root / f"{task}-b-no-run" / "cli" / "a-file.json").write_text("{}")
    return {folder.split("/")[0]: reason for folder, reason in lacks.items()}


def sibling_runs(root: Path, task: str = TASK) -> tuple[str, ...]:
    """A good run of a *registered* task whose key begins with ``task``-, and of its subagent.

    Neither is evidence for ``task``. Returns the keys to register beside it.
    """
    sibling = f"{task}-extra"
    write_run(root, sibling, run_id(1))
    write_run(root, f"{sibling}-docs", run_id(2))
    # Not even of the same task: the name only begins alike.
    write_run(root, f"{task}2-docs", run_id(3))
    return (sibling,)


def write_index(root: Path, rows: Iterable[dict[str, Any]] | str | bytes) -> Path:
    """``tasks/index.json`` under the top level ``root``: rows, or any text instead."""
    path = root / "tasks" / "index.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not isinstance(rows, (str, bytes)):
        rows = json.dumps({"items": list(rows)}, indent=2) + "\n"
    path.write_bytes(rows if isinstance(rows, bytes) else rows.encode())
    return path


def registered(*keys: str) -> list[dict[str, Any]]:
    """Index rows whose keys are these, in every form that yields a key in turn."""
    forms: tuple[Callable[[str], dict[str, Any]], ...] = (
        lambda key: {"id": key.partition("-")[0], "slug": key},
        lambda key: {"id": key.partition("-")[0], "slug": key.partition("-")[2]},
        lambda key: {"slug": key},
        lambda key: {"id": key},
    )
    return [
        forms[n % len(forms)](key) | {"title": f"Task {key}", "status": "in_progress"}
        for n, key in enumerate(keys)
    ]


#: Texts that tasks/index.json must not be, by name.
BAD_INDEXES: dict[str, str | bytes] = {
    "empty": b"",
    "garbage": b"\xff\xfe\x00",
    "cut": '{"items": [{"id": "0101"',
    "list": "[]",
    "no items": '{"tasks": []}',
    "items no list": '{"items": {"id": "0101"}}',
    "null": "null",
    "deep": _nested(100_000),
    "large": '{"items": [' + ",".join(['{"id": "0101", "slug": "x"}'] * 800_000) + "]}",
}

#: Rows that name no task, among which a good one must still be found.
ODD_ROWS: tuple[Any, ...] = (
    None, 7, "0101", [], {}, {"id": None}, {"id": 101}, {"slug": ["x"]}, {"id": "", "slug": ""},
    {"id": "../etc", "slug": "x"}, {"slug": "a/b"}, {"id": "*"}, {"slug": "x\n"},
)  # fmt: skip

#: Task ids that must never reach a path.
HOSTILE_TASKS: tuple[str, ...] = (
    "../../etc", "..", ".", "/etc/passwd", "a/b", "a\\b", "a\nb", "a b", "*", "0101-*", "[0-9]",
    "-rf", "--task", "$(touch canary)", "`touch canary`", "a\x1b[31m", "é", "a" * 5000, "%2e%2e",
    "a;b", "@x", "::error::x", "a\u202eb", "{task}",
)  # fmt: skip
