"""Grave claims of a model withstand a second, independent look, or are dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.report.findings import Severity
from testing.review_leaves import (
    GRAVE,
    TEXTS,
    TOTAL,
    Asking,
    answering,
    by_model,
    claim,
    closing,
    reviewed,
    verdict,
)

if TYPE_CHECKING:
    from testing.loopback_model.server import ModelServer

__all__ = ["closing"]


@pytest.mark.parametrize(
    ("said", "word", "confidence"),
    [
        (["upheld"], "upheld", 0.8),
        (["unsure"], "unsure", 0.48),
        (["refuted"], "refuted", None),
        (["maybe", "upheld"], "upheld", 0.8),
        (["maybe", "perhaps"], "unsure", 0.48),
    ],
)
def test_grave_claims_must_withstand_a_second_look(
    llm: ModelServer, said: list[str], word: str, confidence: float | None
) -> None:
    llm.script([answering(GRAVE, TOTAL), *map(verdict, said)])
    asking = Asking(llm)
    result = reviewed(TEXTS, asking, ruff="off")
    assert [place.partition("-")[0] for place in asking.places[:2]] == ["find", "refute"]
    assert result.metrics[word] == 1
    grave = [one for one in by_model(result) if one.rule == "review/deletes"]
    assert all(one.severity == Severity.MEDIUM and one.is_argued for one in grave)
    assert len(result.data["refuted"]) == (confidence is None)
    assert [one.confidence for one in grave] == ([] if confidence is None else [confidence])
    assert len(by_model(result)) == 1 + len(grave)  # the other was not grave enough
    assert not any("refuted" in note for note in result.notes)  # the report has a list of them
    second = asking.prompts[1]
    assert "Whoever names an order deletes all" in second
    assert "9|    db.execute" in second
    assert "gravest first" not in second  # nothing of the first question


def test_the_level_of_a_second_look_is_a_setting(llm: ModelServer) -> None:
    llm.script([answering(GRAVE, TOTAL)])
    assert len(by_model(reviewed(TEXTS, Asking(llm), ruff="off", refute_level="off"))) == 2
    llm.script([answering(GRAVE, TOTAL), verdict("refuted"), verdict("refuted")])
    assert by_model(reviewed(TEXTS, Asking(llm), ruff="off", refute_level="medium")) == []


def test_a_claim_that_nobody_could_look_at_again_is_doubted(llm: ModelServer) -> None:
    llm.script([answering(GRAVE)])
    result = reviewed(TEXTS, Asking(llm, calls=1), ruff="off")
    (found,) = by_model(result)
    assert found.confidence == 0.48
    assert result.metrics["unexamined"] == 1
    why = "budget: a severe claim without a second look, no room in max_calls"
    assert result.uncovered == (("shop.py", why),)  # a resumed run does it again


def test_what_a_model_refutes_of_itself_an_analyzer_may_still_say(llm: ModelServer) -> None:
    line = "    return db.execute(\"SELECT * FROM orders WHERE name = '%s'\" % name)"
    llm.script([
        answering(claim(5, line, "SQL injection", domain="security", severity="high")),
        verdict("refuted"),
    ])  # fmt: skip
    result = reviewed(TEXTS, Asking(llm), domains=("security", "quality"))
    assert {(one.finding.rule, one.finding.severity) for one in result.findings} == {
        ("review/ruff-s608", Severity.MEDIUM)
    }
