"""A change that waits to be merged, and what is read of it, each once: its lines and its names."""

from __future__ import annotations

import re
from functools import cached_property

from rlm_ci.git.objects import parse_contents
from rlm_ci.overview.interfaces import EveryName, has_names, names_of
from rlm_ci.overview.names import MOST_FILES, NameComparison
from rlm_ci.overview.sides import ChangeSides
from rlm_ci.report.findings import Location
from rlm_ci.report.overview.changes import ADDED, MOVED, NameChange
from rlm_ci.source.imports.file_lookup import folder_of
from rlm_ci.source.languages import language
from rlm_ci.source.outline import outline
from rlm_ci.source.uses.references import BY_FOLDER
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.patches import Hunk

#: Languages in which a name may be defined more than once in a file, for other arguments.
_OVERLOADED = frozenset(("Java", "C#", "C++"))
#: Languages in which a file has each name once at its top.
_ONE_SCOPE = frozenset(("JavaScript", "Python", "Rust", "TSX", "TypeScript"))
#: Kinds of definitions of which the second of a name takes the place of the first, or is an error.
_DEFINED = frozenset(("class", "enum", "function", "interface", "struct", "trait", "type"))
#: What files of one package in Go may each have.
_REPEATED = frozenset(("init", "main"))
_WORD = re.compile(r"[^\W\d]\w*")


def _is_one_scope(path: str) -> bool:
    """Whether no name can stand twice in a file, or in a package of Go without its tests."""
    kind = language(path)
    return kind in _ONE_SCOPE or (kind == "Go" and has_names(path))


class NotLookedAt(Value):
    """A pull request or branch that could not be looked at, and why."""

    name: str
    reason: str


class OpenChange:
    """``change``, called ``name``: ``#12``, or a branch. A draft is one that is not ready yet."""

    def __init__(self, name: str, change: ChangeSet, *, is_draft: bool = False) -> None:
        self.name, self.change, self.is_draft = name, change, is_draft
        if change.head is None or change.merge_base is None:
            raise ValueError(f"a change of the {change.trigger} has no two trees")
        self.head, self.merge_base = change.head, change.merge_base

    @cached_property
    def commits(self) -> frozenset[str]:
        """Its commits, which its base lacks."""
        output = self.change.repository.run("rev-list", self.head, "--not", str(self.change.base))
        return frozenset(output.decode().split())

    @cached_property
    def hunks(self) -> Mapping[str, tuple[Hunk, ...]]:
        """Its hunks without context, by the new paths."""
        return self.change.hunks(0)[0]

    @cached_property
    def added_lines(self) -> Mapping[str, frozenset[int]]:
        """The numbers of the lines that it adds, by path."""
        return {
            path: frozenset(line.new for hunk in hunks for line in hunk.lines if line.new)
            for path, hunks in self.hunks.items()
        }

    @cached_property
    def added_words(self) -> frozenset[str]:
        """The words in the lines that it adds."""
        lines = (line for hunks in self.hunks.values() for hunk in hunks for line in hunk.lines)
        return frozenset(
            word for line in lines if line.kind == "+" for word in _WORD.findall(line.text)
        )

    @cached_property
    def paths(self) -> frozenset[str]:
        """Its paths on both sides."""
        files = self.sides.files
        return frozenset(name for file in files for name in (file.path, file.old_path) if name)

    @cached_property
    def sides(self) -> ChangeSides:
        return ChangeSides(self.change)

    @cached_property
    def backwards(self) -> ChangeSides:
        """The same change, undone: its base is our head, so uses of names are looked for there."""
        change = self.change.replace(
            base=self.head, merge_base=self.head, head=self.merge_base, trigger="range"
        )
        return ChangeSides(change)

    @cached_property
    def names(self) -> tuple[tuple[NameChange, str], ...]:
        """What it does to public names, each with the file that has the name at the base."""
        return tuple(NameComparison(self.sides, EveryName(self.sides)).changes())

    @cached_property
    def added_names(self) -> Mapping[tuple[str, str, str], NameChange]:
        """The names that it adds, by their file, or by the package whose files share names."""
        rows = {}
        for row in (*(row for row, _ in self.names), *self._hidden_names()):
            kind = language(row.path)
            # A name that came with its file is added by nobody.
            is_brought = row.change == MOVED and row.path in self.sides.old_tree
            if row.change == ADDED or is_brought:
                scope = f"{folder_of(row.path)}/" if kind in BY_FOLDER else row.path
                overload = self.text(row)[0] if kind in _OVERLOADED else ""
                rows[scope, row.name, overload] = row
        return rows

    def _hidden_names(self) -> Iterator[NameChange]:
        """What it defines at the top of its files, public or not, in tests and scripts, too."""
        files = [
            file for file in self.sides.files if file.status != "D" and _is_one_scope(file.path)
        ]
        if files[MOST_FILES:]:
            self.sides.limit(
                f"new names of {count(len(files) - MOST_FILES, 'file')} of {self.name}"
            )
        self.sides.load((file.old_path or file.path for file in files[:MOST_FILES]), old=True)
        self.sides.load((file.path for file in files[:MOST_FILES]), old=False)
        for file in files[:MOST_FILES]:
            before = self.sides.read(file.old_path or file.path, old=True)
            after = self.sides.read(file.path, old=False)
            old_names = {symbol.name for symbol in outline(file.path, before or b"").symbols}
            for symbol in outline(file.path, after or b"").symbols:
                is_new = symbol.name not in old_names and symbol.name not in _REPEATED
                if symbol.kind in _DEFINED and "." not in symbol.name and is_new:
                    yield NameChange(ADDED, symbol.name, symbol.kind, file.path, symbol.line_start)

    def text(self, row: NameChange) -> tuple[str, bytes]:
        """The signature and the source of a name that the head has; of an import its line."""
        content = self.sides.fetch(row.path, old=False) or b""
        lines = content.split(b"\n")
        name = names_of(row.path, content, every=True).names.get(row.name)
        if name is None:
            return "", b"".join(lines[row.line - 1 : row.line])
        return name.signature, b"\n".join(lines[name.line_start - 1 : name.line_end])

    def location(self, path: str, line: int | None, *, old: bool = False) -> Location:
        """A line, or a file, of its head or its base, with the text that stands there."""
        side, commit = ("old", self.merge_base) if old else ("new", self.head)
        tree = self.sides.old_tree if old else self.sides.new_tree
        entry = tree.get(path)
        if not line or entry is None:
            return Location(path, side=side, blob=entry.oid if entry else None)
        with self.change.repository.start_read([f"{commit}:{path}"]) as pending:
            content = parse_contents(pending.finish(), 1)[0] or b""
        text = b"".join(content.split(b"\n")[line - 1 : line]).decode("utf-8", "replace")
        return Location(path, line, line, side, entry.oid, text)
