"""The tasks of ``tasks/index.json`` with their documents, and the registry of all documents.

``docs/docs-freshness-registry.json`` has status and last review of each document.
"""

from __future__ import annotations

import json
import re

from rlm_ci.archive.documents import is_document
from rlm_ci.checks.delegation_guard import INDEX, INDEX_LIMIT, task_key
from rlm_ci.errors import ConfigError
from rlm_ci.git import tracked
from rlm_ci.runs import is_task_id
from rlm_ci.runs.store import parse
from rlm_ci.system import files
from rlm_ci.text.dates import is_day
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    from rlm_ci.archive.documents import DocumentFacts, DocumentReader
    from rlm_ci.archive.policy import ArchivePolicy
    from rlm_ci.git.repository import Repository


TERMINAL = frozenset(("succeeded", "completed", "done"))
#: Fields of a row, and of its ``paths``, that name documents.
_FIELDS = ("path", "relates_to")
_PATHS = ("task", "spec", "agent_task", "docs", "prd", "action_plan", "findings")
#: Where the documents of a task lie by its key, and which of all documents are checklists.
_MIRRORS = ("tasks/tasks-{}.md", "tasks/specs/{}.md", ".agent/task/{}.md")
_CHECKLISTS = ("tasks/tasks-", ".agent/task/")
_NUMBER = re.compile(r"\A[0-9]+-")
_KIND = re.compile(r"[A-Z]+(?:_[A-Z]+)*[_-]")


class ArchiveTask(Value):
    """A task; ``day`` is that of its end, else of its last review, else "".

    ``documents`` are those that its row names, ``derived`` those that its key stands for.
    """

    key: str
    is_terminal: bool
    day: str
    documents: tuple[str, ...]
    derived: tuple[str, ...]


def read_tasks(repository: Repository) -> list[ArchiveTask]:
    """The tasks of the index, in its order; none without an index. Raises ConfigError."""
    try:
        record = parse(tracked.read(repository, INDEX, INDEX_LIMIT))
    except files.UnreadableError as error:
        if error.missing:
            return []
        what = f"the index of tasks cannot be read: {error}"
        raise ConfigError(what, where=INDEX, hint="fix it") from None
    items = record.get("items") if isinstance(record, dict) else None
    if not isinstance(items, list):
        raise ConfigError(
            'the index of tasks is not JSON of the form {"items": [...]}',
            where=INDEX,
            hint="correct it",
        )
    return [_task(item) for item in items if isinstance(item, dict)]


def _task(item: Mapping[str, Any]) -> ArchiveTask:
    key = task_key(item)
    key = key if is_task_id(key) else ""
    ended = _day(item.get("completed_at"))
    status = item.get("status")
    is_done = isinstance(status, str) and status.strip().lower() in TERMINAL
    paths = item.get("paths")
    values = [item.get(name) for name in _FIELDS]
    values += [paths.get(name) for name in _PATHS] if isinstance(paths, dict) else []
    documents = (text.strip() for value in values for text in _texts(value))
    derived = tuple(form.format(key) for form in _MIRRORS) if key else ()
    day = ended or _day(item.get("last_review"))
    return ArchiveTask(
        key, is_done or bool(ended), day, tuple(dict.fromkeys(filter(None, documents))), derived
    )


def _texts(value: object) -> Iterator[str]:
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, str):
            yield item.removeprefix("./")


def _day(value: object) -> str:
    """The day of a date or a time stamp; "" for anything else."""
    day = value[:10] if isinstance(value, str) else ""
    return day if is_day(day) else ""


