"""Journals: what happened, a record a line, on the disk before anybody relies on it.

A line is as in ``record_format``. The newline is the commit mark: what stands behind the last one
was never acknowledged, and is cut off, and kept aside, before the next record is written. Anything
else that is not as it should be is damage, and an error. The numbers of a journal count from 1;
those of journals that share a sequence rise.

One process writes (see ``lock``); readers of a journal that is being written need no lock.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from itertools import accumulate, islice
from zlib import crc32

from rlm_ci.errors import DamagedError
from rlm_ci.runs.journal import record_format
from rlm_ci.runs.journal.reader import JournalReader
from rlm_ci.system import files
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, NoReturn, Self

    from rlm_ci.runs.journal.reader import Take
    from rlm_ci.runs.journal.record_format import Halves


class Journal(Closing):
    """A journal open for writing, safe for many threads.

    ``seq`` is the number of its last record; ``recovered`` how many bytes of a torn tail were
    cut off when it was opened, and ``aside`` the file that keeps them ("" where there was none).
    After an error of the disk it takes no more records: what a failed write or fsync left behind
    is not known, and a second fsync would say that all is well.
    """

    def __init__(
        self,
        path: str,
        descriptor: int,
        end: tuple[int, int],
        *,
        sync: bool,
        starts: array[int] | None = None,
    ) -> None:
        """``end``: number and end of the last record; ``starts``: see ``JournalReader``."""
        self.path = path
        self.recovered = 0
        self.aside = ""
        self.starts = starts
        self._descriptor = descriptor
        self._sync = sync
        # Number and end of the last record that is written, and of the last that is durable.
        # Each pair is replaced as one, so that an interrupt finds both halves or none.
        self._written = end
        self._durable = end
        self._syncing = False
        self._failure: OSError | None = None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    @classmethod
    def open(
        cls, path: str, *, sync: bool = True, take: Take | None = None, places: bool = False
    ) -> Self:
        """Check the journal at ``path`` (made where there is none), and go on behind it.

        ``take`` is given what stands there; with ``places``, ``line`` finds it again. What was
        read is on the disk when this returns: a process that was killed may have left records
        that no fsync had followed. Without ``sync`` nothing is ever synced, for what need not
        outlive the machine. Raises DamagedError, StorageError.
        """
        reader = JournalReader(path, places=places)
        reader.read(take)
        aside = cut(path, reader.offset, len(reader.tail)) if reader.tail else ""
        journal = cls.behind(reader, sync=sync)
        journal.recovered, journal.aside = len(reader.tail), aside
        return journal

    @classmethod
    def behind(cls, reader: JournalReader, *, sync: bool = True) -> Self:
        """Go on behind what was read, where nothing else stands. Raises StorageError."""
        return cls._opened(reader, os.O_RDWR | os.O_APPEND | os.O_CREAT, sync=sync)

    @classmethod
    def stored(cls, path: str, take: Take | None = None) -> Self:
        """A journal to be looked at: ``line`` finds its records. Raises as ``replay``."""
        reader = JournalReader(path, places=True)
        reader.read(take, is_needed=True)
        return cls.looked_at(reader)

    @classmethod
    def looked_at(cls, reader: JournalReader) -> Self:
        """The same of what was read. Raises StorageError."""
        return cls._opened(reader, os.O_RDONLY, sync=False)

    @classmethod
    def _opened(cls, reader: JournalReader, flags: int, *, sync: bool) -> Self:
        path, end = reader.path, (reader.last, reader.offset)
        try:
            descriptor = files.open_regular(path, flags)
            try:
                if sync:
                    os.fsync(descriptor)
                    files.sync_folder(os.path.dirname(path) or ".")
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise files.storage_error(error, path) from None
        return cls(path, descriptor, end, sync=sync, starts=reader.starts)

    @property
    def seq(self) -> int:
        return self._written[0]

    def append(self, record: Mapping[str, Any], *, durable: bool = True) -> int:
        """Write ``record`` with its number, which is returned; if ``durable``, once it is on disk.

        Threads that append at the same time share an fsync. A record that is not JSON, holds a
        name that is no text, ``seq`` or ``crc``, or is too deep or too long raises TypeError or
        ValueError, and nothing is written. Raises StorageError.
        """
        if "seq" in record or "crc" in record:
            raise ValueError("the names seq and crc are the journal's own")
        whole = record.copy() if type(record) is dict else {**record}
        with self._lock:
            seq, size = self._written
            whole["seq"] = seq = seq + 1
            line = record_format.to_line(whole)
            # Where an interrupt has left a place, it is the same one.
            if self.starts is not None and len(self.starts) < seq:
                self.starts.append(size)
            self._write(line, (seq, size + len(line)))
        if durable:
            self._settle(seq)
        return seq

    def append_all(self, halves: Sequence[Halves], first: int) -> None:
        """Write records in one, numbered from ``first`` on; they are on disk when this returns.

        Each is the two texts around its number. Raises StorageError.
        """
        data, lengths = record_format.to_lines(halves, first)
        last = first + len(lengths) - 1
        with self._lock:
            size = self._written[1]
            self._write(data, (last, size + len(data)))
            if self.starts is not None:
                self.starts.extend(accumulate(islice(lengths, len(lengths) - 1), initial=size))
        self._settle(last)

    def line(self, place: int) -> bytes:
        """A record as it stands on the disk; the first has the place 0. Raises StorageError."""
        end, starts = self._written[1], self.starts or ()  # in this order: it may grow meanwhile
        start = starts[place]
        if place + 1 < len(starts):
            end = starts[place + 1]
        try:
            return os.pread(self._descriptor, end - start, start)
        except OSError as error:
            raise files.storage_error(error, self.path) from None

    def record(self, seq: int) -> dict[str, Any]:
        """The record number ``seq``, which was read or written. Raises Damaged-, StorageError."""
        try:
            found: dict[str, Any] = json.loads(self.line(seq - 1))
        except ValueError:
            raise DamagedError(
                f"record {seq} was changed since it was read",
                where=self.path,
                hint="restore it from a copy, or start a new run",
            ) from None
        return found

    def sync(self) -> None:
        """Return when all records written so far are on disk. Raises StorageError."""
        self._settle(self._written[0])

    def close(self) -> None:
        """Sync, and close the file. Raises StorageError, closed all the same."""
        if self._descriptor < 0:
            return
        try:
            if self._failure is None:
                self.sync()
        finally:
            with self._lock:
                descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def _write(self, data: bytes, end: tuple[int, int]) -> None:
        """Write whole lines, so that ``end`` is the new one; the lock is held."""
        if self._failure is not None or self._descriptor < 0:
            self._refuse()
        size = self._written[1]
        try:
            count = os.write(self._descriptor, data)
            if count != len(data):
                self._write_rest(data, count)
            self._written = end
        except OSError as error:
            self._fail(error, size)
        except BaseException:  # what a signal raised: the disk is well, the line may be half
            self._cut(size)
            raise

    def _write_rest(self, data: bytes, count: int) -> None:
        """Go on behind a short write of ``count`` bytes."""
        while count < len(data):
            # A disk that did not take what it says that it took has failed.
            if not count or os.fstat(self._descriptor).st_size != self._written[1] + count:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            count += os.write(self._descriptor, data[count:])

    def _settle(self, seq: int) -> None:
        """Return once an fsync that began after record ``seq`` was written has ended well."""
        if not self._sync:
            return
        leads = False
        try:
            with self._lock:
                while self._durable[0] < seq and self._syncing:
                    self._changed.wait()
                if self._durable[0] >= seq:
                    return
                if self._failure is not None or self._descriptor < 0:
                    self._refuse()
                leads = self._syncing = True
                written = self._written
            os.fsync(self._descriptor)
            self._durable = written
        except OSError as error:
            with self._lock:
                self._fail(error, self._durable[1])
        finally:
            if leads:
                with self._lock:
                    self._syncing = False
                    self._changed.notify_all()

    def _refuse(self) -> NoReturn:
        if self._failure is None:
            raise ValueError(f"the journal is closed: {self.path}")
        raise files.storage_error(self._failure, self.path) from None

    def _fail(self, error: OSError, size: int) -> NoReturn:
        """Take no more records, keep the first ``size`` bytes; the lock is held."""
        self._failure = error
        self._cut(size)
        raise files.storage_error(error, self.path) from None

    def _cut(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:  # the torn tail stays, and is cut when the journal is opened next
            self._failure = self._failure or error


def replay(path: str, *, live: bool = False) -> Iterator[dict[str, Any]]:
    """The records of a journal in order, each with its ``seq``, memory flat.

    What has no newline yet is not committed, and left out. With ``live`` somebody may be about
    to write: a journal that is not there has no records yet. Only what ``Journal.open`` has seen
    before is sure to be on the disk. Raises DamagedError naming file, record and byte;
    StorageError.
    """
    for found in JournalReader(path).some(is_needed=not live):
        yield from found


def cut(path: str, end: int, length: int) -> str:
    """Take the last ``length`` bytes off a file, once they stand in another one; its path."""
    try:
        descriptor = files.open_regular(path, os.O_RDWR)
        try:
            os.lseek(descriptor, end, os.SEEK_SET)  # Windows has no pread
            data = os.read(descriptor, length)
            aside = f"{path}.torn-{end}-{crc32(data):08x}"
            files.write(aside, data, 0o600)
            os.ftruncate(descriptor, end)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise files.storage_error(error, path) from None
    return aside
