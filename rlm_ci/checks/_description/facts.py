"""What a change does, as far as a description is held against it, read when it is asked for."""

from __future__ import annotations

import re
from functools import cached_property

from rlm_ci.source.languages import is_code
from rlm_ci.source.test_files import is_trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.overview.sides import ChangeSides
    from rlm_ci.report.overview.changes import DependencyChange, NameChange

#: Bytes of a file, and of the patch, that are read.
_MAX_FILE, _MAX_PATCH = 1 << 20, 24 << 20
#: Bytes of the files of a change that names are looked for in.
_MAX_TEXT = 48 << 20
_COMMENT = re.compile(r"\s*(?:#(?![!\[])|//|/\*|\*|--|;|<!--|\"\"\"|'''|%)|\s*$")
#: What is behind a docstring, and no comment.
_CODE = re.compile(rb"\s*[^\s#]")
#: What formatters change: blanks, quotes, brackets around a whole, commas at the end of a list.
_LAYOUT = re.compile(r"[\s'\"`(),;]+")
#: Folders whose manifests build the documentation.
_OF_TEXTS = re.compile(r"(?:docs?|documentation|website)/", re.IGNORECASE)
_PARTS = re.compile(r"[.:#/$@()\s]+")
#: What a changed line names where tests have no file of their own, as in Rust.
_TEST = re.compile(r"test|spec\b|assert|expect\(", re.IGNORECASE)


class ChangeFacts:
    """A change between two commits, and what is in it."""

    def __init__(self, change: ChangeSet) -> None:
        self.change = change
        self._old, self._new = change.merge_base or "", change.head or ""

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The changed paths, a renamed file with both of its names."""
        return tuple(self.change.names())

    def count_is(self, number: int) -> bool:
        """Whether the change has so many files, a renamed one being one or two."""
        return number in (len(self.paths), len(self.change.files()))

    @cached_property
    def has_tests(self) -> bool:
        """Whether a changed file belongs to the tests, or an added line looks like one's."""
        return any(is_trial(path) or _TEST.search(path) for path in self.paths) or any(
            _TEST.search(line) for line in self._lines["+"]
        )

    # ── names ──

    def has(self, name: str) -> bool:
        """Whether a changed file has ``name``, or its parts, before or after, in text or path."""
        return _has(self._text, name)

    def adds(self, name: str) -> bool:
        """Whether an added line or the path of a file that is there now has it."""
        return _has(self._sides["+"], name)

    def removes(self, name: str) -> bool:
        """Whether a deleted line or the path of a file that was there has it."""
        return _has(self._sides["-"], name)

    def is_elsewhere(self, name: str) -> bool:
        """Whether any file of either side has the last part of ``name``."""
        is_path = "/" in name.strip("/") and not name.startswith(("@", "--"))
        word = name.rpartition("/")[2] if is_path else _parts(name)[-1]
        return any(self._search(word, commit) for commit in (self._new, self._old))

    def _search(self, word: str, commit: str) -> bool:
        repository = self.change.repository
        with repository.start_search([word.encode()], commit, (), "-i") as pending:
            return bool(pending.finish())

    @cached_property
    def _text(self) -> str:
        blobs = [oid for path in self.paths for oid in self.change.blobs(path) if oid]
        oids = list(dict.fromkeys(blobs))
        sizes = self.change.repository.sizes(oids)
        read, room = [], _MAX_TEXT
        for oid, size in zip(oids, sizes, strict=True):
            if 0 < size <= min(_MAX_FILE, room):
                room -= size
                read.append(oid)
        contents = self.change.repository.read_small(read, _MAX_FILE) if read else []
        texts = [item.decode("utf-8", "replace") for item in contents if item is not None]
        # A file that is too large to be read is in the patch, and so are links and modes.
        return "\n".join((*self.paths, *texts, *self._lines["+"], *self._lines["-"])).lower()

    @cached_property
    def _sides(self) -> dict[str, str]:
        kinds = self.change.kinds
        after = [path for path in self.paths if kinds[path] != "D"]
        before = [path for path in self.paths if kinds[path] != "A"]
        return {
            "+": "\n".join((*after, *self._lines["+"])).lower(),
            "-": "\n".join((*before, *self._lines["-"])).lower(),
        }

    # ── lines ──

    @cached_property
    def _patch(self) -> list[tuple[str, str, int, str]]:
        """Each changed line: path, ``+`` or ``-``, number on that side (1-based), and text."""
        start = self.change.repository.start_diff
        options = ("--patch", "--unified=0", "--no-renames")
        with start(self._old, self._new, *options, limit=_MAX_PATCH) as pending:
            printed = pending.finish()
        return list(_changed(printed.decode("utf-8", "replace").split("\n")))

    @cached_property
    def _lines(self) -> dict[str, list[str]]:
        results: dict[str, list[str]] = {"+": [], "-": []}
        for _, sign, _, line in self._patch:
            results[sign].append(line)
        return results

    @cached_property
    def code_lines(self) -> int:
        """How many changed lines are code of the product: no comment, text, test or new layout."""
        results: dict[str, list[tuple[str, int, str]]] = {}
        for path, sign, number, line in self._patch:
            if is_code(path) and not is_trial(path) and not _COMMENT.match(line):
                results.setdefault(path, []).append((sign, number, line))
        return sum(
            len(self._without_docstrings(path, lines))
            for path, lines in results.items()
            if not _is_laid_out(lines) and not (path.endswith(".py") and self._is_same_python(path))
        )

    @cached_property
    def build_files(self) -> Sequence[str]:
        """The workflows and manifests that differ by more than comments, but for those of texts."""
        from rlm_ci.overview.workflows import is_workflow
        from rlm_ci.source.packages.declared import ecosystem_of

        changed = dict.fromkeys(
            path for path, _, _, line in self._patch if not _COMMENT.match(line)
        )
        return [
            path for path in changed
            if not _OF_TEXTS.match(path) and (is_workflow(path) or ecosystem_of(path))
        ]  # fmt: skip

    def _without_docstrings(
        self, path: str, lines: Sequence[tuple[str, int, str]]
    ) -> Sequence[tuple[str, int, str]]:
        """The changed lines, by sign and number, without those of docstrings of Python."""
        if not path.endswith(".py"):
            return lines
        sides = {sign: self.change.read(path, _MAX_FILE, old=sign == "-") for sign in "-+"}
        texts = {sign: _docstring_lines(side) for sign, side in sides.items() if side is not None}
        return [line for line in lines if line[1] not in texts.get(line[0], ())]

    def _is_same_python(self, path: str) -> bool:
        """Whether both sides of a file do the same, but for comments and docstrings."""
        sides = [self.change.read(path, _MAX_FILE, old=old) for old in (True, False)]
        trees = [None if side is None else _without_texts(side) for side in sides]
        return trees[0] is not None and trees[0] == trees[1]

    # ── what others see ──

    @cached_property
    def sides(self) -> ChangeSides:
        from rlm_ci.overview.sides import ChangeSides

        return ChangeSides(self.change)

    @cached_property
    def names(self) -> Sequence[NameChange]:
        """The public names that the change adds, removes or alters."""
        from rlm_ci.overview.names import NameComparison

        return [item for item, _ in NameComparison(self.sides).changes()]

    @cached_property
    def dependencies(self) -> Sequence[DependencyChange]:
        """The packages that the program itself asks for now, and did not before."""
        from rlm_ci.overview.dependencies import dependencies
        from rlm_ci.report.overview.changes import ADDED

        return [
            item for item in dependencies(self.sides)
            if item.direct and item.ecosystem and item.change == ADDED and not item.group
        ]  # fmt: skip

    @cached_property
    def permissions(self) -> Sequence[str]:
        """What tokens of workflows may write now, and might not before: ``contents: write``."""
        from rlm_ci.overview.workflows import permissions

        items = permissions(self.sides)
        return [f"{item.scope}: {item.after}" for item in items if item.after != "read"]

    @cached_property
    def migrations(self) -> Sequence[str]:
        """The paths of migrations of stored data."""
        from rlm_ci.overview.workflows import migrations

        return [item.path for item in migrations(self.sides)]


