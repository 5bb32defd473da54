"""Findings of one kind together: what a repository has a habit of, the costliest first."""

from __future__ import annotations

from rlm_ci.report.findings import Severity
from rlm_ci.review.results.merge import without_count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rlm_ci.report.findings import Finding

#: What a finding weighs by its severity: forty trifles are no grave fault.
_WEIGHTS = {
    Severity.INFO: 0.1, Severity.LOW: 1.0, Severity.MEDIUM: 4.0, Severity.HIGH: 15.0,
    Severity.CRITICAL: 50.0,
}  # fmt: skip
#: The share of it that is left to a finding that nobody is sure of.
_LEAST = 0.2
#: Paths that a cluster names.
_PATHS = 20


class Cluster(Value):
    """The findings of one rule in one domain; ``members`` are their numbers in the list given.

    ``score`` weighs each by severity and confidence; accepted ones weigh nothing.
    """

    id: str
    domain: str | None
    rule: str
    title: str
    severity: Severity
    score: float
    members: tuple[int, ...]
    places: int
    paths: tuple[str, ...]
    accepted: int

    def to_dict(self) -> dict[str, Any]:
        from rlm_ci.text.printable import encodable

        return {
            "id": self.id,
            "domain": self.domain,
            "rule": self.rule,
            "title": encodable(self.title),
            "severity": self.severity.label,
            "score": self.score,
            "findings": list(self.members),
            "places": self.places,
            "paths": [encodable(path) for path in self.paths[:_PATHS]],
            "files": len(self.paths),
            "accepted": self.accepted,
        }


def clusters(findings: Sequence[Finding]) -> list[Cluster]:
    """The clusters of ``findings``, which are ranked: the first of each speaks for it."""
    groups: dict[tuple[str, str], list[int]] = {}
    for number, one in enumerate(findings):
        groups.setdefault((one.domain or "", one.rule), []).append(number)
    found = [_cluster(findings, numbers) for numbers in groups.values()]
    found.sort(key=lambda one: (-one.score, -one.severity, one.rule, one.domain or ""))
    return found


def _cluster(findings: Sequence[Finding], numbers: Sequence[int]) -> Cluster:
    from hashlib import sha256

    members = [findings[number] for number in numbers]
    first = members[0]
    key = f"{first.domain or ''}\0{first.rule}".encode()
    score = sum(
        _WEIGHTS[one.severity] * max(_LEAST, one.confidence or 0.0) * max(1, len(one.evidence))
        for one in members
        if one.suppression is None
    )
    return Cluster(
        sha256(key).hexdigest()[:12],
        first.domain,
        first.rule,
        _title(members),
        Severity(max(one.severity for one in members)),
        round(score, 3),
        tuple(numbers),
        sum(max(1, len(one.evidence)) for one in members),
        tuple(dict.fromkeys(place.path for one in members for place in one.evidence[:1])),
        sum(one.suppression is not None for one in members),
    )


def _title(members: Sequence[Finding]) -> str:
    """What all of them say; else the rule in its tool's words, or what the first one says."""
    said = {without_count(one.message) for one in members}
    hints = {one.hint for one in members}
    first = members[0]
    if len(said) > 1 and len(hints) == 1 and first.hint and first.source.startswith("analyzer:"):
        return first.hint.partition(": http")[0]  # without the page about it
    return without_count(first.message)
