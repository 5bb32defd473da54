"""The planner on a real record: repaired once, then an end; resumed and replayed alike."""

from __future__ import annotations

import json
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci import errors
from rlm_ci.environments.symbolic.planner.plan import (
    PARSE_ERROR,
    VALIDATION_ERROR,
)
from rlm_ci.environments.symbolic.planner.planner import BadPlanError
from rlm_ci.errors import RemoteError
from rlm_ci.resources import loader
from testing.killed_runs import facts, killed_after
from testing.planner_steps import OBJECT, read, search, step, subcall
from testing.planner_studio import FINAL, GOOD, PLAN, Studio

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rlm_ci.environments.symbolic.planner.planner import AcceptedPlan

UNKNOWN = json.dumps({"schema_version": 1, "intent": "sing"})


# ── one plan ──


def test_a_plan_is_asked_for_and_kept_with_its_prompt(tmp_path: Path) -> None:
    """Spec: "store prompt snapshots so 'pointer-only contract' is verifiable"."""
    studio = Studio(tmp_path, [GOOD])
    steps = [step(0, search("q", "a preview", at=70), read("an excerpt", at=900), subcall("out"))]
    planned = studio.plan(1, *steps)
    assert planned.plan == PLAN
    assert planned.clamped == ({"what": "reads[0].bytes", "asked": 10**6, "given": 8192},)
    assert planned.errors == ()
    assert planned.seen == ((70, 79), (900, 910))
    folder = "rlm/planner/1/attempt-1"
    assert planned.artifacts == (
        {
            "prompt": f"{folder}/prompt.txt",
            "output": f"{folder}/output.txt",
            "meta": f"{folder}/meta.json",
        },
    )
    prompt = studio.kept("prompt.txt", 1)
    assert prompt.decode() == studio.asked(0), "byte for byte what was sent"
    assert planned.prompt_bytes == len(prompt)
    assert studio.kept("output.txt", 1).decode() == GOOD
    meta = studio.meta(1)
    assert meta["prompt"] == {"bytes": len(prompt), "sha256": sha256(prompt).hexdigest()}
    assert meta["truncation"] == planned.truncation
    assert (meta["iteration"], meta["attempt"], meta["structured"]) == (1, 1, True)
    assert (meta["finish_reason"], meta["error"]) == ("stop", None)
    texts = {
        one["kind"]: prompt[one["start"] : one["end"]]
        for one in meta["sections"]
        if one["kind"] != "frame"
    }
    assert texts == {
        "goal": b"How many?",
        "search": b"a preview",
        "read": b"an excerpt",
        "subcall": b"out",
    }
    edges = [0, *(one["end"] for one in meta["sections"])]
    assert edges == [*(one["start"] for one in meta["sections"]), len(prompt)]
    assert [one["role"] for one in meta["messages"]] == ["system", "user"]
    assert [prompt[one["start"] : one["end"]].decode() for one in meta["messages"]] == [
        one["content"] for one in studio.model.requests[0].messages
    ]
    assert studio.places == ["plan/1/1"]


def test_the_schema_of_plans_is_the_form_that_is_asked_for(tmp_path: Path) -> None:
    """Decision 13c: structured output is tried on the first planner call."""
    studio = Studio(tmp_path, [GOOD, FINAL])
    studio.plan()
    assert studio.plan(1).plan.final_answer == "It is 7."
    schema = loader.read_schema("plan.schema.json")
    for request in studio.model.requests:
        assert request.response_format is not None
        assert request.response_format["type"] == "json_schema"
        sent = request.response_format["json_schema"]
        assert sent["name"] == "plan"
        later = ("counts", "maps")
        known = {name: one for name, one in schema["properties"].items() if name not in later}
        assert sent["schema"]["properties"] == known, "those of a run from before there were these"
        assert (request.model, request.max_tokens, request.tools) == ("m", 500, ())
    assert studio.record.calls == 2


# ── repair ──


@pytest.mark.parametrize(
    ("bad", "kind", "told"),
    [
        ("Here is my plan.", PARSE_ERROR, "not one JSON object"),
        ("", PARSE_ERROR, "the answer is empty"),
        ("[" * 100_000, PARSE_ERROR, "nested too deeply"),
        (UNKNOWN, VALIDATION_ERROR, "'sing' is not one of"),
        (GOOD.replace("c000001", "c999999"), VALIDATION_ERROR, "there is no such chunk"),
    ],
)
def test_a_bad_plan_is_repaired_once(tmp_path: Path, bad: str, kind: str, told: str) -> None:
    """Spec: "record `plan_parse_error` ... and retry planner once with an explicit "return valid
    JSON only" repair prompt"; "record `plan_validation_error` and retry once".
    """
    studio = Studio(tmp_path, [bad, GOOD])
    planned = studio.plan(2)
    assert planned.plan == PLAN
    ((error),) = planned.errors
    assert error["kind"] == kind
    assert told in error["message"]
    assert studio.places == ["plan/2/1", "plan/2/2"]
    repair = studio.asked(1)
    assert repair.startswith(studio.asked(0).rstrip("\n"))
    assert "Return valid JSON only" in repair
    assert f"\n```\n{error['message'][:50]}" in repair.replace("`'", "''")
    assert len(repair) < len(studio.asked(0)) + 1500, "the bad answer is not quoted at length"
    assert [studio.kept("output.txt", 2, attempt).decode() for attempt in (1, 2)] == [bad, GOOD]
    assert studio.meta(2, 1)["error"] == error
    assert studio.meta(2, 2)["error"] is None
    assert len(planned.artifacts) == 2
    assert planned.prompt_bytes == len(repair.encode())