def _parts(name: str) -> list[str]:
    results = [part.strip("-").lower() for part in _PARTS.split(name)]
    return [part for part in results if part] or [name.lower()]


def _has(text: str, name: str) -> bool:
    return name.lower() in text or all(part in text for part in _parts(name))


def _changed(lines: Iterable[str]) -> Iterator[tuple[str, str, int, str]]:
    """Path, sign, number and text of each changed line of a patch without context."""
    path, left, last = "", {"+": 0, "-": 0}, {"+": 0, "-": 0}
    for line in lines:
        sign = line[:1]
        if left["+"] + left["-"] and sign in left:
            yield path, sign, last[sign] - left[sign], line[1:]
            left[sign] -= 1
        elif line.startswith("@@ "):
            ranges = re.match(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line)
            if ranges:
                left = {"-": int(ranges[2] or 1), "+": int(ranges[4] or 1)}
                last = {"-": int(ranges[1]) + left["-"], "+": int(ranges[3]) + left["+"]}
        elif line.startswith(("--- a/", "+++ b/")):
            path = line[6:].rstrip("\t")


def _is_laid_out(lines: Sequence[tuple[str, int, str]]) -> bool:
    """Whether lines say the same as before, in another layout."""
    sides = ("".join(line for sign, _, line in lines if sign == side) for side in "+-")
    return len({_LAYOUT.sub("", side) for side in sides}) == 1


def _without_texts(content: bytes) -> list[str] | None:
    """What a Python file does, without its comments and docstrings; None for no valid Python."""
    import ast

    from rlm_ci.source.python import syntax

    read = syntax.read(content)
    if read is None:
        return None
    shapes = []
    waiting: list[ast.AST] = [read.module]
    while waiting:
        node = waiting.pop()
        values = [value for _, value in ast.iter_fields(node)]
        values_of = [value for value in values if not isinstance(value, (ast.AST, list))]
        shapes.append(f"{type(node).__name__} {values_of!r}")
        waiting += [child for child in ast.iter_child_nodes(node) if not _is_text(child)]
    return shapes


def _docstring_lines(content: bytes) -> frozenset[int]:
    """The lines (1-based) that docstrings of Python have to themselves; none of no valid Python."""
    import ast

    from rlm_ci.source.python import syntax

    read = syntax.read(content)
    if read is None:
        return frozenset()
    lines = read.source.split(b"\n")
    results = set[int]()
    for node in ast.walk(read.module):
        if isinstance(node, ast.Expr) and _is_text(node):
            first, last = node.lineno, node.end_lineno or node.lineno
            results.update(range(first, last + 1))
            if lines[first - 1][: node.col_offset].strip():
                results.discard(first)
            if _CODE.match(lines[last - 1], node.end_col_offset or 0):
                results.discard(last)
    return frozenset(results)


def _is_text(node: object) -> bool:
    """Whether a statement is a text alone, as a docstring is."""
    value = getattr(node, "value", None)
    return type(node).__name__ == "Expr" and isinstance(getattr(value, "value", None), str)
