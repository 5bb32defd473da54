"""The matrix of a workflow, before and after: systems and versions that CI tests no more."""

from __future__ import annotations

import re

from rlm_ci.guard.loosened.exit_codes import CI_WEAKENED
from rlm_ci.guard.weakening import Weakening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rlm_ci.guard.collected.tree_side import TreeSide
    from rlm_ci.guard.weakening import TextChange

_MATRIX = re.compile(r"^( *)matrix:[ \t]*(?:#.*)?\n((?:\1 .*\n|[ \t]*(?:#.*)?\n)+)", re.MULTILINE)
#: A list of it in one line, or in several; or one value, as ``include`` has them.
_VALUES = re.compile(
    r"^ *(?:- +)?[\"']?([\w.-]+)[\"']?: *(?:\[([^\]]*)\]|([^\s#\[{][^\n#]*))? *(?:#.*)?$"
    r"|^ *- +([^\n:{\[]+?) *(?:#.*)?$",
    re.MULTILINE,
)
_SYSTEM = re.compile(r"ubuntu|linux|windows|macos|freebsd|arm|alpine|debian|fedora", re.IGNORECASE)
_VERSION = re.compile(r"(?:[a-zA-Z]+-?)?v?(\d+)(?:\.(\d+))?(?:\.(?:\d+|x))*")
#: Keys of versions; others are shards, groups, and the like.
_VERSIONED = re.compile(
    r"(?i)version|python|py\b|node|go\b|golang|rust|toolchain|ruby|java|jdk|php"
)
#: Where a project says which versions it supports at least.
_MINIMUM = {
    "pyproject.toml": r"python\s*=\s*[\"'][^\"'\n]*?[>^~]=?\s*(\d+)\.(\d+)",
    "setup.cfg": r"python_requires\s*=[^\n]*?>=?\s*(\d+)\.(\d+)",
    "setup.py": r"python_requires\s*=[^\n]*?>=?\s*(\d+)\.(\d+)",
    "package.json": r"\"node\"\s*:\s*\"[^\"\d]*(\d+)(?:\.(\d+))?",
    "go.mod": r"(?m)^go (\d+)\.(\d+)",
    "Cargo.toml": r"rust-version\s*=\s*\"(\d+)\.(\d+)",
}  # fmt: skip


#: A version outside of any matrix, as the one of a job for it alone.
_PINNED = re.compile(r"(?m)^ *(?:- )?\w+-version: *[\"']?([\w.]{1,20})[\"']?\s*$")


def narrowed(changes: Sequence[TextChange], tree: TreeSide) -> Iterator[Weakening]:
    """What no matrix of these workflows has any more, and no other took the place of.

    Versions that the project no longer supports may go.
    """
    after = [value for text_change in changes for value in _values(text_change.after or "")]
    current = {value for _, value in after}
    current.update(
        version for text_change in changes for version in _PINNED.findall(text_change.after or "")
    )
    for change in changes:
        pairs = list(_values(change.after or ""))
        if not pairs and "matrix:" in (change.after or ""):  # computed
            continue
        for name in dict.fromkeys(name for name, _ in _values(change.before or "")):
            was = [value for key, value in _values(change.before or "") if key == name]
            now = [value for key, value in pairs if key == name]
            if not now or any("${{" in value for value in now):
                continue
            gained = [value for value in now if value not in was]
            lost = [value for value in dict.fromkeys(was) if value not in current]
            lost = [value for value in lost if _counts(name, value, current, tree)]
            if re.search(r"(?i)\bgo(?:lang)?\b", name) and _moved(was, now):
                continue
            if len(lost) > len(gained):
                shown = ", ".join(dict.fromkeys(lost))
                message = f"CI no longer tests {name}: {shown[:120]}"
                yield Weakening(CI_WEAKENED, message, change.path)


def _values(text: str) -> Iterator[tuple[str, str]]:
    """The values in a matrix, each with its key."""
    for matrix in _MATRIX.finditer(text + "\n"):
        name = ""
        for match in _VALUES.finditer(matrix[2]):
            name = match[1] or name
            values = match[2].split(",") if match[2] else [match[3] or match[4] or ""]
            for value in values:
                if value.strip():
                    yield name, value.strip().strip("\"'")


def _counts(name: str, value: str, names: Iterable[str], tree: TreeSide) -> bool:
    """Whether it is a system of a kind that no other is of, or a version that is supported."""
    if system := _SYSTEM.search(value):
        return not any(system[0].lower() in other.lower() for other in names)
    version = _VERSION.fullmatch(value)
    if not version or not _VERSIONED.search(name):
        return False
    return not any(_number(version) < minimum for minimum in _minima(tree))


def _moved(was: Iterable[str], now: Iterable[str]) -> bool:
    """Whether only the oldest versions went as a newer one came: Go supports the last two."""
    old, new = (
        [_number(match) for match in map(_VERSION.fullmatch, side) if match] for side in (was, now)
    )
    is_newer = bool(old and new) and max(new) > max(old)
    return is_newer and all(version in new for version in old if version >= min(new))


def _minima(tree: TreeSide) -> Iterator[tuple[int, int]]:
    for path, pattern in _MINIMUM.items():
        if match := re.search(pattern, tree.read(path)):
            yield _number(match)


def _number(match: re.Match[str]) -> tuple[int, int]:
    return int(match[1]), int(match[2] or 0)
