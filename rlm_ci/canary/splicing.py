"""Edits of a text by byte offsets, as in the trees of tree-sitter."""

from __future__ import annotations

from rlm_ci.canary.forms import UnparsableError
from rlm_ci.source.grammars import parse
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from tree_sitter import Node


class Edit(Row):
    """``text`` instead of the bytes from ``start`` to ``end``."""

    start: int
    end: int
    text: str


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def rooted(language: str, path: str, text: str) -> tuple[bytes, Node]:
    """The bytes of a text and its tree; raises UnparsableError."""
    content = encoded(text)
    root = parse(language, content)
    if root is None or root.has_error:
        raise UnparsableError(f"{path}: this is not {language} that can be read")
    return content, root


def spliced(source: bytes, edits: Iterable[Edit]) -> str:
    """``source`` with all ``edits``; insertions at one place keep their order.

    Raises ValueError if two overlap.
    """
    parts = []
    past = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if not past <= edit.start <= edit.end <= len(source):
            raise ValueError(f"an edit of bytes {edit.start} to {edit.end} overlaps another")
        parts += [source[past : edit.start], encoded(edit.text)]
        past = edit.end
    return b"".join([*parts, source[past:]]).decode("utf-8", "surrogateescape")
