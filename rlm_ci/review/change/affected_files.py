"""The files that a change affects, and a mark by which a file is recognised later."""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlm_ci.recursion.corpus.corpus import Corpus, CorpusFile
    from rlm_ci.source import Outline
    from rlm_ci.source.import_graph import ImportEdge, ImportGraph

#: Hexadecimal digits of a mark: an author may search for collisions.
DIGITS = 32


class AffectedFiles:
    """A corpus with its imports, which are read on first use.

    ``gone`` are paths that the change removes: who still imports them is concerned.
    """

    def __init__(self, corpus: Corpus, gone: Sequence[str] = ()) -> None:
        self.corpus = corpus
        self._gone = gone
        self._files = {file.path: file for file in corpus.files}

    def concerned(self, changed: Sequence[str]) -> list[str]:
        """The changed files, and those that import them, are called by them, or test them.

        Changed files outside of the corpus are among them.
        """
        inside = [path for path in (*self._files, *self._gone) if path in frozenset(changed)]
        if not inside:
            return [*changed]
        outlines = [*self._outlines.values()]
        return [*dict.fromkeys((*changed, *self._graph.touching(inside, outlines)))]

    def importers(self, path: str) -> tuple[ImportEdge, ...]:
        """The files that import ``path``, which may be gone, each with its line."""
        return self._graph.importers(path)

    def outline(self, path: str) -> Outline | None:
        """The outline of a file of the corpus."""
        return self._outlines.get(path)

    def files(self, paths: Iterable[str]) -> list[CorpusFile]:
        """Those of ``paths`` that are in the corpus."""
        return [self._files[path] for path in paths if path in self._files]

    def mark(self, path: str) -> str:
        """A hash over the content of a file, and over what those define that it imports.

        It holds while their names, heads and documentation do: how they come to their results is
        read with them. Who imports the file is concerned by what it defines itself.
        """
        imported = {edge.target for edge in self._graph.internal.get(path, ())} - {path}
        oid = self._files[path].oid if path in self._files else ""
        rows = ((path, oid), *((other, self._interface(other)) for other in sorted(imported)))
        text = "".join(f"{name}\0{digest}\0" for name, digest in rows)
        return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:DIGITS]

    def _interface(self, path: str) -> str:
        """What others see of a file; its content where nothing reads its definitions."""
        outline = self._outlines.get(path)
        if outline is None or not outline.symbols:
            return self._files[path].oid if path in self._files else ""
        heads = [
            (symbol.kind, symbol.name, symbol.signature, symbol.doc) for symbol in outline.symbols
        ]
        return repr((heads, outline.exported))

    @cached_property
    def _outlines(self) -> dict[str, Outline]:
        from rlm_ci.source.outline import outline

        pairs = zip(self._files, self.corpus.read(self.corpus.files), strict=True)
        return {path: outline(path, content) for path, content in pairs}

    @cached_property
    def _graph(self) -> ImportGraph:
        from rlm_ci.source.import_graph import ImportGraph

        return ImportGraph.of([*self._outlines.values()], [*self._files, *self._gone])
