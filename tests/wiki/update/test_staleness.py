"""Which pages a change makes stale: those that a run would write again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.change.change_set import ChangeSet
from rlm_ci.wiki.update.staleness import renewed, stale
from rlm_ci.wiki.update.state import COMMIT, WikiState, page_changes
from testing import wiki_stage as stage

if TYPE_CHECKING:
    from pathlib import Path

    from testing.repositories.git_repo import GitRepo

ORDERS = "src/shop/orders.py"


@pytest.fixture
def first(repo: GitRepo, tmp_path: Path) -> str:
    commit = stage.commit_all(repo, stage.shop())
    stage.wiki(stage.corpus_of(repo, commit), tmp_path / "wiki", tmp_path)
    return commit


def found(repo: GitRepo, tmp_path: Path, base: str, head: str) -> dict[str, list[str]]:
    """The quotes that are gone, by page."""
    state = WikiState.read(str(tmp_path / "wiki"))
    assert state is not None
    change = ChangeSet(stage.opened(repo), "range", base, head, base)
    pages = {
        one.page: [place.quote or "" for place in one.places]
        for one in stale(state, change)
        if one.places
    }
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


def written_again(repo: GitRepo, tmp_path: Path, head: str) -> set[str]:
    """The pages that a run at ``head`` would write again."""
    state = WikiState.read(str(tmp_path / "wiki"))
    made, *_ = stage.wiki(stage.corpus_of(repo, head), tmp_path / "again", tmp_path)
    assert state is not None
    return {one.name for one in page_changes(state, made.state) if one.why != COMMIT}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("LIMIT: Final = 40", "LIMIT: Final = 60"),
        ("LIMIT: Final = 40\n", "# first\n\nLIMIT: Final = 40\n"),  # the lines move
        ("return len(self.due())", "return 3"),  # nobody cites it
        ("return len(self.due())", "due = self.due()\n        return len(due)"),  # a line more
        ("LIMIT: Final = 40\n", "LIMIT: Final = 40\n\n\ndef more(a: int) -> int:\n    return a\n"),
    ],
)
def test_they_are_the_pages_that_a_run_writes_again(
    repo: GitRepo, tmp_path: Path, first: str, old: str, new: str
) -> None:
    head = edited(repo, old, new)
    state = WikiState.read(str(tmp_path / "wiki"))
    assert state is not None
    change = ChangeSet(stage.opened(repo), "range", first, head, first)
    assert {one.page for one in stale(state, change)} == written_again(repo, tmp_path, head)


@pytest.mark.parametrize("more", ["## Adding an order\n\nIn `src/shop/orders.py`.\n", "So.\n"])
def test_a_chapter_of_a_guide_makes_stale_what_a_run_writes_again(
    repo: GitRepo, tmp_path: Path, more: str
) -> None:
    guide = "# Shop\n\n## Running it\n\nAs it is.\n"
    base = stage.commit_all(repo, stage.shop() | {"CONTRIBUTING.md": guide})
    stage.wiki(stage.corpus_of(repo, base), tmp_path / "wiki", tmp_path)
    head = stage.commit_all(repo, {"CONTRIBUTING.md": f"{guide}\n{more}"})
    state = WikiState.read(str(tmp_path / "wiki"))
    assert state is not None
    change = ChangeSet(stage.opened(repo), "range", base, head, base)
    pages = {one.page for one in stale(state, change)}
    assert pages == written_again(repo, tmp_path, head)
    assert ("index.md" in pages) == more.startswith("##")


def test_lines_that_only_move_are_still_there(repo: GitRepo, tmp_path: Path, first: str) -> None:
    limit = "LIMIT: Final = 40\n"
    head = edited(repo, limit, f"{limit.strip()}  # noqa\n\n# more\n# and more\n")
    pages = found(repo, tmp_path, first, head)
    assert pages == {"modules/src.shop.md": ["LIMIT: Final = 40"]}


def test_an_edit_of_what_nobody_cites_takes_nothing_away(
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
    every = {"facts.md", "flows.md", "index.md", "modules/src.shop.md", "modules/src.shop.oven.md"}
    assert set(pages) == every - (
        {"modules/src.shop.md"} if "modules/src.shop.md" not in pages else set()
    )
    assert "def heat(degrees: int) -> None:" in "\n".join(pages["modules/src.shop.oven.md"])


# ── a change that brings the pages, too ──

FOLDER = "docs/wiki"


def with_pages(repo: GitRepo, tmp_path: Path, commit: str) -> str:
    """A commit with the pages as they are made of ``commit``."""
    stage.wiki(stage.corpus_of(repo, commit), tmp_path / "wiki", tmp_path)
    pages = stage.texts(tmp_path / "wiki")
    repo.run("rm", "-rq", "--ignore-unmatch", FOLDER)
    return stage.commit_all(repo, {f"{FOLDER}/{name}": text for name, text in pages.items()})


def left(repo: GitRepo, base: str, head: str) -> tuple[set[str], set[str]]:
    """The pages that a change makes stale, and those of them that it does not bring."""
    change = ChangeSet(stage.opened(repo), "range", base, head, base)
    sides = [change.read(f"{FOLDER}/wiki.json", 1 << 20, old=old) for old in (True, False)]
    states = [WikiState.from_bytes(data) for data in sides if data is not None]
    assert states[0] is not None
    found = stale(states[0], change, FOLDER)
    pages = {one.page for one in found}
    return pages, pages - renewed(found, states[-1], change, FOLDER)


def test_a_change_that_brings_the_pages_makes_none_of_them_stale(
    repo: GitRepo, tmp_path: Path, first: str
) -> None:
    base = with_pages(repo, tmp_path, first)
    source = edited(repo, "LIMIT: Final = 40", "LIMIT: Final = 60")
    repo.run("rm", "-q", "src/shop/oven/control.py")
    repo.commit("cold")
    head = with_pages(repo, tmp_path, source)  # made before the oven went
    every = {"facts.md", "flows.md", "index.md", "modules/src.shop.md", "modules/src.shop.oven.md"}
    assert left(repo, base, head) == (every, every)
    assert left(repo, base, with_pages(repo, tmp_path, head)) == (every, set())


@pytest.mark.parametrize("case", ["edited page", "edited source", "no pages", "other state"])
def test_pages_that_do_not_fit_what_comes_with_them_are_stale(
    repo: GitRepo, tmp_path: Path, first: str, case: str
) -> None:
    base = with_pages(repo, tmp_path, first)
    head = edited(repo, "LIMIT: Final = 40", "LIMIT: Final = 60")
    if case != "no pages":
        head = with_pages(repo, tmp_path, head)
    if case == "edited page":
        head = repo.append(f"{FOLDER}/modules/src.shop.md", "All is well.\n").commit()
    elif case == "edited source":
        text = repo.read(ORDERS).decode()
        head = repo.write(ORDERS, text.replace("Final = 60", "Final = 80")).commit()
    elif case == "other state":
        text = repo.text("show", f"{base}:{FOLDER}/wiki.json")
        head = repo.write(f"{FOLDER}/wiki.json", text.replace('"pages": {', '"pages": { ')).commit()
    assert left(repo, base, head) == ({"modules/src.shop.md"}, {"modules/src.shop.md"})
