"""Open pull requests of a loopback GitHub, with a real remote, compared from one fetch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci import cli as program
from rlm_ci import errors
from rlm_ci.github import session
from rlm_ci.github.api.client import GitHubClient, RequestLimits
from testing.loopback_github.events import Events
from testing.loopback_github.server import GitHub
from testing.open_branches import FILES, PARSE, Branches
from testing.repositories.events import actions_environment
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from rlm_ci.github.session import Access

NAME = "acme/shop"
QUICK = RequestLimits(pause=0.0, seconds=10.0, timeout=10.0)
USE = "from shop.text import parse\n\n\ndef read():\n    return parse('a b')\n"
CONFIG = 'checks = ["diff-budget"]\n[together]\nenabled = true\n'


@dataclass
class Stage:
    """A repository on GitHub with its pull requests, and a clone that has main alone."""

    github: GitHub
    author: Branches
    remote: GitRepo
    clone: GitRepo
    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capture: pytest.CaptureFixture[str]
    errors: str = ""

    def pull(self, number: int, files: dict[str, Any], message: str = "Work", **more: Any) -> None:
        """A pull request, as a push and a form make it."""
        self.author.branch(f"b{number}", files)
        self.opened(number, f"b{number}", title=message, **more)

    def opened(self, number: int, branch: str, **more: Any) -> None:
        ref = f"{branch}:refs/pull/{number}/head"
        self.author.repo.run("push", "-q", str(self.remote.path), "main", ref)
        self.github.pull(NAME, number, head=branch, **more)

    def run(self, *args: str, **env: str) -> tuple[int, dict[str, Any]]:
        """The exit code and the report of a command in the clone."""
        variables = {"GITHUB_API_URL": self.github.url, "GITHUB_REPOSITORY": NAME,
                     "GITHUB_TOKEN": "t-bot", "NO_COLOR": "1"}  # fmt: skip
        with self.monkeypatch.context() as patch:
            for name, value in {**variables, **env}.items():
                patch.setenv(name, value)
            patch.chdir(self.clone.path)
            self.capture.readouterr()
            code = program.main([*args, "--format", "json"])
        output = self.capture.readouterr()
        self.errors = output.err
        return code, json.loads(output.out) if output.out else {}

    def together(self, *args: str, **env: str) -> tuple[int, dict[str, Any]]:
        return self.run("together", "--base", "main", *args, **env)


def messages(report: dict[str, Any]) -> list[str]:
    return [f"{row['rule']}: {row['message']}" for row in report["findings"]]


@pytest.fixture
def stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Iterator[Stage]:
    author = Branches(GitRepo(tmp_path / "author"), {**FILES, "rlm-ci.toml": CONFIG})
    remote = author.repo.clone(tmp_path / "shop.git", bare=True)
    clone = remote.clone(tmp_path / "clone")
    clients: list[GitHubClient] = []

    def quick(access: Access) -> GitHubClient:
        clients.append(GitHubClient(access.token, access.api_url, QUICK))
        return clients[-1]

    monkeypatch.setattr(session, "client", quick)
    with GitHub() as github:
        github.repository(NAME, author.repo, collaborators={"ada": "write"})
        github.token("t-bot")
        yield Stage(github, author, remote, clone, tmp_path, monkeypatch, capfd)
        for client in clients:
            client.close()
    assert not github.unexpected(), "\n".join(github.unexpected())


def test_two_pull_requests_that_break_together(stage: Stage) -> None:
    stage.pull(3, {"shop/text.py": "import re\n"}, "Fix #9", body="")
    stage.pull(4, {"shop/read.py": USE}, body="Closes acme/shop#9 and\ncloses other/shop#3")
    stage.pull(5, {"README.md": "x\n"}, body="closes other/shop#9")
    code, report = stage.together()
    assert messages(report) == [
        (
            "together/removed: #3 removes `parse` (shop/text.py:4), which #4 uses in new lines "
            "(shop/read.py:5)"
        ),
        "together/same-issue: #3 and #4 both close #9",
    ]
    assert code == errors.FINDINGS
    (part,) = report["parts"]
    assert part["summary"] == "3 changes of main compared in 3 pairs"
    assert part["metrics"]["not_looked_at"] == 0
    assert report["subject"]["base"] == stage.author.repo.sha("main")
    assert not stage.github.writes


def test_one_fetch_brings_all_and_leaves_no_ref(stage: Stage) -> None:
    for number in range(3, 8):
        stage.pull(number, {f"shop/m{number}.py": f"x = {number}\n"})
    trace = stage.folder / "trace"
    before = stage.clone.text("for-each-ref")
    stage.monkeypatch.setenv("GIT_TRACE2", str(trace))
    config = stage.folder / "gitconfig"  # variables of git do not reach it; its configuration does
    config.write_text(f"[trace2]\n\tnormalTarget = {trace}\n")
    code, report = stage.together(GIT_CONFIG_GLOBAL=str(config))
    assert (code, report["findings"]) == (0, [])
    starts = [line for line in trace.read_text().split("\n") if " start " in line]
    assert sum(" fetch " in line for line in starts) == 1
    assert sum(" ls-remote " in line for line in starts) == 1
    assert not any(" checkout " in line or " merge " in line for line in starts)
    assert stage.clone.text("for-each-ref") == before


def test_a_fork_that_is_gone_a_draft_and_another_base(stage: Stage) -> None:
    stage.pull(3, {"shop/text.py": "import re\n"}, head_repository=None)
    stage.pull(4, {"shop/read.py": USE}, draft=True)
    stage.author.repo.branch("stable", "main")
    stage.pull(5, {"shop/other.py": USE}, base="stable")
    code, report = stage.together()
    (finding,) = report["findings"]
    assert finding["rule"] == "together/removed"
    assert finding["severity"] == "medium", "a draft may still change"
    assert code == 0
    assert report["parts"][0]["metrics"]["changes"] == 2


def test_a_head_that_the_remote_lacks_is_said(stage: Stage) -> None:
    stage.pull(3, {"a.md": "1\n"})
    stage.pull(4, {"b.md": "1\n"})
    stage.remote.run("update-ref", "-d", "refs/pull/4/head")
    code, report = stage.together()
    assert code == errors.LIMIT
    assert report["verdict"] == "incomplete"
    assert "1 not looked at: #4 (the remote does not have its head)" in (
        report["parts"][0]["summary"]
    )  # fmt: skip


def test_a_shallow_clone_looks_at_nothing_and_says_how_to_go_on(stage: Stage) -> None:
    stage.author.repo.write("shop/more.py", "x = 1\n").commit("More")
    for number in (3, 4):
        stage.pull(number, {f"{number}.md": "1\n"})
        stage.author.repo.checkout(f"b{number}").write("again.md", "1\n").commit("Again")
        stage.author.repo.checkout("main")
    stage.author.repo.write("shop/late.py", "x = 1\n").commit("The base goes on")
    stage.author.repo.run("push", "-q", str(stage.remote.path), "main")
    stage.clone = stage.remote.clone(stage.folder / "shallow", "--depth=1")
    code, report = stage.together()
    assert code == errors.CONFIG
    assert report["verdict"] == "not_run"
    assert "git fetch --unshallow" in report["parts"][0]["summary"]
    stage.clone.run("fetch", "-q", "--unshallow")
    code, report = stage.together()
    assert (code, report["verdict"]) == (0, "clean")


@pytest.mark.full
def test_more_than_the_limit_are_said(stage: Stage) -> None:
    stage.pull(3, {"a.md": "1\n"})
    rows = "".join(f"create refs/pull/{number}/head refs/pull/3/head\n" for number in range(4, 304))
    stage.remote.run("update-ref", "--stdin", stdin=rows.encode())
    for number in range(4, 304):
        stage.github.pull(NAME, number, head="b3")
    code, report = stage.together("--max-changes", "4")
    assert code == errors.LIMIT
    summary = report["parts"][0]["summary"]
    assert summary.startswith("4 changes of main compared in 0 pairs; 6 pairs not compared")
    assert "297 older changes not looked at (the limit)" in summary


def test_hostile_titles_bodies_and_branch_names_are_data(stage: Stage) -> None:
    evil = "x\x1b[31m\n::error::gone `$(touch canary)` <script>"
    stage.pull(3, {"shop/text.py": "import re\n"}, evil, body=f"{evil}\n" * 2000 + "fixes #1",
               head_ref="$(touch${IFS}canary)")  # fmt: skip
    stage.pull(4, {"shop/read.py": USE}, evil, body=None)
    code, report = stage.together()
    assert code == errors.FINDINGS
    assert len(report["findings"]) == 1
    assert "canary" not in json.dumps(report)
    assert not (stage.clone.path / "canary").exists()


def test_without_a_token_or_a_repository(stage: Stage) -> None:
    assert stage.together(GITHUB_TOKEN="")[0] == errors.CONFIG
    assert "listing the pull requests needs a token" in stage.errors
    assert "name branches of the clone" in stage.errors
    assert stage.together(GITHUB_REPOSITORY="")[0] == errors.CONFIG
    assert "the remote is no repository of this GitHub" in stage.errors


def test_a_base_that_is_not_there_and_a_github_that_refuses(stage: Stage) -> None:
    stage.pull(3, {"a.md": "1\n"})
    assert stage.run("together", "--base", "nope")[0] == errors.CONFIG
    assert "the remote has no branch 'nope'" in stage.errors
    stage.github.fault(path=f"/repos/{NAME}/pulls", status=403, times=9)
    assert stage.together()[0] == errors.REMOTE


def test_a_remote_that_cannot_be_reached(stage: Stage) -> None:
    stage.pull(3, {"a.md": "1\n"})
    stage.remote.path.rename(stage.folder / "away.git")
    assert stage.together()[0] == errors.REMOTE
    assert "the pull request's commits cannot be fetched" in stage.errors


def test_no_pull_request_is_clean(stage: Stage) -> None:
    code, report = stage.together()
    assert (code, report["verdict"]) == (0, "clean")
    assert report["parts"][0]["summary"] == "0 changes of main compared in 0 pairs"


# ── in the job of a pull request ──


def job(stage: Stage, number: int, *args: str) -> tuple[int, dict[str, Any]]:
    """``rlm-ci pr`` on the event of a pull request, in a clone that has its commits."""
    ref = f"refs/pull/{number}/head"
    stage.clone.fetch("origin", f"+{ref}:refs/remotes/pull")
    event = Events(stage.github, NAME, number).pull_request()
    path = event.write(stage.folder)
    env = actions_environment(event.name, path, GITHUB_API_URL=stage.github.url)
    return stage.run("pr", "--no-publish", "--out", str(stage.folder / "out"), *args, **env)


def test_pr_compares_its_own_pull_request_alone(stage: Stage) -> None:
    stage.pull(3, {"shop/text.py": "import re\n"})
    stage.pull(4, {"shop/read.py": USE})
    stage.pull(5, {"shop/more.py": USE.replace("read", "more")})
    code, report = job(stage, 4)
    assert code == errors.FINDINGS
    assert messages(report) == [
        (
            "together/removed: #3 removes `parse` (shop/text.py:4), which #4 uses in new lines "
            "(shop/read.py:5)"
        ),
    ]
    (place,) = report["findings"][0]["evidence"]
    assert (place["path"], place["line_start"], place["side"]) == ("shop/read.py", 5, "new")
    part = next(part for part in report["parts"] if part["id"] == "together")
    assert part["summary"] == "3 changes of main compared in 2 pairs"
    sarif = json.loads((stage.folder / "out" / "report.sarif").read_text())
    assert sarif["runs"][0]["results"][0]["ruleId"] == "together/removed"


def test_pr_names_hunks_that_a_merge_lost(stage: Stage) -> None:
    stage.pull(3, {"shop/text.py": f"import re\nimport json\n\n\n{PARSE}"})
    author = stage.author.repo
    author.write("shop/till.py", "RATE = 9\n").commit("The base goes on")
    tree = author.text("rev-parse", "main^{tree}")
    merge = author.commit_tree(tree, [author.sha("b3"), author.sha("main")], "Merge main")
    author.branch("b3", merge)
    author.run("push", "-q", "-f", str(stage.remote.path), "main", "b3:refs/pull/3/head")
    stage.clone.fetch("origin", "main")
    stage.github.push(NAME, 3, "b3", base="main")
    code, report = job(stage, 3)
    assert code == errors.FINDINGS
    (message,) = messages(report)
    assert message.startswith(f"together/lost-hunk: in #3 the merge {merge[:12]} of the base lost")
    assert "shop/text.py:2 of " in message


def test_pr_without_the_setting_asks_nobody(stage: Stage) -> None:
    stage.author.repo.write("rlm-ci.toml", 'checks = ["diff-budget"]\n').commit("Off")
    stage.pull(3, {"shop/text.py": "import re\n"})
    stage.clone.fetch("origin", "main")
    code, report = job(stage, 3)
    assert code == 0
    assert [part["id"] for part in report["parts"] if part["id"] == "together"] == []
    assert len(stage.github.log) == 0


def test_pr_that_cannot_list_them_is_no_pass(stage: Stage) -> None:
    stage.pull(3, {"a.md": "1\n"})
    stage.github.fault(path=f"/repos/{NAME}/pulls", status=403, times=9)
    code, report = job(stage, 3)
    assert code == errors.REMOTE
    assert report["verdict"] == "not_run"
