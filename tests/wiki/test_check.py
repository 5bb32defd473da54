"""Which pages are stale and why: ``wiki --check``, ``pr`` and a run say the same."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rlm_ci.wiki.update.state import CITED, COMMIT, EDITED, GONE, MISSING, MORE, MOVED, NEW, OPTIONS
from testing.pipelines_stage import Stage
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from testing.program import Cli, Ended

    Edit = Callable[[GitRepo], object]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")

SHOP = '"""Selling things."""\n\n\ndef price(net):\n    """What a thing costs."""\n    return net\n'
TILL = '"""Taking money."""\nfrom shop import price\n\n\ndef pay(net):\n    return price(net)\n'
PAGE = "docs/wiki/modules/shop.md"


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    repo.write("README.md", "# Shop\n\nA shop that sells.\n").write("shop/__init__.py", SHOP)
    repo.write("till/__init__.py", TILL).commit()
    assert found.cli("wiki", "--out", "docs/wiki").code == 0
    repo.commit("The wiki")
    shutil.rmtree(repo.path / ".runs")  # as in CI
    yield found
    found.clean()


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found
            if ".git" not in path.relative_to(folder).parts}  # fmt: skip


def told(ended: Ended) -> dict[str, str]:
    """The reasons by page."""
    heads = (one["message"].partition(" is stale: ") for one in ended.json()["findings"])
    return {page.removeprefix("the wiki's page "): why for page, _, why in heads}


def of_change(stage: Stage, base: str) -> tuple[dict[str, str], str]:
    """What ``pr`` says of the change since ``base``: the reasons by page, and its summary."""
    out = str(stage.repo.path.parent / "out")
    ended = stage.cli("pr", "--base", base, "--review", "off", "--out", out, "--format", "json")
    report = ended.json()
    found = [one for one in report["findings"] if one["rule"] == "wiki/stale"]
    assert {one["severity"] for one in found} <= {"info"}
    heads = (one["message"].partition(" is stale: ") for one in found)
    [part] = [part for part in report["parts"] if part["id"] == "wiki"]
    pages = {page.removeprefix("the wiki's page "): why for page, _, why in heads}
    return pages, part["summary"]


def edited(path: str, old: str, new: str) -> Edit:
    return lambda repo: repo.write(path, repo.read(path).decode().replace(old, new))


def removed(path: str) -> Edit:
    return lambda repo: (repo.path / path).unlink()


def forged(repo: GitRepo) -> None:
    """A page with other words, and a state that fits them."""
    edited(PAGE, "What a thing costs", "What nothing costs")(repo)
    record = json.loads(repo.read("docs/wiki/wiki.json"))
    digest = hashlib.sha256(repo.read(PAGE)).hexdigest()
    record["pages"]["modules/shop.md"]["sha256"] = digest
    repo.write("docs/wiki/wiki.json", json.dumps(record))


#: What was done to a repository with a wiki, a page that is then stale, and why.
EDITS: dict[str, tuple[Edit, str, str]] = {
    "moved lines": (
        edited("shop/__init__.py", "\n\n\ndef", "\n\n# Net.\n\n\ndef"),
        "modules/shop.md",
        f"{MOVED}: shop/__init__.py",
    ),
    "a signature": (
        edited("shop/__init__.py", "(net)", "(net, rate)"),
        "modules/shop.md",
        f"{CITED}: shop/__init__.py",
    ),
    "a function more": (
        lambda repo: repo.append("shop/__init__.py", "\n\ndef gross(net):\n    return net\n"),
        "modules/shop.md",
        f"{MORE}: shop/__init__.py",
    ),
    "a file less": (
        removed("till/__init__.py"), "modules/till.md", f"{GONE}: till/__init__.py",
    ),
    "a module more": (
        lambda repo: repo.write("desk/__init__.py", SHOP), "modules/desk.md", NEW,
    ),
    "a page by hand": (edited(PAGE, "Selling", "Giving away"), "modules/shop.md", EDITED),
    "a forged state": (forged, "modules/shop.md", EDITED),
    "a page less": (removed(PAGE), "modules/shop.md", MISSING),
}  # fmt: skip


def test_pages_that_fit_pass_and_nothing_is_written(stage: Stage) -> None:
    stage.repo.write("build/notes.bin", "\0").run("commit", "-q", "--allow-empty", "-m", "More")
    before = files(stage.repo.path)
    ended = stage.cli("wiki", "--check")
    assert ended.code == 0, ended
    assert "4 pages, none stale in docs/wiki" in " ".join(ended.stdout.split())
    assert "Up to date: 4 pages" in ended.stdout
    assert "Written" not in ended.stdout
    assert files(stage.repo.path) == before
    out = stage.cli("wiki", "--check", "--out", "docs/wiki", "--quiet")
    assert (out.code, out.stderr) == (0, "")


@pytest.mark.sample(1)
@pytest.mark.sample(4)
@pytest.mark.parametrize("name", EDITS)
def test_a_stale_page_is_named_with_the_reason(stage: Stage, name: str) -> None:
    edit, page, why = EDITS[name]
    base = stage.repo.sha()
    edit(stage.repo)
    stage.repo.commit(name)
    before = files(stage.repo.path)
    ended = stage.cli("wiki", "--check", "--format", "json", env={"RLM_CI_MODEL": "m-1"})
    assert ended.code == 1, ended
    assert told(ended)[page] == why
    if why.startswith((CITED, MORE)):  # the lines that the page does not cite yet
        [found] = [one for one in ended.json()["findings"] if one["subject"] == page]
        assert found["evidence"][0]["quote"].startswith("def ")
    assert files(stage.repo.path) == before
    # ``pr`` says the same of the change, and a run writes or removes just these pages, and says how
    # many; that of facts also tells of new commits.
    stale = told(ended)
    assert of_change(stage, base)[0] == stale
    pages = files(stage.repo.path / "docs/wiki")
    written = stage.cli("wiki", "--out", "docs/wiki", "--format", "json")
    assert written.code == 0, written
    now = files(stage.repo.path / "docs/wiki")
    others = {page for page in pages | now if pages.get(page) != now.get(page)} - {"wiki.json"}
    assert others - {"facts.md"} == stale.keys() - {"facts.md"}
    assert written.json()["parts"][0]["metrics"]["new"] == len(others)
    # It passes once they are written.
    stage.repo.commit("The wiki again")
    again = stage.cli("wiki", "--check", "--format", "json")
    assert (again.code, told(again)) == (0, {})


def test_a_commit_that_is_not_in_the_history_is_stale(stage: Stage) -> None:
    stage.repo.remote("https://github.com/acme/shop.git")
    other = stage.cli("wiki", "--check", "--format", "json")
    assert (other.code, told(other)["modules/shop.md"]) == (1, OPTIONS)
    assert stage.cli("wiki", "--out", "docs/wiki").code == 0
    ours = stage.repo.commit("Links")
    assert stage.cli("wiki", "--check").code == 0
    named = stage.repo.text("rev-parse", f"{ours}~1")
    for name in ("index.md", "modules/shop.md", "wiki.json"):
        edited(f"docs/wiki/{name}", named, "0123456789" * 4)(stage.repo)
    stage.repo.commit("Forged")
    ended = stage.cli("wiki", "--check", "--format", "json")
    assert ended.code == 1
    assert told(ended)["modules/shop.md"] == COMMIT


def test_what_cannot_be_checked_is_no_pass(stage: Stage, cli: Cli, tmp_path: Path) -> None:
    for flags, code, words in (
        (("--push",), 2, "--check writes nothing, and --push does"),
        (("--site", "site"), 2, "--check writes nothing, and --site does"),
        (("--out", "docs/other"), 5, "there is no wiki to check"),
    ):
        ended = stage.cli("wiki", "--check", *flags)
        assert (ended.code, words in ended.stderr) == (code, True), ended
    background = stage.cli("start", "wiki", "--check")
    assert (background.code, stage.ids()) == (2, [])
    address = f"file://{stage.repo.path}"
    clone = ["git", "clone", "-q", "--depth", "1", address, str(tmp_path / "one")]
    subprocess.run(clone, check=True)
    ended = cli("wiki", "--check", cwd=tmp_path / "one")
    assert (ended.code, "fetch-depth: 0" in ended.stderr) == (5, True), ended
    stage.repo.write("docs/wiki/wiki.json", "{").commit()
    assert stage.cli("wiki", "--check").code == 6


def test_what_was_stale_before_is_not_blamed_on_a_change(stage: Stage) -> None:
    edited("shop/__init__.py", "(net)", "(net, rate)")(stage.repo)
    base = stage.repo.commit("A rate")
    stage.repo.append("till/__init__.py", "\n\ndef give(net):\n    return net\n").commit()
    pages, summary = of_change(stage, base)
    assert "modules/till.md" in pages
    assert "modules/shop.md" not in pages
    assert "; 1 other stale before the change" in summary


def test_a_change_that_brings_the_pages_makes_none_of_them_stale(stage: Stage) -> None:
    base = stage.repo.sha()
    edited("shop/__init__.py", "(net)", "(net, rate)")(stage.repo)
    stage.repo.commit("A rate")
    assert stage.cli("wiki", "--out", "docs/wiki").code == 0
    stage.repo.commit("The wiki again")
    assert of_change(stage, base) == ({}, "4 pages, none stale")
    edited(PAGE, "Selling", "Giving away")(stage.repo)
    stage.repo.commit("By hand")
    assert of_change(stage, base)[0] == {"modules/shop.md": EDITED}


def test_what_pr_cannot_compare_is_said(stage: Stage) -> None:
    base = stage.repo.sha()
    edited("shop/__init__.py", "(net)", "(net, rate)")(stage.repo)
    stage.repo.commit("A rate")
    stage.repo.remote("https://github.com/acme/shop.git")
    assert of_change(stage, base) == ({}, f"not compared: {OPTIONS}, or by another version")
    stage.repo.run("rm", "-rq", "docs/wiki")
    stage.repo.commit("No wiki")
    assert of_change(stage, base) == ({}, "the change removes the wiki")


def test_pr_compares_no_pages_in_a_shallow_clone(stage: Stage, tmp_path: Path) -> None:
    base = stage.repo.sha()
    for number in range(3):  # so often that the page of facts tells of it
        stage.repo.append("shop/__init__.py", f"# {number}\n").commit()
    assert stage.cli("wiki", "--out", "docs/wiki").code == 0
    shutil.rmtree(stage.repo.path / ".runs")
    stage.repo.commit("The wiki again")
    assert of_change(stage, base) == ({}, "4 pages, none stale")
    address = f"file://{stage.repo.path}"
    clone = ["git", "clone", "-q", "--depth", "5", address, str(tmp_path / "five")]
    subprocess.run(clone, check=True)
    stage.repo = GitRepo(tmp_path / "five")
    stage.repo.run("remote", "remove", "origin")
    pages, summary = of_change(stage, base)
    assert pages == {}
    assert summary.startswith("not compared: the clone is shallow")
    assert "fetch-depth: 0" in summary
    ended = stage.cli("pr", "--base", base, "--review", "off")
    assert "– wiki" in ended.stdout, "no tick, and it is listed"
