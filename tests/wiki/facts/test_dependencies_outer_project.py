"""The wiki of one folder: the rest of the repository is known by its names, and no stranger."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.recursion.corpus import corpus as corpora
from rlm_ci.recursion.corpus.eligibility import EligibilityRules
from rlm_ci.wiki.facts import dependencies
from rlm_ci.wiki.facts.dependencies import OuterProject
from testing import wiki_stage as stage

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

LOCK = """\
import requests
import shop.money
from shop.orders import Orders


def unlock(orders: Orders) -> int:
    return shop.money.sum_of(orders)
"""
FILES = {
    "pyproject.toml": '[project]\nname = "shop"\ndependencies = ["requests>=2", "rich"]\n',
    "shop/__init__.py": "",
    "shop/orders.py": "from shop.safe.lock import unlock\n\n\nclass Orders:\n    pass\n",
    "shop/money.py": "def sum_of(orders: list[int]) -> int:\n    return 0\n",
    "shop/safe/__init__.py": "",
    "shop/safe/lock.py": LOCK,
    "shop/safe/inner/__init__.py": "",
    "shop/safe/inner/bolt.py": "import left_pad\nfrom shop.safe.lock import unlock\nA = B = 1\n",
    "web/packages/a/package.json": '{"name": "@shop/a", "dependencies": {"left": "1"}}',
    "web/packages/a/index.js": "import b from '@shop/b'\nimport left from 'left'\nexport let a",
    "web/packages/b/package.json": '{"name": "@shop/b", "main": "./lib/b.js"}',
    "web/packages/b/lib/b.js": "export default 1\n",
}


def pages(repo: GitRepo, tmp_path: Path, under: str, *, on_disk: bool = False) -> dict[str, str]:
    for path, text in FILES.items():
        repo.write(path, text)
    commit = repo.commit()
    opened = stage.opened(repo)
    if on_disk:
        corpus = corpora.in_worktree(opened, EligibilityRules(), under)
        found = OuterProject.on_disk(opened, dependencies.listed(opened), under)
    else:
        corpus = corpora.at_commit(opened, commit, EligibilityRules(), under)
        found = OuterProject.at_commit(opened, commit, under)
    options = stage.OPTIONS.replace(outside=found)
    made, _, _ = stage.wiki(corpus, tmp_path / "wiki", tmp_path, options=options)
    stage.judge(made, corpus, tmp_path / "wiki", opened)
    again, touched, _ = stage.wiki(corpus, tmp_path / "wiki", tmp_path, options=options)
    assert touched == ()
    assert again.state == made.state
    return {page.name: page.text for page in made.pages}


@pytest.mark.parametrize("on_disk", [False, True])
def test_the_repositorys_own_names_are_no_packages(
    repo: GitRepo, tmp_path: Path, on_disk: bool
) -> None:
    found = pages(repo, tmp_path, "shop/safe", on_disk=on_disk)
    index = found["facts.md"]
    assert "| `requests` | 1 | yes |" in index
    assert "| `left_pad` | 1 |  |" in index
    assert "`shop`" not in index
    page = found["modules/shop.safe.md"]
    assert "From elsewhere in the repository: `shop/money.py` [" in page
    assert "`shop/orders.py` [" in page


def test_who_uses_it_is_not_stated_where_nobody_looked(repo: GitRepo, tmp_path: Path) -> None:
    made = pages(repo, tmp_path, "shop/safe")
    index = made["facts.md"]
    assert "| used by |" not in index
    assert "Only this folder was read" in made["index.md"]
    assert "rich" not in index  # somebody else may import it


def test_a_package_of_the_same_repository_is_none_of_others(repo: GitRepo, tmp_path: Path) -> None:
    found = pages(repo, tmp_path, "web/packages/a")
    assert "| `left` | 1 | yes |" in found["facts.md"]
    assert "@shop/b" not in found["facts.md"]
    page = found["modules/web.packages.a.md"]
    assert "From elsewhere in the repository: `web/packages/b/lib/b.js` [" in page


def test_what_stands_around_is_a_part_of_the_options(repo: GitRepo, tmp_path: Path) -> None:
    pages(repo, tmp_path, "shop/safe")
    opened = stage.opened(repo)
    before = OuterProject.at_commit(opened, repo.sha(), "shop/safe")
    assert before == OuterProject.on_disk(opened, dependencies.listed(opened), "shop/safe")
    repo.write("pyproject.toml", FILES["pyproject.toml"].replace("rich", "poor"))
    after = OuterProject.at_commit(opened, repo.commit(), "shop/safe")
    assert before.digest() != after.digest()
    assert after.needed() == {"requests", "poor"}
    assert stage.OPTIONS.replace(outside=after).digest() != stage.OPTIONS.digest()
