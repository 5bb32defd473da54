"""The files that git and rlm-ci write themselves: they are part of no source."""

from __future__ import annotations

import os

from rlm_ci.context import index_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class OwnFiles:
    """Folders in which git or rlm-ci writes: ``folders``, ``.git``, and context objects."""

    def __init__(self, folders: Iterable[str] = ()) -> None:
        self._folders = {identity for identity in map(_identity, folders) if identity}
        self._known: dict[str, bool] = {}
        self._inner: dict[str, bool] = {}

    @property
    def met(self) -> int:
        """The number of own folders found so far."""
        return sum(self._known.values())

    def is_ours(self, folder: str) -> bool:
        """Whether ``folder`` is one of ``folders``, perhaps still without files."""
        return _identity(folder) in self._folders

    def has(self, folder: str) -> bool:
        """Whether ``folder`` is one of them."""
        if folder not in self._known:
            name = os.path.basename(folder)
            is_one = name == ".git" or _identity(folder) in self._folders or is_object(folder)
            self._known[folder] = is_one
        return self._known[folder]

    def holds(self, path: str, top: str) -> bool:
        """Whether ``path``, relative to ``top``, is in one of them."""
        folder = os.path.dirname(path)
        if folder not in self._inner:
            ends = (at for at, sign in enumerate(f"{folder}/") if sign == "/" and at)
            self._inner[folder] = any(self.has(os.path.join(top, folder[:end])) for end in ends)
        return self._inner[folder]


def _identity(folder: str) -> tuple[int, int] | None:
    try:
        status = os.lstat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def is_object(path: str) -> bool:
    """Whether a folder looks like a context object."""
    return all(
        os.path.lexists(os.path.join(path, name))
        for name in (index_reader.NAME, index_reader.SOURCE)
    )
