"""The listing of one prompt: hunks, then what the change calls and what uses it, as room allows."""

from __future__ import annotations

from functools import cache, cached_property

from rlm_ci.recursion import prompt_windows
from rlm_ci.recursion.nodes import LeafText
from rlm_ci.review.change_prompts.cut_hunks import cut_hunks
from rlm_ci.review.change_prompts.hunk_rows import (
    BLOCKS,
    CODE,
    ReadableFile,
    head,
    heading,
    joined,
    kind_rank,
    shown_rows,
    spans,
    wholes,
)
from rlm_ci.review.change_prompts.pieces import defined, rows_of, used_name
from rlm_ci.source import Symbol
from rlm_ci.source.test_files import is_trial
from rlm_ci.source.uses.references import (
    CALL,
    IMPORT,
    Definition,
    called_definitions,
    receivers_of,
    uses,
)
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rlm_ci.review.change.affected_files import AffectedFiles
    from rlm_ci.review.change_prompts.cut_hunks import FileHunks
    from rlm_ci.review.change_prompts.digest import ChangeDigest
    from rlm_ci.review.change_prompts.hunk_rows import LineEdit, PromptRow
    from rlm_ci.review.change_prompts.pieces import Piece

    Touched = Sequence[tuple[ReadableFile, Sequence[LineEdit]]]


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
        first = prompt_windows.name(next(iter(self._files), ""))
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


#: Uses that are shown of a name: one that went or has another signature, and any other.
_USES, _OTHER_USES = 6, 3
#: Definitions that a name may stand for.
_SAME_NAME = 3
#: What a line outside of definitions stands in.
_TOP = Symbol("module", "", 0, 0, is_public=True)


class Neighbours:
    """The files that a change affects, which are read when they are asked for."""

    def __init__(
        self, affected_files: AffectedFiles, changed: Sequence[str], files: Sequence[ReadableFile]
    ) -> None:
        self._near = affected_files
        self._changed = changed
        self._readable = {file.path: file for file in files}
        #: Lines of a file, and its uses of names.
        self.lines = cache(self._lines)
        self._uses = cache(self._uses_of)

    def file(self, path: str) -> ReadableFile:
        """A file beside the hunks of a prompt."""
        if path in self._readable:
            file = self._readable[path]
            return file.replace(heading=f"{file.heading}; its hunks are in another part")
        heading = "changed; not part of this review" if path in self._changed else "unchanged"
        return ReadableFile(path, heading, CODE, self.lines(path), ())

    def around(
        self, touched: Touched, is_shown: Callable[[str, int], bool]
    ) -> Iterator[tuple[str, tuple[int, int]]]:
        """Path and lines of what belongs to the edits of some files, the most important first."""
        for file, _ in touched:
            for edge in self._near.importers(file.gone) if file.gone else ():
                yield edge.target, (edge.line, edge.line)
        code = [(file, edits) for file, edits in touched if file.kind == CODE and edits]
        gone = self._rarest(used_name(name) for file, _ in code for name in file.removed)
        grave = self._rarest(used_name(name) for file, _ in code for name in file.resigned)
        names = self._rarest(name for file, edits in code for name in defined(file, edits))
        major = {*gone, *grave}
        for name in gone:
            yield from self._used(name, _USES, is_shown, imports=True)
        for name in grave:
            yield from self._used(name, _USES, is_shown)
        yield from self._called(code)
        for name in names:
            yield from self._used(name, 0 if name in major else _OTHER_USES, is_shown)

    def _rarest(self, names: Iterable[str]) -> list[str]:
        """Names by how often they are used: a rare one is rarely that of something else."""
        return sorted(dict.fromkeys(names), key=lambda name: len(self._by_name.get(name, ())))

    def _used(
        self, name: str, limit: int, is_shown: Callable[[str, int], bool], *, imports: bool = False
    ) -> Iterator[tuple[str, tuple[int, int]]]:
        """Uses of a name that are not shown yet, each wording once; those in tests last."""
        wordings: set[str] = set()
        for path, line, kind in self._by_name.get(name, ()):
            if len(wordings) == limit:
                break
            if (imports or kind != IMPORT) and not is_shown(path, line):
                # A parser may count more lines than git does.
                text = "".join(self.lines(path)[line - 1 : line]).strip()
                if text and text not in wordings:
                    wordings.add(text)
                    yield path, (line, line)

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[str, int, str]]]:
        """Path, line and kind of the uses of each name."""
        by_name: dict[str, list[tuple[str, int, str]]] = {}
        for path in sorted(self._paths, key=is_trial):
            definitions = {
                (symbol.line_start, symbol.name.rpartition(".")[2])
                for symbol in self._symbols(path)
            }
            for line, used, kind in self._uses(path):
                if (line, used) not in definitions:
                    by_name.setdefault(used, []).append((path, line, kind))
        return by_name

    def _called(self, touched: Touched) -> Iterator[tuple[str, tuple[int, int]]]:
        """The heads of what new lines call."""
        for file, edits in touched:
            new = {line for edit in edits for line in range(edit.at, edit.at + edit.added)}
            calls: dict[tuple[Definition, str], dict[str | None, None]] = {}
            for line, used, kind in self._uses(file.path):
                if kind == CALL and line in new:
                    definition = Definition(file.path, file.innermost.get(line, _TOP))
                    called_on = receivers_of(used, file.lines[line - 1])
                    calls.setdefault((definition, used), {}).update(dict.fromkeys(called_on))
            for (definition, used), receivers in calls.items():
                some = [Definition(*row) for row in self._defined.get(used, ())]
                for path, symbol in called_definitions(
                    definition, used, receivers, some[: _SAME_NAME + 1]
                ):
                    if len(some) <= _SAME_NAME:
                        yield path, head(self.lines(path), symbol)

    @cached_property
    def _defined(self) -> dict[str, list[tuple[str, Symbol]]]:
        """Definitions by the last part of their names; what makes a class by the name of it."""
        by_name: dict[str, list[tuple[str, Symbol]]] = {}
        for path in self._paths:
            for symbol in self._symbols(path):
                if symbol.kind in BLOCKS:
                    by_name.setdefault(used_name(symbol.name), []).append((path, symbol))
        return by_name

    @cached_property
    def _paths(self) -> Sequence[str]:
        return self._near.concerned(self._changed)

    def _symbols(self, path: str) -> Sequence[Symbol]:
        outline = self._near.outline(path)
        return () if outline is None else outline.symbols

    @cached_property
    def _contents(self) -> dict[str, bytes]:
        files = self._near.files(self._paths)
        contents = self._near.corpus.read(files) if files else ()
        return {file.path: content for file, content in zip(files, contents, strict=True)}

    def _lines(self, path: str) -> tuple[str, ...]:
        return tuple(self._contents[path].decode("utf-8", "surrogateescape").split("\n"))

    def _uses_of(self, path: str) -> Sequence[tuple[int, str, str]]:
        outline = self._near.outline(path)
        return () if outline is None else sorted(set(uses(outline, self._contents[path])))
