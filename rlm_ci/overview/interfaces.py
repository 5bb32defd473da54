"""The public names of a file, in one form, and which of them users of its package can reach."""

from __future__ import annotations

import re
from posixpath import basename

from rlm_ci.source import UNPARSED, manifests
from rlm_ci.source.grammars import LANGUAGES
from rlm_ci.source.imports.file_lookup import ancestors, folder_of, joined
from rlm_ci.source.languages import language
from rlm_ci.source.outline import outline
from rlm_ci.source.python import compatibility
from rlm_ci.source.python.interface import Binding, interface
from rlm_ci.source.test_files import is_trial
from rlm_ci.text.neutralise import clip
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.overview.sides import ChangeSides
    from rlm_ci.source.python.interface import PythonInterface, PythonName


#: Files that tools run, and folders that nothing is imported from.
SCRIPTS = frozenset(("setup.py", "conftest.py", "noxfile.py", "tasks.py", "fabfile.py"))
_BESIDE = frozenset(("benchmark", "benchmarks", "doc", "docs", "example", "examples"))
#: A part of a name that says that it is not for others.
_PRIVATE = re.compile(r"(?:^|\.)_(?!_)")
#: Kinds that are no names of an interface.
_MODULE = "module"
#: The end of a signature that is cut.
_CUT = "…"
#: Characters of a signature in a note.
_SIGNATURE = 64


class PublicName(Value):
    """``path`` is where it is defined; ``signature`` one line of source, but for Python."""

    path: str
    name: str
    kind: str
    line_start: int
    line_end: int
    signature: str = ""
    python: PythonName | None = None


class FileNames(Value):
    """The public names of one side of a file; ``is_read``: a reader knows the file."""

    path: str
    names: Mapping[str, PublicName]
    python: PythonInterface | None = None
    is_read: bool = True


class NameDifference(Value):
    """What differs between two versions of a name; ``retyped``: annotations alone."""

    notes: tuple[str, ...] = ()
    breaks: bool = False
    retyped: bool = False


def has_names(path: str) -> bool:
    """Whether a file may have public names: source code, no test, no example."""
    *folders, file = path.split("/")
    is_beside = file in SCRIPTS or not _BESIDE.isdisjoint(folders)
    return language(path) in LANGUAGES and not is_beside and not is_trial(path)


def names_of(path: str, content: bytes | None, *, every: bool = False) -> FileNames:
    """The public names in ``content``; none where there is no file.

    ``every``: of Python, those that ``__all__`` leaves out, too, which other files can import.
    """
    if content is None:
        return FileNames(path, {})
    if language(path) == "Python":
        python_interface = interface(path, content)
        if python_interface is None:
            return FileNames(path, {}, is_read=False)
        public = {
            name: PublicName(
                path,
                name,
                python_name.kind,
                python_name.line_start,
                python_name.line_end,
                python=python_name,
            )
            for name, python_name in python_interface.names.items()
            if python_name.is_public or (every and not _PRIVATE.search(name))
        }
        return FileNames(path, public, python_interface)
    read = outline(path, content)
    return FileNames(
        path,
        {
            symbol.name: PublicName(
                path, symbol.name, symbol.kind, symbol.line_start, symbol.line_end, symbol.signature
            )
            for symbol in read.symbols
            if symbol.is_public and symbol.kind != _MODULE
        },
        is_read=read.state != UNPARSED,
    )


def difference(old: PublicName, new: PublicName) -> NameDifference | None:
    """What differs for those who use the name; None for nothing."""
    if old.python is not None and new.python is not None:
        differences = compatibility.differences(old.python, new.python)
        if differences:
            notes = tuple(difference.text for difference in differences)
            return NameDifference(notes, any(difference.breaks for difference in differences))
        is_retyped = compatibility.is_retyped(old.python, new.python)
        return NameDifference(retyped=True) if is_retyped else None
    if old.kind in ("constant", "variable", "field") or _agree(old.signature, new.signature):
        return None
    is_now, was = _excerpts(_bare(new.signature), _bare(old.signature))
    return NameDifference((f"is `{is_now}`, was `{was}`",), breaks=True)


def _agree(left: str, other: str) -> bool:
    """Whether two signatures are the same as far as they are known: one of several lines is cut."""
    sizes = [len(text.removesuffix(_CUT).rstrip()) for text in (left, other) if text.endswith(_CUT)]
    return left[: min(sizes)] == other[: min(sizes)] if sizes else left == other


def _bare(text: str) -> str:
    return text.replace("`", "'")


