"""``read``, ``search`` and ``peek``: the context by pointers, which an answer can cite."""

from __future__ import annotations

from rlm_ci.context.context import PointerError
from rlm_ci.context.line_numbers import line_ranges as places_told
from rlm_ci.text.printable import encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.environments.symbolic.visible_context import VisibleContext

#: Bytes that one call returns, hits of a search, bytes of a hit's preview, and files of a place.
_BYTES = 1 << 20
_HITS = 1000
_PREVIEW = 512
_FILES = 4


class ContextFunctions:
    """The functions of one context. A wrong argument is a ValueError."""

    def __init__(self, window: VisibleContext) -> None:
        self._window = window
        self._context = window.context

    def read(self, pointer: str, size: int = 8192, offset: int = 0) -> dict[str, Any]:
        """``size`` bytes of what ``pointer`` names, from ``offset`` on."""
        _require(pointer, str, "pointer")
        address = (
            pointer if pointer.startswith("ctx:") else f"ctx:{self._context.object_id}#{pointer}"
        )
        try:
            excerpt = self._window.read(
                address, _number(size, "size", _BYTES), _number(offset, "offset")
            )
        except PointerError as error:
            raise ValueError(str(error)) from None
        return {"text": excerpt.text, **self._pointer(excerpt.start, excerpt.end)}

    def peek(self, start: int = 0, size: int = 2000) -> dict[str, Any]:
        """``size`` bytes from byte ``start`` on."""
        first = min(_number(start, "start"), self._context.byte_length)
        last = min(first + _number(size, "size", _BYTES), self._context.byte_length)
        if first == last:
            return {"text": "", **self._pointer(first, last)}
        return self.read(f"bytes:{first}-{last}", last - first)

    def search(self, query: str, top_k: int = 20) -> dict[str, Any]:
        """Where a text is, in any case: how often, and a hit in each of ``top_k`` chunks."""
        _require(query, str, "query")
        limit = _number(top_k, "top_k", _HITS)
        (result,) = self._context.search([query], top_k=max(1, limit), preview_bytes=_PREVIEW)
        hits = [
            {
                "text": self._window.shown(hit.preview_start, hit.preview_end, hit.preview),
                "count": hit.score,
                **self._pointer(hit.start_byte, hit.end_byte),
            }
            for hit in result.hits[:limit]
        ]
        return {"total": result.total_hits, "chunks": result.chunks_matched, "hits": hits}

    def _pointer(self, start: int, end: int) -> dict[str, Any]:
        places, more = self._context.first_places(start, max(end, start + 1), _FILES)
        where = self._window.redact(encodable(places_told(places, more))) if places else ""
        pointer = f"ctx:{self._context.object_id}#bytes:{start}-{end}"
        return {"pointer": pointer, "start": start, "end": end, "where": where}


def _require(value: object, kind: type, name: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")


def _number(value: object, name: str, limit: int | None = None) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be a whole number of at least 0, not {value!r:.40}")
    return value if limit is None else min(value, limit)
