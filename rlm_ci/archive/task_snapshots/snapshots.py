"""The snapshots of ``docs/TASKS.md``: where each begins and ends, and when its task was completed.

A snapshot is what follows a heading ``# Task List Snapshot …``, or what stands between the
comments ``docs-sync:begin KEY`` and ``docs-sync:end KEY``.
"""

from __future__ import annotations

import re

from rlm_ci.checks._shown_markdown import open_items
from rlm_ci.errors import ConfigError
from rlm_ci.text.dates import is_day
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlm_ci.archive.tasks import ArchiveTask

TASKS = "docs/TASKS.md"
_HEADING = "# Task List Snapshot"
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_BEGIN = re.compile(r"<!-- docs-sync:begin (\S{1,200}) -->\s*")
_INDEX_BEGIN, _INDEX_END = "<!-- tasks-archive-index:begin -->", "<!-- tasks-archive-index:end -->"
_CHECKLIST = re.compile(r"tasks/tasks-([^/]+)\.md").fullmatch
#: Parts of a key that are looked at.
_PARTS = 50
_KEY = re.compile(r"\(([A-Za-z0-9][A-Za-z0-9_.-]{0,199})\)(?=\s*(?:$|[-\u2013\u2014:]))")
_UPDATE = re.compile(r"\bUpdate\s*[-\u2013\u2014:]?\s*(\d{4}-\d\d-\d\d)\W{0,6}(.*)", re.IGNORECASE)
#: How an update says that a task is complete.
_COMPLETED = re.compile(
    r"(?:(?:this|the|it|`?[\w-]{1,80}`?)(?: (?:lane|task|issue|snapshot|packet))? is )?(?:now )?"
    r"(?:completed|complete|closed|done)(?=\W*$|[.;,:(]| \(| [-\u2013\u2014])",
    re.IGNORECASE,
)


class TaskNames:
    """The rows of the index by the names that snapshots have for them.

    These are a row's key, what it begins with up to a dash, and the name of its checklist.
    """

    def __init__(self, tasks: Iterable[ArchiveTask]) -> None:
        self._rows: dict[str, list[ArchiveTask]] = {}
        for task in tasks:
            parts = task.key.split("-")
            names = {"-".join(parts[: number + 1]) for number in range(min(len(parts), _PARTS))}
            names |= {
                task.key,
                *(match[1] for document in task.documents if (match := _CHECKLIST(document))),
            }
            for name in names:
                self._rows.setdefault(name, []).append(task)

    def tasks_of(self, key: str) -> list[ArchiveTask]:
        """The rows that a snapshot with ``key`` may be about; none without a key."""
        return self._rows.get(key, []) if key else []


class TaskSnapshot(Value):
    """Lines ``start`` to ``end`` (0-based, the end not among them); ``key`` may be ""."""

    key: str
    start: int
    end: int
    text: str

    def completed_on(self, tasks: TaskNames) -> tuple[str, str]:
        """The day of the completion and ""; or "" and why the snapshot stays.

        The index of tasks decides; only a snapshot without a row is judged by its last update.
        """
        updates = [match for line in self.text.split("\n") if (match := _UPDATE.search(line))]
        updates = [update for update in updates if is_day(update[1])]
        last = max(updates, key=lambda match: match[1], default=None)
        rows = tasks.tasks_of(self.key)
        if rows:
            active = [row.key for row in rows if not row.is_terminal]
            if active:
                return "", f"the task {active[0]} is not completed"
            day = max(row.day for row in rows) or (last[1] if last else "")
            return day, "" if day else "no day of its completion is known"
        if last is None or not _COMPLETED.match(last[2].strip()):
            return "", "neither the index of tasks nor its last update says that it is completed"
        if open_items(self.text.encode("utf-8", "surrogateescape")):
            return "", "it has open items, and no row in the index of tasks"
        return last[1], ""


def lines_of(text: str) -> list[str]:
    """The lines, each with its line break."""
    return _LINE.findall(text)


def snapshots(lines: Sequence[str]) -> list[TaskSnapshot]:
    """The snapshots, in their order. Raises ConfigError for a comment that nothing ends."""
    task_snapshots: list[TaskSnapshot] = []
    at = 0
    while at < len(lines):
        end = at + 1
        key, is_snapshot = "", True
        if lines[at].startswith(_HEADING):
            keys = _KEY.findall(lines[at])
            key = keys[0] if keys else ""
            end = _end_of(lines, at, key)
        elif begun := _BEGIN.fullmatch(lines[at]):
            key = begun[1]
            end = _after(lines, at, f"<!-- docs-sync:end {key} -->")
        elif lines[at].startswith(_INDEX_BEGIN):
            end, is_snapshot = _after(lines, at, _INDEX_END), False
        else:
            is_snapshot = False
        if is_snapshot:
            task_snapshots.append(TaskSnapshot(key, at, end, "".join(lines[at:end]).strip("\r\n")))
        at = end
    return task_snapshots


def _end_of(lines: Sequence[str], start: int, key: str) -> int:
    """Where the snapshot that a heading begins ends: its own comments are part of it."""
    at = start + 1
    while at < len(lines):
        line = lines[at]
        begun = _BEGIN.fullmatch(line)
        if begun and key and f"{begun[1]}-".startswith(f"{key}-"):
            at = _after(lines, at, f"<!-- docs-sync:end {begun[1]} -->")
        elif begun or line.startswith((_HEADING, _INDEX_BEGIN)):
            break
        else:
            at += 1
    return at


def _after(lines: Sequence[str], start: int, mark: str) -> int:
    for at in range(start, len(lines)):
        if mark in lines[at]:
            return at + 1
    raise ConfigError(
        f"line {start + 1} begins a part that nothing ends: there is no {printable(mark)}",
        where=TASKS,
        hint="add the line that ends it",
    )


def without(lines: Sequence[str], taken: Sequence[TaskSnapshot], index: Sequence[str]) -> list[str]:
    """The file without the snapshots ``taken``, with the lines ``index`` about their archive."""
    gone = {number for snapshot in taken for number in range(snapshot.start, snapshot.end)}
    left = [line for number, line in enumerate(lines) if number not in gone]
    if not index:
        return left
    ending = "\r\n" if lines and lines[0].endswith("\r\n") else "\n"
    block = [line + ending for line in (_INDEX_BEGIN, *index, _INDEX_END)]
    for at, line in enumerate(left):
        if line.startswith(_INDEX_BEGIN):
            return [*left[:at], *block, *left[_after(left, at, _INDEX_END) :]]
    at = next((at for at, line in enumerate(left) if line.startswith(_HEADING)), len(left))
    if left and not left[-1].endswith("\n"):
        left[-1] += ending
    return [*left[:at], *block, ending, *left[at:]]
