"""What a report says of the roles: analyses, changes taken back, the last word."""

from __future__ import annotations

from typing import Any

from rlm_ci.fix.report import FixDetails


def turn(role: str, **more: str) -> dict[str, Any]:
    return {
        "role": role,
        "exitCode": 0,
        "analysis": None,
        "takenBack": None,
        "verdict": None,
    } | more


def test_it_says_which_role_was_offered_which_analysis() -> None:
    offered = turn("planner", analysis="rlm/rlms/planner-iter-2.json")
    undone = turn("tester", takenBack="added: a\x1b[31m.txt (+1 -0)\nadded: b.txt (+1 -0)")
    turns = ((1, turn("planner")), (2, offered), *25 * [(2, undone)])
    details = FixDetails(iterations=2, files=0, turns=turns)
    document = details.document("it passes")
    assert document is not None
    lines = document.text.splitlines()
    assert lines[0] == "analysis for the planner in iteration 2: rlm/rlms/planner-iter-2.json"
    assert lines[1] == (
        "changes taken back from the tester in iteration 2:"
        " added: a\\x1b[31m.txt (+1 -0) and 1 more file"
    )
    assert lines[21:] == ["and 5 more"]


def test_only_the_last_word_counts_as_an_objection() -> None:
    revise, accept = turn("reviewer", verdict="revise"), turn("critic", verdict="accept")
    for turns, role in (
        ([], ""),
        ([revise], "reviewer"),
        ([revise, turn("reviser")], ""),
        ([revise, accept], ""),
    ):
        numbered = tuple((1, one) for one in turns)
        assert FixDetails(iterations=1, files=0, turns=numbered).objector() == role
