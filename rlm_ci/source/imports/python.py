"""Resolves the imports of Python: packages, namespace packages, ``src`` layouts, scripts."""

from __future__ import annotations

import sys
from itertools import takewhile

from rlm_ci.source.imports import NOWHERE, ResolvedImport
from rlm_ci.source.imports.file_lookup import ancestors, folder_of, joined, nearest
from rlm_ci.source.test_files import is_trial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlm_ci.source import Import
    from rlm_ci.source.imports.file_lookup import FileLookup

#: Folders that are usually on the path of Python.
_CUSTOMARY = ("src", "lib", "python", "tests", "test")
_ROOTS = 16
_SUFFIXES = (".py", "/__init__.py", ".pyi", "/__init__.pyi")
#: Modules of some versions only: Python 2, before 3.12, since 3.14, or for type checkers.
_SOMETIMES_WRITTEN = (
    "BaseHTTPServer CGIHTTPServer ConfigParser Cookie HTMLParser Queue SimpleHTTPServer "
    "SocketServer StringIO Tkinter UserDict UserList __builtin__ _abcoll _dummy_thread _winreg "
    "anydbm cPickle cStringIO commands cookielib copy_reg dummy_thread dummy_threading exceptions "
    "htmlentitydefs httplib md5 robotparser sets sha thread tkFileDialog tkMessageBox urllib2 "
    "urlparse xmlrpclib "
    "aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap "
    "msilib nis nntplib ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib "
    "annotationlib compression _typeshed __main__"
)
_SOMETIMES = frozenset(_SOMETIMES_WRITTEN.split())
#: Modules of every version: they shadow modules of the same name in other folders.
_ALWAYS = frozenset(
    name
    for name in sys.stdlib_module_names - _SOMETIMES
    if not name.startswith("_") or name == "__future__"
)


