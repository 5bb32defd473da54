"""Tests in the same file as the code, as in Rust."""

from __future__ import annotations

from rlm_ci.canary.forms import UnparsableError
from rlm_ci.canary.rust import inline_tests, reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.workspace.workspace import Workspace

ENDING = ".rs"


def old(space: Workspace, base: str, tree: str, *, edited: bool = False) -> dict[str, bytes]:
    """Files of ``tree`` that get back the tests they have in ``base``; or all of the old file.

    With ``edited`` only files in which a test of ``base`` changed or is gone: new tests stay.
    """
    before, after = space.entries(base), space.entries(tree)
    paths = [path for path in _changed(before, after) if before[path].is_file]
    starts = space.contents(before[path].oid for path in paths)
    results = space.contents(after[path].oid for path in paths)
    files = {}
    for path, start, result in zip(paths, starts, results, strict=True):
        if start is None or result is None:
            continue
        tests = _tests(path, start)
        if not tests or (edited and tests.items() <= _tests(path, result).items()):
            continue
        text = inline_tests.restored(_text(start), _text(result))
        content = start if text is None else text.encode("utf-8", "surrogateescape")
        if content != result:
            files[path] = content
    return files


def moved(space: Workspace, tree: str, changed: Mapping[str, bytes]) -> dict[str, bytes]:
    """The changed files, of those with code the code of ``tree`` with the changed tests."""
    entries = space.entries(tree)
    paths = [path for path in changed if path.endswith(ENDING) and path in entries]
    contents = space.contents(entries[path].oid for path in paths)
    pairs = [(path, content) for path, content in zip(paths, contents, strict=True) if content]
    merged = {
        path: text.encode("utf-8", "surrogateescape")
        for path, content in pairs
        if (text := inline_tests.restored(_text(changed[path]), _text(content))) is not None
    }
    return {**changed, **merged}


def _changed(before: Mapping[str, TreeEntry], after: Mapping[str, TreeEntry]) -> Iterable[str]:
    both = before.keys() & after.keys()
    return sorted(path for path in both if path.endswith(ENDING) and before[path] != after[path])


def _tests(path: str, content: bytes) -> dict[str, tuple[str, ...]]:
    """The lines of each test by its name."""
    text = _text(content)
    lines = text.split("\n")
    try:
        return {
            test.name: tuple(lines[test.line - 1 : test.end]) for test in reader.tests(path, text)
        }
    except UnparsableError:
        return {}


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")
