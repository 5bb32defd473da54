"""One side of a change: the paths that are there, and the texts that are asked for."""

from __future__ import annotations

from functools import cached_property

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rlm_ci.guard.weakening import RestOfTree, TextChange


class TreeSide:
    def __init__(self, changes: Iterable[TextChange], tree: RestOfTree, *, old: bool) -> None:
        texts = {change.path: change.before if old else change.after for change in changes}
        self._texts: dict[str, str | None] = texts
        self._rest = tree

    def read(self, path: str) -> str:
        """The text of a file, or "" if it is not there."""
        if path not in self._texts:
            self._texts[path] = self._rest.read([path]).get(path)
        return self._texts[path] or ""

    def nearest(self, name: str, path: str) -> str:
        """The text of the file of this name in the folder of ``path``, or in one around it."""
        return self.read(self.nearest_folder(name, path) + name)

    def nearest_folder(self, name: str, path: str) -> str:
        """The folder of that file, with its slash; "" for the top, or if there is none."""
        folder = path
        while "/" in folder:
            folder = folder.rpartition("/")[0]
            if f"{folder}/{name}" in self.paths:
                return f"{folder}/"
        return ""

    def naming(self, word: str) -> Iterator[tuple[str, str]]:
        """The files of tests with a word, and other changed ones, with their texts."""
        for path, text in self._texts.items():
            if text and word in text:
                yield path, text
        yield from self._rest.with_names([word])

    @cached_property
    def paths(self) -> frozenset[str]:
        """The changed files that are there, and all that did not change."""
        changed = (path for path, text in self._texts.items() if text is not None)
        return frozenset(changed) | self._rest.paths()
