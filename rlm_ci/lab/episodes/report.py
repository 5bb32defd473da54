"""The report of an episode."""

from __future__ import annotations

from rlm_ci.report.findings import INCOMPLETE, Document, Finding, Part, Report, Severity
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.lab.episodes.node import EpisodeEnd
    from rlm_ci.report.findings import Subject, Usage

PART = "run"
#: The name of the document with the answer.
ANSWER = "answer.md"
UNSOLVED = f"{PART}/unsolved"
_UNSANDBOXED = "; code ran without a sandbox"
RULES = {
    "unsolved": Severity.HIGH,
}


def build(
    end: EpisodeEnd,
    *,
    metrics: Mapping[str, Any],
    subject: Subject,
    usage: Usage,
) -> Report:
    """The report: the answer as a document, or why there is none."""
    findings: tuple[Finding, ...] = ()
    is_incomplete = bool(end.budget) or end.cut_off
    if not (end.completed or is_incomplete):
        message = f"The episode ended without an answer: {end.reason}"
        source = f"model:{metrics['model']}"
        findings = (Finding(UNSOLVED, Severity.HIGH, message, source=source),)
    done = "answered" if "session" in metrics else "solved"
    unsandboxed = _UNSANDBOXED if metrics["sandbox"] == "none" else ""
    part = Part(
        PART,
        f"{_summary(end, done)}{_changed(metrics)}{unsandboxed}",
        {"status": end.status, **metrics},
        findings,
        state=INCOMPLETE if is_incomplete else None,
    )
    documents: tuple[Document, ...] = ()
    if end.completed or end.cut_off:
        documents = (Document(ANSWER, end.answer, (), shown=True),)
    return Report(subject, Severity.HIGH, (part,), documents=documents, usage=usage)


def _changed(metrics: Mapping[str, Any]) -> str:
    """What became of the files, where the episode worked on code."""
    if not metrics.get("files"):
        return ""
    why = metrics["not_applied"]
    if metrics["applied"]:
        outcome = "applied"
    else:
        outcome = f"not applied: {why}" if why else f"not applied, in {metrics['patch']}"
    untested = "" if metrics["validator"] else "; nothing tested it (no validator)"
    return f"; {count(metrics['files'], 'file')} changed, {outcome}{untested}"


def _summary(end: EpisodeEnd, done: str) -> str:
    """How the episode ended, in a line."""
    reward = f"reward {end.reward:g}"
    if end.completed:
        return f"{done} in {count(end.steps, 'step')}, {reward}"
    if end.budget or end.cut_off:
        return f"{end.reason}, {reward}"
    return f"no answer after {count(end.steps, 'step')}, {reward}"
