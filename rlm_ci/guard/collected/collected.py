"""Whether a runner still takes tests from a file: by its name, and by the runner's settings.

What cannot be read for certain counts as collected.
"""

from __future__ import annotations

import re

from rlm_ci.guard.collected import pytest_tests
from rlm_ci.guard.weakening import Weakening
from rlm_ci.text.printable import count
from rlm_ci.validators import test_file_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rlm_ci.guard.collected.tree_side import TreeSide
    from rlm_ci.guard.weakening import TextChange

    #: Whether tests are collected from a path, None if that cannot be read; and by which runner.
    Reader = Callable[[str, TreeSide], tuple[bool | None, str]]

NOT_COLLECTED = "test-removed"

#: Files of tests that a change of settings is compared by, and those that are named.
_MOST, _NAMED = 2000, 3
#: Systems and processors that are a build constraint at the end of a Go file's name.
_GO_PLATFORMS = (
    r"aix|android|darwin|dragonfly|freebsd|illumos|ios|js|netbsd|openbsd|plan9|solaris|wasip1"
    r"|windows|386|arm|arm64|loong64|mips\w*|ppc64\w*|riscv64|s390x|wasm"
)
_NO_GO = re.compile(
    rf"(?:^|/)(?:testdata|[_.][^/]*)/|(?:^|/)[_.][^/]*$|_(?:{_GO_PLATFORMS})_test\.go$"
    r"|(?<!_test)\.go$"
)
#: What surefire and failsafe take by default.
_JAVA = re.compile(r"(?:.*/)?(?:(?:Test|IT)[^/]*|[^/]*(?:Tests?|TestCase|IT|ITCase))\.java")


def lost_by(old_path: str, new_path: str, old: TreeSide, new: TreeSide) -> str:
    """The runner that collected the tests of a file, and does not by its new path; or ""."""
    reader = _READERS.get(old_path[old_path.rfind(".") :])
    if reader is None or not reader(old_path, old)[0]:
        return ""
    is_collected, runner = reader(new_path, new)
    return runner if is_collected is False else ""


def leaves_out(path: str, tree: TreeSide) -> bool:
    """Whether no runner takes tests from a file, for certain."""
    reader = _READERS.get(path[path.rfind(".") :])
    return reader is not None and reader(path, tree)[0] is False


def _python(path: str, tree: TreeSide) -> tuple[bool | None, str]:
    from rlm_ci.guard.collected import pytest_tests

    return pytest_tests.collects(path, tree)


def narrowed(changes: Sequence[TextChange], old: TreeSide, new: TreeSide) -> Iterator[Weakening]:
    """The settings of runners that leave out files of tests which are still there."""
    for pattern, endings in _SETTINGS.items():
        changed = [
            change.path
            for change in changes
            if re.fullmatch(pattern, change.path) and _is_about_tests(change)
        ]
        if not changed:
            continue
        both = (path for path in sorted(old.paths & new.paths) if path.endswith(endings))
        tests = [path for path in both if _may_hold_tests(path)][:_MOST]
        lost = {path: runner for path in tests if (runner := lost_by(path, path, old, new))}
        if endings == _PYTHON:
            lost = {path: runner for path, runner in lost.items() if "def test" in new.read(path)}
        if lost:
            more = f" and {len(lost) - _NAMED:,} more" if len(lost) > _NAMED else ""
            message = f"{next(iter(lost.values()))} no longer collects {count(len(lost), 'file')}"
            shown = ", ".join([*lost][:_NAMED])
            path = next((config for config in changed if new.read(config)), changed[0])
            side = "new" if new.read(path) else "old"
            yield Weakening(NOT_COLLECTED, f"{message} of tests: {shown}{more}", path, None, side)


def _is_about_tests(change: TextChange) -> bool:
    """Whether settings changed that a runner of tests has."""
    if not pytest_tests.FILE.fullmatch(change.path):
        return True
    was, now = (
        pytest_tests.options(change.path, text or "") for text in (change.before, change.after)
    )
    return was != now and (was is not None or now is not None)


def _may_hold_tests(path: str) -> bool:
    folders = path.split("/")[:-1]
    is_test = test_file_names.is_file(path) or any(map(test_file_names.is_folder, folders))
    return is_test or path.endswith("src/lib.rs")


def _go(path: str, _tree: TreeSide) -> tuple[bool, str]:
    return not _NO_GO.search(path), "go test"


def _java(path: str, tree: TreeSide) -> tuple[bool | None, str]:
    """By default names; Gradle looks into the classes instead."""
    pom = tree.nearest("pom.xml", path)
    has_defaults = pom and "<include>" not in pom
    return (_JAVA.fullmatch(path) is not None if has_defaults else None), "surefire"


def _script(path: str, tree: TreeSide) -> tuple[bool | None, str]:
    from rlm_ci.guard.collected import script_runners

    return script_runners.collects(path, tree)


def _rust(path: str, tree: TreeSide) -> tuple[bool | None, str]:
    from rlm_ci.guard.collected import cargo

    return cargo.collects(path, tree)


_SCRIPTS = (".js", ".cjs", ".mjs", ".jsx", ".ts", ".cts", ".mts", ".tsx")
_PYTHON = (".py",)
_READERS: dict[str, Reader] = {
    **dict.fromkeys(_SCRIPTS, _script), ".go": _go, ".java": _java, ".py": _python, ".rs": _rust,
}  # fmt: skip
#: Files of settings, and the endings of the tests that they are about.
_SETTINGS = {
    r"(?:.*/)?(?:package\.json|(?:jest|vite|vitest|ava)\.config\.\w+|\.mocharc\.\w+)": _SCRIPTS,
    pytest_tests.FILE.pattern: _PYTHON,
    r"(?:.*/)?Cargo\.toml": (".rs",),
}
