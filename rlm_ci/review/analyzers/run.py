"""Run analyzers on the texts of a leaf, and open each place that they report."""

from __future__ import annotations

from functools import partial

from rlm_ci.change.evidence import REJECTED, anchor
from rlm_ci.recursion.prompt_windows import name
from rlm_ci.report.findings import Evidence, Finding, Location, Severity
from rlm_ci.report.rules import kebab
from rlm_ci.review.analyzer_output import sarif
from rlm_ci.review.analyzers import ruff
from rlm_ci.review.analyzers.bisection import by_halves
from rlm_ci.review.analyzers.execution import run
from rlm_ci.review.analyzers.scratch_folder import ScratchInput, configures, mark
from rlm_ci.source.languages import language
from rlm_ci.text.globs import matcher
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.recursion.nodes import LeafTask, LeafText
    from rlm_ci.review.analyzer_output.sarif import AnalyzerResult, ResultPlace
    from rlm_ci.review.analyzers.programs import Analyzer

#: The rule of a finding on a file that cannot be parsed.
SYNTAX = f"review/{ruff.NAME}-{ruff.SYNTAX}"
#: Characters of a message in a note or a reason.
_SHOWN = 200
_LEVELS = {
    "error": Severity.HIGH, "warning": Severity.MEDIUM, "note": Severity.LOW, "none": Severity.INFO,
}  # fmt: skip
_CONFIDENCE = 0.7


class LeafAnalysis(Value):
    """What the analyzers found in a leaf. ``failed`` are triples of analyzer, path and reason.

    ``seen`` are the paths that an analyzer was shown, ``notes`` tell of those that it was not.
    """

    findings: tuple[Finding, ...] = ()
    counts: Evidence = Evidence()
    failed: tuple[tuple[str, str, str], ...] = ()
    seen: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


def analyse(
    task: LeafTask, analyzers: Sequence[Analyzer], domains: Sequence[str], *, by_pipe: bool = False
) -> LeafAnalysis:
    """Run them over the texts of a leaf. Raises StorageError where the disk has no room.

    A sliced file is shown to them whole, with its first slice. ``by_pipe``: no file is written,
    so only ruff can run.
    """
    texts = [text.replace(content=text.complete) for text in task.texts if text.line_start == 1]
    findings: list[Finding] = []
    failed: list[tuple[str, str, str]] = []
    seen = set(
        paths_looked_at(analyzers, [text.path for text in task.texts if text.line_start > 1])
    )
    notes: list[str] = []
    verified = rejected = 0
    for analyzer in analyzers:
        inputs, unread, withheld = _inputs(analyzer, texts)
        failed += [(analyzer.name, path, why) for path, why in unread]
        notes += [f"{analyzer.name} was not shown {path}: it could command it" for path in withheld]
        if not inputs:
            continue
        seen |= {scratch_input.path for scratch_input in inputs}
        heard, broken = by_halves(inputs, partial(run, analyzer, by_pipe=by_pipe))
        failed += [
            (analyzer.name, scratch_input.path, why)
            for some, why in broken
            for scratch_input in some
        ]
        printout = sarif.merged(heard)
        rejected += printout.rejected
        placed = [*printout.results, *(_undecodable(texts, inputs) if analyzer.rules else ())]
        lost = [
            analyzer_result
            for analyzer_result in printout.placeless
            if _domain(analyzer, analyzer_result) in domains
        ]
        for result in placed:
            finding = _finding(analyzer, result, texts, domains)
            if finding == REJECTED:
                rejected += 1
                lost.append(result)
            elif isinstance(finding, Finding):
                verified += len(finding.evidence)
                findings.append(finding)
        if lost:
            have = "has" if len(lost) == 1 else "have"
            results = f"{count(len(lost), 'result')} of {analyzer.name} {have}"
            notes.append(f"{results} no place in the files: {lost[0].message[:_SHOWN]}")
        why = _grave(analyzer, lost)
        if why:
            failed.append((analyzer.name, inputs[0].path, why))
    return LeafAnalysis(
        tuple(_first_errors(findings)),
        Evidence(verified + rejected, verified, 0, rejected),
        tuple(failed),
        frozenset(seen),
        tuple(notes),
    )


def _inputs(
    analyzer: Analyzer, texts: Sequence[LeafText]
) -> tuple[list[ScratchInput], list[tuple[str, str]], list[str]]:
    """What an analyzer is shown; what it cannot read, and why; what would configure it."""
    inputs: list[ScratchInput] = []
    unread: list[tuple[str, str]] = []
    withheld: list[str] = []
    matches = matcher(analyzer.files) if analyzer.files else None
    for number, (path, _, content, *_) in enumerate(texts):
        if analyzer.rules:
            if not (matches and matches(path)) and not _is_python(path, content):
                continue
            try:
                inputs.append(ScratchInput(number, path, ruff.readable(content)))
            except ValueError as error:
                unread.append((path, str(error)))
        elif analyzer.results is not None:
            record = analyzer.results.get(mark(path, content))
            if isinstance(record, str):
                unread.append((path, record))
            elif record is not None:
                inputs.append(ScratchInput(number, path, content))
        elif matches is None or matches(path):
            if configures(path):
                withheld.append(name(path))
            else:
                inputs.append(ScratchInput(number, path, content))
    return inputs, unread, withheld


