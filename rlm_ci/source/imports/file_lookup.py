"""The files of a repository, as imports look for them."""

from __future__ import annotations

from posixpath import normpath

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    Found = TypeVar("Found")

#: The most files of one name that are compared to find the nearest; a more common name is only
#: looked for in the folders above.
_COMPARED = 64


class FileLookup:
    """All paths, by name and by folder. The time of a lookup does not depend on their number."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.files = frozenset(paths)
        self._by_name: dict[str, list[str]] = {}
        self._by_folder: dict[str, list[str]] = {}
        for path in sorted(self.files):
            folder, _, name = path.rpartition("/")
            self._by_name.setdefault(name, []).append(path)
            self._by_folder.setdefault(folder, []).append(path)

    def inside(self, folder: str) -> Sequence[str]:
        """The files that lie directly in ``folder``, in order."""
        return self._by_folder.get(folder, ())

    def first(self, candidates: Iterable[str]) -> str | None:
        """The first of the candidates that exists."""
        return next((path for path in candidates if path in self.files), None)

    def ending(self, suffix: str, origin: str) -> str | None:
        """The file nearest to ``origin`` whose path ends with ``suffix``, whole names alone."""
        above = self.first(joined(folder, suffix) for folder in ancestors(folder_of(origin)))
        if above is not None:
            return above
        candidates = self._by_name.get(suffix.rpartition("/")[2], [])
        if len(candidates) > _COMPARED:
            return None
        tail = f"/{suffix}"
        return nearest([path for path in candidates if path.endswith(tail)], origin)

    def paths_named(self, name: str) -> Sequence[str]:
        """The files of one name; none if they are too many to compare."""
        paths = self._by_name.get(name, [])
        return paths if len(paths) <= _COMPARED else ()


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def ancestors(folder: str) -> Iterator[str]:
    """The folder itself, and all above it, the top (``""``) last."""
    while folder:
        yield folder
        folder = folder.rpartition("/")[0]
    yield ""


def above(table: Mapping[str, Found], path: str) -> Found | None:
    """The entry of ``table`` for the nearest folder above a file."""
    return next(
        (table[ancestor] for ancestor in ancestors(folder_of(path)) if ancestor in table), None
    )


def resolved(folder: str, relative: str) -> str | None:
    """``folder/relative`` without dots; None if that is outside of the repository."""
    if "\0" in relative:
        return None
    path = normpath(joined(folder, relative.lstrip("/") or "."))
    return None if path == ".." or path.startswith("../") else "" if path == "." else path


def nearest(paths: Sequence[str], origin: str) -> str | None:
    """The path that shares most folders with ``origin``; of equals, the shortest."""
    parts = origin.split("/")[:-1]

    def distance(path: str) -> tuple[int, int, str]:
        shared = 0
        for part, other in zip(parts, path.split("/")[:-1]):  # noqa: B905 - as far as both go
            if part != other:
                break
            shared += 1
        return (-shared, path.count("/"), path)

    return min(paths, key=distance, default=None)
