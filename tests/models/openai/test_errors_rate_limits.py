"""Limits of a minute are waited for, those of a day end the questions, in each endpoint's words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.environments.turn_loop import takes_tools
from rlm_ci.errors import RemoteError
from rlm_ci.models.openai import errors
from rlm_ci.models.providers import SCHEMAS, TOOLS
from testing.loopback_model.dialects import dialects
from testing.loopback_model.replies import Raw
from testing.model_clients import SHORT, TOOL, Client, question

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from testing.loopback_model.server import ModelServer

PATIENCE = SHORT.replace(total=600, longest=60)
SCHEMA = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}}


def rows(kind: str) -> dict[str, Raw]:
    return {name: one for name, row in dialects().items() if (one := getattr(row, kind))}


def fact(_kind: str, _place: str, _key: object, produce: Callable[[], Mapping[str, Any]]) -> Any:
    return produce()


@pytest.mark.parametrize("name", rows("minute"))
def test_a_limit_of_a_minute_is_waited_for_as_told(
    client: Client, llm: ModelServer, name: str
) -> None:
    slept: list[float] = []
    told: list[str] = []
    llm.script([*[rows("minute")[name]] * 5, "then"])  # more often than a failure is tried
    model = client(llm, patience=PATIENCE, sleep=slept.append, tell=told.append)
    assert model.complete(question()).text == "then"
    assert len(slept) == 5
    assert all(6 < one < 8 for one in slept)
    # Two do not say what kind of limit it was.
    is_named = name not in ("azure", "mistral")
    assert f"{'a minute is reached' if is_named else 'too many requests'}: waiting " in told[0]


@pytest.mark.parametrize("name", rows("day"))
def test_a_limit_of_a_day_ends_the_questions(client: Client, llm: ModelServer, name: str) -> None:
    slept: list[float] = []
    llm.script([rows("day")[name]])
    model = client(llm, patience=PATIENCE, sleep=slept.append)
    for _ in range(3):  # the endpoint hears the first one alone
        with pytest.raises(RemoteError) as caught:
            model.complete(question())
        daily = dialects()[name].daily
        assert caught.value.what.startswith(
            f"the limit of {daily:,} requests a day is reached (429)"
        )
        assert caught.value.hint.startswith("what was done is kept: resume the run ")
        assert ("tomorrow" if name == "gemini" else "in ") in caught.value.hint
    assert (len(llm.asked), slept) == (1, [])
    llm.script(["of another"])
    assert model.complete(question(model="m-2")).text == "of another"


def test_a_day_that_moves_on_is_waited_for(client: Client, llm: ModelServer) -> None:
    """Where the day is the last 24 hours, there may be room in a moment."""
    slept: list[float] = []
    reply = rows("day")["openai"]
    words = str(reply.body).replace("7h12m", "8.64s")
    llm.script([type(reply)(429, {"error": {"message": words}}), "then"])
    model = client(llm, patience=PATIENCE, sleep=slept.append)
    assert (model.complete(question()).text, slept) == ("then", [8.64])


def test_a_wait_that_is_too_long_is_told_in_the_endpoints_words_each_time(
    client: Client, llm: ModelServer
) -> None:
    said = "You are out of requests. Come back when your plan has room, in about an hour."
    llm.script([Raw(429, {"error": {"message": said}}, {"Retry-After": "3600"})])
    model = client(llm, patience=PATIENCE, sleep=lambda _seconds: None)
    for _ in range(2):  # the endpoint hears the first one alone
        with pytest.raises(RemoteError) as caught:
            model.complete(question())
        assert caught.value.what == f"too many requests (429): {said}"
        assert "what was done is kept: resume the run in " in caught.value.hint
    assert len(llm.asked) == 1


def test_a_question_waits_for_the_limit_that_another_met(client: Client, llm: ModelServer) -> None:
    slept: list[float] = []
    llm.script([rows("minute")["groq"], "one", "two"])
    model = client(llm, patience=PATIENCE, sleep=slept.append)
    assert [model.complete(question()).text for _ in range(2)] == ["one", "two"]
    assert slept[0] == 7  # of the first; the second waits for the rest of it
    assert 6 < slept[1] < 7


@pytest.mark.parametrize("name", rows("long"))
def test_a_prompt_that_is_too_long_is_told_as_that(
    client: Client, llm: ModelServer, name: str
) -> None:
    llm.script([rows("long")[name]])
    with pytest.raises(RemoteError, match="the prompt is too long for the model: ") as caught:
        client(llm).complete(question())
    assert "recursion.prompt_bytes" in caught.value.hint
    assert len(llm.asked) == 1


@pytest.mark.parametrize("name", rows("tools"))
def test_a_model_without_tools_is_found_out(client: Client, llm: ModelServer, name: str) -> None:
    llm.script([rows("tools")[name]])
    model = client(llm)

    def ask() -> None:
        model.complete(question(tools=(TOOL,)))

    assert takes_tools(fact, "here", "m-1", ask) is False


@pytest.mark.parametrize(("lack", "more"), [(TOOLS, {"tools": (TOOL,)}),
                                            (SCHEMAS, {"response_format": SCHEMA})])  # fmt: skip
def test_what_a_provider_lacks_is_not_asked_for(
    client: Client, llm: ModelServer, lack: str, more: dict[str, Any]
) -> None:
    llm.script(["plain"])
    model = client(llm, lacks=(lack,))
    with pytest.raises(RemoteError, match=f"the endpoint does not support {lack}"):
        model.complete(question(**more))
    assert model.complete(question()).text == "plain"
    assert len(llm.asked) == 1


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("Rate limit of 10 per 60s exceeded. Please wait 46 seconds before retrying.", (10, 46.0)),
        ("try again in 1m26.4s", (None, 86.4)),
        ("try again in 750ms.", (None, 0.75)),
        ("Please try again in approximately 20 seconds.", (None, 20.0)),
        ("Quota resets in 2 minutes and 5 seconds", (None, 125.0)),
        ("You can retry your request after 90 seconds", (None, 90.0)),
        ("Credits are available again in: 3h", (None, 10800.0)),
        ("retry 5 times, 20 seconds are not told", (None, None)),
        ("Please retry in 45.578569677s.", (None, 45.578569677)),
        ("wait " + "9" * 400 + "s", (None, None)),
        ("limit: 99999999999999999999", (None, None)),
        ("again in 9999999h", (None, None)),
        ("later", (None, None)),
    ],
)
def test_figures_in_words(message: str, found: tuple[int | None, float | None]) -> None:
    limit = errors.rate_limit_of(None, message, None)
    assert (limit.capacity, limit.wait) == pytest.approx(found)


@pytest.mark.parametrize("error", [[], "x", {"details": [[[[[[[{"quotaId": "PerDay"}]]]]]]]}, 7,
                                   {"quotaValue": {"a": 1}, "X-RateLimit-Reset": "²"}])  # fmt: skip
def test_an_error_of_any_shape_is_no_limit(error: object) -> None:
    assert errors.rate_limit_of(error, "", None) == errors.RateLimit()
