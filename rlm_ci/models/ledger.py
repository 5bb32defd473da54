"""One account for a whole tree of calls and all of its threads: it cannot be overspent.

Before a call, the most that it can use is reserved: the prompt, the cap on what is written, and
both at their price. After it, what it did use takes the reservation's place. A call for which
there is no room waits while others may give some back, and is refused when they cannot.
"""

from __future__ import annotations

import threading
import time
from decimal import Decimal
from fractions import Fraction

from rlm_ci.errors import LimitError
from rlm_ci.models import Usage, prices
from rlm_ci.texts import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

    from rlm_ci.models import Request
    from rlm_ci.models.prices import Price

_ZERO: Final = Decimal(0)
#: On top of the largest number of tokens a byte that an endpoint has counted.
_MARGIN: Final = Fraction(6, 5)
_FLAGS: Final = {
    "max_calls": "--max-calls",
    "max_tokens": "--max-tokens",
    "budget_usd": "--budget-usd",
    "max_minutes": "--max-minutes",
}


class Spent(Value):
    """What calls used: their number, tokens, and USD where the price is known."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: Decimal = _ZERO

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.usd + other.usd,
        )

    def __sub__(self, other: Spent) -> Spent:
        return Spent(
            self.calls - other.calls,
            self.prompt_tokens - other.prompt_tokens,
            self.completion_tokens - other.completion_tokens,
            self.usd - other.usd,
        )


class Reservation:
    """Room for one call: ``most`` is what it can use. It is given back once."""

    def __init__(self, model: str, prompt_bytes: int, most: Spent, price: Price | None) -> None:
        self.model = model
        self.prompt_bytes = prompt_bytes
        self.most = most
        self.price = price
        self.open = True


class Charge(Value):
    """What a call was charged; ``cost`` in USD, None where the price is not known."""

    usage: Usage
    cost: Decimal | None

    def to_dict(self) -> dict[str, Any]:
        cost = None if self.cost is None else str(self.cost)
        return {"usage": self.usage.to_dict(), "cost": cost}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Charge:
        cost = value["cost"]
        return cls(Usage(**value["usage"]), None if cost is None else Decimal(cost))


class Ledger:
    """The budgets of a run; None is no limit. ``spent`` is what an earlier process used of them.

    ``price`` tells a model's price, ``clock`` seconds that never go back; ``max_minutes`` begins
    now.
    """

    def __init__(
        self,
        *,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        budget_usd: Decimal | None = None,
        max_minutes: float | None = None,
        price: Callable[[str], Price | None] = lambda _model: None,
        spent: Spent = Spent(),  # noqa: B008 - immutable
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.max_calls = max_calls
        self.max_tokens = max_tokens
        self.budget_usd = budget_usd
        self.max_minutes = max_minutes
        self._price = price
        self._clock = clock
        self._deadline = None if max_minutes is None else clock() + max_minutes * 60
        self._changed = threading.Condition()
        self._spent = spent
        self._reserved = Spent()
        self._ratios: dict[str, Fraction] = {}  # tokens a byte of prompt, by model
        self._liar: LimitError | None = None

    @property
    def spent(self) -> Spent:
        with self._changed:
            return self._spent

    def seconds_left(self) -> float | None:
        """Until ``max_minutes`` are over; None without such a limit."""
        return None if self._deadline is None else max(0.0, self._deadline - self._clock())

    def require_time(self) -> None:
        """Raise LimitError when the minutes are over."""
        if self.seconds_left() == 0:
            raise self._refusal("max_minutes")

    def require_price(self, model: str) -> None:
        """Raise ConfigError when money is limited and nobody knows what ``model`` costs."""
        if self.budget_usd is not None and self._price(model) is None:
            raise prices.unknown(model)

    def reserve(self, request: Request) -> Reservation:
        """Room for ``request``; waits while calls under way may give some back.

        Raises LimitError when there is none and will be none, ConfigError when the price that
        a budget of money needs is unknown.
        """
        self.require_price(request.model)
        size, price = request.prompt_bytes(), self._price(request.model)
        with self._changed:
            while True:
                self.require_time()
                if self._liar is not None:
                    raise self._liar
                most = self._most(request, size, price)
                full = self._exceeded(self._spent + self._reserved + most)
                if full is None:
                    self._reserved += most
                    return Reservation(request.model, size, most, price)
                never = self._exceeded(self._spent + most)
                if never is not None:
                    raise self._refusal(never, most)
                self._changed.wait(self.seconds_left())

    def commit(self, reservation: Reservation, usage: Usage | None) -> Charge:
        """Charge what a call used: all that was reserved, where the endpoint did not say."""
        most, price = reservation.most, reservation.price
        if usage is None or usage.estimated:
            usage = Usage(most.prompt_tokens, most.completion_tokens, estimated=True)
            cost = most.usd
        elif price is not None:
            cost = price.cost(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
        else:
            cost = _ZERO
        with self._changed:
            self._give_back(reservation)
            self._spent += Spent(1, usage.prompt_tokens, usage.completion_tokens, cost)
            if not usage.estimated:
                self._learn(reservation, usage)
            self._changed.notify_all()
        return Charge(usage, None if price is None else cost)

    def release(self, reservation: Reservation) -> None:
        """Give back what was reserved for a call that cost nothing."""
        with self._changed:
            self._give_back(reservation)
            self._changed.notify_all()

    def _give_back(self, reservation: Reservation) -> None:
        if not reservation.open:
            raise ValueError("a reservation is given back once")
        reservation.open = False
        self._reserved -= reservation.most

    def _most(self, request: Request, size: int, price: Price | None) -> Spent:
        """The most that a call can use: a token a byte until the endpoint has counted once."""
        ratio = self._ratios.get(request.model)
        prompt = size if ratio is None else -(-size * ratio * _MARGIN // 1)
        usd = _ZERO if price is None else price.most(prompt, request.max_tokens)
        return Spent(1, prompt, request.max_tokens, usd)

    def _learn(self, reservation: Reservation, usage: Usage) -> None:
        """The endpoint's tokens a byte; and whether it keeps to what it is told."""
        seen = Fraction(usage.prompt_tokens, reservation.prompt_bytes)
        known = self._ratios.get(reservation.model, seen)
        self._ratios[reservation.model] = max(known, seen)
        cap, wrote = reservation.most.completion_tokens, usage.completion_tokens
        budget = "budget_usd" if self.budget_usd is not None else "max_tokens"
        if wrote > cap and (self.budget_usd, self.max_tokens) != (None, None):
            # Nothing bounds the next call either.
            self._liar = LimitError(
                f"the endpoint wrote {wrote:,} tokens where {cap:,} were allowed "
                f"(model {printable(reservation.model)}), so no budget can hold with it",
                budget=budget,
                where=budget,
                hint="use an endpoint that keeps to max_tokens, or limit calls and minutes only",
            )

    def _exceeded(self, total: Spent) -> str | None:
        """The budget that ``total`` would overspend."""
        if self.max_calls is not None and total.calls > self.max_calls:
            return "max_calls"
        if self.max_tokens is not None and total.tokens > self.max_tokens:
            return "max_tokens"
        if self.budget_usd is not None and total.usd > self.budget_usd:
            return "budget_usd"
        return None

    def _refusal(self, budget: str, most: Spent | None = None) -> LimitError:
        spent, limit = self._spent, getattr(self, budget)
        used, needed = {
            "max_calls": (spent.calls, 1),
            "max_tokens": (spent.tokens, most.tokens if most else 0),
            "budget_usd": (spent.usd, most.usd if most else 0),
            "max_minutes": (self.max_minutes or 0, 0),
        }[budget]
        what = f"the budget of {_told(budget, limit)} is used up"
        if budget in ("max_tokens", "budget_usd"):
            what = (
                f"the budget of {_told(budget, limit)} has no room for another call: "
                f"{_told(budget, used)} used, up to {_told(budget, needed)} more needed"
            )
        hint = f"raise {_FLAGS[budget]}, and start again"
        return LimitError(what, budget=budget, where=budget, hint=hint)


def _told(budget: str, amount: Any) -> str:
    """An amount of what ``budget`` limits, in words."""
    if budget == "budget_usd":
        return f"${amount}"
    if budget == "max_minutes":
        return f"{amount:g} minutes"
    return count(amount, budget.removeprefix("max_").removesuffix("s"))
