"""The findings of a page by rule and by severity: a summary, and what can be shown alone."""

from __future__ import annotations

from rlm_ci.text import neutralise
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rlm_ci.report.findings import Finding
    from rlm_ci.report.links import Surface

#: Rules with a row of their own: each is a rule of the style sheet too.
MOST = 40


class FindingsByRule:
    """``findings`` by rule, the most severe and most frequent first."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self._groups: dict[str, list[Finding]] = {}
        for finding in findings:
            self._groups.setdefault(finding.rule, []).append(finding)
        worst = {
            rule: max(finding.severity for finding in some) for rule, some in self._groups.items()
        }
        self._worst = worst
        self._ranked = sorted(
            self._groups, key=lambda rule: (-worst[rule], -len(self._groups[rule]), rule)
        )
        self._numbers = {rule: number for number, rule in enumerate(self._ranked[:MOST])}

    def number(self, rule: str) -> int | None:
        """The place of ``rule`` in the summary, from 0; None if it has no row."""
        return self._numbers.get(rule)

    def view(self, surface: Surface) -> dict[str, Any]:
        """The rows for a template, and the severities with how many findings each has."""
        severities: dict[str, int] = {}
        for finding in sorted(
            (finding for some in self._groups.values() for finding in some),
            key=lambda finding: -finding.severity,
        ):
            severities[finding.severity.label] = severities.get(finding.severity.label, 0) + 1
        more = len(self._groups) - len(self._numbers)
        return {
            "rows": [
                {
                    "rule": surface.code(neutralise.clip(rule, 120)),
                    "severity": self._worst[rule].label,
                    "findings": len(self._groups[rule]),
                    "files": len(
                        {p.path for group in self._groups[rule] for p in group.evidence[:1]}
                    ),
                }
                for rule in self._numbers
            ],
            "more": count(more, "more rule") if more else None,
            "severities": [
                {"severity": name, "findings": number} for name, number in severities.items()
            ],
            "findings": sum(severities.values()),
        }
