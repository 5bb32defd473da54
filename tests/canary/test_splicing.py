"""Edits by the byte."""

from __future__ import annotations

import pytest

from rlm_ci.canary.splicing import Edit, encoded, spliced


def test_edits_are_made_by_the_byte_and_insertions_keep_their_order() -> None:
    source = encoded("é = f(1);\r\n\udcff")
    edits = [Edit(7, 8, "ü"), Edit(5, 5, "a"), Edit(5, 5, "b"), Edit(7, 7, "-"), Edit(8, 8, "+")]

    assert spliced(source, edits) == "é = abf(-ü+);\r\n\udcff"
    assert spliced(source, []) == "é = f(1);\r\n\udcff"


def test_an_overlap_is_an_error() -> None:
    with pytest.raises(ValueError, match="overlaps"):
        spliced(b"abcdef", [Edit(1, 4, ""), Edit(3, 5, "")])
    with pytest.raises(ValueError, match="overlaps"):
        spliced(b"abc", [Edit(2, 4, "")])
