"""What folders of dependencies load from the work tree: editable installs, workspace packages.

In the sandbox they load the copy. Without one they load the work tree, and the validator may never
see what an agent did.
"""

from __future__ import annotations

import os
from contextlib import suppress
from glob import glob

from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_LIMIT = 1 << 16
#: Below a virtual environment: what adds folders to Python's path when it starts.
_PYTHON = ("*.pth", "__editable__*.py", "*.egg-link")
#: Below node_modules: links to packages, those with a scope as well.
_NODE = ("*", "@*/*")


def editable(root: str, dependencies: Iterable[str]) -> Iterator[str]:
    """Files and links in these folders that name or lead to another part of ``root``.

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
        if os.path.basename(name) == "node_modules":
            for path in (path for pattern in _NODE for path in sorted(glob(f"{folder}/{pattern}"))):
                inside = os.path.relpath(os.path.realpath(path), real)
                parts = inside.split(os.sep)
                if os.path.islink(path) and parts[0] != ".." and "node_modules" not in parts:
                    yield os.path.relpath(path, root)


def _names(path: str, places: Iterable[str]) -> bool:
    with suppress(files.UnreadableError):
        text = files.read(path, _LIMIT)
        return any(os.fsencode(place) in text for place in places)
    return False
