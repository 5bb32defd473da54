"""The lists of a review as JSON: ``findings.json``, ``clusters.json``, ``codequality.json``.

There may be findings by the hundred thousand: each is written when its turn comes, and held no
longer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from json.encoder import encode_basestring_ascii as quoted

from rlm_ci.report.findings import Severity, fingerprints
from rlm_ci.review.model.refute import VERDICTS
from rlm_ci.text.printable import encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.recursion.nodes import NodeResult
    from rlm_ci.report.findings import Finding, Report
    from rlm_ci.review.results.clusters import Cluster

#: GitLab's words for severities.
_GITLAB = {
    Severity.CRITICAL: "blocker", Severity.HIGH: "critical", Severity.MEDIUM: "major",
    Severity.LOW: "minor", Severity.INFO: "info",
}  # fmt: skip


def findings(
    result: NodeResult,
    report: Report,
    found: Sequence[tuple[Finding, str, Sequence[str]]],
    groups: Sequence[Cluster],
) -> Iterator[str]:
    """``findings.json``: ``found`` are the findings, ranked, with fingerprint and leaves."""
    of = {number: one.id for one in groups for number in one.members}
    told = report.replace(parts=(), documents=()).outline()
    return _pieces({
        "schema_version": 1,
        "subject": told["subject"],
        "confidence": result.confidence,
        "findings": (
            {
                **one.to_dict(),
                "fingerprint": mark,
                "cluster": of[number],
                "nodes": list(nodes),
            }
            for number, (one, mark, nodes) in enumerate(found)
        ),
        "coverage": told["coverage"],
        "evidence": {name: getattr(result.counts, name) for name in result.counts._fields},
        "verdicts": {name: int(result.metrics.get(name, 0)) for name in VERDICTS},
        "notes": [encodable(note) for note in result.notes],
    })  # fmt: skip


def clusters(groups: Sequence[Cluster]) -> Iterator[str]:
    """``clusters.json``."""
    return _pieces(one.to_dict() for one in groups)


def code_quality(found: Sequence[tuple[Finding, str, Sequence[str]]]) -> Iterator[str]:
    """GitLab's form: what somebody accepted is not in it, nor what has no place in a file."""
    return _pieces(
        _row(one, mark) for one, mark, _ in found if one.suppression is None and one.evidence
    )


def _row(finding: Finding, mark: str) -> dict[str, Any]:
    place = finding.evidence[0]
    start = place.line_start or 1
    lines = {"begin": start, "end": max(start, place.line_end or start)}
    return {
        "description": printable(finding.message),
        "check_name": finding.rule,
        "fingerprint": mark,
        "severity": _GITLAB[finding.severity],
        "location": {"path": encodable(place.path), "lines": lines},
    }


def marks(found: Sequence[Finding]) -> list[str]:
    """The fingerprints, as the report has them: its own order decides between equals."""
    ordered = sorted(range(len(found)), key=lambda index: as_reported(found[index]))
    told = [""] * len(found)
    for index, mark in zip(ordered, fingerprints(found[index] for index in ordered), strict=True):
        told[index] = mark
    return told


def as_reported(finding: Finding) -> tuple[Any, ...]:
    """The order of the report."""
    place = finding.evidence[0] if finding.evidence else None
    return (
        -finding.severity,
        place.path if place else "",
        (place.line_start or 0) if place else 0,
        finding.rule,
        finding.subject or "",
    )


def _pieces(value: Mapping[str, Any] | Iterator[Any], line: str = "\n") -> Iterator[str]:
    """``value`` as JSON, its names sorted and each on a line; an iterator is a list."""
    inner = f"{line} "
    begin = "["
    if isinstance(value, Iterator):
        for one in value:
            yield f"{begin}{inner}{_text(one, inner)}"
            begin = ","
        yield "[]" if begin == "[" else f"{line}]"
    else:
        begin = "{"
        for name in sorted(value):
            one = value[name]
            yield f"{begin}{inner}{quoted(name)}: "
            yield from _pieces(one, inner) if isinstance(one, Iterator) else (_text(one, inner),)
            begin = ","
        yield f"{line}}}"
    if line == "\n":
        yield "\n"


def _text(value: Any, line: str) -> str:
    """As ``json.dumps`` writes it, which takes five times as long with an indent."""
    if value is None:
        return "null"
    if not isinstance(value, (dict, list, tuple)):
        return quoted(value) if isinstance(value, str) else json.dumps(value)
    inner = f"{line} "
    if isinstance(value, dict):
        told = [
            f"{quoted(name)}: {quoted(one) if type(one) is str else _text(one, inner)}"
            for name, one in sorted(value.items())
        ]
        begin, end = "{", "}"
    else:
        told = [_text(one, inner) for one in value]
        begin, end = "[", "]"
    return f"{begin}{inner}{f',{inner}'.join(told)}{line}{end}" if told else f"{begin}{end}"
