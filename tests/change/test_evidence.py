"""Pointers into commits and work trees: what holds, and why something does not."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pytest

from rlm_ci.change import evidence
from rlm_ci.change.evidence import REANCHORED, REJECTED, VERIFIED, anchor
from rlm_ci.errors import ConfigError
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report.findings import Evidence, Finding, Location, Part, Report, Severity, Subject
from testing.repositories.git_repo import EMPTY_TREE, GitRepo

TEXT = "one\ntwo\r\nthree\ncaf\udce9"
DATA = TEXT.encode("utf-8", "surrogateescape")
TEXT_OF_LOG = "first\r\ncafé\r\nend"


@pytest.mark.parametrize(
    ("place", "why"),
    [
        (Location("a"), None),
        (Location("a", 1, 1, quote="one"), None),
        (Location("a", 1, 2, quote="one\ntwo"), None),
        (Location("a", 2, None, quote="two"), None),
        (Location("a", 4, 4, quote="caf\udce9"), None),
        (Location("a", 4, 4, quote=r"caf\xe9"), None),
        (Location("a", 4, 4), None),
        (Location("a", 1, 1, blob="b" * 40, quote="one"), None),
        (Location("a", 1, 1, blob="c" * 40, quote="one"), "has changed since"),
        (Location("a", 2, 2, quote="one"), "do not have the quote"),
        (Location("a", 1, 1, quote="one "), "do not have the quote"),
        (Location("a", 1, 1, quote=""), "do not have the quote"),
        (Location("a", 5, 5), "line 5 is not in the file, which has 4"),
        (Location("a", 3, 5), "lines 3-5 are not in the file, which has 4"),
        (Location("a", 3, 2), "not in the file"),
        (Location("a", 0, 1), "not in the file"),
        (Location("a", 1, 10**9), "not in the file"),
    ],
)
def test_what_holds(place: Location, why: str | None) -> None:
    found = evidence.flaw(place, DATA, "b" * 40)
    assert (found is None) == (why is None), found
    assert why is None or why in str(found)


@pytest.mark.parametrize(
    "data",
    [TEXT_OF_LOG.encode("utf-16"), TEXT_OF_LOG.encode("utf-32-be"), TEXT_OF_LOG.encode("cp1252"),
     gzip.compress(TEXT_OF_LOG.encode("utf-16-le"), mtime=0),
     b"\xef\xbb\xbf" + TEXT_OF_LOG.encode()],
)  # fmt: skip
def test_lines_of_a_file_may_be_those_of_its_text(data: bytes) -> None:
    """As a context has them: decoded by the bytes, and unpacked."""
    for place, why in (
        (Location("a", 2, 3, quote="café\nend"), None),
        (Location("a", 1, 1, quote="first"), None),
        (Location("a", 2, 2, quote="cafe"), "do not have the quote"),
        (Location("a", 3, 4), "lines 3-4 are not in the file, which has 3"),
    ):
        flaw = evidence.flaw(place, data, None)
        assert (flaw is None) == (why is None), flaw
        assert why is None or why in str(flaw)


def test_nothing_holds_where_there_is_no_file() -> None:
    assert evidence.flaw(Location("a"), None, None) == "the path is not there"
    assert evidence.flaw(Location("a", 1, 1), b"", None) is not None


def _report(*places: Location, **subject: Any) -> Report:
    finding = Finding("demo/x", Severity.HIGH, "m", evidence=places)
    part = Part("demo", "s", findings=(finding,))
    return Report(Subject(**subject), Severity.HIGH, (part,))


def _verify(repo: GitRepo, report: Report) -> tuple[Evidence, list[str]]:
    checked = evidence.verify(report, Repository(*discover(str(repo.path)), os.environ))
    assert checked.notes == ()
    return checked.counts, list(checked.problems)


def test_each_side_is_read_at_its_own_commit(repo: GitRepo) -> None:
    base = repo.write("a.md", "old\n").commit()
    moved_base = repo.write("a.md", "newer base\n").commit()
    repo.checkout(base, detach=True)
    head = repo.write("a.md", "new\n").write("b\n.md", "odd\n").write(b"\xff.md", "x\n").commit()
    repo.write("a.md", "work tree\n")
    report = _report(
        Location("a.md", 1, 1, quote="new", blob=repo.sha(f"{head}:a.md")),
        Location("a.md", 1, 1, "old", quote="old"),
        Location("b\n.md", 1, 1, quote="odd"),
        Location("\udcff.md", 1, 1, quote="x"),
        base=moved_base, head=head, merge_base=base,
    )  # fmt: skip
    assert _verify(repo, report) == (Evidence(4, 4, 0, 0), [])
    swapped = _report(Location("a.md", 1, 1, quote="old"), head=head)
    counts, problems = _verify(repo, swapped)
    assert counts == Evidence(1, 0, 0, 1)
    assert problems == ["a.md:1 (demo/x): these lines do not have the quote"]


def test_a_work_tree_report_is_read_from_the_disk(repo: GitRepo) -> None:
    head = repo.write("a.md", "committed\n").commit()
    repo.write("a.md", "edited\n").symlink("link.md", "a.md")
    report = _report(
        Location("a.md", 1, 1, quote="edited"),
        Location("a.md", 1, 1, "old", quote="committed"),
        Location("link.md"),
        base=head, merge_base=head, worktree=True,
    )  # fmt: skip
    counts, problems = _verify(repo, report)
    assert counts == Evidence(3, 2, 0, 1)
    assert problems == ["link.md (demo/x): the path is not there"]


@pytest.mark.parametrize("name", ["a.md", "0:a.md", "a\n.md", "caf\udce9.md"])
def test_what_is_staged_holds_where_the_work_tree_went_on(repo: GitRepo, name: str) -> None:
    raw = os.fsencode(name)
    head = repo.write("other", "").commit()
    repo.write(raw, "staged\n").stage(raw)
    blob = repo.run("hash-object", "--stdin", stdin=b"staged\n").decode().strip()
    staged = Location(name, 1, 1, blob=blob, quote="staged")
    for edit in ("staged\n", "edited\n", None):
        os.unlink(repo.place(raw)) if edit is None else repo.write(raw, edit)
        assert _verify(repo, _report(staged, base=head, worktree=True)) == (Evidence(1, 1), [])
    repo.write(raw, "edited\n")
    # What nobody tells to be staged is looked for on the disk, and other blobs nowhere.
    for place in (Location(name, 1, 1, quote="staged"), staged.replace(blob="b" * 40)):
        assert _verify(repo, _report(place, base=head, worktree=True))[0].rejected == 1


@pytest.mark.parametrize("worktree", [True, False])
@pytest.mark.parametrize(
    "path",
    [
        "../secret", "/etc/passwd", "sub/../a.md", "./a.md", "a.md\0x", "a\ud800", "sub//a.md",
        "sub", "a.md/x", "gone.md", "-a", ":a.md", "a\n.md", "a.md\n" + EMPTY_TREE, "x" * 5000,
    ],
)  # fmt: skip
def test_no_forged_path_leads_anywhere(repo: GitRepo, path: str, *, worktree: bool) -> None:
    (repo.path.parent / "secret").write_text("secret\n")
    head = repo.write("a.md", "a\n").write("sub/a.md", "b\n").commit()
    report = _report(Location(path), base=head, head=None if worktree else head, worktree=worktree)
    counts, problems = _verify(repo, report)
    assert counts.rejected == 1
    assert problems[0].isprintable()
    assert problems[0].endswith("(demo/x): the path is not there")


def test_the_empty_tree_stands_for_itself(repo: GitRepo) -> None:
    head = repo.write("a.md", "a\n").commit()
    report = _report(
        Location("a.md"), Location("a.md", side="old"), head=head, merge_base=EMPTY_TREE
    )
    assert _verify(repo, report)[0] == Evidence(2, 1, 0, 1)


def test_a_commit_that_is_not_there_is_named_with_the_cure(repo: GitRepo) -> None:
    repo.write("a.md", "a\n").commit()
    with pytest.raises(ConfigError, match=r"new side 'dddd.*is not in this clone") as caught:
        _verify(repo, _report(Location("a.md"), head="d" * 40))
    assert f"git fetch origin {'d' * 40}" in caught.value.hint


def test_without_evidence_there_is_nothing_to_check(tmp_path: Path) -> None:
    outside = Repository(str(tmp_path), None, {})
    assert evidence.verify(_report(head="d" * 40), outside).counts == Evidence()


def test_what_a_review_claims_it_must_show(tmp_path: Path) -> None:
    outside = Repository(str(tmp_path), None, {})
    claim = Finding("review/eval", Severity.MEDIUM, "eval of input", domain="security")
    claim = claim.replace(source="analyzer:ruff")
    other = claim.replace(rule="review/x", source="check")
    part = Part("review", "one", findings=(claim, other))
    report = Report(Subject(), Severity.HIGH, (part,))
    [problem] = evidence.verify(report, outside).problems
    assert problem == "review/eval (eval of input): it points to nothing"


def test_outside_of_git_a_file_is_looked_at_itself(tmp_path: Path) -> None:
    """A folder outside git works: blob hash and quote are compared with the file."""
    outside = Repository(str(tmp_path), None, {"PATH": os.environ["PATH"]})
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\n")
    blob = "814f4a422927b82f5f8a43f8fab6d3839e3983f2"  # git hash-object
    place = Location("a.txt", 2, 2, blob=blob, quote="two")
    for one, why in {
        place: "",
        place.replace(quote="one"): "do not have the quote",
        place.replace(blob="0" * 40): "has changed since",
        place.replace(path="b.txt"): "not there",
    }.items():
        checked = evidence.verify(_report(one, worktree=True), outside)
        assert checked.counts == Evidence(1, int(not why), 0, int(bool(why)))
        assert all(why in problem for problem in checked.problems)


def test_what_a_run_kept_may_have_changed_since(tmp_path: Path) -> None:
    """Where the run's own copy holds the quote, that is a note, not a failure."""
    outside = Repository(str(tmp_path), None, {})
    place, other = Location("a.txt", 1, 1, quote="one"), Location("a.txt", 1, 1, quote="two")
    checked = evidence.verify(_report(place, other, worktree=True), outside, {place})
    assert checked.counts == Evidence(2, 1, 0, 1)
    assert checked.problems == ("a.txt:1 (demo/x): the path is not there",)
    [note] = checked.notes
    assert note.startswith("a.txt:1 (demo/x): the path is not there; the run's own copy")


