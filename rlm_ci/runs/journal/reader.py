"""Read a journal: all of it, or what is new."""

from __future__ import annotations

import os
from array import array
from itertools import accumulate, islice
from operator import lt

from rlm_ci.errors import DamagedError, StorageError
from rlm_ci.runs.journal import record_format
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, NoReturn

    #: Gets records in order, some at a time.
    Take = Callable[[list[dict[str, Any]]], object]
_BLOCK = 64 << 10


class JournalReader:
    """Reads one journal to its present end, and later on from there.

    ``last`` is the number of the last record and ``offset`` its end; ``tail`` the bytes behind it.
    With ``places``, ``starts`` lists where records begin. With ``rising`` numbers may be left out:
    the journals of a recursion shared a sequence once.
    """

    def __init__(self, path: str, *, rising: bool = False, places: bool = False) -> None:
        self.path = path
        self.last = 0
        self.offset = 0
        self.tail = b""
        self.starts = array("q") if places else None
        self._rising = rising

    def read(self, take: Take | None = None, *, is_needed: bool = False) -> None:
        """Hand all new records to ``take``. Raises as ``some``."""
        for records in self.some(is_needed=is_needed):
            if take is not None:
                take(records)

    def some(self, *, is_needed: bool = False) -> Iterator[list[dict[str, Any]]]:
        """The records, some at a time. Raises DamagedError, StorageError.

        A missing journal has none, unless it ``is_needed``.
        """
        for lines in self._whole_lines(is_needed=is_needed):
            records, some = record_format.from_lines(lines) or ([], [])
            if records and self._follow(some):
                self._pass(lines, some)
                yield records
            else:
                yield from self._one_by_one(lines)

    def _whole_lines(self, *, is_needed: bool) -> Iterator[bytes]:
        try:
            descriptor = files.open_regular(self.path, os.O_RDONLY)
        except FileNotFoundError:
            if not is_needed:
                return
            raise DamagedError(
                "the journal is missing",
                where=self.path,
                hint="restore it from a copy, or start a new run",
            ) from None
        except OSError as error:
            raise _unread(error, self.path) from None
        pieces: list[bytes] = []
        size = 0
        try:
            os.lseek(descriptor, self.offset, os.SEEK_SET)
            while block := self._block(descriptor):
                end = block.rfind(b"\n") + 1
                if end:
                    yield b"".join((*pieces, block[:end]))
                    pieces, size = [], 0
                pieces.append(block[end:])
                size += len(pieces[-1])
                if size > record_format.LIMIT + _BLOCK:
                    self._refuse(f"it has no end within {record_format.LIMIT:,} bytes")
            self.tail = b"".join(pieces)
        finally:
            os.close(descriptor)

    def _block(self, descriptor: int) -> bytes:
        try:
            return os.read(descriptor, _BLOCK)
        except OSError as error:
            raise _unread(error, self.path) from None

    def _follow(self, some: list[int]) -> bool:
        if not self._rising:
            return some == list(range(self.last + 1, self.last + 1 + len(some)))
        return some[0] > self.last and all(map(lt, some, islice(some, 1, None)))

    def _pass(self, lines: bytes, some: list[int]) -> None:
        if self.starts is not None:
            sizes = (len(line) + 1 for line in islice(lines.split(b"\n"), len(some) - 1))
            self.starts.extend(accumulate(sizes, initial=self.offset))
        self.last = some[-1]
        self.offset += len(lines)

    def _one_by_one(self, lines: bytes) -> Iterator[list[dict[str, Any]]]:
        """The same records one by one, to report the damaged one."""
        for line in lines.split(b"\n")[:-1]:
            try:
                record = record_format.from_line(line)
            except record_format.FlawError as flaw:
                self._refuse(str(flaw))
            seq = record["seq"]
            if not self._follow([seq]):
                self._refuse(f"its number is {seq}, behind {self.last}")
            self._pass(line + b"\n", [seq])
            yield [record]

    def _refuse(self, reason: str) -> NoReturn:
        from shlex import quote

        hint = (
            "restore it from a copy; or keep one, cut it there by "
            f"`truncate -s {self.offset} {quote(self.path)}`, and resume"
        )
        raise DamagedError(
            f"the journal is damaged at record {self.last + 1}, byte {self.offset}: {reason}",
            where=self.path,
            hint=hint,
        )


def _unread(error: OSError, path: str) -> StorageError:
    return StorageError(
        f"cannot be read: {error.strerror}", where=path, hint="check that it is a file of ours"
    )
