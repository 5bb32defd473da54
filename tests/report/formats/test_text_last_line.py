"""The last line of a run that ended well: what was done, and never more than that."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.report import wording
from rlm_ci.report.findings import Evidence, Finding, Location, Part, Report, Severity, Subject
from rlm_ci.report.formats import text
from rlm_ci.report.render import RenderOptions, render

LOOP = {"status": "passed", "files": 1, "applied": True, "patch": "rlm/result.patch"}


def line(part: str, *, quiet: bool = False, **metrics: Any) -> str:
    report = Report(Subject(), Severity.HIGH, (Part(part, "told", metrics),))
    lines = text.render(report, RenderOptions(quiet=quiet)).splitlines()
    assert wording.headline(report)
    return lines[-1] if lines else ""


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        (LOOP, "✓ Done"),
        (LOOP | {"applied": False}, "✓ Green with the patch of this run, not without it"),
        (
            LOOP
            | {"applied": False, "not_applied": "a\x1b[31mb changed", "by_hand": "git apply x"},
            r"! Not applied: a\x1b[31mb changed; to apply the patch: git apply x",
        ),
        (
            {"status": "passed", "files": 0},
            "✓ Nothing to do: the validator passes without a change",
        ),
        (
            {"status": "budget_complete", "files": 0},
            "! Nothing was done: the agent changed nothing",
        ),
    ],
)
def test_a_fix_loop_says_what_it_did(metrics: dict[str, Any], said: str) -> None:
    assert line("rlm", **metrics) == said
    assert line("rlm", quiet=True, **metrics) == (said if said.startswith("!") else "")


def test_a_fix_with_suspicious_findings_says_how_many_and_where() -> None:
    finding = Finding("tamper/exit", Severity.MEDIUM, "a", domain="tamper")
    at = [finding.replace(evidence=(Location(path, 5, 5),)) for path in ("a\x1b.py", "b.py")]
    harmless = (finding.replace(suppression="allowed"), finding.replace(severity=Severity.INFO))
    ends = {
        (finding,): "✓ Done, with 1 suspicious finding",
        (*at, *harmless): r"✓ Done, with 2 suspicious findings: a\x1b.py:5 and 1 more place",
        harmless: "✓ Done",
    }
    for findings, expected in ends.items():
        parts = Part("rlm", "passed", LOOP), Part("tamper", "looked at", {}, findings)
        report = Report(Subject(), Severity.HIGH, parts)
        assert text.render(report, RenderOptions()).splitlines()[-1] == expected


@pytest.mark.parametrize("surface", ["text", "markdown", "html"])
def test_a_report_in_which_every_check_is_off_has_no_tick(surface: str) -> None:
    part = Part("diff-budget", "off: no commit is pushed", {}, enabled=False)
    report = Report(Subject(), Severity.HIGH, (part,))
    rendered = render(report, surface, RenderOptions())
    assert "Nothing was checked: every check is off" in rendered
    assert not {"✓", "✅"} & {*rendered.partition("Nothing was checked")[0][-60:]}


def test_a_wiki_without_anything_new_was_not_written() -> None:
    assert line("wiki", pages=2, new=1, prose="") == "✓ Written: 2 pages"
    assert line("wiki", pages=2, new=0, prose="") == "✓ Up to date: 2 pages"


def test_an_answer_with_citations_that_do_not_hold_has_no_tick() -> None:
    part = Part("rlm", "told", {"status": "passed", "mode": "symbolic"})
    report = Report(Subject(), Severity.HIGH, (part,), evidence=Evidence(3, 1, 0, 2))
    told = text.render(report, RenderOptions()).splitlines()[-1]
    assert told == "! Answered, but 2 of 3 citations could not be verified"
    report = report.replace(evidence=Evidence(3, 3))
    assert text.render(report, RenderOptions()).splitlines()[-1] == "✓ Answered"
