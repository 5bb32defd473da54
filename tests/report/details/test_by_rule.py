"""What a page sums up by rule."""

from __future__ import annotations

from rlm_ci.report.details.by_rule import MOST, FindingsByRule
from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.report.formats.html import HtmlSurface


def finding(rule: str, severity: Severity, *paths: str) -> Finding:
    return Finding(rule, severity, "m", evidence=tuple(Location(path, 1) for path in paths))


def test_the_most_severe_rule_is_first_then_the_most_frequent() -> None:
    found = FindingsByRule(
        [
            finding("review/b", Severity.LOW, "a", "z"),
            finding("review/c", Severity.LOW, "a"),
            finding("review/c", Severity.HIGH, "a"),
            finding("review/b", Severity.LOW, "a"),
            finding("review/b", Severity.LOW, "b"),
            finding("diff-budget/files", Severity.LOW),
        ]
    )
    view = found.view(HtmlSurface())
    assert view["rows"] == [
        {"rule": "review/c", "severity": "high", "findings": 2, "files": 1},
        {"rule": "review/b", "severity": "low", "findings": 3, "files": 2},
        {"rule": "diff-budget/files", "severity": "low", "findings": 1, "files": 0},
    ]
    assert view["severities"] == [
        {"severity": "high", "findings": 1},
        {"severity": "low", "findings": 5},
    ]
    assert (view["findings"], view["more"]) == (6, None)
    assert [found.number(rule) for rule in ("review/c", "review/b", "other")] == [0, 1, None]


def test_rules_beyond_the_limit_are_counted() -> None:
    found = FindingsByRule([finding(f"review/r{n:03}", Severity.LOW) for n in range(MOST + 3)])
    view = found.view(HtmlSurface())
    assert (len(view["rows"]), view["more"]) == (MOST, "3 more rules")
    assert found.number(f"review/r{MOST:03}") is None