@pytest.mark.parametrize(
    ("answers", "kinds"),
    [
        (("no", "still no"), (PARSE_ERROR, PARSE_ERROR)),
        ((UNKNOWN, UNKNOWN), (VALIDATION_ERROR, VALIDATION_ERROR)),
        ((UNKNOWN, "no"), (VALIDATION_ERROR, PARSE_ERROR)),
    ],
)
def test_bad_twice_is_a_configuration_error_that_says_what_was_wrong(
    tmp_path: Path, answers: Sequence[str], kinds: tuple[str, str]
) -> None:
    """Spec: "If it fails twice, hard-fail with `invalid_config`"; "with actionable error"."""
    studio = Studio(tmp_path, [*answers, GOOD])
    with pytest.raises(BadPlanError) as caught:
        studio.plan(3)
    error = caught.value
    assert error.code == errors.CONFIG
    assert tuple(one["kind"] for one in error.reply.errors) == kinds
    assert error.reply.errors[1]["message"] in error.what
    assert "rlm/planner/3" in error.where
    assert error.hint
    assert len(error.reply.artifacts) == 2
    assert error.reply.prompt_bytes == len(studio.kept("prompt.txt", 3, 2))
    assert len(studio.model.requests) == 2, "one repair, and no more"


def test_a_resumed_run_asks_again_after_two_bad_plans(tmp_path: Path) -> None:
    """What was paid for before is not lost because a model once kept to no JSON, or is another.

    It goes on with new attempts; a replay takes the same way, and before it ended where it ended.
    """

    def again(answers: Sequence[Any], *, replay: bool = False) -> Studio:
        studio = Studio(tmp_path, answers, replay=replay)
        with pytest.raises(BadPlanError):
            studio.plan()
        studio.record.close()
        return studio

    assert again(["no", UNKNOWN]).places == ["plan/0/1", "plan/0/2"]
    assert len(again([], replay=True).model.requests) == 0
    resumed = again(["worse", "worst"])
    assert resumed.places[2:] == ["plan/0/3", "plan/0/4"]
    assert len(resumed.model.requests) == 2, "the first two are found"
    assert "Return valid JSON only" in resumed.asked(0)
    third = Studio(tmp_path, [GOOD])
    planned = third.plan()
    assert (planned.plan, len(planned.errors), len(planned.artifacts)) == (PLAN, 4, 5)
    third.record.close()
    replayed = Studio(tmp_path, [], replay=True)
    assert replayed.plan() == planned


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"text": "", "tool_calls": ({"id": "1", "name": "search", "arguments": "{}"},)},
         "the answer calls a tool: answer in text, there are no tools"),
        ({"text": " \n"}, "the answer is empty: answer in text"),
        ({"text": "", "finish_reason": "length"}, "the answer was cut off at 500 tokens"),
    ],
)  # fmt: skip
def test_an_answer_without_a_text_is_told_so(
    tmp_path: Path, answer: dict[str, Any], told: str
) -> None:
    studio = Studio(tmp_path, [answer, GOOD])
    ((error),) = studio.plan().errors
    assert error["kind"] == PARSE_ERROR
    assert error["message"].startswith(told)


def test_the_way_out_of_a_cap_is_a_higher_cap(tmp_path: Path) -> None:
    """No other model would help, nor would asking again."""
    hints = []
    for finish in ("stop", "length"):
        answers = [{"text": "{", "finish_reason": finish}] * 2
        (tmp_path / finish).mkdir()
        with pytest.raises(BadPlanError) as caught:
            Studio(tmp_path / finish, answers).plan()
        hints.append(caught.value.hint)
    assert "rlm-ci resume" in hints[0]
    assert "RLM_CI_MODELS_MAX_COMPLETION_TOKENS" in hints[1]
    assert "keeps to JSON" not in hints[1]


