"""What a question came to, as the one report that every surface shows."""

from __future__ import annotations

import os

from rlm_ci.ask.iteration import NOT_ALLOWED
from rlm_ci.errors import FINDINGS, OK
from rlm_ci.report.findings import INCOMPLETE, Document, Evidence, Finding, Part, Report, Severity
from rlm_ci.runs.state import PASSED
from rlm_ci.text import printable as text_printable
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.ask.citations.citations import CitedAnswer
    from rlm_ci.ask.loop import AskEnd
    from rlm_ci.context.context import Context
    from rlm_ci.report.findings import Location, Subject, Usage
    from rlm_ci.report.rules import Rule

PART = "rlm"
#: The document that holds the answer.
ANSWER = "answer.md"
FAILED = f"{PART}/failed"
UNVERIFIED = f"{PART}/unverified-citation"
RULES: Mapping[str, Rule] = {
    "failed": {
        "severity": Severity.HIGH,
        "finds": "The model that plans says that it cannot answer the question from the text.",
        "example": "the log has no entry of that day",
        "fix": "Read the reason: ask another question, or give a text that has the answer.",
    },
    "unverified-citation": {
        "severity": Severity.MEDIUM,
        "finds": "The answer cites a place that does not have the quote.",
        "example": "The answer cites log.txt:12, which is not right: there is no such line",
        "fix": "Look the claim up yourself, or ask again. The other citations hold.",
    },
}


class AnswerDetails(Value):
    """What there is to tell of a question besides its end.

    ``not_allowed`` sub-calls were to ask a model that nobody has allowed.
    """

    model: str
    object_id: str
    context_bytes: int
    chunks: int
    iterations: int
    subcalls: int
    largest_prompt: int
    not_allowed: int = 0

    @classmethod
    def of(cls, model: str, context: Context, turns: Sequence[Mapping[str, Any]]) -> AnswerDetails:
        """The account of a run over ``context``; ``turns`` are those of its state."""
        subcalls = [one for turn in turns for one in turn["subcalls"]]
        return cls(
            model=model,
            object_id=context.object_id,
            context_bytes=context.byte_length,
            chunks=context.chunk_count,
            iterations=len(turns),
            subcalls=len(subcalls),
            largest_prompt=max((turn["planner_prompt_bytes"] for turn in turns), default=0),
            not_allowed=sum((one["error"] or "").startswith(NOT_ALLOWED) for one in subcalls),
        )


def build(
    ended: AskEnd,
    cited: CitedAnswer | None,
    *,
    account: AnswerDetails,
    subject: Subject,
    usage: Usage,
) -> Report:
    """The report: the answer with the places that it rests on, or why there is none.

    A place outside of the work tree, which nobody could look up there, is none of its evidence.

    A citation that does not hold is a finding of severity medium: the answer stands, and who
    reads it must know. What the planner calls a failure is high.
    """
    final = ended.final
    findings: list[Finding] = []
    if final.exit_code == FINDINGS:
        findings.append(Finding(FAILED, Severity.HIGH, final.reason, source=_source(account)))
    if cited is not None:
        findings += [
            Finding(
                UNVERIFIED,
                Severity.MEDIUM,
                f"The answer cites {pointer}, which does not hold: {why}",
                subject=pointer,
                source=_source(account),
            )
            for pointer, why in cited.rejected
        ]
    part = Part(
        PART,
        _summary(ended, cited, account),
        {
            "status": final.status,
            "mode": "symbolic",
            "iterations": account.iterations,
            "subcalls": account.subcalls,
            "model": account.model,
            "context": account.object_id,
            "context_bytes": account.context_bytes,
            "chunks": account.chunks,
            "planner_prompt_bytes": account.largest_prompt,
            **({"models_not_allowed": account.not_allowed} if account.not_allowed else {}),
        },
        tuple(findings),
        state=INCOMPLETE if final.exit_code not in (OK, FINDINGS) else None,
    )
    places = tuple(filter(_is_ours, cited.locations)) if cited is not None else ()
    documents = (Document(ANSWER, cited.text, places, shown=True),) if cited is not None else ()
    evidence = cited.evidence if cited is not None else Evidence()
    return Report(
        subject, Severity.HIGH, (part,), documents=documents, evidence=evidence, usage=usage
    )


def as_file(answer: str) -> bytes:
    """The answer as it stands in a file of its own: a terminal that shows it obeys nothing."""
    lines = ("\t".join(map(printable, line.split("\t"))) for line in answer.split("\n"))
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _is_ours(place: Location) -> bool:
    """Whether a place can be looked up in the work tree: a file from elsewhere cannot."""
    return not os.path.isabs(place.path) and ".." not in place.path.split("/")


def _source(account: AnswerDetails) -> str:
    return f"model:{account.model}"


def _summary(ended: AskEnd, cited: CitedAnswer | None, account: AnswerDetails) -> str:
    told = [ended.final.reason]
    if ended.final.status == PASSED and cited is not None:
        held = text_printable.count(cited.verified, "citation")
        told.append(f"{held} verified" if cited.offered else "it cites nothing")
        wrong = cited.offered - cited.verified
        if wrong:
            told.append(f"{wrong:,} could not be verified")
    if account.not_allowed:
        number = text_printable.count(account.not_allowed, "sub-call")
        told.append(f"{number} named a model that is not allowed")
    return "; ".join(told)
