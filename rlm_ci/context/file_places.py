"""Where bytes of a context stand in files, as far as anybody wants to read of it."""

from __future__ import annotations

from bisect import bisect_right

from rlm_ci.text.printable import encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.context.context import Context, FileLines


def first_places(
    context: Context, start: int, end: int, most: int
) -> tuple[tuple[FileLines, ...], bool]:
    """The places of bytes ``start`` to ``end`` in the first ``most`` files, and if there are more.

    A span over all of a repository is asked for as easily as one over a line: lines are counted
    in those files alone. Raises DamagedError, StorageError.
    """
    pieces = context.files
    first = bisect_right(pieces.ends, start)
    last = min(first + most, len(pieces)) - 1
    if last < first:
        return (), False
    reached = pieces[last].end
    more = last + 1 < len(pieces) and pieces[last + 1].start < end
    return context.lines(start, min(end, reached)), more


def told(places: tuple[FileLines, ...], more: bool) -> str:  # noqa: FBT001 - a pair from above
    """``path:line`` or ``path:line-line`` for each, on one line."""
    names = [_told(place) for place in places]
    return ", ".join(names) + (" and more files" if more else "")


def _told(place: FileLines) -> str:
    path = printable(encodable(place.path))
    lines = f"{place.line_start}"
    if place.line_end != place.line_start:
        lines += f"-{place.line_end}"
    return f"{path}:{lines}"
