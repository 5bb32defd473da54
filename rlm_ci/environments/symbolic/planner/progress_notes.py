"""Earlier iterations in a prompt: a line for each action, with excerpts below it.

If there is no room for all, excerpts are dropped first: search hits, then reads, then counts, then
outputs of sub-calls; the oldest iteration first, and within an iteration the last or lowest
ranked. The place of a dropped hit stays while there is room; in the newest iteration, places stay
longer than reads. Then lines are dropped, the oldest first.
"""

from __future__ import annotations

import json
import re

from rlm_ci.context.search.pattern_counts import CHUNK, FILE, GROUPS
from rlm_ci.environments.symbolic.iteration import unread
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Final

    from rlm_ci.context.context import Hit
    from rlm_ci.context.scope import Scope
    from rlm_ci.environments.symbolic.iteration import (
        CountResult,
        Iteration,
        MapResult,
        ReadResult,
        SearchResult,
        SubcallResult,
    )
    from rlm_ci.environments.symbolic.planner.file_map import FileMap

    #: What can be dropped: the number of an action, and LINE, PLACES (of its dropped hits) or the
    #: number of an excerpt.
    Item = tuple[int, int]

#: Bytes that are shown of a sub-call's output, and of the note about the rest.
OUTPUT_LIMIT: Final = 2048
_NOTE: Final = 64
#: Characters of a query, a reason, an error, a name.
_QUOTED: Final = 200
#: What a count counts by.
_COUNTED_BY: Final = {GROUPS: "different value", FILE: "file", CHUNK: "chunk"}
#: Ranges of bytes of a sub-call's input.
_SPANS: Final = 4
#: Characters of a place in files, and bytes of a list of files by name.
_PLACE: Final = 400
_NAMED: Final = 600
_BACKTICKS: Final = re.compile("`+")
#: The numbers of an action's line, and of its places, among its excerpts.
LINE: Final = -1
PLACES: Final = -2

#: The order in which items are dropped.
_SEARCH, _PLACES, _READ, _COUNT, _SUBCALL, _LINE = range(6)
#: The names of these in ``truncation``.
DROPPED: Final = (
    "searches_dropped", "places_dropped", "reads_dropped", "counts_dropped", "subcalls_dropped",
    "history_dropped",
)  # fmt: skip


class NoteExcerpt(Value):
    """A text under a head; ``section`` describes it in meta.json, ``replacement`` replaces it."""

    head: str
    text: str
    section: Mapping[str, Any]
    replacement: str = ""


class Action(Value):
    """What was done in ``iteration``; the lowest ``rank`` is dropped first."""

    iteration: int
    rank: int
    line: str
    excerpts: tuple[NoteExcerpt, ...] = ()

    @property
    def is_subcall(self) -> bool:
        return self.rank == _SUBCALL

    @property
    def has_places(self) -> bool:
        return any(excerpt.replacement for excerpt in self.excerpts)


def fence(text: str) -> str:
    """More backticks than ``text`` has in a row."""
    return "`" * max(3, 1 + max(map(len, _BACKTICKS.findall(text)), default=0))


def quote(text: str, limit: int = _QUOTED) -> str:
    """The beginning of ``text`` as JSON on one line."""
    shown = text if len(text) <= limit else f"{text[:limit]}…"
    return printable(json.dumps(encodable(shown), ensure_ascii=False))


def shortened(output: str) -> str:
    """Head and tail of a sub-call's output, as a prompt shows it."""
    data = output.encode()
    if len(data) <= OUTPUT_LIMIT:
        return output
    half = (OUTPUT_LIMIT - _NOTE) // 2
    # A character that is cut in two is left out.
    head = data[:half].decode("utf-8", "ignore")
    tail = data[-half:].decode("utf-8", "ignore")
    left_out = len(data) - len(head.encode()) - len(tail.encode())
    return f"{head}\n[… {count(left_out, 'byte')} left out …]\n{tail}"


def actions(
    steps: Iterable[Iteration], redact: Callable[[str], str], atlas: FileMap
) -> tuple[Action, ...]:
    """All actions, in order; ``atlas`` names their places in files."""
    notes = _ProgressNotes(redact, atlas)
    return tuple(action for step in steps for action in notes.of(step))


def drop_order(done: Sequence[Action]) -> list[Item]:
    """All items, in the order in which they are dropped."""
    items = [
        (at, number)
        for at, action in enumerate(done)
        for number in (LINE, *([PLACES] if action.has_places else []), *range(len(action.excerpts)))
    ]

    def key(item: Item) -> tuple[int, ...]:
        at, number = item
        action = done[at]
        if number == LINE:
            return _LINE, at
        if number == PLACES:
            is_newest = action.iteration == done[-1].iteration
            return (_READ, action.iteration + 1, -at) if is_newest else (_PLACES, at)
        return action.rank, action.iteration, -number, -at

    return sorted(items, key=key)


def dropped(done: Sequence[Action], items: Iterable[Item]) -> dict[str, int]:
    """The number of ``items`` of each kind."""
    # A run without counts has a state without them.
    counts = {name: 0 for name in DROPPED if name != DROPPED[_COUNT]}
    for at, number in items:
        kind = {LINE: _LINE, PLACES: _PLACES}.get(number, done[at].rank)
        counts[DROPPED[kind]] = counts.get(DROPPED[kind], 0) + 1
    return counts


