"""What was done so far, as a planner is told: a line for each action, excerpts below it.

Where there is no room for all, whole excerpts go first: search hits, then reads, then outputs of
sub-calls; those of the oldest iteration first, and of one iteration the last, or those of the
lowest rank. A hit leaves its place behind, for as long as there is room for that: in the newest
iteration longer than reads are shown. Then lines go, the oldest first.
"""

from __future__ import annotations

import json
import re

from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Final

    from rlm_ci.ask.iteration import Iteration, ReadResult, SearchResult, SubcallResult
    from rlm_ci.ask.planner.file_map import FileMap

    #: One thing that can be left out: an action's line, the places of the hits that it shows no
    #: more, or one of its excerpts.
    Item = tuple[int, int]

#: Bytes that are shown of a sub-call's output, the note on what is left out included.
OUTPUT_LIMIT: Final = 2048
_NOTE: Final = 64
#: Characters that are shown of a query, a reason, an error, a name.
_QUOTED: Final = 200
#: Ranges of bytes that are named of those which a sub-call was given.
_SPANS: Final = 4
#: Characters of a place in files, and bytes of a list of files by name.
_PLACE: Final = 400
_NAMED: Final = 600
_BACKTICKS: Final = re.compile("`+")
#: The numbers of an action's own line, and of its places, among its excerpts.
LINE: Final = -1
PLACES: Final = -2

#: What is left out first.
_SEARCH, _PLACES, _READ, _SUBCALL, _LINE = range(5)
#: The names of these in ``truncation``.
DROPPED: Final = (
    "searches_dropped", "places_dropped", "reads_dropped", "subcalls_dropped", "history_dropped",
)  # fmt: skip


class NoteExcerpt(Value):
    """A text under a head. ``section`` says what it is, as the prompt's meta.json tells it.

    ``place`` is what is told of it once there is no room for the text.
    """

    head: str
    text: str
    section: Mapping[str, Any]
    place: str = ""


class Action(Value):
    """A search, a read or a sub-call of ``iteration``; ``rank`` tells in which order it goes."""

    iteration: int
    rank: int
    line: str
    excerpts: tuple[NoteExcerpt, ...] = ()

    @property
    def is_subcall(self) -> bool:
        return self.rank == _SUBCALL

    @property
    def has_places(self) -> bool:
        return any(excerpt.place for excerpt in self.excerpts)


def fence(text: str) -> str:
    """Backticks, more than stand in ``text`` in a row."""
    return "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))


def quote(text: str, limit: int = _QUOTED) -> str:
    """The beginning of ``text`` on one line, in double quotes that nothing in it can close."""
    shown = text if len(text) <= limit else f"{text[:limit]}…"
    return printable(json.dumps(encodable(shown), ensure_ascii=False))


def shortened(output: str) -> str:
    """Head and tail of a sub-call's output, as a prompt shows it."""
    data = output.encode()
    if len(data) <= OUTPUT_LIMIT:
        return output
    half = (OUTPUT_LIMIT - _NOTE) // 2
    # A character that a cut goes through is left out: neither side could show it.
    head = data[:half].decode("utf-8", "ignore")
    tail = data[-half:].decode("utf-8", "ignore")
    left_out = len(data) - len(head.encode()) - len(tail.encode())
    return f"{head}\n[… {count(left_out, 'byte')} left out …]\n{tail}"


def actions(
    steps: Iterable[Iteration], redact: Callable[[str], str], atlas: FileMap
) -> tuple[Action, ...]:
    """All that was done, in order; ``atlas`` tells where it stands in files."""
    telling = _ProgressNotes(redact, atlas)
    return tuple(action for step in steps for action in telling.of(step))


def drop_order(told: Sequence[Action]) -> list[Item]:
    """Everything that can be left out, as (action, excerpt or LINE); what goes first is first."""
    items = [
        (at, number)
        for at, action in enumerate(told)
        for number in (LINE, *([PLACES] if action.has_places else []), *range(len(action.excerpts)))
    ]

    def key(item: Item) -> tuple[int, ...]:
        at, number = item
        action = told[at]
        if number == LINE:
            return _LINE, at
        if number == PLACES:
            is_newest = action.iteration == told[-1].iteration
            return (_READ, action.iteration + 1, -at) if is_newest else (_PLACES, at)
        return action.rank, action.iteration, -number, -at

    return sorted(items, key=key)


def dropped(told: Sequence[Action], items: Iterable[Item]) -> dict[str, int]:
    """How many of each kind ``items`` are."""
    counts = dict.fromkeys(DROPPED, 0)
    for at, number in items:
        kind = {LINE: _LINE, PLACES: _PLACES}.get(number, told[at].rank)
        counts[DROPPED[kind]] += 1
    return counts


