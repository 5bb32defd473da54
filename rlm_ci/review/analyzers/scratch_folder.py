"""A folder for an analyzer: the texts of a leaf as files with plain names.

Files that configure tools are left out, because a change must not configure its judge. Tools
start in an empty folder, where they find neither settings nor modules.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from fnmatch import fnmatchcase
from hashlib import sha256

from rlm_ci.system import files
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Self

#: Parts of a path without a special meaning to tools, shells, addresses and file systems.
_PLAIN = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.+-]{0,99}")
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}$")
#: Characters of a path that is kept.
_LONGEST = 200
#: Folders of settings and plugins.
_FULL_OF_CONFIGURATION = frozenset(("node_modules", ".config", ".cargo"))
#: Names of files that configure tools, besides those that begin with a dot.
_CONFIGURING = (
    "pyproject.toml", "setup.cfg", "tox.ini", "ruff.toml", "mypy.ini", "pylintrc", "pytest.ini",
    "package.json", "package-lock.json", "*.config.js", "*.config.cjs", "*.config.mjs",
    "*.config.ts", "*.config.cts", "*.config.mts", "*.config.json", "tsconfig*.json", "biome.json*",
    "deno.json*", "eslint*.json", "clippy.toml", "Cargo.toml", "build.rs", "sonar-*.properties",
    "phpcs.xml*", "phpstan.neon*", "psalm.xml*", "checkstyle*.xml", "semgrep.y*ml",
    "pyrightconfig.json", "jsconfig.json", "staticcheck.conf", "rust-toolchain*", "hadolint.y*ml",
)  # fmt: skip


class ScratchInput(Row):
    """A file to write: the number of its text, its path, and what it holds."""

    text: int
    path: str
    content: bytes


class ScratchFile(Value):
    """A file of the scratch folder: its full name, and the number of its text."""

    name: str
    text: int


class ScratchFolder:
    """The folder as a context manager. ``root`` holds the files, ``empty`` nothing.

    A tool may write to ``printout``. ``settings`` are pairs of path and text of further files.
    """

    def __init__(
        self, given: Sequence[ScratchInput], settings: Sequence[Sequence[str]] = ()
    ) -> None:
        self._given = given
        self._settings = settings
        self._known: dict[str, int] = {}
        self.held: tuple[ScratchFile, ...] = ()

    def __enter__(self) -> Self:
        self._scratch = files.scratch("rlm-ci-")
        self._top = os.path.realpath(self._scratch.__enter__())
        self.root = os.path.join(self._top, "files")
        self.empty = os.path.join(self._top, "empty")
        self.out = os.path.join(self._top, "out")
        self.printout = os.path.join(self.out, "out.sarif")
        try:
            for folder in (self.root, self.empty, self.out):
                os.mkdir(folder, 0o700)
            self.held = tuple(self._write())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._scratch.__exit__(None, None, None)

    def find(self, address: str) -> int | None:
        """The number of the text that a SARIF address means, None when it is none of ours."""
        from urllib.parse import unquote

        scheme, colon, rest = address.partition(":")
        if colon and scheme.casefold() == "file":
            path = unquote(rest, errors="surrogateescape")
            path = "/" + path.lstrip("/")
            if os.name == "nt":
                path = path.lstrip("/")
        elif colon and len(scheme) > 1:
            return None
        else:
            path = unquote(address, errors="surrogateescape")
        for folder in (self.root, self.empty):
            number = self._known.get(_normal(os.path.join(folder, path)))
            if number is not None:
                return number
        return None

    def _write(self) -> list[ScratchFile]:
        held = []
        for name, text in self._settings:
            parts = name.split("/")
            if _is_plain(name, parts):
                _put(os.path.join(self.root, *parts), text.encode())
        for number, name, content in self._given:
            parts = name.split("/")
            path = os.path.join(self.root, *parts) if _is_plain(name, parts) else ""
            if not path or not _put(path, content):
                path = os.path.join(self.root, _odd(number, name))
                _put(path, content)
            self._known[_normal(path)] = number
            held.append(ScratchFile(path, number))
        return held


def mark(path: str, content: bytes) -> str:
    """The key of a file among the results of a tool: its path and content."""
    return f"{path}\0{sha256(content).hexdigest()[:32]}"


def plain(file: ScratchInput) -> str:
    """The name for a file whose content a tool reads from a pipe."""
    is_plain = _is_plain(file.path, file.path.split("/"))
    return file.path if is_plain else _odd(file.text, file.path)


def _odd(number: int, name: str) -> str:
    ending = _ENDING.search(name.rpartition("/")[2])
    return f"odd-{number}{ending[0] if ending else ''}"


def _normal(path: str) -> str:
    return os.path.normcase(os.path.normpath(path))


def _is_plain(path: str, parts: Sequence[str]) -> bool:
    return len(path) <= _LONGEST and all(
        _PLAIN.fullmatch(part) and set(part) != {"."} for part in parts
    )


def configures(path: str) -> bool:
    """Whether a tool may obey the file at ``path``, or run it."""
    parts = path.split("/")
    if not _FULL_OF_CONFIGURATION.isdisjoint(parts[:-1]):
        return True
    last = parts[-1]
    if last.startswith("."):
        return not last.startswith(".env")
    return any(fnmatchcase(last, one) for one in _CONFIGURING)


def _put(path: str, content: bytes) -> bool:
    """Write a new file; False if its path is taken."""
    with suppress(FileExistsError, NotADirectoryError):
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(path, "xb") as file:
            file.write(content)
        return True
    return False
