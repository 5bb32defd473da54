"""What of a Rust source is tests. Read, never run.

In Rust, tests live beside what they test, in any file: what tells them are attributes.
"""

from __future__ import annotations

import re

from rlm_ci.loop.statements import words

#: How the last name of an attribute ends that makes a function a test, and others that do.
_TESTS = re.compile(r"(?:\w{1,80}::)*(?:\w{0,80}test|bench|test_case|quickcheck)(?![\w:])")
_ONLY_TESTS = re.compile(r"cfg\((?:all\((?:.*[(,])?)?test\b")
_BLANK = re.compile(r"[^\n]")
_OPEN, _CLOSED = "([{", ")]}"


class Source:
    """The text of a file, taken apart: where its tests stand."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._words = list(words("rs", text))
        self._spans: list[tuple[int, int]] = []
        self._read()

    def tests(self) -> str:
        """The text with nothing but its tests in it, each in its line; "" without any."""
        if not self._spans:
            return ""
        pieces, at = [], 0
        for start, end in self._spans:
            pieces += [_BLANK.sub(" ", self._text[at:start]), self._text[start:end]]
            at = end
        return "".join(pieces)

    def _read(self) -> None:
        at, first = 0, -1
        attributes: list[str] = []
        while at < len(self._words):
            start, word = self._words[at]
            if word == "#" and (end := self._bracket(at)):
                told = "".join(word for _, word in self._words[at + 1 : end])
                at = end + 1
                if told.startswith("!"):
                    if _ONLY_TESTS.match(told, 2):
                        self._spans = [(0, len(self._text))]
                        return
                    continue
                first = start if first < 0 else first
                attributes.append(told[1:])
                continue
            if any(map(_is_of_tests, attributes)):
                at = self._end(at)
                self._spans.append((first, self._place(at)))
            else:
                at += 1
            attributes, first = [], -1

    def _bracket(self, at: int) -> int:
        """Where the attribute ends that may begin with the ``#`` at ``at``; 0 if it is none."""
        at += 1 + (self._word(at + 1) == "!")
        return self._closing(at) if self._word(at) == "[" else 0

    def _closing(self, at: int) -> int:
        """Where the bracket is closed that is opened at ``at``: at the end, if it is not."""
        depth = 0
        for number in range(at, len(self._words)):
            word = self._words[number][1]
            depth += (word in _OPEN) - (word in _CLOSED)
            if not depth:
                return number
        return len(self._words) - 1

    def _end(self, at: int) -> int:
        """The word behind the item that begins at ``at``."""
        while at < len(self._words):
            word = self._word(at)
            if word in _CLOSED:  # of what it stands in
                return at
            if word in _OPEN:
                at = self._closing(at)
                if word == "{":
                    return at + 2 if self._word(at + 1) == ";" else at + 1
            at += 1
            if word == ";":
                return at
        return at

    def _word(self, at: int) -> str:
        return self._words[at][1] if at < len(self._words) else "\n"

    def _place(self, at: int) -> int:
        return self._words[at][0] if at < len(self._words) else len(self._text)


def _is_of_tests(attribute: str) -> bool:
    return bool(_TESTS.match(attribute) or _ONLY_TESTS.match(attribute))
