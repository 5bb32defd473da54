"""The budgets of a run, one account for all its threads.

Before a call the ledger reserves the most that it can use; afterwards it charges what it did
use. A call without room waits while others may give some back. Where a budget leaves less than a
whole answer costs, the answer may have fewer tokens, down to ``SHORTEST``; then it is refused.

Only the endpoint can count a prompt's tokens. A prompt that begins like one that it has counted
has as many tokens, and at most one a byte of the rest: no tokenizer makes more.

A part of the budgets has limits of its own.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from math import ceil

from rlm_ci.errors import LimitError
from rlm_ci.models import TokenUsage, prices
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
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
#: Tokens of the shortest answer that is of use.
SHORTEST: Final = 256


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

    def __sub__(self, other: BudgetUse) -> BudgetUse:
        return BudgetUse(*(getattr(self, name) - getattr(other, name) for name in self._fields))


_NOTHING: Final = BudgetUse()


class Reservation(Value):
    """Room for one call, which uses ``ceiling`` at most."""

    request: ModelRequest
    ceiling: BudgetUse
    price: Price | None


class Charge(Value):
    """What a call was charged; ``cost`` in USD, None where the price is not known.

    ``uncached_cost`` is what it would have been without a cache, if there was one.
    """

    _ignores = True  # a completion has one among its members
    _optional = ("uncached_cost",)

    usage: TokenUsage
    cost: Decimal | None
    uncached_cost: Decimal | None = None


class Forecast(Value):
    """What calls will use, about and at most; no ``usd`` where the price is not known.

    There is room for the first ``fitting`` of them if each before uses what is expected.
    """

    tokens: int
    most_tokens: int
    usd: Decimal | None
    most_usd: Decimal | None
    fitting: int


class _PromptCounts:
    """What an endpoint has counted of prompts to one model."""

    def __init__(self) -> None:
        self._prompts: dict[bytes, tuple[int, int]] = {}  # bytes and tokens, by their digest
        self._added = 0  # tokens beyond one a byte: what the endpoint adds to a prompt

    def max_tokens(self, request: ModelRequest) -> int:
        """The most tokens that the prompt of ``request`` can have."""
        size = request.prompt_bytes()
        counted = (self._prompts[digest] for digest in _digests(request) if digest in self._prompts)
        bounds = [size + self._added, *(tokens + size - before for before, tokens in counted)]
        return min(bounds)

    def learn(self, request: ModelRequest, tokens: int) -> None:
        size = request.prompt_bytes()
        self._added = max(self._added, tokens - size)
        *_, digest = _digests(request)
        self._prompts[digest] = size, tokens


def _digests(request: ModelRequest) -> Iterator[bytes]:
    """The digests of the beginnings of a prompt: up to each of its messages."""
    digest = sha256()
    for piece in ((request.tools, request.response_format), *request.messages):
        digest.update(repr(piece).encode("utf-8", "surrogatepass"))
        yield digest.digest()


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
        self._counted: dict[str, _PromptCounts] = {}  # by model; of those that have answered once
        self._ratio = Fraction(0)  # tokens a byte of a prompt, the largest that was noted
        self._surprise = ""  # the last call that exceeded what was reserved
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
        """Learn what an endpoint counts, also in calls of an earlier process."""
        with self._changed:
            counts = self._counted.setdefault(request.model, _PromptCounts())
            if usage is not None and not usage.estimated:
                ratio = Fraction(usage.prompt_tokens, request.prompt_bytes())
                self._ratio = max(self._ratio, ratio)
                counts.learn(request, usage.prompt_tokens)

    def foresee(self, calls: Sequence[PlannedCall]) -> Forecast:
        """What calls will use, with long answers: about, by what was noted, and at most."""

        def used(model: str, prompt: int, answer: int) -> BudgetUse:
            return _max_use(prompt, answer, self._price(model))

        with self._changed:
            fraction = max(self._ratio, _USUAL) if self._ratio else Fraction(1)
            ratio = min(fraction * _MARGIN, Fraction(1))
            total, use, fitting = _NOTHING, _NOTHING, 0
            for model, size, answer in calls:
                largest = used(model, size, answer)
                fitting += self._exceeded(self._spent + total + largest) is None
                total += used(model, ceil(size * ratio), answer)
                use += largest
        is_priced = all(self._price(model) is not None for model, _, _ in calls)
        return Forecast(
            total.tokens,
            use.tokens,
            total.usd if is_priced else None,
            use.usd if is_priced else None,
            fitting,
        )

    def reserve(self, request: ModelRequest) -> Reservation:
        """Room for ``request``; waits while calls under way may give some back.

        Raises LimitError when there will be none, and as ``require_price``.
        """
        self.require_price(request.model)
        price = self._price(request.model)
        with self._changed:
            while True:
                self.require_time()
                if self._exceeds_cap is not None:
                    raise self._exceeds_cap
                counts = self._counted.get(request.model) or _PromptCounts()
                prompt = counts.max_tokens(request)
                fitting = self._fitting(prompt, price, request.max_tokens)
                use = _max_use(prompt, fitting or min(SHORTEST, request.max_tokens), price)
                if not fitting:
                    raise self._refusal(self._exceeded(self._spent + use) or "", use)
                if self._has_room(request.model, use):
                    reserved = Reservation(request, use, price)
                    self._open[id(reserved)] = reserved
                    return reserved
                self._changed.wait(self.seconds_left())

    def commit(
        self, reservation: Reservation, usage: TokenUsage | None, *, size: int | None = None
    ) -> Charge:
        """Charge what a call used; all that was reserved, if the endpoint gave no count.

        Of an answer that broke off after ``size`` bytes, that is no more than they can have been,
        unless a budget must hold: reasoning may have been hidden.
        """
        use, price = reservation.ceiling, reservation.price
        if size is not None and not self._limits_tokens():
            use = _max_use(use.prompt_tokens, min(size, use.completion_tokens), price)
        more = None
        if usage is None or usage.estimated:
            usage = TokenUsage(use.prompt_tokens, use.completion_tokens, estimated=True)
            cost = use.usd
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
            if not usage.estimated:
                self._judge(reservation, usage)
            self.note(reservation.request, usage)
            self._changed.notify_all()
        return Charge(usage, None if price is None else cost, more)

    def charge(self, use: BudgetUse) -> None:
        """Charge what another run has used of these budgets."""
        with self._changed:
            self._spent += use
            self._changed.notify_all()

    def budgets_left(self) -> dict[str, int | Decimal]:
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

    def _has_room(self, model: str, use: BudgetUse) -> bool:
        # The first call shows how much an endpoint adds to a prompt: no other runs beside it.
        is_first = model not in self._counted
        others = self._open.values()
        if is_first and self._limits_tokens() and model in {call.request.model for call in others}:
            return False
        return self._exceeded(sum((call.ceiling for call in others), self._spent + use)) is None

    def _limits_tokens(self) -> bool:
        return (self.budget_usd, self.max_tokens) != (None, None)

    def _judge(self, reservation: Reservation, usage: TokenUsage) -> None:
        """Note a prompt of more tokens than it can have, and an answer that exceeded its cap."""
        model, use = printable(reservation.request.model), reservation.ceiling
        if usage.prompt_tokens > use.prompt_tokens:
            self._surprise = (
                f"a prompt came to {usage.prompt_tokens:,} tokens where no more than "
                f"{use.prompt_tokens:,} were possible (model {model})"
            )
        cap, wrote = use.completion_tokens, usage.completion_tokens
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

    def _refusal(self, budget: str, use: BudgetUse) -> LimitError:
        limit = getattr(self, budget)
        what = f"the budget of {_amount_words(budget, limit)} "
        if budget not in ("max_tokens", "budget_usd"):
            what += "is used up"
        elif (used := _amounts(self._spent)[budget]) > limit:
            what += f"is overspent: {_amount_words(budget, used)} used"
            what += f"; {self._surprise}" if self._surprise else ""
        else:
            needed = _amount_words(budget, _amounts(use)[budget])
            what += (
                f"has no room for another call: {_amount_words(budget, used)} used, up to "
                f"{needed} more needed, for a prompt of at most "
                f"{use.prompt_tokens:,} tokens and an answer of {use.completion_tokens:,}"
            )
        hint = f"raise --{budget.replace('_', '-')}, and start again"
        return LimitError(what, budget=budget, where=budget, hint=hint)

    def _fitting(self, prompt: int, price: Price | None, longest: int) -> int:
        """The longest answer for which there is room beside a prompt; 0 if it is of no use."""

        def is_too_long(answer: int) -> bool:
            return self._exceeded(self._spent + _max_use(prompt, answer, price)) is not None

        answers = range(min(SHORTEST, longest), longest + 1)
        fitting = bisect_left(answers, x=1, key=is_too_long)
        return answers[fitting - 1] if fitting else 0


def _max_use(prompt: int, answer: int, price: Price | None) -> BudgetUse:
    return BudgetUse(1, prompt, answer, _ZERO if price is None else price.max_cost(prompt, answer))


def _amounts(use: BudgetUse) -> dict[str, int | Decimal]:
    """What counts against each budget but that of time."""
    return {"max_calls": use.calls, "max_tokens": use.tokens, "budget_usd": use.usd}


def _amount_words(budget: str, amount: Any) -> str:
    if budget == "budget_usd":
        return f"${amount}"
    if budget == "max_minutes":
        return f"{amount:g} minutes"
    return count(amount, budget.removeprefix("max_").removesuffix("s"))


class PartLedger(Ledger):
    """The budgets of a part: a call needs room in them and in ``whole``, and is charged to both.

    ``messages`` says what is used up, by budget. Other arguments are those of ``Ledger``.
    """

    def __init__(self, ledger: Ledger, messages: Mapping[str, str], **fields: Any) -> None:
        super().__init__(**fields)
        self._whole = ledger
        self._told = messages
        #: By the identity of the reservation in ``whole``: the one here.
        self._pairs: dict[int, Reservation] = {}

    def seconds_left(self) -> float | None:
        left = [limit for limit in (super().seconds_left(), self._whole.seconds_left())
                if limit is not None]  # fmt: skip
        return min(left, default=None)

    def out_of_time(self) -> LimitError | None:
        seconds = super().seconds_left()
        return super().out_of_time() if seconds == 0 else self._whole.out_of_time()

    def reserve(self, request: ModelRequest) -> Reservation:
        reservation = super().reserve(request)
        try:
            outer = self._whole.reserve(
                request.replace(max_tokens=reservation.ceiling.completion_tokens)
            )
        except BaseException:
            super().release(reservation)
            raise
        self._pairs[id(outer)] = reservation
        return outer

    def commit(
        self, reservation: Reservation, usage: TokenUsage | None, *, size: int | None = None
    ) -> Charge:
        super().commit(self._pairs.pop(id(reservation)), usage, size=size)
        return self._whole.commit(reservation, usage, size=size)

    def release(self, reservation: Reservation) -> None:
        super().release(self._pairs.pop(id(reservation)))
        self._whole.release(reservation)

    def _refusal(self, budget: str, use: BudgetUse) -> LimitError:
        if budget not in self._told:
            return super()._refusal(budget, use)
        return LimitError(self._told[budget], budget=budget)
