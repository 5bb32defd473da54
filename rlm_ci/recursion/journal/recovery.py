"""Recovery of three journals that share one sequence of numbers.

A batch writes the results first, then the nodes, then the queue, each synced before the next. So
a killed process leaves a torn tail in one of them at most. It is cut off, with the whole records
of the others that follow it, and kept aside. A missing record without a torn tail is damage.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import deque
from itertools import chain, islice, repeat

from rlm_ci.errors import DamagedError
from rlm_ci.runs.journal import journal
from rlm_ci.runs.journal.reader import JournalReader
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

RESULTS = "results.jsonl"
NODES = "nodes.jsonl"
QUEUE = "queue.jsonl"
#: In the order in which a batch is written.
NAMES = (RESULTS, NODES, QUEUE)


class RecoveredJournals(Value):
    """``seq`` is the last number; ``cut`` lists name, bytes and copy of what was cut off."""

    seq: int
    readers: tuple[JournalReader, ...]
    cut: tuple[tuple[str, int, str], ...] = ()


def readers(folder: str, *, places: bool = False) -> tuple[JournalReader, ...]:
    """Readers of the three journals; with ``places`` they note where each result begins."""
    return tuple(
        JournalReader(os.path.join(folder, name), rising=True, places=places and name == RESULTS)
        for name in NAMES
    )


def gap(readers: Sequence[JournalReader]) -> int:
    """The first number that no journal has before its last one, or two have; 0 if there is none."""
    last = max(one.last for one in readers)
    seen = bytearray(last + 1)
    for one in readers:  # this has next to no memory
        deque(map(seen.__setitem__, one.numbers, repeat(1)), maxlen=0)
    if seen.count(1) == last == sum(len(one.numbers) for one in readers):
        return 0
    numbers = sorted(chain.from_iterable(one.numbers for one in readers))
    return next(min(number, at) for at, number in enumerate(numbers, 1) if number != at)


def recover(folder: str, readers: tuple[JournalReader, ...]) -> RecoveredJournals:
    """Cut off what a kill left, and keep it aside. Raises DamagedError, StorageError."""
    missing = gap(readers)
    # A kill explains only what is missing behind the last whole record of a torn journal.
    if missing and not any(one.last < missing for one in readers if one.tail):
        raise DamagedError(
            f"record {missing} is in none of {', '.join(NAMES)}, or in two",
            where=folder,
            hint="restore the run's folder from a copy, or start a new run",
        )
    cut = []
    # The torn one is cut last, to explain the gap after another kill.
    for one in sorted(readers, key=lambda one: bool(one.tail)):
        later = bisect_left(one.numbers, missing) if missing else len(one.numbers)
        end = _start(one.path, later) if later < len(one.numbers) else one.offset
        length = one.offset + len(one.tail) - end
        if length:
            cut.append((os.path.basename(one.path), length, journal.cut(one.path, end, length)))
    for name, length, aside in cut:
        line = f"{name}: {length} bytes cut off, kept in {aside}\n"
        logs = os.path.join(os.path.dirname(aside), "logs")
        files.make_folder(logs, 0o700)
        files.append(os.path.join(logs, "recovery.log"), line.encode("utf-8", "backslashreplace"))
    seq = missing - 1 if missing else sum(len(one.numbers) for one in readers)
    return RecoveredJournals(seq, readers, tuple(cut))


def _start(path: str, index: int) -> int:
    try:
        with open(path, "rb") as stream:
            return sum(map(len, islice(stream, index)))
    except OSError as error:
        raise files.storage_error(error, path) from None
