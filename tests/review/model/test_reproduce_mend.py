"""Edits of a model become a patch, or nothing where one of them does not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.git import patches
from rlm_ci.review.model.reproduce import patch_of
from rlm_ci.review.proofs.repair import recounted

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo

NO_BREAK = "\\ No newline at end of file"
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
    ("content", "old", "new", "rows"),
    [
        ("x = 1", "1", "2", ["-x = 1", NO_BREAK, "+x = 2", NO_BREAK]),
        ("x = 1", "1", "2\n", ["-x = 1", NO_BREAK, "+x = 2"]),
        ("x = 1\ny = 1", "x", "z", ["-x = 1", "+z = 1", " y = 1", NO_BREAK]),
        ("x = 1\ny = 1\n", "y = 1\n", "y = 2", [" x = 1", "-y = 1", "+y = 2", NO_BREAK]),
    ],
)
def test_a_file_may_lack_its_last_line_break(
    content: str, old: str, new: str, rows: list[str], repo: GitRepo
) -> None:
    """Our own reader and git take the patch for what it is."""
    patch = patch_of([edit("b.py", old, new)], {"b.py": content.encode()}.get)
    assert patch.split("\n")[3:-1] == rows
    for written in (patch, recounted(patch)):
        (hunk,) = patches.hunks_by_path(written)["b.py"]
        assert len(hunk.lines) == sum(row != NO_BREAK for row in rows)
    repo.write("b.py", content).commit()
    repo.run("apply", stdin=recounted(patch).encode())
    assert repo.read("b.py").decode() == content.replace(old, new)


@pytest.mark.parametrize(
    "wrong",
    [
        edit("a.py", "two = ", "three = "),
        edit("a.py", "never", "x"),
        edit("a.py", "", "x"),
        edit("../d.py", "x", "y"),
    ],
)
def test_an_edit_that_does_not_fit_makes_none(wrong: dict[str, str]) -> None:
    assert not patch_of([edit("a.py", "one = 1", "one = 4"), wrong], FILES.get)
    assert not patch_of([], FILES.get)
