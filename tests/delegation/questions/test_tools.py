"""A delegated run asks; who it is, its token shows; people answer, and it goes on."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci import cli as program
from rlm_ci.delegation import control, tokens
from rlm_ci.delegation.questions.queue import AllQuestions, QuestionQueue
from rlm_ci.delegation.tool import QUESTION_ONLY, ServerContext
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.stored_runs import StoredRuns
from rlm_ci.runs import delegated, find
from testing.leftovers import eventually
from testing.pipelines_stage import Stage
from testing.run_store import Place
from testing.tool_calls import called, refused, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.runs.run import Run
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")
ASK, POLL = "delegate.question.enqueue", "delegate.question.poll"

#: Wrong use of ``rlm-ci answer``, where there are three questions, and what it says.
WRONG: tuple[tuple[tuple[str, ...], str], ...] = (
    (("q-0", "x"), "3 questions begin with 'q-0'"),
    (("q-9", "x"), "there is no question 'q-9'"),
    (("q-0", " "), "the answer is empty"),
    (("q-0",), "the answer is missing"),
    (("q-0", "x", "--dismiss"), "a dismissed question has no answer"),
    (("q-0", "x" * 16_001), "more than 16,000 characters"),
)


class Family:
    """A run that has ended, and its two children, one of them paused."""

    def __init__(self, repo: GitRepo) -> None:
        repo.write("a", "1").commit()
        self.repo = repo
        self.place = Place(repo.path)
        self.parent = self.place.finished()
        self.children = [self.child(), self.child()]

    def child(self) -> Run:
        run = self.place.finished("failed", 1, parent_run_id=self.parent.id)
        tokens.issue(run.path, run.id, self.parent.path, self.parent.id)
        return run

    def server(self, run: Run | None, **environ: str) -> ServerContext:
        """That of a run, or of no run."""
        found = served(self.repo.path, mode=QUESTION_ONLY)
        own = {} if run is None else {"CODEX_ORCHESTRATOR_MANIFEST_PATH": place_of(run)}
        found.environ = {**found.environ, **own, **environ}
        return found

    def asked_of(self, run: Run) -> tuple[str, dict[str, Any]]:
        """What the run was asked to do."""
        return delegated.last_action(run.path)[1], delegated.read(run.path)["latest_action"]


def place_of(run: Run) -> str:
    return os.path.join(run.path, "manifest.json")


@pytest.fixture
def family(repo: GitRepo) -> Family:
    return Family(repo)


def test_a_question_pauses_its_run_until_it_is_answered(
    family: Family, cli: Cli, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = family.children
    server = family.server(one)
    asked = called(server, ASK, prompt="may I \x1b[2J?\n::error::x", urgency="high")
    assert (asked["status"], asked["parent_run_id"]) == ("queued", family.parent.id)
    assert family.asked_of(one)[0] == "pause"
    assert family.asked_of(one)[1]["reason"] == "awaiting_question_answer"
    later = called(family.server(other), ASK, prompt="and I?", auto_pause=False)
    assert family.asked_of(other)[0] == ""
    at = f"--repo={family.repo.path}"
    assert program.main(["questions", at]) == 0
    listed = capsys.readouterr().out
    assert listed.index(asked["question_id"]) < listed.index(later["question_id"])
    assert "  | may I \\x1b[2J?\n  | ::error::x\n" in listed
    last = called(server, ASK, prompt="both?")["question_id"]
    for words, said in WRONG:
        assert program.main(["answer", *words, at]) == 2
        assert said in capsys.readouterr().err
    assert program.main(["answer", last, "both", at]) == 0
    assert family.asked_of(one)[0] == "pause"  # for the first one
    assert capsys.readouterr().out == f"{last} is answered\n"
    answered = cli("answer", asked["question_id"][:8], "-", cwd=family.repo, stdin=b"yes\n")
    assert (answered.code, answered.stdout) == (0, f"{asked['question_id']} is answered\n")
    assert called(server, POLL, question_id=asked["question_id"])["answer"] == "yes"
    assert called(server, POLL)["answer"] == "both"
    assert family.asked_of(one)[0] == "resume"
    assert program.main(["answer", asked["question_id"][:8], "no", at]) == 2
    assert "the question is closed: it was answered" in capsys.readouterr().err
    as_json = ("--format=json", at)
    assert program.main(["answer", "q-", "--dismiss", *as_json]) == 0
    assert json.loads(capsys.readouterr().out) == called(family.server(other), POLL)
    assert program.main(["questions", "--all", *as_json]) == 0
    shown = json.loads(capsys.readouterr().out)["questions"]
    assert [one["status"] for one in shown] == ["answered", "dismissed", "answered"]
    assert program.main(["questions", "--all", at]) == 0
    assert capsys.readouterr().out.endswith("\n  | both\n")
    assert program.main(["questions", family.parent.id, at]) == 0
    assert capsys.readouterr().out == "no open questions\n"


def test_who_asks_is_shown_by_the_token_of_its_folder(family: Family) -> None:
    one, other = family.children
    server, theirs = family.server(one), family.server(other)
    asked = called(theirs, ASK, prompt="a question of another run")["question_id"]
    shown = json.dumps(called(server, "delegate.status", run_id=family.parent.id))
    assert asked in shown
    assert "a question of another run" not in shown
    assert refused(server, POLL, question_id=asked) == "question_forbidden"
    assert refused(server, POLL) == "question_not_found"
    assert refused(server, POLL, question_id="q-0001-00000000") == "question_not_found"
    assert refused(server, POLL, question_id="../x") == "invalid_arguments"
    assert refused(server, ASK, prompt="?", delegation_token="x") == "secret_not_permitted"
    assert refused(server, ASK, prompt=" ") == "invalid_arguments"
    assert refused(server, ASK, prompt="x" * 10_000_000) == "invalid_arguments"
    assert refused(server, POLL, from_manifest_path=place_of(other)) == "question_forbidden"
    assert refused(family.server(None), ASK, prompt="?") == "not_delegated"
    mine = called(server, ASK, prompt="?", from_manifest_path=place_of(one), auto_pause=False)
    assert mine["from_run_id"] == one.id
    at = {"CODEX_DELEGATION_PARENT_MANIFEST_PATH": place_of(family.parent)}
    assert called(family.server(one, **at), POLL) == mine
    stranger = family.place.finished()
    for place in ({"parent_manifest_path": place_of(stranger)}, {}):
        env = {"CODEX_DELEGATION_PARENT_MANIFEST_PATH": place_of(stranger)}
        who = family.server(one, **({} if place else env))
        assert refused(who, ASK, prompt="?", **place) == "question_forbidden"
    both = family.server(one, **at)
    assert (
        refused(both, ASK, prompt="?", parent_manifest_path=place_of(stranger))
        == "question_forbidden"
    )
    Path(one.path, delegated.TOKEN).write_text(json.dumps({"token": "0" * 64}))
    assert refused(server, POLL) == "question_forbidden"
    Path(one.path, delegated.TOKEN).unlink()
    assert refused(server, POLL) == "question_forbidden"
    assert not (family.repo.path / ".runs/x").exists()


@pytest.mark.full
def test_the_fallback_is_for_a_run_that_still_pauses_for_the_question(family: Family) -> None:
    name = "RLM_CI_DELEGATE_QUESTION_EXPIRY_FALLBACK"
    for fallback, others, action in (
        ("pause", False, "pause"), ("resume", False, "resume"), ("resume", True, "pause"),
    ):  # fmt: skip
        child = family.child()
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(name, fallback)
            server = family.server(child)
            asked = called(server, ASK, prompt="?", expires_in_ms=300)
        assert (asked["expiry_fallback"], asked["status"]) == (fallback, "queued")
        if others:  # somebody else wants the run to pause, too
            full = served(family.repo.path)
            delegated_pause(full, child)
        ended = called(server, POLL, wait_ms=60_000)
        assert (ended["status"], ended["fallback_action"]) == ("expired", fallback)
        before = family.asked_of(child)
        assert before[0] == action
        called(family.server(child), POLL)
        assert family.asked_of(child) == before


def test_what_follows_from_an_answer_is_done_after_a_kill(family: Family) -> None:
    child, _ = family.children
    asked = called(family.server(child), ASK, prompt="?")["question_id"]
    killed = QuestionQueue(family.parent.path, family.place.redactor, lambda *_: None)
    killed.answer(asked, "yes")
    assert family.asked_of(child)[0] == "pause"
    runs = StoredRuns(stored_runs.settings_of({"repo": str(family.repo.path)}))
    assert AllQuestions(runs).questions() == []
    assert family.asked_of(child)[0] == "resume"


def delegated_pause(server: ServerContext, child: Run) -> None:
    store = server.runs().store
    control.ask(server, find.find(store, child.path), delegated.PAUSE, None, "by hand")


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    yield found
    found.clean()


def says(tool: str, **arguments: Any) -> str:
    """A stage that calls one tool of a server of its own, and keeps what it answers."""
    client = {"name": "x", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    asked: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": tool, "arguments": arguments}},
    ]
    lines = "\n".join(json.dumps({"jsonrpc": "2.0", **one}) for one in asked)
    return f"{sys.executable} -I -m rlm_ci mcp >> said <<'E'\n{lines}\nE\n"


@pytest.mark.full
@pytest.mark.parametrize("fallback", ["", "fail"])
def test_a_real_run_asks_pauses_and_goes_on(stage: Stage, fallback: str) -> None:
    """``fail`` cancels it instead, once somebody looks after the question has expired."""
    more = {"expires_in_ms": 1_500} if fallback else {}
    stage.pipelines([
        {"id": "parent", "stages": [{"command": "until test -e go; do sleep 0.05; done"}]},
        {"id": "child", "stages": [{"command": says(ASK, prompt="which?", **more)},
                                   {"command": says(POLL)}]},
    ])  # fmt: skip
    parent = stage.start("parent", "--goal", "g")["run_id"]
    stage.wait_for(parent, "in_progress")
    above = str(stage.folder(parent) / "manifest.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODEX_ORCHESTRATOR_MANIFEST_PATH", above)
        patch.setenv("RLM_CI_DELEGATE_QUESTION_EXPIRY_FALLBACK", fallback or "pause")
        server = served(stage.repo.path)
        run = called(server, "delegate.spawn", pipeline="child", task_id="t-x", start_only=True)
    stage.wait_for(run["run_id"], "failed")
    assert stage.manifest(run["run_id"])["status_detail"] == "paused"
    listed = stage.cli("questions", "--format=json").json()["questions"]
    if fallback:
        assert eventually(lambda: not stage.cli("questions", "--format=json").json()["questions"])
        stage.wait_for(run["run_id"], "cancelled")
        assert stage.cli("resume", run["run_id"]).code != 0
    else:
        assert [(one["prompt"], one["parent_run_id"]) for one in listed] == [("which?", parent)]
        assert stage.cli("answer", "q-0001", "the second").code == 0
        stage.wait_for(run["run_id"], "succeeded")
        assert b'"answer":"the second"' in stage.read("said").replace(b": ", b":")
    (stage.repo.path / "go").touch()
    stage.wait_for(parent, "succeeded")
    assert stage.cli("verify", parent).code == 0
    lines = (stage.folder(parent) / "events.jsonl").read_text().splitlines()
    told = [one["event"] for one in map(json.loads, lines) if one["actor"] != "runner"]
    end = "question_closed" if fallback else "question_answered"
    assert told == ["child_started", "question_queued", end]
