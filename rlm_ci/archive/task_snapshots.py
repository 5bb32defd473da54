"""The tasks archive: completed snapshots of ``docs/TASKS.md`` go to a file a year on a branch.

They are appended to what the branch holds, pushed, and found there again, before the file in the
work tree loses them. Run again after a kill, what is there already is not added again.

A snapshot is what follows a heading ``# Task List Snapshot …``, or what stands between the
comments ``docs-sync:begin KEY`` and ``docs-sync:end KEY``.
"""

from __future__ import annotations

import json
import re

from rlm_ci.archive.payloads import folders_of
from rlm_ci.archive.tasks import read_tasks
from rlm_ci.archive.work_tree import DocumentTree
from rlm_ci.checks._doc_archive.stub import LinkTarget, link_to
from rlm_ci.checks._shown_markdown import open_items
from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.git import tracked
from rlm_ci.git.objects import is_branch
from rlm_ci.system import files
from rlm_ci.text.dates import is_day
from rlm_ci.text.neutralise import log
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.archive.tasks import ArchiveTask
    from rlm_ci.git.clone import Clone
    from rlm_ci.git.remote_clone import RemoteUser
    from rlm_ci.git.repository import Repository


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


POLICY = "docs/tasks-archive-policy.json"
_YEAR = "YYYY"
_DEFAULTS = {
    "archive_branch": "task-archives",
    "max_lines": 450,
    "reserve_lines": 10,
    "archive_file_pattern": f"docs/TASKS-archive-{_YEAR}.md",
}


class TasksPolicy(Value):
    """``pattern`` is the path of a year's file, with YYYY; ``address`` that of the repository."""

    branch: str
    max_lines: int
    reserve_lines: int
    pattern: str
    address: str

    @classmethod
    def read(cls, repository: Repository) -> TasksPolicy:
        """The policy of the work tree, defaults without one. Raises ConfigError."""
        try:
            record = json.loads(tracked.read(repository, POLICY, 1 << 20))
        except files.UnreadableError as error:
            if not error.missing:
                raise _bad(f"it cannot be read: {error}") from None
            record = {}
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or record.get("version", 1) != 1:
            raise _bad("it is not a JSON object of version 1")
        url = repository.config(f"remote.{repository.remote()}.url")
        fields = {**_DEFAULTS, "repo_url": url, **record}
        _require_valid(fields)
        return cls(*(fields[name] for name in (*_DEFAULTS, "repo_url")))

    @property
    def target(self) -> int:
        return self.max_lines - self.reserve_lines

    def path(self, year: str) -> str:
        return self.pattern.replace(_YEAR, year)

    def years(self, paths: Iterable[str]) -> set[str]:
        """The years of the files ``paths`` that are of the archive."""
        before = self.pattern.partition(_YEAR)[0]
        parts = {path[len(before) : len(before) + 4] for path in paths}
        path_set = frozenset(paths)
        return {
            year
            for year in parts
            if year.isascii() and year.isdigit() and self.path(year) in path_set
        }

    def index(self, years: Iterable[str]) -> list[str]:
        """The lines for ``docs/TASKS.md`` that say where the archive is."""
        links = [
            f"- {year}: {link_to(self.address, self.branch, self.path(year))}"
            for year in sorted(years)
        ]
        return [
            "## Archive index",
            f"Completed snapshots are on the branch `{self.branch}`.",
            *links,
        ]


def _require_valid(fields: dict[str, Any]) -> None:
    """Raises ConfigError."""
    branch, address = fields["archive_branch"], fields["repo_url"]
    if not isinstance(branch, str) or not is_branch(branch):
        raise _bad("archive_branch is not the name of a branch")
    if not isinstance(address, str) or LinkTarget.from_url(address) is None:
        raise ConfigError(
            "the web address of the repository is not known, and the index must link to it",
            where=POLICY,
            hint='write it there: "repo_url": "https://HOST/OWNER/NAME"',
        )
    maximum, reserve, pattern = (
        fields[name] for name in ("max_lines", "reserve_lines", "archive_file_pattern")
    )
    if any(type(number) is not int or number < 0 for number in (maximum, reserve)):
        raise _bad("max_lines and reserve_lines are not whole numbers")
    if reserve >= maximum:
        raise _bad("reserve_lines is not less than max_lines")
    parts = pattern.split("/") if isinstance(pattern, str) else [""]
    if _YEAR not in parts[-1] or not all(map(_is_plain, parts)):
        raise _bad(f"archive_file_pattern is not a path with {_YEAR} in its name")


def _is_plain(part: str) -> bool:
    return part not in ("", ".", "..") and part.lower() != ".git" and part.isprintable()


def _bad(what: str) -> ConfigError:
    return ConfigError(f"the policy of the tasks archive: {what}", where=POLICY, hint="correct it")


_LIMIT = 16 << 20
_SHOWN = 10
_BYTES = ("utf-8", "surrogateescape")


