"""The terminal's form."""

from __future__ import annotations

import subprocess
import sys
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings

from rlm_ci import errors
from rlm_ci.fix.loop import FixEnd, ValidationResult
from rlm_ci.fix.report import FixDetails, build
from rlm_ci.report import wording
from rlm_ci.report.findings import Finding, Location, Part, Report, Severity, Subject, Usage
from rlm_ci.report.render import render
from rlm_ci.runs.state import FinalState
from rlm_ci.text.printable import printable
from testing import reports
from testing.fix_options import options
from testing.markup_judges import github_commands


def test_a_single_clean_check_is_one_line_and_the_verdict() -> None:
    assert render(reports.clean(), "text").split("\n") == [
        "✓ diff-budget  3 files (limit 25), 120 lines (limit 1,200)",
        "",
        "✓ Clean: 1 check, nothing to fix",
        "",
    ]


def test_a_clean_run_with_findings_does_not_say_that_there_is_nothing_to_mend() -> None:
    report = reports.clean()
    small = Finding("diff-budget/lines", Severity.LOW, "many lines")
    part = report.parts[0]
    for findings, told in [
        ((small,), "Clean: 1 check, no finding fails"),
        ((small.replace(suppression="known"),), "Clean: 1 check, nothing to fix"),
    ]:
        assert told in render(report.replace(parts=(part.replace(findings=findings),)), "text")


@pytest.mark.parametrize(
    ("check", "metrics"),
    [
        ("doc-archive", {"stubs": 0}),
        ("scope", {"paths": 3, "rules": 0}),
        ("ai-policy", {"commits": 2, "requirements": 0}),
        ("description", {"descriptions": 1, "claims": 0}),
    ],
)
def test_what_had_nothing_to_judge_by_gets_no_tick(check: str, metrics: dict[str, int]) -> None:
    part = Part(check, "no rule", metrics)
    alone = reports.clean().replace(parts=(part,))
    assert render(alone, "text") == f"– {check}  no rule\n\n– Nothing to judge: 1 check\n"
    for form in ("markdown", "html", "summary"):
        text = render(alone, form)
        assert "Nothing to judge: 1 check" in text
        assert "✅" not in text
        assert "✓" not in text
    beside = alone.replace(parts=(*reports.clean().parts, part))
    assert check not in render(beside, "text")
    subject = dict.fromkeys(metrics, 1)
    judged = alone.replace(parts=(part.replace(metrics=subject),))
    assert render(judged, "text").endswith("\n✓ Clean: 1 check, nothing to fix\n")


def test_a_part_with_a_block_of_its_own_prints_just_that() -> None:
    text = render(reports.guarded(), "text")
    assert text.startswith(reports.BLOCK + "\n")
    assert "No run." not in text
    assert text.endswith("\n✗ 1 finding fails this change\n")


def test_the_block_is_for_failures_only() -> None:
    report = reports.guarded()
    part = report.parts[0].replace(findings=())
    assert "issues detected" not in render(report.replace(parts=(part,)), "text")


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_lines_stay_within_the_width(width: int) -> None:
    for line in render(reports.typical(), "text", width=width).split("\n"):
        cells = sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in line)
        long_word = max(len(word) for word in line.split(" "))
        # places, quotes and commands are never broken: they are there to be copied and clicked
        is_copied = "│" in line or ":" in line.split("  ")[0] or "`" in line or "→" in line
        is_copied = is_copied or line.startswith("  to override ")
        assert cells <= width or is_copied or long_word > width - 25


def test_what_is_to_be_copied_is_on_one_line() -> None:
    command = "rlm-ci archive docs/plans/" + "x" * 60
    stopped = Part.from_error("receipts", errors.ConfigError("gone", hint=f"git {'a b ' * 30}c"))
    finding = Finding("doc-archive/dangling", Severity.HIGH, "It is gone.", f"Run `{command}`, or")
    parts = (Part("doc-archive", "1 stub", {}, (finding,)), stopped)
    lines = render(Report(Subject(), Severity.HIGH, parts), "text", width=60).split("\n")
    assert "  → Run" in lines
    assert f"    `{command}`," in lines
    assert "! receipts     not run: gone" in lines
    assert f"               → git {'a b ' * 30}c" in lines


def test_a_check_that_stopped_after_findings_says_its_cure_once() -> None:
    finding = Finding("doc-archive/malformed", Severity.HIGH, "It is malformed.")
    error = errors.ConfigError("the branch is gone", hint="git fetch")
    part = Part.from_error("doc-archive", error).replace(findings=(finding,))
    text = render(Report(Subject(), Severity.HIGH, (part,)), "text")
    assert "✗ doc-archive  the branch is gone\n               → git fetch\n" in text
    assert text.count("git fetch") == 1
    told = part.replace(summary="1 of 3 files looked at")
    text = render(Report(Subject(), Severity.HIGH, (told,)), "text")
    assert "✗ doc-archive  1 of 3 files looked at\n" in text
    assert "→ git fetch" not in text


