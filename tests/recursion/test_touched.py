"""Which lines a change answers for: real changes of real repositories."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rlm_ci.changes import from_range
from rlm_ci.git import Repository, discover
from rlm_ci.recursion.review.touched import changed_of

if TYPE_CHECKING:
    from histories import GitRepo

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
    assert changed(repo, base) == {"a.py": [[3, 5]], "b.py": [[1, 2]]}
