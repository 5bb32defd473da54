"""What every surface says of a review without a model: who looked, at how much, who would."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.report import wording
from rlm_ci.report.findings import (
    KNOWN,
    NOT_RUN,
    UNTOUCHED,
    Finding,
    Location,
    Part,
    Report,
    Severity,
    Subject,
)
from rlm_ci.report.proof import Proof
from rlm_ci.report.render import render

SURFACES = ("text", "markdown", "summary", "html")
FOUND = Finding("review/ruff-s307", Severity.MEDIUM, "No eval", evidence=(Location("a.py", 3),))


def reviewed(
    others: Any,
    *,
    looked: int = 1,
    files: int = 214,
    findings: tuple[Finding, ...] = (),
    **more: Any,
) -> Report:
    reach = {"change": True, "files": files, "looked": looked, "others": others, **more}
    metrics = {"model": None, "reach": reach, "enabled": looked > 0}
    part = Part("review", "what it found", metrics, findings, enabled=looked > 0)
    checks = Part("diff-budget", "3 files (limit 25)")
    return Report(Subject(), Severity.HIGH, (checks, part))


def back(report: Report) -> Report:
    """The same, as whoever posts it reads it."""
    return Report.from_dict(report.to_dict())


@pytest.mark.parametrize("surface", SURFACES)
def test_clean_is_said_of_what_was_looked_at(surface: str) -> None:
    text = render(back(reviewed({"Go": 200, "Markdown": 13})), surface)
    assert "Clean: 2 checks, nothing to fix" in text
    assert "no model read this change, and analyzers read 1 of 214 changed files" in text
    assert "200 Go files (staticcheck, or golangci-lint with gosec)" in text
    assert "Markdown" not in text
    assert "[review]\n" in text
    assert "analyzers = " in text


def test_the_last_line_and_the_check_run_say_it() -> None:
    report = reviewed({})
    told = (
        "Clean: 2 checks, nothing to fix "
        "(no model read this change, and analyzers read 1 of 214 changed files)"
    )
    assert render(report, "text").splitlines()[-1] == f"✓ {told}"
    assert wording.verdict_line(report) == told
    failing = reviewed({}, findings=(FOUND.replace(severity=Severity.HIGH),))
    last = render(failing, "text").splitlines()[-2:]
    assert "no model read this change, and analyzers" in last[0]


@pytest.mark.parametrize(
    ("surface", "mark"), [("text", "– review"), ("markdown", "| ➖ | `review`")]
)
def test_a_change_that_nobody_looked_at_has_a_row_without_a_tick(surface: str, mark: str) -> None:
    report = back(reviewed({"Rust": 3}, looked=0, files=3))
    text = render(report, surface)
    (row,) = [line for line in text.splitlines() if line.startswith(mark)]
    assert "not looked at: what it found" in row
    assert "no model read this change, and analyzers read no file of it" in text
    assert "3 Rust files (clippy)" in text
    assert report.exit_code() == 0
    page = render(report, "html")
    assert '<tr class="unseen"><th scope="row">review</th>' in page
    assert "</span> not looked at</td>" in page


def test_code_that_nobody_reviewed_has_no_tick_and_prose_has_one() -> None:
    report = back(reviewed({"Rust": 3}, looked=0, files=3))
    headline = "Checks clean, code not reviewed: 1 check, nothing to fix"
    assert render(report, "text").splitlines()[-1].startswith(f"! {headline} (")
    assert f"## ⚠️ {headline}" in render(report, "markdown")
    # No analyzer is known for it; a model reads it all the same.
    scripts = back(reviewed({"PowerShell": 2, "Markdown": 1, "<b>": 4}, looked=0, files=7))
    text = render(scripts, "text")
    assert text.splitlines()[-1].startswith(f"! {headline} (")
    assert "2 PowerShell files. A model (" in text
    assert "<b>" not in text
    prose = back(reviewed({"Markdown": 3}, looked=0, files=3))
    assert render(prose, "text").splitlines()[-1].startswith("✓ Clean: 1 check, nothing to fix (")


def test_weakened_tests_that_fail_nothing_are_reported_only_without_a_tick() -> None:
    weakened = FOUND.replace(rule="test-guard/test-removed", severity=Severity.MEDIUM)
    part = Part("test-guard", "1 weakening", findings=(weakened,))
    report = back(Report(Subject(), Severity.HIGH, (part,)))
    assert report.exit_code() == 0
    text = render(report, "text")
    assert "! test-guard  reported only: 1 weakening" in text
    last = "! 1 weakening reported only: 1 check, no finding fails"
    assert text.splitlines()[-1] == last
    assert render(report, "text", quiet=True).splitlines()[-1] == last
    assert "| ⚠️ | `test-guard` | reported only: 1 weakening |" in render(report, "markdown")
    assert '<tr class="reported"><th scope="row">test-guard</th>' in render(report, "html")
    for surface in ("text", "markdown", "summary", "html"):
        assert not {"✓", "✅"} & {*render(report, surface)}, surface
    for open_finding, row in (
        (weakened.replace(suppression="agreed"), "✓ test-guard  1 weakening"),
        (weakened.replace(severity=Severity.INFO), "✓ test-guard  1 weakening"),
        (weakened.replace(severity=Severity.HIGH), "✗ test-guard  1 weakening"),
    ):
        part = part.replace(findings=(open_finding,))
        assert row in render(report.replace(parts=(part,)), "text")


@pytest.mark.parametrize("check", ["test-bite", "together"])
def test_findings_that_fail_nothing_here_have_no_tick(check: str) -> None:
    def text(severity: Severity) -> str:
        finding = Finding(f"{check}/rule", severity, "something to read")
        part = Part(check, "1 of 3", findings=(finding,))
        return render(Report(Subject(), Severity.HIGH, (part,)), "text")

    assert f"! {check}  reported only: 1 of 3" in text(Severity.MEDIUM)
    assert text(Severity.MEDIUM).endswith(
        "\n! 1 finding reported only: 1 check, no finding fails\n"
    )
    assert f"✓ {check}  1 of 3" in text(Severity.INFO)


def test_where_a_model_took_part_nothing_is_said() -> None:
    report = reviewed({"Go": 2})
    part = report.parts[1]
    part = part.replace(metrics={**part.metrics, "model": "m-1"})
    for surface in SURFACES:
        text = render(report.replace(parts=(part,)), surface)
        assert "no model read" not in text
        assert "gosec" not in text


@pytest.mark.parametrize(
    ("others", "more", "told"),
    [
        ({"Java": 2}, {}, 'name = "semgrep"'),
        ({"Java": 2, "TypeScript": 1}, {}, 'analyzers = "auto"'),
        (
            {"TypeScript": 1},
            {"auto": True},
            "or set up the tool in the repository, and install it.",
        ),
    ],
)
def test_the_advice_is_one_that_helps(
    others: dict[str, int], more: dict[str, Any], told: str
) -> None:
    text = " ".join(render(reviewed(others, **more), "text").split())
    assert told in text


@pytest.mark.parametrize(
    "reach",
    [
        None, [], "x", {}, {"files": "9", "looked": [], "others": [1]}, {"others": {"Go": "many"}},
        {"files": -1, "others": {"Go": -1}}, {"files": 10**99, "looked": True},
        {"change": "x", "files": 2, "others": {"::error::x\n@all": 3, "Go": True}},
    ],
)  # fmt: skip
@pytest.mark.parametrize("surface", SURFACES)
def test_figures_of_a_stranger_s_report_do_no_harm(surface: str, reach: Any) -> None:
    part = Part("review", "s", {"reach": reach})
    text = render(back(Report(Subject(), Severity.HIGH, (part,))), surface)
    assert "@all" not in text
    assert "gosec" not in text


def test_what_the_change_does_not_bring_is_one_number() -> None:
    old = (FOUND.replace(suppression=KNOWN), FOUND.replace(suppression=UNTOUCHED))
    waved = FOUND.replace(suppression="we know", evidence=(Location("b.py", 9),))
    report = reviewed({}, findings=(FOUND, *old, waved))
    text = render(report, "text")
    assert text.count("No eval") == 1
    assert "1 finding less severe than high, 1 suppressed, 2 not of this change" in text
    assert render(report, "text", verbose=True).count("No eval") == 4
    assert render(report, "github").count("No eval") == 1
    assert render(report, "sarif").count('"No eval"') == 1
    assert render(report, "markdown").count("No eval") == 2  # whoever waved one through is named
    assert render(report, "html").count("No eval") == 4
    assert "2 findings not of this change" in render(report, "html")
    assert len(back(report).findings) == 4


@pytest.mark.parametrize("surface", ["text", "markdown", "html"])
def test_a_claim_that_is_not_of_the_change_is_named(surface: str) -> None:
    proof = Proof("argued", "it fails at the base, too, alike")
    old = FOUND.replace(suppression=UNTOUCHED, proof=proof, rule="review/odd-rule")
    text = render(reviewed({}, findings=(old,)), surface)
    assert "1 not of this change (review/odd-rule at a.py:3)" in text.replace("\\", "")


def test_one_that_did_not_run_is_not_called_unseen() -> None:
    report = reviewed({"Go": 1})
    part = report.parts[1].replace(state=NOT_RUN, enabled=True)
    told = render(report.replace(parts=(part,)), "text")
    assert "! review  not run: what it found" in told
    assert told.endswith("! Not checked: review did not run\n")