def test_a_failing_check_says_how_to_override_it_with_a_reason() -> None:
    text = render(reports.typical(), "text")
    told = 'set DIFF_BUDGET_OVERRIDE_REASON="why" and run it again'
    assert f"\n  to override diff-budget: {told}\n" in text
    assert (
        "\n  to override doc-archive: add [[suppressions]] with a reason to rlm-ci.toml\n" in text
    )
    assert "to override receipts" not in text
    assert "to override" not in render(reports.clean(), "text")


def test_a_check_that_is_off_is_listed_where_there_is_room() -> None:
    """If all are off, the reason is all that there is to say."""
    report = reports.typical()
    for surface in ("text", "markdown", "summary"):
        assert "no task id, and no" not in render(report, surface)
    for told in (render(report, "text", verbose=True), render(report, "html")):
        assert "no task id, and no" in told
    off = tuple(part for part in report.parts if not part.enabled)
    report = report.replace(parts=off)
    assert "no task id, and no" in render(report, "text")
    assert "no task id, and no" in render(report, "markdown")


def test_wide_characters_count_twice() -> None:
    finding = Finding("policy/edited", Severity.LOW, "漢字 " * 60)
    report = Report(reports.subject(), Severity.HIGH, (Part("policy", "s", {}, (finding,)),))
    lines = render(report, "text").split("\n")
    assert max(len(line) + line.count("漢") + line.count("字") for line in lines) <= 80


def test_colour_only_when_asked() -> None:
    assert "\x1b" not in render(reports.typical(), "text")
    coloured = render(reports.typical(), "text", colour=True)
    assert "\x1b[31m✗\x1b[0m" in coloured
    import re

    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == render(reports.typical(), "text")


def test_quiet_leaves_findings_and_what_did_not_run() -> None:
    text = render(reports.typical(), "text", quiet=True)
    assert "doc-archive/dangling" in text
    assert "! receipts" in text
    assert "diff-budget/path-budget" not in text
    assert "fail this change" not in text
    assert render(reports.clean(), "text", quiet=True) == ""


def test_verbose_adds_places_and_what_was_left_out() -> None:
    text = render(reports.typical(), "text", verbose=True)
    assert "also docs/plans/cache.md:40 (before the change)" in text
    assert "assets/logo.png: binary" in text
    assert "also" not in render(reports.typical(), "text")


def test_the_same_hint_is_said_once_in_a_row() -> None:
    assert render(reports.many(30), "text").count("→ Restore the payload.") == 1


def test_a_long_quote_is_cut_and_counted() -> None:
    text = render(reports.many(1), "text")
    assert "    4 │ line 3 of it" in text.replace("     4", "    4")
    assert "… 16 more" in text
    assert "… " not in render(reports.many(1), "text", verbose=True)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(report=reports.reports())
def test_hostile_texts_cannot_steer_terminal_or_runner(report: Report) -> None:
    block = "Delegation guard\n ::error::x\n##[error]y\x1b[0m\r::error::z"
    parts = tuple(part.replace(block=block) for part in report.parts)
    for judged in (report, report.replace(parts=parts)):
        text = render(judged, "text", verbose=True)
        assert github_commands(text) == []
        for line in text.split("\n"):
            assert printable(line) == line
        assert text.split("\n")[-2].endswith(wording.headline(judged))
        coloured = render(judged, "text", colour=True, verbose=True)
        assert github_commands(coloured) == []


def test_no_surface_ticks_a_run_whose_agent_did_nothing() -> None:
    """It ends with 0, as its terms say, and that is all that is well about it."""
    ended = FixEnd(
        FinalState.of("budget_complete", "2 turns"),
        ValidationResult(passed=False),
        idled="no program",
    )
    account = FixDetails(iterations=2, files=0)
    report = build(ended, options(), account, Subject(), Usage())
    assert (report.verdict(), report.exit_code()) == ("clean", 0)
    assert "\n! Nothing was done: the agent failed" in render(report, "text")
    assert "## ⚠️ Nothing was done: the agent failed" in render(report, "markdown")
    assert '<header class="incomplete">' in render(report, "html")
    assert "::warning" in render(report, "github")


def test_nothing_heavy_is_imported() -> None:
    """The text form is on the way of every Git hook."""
    code = (
        "import sys; before = set(sys.modules)\n"
        "from rlm_ci.report.render import render\n"
        "from rlm_ci.report.findings import *\n"
        "finding = Finding('a/b', Severity.HIGH, 'm', 'h', (Location('p', 1, 1),))\n"
        "part = Part('a', 's', {}, (finding,))\n"
        "render(Report(Subject(), Severity.HIGH, (part,)), 'text', colour=True, verbose=True)\n"
        "print(' '.join(sorted(set(sys.modules) - before)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    heavy = {
        "jinja2", "jsonschema", "json", "re", "typing", "dataclasses", "pathlib", "textwrap",
        "subprocess", "argparse", "inspect", "html", "urllib", "unicodedata", "hashlib",
    }  # fmt: skip
    assert "rlm_ci.report.formats.text" in loaded
    assert not loaded & heavy


def test_findings_of_the_change_before_it_say_so() -> None:
    finding = Finding("a/b", Severity.HIGH, "m", evidence=(Location("gone.py", 2, 2, "old"),))
    report = Report(reports.subject(), Severity.HIGH, (Part("a", "s", {}, (finding,)),))
    assert "gone.py:2 (before the change)  a/b  high" in render(report, "text")
