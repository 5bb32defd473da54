"""Plans: what is taken, what is clamped, what is refused, and that nothing takes long."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.context.scope import Scope
from rlm_ci.environments.symbolic.planner.plan import (
    PARSE_ERROR,
    VALIDATION_ERROR,
    Count,
    Map,
    ParsedPlan,
    Plan,
    PlanError,
    PlanLimits,
    PlanReader,
    Read,
    Search,
    Subcall,
)
from rlm_ci.models import strict_json
from rlm_ci.resources import loader

OBJECT = f"sha256:{'ab' * 32}"
CHUNK = f"ctx:{OBJECT}#chunk:c000001"
MOST = 2**53 - 1
SIZE = MOST


def flaw(pointer: str) -> str | None:
    """A context of one object with one chunk, and one sub-call that has answered."""
    if pointer == "subcall:0:sc0001":
        return None
    if not pointer.startswith(f"ctx:{OBJECT}#"):
        return f"{pointer} is of another object"
    if "#bytes:" in pointer:
        return None
    return None if pointer == CHUNK else f"there is no chunk {pointer.rpartition(':')[2]}"


def parsed(text: str, **limits: int) -> ParsedPlan:
    return PlanReader(PlanLimits(**limits), flaw, OBJECT, SIZE).read(text)


def plan_of(intent: str = "continue", **members: Any) -> str:
    return json.dumps({"schema_version": 1, "intent": intent, **members})


def refused(text: str, **limits: int) -> PlanError:
    with pytest.raises(PlanError) as caught:
        parsed(text, **limits)
    assert str(caught.value) == caught.value.message
    assert len(caught.value.message) < 1200
    return caught.value


def subcall(**members: Any) -> dict[str, Any]:
    return {"purpose": "summarize", "pointers": [CHUNK], "max_input_bytes": 1000, **members}


def error_of(text: str) -> PlanError | None:
    try:
        parsed(text)
    except PlanError as error:
        return error
    return None


# ── what is taken ──


def test_the_plan_of_the_specification_is_taken() -> None:
    """Spec: "Planner returns structured JSON plan", the example of the specification."""
    text = plan_of(
        reads=[{"pointer": CHUNK, "bytes": 4096, "reason": "inspect failure section"}],
        searches=[{"query": "validator failure", "top_k": 10, "reason": "locate failing tests"}],
        subcalls=[
            {
                "purpose": "summarize",
                "pointers": [CHUNK, CHUNK],
                "max_input_bytes": 120000,
                "expected_output": "short summary",
            }
        ],
    )
    assert parsed(text) == ParsedPlan(
        Plan(
            "continue",
            searches=(Search("validator failure", 10, "locate failing tests"),),
            reads=(Read(CHUNK, 0, 4096, "inspect failure section"),),
            subcalls=(Subcall("summarize", (CHUNK, CHUNK), (), 120_000, "", "short summary"),),
        )
    )


def test_reads_searches_and_subcalls_may_be_omitted_or_empty() -> None:
    """Spec: "`reads`, `searches`, `subcalls` may be omitted or empty"."""
    assert parsed(plan_of()) == parsed(plan_of(reads=[], searches=[], subcalls=[]))
    assert parsed(plan_of()).plan == Plan("continue")


def test_final_needs_no_subcall_and_carries_the_answer() -> None:
    """Decision 6; "Planner returns `intent=final` with `final_answer` (string)"."""
    assert parsed(plan_of("final", final_answer="It is 7.")).plan.final_answer == "It is 7."


@pytest.mark.parametrize("intent", ["fail", "pause"])
def test_a_plan_may_carry_a_reason(intent: str) -> None:
    """Decision 13c: "The plan may carry `reason`"."""
    assert parsed(plan_of(intent, reason="the log ends early")).plan.reason == "the log ends early"


def test_top_k_defaults_to_the_limit() -> None:
    """Spec: "`top_k` defaults to `RLM_SEARCH_TOP_K`"."""
    text = plan_of(searches=[{"query": "x"}])
    assert parsed(text).plan.searches == (Search("x", 20),)
    assert parsed(text, top_k=7) == ParsedPlan(Plan("continue", searches=(Search("x", 7),)))


def test_counts_are_taken_and_kept_within_the_limits() -> None:
    given = [
        {"pattern": "a(b)", "hits": "900", "top_k": None, "reason": "why"},
        {"pattern": "x", "by": "file", "chunks": "c000001-c000003", "files": ["a/*"],
         "ignore_case": True, "top_k": 2, "hits": 0},
        {"pattern": "y"},
    ]  # fmt: skip
    taken = parsed(plan_of(counts=given), counts=2)
    assert taken.plan.counts == (
        Count("a(b)", Scope(), "", ignore_case=False, top_k=20, hits=20, reason="why"),
        Count("x", Scope("c000001-c000003", ("a/*",)), "file", ignore_case=True, top_k=2, hits=0),
    )
    assert taken.clamped == (
        {"what": "counts", "asked": 3, "given": 2},
        {"what": "counts[0].hits", "asked": 900, "given": 20},
    )
    assert parsed(plan_of(counts=given[2:]), counts=1).plan.counts[0].hits == 3
    for bad in ({"pattern": ""}, {"by": "chunk"}, {"pattern": "x", "by": "line"}):
        assert refused(plan_of(counts=[bad]), counts=4).kind == VALIDATION_ERROR


def test_maps_are_taken_with_the_schema_of_their_answers() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    given = {
        "purpose": "extract", "prompt": "How many?", "files": ["*.log"], "schema": schema,
        "reduce": "sum", "field": "n", "max_output_tokens": "200", "model": None,
    }  # fmt: skip
    taken = parsed(plan_of(maps=[given, {"purpose": "verify", "prompt": "x"}]), maps=2).plan.maps
    written = '{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}'
    assert taken == (
        Map("extract", "How many?", Scope(files=("*.log",)), "sum", schema=written, field="n",
            max_output_tokens=200),
        Map("verify", "x", Scope(), "concat"),
    )  # fmt: skip
    assert [one.is_json for one in taken] == [True, False]
    assert parsed(plan_of(maps=[given]), maps=0).plan.maps == ()


@pytest.mark.parametrize(
    "schema",
    [{"$ref": "http://127.0.0.1:9/x"}, {"type": "text"}, {"pattern": "(a+)+$"}, {"items": [1]},
     {"properties": {"a": {"$defs": {}}}}, {"enum": []}, {"description": "x" * 3000}],
)  # fmt: skip
def test_a_schema_of_other_words_is_refused(schema: Any) -> None:
    one = {"purpose": "extract", "prompt": "x", "schema": schema}
    assert "$.maps[0].schema: " in refused(plan_of(maps=[one]), maps=1).message


def test_snippets_and_spans_are_accepted_beside_pointers() -> None:
    """Decision 5."""
    one = subcall(
        pointers=["subcall:0:sc0001"],
        snippets=[{"pointer": CHUNK, "offset": 5, "bytes": 10}, {"pointer": CHUNK, "bytes": 3}],
        spans=[{"start_byte": 100, "end_byte": 150}],
        model="small",
    )
    del one["max_input_bytes"]
    (taken,) = parsed(plan_of(subcalls=[{**one, "max_input_bytes": 9}])).plan.subcalls
    assert taken.pointers == ("subcall:0:sc0001",)
    assert taken.snippets == (
        Read(CHUNK, 5, 10),
        Read(CHUNK, 0, 3),
        Read(f"ctx:{OBJECT}#bytes:100-150", 0, 50),
    )
    assert (taken.model, taken.max_input_bytes) == ("small", 9)


@pytest.mark.parametrize("name", ["pointers", "snippets", "spans"])
def test_one_kind_of_text_is_enough(name: str) -> None:
    texts = {
        "pointers": [CHUNK],
        "snippets": [{"pointer": CHUNK, "bytes": 1}],
        "spans": [{"start_byte": 0, "end_byte": 1}],
    }
    one = {"purpose": "extract", "max_input_bytes": 1, name: texts[name]}
    assert len(parsed(plan_of(subcalls=[one])).plan.subcalls) == 1


@pytest.mark.parametrize("fence", ["```json\n{}\n```", "```\n{}\n```", "\n ```json\n{}\n```\n"])
def test_one_fence_around_the_object_is_tolerated(fence: str) -> None:
    assert parsed(fence.replace("{}", plan_of())).plan == Plan("continue")


def test_what_is_null_was_left_out_and_what_is_unknown_is_ignored() -> None:
    text = plan_of(
        final_answer=None, reason=None, thoughts=["?"], searches=[{"query": "x", "reason": None}]
    )
    assert parsed(text).plan == Plan("continue", searches=(Search("x", 20),))


# ── what is clamped ──


def test_whole_numbers_may_be_written_as_texts_and_nulls_were_left_out() -> None:
    """Endpoints differ: some write "5" for 5, and null for what they do not say."""
    read = {"pointer": CHUNK, "bytes": "5", "offset": "1", "reason": None}
    call = {
        "purpose": "verify", "max_input_bytes": "9", "pointers": None, "model": None,
        "snippets": [{"pointer": CHUNK, "bytes": "7", "offset": None}],
        "spans": [{"start_byte": "0", "end_byte": "3"}],
    }  # fmt: skip
    search = {"query": "5", "top_k": None}
    members: dict[str, Any] = {
        "searches": [search, {"query": "6", "top_k": "2"}], "reads": [read],
    }  # fmt: skip
    text = plan_of(**members, subcalls=[call]).replace(
        '"schema_version": 1', '"schema_version": "1"'
    )
    plan = parsed(text).plan
    assert plan.searches == (Search("5", 20), Search("6", 2))
    assert plan.reads == (Read(CHUNK, 1, 5),)
    assert plan.subcalls[0].snippets == (
        Read(CHUNK, 0, 7), Read(f"ctx:{OBJECT}#bytes:0-3", 0, 3),
    )  # fmt: skip
    assert parsed(plan_of(searches=None, reads=None, subcalls=None)).plan == Plan("continue")
    for bad in ("-1", "5.0", "", " 5", "٥", "9" * 17, True):
        assert error_of(plan_of(reads=[{"pointer": CHUNK, "bytes": bad}])) is not None


@pytest.mark.parametrize(
    "around",
    [
        "<think>\nIs it {this}?\n</think>\n\n%s", "<think></think>%s", "```JSON\n%s\n```",
        " <think>a</think> ```Json\n%s\n``` ", "<think>a</think><think>b</think>%s",
        "Is it {this}?\n</think>\n%s", "Here is the plan: %s", "%s I hope that helps.",
        "Sure:\n```json\n%s\n```", "```json\n%s```", "```json\n%s", "~~~jsonc\n%s\n~~~",
        "\ufeff%s",
    ],
)  # fmt: skip
def test_what_stands_around_the_one_object_does_not_matter(around: str) -> None:
    assert parsed(around.replace("%s", plan_of())).plan == Plan("continue")


def test_a_comma_a_line_break_and_a_backslash_too_many_are_overlooked() -> None:
    text = plan_of("fail", reason="x").replace('"x"', '"a\n\\d+",')
    assert parsed(text).plan.reason == "a\n\\d+"


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("chunk:c000001", CHUNK),
        ("#chunk:c000001", CHUNK),
        ("c000001", CHUNK),
        ("bytes:5-9", f"ctx:{OBJECT}#bytes:5-9"),
        ("subcall:0:sc0001", "subcall:0:sc0001"),
    ],
)
def test_a_pointer_needs_no_object(short: str, full: str) -> None:
    """There is one context in a run, and its name has 75 bytes."""
    call = {"purpose": "verify", "pointers": [short], "max_input_bytes": 9}
    plan = parsed(plan_of(reads=[{"pointer": short, "bytes": 1}], subcalls=[call])).plan
    assert plan.reads[0].pointer == full
    assert plan.subcalls[0].pointers == (full,)


def test_a_range_that_ends_behind_the_context_is_cut_at_its_end() -> None:
    """Nobody counts the bytes of a text that only its beginning is seen of."""
    spans = [{"start_byte": 90, "end_byte": 200}]
    call = {"purpose": "verify", "spans": spans, "max_input_bytes": 9}
    text = plan_of(reads=[{"pointer": "bytes:50-150", "bytes": 1}], subcalls=[call])
    told = PlanReader(PlanLimits(), flaw, OBJECT, 100).read(text)
    assert told.plan.reads[0].pointer == f"ctx:{OBJECT}#bytes:50-100"
    assert told.plan.subcalls[0].snippets == (Read(f"ctx:{OBJECT}#bytes:90-100", 0, 10),)
    assert told.clamped == (
        {"what": "reads[0].pointer", "asked": 150, "given": 100},
        {"what": "subcalls[0].spans[0]", "asked": 110, "given": 10},
    )
    asked: list[str] = []

    def noting(pointer: str) -> None:
        asked.append(pointer)

    for span in ("bytes:100-101", f"ctx:sha256:00#bytes:50-{MOST}"):
        text = plan_of(reads=[{"pointer": span, "bytes": 1}])
        assert PlanReader(PlanLimits(), noting, OBJECT, 100).read(text).clamped == (), (
            "that is a flaw"
        )
    assert asked == [f"ctx:{OBJECT}#bytes:100-101", f"ctx:sha256:00#bytes:50-{MOST}"]


def test_every_size_is_clamped_and_each_clamp_recorded() -> None:
    """Spec: "bytes clamped to `RLM_MAX_BYTES_PER_CHUNK_READ`"; 1e12 is a whole number."""
    text = (
        plan_of(
            searches=[{"query": "x", "top_k": 21}],
            reads=[{"pointer": CHUNK, "bytes": 8192}, {"pointer": CHUNK, "bytes": 77777}],
            subcalls=[
                subcall(
                    max_input_bytes=MOST,
                    snippets=[{"pointer": CHUNK, "bytes": 9000}],
                    spans=[{"start_byte": 10, "end_byte": 20_000}],
                )
            ],
        )
    ).replace("77777", "1e12")
    taken = parsed(text)
    assert taken.plan.searches[0].top_k == 20
    assert [one.size for one in taken.plan.reads] == [8192, 8192]
    assert taken.plan.subcalls[0].max_input_bytes == 120_000
    assert taken.plan.subcalls[0].snippets == (
        Read(CHUNK, 0, 8192),
        Read(f"ctx:{OBJECT}#bytes:10-8202", 0, 8192),
    )
    assert taken.clamped == (
        {"what": "searches[0].top_k", "asked": 21, "given": 20},
        {"what": "reads[1].bytes", "asked": 10**12, "given": 8192},
        {"what": "subcalls[0].snippets[0].bytes", "asked": 9000, "given": 8192},
        {"what": "subcalls[0].spans[0]", "asked": 19_990, "given": 8192},
        {"what": "subcalls[0].max_input_bytes", "asked": MOST, "given": 120_000},
    )
    assert all(type(one["asked"]) is int for one in taken.clamped)


def test_counts_are_clamped_to_the_budgets_of_an_iteration() -> None:
    """Spec: "Clamp `reads`, `searches`, `subcalls` counts to per-iteration budgets"."""
    text = plan_of(
        searches=[{"query": str(number)} for number in range(5)],
        reads=[{"pointer": CHUNK, "bytes": 1}] * 9,
        subcalls=[subcall()] * 5,
    )
    taken = parsed(text)
    assert [one.query for one in taken.plan.searches] == ["0", "1", "2", "3"]
    assert (len(taken.plan.reads), len(taken.plan.subcalls)) == (8, 4)
    assert taken.clamped == (
        {"what": "searches", "asked": 5, "given": 4},
        {"what": "reads", "asked": 9, "given": 8},
        {"what": "subcalls", "asked": 5, "given": 4},
    )


def test_snippets_and_spans_stand_under_one_cap() -> None:
    """Decision 5: "under the same caps"."""
    one = subcall(
        snippets=[{"pointer": CHUNK, "bytes": 1}] * 6,
        spans=[{"start_byte": 0, "end_byte": 1}] * 6,
        pointers=[CHUNK] * 1001,
    )
    taken = parsed(plan_of(subcalls=[one]))
    assert len(taken.plan.subcalls[0].snippets) == 8
    assert len(taken.plan.subcalls[0].pointers) == 1000
    assert taken.clamped == (
        {"what": "subcalls[0].pointers", "asked": 1001, "given": 1000},
        {"what": "subcalls[0].spans", "asked": 6, "given": 2},
    )


def test_what_a_pause_asks_for_is_kept_for_when_it_is_over() -> None:
    taken = parsed(plan_of("pause", reads=[{"pointer": CHUNK, "bytes": 1}]))
    assert taken == ParsedPlan(Plan("pause", reads=(Read(CHUNK, 0, 1),)))


def test_a_plan_that_ends_has_no_actions_and_says_so() -> None:
    text = plan_of("final", final_answer="a", reads=[{"pointer": "nowhere", "bytes": 1}])
    assert parsed(text) == ParsedPlan(
        Plan("final", final_answer="a"), ({"what": "reads", "asked": 1, "given": 0},)
    )


def test_a_long_reason_is_shortened() -> None:
    reason = parsed(plan_of("fail", reason="x" * 5000)).plan.reason
    assert reason.startswith("xxx")
    assert reason.endswith("[… 4,000 characters left out]")


# ── what is refused: the JSON ──

DEEP = 100_000
HOSTILE = {
    "two objects": plan_of() + plan_of("fail"),
    "two fences": f"```json\n{plan_of()}\n```\n```json\n{plan_of()}\n```",
    "an array": f"[{plan_of()}]",
    "a string": json.dumps(plan_of()),
    "null": "null",
    "nothing": " \n",
    "half": plan_of()[:-1],
    "NaN": '{"schema_version": 1, "intent": "continue", "x": NaN}',
    "infinity": '{"schema_version": 1, "intent": "continue", "x": -Infinity}',
    "too large a float": '{"schema_version": 1, "intent": "continue", "x": 1e999}',
    "too large an int": '{"schema_version": 1, "intent": "continue", "x": 1%s}' % ("0" * 5000),
    "duplicate keys": '{"schema_version": 1, "intent": "final", "intent": "continue"}',
    "duplicate keys inside": plan_of(reads=[]).replace("[]", '[{"bytes": 1, "bytes": 2}]'),
    "arrays in arrays": "[" * DEEP,
    "objects in objects": '{"a":' * DEEP,
    "depth that is closed": plan_of(x=0).replace("0}", "[" * DEEP + "]" * DEEP + "}"),
    "a lone surrogate": plan_of("fail", reason="x").replace('"x"', '"\\ud800"'),
    "a lone surrogate as a key": plan_of().replace("{", '{"\\udfff": 1, '),
    "a raw surrogate": plan_of("fail", reason="x").replace('"x"', '"\udc80"'),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_not_one_json_object_is_a_parse_error(text: str) -> None:
    """Spec: "The planner must output a single JSON object per step (no surrounding prose)"."""
    assert refused(text).kind == PARSE_ERROR


def test_a_parse_error_says_what_is_wrong() -> None:
    assert refused("").message == "the answer is empty: answer in text"
    assert refused("<think>{}").message == "the answer ends within its thoughts, and has no plan"
    assert "'intent' is twice" in refused(HOSTILE["duplicate keys"]).message
    assert "nested too deeply" in refused(HOSTILE["arrays in arrays"]).message
    assert "NaN is not JSON" in refused(HOSTILE["NaN"]).message
    assert "surrogate" in refused(HOSTILE["a lone surrogate"]).message
    assert "an array" in refused(HOSTILE["an array"]).message


def test_what_is_too_large_is_not_even_parsed() -> None:
    """Hostile plans: 20 MB."""
    tracemalloc.start()
    try:
        error = refused("[" * (20 << 20))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert error.kind == PARSE_ERROR
    assert "20,971,520 bytes" in error.message
    assert peak < 64 << 20


def test_the_largest_answer_is_counted_in_bytes() -> None:
    text = plan_of("fail", reason="REASON").replace("REASON", "é" * 500_000)
    fill = strict_json.LIMIT - len(text.encode())
    assert parsed(text + " " * fill).plan.intent == "fail"
    assert refused(text + " " * (fill + 1)).kind == PARSE_ERROR


@given(st.text())
def test_any_text_is_a_plan_or_refused(text: str) -> None:
    error = error_of(text)
    assert error is None or error.kind in (PARSE_ERROR, VALIDATION_ERROR)
    assert error is None or error.message.encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    st.dictionaries(
        st.sampled_from(["searches", "reads", "subcalls", "final_answer", "reason"]), JSON
    ),
    st.sampled_from(["continue", "final", "pause", "fail"]),
)
def test_any_value_in_the_place_of_another_is_told_not_stumbled_over(
    members: dict[str, Any], intent: str
) -> None:
    error = error_of(plan_of(intent, **members))
    assert error is None or error.message.encode()


# ── what is refused: the plan ──

READ = {"pointer": CHUNK, "bytes": 1}
WRONG = {
    "no version": ('{"intent": "continue"}', "schema_version"),
    "version 2": (plan_of().replace("1", "2"), "$.schema_version"),
    "version as another text": (plan_of().replace("1", '"1.0"'), "$.schema_version"),
    "no intent": ('{"schema_version": 1}', "intent"),
    "unknown intent": (plan_of("go on"), "continue"),
    "a list as intent": (plan_of().replace('"continue"', '["continue"]'), "$.intent"),
    "final without an answer": (plan_of("final"), "final_answer"),
    "final with an empty answer": (plan_of("final", final_answer=" \n"), "final_answer"),
    "an answer that is not a text": (plan_of("final", final_answer=7), "$.final_answer"),
    "reads that are no list": (plan_of(reads={"0": READ}), "$.reads"),
    "a read that is no object": (plan_of(reads=[CHUNK]), "$.reads[0]"),
    "a read without a pointer": (plan_of(reads=[{"bytes": 1}]), "'pointer'"),
    "a read without bytes": (plan_of(reads=[{"pointer": CHUNK}]), "'bytes'"),
    "bytes as a text": (plan_of(reads=[{**READ, "bytes": "1 KB"}]), "$.reads[0].bytes"),
    "no bytes": (plan_of(reads=[{**READ, "bytes": 0}]), "$.reads[0].bytes"),
    "negative bytes": (plan_of(reads=[READ, {**READ, "bytes": -1}]), "$.reads[1].bytes"),
    "half a byte": (plan_of(reads=[{**READ, "bytes": 1.5}]), "$.reads[0].bytes"),
    "bytes that are true": (plan_of(reads=[{**READ, "bytes": True}]), "$.reads[0].bytes"),
    "bytes beyond JSON": (plan_of(reads=[{**READ, "bytes": MOST + 1}]), "$.reads[0].bytes"),
    "a negative offset": (plan_of(reads=[{**READ, "offset": -1}]), "$.reads[0].offset"),
    "a search without a query": (plan_of(searches=[{"top_k": 3}]), "'query'"),
    "an empty query": (plan_of(searches=[{"query": ""}]), "$.searches[0].query"),
    "a long query": (plan_of(searches=[{"query": "x" * 1001}]), "$.searches[0].query"),
    "no hits": (plan_of(searches=[{"query": "x", "top_k": 0}]), "$.searches[0].top_k"),
    "a sub-call without a purpose": (
        plan_of(subcalls=[{"pointers": [CHUNK], "max_input_bytes": 1}]),
        "'purpose'",
    ),
    "an unknown purpose": (plan_of(subcalls=[subcall(purpose="sing")]), "'summarize'"),
    "a sub-call without a size": (
        plan_of(subcalls=[{"purpose": "verify", "pointers": [CHUNK]}]),
        "'max_input_bytes'",
    ),
    "a sub-call without a text": (plan_of(subcalls=[subcall(pointers=[])]), "$.subcalls[0]"),
    "a span that ends before": (
        plan_of(subcalls=[subcall(spans=[{"start_byte": 9, "end_byte": 9}])]),
        "$.subcalls[0].spans[0]",
    ),
    "half a span": (
        plan_of(subcalls=[subcall(spans=[{"start_byte": 9}])]),
        "$.subcalls[0].spans[0]",
    ),
    "another object": (
        plan_of(reads=[{**READ, "pointer": "ctx:sha256:00#chunk:c000001"}]),
        "$.reads[0].pointer: ctx:sha256:00#chunk:c000001 is of another object",
    ),
    "an unknown chunk": (
        plan_of(subcalls=[subcall(pointers=[CHUNK, CHUNK.replace("1", "2")])]),
        "$.subcalls[0].pointers[1]",
    ),
    "a sub-call that has not answered": (
        plan_of(subcalls=[subcall(snippets=[{"pointer": "subcall:1:sc0001", "bytes": 1}])]),
        "$.subcalls[0].snippets[0].pointer",
    ),
}


@pytest.mark.parametrize(("text", "told"), WRONG.values(), ids=WRONG.keys())
def test_a_plan_that_breaks_a_rule_is_a_validation_error(text: str, told: str) -> None:
    """Spec: "Validation rules"; decision 23a: an unknown purpose is rejected."""
    error = refused(text)
    assert error.kind == VALIDATION_ERROR
    assert told in error.message


def test_several_bad_pointers_are_told_at_once_because_there_is_one_repair() -> None:
    reads = [{"pointer": f"there-{number}\u202e{'x' * 500}", "bytes": 1} for number in range(8)]
    message = refused(plan_of(reads=reads)).message
    assert "$.reads[0].pointer: there-0\\u202e" in message
    assert "$.reads[3].pointer" in message
    assert message.endswith("; and more")


def test_10_000_of_everything_cost_no_more_than_is_taken() -> None:
    """Hostile plans: 10,000 sub-calls."""
    asked: list[str] = []

    def counting(pointer: str) -> str | None:
        asked.append(pointer)
        return flaw(pointer)

    for wrong in ([], [{"purpose": "sing"}]):
        text = plan_of(subcalls=[*wrong, *[subcall(pointers=["x"] * 6)] * 10_000])
        with pytest.raises(PlanError) as caught:
            PlanReader(PlanLimits(), counting, OBJECT, SIZE).read(text)
        assert caught.value.kind == VALIDATION_ERROR
    assert len(asked) < 6, "after a few that are wrong no more are looked at"
    good = parsed(plan_of(subcalls=[subcall(pointers=["subcall:0:sc0001"])] * 8_000))
    assert good.clamped == ({"what": "subcalls", "asked": 8_000, "given": 4},)
    many = parsed(plan_of(searches=[{"query": "x"}] * 60_000))
    assert len(many.plan.searches) == 4


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "members", [{"searches": [1] * 300_000}, {"reads": [[]] * 300_000}, {"x": [{}] * 300_000}]
)
def test_what_is_wrong_a_hundred_thousand_times_ends_early(members: dict[str, Any]) -> None:
    text = plan_of(**members).replace(" ", "")
    if "x" in members:
        assert parsed(text).plan == Plan("continue")
    else:
        assert refused(text).kind == VALIDATION_ERROR


def test_the_schema_is_one_that_endpoints_can_keep_to() -> None:
    """No references and nothing beyond the plain words: grammars are made of it."""
    words: set[str] = set()

    def visit(schema: dict[str, Any]) -> None:
        words.update(schema)
        for inner in schema.get("properties", {}).values():
            visit(inner)
        if "items" in schema:
            visit(schema["items"])

    visit(loader.read_schema("plan.schema.json"))
    assert words == {
        "$schema", "title", "description", "type", "required", "properties", "items", "const",
        "enum", "minLength", "maxLength", "minimum", "maximum",
    }  # fmt: skip
