"""The tests that a change adds or changes, by their own text.

A test that moved, or is only laid out anew, is not among them; nor is one whose fixtures or helpers
alone are others.
"""

from __future__ import annotations

import re

from rlm_ci.canary import readers
from rlm_ci.canary.forms import UnparsableError
from rlm_ci.source.outline import outline
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

#: What may differ between two texts that are the same test: white space, quotes, a last comma.
_LAYOUT = re.compile(r"\s+|,(?=\s*[)\]}])")
#: A mark by which a runner leaves a test out, or expects it to fail.
_MARK = re.compile(
    r"@[\w.]*(?:skip(?:[iI]f|[uU]nless)?|xfail|expectedFailure)\b"
    r"(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?|#\[ignore[^]]*\]"
)


class TouchedTest(Value):
    """A test of the head, with its lines (1-based, inclusive) and the text of these.

    ``is_marked_anew``: marks by which it was left out, or expected to fail, are all that differs.
    """

    path: str
    name: str
    line: int
    end: int
    text: str
    is_new: bool = False
    is_marked_anew: bool = False

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
    old_unmarked: set[tuple[str, str]] = set()
    fresh: list[TouchedTest] = []
    unread = []
    for path, (before, _) in files.items():
        try:
            old = list(_tests(path, before))
        except UnparsableError:
            old = []
        old_names[path] = {test.name for test in old}
        old_texts |= {_identity(test) for test in old}
        old_unmarked |= {_unmarked(test) for test in old}
    for path, (_, after) in files.items():
        try:
            fresh += _tests(path, after)
        except UnparsableError:
            unread.append(path)
    tests: dict[tuple[str, int], TouchedTest] = {}
    for test in fresh:
        if _identity(test) not in old_texts:  # the first of the classes that inherit it
            is_new = test.name not in old_names[test.path]
            is_marked_anew = _unmarked(test) in old_unmarked
            described = test.replace(is_new=is_new, is_marked_anew=is_marked_anew)
            tests.setdefault((test.path, test.line), described)
    return TouchedTests(tuple(tests.values()), tuple(unread))


def changes_shared(
    files: Mapping[str, tuple[bytes | None, bytes | None]], tests: Sequence[TouchedTest]
) -> bool:
    """Whether changed files of tests have another definition that more than ``tests`` use.

    This may be a table of cases, or a helper.
    """
    lines = {(test.path, at) for test in tests for at in range(test.line, test.end + 1)}
    return any(
        _changes_shared(path, before, after, {at for of, at in lines if of == path})
        for path, (before, after) in files.items()
        if before and after
    )


def _changes_shared(path: str, before: bytes, after: bytes, touched_lines: Collection[int]) -> bool:
    """Whether a definition that is no test is another, and lines of no touched test use it."""
    old, new = _definitions(path, before), _definitions(path, after)
    lines = readers.decoded(path, after).split("\n")
    for name, (start, end, text) in new.items():
        if name in old and old[name][2] != text:
            inside = {*range(start, end + 1), *touched_lines}
            others = "\n".join(line for at, line in enumerate(lines, 1) if at not in inside)
            if re.search(rf"(?<![\w$]){re.escape(name.rpartition('.')[2])}(?![\w$])", others):
                return True
    return False


def _definitions(path: str, content: bytes) -> dict[str, tuple[int, int, str]]:
    """The first and the last line, and the text, of what a file of tests defines beside these."""
    try:
        tests = list(_tests(path, content))
    except UnparsableError:
        return {}
    lines = readers.decoded(path, content).split("\n")
    inside = {at for test in tests for at in range(test.line, test.end + 1)}
    return {
        symbol.name: (
            symbol.line_start,
            symbol.line_end,
            _LAYOUT.sub("", "\n".join(lines[symbol.line_start - 1 : symbol.line_end])),
        )
        for symbol in outline(path, content).symbols
        if inside.isdisjoint(range(symbol.line_start, symbol.line_end + 1))
    }


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


def _unmarked(test: TouchedTest) -> tuple[str, str]:
    return _identity(test.replace(text=_MARK.sub("", test.text)))
