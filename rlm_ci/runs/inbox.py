"""Events that others have for a run: its delegated runs, and the people who answer them.

The ``events.jsonl`` of a run has one writer, the process that holds the run. All others post into
``inbox.jsonl`` beside it, a journal of such events with one writer at a time; it keeps them all.
From there each event enters ``events.jsonl`` once, and in order: the process that holds the run
takes it in with its next heartbeat and at its end; for a run that no process holds, the one that
posts does, also after the end of the run.

``payload.inbox`` in ``events.jsonl`` is the number of the event in the inbox.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, suppress

from rlm_ci.decoding import DecodeError
from rlm_ci.errors import DamagedError, LockedError, RlmCiError, StorageError
from rlm_ci.runs import is_task_id
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.checksums import EVENTS as JOURNAL
from rlm_ci.runs.checksums import RUNNER
from rlm_ci.runs.delegated import INBOX, is_delegated
from rlm_ci.runs.journal.journal import Journal, cut
from rlm_ci.runs.journal.reader import JournalReader
from rlm_ci.runs.journal.run_event import CHILD_STARTED, FROM_OTHERS, VERSION, RunEvent
from rlm_ci.system.lock import NAME as LOCK
from rlm_ci.system.lock import PATIENCE, Lock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.runs.journal.reader import Take
    from rlm_ci.runs.manifest import ChildRun, Manifest

    #: Adds one event, durably: its name, its payload and its actor.
    Post = Callable[[str, Mapping[str, Any], str], None]

EVENTS = frozenset(FROM_OTHERS)
ACTOR = "delegation"
USER = "user"
#: Bytes that an inbox may have.
_LIMIT = 64 << 20
_MOST_CHILDREN = 1000


def send(
    path: str, event: str, payload: Mapping[str, Any], redactor: Redactor, actor: str = ACTOR
) -> None:
    """Post one event for the run in the folder ``path``. Raises as ``Inbox.writing``."""
    with Inbox(path, redactor).writing() as post:
        post(event, payload, actor)


class Inbox:
    """The inbox of the run in the folder ``path``, safe for threads; who keeps one reads on.

    ``take`` gets each record once, those posted here too. ``now`` gives seconds since the epoch.
    """

    def __init__(
        self,
        path: str,
        redactor: Redactor,
        *,
        take: Take | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.path = os.path.join(path, INBOX)
        self.now = now
        self._folder = path
        self._redactor = redactor
        self._take = take
        self._reader = JournalReader(self.path)
        self._mutex = threading.RLock()
        self._intake = Intake(path)
        self._events = JournalReader(os.path.join(path, JOURNAL))

    def read(self) -> None:
        """Hand the records that are new to ``take``. Raises DamagedError, StorageError."""
        with self._mutex:
            if _size(self.path) < self._reader.offset:
                raise DamagedError(
                    "the inbox is shorter than it was",
                    where=self.path,
                    hint="it was replaced meanwhile: try again",
                )
            for records in _posted(self._reader):
                if self._take is not None:
                    self._take(records)

    @contextmanager
    def writing(self) -> Iterator[Post]:
        """Have the inbox, read to its end, to add to it.

        Raises LockedError where another process keeps it, DamagedError, StorageError.
        """
        with self._mutex:
            with self._writer():
                self.read()
                if self._reader.offset > _LIMIT:
                    raise StorageError(
                        f"its inbox has more than {_LIMIT:,} bytes",
                        where=self.path,
                        hint="a run that asks so much is no use: start a new one",
                    )
                if self._reader.tail:  # of a writer that was killed
                    cut(self.path, self._reader.offset, len(self._reader.tail))
                with Journal.behind(self._reader) as journal:
                    yield lambda *event: self._add(journal, *event)
            self.deliver()

    def deliver(self) -> None:
        """Bring what is posted into the events of the run, if no process holds it.

        If that is impossible now, it is kept, and enters the events later.
        """
        with suppress(RlmCiError), self._mutex, self._locked():
            events = self._events
            events.read(self._intake.seen)
            if events.tail:
                cut(events.path, events.offset, len(events.tail))
            with Journal.behind(events) as journal:
                self._intake.into(journal)

    def _writer(self) -> Lock:
        try:
            return Lock.wait(self.path, PATIENCE, signs=False)
        except LockedError:
            raise LockedError(
                f"another process has written to the inbox for {PATIENCE:g} s",
                where=self.path,
                hint=f"find it with `fuser {self.path}`, and end it",
            ) from None

    def _locked(self) -> Lock:
        return Lock.take(os.path.join(self._folder, LOCK), signs=False)

    def _add(self, journal: Journal, event: str, payload: Mapping[str, Any], actor: str) -> None:
        if event not in EVENTS or actor == RUNNER:
            raise ValueError(event)
        task_folder, run_id = os.path.split(os.path.abspath(self._folder))
        posted = RunEvent(
            VERSION,
            manifests.timestamp(self.now()),
            os.path.basename(os.path.dirname(task_folder)),
            run_id,
            event,
            actor,
            self._redactor.json(dict(payload)),
        )
        journal.append(posted.to_dict())
        self.read()


class Intake:
    """Takes the inbox of the run in the folder ``path`` in, for the process that holds the run."""

    def __init__(self, path: str) -> None:
        self._folder = path
        self._reader = JournalReader(os.path.join(path, INBOX))
        self._last = 0
        #: The folders of delegated runs.
        self._children: set[str] = set()

    def seen(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Learn from all ``events`` of the run what is in them already."""
        for event in events:
            if event.get("actor") != RUNNER and isinstance(event.get("payload"), dict):
                number = event["payload"].get("inbox")
                self._last = number if type(number) is int else self._last
                self._learn(event)

    def into(self, journal: Journal, clean: Callable[[Any], Any] = dict) -> None:
        """Append what is new to the events; what cannot be read stays where it is."""
        with suppress(RlmCiError):
            for records in _posted(self._reader) if self._is_due() else ():
                for record in records:
                    number = record.pop("seq")
                    if number > self._last:
                        record["payload"] = {**clean(record["payload"]), "inbox": number}
                        journal.append(record, durable=False)
                        self._last = number
                        self._learn(record)
                journal.sync()

    def moved(self, runs: Iterable[ChildRun]) -> Iterator[Manifest]:
        """The delegated children that ``runs`` lacks, or has with another status."""
        statuses = {_child(self._folder, *_names(run)): run.status for run in runs}
        for folder in {*statuses, *self._children} - {""}:
            status = statuses.get(folder)
            if status not in manifests.ENDED and is_delegated(folder):
                with suppress(DamagedError):
                    child = manifests.read(folder)
                    if child.status != status:
                        yield child

    def close(self, redactor: Redactor) -> None:
        """Bring in what was posted while this process held the run, which is free now."""
        if self._is_due():
            Inbox(self._folder, redactor).deliver()

    def _is_due(self) -> bool:
        """Whether there may be more."""
        return _size(self._reader.path) > self._reader.offset

    def _learn(self, event: Mapping[str, Any]) -> None:
        if event.get("event") == CHILD_STARTED and len(self._children) < _MOST_CHILDREN:
            names = (str(event["payload"].get(name)) for name in ("task_id", "run_id"))
            self._children.add(_child(self._folder, *names))


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0