def test_what_the_budgets_have_left_is_told_and_remembered(tmp_path: Path) -> None:
    """A resumed run must ask what it asked before, whatever its budgets are by then."""
    studio = Studio(tmp_path, ["no", GOOD], left=lambda: 5, max_iterations=88)
    studio.plan()
    studio.record.close()
    assert "At most 4 more can follow. The budget has 5 calls" in studio.asked(0)
    assert "At most 3 more can follow. The budget has 4 calls" in studio.asked(1), "one was used"
    resumed = Studio(tmp_path, [FINAL], left=lambda: 1, max_iterations=88)
    assert resumed.plan().plan == PLAN
    assert resumed.plan(1).plan.intent == "final"
    (asked,) = resumed.model.requests
    assert "It is the last one: answer with intent final" in asked.messages[1]["content"]


def test_an_answer_that_was_cut_off_says_so(tmp_path: Path) -> None:
    studio = Studio(tmp_path, [{"text": GOOD[:-5], "finish_reason": "length"}, GOOD])
    ((error),) = studio.plan().errors
    assert error["kind"] == PARSE_ERROR
    assert error["message"].startswith("the answer was cut off at 500 tokens, be shorter: ")
    whole = Studio(tmp_path, [{"text": GOOD, "finish_reason": "length"}])
    assert whole.plan(1).errors == (), "cut or not, it is a plan"


def test_the_repair_stays_within_the_limit(tmp_path: Path) -> None:
    """Decision 13b holds for the repair as well."""
    steps = [step(0, *(read("x" * 4000, at=at * 4000) for at in range(8)))]
    studio = Studio(tmp_path, ["`" * 900_000, json.dumps({"a": "é`" * 3000})])
    with pytest.raises(BadPlanError):
        studio.plan(1, *steps)
    sizes = [len(studio.asked(number).encode()) for number in (0, 1)]
    assert all(28_000 < size <= 32_768 for size in sizes)
    assert "Return valid JSON only" in studio.asked(1)


def test_nothing_of_an_answer_is_kept_with_its_secrets(tmp_path: Path) -> None:
    def redact(text: str) -> str:
        return text.replace("hunter2-hunter2", "[redacted]")

    bad = '{"hunter2-hunter2": 1, "hunter2-hunter2": 2}'
    studio = Studio(tmp_path, [bad, GOOD], redact=redact)
    planned = studio.plan(goal="hunter2-hunter2?")
    assert "[redacted]" in planned.errors[0]["message"]
    for name, data in studio.files().items():
        assert b"hunter2" not in data, name
    assert "hunter2" not in studio.asked(0) + studio.asked(1)


def test_a_lone_surrogate_is_refused_and_can_be_kept(tmp_path: Path) -> None:
    studio = Studio(tmp_path, [FINAL.replace("7", "\ud83d"), FINAL])
    assert studio.plan().errors[0]["kind"] == PARSE_ERROR
    assert b"\\ud83d" in studio.kept("output.txt")


# ── resumed and replayed ──

ANSWERS: list[Any] = [
    RemoteError("the request was refused (400): unknown response_format"),
    "no plan",
    GOOD,
    {"text": FINAL[:20], "finish_reason": "length"},
    FINAL,
]


def run(studio: Studio) -> list[AcceptedPlan]:
    done = step(0, read("an excerpt", at=5), subcall("out"))
    return [studio.plan(), studio.plan(1, done)]


def test_resumed_at_any_point_it_asks_for_nothing_twice(tmp_path: Path) -> None:
    """It must hold: same bytes, no journalled answer asked for again; replayed without a key."""
    whole = tmp_path / "whole"
    whole.mkdir()
    first = Studio(whole, ANSWERS)
    expected = run(first)
    first.record.close()
    number = len(facts(whole))
    assert number > 8
    for cut in range(number + 1):
        place = tmp_path / f"cut-{cut}"
        records = killed_after(whole, cut, place)
        known = sum("finish_reason" in record.get("value", ()) for record in records)
        found_out = any("takes_schema" in record.get("value", ()) for record in records)
        rest = ANSWERS[1 + known :]
        again = Studio(place, rest if found_out else [ANSWERS[0], *rest])
        assert run(again) == expected
        assert again.record.replayed >= known
        assert again.record.calls == 4 - known
        assert again.files() == first.files()
        again.record.close()
    replayed = tmp_path / "replayed"
    killed_after(whole, len(facts(whole)), replayed)
    studio = Studio(replayed, [], replay=True)
    assert run(studio) == expected
    assert studio.model.requests == []
    assert studio.files() == first.files()


def test_a_prompt_is_kept_before_it_is_asked(tmp_path: Path) -> None:
    """Whoever looks at a run that hangs, or was killed, sees what it was asking."""
    studio = Studio(tmp_path, [KeyboardInterrupt()])
    with pytest.raises(BaseException):  # noqa: B017, PT011
        studio.plan()
    assert OBJECT.encode() in studio.kept("prompt.txt")
    assert studio.meta()["sections"]
    assert "output" not in studio.meta()
