"""Textual conflicts of two changes, by merges that are only tried; both lines are right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.open_branches import Branches
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from pathlib import Path

LINES = "".join(f"line {number}\n" for number in range(1, 41))


def edited(number: int, text: str) -> str:
    return LINES.replace(f"line {number}\n", text)


@pytest.fixture
def book(tmp_path: Path) -> Branches:
    return Branches(GitRepo(tmp_path / "book"), {"a.txt": LINES, "b.txt": LINES})


@pytest.mark.parametrize(
    ("one", "two", "places"),
    [
        (edited(9, "nine\n"), edited(9, "neuf\n"), "a.txt:9 and a.txt:9"),
        (edited(9, "nine\n"), edited(10, "dix\n"), "a.txt:9 and a.txt:10"),
        (f"x\n{edited(9, 'nine' + chr(10))}", edited(9, "neuf\n"), "a.txt:10 and a.txt:9"),
        (edited(9, ""), edited(9, "neuf\n"), "a.txt:9 of its base and a.txt:9"),
        (f"{LINES}one\n", f"{LINES}two\n", "a.txt:41 and a.txt:41"),
    ],
    ids=["same line", "next line", "shifted", "deleted", "at the end"],
)
def test_both_lines_are_named(book: Branches, one: str, two: str, places: str) -> None:
    messages = book.sides(one={"a.txt": one}, two={"a.txt": two})
    assert messages == [f"conflict medium: one and two conflict in {places}"]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"a.txt": edited(9, "nine\n")}, {"a.txt": edited(20, "vingt\n")}),
        ({"a.txt": edited(9, "nine\n")}, {"a.txt": edited(9, "nine\n")}),
        ({"a.txt": edited(9, "nine\n")}, {"b.txt": edited(9, "neuf\n")}),
    ],
    ids=["apart", "alike", "two files"],
)
def test_no_conflict(book: Branches, one: dict[str, str], two: dict[str, str]) -> None:
    assert book.sides(one=one, two=two) == []


def test_lines_are_those_of_the_heads_where_the_base_went_on(book: Branches) -> None:
    book.branch("one", {"a.txt": edited(30, "thirty\n")})
    book.repo.write("a.txt", f"new\nnew\nnew\n{LINES}").commit("The base goes on")
    book.branch("two", {"a.txt": f"new\nnew\nnew\n{edited(30, 'trente' + chr(10))}"})
    assert book.messages("one", "two") == [
        "conflict medium: one and two conflict in a.txt:30 and a.txt:33"
    ]


def test_conflicts_of_files(book: Branches) -> None:
    book.branch("removes", {"a.txt": None})
    book.branch("edits", {"a.txt": edited(9, "nine\n")})
    book.branch("makes", {"new": "one\n"})
    book.branch("folder", {"new/inner": "two\n"})
    book.branch("binary", {"a.txt": b"\0\1\2"})
    assert book.messages("removes", "edits") == [
        "conflict medium: removes and edits conflict in a.txt:1 of its base and a.txt:9"
    ]
    assert len(book.messages("makes", "folder")) == 1
    assert book.messages("binary", "edits") == [
        "conflict medium: binary and edits conflict in a.txt and a.txt:9"
    ]


def test_a_file_in_a_folder_that_moves(book: Branches) -> None:
    """Git moves it along, and asks; so it is no clean merge."""
    branches = Branches(GitRepo(book.repo.path.parent / "moved"),
                        {"old/a.txt": LINES, "old/b.txt": LINES})  # fmt: skip
    branches.branch(
        "moves",
        {"old/a.txt": None, "old/b.txt": None, "new/a.txt": LINES, "new/b.txt": LINES},
    )
    branches.branch("adds", {"old/c.txt": "c\n"})
    messages = branches.messages("moves", "adds")
    assert [message[:8] for message in messages] == ["conflict"]


def test_a_pair_has_one_finding_for_all_its_files(book: Branches) -> None:
    texts = [{"a.txt": edited(9, f"{name}\n"), "b.txt": edited(5, f"{name}\n")} for name in "xy"]
    assert book.sides(one=texts[0], two=texts[1]) == [
        "conflict medium: one and two conflict in a.txt:9 and a.txt:9, and in 1 more file"
    ]


@pytest.mark.full
def test_the_verdict_is_that_of_git(book: Branches) -> None:
    """All pairs of eight branches: as a merge of each pair in a work tree ends."""
    for number in range(8):
        text = edited(5 + number // 2 * 7, f"change {number}\n")
        book.branch(f"b{number}", {("a.txt", "b.txt")[number % 3 == 0]: text})
    names = [f"b{number}" for number in range(8)]
    found = {tuple(finding.message.split()[:3:2]) for finding in book.part(*names).findings}
    expected = set()
    for at, one in enumerate(names):
        for two in names[at + 1 :]:
            book.repo.checkout(one, detach=True)
            merged = book.repo.attempt("merge", "-q", "--no-edit", two)
            if merged.returncode:
                expected.add((one, two))
                book.repo.run("merge", "--abort")
    assert expected
    assert found == expected


def test_attributes_and_drivers_have_no_say(book: Branches, tmp_path: Path) -> None:
    """A driver that the configuration names would run a command, and attributes choose it."""
    canary = tmp_path / "canary"
    book.repo.config("merge.evil.driver", f"touch {canary}")
    for name in ("one", "two"):
        book.branch(name, {"a.txt": edited(9, f"{name}\n"), ".gitattributes": "* merge=evil\n"})
    book.repo.checkout("one")
    (message,) = book.messages("one", "two")
    assert message == "conflict medium: one and two conflict in a.txt:9 and a.txt:9"
    assert not canary.exists()
    book.repo.attempt("merge", "-q", "--no-edit", "two")
    assert canary.exists(), "the driver is one that git runs"
