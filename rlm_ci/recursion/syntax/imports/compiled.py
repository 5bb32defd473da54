"""Where the imports of Go, Rust, Java, C#, C and C++ lead."""

from __future__ import annotations

from rlm_ci.recursion.syntax.imports import NOWHERE, Found
from rlm_ci.recursion.syntax.imports.places import ancestors, folder_of, joined, nearest, resolved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.recursion.syntax import Import
    from rlm_ci.recursion.syntax.imports.places import Places

#: Headers of C that have no suffix in C++ either way, or one that says nothing.
_C_HEADERS_WRITTEN = (
    "assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal "
    "stdalign stdarg stdatomic stdbool stddef stdint stdio stdlib stdnoreturn string tgmath "
    "threads time uchar unistd wchar wctype pthread fcntl dirent dlfcn netdb poll sched semaphore "
    "syslog termios utime pwd grp malloc memory strings getopt features"
)
_C_HEADERS = frozenset(_C_HEADERS_WRITTEN.split())


class Go:
    """A package is a folder; the file that stands for it is named in ``of_folder``."""

    def __init__(self, places: Places, modules: Mapping[str, Sequence[str]]) -> None:
        """``modules``: for the path of each module that a ``go.mod`` names, its folders."""
        self._places = places
        self._modules = modules

    def resolve(self, path: str, one: Import) -> Found:
        module = one.module
        if module.startswith("."):
            folder = resolved(folder_of(path), module)
            found = None if folder is None else self.of_folder(folder)
            return Found((found,)) if found else NOWHERE
        for prefix in ancestors(module):
            for root in self._modules.get(prefix, ()) if prefix else ():
                found = self.of_folder(joined(root, module[len(prefix) :].strip("/")).strip("/"))
                if found:
                    return Found((found,))
        words = module.split("/")
        if "." not in words[0]:
            return Found(package=module, is_standard=True)
        return Found(package="/".join(words[: 3 if words[0].endswith((".com", ".org")) else 2]))

    def of_folder(self, folder: str) -> str | None:
        """The file that stands for a package: of its own name, ``doc.go``, or the first."""
        files = [one for one in self._places.inside(folder) if one.endswith(".go")]
        files = [one for one in files if not one.endswith("_test.go")] or files
        names = (joined(folder, f"{folder.rpartition('/')[2]}.go"), joined(folder, "doc.go"))
        return next((one for one in names if one in files), files[0] if files else None)


class Rust:
    """Modules are files below the root of their crate."""

    def __init__(self, places: Places, crates: Mapping[str, Sequence[str]]) -> None:
        """``crates``: for the name of each crate that a ``Cargo.toml`` names, its folders."""
        self._places = places
        self._crates = {name.replace("-", "_"): folders for name, folders in crates.items()}

    def resolve(self, path: str, one: Import) -> Found:
        names = [name.removeprefix("r#") for name in one.module.strip(":").split("::")]
        first = names[0]
        if first in ("std", "core", "alloc", "proc_macro", "test"):
            return Found(package=first, is_standard=True)
        if first == "crate":
            return self._walk(self._root(path), [*names[1:], *one.names])
        if first in ("self", "super"):
            base: str | None = _module_folder(path)
            while names and names[0] in ("self", "super"):
                base = base and folder_of(base) if names[0] == "super" else base
                names = names[1:]
            return self._walk(base, [*names, *one.names])
        folders = self._crates.get(first)
        if folders:
            folder = nearest([joined(one_of, "x") for one_of in folders], path)
            return self._walk(joined(folder_of(folder or ""), "src"), [*names[1:], *one.names])
        # What a module of ours is called may also be named without a prefix.
        own = self._walk(_module_folder(path), [*names, *one.names], strict=True)
        return own if own.targets else Found(package=first)

    def _root(self, path: str) -> str | None:
        """The folder with ``lib.rs`` or ``main.rs`` that a file lies under."""
        for folder in ancestors(folder_of(path)):
            if self._places.first((joined(folder, "lib.rs"), joined(folder, "main.rs"))):
                return folder
        return None

    def _walk(self, base: str | None, names: Sequence[str], *, strict: bool = False) -> Found:
        """The deepest module of ``names`` below ``base``; its root, unless ``strict``."""
        if base is None:
            return NOWHERE
        found = None
        folder = base
        for name in names:
            step = self._places.first(
                (joined(folder, f"{name}.rs"), joined(folder, f"{name}/mod.rs"))
            )
            if step is None:
                break
            found, folder = step, joined(folder, name)
        if found is None and not strict:
            roots = [joined(base, name) for name in ("mod.rs", "lib.rs", "main.rs")]
            found = self._places.first((*roots, f"{base}.rs"))
        return Found((found,)) if found else NOWHERE


def _module_folder(path: str) -> str:
    """The folder that the modules inside of a file lie in."""
    folder, _, name = path.rpartition("/")
    if name in ("mod.rs", "lib.rs", "main.rs", "build.rs"):
        return folder
    return path.removesuffix(".rs")


class Java:
    """A class is a file below the folders of its package."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def resolve(self, path: str, one: Import) -> Found:
        names = one.module.split(".")
        if names[0] in ("java", "javax", "jdk", "sun"):
            return Found(package=".".join(names[:2]), is_standard=True)
        parts = [*names, *(name for name in one.names if name != "*")]
        for end in range(len(parts), 1, -1):  # what stands behind a class is a member of it
            if parts[end - 1][:1].isupper():
                found = self._places.ending(f"{'/'.join(parts[:end])}.java", path)
                if found:
                    return Found((found,))
        packages = [name for name in names if not name[:1].isupper()]
        return Found(package=".".join((packages or names)[:3]))


class CSharp:
    """A namespace leads to a file where there is only one that declares it."""

    def __init__(self, namespaces: Mapping[str, Sequence[str]]) -> None:
        self._namespaces = namespaces

    def resolve(self, path: str, one: Import) -> Found:
        names = one.module.split(".")
        for end in range(len(names), 0, -1):
            declared = self._namespaces.get(".".join(names[:end]), ())
            if declared and end == len(names):
                target = nearest(list(declared[:64]), path)
                return Found((target,)) if target else NOWHERE
            if declared:
                break
        if names[0] == "System":
            return Found(package="System", is_standard=True)
        return Found(package=".".join(names[:2]))


class C:
    """An include is looked for beside the file, then by the end of its path."""

    def __init__(self, places: Places) -> None:
        self._places = places

    def resolve(self, path: str, one: Import) -> Found:
        stem, dot, suffix = one.module.rpartition(".")
        standard = not dot or (suffix == "h" and (stem in _C_HEADERS or stem.startswith("sys/")))
        if one.level:
            target = resolved(folder_of(path), one.module)
            if target in self._places.files:
                return Found((target,)) if target else NOWHERE
        if one.level or not standard:
            tail = one.module
            while tail.startswith(("../", "./")):
                tail = tail.partition("/")[2]
            found = self._places.ending(tail, path)
            if found:
                return Found((found,))
        if standard:
            return Found(package=one.module, is_standard=True)
        package = one.module.partition("/")[0]
        return NOWHERE if one.level and "/" not in one.module else Found(package=package)
