"""What dependencies load from the work tree: editable installs, packages of a workspace.

In the sandbox they load the copy. Without one, packages of node are linked into the copy, but an
editable install loads the work tree: the validator may never see what an agent did.
"""

from __future__ import annotations

import os
from contextlib import suppress
from glob import glob

from rlm_ci.system import files
from rlm_ci.workspace.dependencies.ignored import entries_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LIMIT = 1 << 16
#: Below a virtual environment: what adds folders to Python's path when it starts.
_PYTHON = ("*.pth", "__editable__*.py", "*.egg-link")


def editable(root: str, dependencies: Iterable[str]) -> Iterator[str]:
    """Files in these environments that name another part of ``root``.

    A folder outside of ``root`` is named by its whole path.
    """
    names = tuple(dependencies)
    real = os.path.realpath(root)
    for name in names:
        folder = os.path.join(root, name)
        for pattern in _PYTHON:
            for path in sorted(glob(os.path.join(folder, "lib/python*/site-packages", pattern))):
                if _names(path, (root, real)):
                    yield path if os.path.isabs(name) else os.path.relpath(path, root)


def own_packages(root: str, name: str) -> dict[str, str]:
    """The links that make of ``node_modules`` a folder whose own packages are those beside it.

    By path below ``root``: the link of a workspace's package leads there, any other one to what is
    in ``root``. Nothing where ``name`` has no package of the workspace.
    """
    real, folder = os.path.realpath(root), os.path.join(root, name)
    if os.path.basename(name) != "node_modules" or os.path.islink(folder):
        return {}
    links: dict[str, str] = {}
    has_own = False
    for entry in entries_of(folder):
        scope = entries_of(entry.path) if entry.name.startswith("@") else [entry]
        for dir_entry in scope:
            target = os.path.realpath(dir_entry.path) if dir_entry.is_symlink() else dir_entry.path
            inside = files.below(real, target) if dir_entry.is_symlink() else None
            is_own = inside is not None and "node_modules" not in inside.split("/")
            relative = os.path.relpath(target, os.path.realpath(os.path.dirname(dir_entry.path)))
            links[os.path.relpath(dir_entry.path, root)] = relative if is_own else dir_entry.path
            has_own = has_own or is_own
    return links if has_own else {}


def _names(path: str, places: Iterable[str]) -> bool:
    with suppress(files.UnreadableError):
        text = files.read(path, _LIMIT)
        return any(os.fsencode(needle) in text for needle in places)
    return False
