"""Journals: a record a line (see ``reader``), on the disk before it counts.

The newline is the commit mark: what follows the last one was never acknowledged, and is moved to
another file before the next record. All other flaws are damage. The numbers of a journal count
from 1.

One process writes (see ``lock``); readers need no lock.
"""

from __future__ import annotations

import errno
import json
import os
import threading
from zlib import crc32

from rlm_ci.errors import DamagedError
from rlm_ci.runs.journal import reader
from rlm_ci.runs.journal.reader import JournalReader
from rlm_ci.system import files
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator, Mapping
    from typing import Any, NoReturn, Self

    from rlm_ci.runs.journal.reader import Take


class Journal(Closing):
    """An open journal, safe for many threads.

    ``seq`` is the number of its last record, ``torn`` the file of a tail that ``open`` cut off.
    After an error of the disk it takes no more records: a second fsync would succeed whatever is
    lost.
    """

    def __init__(
        self,
        path: str,
        descriptor: int,
        end: tuple[int, int],
        starts: array[int] | None = None,
    ) -> None:
        """``end``: number and end of the last record; ``starts``: see ``JournalReader``."""
        self.path = path
        self.starts = starts
        self.torn = ""
        self._descriptor = descriptor
        # Number and end of the last record written, and of the last durable one. Each pair is
        # replaced as one, so that an interrupt finds both halves or none.
        self._written = end
        self._durable = end
        self._syncing = False
        self._failure: OSError | None = None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)

    @classmethod
    def open(
        cls, path: str, *, take: Take | None = None, places: bool = False, rising: bool = False
    ) -> Self:
        """Read the journal at ``path`` (made where missing), to append to it.

        ``take`` gets its records; with ``places``, ``line`` finds them again; ``rising`` is as in
        JournalReader. All of them are on the disk when this returns. Raises DamagedError,
        StorageError.
        """
        reader = JournalReader(path, places=places, rising=rising)
        reader.read(take)
        aside = cut(path, reader.offset, len(reader.tail)) if reader.tail else ""
        journal = cls.behind(reader)
        journal.torn = aside
        return journal

    @classmethod
    def behind(cls, reader: JournalReader, *, writes: bool = True) -> Self:
        """The journal that ``reader`` has read to its end. Raises StorageError."""
        path, end = reader.path, (reader.last, reader.offset)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT if writes else os.O_RDONLY
        try:
            descriptor = files.open_regular(path, flags)
            try:
                if writes:
                    os.fsync(descriptor)
                    files.sync_folder(os.path.dirname(path) or ".")
            except BaseException:
                os.close(descriptor)
                raise
        except OSError as error:
            raise files.storage_error(error, path) from None
        return cls(path, descriptor, end, reader.starts)

    @property
    def seq(self) -> int:
        return self._written[0]

    def append(self, record: Mapping[str, Any], *, durable: bool = True) -> int:
        """Write ``record`` and return its number; if ``durable``, once it is on the disk.

        Threads that append at the same time share an fsync. Raises TypeError or ValueError for
        what ``to_line`` refuses and for the names ``seq`` and ``crc``; StorageError.
        """
        if "seq" in record or "crc" in record:
            raise ValueError("the names seq and crc are the journal's own")
        full_record = record.copy() if type(record) is dict else {**record}
        with self._lock:
            seq, size = self._written
            full_record["seq"] = seq = seq + 1
            line = reader.to_line(full_record)
            # An interrupt may have left the same place.
            if self.starts is not None and len(self.starts) < seq:
                self.starts.append(size)
            self._write(line, (seq, size + len(line)))
        if durable:
            self._settle(seq)
        return seq

    def line(self, position: int) -> bytes:
        """The line of a record; the first has the place 0. Raises StorageError."""
        end, starts = self._written[1], self.starts or ()  # in this order: it may grow meanwhile
        start = starts[position]
        if position + 1 < len(starts):
            end = starts[position + 1]
        try:
            return os.pread(self._descriptor, end - start, start)
        except OSError as error:
            raise files.storage_error(error, self.path) from None

    def record(self, seq: int) -> dict[str, Any]:
        """The record number ``seq``. Raises DamagedError, StorageError."""
        return self.record_at(seq - 1)

    def record_at(self, position: int) -> dict[str, Any]:
        """The record at a place; the first has the place 0. Raises DamagedError, StorageError."""
        try:
            record: dict[str, Any] = json.loads(self.line(position))
        except ValueError:
            raise DamagedError(
                f"record {position + 1} was changed since it was read",
                where=self.path,
                hint="restore it from a copy, or start a new run",
            ) from None
        return record

    def sync(self) -> None:
        """Return when all records are on the disk. Raises StorageError."""
        self._settle(self._written[0])

    def close(self) -> None:
        """Sync, and close the file. It is closed even if this raises StorageError."""
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
        """Write whole lines up to ``end``; the lock is held."""
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
        except BaseException:  # an interrupt: the line may be half
            self._cut(size)
            raise

    def _write_rest(self, data: bytes, count: int) -> None:
        """Go on behind a short write of ``count`` bytes."""
        while count < len(data):
            # A disk that lost what it took has failed.
            if not count or os.fstat(self._descriptor).st_size != self._written[1] + count:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            count += os.write(self._descriptor, data[count:])

    def _settle(self, seq: int) -> None:
        """Return once an fsync after record ``seq`` has succeeded."""
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
        """Refuse records from now on, and cut the file to ``size``; the lock is held."""
        self._failure = error
        self._cut(size)
        raise files.storage_error(error, self.path) from None

    def _cut(self, size: int) -> None:
        try:
            os.ftruncate(self._descriptor, size)
        except OSError as error:  # ``open`` will cut the torn tail
            self._failure = self._failure or error


def replay(path: str, *, live: bool = False) -> Iterator[dict[str, Any]]:
    """The committed records of a journal in order, memory flat.

    With ``live`` a missing journal has no records yet. Raises DamagedError naming file, record and
    byte; StorageError.
    """
    for records in JournalReader(path).some(is_needed=not live):
        yield from records


def cut(path: str, end: int, length: int) -> str:
    """Move the last ``length`` bytes of a file to another one; returns its path."""
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
