"""One account for a whole tree of calls and all of its threads: it cannot be overspent.

Before a call, the most that it can use is reserved: the prompt, the cap on what is written, and
both at their price. After it, what it did use takes the reservation's place. A call for which
there is no room waits while others may give some back, and is refused when they cannot.

Only the endpoint can count a prompt's tokens, so there are two figures. The ``worst`` is a token
a byte: no tokenizer makes more. What is to be expected goes by what was counted before; it may
be wrong, so it decides only for a call that is alone, at the end of a budget. So at most one
call can overspend, by what its prompt has more than was to be expected.
"""

from __future__ import annotations

import threading
import time
from decimal import Decimal
from fractions import Fraction

from rlm_ci.errors import LimitError
from rlm_ci.models import TokenUsage, prices
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Final

    from rlm_ci.models import ModelRequest
    from rlm_ci.models.prices import Price

_ZERO: Final = Decimal(0)
#: On top of the largest number of tokens a byte that an endpoint has counted.
_MARGIN: Final = Fraction(6, 5)
#: The setting that says how much of a budget an answer is reserved.
_CAP: Final = "models.max_completion_tokens"
_CAP_VARIABLE: Final = "RLM_CI_MODELS_MAX_COMPLETION_TOKENS"
#: Tokens of an answer with which a model can do something, and by which one is proposed.
_SHORTEST: Final = 500
_STEP: Final = 100
_FLAGS: Final = {
    "max_calls": "--max-calls",
    "max_tokens": "--max-tokens",
    "budget_usd": "--budget-usd",
    "max_minutes": "--max-minutes",
}


