"""The plan: which documents go to the archive, why, and why the others stay."""

from __future__ import annotations

from datetime import date
from functools import cached_property

from rlm_ci.archive.documents import DocumentReader, is_document
from rlm_ci.archive.tasks import ARCHIVED, Registry, TaskDocuments, read_tasks
from rlm_ci.checks._doc_archive.stub import Stub, parse, write
from rlm_ci.system import files
from rlm_ci.text.dates import is_day
from rlm_ci.text.printable import count
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlm_ci.archive.documents import DocumentFacts
    from rlm_ci.archive.policy import ArchivePolicy
    from rlm_ci.archive.tasks import ArchiveTask
    from rlm_ci.archive.work_tree import DocumentTree
    from rlm_ci.checks._doc_archive.stub import StubFlaw
    from rlm_ci.git.repository import Repository

#: Statuses of the registry that keep a document, each the reason of its own skip.
_KEEPING = ("preserved_historical_stub", "retained_terminal_packet")
_PENDING = "terminal_pending_archive"
_DEPRECATED = "deprecated"
_FINDINGS = "docs/findings/"


class PlannedDocument(Row):
    """A document that goes to the archive: its object id and its ``stub``.

    ``reasons`` say why it may go; ``task`` is the key of its task, "" for a stray one.
    """

    path: str
    oid: str
    stub: bytes
    reasons: tuple[str, ...]
    task: str
    lines: int


class SkippedDocument(Row):
    """A document that stays: ``reason`` is one of a fixed set, ``detail`` is for people."""

    path: str
    reason: str
    detail: str = ""
    task: str = ""


class ArchivePlan(Value):
    """What is to be done at ``head`` on ``day``.

    ``unmarked`` are valid stubs whose rows of the registry do not say that they are archived.
    """

    head: str
    day: str
    policy: ArchivePolicy
    documents: tuple[PlannedDocument, ...]
    skipped: tuple[SkippedDocument, ...]
    unmarked: tuple[str, ...]
    candidates: int
    strays: int

    def without(self, skipped: Sequence[SkippedDocument]) -> ArchivePlan:
        """The plan without some of its documents, which stay for another reason."""
        gone = {document.path for document in skipped}
        documents = tuple(document for document in self.documents if document.path not in gone)
        return self.replace(documents=documents, skipped=(*self.skipped, *skipped))


class _Candidate(Row):
    path: str
    tasks: tuple[ArchiveTask, ...]

    @property
    def task(self) -> str:
        return self.tasks[0].key if self.tasks else ""


class _Skip(Exception):  # noqa: N818 - nothing failed: the document stays
    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason, self.detail = reason, detail


