"""Journals: what happened, a record a line, on the disk before anybody relies on it.

A line is as in ``records``; ``seq`` counts from 1. The newline is the commit mark: what stands
behind the last one was never acknowledged, and is cut off, and kept aside, before the next
record is written. Anything else that is not as it should be is damage, and an error.

One process writes (see ``lock``); readers of a journal that is being written need no lock.
"""

from __future__ import annotations

import errno
import os
import threading
from zlib import crc32

from rlm_ci.errors import DamagedError, StorageError
from rlm_ci.runs.journal import record_format
from rlm_ci.system import files
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, NoReturn

_BLOCK = 64 << 10


class Journal(Closing):
    """A journal open for writing, safe for many threads.

    ``seq`` is the number of its last record; ``recovered`` how many bytes of a torn tail were
    cut off when it was opened, and ``aside`` the file that keeps them ("" where there was none).
    After an error of the disk it takes no more records: what a failed write or fsync left behind
    is not known, and a second fsync would say that all is well.
    """

    def __init__(self, path: str, descriptor: int, end: tuple[int, int], *, sync: bool) -> None:
        self.path = path
        self.recovered = 0
        self.aside = ""
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
    def open(cls, path: str, *, sync: bool = True) -> Journal:
        """Check the journal at ``path`` (made where there is none), and go on behind it.

        What was read is on the disk when this returns: a process that was killed may have left
        records that no fsync had followed. Without ``sync`` nothing is ever synced, for what need
        not outlive the machine. Raises DamagedError, StorageError.
        """
        try:
            descriptor = files.open_regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
        except OSError as error:
            raise files.storage_error(error, path) from None
        try:
            scan = _Scan(path, descriptor)
            for _ in scan:
                pass
            journal = cls(path, descriptor, (scan.seq, scan.offset), sync=sync)
            if scan.tail:
                journal.recovered = len(scan.tail)
                journal.aside = f"{path}.torn-{scan.offset}-{crc32(scan.tail):08x}"
                files.write(journal.aside, scan.tail, 0o600)
                os.ftruncate(descriptor, scan.offset)
            if sync:
                os.fsync(descriptor)
                files.sync_folder(os.path.dirname(path) or ".")
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                raise files.storage_error(error, path) from None
            raise
        return journal

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
            if self._failure is not None or self._descriptor < 0:
                self._refuse()
            last, size = self._written
            whole["seq"] = seq = last + 1
            line = record_format.to_line(whole)
            length = len(line)
            try:
                count = os.write(self._descriptor, line)
                if count != length:
                    self._write_rest(line, count)
                self._written = (seq, size + length)
            except OSError as error:
                self._fail(error, size)
            except BaseException:  # what a signal raised: the disk is well, the line may be half
                self._cut(size)
                raise
        if durable:
            self._settle(seq)
        return seq

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

    def _write_rest(self, line: bytes, count: int) -> None:
        """Go on behind a short write of ``count`` bytes."""
        while count < len(line):
            # A disk that did not take what it says that it took has failed.
            if not count or os.fstat(self._descriptor).st_size != self._written[1] + count:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            count += os.write(self._descriptor, line[count:])

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
    try:
        descriptor = files.open_regular(path, os.O_RDONLY)
    except FileNotFoundError:
        if live:
            return
        raise DamagedError(
            "the journal is missing", where=path, hint="restore it from a copy, or start a new run"
        ) from None
    except OSError as error:
        raise _unread(error, path) from None
    try:
        for found in _Scan(path, descriptor):
            yield from found
    finally:
        os.close(descriptor)


class _Scan:
    """The records of a descriptor, some at a time; ``seq`` and ``offset`` are where it stands.

    At the end ``tail`` is what stands behind the last newline.
    """

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.seq = 0
        self.offset = 0
        self.tail = b""
        self._descriptor = descriptor

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        pieces: list[bytes] = []
        while block := self._read():
            cut = block.rfind(b"\n") + 1
            if not cut:
                pieces.append(block)
                if len(pieces) * _BLOCK > record_format.LIMIT + _BLOCK:
                    self._refuse(f"it has no end within {record_format.LIMIT:,} bytes")
                continue
            lines = b"".join((*pieces, block[:cut]))
            pieces = [block[cut:]]
            found = record_format.from_lines(lines, self.seq + 1)
            if found is None:
                yield from self._one_by_one(lines)
            else:
                self.seq += len(found)
                self.offset += len(lines)
                yield found
        self.tail = b"".join(pieces)

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, _BLOCK)
        except OSError as error:
            raise _unread(error, self.path) from None

    def _one_by_one(self, lines: bytes) -> Iterator[list[dict[str, Any]]]:
        for line in lines.split(b"\n")[:-1]:
            try:
                record = record_format.from_line(line, self.seq + 1)
            except record_format.FlawError as flaw:
                self._refuse(str(flaw))
            self.seq += 1
            self.offset += len(line) + 1
            yield [record]

    def _refuse(self, reason: str) -> NoReturn:
        from shlex import quote

        raise DamagedError(
            f"the journal is damaged at record {self.seq + 1}, byte {self.offset}: {reason}",
            where=self.path,
            hint="restore it from a copy; or keep one, cut it there by "
            f"`truncate -s {self.offset} {quote(self.path)}`, and resume",
        )


def _unread(error: OSError, path: str) -> StorageError:
    return StorageError(
        f"cannot be read: {error.strerror}", where=path, hint="check that it is a file of ours"
    )
