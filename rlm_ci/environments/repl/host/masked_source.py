"""The text of a context for code to read: without secrets, every line where it was.

Code may cut a text anywhere and encode it, so that no check of its output would see a secret.
"""

from __future__ import annotations

import os
import re

from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rlm_ci.context.context import Context

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
