"""Plans carried out, on a real record: in order, bounded, resumed and replayed to the byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rlm_ci.environments.symbolic.planner.plan import Plan, Read, Search
from testing.killed_runs import facts, killed_after
from testing.scripted_questions import SECRET, Stage, harbour, player

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.context.context import Context


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return harbour(tmp_path_factory.mktemp("harbour"))


def test_searches_then_reads_then_subcalls(tmp_path: Path, context: Context) -> None:
    """Runner executes searches, reads, sub-calls; the state holds pointers and byte counts."""
    stage = Stage(tmp_path / "run", context, player(context))
    first, second, _last = stage.play()
    gate, opens = first.searches
    assert (gate.query, gate.top_k, len(gate.query_result.hits)) == ("GATE", 2, 2)
    assert (opens.query, opens.top_k, opens.query_result.total_hits) == ("öffnet", 20, 8)
    assert first.reads[0].excerpt.text == context.raw(0, 90).decode()
    assert [one.id for one in first.subcalls] == ["sc0001", "sc0002", "sc0003"]
    assert [one.status for one in first.subcalls] == ["succeeded", "succeeded", "failed"]
    assert second.reads[0].of_subcall
    assert second.reads[0].excerpt.text == first.subcalls[0].output.encode()[4:24].decode()
    state = json.loads((tmp_path / "run/rlm/state.json").read_bytes())
    kept = state["symbolic_iterations"][0]
    assert kept["reads"] == [
        {
            "pointer": context.pointer(0),
            "bytes": 90,
            "start_byte": 0,
            "end_byte": 90,
            "truncated": True,
            "reason": "the beginning",
        }
    ]
    for entry in kept["subcalls"]:
        assert set(entry["artifact_paths"]) == {"input", "prompt", "output", "meta"}
        assert all((tmp_path / "run" / path).is_file() for path in entry["artifact_paths"].values())
    assert "the gate reports" not in json.dumps(state), "rlm/state.json does not inline large text"


@pytest.mark.full
@pytest.mark.parametrize("concurrency", [1, 4])
def test_killed_anywhere_it_ends_in_the_same_bytes(
    tmp_path: Path, context: Context, concurrency: int
) -> None:
    """Killed anywhere and resumed: same bytes, no journalled answer asked for again."""
    whole = Stage(tmp_path / "whole", context, player(context), concurrency=concurrency)
    whole.play()
    expected = whole.files()
    assert len(expected) == 5 * 4 + 3 * 3 + 1 + 3 * 4 + 1
    number = len(facts(tmp_path / "whole"))
    assert number > 20
    # One at a time leaves nothing that several at once do not: every fourth place will do.
    for cut in range(0, number, 1 if concurrency > 1 else 8):
        folder = tmp_path / f"cut-{cut}"
        known = killed_after(tmp_path / "whole", cut, folder)
        answered = {
            one["place"] for one in known if one["type"] == "fact" and one["kind"] == "completion"
        }
        failed = {
            one["place"] for one in known
            if one["type"] == "fact" and one["kind"] == "subcall" and one["value"]["error"]
        }  # fmt: skip
        again = Stage(folder, context, player(context), concurrency=concurrency)
        again.play()
        assert again.files() == expected, f"cut after record {cut}"
        assert not (answered | failed) & set(again.asked), f"cut after record {cut}"


def test_replayed_with_nobody_to_ask_it_ends_in_the_same_bytes(
    tmp_path: Path, context: Context
) -> None:
    """Replayed without a key: same bytes; a failed sub-call gives the same planner prompt."""
    whole = Stage(tmp_path / "run", context, player(context))
    whole.play()
    expected = whole.files()
    for path in (tmp_path / "run/rlm").rglob("*.*"):
        path.unlink()
    replayed = Stage(tmp_path / "run", context, None)
    replayed.play()
    assert replayed.files() == expected
    assert replayed.asked == []


def test_no_secret_enters_a_prompt(tmp_path: Path, context: Context) -> None:
    """Secrets are redacted out of excerpts before they enter a prompt."""
    stage = Stage(tmp_path / "run", context, player(context))
    text = context.raw(0, context.byte_length)
    at = text.index(SECRET.encode())
    middle = f"ctx:{context.object_id}#bytes:{at + 5}-{at + 40}"
    plan = Plan(
        "continue",
        searches=(Search("login of the keeper", 3),),
        reads=(Read(middle, 0, 30), Read(context.pointer(context.layout.at(at)), 0, 8000)),
    )
    step = stage.symbolic.act(plan, 0)
    shown = [read.excerpt.text for read in step.reads]
    shown += [hit.preview for hit in step.searches[0].query_result.hits]
    assert shown[0].startswith("[redacted]"), "what is left of a secret is a part of it"
    assert "refused" in shown[0]
    assert all(SECRET[5:] not in one and SECRET[:-5] not in one for one in shown)
    assert sum("[redacted]" in one for one in shown) >= 3
    assert step.reads[0].excerpt.start == at + 5, "offsets stay exact"


def test_a_pointer_of_the_future_has_a_flaw(tmp_path: Path, context: Context) -> None:
    """Outputs of earlier sub-calls can be read again by pointer, later ones cannot."""
    stage = Stage(tmp_path / "run", context, player(context))
    flaw = stage.window.flaw("subcall:0:sc0001")
    assert flaw is not None
    assert "earlier iteration" in flaw
    stage.play()
    assert stage.window.flaw("subcall:0:sc0001") is None
    failed = stage.window.flaw("subcall:0:sc0003")
    assert failed is not None
    assert "no output" in failed
    assert stage.window.flaw(context.pointer(0)) is None
    assert stage.window.flaw("ctx:sha256:00#chunk:c000001") is not None
