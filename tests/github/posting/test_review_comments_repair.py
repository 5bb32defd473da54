"""A repair on the lines of the diff, judged by the file that it was made from."""

from __future__ import annotations

from difflib import unified_diff

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.git.patches import PatchDiff, from_records, hunks_by_path
from rlm_ci.github.posting.review_comments import INLINE, SUMMARY, place_findings, replaced
from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.report.proof import ARGUED, PROVEN, Proof
from testing.patches import record
from testing.reports import HOSTILE_CODE, hostile

HEAD = ["def f():", "    a = 1", "    b = 2", "    return a", ""]
_LINES = st.lists(st.sampled_from(("a", "b", "  c", "", "```", "\td")), max_size=9)


def added(lines: list[str]) -> PatchDiff:
    """The diff of a change that adds the file ``a.py``."""
    body = "".join(f"+{line}\n" for line in lines)
    return from_records([record(f"@@ -0,0 +1,{len(lines)} @@\n{body}")])


def patch(before: list[str], after: list[str], *, context: int = 3, path: str = "a.py") -> str:
    names = (f"a/{path}", f"b/{path}")
    return "\n".join(unified_diff(before, after, *names, lineterm="", n=context))


def found(repair: str, level: str = PROVEN, **fields: object) -> Finding:
    spot = Location("a.py", 2, 2, quote=HEAD[1])
    proof = Proof(level, "why", reproduction="x", repair=repair)
    return Finding("r/k", Severity.HIGH, "m", evidence=(spot,), proof=proof, **fields)  # type: ignore[arg-type]


@given(_LINES.filter(bool), _LINES.filter(bool), st.integers(0, 3), st.data())
def test_the_lines_and_the_text_make_the_mended_file(
    before: list[str], after: list[str], context: int, data: st.DataObject
) -> None:
    start = data.draw(st.integers(1, len(before)))
    end = data.draw(st.integers(start, len(before)))
    (hunk,) = added(before).files[0].hunks or ()
    made = replaced(patch(before, after, context=context), "a.py", hunk, (start, end))
    if before == after:
        assert made is None
        return
    assert made is not None
    first, last, text = made
    assert first <= start <= end <= last
    lines = [*before[: first - 1], *text.split("\n")[:-1], *before[last:]]
    assert lines == after


def test_a_repair_is_offered_on_the_lines_that_it_edits() -> None:
    mended = [*HEAD[:2], "    b = a", "    return b", ""]
    (one,) = place_findings(
        [found(patch(HEAD, mended), suggested_fix="```suggestion\nworse\n```")], added(HEAD)
    )
    assert (one.where, one.start_line, one.line, one.is_run) == (INLINE, 2, 4, True)
    assert one.suggestion == "    a = 1\n    b = a\n    return b\n"


def changed(repair: str) -> str:
    return repair.replace("-    b = 2", "-    b = 3")


MENDED = [*HEAD[:2], "    b = a", *HEAD[3:]]
GOOD = patch(HEAD, MENDED)


@pytest.mark.parametrize(
    "repair",
    [
        "no patch", "", changed(GOOD), patch(HEAD, MENDED, path="b.py"),
        GOOD + "\n" + patch(HEAD, MENDED, path="b.py"), GOOD + "\n" + GOOD,
        GOOD.replace("--- a/a.py", "--- /dev/null"), GOOD.replace("+++ b/a.py", "+++ /dev/null"),
        patch(HEAD, [*HEAD[:2], "    b\u202e = a", *HEAD[3:]]), GOOD.replace("@@ -1", "@@ -9"),
        patch(HEAD, [*HEAD, *HOSTILE_CODE.split("\n")]),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_no_suggestion(repair: str) -> None:
    (one,) = place_findings([found(repair, suggested_fix="no code")], added(HEAD))
    assert (one.where, one.line, one.suggestion, one.is_run) == (INLINE, 2, None, False)


@given(hostile(30))
def test_no_text_is_too_odd(text: str) -> None:
    (hunk,) = added(HEAD).files[0].hunks or ()
    assert replaced(text, "a.py", hunk, (2, 2)) is None
    assert replaced(f"{GOOD}\n{text}", "a.py", hunk, (2, 2)) in (
        None,
        (2, 3, "    a = 1\n    b = a\n"),
    )


def test_what_is_only_argued_stands_beside_no_line() -> None:
    (one,) = place_findings([found("", ARGUED)], added(HEAD))
    assert (one.where, one.reason) == (SUMMARY, "nothing that ran shows it")


def test_only_edits_of_files_are_a_repair() -> None:
    assert list(hunks_by_path(GOOD)) == ["a.py"]
    with pytest.raises(ValueError, match="only edits"):
        hunks_by_path("--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+a")
