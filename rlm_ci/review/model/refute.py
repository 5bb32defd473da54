"""Ask a model to refute a claim, given the claim and the lines alone."""

from __future__ import annotations

from rlm_ci.environments.quoting import said_of
from rlm_ci.errors import LimitError
from rlm_ci.models.json_question import REPAIR, ask_object
from rlm_ci.recursion.prompt_windows import fence, name, numbered
from rlm_ci.resources import loader
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.report.findings import Finding, Severity

UPHELD = "upheld"
REFUTED = "refuted"
UNSURE = "unsure"
#: There was no room in a budget or a prompt.
UNEXAMINED = "unexamined"
VERDICTS = (UPHELD, REFUTED, UNSURE, UNEXAMINED)

_TEMPLATE = "prompts/review-refute.md.j2"
#: Lines around the place that are shown at most.
_AROUND = 150
#: The factor for the confidence in a claim that was not upheld.
_DOUBT = 0.6
_TOLD = 200


class RefutationResult(Value):
    """The remaining findings, the number of each verdict, notes on refuted claims.

    ``uncovered`` are pairs of path and reason where a budget had no room.
    """

    findings: tuple[Finding, ...]
    verdicts: Mapping[str, float]
    notes: tuple[str, ...]
    uncovered: tuple[tuple[str, str], ...] = ()


def weigh(
    ask: Ask, findings: Sequence[Finding], texts: Sequence[LeafText], level: Severity | None
) -> RefutationResult:
    """Have each of ``findings`` from ``level`` on refuted, if it can be. Raises RemoteError."""
    kept: list[Finding] = []
    verdicts: dict[str, float] = dict.fromkeys(VERDICTS, 0)
    notes: list[str] = []
    uncovered: list[tuple[str, str]] = []
    number, spent = 0, ""
    for finding in findings:
        if level is None or finding.severity < level:
            kept.append(finding)
            continue
        number += 1
        verdict, reason = UNEXAMINED, ""
        if not spent:
            try:
                verdict, reason = _look(ask, f"refute-{number}", finding, texts)
            except LimitError as error:
                spent = f"budget: a severe claim without a second look, no room in {error.budget}"
        if spent:
            uncovered.append((finding.evidence[0].path, spent))
        verdicts[verdict] += 1
        if verdict == REFUTED:
            notes.append(_told(finding, said_of(texts, reason)))
        elif verdict == UPHELD:
            kept.append(finding)
        else:
            doubted = round((finding.confidence or 0.0) * _DOUBT, 3)
            kept.append(finding.replace(confidence=doubted))
    left = tuple(dict.fromkeys(uncovered))
    return RefutationResult(tuple(kept), verdicts, tuple(notes), left)


def _look(ask: Ask, place: str, finding: Finding, texts: Sequence[LeafText]) -> tuple[str, str]:
    render = loader.load_template(_TEMPLATE)
    primary = finding.evidence[0]
    told: dict[str, Any] = {
        "severity": finding.severity.label,
        "place": f"{name(primary.path)}, lines {primary.line_start}-{primary.line_end}",
        "claim": printable(finding.message),
        "fence": fence(""),
        "listing": "",
    }
    room = ask.max_bytes - len(render(told).encode()) - REPAIR
    around = _AROUND
    while True:
        listing = "\n\n".join(_lines(finding, texts, around))
        if len(listing.encode("utf-8", "replace")) <= room:
            break
        if around == 0:
            return UNEXAMINED, ""
        around //= 2
    mark = fence(listing, told["claim"])
    answer = ask_object(ask, place, render({**told, "fence": mark, "listing": listing}), _misfit)
    return (UNSURE, "") if answer is None else (answer["verdict"], answer["reason"])


def _lines(finding: Finding, texts: Sequence[LeafText], around: int) -> list[str]:
    listed = []
    for place in finding.evidence:
        start = place.line_start or 1
        end = place.line_end or start
        for text in texts:
            if text.path != place.path:
                continue
            if lines := numbered(text, None, start - around, end + around):
                listed.append("\n".join((f"=== {name(text.path)} ===", *lines)))
    return listed


def _misfit(answer: Mapping[str, Any]) -> str:
    if answer.get("verdict") not in (UPHELD, REFUTED, UNSURE):
        return "verdict must be one of upheld, refuted, unsure"
    return "" if isinstance(answer.get("reason"), str) else "reason must be a text"


def _told(finding: Finding, reason: str) -> str:
    place = finding.evidence[0]
    claim = printable(finding.message)[:_TOLD]
    why = printable(reason)[:_TOLD]
    return f"refuted: {name(place.path)}:{place.line_start}: {claim} ({why or 'no reason given'})"
