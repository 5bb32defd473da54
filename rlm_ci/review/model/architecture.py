"""Ask a model what all findings together say of a repository's structure."""

from __future__ import annotations

from rlm_ci.environments.object_question import ask_object
from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.json_question import answer_form, repeats, shortened
from rlm_ci.recursion.nodes import TracedFinding
from rlm_ci.recursion.prompt_windows import LEAST, fence, name
from rlm_ci.report.findings import Evidence, Finding, Severity
from rlm_ci.report.rules import kebab
from rlm_ci.resources import loader
from rlm_ci.review.model.finder import source_of
from rlm_ci.text.line_references import marked
from rlm_ci.text.printable import clip, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask

DOMAIN = "architecture"
_TEMPLATE = "prompts/review-architecture.md.j2"
#: The text in the example of the prompt, which small models copy.
_EXAMPLES = ("what they show, and what it leads to",)
_SCHEMA = "review-architecture.schema.json"
_MESSAGE = 1_000
#: Places that a claim keeps of each of its findings, and in all.
_EACH = 2
_PLACES = 12
_SUREST = 0.9


class ArchitectureClaims(Value):
    """The claims that hold; ``uncovered`` is the reason if there is no answer."""

    findings: tuple[TracedFinding, ...] = ()
    counts: Evidence = Evidence()
    notes: tuple[str, ...] = ()
    uncovered: str = ""


def draw(ask: Ask, findings: Sequence[TracedFinding]) -> ArchitectureClaims:
    """Ask what ``findings`` shows as a whole. Raises RemoteError."""
    try:
        return (
            shortened(ask, lambda: _drawn(ask, findings))
            if len(findings) > 1
            else ArchitectureClaims()
        )
    except LimitError as error:
        why = f"budget: architecture not looked at, no room in {error.budget}"
        return ArchitectureClaims(uncovered=why)
    except RemoteError as error:
        return ArchitectureClaims(uncovered=f"remote: architecture not looked at: {error}")


def _drawn(ask: Ask, findings: Sequence[TracedFinding]) -> ArchitectureClaims:
    render = loader.load_template(_TEMPLATE)
    empty: dict[str, Any] = {"fence": fence(""), "listing": ""}
    room = ask.max_bytes - len(render(empty).encode()) - ask.repair
    lines: list[str] = []
    for number, finding in enumerate(findings, 1):
        line = _line(number, finding.finding)
        room -= len(line.encode("utf-8", "replace")) + 1
        if room < 0 or (number == 1 and room < LEAST):
            break
        lines.append(line)
    if len(lines) < 2:
        return ArchitectureClaims()
    listing = "\n".join(lines)
    prompt = render({"fence": fence(listing), "listing": listing})
    answer, wrong = ask_object(
        ask, "architecture-1", prompt, lambda record: loader.every_misfit(record, _SCHEMA),
        answer_form(_SCHEMA),
    )  # fmt: skip
    if answer is None:
        why = f"architecture: the model's answer {wrong}"
        return ArchitectureClaims(uncovered=why)
    notes: tuple[str, ...] = ()
    if len(lines) < len(findings):
        told_of = f"{len(lines):,} of {len(findings):,} findings"
        notes = (f"architecture: the model was shown {told_of}, the most severe first",)
    return _opened(answer["claims"], findings[: len(lines)], ask.model, notes)


def _line(number: int, finding: Finding) -> str:
    location = finding.evidence[0]
    rule = finding.rule.partition("/")[2]
    where = f"{name(location.path)}:{location.line_start or ''}"
    return f"{number}. {finding.severity.label} {rule} {where} {printable(finding.message)[:300]}"


def _opened(
    claims: Sequence[Mapping[str, Any]],
    findings: Sequence[TracedFinding],
    model: str,
    notes: tuple[str, ...],
) -> ArchitectureClaims:
    traced_findings, offered, rejected = [], 0, 0
    for claim in claims:
        numbers = list(dict.fromkeys(map(int, claim["of"])))
        cited = [findings[number - 1] for number in numbers if 1 <= number <= len(findings)]
        offered += len(numbers)
        rejected += len(numbers) - len(cited)
        if len(cited) < 2 or repeats(claim["message"], _EXAMPLES):
            continue
        places = [
            location
            for traced_finding in cited
            for location in traced_finding.finding.evidence[:_EACH]
        ]
        severity = min(
            Severity.from_label(claim["severity"]),
            max(traced_finding.finding.severity for traced_finding in cited),
        )
        finding = Finding(
            f"review/architecture-{kebab(claim['rule'], 60)}",
            severity,
            marked(clip(claim["message"].strip(), _MESSAGE)),
            evidence=tuple(dict.fromkeys(places))[:_PLACES],
            domain=DOMAIN,
            confidence=round(min(_SUREST, float(claim["confidence"])), 3),
            # A claim on suppressed findings alone is suppressed too.
            suppression=cited[0].finding.suppression
            if all(traced_finding.finding.suppression for traced_finding in cited)
            else None,
            source=source_of(model),
        )
        traced_findings.append(
            TracedFinding(
                finding,
                tuple(sorted({node for traced_finding in cited for node in traced_finding.nodes})),
            )
        )
    if len(traced_findings) < len(claims):
        dropped = len(claims) - len(traced_findings)
        notes = (*notes, f"architecture: {dropped} of {len(claims)} claims rest on no findings")
    return ArchitectureClaims(
        tuple(traced_findings), Evidence(offered, offered - rejected, 0, rejected), notes
    )
