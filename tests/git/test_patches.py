"""A diff from git and from GitHub: the same files, the same hunks, and what is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given

from rlm_ci.change import change_set
from rlm_ci.git.patches import FileDiff, Hunk, from_records
from testing import reference_patches
from testing.patches import from_git, record, texts
from testing.repositories.changes import every_kind_of_change
from testing.repositories.random_histories import random_history

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo, History


def only(**fields: Any) -> FileDiff:
    return from_records([record(**fields)]).files[0]


# -- one patch ----------------------------------------------------------------------------------


@given(texts())
@example(([], ["a"]))
@example((["a"], []))
@example((["a"], ["b"]))
def test_a_patch_has_the_lines_that_a_slow_reader_finds(both: tuple[list[str], list[str]]) -> None:
    patch = reference_patches.patch_of(*both)
    hunks = only(patch=patch).hunks
    if not patch:
        assert hunks is None
        return
    assert hunks is not None
    walked = reference_patches.walk(patch)
    assert len(hunks) == len(walked)
    for hunk, sides in zip(hunks, walked, strict=True):
        for side, lines in sides.items():
            first, last = hunk.span(side)
            assert list(range(first, last + 1)) == list(lines)
            assert list(hunk.texts(side, first, last)) == list(lines.values())
            for number, text in lines.items():
                assert list(hunk.texts(side, number, number)) == [text]


@pytest.mark.parametrize(
    ("patch", "old", "new"),
    [
        ("@@ -1 +1 @@\n-a\n+b", (1, 1), (1, 1)),
        ("@@ -0,0 +1 @@\n+b\n\\ No newline at end of file", (0, -1), (1, 1)),
        ("@@ -1 +0,0 @@\n-b", (1, 1), (0, -1)),
        ("@@ -5 +5,2 @@ def f():\n a\n+b", (5, 5), (5, 6)),
        ("@@ -7,0 +8 @@\n+b", (7, 6), (8, 8)),
        ("@@ -1,2 +1,2 @@\n-a\n+b\n \n\\ No newline at end of file\n", (1, 2), (1, 2)),
        ("@@ -1 +1 @@\n-a\n+b\n\n@@ -9 +9 @@\n-a\n+b", (1, 1), (1, 1)),
        ("@@ -1,2 +1,2 @@\n-a\n+b\n\n", (1, 2), (1, 2)),  # a blank line whose blank was lost
    ],
)
def test_headers_without_counts(patch: str, old: tuple[int, int], new: tuple[int, int]) -> None:
    file = only(patch=patch)
    assert file.hunks is not None
    assert (file.hunks[0].span("old"), file.hunks[0].span("new")) == (old, new)
    assert all(line.old or line.new for line in file.hunks[0].lines)


@pytest.mark.parametrize(
    "patch",
    [None, "", 7, ["@@ -1 +1 @@"], "Binary files differ", "@@ -1,3 +1,3 @@\n a", "@@ what @@\n a",
     "@@ -1 +1 @@\n?a", f"@@ -1 +{'9' * 5000} @@\n-a\n+b", "\n@@ -1 +1 @@\n-a\n+b", "@@ ",
     "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b"],
)  # fmt: skip
def test_a_patch_that_is_none_is_not_taken_for_an_empty_one(patch: object) -> None:
    file = only(patch=patch)
    assert file.hunks is None
    assert file.absent
    assert file.hunk_from("new", 1) is None


def test_the_hunk_of_a_line_is_found_whatever_their_order() -> None:
    hunks = [Hunk(10 * n, 3, 10 * n, 0 if n == 4 else 3, ()) for n in range(1, 9)]
    for order in (hunks, hunks[::-1]):
        file = FileDiff("a", "a", "M", tuple(order))
        for line in range(100):
            slow = [one for one in hunks if one.new_count and one.new_start + 2 >= line]
            assert file.hunk_from("new", line) == (slow[0] if slow else None)


# -- the files of a diff ------------------------------------------------------------------------


def test_who_had_a_name_is_not_who_has_it_now() -> None:
    diff = from_records([
        record(filename="b", previous_filename="a", status="renamed"),
        record(filename="a", status="added"),
        record(filename="gone", status="removed"),
        record(filename="copy", previous_filename="source", status="copied"),
    ])  # fmt: skip
    moved, added, gone, copied = diff.files
    assert (diff.file("a", "old"), diff.file("a", "new")) == (moved, added)
    assert (diff.file("b", "old"), diff.file("b", "new")) == (None, moved)
    assert (diff.file("gone", "old"), diff.file("gone", "new")) == (gone, gone)
    # The source of a copy is still there, and not part of this change.
    assert (diff.file("source", "old"), diff.file("copy", "new")) == (None, copied)
    assert [one.status for one in diff.files] == ["R", "A", "D", "C"]


def test_a_list_that_was_cut_is_not_complete() -> None:
    files = [record(filename=str(number)) for number in range(3)]
    assert from_records(files).complete
    assert from_records(files, 3).complete
    assert not from_records(files, 4).complete
    for odd in ({}, {"filename": None}, {"filename": ""}):
        cut = from_records([*files, odd])
        assert (len(cut.files), cut.complete) == (3, False)


@pytest.mark.parametrize("status", ["modified", "unchanged", "changed", "new-word", None, 7])
def test_a_name_before_counts_only_for_a_rename(status: object) -> None:
    file = only(status=status, previous_filename="x", patch="@@ -1 +1 @@\n-a\n+b")
    assert (file.status, file.old_path) == ("M", "a.py")
    assert only(status="renamed", previous_filename=None).old_path == "a.py"


# -- real repositories --------------------------------------------------------------------------


def assert_both_say_the_same(history: History) -> int:
    """What git and GitHub's list say agrees; how many files had hunks in both."""
    ours = from_git(history)
    listed = reference_patches.github_files(history.repo, history.base, history.head)
    theirs = from_records(listed, len(listed))
    assert theirs.complete
    agreed = 0
    known = {one.path: one for one in theirs.files}
    for file in ours.files:
        name = file.path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        if name != file.path or file.status == "T":
            continue  # git tells a change of type twice, and we show it as it is told
        other = known[name]
        assert (other.status, other.old_path) == (file.status, file.old_path)
        if other.hunks is None:
            assert not file.hunks
            continue
        agreed += 1
        assert [shape(one) for one in other.hunks] == [shape(one) for one in file.hunks or ()]
    return agreed


