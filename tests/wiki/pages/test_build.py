"""The wiki of a small shop: the same bytes everywhere, and no more work than a change makes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.git.history import GitHistory
from rlm_ci.git.repository import Repository
from rlm_ci.recursion.corpus import corpus as corpora
from rlm_ci.recursion.corpus.eligibility import EligibilityRules
from rlm_ci.resources.loader import misfit
from rlm_ci.wiki.pages.build import PageOptions
from rlm_ci.wiki.pages.citations import LinkDestination
from rlm_ci.wiki.update import refresh
from rlm_ci.wiki.update import state as states
from rlm_ci.wiki.update.state import WikiState
from testing import wiki_stage as stage

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo

EXPECTED = stage.CASES / "expected"


def test_the_shop_has_exactly_these_pages(repo: GitRepo, tmp_path: Path) -> None:
    stage.commit_all(repo, {"src/shop/orders.py": "LIMIT = 4\n", "src/shop/cli.py": "x = 1\n"})
    commit = stage.commit_all(repo, stage.shop())
    corpus = stage.corpus_of(repo, commit)
    out = tmp_path / "wiki"
    repository = stage.opened(repo)
    chronicle = GitHistory.of(repository, commit, 100)
    pages, touched, _ = stage.wiki(corpus, out, tmp_path, chronicle=chronicle)
    stage.judge(pages, corpus, out, repository)
    made = stage.texts(out)
    assert sorted(touched) == sorted(made)
    if os.environ.get("WRITE_GOLDEN"):
        shutil.rmtree(EXPECTED, ignore_errors=True)
        for name, text in made.items():
            path = EXPECTED / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    assert made == stage.texts(EXPECTED)
    assert misfit(json.loads(made["wiki.json"]), "wiki.schema.json") == ""


def test_what_the_door_of_a_package_gives_of_inner_files_is_public(
    repo: GitRepo, tmp_path: Path
) -> None:
    door = "from ._client import *\nfrom ._errors import Oops\nfrom net._far import far\n"
    files = {
        "README.md": "# Net\n\nIt gets what is far.\n",
        "src/net/__init__.py": f"{door}from ..other import x\n",
        "src/net/_client.py": '__all__ = ["get"]\n\ndef get(url): ...\n\ndef hidden(): ...\n',
        "src/net/_errors.py": "class Oops(Exception):\n    def why(self): ...\n\nclass Own: ...\n",
        "src/net/_far.py": "def far(): ...\n",
        "src/net/_own.py": "def own(): ...\n",
    }
    out = tmp_path / "wiki"
    corpus = stage.corpus_of(repo, stage.commit_all(repo, files))
    pages, _, _ = stage.wiki(corpus, out, tmp_path)
    stage.judge(pages, corpus, out, stage.opened(repo))
    page = stage.texts(out)["modules/src.net.md"]
    for shown in ("def get(url)", "class Oops(Exception)", "def why(self)", "def far()"):
        assert shown in page
    for name in ("def hidden", "class Own", "def own"):
        assert name not in page
    assert re.search(r"\| `_client.py` \| largest definition: \[`get`\]\S* \| 5 \| 1 \|", page)
    assert re.search(r"\| `_own.py` \| largest definition: \[`own`\]\S* \| 1 \| inner \|", page)


def test_an_unchanged_repository_costs_nothing_and_makes_no_difference(
    repo: GitRepo, tmp_path: Path
) -> None:
    first = stage.commit_all(repo, stage.shop())
    out = tmp_path / "wiki"
    stage.wiki(stage.corpus_of(repo, first), out, tmp_path)
    before = stage.texts(out)
    second = repo.commit("nothing")
    corpus = stage.corpus_of(repo, second)
    state = WikiState.read(str(out))
    assert state is not None
    asked = corpus.digest, stage.OPTIONS.digest(), str(out)
    cache = str(tmp_path / "cache")
    assert state.covers(*asked, cache=cache)
    assert not state.covers(*asked, cache=str(tmp_path / "none"))
    pages, touched, read = stage.wiki(corpus, out, tmp_path)
    assert (touched, read) == ((), 0)
    assert stage.texts(out) == before
    stage.judge(pages, corpus, out, stage.opened(repo))
    # A page that somebody has edited is no longer covered, and is written again.
    (out / "index.md").write_text("# Mine\n")
    assert not state.covers(*asked, cache=cache)
    _, touched, read = stage.wiki(corpus, out, tmp_path)
    assert (touched, read) == (("index.md", "wiki.json"), 0)


def test_a_change_rewrites_the_pages_that_say_something_else(repo: GitRepo, tmp_path: Path) -> None:
    files = stage.shop()
    first = stage.commit_all(repo, files)
    out = tmp_path / "wiki"
    stage.wiki(stage.corpus_of(repo, first), out, tmp_path)
    # What it does not cite may change: the page of the oven stays, to the byte, at its old commit.
    oven = "src/shop/oven/control.py"
    text = files[oven].replace("        line.sendall", "        line.send")
    second = stage.commit_all(repo, {oven: text})
    corpus = stage.corpus_of(repo, second)
    pages, touched, read = stage.wiki(corpus, out, tmp_path)
    assert (touched, read) == (("flows.md", "wiki.json"), 1)
    stage.judge(pages, corpus, out, stage.opened(repo))
    third = stage.commit_all(repo, {oven: text.replace("Heats the oven", "Cools the oven")})
    corpus = stage.corpus_of(repo, third)
    pages, touched, read = stage.wiki(corpus, out, tmp_path)
    assert (touched, read) == (("index.md", "facts.md", "modules/src.shop.oven.md", "wiki.json"), 1)
    made = (out / "modules/src.shop.oven.md").read_text(encoding="utf-8")
    assert "Cools the oven" in made
    assert third in made
    assert first in (out / "modules/src.shop.md").read_text(encoding="utf-8")
    stage.judge(pages, corpus, out, stage.opened(repo))


def test_a_page_of_what_is_gone_goes_and_strangers_stay(repo: GitRepo, tmp_path: Path) -> None:
    first = stage.commit_all(repo, stage.shop())
    out = tmp_path / "wiki"
    stage.wiki(stage.corpus_of(repo, first), out, tmp_path)
    (out / "modules" / "by-hand.md").write_text("# Mine\n")
    repo.run("rm", "-r", "-q", "src/web")
    corpus = stage.corpus_of(repo, repo.commit("no web"))
    _, touched, _ = stage.wiki(corpus, out, tmp_path)
    assert set(touched) == {"facts.md", "index.md", "modules/src.web.md", "wiki.json"}
    assert not (out / "modules" / "src.web.md").exists()
    assert (out / "modules" / "by-hand.md").read_text() == "# Mine\n"


def test_what_was_read_without_the_grammars_is_read_again_with_them(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, stage.shop()))
    out = tmp_path / "wiki"
    with monkeypatch.context() as without:
        for module in (refresh, states):
            without.setattr(module, "readers", lambda: "none of them")
        stage.wiki(corpus, out, tmp_path)
        state = WikiState.read(str(out))
        assert state is not None
        asked = corpus.digest, stage.OPTIONS.digest(), str(out)
        assert state.covers(*asked, cache=str(tmp_path / "cache"))
    assert not state.covers(*asked, cache=str(tmp_path / "cache"))
    _, _, read = stage.wiki(corpus, out, tmp_path)
    assert read == len(corpus.files)


def test_a_state_that_a_change_brings_is_not_believed(repo: GitRepo, tmp_path: Path) -> None:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, stage.shop()))
    out = tmp_path / "wiki"
    stage.wiki(corpus, out, tmp_path)
    honest = stage.texts(out)
    page = out / "modules" / "src.web.md"
    page.write_text("# Mine <img src=x onerror=alert(1)>\n")
    record = json.loads((out / "wiki.json").read_text())
    mark = hashlib.sha256(page.read_bytes()).hexdigest()
    record["pages"]["modules/src.web.md"]["sha256"] = mark
    (out / "wiki.json").write_text(json.dumps(record))
    state = WikiState.read(str(out))
    assert state is not None
    asked = corpus.digest, stage.OPTIONS.digest(), str(out)
    assert not state.covers(*asked, cache=str(tmp_path / "cache"))
    stage.wiki(corpus, out, tmp_path)
    assert stage.texts(out) == honest


def test_nothing_is_removed_or_written_but_our_own(repo: GitRepo, tmp_path: Path) -> None:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, stage.shop()))
    out = tmp_path / "wiki"
    stage.wiki(corpus, out, tmp_path)
    record = json.loads((out / "wiki.json").read_text())
    record["pages"]["modules/other.md"] = record["pages"]["modules/src.web.md"]
    (out / "wiki.json").write_text(json.dumps(record))
    (out / "modules" / "other.md").write_text("# A person's\n")
    stage.wiki(corpus, out, tmp_path)
    assert (out / "modules" / "other.md").read_text() == "# A person's\n"
    elsewhere = tmp_path / "elsewhere"
    (out / "modules").rename(elsewhere)
    (out / "modules").symlink_to(elsewhere)
    before = stage.texts(elsewhere)
    with pytest.raises(ConfigError, match="through a link"):
        stage.wiki(corpus, out, tmp_path)
    assert stage.texts(elsewhere) == before


def test_a_damaged_cache_is_as_good_as_none(repo: GitRepo, tmp_path: Path) -> None:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, stage.shop()))
    out = tmp_path / "wiki"
    stage.wiki(corpus, out, tmp_path)
    before = stage.texts(out)
    kept = tmp_path / "cache" / "facts.txt"
    rows = kept.read_text().splitlines()
    kept.write_text("\n".join([rows[0][:-9], rows[1][:40], *rows[3:]]) + "\nxx\n\0")
    _, touched, read = stage.wiki(corpus, out, tmp_path)
    assert touched == ()
    assert read == 3
    assert stage.texts(out) == before


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"version": 8}', '{"version": 8, "tree": 3}', "[" * 100_000],
)
def test_a_state_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "wiki.json").write_text(text)
    with pytest.raises(DamagedError) as caught:
        WikiState.read(str(tmp_path))
    assert caught.value.hint


def test_a_state_cannot_name_a_page_outside_of_its_folder(repo: GitRepo, tmp_path: Path) -> None:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, stage.shop()))
    out = tmp_path / "wiki"
    stage.wiki(corpus, out, tmp_path)
    record = json.loads((out / "wiki.json").read_text())
    record["pages"]["../../precious.md"] = record["pages"].pop("index.md")
    (out / "wiki.json").write_text(json.dumps(record))
    with pytest.raises(DamagedError):
        WikiState.read(str(out))
    record["pages"]["index.md"] = record["pages"].pop("../../precious.md")
    record["pages"]["index.md"]["commit"] = "main) <img src=x>"
    (out / "wiki.json").write_text(json.dumps(record))
    with pytest.raises(DamagedError):
        WikiState.read(str(out))
    record["version"] = 1
    (out / "wiki.json").write_text(json.dumps(record))
    assert WikiState.read(str(out)) is None


def test_a_folder_outside_of_git_has_links_to_its_files(tmp_path: Path) -> None:
    top = tmp_path / "top"
    for path, text in stage.shop().items():
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)
    corpus = corpora.in_folder(str(top), EligibilityRules())
    out = top / "docs" / "wiki"
    options = PageOptions("shop", LinkDestination("https://github.com", "acme/shop", base="../.."))
    pages, _, _ = stage.wiki(corpus, out, tmp_path, options=options)
    for page in pages.pages:
        for path, _, _ in stage.sources(page.text):
            assert (top / path).is_file()
    assert "](../../README.md#L5-L6)" in pages.pages[0].text
    stage.judge(pages, corpus, out, Repository(str(top), None, {}))


def test_where_nothing_can_be_linked_places_are_told_all_the_same(
    repo: GitRepo, tmp_path: Path
) -> None:
    corpus = stage.corpus_of(repo, stage.commit_all(repo, stage.shop()))
    options = PageOptions("shop", LinkDestination(base=""))
    pages, _, _ = stage.wiki(corpus, tmp_path / "wiki", tmp_path, options=options)
    for page in pages.pages:
        assert stage.sources(page.text) == set()
        assert page.evidence
    assert "\n`README.md#L5-L6`\n" in pages.pages[0].text


@pytest.mark.full
def test_what_is_sliced_for_the_recursion_is_whole_on_the_page(
    repo: GitRepo, tmp_path: Path
) -> None:
    body = "\n".join(
        f'def step_{number}(a: int) -> int:\n    """Step {number} of the way."""\n    return a\n\n'
        for number in range(6_000)
    )
    files = {"long/way.py": f'"""A long way."""\n\n{body}', "long/other.py": "def one(): ...\n"}
    corpus = stage.corpus_of(repo, stage.commit_all(repo, files))
    pages, _, _ = stage.wiki(corpus, tmp_path / "wiki", tmp_path)
    stage.judge(pages, corpus, tmp_path / "wiki", stage.opened(repo))
    text = next(page.text for page in pages.pages if "way" in page.name)
    assert "A long way" in text
    facts = next(page.text for page in pages.pages if page.name == "facts.md")
    assert "6,000" in facts or "6000" in facts


def test_an_empty_repository_has_a_first_page(repo: GitRepo, tmp_path: Path) -> None:
    repo.write("notes.txt", "nothing of note\n")
    corpus = stage.corpus_of(repo, repo.commit("notes"))
    pages, _, _ = stage.wiki(corpus, tmp_path / "wiki", tmp_path)
    assert [page.name for page in pages.pages] == ["index.md", "facts.md"]
    assert "## Languages" in pages.pages[1].text


@pytest.mark.full
@pytest.mark.parametrize("package", ["jinja2", "requests", "github", "jsonschema", "mypy"])
def test_real_packages_have_wikis_in_which_everything_holds(package: str, tmp_path: Path) -> None:
    found = subprocess.run(
        [sys.executable, "-c", f"import {package}; print({package}.__path__[0])"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    corpus = corpora.in_folder(
        found, EligibilityRules(exclude=("**/__pycache__/**", "typeshed/**"))
    )
    out = tmp_path / "wiki"
    options = PageOptions(package, LinkDestination(base=".."))
    pages, _, _ = stage.wiki(corpus, out, tmp_path, options=options)
    stage.judge(pages, corpus, out, Repository(found, None, {}))
    assert len(pages.pages) > 1
