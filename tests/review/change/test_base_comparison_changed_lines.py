"""Which lines a change answers for: real changes of real repositories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rlm_ci.change.change_set import from_range
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report.findings import UNTOUCHED, Finding, Location, Severity
from rlm_ci.review.change.base_comparison import GONE, changed_of, marked, removed_of

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo

CODE = "import requests\n\n\ndef get(u):\n    return requests.get(u, verify=False)\n"
WHOLE = [[1, 1 << 31]]


def changed(repo: GitRepo, base: str) -> dict[str, list[list[int]]]:
    repository = Repository(*discover(str(repo.path)), os.environ)
    return changed_of(from_range(repository, base, "HEAD", "--base"))


def test_what_becomes_code_by_its_new_name_is_new_as_a_whole(repo: GitRepo) -> None:
    repo.write("docs/n.txt", CODE).write("tests/test_x.py", CODE + "# of a test\n")
    base = repo.write("old.py", CODE + "# of a module\n").commit()
    repo.run("mv", "docs/n.txt", "app.py")
    repo.run("mv", "tests/test_x.py", "copy.py")
    repo.run("mv", "old.py", "new.py")
    repo.commit()
    assert changed(repo, base) == {"app.py": WHOLE, "copy.py": WHOLE, "new.py": []}


def test_lines_are_those_of_the_new_side_and_what_went_has_none(repo: GitRepo) -> None:
    repo.write("gone.py", CODE)
    base = repo.write("a.py", "1\n2\n3\n4\n5\n6\n").commit()
    repo.run("rm", "-q", "gone.py")
    repo.write("a.py", "1\n2\nthree\n4\n6\n").write("b.py", "x\ny\n").commit()
    assert changed(repo, base) == {"a.py": [[3, 5]], "b.py": [[1, 2]], "gone.py": [GONE]}


def test_where_lines_went_those_around_the_gap_are_changed(repo: GitRepo) -> None:
    base = repo.write("a.py", "top\n1\n2\nb\n4\n5\n6\ngone\n8\n9\n").commit()
    repo.write("a.py", "1\n2\nB\nC\n4\n5\n6\n8\n9\n").commit()
    assert changed(repo, base) == {"a.py": [[1, 1], [3, 4], [7, 8]]}


def test_a_finding_points_to_the_changed_lines_first_and_is_waved_through_without_one() -> None:
    caller, callee = Location("cart.py", 5, 5), Location("shop.py", 13, 15)
    found = Finding("review/breaks", Severity.HIGH, "It breaks", evidence=(caller, callee),
                    suggested_fix="```suggestion\npass\n```")  # fmt: skip
    moved = marked(found, {"shop.py": [[14, 14]]})
    assert (moved.evidence, moved.suggested_fix) == ((callee, caller), None)
    assert marked(found, {"cart.py": [[1, 5]], "shop.py": [[14, 14]]}) == found
    assert marked(found, {"shop.py": [[16, 20]]}).suppression == UNTOUCHED
    assert marked(found, None) == found


def test_removed_lines_are_those_of_the_old_side(repo: GitRepo) -> None:
    repo.write("gone.py", "a\nb\n")
    base = repo.write("a.py", "1\n2\n3\n4\n5\n6\n").commit()
    repo.run("rm", "-q", "gone.py")
    repo.write("a.py", "1\nnew\n2\nthree\n4\n6\n").commit()
    change = from_range(Repository(*discover(str(repo.path)), os.environ), base, "HEAD", "--base")
    assert removed_of(change) == {"a.py": [[3, 3], [5, 5]], "gone.py": [[1, 2]]}
