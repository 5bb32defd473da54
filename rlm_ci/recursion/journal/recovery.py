"""Three journals on one sequence, read and made whole again.

Records are written a batch at a time: first those of the results, then those of the nodes, then
those of the queue, each on the disk before the next. So a process that is killed leaves a torn
tail in one of them at most. It is cut off, and so are whole records of the others that come
after it; both are kept aside. A record that is missing without any torn tail is damage.
"""

from __future__ import annotations

import os
from array import array
from collections import deque
from itertools import accumulate, islice, repeat
from operator import add, lt
from zlib import crc32

from rlm_ci.errors import DamagedError
from rlm_ci.recursion.journal import quick_read
from rlm_ci.runs.journal import record_format
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

    Take = Callable[[list[dict[str, Any]]], None]
    Skim = Callable[[bytes, list[bytes]], bool]

RESULTS = "results.jsonl"
NODES = "nodes.jsonl"
QUEUE = "queue.jsonl"
#: In the order in which a batch is written.
NAMES = (RESULTS, NODES, QUEUE)
_BLOCK = 128 << 10
#: What ``records.bodies`` leaves out of a line, and its newline.
_FRAME = len(b'{"crc":"\n')


class Found(Value):
    """What stands in the journals: ``seq`` is the last number, ``ends`` their whole lengths.

    ``cut`` tells what was cut off: name, bytes, and the file that keeps them.
    """

    seq: int
    ends: tuple[int, ...]
    cut: tuple[tuple[str, int, str], ...] = ()


