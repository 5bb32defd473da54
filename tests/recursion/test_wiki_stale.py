"""Which pages a change makes stale: those that cite lines which it takes away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from recursion import wiki_stage as stage

from rlm_ci.changes import ChangeSet
from rlm_ci.recursion.wiki.staleness import stale
from rlm_ci.recursion.wiki.state import State

if TYPE_CHECKING:
    from pathlib import Path

    from histories import GitRepo

ORDERS = "src/shop/orders.py"


@pytest.fixture
def first(repo: GitRepo, tmp_path: Path) -> str:
    commit = stage.commit_all(repo, stage.shop())
    stage.wiki(stage.corpus_of(repo, commit), tmp_path / "wiki", tmp_path)
    return commit


def found(repo: GitRepo, tmp_path: Path, base: str, head: str) -> dict[str, list[str]]:
    """The quotes that are gone, by page."""
    state = State.read(str(tmp_path / "wiki"))
    assert state is not None
    change = ChangeSet(stage.opened(repo), "range", base, head, base)
    pages = {one.page: [place.quote or "" for place in one.places] for one in stale(state, change)}
    for one in stale(state, change):
        for place in one.places:
            content = change.read(place.path, 1 << 20, old=True)
            assert content is not None
            if place.line_start and place.line_end:
                lines = content.decode().split("\n")[place.line_start - 1 : place.line_end]
                assert "\n".join(lines) == place.quote
    return pages


def edited(repo: GitRepo, old: str, new: str) -> str:
    text = stage.shop()[ORDERS]
    assert old in text
    return stage.commit_all(repo, {ORDERS: text.replace(old, new)})


def test_an_edit_of_a_cited_line_names_the_page(repo: GitRepo, tmp_path: Path, first: str) -> None:
    head = edited(repo, "LIMIT: Final = 40", "LIMIT: Final = 60")
    pages = found(repo, tmp_path, first, head)
    assert pages == {"modules/src.shop.md": ["LIMIT: Final = 40"]}


def test_lines_that_only_move_make_nothing_stale(repo: GitRepo, tmp_path: Path, first: str) -> None:
    head = edited(repo, "import pickle\n", "import pickle  # noqa\n\n# more\n# and more\n")
    pages = found(repo, tmp_path, first, head)
    assert pages == {"modules/src.shop.md": ["import pickle"]}


def test_an_edit_of_what_nobody_cites_makes_nothing_stale(
    repo: GitRepo, tmp_path: Path, first: str
) -> None:
    head = edited(repo, "return len(self.due())", "return 3")
    assert found(repo, tmp_path, first, head) == {}


def test_what_was_stale_before_is_not_blamed_on_the_change(
    repo: GitRepo, tmp_path: Path, first: str
) -> None:
    base = edited(repo, "LIMIT: Final = 40", "LIMIT: Final = 60")
    head = edited(repo, "LIMIT: Final = 40", "LIMIT: Final = 80")
    assert first != base
    assert found(repo, tmp_path, base, head) == {}


def test_a_file_with_another_name_makes_its_pages_stale(
    repo: GitRepo, tmp_path: Path, first: str
) -> None:
    repo.run("mv", "src/shop/oven/control.py", "src/shop/oven/heater.py")
    pages = found(repo, tmp_path, first, repo.commit("another name"))
    assert "def heat(degrees: int) -> None:" in "\n".join(pages["modules/src.shop.oven.md"])


def test_a_removed_file_makes_its_pages_stale(repo: GitRepo, tmp_path: Path, first: str) -> None:
    repo.run("rm", "-q", "src/shop/oven/control.py")
    head = repo.commit("cold")
    pages = found(repo, tmp_path, first, head)
    assert set(pages) == {"index.md", "modules/src.shop.md", "modules/src.shop.oven.md"} - (
        {"modules/src.shop.md"} if "modules/src.shop.md" not in pages else set()
    )
    assert "def heat(degrees: int) -> None:" in "\n".join(pages["modules/src.shop.oven.md"])
