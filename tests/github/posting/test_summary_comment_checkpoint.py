"""The checkpoint in a summary's first line: what is written is read, and nothing else is."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rlm_ci.github.posting.summary_comment import (
    NO_ROOM,
    Checkpoint,
    Override,
    checkpoint_of,
    is_marked,
    resume,
)
from rlm_ci.report.findings import Usage

HEAD, BASE, FORK = "1" * 40, "2" * 40, "3" * 64
NOW = Checkpoint(12, HEAD, BASE, FORK, "findings", "c0ffee", "run-1")
OVERRIDE = {"check": "x", "reason": "y", "person": "z", "head": HEAD, "comment": 7}

commits = st.text("0123456789abcdef", min_size=40, max_size=40)
# What Python can hold and JSON can carry, lone surrogates too.
short = st.text(max_size=64)
overrides = st.builds(Override, short, st.text(max_size=500), short, commits,
                      st.integers(0, 10**12))  # fmt: skip
checkpoints = st.builds(
    Checkpoint, st.integers(0, 10**9), commits, st.none() | commits, st.none() | commits,
    st.sampled_from(["clean", "findings", "incomplete", "not_run"]), short, short,
    st.integers(0, 10**12), st.integers(0, 10**12),
    st.floats(0, 10**8, allow_nan=False), st.lists(overrides, max_size=10).map(tuple), short,
)  # fmt: skip


def marked(record: Any) -> str:
    """A body whose marker says ``record``: any value, or raw bytes."""
    data = record if isinstance(record, bytes) else json.dumps(record).encode()
    return f"<!-- rlm-ci:report {urlsafe_b64encode(data).decode()} -->\nwords\n"


def as_record(state: Checkpoint) -> dict[str, Any]:
    record = json.loads(urlsafe_b64decode(state.marker().split(" ")[2]))
    assert isinstance(record, dict)
    return record


@given(checkpoints)
@example(
    NOW.replace(
        overrides=tuple([Override("c" * 64, "\U0001f600" * 500, "p" * 64, HEAD, 10**14)] * 10)
    )
)
def test_what_is_written_is_read(state: Checkpoint) -> None:
    marker = state.marker()
    assert "\n" not in marker
    assert marker.isascii()
    assert len(marker) < 10_000, "the words of the comment need the room"
    for body in (marker, f"{marker}\nmore", f"{marker}\r\nmore"):
        assert is_marked(body)
        again = checkpoint_of(body)
        assert again is not None
        assert again.replace(overrides=()) == state.replace(overrides=())
        assert again.overrides == state.overrides[len(state.overrides) - len(again.overrides) :]


def test_what_a_review_left_is_kept_where_there_is_room() -> None:
    left = "A-_9=" * 2_000
    again = checkpoint_of(NOW.replace(review=left).marker())
    assert again
    assert again.review == left
    override = Override("diff-budget", "why", "ada", HEAD, 7)
    full = NOW.replace(review="x" * 20_000, overrides=(override,))
    kept = checkpoint_of(full.marker())
    assert kept
    assert (kept.review, kept.overrides) == (NO_ROOM, (override,))
    assert len(full.marker()) < 1_000


def test_usual_overrides_are_all_kept() -> None:
    kept = tuple(
        Override("diff-budget", f"why {n} " * 20, "ada", HEAD, 3_000_000_000 + n) for n in range(10)
    )
    again = checkpoint_of(NOW.replace(overrides=kept).marker())
    assert again
    assert again.overrides == kept


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=70),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)


def is_valid(state: Checkpoint) -> bool:
    """A judge of its own: every field is what its name says."""
    texts = [state.config, state.run, *(t for o in state.overrides for t in (o.check, o.person))]
    heads = [state.head, *(one.head for one in state.overrides)]
    heads += [one for one in (state.base, state.merge_base) if one is not None]
    return (
        all(type(n) is int and n >= 0 for n in (state.number, state.calls, state.tokens))
        and type(state.cost_usd) is float
        and 0 <= state.cost_usd < float("inf")
        and all(type(text) is str and len(text) <= 64 for text in texts)
        and all(set(one) <= set("0123456789abcdef") and len(one) in (40, 64) for one in heads)
        and state.verdict in ("clean", "findings", "incomplete", "not_run")
        and all(type(o.reason) is str and len(o.reason) <= 500 for o in state.overrides)
        and all(type(o.comment) is int and o.comment >= 0 for o in state.overrides)
    )


@given(st.sampled_from([*Checkpoint._fields, "v"]), json_values)
@example("cost_usd", float("nan"))
@example("cost_usd", float("inf"))
@example("cost_usd", -1)
@example("calls", True)
@example("calls", 10**400)
@example("tokens", 1.5)
@example("overrides", {"a": 1})
@example("overrides", "text")
@example("overrides", [{**OVERRIDE, "reason": "y" * 501}])
@example("overrides", [{**OVERRIDE, "comment": -1}])
@example("overrides", [{**OVERRIDE, "comment": True}])
@example("overrides", [{**OVERRIDE, "comment": "../user"}])
@example("overrides", [{name: OVERRIDE[name] for name in OVERRIDE if name != "comment"}])
@example("verdict", ["clean"])
@example("head", "../" * 20)
@example("head", HEAD.upper())
@example("head", "\N{FULLWIDTH DIGIT ONE}" * 40)
@example("review", None)
@example("review", "x" * 20_000)
@example("v", 2)
@example("v", None)
def test_one_hostile_field_is_ignored_or_harmless(name: str, value: Any) -> None:
    state = checkpoint_of(marked({**as_record(NOW), name: value}))
    assert state is None or is_valid(state)


@given(json_values)
@example([])
@example("text")
@example(None)
def test_hostile_json_is_no_checkpoint(value: Any) -> None:
    assert checkpoint_of(marked(value)) is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe\0",
        b"[" * 3000,
        b'{"v":1}',
        b'{"v":1,"v":1}',
        b"1" * 3000,
        json.dumps({**as_record(NOW), "more": "x" * 100_000}).encode(),
        json.dumps(as_record(NOW)).encode()[:-1],
        json.dumps(as_record(NOW)).encode("utf-16")[:100],
    ],
    ids=range(9),
)
def test_hostile_bytes_are_no_checkpoint(data: bytes) -> None:
    assert checkpoint_of(marked(data)) is None


@given(st.text() | st.text("<!- rlm-ci:report>A=\r\n", max_size=60))
@example("<!-- rlm-ci:report" + "A" * 5000 + " -->")
@example("<!-- rlm-ci:report =A -->")
@example("<!-- rlm-ci:report AAAAA -->")
def test_reading_never_fails(body: str) -> None:
    state = checkpoint_of(body)
    assert state is None or is_valid(state)


@pytest.mark.parametrize(
    ("body", "ours"),
    [
        ("<!-- rlm-ci:report -->", True),
        ("<!-- rlm-ci:report -->\r\nwords", True),
        (f"{NOW.marker()}\nwords", True),
        (f"\n{NOW.marker()}", False),
        (f" {NOW.marker()}", False),
        (f"> {NOW.marker()}", False),
        (f"words\n{NOW.marker()}", False),
        (f"{NOW.marker()} words", False),
        ("<!-- rlm-ci:reports -->", False),
        ("<!-- rlm-ci:report --><b> -->", False),
        ("<!-- rlm-ci:finding 00 -->", False),
        ("", False),
    ],
)
def test_only_a_first_line_of_its_own_is_a_marker(body: str, ours: bool) -> None:
    assert is_marked(body) is ours


def test_spend_adds_up_and_a_run_counts_once() -> None:
    usage = Usage(calls=2, prompt_tokens=10, completion_tokens=5, cost_usd=0.1)
    first = NOW.after(None, usage)
    assert (first.calls, first.tokens, first.cost_usd) == (2, 15, 0.1)
    second = NOW.replace(run="run-2").after(first, usage)
    assert (second.calls, second.tokens, second.cost_usd) == (4, 30, 0.2)
    again = NOW.replace(run="run-2").after(second, usage)
    assert (again.calls, again.tokens, again.cost_usd) == (4, 30, 0.2)
    unknown = NOW.replace(run="run-3").after(again, Usage(calls=1))
    assert (unknown.calls, unknown.cost_usd) == (5, 0.2)


@pytest.mark.parametrize(
    ("last", "ancestor", "since", "why"),
    [
        (None, True, None, "no checkpoint"),
        ({"number": 13}, True, None, "another pull request"),
        ({"verdict": "incomplete"}, True, None, "did not look at everything"),
        ({"verdict": "not_run"}, True, None, "did not look at everything"),
        ({"config": "other"}, True, None, "settings have changed"),
        ({"merge_base": BASE}, True, None, "merge base has changed"),
        ({"head": "4" * 40}, False, None, "rewritten"),
        ({"head": "4" * 40}, True, "4" * 40, "unchanged"),
        ({}, False, HEAD, "checked before"),
    ],
)
def test_where_the_next_run_begins(
    last: dict[str, Any] | None, ancestor: bool, since: str | None, why: str
) -> None:
    asked: list[tuple[str, str]] = []

    def is_ancestor(one: str, other: str) -> bool:
        asked.append((one, other))
        return ancestor

    before = None if last is None else NOW.replace(**last)
    found, reason = resume(before, NOW, is_ancestor)
    assert (found, why in reason) == (since, True), reason
    assert asked in ([], [("4" * 40, HEAD)])