class TasksPlan(Value):
    """The snapshots that go, oldest completion first, with the day of each; why others stay."""

    lines: tuple[str, ...]
    taken: tuple[tuple[TaskSnapshot, str], ...]
    remaining: tuple[tuple[TaskSnapshot, str], ...]

    def additions(self) -> dict[str, list[str]]:
        """The texts for each year's file."""
        texts: dict[str, list[str]] = {}
        for snapshot, day in self.taken:
            texts.setdefault(day[:4], []).append(snapshot.text.replace("\r\n", "\n"))
        return texts

    def after(self, policy: TasksPolicy, years: Iterable[str]) -> str:
        """The file without what goes; ``years`` are those of the archive."""
        taken = [snapshot for snapshot, _ in self.taken]
        return "".join(without(self.lines, taken, policy.index(years)))


def plan_tasks(
    data: bytes, tasks: Iterable[ArchiveTask], policy: TasksPolicy, years: Iterable[str]
) -> TasksPlan:
    """What has to go from the file ``data``; ``years`` are those that the archive has.

    Nothing, while the file is within its limit. Raises ConfigError where it cannot be reached.
    """
    lines = lines_of(data.decode(*_BYTES))
    if len(lines) <= policy.max_lines:
        return TasksPlan(tuple(lines), (), ())
    candidates, staying, names = [], [], TaskNames(tasks)
    for snapshot in snapshots(lines):
        day, why = snapshot.completed_on(names)
        if day:
            candidates.append((day, snapshot.start, snapshot))
        else:
            staying.append((snapshot, why))
    taken: list[tuple[TaskSnapshot, str]] = []
    all_years = set(years)
    left, added = len(lines), 0
    for day, _, snapshot in sorted(candidates):
        if left + added <= policy.target and taken:
            break
        taken.append((snapshot, day))
        left -= snapshot.end - snapshot.start
        if day[:4] not in all_years or len(taken) == 1:
            all_years.add(day[:4])
            added = len(without(lines, (), policy.index(all_years))) - len(lines)
    if not taken or left + added > policy.target:
        raise _unreachable(len(lines), left + added if taken else len(lines), policy, staying)
    return TasksPlan(tuple(lines), tuple(taken), tuple(staying))


def _unreachable(
    lines: int, left: int, policy: TasksPolicy, snapshots: Sequence[tuple[TaskSnapshot, str]]
) -> ConfigError:
    names: dict[str, list[str]] = {}
    for snapshot, why in snapshots[:_SHOWN]:
        names.setdefault(why, []).append(snapshot.key or f"line {snapshot.start + 1}")
    shown = [f"{', '.join(some)}: {why}" for why, some in names.items()]
    more = f"; and {len(snapshots) - _SHOWN:,} more" if len(snapshots) > _SHOWN else ""
    what = (
        f"{count(lines, 'line')}, and no snapshot that may go"
        if left == lines
        else f"{count(lines, 'line')}, and {left:,} are left without every snapshot that may go"
    )
    return ConfigError(
        f"{what}; the target is {policy.target:,}",
        where=TASKS,
        hint=printable(f"complete tasks, or shorten it; these stay: {'; '.join(shown)}{more}")
        if snapshots
        else "it has no snapshots: shorten it",
    )


def year_file(before: bytes | None, year: str, texts: Sequence[str]) -> bytes:
    """The file of a year with ``texts`` behind what it has; each is there once."""
    content = before.decode(*_BYTES) if before else ""
    if not content.strip():
        content = f"# Task archive {year}\n\nCompleted snapshots of `{TASKS}`, as they were.\n"
    content += "" if content.endswith("\n") else "\n"
    lines = set(content.split("\n"))  # most are told apart by their first lines
    added: dict[str, None] = {}
    for text in texts:
        if text.partition("\n")[0] not in lines or f"\n{text}\n" not in f"\n{content}":
            added[text] = None
    content += "".join(f"\n{text}\n" for text in added)
    return content.encode(*_BYTES)


def year_files(
    plan: TasksPlan, policy: TasksPolicy, before: Mapping[str, bytes | None]
) -> dict[str, bytes]:
    """The files of the archive that change, by path; ``before`` is what the branch has."""
    changed = {}
    for year, texts in plan.additions().items():
        path = policy.path(year)
        data = year_file(before.get(path), year, texts)
        if data != before.get(path):
            changed[path] = data
    return changed


