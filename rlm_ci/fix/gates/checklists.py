"""The gate ``checklists``: every item of these Markdown files must be ticked.

The agent ticks what it has done: like a promise, that is its word, and the patch shows each tick.
It cannot shorten a list: the items that were there at the start, and at the base of a pull request,
must all be there.
"""

from __future__ import annotations

from collections import Counter

from rlm_ci.checks._shown_markdown import items
from rlm_ci.fix.gates.gate import FAILED, PASSED, Gate, GateResult
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlm_ci.fix.gates.gate import GateView

    #: Reads a file of a tree: its bytes, or None.
    Read = Callable[[str, str], bytes | None]

#: Items that a reason names, and characters of each.
_NAMED, _ITEM = 5, 120


class ChecklistGate(Gate):
    """``lists`` are pairs of a path and the items that must be in the file."""

    name = "checklists"

    def __init__(
        self, lists: Sequence[tuple[str, Sequence[str]]], read: Read, redact: Callable[[str], str]
    ) -> None:
        self._lists = lists
        self._read = read
        self._redact = redact  # the record has the items without secrets
        paths = ", ".join(f"`{printable(path)}`" for path, _ in lists)
        self.line = (
            f"checklists: each item of {paths} must be ticked (`[x]`). Tick what you have done, and"
            " remove or reword no item"
        )

    def check(self, view: GateView) -> GateResult:
        problems = [
            f"{printable(path)}: {reason}"
            for path, expected in self._lists
            if (reason := self._wrong(self._read(view.result, path), expected))
        ]
        if problems:
            return GateResult(self.name, FAILED, "; ".join(problems))
        number = count(sum(len(expected) for _, expected in self._lists), "item")
        return GateResult(self.name, PASSED, f"{number} of the start ticked")

    def _wrong(self, data: bytes | None, names: Sequence[str]) -> str:
        if data is None:
            return "it is gone, or no regular file"
        boxes = [(self._redact(text), ticked) for text, ticked in items(data)]
        problems = []
        if gone := list((Counter(names) - Counter(text for text, _ in boxes)).elements()):
            problems.append(f"{count(len(gone), 'item')} removed or reworded: {_quoted(gone)}")
        if left := [text for text, ticked in boxes if not ticked]:
            problems.append(f"{count(len(left), 'open item')}: {_quoted(left)}")
        return ", ".join(problems)


def _quoted(texts: Sequence[str]) -> str:
    more = [f"and {len(texts) - _NAMED:,} more"] if len(texts) > _NAMED else []
    return "; ".join([*(printable(text)[:_ITEM] for text in texts[:_NAMED]), *more])
