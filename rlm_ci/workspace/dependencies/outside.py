"""What dependencies lead to out of the repository: shown to a sandbox, or left out and named."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatch

from rlm_ci.sandbox import Mount
from rlm_ci.sandbox.toolchains import home_of, is_of_system, may_be_shown, python_of
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value
from rlm_ci.workspace.dependencies.ignored import entries_of, folders_of, is_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: A file of a Python environment that may name a folder with code: an editable install.
_CODE = re.compile(r"""^(/[^\n]+)$|['"](/[^'"\n]+)['"]""", re.MULTILINE)
_CODE_FILES = ("*.pth", "__editable__*.py", "*.egg-link")
_LIMIT = 1 << 16
#: Links that are looked at in one folder.
_MOST = 5000


class OmittedPath(Value):
    """What a validator may miss in the copy, and why it is not there."""

    path: str
    reason: str


class OutsideReach(Value):
    """Read-only mounts for what dependencies need out of the repository, and what is left out."""

    mounts: tuple[Mount, ...] = ()
    omitted: tuple[OmittedPath, ...] = ()


def outside(
    root: str, names: Iterable[str], environments: Iterable[str], environ: Mapping[str, str]
) -> OutsideReach:
    """What the dependencies ``names`` of ``root`` and ``environments`` elsewhere lead to."""
    search = _OutsideSearch(os.path.realpath(root), home_of(environ))
    for name in names:
        search.look(name)
    for environment in environments:
        search.add(environment, environment)
        search.look_into(environment, environment)
    return OutsideReach(
        tuple(Mount(path, path) for path in search.packages), tuple(search.omitted.values())
    )


class _OutsideSearch:
    def __init__(self, root: str, home: str) -> None:
        self._root = root
        self._home = home
        self._modules: set[str] | None = None
        self.packages: list[str] = []
        self.omitted: dict[str, OmittedPath] = {}

    def look(self, name: str) -> None:
        """The folder or link ``name`` of the repository."""
        full = os.path.join(self._root, name)
        if not os.path.islink(full):
            self.look_into(name, full)
            return
        target = os.path.realpath(full)
        if not os.path.exists(target):
            self._omit(name, f"a link to {target}, which is not there")
        elif self._is_outside(target) and self.add(name, target):
            self.look_into(name, target)

    def look_into(self, name: str, folder: str) -> None:
        if is_environment(folder):
            if prefix := python_of(folder):
                self.add(name, prefix)
            self._look_at_installed(name, folder)
            return
        if os.path.basename(name) in (".tox", ".nox"):
            for inner in folders_of(folder, ""):
                self.look_into(f"{name}/{inner}", os.path.join(folder, inner))
            return
        is_linked = self._is_outside(os.path.realpath(folder))
        for entry in _links(folder, scoped=os.path.basename(name) == "node_modules"):
            target = os.path.realpath(entry)
            label = os.path.join(name, os.path.relpath(entry, folder))
            if not self._is_outside(target) or files.below(os.path.realpath(folder), target):
                continue
            if is_linked:
                self._omit(label, f"it leads to {target}, the code of another work tree")
            elif os.path.isdir(target):
                store, inside, _ = target.partition("/links/")  # of pnpm, a folder a package
                self.add(label, store + inside.rstrip("/") if "pnpm" in store else target)

    def add(self, name: str, path: str) -> bool:
        """Show ``path``, which ``name`` leads to, if nothing in it may be private."""
        path = os.path.realpath(path)
        if is_of_system(path) or any(files.below(top, path) is not None for top in self.packages):
            return True
        if not may_be_shown(path, self._home) or files.below(path, self._root) is not None:
            self._omit(name, f"it leads to {path}, which may hold what is private")
            return False
        self.packages.append(path)
        return True

    def _look_at_installed(self, name: str, environment: str) -> None:
        """The packages that an environment loads from a folder elsewhere."""
        for file, code in code_of(environment):
            is_near = files.below(self._root, code) is not None
            if is_near or files.below(environment, code) is not None or not os.path.isdir(code):
                continue
            label = os.path.join(name, os.path.relpath(file, environment))
            if self._own_modules().isdisjoint(_modules(code)):
                self.add(label, code)
            else:
                self._omit(label, f"it loads {code}, which is not this work tree")

    def _own_modules(self) -> set[str]:
        if self._modules is None:
            self._modules = _modules(self._root) | _modules(os.path.join(self._root, "src"))
        return self._modules

    def _is_outside(self, path: str) -> bool:
        return files.below(self._root, path) is None

    def _omit(self, name: str, reason: str) -> None:
        self.omitted.setdefault(name, OmittedPath(name, printable(reason)))


def code_of(environment: str) -> Iterator[tuple[str, str]]:
    """Pairs of a file of an editable install and a folder that it adds to Python's path."""
    for version in folders_of(environment, "lib"):
        folder = os.path.join(environment, version, "site-packages")
        if not version.startswith("lib/python") or not os.path.isdir(folder):
            continue
        for name in sorted(os.listdir(folder)):
            if not any(fnmatch(name, sign) for sign in _CODE_FILES):
                continue
            try:
                text = files.read(os.path.join(folder, name), _LIMIT).decode("utf-8", "replace")
            except files.UnreadableError:
                continue
            for line, quoted in _CODE.findall(text):
                path = os.path.normpath(line.strip() or quoted)
                if os.path.exists(path):
                    is_package = os.path.isfile(os.path.join(path, "__init__.py"))
                    is_module = not os.path.isdir(path)
                    code = os.path.dirname(path) if is_package or is_module else path
                    yield os.path.join(folder, name), code


def _modules(folder: str) -> set[str]:
    """Names that Python can import from ``folder``, but for those that most projects have."""
    try:
        with os.scandir(folder) as entries:
            names = {
                entry.name.removesuffix(".py")
                for entry in entries
                if entry.name.endswith(".py") or os.path.isfile(f"{entry.path}/__init__.py")
            }
    except OSError:
        return set()
    return names - {"setup", "tests", "test", "docs", "conftest", "noxfile", "tasks", "__init__"}


def _links(folder: str, *, scoped: bool) -> Iterator[str]:
    """Links at the top of a folder, and one level deep: there only those with a scope, if any."""
    for entry in entries_of(folder)[:_MOST]:
        if entry.is_symlink():
            yield entry.path
        elif entry.is_dir() and entry.name.startswith("@" if scoped else ""):
            yield from (inner.path for inner in entries_of(entry.path) if inner.is_symlink())