class TasksOutcome(Value):
    """What was planned, and what became of it: the commit, the lines that are left."""

    policy: TasksPolicy
    plan: TasksPlan
    left: int
    pushed: str | None = None

    def record(self, *, dry_run: bool) -> dict[str, Any]:
        """The report as JSON has it."""
        policy = self.policy
        return {
            "version": 1,
            "dry_run": dry_run,
            "archive_branch": policy.branch,
            "archive_commit": self.pushed,
            "lines": len(self.plan.lines),
            "lines_left": self.left,
            "max_lines": policy.max_lines,
            "target": policy.target,
            "archived": [
                {
                    "task": encodable(snapshot.key) or None,
                    "line": snapshot.start + 1,
                    "completed_at": day,
                    "file": policy.path(day[:4]),
                }
                for snapshot, day in self.plan.taken
            ],
            "kept": [
                {
                    "task": encodable(snapshot.key) or None,
                    "line": snapshot.start + 1,
                    "reason": encodable(why),
                }
                for snapshot, why in self.plan.remaining
            ],
        }

    def text(self, *, dry_run: bool) -> str:
        """The report for people."""
        return "".join(f"{log(printable(line))}\n" for line in self._lines(dry_run=dry_run))

    def _lines(self, *, dry_run: bool) -> Iterator[str]:
        policy, lines = self.policy, len(self.plan.lines)
        if not self.plan.taken:
            yield f"nothing to archive: {TASKS} has {lines:,} of {policy.max_lines:,} lines"
            return
        number = count(len(self.plan.taken), "snapshot")
        if dry_run:
            yield f"{number} would be archived on {policy.branch}"
        else:
            commit = f" (pushed {self.pushed[:12]})" if self.pushed else ", which had them"
            yield f"{number} archived on {policy.branch}{commit}"
        for snapshot, day in self.plan.taken:
            yield f"  {day}  {snapshot.key or f'line {snapshot.start + 1}'}  {policy.path(day[:4])}"
        yield f"{TASKS}: {lines:,} lines, {self.left:,} left, {policy.max_lines:,} allowed"
        if not dry_run:
            yield f"next: commit {TASKS}"


def archive_tasks(repository: Repository, user: RemoteUser, *, dry_run: bool) -> TasksOutcome:
    """Carry the plan out. Raises RlmCiError; the work tree changes last."""
    data = _read(repository)
    policy = TasksPolicy.read(repository)
    tasks = read_tasks(repository)
    if len(lines_of(data.decode(*_BYTES))) <= policy.max_lines:
        plan = plan_tasks(data, tasks, policy, ())
        return TasksOutcome(policy, plan, len(plan.lines))
    with user.clone(repository) as clone:
        plan = plan_tasks(data, tasks, policy, policy.years(clone.object_ids(policy.branch)))
        pushed = None if dry_run else _push(clone, plan, policy)
        years = {*policy.years(clone.object_ids(policy.branch)), *plan.additions()}
    after = plan.after(policy, years)
    if not dry_run:
        tree = DocumentTree(repository)
        tree.replace(TASKS, repository.blob_id(data), after.encode(*_BYTES))
    return TasksOutcome(policy, plan, len(lines_of(after)), pushed)


def _push(clone: Clone, plan: TasksPlan, policy: TasksPolicy) -> str | None:
    """Append the snapshots, and find them on the remote. Raises RemoteError."""

    def files_of() -> dict[str, bytes | None]:
        archived = clone.object_ids(policy.branch)
        paths = [policy.path(year) for year in plan.additions()]
        _require_free(paths, archived, policy.branch)
        present = [path for path in paths if path in archived]
        texts = clone.contents([archived[path] for path in present])
        return dict.fromkeys(paths) | dict(zip(present, texts, strict=True))

    def choose(_archived: Mapping[str, str]) -> Mapping[str, str]:
        changed = year_files(plan, policy, files_of())
        oids = clone.store(*changed.values()) if changed else []
        return dict(zip(changed, oids, strict=True))

    number = count(len(plan.taken), "task snapshot")
    pushed = clone.add(policy.branch, choose, f"Archive {number}").commit
    clone.fetch()
    lost = year_files(plan, policy, files_of())
    if lost:
        raise RemoteError(
            f"the snapshots cannot be found again on the branch {policy.branch}",
            where=next(iter(lost)),
            hint=f"{TASKS} is as it was; look at the branch, then run it again",
        )
    return pushed


def _require_free(paths: Iterable[str], archived: Mapping[str, str], branch: str) -> None:
    """Raise ConfigError where the branch has something else in the place of a year's file."""
    folders = {folder for path in archived for folder in folders_of(path)}
    for path in paths:
        above = any(folder in archived for folder in folders_of(path))
        if path in folders or above or not archived.get(path, "-"):
            raise ConfigError(
                f"something else than a regular file is in its place on the branch {branch}",
                where=printable(path),
                hint="move it away there, then run it again",
            )


def _read(repository: Repository) -> bytes:
    try:
        return tracked.read(repository, TASKS, _LIMIT)
    except files.UnreadableError as error:
        what = "there is no such file" if error.missing else f"it cannot be read: {error}"
        raise ConfigError(
            what, where=TASKS, hint="--tasks archives the finished snapshots in this file"
        ) from None
