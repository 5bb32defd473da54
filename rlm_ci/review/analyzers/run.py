"""Analyzers at work on the texts of a leaf: any program that prints SARIF, and ruff built in.

Their results are claims like any other: each place is opened before anything is said of it.
"""

from __future__ import annotations

from functools import partial

from rlm_ci.change.evidence import REJECTED
from rlm_ci.recursion.prompt_windows import name
from rlm_ci.report.findings import Evidence, Finding
from rlm_ci.review.analyzer_output import findings as analyzer_output_findings
from rlm_ci.review.analyzer_output import sarif, without_place
from rlm_ci.review.analyzers import ruff
from rlm_ci.review.analyzers.bisection import by_halves
from rlm_ci.review.analyzers.execution import run
from rlm_ci.review.analyzers.scratch_folder import ScratchInput, configures, mark
from rlm_ci.source.languages import language
from rlm_ci.text.globs import matcher
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.recursion.nodes import LeafTask, LeafText
    from rlm_ci.review.analyzer_output.sarif import AnalyzerResult
    from rlm_ci.review.analyzers.programs import Analyzer

#: The rule of a finding on a file that cannot be parsed.
SYNTAX = f"review/{ruff.NAME}-{ruff.SYNTAX}"


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

    A file that was sliced is shown to them whole, with its first slice. ``by_pipe``: nothing is
    written, so that there must be none but ruff.
    """
    # A part of a file may not even parse.
    texts = [one.replace(content=one.complete) for one in task.texts if one.line_start == 1]
    findings: list[Finding] = []
    failed: list[tuple[str, str, str]] = []
    seen = set(known(analyzers, [one.path for one in task.texts if one.line_start > 1]))
    notes: list[str] = []
    verified = rejected = 0
    for analyzer in analyzers:
        given, unread, kept = _given(analyzer, texts)
        failed += [(analyzer.name, path, why) for path, why in unread]
        notes += [f"{analyzer.name} was not shown {path}: it could command it" for path in kept]
        if not given:
            continue
        seen |= {one.path for one in given}
        heard, broken = by_halves(given, partial(run, analyzer, by_pipe=by_pipe))
        failed += [(analyzer.name, one.path, why) for some, why in broken for one in some]
        printout = sarif.merged([one.printout for one in heard])
        silenced = [why for one in heard for why in one.silenced]
        rejected += printout.rejected
        found = list(zip(printout.results, silenced, strict=True))
        if analyzer.rules:
            found += [(one, None) for one in _undecodable(texts, given)]
        lost = [
            one
            for one in printout.placeless
            if analyzer_output_findings.domain(analyzer, one) in domains
        ]
        for result, quiet in found:
            finding = analyzer_output_findings.finding(analyzer, result, texts, domains, quiet)
            if finding == REJECTED:
                rejected += 1
                lost.append(result)
            elif isinstance(finding, Finding):
                verified += len(finding.evidence)
                findings.append(finding)
        notes += without_place.note(analyzer.name, lost)
        why_more = without_place.grave(lost, partial(analyzer_output_findings.most, analyzer))
        failed += [(analyzer.name, given[0].path, why) for why in why_more]
    return LeafAnalysis(
        tuple(_first_errors(findings)),
        Evidence(verified + rejected, verified, 0, rejected),
        tuple(failed),
        frozenset(seen),
        tuple(notes),
    )


def _given(
    analyzer: Analyzer, texts: Sequence[LeafText]
) -> tuple[list[ScratchInput], list[tuple[str, str]], list[str]]:
    """What an analyzer is shown; what it cannot read, and why; what would command it."""
    given: list[ScratchInput] = []
    unread: list[tuple[str, str]] = []
    kept: list[str] = []
    matches = matcher(analyzer.files) if analyzer.files else None
    for number, (path, _, content, *_) in enumerate(texts):
        if analyzer.rules:
            if not (matches and matches(path)) and not _is_python(path, content):
                continue
            try:
                given.append(ScratchInput(number, path, ruff.readable(content)))
            except ValueError as error:
                unread.append((path, str(error)))
        elif analyzer.results is not None:
            told = analyzer.results.get(mark(path, content))
            if isinstance(told, str):
                unread.append((path, told))
            elif told is not None:
                given.append(ScratchInput(number, path, content))
        elif matches is None or matches(path):
            if configures(path):
                kept.append(name(path))
            else:
                given.append(ScratchInput(number, path, content))
    return given, unread, kept


def _undecodable(
    texts: Sequence[LeafText], given: Sequence[ScratchInput]
) -> Iterator[AnalyzerResult]:
    """What ruff is not shown: the characters that Python could not read."""
    for one in given:
        found = ruff.undecodable(texts[one.text].content)
        if found is not None:
            line, why = found
            spot = sarif.ResultPlace(one.text, line, line)
            yield sarif.AnalyzerResult(ruff.SYNTAX, ruff.SYNTAX, why, "error", (spot,))


def _is_python(path: str, content: bytes) -> bool:
    """Whether a file without a telling name is a script of Python."""
    return content.startswith(b"#!") and language(path, content[:256]) == "Python"


def _first_errors(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Of the syntax errors of a file the first alone: the others follow from it."""
    broken: set[str] = set()
    for one in findings:
        if one.rule == SYNTAX:
            if one.evidence[0].path in broken:
                continue
            broken.add(one.evidence[0].path)
        yield one


def known(analyzers: Sequence[Analyzer], paths: Sequence[str]) -> frozenset[str]:
    """Those of ``paths`` that at least one analyzer looks at, by their names alone."""
    found: set[str] = set()
    for analyzer in analyzers:
        matches = matcher(analyzer.files) if analyzer.files else None
        found |= {
            path
            for path in paths
            if (matches is None or matches(path)) and (analyzer.rules or not configures(path))
        }
    return frozenset(found)
