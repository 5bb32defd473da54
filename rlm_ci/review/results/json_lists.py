"""The lists of a review as JSON: ``findings.json``, ``clusters.json``, ``codequality.json``.

There may be hundreds of thousands of findings: each is written when its turn comes.
"""

from __future__ import annotations

from hashlib import sha256

from rlm_ci.report.findings import Severity
from rlm_ci.report.wording import ARGUED_SHOWN, surest_first
from rlm_ci.review.model.refute import VERDICTS
from rlm_ci.review.results.merge import without_count
from rlm_ci.text.neutralise import record_pieces
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.recursion.nodes import NodeResult
    from rlm_ci.report.findings import Finding, Report

#: GitLab's words for severities.
_GITLAB = {
    Severity.CRITICAL: "blocker", Severity.HIGH: "critical", Severity.MEDIUM: "major",
    Severity.LOW: "minor", Severity.INFO: "info",
}  # fmt: skip
#: What a finding of each severity counts for in the score of its cluster.
_WEIGHTS = {
    Severity.INFO: 0.1, Severity.LOW: 1.0, Severity.MEDIUM: 4.0, Severity.HIGH: 15.0,
    Severity.CRITICAL: 50.0,
}  # fmt: skip
#: A finding without confidence still counts with this share of its weight.
_LEAST = 0.2
#: Paths that a cluster names.
_PATHS = 20


class ListedFinding(Value):
    """A finding with its fingerprint and the leaves that it comes from."""

    finding: Finding
    mark: str
    nodes: Sequence[str]


def findings(
    result: NodeResult,
    report: Report,
    listed_findings: Sequence[ListedFinding],
    groups: Sequence[Mapping[str, Any]],
) -> Iterator[str]:
    """``findings.json``; ``groups`` are the clusters of ``listed_findings``."""
    cluster_of = {number: group["id"] for group in groups for number in group["findings"]}
    outline = report.replace(parts=(), documents=()).outline()

    def row(finding: ListedFinding, cluster: str) -> dict[str, Any]:
        more = {"fingerprint": finding.mark, "cluster": cluster, "nodes": list(finding.nodes)}
        return {**finding.finding.to_dict(), **more}

    return record_pieces({
        "schema_version": 1,
        "subject": outline["subject"],
        "confidence": result.confidence,
        "findings": map(
            row, listed_findings, (cluster_of[number] for number in range(len(listed_findings)))
        ),
        **({"refuted": outline["refuted"]} if report.refuted else {}),
        "coverage": outline["coverage"],
        "evidence": result.counts.to_dict(),
        "verdicts": {name: int(result.metrics.get(name, 0)) for name in VERDICTS},
        "notes": [encodable(note) for note in result.notes],
    })  # fmt: skip


def code_quality(listed_findings: Sequence[ListedFinding]) -> Iterator[str]:
    """GitLab's form, without suppressed findings and findings without a place.

    People read it on the merge request: of what is only argued it has three.
    """
    shown = [
        finding
        for finding in listed_findings
        if finding.finding.suppression is None and finding.finding.evidence
    ]
    argued = sorted(
        (listed_finding for listed_finding in shown if listed_finding.finding.is_argued),
        key=lambda finding: surest_first(finding.finding),
    )
    left_out = {id(listed_finding) for listed_finding in argued[ARGUED_SHOWN:]}
    return record_pieces(
        map(
            _gitlab,
            (listed_finding for listed_finding in shown if id(listed_finding) not in left_out),
        ),
        1,
    )


def _gitlab(listed_finding: ListedFinding) -> dict[str, Any]:
    finding, location = listed_finding.finding, listed_finding.finding.evidence[0]
    start = location.line_start or 1
    lines = {"begin": start, "end": max(start, location.line_end or start)}
    return {
        "description": printable(finding.message),
        "check_name": finding.rule,
        "fingerprint": listed_finding.mark,
        "severity": "info" if finding.is_argued else _GITLAB[finding.severity],
        "location": {"path": encodable(location.path), "lines": lines},
    }


def clusters(ranked: Sequence[Finding]) -> list[dict[str, Any]]:
    """The findings of each rule and domain together, as ``clusters.json`` has them.

    They are sorted by score: severity times confidence of all findings that count. ``findings``
    are numbers in ``ranked``.
    """
    groups: dict[tuple[str, str], list[int]] = {}
    for number, finding in enumerate(ranked):
        groups.setdefault((finding.domain or "", finding.rule), []).append(number)

    def order(row: Mapping[str, Any]) -> tuple[Any, ...]:
        severity = Severity.from_label(row["severity"])
        return -row["score"], -severity, row["rule"], row["domain"] or ""

    return sorted((_cluster(ranked, numbers) for numbers in groups.values()), key=order)


def _cluster(ranked: Sequence[Finding], numbers: Sequence[int]) -> dict[str, Any]:
    members = [ranked[number] for number in numbers]
    first = members[0]
    score = sum(
        _WEIGHTS[member.severity]
        * max(_LEAST, member.confidence or 0.0)
        * max(1, len(member.evidence))
        for member in members
        if member.suppression is None
    )
    paths = dict.fromkeys(
        encodable(member.evidence[0].path) for member in members if member.evidence
    )
    return {
        "id": sha256(f"{first.domain or ''}\0{first.rule}".encode()).hexdigest()[:12],
        "domain": first.domain,
        "rule": first.rule,
        "title": encodable(_title(members)),
        "severity": max(member.severity for member in members).label,
        "score": round(score, 3),
        "findings": list(numbers),
        "places": sum(max(1, len(member.evidence)) for member in members),
        "paths": list(paths)[:_PATHS],
        "files": len(paths),
        "accepted": sum(member.suppression is not None for member in members),
    }


def _title(members: Sequence[Finding]) -> str:
    """The message that all share; else the rule in its tool's words, or the first message."""
    messages = {without_count(member.message) for member in members}
    hints = {member.hint for member in members}
    hint = members[0].hint
    is_tool = members[0].source.startswith("analyzer:")
    if len(messages) > 1 and len(hints) == 1 and hint and is_tool:
        return hint.partition(": http")[0]  # without the page about it
    return without_count(members[0].message)
