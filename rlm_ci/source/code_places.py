"""What a place in a file is, by the file's tree: code that runs, a comment, or a text."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property
from itertools import accumulate, islice

from rlm_ci.source import grammars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

#: So many places of a file are looked at; a person writes fewer.
_ASKED = 2000
#: Matches of one expression in a file that are looked at.
_MATCHES = 400
#: Code in such a node does not run, unless it is interpolated.
_TEXTS = ("string", "heredoc", "char_literal", "character_literal", "regex", "jsx_text")
_PUT_IN = ("interpolation", "substitution")
#: What such a node names is defined there, or begun with a value.
_DEFINITIONS = frozenset((
    "abstract_method_signature", "field_initializer", "function_declaration", "function_declarator",
    "function_definition", "function_item", "function_signature", "method", "method_declaration",
    "method_definition", "method_signature", "singleton_method",
))  # fmt: skip


class CodePlaces:
    """Whether something is said or done, by the tree of a file; done, where there is no tree."""

    def __init__(self, language: str, source: bytes) -> None:
        self._language = language
        self._source = source
        self._starts: list[int] = []
        self._root: Node | None = None
        self._left = _ASKED

    def does(self, number: int, line: str, column: int) -> bool:
        kinds = self._kinds(number, line, column)
        if not kinds:
            return self._left > 0
        if len(kinds) > 1 and kinds[-2] in _DEFINITIONS:
            return False
        for kind in reversed(kinds):
            if any(word in kind for word in _PUT_IN):
                return True
            if "comment" in kind or kind == "text" or any(word in kind for word in _TEXTS):
                return False
        return True

    def is_text(self, number: int, line: str, column: int) -> bool:
        """Whether what looks like a comment is none."""
        kinds = self._kinds(number, line, column)
        return bool(kinds) and not any("comment" in kind for kind in kinds)

    def matches(self, pattern: str) -> Iterator[tuple[re.Match[str], int]]:
        """What an expression finds where it is no comment and no text, with its line from 1.

        White space and signs of a shell at the beginning of a match do not count.
        """
        text, starts = self._text
        for match in islice(re.finditer(pattern, text) if pattern else (), _MATCHES):
            begin = match.start() + len(match[0]) - len(match[0].lstrip(";&|{ \n"))
            line = bisect_right(starts, begin)
            row = text[starts[line - 1] : starts[line] - 1]
            if self.does(line, row, begin - starts[line - 1]):
                yield match, line

    @cached_property
    def _text(self) -> tuple[str, list[int]]:
        """The whole text, and where each of its lines begins."""
        text = self._source.decode("utf-8", "surrogateescape")
        lengths = (len(row) + 1 for row in text.split("\n"))
        return text, list(accumulate(lengths, initial=0))

    def _kinds(self, number: int, line: str, column: int) -> list[str]:
        """What holds the character ``column`` of a line: the file is parsed when first asked."""
        if not self._starts:
            lengths = (len(row) + 1 for row in self._source.split(b"\n"))
            self._starts = list(accumulate(lengths, initial=0))
            self._root = grammars.parse(self._language, self._source)
        if self._root is None or not self._left:
            return []
        self._left -= 1
        before = line[:column].encode("utf-8", "surrogateescape")
        return grammars.kinds_at(self._root, self._starts[number - 1] + len(before))
