"""The report of a question."""

from __future__ import annotations

import os

from rlm_ci.environments.symbolic.iteration import NOT_ALLOWED, all_calls, unread
from rlm_ci.errors import FINDINGS, OK
from rlm_ci.report.findings import INCOMPLETE, Document, Evidence, Finding, Part, Report, Severity
from rlm_ci.runs.state import PASSED
from rlm_ci.text import printable as text_printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.ask.citations.citations import CitedAnswer
    from rlm_ci.context.context import Context
    from rlm_ci.environments.symbolic.loop import AskEnd
    from rlm_ci.report.findings import Location, Subject, Usage
    from rlm_ci.runs.state import FinalState

PART = "rlm"
#: The name of the document with the answer.
ANSWER = "answer.md"
#: The environment of a question that is answered by code.
REPL = "repl"
FAILED = f"{PART}/failed"
UNVERIFIED = f"{PART}/unverified-citation"
RULES = {
    "failed": Severity.HIGH,
    "unverified-citation": Severity.MEDIUM,
}


def metrics(model: str, context: Context, turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of a run over ``context``; ``turns`` are those of its state."""
    subcalls = [call for turn in turns for call in all_calls(turn)]
    parts, missing = unread(turns)
    not_allowed = sum((subcall["error"] or "").startswith(NOT_ALLOWED) for subcall in subcalls)
    return {
        "mode": "symbolic",
        "iterations": len(turns),
        "subcalls": len(subcalls),
        "model": model,
        "context": context.object_id,
        "context_bytes": context.byte_length,
        "chunks": context.chunk_count,
        "planner_prompt_bytes": max((turn["planner_prompt_bytes"] for turn in turns), default=0),
        **({"models_not_allowed": not_allowed} if not_allowed else {}),
        **({"map_parts": parts, "map_parts_read": parts - len(missing)} if parts else {}),
    }


def figures(
    model: str, context: Context, turns: Sequence[Mapping[str, Any]], sandbox: str | None
) -> dict[str, Any]:
    """As ``metrics``; with a ``sandbox``, those of a question that was answered by code."""
    if sandbox is None:
        return metrics(model, context, turns)
    blocks = [block for turn in turns for block in turn["blocks"]]
    not_allowed = sum(block["not_allowed"] for block in blocks)
    return {
        "mode": "symbolic",
        "environment": REPL,
        "sandbox": sandbox,
        "turns": len(turns),
        "blocks": len(blocks),
        "subcalls": sum(block["asked"] for block in blocks),
        "subcalls_failed": sum(block["failed"] for block in blocks),
        "model": model,
        "context": context.object_id,
        "context_bytes": context.byte_length,
        "chunks": context.chunk_count,
        "largest_prompt_bytes": max((turn["prompt_bytes"] for turn in turns), default=0),
        **({"models_not_allowed": not_allowed} if not_allowed else {}),
    }


def build(
    ended: AskEnd,
    cited: CitedAnswer | None,
    *,
    metrics: Mapping[str, Any],
    subject: Subject,
    usage: Usage,
    notes: Sequence[str] = (),
) -> Report:
    """The report: the answer with its evidence, or why there is none; ``notes`` on the context.

    A place outside of the work tree is no evidence: readers cannot look it up. A citation that
    does not hold is a finding of severity medium, a failure of the planner is high.
    """
    final = ended.final
    source = f"model:{metrics['model']}"
    findings: list[Finding] = []
    if final.exit_code == FINDINGS:
        findings.append(Finding(FAILED, Severity.HIGH, final.reason, source=source))
    for pointer, why in cited.rejected if cited is not None else ():
        message = f"The answer cites {pointer}, which does not hold: {why}"
        findings.append(
            Finding(UNVERIFIED, Severity.MEDIUM, message, subject=pointer, source=source)
        )
    part = Part(
        PART,
        _summary(final, cited, metrics, notes),
        {"status": final.status, **metrics},
        tuple(findings),
        state=INCOMPLETE if final.exit_code not in (OK, FINDINGS) else None,
    )
    documents: tuple[Document, ...] = ()
    if cited is not None:
        places = tuple(filter(_is_in_worktree, cited.locations))
        documents = (Document(ANSWER, cited.text, places, shown=True),)
    evidence = cited.evidence if cited is not None else Evidence()
    return Report(
        subject, Severity.HIGH, (part,), documents=documents, evidence=evidence, usage=usage
    )


def _is_in_worktree(location: Location) -> bool:
    return not os.path.isabs(location.path) and ".." not in location.path.split("/")


def _summary(
    final: FinalState,
    cited: CitedAnswer | None,
    metrics: Mapping[str, Any],
    notes: Sequence[str],
) -> str:
    parts = [final.reason]
    if final.status == PASSED and cited is not None:
        citations = text_printable.count(cited.verified, "citation")
        parts.append(f"{citations} verified" if cited.offered else "it cites nothing")
        wrong = cited.offered - cited.verified
        if wrong:
            parts.append(f"{wrong:,} could not be verified")
    if "map_parts" in metrics:
        mapped = text_printable.count(metrics["map_parts"], "part")
        parts.append(f"{metrics['map_parts_read']:,} of {mapped} of the text read by maps")
    not_allowed = metrics.get("models_not_allowed", 0)
    if not_allowed:
        number = text_printable.count(not_allowed, "sub-call")
        parts.append(f"{number} named a model that is not allowed")
    if final.status != PASSED and cited is not None:
        parts.append("the answer is what it had by then")
    parts += notes
    if metrics.get("sandbox") == "none":
        parts.append("its code ran without a sandbox")
    return "; ".join(parts)
