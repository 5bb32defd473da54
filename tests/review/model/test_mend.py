"""Edits of a model become a patch, or nothing where one of them does not fit."""

from __future__ import annotations

import pytest

from rlm_ci.review.model.mend import patch_of

FILES = {
    "a.py": b"one = 1\ntwo = 2\ntwo = 3\n",
    "b.py": b"x = 1",
    "c.py": b"caf\xe9 = 1\n\x0cy = 2\n",
}


def edit(path: str, old: str, new: str) -> dict[str, str]:
    return {"path": path, "old": old, "new": new}


def test_edits_become_one_patch() -> None:
    edits = [
        edit("a.py", "one = 1", "one = 4"),
        edit("a.py", "two = 3\n", ""),
        edit("c.py", "y", "z"),
    ]
    assert patch_of(edits, FILES.get).splitlines() == [
        *("--- a/a.py", "+++ b/a.py", "@@ -1,3 +1,2 @@", "-one = 1", "+one = 4", " two = 2"),
        *("-two = 3", "--- a/c.py", "+++ b/c.py", "@@ -1,2 +1,2 @@", " caf\udce9 = 1"),
        *("-", "y = 2", "+", "z = 2"),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        edit("a.py", "two = ", "three = "),
        edit("a.py", "never", "x"),
        edit("a.py", "", "x"),
        edit("b.py", "x = 1", "x = 2"),
        edit("../d.py", "x", "y"),
    ],
)
def test_an_edit_that_does_not_fit_makes_none(wrong: dict[str, str]) -> None:
    assert not patch_of([edit("a.py", "one = 1", "one = 4"), wrong], FILES.get)
    assert not patch_of([], FILES.get)
