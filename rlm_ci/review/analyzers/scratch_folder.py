"""A folder for an analyzer: the texts of a leaf as files, each in the folder of its path.

Tools look settings up by folder, so an odd name changes the name alone. Files that configure tools
are left out, because a change must not configure its judge. Tools start in an empty folder, where
they find neither settings nor modules.
"""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from hashlib import sha256

from rlm_ci.system import files
from rlm_ci.values import Row, Value
from rlm_ci.workspace.trees.tree import write_new

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Self

#: Parts of a path without a special meaning to tools, shells, addresses and file systems.
_PLAIN = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.+-]{0,99}")
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}$")
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
    Names are plain, unless ``real_names``: then settings that name a file hold.
    """

    def __init__(
        self,
        inputs: Sequence[ScratchInput],
        settings: Sequence[Sequence[str]] = (),
        *,
        real_names: bool = False,
    ) -> None:
        self._given = inputs
        self._settings = settings
        self._real_names = real_names
        self._known: dict[str, int] = {}
        self.scratch_files: tuple[ScratchFile, ...] = ()

    def __enter__(self) -> Self:
        self._scratch = files.scratch_folders("files", "empty", "out")
        self.root, self.empty, self.out = self._scratch.__enter__()
        self.printout = os.path.join(self.out, "out.sarif")
        try:
            self.scratch_files = tuple(self._write())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._scratch.__exit__(None, None, None)

    def find(self, address: str) -> int | None:
        """The number of the text that a SARIF address means, None when it is none of ours."""
        from urllib.parse import unquote

        scheme, colon, location = address.partition(":")
        if colon and scheme.casefold() == "file":
            path = unquote(location, errors="surrogateescape")
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
        scratch_files = []
        for name, text in self._settings:
            path = scratch_path(name, 0, real=self._real_names)
            write_new(os.path.join(self.root, *path.split("/")), text.encode())
        for number, name, content in self._given:
            for path in self._places(number, name):
                if write_new(path, content):
                    self._known[_normal(path)] = number
                    scratch_files.append(ScratchFile(path, number))
                    break
        return scratch_files

    def _places(self, number: int, name: str) -> Iterator[str]:
        """Where a file may lie: at its path, else by an odd name as near to it as can be."""
        *folders, last = scratch_path(name, number, real=self._real_names).split("/")
        yield os.path.join(self.root, *folders, last)
        # No file of a change can take a name that nobody knows.
        other = f"{os.path.basename(os.path.dirname(self.root))}-{_odd(number, name)}"
        for end in range(len(folders), -1, -1):
            yield os.path.join(self.root, *folders[:end], other)


def mark(path: str, content: bytes) -> str:
    """The key of a file among the results of a tool: its path and content."""
    return f"{path}\0{sha256(content).hexdigest()[:32]}"


def scratch_path(path: str, number: int, *, real: bool) -> str:
    """The path in the folder of the file ``number``: odd parts of ``path`` are replaced.

    With ``real``, only those that no file can have.
    """
    *folders, last = path.split("/")
    is_usable = _can_be if real else _is_plain
    parts = (
        part if is_usable(part) else f"odd-{sha256(os.fsencode(part)).hexdigest()[:12]}"
        for part in folders
    )
    return "/".join((*parts, last if is_usable(last) else _odd(number, path)))


def _odd(number: int, name: str) -> str:
    ending = _ENDING.search(name.rpartition("/")[2])
    return f"odd-{number}{ending[0] if ending else ''}"


def _normal(path: str) -> str:
    return os.path.normcase(os.path.normpath(path))


def _is_plain(part: str) -> bool:
    return _PLAIN.fullmatch(part) is not None and set(part) != {"."}


def _can_be(part: str) -> bool:
    is_safe = os.name != "nt" or _is_plain(part)
    return is_safe and part not in ("", ".", "..") and part.isprintable()


def configures(path: str) -> bool:
    """Whether a tool may obey the file at ``path``, or run it."""
    parts = path.split("/")
    if not _FULL_OF_CONFIGURATION.isdisjoint(parts[:-1]):
        return True
    last = parts[-1]
    if last.startswith("."):
        return not last.startswith(".env")
    return any(fnmatchcase(last, pattern) for pattern in _CONFIGURING)
