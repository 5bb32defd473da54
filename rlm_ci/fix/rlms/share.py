"""The part of a run's budgets that one analysis has."""

from __future__ import annotations

from decimal import Decimal

from rlm_ci.models.budget import BudgetUse
from rlm_ci.models.budget_part import PartLedger
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.fix.rlms.options import RlmsOptions
    from rlm_ci.models.gateway import Gateway
    from rlm_ci.models.record.clock import RunClock
    from rlm_ci.models.record.record import Record

#: Before the names of limits.
LIMITS = "loop.rlms.limits."
_BUDGETS = ("max_calls", "max_tokens", "budget_usd")


class AnalysisShare:
    """The share of the analysis with the files in ``folder``, which began ``began`` seconds after
    the run: at most half of what was left of each budget, and the limits of ``options``.

    ``turns`` is the way to the model for its turns, ``calls`` that for all other calls.
    """

    def __init__(
        self,
        gateway: Gateway,
        record: Record,
        clock: RunClock,
        options: RlmsOptions,
        *,
        folder: str,
        began: float,
    ) -> None:
        self._record = record
        self._folder = folder
        budgets, before = self._agreed(gateway)
        spent = record.spent
        seconds, limit = options.timeout_seconds, options.max_subcalls
        words = dict.fromkeys(_BUDGETS, "half of what was left of the run's budget is used up")
        words["max_minutes"] = f"the limit of {count(seconds, 'second')} is reached"
        words["max_minutes"] += f" ({LIMITS}timeout_seconds)"
        share = PartLedger(
            gateway.ledger,
            words,
            **budgets,
            max_minutes=seconds / 60,
            clock=clock.seconds,
            used=clock.seconds() - began,
            price=gateway.price,
            spent=spent - before,
        )
        message = f"the limit of {count(limit, 'sub-call')} is reached ({LIMITS}max_subcalls)"
        calls = PartLedger(
            share,
            {"max_calls": message},
            max_calls=limit,
            price=gateway.price,
            spent=BudgetUse(self.subcalls()),
        )
        self.turns, self.calls = gateway.within(share), gateway.within(calls)

    def _agreed(self, gateway: Gateway) -> tuple[dict[str, Any], BudgetUse]:
        """The budgets, and what the run had used when the analysis began: a fact."""

        def produce() -> Mapping[str, Any]:
            halves = {name: str(amount / 2) if name == "budget_usd" else int(amount) // 2
                    for name, amount in gateway.ledger.budgets_left().items()}  # fmt: skip
            used = self._record.spent.to_dict()
            return {"rest": {**dict.fromkeys(_BUDGETS), **halves}, "used": used}

        fact = self._record.fact("share", self._folder, {}, produce)
        used, budgets = fact["used"], dict(fact["rest"])
        if budgets["budget_usd"] is not None:
            budgets["budget_usd"] = Decimal(budgets["budget_usd"])
        return budgets, BudgetUse(**{**used, "usd": Decimal(used["usd"])})

    def is_subcall(self, step: str) -> bool:
        """Whether the call at ``step`` is no turn of the analysis itself."""
        inner, _, last = step.removeprefix(f"{self._folder}/").rpartition("/")
        return last.startswith("llm-") or (last.startswith("turn-") and bool(inner))

    def subcalls(self) -> int:
        """How many there are so far, those of earlier processes too."""
        return sum(map(self.is_subcall, self._record.places(f"{self._folder}/")))

    def depth(self) -> int:
        """How deep the code has asked itself so far."""
        places = self._record.places(f"{self._folder}/")
        return max((path.count("/rlm-") for path in places), default=0)