class TaskDocuments:
    """Which tasks each document belongs to, and what holds up the documents of a task."""

    def __init__(
        self, tasks: list[ArchiveTask], policy: ArchivePolicy, reader: DocumentReader
    ) -> None:
        #: The tasks of each path, also of one that a row names and that is not there.
        self.by_path: dict[str, list[ArchiveTask]] = {}
        #: The documents of a task that have open items; by its identity, since tasks may be large.
        self._open: dict[int, list[str]] = {}
        first = {path for task in tasks for path in (*task.documents, *task.derived)}
        facts = reader.facts([path for path in first if is_document(path)])
        documents = [self._documents(task, policy, reader, facts) for task in tasks]
        facts = reader.facts({path for paths in documents for path in paths})
        for task, paths in zip(tasks, documents, strict=True):
            for path in paths:
                self.by_path.setdefault(path, []).append(task)
                document_facts = facts.get(path)
                is_packet = path.startswith(_CHECKLISTS) or policy.covers(path)
                if (
                    is_packet
                    and document_facts
                    and document_facts.stub is None
                    and document_facts.open_items
                ):
                    self._open.setdefault(id(task), []).append(path)

    def _documents(
        self,
        task: ArchiveTask,
        policy: ArchivePolicy,
        reader: DocumentReader,
        facts: Mapping[str, DocumentFacts | None],
    ) -> list[str]:
        """The documents of a task: named, derived, and cited in these under its key."""
        documents = [*task.documents, *(path for path in task.derived if path in reader.entries)]
        cited = [
            path
            for document in documents
            if (document_facts := facts.get(document)) is not None and document_facts.stub is None
            for path in document_facts.cited
            if policy.covers(path) and _is_of(path, task.key)
        ]
        return list(dict.fromkeys([*documents, *cited]))

    def open_document(self, path: str) -> str:
        """Another document of the tasks of ``path`` that has open items; "" without one."""
        tasks = self.by_path.get(path, ())
        others = (
            other for task in tasks for other in self._open.get(id(task), ()) if other != path
        )
        return next(others, "")


def _is_of(path: str, key: str) -> bool:
    """Whether the name of a cited document is the key of a task behind a kind, such as ``PRD-``.

    Or the words of the key, without its number.
    """
    stem = path.rpartition("/")[2].rpartition(".")[0]
    kind = _KIND.match(stem)
    name = stem[kind.end() :] if kind else stem
    return bool(name) and name in (key, _NUMBER.sub("", key))


REGISTRY = "docs/docs-freshness-registry.json"
ARCHIVED = "archived"
_INDENT = re.compile(r"\{\r?\n([ \t]+)")


class Registry:
    """The rows by path; ``data`` is the file, None where there is none."""

    def __init__(self, data: bytes | None) -> None:
        """Raises ConfigError for a file that is not ``{"entries": [...]}``."""
        self._data = data
        self._record: dict[str, Any] = {"entries": []} if data is None else _parsed(data)
        self._rows: dict[str, dict[str, Any]] = {}
        for row in self._record["entries"]:
            if path := _path_of(row):
                self._rows.setdefault(path, row)

    def row(self, path: str) -> Mapping[str, Any]:
        """The row of a document; empty without one."""
        return self._rows.get(path, {})

    def status(self, path: str) -> str:
        """The status of a document; "" without one."""
        status = self.row(path).get("status")
        return status if isinstance(status, str) else ""

    def unmarked(self, paths: Collection[str]) -> list[str]:
        """Those of ``paths`` that have a row which does not say that they are archived."""
        return [path for path in paths if path in self._rows and self.status(path) != ARCHIVED]

    def marked(self, paths: Collection[str], day: str, cadence: int) -> bytes | None:
        """The file with ``paths`` marked as archived on ``day``; None where nothing changes.

        Documents without a row get none: their owner is not known.
        """
        changed = self.unmarked(paths)
        if not changed or self._data is None:
            return None
        mark = {"status": ARCHIVED, "last_review": day, "cadence_days": cadence}
        unmarked = frozenset(changed)
        entries = [
            {**row, **mark} if _path_of(row) in unmarked else row for row in self._record["entries"]
        ]
        return _written({**self._record, "entries": entries}, self._data)


def _path_of(row: object) -> str:
    path = row.get("path") if isinstance(row, dict) else None
    return path if isinstance(path, str) else ""


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        record = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("entries"), list):
        raise ConfigError(
            'the registry of documents is not JSON of the form {"entries": [...]}',
            where=REGISTRY,
            hint="correct it",
        )
    return record


def _written(record: Mapping[str, Any], before: bytes) -> bytes:
    """``record`` in the form that the file had before: indents, line ends, escapes, last line."""
    text = before.decode("utf-8")
    match = _INDENT.search(text)
    is_ascii = text.isascii() or "\\ud" in text.lower()  # half a character has no other form
    written = json.dumps(record, indent=match[1] if match else None, ensure_ascii=is_ascii)
    written += "\n" if text.endswith("\n") else ""
    return written.replace("\n", "\r\n" if "\r\n" in text else "\n").encode("utf-8")
