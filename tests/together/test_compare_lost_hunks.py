"""Hunks of a branch that vanish where it merges the base."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.open_branches import Branches
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from pathlib import Path

LINES = "".join(f"the line {number} of it\n" for number in range(1, 41))


def edited(*numbers: int, text: str = "another line {} now\n") -> str:
    content = LINES
    for number in numbers:
        content = content.replace(f"the line {number} of it\n", text.format(number))
    return content


class Merges(Branches):
    """The branch ``work`` edits lines 9 and 30; the base edits line 20."""

    def merged(
        self, content: str | None, *, base: str = edited(20), work: str = edited(9, 30)
    ) -> str:
        """The branch after it merged the base; ``content`` is what the merge left of the file."""
        self.branch("work", {"a.txt": work})
        self.repo.checkout("main").write("a.txt", base).commit("Base")
        tips = [self.repo.sha("work"), self.repo.sha("main")]
        self.repo.checkout("work")
        if content is None:
            self.repo.remove("a.txt")
        else:
            self.repo.write("a.txt", content)
            self.repo.stage("a.txt")
        tree = self.repo.text("write-tree")
        merge = self.repo.commit_tree(tree, tips, "Merge main")
        self.repo.run("reset", "-q", "--hard", merge)
        self.repo.checkout("main")
        self.branch("other", {"other.txt": "x\n"})
        return merge[:12]


@pytest.fixture
def book(tmp_path: Path) -> Merges:
    return Merges(GitRepo(tmp_path / "book"), {"a.txt": LINES, "b.txt": LINES})


def test_a_merge_that_keeps_all_is_clean(book: Merges) -> None:
    both = edited(9, 20, 30)
    book.merged(both)
    assert book.messages("work", "other") == []


def test_the_side_of_the_base_loses_all_hunks(book: Merges) -> None:
    merge = book.merged(edited(20))
    work = book.repo.sha("work~1")[:12]
    assert book.messages("work", "other") == [
        f"lost-hunk high: in work the merge {merge} of the base lost its lines: "
        f"a.txt:{line} of {work}, now at a.txt:{line}"
        for line in (9, 30)
    ]


def test_one_of_two_hunks(book: Merges) -> None:
    book.merged(edited(20, 30))
    (message,) = book.messages("work", "other")
    assert "a.txt:9 of " in message
    assert message.endswith("now at a.txt:9")


def test_a_conflict_that_was_resolved_for_the_base_is_less(book: Merges) -> None:
    base = edited(9, text="what the base says {}\n")
    book.merged(base, base=base, work=edited(9))
    (message,) = book.messages("work", "other")
    assert message.startswith("lost-hunk medium: ")
    assert message.endswith("; the merge was in conflict there")


def test_a_conflict_that_was_resolved_by_hand_is_none(book: Merges) -> None:
    base = edited(9, text="what the base says {}\n")
    book.merged(edited(9, text="what both of them say {}\n"), base=base, work=edited(9))
    assert book.messages("work", "other") == []


def test_lines_that_a_later_commit_brings_back_are_not_lost(book: Merges) -> None:
    book.merged(edited(20))
    book.repo.checkout("work").write("a.txt", edited(9, 20, 30)).commit("Bring it back")
    book.repo.checkout("main")
    assert book.messages("work", "other") == []


def test_lines_that_moved_are_not_lost(book: Merges) -> None:
    moved = edited(20) + "another line 9 now\nanother line 30 now\n"
    book.merged(moved)
    assert book.messages("work", "other") == []


def test_lines_that_come_back(book: Merges) -> None:
    book.merged(LINES.replace("line 20 of it", "line 20 of the base"),
                base=LINES.replace("line 20 of it", "line 20 of the base"),
                work=edited(9, text=""))  # fmt: skip
    (message,) = book.messages("work", "other")
    assert "brought back lines that it had removed: a.txt:9 of the base, now at a.txt:9" in message


def test_a_line_that_another_hunk_adds_too(book: Merges) -> None:
    work = edited(9, 30, text="the same line of both\n")
    book.merged(work.replace("the same line of both", "the line 9 of it", 1), work=work)
    (message,) = book.messages("work", "other")
    assert "a.txt:9 of " in message


LONG = LINES.replace(
    "the line 9 of it\n", "".join(f"a new line {number} here\n" for number in range(1, 7))
)


def test_a_part_of_a_hunk(book: Merges) -> None:
    lost = LONG.replace("a new line 3 here\na new line 4 here\n", "")
    lost = lost.replace("line 20 of it", "line 20 of the base")
    base = LINES.replace("line 20 of it", "line 20 of the base")
    merge = book.merged(lost, base=base, work=LONG)
    (message,) = book.messages("work", "other")
    work = book.repo.sha("work~1")[:12]
    assert message == (
        f"lost-hunk high: in work the merge {merge} of the base lost its lines: "
        f"a.txt:11-12 of {work}, now at a.txt:10"
    )


def test_a_part_that_the_merge_wrote_anew_is_not_lost(book: Merges) -> None:
    base = LINES.replace("line 20 of it", "line 20 of the base")
    anew = LONG.replace("a new line 3 here", "a new line 3 that fits the base")
    book.merged(anew.replace("line 20 of it", "line 20 of the base"), base=base, work=LONG)
    assert book.messages("work", "other") == []


def test_a_part_that_a_conflict_leaves_out_may_be_its_answer(book: Merges) -> None:
    base = LINES.replace("line 9 of it", "line 9 of the base")
    answer = LONG.replace("a new line 3 here\n", "the line 9 of the base\n")
    book.merged(answer, base=base, work=LONG)
    assert book.messages("work", "other") == []


def test_a_line_that_the_file_has_elsewhere_too(book: Merges) -> None:
    work = edited(9, text="the line 30 of it\n")
    book.merged(edited(20), work=work)
    (message,) = book.messages("work", "other")
    assert "a.txt:9 of " in message


def test_lines_that_a_hunk_only_moves_to_the_right(book: Merges) -> None:
    inside = "".join(f"    the line {number} of it\n" for number in range(9, 12))
    plain = inside.replace("    ", "")
    work = LINES.replace(plain, f"try something:\n{inside}finally nothing\n")
    book.merged(edited(20), work=work)
    (message,) = book.messages("work", "other")
    assert "a.txt:9-13 of " in message


def test_what_the_base_did_to_the_same_lines_is_its_own(book: Merges) -> None:
    work = edited(9, 30, text="the line 12 of it\n")
    both = work.replace("the line 12 of it\nthe line 13", "the line 13")
    base = LINES.replace("the line 12 of it\n", "")
    book.merged(both, base=base, work=work)
    assert book.messages("work", "other") == []


def test_a_line_that_a_later_commit_takes_away_is_not_lost_by_the_merge(book: Merges) -> None:
    work = edited(9, 30, text="the line 12 of it\n")
    gone = work.replace("the line 12 of it\nthe line 10", "the line 10")
    both = gone.replace("the line 20 of it", "the line 20 of the base") + "the line 12 of it\n"
    book.merged(both, base=edited(20, text="the line 20 of the base\n"), work=work)
    book.repo.checkout("work").write("a.txt", LINES.replace("the line 12 of it\n", ""))
    book.repo.commit("Say it once")
    book.repo.checkout("main")
    assert book.messages("work", "other") == []


def test_a_conflict_in_a_file_that_the_base_has_moved(book: Merges) -> None:
    work = edited(9, 30)
    book.branch("work", {"a.txt": work})
    base = edited(9, text="what the base says {}\n")
    book.repo.checkout("main").move("a.txt", "moved.txt").write("moved.txt", base).commit("Move")
    tips = [book.repo.sha("work"), book.repo.sha("main")]
    tree = book.repo.text("rev-parse", "main^{tree}")
    book.repo.branch("work", book.repo.commit_tree(tree, tips, "Merge"))
    book.branch("other", {"other.txt": "x\n"})
    messages = book.messages("work", "other")
    assert len(messages) == 2
    assert all(message.startswith("lost-hunk medium: ") for message in messages)


def test_a_lock_file_is_made_anew_by_its_tool(tmp_path: Path) -> None:
    branches = Merges(GitRepo(tmp_path / "locked"), {"a.txt": LINES, "poetry.lock": LINES})
    branches.branch("work", {"poetry.lock": edited(9)})
    branches.repo.write("a.txt", edited(3)).commit("Base")
    tips = [branches.repo.sha("work"), branches.repo.sha("main")]
    tree = branches.repo.text("rev-parse", "main^{tree}")
    branches.repo.branch("work", branches.repo.commit_tree(tree, tips, "Merge"))
    branches.branch("other", {"other.txt": "x\n"})
    assert branches.messages("work", "other") == []


def test_a_file_that_is_gone(book: Merges) -> None:
    book.branch("work", {"new.txt": "a new line of text\nand another one\n"})
    book.repo.checkout("main").write("b.txt", edited(3)).commit("Base")
    tree = book.repo.text("rev-parse", "main^{tree}")
    merge = book.repo.commit_tree(tree, [book.repo.sha("work"), book.repo.sha("main")], "Merge")
    book.repo.branch("work", merge)
    book.branch("other", {"other.txt": "x\n"})
    (message,) = book.messages("work", "other")
    assert "lost its lines: new.txt:1-2 of " in message
    assert message.endswith(", the file is gone")


def test_merges_of_other_branches_are_not_those_of_the_base(book: Merges) -> None:
    book.branch("side", {"b.txt": edited(3)})
    book.branch("work", {"a.txt": edited(9)})
    tree = book.repo.text("rev-parse", "side^{tree}")
    merge = book.repo.commit_tree(tree, [book.repo.sha("work"), book.repo.sha("side")], "Merge")
    book.repo.branch("work", merge)
    book.branch("other", {"other.txt": "x\n"})
    assert book.messages("work", "other") == []
