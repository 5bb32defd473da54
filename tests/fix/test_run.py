"""From red to green by the built-in agent, and all that such a run leaves behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.resources import loader
from rlm_ci.runs.journal import spans
from testing.fix_stage import (
    BUG,
    GOAL,
    ITERATION_KEYS,
    MEND,
    MENDED,
    QUICK,
    STATE_KEYS,
    TWO_TURNS,
    alike,
    done,
)
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from pathlib import Path

    from testing.fix_stage import Stage
    from testing.loopback_model.replies import Answer
    from testing.loopback_model.server import Asked


@pytest.mark.full
def test_a_failing_pytest_becomes_green(stage: Stage) -> None:
    stage.repo.write("pyproject.toml", '[project]\nname = "calc"\nversion = "1"\n').commit()
    ended, run = stage.fixed("--validator", "auto")
    assert ended.code == 0, ended
    assert "Task: rlm-repo" in ended.stderr
    assert f"Run: {run.id}" in ended.stderr
    assert stage.source() == MENDED
    assert stage.repo.text("status", "--porcelain") == "M calc.py\n?? notes.txt"
    assert stage.repo.text("diff", "--cached") == ""

    manifest = run.manifest
    loader.validate(manifest, "manifest.schema.json", "manifest")
    assert (manifest["status"], manifest["exit_code"]) == ("succeeded", 0)
    assert manifest["sandbox"] == "bubblewrap"
    assert [step["status"] for step in manifest["commands"]] == ["succeeded"]
    for event in run.lines("events.jsonl"):
        loader.validate(event, "event.schema.json", "event")
    events = [one["event"] for one in run.lines("events.jsonl")]
    assert [one for one in events if not one.startswith("span_")] == [
        "run_started", "step_started", "step_completed", "run_completed",
    ]  # fmt: skip
    steps = spans.read(run.lines("events.jsonl"))
    kinds = {one.kind for one in steps.values()}
    assert kinds == {"iteration", "agent", "turn", "tool", "validator", "canary", "result"}
    assert all(one.outcome and one.seconds is not None for one in steps.values())
    calls = run.lines("calls.jsonl")
    asked = [one for one in calls if one["kind"] == "completion"]
    assert {steps[one["span"]].kind for one in asked} == {"turn"}
    left = [path for one in steps.values() for path in one.files.values()]
    assert all((run.folder / path).is_file() for path in left)
    assert [one["seq"] for one in calls] == list(range(1, len(calls) + 1))
    for one in calls:
        loader.validate(one, "calls.schema.json", "call")

    state = run.state
    assert set(state) == STATE_KEYS
    assert (state["goal"], state["validator"]) == (GOAL, "python -m pytest")
    assert [set(one) for one in state["iterations"]] == [ITERATION_KEYS, ITERATION_KEYS]
    assert [one["validatorExitCode"] for one in state["iterations"]] == [1, 0]
    assert state["iterations"][1]["summary"] == "Summary: added."
    assert "calc.py" in state["iterations"][1]["diffSummary"]
    assert state["final"]["status"] == "passed"
    for one in state["iterations"]:
        assert "[exit code" in run.text(one["validatorLogPath"])

    report = run.report
    loader.validate(report, "report.schema.json", "report")
    assert (report["verdict"], report["run_id"]) == ("clean", run.id)
    assert report["usage"]["calls"] == len(stage.llm.completions) == len(run.facts()) == 5
    assert report["usage"]["prompt_tokens"] == stage.llm.bill.prompt_tokens
    assert report["usage"]["cost_usd"] > 0
    assert {"report.json", "comment.md", "report.sarif", "report.html"} <= {
        path.name for path in run.folder.iterdir()
    }
    names = {path.name for path in run.folder.glob("rlm/iteration-2/*")}
    assert names == {"1-single-prompt.md", "1-single-answer.md", "status.txt", "diff.patch"}
    assert run.text("rlm/iteration-2/diff.patch") == run.text("rlm/result.patch")
    for path in (run.folder, *run.folder.glob("*"), *run.folder.glob("rlm/*.*")):
        assert path.stat().st_mode & 0o077 == 0, path

    rollups = {
        "metrics.json": run.folder.parent.parent,
        "state.json": stage.repo.path / "out/rlm-repo",
    }
    for name, folder in rollups.items():
        assert (folder / name).is_file()
    verified = stage.cli("verify", str(run.folder / "report.json"))
    assert verified.code == 0, verified


def test_the_patch_is_the_result(stage: Stage) -> None:
    """What is in the run's folder applies to what was there, and gives what is here now."""
    ended, run = stage.fixed("--no-apply")
    assert ended.code == 0, ended
    assert stage.repo.text("status", "--porcelain") == ""
    stage.repo.run("apply", str(run.folder / "rlm/result.patch"))
    assert stage.source() == MENDED


