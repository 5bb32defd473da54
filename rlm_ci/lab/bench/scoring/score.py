"""What a scorer gets, and what it returns."""

from __future__ import annotations

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlm_ci.lab.results import BenchmarkCase


class Reply(Value):
    """What a model answered to one prompt; ``cost_usd`` is None where the price is not known."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None


class CaseAnswer(Value):
    """An answer to a case, and what a scorer may need to judge it.

    ``ask`` puts a prompt to the judge; ``verify`` runs the hidden tests on the agent's work tree
    and says of each whether it passed.
    """

    case: BenchmarkCase
    text: str
    ask: Callable[[str], Reply] | None = None
    verify: Callable[[], Sequence[bool]] | None = None


class Score(Value):
    """``value`` is from 0 to 1; ``note`` is for people."""

    value: float
    note: str = ""
