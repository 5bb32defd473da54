"""Commands in comments: who may give them, about which commit, and what comes of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from testing.comment_commands_stage import NAME, NUMBER, OVERRIDE, REFUSED, TOKEN, Stage, stage
from testing.loopback_github.events import Event
from testing.loopback_github.state import ACTIONS_BOT
from testing.program import Cli, Ended
from testing.repositories.events import write_event

__all__ = ["stage"]


@pytest.fixture(autouse=True)
def without_review(monkeypatch: pytest.MonkeyPatch) -> None:
    """What commands do where there is one is told beside those for it."""
    monkeypatch.setenv("RLM_CI_REVIEW_ENABLED", "off")


# -- check --------------------------------------------------------------------------------------


def test_check_judges_the_head_and_posts(stage: Stage) -> None:
    refs, files = stage.clone.text("for-each-ref"), sorted(os.listdir(stage.clone.path))
    assert stage.say("/rlm-ci check", "bob") == 1, stage.said
    assert stage.report["subject"] == {
        "repository": NAME, "base": stage.author.sha("main"), "head": stage.head,
        "merge_base": stage.author.sha("main"), "worktree": False, "pull_request": NUMBER,
    }  # fmt: skip
    assert (stage.last.head, stage.last.verdict) == (stage.head, "findings")
    assert "3 files changed" in stage.summary
    assert stage.conclusions == ["failure"]
    # Whether they may is asked first, and only objects came into the clone.
    assert stage.github.log[0].path.endswith("/collaborators/bob/permission")
    assert len(stage.github.log) <= 15
    assert stage.clone.text("for-each-ref") == refs
    assert stage.clone.text("status", "--porcelain") == ""
    assert sorted(os.listdir(stage.clone.path)) == files
    assert not (stage.clone.path / ".git" / "FETCH_HEAD").exists()


def test_a_check_that_is_named_runs_besides_the_others(stage: Stage) -> None:
    # The report takes the place of the last one: with fewer checks it would say less, and pass.
    assert stage.say("/rlm-ci check doc-archive") == 1, stage.said
    assert [part["id"] for part in stage.report["parts"]] == ["diff-budget", "doc-archive"]
    assert "not_run" not in {part["verdict"] for part in stage.report["parts"]}
    assert stage.say("/rlm-ci check diff-budget") == 1
    assert [part["id"] for part in stage.report["parts"]] == ["diff-budget"]


def test_a_check_that_would_be_off_runs_when_it_is_named(stage: Stage) -> None:
    stage.author.checkout("main")
    stage.author.write("rlm-ci.toml", "[diff_budget]\nmax_files = 2\n").commit("Every check")
    stage.author.run("push", "-q", str(stage.remote.path), "main:main")
    stage.github.push(NAME, NUMBER, "feature", base="main")

    def guard_is_off(text: str) -> bool:
        assert stage.say(text) == 1, stage.said
        (part,) = (one for one in stage.report["parts"] if one["id"] == "delegation-guard")
        return part["metrics"].get("enabled") is False

    assert guard_is_off("/rlm-ci check")
    assert guard_is_off("/rlm-ci check doc-archive")
    assert not guard_is_off("/rlm-ci check delegation-guard")


def test_labels_and_body_are_those_of_the_api(stage: Stage) -> None:
    event = stage.events.comment("/rlm-ci check")
    event.payload["issue"] |= {"body": "Diff budget override: forged", "number": NUMBER}
    event.payload["issue"]["labels"] = [{"name": "diff-budget-override"}]
    assert stage.run(event) == 1
    stage.pull.body, stage.pull.labels = "Diff budget override: true", ["diff-budget-override"]
    assert stage.say("/rlm-ci check") == 0
    assert stage.report["findings"][0]["suppression"] == "true"


def test_the_base_branch_went_on(stage: Stage) -> None:
    stage.author.checkout("main")
    base = stage.author.write("b.md", "x").commit("Main goes on")
    stage.author.run("push", "-q", str(stage.remote.path), "main:main")
    stage.github.push(NAME, NUMBER, "feature", base="main")
    assert stage.say("/rlm-ci check") == 1, stage.said
    assert stage.report["subject"]["base"] == base


@pytest.mark.full
def test_by_the_program_as_it_is(stage: Stage, cli: Cli) -> None:
    event = write_event(stage.folder, stage.events.comment("/rlm-ci check").payload)
    env = {"GITHUB_API_URL": stage.github.url, "GITHUB_TOKEN": TOKEN}
    ended: Ended = cli("pr", "--event", event, "--format", "json", cwd=stage.clone, env=env)
    assert (ended.code, ended.json()["subject"]["head"]) == (1, stage.head), ended
    assert stage.last.head == stage.head


def test_base_and_head_are_stronger_than_a_comment(stage: Stage) -> None:
    stage.clone.fetch("origin", "+refs/pull/12/head:refs/remotes/pull")
    event = stage.events.comment("/rlm-ci nonsense", "mallory")
    code = stage.run(event, "--base", "main", "--head", "pull", "--no-publish")
    assert (code, stage.report["subject"]["head"]) == (1, stage.head)
    assert stage.github.log == []


# -- who may, and what is ignored ---------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("text", "author", "more"),
    [
        ("Thank you!", "ada", {}),
        ("> /rlm-ci check\n\nNo.", "ada", {}),
        ("/rlm-ci check", "ada", {"action": "edited"}),
        ("/rlm-ci check", "ada", {"action": "deleted"}),
        ("/rlm-ci check", "renovate[bot]", {}),
        (OVERRIDE, ACTIONS_BOT, {}),
        ("/rlm-ci nonsense", ACTIONS_BOT, {}),
        ("Thank you!", "ada", {"on_pull": False}),
    ],
)
def test_what_is_not_for_us(stage: Stage, text: str, author: str, more: dict[str, Any]) -> None:
    assert stage.say(text, author, **more) == 0
    assert stage.said.startswith("nothing to do: ")
    assert stage.said.count("\n") == 1
    assert stage.github.log == []
    assert stage.untouched


@pytest.mark.sample(2)
@pytest.mark.parametrize("text", ["/rlm-ci check", "/rlm-ci review", OVERRIDE])
@pytest.mark.parametrize("role", ["none", "read", "stranger"])
def test_who_may_not_write_may_not_command(stage: Stage, text: str, role: str) -> None:
    if role != "stranger":
        stage.github.world.repositories[NAME].collaborators["eve"] = role
    assert stage.say(text, "eve") == 5
    assert "error: eve may not give commands" in stage.said
    assert [one.path.rpartition("/")[2] for one in stage.github.log] == ["permission"]
    assert stage.untouched


def test_what_the_event_says_of_its_author_is_not_believed(stage: Stage) -> None:
    event = stage.events.comment(OVERRIDE, "eve")
    event.payload["comment"]["author_association"] = "OWNER"
    event.payload["sender"]["login"] = "ada"
    assert stage.run(event) == 5
    # The login was ada's once, and is another's now.
    event = stage.events.comment(OVERRIDE, "ada")
    event.payload["comment"]["user"]["id"] += 1
    assert stage.run(event) == 5
    assert "another account" in stage.said
    for login in ("../../../user", "ada/../bob", "a" * 101, "", None, "ada\n"):
        event.payload["comment"]["user"]["login"] = login
        assert stage.run(event) == 5
        assert "names no author" in stage.said
    assert stage.untouched


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("permission", "role", "code"),
    [("write", "maintain", 1), ("write", "release manager", 1), ("admin", "admin", 1),
     ("read", "triage", 5), ("read", "release manager", 5), ("write", "triage", 5),
     ("none", "none", 5), (None, "admin", 5), (["write"], "write", 5)],
)  # fmt: skip
def test_what_github_says_of_a_role(stage: Stage, permission: Any, role: str, code: int) -> None:
    user = stage.events.comment("", "ada").payload["comment"]["user"]
    told = {"permission": permission, "role_name": role, "user": user}
    stage.github.fault("GET", "*/permission", status=200, body=told)
    assert stage.say("/rlm-ci check") == code, stage.said
    assert (code == 5) == stage.untouched


@pytest.mark.sample(2)
@pytest.mark.parametrize("status", [403, 404, 500])
def test_no_answer_is_no_permission(stage: Stage, status: int) -> None:
    stage.github.fault("GET", "*/permission", status=status, times=None)
    assert stage.say("/rlm-ci check") == 8
    assert f"GitHub answered {status}" in stage.said
    assert stage.untouched


@pytest.mark.full
def test_github_is_down(stage: Stage) -> None:
    event = stage.events.comment(OVERRIDE)
    with stage.github.down():
        assert stage.run(event) == 8
    assert stage.said.count("error: ") == 1
    assert stage.untouched


@pytest.mark.sample(2)
@pytest.mark.parametrize("body", [*list(REFUSED)[::3], "/rlm-ci review"])
def test_a_refused_command_ends_with_the_list(stage: Stage, body: str) -> None:
    assert stage.say(body) == 5
    assert stage.said.count("error: ") == 1
    assert "/rlm-ci check [CHECK...]" in stage.said
    assert stage.unjudged
    assert stage.reply.startswith("**Not done.** ")
    assert len(stage.github.writes) == 1


def test_a_closed_pull_request(stage: Stage) -> None:
    stage.pull.state = "closed"
    assert stage.say("/rlm-ci check") == 5
    assert "acme/shop#12 is not open" in stage.said
    assert stage.unjudged
    assert "is not open." in stage.reply


def test_a_command_on_an_issue_or_without_a_token(stage: Stage) -> None:
    assert stage.say("/rlm-ci check", on_pull=False) == 5
    assert "on an issue" in stage.said
    assert stage.run(stage.events.comment(), GITHUB_TOKEN="") == 5
    assert "needs a token" in stage.said
    assert stage.github.log == []


# -- the commits --------------------------------------------------------------------------------


def test_the_head_moved_between_the_api_and_the_fetch(stage: Stage) -> None:
    judged = stage.head

    def rewrite(_request: object) -> None:
        stage.author.checkout("main")
        stage.author.run("branch", "-qf", "feature", "main")
        stage.author.checkout("feature")
        stage.push()

    stage.github.fault("GET", f"*/pulls/{NUMBER}", after=rewrite)
    assert stage.say("/rlm-ci check") == 5
    assert f"GitHub's API names {judged[:12]}, which is not what was fetched" in stage.said
    assert "git fetch origin refs/pull/12/head" in stage.said
    assert stage.reply.startswith("**Not done.** GitHub's API names ")
    assert len(stage.github.writes) == 1


def test_the_remote_gives_nothing(stage: Stage) -> None:
    stage.remote.run("update-ref", "-d", "refs/pull/12/head")
    assert stage.say("/rlm-ci check") == 8
    assert "the pull request's commits cannot be fetched" in stage.said
    assert stage.unjudged
    assert "cannot be fetched" in stage.reply


def test_the_pull_requests_code_in_the_work_tree_is_refused(stage: Stage) -> None:
    stage.clone.fetch("origin", "refs/pull/12/head")
    stage.clone.checkout(stage.head, detach=True)
    assert stage.say("/rlm-ci check") == 5
    assert "the work tree has the pull request's code" in stage.said
    assert stage.reply.startswith("**Not done.** The work tree has the pull request's code")
    # The same without a comment, in a job that could harm as much.
    event = stage.events.pull_request()
    assert stage.run(Event("pull_request_target", event.payload)) == 5
    assert len(stage.github.writes) == 1
    assert stage.run(event) == 1


class _Private(SimpleHTTPRequestHandler):
    """A repository for those who bring the token; what is asked is written down."""

    asked: list[str | None]

    def do_GET(self) -> None:
        sent = self.headers["Authorization"]
        self.asked.append(sent)
        if sent is None:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="x"')
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def private(stage: Stage) -> Iterator[tuple[str, list[str | None]]]:
    asked: list[str | None] = []
    handler = type("Handler", (_Private,), {"asked": asked})
    stage.remote.run("update-server-info")
    server = ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(handler, directory=str(stage.remote.path.parent))
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("persisted", [False, True])
def test_a_private_repository_gets_the_token(
    stage: Stage, private: tuple[str, list[str | None]], *, persisted: bool
) -> None:
    url, asked = private
    stage.clone.run("remote", "set-url", "origin", f"{url}/shop.git")
    if persisted:  # as actions/checkout leaves its own
        stage.clone.config(f"http.{url}/.extraheader", "Authorization: basic b2xk")
    code = stage.run(stage.events.comment("/rlm-ci check"), GITHUB_SERVER_URL=url)
    assert code == 1, stage.said
    assert set(asked) == {"Basic eC1hY2Nlc3MtdG9rZW46dC1ib3Q="}
    assert TOKEN not in (stage.clone.path / ".git" / "config").read_text()


def test_no_other_server_gets_the_token(
    stage: Stage, private: tuple[str, list[str | None]]
) -> None:
    url, asked = private
    stage.clone.run("remote", "set-url", "origin", f"{url}/shop.git")
    assert stage.say("/rlm-ci check") == 8  # GITHUB_SERVER_URL is github.com
    assert asked
    assert set(asked) == {None}