class Scan:
    """One journal, read from ``offset`` on: its numbers, and what stands behind its last line."""

    def __init__(self, path: str, offset: int = 0, last: int = 0, *, places: bool = False) -> None:
        self.path = path
        self.offset = offset
        self.tail = b""
        self.numbers = array("q")
        #: Where lines begin, for whom it matters: see ``places``.
        self.starts = array("q")
        self._places = places
        self._last = last

    def read(
        self,
        take: Take | None = None,
        skim: Skim | None = None,
        numbers: Callable[[bytes], list[int]] = quick_read.numbers,
    ) -> None:
        """Hand over all records, some at a time.

        ``skim`` is tried before, and given lines that are intact, whole and as ``records.bodies``,
        if ``numbers`` finds one in each; False where it cannot say what ``take`` would, which is
        given their records then. A file that is not there has none. Raises DamagedError,
        StorageError.
        """
        try:
            descriptor = files.open_regular(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return
        except OSError as error:
            raise files.storage_error(error, self.path) from None
        try:
            os.lseek(descriptor, self.offset, os.SEEK_SET)
            rest: list[bytes] = []
            while block := os.read(descriptor, _BLOCK):
                cut = block.rfind(b"\n") + 1
                if cut:
                    self._lines(b"".join((*rest, block[:cut])), take, skim, numbers)
                    rest = []
                rest.append(block[cut:])
            self.tail = b"".join(rest)
        except OSError as error:
            raise files.storage_error(error, self.path) from None
        finally:
            os.close(descriptor)

    def _lines(
        self,
        lines: bytes,
        take: Take | None,
        skim: Skim | None,
        numbers: Callable[[bytes], list[int]],
    ) -> None:
        bodies = record_format.bodies(lines) if skim is not None else None
        if skim is not None and bodies is not None:
            some = numbers(lines)
            if len(some) == len(bodies) and self._rises(some) and skim(lines, bodies):
                self._add(some, map(len, bodies), _FRAME)
                self.offset += len(lines)
                return
        found = record_format.from_any_lines(lines)
        some = [record["seq"] for record in found] if found else []
        if found is None or not self._rises(some):
            found = self._one_by_one(lines)
            some = [record["seq"] for record in found]
        if take is not None:
            take(found)
        self._add(some, map(len, lines.split(b"\n")), 1)
        self.offset += len(lines)

    def _add(self, some: list[int], lengths: Iterable[int], more: int) -> None:
        """Note numbers, and where their lines begin; each line has ``more`` than its length."""
        self.numbers.extend(some)
        self._last = some[-1]
        if self._places:
            offsets = accumulate(lengths, initial=self.offset)
            self.starts.extend(map(add, offsets, range(0, len(some) * more, more)))

    def _rises(self, some: list[int]) -> bool:
        return some[0] > self._last and all(map(lt, some, islice(some, 1, None)))

    def _one_by_one(self, lines: bytes) -> list[dict[str, Any]]:
        """The same records, one after the other, to say which is not as it should be."""
        found: list[dict[str, Any]] = []
        last, offset = self._last, self.offset
        for line in lines.split(b"\n")[:-1]:
            try:
                record = record_format.from_line(line, None)
            except record_format.FlawError as flaw:
                self._refuse(len(self.numbers) + len(found) + 1, offset, str(flaw))
            if record["seq"] <= last:
                self._refuse(
                    len(self.numbers) + len(found) + 1,
                    offset,
                    f"its number is {record['seq']}, behind {last}",
                )
            last = record["seq"]
            offset += len(line) + 1
            found.append(record)
        return found

    def _refuse(self, number: int, offset: int, reason: str) -> NoReturn:
        raise DamagedError(
            f"the journal is damaged at record {number}, byte {offset}: {reason}",
            where=self.path,
            hint="restore the run's folder from a copy, or start a new run",
        )


def gap(scans: Sequence[Scan]) -> int:
    """The first number that no journal has, though a later one is there; 0: there is none."""
    last = max((scan.numbers[-1] for scan in scans if scan.numbers), default=0)
    seen = bytearray(last + 1)
    for scan in scans:
        deque(map(seen.__setitem__, scan.numbers, repeat(1)), maxlen=0)
    if seen.count(1) == last == sum(len(scan.numbers) for scan in scans):
        return 0
    seen = bytearray(last + 1)
    twice = last + 1
    for scan in scans:
        for number in scan.numbers:
            if seen[number]:
                twice = min(twice, number)
            seen[number] = 1
    missing = seen.find(b"\0", 1)
    return min(twice, missing if missing > 0 else last + 1) % (last + 1)


def recover(folder: str, scans: Sequence[Scan]) -> Found:
    """Cut off what a kill has left, and keep it. Raises DamagedError, StorageError."""
    missing = gap(scans)
    # A kill explains what is missing behind the last whole record of whoever is torn, no more.
    lasts = [scan.numbers[-1] if scan.numbers else 0 for scan in scans if scan.tail]
    if missing and not any(last < missing for last in lasts):
        raise DamagedError(
            f"record {missing} is in none of {', '.join(NAMES)}, or in two",
            where=folder,
            hint="restore the run's folder from a copy, or start a new run",
        )
    ends, cut = [], []
    # Whoever is torn is cut last: killed meanwhile, it still is, and explains the gap.
    for scan in scans:
        later = _later(scan, missing) if missing else len(scan.numbers)
        end = _start(scan.path, later) if later < len(scan.numbers) else scan.offset
        ends.append(end)
    for scan, end in sorted(zip(scans, ends, strict=True), key=lambda pair: bool(pair[0].tail)):
        length = scan.offset + len(scan.tail) - end
        if length:
            cut.append((os.path.basename(scan.path), length, _cut(scan.path, end, length)))
    for name, length, aside in cut:
        _log(os.path.dirname(aside), f"{name}: {length} bytes cut off, kept in {aside}\n")
    seq = missing - 1 if missing else sum(len(scan.numbers) for scan in scans)
    return Found(seq, tuple(ends), tuple(cut))


def _log(folder: str, line: str) -> None:
    logs = os.path.join(folder, "logs")
    files.make_folder(logs, 0o700)
    files.append(os.path.join(logs, "recovery.log"), line.encode("utf-8", "backslashreplace"))


def _start(path: str, index: int) -> int:
    """Where a line begins, the first one being 0."""
    try:
        with open(path, "rb") as stream:
            return sum(map(len, islice(stream, index)))
    except OSError as error:
        raise files.storage_error(error, path) from None


def _later(scan: Scan, missing: int) -> int:
    from bisect import bisect_left

    return bisect_left(scan.numbers, missing)


def _cut(path: str, end: int, length: int) -> str:
    """Take the last ``length`` bytes off a file, once they stand in another one; its path."""
    try:
        descriptor = files.open_regular(path, os.O_RDWR)
        try:
            data = os.pread(descriptor, length, end)
            aside = f"{path}.torn-{end}-{crc32(data):08x}"
            files.write(aside, data, 0o600)
            os.ftruncate(descriptor, end)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise files.storage_error(error, path) from None
    return aside
