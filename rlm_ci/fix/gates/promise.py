"""The gate ``promise``: the role that edits must say, in so many words, that the work is done."""

from __future__ import annotations

import re

from rlm_ci.fix.gates.gate import FAILED, PASSED, Gate, GateResult
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.fix.gates.gate import GateView

_OPEN, _CLOSE = "<promise>", "</promise>"
_SAID = 200
#: Characters of the end of an answer: before that, an agent prints files, which may have a tag.
_END = 4000


class PromiseGate(Gate):
    """The first ``<promise>`` of the summary, else of the answer's end, must hold ``text``.

    Blanks do not count.
    """

    name = "promise"

    def __init__(self, text: str) -> None:
        self._text = " ".join(text.split())
        # Never the tag itself: an agent may print its prompt.
        self.line = (
            "a promise: if all of the work is done, and only then, end your answer (as the role"
            f" that edits) with an XML element `promise` that holds: {printable(self._text)}"
        )

    def check(self, view: GateView) -> GateResult:
        turn = next((role_turn for role_turn in reversed(view.turns) if role_turn.edits), None)
        if turn is None or turn.outcome.exit_code:
            return self._failed("the turn of the role that edits was not completed")
        promise = promised(turn.outcome.summary)
        if promise is None:
            promise = promised(turn.outcome.output[-_END:])
        if promise is None:
            return self._failed("the answer of the role that edits has no promise")
        if promise != self._text:
            return self._failed(f"the promise is another one: {promise[:_SAID]}")
        return GateResult(self.name, PASSED, f"promised: {printable(self._text)}")

    def _failed(self, reason: str) -> GateResult:
        return GateResult(self.name, FAILED, printable(reason))


def promised(text: str) -> str | None:
    """What the first whole tag holds, with single blanks; None without one."""
    _, opened, after = text.partition(_OPEN)
    promise, closed, _ = after.partition(_CLOSE)
    return re.sub(r"\s+", " ", promise).strip() if opened and closed else None
