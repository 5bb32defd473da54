"""What a question came to, as the report of it."""

from __future__ import annotations

import pytest

from rlm_ci.ask import run as ask_report
from rlm_ci.ask.citations.citations import CitedAnswer
from rlm_ci.environments.symbolic.loop import AskEnd
from rlm_ci.report.findings import Location, Report, Subject, Usage
from rlm_ci.resources import loader
from rlm_ci.runs.state import EXIT_CODES, FinalState

METRICS = {"model": "gpt-4o", "iterations": 3, "context_bytes": 1 << 30}
PLACE = Location("service.log", 3, 4, blob="a" * 40, quote="one\ntwo")
#: An answer with a citation that holds and one that does not.
CITED = CitedAnswer(
    "So [service.log:3-4].", (PLACE,), 2, 1, (("ctx:sha256:00#chunk:c1", "another"),)
)


def report(ended: AskEnd, cited: CitedAnswer | None = None) -> Report:
    return ask_report.build(
        ended, cited, metrics=METRICS, subject=Subject(worktree=True), usage=Usage(calls=4)
    )


def answered(cited: CitedAnswer) -> Report:
    return report(AskEnd(FinalState.of("passed", "answered after 3 iterations"), "So."), cited)


def test_an_answer_is_a_document_with_its_evidence() -> None:
    """The report carries verified citations as evidence, unverifiable ones are counted."""
    made = answered(CITED)
    assert made.verdict() == "clean"
    [document] = made.documents
    assert (document.path, document.text, document.evidence) == (
        "answer.md", "So [service.log:3-4].", (PLACE,),
    )  # fmt: skip
    assert (made.evidence.offered, made.evidence.verified, made.evidence.rejected) == (2, 1, 1)
    [part] = made.parts
    assert part.summary == (
        "answered after 3 iterations; 1 citation verified; 1 could not be verified"
    )
    assert part.metrics["context_bytes"] == 1 << 30
    [finding] = made.findings
    assert (finding.rule, finding.severity.label, finding.subject) == (
        "rlm/unverified-citation", "medium", "ctx:sha256:00#chunk:c1",
    )  # fmt: skip
    assert not loader.misfit(made.to_dict(), "report.schema.json")


@pytest.mark.parametrize("path", ["/var/log/service.log", "../service.log", "a/../../b"])
def test_what_nobody_can_look_up_is_no_evidence(path: str) -> None:
    """Lines of files outside of the repository are named in the answer alone."""
    made = answered(CITED.replace(locations=(PLACE.replace(path=path), PLACE)))
    assert made.documents[0].evidence == (PLACE,)


@pytest.mark.parametrize(
    ("cited", "told"),
    [
        (CitedAnswer("So.", (), 0, 0, ()), "answered after 3 iterations; it cites nothing"),
        (
            CitedAnswer("So.", (PLACE,), 2, 2, ()),
            "answered after 3 iterations; 2 citations verified",
        ),
    ],
)
def test_the_summary_counts_what_holds(cited: CitedAnswer, told: str) -> None:
    made = answered(cited)
    assert (made.parts[0].summary, made.findings) == (told, ())


def test_a_planner_s_failure_is_a_finding() -> None:
    """``fail`` carries the planner's reason: exit 1, its reason is the finding."""
    made = report(AskEnd(FinalState.of("failed", "The log does not tell.")))
    [finding] = made.findings
    assert (finding.rule, finding.severity.label, finding.message, finding.source) == (
        "rlm/failed", "high", "The log does not tell.", "model:gpt-4o",
    )  # fmt: skip
    assert (made.verdict(), made.documents) == ("findings", ())
    assert not loader.misfit(made.to_dict(), "report.schema.json")


@pytest.mark.parametrize("status", [one for one, code in EXIT_CODES.items() if code == 3])
def test_a_limit_is_never_clean(status: str) -> None:
    """A budget that ended it, a pause, no progress: verdict incomplete."""
    made = report(AskEnd(FinalState.of(status, "it ended")))
    assert made.verdict() == "incomplete"
    assert made.parts[0].metrics["status"] == status
