"""The files that a change leaves alone, for what seems to be lost and may stand in one of them."""

from __future__ import annotations

from functools import cache

from rlm_ci.errors import RlmCiError
from rlm_ci.guard.weakening import RestOfTree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from rlm_ci.change.change_set import ChangeSet

#: Tests that are looked for, letters of the name of one, and files that are read.
_NAMES, _LONGEST, _FILES = 50, 200, 20


class UnchangedFiles(RestOfTree):
    """Read from the old side; what git cannot read, as in a partial clone, is not there.

    ``limit``: bytes of a file that is read.
    """

    def __init__(self, changes: ChangeSet, limit: int) -> None:
        self._changes = changes
        self._limit = limit

    def with_names(self, names: Collection[str]) -> Iterator[tuple[str, str]]:
        """See :class:`RestOfTree`: files that are tests by their own names."""
        searched = [name for name in sorted(names) if 0 < len(name) <= _LONGEST][:_NAMES]
        commit = self._changes.merge_base
        if not searched or commit is None:
            return
        try:
            paths = self._files_named(searched, commit)
            specs = [f"{commit}:{path}" for path in paths]
            contents = self._changes.repository.read_small(specs, self._limit) if specs else []
        except RlmCiError:
            return
        for path, content in zip(paths, contents, strict=True):
            if text := text_of(content):
                yield path, text

    def read(self, paths: Iterable[str]) -> Mapping[str, str]:
        """See :class:`RestOfTree`."""
        texts = {}
        for path in paths:
            try:
                content = None if ".." in path else self._changes.read(path, self._limit)
            except RlmCiError:
                content = None
            if text := text_of(content):
                texts[path] = text
        return texts

    @cache  # noqa: B019 - one for each run of the check
    def paths(self) -> frozenset[str]:
        """See :class:`RestOfTree`."""
        commit = self._changes.merge_base
        try:
            entries = self._changes.repository.tree(commit) if commit else {}
        except RlmCiError:
            return frozenset()
        kinds = self._changes.kinds
        return frozenset(
            path for path, entry in entries.items() if entry.is_file and path not in kinds
        )

    def _files_named(self, names: Collection[str], commit: str) -> list[str]:
        from rlm_ci.guard.weakened_tests.cases import READ_BY_STATEMENTS
        from rlm_ci.validators import test_file_names

        texts = [name.encode("utf-8", "surrogateescape") for name in names]
        patterns = [f"*{ending}" for ending in (".py", *READ_BY_STATEMENTS)]
        search = self._changes.repository.start_search(texts, commit, patterns, "-w")
        with search:
            rows = search.finish().decode("utf-8", "surrogateescape").split("\0")
        paths = [row.removeprefix(f"{commit}:") for row in rows if row]
        kinds = self._changes.kinds
        return [path for path in paths if path not in kinds and test_file_names.is_file(path)][
            :_FILES
        ]


def text_of(content: bytes | None) -> str | None:
    """A file as text, whatever ends its lines."""
    if content is None:
        return None
    return content.decode("utf-8", "surrogateescape").replace("\r\n", "\n")
