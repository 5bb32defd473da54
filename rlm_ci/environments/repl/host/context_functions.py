"""``read``, ``search`` and ``peek``: the context by pointers, which an answer can cite.

Code reads the text without secrets, every line where it was: it may cut a text anywhere and encode
it, so that no check of its output would see a secret.
"""

from __future__ import annotations

import os
import re

from rlm_ci.context.context import PointerError
from rlm_ci.context.line_numbers import line_ranges as places_told
from rlm_ci.system import files
from rlm_ci.text.printable import encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from rlm_ci.context.context import Context
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


#: Bytes that are searched at once, and characters of a long line that are replaced together.
_WINDOW = 1 << 20
_PIECE = 8 << 10
_LINE = re.compile(rf"[^\n]{{0,{_PIECE}}}\n|[^\n]{{1,{_PIECE}}}(?=\s|\Z)|[^\n]{{1,{_PIECE}}}")


def masked_source(context: Context, path: str, redact: Callable[[str], str]) -> str:
    """The path of the source, or of a copy at ``path`` if it has secrets.

    A line with a secret is padded or cut: offsets and numbers of lines stay. Raises DamagedError,
    StorageError.
    """
    if os.path.lexists(path):  # made by an earlier process
        return path
    if all(mask(data, redact) == data for data in _windows(context)):
        return context.source_path
    files.make_folder(os.path.dirname(path), 0o700)
    files.write(path, (mask(data, redact) for data in _windows(context)), 0o600)
    return path


def mask(data: bytes, redact: Callable[[str], str]) -> bytes:
    """``data`` without secrets, with as many bytes in each line."""
    text = _text(data)
    if redact(text) == text:
        return data
    pieces = _LINE.findall(text)
    clean = [_fitting(redact(piece), piece) for piece in pieces]
    masked = "".join(clean)
    again = redact(masked)
    if again != masked:  # a secret of several lines
        first, last, start, end = 0, len(clean), 0, len(again)
        while first < last and again.startswith(clean[first], start):
            start += len(clean[first])
            first += 1
        while first < last and again.endswith(clean[last - 1], start, end):
            end -= len(clean[last - 1])
            last -= 1
        clean[first:last] = [_fitting("*" * len(piece), piece) for piece in clean[first:last]]
        masked = "".join(clean)
    return _bytes(masked)


def _fitting(clean: str, text: str) -> str:
    """``clean`` with as many bytes as ``text``, and the same end of the line."""
    if clean == text:
        return text
    body = text.removesuffix("\n")
    size = len(_bytes(body))
    cut = _bytes(clean.removesuffix("\n"))[:size].decode("utf-8", "ignore")
    return cut + " " * (size - len(_bytes(cut))) + text[len(body) :]


def _windows(context: Context) -> Iterator[bytes]:
    """The source in parts that end with a line, or at least with a word, where they can."""
    start = 0
    while start < context.byte_length:
        data = context.raw(start, min(start + _WINDOW, context.byte_length))
        if start + len(data) < context.byte_length:
            end = data.rfind(b"\n") + 1 or data.rfind(b" ") + 1 or len(data)
            data = data[:end]
        yield data
        start += len(data)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
