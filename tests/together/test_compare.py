"""Branches compared in pairs: what is found, what is not, and what could not be looked at."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import UsageError
from rlm_ci.report.findings import INCOMPLETE, NOT_RUN, Report, Severity, Subject
from rlm_ci.report.render import render
from testing.open_branches import FILES, PARSE, TOTAL, Branches
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from pathlib import Path

USE = "from shop.text import parse\n\n\ndef read():\n    return parse('a b')\n"


@pytest.fixture
def shop(tmp_path: Path) -> Branches:
    return Branches(GitRepo(tmp_path / "shop"))


def test_a_removed_name_that_another_branch_uses(shop: Branches) -> None:
    shop.branch("one", {"shop/text.py": "import re\n"})
    shop.branch("two", {"shop/read.py": USE})
    part = shop.part("one", "two")
    (finding,) = part.findings
    assert finding.message == (
        "one removes `parse` (shop/text.py:4), which two uses in new lines (shop/read.py:5)"
    )
    old, new = finding.evidence
    assert (old.path, old.line_start, old.side, old.quote) == (
        "shop/text.py", 4, "old", "def parse(text):",
    )  # fmt: skip
    assert (new.path, new.line_start, new.side) == ("shop/read.py", 5, "new")
    assert old.blob
    assert new.blob
    assert part.state is None
    assert part.summary == "2 changes of main compared in 1 pair"


def test_harmless_branches_are_clean(shop: Branches) -> None:
    more = "\n\ndef join(words):\n    return ' '.join(words)\n"
    shop.branch("one", {"shop/text.py": FILES["shop/text.py"] + more})
    shop.branch("two", {"shop/read.py": USE})
    shop.branch("three", {"README.md": "Shop.\n"})
    part = shop.part("one", "two", "three")
    assert part.findings == ()
    assert part.state is None
    assert part.metrics["pairs"] == 3


def test_the_same_issue_closed_twice(shop: Branches) -> None:
    shop.branch("one", {"a.md": "1\n"}, "Say it\n\nFixes #7, and see #8.")
    shop.branch("two", {"b.md": "1\n"}, "Say it again (closes: #7)\n\n<!-- fixes #8 -->")
    shop.branch("three", {"c.md": "1\n"}, "Fix #70\n\nRelated to #7 and #8.")
    assert shop.messages("one", "two", "three") == ["same-issue low: one and two both close #7"]


def test_a_branch_on_another_comes_after_it(shop: Branches) -> None:
    shop.branch("one", {"shop/text.py": "import re\n"}, "Remove it (fixes #7)")
    shop.repo.checkout("one").checkout("two", new=True)
    shop.repo.write("shop/text.py", f"import re\n\n\n{PARSE}").commit("Bring it back (fixes #7)")
    assert shop.messages("one", "two") == []
    assert shop.part("one", "two").summary == (
        "2 changes of main compared in 0 pairs; 1 pair not compared, as one contains the other"
    )


def test_a_branch_that_the_base_has_is_named_and_is_no_change(shop: Branches) -> None:
    shop.branch("one", {"shop/text.py": "import re\n"})
    for name in ("old", "older"):
        shop.repo.run("branch", name, "main")
    part = shop.part("one", "old", "older")
    assert part.summary == (
        "1 change of main compared in 0 pairs; 2 without a commit that the base lacks: old; older"
    )
    part = shop.part("old", "older")
    assert part.summary.startswith("0 changes of main compared in 0 pairs; 2 without")
    text = render(Report(Subject(), Severity.HIGH, (part,)), "text")
    assert text.startswith("– together")
    assert text.splitlines()[-1] == "– Nothing to judge: 1 check"


def test_a_conflict_with_the_base_is_said_and_not_blamed_on_a_pair(shop: Branches) -> None:
    shop.branch("one", {"shop/till.py": f"RATE = 3\n\n\n{TOTAL}"})
    shop.branch("two", {"shop/till.py": f"RATE = 4\n\n\n{TOTAL}"})
    shop.repo.write("shop/till.py", f"RATE = 5\n\n\n{TOTAL}").commit("Five")
    assert shop.messages("one", "two") == [
        "base-conflict low: one conflicts with main in shop/till.py:1 and shop/till.py:1",
        "base-conflict low: two conflicts with main in shop/till.py:1 and shop/till.py:1",
    ]


def test_a_branch_without_common_history_is_said(shop: Branches) -> None:
    shop.branch("one", {"a.md": "1\n"})
    shop.branch("two", {"b.md": "1\n"})
    shop.repo.orphan("three").write("c.md", "1\n").commit("Alone")
    shop.repo.checkout("main")
    part = shop.part("one", "two", "three")
    assert part.state == INCOMPLETE
    assert "1 not looked at: three (base and head have no common commit in this clone" in (
        part.summary
    )  # fmt: skip
    assert part.metrics["not_looked_at"] == 1
    alone = shop.part("three", "three~0")
    assert alone.state == NOT_RUN
    assert "nothing could be looked at" in alone.summary


def test_a_shallow_clone_names_the_way_on(shop: Branches, tmp_path: Path) -> None:
    shop.branch("one", {"a.md": "1\n"})
    shop.branch("two", {"b.md": "1\n"})
    shop.repo.write("c.md", "1\n").commit("More")
    clone = shop.repo.clone(tmp_path / "clone", "--depth=1", "--no-single-branch")
    shallow = Branches.__new__(Branches)
    shallow.repo = clone
    part = shallow.part("origin/one", "origin/two")
    assert part.state == NOT_RUN
    assert "git fetch --unshallow" in part.summary


def test_one_branch_alone_is_refused(shop: Branches) -> None:
    shop.branch("one", {"a.md": "1\n"})
    with pytest.raises(UsageError, match="nothing to be compared with"):
        shop.part("one", "one")


@pytest.mark.skipif(os.name == "nt", reason="names that Windows forbids")
def test_hostile_branches_and_paths_stay_data(shop: Branches) -> None:
    name = "x/;$(touch${IFS}canary)"
    shop.branch(name, {"a\n\x1b[31m::error::.py": "def evil():\n    pass\n"})
    shop.branch("two", {"a\n\x1b[31m::error::.py": "def evil(x):\n    pass\n"})
    messages = shop.messages(name, "two")
    assert [message.partition(" ")[0] for message in messages] == ["added-twice", "conflict"]
    assert all("\x1b" not in message and "\n" not in message for message in messages)


@pytest.mark.full
def test_what_cannot_be_read_is_named(shop: Branches) -> None:
    shop.branch("one", {"shop/broken.py": "def (:\n"})
    shop.branch("two", {"shop/big.py": "x = 1\n" * 200_000, "link": "x"})
    part = shop.part("one", "two")
    assert part.findings == ()
    assert "shop/broken.py: no reader of its syntax" in part.summary
    assert "shop/big.py has 1 MB" in part.summary


@pytest.mark.full
def test_files_whose_new_names_are_not_compared_are_counted(shop: Branches) -> None:
    shop.branch("one", {f"tests/test_{number}.py": "RATE = 1\n" for number in range(403)})
    shop.branch("two", {"README.md": "Shop.\n"})
    assert "not read: new names of 3 files of one" in shop.part("one", "two").summary


def test_nothing_is_left_in_the_clone(shop: Branches) -> None:
    shop.branch("one", {"shop/till.py": f"RATE = 3\n\n\n{TOTAL}"})
    shop.branch("two", {"shop/till.py": f"RATE = 4\n\n\n{TOTAL}"})
    shop.repo.write("new.md", "x\n").commit("Base goes on")

    def state() -> list[str]:
        return [shop.repo.text("count-objects", "-v"), shop.repo.text("for-each-ref"),
                shop.repo.text("status", "--porcelain")]  # fmt: skip

    before = state()
    assert shop.messages("one", "two") == [
        "conflict medium: one and two conflict in shop/till.py:1 and shop/till.py:1"
    ]
    assert state() == before
