"""Folders that tools fill, such as virtual environments and builds, by name or by what marks them.

What is untracked in them is no work of anybody's, even if git does not ignore it.
"""

from __future__ import annotations

from rlm_ci.system.safe_tree import LITTER
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NAMES = LITTER | frozenset((
    "target", "bower_components", "__pypackages__", ".eggs", ".gradle", ".next", ".nuxt",
    ".svelte-kit", ".turbo", ".parcel-cache", ".dart_tool", ".terraform", ".direnv",
))  # fmt: skip
#: Files that a virtual environment, and a cache, have at their top.
_MARKS = ("pyvenv.cfg", "CACHEDIR.TAG")
_NAMED = 3


def part(paths: Iterable[str]) -> tuple[list[str], dict[str, int]]:
    """The paths outside of such folders, and the number of files in each such folder."""
    every = list(paths)
    splits = (path.rpartition("/") for path in every if path.endswith(_MARKS))
    marked = {folder for folder, _, name in splits if name in _MARKS and folder}
    outside: list[str] = []
    inside: dict[str, int] = {}
    for path in every:
        folder = _outermost(path, marked)
        if folder:
            inside[folder] = inside.get(folder, 0) + 1
        else:
            outside.append(path)
    return outside, inside


def _outermost(path: str, marked: set[str]) -> str:
    """The outermost such folder that holds ``path``, with a slash at its end; "" for none."""
    end = path.find("/")
    while end >= 0:
        folder = path[:end]
        if folder.rpartition("/")[2] in _NAMES or folder in marked:
            return f"{folder}/"
        end = path.find("/", end + 1)
    return ""


def listed(inside: Mapping[str, int]) -> str:
    """The largest of these folders, each with its files."""
    largest = sorted(inside, key=lambda folder: (-inside[folder], folder))
    shown = [f"{printable(name)} ({count(inside[name], 'file')})" for name in largest[:_NAMED]]
    more = len(largest) - _NAMED
    return ", ".join(shown) + (f" and {count(more, 'more folder')}" if more > 0 else "")
