"""Edits of a text by the byte: what trees of tree-sitter count in."""

from __future__ import annotations

from rlm_ci.canary.forms import UnparsableError, token
from rlm_ci.source.grammars import parse
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
    from random import Random
    from typing import Any

    from tree_sitter import Node

#: So deep may functions that make claims call each other.
_ROUNDS = 8


class Edit(Row):
    """``text`` in the place of the bytes from ``start`` to ``end``; alike, it is an insertion."""

    start: int
    end: int
    text: str


def encoded(text: str) -> bytes:
    """The bytes of a text, as ``spliced`` and the grammars take them."""
    return text.encode("utf-8", "surrogateescape")


def rooted(language: str, path: str, text: str) -> tuple[bytes, Node]:
    """The bytes of a text and its tree; raises UnreadableError."""
    content = encoded(text)
    root = parse(language, content)
    if root is None or root.has_error:
        raise UnparsableError(f"{path}: this is not {language} that can be read")
    return content, root


def spliced(source: bytes, edits: Iterable[Edit]) -> str:
    """``source`` with all ``edits``; insertions at one place stand in their order.

    Raises ValueError where two overlap.
    """
    parts = []
    past = 0
    for one in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        if not past <= one.start <= one.end <= len(source):
            raise ValueError(f"an edit of bytes {one.start} to {one.end} overlaps another")
        parts += [source[past : one.start], encoded(one.text)]
        past = one.end
    return b"".join([*parts, source[past:]]).decode("utf-8", "surrogateescape")


class Edits:
    """The edits of one file, one form after the other, and copies of the helpers in a form."""

    def __init__(self, content: bytes, chance: Random, *, plain: bool) -> None:
        self._content, self._chance, self._plain = content, chance, plain
        #: Insertions that end something stand before those that begin something.
        self._opened: list[Edit] = []
        self._closed: list[Edit] = []
        #: The copies of helpers for each form: how each is called there, and the token in them.
        self._copies: dict[tuple[int, str], str] = {}
        self._tokens: dict[str, str] = {}
        self._waiting: list[tuple[Any, str, str]] = []

    def _claims(self, function: Any, form: str, word: str) -> tuple[str, ...]:
        """Change all claims of a function; what the failure of one of them may print."""
        raise NotImplementedError

    def _insert(self, at: int, text: str) -> None:
        self._opened.append(Edit(at, at, text))

    def _close(self, at: int, text: str) -> None:
        self._closed.append(Edit(at, at, text))

    def _around(self, start: int, before: str, end: int, after: str) -> None:
        self._insert(start, before)
        self._close(end, after)

    def _replace(self, start: int, end: int, text: str) -> None:
        self._opened.append(Edit(start, end, text))

    def _taken(self, start: int = 0) -> list[Edit]:
        """The edits so far, counted from ``start``, which are done with then."""
        edits = [*reversed(self._closed), *self._opened]
        self._opened, self._closed = [], []
        return [Edit(one.start - start, one.end - start, one.text) for one in edits]

    def _copy(self, helper: Any, form: str) -> str:
        """The name of the copy of a helper in which its claims have the form."""
        key = helper.node.id, form
        if key not in self._copies:
            self._copies[key] = f"{helper.name}_{token(self._chance)}"
            self._tokens.setdefault(form, token(self._chance))
            self._waiting.append((helper, self._copies[key], form))
        return self._copies[key]

    def _copied(self) -> Iterator[tuple[Any, str]]:
        """The helpers that were copied, and the texts of their copies."""
        while self._waiting:  # a copy may need others
            helper, copy, form = self._waiting.pop()
            start, end = helper.node.start_byte, helper.node.end_byte
            self._replace(helper.named.start_byte, helper.named.end_byte, copy)
            self._claims(helper, form, self._tokens[form])
            yield helper, spliced(self._content[start:end], self._taken(start))

    def _literals(
        self, claims: Iterable[Any], expected: Callable[[Any], Sequence[Any]]
    ) -> list[tuple[Any, Any]]:
        """One literal of each claim that has any; none where no claim is sure to be reached."""
        found = [
            (claim, self._chance.choice(some)) for claim in claims if (some := expected(claim))
        ]
        certain = [one for one in found if one[0].certain]
        return certain[:1] if self._plain else found if certain else []


def claiming(called: Iterable[tuple[Hashable, list[Hashable | None]]]) -> set[Hashable]:
    """The functions that make claims, from what each calls for its own; None is one of its own."""
    pairs = list(called)
    found: set[Hashable] = set()
    for _ in range(_ROUNDS):
        found |= {key for key, calls in pairs if any(one is None or one in found for one in calls)}
    return found
