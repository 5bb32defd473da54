"""Search for literal texts in a source of any size: exact counts, case ignored, memory flat.

ASCII case is ignored, so that offsets are exact. Hits do not overlap. Each counts for the earliest
chunk that holds its first byte, so the chunks never change what is found.
"""

from __future__ import annotations

from rlm_ci.context.pointers import ChunkLayout
from rlm_ci.context.search import stringzilla
from rlm_ci.context.search.occurrences import PLAIN
from rlm_ci.context.search.scan import BlockSizes, NeedleScan
from rlm_ci.context.search.worker_processes import processes, share
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.context.search.occurrences import NeedleTally, SearchEngine


class NeedleMatches(Value):
    """What was found of one needle: how often, in how many chunks, and in which the most.

    ``hits`` are (chunk's index, offset of its first hit in the source, number of its hits): most
    hits first, then by offset; at most ``top_k``.
    """

    total: int = 0
    chunks: int = 0
    hits: tuple[tuple[int, int, int], ...] = ()


def search(
    descriptor: int,
    size: int,
    needles: Sequence[bytes],
    *,
    target: int,
    overlap: int,
    top_k: int,
    workers: int | None = None,
    engine: SearchEngine | None = None,
    grain: BlockSizes | None = None,
    name: str = "",
) -> tuple[NeedleMatches, ...]:
    """What stands of each needle in the first ``size`` bytes of a file, in one pass for all.

    The position of ``descriptor`` is left alone. The file is in chunks of ``target`` bytes, each of
    which repeats the last ``overlap`` of the one before. ``workers`` are the processes to use at
    most, by default as many as are safe and make sense; ``engine`` is the fastest one installed by
    default. ``name`` is what errors call the file.

    Raises ValueError for an empty needle and sizes that make no sense, DamagedError for a file that
    is shorter, StorageError.
    """
    if not 0 <= overlap < target or size < 0 or top_k < 0:
        raise ValueError("an overlap is shorter than its chunk, and no size is negative")
    if not all(needles):
        raise ValueError("an empty text is everywhere: search for at least one byte")
    folded = [needle.lower() for needle in needles]
    # One longer than the source has no place in it, and would only make the windows longer.
    wanted = sorted({needle for needle in folded if len(needle) <= size})
    if not wanted:
        return tuple(NeedleMatches() for _ in needles)
    scan = NeedleScan(
        descriptor, name, ChunkLayout(size, target, overlap), wanted, top_k=top_k,
        engine=engine or stringzilla.engine() or PLAIN, grain=grain or BlockSizes(),
    )  # fmt: skip
    # A process takes a millisecond to start: it should have a block or two to do.
    several = min(processes(workers), scan.blocks // 2)
    for result in share(scan.blocks, scan.scan, scan.result, several):
        scan.merge(result)
    found = {tally.needle: _matches(tally) for tally in scan.tallies}
    return tuple(found.get(needle, NeedleMatches()) for needle in folded)


def _matches(tally: NeedleTally) -> NeedleMatches:
    best = sorted(tally.best, reverse=True)
    return NeedleMatches(
        tally.total, tally.chunks, tuple((-number, at, n) for n, number, at in best)
    )
