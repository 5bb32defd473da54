"""Regular expressions by models, applied to lines, with limits on time and memory."""

from __future__ import annotations

import re
from math import prod
from time import monotonic

from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from regex import Match

#: Seconds that one line may take, and more for each of its characters.
SECONDS = 10.0
PER_CHARACTER = 1 / (2 << 20)
#: Characters of an expression, with those that its repeats write out when it is compiled.
_WRITTEN_OUT = 200_000
_REPEAT = re.compile(r"\{([\s0-9]+)")


class PatternError(ValueError):
    """Why an expression cannot be used, for its author."""


class LinePattern:
    """A regular expression for lines; all of them together take ``seconds`` at most.

    Raises PatternError for a wrong expression, and one that would fill the memory.
    """

    def __init__(self, text: str, *, fold: bool = False, seconds: float | None = None) -> None:
        import regex

        if "\n" in text:
            raise PatternError("no regular expression for a line: it has a line break")
        if len(text) * _repeats(text) > _WRITTEN_OUT:
            raise PatternError("no regular expression: it repeats too much, use smaller numbers")
        try:
            self._compiled = regex.compile(text, regex.IGNORECASE if fold else 0)
        except (regex.error, RecursionError, OverflowError, MemoryError) as error:
            told = printable(str(error)[:200])
            raise PatternError(f"no regular expression: {told}") from None
        if self._compiled.flags & regex.REVERSE:
            raise PatternError("no regular expression for a line: (?r) is not supported")
        self.groups: int = self._compiled.groups
        self._seconds = SECONDS if seconds is None else seconds
        self._end = monotonic() + self._seconds

    def is_in(self, line: str) -> bool:
        """Whether ``line`` matches. Raises PatternError when the time is over."""
        return next(self.matches(line), None) is not None

    def matches(self, line: str) -> Iterator[Match[str]]:
        """Raises PatternError when the time is over, or the memory is full."""
        try:
            longest = SECONDS + PER_CHARACTER * len(line)
            for match in self._compiled.finditer(line, timeout=min(self._left(), longest)):
                yield match
                self._left()
        except TimeoutError:
            raise PatternError(
                f"the search takes more than {SECONDS:.0f} seconds for a line, or"
                f" {self._seconds:.0f} in all: use a simpler expression"
            ) from None
        except MemoryError:
            raise PatternError("it needs too much memory: use a simpler expression") from None

    def _left(self) -> float:
        left = self._end - monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _repeats(text: str) -> int:
    """An upper bound for how often repeats within repeats write out one character."""
    numbers = (int("".join(found.split())[:9] or 0) for found in _REPEAT.findall(text))
    largest = sorted((number for number in numbers if number > 1), reverse=True)
    return prod(largest[: 1 + text.count("(")])
