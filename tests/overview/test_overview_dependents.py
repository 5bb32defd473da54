"""Who leans on what a change touches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlm_ci.overview.overview import dependents
from rlm_ci.overview.sides import ChangeSides
from rlm_ci.report.overview.shown import diagram
from testing import change_sets
from testing.repositories.git_repo import History

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo

EVIL = 'shop/x"]; click n0 "javascript:alert(1)"'


def sides(repo: GitRepo, old: dict[str, str], new: dict[str, str]) -> ChangeSides:
    base = repo.write_all(old).commit()
    head = repo.write_all(new).commit()
    return ChangeSides(change_sets.change_of(History(repo, base, head)))


def test_files_that_import_a_touched_one_but_no_tests(repo: GitRepo) -> None:
    old = {
        "shop/__init__.py": "", "shop/a.py": "x = 1\n", "shop/b.py": "from .a import x\n",
        f"{EVIL}.py": "from shop.a import x\n", "shop/c.py": "a = 2\n",
        "tests/test_a.py": "from shop.a import x\n",
    }  # fmt: skip
    found = dependents(sides(repo, old, {"shop/a.py": "x = 2\n", "README": ""}))
    assert [(one.source, one.target, one.count) for one in found] == [
        ("shop/b.py", "shop/a.py", 1), (f"{EVIL}.py", "shop/a.py", 1),
    ]  # fmt: skip
    drawn = diagram(found).splitlines()
    assert drawn[:2] == ["```mermaid", "flowchart TD"]
    assert '  subgraph g1["this change"]' in drawn
    assert "javascript:" not in "".join(drawn)


def test_many_are_told_by_folder(repo: GitRepo) -> None:
    old = {"core/a.py": "x = 1\n"}
    old |= {f"app/f{number}.py": "from core.a import x\n" for number in range(20)}
    found = dependents(sides(repo, old, {"core/a.py": "x = 2\n"}))
    assert [(one.source, one.target, one.count) for one in found] == [("app", "core", 20)]
