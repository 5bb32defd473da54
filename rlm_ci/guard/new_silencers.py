"""Comments by which a change silences a tool, and that were not there before."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from operator import attrgetter

from rlm_ci.guard import lint_silencing
from rlm_ci.guard.weakening import Weakening
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rlm_ci.guard.lint_silencing import Silencer
    from rlm_ci.guard.weakening import TextChange

#: A comment that tools obey has one of these.
_MAY_SILENCE = (
    "noqa", "ignore", "disable", "nosec", "skip", "off", "pragma", "istanbul", "c8", "v8", "allow",
    "expect", "nolint", "type_check", "todo", "nocheck", "suppress", "pyre-", "mypy", "pyright",
    "ansible",
)  # fmt: skip
#: Where a comment begins, and a line that is nothing else.
_COMMENT = r"(?:^|(?<=\s))(?:#(?!!?\[)|//|/\*)|#!?\["
_ONLY_COMMENT = r"\s*(?:#(?!!?\[)|//|/\*|\*)"
#: Words that say why, set off by a sign.
_REASON = r"(?:#|//|/\*|--|\s[-–—:]|\(|=\s*\")\s*(?=[^\W_]).{0,80}?\w\w.{0,200}\s.{0,200}\w\w"
#: Lines of a comment above the code that are looked at.
_MOST_ABOVE = 20
#: Characters of a line that are looked at for code and reasons.
_LONGEST = 500


class _Side(Row):
    """One side of a file: all its lines, and those that the other side has not, else empty."""

    lines: Sequence[str]
    own: Sequence[str]

    def silencers(self) -> Iterator[tuple[int, str, list[Silencer]]]:
        """Those of each line (1-based), with the code that they are about."""
        text = "\n".join(self.own)
        if any(word in text for word in _MAY_SILENCE):
            found = lint_silencing.silencers(text, lint_silencing.TOOLS)
            for line, some in groupby(found, key=attrgetter("line")):
                yield line, self._code(line), list(some)

    def _code(self, line: int) -> str:
        """The code in front of a comment, or below it."""
        code = _code(self.lines[line - 1])
        following = (_code(one) for one in self.lines[line : line + _MOST_ABOVE])
        return code or next((one for one in following if one), "")


def found(changes: Iterable[TextChange]) -> tuple[list[Weakening], int]:
    """One weakening for each file and comment; and how many comments say why.

    One that moved is not new. Nor is one of another rule at the same code, and one that names its
    rules where all were silenced.
    """
    sides = [(one.path, *_sides(one)) for one in dict.fromkeys(changes)]
    known = _Known()
    for _, before, _ in sides:
        for _, code, some in before.silencers():
            for one in some:
                known.add(one, code)
    explained = 0
    told: dict[tuple[str, str], list[int]] = {}
    for path, before, after in sides:
        changed = {_code(line) for line in before.own} - {""}
        for line, code, some in after.silencers():
            new = [one for one in some if not known.has(path, one, code)]
            if new and _is_explained(after, line, changed):
                explained += len(new)
            else:
                for one in new:
                    told.setdefault((path, one.what), []).append(line)
    return [
        Weakening(
            lint_silencing.SILENCED,
            f"silences a tool{f' {len(lines):,} times' if len(lines) > 1 else ''}: {what[:100]}",
            path, lines[0],
        )
        for (path, what), lines in told.items()
    ], explained  # fmt: skip


class _Known:
    """Silencers that are gone: each may have become one other."""

    def __init__(self) -> None:
        self._left: Counter[str] = Counter()
        self._at: dict[tuple[str, str], list[str]] = {}
        self._narrowed: set[tuple[str, int, str]] = set()

    def add(self, one: Silencer, code: str) -> None:
        self._left[one.what] += 1
        self._at.setdefault((one.kind, code), []).append(one.what)

    def has(self, path: str, one: Silencer, code: str) -> bool:
        comment = (path, one.line, one.kind)
        if comment in self._narrowed:
            return True
        for what in (one.what, *self._at.get((one.kind, code), ()), one.kind):
            is_all = what == one.kind
            if self._left[what] > 0 and (is_all or one.what != one.kind):
                self._left[what] -= 1
                if is_all:
                    self._narrowed.add(comment)
                return True
        return False


def _sides(change: TextChange) -> tuple[_Side, _Side]:
    """Both sides; of lines that stand on both, each as often as on the other is left out."""
    old, new = ((text or "").split("\n") for text in (change.before, change.after))
    return _Side(old, _own(old, Counter(new))), _Side(new, _own(new, Counter(old)))


def _own(lines: Iterable[str], others: Counter[str]) -> list[str]:
    found = []
    for line in lines:
        others[line] -= 1
        found.append("" if others[line] >= 0 else line)
    return found


def _code(line: str) -> str:
    """The code in front of a comment, without blanks."""
    return "".join(re.split(_COMMENT, line[:_LONGEST], maxsplit=1)[0].split())


def _is_explained(side: _Side, line: int, changed: set[str]) -> bool:
    """Whether the comment says why, or one that came with it, above a line that was there."""
    text = side.lines[line - 1][:_LONGEST]
    start = re.search(_COMMENT, text)
    said = lint_silencing.stripped(text[start.start() :] if start else text)
    if re.search(_REASON, said):
        return True
    if _code(text) not in changed:
        return False
    above = []
    for one in reversed(side.own[max(0, line - 1 - _MOST_ABOVE) : line - 1]):
        if not re.match(_ONLY_COMMENT, one):
            break
        above.append(one.strip())
    said = " ".join(reversed(above))[:_LONGEST]
    return re.search(_REASON, lint_silencing.stripped(said)) is not None
