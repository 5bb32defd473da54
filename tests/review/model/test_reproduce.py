"""A model shows a claim: what counts as an answer, and what it is told of a wrong one."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.report.proof import ARGUED
from rlm_ci.review.model.claim_context import ClaimContext, ClaimPrompt
from rlm_ci.review.model.reproduce import ClaimTrial
from testing.review_leaves import Asking

if TYPE_CHECKING:
    from testing.loopback_model.server import ModelServer

CLAIM = Finding(
    "review/wrong", Severity.HIGH, "It is wrong.", evidence=(Location("a.py", 1, 1),), source="m"
)
EMPTY = {"path": "", "content": "", "expects": ""}


def tried(llm: ModelServer, *answers: dict[str, Any]) -> Any:
    llm.script([json.dumps(one) for one in answers])
    # None of the answers has anything to run.
    runner = SimpleNamespace()
    trial = ClaimTrial(
        Asking(llm),
        runner,  # type: ignore[arg-type]  # nothing is run where no answer has a test
        "x",
        CLAIM,
        ClaimPrompt.of(CLAIM, ClaimContext("1|x = 1", ()), "pytest 8"),
    )
    return trial.run()


@pytest.mark.parametrize("more", [{}, EMPTY, dict.fromkeys(EMPTY), EMPTY | {"content": 3}])
def test_no_reproduction_is_an_answer_with_its_reason(
    llm: ModelServer, more: dict[str, Any]
) -> None:
    trial = tried(llm, {"kind": "none", "breaks": "it needs a clock", **more})
    assert len(llm.completions) == 1
    assert (trial.level, trial.reason) == (
        ARGUED, "the model has no reproduction: it needs a clock",
    )  # fmt: skip


def test_all_that_is_wrong_is_told_at_once(llm: ModelServer) -> None:
    tried(llm, {"kind": "test", **EMPTY, "breaks": " "}, {"kind": "none", "breaks": "no"})
    told = llm.completions[1].messages[-1]["content"]
    for name in (*EMPTY, "breaks"):
        assert f"$.{name}: " in told