def shape(hunk: Hunk) -> list[object]:
    lines = [
        line.replace(text=line.text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))
        for line in hunk.lines
    ]
    return [hunk.span("old"), hunk.span("new"), lines]


def test_every_kind_of_change_is_the_same_from_both(repo: GitRepo) -> None:
    history = every_kind_of_change(repo)
    assert assert_both_say_the_same(history) > 30
    diff = from_git(history)
    binary = diff.file("kinds/binary_edited.bin")
    assert binary is not None
    assert (binary.hunks, binary.absent) == (None, "the file is binary")
    renamed = diff.file("kinds/renamed_old.py", "old")
    assert renamed is not None
    assert (renamed.path, renamed.hunks) == ("kinds/moved/renamed_new.py", ())


@pytest.mark.parametrize("seed", range(6))
def test_random_changes_are_the_same_from_both(repo: GitRepo, seed: int) -> None:
    assert assert_both_say_the_same(random_history(repo, seed)) > 0


def test_a_file_whose_patch_cannot_be_read_is_not_known() -> None:
    counted = change_set.FileChange("a", 1, 0, old_path="a", status="M")
    file = change_set.diff_of([counted], {}, ["a"]).files[0]
    assert (file.hunks, file.absent) == (None, "the patch of the file cannot be read")


def test_a_link_that_became_binary_is_known_as_far_as_it_is_told() -> None:
    counted = change_set.FileChange("a", None, None, old_path="a", status="T")
    hunks = only(patch="@@ -1 +0,0 @@\n-target").hunks
    assert hunks
    assert change_set.diff_of([counted], {"a": hunks}).files[0].hunks == hunks
    file = change_set.diff_of([counted], {}).files[0]
    assert (file.hunks, file.absent) == (None, "the file is binary")