def _undecodable(
    texts: Sequence[LeafText], inputs: Sequence[ScratchInput]
) -> Iterator[AnalyzerResult]:
    """Files with characters that Python cannot read; ruff gets them mended."""
    for scratch_input in inputs:
        fault = ruff.undecodable(texts[scratch_input.text].content)
        if fault is not None:
            line, why = fault
            spot = sarif.ResultPlace(scratch_input.text, line, line)
            yield sarif.AnalyzerResult(ruff.SYNTAX, ruff.SYNTAX, why, "error", (spot,))


def _is_python(path: str, content: bytes) -> bool:
    """Whether a file without a telling name is a script of Python."""
    return content.startswith(b"#!") and language(path, content[:256]) == "Python"


def _first_errors(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Of the syntax errors of a file the first alone: the others follow from it."""
    broken: set[str] = set()
    for finding in findings:
        if finding.rule == SYNTAX:
            if finding.evidence[0].path in broken:
                continue
            broken.add(finding.evidence[0].path)
        yield finding


def paths_looked_at(analyzers: Sequence[Analyzer], paths: Sequence[str]) -> frozenset[str]:
    """Those of ``paths`` that at least one analyzer looks at, by their names alone."""
    seen: set[str] = set()
    for analyzer in analyzers:
        matches = matcher(analyzer.files) if analyzer.files else None
        seen |= {
            path
            for path in paths
            if (matches is None or matches(path)) and (analyzer.rules or not configures(path))
        }
    return frozenset(seen)


# ── results as findings ──


def _finding(
    analyzer: Analyzer,
    result: AnalyzerResult,
    texts: Sequence[LeafText],
    domains: Sequence[str],
) -> Finding | str | None:
    """One result as a finding: REJECTED where no place holds, None if it is of no interest."""
    placed = [
        (spot.text, location) for spot in result.spots if (location := _location(spot, texts))
    ]
    if not placed:
        return REJECTED
    if analyzer.rules:
        number, first = placed[0]
        spot = result.spots[0]
        weight = ruff.weigh(
            result.rule,
            first.path,
            result.message,
            first.quote or "",
            texts[number].content,
            at=(spot.line_start or 0, spot.column),
        )
        hint = ruff.hint(result.rule, result.name)
    else:
        weight = ruff.RuleWeight(
            _domain(analyzer, result), _max_severity(analyzer, result), _CONFIDENCE
        )
        hint = result.rule
    if weight is None or weight.domain not in domains:
        return None
    return Finding(
        f"review/{kebab(analyzer.name, 80)}-{kebab(result.rule, 80)}",
        weight.severity,
        result.message,
        f"{hint}: {result.help}" if result.help.startswith("https://") else hint or None,
        tuple(location for _, location in placed),
        weight.domain,
        weight.confidence,
        suppression=result.suppression,
        source=f"analyzer:{analyzer.name}",
    )


def _location(spot: ResultPlace, texts: Sequence[LeafText]) -> Location | None:
    text = texts[spot.text]
    shift = text.line_start - 1
    start, end = spot.line_start, spot.line_end
    if start is None:
        return anchor(Location(text.path), text.content, text.blob).location
    claim = Location(text.path, start + shift, None if end is None else end + shift)
    location = anchor(claim, text.content, text.blob, text.line_start).location
    if location is None and start > 1:  # the end of a file is no line; it follows its last one
        claim = Location(text.path, start + shift - 1)
        location = anchor(claim, text.content, text.blob, text.line_start).location
    return location


def _domain(analyzer: Analyzer, result: AnalyzerResult) -> str:
    return "security" if result.is_security else analyzer.domain


def _max_severity(analyzer: Analyzer, result: AnalyzerResult) -> Severity:
    return min(Severity.from_label(analyzer.max_severity), _severity(result))


def _grave(analyzer: Analyzer, placeless: Sequence[AnalyzerResult]) -> str:
    """Why a review is incomplete: a result without a place would fail it; "" if none would."""
    for result in placeless:
        if result.suppression is None and _max_severity(analyzer, result) >= Severity.HIGH:
            return f"a result of it has no place in the files: {result.message[:_SHOWN]}"
    return ""


def _severity(result: AnalyzerResult) -> Severity:
    """By the tool's security score if there is one, else by its level."""
    if result.score is not None:
        steps = ((9.0, Severity.CRITICAL), (7.0, Severity.HIGH), (4.0, Severity.MEDIUM))
        return next((level for floor, level in steps if result.score >= floor), Severity.LOW)
    return _LEVELS[result.level]
