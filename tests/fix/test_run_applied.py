"""What becomes of a green result: in the work tree, or a patch, and the last line says which."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rlm_ci.resources import loader
from rlm_ci.workspace.apply import STAGING
from testing.fix_stage import BUG, MENDED

if TYPE_CHECKING:
    from pathlib import Path

    from testing.fix_stage import Stage

AGENT = ("--agent", "sed -i s/-/+/ calc.py")


def test_what_a_killed_landing_has_left_is_put_back_at_the_start(stage: Stage) -> None:
    left = f"{STAGING}/{16 * 'a'}"
    original = ["100644", "blob", stage.repo.text("rev-parse", "HEAD:calc.py")]
    stage.repo.write(f"{left}/plan.json", json.dumps([["calc.py", original, None]]))
    stage.repo.write(f"{left}/old/0", BUG)
    (stage.repo.path / "calc.py").unlink()
    ended, run = stage.fixed(*AGENT)
    assert (ended.code, run.final, stage.source()) == (0, "passed", MENDED), ended
    assert "a run was killed while its result was applied: 1 file restored" in ended.stderr
    assert not (stage.repo.path / STAGING).exists()


def test_what_cannot_be_put_back_ends_the_run_before_it_begins(stage: Stage) -> None:
    left = f"{STAGING}/{16 * 'a'}"
    original = ["100644", "blob", stage.repo.text("rev-parse", "HEAD:calc.py")]
    stage.repo.write(f"{left}/plan.json", json.dumps([["calc.py", original, None]]))
    stage.repo.write(f"{left}/old/0", BUG).write("calc.py", "mine\n")
    ended, run = stage.fixed(*AGENT)
    assert (ended.code, run.final) == (5, "invalid_config"), ended
    assert f"originals lie in {left}/old" in ended.stderr
    assert f"remove {STAGING}" in ended.stderr
    assert (stage.repo.path / left / "old" / "0").read_text() == BUG


# ── nothing was changed ──


def test_there_is_nothing_to_do_where_the_tests_pass_already(stage: Stage) -> None:
    stage.repo.write("calc.py", MENDED).commit()
    stage.repo.write("notes.txt", "mine\n")
    ended, run = stage.fixed("--agent", "sh -c 'echo paid > notes.txt'", goal="Make the tests pass")
    assert (ended.code, run.final) == (0, "passed"), ended
    assert "the tests pass already" in ended.stdout
    assert ended.stdout.splitlines()[-1].startswith("✓ Nothing to do")
    assert (run.state["iterations"], stage.source("notes.txt")) == ([], "mine\n")
    assert (run.report["verdict"], run.report["parts"][0]["metrics"]["iterations"]) == ("clean", 0)
    loader.validate(run.state, "state.schema.json", "state")
    assert stage.cli("replay", run.id, "--check").code == 0


@pytest.mark.parametrize("goal", ["Rename add to plus", "Make the tests pass faster"])
def test_any_other_goal_runs_the_agent_on_a_green_tree(stage: Stage, goal: str) -> None:
    stage.repo.write("calc.py", MENDED).commit()
    ended, run = stage.fixed("--agent", "sh -c 'echo more > notes.txt'", goal=goal)
    assert (ended.code, run.final) == (0, "passed"), ended
    assert len(run.state["iterations"]) == 1
    assert stage.source("notes.txt") == "more\n"


def test_a_program_that_is_not_there_is_told_before_the_validator_runs(stage: Stage) -> None:
    ended, run = stage.fixed("--agent", "no-such-agent --now", "--validator", "touch ran; false")
    assert ended.code == 4, ended
    assert "error: no-such-agent could not be found (agent no-such-agent --now)" in ended.stderr
    assert "validator, before any edit" not in ended.stderr
    assert not run.facts("validator")


@pytest.mark.full
def test_an_agent_that_changes_nothing_on_a_green_tree(stage: Stage) -> None:
    stage.repo.write("calc.py", MENDED).commit()
    ended, run = stage.fixed("--agent", "true x", goal="Look for more")
    assert (ended.code, run.final) == (3, "no_change"), ended
    assert ended.stdout.splitlines()[-1] == "! Not done: the agent changed nothing"
    told = "the validator passes as it did before, and the agent changed nothing"
    assert run.state["final"]["reason"].startswith(told)
    assert "--allow-no-change" in ended.stdout
    assert (run.manifest["status"], run.manifest["status_detail"]) == ("failed", "no_change")
    assert (run.report["verdict"], run.report["parts"][0]["metrics"]["files"]) == ("incomplete", 0)
    loader.validate(run.state, "state.schema.json", "state")
    for words in (("wait", run.id), ("resume", run.id), ("replay", run.id, "--check")):
        again = stage.cli(*words)
        assert again.code == (0 if "--check" in words else 3), again
    quiet = stage.cli("wait", run.id, "-q")
    assert (quiet.code, quiet.stdout) == (3, ""), quiet
    error, hint = quiet.stderr.splitlines()
    assert error.startswith("error: the run failed: no_change: the validator passes as it did")
    assert hint == f"hint: see rlm-ci status {run.id}"
    assert "failed (no_change)" in stage.cli("status", run.id).stdout


@pytest.mark.full
def test_a_goal_that_may_hold_already(stage: Stage) -> None:
    stage.repo.write("calc.py", MENDED).commit()
    ended, run = stage.fixed("--agent", "true x", "--allow-no-change")
    assert (ended.code, run.final) == (0, "passed"), ended
    assert ended.stdout.splitlines()[-1] == "✓ Nothing to do: the validator passes without a change"
    replayed = stage.cli("replay", run.id, "--check")
    assert replayed.code == 0, replayed


@pytest.mark.full
def test_a_file_of_the_agent_that_the_sandbox_hides(stage: Stage, tmp_path: Path) -> None:
    script = tmp_path / "agent.sh"
    script.write_text("sed -i s/-/+/ calc.py")
    ended, _ = stage.fixed("--agent", f"bash {script}")
    assert ended.code == 3, ended
    assert f"the sandbox does not show {script}: keep it in the repository" in ended.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    ("agent", "more"), [("autofix", ()), ("autofix", ("--allow-no-change",)), ("false x", ())]
)
def test_an_agent_that_fails_has_not_found_a_goal_to_hold(
    agent: str, more: tuple[str, ...], stage: Stage
) -> None:
    """Such as the fixers of a repository that has none set up."""
    stage.repo.write("calc.py", MENDED).commit()
    ended, run = stage.fixed("--agent", agent, *more, goal="Look for more")
    assert (ended.code, run.final) == (3, "no_change"), ended
    assert "the agent failed" in run.state["final"]["reason"]


@pytest.mark.full
def test_a_setting_says_it_too_and_a_stage_that_runs_in_a_pipeline(stage: Stage) -> None:
    stage.repo.write("calc.py", MENDED)
    stage.repo.write("rlm-ci.toml", "[loop]\nallow_no_change = true\n").commit()
    ended, run = stage.fixed("--agent", "true x", goal="Look for more")
    assert (ended.code, run.final) == (0, "passed"), ended
    ended, run = stage.fixed("--agent", "true x", "--no-allow-no-change", goal="Look for more")
    assert (ended.code, run.final) == (3, "no_change"), ended


@pytest.mark.full
def test_without_a_validator_nothing_done_is_not_done(stage: Stage) -> None:
    ended, run = stage.fixed("--agent", "true x", "--validator", "none", "--max-iterations", "1")
    assert (ended.code, run.final) == (0, "budget_complete"), ended
    assert ended.stdout.splitlines()[-1] == "! Nothing was done: the agent changed nothing"


# ── changed, and not applied ──


@pytest.mark.full
def test_a_result_that_cannot_be_applied_is_not_done(stage: Stage) -> None:
    agent = f"sed -i s/-/+/ calc.py; echo mine > {stage.repo.path}/mine.txt"
    quiet, _ = stage.fixed("--agent", agent, "--sandbox", "none", "--quiet")
    assert quiet.stdout.startswith("! Not applied: "), quiet
    (stage.repo.path / "mine.txt").unlink()
    ended, run = stage.fixed("--agent", agent, "--sandbox", "none")
    assert (ended.code, run.final) == (0, "passed"), ended
    patch = f".runs/{run.manifest['task_id']}/cli/{run.id}/rlm/result.patch"
    assert ended.stdout.splitlines()[-1] == (
        "! Not applied: the work tree has changed meanwhile: 1 file, mine.txt; "
        f"to apply the patch: git apply {patch}"
    )
    assert stage.source() == BUG
    assert "not applied: the work tree has changed" in run.manifest["summary"]
    replayed = stage.cli("replay", run.id, "--check")
    assert replayed.code == 0, replayed
    assert replayed.stdout.splitlines()[-1] == ended.stdout.splitlines()[-1]
    stage.repo.run(*ended.stdout.splitlines()[-1].rpartition(": git ")[2].split())
    assert stage.source() == MENDED


@pytest.mark.full
def test_a_change_that_is_green_as_it_is_needs_no_fix(stage: Stage) -> None:
    stage.repo.write("calc.py", MENDED).commit()
    settings = {
        "RLM_CI_FIX": "look for more",
        "RLM_VALIDATOR": "grep -q 'a + b' calc.py",
        "RLM_CI_LOOP_AGENT": "true x",
        "RLM_CI_REVIEW_ENABLED": "off",
        "RLM_CI_MODEL": None,
    }
    words = ("pr", "--base", "HEAD~1", "--no-publish")
    ended = stage.cli(*words, env=settings)
    assert ended.code == 0, ended
    told = "the validator passes as it did before, and the agent changed nothing"
    assert told in " ".join(ended.stdout.split())
    ended = stage.cli(*words, env={**settings, "RLM_CI_LOOP_ALLOW_NO_CHANGE": "false"})
    assert (ended.code, "incomplete" in ended.stdout) == (3, True), ended
    ended = stage.cli(*words, env={**settings, "RLM_CI_FIX": "make the tests pass"})
    assert (ended.code, "the tests pass already" in ended.stdout) == (0, True), ended
