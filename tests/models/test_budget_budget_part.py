"""A part of a run's budgets: charged to both, and within both."""

from __future__ import annotations

import pytest

from rlm_ci.errors import LimitError
from rlm_ci.models import ModelRequest, TokenUsage
from rlm_ci.models.budget import BudgetUse, Ledger, PartLedger

ASK = ModelRequest("m", ({"role": "user", "content": "x" * 10},), 100)


def test_a_call_is_charged_to_the_part_and_to_the_whole() -> None:
    whole = Ledger(max_calls=5, max_tokens=10_000)
    part = PartLedger(whole, {}, max_calls=2, spent=BudgetUse(1))
    charge = part.commit(part.reserve(ASK), TokenUsage(10, 5))
    assert (charge.usage.completion_tokens, part.spent.calls) == (5, 2)
    assert (whole.spent.calls, whole.spent.tokens) == (1, 15)
    with pytest.raises(LimitError, match="is used up"):
        part.reserve(ASK)
    whole.commit(whole.reserve(ASK), TokenUsage(10, 5))


def test_what_is_used_up_is_told_in_words_of_the_part() -> None:
    part = PartLedger(Ledger(), {"max_calls": "no more questions"}, max_calls=0)
    with pytest.raises(LimitError) as raised:
        part.reserve(ASK)
    assert (raised.value.what, raised.value.budget) == ("no more questions", "max_calls")


def test_a_refusal_of_the_whole_keeps_nothing_reserved() -> None:
    whole = Ledger(max_calls=1)
    part = PartLedger(whole, {"max_calls": "the part"}, max_calls=1)
    taken = whole.reserve(ASK)
    whole.commit(taken, TokenUsage(1, 1))
    with pytest.raises(LimitError, match="1 call"):
        part.reserve(ASK)
    assert part.spent.calls == 0
    roomy = Ledger()
    inner = PartLedger(PartLedger(roomy, {}), {}, max_calls=1)
    inner.release(inner.reserve(ASK))
    inner.commit(inner.reserve(ASK), None)
    assert (inner.spent.calls, roomy.spent.calls) == (1, 1)


def test_an_answer_has_the_room_of_the_smaller_one() -> None:
    request = ASK.replace(max_tokens=4000)
    whole = Ledger(max_tokens=600)
    assert PartLedger(whole, {}).reserve(request).ceiling.completion_tokens < 600
    part = PartLedger(Ledger(max_tokens=1000), {}, max_tokens=600)
    assert part.reserve(request).ceiling.completion_tokens < 600


def test_the_time_of_the_first_that_ends_counts() -> None:
    now = [0.0]
    whole = Ledger(max_minutes=2, clock=lambda: now[0])
    part = PartLedger(whole, {"max_minutes": "late"}, max_minutes=1, used=15, clock=lambda: now[0])
    assert (whole.seconds_left(), part.seconds_left()) == (120, 45)
    now[0] = 50.0
    with pytest.raises(LimitError, match="late"):
        part.require_time()
    endless = PartLedger(whole, {})
    assert (endless.seconds_left(), endless.out_of_time()) == (70, None)
    now[0] = 121.0
    assert endless.out_of_time() is not None
