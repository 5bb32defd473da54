"""Places that an answer names by itself, as ``path:12`` or ``path#L3-L5``, in files of a context.

What only looks like one, a time, a version, an address, is none: the path must be that of a file
in the context's table, whole, and written as the table or a prompt has it.
"""

from __future__ import annotations

from rlm_ci.texts import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

    from rlm_ci.recursion.context import Piece

_NUMBER = "[0-9]{1,9}"
#: What follows a path: lines, and columns that nobody needs. Each repetition has a bound.
LINES = (
    rf"(?:\#L(?P<mark>{_NUMBER})(?:C{_NUMBER})?(?:[-–]L?(?P<mark_end>{_NUMBER})(?:C{_NUMBER})?)?"
    rf"|:(?P<line>{_NUMBER})(?:[-–](?P<line_end>{_NUMBER})|:{_NUMBER})?)"
    r"(?![A-Za-z0-9_]|[-–.:/][A-Za-z0-9])"
)
#: Beside letters and digits, what the inside of a path is written with: none begins behind it.
_INNER = frozenset("/._-\\~@+%$#")
#: From here on scripts put no blank between words.
_UNSPACED = "\u2e80"
#: Where a path may begin, counted back from its end: at so many words, in so many characters.
_WORDS = 12
_LONGEST = 4096


class Mention(Value):
    """Lines ``first`` to ``last`` of one of ``pieces``, written from ``start`` on in the text."""

    start: int
    pieces: tuple[Piece, ...]
    first: int
    last: int


class Mentions:
    """Finds the files of a context by the names that prompts tell of them."""

    def __init__(self, files: Sequence[Piece]) -> None:
        self._files = files
        self._named: dict[str, tuple[Piece, ...]] | None = None
        self._longest = 0

    def read(self, text: str, match: re.Match[str], since: int) -> Mention | None:
        """What ``match``, of ``LINES`` in ``text``, belongs to; nothing of it before ``since``."""
        found = self._path(text, since, match.start(), marked=match["mark"] is not None)
        if found is None:
            return None
        start, pieces = found
        first = int(match["mark"] or match["line"])
        last = match["mark_end"] or match["line_end"]
        return Mention(start, pieces, first, int(last) if last else first)

    def _path(
        self, text: str, since: int, end: int, *, marked: bool
    ) -> tuple[int, tuple[Piece, ...]] | None:
        """Where the path that ends at ``end`` begins, and its files: the longest that there is."""
        named = self._names()
        found = None
        words, at = 0, end
        while at > max(since, end - self._longest - 2) and words < _WORDS:
            at -= 1
            if not _begins(text, at):
                continue
            words += 1
            name = text[at:end].removeprefix("./")
            if name in named and (marked or _tells(name)):
                found = at, named[name]
        return found

    def _names(self) -> dict[str, tuple[Piece, ...]]:
        if self._named is None:
            self._named = {}
            for piece in self._files:
                name = printable(encodable(piece.path))
                self._named[name] = (*self._named.get(name, ()), piece)
            longest = max(map(len, self._named), default=0)
            self._longest = min(longest, _LONGEST)
        return self._named


def _begins(text: str, at: int) -> bool:
    """Whether a path may begin at ``at``: no word, nor a longer path, goes on there."""
    if at == 0:
        return True
    before = text[at - 1]
    return before >= _UNSPACED or not (before.isalnum() or before in _INNER)


def _tells(name: str) -> bool:
    """Whether a name is that of a file to whoever reads it: ``redis:7`` and ``11:30`` are not."""
    has_letter = any(map(str.isalpha, name))
    return has_letter and ("." in name or "/" in name or name[0].isupper())
