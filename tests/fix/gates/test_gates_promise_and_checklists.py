"""What an agent says and ticks: the first promise counts, and no item of a list may go."""

from __future__ import annotations

import pytest

from rlm_ci.agents.agent import AgentOutcome
from rlm_ci.fix.gates.gate import FAILED, PASSED, GateView
from rlm_ci.fix.gates.gates import ChecklistGate, PromiseGate
from rlm_ci.fix.roles import RoleTurn

TEXT = "ALL  DONE"


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("Well. <promise>ALL DONE</promise>", PASSED),
        ("<promise>\n  ALL\tDONE\n</promise> and <promise>more</promise>", PASSED),
        ("<promise>not yet</promise> <promise>ALL DONE</promise>", FAILED),
        ("<promise>all done</promise>", FAILED),
        ("<promise>ALL DONE, but for the tests</promise>", FAILED),
        ("<promise>ALL DONE", FAILED),
        ("ALL DONE", FAILED),
        ("", FAILED),
        ("<promise>" * 20_000, FAILED),
        (f"<promise>ALL DONE</promise>{4_000 * '.'}", FAILED),
        (f"<promise>other</promise>{4_000 * '.'}<promise>ALL DONE</promise>", PASSED),
    ],
)
def test_only_the_exact_words_in_the_first_tag_are_a_promise(said: str, verdict: str) -> None:
    gate = PromiseGate(TEXT)
    assert _promise(gate, said) == verdict
    assert _promise(gate, gate.line) == FAILED  # an agent that prints its prompt
    assert _promise(gate, f"{gate.line} <promise>ALL DONE</promise>") == PASSED


def test_the_summary_comes_before_what_was_printed() -> None:
    gate = PromiseGate(TEXT)
    for summary, verdict in (("Done. <promise>no</promise>", FAILED), ("Done.", PASSED)):
        turn = RoleTurn("a", "", AgentOutcome(0, summary, "<promise>ALL DONE</promise>"))
        assert gate.check(GateView(1, "", "", "", turns=(turn,))).verdict == verdict


def _promise(gate: PromiseGate, said: str, *, edits: bool = True, code: int = 0) -> str:
    turn = RoleTurn("a", "prompt", AgentOutcome(code, "short", said), edits=edits)
    other = RoleTurn("b", "prompt", AgentOutcome(0, "", "<promise>no</promise>"), edits=False)
    return gate.check(GateView(1, "", "", "", turns=(turn, other))).verdict


def test_only_a_whole_turn_of_the_role_that_edits_promises() -> None:
    said = "<promise>ALL DONE</promise>"
    assert _promise(PromiseGate(TEXT), said, edits=False) == FAILED
    assert _promise(PromiseGate(TEXT), said, code=1) == FAILED
    assert PromiseGate(TEXT).check(GateView(1, "", "", "")).verdict == FAILED


START = "# List\n\n- [ ] one\n  1. [ ] two  `x`\n> * [x] three\n"
ITEMS = ("one", "two `x`", "three")


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (START.replace("[ ]", "[x]"), ""),
        (START.replace("[ ]", "[X]") + "- [x] four\n", ""),
        (START, "2 open items: one; two `x`"),
        (START.replace("[ ]", "[x]") + "- [ ] four\n", "1 open item: four"),
        ("- [x] one\n- [x] three\n", "1 item removed or reworded: two `x`"),
        ("- [x] one\n- [x] two `x`\n- [x] tree\n", "1 item removed or reworded: three"),
        (f"<!--\n{START.replace('[ ]', '[x]')}-->\n", "3 items removed or reworded"),
        (f"```\n{START.replace('[ ]', '[x]')}```\n", "3 items removed or reworded"),
        ("- [x] one\n- [x] one\n- [x] three", "1 item removed or reworded: two"),
        ("\udcff\0", "3 items removed or reworded"),
        (None, "it is gone, or no regular file"),
    ],
)
def test_all_items_of_the_start_must_be_there_and_ticked(now: str | None, told: str) -> None:
    data = None if now is None else now.encode("utf-8", "surrogateescape")
    gate = ChecklistGate([("L.md", ITEMS)], lambda _tree, _path: data, str)
    found = gate.check(GateView(1, "", "", ""))
    assert found.verdict == (FAILED if told else PASSED)
    assert told in found.reason