def listed(entries: Sequence[str], room: int) -> str:
    """As many of ``entries``, in order, as fit in ``room`` bytes."""
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
        for counted in step.counts:
            yield self._count(step.iteration, counted)
        for read in step.reads:
            yield self._read(step.iteration, read)
        for subcall in step.subcalls:
            yield self._subcall(step.iteration, subcall)
        for result in step.maps:
            yield self._map(step.iteration, result)

    def _search(self, iteration: int, search: SearchResult) -> Action:
        result = search.query_result
        hits = tuple(
            self._hit(hit, f"{count(hit.score, 'hit')}, the first at bytes") for hit in result.hits
        )
        line = (
            f"Search for {self._quote(search.query)}: {count(result.total_hits, 'hit')} in"
            f" {count(result.chunks_matched, 'chunk')}{self._by_name(search.query)}"
            f"{self._because(search.reason)}"
        )
        return Action(iteration, _SEARCH, line, hits)

    def _hit(self, hit: Hit, what: str) -> NoteExcerpt:
        return NoteExcerpt(
            f"{_short(hit.pointer)}, {what}"
            f" {hit.start_byte}-{hit.end_byte}{self._in_files(hit.start_byte, hit.end_byte)}"
            f"; bytes {hit.preview_start}-{hit.preview_end}",
            encodable(hit.preview),
            {"kind": "search", "start_byte": hit.preview_start, "end_byte": hit.preview_end},
            f"{_short(hit.pointer)} at {hit.start_byte}-{hit.end_byte}",
        )

    def _count(self, iteration: int, counted: CountResult) -> Action:
        query, pattern_count = counted.request, counted.pattern_count
        line = f"Count {counted.pointer} of {self._quote(query.pattern)}{self._within(query.scope)}"
        because = self._because(query.reason)
        if pattern_count is None:
            line += f": {self._quote(counted.fact['error'])}{because}"
            return Action(iteration, _COUNT, line)
        line += (
            f": {count(pattern_count.hits, 'hit')} in {count(pattern_count.lines, 'line')} of"
            f" {count(pattern_count.chunks, 'chunk')}{because}"
        )
        shown = [self._hit(hit, "a hit at bytes") for hit in counted.hits]
        if pattern_count.rows:
            where: dict[str, Any] = {"kind": "count", "pointer": counted.pointer}
            if pattern_count.captured:  # text of the source
                where["spans"] = pattern_count.captured
            some = f", the {len(pattern_count.rows)} with the most hits" * (
                pattern_count.values > len(pattern_count.rows)
            )
            head = f"{count(pattern_count.values, _COUNTED_BY[pattern_count.by])}{some}"
            shown.insert(0, NoteExcerpt(head, counted.rows, where))
        return Action(iteration, _COUNT, line, tuple(shown))

    def _read(self, iteration: int, read: ReadResult) -> Action:
        excerpt = read.excerpt
        start, end = excerpt.start, excerpt.end
        where: dict[str, Any] = {"kind": "read", "start_byte": start, "end_byte": end}
        if read.of_subcall:
            where |= {"kind": "subcall", "pointer": read.pointer}
        span = "nothing is there"
        shown: tuple[NoteExcerpt, ...] = ()
        if end > start:
            files = "" if read.of_subcall else self._in_files(start, end)
            span = f"bytes {start}-{end}{files}"
            shown = (NoteExcerpt(f"Bytes {start}-{end}", encodable(excerpt.text), where),)
        more = ", and there is more" if excerpt.truncated else ""
        line = f"Read of {_short(read.pointer)}: {span}{more}{self._because(read.reason)}"
        return Action(iteration, _READ, line, shown)

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

    def _map(self, iteration: int, done: MapResult) -> Action:
        request, pointer = done.request, printable(done.pointer)
        line = f"Map {pointer} to {request.purpose}, {self._quote(request.prompt)}"
        line += f"{self._within(request.scope)}: {done.status}"
        if done.error:
            line += f", {self._quote(done.error)}"
        if done.parts:
            number, missing = unread([{"maps": [done.to_dict()]}])
            line += f"; {number - len(missing)} of {count(number, 'part')} read"
            if missing:
                some = ", ".join(missing[:_SPANS]) + ", …" * (len(missing) > _SPANS)
                line += f", not bytes {some}"
            line += f"; {count(len(done.output.encode()), 'byte')} of result by {request.reduce}"
        line += self._because(request.reason)
        if not done.output:
            return Action(iteration, _SUBCALL, line)
        text = shortened(self._redact(encodable(done.output)))
        where = {"kind": "subcall", "pointer": done.pointer}
        return Action(
            iteration, _SUBCALL, line, (NoteExcerpt(f"What {pointer} says", text, where),)
        )

    def _within(self, scope: Scope) -> str:
        chunks = f" in chunks {self._quote(scope.chunks)}" if scope.chunks else ""
        return chunks + (f" in files {self._quote(', '.join(scope.files))}" if scope.files else "")

    def _in_files(self, start: int, end: int) -> str:
        where = self._atlas.where(start, end)
        return f", {quote(self._redact(where), _PLACE)}" if where else ""

    def _by_name(self, query: str) -> str:
        rows = self._atlas.matching(query)
        names = listed([f"{self._quote(row.path)}, {row.size}" for row in rows], _NAMED)
        return f"; in names of files: {names}" if names else ""

    def _because(self, reason: str) -> str:
        return f". Reason: {self._quote(reason)}" if reason else ""

    def _quote(self, text: str) -> str:
        return quote(self._redact(text))


def _short(pointer: str) -> str:
    """A pointer without the object id."""
    return printable(pointer.rpartition("#")[2])
