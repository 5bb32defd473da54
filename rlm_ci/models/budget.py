"""The budgets of a run, one account for all its threads.

Before a call the ledger reserves the most that it can use; afterwards it charges what it did
use. A call without room waits while others may give some back, and is refused otherwise.

Only the endpoint can count a prompt's tokens, so there are two figures. The ``worst`` is a token
a byte: no tokenizer makes more. The expected one follows earlier counts; it may be wrong, so it
decides only for a call that is alone at the end of a budget. At most one call can overspend, by
what its prompt exceeds the estimate.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from decimal import Decimal
from fractions import Fraction
from math import ceil

from rlm_ci.errors import LimitError
from rlm_ci.models import TokenUsage, prices
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final

    from rlm_ci.models import ModelRequest
    from rlm_ci.models.prices import Price

    #: The model, the bytes of the prompt, and the most tokens of the answer.
    PlannedCall = tuple[str, int, int]

_ZERO: Final = Decimal(0)
#: On top of the largest number of tokens a byte that an endpoint has counted.
_MARGIN: Final = Fraction(6, 5)
#: Tokens a byte of English; other texts have more, so no forecast has less.
_USUAL: Final = Fraction(1, 4)
#: The setting that says how much of a budget an answer is reserved.
_CAP: Final = "models.max_completion_tokens"
_CAP_VARIABLE: Final = "RLM_CI_MODELS_MAX_COMPLETION_TOKENS"
#: Tokens of the shortest answer that is proposed, and the step between two proposals.
_SHORTEST: Final = 500
_STEP: Final = 100


class BudgetUse(Value):
    """What calls used: their number, tokens, and USD where the price is known.

    ``cached_tokens`` of the prompts' were cached by the endpoint.
    """

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: Decimal = _ZERO
    cached_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: BudgetUse) -> BudgetUse:
        return BudgetUse(
            self.calls + other.calls,
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.usd + other.usd,
            self.cached_tokens + other.cached_tokens,
        )


_NOTHING: Final = BudgetUse()


class Reservation(Value):
    """Room for one call: ``most`` is the expected use, ``worst`` an upper bound."""

    model: str
    prompt_bytes: int
    most: BudgetUse
    worst: BudgetUse
    price: Price | None


class Charge(Value):
    """What a call was charged; ``cost`` in USD, None where the price is not known.

    ``uncached_cost`` is what it would have been without a cache, if there was one.
    """

    usage: TokenUsage
    cost: Decimal | None
    uncached_cost: Decimal | None = None

    def to_dict(self) -> dict[str, Any]:
        costs = (self.cost, self.uncached_cost)
        cost, more = (None if one is None else str(one) for one in costs)
        told = {"usage": self.usage.to_dict(), "cost": cost}
        return told if more is None else {**told, "uncached_cost": more}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Charge:
        costs = (value["cost"], value.get("uncached_cost"))
        told = (None if cost is None else Decimal(cost) for cost in costs)
        return cls(TokenUsage(**value["usage"]), *told)


class Forecast(Value):
    """What calls will use, about and at most; no ``usd`` where the price is not known.

    There is room for the first ``fitting`` of them, by the expected use.
    """

    tokens: int
    most_tokens: int
    usd: Decimal | None
    most_usd: Decimal | None
    fitting: int


class _Counted:
    """What an endpoint's counts show about prompts to one model."""

    def __init__(self) -> None:
        self.ratio: Fraction | None = None  # tokens a byte, the largest
        self.largest = 0  # bytes of the largest prompt that was counted
        self.added = 0  # tokens beyond one a byte: what the endpoint adds to a prompt

    def worst(self, size: int) -> int:
        return size + self.added

    def most(self, size: int) -> int:
        """The expected tokens; bytes beyond the largest known prompt count as a token each."""
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
    """The budgets of a run; None is no limit. ``spent`` is what an earlier process used.

    ``price`` gives a model's price, ``clock`` monotonic seconds; ``used`` seconds of
    ``max_minutes`` are over already.
    """

    def __init__(
        self,
        *,
        max_calls: int | None = None,
        max_tokens: int | None = None,
        budget_usd: Decimal | None = None,
        max_minutes: float | None = None,
        price: Callable[[str], Price | None] = lambda _model: None,
        spent: BudgetUse = _NOTHING,
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
        self._open: dict[int, Reservation] = {}  # by identity; of the calls under way
        self._counted: dict[str, _Counted] = {}  # by model; of those that have answered once
        self._ratio = Fraction(0)  # tokens a byte of a prompt, the largest that was noted
        self._surprise = ""  # the last call that exceeded its estimate
        self._exceeds_cap: LimitError | None = None

    @property
    def spent(self) -> BudgetUse:
        with self._changed:
            return self._spent

    def seconds_left(self) -> float | None:
        """Until ``max_minutes`` are over; None without such a limit."""
        return None if self._deadline is None else max(0.0, self._deadline - self._clock())

    def out_of_time(self) -> LimitError | None:
        """The error once the minutes are over; None before."""
        return self._refusal("max_minutes", _NOTHING) if self.seconds_left() == 0 else None

    def require_time(self) -> None:
        """Raise LimitError when the minutes are over."""
        over = self.out_of_time()
        if over is not None:
            raise over

    def require_price(self, model: str) -> None:
        """Raise ConfigError when money is limited and the price of ``model`` is unknown."""
        if self.budget_usd is not None and self._price(model) is None:
            raise prices.unknown(model)

    def note(self, request: ModelRequest, usage: TokenUsage | None) -> None:
        """Learn for forecasts what an endpoint counts, also in calls of an earlier process."""
        if usage is not None and not usage.estimated:
            ratio = Fraction(usage.prompt_tokens, request.prompt_bytes())
            with self._changed:
                self._ratio = max(self._ratio, ratio)

    def foresee(self, calls: Sequence[PlannedCall]) -> Forecast:
        """What calls will use, with whole answers: about, by what was noted, and at most."""

        def used(model: str, prompt: int, answer: int) -> BudgetUse:
            price = self._price(model)
            usd = _ZERO if price is None else price.most(prompt, answer)
            return BudgetUse(1, prompt, answer, usd)

        with self._changed:
            known = max(self._ratio, _USUAL) if self._ratio else Fraction(1)
            ratio = min(known * _MARGIN, Fraction(1))
            total, most, fitting = _NOTHING, _NOTHING, 0
            for model, size, answer in calls:
                total += used(model, ceil(size * ratio), answer)
                most += used(model, size, answer)
                fitting += self._exceeded(self._spent + total) is None
        is_priced = all(self._price(model) is not None for model, _, _ in calls)
        return Forecast(
            total.tokens,
            most.tokens,
            total.usd if is_priced else None,
            most.usd if is_priced else None,
            fitting,
        )

    def reserve(self, request: ModelRequest) -> Reservation:
        """Room for ``request``; waits while calls under way may give some back.

        Raises LimitError when there will be none, and as ``require_price``.
        """
        self.require_price(request.model)
        size, price = request.prompt_bytes(), self._price(request.model)
        with self._changed:
            while True:
                self.require_time()
                if self._exceeds_cap is not None:
                    raise self._exceeds_cap
                most, worst = self._needs(request, size, price)
                if self._has_room(request.model, most, worst):
                    made = Reservation(request.model, size, most, worst, price)
                    self._open[id(made)] = made
                    return made
                never = self._exceeded(self._spent + most)
                if never is not None:
                    least = request.min_tokens
                    fitting = 0 if least is None else self._fitting(most, price, least)
                    if not fitting:
                        raise self._refusal(never, most, price)
                    request = request.replace(max_tokens=fitting)
                    continue
                self._changed.wait(self.seconds_left())

    def commit(self, reservation: Reservation, usage: TokenUsage | None) -> Charge:
        """Charge what a call used; all that was reserved, if the endpoint gave no count."""
        most, price = reservation.most, reservation.price
        more = None
        if usage is None or usage.estimated:
            usage = TokenUsage(most.prompt_tokens, most.completion_tokens, estimated=True)
            cost = most.usd
        elif price is not None:
            tokens = usage.prompt_tokens, usage.completion_tokens
            cost = price.cost(*tokens, usage.cached_tokens)
            more = price.cost(*tokens) if usage.cached_tokens else None
        else:
            cost = _ZERO
        with self._changed:
            self._give_back(reservation)
            used = usage.prompt_tokens, usage.completion_tokens, cost, usage.cached_tokens
            self._spent += BudgetUse(1, *used)
            counted = self._counted.setdefault(reservation.model, _Counted())
            if not usage.estimated:
                counted.learn(reservation.prompt_bytes, usage.prompt_tokens)
                self._judge(reservation, usage)
            self._changed.notify_all()
        return Charge(usage, None if price is None else cost, more)

    def charge(self, use: BudgetUse) -> None:
        """Charge what another run has used of these budgets."""
        with self._changed:
            self._spent += use
            self._changed.notify_all()

    def rest(self) -> dict[str, int | Decimal]:
        """What is left of each budget of calls, tokens and money that there is."""
        used = _amounts(self.spent)
        limits = {budget: getattr(self, budget) for budget in used}
        return {
            budget: max(limit - used[budget], type(limit)(0))
            for budget, limit in limits.items()
            if limit is not None
        }

    def release(self, reservation: Reservation) -> None:
        """Give back what was reserved for a call that cost nothing."""
        with self._changed:
            self._give_back(reservation)
            self._changed.notify_all()

    def _give_back(self, reservation: Reservation) -> None:
        if self._open.pop(id(reservation), None) is None:
            raise ValueError("a reservation is given back once")

    def _needs(
        self, request: ModelRequest, size: int, price: Price | None
    ) -> tuple[BudgetUse, BudgetUse]:
        """The expected use of a call, and its upper bound."""
        counted = self._counted.get(request.model) or _Counted()

        def spent(prompt: int) -> BudgetUse:
            usd = _ZERO if price is None else price.most(prompt, request.max_tokens)
            return BudgetUse(1, prompt, request.max_tokens, usd)

        most, worst = counted.most(size), counted.worst(size)
        needed = spent(most)
        return needed, needed if most == worst else spent(worst)

    def _has_room(self, model: str, most: BudgetUse, worst: BudgetUse) -> bool:
        if not self._open:
            return self._exceeded(self._spent + most) is None
        # The first call shows how much an endpoint adds to a prompt: no other runs beside it.
        is_first = model not in self._counted
        others = self._open.values()
        if is_first and self._limits_tokens() and model in {one.model for one in others}:
            return False
        total = sum((one.worst for one in others), self._spent + worst)
        return self._exceeded(total) is None

    def _limits_tokens(self) -> bool:
        return (self.budget_usd, self.max_tokens) != (None, None)

    def _judge(self, reservation: Reservation, usage: TokenUsage) -> None:
        """Note a prompt that exceeded its estimate, and an answer that exceeded its cap."""
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
            self._exceeds_cap = LimitError(
                f"the endpoint wrote {wrote:,} tokens where {cap:,} were allowed "
                f"(model {model}), so no budget can be kept",
                budget=budget,
                where=budget,
                hint="use an endpoint that keeps to max_tokens, or limit calls and minutes only",
            )

    def _exceeded(self, total: BudgetUse) -> str | None:
        """The budget that ``total`` would overspend."""
        for budget, amount in _amounts(total).items():
            limit = getattr(self, budget)
            if limit is not None and amount > limit:
                return budget
        return None

    def _refusal(self, budget: str, most: BudgetUse, price: Price | None = None) -> LimitError:
        limit = getattr(self, budget)
        what = f"the budget of {_told(budget, limit)} "
        if budget not in ("max_tokens", "budget_usd"):
            what += "is used up"
        elif (used := _amounts(self._spent)[budget]) > limit:
            what += f"is overspent: {_told(budget, used)} used"
            what += f"; {self._surprise}" if self._surprise else ""
        else:
            what += (
                f"has no room for another call: {_told(budget, used)} used, up to "
                f"{_told(budget, _amounts(most)[budget])} more needed, for a prompt of "
                f"{most.prompt_tokens:,} tokens and an answer of {most.completion_tokens:,} "
                f"({_CAP})"
            )
            shorter = 0 if self._spent.calls else self._fitting(most, price, _SHORTEST)
            if shorter := shorter // _STEP * _STEP:
                what += f"; answers of {shorter:,} fit ({_CAP_VARIABLE}={shorter})"
        hint = f"raise --{budget.replace('_', '-')}, and start again"
        return LimitError(what, budget=budget, where=budget, hint=hint)

    def _fitting(self, most: BudgetUse, price: Price | None, least: int) -> int:
        """The longest answer for which there is room beside this prompt; 0 if below ``least``."""
        prompt = most.prompt_tokens

        def is_too_long(answer: int) -> bool:
            usd = _ZERO if price is None else price.most(prompt, answer)
            return self._exceeded(self._spent + BudgetUse(1, prompt, answer, usd)) is not None

        answers = range(least, most.completion_tokens + 1)
        fitting = bisect_left(answers, x=1, key=is_too_long)
        return answers[fitting - 1] if fitting else 0


def _amounts(use: BudgetUse) -> dict[str, int | Decimal]:
    """What counts against each budget but that of time."""
    return {"max_calls": use.calls, "max_tokens": use.tokens, "budget_usd": use.usd}


def _told(budget: str, amount: Any) -> str:
    if budget == "budget_usd":
        return f"${amount}"
    if budget == "max_minutes":
        return f"{amount:g} minutes"
    return count(amount, budget.removeprefix("max_").removesuffix("s"))