class BudgetUse(Value):
    """What calls used: their number, tokens, and USD where the price is known."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: Decimal = _ZERO

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: BudgetUse) -> BudgetUse:
        return BudgetUse(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.usd + other.usd,
        )

    def __sub__(self, other: BudgetUse) -> BudgetUse:
        return BudgetUse(
            self.calls - other.calls,
            self.prompt_tokens - other.prompt_tokens,
            self.completion_tokens - other.completion_tokens,
            self.usd - other.usd,
        )


class Reservation:
    """Room for one call: ``most`` is what it should use, ``worst`` what it can at the worst.

    It is given back once.
    """

    def __init__(
        self, model: str, prompt_bytes: int, most: BudgetUse, worst: BudgetUse, price: Price | None
    ) -> None:
        self.model = model
        self.prompt_bytes = prompt_bytes
        self.most = most
        self.worst = worst
        self.price = price
        self.open = True


class Charge(Value):
    """What a call was charged; ``cost`` in USD, None where the price is not known."""

    usage: TokenUsage
    cost: Decimal | None

    def to_dict(self) -> dict[str, Any]:
        cost = None if self.cost is None else str(self.cost)
        return {"usage": self.usage.to_dict(), "cost": cost}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Charge:
        cost = value["cost"]
        return cls(TokenUsage(**value["usage"]), None if cost is None else Decimal(cost))


class _Counted:
    """What an endpoint's counts tell of the prompts to one model."""

    def __init__(self) -> None:
        self.ratio: Fraction | None = None  # tokens a byte, the largest
        self.largest = 0  # bytes of the largest prompt that was counted
        self.added = 0  # tokens beyond one a byte: what the endpoint puts into a prompt itself

    def worst(self, size: int) -> int:
        """The most tokens that a prompt of ``size`` bytes can come to."""
        return size + self.added

    def most(self, size: int) -> int:
        """Those that are to be expected; what is larger than any before, a token a byte."""
        if self.ratio is None:
            return self.worst(size)
        known = min(size, self.largest)
        return min(
            self.worst(size), self.added - (-known * self.ratio * _MARGIN // 1) + size - known
        )

    def learn(self, size: int, tokens: int) -> None:
        self.added = max(self.added, tokens - size)
        self.ratio = max(self.ratio or Fraction(0), Fraction(tokens - self.added, size))
        self.largest = max(self.largest, size)


class Ledger:
    """The budgets of a run; None is no limit. ``spent`` is what an earlier process used of them.

    ``price`` tells a model's price, ``clock`` seconds that never go back; of ``max_minutes``,
    which begin now, so many seconds are ``used`` already.
    """

    def __init__(
        self,
        *,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        budget_usd: Decimal | None = None,
        max_minutes: float | None = None,
        price: Callable[[str], Price | None] = lambda _model: None,
        spent: BudgetUse = BudgetUse(),  # noqa: B008 - immutable
        clock: Callable[[], float] = time.monotonic,
        used: float = 0.0,
    ) -> None:
        self.max_calls = max_calls
        self.max_tokens = max_tokens
        self.budget_usd = budget_usd
        self.max_minutes = max_minutes
        self._price = price
        self._clock = clock
        self._deadline = None if max_minutes is None else clock() + max_minutes * 60 - used
        self._changed = threading.Condition()
        self._spent = spent
        self._reserved = BudgetUse()  # the worst of all calls under way
        self._counted: dict[str, _Counted] = {}  # by model; of those that have answered once
        self._first: set[str] = set()  # the others of which a call is under way
        self._surprise = ""  # the call that last came to more than was to be expected
        self._liar: LimitError | None = None

    @property
    def spent(self) -> BudgetUse:
        with self._changed:
            return self._spent

    def seconds_left(self) -> float | None:
        """Until ``max_minutes`` are over; None without such a limit."""
        return None if self._deadline is None else max(0.0, self._deadline - self._clock())

    def out_of_time(self) -> LimitError | None:
        """What is told once the minutes are over; None before."""
        return self._refusal("max_minutes") if self.seconds_left() == 0 else None

    def require_time(self) -> None:
        """Raise LimitError when the minutes are over."""
        over = self.out_of_time()
        if over is not None:
            raise over

    def require_price(self, model: str) -> None:
        """Raise ConfigError when money is limited and nobody knows what ``model`` costs."""
        if self.budget_usd is not None and self._price(model) is None:
            raise prices.unknown(model)

    def reserve(self, request: ModelRequest) -> Reservation:
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
                most, worst = self._needs(request, size, price)
                if self._has_room(request.model, most, worst):
                    self._reserved += worst
                    if request.model not in self._counted:
                        self._first.add(request.model)
                    return Reservation(request.model, size, most, worst, price)
                never = self._exceeded(self._spent + most)
                if never is not None:
                    raise self._refusal(never, most, price)
                self._changed.wait(self.seconds_left())

    def commit(self, reservation: Reservation, usage: TokenUsage | None) -> Charge:
        """Charge what a call used: all that was reserved, where the endpoint did not say."""
        most, price = reservation.most, reservation.price
        if usage is None or usage.estimated:
            usage = TokenUsage(most.prompt_tokens, most.completion_tokens, estimated=True)
            cost = most.usd
        elif price is not None:
            cost = price.cost(usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens)
        else:
            cost = _ZERO
        with self._changed:
            self._give_back(reservation)
            self._spent += BudgetUse(1, usage.prompt_tokens, usage.completion_tokens, cost)
            counted = self._counted.setdefault(reservation.model, _Counted())
            if not usage.estimated:
                counted.learn(reservation.prompt_bytes, usage.prompt_tokens)
                self._judge(reservation, usage)
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
        self._reserved -= reservation.worst
        self._first.discard(reservation.model)

    def _needs(
        self, request: ModelRequest, size: int, price: Price | None
    ) -> tuple[BudgetUse, BudgetUse]:
        """What a call should use at most, and what it can at the worst."""
        counted = self._counted.get(request.model) or _Counted()

        def spent(prompt: int) -> BudgetUse:
            usd = _ZERO if price is None else price.most(prompt, request.max_tokens)
            return BudgetUse(1, prompt, request.max_tokens, usd)

        most, worst = counted.most(size), counted.worst(size)
        needed = spent(most)
        return needed, needed if most == worst else spent(worst)

    def _has_room(self, model: str, most: BudgetUse, worst: BudgetUse) -> bool:
        """Whether a call may begin now, beside those that are under way."""
        if not self._reserved.calls:
            return self._exceeded(self._spent + most) is None
        # How much an endpoint adds to a prompt shows in the first one: no other goes beside it.
        if model in self._first and self._limits_tokens():
            return False
        return self._exceeded(self._spent + self._reserved + worst) is None

    def _limits_tokens(self) -> bool:
        return (self.budget_usd, self.max_tokens) != (None, None)

    def _judge(self, reservation: Reservation, usage: TokenUsage) -> None:
        """Whether the endpoint keeps to what it is told, and a prompt to what was expected."""
        model, most = printable(reservation.model), reservation.most
        if usage.prompt_tokens > most.prompt_tokens:
            self._surprise = (
                f"a prompt came to {usage.prompt_tokens:,} tokens where no more than "
                f"{most.prompt_tokens:,} were expected (model {model})"
            )
        cap, wrote = reservation.most.completion_tokens, usage.completion_tokens
        budget = "budget_usd" if self.budget_usd is not None else "max_tokens"
        if wrote > cap and self._limits_tokens():
            # Nothing bounds the next call either.
            self._liar = LimitError(
                f"the endpoint wrote {wrote:,} tokens where {cap:,} were allowed "
                f"(model {model}), so no budget can be kept",
                budget=budget,
                where=budget,
                hint="use an endpoint that keeps to max_tokens, or limit calls and minutes only",
            )

    def _exceeded(self, total: BudgetUse) -> str | None:
        """The budget that ``total`` would overspend."""
        if self.max_calls is not None and total.calls > self.max_calls:
            return "max_calls"
        if self.max_tokens is not None and total.tokens > self.max_tokens:
            return "max_tokens"
        if self.budget_usd is not None and total.usd > self.budget_usd:
            return "budget_usd"
        return None

    def _refusal(
        self, budget: str, most: BudgetUse | None = None, price: Price | None = None
    ) -> LimitError:
        spent, limit = self._spent, getattr(self, budget)
        used, needed = {
            "max_calls": (spent.calls, 1),
            "max_tokens": (spent.tokens, most.tokens if most else 0),
            "budget_usd": (spent.usd, most.usd if most else 0),
            "max_minutes": (self.max_minutes or 0, 0),
        }[budget]
        what = f"the budget of {_told(budget, limit)} is used up"
        if budget in ("max_tokens", "budget_usd") and used > limit:
            what = f"the budget of {_told(budget, limit)} is overspent: {_told(budget, used)} used"
            what += f"; {self._surprise}" if self._surprise else ""
        elif budget in ("max_tokens", "budget_usd"):
            what = (
                f"the budget of {_told(budget, limit)} has no room for another call: "
                f"{_told(budget, used)} used, up to {_told(budget, needed)} more needed"
            )
            if most is not None:
                prompt, answer = (f"{n:,}" for n in (most.prompt_tokens, most.completion_tokens))
                what += f", for a prompt of {prompt} tokens and an answer of {answer} ({_CAP})"
                shorter = 0 if spent.calls else self._shorter(most, price)
                if shorter:
                    what += f"; answers of {shorter:,} fit ({_CAP_VARIABLE}={shorter})"
        hint = f"raise {_FLAGS[budget]}, and start again"
        return LimitError(what, budget=budget, where=budget, hint=hint)

    def _shorter(self, most: BudgetUse, price: Price | None) -> int:
        """The longest answer for which there is room beside this prompt; 0 for none of use."""
        fits, longest, prompt = 0, most.completion_tokens, most.prompt_tokens
        while fits < longest:
            tried = (fits + longest + 1) // 2
            usd = _ZERO if price is None else price.most(prompt, tried)
            if self._exceeded(self._spent + BudgetUse(1, prompt, tried, usd)) is None:
                fits = tried
            else:
                longest = tried - 1
        rounded = fits // _STEP * _STEP
        return rounded if rounded >= _SHORTEST else 0


def _told(budget: str, amount: Any) -> str:
    """An amount of what ``budget`` limits, in words."""
    if budget == "budget_usd":
        return f"${amount}"
    if budget == "max_minutes":
        return f"{amount:g} minutes"
    return count(amount, budget.removeprefix("max_").removesuffix("s"))
