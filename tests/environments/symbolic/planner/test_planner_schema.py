"""Endpoints that know no schemas of answers: found out once in a run, and remembered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models import SpentError
from testing.killed_runs import facts, killed_after
from testing.loopback_model.server import ModelServer
from testing.model_clients import client_of
from testing.planner_studio import FINAL, GOOD, PLAN, Studio

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.environments.symbolic.planner.planner import AcceptedPlan

REFUSALS = (
    "the request was refused (400): 'response_format' of type 'json_schema' is not supported",
    "the request was refused (400): This response_format type is unavailable now",
    "the request was refused (422): [{'loc': ['body'], 'msg': 'Extra inputs are not permitted'}]",
    "the request was refused (400)",
    "the model service failed (500): failed to parse grammar",
    "the endpoint does not know the model m (404): No endpoint takes the requested parameters",
)


@pytest.mark.parametrize("said", REFUSALS)
def test_an_endpoint_that_refuses_the_schema_is_asked_without_it(tmp_path: Path, said: str) -> None:
    """Decision 13c: "tried on the first planner call and remembered; no separate probe"."""
    studio = Studio(tmp_path, [RemoteError(said), "no plan", GOOD, FINAL])
    assert studio.plan().plan == PLAN
    assert studio.plan(1).plan.intent == "final"
    forms = [request.response_format is not None for request in studio.model.requests]
    assert forms == [True, False, False, False], "once for the whole run"
    assert studio.meta()["structured"] is False
    assert studio.record.calls == 3
    studio.record.close()
    replayed = Studio(tmp_path, [], replay=True)
    assert (replayed.plan().plan, replayed.plan(1).plan.intent) == (PLAN, "final")


@pytest.mark.parametrize(
    "error",
    [
        RemoteError("the key was refused (401)"),
        RemoteError("too many requests (429)"),
        SpentError("the answer is JSON that was cut; schema"),
        RemoteError("the endpoint does not know the model schema-7b (404)"),
        LimitError("no calls left", budget="max_calls"),
    ],
)
def test_another_failure_is_no_refusal_of_the_schema(tmp_path: Path, error: Exception) -> None:
    studio = Studio(tmp_path, [error, GOOD], model="schema-7b")
    with pytest.raises(type(error)):
        studio.plan()
    assert len(studio.model.requests) == 1
    studio.record.close()
    again = Studio(tmp_path, [GOOD], model="schema-7b")
    assert again.plan().plan == PLAN
    assert again.model.requests[0].response_format is not None, "it is still to be found out"


def test_a_real_endpoint_that_knows_no_response_format(tmp_path: Path) -> None:
    """Over HTTP, with what our own client makes of the refusal."""
    with ModelServer([GOOD, FINAL]) as served, client_of(served) as client:
        served.unknown_parameter = "response_format"
        studio = Studio(tmp_path, [], asks=client)
        assert studio.plan().plan == PLAN
        assert studio.plan(1).plan.final_answer == "It is 7."
        assert not served.unexpected()
        forms = [one.body.get("response_format") is not None for one in served.completions]
    assert forms == [True, False, False]
    with ModelServer([GOOD]) as served, client_of(served) as client:
        other = tmp_path / "other"
        other.mkdir()
        assert Studio(other, [], asks=client).plan().plan == PLAN
        assert not served.unexpected()
        assert len(served.completions) == 1


@pytest.mark.sample(1)
@pytest.mark.parametrize("said", REFUSALS)
def test_an_endpoint_may_refuse_the_schema_later(tmp_path: Path, said: str) -> None:
    """Decision 13c: what a later call finds out is remembered as well, and decided once."""
    answers = ["no plan", GOOD, RemoteError(said), FINAL, FINAL]

    def play(studio: Studio) -> list[AcceptedPlan]:
        return [studio.plan(), studio.plan(1), studio.plan(2)]

    first = Studio(tmp_path, answers)
    expected = play(first)
    forms = [request.response_format is not None for request in first.model.requests]
    assert forms == [True, True, True, False, False], "from then on without it"
    assert [first.meta(n)["structured"] for n in range(3)] == [True, False, False]
    first.record.close()
    for cut in range(len(facts(tmp_path)) + 1):
        place = tmp_path / f"cut-{cut}"
        records = killed_after(tmp_path, cut, place)
        known = sum("finish_reason" in record.get("value", ()) for record in records)
        settled = any(record.get("value", {}).get("takes_schema") is False for record in records)
        rest = answers[known:] if known < 2 else answers[known + 1 :]
        if known >= 2 and not settled:  # nobody knows yet: it is asked, and refused, again
            rest = [answers[2], *rest]
        again = Studio(place, rest)
        assert play(again) == expected
        assert again.record.calls == 4 - known
        assert again.files() == first.files()
        again.record.close()
    replayed = tmp_path / "replayed"
    killed_after(tmp_path, len(facts(tmp_path)), replayed)
    again = Studio(replayed, [], replay=True)
    assert play(again) == expected
    assert again.files() == first.files()


def test_a_failure_after_the_first_question_is_no_refusal(tmp_path: Path) -> None:
    studio = Studio(tmp_path, [GOOD, RemoteError("too many requests (429)")])
    studio.plan()
    with pytest.raises(RemoteError, match="429"):
        studio.plan(1)
    studio.record.close()
    replayed = Studio(tmp_path, [], replay=True)
    replayed.plan()
    with pytest.raises(RemoteError, match="429"):
        replayed.plan(1)
    again = Studio(tmp_path, [FINAL])
    assert (again.plan().plan, again.plan(1).plan.intent) == (PLAN, "final")
    assert again.model.requests[0].response_format is not None


def test_a_request_that_is_refused_either_way_tells_nothing_of_schemas(tmp_path: Path) -> None:
    refused = RemoteError("the request was refused (400): bad")
    studio = Studio(tmp_path, [refused, RemoteError("the request was refused (400): worse")])
    with pytest.raises(RemoteError, match="worse"):
        studio.plan()
    studio.record.close()
    again = Studio(tmp_path, [GOOD])
    again.plan()
    assert again.model.requests[0].response_format is not None