class PythonResolver:
    """Resolves imports as Python would if it were started for the importing file."""

    def __init__(
        self,
        places: FileLookup,
        imports: Mapping[str, Sequence[Import]],
        scripts: Iterable[str] = (),
        declared: Iterable[str] = (),
    ) -> None:
        """``declared`` are the distributions that manifests require."""
        self._places = places
        self._declared = frozenset(map(_spoken, declared))
        self._roots: dict[str, str] = {}
        #: The folders that may contain a module, by its first name.
        self._tops: dict[str, list[str]] = {}
        #: The file of each module, by its path without suffix.
        self._modules: dict[str, str] = {}
        for path in sorted(places.files):
            if path.endswith((".py", ".pyi")):
                self._enter(path)
        for suffix in _SUFFIXES:  # the first suffix wins
            for path in places.files:
                if path.endswith(suffix):
                    self._modules.setdefault(path.removesuffix(suffix), path)
        roots = {folder for folders in self._tops.values() for folder in folders}
        custom = [folder for folder in _CUSTOMARY if folder in roots or places.inside(folder)]
        self._known = (*custom, *sorted(roots - {*custom}, key=lambda top: (top.count("/"), top)))
        self._known = self._known[:_ROOTS]
        self._seen: dict[tuple[str, str], tuple[str, str] | None] = {}
        self._started = self._with_neighbours(imports, scripts)

    def resolve(self, path: str, imported: Import) -> ResolvedImport:
        """Resolve an import of the file at ``path``."""
        if imported.level:
            return self._relative(path, imported)
        top = imported.module.partition(".")[0]
        folder = folder_of(path)
        root = self._root(folder)
        key = (root if root != folder else folder, imported.module)
        if key not in self._seen:
            self._seen[key] = self._locate(root, imported.module)
        location = self._seen[key]
        standard = _is_standard(top)
        if location is not None and standard and not self._shadows(location[0], path):
            location = None
        if location is None and top not in _ALWAYS and root != folder:
            location = self._in_own_package(path, root, imported)
        if location is None:
            return ResolvedImport.of(
                ((), top if standard else self._package(root, imported), standard)
            )
        return ResolvedImport.of((self._targets(location, imported, path), "", False))

    def _package(self, root: str, imported: Import) -> str:
        """The package of an import from outside; in a shared namespace, its part of that."""
        parts = imported.module.split(".")
        for names in (*([*parts, name] for name in imported.names), parts):
            for end in range(len(names), 1, -1):
                if _spoken("_".join(names[:end])) in self._declared:
                    return ".".join(names[:end])
        is_shared = len(parts) > 1 and any(
            base.rpartition("/")[2] == parts[0] or self._places.inside(joined(base, parts[0]))
            for base in ancestors(root)
        )
        return ".".join(parts[:2]) if is_shared else parts[0]

    def _shadows(self, base: str, path: str) -> bool:
        """Whether Python starts in ``base``, so that its modules hide the standard library's."""
        last = base.rpartition("/")[2].lower()
        return not base or last in _CUSTOMARY or path in self._started

    # ── the folders of modules ──

    def _with_neighbours(
        self, imports: Mapping[str, Sequence[Import]], scripts: Iterable[str]
    ) -> frozenset[str]:
        """Scripts without ``__main__.py``, and the files of their folders that they import."""
        waiting = [path for path in scripts if not path.endswith("__main__.py")]
        reached = set(waiting)
        while waiting:
            path = waiting.pop()
            for imported in imports.get(path, ()):
                name = joined(folder_of(path), imported.module.partition(".")[0])
                target = None if imported.level else self._modules.get(name)
                if target is not None and target not in reached:
                    reached.add(target)
                    waiting.append(target)
        return frozenset(reached)

    def _in_own_package(self, path: str, root: str, imported: Import) -> tuple[str, str] | None:
        """The place of an import in the file's own package: for tests, scripts, submodules."""
        folder = folder_of(path)
        for base in takewhile(lambda above: above != root, ancestors(folder)):
            hit = self._under(base, imported.module, strict=True)
            if hit is None:
                continue
            if is_trial(path) or (base == folder and path in self._started):
                return hit
            stem = joined(base, imported.module.replace(".", "/"))
            below = "." in imported.module or any(
                joined(stem, name) in self._modules for name in imported.names
            )
            if below and hit[1] == stem:
                return hit
        return None

    def _enter(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        root = self._root(folder)
        if root == folder:
            top = name.partition(".")[0]
        else:
            top = folder[len(root) :].lstrip("/").partition("/")[0]
            if folder != joined(root, top):
                return  # a deeper module: its top was entered with the package itself
        folders = self._tops.setdefault(top, [])
        if not folders or folders[-1] != root:
            folders.append(root)

    def _is_package(self, folder: str) -> bool:
        files = self._places.files
        return bool(folder) and (
            f"{folder}/__init__.py" in files or f"{folder}/__init__.pyi" in files
        )

    def _root(self, folder: str) -> str:
        """The folder with the package of ``folder``; ``folder`` itself if it is no package."""
        root = self._roots.get(folder)
        if root is None:
            root = self._root(folder_of(folder)) if self._is_package(folder) else folder
            self._roots[folder] = root
        return root

    def _locate(self, root: str, module: str) -> tuple[str, str] | None:
        """The folder and the path without suffix of ``module``, for a file under ``root``."""
        top = module.partition(".")[0]
        if top in _ALWAYS:
            return self._under(root, module)  # only a file beside the importing one shadows it
        bases = self._tops.get(top, [])
        closest = nearest([joined(folder, "x") for folder in bases[:256]], joined(root, "x"))
        beside = () if closest is None else (folder_of(closest),)
        every = (*ancestors(root), *beside, *self._known)
        for strict in (True, False):
            # A file that creates modules (six.moves) counts if nothing else is found, unless its
            # folder has the name of the namespace, which other distributions share.
            loose = [] if strict else [base for base in every if base.rpartition("/")[2] != top]
            for base in every if strict else loose:
                location = self._under(base, module, strict=strict)
                if location:
                    return location
        return None

    def _under(self, base: str, module: str, *, strict: bool = False) -> tuple[str, str] | None:
        """The longest part of ``module`` in ``base``; if ``strict``, a file has no submodules."""
        first = f"{base}/" if base else ""
        relative = left = module.replace(".", "/")
        while left:
            stem = first + left
            file = self._modules.get(stem)
            if file is not None or ("/" in left and self._places.inside(stem)):
                is_package = file is None or file.rpartition("/")[2].startswith("__init__.")
                return (base, stem) if is_package or left == relative or not strict else None
            left = left.rpartition("/")[0]
        return None

    # ── the imported files ──

    def _relative(self, path: str, imported: Import) -> ResolvedImport:
        folder = folder_of(path)
        for _ in range(imported.level - 1):
            if not folder:
                return NOWHERE
            folder = folder_of(folder)
        stem = joined(folder, imported.module.replace(".", "/")) if imported.module else folder
        return ResolvedImport.of((self._targets((folder, stem), imported, path), "", False))

    def _targets(self, module: tuple[str, str], imported: Import, path: str) -> tuple[str, ...]:
        """The files of the imported names: submodules, and the file that defines the others."""
        _, stem = module
        file = (
            self._modules.get(stem) if stem else self._places.first(("__init__.py", "__init__.pyi"))
        )
        targets = []
        needs_file = not imported.names
        for name in imported.names:
            inner = self._modules.get(joined(stem, name)) if name != "*" else None
            if inner is not None and (
                file is None or file.rpartition("/")[2].startswith("__init__")
            ):
                targets.append(inner)
            else:
                needs_file = True
        if needs_file and file is not None:
            targets.append(file)
        others = [target for target in targets if target != path]
        return tuple(dict.fromkeys(others or targets))


def _spoken(name: str) -> str:
    """A name in the form that distributions and their modules share."""
    return name.lower().replace("-", "_").replace(".", "_")


def _is_standard(name: str) -> bool:
    """Whether ``name`` is a module of the standard library, in some version."""
    return name in _ALWAYS or name in _SOMETIMES or name in sys.stdlib_module_names
