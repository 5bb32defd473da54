"""What was said of a change goes on only while nothing that it rests on has changed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.change.change_set import from_range
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report.overview.changes import ModelWords, SaidLines, SaidSentence
from rlm_ci.review.change.previous_review import rows, still_true

if TYPE_CHECKING:
    from rlm_ci.review.change.carry_over import CarriedWords
    from testing.repositories.git_repo import GitRepo

WAIT = '''"""Waiting."""

TIMES = 3


def pause(number):
    return number * 2


def send(message):
    for number in range(TIMES):
        pause(number)
    return message


def drop(message):
    return None
'''
PRICE = "".join(f"def price{n}(value):\n    return value + {n}\n\n\n" for n in range(9))
SEND = SaidLines("wait.py", 11, 11, "new", "    for number in range(TIMES):")
GONE = SaidLines("old.py", 1, 1, "old", "def lost():")
PRICED = SaidLines("price.py", 2, 2, "new", "    return value + 0")
WORDS = ModelWords(
    "m",
    (SaidSentence("It retries.", (SEND,)),),
    (
        SaidSentence("`send` tries three times.", (SEND,), ("wait.py",)),
        SaidSentence("What nobody called is gone.", (GONE,), ("old.py",)),
        SaidSentence("Prices are added.", (PRICED,), ("price.py",)),
    ),
)


@pytest.fixture
def first(repo: GitRepo) -> str:
    """The head of a change, on which the model has said something."""
    repo.write("old.py", "def lost():\n    return 1\n").write("kept.py", "one = 1\n").commit()
    repo.checkout("change", new=True)
    return repo.write_all({"wait.py": WAIT, "price.py": PRICE, "old.py": "used = 1\n"}).commit()


def again(repo: GitRepo, sentences: list[list[Any]], since: str) -> CarriedWords | None:
    repository = Repository(*discover(str(repo.path)), os.environ)
    return still_true(sentences, from_range(repository, "main", "HEAD", "--base"), since)


def held(words: CarriedWords | None) -> set[str]:
    """The sentences that go on, each by the first path of its lines and whether it has files."""
    some = (*words.words.about, *words.words.groups) if words else ()
    return {one.text for one in some}


RETRIES, TRIES, LOST, ADDED = (one.text for one in (*WORDS.about, *WORDS.groups))
ALL = {RETRIES, TRIES, LOST, ADDED}
#: What a push writes; the sentences that it leaves; the files to ask about; whether on the whole.
PUSHES: dict[str, tuple[dict[str, str], set[str], tuple[str, ...], bool]] = {
    "elsewhere": ({"kept.py": "one = 2\n"}, ALL, (), False),
    "another definition": ({"wait.py": WAIT.replace("None", "message")}, ALL, (), False),
    "lines above": ({"wait.py": f"# Above\n{WAIT}"}, ALL, (), False),
    "the definition": (
        {"wait.py": WAIT.replace("return message", "return 1")}, {LOST, ADDED}, ("wait.py",), True,
    ),
    "behind it": (
        {"wait.py": WAIT.replace("return message\n", "return message\n    pause()\n")},
        {LOST, ADDED}, ("wait.py",), True,
    ),
    "a value that it names": (
        {"wait.py": WAIT.replace("= 3", "= 4")}, {LOST, ADDED}, ("wait.py",), True,
    ),
    "a function that it calls": (
        {"wait.py": WAIT.replace("* 2", "* 3")}, {LOST, ADDED}, ("wait.py",), True,
    ),
    "one that it calls, in another file": (
        {"kept.py": "def pause():\n    pass\n"}, {LOST, ADDED}, ("kept.py", "wait.py"), True,
    ),
    "where lines are gone": ({"old.py": "used = 2\n"}, ALL - {LOST}, ("old.py",), False),
    "back to the base": (
        {"old.py": "def lost():\n    return 1\n"}, ALL - {LOST}, (), False,
    ),
    "much of a file": (
        {"price.py": PRICE.replace("def price8", "# 1\n# 2\n# 3\n# 4\n# 5\n# 6\ndef price8")},
        ALL - {ADDED}, ("price.py",), False,
    ),
    "much of the change": (
        {"new.py": "# new\n" * 20}, ALL - {RETRIES}, ("new.py", "wait.py"), True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("push", PUSHES)
def test_a_push_leaves_the_sentences_that_rest_on_nothing_it_touches(
    repo: GitRepo, first: str, push: str
) -> None:
    files, left, asked, is_whole = PUSHES[push]
    repo.write_all(files).commit()
    found = again(repo, rows(WORDS, first, str), first)
    assert found is not None
    assert (held(found), found.files, found.is_whole) == (left, asked, is_whole)
    for one in (*found.words.about, *found.words.groups):
        assert one.since == first
        for at in one.lines:
            side = "main" if at.side == "old" else "HEAD"
            lines = repo.text("show", f"{side}:{at.path}").split("\n")
            assert lines[at.line_start - 1 : at.line_end] == [at.quote]


def test_on_the_same_commit_all_go_on_and_small_pushes_add_up(repo: GitRepo, first: str) -> None:
    sentences, since = rows(WORDS, first, str), first
    assert held(again(repo, sentences, since)) == ALL
    left = []
    for number in range(4):
        repo.write("price.py", PRICE + f"# {number}\n" * (3 * number + 3)).commit()
        found = again(repo, sentences, since)
        left.append(ADDED in held(found))
        assert found is not None
        since = repo.sha()
        sentences = rows(found.words, since, str)
    assert left == [True, False, False, False]


@pytest.mark.parametrize(
    "forged",
    [
        {"line_start": 12, "line_end": 12},
        {"line_start": 900, "line_end": 900},
        {"quote": "    return True"},
        {"path": "../wait.py"},
        {"path": "nothing.py\n"},
        {"side": "old"},
    ],
)
def test_a_forged_sentence_does_not_go_on(
    repo: GitRepo, first: str, forged: dict[str, Any]
) -> None:
    words = WORDS.replace(about=(SaidSentence("All is well.", (SEND.replace(**forged),)),))
    found = again(repo, rows(words, first, str), first)
    # Where it names no file of the change, there is nothing to ask about instead but all.
    assert held(found) == (ALL - {RETRIES} if "path" not in forged else set())


def test_a_sentence_of_a_commit_that_is_not_before_does_not_go_on(
    repo: GitRepo, first: str
) -> None:
    other = repo.write("kept.py", "one = 2\n").commit()
    for said in ("0" * 40, other):
        assert again(repo, rows(WORDS, said, str), first) is None


def test_secrets_do_not_go_on_and_a_note_says_that_all_is_asked_anew() -> None:
    def mask(text: str) -> str:
        return text.replace("price.py", "[redacted]").replace("retries", "[redacted]")

    found = rows(WORDS, "1" * 40, mask)
    assert [one[1] for one in found] == ["It [redacted].", TRIES, LOST]
    assert rows(WORDS.replace(note="no room"), "1" * 40, str) == []
