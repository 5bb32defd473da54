"""Python source with its tree, and the places of its nodes."""

from __future__ import annotations

import bisect
import itertools
import re
import warnings

from rlm_ci.canary.forms import UnparsableError
from rlm_ci.canary.splicing import Edit, encoded, spliced
from rlm_ci.source.python import tests
from rlm_ci.source.python.syntax import parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable
    from typing import Any

#: As the tokenizer counts lines; no other character ends one.
_NEWLINE = re.compile(rb"\r\n|\r|\n")
_BLANKS = b" \t\x0c"
_ENDED = re.compile(rb"[ \t\x0c]*+(?:[#\r\n]|\Z)")
_OWN = re.compile(rb"\bdef[ \t]+(assert\w+)")
#: Blank lines after a test that may be removed.
_FEW = 50
#: A place for line breaks, so that a new statement has as many lines as the old one.
PAD = "\0"


class PythonSource:
    """A text, its tree, and the bytes that positions of the tree count."""

    def __init__(self, text: str) -> None:
        self._mark = "\ufeff" if text.startswith("\ufeff") else ""
        text = text.removeprefix(self._mark)
        if (tree := parsed(text)) is None:
            raise UnparsableError("no Python of this version")
        self.tree, self.raw = tree, text.encode()
        self.tests = tests.of(tree)
        self._starts = [0, *(match.end() for match in _NEWLINE.finditer(self.raw))]
        #: Functions of this file with names like those of unittest.
        self.own_asserts = {name.decode() for name in _OWN.findall(self.raw)}
        self.newline = match[0].decode() if (match := _NEWLINE.search(self.raw)) else "\n"

    def span(self, node: ast.AST) -> tuple[int, int]:
        """The first and last byte of a node, with its decorators."""
        first = first_of(node)
        start = self._starts[first.lineno - 1] + first.col_offset
        if first is not node:
            start = self.raw.rindex(b"@", 0, start)
        end = self._starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, end

    def text(self, node: ast.AST, edits: Iterable[Edit] = ()) -> str:
        start, end = self.span(node)
        moved = [Edit(edit.start - start, edit.end - start, edit.text) for edit in edits]
        return spliced(self.raw[start:end], moved)

    def indent(self, node: ast.AST) -> str:
        before = self._blanks_before(self.span(node)[0])
        return "" if before is None else before.decode()

    def alone(self, node: ast.stmt) -> bool:
        """Whether a node has its lines to itself, so that it may become a block."""
        start, end = self.span(node)
        line = self._line(start)
        above = self.raw[max(self._starts[line] - 3, 0) : self._starts[line]].rstrip(b"\r\n")
        if self._blanks_before(start) is None or above.endswith(b"\\"):
            return False
        return bool(_ENDED.match(self.raw, end))

    def line_end(self, offset: int) -> int:
        match = _NEWLINE.search(self.raw, offset)
        return match.start() if match else len(self.raw)

    def blank_lines(self, line: int) -> list[Edit]:
        """Edits that remove the blank lines after a line, one by one."""
        edits = []
        for start, end in itertools.pairwise(self._starts[line : line + _FEW]):
            if self.raw[start:end].strip():
                break
            edits.append(Edit(start, end, ""))
        return edits

    def replaced(self, node: ast.AST, new: str) -> Edit:
        """``new`` in place of a node, padded to as many lines if possible."""
        start, end = self.span(node)
        gone = lines(self.raw[start:end]) - lines(encoded(new))
        new = new.replace(PAD, self.newline * max(gone, 0), 1).replace(PAD, "")
        return Edit(start, end, new)

    def more_lines(self, edit: Edit) -> int:
        return lines(encoded(edit.text)) - lines(self.raw[edit.start : edit.end])

    def edited(self, edits: Iterable[Edit]) -> str | None:
        """The whole text with edits; None if that is no Python."""
        try:
            text = spliced(self.raw, edits)
            _compile(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        return self._mark + text

    def _line(self, offset: int) -> int:
        return bisect.bisect_right(self._starts, offset) - 1

    def _blanks_before(self, offset: int) -> bytes | None:
        """The indentation of a line, if a place on it has only white space before it."""
        start = self._starts[self._line(offset)]
        at = offset
        while at > start and self.raw[at - 1] in _BLANKS:
            at -= 1
        return self.raw[start:offset] if at == start else None


def first_of(node: ast.AST) -> Any:
    """The node, or its first decorator."""
    return min([node, *getattr(node, "decorator_list", ())], key=lambda child: child.lineno)


def _compile(text: str) -> None:
    with warnings.catch_warnings():  # its warnings are for its owner
        warnings.simplefilter("ignore")
        compile(text, "<tests>", "exec", dont_inherit=True)


def lines(raw: bytes) -> int:
    return sum(1 for _ in _NEWLINE.finditer(raw))
