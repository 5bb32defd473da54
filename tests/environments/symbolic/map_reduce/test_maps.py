"""Maps: told and refused beforehand, one call a part, checked, reduced, and what was not read."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.context.scope import Scope
from rlm_ci.environments.symbolic.iteration import unread
from rlm_ci.environments.symbolic.loop import unread_note
from rlm_ci.environments.symbolic.planner.plan import Map, Plan
from rlm_ci.errors import RemoteError
from rlm_ci.models.budget import Ledger
from testing.scripted_questions import SECRET, Stage, berths, harbour

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rlm_ci.context.context import Context
    from rlm_ci.environments.symbolic.iteration import MapResult
    from rlm_ci.models import ModelRequest

SCHEMA = json.dumps({"type": "array", "items": {"type": "integer"}})


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return harbour(tmp_path_factory.mktemp("harbour"))


def mapped(stage: Stage, **asked: Any) -> MapResult:
    fields: dict[str, Any] = {"purpose": "extract", "prompt": "Which?", "reduce": "concat"}
    one = Map(**{**fields, "scope": Scope(), **asked})
    (found,) = stage.symbolic.act(Plan("continue", maps=(one,)), 0).maps
    return found


def answering(answer: Callable[[str], Any]) -> Callable[[ModelRequest], Any]:
    return lambda request: answer(request.messages[-1]["content"])


def test_every_part_is_asked_once_and_read_whole(tmp_path: Path, context: Context) -> None:
    prompts: list[str] = []

    def answer(prompt: str) -> str:
        prompts.append(prompt)
        return json.dumps(re.findall(r"^(\d{4}) ", prompt, re.MULTILINE))

    stage = Stage(tmp_path, context, answering(answer))
    done = mapped(stage, reduce="count", scope=Scope(files=("*.log",)))
    assert json.loads(done.output) == {"count": 60}, "each line is in one part"
    whole = mapped(Stage(tmp_path / "whole", context, answering(answer)), reduce="most_frequent")
    values = json.loads(whole.output)
    assert values["count"] == 60
    assert {often for _, often in values["values"]} == {1}
    assert [one.id for one in whole.parts][:2] == ["mp0001-c000001", "mp0001-c000002"]
    spans = [span for one in whole.parts for span in one.spans]
    assert spans[0][0] == 0
    assert spans[-1][1] == context.byte_length
    assert all(SECRET not in prompt for prompt in prompts)
    assert stage.window.read(done.pointer, 99).text == done.output, "a plan can read it"
    assert re.fullmatch(
        r"iteration 0: a map over \d parts to extract, count: \d calls, about [\d,]+ tokens, "
        r"at most [\d,]+ tokens", stage.told[0]
    )  # fmt: skip


def test_an_answer_that_does_not_fit_is_asked_for_again_and_a_failed_part_told(
    tmp_path: Path, context: Context
) -> None:
    stage = Stage(tmp_path, context, answering(berths))
    done = mapped(stage, schema=SCHEMA, reduce="union", scope=Scope("c000001-c000004"))
    attempts = {place: stage.asked.count(place) for place in stage.asked}
    assert set(attempts.values()) == {1}
    failed, again, *others = done.parts
    assert {place for place in attempts if place.endswith("/again")} == {
        f"subcall/0/{one.id}/again" for one in (failed, again)
    }
    assert [one.status for one in done.parts] == ["failed", *["succeeded"] * 3]
    assert failed.error == "the part is refused"
    shown = [set(json.loads(one.output)) for one in (again, *others)]
    assert set(json.loads(done.output)["values"]) == set().union(*shown)
    assert done.status == "succeeded"
    number, missing = unread([{"maps": [done.to_dict()]}])
    start, end = failed.pointers[0].rpartition(":")[2].split("-")
    assert (number, missing) == (4, [f"{start}-{end}"])
    assert unread_note([{"maps": [done.to_dict()]}]) == (
        f"\n\nNot all of the text was read: 1 of 4 parts were not read whole (bytes {start}-{end})."
    )
    assert stage.told[-1] == "iteration 0: 4 of 4 parts, 1 failed"


def test_answers_are_reduced_by_a_model_in_prompts_that_fit(
    tmp_path: Path, context: Context
) -> None:
    prompts: list[str] = []

    def answer(prompt: str) -> str:
        if 'Task: "Join them"' in prompt:
            prompts.append(prompt)
            return f"joined {len(prompts)}"
        return "x" * 300

    stage = Stage(tmp_path, context, answering(answer), subcall_input_bytes=1000, concurrency=1)
    done = mapped(stage, reduce="model", reduce_prompt="Join them")
    assert len(done.parts) > 6
    levels = {one.id.split("-")[1] for one in done.reductions}
    assert len(levels) > 1
    assert done.output == f"joined {len(done.reductions)}"
    assert all(one.input_bytes <= 1000 and not one.clamped for one in done.reductions)
    leaves = [one.pointer for one in done.parts]
    first = [pointer for one in done.reductions for pointer in one.pointers if pointer in leaves]
    assert first == leaves, "each answer goes into one prompt"


@pytest.mark.parametrize(
    ("asked", "limits", "told"),
    [
        ({"scope": Scope("c000800")}, {}, "there are no chunks"),
        ({"scope": Scope(files=("*.c",))}, {}, "no file of the context"),
        ({}, {"map_parts": 3}, "parts are more than 3: name fewer chunks or files"),
        ({"model": "expensive"}, {}, "model not allowed: 'expensive'"),
    ],
)
def test_what_cannot_be_done_is_refused(
    tmp_path: Path, context: Context, asked: dict[str, Any], limits: dict[str, Any], told: str
) -> None:
    stage = Stage(tmp_path, context, answering(berths), **limits)
    done = mapped(stage, **asked)
    assert done.status == "refused"
    assert done.error is not None
    assert told in done.error
    assert stage.asked == []


def test_it_is_refused_before_the_first_call_where_the_budget_has_no_room(
    tmp_path: Path, context: Context
) -> None:
    few = Stage(tmp_path / "few", context, answering(berths), ledger=Ledger(max_calls=5))
    done = mapped(few)
    assert (done.status, few.asked) == ("refused", [])
    assert "it has for 3 of the parts: name fewer chunks" in str(done.error)
    fits = mapped(Stage(tmp_path / "fits", context, answering(berths), ledger=Ledger(max_calls=5)),
                  scope=Scope("c000004-c000006"))  # fmt: skip
    assert (fits.status, len(fits.parts)) == ("succeeded", 3)
    poor = Stage(tmp_path / "poor", context, answering(berths), ledger=Ledger(max_tokens=9000))
    assert mapped(poor).status == "refused"


def test_it_stops_before_the_budget_is_used_up_by_answers_that_are_asked_for_again(
    tmp_path: Path, context: Context
) -> None:
    """There is room for two plans afterwards, and the answer says what was not read."""
    ledger = Ledger(max_calls=context.chunk_count + 2)
    wrong = answering(lambda prompt: "[]" if "was not JSON" in prompt else "?")
    stage = Stage(tmp_path, context, wrong, ledger=ledger, concurrency=1)
    done = mapped(stage, reduce="count")
    assert done.status == "succeeded"
    assert 0 < len(done.parts) < context.chunk_count
    assert len(done.parts) + len(done.unasked) == context.chunk_count
    assert ledger.spent.calls <= context.chunk_count
    number, missing = unread([{"maps": [done.to_dict()]}])
    assert (number, missing) == (context.chunk_count, list(done.unasked))


def test_without_any_answer_or_with_one_that_does_not_fit_it_fails(
    tmp_path: Path, context: Context
) -> None:
    nobody = answering(lambda _prompt: RemoteError("nobody is there"))
    done = mapped(Stage(tmp_path / "a", context, nobody), scope=Scope("c000001"))
    assert (done.status, done.error, done.output) == ("failed", "no part was answered", "")
    words = answering(lambda _prompt: '["x"]')
    done = mapped(Stage(tmp_path / "b", context, words), scope=Scope("c000001"), reduce="sum")
    assert (done.status, done.output) == ("failed", "")
    assert done.error == "the answer of c000001 has something that is no number"
