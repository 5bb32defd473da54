"""Resolves the imports of Go, Java, C#, C and C++."""

from __future__ import annotations

import re

from rlm_ci.source.imports import NOWHERE, ResolvedImport
from rlm_ci.source.imports.file_lookup import above, ancestors, folder_of, joined, nearest, resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rlm_ci.source import Import
    from rlm_ci.source.imports.file_lookup import FileLookup

#: Headers of the C library and of POSIX.
_C_HEADERS_WRITTEN = (
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal "
    "stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath "
    "threads time uchar unistd wchar wctype pthread fcntl dirent dlfcn netdb poll sched semaphore "
    "syslog termios utime pwd grp malloc memory strings getopt features"
)
_C_HEADERS = frozenset(_C_HEADERS_WRITTEN.split())


class GoResolver:
    """A package is a folder; ``of_folder`` names the file that represents it."""

    def __init__(
        self,
        places: FileLookup,
        modules: Mapping[str, Sequence[str]],
        needed: Mapping[str, Collection[str]],
    ) -> None:
        """``modules`` are folders by module path; ``needed`` the required modules by folder."""
        self._places = places
        self._modules = modules
        self._needed = {folder: frozenset(names) for folder, names in needed.items()}

    def resolve(self, path: str, imported: Import) -> ResolvedImport:
        module = imported.module
        if module.startswith("."):
            folder = resolved(folder_of(path), module)
            file = None if folder is None else self.of_folder(folder)
            return ResolvedImport((file,)) if file else NOWHERE
        for prefix in ancestors(module):
            for root in self._modules.get(prefix, ()) if prefix else ():
                file = self.of_folder(joined(root, module[len(prefix) :].strip("/")).strip("/"))
                if file:
                    return ResolvedImport((file,))
        words = module.split("/")
        if "." not in words[0]:
            return ResolvedImport(package=module, is_standard=True)
        return ResolvedImport(package=self._required(path, module) or _module_of(words))

    def _required(self, path: str, package: str) -> str | None:
        """The module that a package belongs to, by the ``go.mod`` above the file."""
        required = above(self._needed, path) or ()
        return next((ancestor for ancestor in ancestors(package) if ancestor in required), None)

    def of_folder(self, folder: str) -> str | None:
        """The file that represents a package: of its own name, ``doc.go``, or the first."""
        files = [file for file in self._places.inside(folder) if file.endswith(".go")]
        files = [file for file in files if not file.endswith("_test.go")] or files
        names = (joined(folder, f"{folder.rpartition('/')[2]}.go"), joined(folder, "doc.go"))
        return next((name for name in names if name in files), files[0] if files else None)


def _module_of(words: Sequence[str]) -> str:
    """The module of a path, guessed without ``go.mod``: host, owner, name and major version."""
    length = 3 if words[0].endswith((".com", ".org")) else 2
    has_version = re.fullmatch(r"v[1-9]\d*", words[length]) if len(words) > length else None
    return "/".join(words[: length + 1 if has_version else length])


#: The most files that the import of a whole package names.
_WHOLE_PACKAGE = 64


class JavaResolver:
    """A class is a file of its package, or one below the folders of that name."""

    def __init__(self, places: FileLookup, packages: Mapping[str, Sequence[str]]) -> None:
        """``packages`` are the files that declare each package, by its name."""
        self._places = places
        self._packages = packages
        self._files = {name: frozenset(paths) for name, paths in packages.items()}

    def resolve(self, path: str, imported: Import) -> ResolvedImport:
        names = imported.module.split(".")
        parts = [*names, *(name for name in imported.names if name != "*")]
        for end in range(len(parts), 1, -1):  # what follows a class is a member of it
            if parts[end - 1][:1].isupper():
                file = self._class(parts[:end], path)
                if file:
                    return ResolvedImport((file,))
        if "*" in imported.names and imported.module in self._packages:
            return ResolvedImport(self._package_files(imported.module))
        if names[0] in ("java", "javax", "jdk", "sun"):
            return ResolvedImport(package=".".join(names[:2]), is_standard=True)
        if any(".".join(names[:end]) in self._packages for end in range(2, len(names) + 1)):
            return NOWHERE  # our own class: generated, or in a file of another name
        packages = [name for name in names if not name[:1].isupper()]
        return ResolvedImport(package=".".join((packages or names)[:3]))

    def _class(self, parts: Sequence[str], path: str) -> str | None:
        file = f"{parts[-1]}.java"
        declared = self._files.get(".".join(parts[:-1]), frozenset())
        closest = nearest(
            [match for match in self._places.paths_named(file) if match in declared], path
        )
        return closest or self._places.ending("/".join((*parts[:-1], file)), path)

    def _package_files(self, package: str) -> tuple[str, ...]:
        """All files of a package; of a large one, a file that represents it."""
        files = sorted(self._packages[package])
        if len(files) <= _WHOLE_PACKAGE:
            return tuple(files)
        info = (file for file in files if file.endswith("/package-info.java"))
        return (next(info, files[0]),)


def csharp(namespaces: Mapping[str, Sequence[str]], path: str, imported: Import) -> ResolvedImport:
    """A namespace leads to the nearest file that declares it."""
    names = imported.module.split(".")
    target = nearest(namespaces.get(imported.module, ())[:64], path)
    if target:
        return ResolvedImport((target,))
    if names[0] == "System":
        return ResolvedImport(package="System", is_standard=True)
    return ResolvedImport(package=".".join(names[:2]))


def c(places: FileLookup, path: str, imported: Import) -> ResolvedImport:
    """An include is looked for beside the file, then by the end of its path."""
    stem, dot, suffix = imported.module.rpartition(".")
    standard = not dot or (suffix == "h" and (stem in _C_HEADERS or stem.startswith("sys/")))
    if imported.level:
        target = resolved(folder_of(path), imported.module)
        if target in places.files:
            return ResolvedImport((target,)) if target else NOWHERE
    if imported.level or not standard:
        tail = imported.module
        while tail.startswith(("../", "./")):
            tail = tail.partition("/")[2]
        file = places.ending(tail, path)
        if file:
            return ResolvedImport((file,))
    if standard:
        return ResolvedImport(package=imported.module, is_standard=True)
    package = imported.module.partition("/")[0]
    return (
        NOWHERE
        if imported.level and "/" not in imported.module
        else ResolvedImport(package=package)
    )
