"""What git ignores in a work tree: which of it a package manager filled, and what is left out."""

from __future__ import annotations

import os
from fnmatch import fnmatch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

#: Folders that are not committed, whether git ignores them or not: a validator may need them.
DEPENDENCIES = (
    "node_modules", ".venv", "venv", ".tox", ".nox", "vendor", "bower_components",
    "__pypackages__", ".bundle", ".yarn", ".pnpm-store",
)  # fmt: skip
#: The same, where git ignores them; the last ones are files.
_IGNORED = (
    "deps", "Pods", "Carthage", "jspm_packages", "elm-stuff", ".dart_tool", "third_party",
    ".pnp.cjs", ".pnp.loader.mjs", ".pnp.data.json",
)  # fmt: skip
#: The same, where a Python environment is there.
ENVIRONMENTS = ("env", "ENV", "virtualenv", ".virtualenv", ".conda", ".pixi")
#: What tools leave behind beside the sources. Not part of a snapshot unless it is tracked.
LITTER = (
    "__pycache__/", "*.py[co]", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".hypothesis/",
    ".coverage", ".coverage.*", "node_modules/", ".venv/", ".tox/", ".nox/",
    ".eggs/", ".DS_Store", ".rlm-ci-*.tmp", ".rlm-ci-*.old",
)  # fmt: skip
#: Ignored files that no validator needs.
_UNNEEDED = ("*.log", "*.sw[op]", ".idea", ".vscode")
#: Where rlm-ci itself writes.
OURS = (".runs", "out")


def is_environment(folder: str) -> bool:
    """Whether ``folder`` is a virtual environment of Python, or one of conda."""
    return any(os.path.exists(os.path.join(folder, name)) for name in ("pyvenv.cfg", "conda-meta"))


def is_dependency(path: str) -> bool:
    """Whether ``path`` is or lies in a folder of a name that a package manager uses."""
    parts = path.split("/")
    is_known = not {*DEPENDENCIES, *_IGNORED, *ENVIRONMENTS}.isdisjoint(parts)
    return is_known or parts[-1].endswith(".egg-info")


def dependency_folders(root: str) -> Iterator[str]:
    """Real folders of the known names, wherever they are, by path; none inside of another."""
    waiting = [""]
    while waiting:
        for name in folders_of(root, waiting.pop()):
            last = name.rpartition("/")[2]
            if last in DEPENDENCIES or last.endswith(".egg-info"):
                yield name
            elif last != ".git":
                waiting.append(name)


def unignored(root: str) -> Iterator[str]:
    """Folders of the known names at the top or one level deep, which need not be ignored."""
    for top in ("", *(top for top in folders_of(root, "") if top not in {".git", *DEPENDENCIES})):
        for entry in entries_of(os.path.join(root, top)):
            is_known = entry.name in DEPENDENCIES or entry.name.endswith(".egg-info")
            if is_known and entry.is_dir():
                yield f"{top}/{entry.name}" if top else entry.name


def sorted_out(
    root: str, ignored: Iterable[str], tracked: Collection[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of what git ``ignored`` in ``root``: what are dependencies, and what else is left out.

    ``tracked`` are folders that hold a file of the repository.
    """
    used: set[str] = set()
    others = []
    paths = {name.rstrip("/") for name in ignored}.difference(tracked)
    # A folder that is not ignored itself is listed, too, where all that it holds is.
    holders = {folder for path in paths for folder in _above(path)}
    for path in sorted(paths):
        if path.partition("/")[0] in OURS or not used.isdisjoint(_above(path)):
            continue
        full, last = os.path.join(root, path), path.rpartition("/")[2]
        is_folder = os.path.isdir(full) or os.path.islink(full)
        is_litter = any(fnmatch(last, sign.rstrip("/")) for sign in (*LITTER, *_UNNEEDED))
        is_known = is_dependency(path) and (last not in ENVIRONMENTS or is_environment(full))
        if is_known and (is_folder or not is_litter):
            used.add(path)
        elif not is_litter and path not in holders:
            others.append(path)
    return tuple(sorted(used)), tuple(others)


def _above(path: str) -> list[str]:
    """The folders that hold ``path``, the nearest first."""
    above = []
    while path := path.rpartition("/")[0]:
        above.append(path)
    return above


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def folders_of(root: str, folder: str) -> list[str]:
    """The real folders in a folder of ``root``, by their paths in it."""
    entries = entries_of(os.path.join(root, folder))
    names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    return [f"{folder}/{name}" if folder else name for name in names]
