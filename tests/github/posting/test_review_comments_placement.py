"""Where findings go, judged by a reader of patches that is not ours."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rlm_ci.git.patches import FileDiff, Hunk, PatchDiff, from_records
from rlm_ci.github.posting.outcome import CommentLimits
from rlm_ci.github.posting.review_comments import (
    FILE,
    INLINE,
    INVALID,
    SUMMARY,
    UNKNOWN,
    VALID,
    PlacedFinding,
    classify,
    place_findings,
    without_invalid,
)
from rlm_ci.report.findings import Finding, Location, Severity
from testing import reference_patches
from testing.patches import from_git, record, texts
from testing.repositories.changes import every_kind_of_change, hostile_names, numbered
from testing.repositories.shapes import many_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from testing.repositories.git_repo import GitRepo

ENDLESS = CommentLimits(10**9, 10**9, 10**9)
PATCH = "@@ -3,4 +3,5 @@ def f():\n c\n-d\n+D\n+E\n e\n f\n@@ -40,2 +41,2 @@\n x\n-y\n+Y"


def finding(
    path: str | None = "a.py", start: int | None = None, end: int | None = None, side: str = "new",
    quote: str | None = None, **fields: Any,
) -> Finding:  # fmt: skip
    spots = () if path is None else (Location(path, start, end, side, None, quote),)
    known = {"severity": Severity.HIGH, "message": "It breaks.", **fields}
    return Finding("check/rule", evidence=spots, **known)


def one(found: Finding, diff: PatchDiff | None = None, **options: Any) -> PlacedFinding:
    (placed,) = place_findings([found], diff or from_records([record(PATCH)]), **options)
    return placed


def anchor(placed: PlacedFinding) -> tuple[object, ...]:
    return (placed.start_line, placed.start_side, placed.line, placed.side)


# -- beside the lines ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "end", "side", "expected"),
    [
        (4, 4, "new", (None, None, 4, "RIGHT")),
        (4, None, "new", (None, None, 4, "RIGHT")),
        (3, 7, "new", (3, "RIGHT", 7, "RIGHT")),
        (42, 42, "new", (None, None, 42, "RIGHT")),
        (4, 4, "old", (None, None, 4, "LEFT")),
        (4, 6, "old", (4, "LEFT", 6, "LEFT")),
        (40, 41, "old", (40, "LEFT", 41, "LEFT")),
    ],
)
def test_lines_of_one_hunk_are_inline(
    start: int, end: int | None, side: str, expected: tuple[object, ...]
) -> None:
    placed = one(finding("a.py", start, end, side))
    assert (placed.where, placed.reason, placed.path) == (INLINE, "", "a.py")
    assert anchor(placed) == expected


@pytest.mark.parametrize(
    ("start", "end", "side", "reason"),
    [
        (2, 2, "new", "line 2 is outside of the diff"),
        (8, 40, "new", "lines 8-40 are outside of the diff"),
        (43, 99, "new", "lines 43-99 are outside of the diff"),
        (2, 3, "new", "lines 2-3 go beyond their part of the diff, lines 3-7"),
        (7, 8, "new", "lines 7-8 go beyond their part of the diff, lines 3-7"),
        (5, 41, "new", "lines 5-41 go beyond their part of the diff, lines 3-7"),
        (1, 99, "new", "lines 1-99 go beyond their part of the diff, lines 3-7"),
        (7, 7, "old", "line 7 is outside of the diff"),
        (0, 3, "new", "0-3 is not a range of lines"),
        (-4, -4, "new", "-4--4 is not a range of lines"),
        (5, 4, "new", "5-4 is not a range of lines"),
        (None, None, "new", "it points to the file as a whole"),
        (None, None, "old", "it points to the file as a whole"),
    ],
)
def test_other_lines_go_to_the_file_and_are_never_clipped(
    start: int | None, end: int | None, side: str, reason: str
) -> None:
    placed = one(finding("a.py", start, end, side))
    assert (placed.where, placed.reason, placed.path) == (FILE, reason, "a.py")
    assert anchor(placed) == (None,) * 4


def spans() -> st.SearchStrategy[tuple[int, int]]:
    starts = st.integers(-1, 45)
    return st.tuples(starts, st.integers(-1, 12)).map(lambda two: (two[0], sum(two)))


@given(texts(), st.lists(st.tuples(spans(), st.sampled_from(("old", "new"))), max_size=20))
@example(([], ["a", "b"]), [((1, 2), "new"), ((1, 3), "new"), ((1, 1), "old"), ((0, 0), "old")])
@example((["a"], []), [((1, 1), "old"), ((0, 0), "new"), ((1, 1), "new")])
def test_inline_is_what_a_slow_reader_finds_in_one_hunk(
    both: tuple[list[str], list[str]], asked: list[tuple[tuple[int, int], str]]
) -> None:
    patch = reference_patches.patch_of(*both)
    diff = from_records([record(patch)])
    hunks = reference_patches.walk(patch) if patch else []
    found = [finding("a.py", *span, side) for span, side in asked]
    placed = place_findings(found, diff, caps=ENDLESS)
    assert [given_back.finding for given_back in placed] == found
    for given_back, ((start, end), side) in zip(placed, asked, strict=True):
        lines = range(start, end + 1)
        fits = start >= 1 and any(set(lines) <= hunk[side].keys() for hunk in hunks if lines)
        assert given_back.where == (INLINE if fits else FILE)
        assert bool(given_back.reason) != fits
        if fits:
            assert given_back.line == end
            assert given_back.start_line == (start if start < end else None)
        # The judge of refusals, asked for the same place, agrees.
        sent = PlacedFinding(given_back.finding, INLINE, "", "a.py", end,
                      "LEFT" if side == "old" else "RIGHT")  # fmt: skip
        if start != end:
            sent = sent.replace(start_line=start, start_side=sent.side)
        assert classify(sent, diff) == (VALID if fits else INVALID if patch else UNKNOWN)


# -- what is said of the file -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "side", "reason"),
    [
        ("removed", "new", "the file is deleted, and has no new lines"),
        ("added", "old", "the file is new, and has no old lines"),
        ("copied", "old", "the file is new, and has no old lines"),
    ],
)
def test_a_file_that_has_one_side_has_lines_on_that_side_only(
    status: str, side: str, reason: str
) -> None:
    patch = "@@ -0,0 +1,2 @@\n+a\n+b" if side == "old" else "@@ -1,2 +0,0 @@\n-a\n-b"
    diff = from_records([record(patch, status=status, previous_filename="b.py")])
    placed = one(finding("a.py", 1, 2, side), diff)
    assert (placed.where, placed.reason, placed.path) == (FILE, reason, "a.py")
    there = one(finding("a.py", 1, 2, "new" if side == "old" else "old"), diff)
    assert (there.where, there.side) == (INLINE, "RIGHT" if side == "old" else "LEFT")


def renamed() -> PatchDiff:
    patch = "@@ -8,3 +8,3 @@\n a\n-b\n+B\n c"
    moved = record(patch, filename="new.py", previous_filename="a.py", status="renamed")
    return from_records([moved])


def test_the_old_side_of_a_renamed_file_has_the_new_name() -> None:
    placed = one(finding("a.py", 8, 9, "old"), renamed())
    assert (placed.where, placed.path) == (INLINE, "new.py")
    assert anchor(placed) == (8, "LEFT", 9, "LEFT")
    whole = one(finding("a.py", side="old"), renamed())
    assert (whole.where, whole.path) == (FILE, "new.py")


@pytest.mark.parametrize(("path", "side", "quote"), [("a.py", "new", "B"), ("new.py", "old", "b")])
def test_the_name_of_the_other_side_needs_a_quote(path: str, side: str, quote: str) -> None:
    bare = one(finding(path, 9, 9, side), renamed())
    assert (bare.where, bare.path) == (FILE, "new.py")
    assert bare.reason == (
        "its path is that of the other side of a rename, and no quote shows the lines"
    )
    shown = one(finding(path, 9, 9, side, quote), renamed())
    assert (shown.where, shown.path, shown.line) == (INLINE, "new.py", 9)
    assert one(finding(path, 9, 9, side, "other"), renamed()).where == FILE


def test_two_files_that_swap_their_names_keep_their_lines() -> None:
    diff = from_records([
        record("@@ -1 +1 @@\n-a\n+b", filename="y", previous_filename="x", status="renamed"),
        record("@@ -5 +5 @@\n-c\n+d", filename="x", previous_filename="y", status="renamed"),
    ])  # fmt: skip
    assert one(finding("x", 1, 1, "old", "a"), diff).path == "y"
    assert one(finding("x", 5, 5, "new", "d"), diff).path == "x"
    assert one(finding("x", 5, 5, "old"), diff).where == FILE


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (finding(None), "it points to no file"),
        (finding("b.py", 1, 1), "the file is not part of the diff"),
        (finding("b.py"), "the file is not part of the diff"),
        (finding("a.py\n", 4), "the file is not part of the diff"),
        (finding("./a.py", 4), "the file is not part of the diff"),
        (finding("a\udcff.py", 4), "its path is not UTF-8, and the API cannot name it"),
        (finding("a.py", 4, suppression=""), "it is suppressed"),
        (finding("a.py", 4, severity=Severity.INFO), "its severity is info, less than low"),
    ],
)
def test_what_has_no_place_goes_to_the_summary(found: Finding, reason: str) -> None:
    placed = one(found, from_records([record(PATCH), record(PATCH, filename="a\udcff.py")]))
    assert (placed.where, placed.reason) == (SUMMARY, reason)
    assert anchor(placed) == (None,) * 4


def test_a_patch_that_github_withholds_is_said() -> None:
    placed = one(finding("a.py", 1), from_records([record(additions=70_000)]))
    assert (placed.where, placed.path) == (FILE, "a.py")
    assert placed.reason == (
        "GitHub gives no patch of the file (binary, too large, or no line changed)"
    )
    cut = one(finding("b.py", 1), from_records([record(PATCH)], total=3001))
    assert (cut.where, cut.reason) == (SUMMARY, "the file is not among the 1 that the API lists")


# -- quotes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("quote", "holds"),
    [("D\nE", True), ("D\nE\n", True), ("D\r\nE\r", True), ("D\nE\n\n", False), ("D", False),
     ("D\nF", False), ("", False), ("d\nE", False), (" D\nE", False)],
)  # fmt: skip
def test_a_quote_decides(quote: str, holds: bool) -> None:
    found = finding("a.py", 4, 5, "new", quote)
    stale = "these lines of the diff do not have its quote"
    placed = one(found)
    assert (placed.where, placed.reason) == ((INLINE, "") if holds else (FILE, stale))


def test_quotes_of_odd_bytes() -> None:
    def diff(text: str) -> PatchDiff:
        return PatchDiff(
            (FileDiff("a.py", "a.py", "A", from_records([record(text)]).files[0].hunks),)
        )

    tailed = diff("@@ -0,0 +1,2 @@\n+a\r\n+b\r")
    assert one(finding("a.py", 1, 2, quote="a\nb"), tailed).where == INLINE
    blank = diff("@@ -0,0 +1,2 @@\n+\n+")
    assert one(finding("a.py", 1, 1, quote=""), blank).where == INLINE
    assert one(finding("a.py", 1, 2, quote="\n"), blank).where == INLINE
    # From git a byte that is not UTF-8 is kept, in a report it is written out.
    kept = diff("@@ -0,0 +1 @@\n+caf\udce9")
    for quote in ("caf\udce9", "caf\\xe9"):
        assert one(finding("a.py", 1, 1, quote=quote), kept).where == INLINE
    # From GitHub it comes replaced: that proves nothing, and refutes nothing.
    replaced = diff("@@ -0,0 +1 @@\n+caf\ufffd")
    assert one(finding("a.py", 1, 1, quote="caf\\xe9"), replaced).where == INLINE
    fixed = finding("a.py", 1, 1, quote="caf\\xe9", suggested_fix="```suggestion\nx\n```")
    assert one(fixed, replaced).suggestion is None


# -- suggestions --------------------------------------------------------------------------------

FIX = "```suggestion\nd = 1\n```"


def fixed(fix: str = FIX, **fields: Any) -> Finding:
    return finding(**{"path": "a.py", "start": 4, "end": 5, "quote": "D\nE", **fields},
                   suggested_fix=fix)  # fmt: skip


def test_a_suggestion_replaces_the_lines_of_the_comment() -> None:
    placed = one(fixed())
    assert (anchor(placed), placed.suggestion) == ((4, "RIGHT", 5, "RIGHT"), "d = 1\n")
    assert one(fixed("```suggestion\n```")).suggestion == ""
    assert one(fixed("```suggestion\n\n```")).suggestion == "\n"
    assert one(fixed("~~~suggestion\r\na\r\n\tb\r\n~~~\r\n")).suggestion == "a\n\tb\n"


@pytest.mark.parametrize(
    "found",
    [
        fixed(quote=None),  # nobody said what is replaced
        fixed(side="old", start=4, end=4, quote="d"),
        fixed(start=4, end=9),
        fixed(quote="D\nF"),
        fixed("```suggestion\nD\nE\n```"),  # nothing would change
        fixed("d = 1"),
        fixed("```python\nd = 1\n```"),
    ],
)
def test_no_suggestion_where_it_might_replace_something_else(found: Finding) -> None:
    assert one(found).suggestion is None


@pytest.mark.parametrize(
    ("patch", "offered"),
    [
        ("@@ -0,0 +1,2 @@\n+a\r\n+b\r", True),
        ("@@ -0,0 +1,2 @@\n+a\n+b\n\\ No newline at end of file", True),
        ("@@ -0,0 +1,2 @@\n+a\n+b\r", False),
        ("@@ -2 +1,2 @@\n+a\n b\r", False),
    ],
)
def test_a_suggestion_never_mends_line_endings_by_the_way(patch: str, offered: bool) -> None:
    found = fixed(start=1, end=1, quote="a")
    placed = one(found, from_records([record(patch)]))
    assert placed.where == INLINE
    assert (placed.suggestion is not None) == offered


# -- caps ---------------------------------------------------------------------------------------


def test_the_worst_take_the_room_and_the_rest_is_said() -> None:
    lines = [("medium", 42), ("low", 3), ("critical", 7), ("high", 6), ("high", 5), ("low", 41)]
    found = [finding("a.py", line, severity=Severity.from_label(label)) for label, line in lines]
    placed = place_findings(found, from_records([record(PATCH)]), caps=CommentLimits(comments=4))
    assert [one.finding for one in placed] == found
    assert [one.line for one in placed] == [42, None, 7, 6, 5, None]
    assert {one.reason for one in placed} == {"", "more than 4 review comments"}
    placed = place_findings(found, from_records([record(PATCH)]), caps=CommentLimits(per_file=1))
    assert [one.where for one in placed].count(INLINE) == 1
    assert placed[2].line == 7
    assert placed[0].reason == "more than 1 comment on this file"
    assert placed[0].where == SUMMARY


def test_comments_on_whole_files_have_a_cap_of_their_own() -> None:
    found = [finding("a.py", 99), finding("a.py"), finding("a.py", 4)]
    placed = place_findings(found, from_records([record(PATCH)]), caps=CommentLimits(whole_files=0))
    assert [one.where for one in placed] == [SUMMARY, SUMMARY, INLINE]
    assert placed[0].reason == (
        "line 99 is outside of the diff; more than 0 comments on whole files"
    )


def test_comments_beside_lines_take_no_room_of_those_on_files() -> None:
    found = [finding("a.py", 4), finding("a.py", 5), finding("a.py", 99)]
    placed = place_findings(found, from_records([record(PATCH)]), caps=CommentLimits(whole_files=1))
    assert [one.where for one in placed] == [INLINE, INLINE, FILE]


@given(
    st.lists(
        st.builds(
            finding, st.sampled_from(("a.py", "b.py", "c.py", None)),
            st.sampled_from((None, 3, 4, 42, 99)), severity=st.sampled_from(Severity),
        ),
        max_size=40,
    ),
    st.builds(CommentLimits, st.integers(0, 9), st.integers(0, 5), st.integers(0, 5)),
)  # fmt: skip
def test_caps_hold_and_nothing_is_lost(found: list[Finding], caps: CommentLimits) -> None:
    diff = from_records([record(PATCH), record(PATCH, filename="b.py")])
    free = place_findings(found, diff, caps=ENDLESS)
    placed = place_findings(found, diff, caps=caps)
    assert [one.finding for one in placed] == found
    sent = [one for one in placed if one.where != SUMMARY]
    assert len(sent) <= caps.comments
    assert sum(one.where == FILE for one in sent) <= caps.whole_files
    for path in ("a.py", "b.py"):
        assert sum(one.path == path for one in sent) <= caps.per_file
    for kept, before in zip(placed, free, strict=True):
        if kept != before:
            assert (kept.where, before.where != SUMMARY) == (SUMMARY, True)
            assert before.reason in kept.reason
            # Whoever stands on the same file in the same way is at least as bad.
            rivals = [one for one in sent if (one.where, one.path) == (before.where, before.path)]
            worst = kept.finding.severity
            assert all(one.finding.severity >= worst for one in rivals)
        assert (kept.where == INLINE) == (not kept.reason)


# -- after a refusal ----------------------------------------------------------------------------


def sent(line: int = 4, side: str = "RIGHT", **fields: Any) -> PlacedFinding:
    return PlacedFinding(finding(), INLINE, "", fields.pop("path", "a.py"), line, side, **fields)


@pytest.mark.parametrize(
    ("placed", "expected"),
    [
        (sent(), VALID),
        (sent(5, start_line=4, start_side="RIGHT"), VALID),
        (sent(4, "LEFT"), VALID),
        (sent(8), INVALID),
        (sent(7, "LEFT"), INVALID),
        (sent(0), INVALID),
        (sent(4, start_line=4, start_side="RIGHT"), INVALID),
        (sent(4, start_line=5, start_side="RIGHT"), INVALID),
        (sent(41, start_line=5, start_side="RIGHT"), INVALID),
        (sent(5, start_line=4, start_side="LEFT"), INVALID),
        (sent(5, start_line=4), INVALID),
        (sent(path="gone.py"), INVALID),
        (sent(path="big.py"), UNKNOWN),
        (PlacedFinding(finding(), FILE, "r", "a.py"), VALID),
        (PlacedFinding(finding(), FILE, "r", "big.py"), VALID),
        (PlacedFinding(finding(), FILE, "r", "gone.py"), INVALID),
        (PlacedFinding(finding(), SUMMARY, "r", "gone.py"), VALID),
        (PlacedFinding(finding(None), SUMMARY, "r"), VALID),
    ],
)
def test_a_refused_comment_is_valid_unknown_or_proven_invalid(
    placed: PlacedFinding, expected: str
) -> None:
    files = [record(PATCH), record(filename="big.py")]
    assert classify(placed, from_records(files)) == expected
    after = without_invalid([placed], from_records(files))
    if expected == INVALID:
        assert (after[0].where, after[0].finding) == (SUMMARY, placed.finding)
        assert "refused" in after[0].reason
        assert anchor(after[0]) == (None,) * 4
    else:
        assert after == [placed]
    cut = classify(placed, from_records(files, total=9))
    assert cut == (UNKNOWN if placed.path == "gone.py" and placed.where != SUMMARY else expected)


def test_there_is_no_line_zero_whatever_a_header_says() -> None:
    diff = from_records([record("@@ -0 +0 @@\n-a\n+b")])
    assert classify(sent(0), diff) == INVALID
    assert one(finding("a.py", 0, 0), diff).where == FILE


# -- real repositories --------------------------------------------------------------------------


def every_line(hunks: Sequence[Hunk], path: str, side: str) -> list[Finding]:
    return [
        finding(path, number, number, side, text)
        for hunk in hunks
        for line in hunk.lines
        for number, text in [(getattr(line, side), line.text)]
        if number is not None
    ]


def test_every_line_of_a_real_diff_has_its_place_at_github(repo: GitRepo) -> None:
    history = every_kind_of_change(repo)
    diff = from_git(history)
    listed = reference_patches.github_files(repo, history.base, history.head)
    # Names that the API cannot say come replaced, and could name another file.
    theirs = from_records(listed, len(listed))
    found = [
        one
        for file in diff.files
        for side, path in (("old", file.old_path), ("new", file.path))
        for one in every_line(file.hunks or (), path, side)
    ]
    placed = place_findings(found, diff, caps=ENDLESS)
    sides = [one.side for one in placed if one.where == INLINE]
    assert min(sides.count("LEFT"), sides.count("RIGHT")) > 90
    assert len(sides) == len(found)
    verdicts = [classify(one, theirs) for one in placed]
    odd = {one.path for one, verdict in zip(placed, verdicts, strict=True) if verdict != VALID}
    assert odd <= {file.path for file in diff.files if file.status == "T"}
    # The other way round: the same findings placed by GitHub's list alone.
    again = place_findings(found, theirs, caps=ENDLESS)
    for ours, other, verdict in zip(placed, again, verdicts, strict=True):
        assert verdict != VALID or anchor(ours) == anchor(other)


def test_a_deleted_and_a_renamed_file_of_a_real_repository(repo: GitRepo) -> None:
    history = every_kind_of_change(repo)
    diff = from_git(history)
    gone = one(finding("kinds/deleted.py", 1, 7, "old", numbered(7, "gone")), diff)
    assert anchor(gone) == (1, "LEFT", 7, "LEFT")
    moved = one(finding("kinds/renamed_edited_old.py", 40, 40, "old"), diff)
    assert (moved.path, anchor(moved)) == (
        "kinds/renamed_edited_new.py", (None, None, 40, "LEFT"),
    )  # fmt: skip
    pure = one(finding("kinds/moved/renamed_new.py", 1, 1), diff)
    assert (pure.where, pure.reason) == (FILE, "line 1 is outside of the diff")
    binary = one(finding("kinds/binary_edited.bin", 1, 1), diff)
    assert (binary.where, binary.reason) == (FILE, "the file is binary")
    lost = one(finding("texts/newline_lost.txt", 2, 2, "new", "two"), diff)
    assert anchor(lost) == (None, None, 2, "RIGHT")


def test_hostile_names_are_data(repo: GitRepo) -> None:
    diff = from_git(hostile_names(repo))
    found = [finding(file.path, 1, 1) for file in diff.files]
    placed = place_findings(found, diff, caps=ENDLESS)
    assert len(placed) > 20
    for one_of, file in zip(placed, diff.files, strict=True):
        bytes_in_it = any(0xDC80 <= ord(char) <= 0xDCFF for char in file.path)
        assert one_of.where == (SUMMARY if bytes_in_it else INLINE)
        assert one_of.path == (None if bytes_in_it else file.path)
        assert os.fsencode(file.path) not in one_of.reason.encode()


# -- speed --------------------------------------------------------------------------------------


@pytest.mark.full
def test_three_thousand_files_take_no_time(repo: GitRepo) -> None:
    diff = from_git(many_files(repo))
    body = "@@ -1,3 +1,4 @@\n a\n-b\n+c\n+d\n e"
    records = [record(body, filename=file.path) for file in diff.files]
    found = [finding(file.path, 1, 2) for file in diff.files]
    began = time.process_time()
    theirs = from_records(records, 3000)
    placed = place_findings(found, diff, caps=ENDLESS) + place_findings(found, theirs)
    verdicts = [classify(one, theirs) for one in placed]
    assert time.process_time() - began < 10
    assert len(verdicts) == 6000
    assert [one.where for one in placed[3000:]].count(INLINE) == 50


@pytest.mark.full
def test_many_hunks_and_many_findings_do_not_multiply() -> None:
    hunks = tuple(Hunk(9 * n, 1, 9 * n, 1, ()) for n in range(1, 100_001))
    diff = PatchDiff((FileDiff("a.py", "a.py", "M", hunks),))
    found = [finding("a.py", 9 * n, 9 * n) for n in range(1, 2001)]
    began = time.process_time()
    placed = place_findings(found, diff, caps=ENDLESS)
    assert time.process_time() - began < 10
    assert {one.where for one in placed} == {INLINE}
