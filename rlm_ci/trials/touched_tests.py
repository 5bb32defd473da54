"""The tests that a change adds or changes, by their own text.

A test that moved, or is only laid out anew, is not among them; nor is one whose fixtures or helpers
alone are others.
"""

from __future__ import annotations

import re

from rlm_ci.canary import readers
from rlm_ci.canary.forms import UnparsableError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: What may differ between two texts that are the same test: white space, quotes, a last comma.
_LAYOUT = re.compile(r"\s+|,(?=\s*[)\]}])")


class TouchedTest(Value):
    """A test of the head, with its lines (1-based, inclusive) and the text of these."""

    path: str
    name: str
    line: int
    end: int
    text: str
    is_new: bool = False

    @property
    def key(self) -> tuple[str, str]:
        return self.path, self.name


class TouchedTests(Value):
    """The touched ``tests``; ``unread`` are files of tests that cannot be read."""

    tests: tuple[TouchedTest, ...] = ()
    unread: tuple[str, ...] = ()


def touched(files: Mapping[str, tuple[bytes | None, bytes | None]]) -> TouchedTests:
    """The tests of changed files, each with its content before and after, that are touched."""
    old_names: dict[str, set[str]] = {}
    old_texts: set[tuple[str, str]] = set()
    fresh: list[TouchedTest] = []
    unread = []
    for path, (before, _) in files.items():
        try:
            old = list(_tests(path, before))
        except UnparsableError:
            old = []
        old_names[path] = {test.name for test in old}
        old_texts |= {_identity(test) for test in old}
    for path, (_, after) in files.items():
        try:
            fresh += _tests(path, after)
        except UnparsableError:
            unread.append(path)
    tests: dict[tuple[str, int], TouchedTest] = {}
    for test in fresh:
        if _identity(test) not in old_texts:  # the first of the classes that inherit it
            is_new = test.name not in old_names[test.path]
            tests.setdefault((test.path, test.line), test.replace(is_new=is_new))
    return TouchedTests(tuple(tests.values()), tuple(unread))


def _tests(path: str, content: bytes | None) -> Iterable[TouchedTest]:
    """The tests of a file. Raises UnparsableError."""
    if content is None or not readers.is_known(path):
        return []
    text = readers.decoded(path, content)
    lines = text.split("\n")
    return [
        TouchedTest(
            path, test.name, test.line, test.end, "\n".join(lines[test.line - 1 : test.end])
        )
        for test in readers.of(path).tests(path, text)
    ]


def _identity(test: TouchedTest) -> tuple[str, str]:
    """What two texts of one test have in common, wherever it stands."""
    text = _LAYOUT.sub("", test.text).replace("'", '"')
    return test.name.rpartition("::")[2], text
