"""The ledger: it cannot be overspent, by however many threads, and it waits before it refuses."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.errors import ConfigError, LimitError
from rlm_ci.models import ModelRequest, TokenUsage
from rlm_ci.models.budget import BudgetUse, Charge, Ledger, Reservation
from rlm_ci.models.prices import Price, Prices
from testing.model_clients import question

#: 1,000 tokens of completion cost ten cents, a prompt nothing.
DIME = {"m-1": {"input_per_million": 0, "output_per_million": 100}}


def limited(**limits: Any) -> Ledger:
    return Ledger(price=Prices(DIME).of, **limits)


def refused(ledger: Ledger, **more: Any) -> LimitError:
    with pytest.raises(LimitError) as caught:
        ledger.reserve(question(**more))
    return caught.value


def test_minutes_that_are_used_already_are_not_given_again() -> None:
    now = [100.0]
    ledger = limited(max_minutes=2, clock=lambda: now[0], used=50)
    assert ledger.seconds_left() == 70
    assert ledger.out_of_time() is None
    now[0] += 71
    over = ledger.out_of_time()
    assert over is not None
    assert over.budget == "max_minutes"


def test_what_another_run_has_used_is_charged_here() -> None:
    ledger = limited(max_calls=5, budget_usd=Decimal(1))
    ledger.charge(BudgetUse(4, 10, 20, Decimal("0.75")))
    assert ledger.budgets_left() == {"max_calls": 1, "budget_usd": Decimal("0.25")}
    ledger.charge(BudgetUse(3, 10, 20, Decimal("0.75")))
    assert ledger.budgets_left() == {"max_calls": 0, "budget_usd": Decimal(0)}
    assert refused(ledger).budget == "max_calls"


def test_a_dollar_is_ten_calls_of_a_dime_for_sixteen_threads() -> None:
    ledger = limited(budget_usd=Decimal(1))
    asked: list[int] = []
    ended: list[str] = []
    lock = threading.Lock()
    most = [Decimal(0)]

    def work(number: int) -> None:
        chance = random.Random(number)
        while True:
            try:
                reservation = ledger.reserve(question(max_tokens=1000))
            except LimitError as error:
                ended.append(error.budget)
                return
            with lock:
                asked.append(number)
            time.sleep(chance.random() / 200)
            ledger.commit(reservation, TokenUsage(5, 1000))
            with lock:
                most[0] = max(most[0], ledger.spent.usd)

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    assert len(asked) == 10
    assert ended == ["budget_usd"] * 16
    assert most[0] == ledger.spent.usd == Decimal("1.00")


def test_what_a_call_did_not_use_makes_room_for_others_that_wait() -> None:
    ledger = limited(budget_usd=Decimal(1))
    # Ten can be reserved at once, and each uses half of it: sixteen get through, by waiting.
    done = threading.Semaphore(0)
    gate = threading.Event()

    def work(_number: int) -> None:
        reservation = ledger.reserve(question(max_tokens=1000))
        gate.wait(10)
        ledger.commit(reservation, TokenUsage(5, 500))
        done.release()

    with ThreadPoolExecutor(16) as pool:
        futures = [pool.submit(work, number) for number in range(16)]
        gate.set()
        for future in futures:
            future.result(timeout=20)
    assert ledger.spent.calls == 16
    assert ledger.spent.usd == Decimal("0.80")


def test_a_call_waits_for_a_release_and_is_refused_after_a_commit() -> None:
    ledger = limited(max_calls=1)
    for usage in (None, TokenUsage(1, 1)):
        held = ledger.reserve(question())
        got: list[Any] = []

        def ask(got: list[Any] = got) -> None:
            try:
                got.append(ledger.reserve(question()))
            except LimitError as error:
                got.append(error)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join(0.05)
        assert not got, "there may be room once the other call has ended"
        if usage is None:
            ledger.release(held)
        else:
            ledger.commit(held, usage)
        thread.join(5)
        if usage is None:
            ledger.release(got[0])
        else:
            assert got[0].budget == "max_calls"


@pytest.mark.parametrize(
    ("limits", "budget", "words"),
    [
        ({"max_calls": 0}, "max_calls", "the budget of 0 calls is used up"),
        ({"max_tokens": 150}, "max_tokens", r"150 tokens has no room .* up to 1\d\d tokens more"),
        ({"budget_usd": Decimal("0.009")}, "budget_usd", r"\$0.009 has no room .* up to \$0.01"),
        ({"max_minutes": 0}, "max_minutes", "the budget of 0 minutes is used up"),
        ({"max_minutes": 0.5}, None, ""),
    ],
)
def test_each_budget_is_named(limits: dict[str, Any], budget: str | None, words: str) -> None:
    ledger = limited(**limits)
    if budget is None:
        ledger.release(ledger.reserve(question()))
        return
    error = refused(ledger)
    assert (error.budget, error.where, error.code) == (budget, budget, 3)
    assert "raise --" in error.hint
    with pytest.raises(LimitError, match=words):
        ledger.reserve(question())


def test_an_answer_shrinks_to_what_is_left() -> None:
    ledger = limited(budget_usd=Decimal("0.1"))  # for 1,000 tokens
    first = ledger.reserve(question(max_tokens=4000))
    assert first.ceiling.completion_tokens == 1000
    ledger.commit(first, TokenUsage(5, 700))
    second = ledger.reserve(question(max_tokens=4000))
    assert second.ceiling.completion_tokens == 300
    ledger.commit(second, TokenUsage(5, 100))
    error = refused(ledger, max_tokens=4000)
    assert (error.budget, "and an answer of 256" in error.what) == ("budget_usd", True)
    assert ledger.reserve(question(max_tokens=200)).ceiling.completion_tokens == 200, "by itself"


def test_the_minutes_end_a_wait() -> None:
    ledger = limited(max_calls=1, max_minutes=0.1 / 60)
    ledger.reserve(question())
    began = time.monotonic()
    assert refused(ledger).budget == "max_minutes"
    assert time.monotonic() - began < 5


def test_the_minutes_run_by_the_clock_that_is_given() -> None:
    now = [100.0]
    ledger = limited(max_minutes=2, clock=lambda: now[0])
    now[0] += 119
    ledger.require_time()
    assert ledger.seconds_left() == 1
    now[0] += 2
    assert ledger.seconds_left() == 0
    with pytest.raises(LimitError, match="2 minutes"):
        ledger.require_time()
    assert limited().seconds_left() is None


def test_what_an_earlier_process_spent_counts() -> None:
    ledger = limited(budget_usd=Decimal(1), spent=BudgetUse(9, 0, 9000, Decimal("0.9")))
    ledger.commit(ledger.reserve(question(max_tokens=1000)), TokenUsage(5, 1000))
    assert refused(ledger, max_tokens=1).budget == "budget_usd"


def test_money_with_a_model_of_unknown_price_is_refused_before_it_is_asked() -> None:
    ledger = limited(budget_usd=Decimal(1))
    with pytest.raises(ConfigError, match="'nobody-knows-it' is not known") as caught:
        ledger.reserve(question(model="nobody-knows-it"))
    assert '[models.prices."nobody-knows-it"]' in caught.value.hint
    free = Ledger()
    charge = free.commit(free.reserve(question()), TokenUsage(1, 1))
    assert charge == Charge(TokenUsage(1, 1), None)


def test_a_forecast_follows_what_was_counted_and_says_what_fits() -> None:
    ledger = limited(budget_usd=Decimal("0.35"), max_calls=5)
    calls = [("m-1", 1000, 1000)] * 4
    unknown = ledger.foresee(calls)
    assert (unknown.tokens, unknown.most_tokens) == (8000, 8000), "a token a byte"
    assert (unknown.usd, unknown.most_usd) == (Decimal("0.4"), Decimal("0.4"))
    assert unknown.fitting == 3, "three dimes of thirty-five cents"
    request = question()
    ledger.note(request, TokenUsage(request.prompt_bytes() // 4, 9))
    ledger.note(request, TokenUsage(10**6, 9, estimated=True))
    known = ledger.foresee(calls)
    assert 5000 < known.tokens < 5210
    assert known.most_tokens == 8000
    assert limited(max_calls=2).foresee(calls).fitting == 2
    assert ledger.foresee([("other", 10, 10)]).usd is None
    assert ledger.spent == BudgetUse(), "nothing is reserved"


def test_no_usage_is_charged_as_all_that_was_reserved() -> None:
    ledger = limited(max_tokens=10_000)
    request = question("x" * 50)
    charge = ledger.commit(ledger.reserve(request), None)
    assert charge == Charge(
        TokenUsage(request.prompt_bytes(), 100, estimated=True), Decimal(100) * 100 / 1_000_000
    )
    assert ledger.spent.tokens == request.prompt_bytes() + 100


def conversation(*texts: str, **more: Any) -> ModelRequest:
    roles = ("user", "assistant")
    messages = tuple({"role": roles[n % 2], "content": text} for n, text in enumerate(texts))
    return ModelRequest("m-1", messages, 100, **more)


def test_what_was_counted_is_known_and_the_rest_is_a_token_a_byte() -> None:
    ledger = limited(max_tokens=10**9)
    first = conversation("é" * 500)
    size = first.prompt_bytes()
    assert size > 1000
    held = ledger.reserve(first)
    assert held.ceiling.prompt_tokens == size
    ledger.commit(held, TokenUsage(size // 4, 1))

    def most(request: ModelRequest) -> int:
        reserved = ledger.reserve(request)
        ledger.release(reserved)
        return reserved.ceiling.prompt_tokens

    assert most(first) == size // 4
    longer = conversation("é" * 500, "Read it.", "x" * 3000)
    assert most(longer) == size // 4 + longer.prompt_bytes() - size
    ledger.note(longer, TokenUsage(size // 4 + 90, 1))  # of an earlier process
    last = conversation("é" * 500, "Read it.", "x" * 3000, "Done.")
    assert most(last) == size // 4 + 90 + last.prompt_bytes() - longer.prompt_bytes()
    # Another beginning, other tools and another model: nothing is known.
    for other in (
        conversation("e" * 500),
        conversation("é" * 500, tools=({"type": "function"},)),
        first.replace(model="m-2"),
    ):
        assert most(other) == other.prompt_bytes()


def test_a_gateway_that_adds_to_every_prompt_shows_it_in_the_first() -> None:
    """Sixteen threads, 3,000 tokens that nobody sent: an honest count overspends nothing."""
    ledger = limited(max_tokens=20_000)

    def work(_number: int) -> str:
        try:
            reservation = ledger.reserve(question())
        except LimitError as error:
            return error.what
        time.sleep(0.01)
        ledger.commit(reservation, TokenUsage(question().prompt_bytes() // 4 + 3000, 50))
        return ""

    with ThreadPoolExecutor(16) as pool:
        told = list(pool.map(work, range(16)))
    assert 15_000 < ledger.spent.tokens <= 20_000
    assert ledger.spent.calls == told.count("") == 6
    assert all("has no room" in one for one in told if one)


def test_the_first_call_to_a_model_waits_for_none_to_another() -> None:
    ledger = limited(max_tokens=100_000)
    first = ledger.reserve(question())
    other = ledger.reserve(question(model="m-2"))
    got: list[Reservation] = []
    thread = threading.Thread(target=lambda: got.append(ledger.reserve(question(model="m-2"))))
    thread.start()
    thread.join(0.05)
    assert not got, "what the endpoint adds to a prompt is not known yet"
    ledger.commit(other, None)
    thread.join(5)
    assert got[0].request.model == "m-2"
    ledger.release(first)


def test_a_prompt_that_an_endpoint_adds_to_later_is_told() -> None:
    ledger = limited(max_tokens=4_000)
    ledger.commit(ledger.reserve(question()), TokenUsage(20, 100))
    ledger.commit(ledger.reserve(question()), TokenUsage(3950, 50))
    error = refused(ledger)
    assert "budget of 4,000 tokens is overspent: 4,120 tokens used; a prompt came to 3,950" in (
        error.what
    )
    assert "were possible (model m-1)" in error.what


def test_a_tree_of_threads_never_spends_more_than_its_money() -> None:
    """Each asks on after its answer, in a conversation that gets denser, as a tree of REPLs."""
    price = Prices({"m-1": {"input_per_million": 3, "output_per_million": 15}}).of
    cap = Decimal("0.05")
    ledger = Ledger(price=price, budget_usd=cap)
    ended: list[str] = []

    def work(number: int) -> None:
        chance = random.Random(number)
        texts, tokens = ["Count them."], 12
        while True:
            try:
                reservation = ledger.reserve(conversation(*texts))
            except LimitError as error:
                ended.append(error.budget)
                return
            answer = min(reservation.ceiling.completion_tokens, chance.randrange(400))
            ledger.commit(reservation, TokenUsage(tokens, answer))
            said, told = "a" * chance.randrange(200), "7" * chance.randrange(900)
            texts += [said, told]
            tokens += len(said) // 4 + int(len(told) * chance.random()) + 8

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert ended == ["budget_usd"] * 8
    assert cap * Decimal("0.9") < ledger.spent.usd <= cap


@given(
    st.lists(
        st.tuples(st.integers(1, 4000), st.floats(0, 1), st.integers(0, 3)), min_size=2, max_size=60
    ),
    st.integers(0, 40_000),
)
def test_an_endpoint_that_counts_honestly_overspends_nothing(
    calls: list[tuple[int, float, int]], max_tokens: int
) -> None:
    """Any prompt may have any number of tokens up to one a byte, at any time, among others."""
    ledger = limited(max_tokens=max_tokens)
    held: list[tuple[Reservation, float]] = []

    def end(reservation: Reservation, density: float) -> None:
        used = int(reservation.ceiling.prompt_tokens * density)
        ledger.commit(reservation, TokenUsage(max(used, 1), 100))
        assert ledger.spent.tokens <= max_tokens

    for size, density, keep in calls:
        request = question("x" * size)
        if len(held) > keep or not _fits(ledger, request):
            while held:
                end(*held.pop())
        try:
            reservation = ledger.reserve(request)
        except LimitError:
            break
        held.append((reservation, density))
    while held:
        end(*held.pop())


def _fits(ledger: Ledger, request: ModelRequest) -> bool:
    """Whether a call may begin without waiting for another."""
    most = BudgetUse(1, request.prompt_bytes(), request.max_tokens)
    return ledger._has_room(request.model, most)


def test_an_endpoint_that_writes_beyond_the_cap_stops_everything() -> None:
    ledger = limited(budget_usd=Decimal(1))
    ledger.commit(ledger.reserve(question(max_tokens=10)), TokenUsage(5, 4000))
    assert ledger.spent.usd == Decimal("0.4"), "what it did cost is told"
    error = refused(ledger)
    assert "wrote 4,000 tokens where 10 were allowed" in error.what
    assert error.budget == "budget_usd"


def test_where_nothing_is_limited_that_it_breaks_a_liar_may_go_on() -> None:
    ledger = limited(max_calls=2)
    ledger.commit(ledger.reserve(question(max_tokens=10)), TokenUsage(5, 4000))
    ledger.commit(ledger.reserve(question()), TokenUsage(5, 1))
    assert refused(ledger).budget == "max_calls"


def test_a_reservation_is_given_back_once() -> None:
    ledger = limited()
    held = ledger.reserve(question())
    ledger.release(held)
    with pytest.raises(ValueError, match="once"):
        ledger.commit(held, TokenUsage(1, 1))
    assert ledger.spent == BudgetUse()


@given(
    st.lists(
        st.tuples(
            st.integers(1, 3000),  # the cap
            st.sampled_from(["commit", "lost", "release", "hold"]),
            st.floats(0, 1),  # how much of it is used
        ),
        max_size=40,
    ),
    st.integers(0, 20),
    st.integers(0, 30_000),
    st.decimals(0, 2, places=2),
)
def test_whatever_is_asked_in_whatever_order_no_budget_is_overspent(
    steps: list[tuple[int, str, float]], max_calls: int, max_tokens: int, budget: Decimal
) -> None:
    ledger = limited(max_calls=max_calls, max_tokens=max_tokens, budget_usd=budget)
    held: list[Reservation] = []
    for cap, how, part in steps:
        request = question(max_tokens=cap)
        if held:  # nobody else would give anything back, and this thread must not wait for itself
            ledger.release(held.pop())
        try:
            reservation = ledger.reserve(request)
        except LimitError:
            continue
        if how == "commit":
            prompt = int(reservation.ceiling.prompt_tokens * part)
            ledger.commit(
                reservation,
                TokenUsage(max(prompt, 1), int(reservation.ceiling.completion_tokens * part)),
            )
        elif how == "lost":
            ledger.commit(reservation, None)
        elif how == "release":
            ledger.release(reservation)
        else:
            held.append(reservation)
        spent = ledger.spent
        assert spent.calls <= max_calls
        assert spent.tokens <= max_tokens
        assert spent.usd <= budget


@given(st.integers(0, 10**6), st.integers(0, 10**5), st.integers(0, 10**6))
def test_a_reservation_covers_whatever_a_call_within_it_costs(
    prompt: int, completion: int, cached: int
) -> None:
    price = Prices().of("claude-sonnet-4-5")  # its rates double where the prompt is long
    assert isinstance(price, Price)
    assert len(price.rates) > 1
    cost = price.cost(prompt, completion, min(cached, prompt))
    for more in (0, 1, 10**5):
        assert cost <= price.max_cost(prompt + more, completion + more)
