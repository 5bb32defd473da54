"""``rlm-ci explain``: every rule of the page, without its Markdown."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.cli.commands import explain
from rlm_ci.config.arguments import Arguments
from rlm_ci.errors import UsageError
from rlm_ci.report.rules import section
from rlm_ci.review.analyzers.from_repository import TOOLS

if TYPE_CHECKING:
    from testing.program import Cli

TEXTS = Path(__file__).parents[3] / "docs" / "rules.json"
RULES = tuple(json.loads(TEXTS.read_text("utf-8"))["rules"])


def told(rule: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert explain.run(Arguments({}, (rule,), ())) == 0
    return capsys.readouterr().out


def test_each_rule_of_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(RULES) > 20
    for rule in RULES:
        text = told(rule, capsys)
        assert "Severity `" in text, rule
        assert "Fix. " in text, rule
        assert not re.search(r"\*\*[A-Z]|[.]\*\*|```|\]\(", text), rule


def test_a_rule_of_ruff_has_one_severity_and_its_own_example(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = told("review/ruff-S602", capsys)
    assert text.startswith(
        "review/ruff-s602\n\nSeverity `medium`, security; in tests less, or nothing. Ruff's page: "
        "subprocess-popen-with-shell-equals-true: https://docs.astral.sh/ruff/rules/"
    )
    assert "`subprocess` call with `shell=True`" in text
    assert "`# noqa: S602`" in text
    text = told("review/ruff-f821", capsys)
    assert re.findall("[Ss]everity `(.+?)`", text)[0] == "high"
    assert "Undefined name `{name}`" in text
    assert "totl" not in text
    assert "table" not in text
    text = told("review/ruff-zzz999", capsys)
    assert "not among the rules of the built-in analyzer" in text


def test_a_name_that_a_tool_or_a_model_chose(capsys: pytest.CaptureFixture[str]) -> None:
    text = told("review/lock-released-early", capsys)
    assert "What another analyzer finds" in text
    assert "What a model finds" in text
    text = told("review/eslint-no-undef", capsys)
    assert text.startswith("review/eslint-no-undef\n\nSeverity `medium`. What another analyzer")
    assert "What a model finds" not in text
    assert "Double quote" not in text  # another tool's example


def test_each_tool_of_a_repository_has_its_section() -> None:
    for tool in TOOLS:
        name = "repository-ruff" if tool.name == "ruff" else tool.name
        assert section(f"review/{name}-x", "check") == "review/TOOL-RULE"


@pytest.mark.parametrize("check", ["diff-budget", "test-guard", "review", "wiki", "tamper"])
def test_a_check_lists_its_rules(capsys: pytest.CaptureFixture[str], check: str) -> None:
    *rows, _, page = told(check, capsys).splitlines()
    assert [row.split()[0] for row in rows] == [
        rule for rule in RULES if rule.startswith(f"{check}/")
    ]
    assert {row.split()[1] for row in rows} <= {"info", "low", "medium", "high", "critical"}
    assert all(len(row.split()) > 4 for row in rows)
    assert page.endswith(f"rules.html#{check}")


def test_a_misspelt_rule_names_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        explain.run(Arguments({}, ("diff-budget/file",), ()))
    assert caught.value.hint == "did you mean diff-budget/files?"


def test_the_last_part_of_a_name_is_enough_for_a_hint() -> None:
    for word, hint in {
        "dangling": "did you mean doc-archive/dangling?",
        "check-silenced": "did you mean test-guard/check-silenced or tamper/check-silenced?",
        "nothing/like-this": "all rules: https://rlm-ci.github.io/rlm-ci/rules.html",
    }.items():
        with pytest.raises(UsageError) as caught:
            explain.run(Arguments({}, (word,), ()))
        assert caught.value.hint == hint


def test_links_keep_their_address_and_stars_of_a_path_stay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = told("doc-archive/malformed", capsys)
    assert "form of one (https://rlm-ci.github.io/rlm-ci/checks.html#doc-archive)" in text
    text = told("diff-budget/path-budget", capsys)
    assert "2 files changed under migrations/** (limit 1)" in text
    assert "\nOverride. Set" in text


def test_as_a_user_runs_it(cli: Cli) -> None:
    ended = cli("explain", "diff-budget/lines")
    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout.startswith("diff-budget/lines\n\nSeverity `high`. ")
    assert ended.stdout.endswith("#diff-budgetlines\n")
    assert cli("-V").stdout == cli("--version").stdout
