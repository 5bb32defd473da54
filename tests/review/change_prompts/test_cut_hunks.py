"""Hunks in smaller prompts: each changed line is in one of them, or named."""

from __future__ import annotations

import pytest

from rlm_ci.review.change_prompts.cut_hunks import cut_hunks
from rlm_ci.review.change_prompts.hunk_rows import NEW, REMOVED, SAME, PromptRow
from rlm_ci.review.change_prompts.listing import ChangePrompt


def row(number: int, mark: str, width: int = 20) -> PromptRow:
    text = f"{number}{mark}{'x' * width}"
    return PromptRow(text, 0 if mark == REMOVED else number, len(text) + 1, mark)


def heading(path: str) -> PromptRow:
    text = f"=== {path} === modified"
    return PromptRow(text, 0, len(text) + 1, "")


def hunk(first: int) -> list[PromptRow]:
    """Three lines around a removed and a new one."""
    at = PromptRow(f"@@ -{first} +{first} @@", 0, 12, "")
    marks = (SAME, SAME, SAME, REMOVED, NEW, SAME, SAME, SAME)
    return [at, *(row(first + place, mark) for place, mark in enumerate(marks))]


FILES = [
    (path, (heading(path), *(line for number in range(hunks) for line in hunk(10 * number))))
    for path, hunks in (("a.py", 1), ("b.py", 12), ("c.py", 3))
]
CHANGED = [
    (path, line.text) for path, rows in FILES for line in rows if line.mark in (NEW, REMOVED)
]


@pytest.mark.parametrize("room", [100, 230, 500, 1_000, 5_000])
def test_each_changed_line_is_in_one_prompt(room: int) -> None:
    groups, missing = cut_hunks(FILES, room)
    assert missing == []
    changed = [
        (path, line.text)
        for group in groups
        for path, rows in group
        for line in rows
        if line.mark in (NEW, REMOVED)
    ]
    assert changed == CHANGED
    assert all(sum(line.size for _, rows in group for line in rows) <= room for group in groups)
    assert all(rows[0] == heading(path) for group in groups for path, rows in group)


def test_a_file_is_cut_where_a_hunk_begins() -> None:
    groups, _ = cut_hunks(FILES[1:2], 500)
    assert len(groups) > 3
    assert all(rows[1].text.startswith("@@") for group in groups for _, rows in group)


def test_a_line_that_no_prompt_holds_is_named() -> None:
    rows = (heading("a.py"), row(1, NEW), row(2, NEW, 400), row(3, REMOVED, 400), row(4, SAME, 400))
    groups, missing = cut_hunks([("a.py", rows)], 200)
    assert [[one.text for one in listed[1:]] for group in groups for _, listed in group] == [
        [rows[1].text]
    ]
    assert missing == [
        ("a.py", "line 2 is too long for a prompt"),
        ("a.py", "removed line 3 is too long for a prompt"),
    ]


def test_a_prompt_says_which_piece_it_is_and_stays_where_nothing_gets_smaller() -> None:
    text = "\n".join(line.text for _, rows in FILES for line in rows)
    whole = ChangePrompt("part 1 of 2", "a", text, ("a.py", "b.py", "c.py"), (), hunks=tuple(FILES))
    pieces = whole.cut(1_000)
    assert [one.part for one in pieces] == [
        f"piece {number} of {len(pieces)} of part 1 of 2" for number in range(1, len(pieces) + 1)
    ]
    assert {path for one in pieces for path in one.paths} == {"a.py", "b.py", "c.py"}
    assert whole.cut(100_000) == []
    assert whole.cut(-5) == []