@pytest.mark.full
def test_it_works_from_a_subfolder(stage: Stage) -> None:
    stage.repo.write("pkg/deep/x.py", "").commit()
    ended, run = stage.fixed(cwd=stage.repo.path / "pkg/deep")
    assert (ended.code, run.final) == (0, "passed"), ended
    assert stage.source() == MENDED


def test_work_that_is_not_committed_is_where_it_begins(stage: Stage) -> None:
    """It is seen by the agent, kept in the work tree, and no part of the patch."""
    other = "def double(a):\n    return add(a, a)\n"
    stage.repo.write("more.py", other)  # untracked
    stage.repo.write("calc.py", f"# mine\n{BUG}")
    stage.repo.write("staged.txt", "staged\n").stage("staged.txt")
    ended, run = stage.fixed("--validator", f"{QUICK} && test -e more.py && test -e staged.txt")
    assert (ended.code, run.final) == (0, "passed"), ended
    assert stage.source() == f"# mine\n{MENDED}"
    assert stage.source("more.py") == other
    patch = run.text("rlm/result.patch")
    assert "more.py" not in patch
    assert "staged.txt" not in patch
    assert "+# mine" not in patch
    assert stage.repo.text("diff", "--cached", "--name-only") == "staged.txt"


@pytest.mark.full
def test_a_work_tree_that_moved_on_keeps_what_it_has(stage: Stage) -> None:
    mine = "def add(a, b):\n    return sum((a, b))\n"

    def play(asked: Asked) -> Answer:
        stage.repo.write("calc.py", mine)
        return TWO_TURNS(asked)

    stage.llm.script(play)
    ended, run = stage.fixed()
    assert (ended.code, run.final) == (0, "passed"), ended
    assert stage.source() == mine
    assert not (stage.repo.path / "notes.txt").exists()
    assert "not applied" in run.report["parts"][0]["summary"]
    assert "not applied" in ended.stdout
    assert "a + b" in run.text("rlm/result.patch")


def test_nothing_is_applied_in_ci(stage: Stage) -> None:
    ended, run = stage.fixed(env={"CI": "true"})
    assert (ended.code, run.final) == (0, "passed"), ended
    assert stage.source() == BUG
    assert "a + b" in run.text("rlm/result.patch")


@pytest.mark.full
def test_a_folder_that_is_no_repository(stage: Stage, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    (folder / "calc.py").write_text(BUG)
    ended = stage.rlm(cwd=folder)
    assert ended.code == 0, ended
    assert (folder / "calc.py").read_text() == MENDED
    assert not (folder / ".git").exists()


@pytest.mark.full
def test_three_roles_in_turns_of_their_own(stage: Stage) -> None:
    def play(asked: Asked) -> Answer:
        prompt = [one["content"] for one in asked.messages if one["role"] == "user"][-1]
        tools = {one["function"]["name"] for one in asked.body["tools"]}
        if "Your work now: the reviser" in prompt:
            assert "edit" in tools
            is_first = asked.messages[-1]["role"] == "user"
            return MEND if is_first else done("Summary: added.")
        assert "edit" not in tools
        return done("Verdict: accept" if "the critic" in prompt else "Plan: add.")

    stage.llm.script(play)
    ended, run = stage.fixed("--roles", "triad")
    assert (ended.code, run.final) == (0, "passed"), ended
    names = {path.name for path in run.folder.glob("rlm/iteration-1/*-prompt.md")}
    assert names == {f"{n}-{role}-prompt.md" for n, role in enumerate(
        ("planner", "reviser", "critic"), 1)}  # fmt: skip
    assert run.state["roles"] == "triad"


@pytest.mark.full
def test_the_same_in_the_background(stage: Stage) -> None:
    words = stage.words(goal=None)[1:]
    started = stage.cli("start", "rlm", "--goal", GOAL, *words, "--format", "json")
    assert started.code == 0, started
    run_id = started.json()["run_id"]
    waited = stage.cli("wait", run_id)
    assert waited.code == 0, waited
    status = stage.cli("status", run_id, "--format", "json")
    assert (status.code, status.json()["status"]) == (0, "succeeded")
    assert stage.source() == MENDED
    run = stage.only()
    assert run.final == "passed"

    stage.repo.write("calc.py", BUG).remove("notes.txt")
    ended, other = stage.fixed()
    assert ended.code == 0
    assert alike(run) == alike(other)


@pytest.mark.full
def test_a_repository_inside_is_told_to_be_left_out(stage: Stage) -> None:
    inner = GitRepo(stage.repo.path / "inner")
    inner.write("y.py", "x = 1\n").commit()
    stage.llm.script(TWO_TURNS)
    ended, run = stage.fixed()
    assert ended.code == 0, ended
    told = "warning: not part of the copy: a repository of its own (inner/)"
    assert told in ended.stderr
    [left_out] = run.report["coverage"]["omitted"]
    assert left_out["path"] == "inner/"
    assert "`inner/`: a repository of its own" in run.text("comment.md")
