"""What the texts of documents say that decides about them: read in batches, from git."""

from __future__ import annotations

import re

from rlm_ci.checks._doc_archive.archive import ENDINGS, require_contents
from rlm_ci.checks._doc_archive.stub import parse
from rlm_ci.checks._shown_markdown import heading_of, open_items
from rlm_ci.git.objects import batches
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rlm_ci.checks._doc_archive.stub import Stub, StubFlaw
    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.git.repository import Repository

#: A larger document is left alone.
LIMIT = 16 << 20
#: Bytes that are read at once.
_ROOM = 64 << 20
#: A citation of a document, and how many of them one text may have.
_CITED = re.compile(rb"docs/[A-Za-z0-9_./-]{1,200}\.md")
_MOST_CITED = 1000


class DocumentFacts(Row):
    """A text: its lines, open items, heading, citations; ``stub`` as the grammar reads it."""

    lines: int
    open_items: int
    heading: str
    cited: tuple[str, ...]
    stub: Stub | StubFlaw | None

    @classmethod
    def of_text(cls, data: bytes) -> DocumentFacts:
        lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        cited = (match[0].decode() for _, match in zip(range(_MOST_CITED), _CITED.finditer(data)))  # noqa: B905 - the shorter ends it
        names = tuple(dict.fromkeys(cited))
        return cls(lines, len(open_items(data)), heading_of(data), names, parse(data))


class DocumentReader:
    """The documents of a commit, each read once."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self._repository = repository
        self.entries: Mapping[str, TreeEntry] = repository.tree(commit)
        self._known: dict[str, DocumentFacts | None] = {}

    def facts(self, paths: Iterable[str]) -> dict[str, DocumentFacts | None]:
        """The facts of those ``paths`` that are regular files; None for one that is too large.

        Raises ConfigError where the clone lacks one of them.
        """
        files = {
            path: entry.oid
            for path in paths
            if (entry := self.entries.get(path)) is not None and entry.is_file
        }
        oids = list({oid for oid in files.values() if oid not in self._known})
        sizes = self._repository.sizes(oids) if oids else []
        require_contents(self._repository, sum(size < 0 for size in sizes))
        self._known.update((oid, None) for oid in oids)
        small = ((oid, size) for oid, size in zip(oids, sizes, strict=True) if size <= LIMIT)
        for batch in batches(small, _ROOM):
            for oid, data in zip(batch, self._repository.read(*batch), strict=True):
                self._known[oid] = None if data is None else DocumentFacts.of_text(data)
        return {path: self._known[oid] for path, oid in files.items()}


def is_document(path: str) -> bool:
    """Whether the doc-archive check looks at files of this name."""
    return path.lower().endswith(ENDINGS)