def _excerpts(left: str, other: str) -> list[str]:
    """Two texts, short enough for a line: each from shortly before they differ."""
    start = 0
    if max(len(left), len(other)) > _SIGNATURE:
        pairs = enumerate(zip(left, other, strict=False))
        same = next((at for at, (a, b) in pairs if a != b), min(len(left), len(other)))
        start = max(0, same - _SIGNATURE // 3)
        start = max(start, left.find(" ", start, same) + 1) if start else 0
    return [("…" if start else "") + clip(text[start:], _SIGNATURE) for text in (left, other)]


#: The manifests that make a folder a package, by language.
_MANIFESTS = {
    "Python": ("pyproject.toml", "setup.py", "setup.cfg"),
    "JavaScript": ("package.json",), "TypeScript": ("package.json",), "TSX": ("package.json",),
    "Go": ("go.mod",), "Rust": ("Cargo.toml",), "PHP": ("composer.json",),
    "Java": ("pom.xml", "build.gradle", "build.gradle.kts"),
}  # fmt: skip
#: Folders that no package brings to its users.
_NOT_EXPORTED = frozenset(("script", "scripts", "tools", "internal", "vendor", "node_modules"))
_INDEX = ("index.ts", "index.tsx", "index.js", "index.mjs")


class Exports:
    """The old side of a change, asked which of its names users can reach.

    ``every``: names that ``__all__`` leaves out count, too.
    """

    every = False

    def __init__(self, sides: ChangeSides) -> None:
        self._sides = sides
        self._tree: Mapping[str, TreeEntry] = sides.old_tree
        self._packages: dict[tuple[str, str], str | None] = {}
        self._interfaces: dict[str, PythonInterface | None] = {}

    def has(self, file: FileNames, name: str) -> bool:
        """Whether users of the package can reach the public ``name`` of ``file``."""
        path = file.path
        kind = language(path)
        folders = folder_of(path).split("/")
        if (
            not has_names(path)
            or not _NOT_EXPORTED.isdisjoint(folders)
            or self._package(path, kind) is None
        ):
            return False
        if kind == "Python":
            return self._in_python(path, name)
        if kind in ("JavaScript", "TypeScript", "TSX"):
            return self._in_script(path, name)
        if kind == "Go":
            text = self._sides.fetch(path, old=True) or b""
            return b"package main\n" not in text
        if kind == "Rust":
            root = self._package(path, kind) or ""
            return joined(root, "src/lib.rs") in self._tree
        return True

    def _package(self, path: str, kind: str) -> str | None:
        """The folder of the package of a file; None without a manifest that names one."""
        folder = folder_of(path)
        if (folder, kind) not in self._packages:
            self._packages[folder, kind] = next(
                (
                    ancestor
                    for ancestor in ancestors(folder)
                    for manifest in _MANIFESTS.get(kind, ())
                    if self._names_package(joined(ancestor, manifest))
                ),
                None,
            )
        return self._packages[folder, kind]

    def _names_package(self, path: str) -> bool:
        if path not in self._tree:
            return False
        name = basename(path)
        if name not in ("pyproject.toml", "package.json"):
            return True
        content = self._sides.fetch(path, old=True) or b""
        read = manifests.outline(path, language(path), content)
        is_private = name == "package.json" and b'"private": true' in content
        return read is not None and any(
            symbol.kind == "module" for symbol in read.symbols
        ) and not is_private  # fmt: skip

    # ── Python ──

    def _in_python(self, path: str, name: str) -> bool:
        has_init = joined(folder_of(path), "__init__.py") in self._tree
        if not has_init and folder_of(path) not in ("", "src", "lib"):
            return False
        if not is_private(path):
            return True
        top_name = name.partition(".")[0]
        for folder in ancestors(folder_of(path)):
            init = joined(folder, "__init__.py")
            if init in self._tree and init != path and not is_private(init):
                for alias, binding in self.bindings(init).items():
                    is_public = binding.is_public and binding.name in (top_name, "*")
                    if is_public and self.target(init, binding) == path and alias[:1] != "_":
                        return True
        return False

    def bindings(self, path: str) -> Mapping[str, Binding]:
        """What a Python file imports, on the old side."""
        if path not in self._interfaces:
            content = self._sides.fetch(path, old=True)
            self._interfaces[path] = None if content is None else interface(path, content)
        python_interface = self._interfaces[path]
        return {} if python_interface is None else python_interface.bindings

    def target(self, path: str, binding: Binding) -> str | None:
        """The file that an import of the Python file ``path`` leads to, on the old side."""
        return module_file(self._tree, path, binding)

    # ── JavaScript ──

    def _in_script(self, path: str, name: str) -> bool:
        stem = basename(path).partition(".")[0]
        if stem in ("index", "main"):
            return True
        top_name = name.partition(".")[0]
        for folder in ancestors(folder_of(path)):
            for index in (joined(folder, file_name) for file_name in _INDEX):
                if index in self._tree:
                    content = self._sides.fetch(index, old=True)
                    passed = outline(index, content).exported if content else ()
                    if top_name in passed or "*" in passed:
                        return True
        return False


class EveryName(Exports):
    """All public names count, as for changes of the same repository."""

    every = True

    def has(self, file: FileNames, _name: str) -> bool:
        return has_names(file.path)


def is_private(path: str) -> bool:
    """Whether a part of a Python module's name says that it is not for users."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    return any(part.startswith("_") and not part.startswith("__") for part in parts)


def module_file(tree: Mapping[str, object], path: str, binding: Binding) -> str | None:
    """The file of the module that ``binding``, an import of ``path``, takes a name from."""
    parts = binding.module.replace(".", "/")
    if binding.level:
        folder = folder_of(path)
        for _ in range(binding.level - 1):
            folder = folder_of(folder)
        starts = [folder]
    else:
        starts = list(ancestors(folder_of(path)))
    for start in starts:
        stem = joined(start, parts) if parts else start
        for name in (f"{stem}.py", joined(stem, "__init__.py")):
            if name in tree:
                return name
    return None
