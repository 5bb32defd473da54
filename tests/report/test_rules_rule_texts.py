"""The texts of rules: for a terminal, and for a comment."""

from __future__ import annotations

from rlm_ci.report import rules


def test_a_rule_in_both_forms() -> None:
    marked, plain = rules.markdown("diff-budget/files"), rules.plain("diff-budget/files")
    assert marked is not None
    assert plain is not None
    assert "**Fix.**" in marked
    assert "**" not in plain
    assert rules.markdown("diff-budget/file") is None
    assert "diff-budget/files" in rules.rule_names()
    assert "review/NAME" in rules.rule_names()
