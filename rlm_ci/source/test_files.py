"""What names say of tests: which files have any, of what, and which calls may judge."""

from __future__ import annotations

import re

_FOLDERS = frozenset({"test", "tests", "testing", "spec", "specs", "__tests__", "e2e"})
#: Prefixes and suffixes that mark a test of what the rest of the name says.
_NAME = re.compile(
    r"(?:test_(?P<after>.+)|(?P<before>.+?)(?:_tests?|_spec|-tests?|-spec)|"
    r"(?P<capital>[A-Z]\w*?)(?:Tests?|TestCase|Spec|IT))"
)
#: Names of calls that may judge by themselves.
MAY_JUDGE = re.compile(
    r"(?:assert|check|expect|verify|ensure|validate|require|must|should|same|equal|compare)",
    re.IGNORECASE,
)
_MIDDLE = (".test", ".tests", ".spec", ".cy", ".e2e")


def _stem(path: str) -> tuple[str, bool]:
    """A name without its suffixes, and whether one of them marks a test."""
    name = path.rpartition("/")[2]
    stem = name.rpartition(".")[0] or name
    for middle in _MIDDLE:
        if stem.endswith(middle):
            return stem.removesuffix(middle), True
    return stem, False


def is_trial(path: str) -> bool:
    """Whether a file belongs to the tests, by its name or its folder."""
    stem, is_marked = _stem(path)
    folders = path.split("/")[:-1]
    return is_marked or _NAME.fullmatch(stem) is not None or not _FOLDERS.isdisjoint(folders)


def subject_of(path: str) -> str | None:
    """The lower-case name of what a test is about, from the name of its file; else None."""
    stem, is_marked = _stem(path)
    if is_marked:
        return stem.lower()
    match = _NAME.fullmatch(stem)
    if match is None:
        return None
    return (match["after"] or match["before"] or match["capital"]).lower().strip("_")
