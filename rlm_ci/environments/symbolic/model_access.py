"""How a question asks models and records their answers."""

from __future__ import annotations

from rlm_ci.models.budget import Forecast
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlm_ci.environments.symbolic.planner.plan import PlanLimits
    from rlm_ci.environments.turn_loop import Complete
    from rlm_ci.models.budget import PlannedCall
    from rlm_ci.runs import Fact

    Foresee = Callable[[Sequence[PlannedCall]], Forecast]


def no_limit(calls: Sequence[PlannedCall]) -> Forecast:
    return Forecast(0, 0, None, None, len(calls))


def nothing(_step: str) -> None:
    """Report no progress."""


class ModelAccess(Value):
    """``complete`` answers requests within the budgets; ``max_tokens`` caps each answer.

    ``model`` plans, and answers sub-calls that name none; a plan may also name one of ``models``.
    ``fact`` records decisions, which a resumed run keeps. ``write`` writes a file whole, by
    its path below the run's folder. ``redact`` takes secrets out of a text. ``foresee`` says what
    calls may use, ``tell`` reports progress. ``context_tokens`` is what ``model`` reads.
    """

    complete: Complete
    fact: Fact
    write: Callable[[str, bytes], None]
    redact: Callable[[str], str]
    limits: PlanLimits
    model: str
    max_tokens: int
    foresee: Foresee = no_limit
    tell: Callable[[str], None] = nothing
    models: tuple[str, ...] = ()
    context_tokens: int | None = None
