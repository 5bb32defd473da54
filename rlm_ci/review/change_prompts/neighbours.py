"""What a change has to do with the rest: heads of what it calls, uses of what it changes."""

from __future__ import annotations

from functools import cache, cached_property

from rlm_ci.review.change_prompts.hunk_rows import BLOCKS, CODE, ReadableFile
from rlm_ci.review.change_prompts.pieces import defined, used_name
from rlm_ci.review.change_prompts.surroundings import head
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rlm_ci.review.change.affected_files import AffectedFiles
    from rlm_ci.review.change_prompts.hunk_rows import LineEdit

    Touched = Sequence[tuple[ReadableFile, Sequence[LineEdit]]]

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
