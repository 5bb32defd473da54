"""By what a file is known again: its own content, and what those define that it imports."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.git.repository import Repository, discover
from rlm_ci.pipelines.repository import plan
from rlm_ci.review.change.affected_files import AffectedFiles

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo

LIBRARY = 'LIMIT = 3\n\n\ndef total(rows):\n    """Add up."""\n    return sum(rows)\n'
USER = "from shop.library import total\n\n\ndef bill(rows):\n    return total(rows)\n"
FILES = {
    "shop/__init__.py": "",
    "shop/library.py": LIBRARY,
    "shop/user.py": USER,
    "shop/other.py": "import shop.user\n",
    "shop/data.txt": "x\n",
}


def marks(repo: GitRepo, **edits: str) -> dict[str, str]:
    """The mark of each file once these are edited, by their names without folder and ending."""
    for name, text in edits.items():
        repo.write(f"shop/{name}.py", text)
    commit = repo.commit()
    repository = Repository(*discover(str(repo.path)), os.environ)
    affected_files = AffectedFiles(plan.corpus(plan.RepositoryScope(commit=commit), repository, ()))
    return {name: affected_files.mark(f"shop/{name}") for name in map(os.path.basename, FILES)}


@pytest.fixture
def shop(repo: GitRepo) -> GitRepo:
    return repo.write_all(FILES)


@pytest.mark.parametrize(
    ("library", "others"),
    [
        (LIBRARY.replace("sum(rows)", "sum(rows, 0)"), set()),
        (f"# moved\n\n{LIBRARY}", set()),
        (LIBRARY.replace("(rows):", "(rows, tax=0):"), {"user.py"}),
        (LIBRARY.replace("Add up.", "Add up, without tax."), {"user.py"}),
        (LIBRARY.replace("def total", "def sum_of"), {"user.py"}),
        (f"{LIBRARY}\n\ndef more():\n    return 1\n", {"user.py"}),
        ("def broken(:\n", {"user.py"}),
    ],
)
def test_who_imports_a_file_is_concerned_by_what_it_defines(
    shop: GitRepo, library: str, others: set[str]
) -> None:
    before = marks(shop)
    after = marks(shop, library=library)
    assert {name for name in before if before[name] != after[name]} == {"library.py", *others}


def test_a_file_is_not_concerned_by_who_imports_it(shop: GitRepo) -> None:
    before = marks(shop)
    after = marks(shop, user=USER.replace("bill", "charge"))
    assert {name for name in before if before[name] != after[name]} == {"user.py", "other.py"}
