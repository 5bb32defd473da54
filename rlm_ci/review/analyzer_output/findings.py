"""Results of analyzers as findings; each place is opened first."""

from __future__ import annotations

from rlm_ci.change.evidence import REJECTED, anchor
from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.report.rules import kebab
from rlm_ci.review.analyzers import ruff

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.review.analyzer_output.sarif import AnalyzerResult, ResultPlace
    from rlm_ci.review.analyzers.programs import Analyzer

_LEVELS = {
    "error": Severity.HIGH, "warning": Severity.MEDIUM, "note": Severity.LOW, "none": Severity.INFO,
}  # fmt: skip
_CONFIDENCE = 0.7
#: Characters of a message in a reason.
_SHOWN = 200


def finding(
    analyzer: Analyzer,
    result: AnalyzerResult,
    texts: Sequence[LeafText],
    domains: Sequence[str],
) -> Finding | str | None:
    """One result as a finding: REJECTED where no place holds, None if it is of no interest."""
    places = [place for spot in result.spots if (place := _place(spot, texts)) is not None]
    if not places:
        return REJECTED
    if analyzer.rules:
        first = places[0]
        content = next(text.content for text in texts if text.path == first.path)
        spot = result.spots[0]
        weight = ruff.weigh(
            result.rule,
            first.path,
            result.message,
            first.quote or "",
            content,
            at=(spot.line_start or 0, spot.column),
        )
        hint = ruff.hint(result.rule, result.name)
    else:
        weight = ruff.RuleWeight(domain(analyzer, result), most(analyzer, result), _CONFIDENCE)
        hint = result.rule
    if weight is None or weight.domain not in domains:
        return None
    return Finding(
        f"review/{kebab(analyzer.name, 80)}-{kebab(result.rule, 80)}",
        weight.severity,
        result.message,
        f"{hint}: {result.help}" if result.help.startswith("https://") else hint or None,
        tuple(places),
        weight.domain,
        weight.confidence,
        suppression=result.suppression,
        source=f"analyzer:{analyzer.name}",
    )


def _place(spot: ResultPlace, texts: Sequence[LeafText]) -> Location | None:
    text = texts[spot.text]
    shift = text.line_start - 1
    start, end = spot.line_start, spot.line_end
    if start is None:
        return anchor(Location(text.path), text.content, text.blob).location
    claim = Location(text.path, start + shift, None if end is None else end + shift)
    place = anchor(claim, text.content, text.blob, text.line_start).location
    if place is None and start > 1:  # the end of a file is no line; it follows its last one
        claim = Location(text.path, start + shift - 1)
        place = anchor(claim, text.content, text.blob, text.line_start).location
    return place


def domain(analyzer: Analyzer, result: AnalyzerResult) -> str:
    return "security" if result.is_security else analyzer.domain


def most(analyzer: Analyzer, result: AnalyzerResult) -> Severity:
    return min(Severity.from_label(analyzer.max_severity), _severity(result))


def grave(analyzer: Analyzer, placeless: Sequence[AnalyzerResult]) -> str:
    """Why a review is incomplete: a result without a place would fail it; "" if none would."""
    for one in placeless:
        if one.suppression is None and most(analyzer, one) >= Severity.HIGH:
            return f"a result of it has no place in the files: {one.message[:_SHOWN]}"
    return ""


def _severity(result: AnalyzerResult) -> Severity:
    """By the tool's security score if there is one, else by its level."""
    if result.score is not None:
        steps = ((9.0, Severity.CRITICAL), (7.0, Severity.HIGH), (4.0, Severity.MEDIUM))
        return next((level for least, level in steps if result.score >= least), Severity.LOW)
    return _LEVELS[result.level]
