"""Patches as git and as GitHub give them, and texts to make them of."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from rlm_ci.change import change_set
from rlm_ci.git.patches import PatchDiff
from rlm_ci.git.repository import Repository, discover

if TYPE_CHECKING:
    from testing.repositories.git_repo import History


#: Lines that look like the syntax of a patch, end oddly, or are nothing.
LINES = (
    "a", "b", "c", "", " ", "+", "-", "-- a/x", "--- a/x", "+++ b/x", "@@ -1 +1 @@",
    "\\ No newline", "diff --git a/x b/x", "tail\r", "\r", "\f", "a\u2028b", "\x85", "`", "é",
)  # fmt: skip


def texts() -> st.SearchStrategy[tuple[list[str], list[str]]]:
    """A text, as lines, before and after a change."""
    lines = st.lists(st.sampled_from(LINES), max_size=12)
    # Long stretches in common make hunks of their own.
    padding = st.integers(0, 12).map(lambda count: [f"same {number}" for number in range(count)])
    return st.tuples(lines, padding, lines, lines, lines).map(
        lambda five: (five[0] + five[1] + five[2], five[3] + five[1] + five[4])
    )


def record(patch: object = None, **fields: object) -> dict[str, Any]:
    base = {"filename": "a.py", "status": "modified"}
    return {**base, **({} if patch is None else {"patch": patch}), **fields}


def from_git(history: History) -> PatchDiff:
    opened = Repository(*discover(os.fspath(history.repo)), os.environ)
    change = change_set.from_range(opened, history.base, history.head, "test")
    return change.diff()
