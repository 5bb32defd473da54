"""The texts of rules: for a terminal, and for a comment."""

from __future__ import annotations

from rlm_ci.report import rule_texts


def test_a_rule_in_both_forms() -> None:
    marked, plain = rule_texts.markdown("diff-budget/files"), rule_texts.plain("diff-budget/files")
    assert marked is not None
    assert plain is not None
    assert "**Fix.**" in marked
    assert "**" not in plain
    assert rule_texts.markdown("diff-budget/file") is None
    assert "diff-budget/files" in rule_texts.rule_names()
    assert "review/NAME" in rule_texts.rule_names()
