"""The listing of one prompt: hunks, then definitions and other files as far as there is room."""

from __future__ import annotations

from rlm_ci.recursion.nodes import LeafText
from rlm_ci.recursion.prompt_windows import name
from rlm_ci.review.change_prompts.cut_hunks import cut_hunks
from rlm_ci.review.change_prompts.hunk_rows import (
    heading,
    joined,
    kind_rank,
    shown_rows,
)
from rlm_ci.review.change_prompts.pieces import rows_of
from rlm_ci.review.change_prompts.surroundings import spans, wholes
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.review.change_prompts.cut_hunks import FileHunks
    from rlm_ci.review.change_prompts.digest import ChangeDigest
    from rlm_ci.review.change_prompts.hunk_rows import LineEdit, PromptRow, ReadableFile
    from rlm_ci.review.change_prompts.neighbours import Neighbours
    from rlm_ci.review.change_prompts.pieces import Piece

#: The share of the spare bytes for whole definitions.
_DEFINITIONS = 0.6
#: The most bytes above lines that are shown apart, and of a line's number.
_ABOVE, _NUMBER = 24, 9
AROUND = "=== lines elsewhere: what is called, and what uses what changed ==="


class ChangePrompt(Value):
    """One prompt's share of a change; ``part`` says which, "" for all of it.

    ``label`` also says what it is about.

    ``text`` is the listing: hostile data, which belongs between fences. ``paths`` are the changed
    files whose hunks it shows, also deleted ones; ``shown`` are all lines of the new side in it,
    each as path, first and last line. ``gone`` are the deleted files, as they were. ``hunks`` are
    the rows of the changed files, and ``missing`` pairs of path and reason for lines that are too
    long for it.
    """

    part: str
    label: str
    text: str
    paths: tuple[str, ...]
    shown: tuple[tuple[str, int, int], ...]
    gone: tuple[LeafText, ...] = ()
    hunks: tuple[FileHunks, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()

    def cut(self, room: int) -> list[ChangePrompt]:
        """Its hunks in prompts of at most ``room`` bytes, without lines elsewhere.

        Nothing where these would not be smaller.
        """
        groups, missing = cut_hunks(self.hunks, room)
        prompts = [
            self.replace(
                part=f"piece {number} of {len(groups)} of {self.part or 'all'}"
                if len(groups) > 1
                else self.part,
                text="\n".join(row.text for _, rows in hunks for row in rows),
                paths=tuple(dict.fromkeys(path for path, _ in hunks)),
                hunks=tuple(hunks),
                missing=(*self.missing, *missing) if number == 1 else (),
            )
            for number, hunks in enumerate(groups, 1)
        ]
        is_smaller = all(len(prompt.text) < len(self.text) for prompt in prompts)
        return prompts if room > 0 and is_smaller else []

    @property
    def files(self) -> tuple[str, ...]:
        """All files of the new side of which it shows lines."""
        return tuple(dict.fromkeys(path for path, _, _ in self.shown))


class ChangePrompts(Value):
    """All prompts; ``missing`` are pairs of path and reason for what no prompt shows.

    ``unread`` are documents that no prompt shows, as they are too many beside the code. ``digest``
    is of the whole change, also where only some of its files are asked about.
    """

    prompts: tuple[ChangePrompt, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    digest: ChangeDigest | None = None
    unread: tuple[str, ...] = ()


class _FileListing:
    """What a prompt shows of one file: ``spans`` of it in any order, or parts of its rows."""

    def __init__(self, file: ReadableFile, context: int, room: int) -> None:
        self.file = file
        self.edits: list[LineEdit] = []
        self.parts: list[tuple[Sequence[PromptRow], int]] = []
        self.spans: list[tuple[int, int]] = []
        self._shown: set[int] = set()
        self._removed = {edit.at: edit.removed for edit in file.edits}
        self._context, self._room = context, room

    def add(self, piece: Piece) -> None:
        if piece.part is None:
            self.edits = sorted((*self.edits, *piece.edits), key=lambda edit: edit.at)
            self.show(*spans(self.file, piece.edits, self._context))
        else:
            self.parts.append((rows_of(piece, self._context, self._room), piece.part[0]))

    def show(self, *more: tuple[int, int]) -> None:
        self.spans += more
        self._shown.update(n for low, high in more for n in range(low, high + 1))

    def shows(self, line: int) -> bool:
        return line in self._shown

    def cost(self, span: tuple[int, int]) -> int:
        """About the bytes of the lines of ``span`` that are not shown yet."""
        new = [n for n in range(span[0], span[1] + 1) if n not in self._shown]
        lines = [line for n in new for line in self._removed.get(n, ())]
        lines += [self.file.lines[n - 1] for n in new if n <= len(self.file.lines)]
        size = sum(len(line.encode("utf-8", "replace")) + _NUMBER for line in lines)
        above = _ABOVE + (0 if self.spans else heading(self.file).size)
        return size + above if new else 0

    def rows(self) -> Iterator[PromptRow]:
        if self.spans or not self.parts:
            yield heading(self.file)
            shown = joined(self.spans, len(self.file.lines) + 1)
            yield from shown_rows(self.file, shown, self._room)
        for listed, first in sorted(self.parts, key=lambda part: part[1]):
            more = " (continued)" if first else ""
            yield heading(self.file.replace(heading=f"{self.file.heading}{more}"))
            yield from listed


class Listing:
    """The listing of the pieces of one prompt, of at most ``room`` bytes."""

    def __init__(self, group: Sequence[Piece], context: int, room: int) -> None:
        self._room = room
        self._files: dict[str, _FileListing] = {}
        for piece in sorted(group, key=lambda piece: kind_rank(piece.file)):
            path = piece.file.path
            self._files.setdefault(path, _FileListing(piece.file, context, room)).add(piece)
        #: Files whose hunks are not in this prompt.
        self._others: dict[str, _FileListing] = {}

    def fill(self, neighbours: Neighbours, spare: int) -> None:
        """Show whole definitions, and lines of other places, of at most ``spare`` bytes."""
        some = [
            (file, span) for file in self._files.values() for span in wholes(file.file, file.edits)
        ]
        costs = [(listing.cost(span), at) for at, (listing, span) in enumerate(some)]
        left = int(_DEFINITIONS * spare)
        for cost, at in sorted(costs):
            if cost > left:
                break
            some[at][0].show(some[at][1])
            left -= cost
            spare -= cost
        touched = [(file.file, file.edits) for file in self._files.values()]
        for path, span in neighbours.around(touched, self._shows):
            listing = self._files.get(path) or self._others.get(path)
            if listing is None:
                listing = _FileListing(neighbours.file(path), 0, self._room)
            cost = listing.cost(span)
            if 0 < cost <= spare:
                spare -= cost
                listing.show(span)
                if path not in self._files:
                    self._others[path] = listing

    def _shows(self, path: str, line: int) -> bool:
        listing = self._files.get(path) or self._others.get(path)
        return listing is not None and listing.shows(line)

    def prompt(self, number: int, total: int, silent: str) -> ChangePrompt:
        texts: list[str] = []
        shown: list[tuple[str, int, int]] = []
        hunks: list[FileHunks] = []
        for path, listing in self._files.items():
            listed = tuple(listing.rows())
            hunks.append((path, listed))
            texts += [row.text for row in listed]
            shown += _runs(path, [row.new for row in listed if row.new])
        if self._others:
            texts.append(AROUND)
        for path, listing in sorted(self._others.items()):
            listed = tuple(listing.rows())
            texts += [row.text for row in listed]
            shown += _runs(path, [row.new for row in listed if row.new])
        if silent:
            texts.append(silent)
        number_and_total = f"part {number} of {total}"
        first = name(next(iter(self._files), ""))
        more = f" and {count(len(self._files) - 1, 'more file')}" if len(self._files) > 1 else ""
        label = f"{number_and_total}: {first}{more}"
        gone = tuple(
            _before(listing.file) for listing in self._files.values() if listing.file.is_gone
        )
        part = number_and_total if total > 1 else ""
        return ChangePrompt(
            part, label, "\n".join(texts), tuple(self._files), tuple(shown), gone, tuple(hunks)
        )


def _before(file: ReadableFile) -> LeafText:
    """A deleted file as it was."""
    lines = (line for edit in file.edits for line in edit.removed)
    text = "".join(f"{line}\n" for line in lines)
    return LeafText.of((file.path, file.blob, text.encode("utf-8", "surrogateescape"), 1, None))


def _runs(path: str, numbers: Sequence[int]) -> list[tuple[str, int, int]]:
    return [(path, low, high) for low, high in joined(((n, n) for n in numbers), 1 << 31, gap=1)]
