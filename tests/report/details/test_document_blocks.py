"""Tables in a document are told from its lines, and shown as tables."""

from __future__ import annotations

import pytest

from rlm_ci.report.details.document_blocks import blocks


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("one\ntwo", [(["one", "two"], [])]),
        ("", []),
        ("| a | b |\n|---|--:|\n| 1 | 2 |", [([], [["a", "b"], ["1", "2"]])]),
        ("one\n\n| a |\n|---|\n\ntwo", [(["one"], []), ([], [["a"]]), (["two"], [])]),
        ("| a |\n|-|\n| 1 | 2 |\n| x", [([], [["a"], ["1"]]), (["| x"], [])]),
        ("| a | b |\n|-|-|\n| 1 |", [([], [["a", "b"], ["1", ""]])]),
        ("| a \\| b |\n|-|", [([], [["a | b"]])]),
        ("| a |\nno table", [(["| a |", "no table"], [])]),
        ("|\n|", [(["|", "|"], [])]),
    ],
)
def test_blocks(text: str, found: list[tuple[list[str], list[list[str]]]]) -> None:
    assert list(blocks(text)) == found
