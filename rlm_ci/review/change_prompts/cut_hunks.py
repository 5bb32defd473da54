"""Hunks in smaller prompts: what an endpoint refused for its length is cut between its hunks."""

from __future__ import annotations

from rlm_ci.recursion.prompt_windows import TOO_LONG
from rlm_ci.review.change_prompts.hunk_rows import NEW, REMOVED, SAME
from rlm_ci.review.change_prompts.pieces import size_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlm_ci.review.change_prompts.hunk_rows import PromptRow

    #: A path, and its rows in a prompt, of which the first is the heading.
    FileHunks = tuple[str, tuple[PromptRow, ...]]


def cut_hunks(
    files: Iterable[FileHunks], room: int
) -> tuple[list[list[FileHunks]], list[tuple[str, str]]]:
    """The rows of ``files`` in as few groups of ``room`` bytes as their order allows.

    Rows of one file that fit no group together are cut where a hunk begins, or an unchanged line.
    Also pairs of path and reason for changed lines that fit none.
    """
    groups: list[list[FileHunks]] = [[]]
    missing: list[tuple[str, str]] = []
    left = room
    for path, (heading, *every) in files:
        space = room - heading.size
        missing += ((path, too_long(row)) for row in every if row.size > space and _is_changed(row))
        rows = [row for row in every if row.size <= space]
        has_changes = any(map(_is_changed, rows))
        is_shown = False
        while rows or not is_shown:
            end = _end(rows, left - heading.size)
            is_better_apart = end < len(rows) and (not end or size_of(rows) <= space)
            if groups[-1] and (is_better_apart or heading.size > left):
                groups.append([])
                left = room
                continue
            part, rows = rows[:end], rows[end:]
            is_shown = True
            # A part that only surrounds changes is no question of its own.
            if any(map(_is_changed, part)) or not has_changes:
                groups[-1].append((path, (heading, *part)))
                left -= heading.size + size_of(part)
            if rows and groups[-1]:
                groups.append([])
                left = room
    return [group for group in groups if group], missing


def too_long(row: PromptRow) -> str:
    """Why a changed line is in no prompt."""
    number = row.text.partition(row.mark)[0]
    side = "removed " if row.mark == REMOVED else ""
    return f"{side}line {number} {TOO_LONG}"


def _end(rows: Sequence[PromptRow], room: int) -> int:
    """How many rows of ``room`` bytes stay together."""
    end = 0
    while end < len(rows) and rows[end].size <= room:
        room -= rows[end].size
        end += 1
    if end == len(rows):
        return end
    borders = [at for at in range(end, end // 2, -1) if not _is_changed(rows[at])]
    return next((at for at in borders if rows[at].mark != SAME), next(iter(borders), end))


def _is_changed(row: PromptRow) -> bool:
    return row.mark in (NEW, REMOVED)