def _names(child: ChildRun) -> tuple[str, str]:
    """Task and run of a child, by the path of its manifest."""
    task, _, name, _ = ["", "", "", *child.manifest.split("/")][-4:]
    return task, name


def _child(path: str, task: str, name: str) -> str:
    """The folder of another run of the store in which ``path`` is one; "" for impossible names."""
    store = os.path.dirname(os.path.dirname(os.path.dirname(path)))
    return os.path.join(store, task, "cli", name) if is_task_id(task) and is_task_id(name) else ""


def _posted(reader: JournalReader) -> Iterator[list[dict[str, Any]]]:
    """The new records of an inbox. Raises DamagedError, StorageError."""
    for records in reader.some():
        for record in records:
            wrong = _wrong(record)
            if wrong:
                raise DamagedError(
                    f"record {record['seq']} of the inbox {wrong}",
                    where=reader.path,
                    hint="install a newer rlm-ci, or restore it from a copy",
                )
        yield records


def _wrong(record: Mapping[str, Any]) -> str:
    """What is wrong with a record of an inbox, in words; "" for nothing."""
    version = record.get("schema_version")
    if type(version) is int and version > VERSION:
        return f"has version {str(version)[:20]}, this rlm-ci knows {VERSION}"
    try:
        event = RunEvent.from_dict({name: record[name] for name in record if name != "seq"})
    except DecodeError as error:
        return f"is no event of another process: {error}"
    is_other = event.event in EVENTS and event.actor != RUNNER
    return "" if is_other else "is no event of another process"
