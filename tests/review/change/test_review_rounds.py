"""Rounds of reviews: which findings are too late in a later one."""

from __future__ import annotations

import os

import pytest

from rlm_ci.change import change_set
from rlm_ci.change.change_set import ChangeSet
from rlm_ci.git.repository import Repository, discover
from rlm_ci.github.posting.summary_comment import Checkpoint
from rlm_ci.report.findings import ENDED, LATE, Finding, Location, Severity
from rlm_ci.report.proof import ARGUED, PROVEN, Proof
from rlm_ci.review.change import review_rounds
from rlm_ci.review.change.review_rounds import EarlierLines, ReviewRound
from testing.repositories.git_repo import GitRepo

TEXT = "".join(f"line {number}\n" for number in range(1, 31))


@pytest.fixture
def pushed(repo: GitRepo) -> tuple[ChangeSet, str]:
    """A change whose last push put two lines before line 10, and the commit before that."""
    repo.write("a.py", "").commit()
    base = repo.sha()
    since = repo.write("a.py", TEXT).commit()
    repo.write("a.py", TEXT.replace("line 10\n", "new\nnew\nline 10\n")).commit()
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    return change_set.from_range(opened, base, "HEAD", "test"), since


def claim(line: int, severity: Severity = Severity.HIGH, level: str = ARGUED) -> Finding:
    place = Location("a.py", line, line)
    return Finding("review/x", severity, "m", evidence=(place,), source="model:m",
                   proof=Proof(level, "r"))  # fmt: skip


def reasons(change: ChangeSet, this: ReviewRound, *claims: Finding) -> list[str | None]:
    findings, late = review_rounds.parted(claims, this, change)
    told = [one.suppression for one in findings]
    assert late == sum(reason is not None for reason in told)
    return told


def test_the_second_round_is_about_what_was_pushed(pushed: tuple[ChangeSet, str]) -> None:
    change, since = pushed
    second = ReviewRound(2, 3, since, (EarlierLines("a.py", 20, 20),))
    claims = (claim(11), claim(3), claim(3, level=PROVEN), claim(22))
    assert reasons(change, second, *claims) == [None, LATE, None, None]
    assert reasons(change, second.replace(number=1), *claims) == [None] * 4
    assert reasons(change, second.replace(since=None, why="it is not known"), *claims) == [None] * 4


def test_after_the_last_round_only_proven_high_is_new(pushed: tuple[ChangeSet, str]) -> None:
    change, since = pushed
    last = ReviewRound(4, 3, since, (EarlierLines("a.py", 20, 20),))
    claims = (
        claim(11), claim(3, level=PROVEN), claim(3, Severity.MEDIUM, PROVEN), claim(22),
    )  # fmt: skip
    assert reasons(change, last, *claims) == [ENDED, None, ENDED, None]
    assert reasons(change, last.replace(limit=0), *claims) == [None, None, None, None]


def test_what_an_analyzer_finds_is_never_too_late(pushed: tuple[ChangeSet, str]) -> None:
    change, since = pushed
    found = claim(3).replace(source="analyzer:ruff", proof=None)
    assert reasons(change, ReviewRound(9, 3, since), found) == [None]


def test_the_state_of_the_last_run_is_not_trusted(pushed: tuple[ChangeSet, str]) -> None:
    change, since = pushed
    last = Checkpoint(12, since, None, None, "clean", "", "run", round=1)
    assert review_rounds.begin(None, change, 3) == ReviewRound(1, 3)
    assert review_rounds.begin(last.replace(round=0), change, 3) == ReviewRound(1, 3)
    this = review_rounds.begin(last, change, 3)
    assert (this.number, this.since, this.why) == (
        2, None, "the claims of the last review are not known",
    )  # fmt: skip
    this = review_rounds.begin(last.replace(head="d" * 40), change, 3)
    assert this.why == "dddddddddddd is not in this clone"
    same = review_rounds.begin(last.replace(head=change.head or ""), change, 3)
    assert same.number == 1


def test_a_round_is_read_where_a_record_calls_its_limit_most() -> None:
    lines = {"path": "a.py", "line_start": 20, "line_end": None}
    older = {"number": 2, "most": 3, "since": "d" * 40, "earlier": [lines], "why": ""}
    this = ReviewRound(2, 3, "d" * 40, (EarlierLines("a.py", 20),))
    assert ReviewRound.from_dict(older) == this
    assert ReviewRound.from_dict(this.to_dict()) == this
