"""A part of a context: a range of its chunks, some of its files, or all of it."""

from __future__ import annotations

import fnmatch
import re

from rlm_ci.context.pointers import PointerError, chunk_id
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlm_ci.context.context import Context

_RANGE = re.compile("(?:chunk:)?c([0-9]{1,9})(?:-(?:chunk:)?c([0-9]{1,9}))?", re.ASCII)
_SHOWN = 100


class Scope(Value):
    """``chunks`` is a chunk or a range, ``c000001-c000009``.

    ``files`` are paths, folders with a ``/`` behind, and globs, whose ``*`` matches ``/`` too.
    With neither it is the whole context, with both it is those files in those chunks.
    """

    chunks: str = ""
    files: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"chunks": self.chunks, "files": list(self.files)}

    def chunk_range(self, context: Context) -> range:
        """The indices of the chunks. Raises PointerError."""
        count = context.chunk_count
        if not self.chunks:
            return range(count)
        match = _RANGE.fullmatch(self.chunks)
        if match is None:
            shown = printable(self.chunks[:_SHOWN])
            raise PointerError(f"'{shown}' is no range of chunks: write c000001-c000009")
        first, last = int(match[1]), int(match[2] or match[1])
        if not 0 < first <= last <= count:
            id_range = f"they go from {chunk_id(0)} to {chunk_id(count - 1)}" if count else "none"
            raise PointerError(f"there are no chunks {self.chunks}: {id_range}")
        return range(first - 1, last)

    def spans(self, context: Context) -> tuple[tuple[int, int], ...]:
        """Its bytes, in order; a byte in two chunks is the first one's. Raises PointerError."""
        chunks, layout = self.chunk_range(context), context.layout
        start, end = layout.start(chunks.start), layout.start(chunks.stop)
        if not self.files:
            return ((start, end),) if start < end else ()
        matches, spans = self._matches(), list[tuple[int, int]]()
        for file in context.files:
            first, last = max(file.start, start), min(file.end, end)
            if first < last and matches(file.path):
                spans.append((first, last))
        if not spans:
            shown = printable(", ".join(self.files)[:_SHOWN])
            raise PointerError(f"no file of the context is {shown}")
        return tuple(spans)

    def _matches(self) -> Callable[[str], bool]:
        """A test for paths. It takes linear time, unlike patterns of ``.gitignore``."""
        paths = frozenset(self.files)
        globs = [f"{file}*" if file.endswith("/") else file for file in self.files]
        # Also at any depth.
        both = (fnmatch.translate(variant) for glob in globs for variant in (glob, f"*/{glob}"))
        compiled = [re.compile(regex) for regex in both]
        return lambda path: path in paths or any(pattern.match(path) for pattern in compiled)
