"""Which value counts: flag, environment, config file, pipeline, default; whose run it is."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from testing.fix_options import options
from testing.fix_stage import GOAL, MEND, MENDED, Play, done, write

if TYPE_CHECKING:
    from testing.fix_stage import Stage

CHECK = "grep -q 'a + b' calc.py"
FILE = """\
[loop]
validator = "test -e from-file"
max_iterations = 3
max_minutes = 30
roles = "triad"
"""
ENVIRONMENT = {
    "RLM_VALIDATOR": "test -e from-environment",
    "RLM_MAX_ITERATIONS": "2",
    "RLM_MAX_MINUTES": "20",
    "RLM_ROLES": "single",
}
PIPELINE = """\
{"pipelines": [{"id": "rlm", "inputs": {
  "validator": "test -e from-pipeline", "maxIterations": 4, "maxMinutes": 40, "roles": "triad"
}}]}
"""
FLAGS = ("--validator", "test -e from-flag", "--max-iterations", "1", "--max-minutes", "10",
         "--roles", "triad")  # fmt: skip


def terms(stage: Stage, *flags: str, **environ: str) -> tuple[str, float, float, str]:
    """What holds in a run; it ends at its agent, which is not there."""
    ended = stage.cli("rlm", GOAL, "--agent", "./nobody", *flags, env=environ)
    assert ended.code == 4, ended
    state = stage.runs()[-1].state
    return state["validator"], state["maxIterations"], state["maxMinutes"], state["roles"]


@pytest.mark.full
def test_flag_over_environment_over_file_over_pipeline_over_default(stage: Stage) -> None:
    stage.repo.write("pytest.ini", "").commit()
    assert terms(stage) == ("pytest", 88, 2880, "single")
    stage.repo.write("codex.orchestrator.json", PIPELINE).commit()
    assert terms(stage) == ("test -e from-pipeline", 4, 40, "triad")
    stage.repo.write("rlm-ci.toml", FILE).commit()
    assert terms(stage) == ("test -e from-file", 3, 30, "triad")
    assert terms(stage, **ENVIRONMENT) == ("test -e from-environment", 2, 20, "single")
    assert terms(stage, *FLAGS, **ENVIRONMENT) == ("test -e from-flag", 1, 10, "triad")


@pytest.mark.sample(1)
@pytest.mark.parametrize("word", ["unlimited", "unbounded", "infinite", "Infinity", "0"])
def test_no_end_has_many_names(stage: Stage, word: str) -> None:
    """Each is refused where nothing else would end the run."""
    ended = stage.rlm("--validator", "none", "--max-minutes", "0", env={"RLM_MAX_ITERATIONS": word})
    assert ended.code == 5, ended
    assert "--max-iterations" in ended.stderr
    state = stage.only().state
    assert (state["maxIterations"], state["maxMinutes"]) == (0, 0)


@pytest.mark.full
def test_the_goal_of_the_environment(stage: Stage) -> None:
    """It is the goal where the command line has none."""
    goals = {None: "from the environment", GOAL: GOAL}
    for given, goal in goals.items():
        words = ("--agent", "./nobody")
        ended, run = stage.fixed(*words, goal=given, env={"RLM_GOAL": "from the environment"})
        assert ended.code == 4, ended
        assert run.state["goal"] == goal


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("arguments", "environ", "task"),
    [
        (("--task", "0105-rlm"), {"MCP_RUNNER_TASK_ID": "0200-other"}, "0105-rlm"),
        ((), {"MCP_RUNNER_TASK_ID": "0200-other"}, "0200-other"),
        ((), {}, "rlm-repo"),
    ],
)
def test_the_task(
    stage: Stage, arguments: tuple[str, ...], environ: dict[str, str], task: str
) -> None:
    ended = stage.rlm("--agent", "./nobody", *arguments, env=environ)
    assert ended.code == 4, ended
    assert f"Task: {task}\n" in ended.stderr
    assert stage.only().folder.parts[-3] == task


@pytest.mark.full
def test_the_task_is_told_beside_a_result_for_machines(stage: Stage) -> None:
    stage.llm.script(Play([MEND, done()]))
    ended, run = stage.fixed("--format", "json")
    assert ended.code == 0, ended
    assert ended.json()["run_id"] == run.id
    assert "Task: rlm-repo\n" in ended.stderr


def test_a_task_that_is_none_is_refused(stage: Stage) -> None:
    ended = stage.rlm("--task", "../../etc")
    assert ended.code == 5, ended
    assert stage.runs() == []


@pytest.mark.full
def test_a_rule_that_is_allowed_counts_for_nothing_and_is_told_everywhere(stage: Stage) -> None:
    stage.llm.script(Play([MEND, write(".github/workflows/x.yml", "on: push\n"), done()]))
    flags = ("--allow", "protected-path", "--allow=tamper/mode", "--validator", CHECK)
    ended, run = stage.fixed(*flags)
    assert (ended.code, run.final) == (0, "passed"), ended
    assert stage.source() == MENDED
    assert (stage.repo.path / ".github/workflows/x.yml").exists()
    told = "tamper/protected-path, tamper/mode"
    [finding] = run.report["findings"]
    assert finding["suppression"] == "allowed by --allow tamper/protected-path"
    [metrics] = [one["metrics"] for one in run.report["parts"] if one["id"] == "rlm"]
    assert metrics["allowed"] == told
    assert f"allowed: {told}" in " ".join(ended.stdout.split())
    assert json.loads((run.folder / "manifest.json").read_text())["allowed"] == told.split(", ")
    patch = run.text("rlm/result.patch")
    assert patch.startswith(f"# rlm-ci: allowed by --allow: {told}\ndiff --git ")
    for argv in (["git", "apply", "-R", "--check"], ["patch", "-p1", "-R", "--dry-run"]):
        subprocess.run(argv, input=patch, text=True, cwd=stage.repo.path, check=True)
    assert stage.cli("replay", run.id, "--check").code == 0
    assert stage.cli("verify", run.id).code == 0


def test_a_rule_that_there_is_not_is_named_with_the_nearest(stage: Stage) -> None:
    ended = stage.rlm("--allow", "tamper/protected-pat", "--validator", "true")
    assert ended.code == 5, ended
    assert "error: the guard has no rule 'tamper/protected-pat' (--allow)" in ended.stderr
    assert "did you mean tamper/protected-path? All of them: tamper/" in ended.stderr


def test_no_repository_allows_itself_to_break_a_rule(stage: Stage) -> None:
    stage.repo.write("rlm-ci.toml", '[loop]\nallow = ["tamper/mode"]\n').commit()
    assert stage.rlm("--validator", "true").code == 5


@pytest.mark.parametrize(
    ("goal", "only"),
    [
        ("Make the tests pass", True),
        ("make the tests pass.", True),
        ("make the validator pass", True),
        ("make it pass", True),
        ("  Please make all of the  unit tests green again!", True),
        ("get my test suite to pass", True),
        ("fix the failing tests", True),
        ("fix until green", True),
        ("Make the tests pass faster", False),
        ("Make the tests pass on Windows", False),
        ("Make the tests pass without the network", False),
        ("Fix the tests", False),
        ("Add a test, and make the tests pass", False),
        ("rename add", False),
        ("", False),
    ],
)
def test_a_goal_that_is_only_to_be_green(goal: str, *, only: bool) -> None:
    assert options(goal=goal, validator="true").limits.only_green is only


def test_gates_are_more_than_green() -> None:
    made = options(goal="make it pass", validator="true")
    gates = made.gates
    assert made.replace(gates=gates.replace(review=True, stuck_turns=3)).only_green
    assert not made.replace(gates=gates.replace(validation=("make lint",))).only_green
    assert not made.replace(gates=gates.replace(approval="a.json")).only_green
    assert not made.replace(validator=None).only_green