_CODE = b"def f():\n    if bg:\n        return bg\n    return 0\n"


@pytest.mark.parametrize(
    ("lines", "quote", "outcome"),
    [
        ((2, 3), "    if bg:\n        return bg", VERIFIED),
        ((2, 3), "if bg:\n    return bg", VERIFIED),
        ((2, 3), "if bg:\nreturn bg", VERIFIED),
        ((2, 2), "\tif bg:  ", VERIFIED),
        ((1, 4), "if bg:", VERIFIED),
        ((1, 3), "    if bg:\n        return bg", VERIFIED),
        ((3, 3), "    if bg:\n        return bg", VERIFIED),
        ((2, 4), "bg", REJECTED),
        ((1, 2), "if bg:\n    return bg", REANCHORED),
        ((4, 4), "        return bg", REANCHORED),
        ((2, 3), "if fg:\n    return bg", REJECTED),
    ],
)
def test_a_claim_stays_at_the_lines_that_have_its_quote(
    lines: tuple[int, int], quote: str, outcome: str
) -> None:
    found = anchor(Location("a.py", *lines, quote=quote), _CODE, None)
    assert found.outcome == outcome
    if found.location is not None:  # as the file has it
        whole = _CODE.decode().splitlines()
        if outcome == VERIFIED:
            assert (found.location.line_start, found.location.line_end) == lines
        first, last = found.location.line_start or 0, found.location.line_end or 0
        assert found.location.quote == "\n".join(whole[first - 1 : last])
