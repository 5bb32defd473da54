"""``rlm-ci wiki``: written, left alone, delivered: as processes, in real repositories."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from testing.loopback_github.fixture import github
from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer
from testing.pipelines_stage import Stage
from testing.repositories.git_repo import GitRepo
from testing.wiki_sentences import sentence, supports

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from testing.loopback_github.server import GitHub
    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli

__all__ = ["github", "llm"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")

SHOP = '"""Selling things."""\n\n\ndef price(net):\n    """What a thing costs."""\n    return net\n'
TILL = '"""Taking money."""\nfrom shop import price\n\n\ndef pay(net):\n    return price(net)\n'


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    repo.write("README.md", "# Shop\n\nA shop that sells.\n").write("shop/__init__.py", SHOP)
    repo.write("till/__init__.py", TILL).commit()
    yield found
    found.clean()


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@pytest.mark.full
def test_the_name_of_the_folder_changes_nothing(stage: Stage, tmp_path: Path, cli: Cli) -> None:
    made = []
    for name in ("one", "two"):
        subprocess.run(["git", "clone", "-q", stage.repo.path, tmp_path / name], check=True)
        subprocess.run(["git", "remote", "remove", "origin"], cwd=tmp_path / name, check=True)
        assert cli("wiki", "--out", "docs/wiki", cwd=tmp_path / name).code == 0
        made.append(tree(tmp_path / name / "docs" / "wiki"))
    assert made[0] == made[1]
    assert made[0]["index.md"].startswith(b"# Shop\n")


@pytest.mark.full
def test_pages_and_no_diff_where_nothing_changed(stage: Stage) -> None:
    out = stage.repo.path / "docs" / "wiki"
    ended = stage.cli("wiki", "--out", "docs/wiki")
    assert ended.code == 0, ended.stderr
    first = tree(out)
    assert ended.stderr.endswith(f"\ndocs/wiki: {len(first)} files written\n")
    assert {"index.md", "wiki.json"} < first.keys()
    assert b"What a thing costs" in b"".join(first.values())
    run_id = stage.only()
    checked = stage.cli("verify", run_id)
    assert (checked.code, "all hold" in checked.stdout) == (0, True), checked
    assert tree(stage.folder(run_id) / "rlm/artifacts/wiki") == first
    stage.repo.commit("The wiki")
    again = stage.cli("wiki", "--out", "docs/wiki")
    assert "nothing new" in again.stderr
    assert tree(out) == first
    held = stage.cli("verify", stage.ids()[-1])
    assert (held.code, held.stdout.startswith("0 ")) == (0, False), held
    stage.repo.append("till/__init__.py", "\n\ndef refund():\n    return 0\n").commit()
    third = stage.cli("wiki", "--out", "docs/wiki")
    assert third.code == 0
    assert b"refund" in b"".join(tree(out).values())
    replayed = stage.cli("replay", stage.ids()[-1], "--check")
    assert replayed.code == 0, replayed.stderr


def test_what_was_not_said_of_the_whole_is_told(stage: Stage, llm: ModelServer) -> None:
    said = sentence("Prices are net.", "shop/__init__.py", (4, 4), "def price(net):")

    def says(asked: Asked) -> Answer:
        prompt = asked.messages[-1]["content"]
        if '"unsupported"' in prompt:
            return Answer(json.dumps(supports(prompt)))
        if "rests_on" in json.dumps(asked.body):
            return Answer("no")
        return Answer(json.dumps({"sentences": [said] if "def price" in prompt else []}))

    llm.script(says)
    reach = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}
    ended = stage.cli("wiki", "--model", "m-1", "--out", "docs/wiki", env=reach)
    why = "what the model said could not be read, twice"
    assert f"about the whole: {why}" in " ".join(ended.stdout.split())
    assert "not looked at in full" not in ended.stdout
    assert "(empty)" not in ended.stdout


def test_a_page_of_somebody_else_is_not_overwritten(stage: Stage) -> None:
    docs = stage.repo.path / "docs"
    (docs / "modules").mkdir(parents=True, exist_ok=True)
    for name in ("index.md", "modules/till.md"):
        (docs / name).write_text("by hand\n")
        before = tree(docs)
        ended = stage.cli("wiki", "--out", "docs")
        assert ended.code == 5, ended.stderr
        assert f"{name} would be overwritten, but rlm-ci did not write it" in ended.stderr
        assert tree(docs) == before
        (docs / name).unlink()
    (docs / "guide.md").write_text("by hand\n")
    assert stage.cli("wiki", "--out", "docs").code == 0
    assert (docs / "guide.md").read_text() == "by hand\n"
    # A page of ours that somebody has edited is ours still, and so is one of a killed delivery.
    (docs / "index.md").write_text("edited\n")
    (docs / "modules" / "till.md").unlink()
    assert stage.cli("wiki", "--out", "docs").code == 0
    assert (docs / "index.md").read_text() != "edited\n"
    assert (docs / "modules" / "till.md").exists()


@pytest.mark.full
def test_a_language_whose_grammar_is_not_installed_is_told(stage: Stage, tmp_path: Path) -> None:
    stage.repo.write("web/a.js", "export function f() {}\n").commit()
    script = (
        "import sys; sys.modules['tree_sitter'] = None\n"
        "from rlm_ci.cli import main\n"
        "raise SystemExit(main(sys.argv[1:]))"
    )
    ended = subprocess.run(
        [sys.executable, "-I", "-c", script, "wiki", "--out", str(tmp_path / "out")],
        cwd=stage.repo, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "warning: JavaScript: counted, but not read, as grammars are not installed" in (
        ended.stderr
    )
    assert "[wiki]'" in ended.stderr
    page = (tmp_path / "out" / "facts.md").read_text()
    assert "JavaScript (1 file; its grammar was not installed)" in page
    first = (tmp_path / "out" / "index.md").read_text()
    assert "Counted, but not read: JavaScript (1 file; its grammar was not installed)." in first


@pytest.mark.full
def test_a_page_names_no_commit_but_one_of_ours(stage: Stage) -> None:
    """A change can say in wiki.json at which commit a page was made, and fit the page to it."""
    stage.repo.remote("https://github.com/acme/shop.git")
    stage.cli("wiki", "--out", "docs/wiki")
    out = stage.repo.path / "docs" / "wiki"
    ours = stage.repo.sha()
    theirs = stage.repo.text("commit-tree", "HEAD^{tree}", "-m", "somebody's")
    for forged in (theirs, "0123456789" * 4):
        record = json.loads((out / "wiki.json").read_text())
        for name, page in record["pages"].items():
            text = (out / name).read_text().replace(ours, forged)
            (out / name).write_text(text)
            page |= {"commit": forged, "sha256": hashlib.sha256(text.encode()).hexdigest()}
        (out / "wiki.json").write_text(json.dumps(record))
        stage.repo.write("notes.txt", f"{forged}\n").commit()
        assert stage.cli("wiki", "--out", "docs/wiki").code == 0
        assert forged.encode() not in b"".join(tree(out).values())
        ours = stage.repo.sha()


@pytest.mark.full
def test_pushed_to_a_branch_and_only_when_something_changed(stage: Stage, tmp_path: Path) -> None:
    bare = GitRepo(tmp_path / "up.git", bare=True)
    stage.repo.remote(f"file://{bare.path}").run("push", "-q", "origin", "main")
    push = ("wiki", "--push", "--to", "branch:wiki")  # no other than a branch
    assert "pushed" in stage.cli(*push).stderr
    first = bare.sha("wiki")
    assert bare.text("show", "wiki:index.md").startswith("# ")
    stage.repo.write("notes.txt", "no code\n").commit()
    again = stage.cli(*push)
    assert again.code == 0, again.stderr
    assert bare.sha("main") == bare.sha("main")
    stage.repo.append("shop/__init__.py", "\n\ndef gross(net):\n    return net\n").commit()
    assert "pushed" in stage.cli(*push).stderr
    assert bare.text("merge-base", first, "wiki") == first
    for name in ("../x", "HEAD", "refs/heads/x"):
        wrong = stage.cli("wiki", "--push", "--to", f"branch:{name}")
        assert (wrong.code, "there is no target" in wrong.stderr) == (5, True), name


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "folder", [".git/x", "", ".", "a/../../x", "../x", "/abs", "a//b", ".github/workflows", "a\\b"]
)
def test_a_folder_that_cannot_hold_the_wiki_is_refused(stage: Stage, folder: str) -> None:
    stage.repo.write("rlm-ci.toml", f"[wiki]\nfolder = {json.dumps(folder)}\n").commit()
    ended = stage.cli("wiki", "--out", "docs/wiki")
    assert ended.code == 5, ended
    assert "cannot be the folder of the wiki (rlm-ci.toml" in ended.stderr
    assert "hint: a path inside of the repository" in ended.stderr
    stage.repo.write("notes.txt", "more\n").commit()
    judged = stage.cli("pr", "--base", "HEAD~1", "--review", "off", "--wiki", "on")
    assert judged.code == 5, judged
    assert "cannot be the folder of the wiki" in judged.stdout + judged.stderr


def test_what_git_leaves_out_is_no_success(stage: Stage, tmp_path: Path) -> None:
    """Git drops a path that some file system would take for its own folder, and says nothing."""
    bare = GitRepo(tmp_path / "up.git", bare=True)
    stage.repo.remote(f"file://{bare.path}").run("push", "-q", "origin", "main")
    stage.repo.write("rlm-ci.toml", '[wiki]\nfolder = "git~1"\n').commit()
    ended = stage.cli("wiki", "--push")
    assert ended.code == 5, ended
    assert "git does not accept a file of that name (git~1/" in ended.stderr
    assert "rlm-ci/wiki" not in bare.text("branch", "--list")


def test_a_resumed_run_writes_outside_and_pushes_only_when_told_again(
    stage: Stage, tmp_path: Path
) -> None:
    stage.cli("wiki", "--out", str(tmp_path / "pages"))
    run_id = stage.only()
    folder = stage.folder(run_id)
    record = json.loads((folder / "manifest.json").read_text())
    record |= {"status": "in_progress", "exit_code": None, "completed_at": None}
    record["commands"] = []
    (folder / "manifest.json").write_text(json.dumps(record))
    refused = stage.cli("resume", run_id)
    assert (refused.code, "only a command line can set" in refused.stderr) == (5, True)
    assert "--out" in refused.stderr
    done = stage.cli("resume", run_id, "--out", str(tmp_path / "pages"))
    assert done.code == 0, done.stderr


def test_a_change_is_told_which_pages_go_stale(stage: Stage) -> None:
    stage.cli("wiki", "--out", "docs/wiki")
    base = stage.repo.commit("The wiki")
    text = stage.repo.read("shop/__init__.py").decode()
    stage.repo.write("shop/__init__.py", text.replace("price(net)", "price(gross)")).commit()
    out = stage.repo.path.parent / "out"
    report = stage.cli("pr", "--base", base, "--out", str(out), "--format", "json").json()
    parts = {part["id"]: part for part in report["parts"]}
    assert parts["wiki"]["metrics"]["stale"] >= 1
    stale = [one for one in report["findings"] if one["rule"] == "wiki/stale"]
    assert stale[0]["severity"] == "info"
    assert stale[0]["evidence"][0]["path"] == "shop/__init__.py"
    assert "review" in parts
    text = stage.cli("pr", "--base", base, "--out", str(out)).stdout
    assert re.search("! wiki +reported only: 2 of 4 pages stale", text)
    check = stage.cli("wiki", "--out", "docs/wiki", "--check", "--format", "json").json()
    assert parts["wiki"]["metrics"]["stale"] == len(check["findings"]) == 2
    off = stage.cli("pr", "--base", base, "--out", str(out), "--wiki", "off", "--review", "off",
                    "--format", "json").json()  # fmt: skip
    assert not {"wiki", "review"} & {part["id"] for part in off["parts"]}


@pytest.mark.full
def test_a_pull_request_is_opened_once_and_then_brought_up_to_date(
    stage: Stage, github: GitHub, tmp_path: Path
) -> None:
    bare = GitRepo(tmp_path / "up.git", bare=True)
    stage.repo.remote(f"file://{bare.path}").run("push", "-q", "origin", "main")
    github.repository("acme/shop", bare, collaborators={"ada": "write"})
    github.token("t-bot")
    env = {"GITHUB_TOKEN": "t-bot", "GITHUB_API_URL": github.url, "GITHUB_REPOSITORY": "acme/shop"}

    def refresh() -> str:
        ended = stage.cli("wiki", "--push", env=env)
        assert ended.code == 0, ended.stderr
        return ended.stderr

    assert "pull request 1: opened" in refresh()
    pulls = github.world.repositories["acme/shop"].pulls
    assert [(one.head_ref, one.base, one.state) for one in pulls.values()] == [
        ("rlm-ci/wiki", "main", "open")
    ]
    assert "| `index.md` | it is new |" in (pulls[1].body or "")
    assert "no model was asked" in (pulls[1].body or "")
    first = bare.sha("rlm-ci/wiki")
    page = bare.text("show", "rlm-ci/wiki:docs/wiki/index.md")
    assert f"/acme/shop/blob/{stage.repo.sha()}/" in page
    assert "pull request 1: unchanged" in refresh()
    assert bare.sha("rlm-ci/wiki") == first
    stage.repo.append("shop/__init__.py", "\n\ndef gross(net):\n    return net\n").commit()
    stage.repo.run("push", "-q", "origin", "main")
    assert "pull request 1: updated" in refresh()
    assert len(pulls) == 1
    assert len(github.sent("POST", "/pulls")) == 1
    stage.repo.run("fetch", "-q", "origin")
    stage.repo.run("merge", "-q", "origin/rlm-ci/wiki")
    stage.repo.run("push", "-q", "origin", "main")
    assert "nothing to push" in refresh()
    assert len(github.sent("POST", "/pulls")) == 1
    stage.repo.append("shop/__init__.py", "\n\ndef rest(net):\n    return -net\n").commit()
    stage.repo.run("push", "-q", "origin", "main")
    refresh()
    body = pulls[max(pulls)].body or ""
    assert "| `modules/shop.md` | there are new lines to cite: `shop/__init__.py` |" in body
    assert "modules/till.md" not in body


def test_a_folder_for_pages_is_relative_to_the_repository(
    stage: Stage, cli: Cli, tmp_path: Path
) -> None:
    repo = stage.repo.path
    assert cli("wiki", "-C", str(repo), "--out", "docs/wiki", cwd=tmp_path).code == 0
    assert (repo / "docs/wiki/index.md").is_file()
    assert not (tmp_path / "docs").exists()
    assert cli("wiki", "--out", "pages", cwd=repo / "shop").code == 0
    assert (repo / "pages/index.md").is_file()


def test_the_wiki_of_the_repository_itself(stage: Stage, tmp_path: Path) -> None:
    theirs = GitRepo(tmp_path / "shop.wiki")
    theirs.write("Home.md", "Welcome\n").write("Notes.md", "ours\n").commit()
    bare = GitRepo(tmp_path / "shop.wiki.git", bare=True)
    theirs.remote(bare.path).run("push", "-q", "origin", "main")
    stage.repo.remote(f"file://{tmp_path}/shop.git")
    ended = stage.cli("wiki", "--push", "--to", "wiki")
    assert ended.code == 0, ended.stderr
    names = bare.text("ls-tree", "-r", "--name-only", "main").split()
    assert "modules-shop.md" in names
    assert bare.text("show", "main:Notes.md") == "ours"
    assert bare.text("show", "main:Home.md").startswith("# Shop")
    assert bare.text("show", "main:Earlier-Home.md") == "Welcome"  # a person's, and so it stays
    assert "Home.md was there: it is now Earlier-Home.md" in ended.stderr
    again = stage.cli("wiki", "--push", "--to", "wiki")
    assert "nothing to push" in again.stderr
    theirs.run("pull", "-q", "origin", "main")
    theirs.write("Home.md", "By hand\n").commit()
    theirs.run("push", "-q", "origin", "HEAD:main")
    stage.repo.append("shop/__init__.py", "\n\ndef rest(net):\n    return -net\n").commit()
    last = stage.cli("wiki", "--push", "--to", "wiki")
    assert bare.text("show", "main:Home.md") == "By hand"
    assert "1 page that people have edited left as they are (Home.md)" in last.stderr


@pytest.mark.parametrize(
    ("name", "text", "earlier"),
    [
        ("Home.md", "Welcome to the shop wiki!\n", {}),
        ("Home.md", "", {}),
        ("home.rst", "The shop\n========\n", {"Earlier-Home.rst": "The shop\n========"}),
        ("Home.org", "* Shop\n", {"Earlier-Home.org": "* Shop"}),
    ],
)
def test_the_first_page_of_a_wiki_is_taken_over_once(
    name: str, text: str, earlier: dict[str, str], stage: Stage, tmp_path: Path
) -> None:
    theirs = GitRepo(tmp_path / "shop.wiki")
    theirs.write(name, text).commit()
    bare = GitRepo(tmp_path / "shop.wiki.git", bare=True)
    theirs.remote(bare.path).run("push", "-q", "origin", "main")
    stage.repo.remote(f"file://{tmp_path}/shop.git")
    ended = stage.cli("wiki", "--push", "--to", "wiki")
    assert ended.code == 0, ended.stderr
    names = bare.text("ls-tree", "--name-only", "main").split()
    assert [one for one in names if one.lower().startswith("home")] == ["Home.md"]
    assert bare.text("show", "main:Home.md").startswith("# Shop")
    assert {one: bare.text("show", f"main:{one}") for one in names if "Earlier" in one} == earlier
    assert (f"{name} was there" if earlier else f"{name} replaced") in ended.stderr