def listed(entries: Sequence[str], room: int) -> str:
    """As many of ``entries`` as have room in so many bytes, in order."""
    shown = ""
    for number, entry in enumerate(entries):
        longer = f"{shown}; {entry}" if shown else entry
        if len(longer.encode()) > room - len("; …".encode()) * (number + 1 < len(entries)):
            return f"{shown}; …" if shown else ""
        shown = longer
    return shown


class _ProgressNotes:
    def __init__(self, redact: Callable[[str], str], atlas: FileMap) -> None:
        self._redact = redact
        self._atlas = atlas

    def of(self, step: Iteration) -> Iterator[Action]:
        for search in step.searches:
            yield self._search(step.iteration, search)
        for read in step.reads:
            yield self._read(step.iteration, read)
        for subcall in step.subcalls:
            yield self._subcall(step.iteration, subcall)

    def _search(self, iteration: int, search: SearchResult) -> Action:
        found = search.found
        hits = tuple(
            NoteExcerpt(
                f"{_short(hit.pointer)}, {count(hit.score, 'hit')}, the first at bytes"
                f" {hit.start_byte}-{hit.end_byte}{self._in_files(hit.start_byte, hit.end_byte)}"
                f"; bytes {hit.preview_start}-{hit.preview_end}",
                encodable(hit.preview),
                {"kind": "search", "start_byte": hit.preview_start, "end_byte": hit.preview_end},
                f"{_short(hit.pointer)} at {hit.start_byte}-{hit.end_byte}",
            )
            for hit in found.hits
        )
        line = (
            f"Search for {self._quote(search.query)}: {count(found.total_hits, 'hit')} in"
            f" {count(found.chunks_matched, 'chunk')}{self._by_name(search.query)}"
            f"{self._because(search.reason)}"
        )
        return Action(iteration, _SEARCH, line, hits)

    def _read(self, iteration: int, read: ReadResult) -> Action:
        excerpt = read.excerpt
        start, end = excerpt.start, excerpt.end
        where: dict[str, Any] = {"kind": "read", "start_byte": start, "end_byte": end}
        if read.of_subcall:
            where |= {"kind": "subcall", "pointer": read.pointer}
        told = f"bytes {start}-{end}" if end > start else "nothing is there"
        if end > start and not read.of_subcall:
            told += self._in_files(start, end)
        more = ", and there is more" if excerpt.truncated else ""
        pointer = _short(read.pointer)
        line = f"Read of {pointer}: {told}{more}{self._because(read.reason)}"
        if end == start:
            return Action(iteration, _READ, line)
        shown = NoteExcerpt(f"Bytes {start}-{end}", encodable(excerpt.text), where)
        return Action(iteration, _READ, line, (shown,))

    def _subcall(self, iteration: int, subcall: SubcallResult) -> Action:
        pointer = printable(subcall.pointer)
        line = f"Sub-call to {subcall.purpose}, {pointer}: {subcall.status}"
        if subcall.error:
            line += f", {self._quote(subcall.error)}"
        if subcall.spans:
            shown = [f"{start}-{end}" for start, end in subcall.spans[:_SPANS]]
            more = ["…"] if len(subcall.spans) > _SPANS else []
            line += f", given bytes {', '.join(shown + more)}"
        line += f", {count(subcall.output_bytes, 'byte')} of answer"
        if subcall.cut:
            line += ", cut off at the cap on its tokens"
        if not subcall.output:
            return Action(iteration, _SUBCALL, line)
        text = shortened(self._redact(encodable(subcall.output)))
        where = {"kind": "subcall", "pointer": subcall.pointer}
        return Action(
            iteration, _SUBCALL, line, (NoteExcerpt(f"What {pointer} says", text, where),)
        )

    def _in_files(self, start: int, end: int) -> str:
        """The files and lines in which bytes of the source stand."""
        where = self._atlas.where(start, end)
        return f", {quote(self._redact(where), _PLACE)}" if where else ""

    def _by_name(self, query: str) -> str:
        """The files whose names hold what was looked for."""
        found = self._atlas.named(query)
        entries = [f"{self._quote(one.path)}, {one.told}" for one in found]
        told = listed(entries, _NAMED)
        return f"; in names of files: {told}" if told else ""

    def _because(self, reason: str) -> str:
        return f". Reason: {self._quote(reason)}" if reason else ""

    def _quote(self, text: str) -> str:
        return quote(self._redact(text))


def _short(pointer: str) -> str:
    """A pointer without the object, which is the same in all of them."""
    return printable(pointer.rpartition("#")[2])
