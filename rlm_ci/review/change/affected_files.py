"""The files that a change affects, and a mark by which a file is recognised later."""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.source import Outline
    from rlm_ci.source.import_graph import ImportGraph

#: Hexadecimal digits of a mark: an author may search for collisions.
DIGITS = 32


class AffectedFiles:
    """A corpus with its imports, which are read on first use."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._oids = {file.path: file.oid for file in corpus.files}

    def concerned(self, changed: Sequence[str]) -> list[str]:
        """The changed files, and those that import them, are called by them, or test them.

        Changed files outside of the corpus are among them.
        """
        known = [path for path in self._oids if path in frozenset(changed)]
        if not known:
            return [*changed]
        return [*dict.fromkeys((*changed, *self._graph.touching(known, self._outlines)))]

    def mark(self, path: str) -> str:
        """A hash over the content of a file and of those that import it or that it imports."""
        near = {edge.target for edge in self._graph.importers(path)}
        near |= {edge.target for edge in self._graph.internal.get(path, ())}
        rows = (path, *sorted(near - {path}))
        text = "".join(f"{one}\0{self._oids.get(one, '')}\0" for one in rows)
        return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:DIGITS]

    @cached_property
    def _outlines(self) -> list[Outline]:
        from rlm_ci.source.outline import outline

        files = self._corpus.files
        contents = self._corpus.read(files)
        return [outline(file.path, content) for file, content in zip(files, contents, strict=True)]

    @cached_property
    def _graph(self) -> ImportGraph:
        from rlm_ci.source.import_graph import ImportGraph

        return ImportGraph.of(self._outlines, [*self._oids])
