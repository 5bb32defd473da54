"""The prompts of the questions about one claim, which all begin with the same bytes.

A reproduction, its judgement, a second look and a repair need the same rules and the same lines of
the program. Each prompt has them first and its question last, with what was run between them: a
repair begins as the judgement before it. Providers keep the beginning of a prompt from 1,024 tokens
on. The rules alone are as long, so they are read once for a review, and the lines once for a claim.

The judge is asked in a prompt of its own, and not in the conversation in which the test was
written: who has written a test takes it for right. Both ways have as many tokens that no kept
beginning covers, and a conversation sends its earlier turns again, a third more in all.
"""

from __future__ import annotations

from rlm_ci.recursion.prompt_windows import fence, name
from rlm_ci.resources import loader
from rlm_ci.review.proofs.repair import MOST_LINES
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.report.findings import Finding
    from rlm_ci.review.model.claim_context import ClaimContext
    from rlm_ci.review.proofs.reproduction import ProofOutcome, Reproduction


class ClaimPrompt(Value):
    """What the prompts of one claim begin with; ``texts`` are the lines that they show.

    ``subject`` are the definitions that the claim is about, by path and name.
    """

    beginning: str
    severity: str
    texts: tuple[LeafText, ...] = ()
    subject: frozenset[tuple[str, str]] = frozenset()

    @classmethod
    def of(
        cls, finding: Finding, context: ClaimContext, framework: str | None = None
    ) -> ClaimPrompt:
        """``framework`` says what runs tests in Python, "" for nothing; None: nothing is run."""
        location = finding.evidence[0]
        severity = finding.severity.label
        data = {
            "severity": severity,
            "place": f"{name(location.path)}, lines {location.line_start}-{location.line_end}",
            "claim": printable(finding.message),
            "guideline": context.guideline,
            "framework": encodable(framework or ""),
        }
        rules = {"runs": framework is not None, "most": MOST_LINES}
        # The lines have a fence of their own: other claims on them begin with the same bytes.
        listing = {"listing": context.listing, "listing_fence": fence(context.listing)}
        beginning = _rendered("claim", {**rules, **data, **listing, "fence": fence(*data.values())})
        return cls(beginning, severity, context.texts, context.subject)

    def asking(self, question: str, row: Mapping[str, Any], tried: str = "") -> str:
        """The prompt of a question, behind what was ``tried``."""
        return f"{self.beginning}{tried}{_rendered(question, {**row, 'severity': self.severity})}"


def tried(reproduction: Reproduction, outcome: ProofOutcome, breaks: str) -> str:
    """What was run for a claim, and how it ended on both sides."""
    base = outcome.base
    data = {
        "breaks": breaks,
        "kind": reproduction.kind,
        "path": printable(reproduction.path),
        "content": encodable(reproduction.content).strip("\n"),
        "line": printable(outcome.line),
        "uses": printable("; ".join(map(str, outcome.uses))),
        "head": outcome.head.status,
        "head_output": outcome.head.tail,
        "base": "" if base is None else base.status,
        "base_output": "" if base is None else base.tail,
    }
    return _rendered("tried", {**data, "fence": fence(*data.values())})


def _rendered(question: str, row: Mapping[str, Any]) -> str:
    return loader.load_template(f"prompts/review-{question}.md.j2")(row)