class ArchivePlanner:
    """The documents of ``head``; those of ``base`` may have no open items either.

    ``tree`` is the work tree in which stubs are to stand, None to leave it alone.
    """

    def __init__(
        self,
        repository: Repository,
        policy: ArchivePolicy,
        head: str,
        base: str,
        registry: Registry,
        *,
        day: str,
        tree: DocumentTree | None,
    ) -> None:
        self._policy, self._registry, self._day, self._tree = policy, registry, day, tree
        self._head = head
        self._reader = DocumentReader(repository, head)
        self._base = DocumentReader(repository, base) if base != head else self._reader
        self._linked = TaskDocuments(read_tasks(repository), policy, self._reader)
        self._facts: Mapping[str, DocumentFacts | None] = {}
        self._before: Mapping[str, DocumentFacts | None] = {}

    def plan(self) -> ArchivePlan:
        """Judge every candidate, in the order of their paths."""
        candidates = [*self._of_tasks, *self._strays]
        paths = [candidate.path for candidate in candidates]
        self._facts = self._reader.facts(paths)
        # Only texts that are others at the base are read again.
        entries, base = self._reader.entries, self._base.entries
        other = [path for path in paths if path in base and base[path] != entries.get(path)]
        self._before = self._base.facts(other)
        documents, skipped, stubs = [], [], []
        for candidate in sorted(candidates, key=lambda candidate: candidate.path):
            try:
                documents.append(self._judge(candidate))
            except _Skip as skip:
                skipped.append(
                    SkippedDocument(candidate.path, skip.reason, skip.detail, candidate.task)
                )
                stubs += [candidate.path] if skip.reason == "already_stubbed" else []
        return ArchivePlan(
            self._head,
            self._day,
            self._policy,
            tuple(documents),
            tuple(skipped),
            tuple(self._registry.unmarked(stubs)),
            len(candidates),
            len(self._strays),
        )

    @cached_property
    def _of_tasks(self) -> list[_Candidate]:
        excluded = frozenset(self._policy.exclude_paths)
        return [
            _Candidate(path, tuple(tasks))
            for path, tasks in self._linked.by_path.items()
            if path not in excluded and any(task.is_terminal for task in tasks)
        ]

    @cached_property
    def _strays(self) -> list[_Candidate]:
        """Documents of the policy's patterns that no task has."""
        excluded = self._linked.by_path.keys() | frozenset(self._policy.exclude_paths)
        return [
            _Candidate(path, ())
            for path in self._reader.entries
            if is_document(path) and path not in excluded and self._policy.covers(path)
        ]

    def _judge(self, candidate: _Candidate) -> PlannedDocument:
        """Raises _Skip for a document that stays."""
        facts = self._require_text(candidate.path)
        self._require_free(candidate)
        current = self._current(candidate.path)
        self._require_no_stub(candidate.path, facts.stub if current is None else parse(current))
        reasons = tuple(self._reasons(candidate, facts.lines))
        if not reasons:
            raise _Skip("not_eligible", f"{count(facts.lines, 'line')}, and not old enough")
        oid = self._reader.entries[candidate.path].oid
        if self._tree and current is not None and not self._tree.is_blob(current, oid):
            detail = "it is not as HEAD has it: commit it, or use --split"
            raise _Skip("uncommitted_changes", detail)
        self._require_done(candidate.path, facts)
        policy = self._policy
        stub = write(candidate.path, self._day, policy.branch, policy.address, facts.heading)
        if stub is None:
            raise _Skip("unsupported_path", "no stub can name this path")
        return PlannedDocument(candidate.path, oid, stub, reasons, candidate.task, facts.lines)

    def _require_text(self, path: str) -> DocumentFacts:
        parts = path.split("/")
        if path.startswith("/") or any(part in ("", ".", "..") for part in parts):
            raise _Skip("outside_repo", "the path leads out of the repository")
        entry = self._reader.entries.get(path)
        if entry is None:
            raise _Skip("missing_on_disk", "there is no such file in HEAD")
        if not entry.is_file or any(part.lower() == ".git" for part in parts):
            raise _Skip("outside_repo", "it is no regular file of the repository")
        if not is_document(path):
            raise _Skip("not_markdown", "stubs are Markdown")
        facts = self._facts[path]
        if facts is None:
            raise _Skip("too_large")
        if not facts.lines:
            raise _Skip("empty")
        return facts

    def _require_free(self, candidate: _Candidate) -> None:
        """Raise _Skip for what the policy, a task or the registry keeps."""
        allowed = [
            task.key for task in candidate.tasks if task.key in self._policy.allowlist_task_keys
        ]
        if allowed:
            raise _Skip("allowlist_task_key", allowed[0])
        if self._policy.keeps(candidate.path):
            raise _Skip("allowlist_path")
        active = [task.key for task in candidate.tasks if not task.is_terminal]
        if active:
            raise _Skip("active_lifecycle_not_archive_ready", f"a task is not done: {active[0]}")
        status = self._registry.status(candidate.path)
        if status in _KEEPING:
            raise _Skip(status)
        if status == ARCHIVED and candidate.path.startswith(_FINDINGS):
            raise _Skip("already_archived_preserved_findings")

    def _current(self, path: str) -> bytes | None:
        """The document in the work tree; None where that is left alone."""
        if self._tree is None:
            return None
        try:
            return self._tree.read(path)
        except files.UnreadableError as error:
            reason = "missing_on_disk" if error.missing else "outside_repo"
            raise _Skip(reason, f"in the work tree, {error}") from None

    def _require_no_stub(self, path: str, stub: Stub | StubFlaw | None) -> None:
        if stub is None:
            return
        policy = self._policy
        flaw = stub
        if isinstance(stub, Stub):
            stub_flaw = stub.flaw_at(path, policy.branch, policy.target)
            if stub_flaw is None:
                raise _Skip("already_stubbed")
            flaw = stub_flaw
        raise _Skip("invalid_archive_stub_metadata", getattr(flaw, "message", ""))

    def _reasons(self, candidate: _Candidate, lines: int) -> Iterator[str]:
        policy, status = self._policy, self._registry.status(candidate.path)
        if status == _PENDING:
            yield "terminal_task_lifecycle"
        if status in (ARCHIVED, _DEPRECATED):
            yield "registry_status"
        reviewed = self._registry.row(candidate.path).get("last_review")
        age, retain_days = self._age(reviewed), policy.stray_retain_days
        if candidate.tasks:
            age, retain_days = (
                min(self._age(task.day) or 0 for task in candidate.tasks),
                policy.retain_days,
            )
        if age is not None and age >= retain_days:
            yield "retention_age"
        if lines > policy.max_lines:
            yield "line_threshold"

    def _age(self, day: object) -> int | None:
        """The days since ``day``; None if it is none."""
        if not isinstance(day, str) or not is_day(day):
            return None
        return (date.fromisoformat(self._day) - date.fromisoformat(day)).days

    def _require_done(self, path: str, facts: DocumentFacts) -> None:
        if facts.open_items:
            raise _Skip("unchecked_checklist_items", count(facts.open_items, "open item"))
        earlier = self._before.get(path, facts)
        if earlier is None:
            raise _Skip("too_large", "at the base")
        if earlier.open_items:
            items = count(earlier.open_items, "open item")
            raise _Skip("base_unchecked_checklist_items", f"{items} at the base")
        linked = self._linked.open_document(path)
        if linked:
            raise _Skip("linked_unchecked_checklist_items", f"open items in {linked}")
