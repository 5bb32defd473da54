"""Every way that a fix loop ends: exit code, ``final.status``, and what is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.resources import loader
from testing.fix_stage import BUG, MEND, STATE_KEYS, USELESS, Play, call, done, told_plainly, write
from testing.loopback_model.replies import busy, refusal

if TYPE_CHECKING:
    from testing.fix_stage import Outcome, Stage
    from testing.loopback_model.replies import Reply
    from testing.loopback_model.server import Asked

IDLE = Play([done()])


def busy_forever(number: int = 40) -> Play:
    """Each iteration changes something, and nothing helps."""
    return Play(*([write("notes.txt", f"{n}\n"), done()] for n in range(number)))


def has_ended(run: Outcome, code: int, status: str) -> None:
    manifest = run.manifest
    loader.validate(manifest, "manifest.schema.json", "manifest")
    assert (manifest["status"], manifest["exit_code"]) == ("failed" if code else "succeeded", code)
    assert manifest["completed_at"]
    assert set(run.state) == STATE_KEYS
    final = run.state["final"]
    assert (final["status"], final["exitCode"]) == (status, code)
    assert final["reason"]
    loader.validate(run.report, "report.schema.json", "report")


LIMITS = {
    "max_iterations": ("--max-iterations", "2"),
    "max_minutes": ("--max-minutes", "0.02"),
    "max_calls": ("--max-calls", "3"),
    "max_tokens": ("--max-tokens", "24000"),
    "budget_usd": ("--budget-usd", "0.18"),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("status", LIMITS)
def test_a_budget_ends_it(stage: Stage, status: str) -> None:
    stage.llm.script(busy_forever())
    ended, run = stage.fixed(*LIMITS[status])
    assert ended.code == 3, ended
    has_ended(run, 3, status)
    assert run.report["verdict"] == "incomplete"
    assert stage.source() == BUG
    turns = run.state["iterations"]
    if turns and turns[-1]["diffSummary"]:  # kept, not applied; a slow machine may have had no time
        assert "notes.txt" in run.text("rlm/result.patch")
    assert not (stage.repo.path / "notes.txt").exists()
    assert "Traceback" not in ended.stderr


@pytest.mark.full
@pytest.mark.parametrize(
    "status",
    [one if one == "max_calls" else pytest.param(one, marks=pytest.mark.full) for one in LIMITS],
)
def test_without_a_validator_a_budget_completes_it(stage: Stage, status: str) -> None:
    stage.llm.script(busy_forever())
    ended, run = stage.fixed("--validator", "none", *LIMITS[status])
    assert ended.code == 0, ended
    has_ended(run, 0, "budget_complete")
    assert run.state["validator"] == "none"
    assert "Output of the validator" not in ended.stderr
    turns = run.state["iterations"]
    written = bool(turns and turns[-1]["diffSummary"])
    assert written or status == "max_minutes", run.state  # a slow machine may have had no time
    assert (stage.repo.path / "notes.txt").exists() == written


@pytest.mark.full
def test_no_progress(stage: Stage) -> None:
    stage.llm.script(IDLE)
    ended, run = stage.fixed()
    assert ended.code == 3, ended
    has_ended(run, 3, "no_progress")
    assert len(run.state["iterations"]) == 2
    assert run.text("rlm/result.patch") == ""


def test_tampered(stage: Stage) -> None:
    stage.repo.write("tox.ini", "[flake8]\n").commit()
    stage.llm.script(Play([call("delete", path="tox.ini"), done()]))
    ended, run = stage.fixed("--validator", "test ! -e tox.ini")
    assert ended.code == 1, ended
    has_ended(run, 1, "tampered")
    assert "tamper/config-weakened" in run.rules
    assert (stage.repo.path / "tox.ini").exists()
    assert run.report["verdict"] == "findings"
    assert run.report["parts"][0]["verdict"] == "incomplete"
    assert "✓" not in ended.stdout
    assert stage.cli("verify", "latest").code == 0, "what was there before is looked up there"


@pytest.mark.parametrize(
    ("validator", "told"),
    [
        ("printf '%s\\n' 'Ran 1 test in 0.000s' '' 'OK (skipped=1)'", "says that no test ran"),
        pytest.param("kill -9 $$", "exit code 137, which means SIGKILL", marks=pytest.mark.full),
        ("echo the one useful line; exit 3", "it fails with exit code 3, and names no place"),
    ],
)
def test_the_report_says_why_a_validator_is_not_green(
    stage: Stage, validator: str, told: str
) -> None:
    agent = ("--agent", "python3 -c pass")
    ended, run = stage.fixed(*agent, "--max-iterations", "1", "--validator", validator)
    assert ended.code == 3, ended
    assert told in run.report["parts"][1]["summary"]
    shown = " ".join(ended.stdout.split())
    assert told in shown
    assert "see rlm/validator-1.log" in shown
    log = f".runs/rlm-repo/cli/{run.id}/rlm/validator-1.log"
    assert f"\nOutput of the validator: {log}\n" in ended.stderr
    assert stage.cli("replay", run.id, "--check").code == 0
    if "echo" in validator:
        assert "The last lines of the validator: the one useful line" in shown


@pytest.mark.parametrize(
    ("validator", "what", "last"),
    [
        ("sh -c 'cd . && vitest run'", "vitest was not found", "sh: 1: vitest: not found"),
        ("printf '%s\\n' ----- 'Ran 0 tests in 0.000s' '' OK", "found no test to run", "OK"),
    ],
)
def test_a_validator_that_cannot_start_is_no_work_for_an_agent(
    stage: Stage, validator: str, what: str, last: str
) -> None:
    ended, run = stage.fixed("--validator", validator)
    assert ended.code == 4, ended
    has_ended(run, 4, "error")
    told_plainly(ended)
    assert f"error: the validator cannot start: {what}" in ended.stderr.replace("unittest ", "")
    assert f"\n  {last}\n" in ended.stderr
    assert f"{run.id}/rlm/validator-0.log" in ended.stderr
    assert last in run.text("rlm/validator-0.log")
    assert stage.llm.completions == []
    assert stage.cli("replay", run.id).code == 4


def test_a_validator_that_watches_is_named_at_once(stage: Stage) -> None:
    stage.repo.write("package.json", '{"scripts": {"test": "jest --watchAll"}}').commit()
    ended, run = stage.fixed("--validator", "npm test")
    assert ended.code == 5, ended
    has_ended(run, 5, "invalid_config")
    told_plainly(ended)
    what = "the validator watches for changes, and never ends: jest --watchAll"
    assert f"error: {what} (script test of package.json)" in ended.stderr
    assert 'hint: pass --validator "npx jest"' in ended.stderr
    assert not run.facts("validator")


@pytest.mark.full
def test_one_that_turns_out_to_watch_is_no_work_for_an_agent(stage: Stage) -> None:
    validator = "sh -c 'echo \"[mocha] waiting for changes...\"; sleep 60'"
    env = {"RLM_CI_LOOP_VALIDATOR_MINUTES": "0.05"}
    ended, run = stage.fixed("--validator", validator, env=env)
    assert ended.code == 4, ended
    assert "the validator watches for changes, and never ends" in ended.stderr
    assert run.state["iterations"] == []


@pytest.mark.full
def test_a_run_goes_on_once_its_validator_can_start(stage: Stage) -> None:
    stage.repo.write(".gitignore", ".runs/\nout/\nnode_modules/\n").commit()
    validator = "sh -c 'node_modules/.bin/check && grep -q \"a + b\" calc.py'"
    ended, run = stage.fixed("--validator", validator)
    assert ended.code == 4, ended
    assert "node_modules/.bin/check was not found" in ended.stderr
    stage.repo.write("node_modules/.bin/check", "#!/bin/sh\n")
    (stage.repo.path / "node_modules/.bin/check").chmod(0o755)
    resumed = stage.cli("resume", run.id)
    assert (resumed.code, run.final) == (0, "passed"), resumed


def test_ambiguous_validators_are_listed(stage: Stage) -> None:
    stage.repo.write("go.mod", "module calc\n").write("Cargo.toml", "[package]\n").commit()
    ended, run = stage.fixed("--validator", "auto")
    assert ended.code == 2, ended
    has_ended(run, 2, "no_validator")
    told_plainly(ended)
    for candidate in ("go test ./...", "cargo test", "--validator"):
        assert candidate in ended.stderr
    assert stage.llm.completions == []


def test_no_validator_at_all(stage: Stage) -> None:
    ended, run = stage.fixed("--validator", "auto")
    assert ended.code == 2, ended
    has_ended(run, 2, "no_validator")
    told_plainly(ended)
    assert "--validator" in ended.stderr


CANNOT = {
    "validator": (("--validator", "no-such-program --fast"), 4, "error", "no-such-program"),
    "agent": (("--agent", "./no-such-agent -q"), 4, "error", "no-such-agent"),
    "unbounded": (
        ("--validator", "none", "--max-iterations", "0", "--max-minutes", "0"),
        5, "invalid_config", "--max-iterations",
    ),
    "unknown agent": (("--agent", "copilot"), 5, "invalid_config", "copilot"),
    "price": (("--model", "nobody-knows-1", "--budget-usd", "1"), 5, "invalid_config", "price"),
    "unmetered": (
        ("--agent", "sh agent.sh", "--budget-usd", "3"), 5, "invalid_config", "budget_usd",
    ),
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("case", CANNOT)
def test_what_cannot_be_done_is_told(stage: Stage, case: str) -> None:
    arguments, code, status, word = CANNOT[case]
    ended, run = stage.fixed(*arguments)
    assert ended.code == code, ended
    has_ended(run, code, status)
    told_plainly(ended)
    assert word in ended.stderr
    assert ("continue it:" in ended.stderr) == (code == 4)
    assert stage.llm.completions == []
    assert stage.source() == BUG


@pytest.mark.full
def test_an_error_names_who_has_said_it(stage: Stage) -> None:
    """Not a flag that nobody has used."""
    variable = stage.rlm(env={"RLM_CI_LOOP_AGENT": "nofixer"})
    assert variable.code == 5, variable
    assert "there is no agent 'nofixer' (RLM_CI_LOOP_AGENT)" in variable.stderr
    stage.repo.write("rlm-ci.toml", '[loop]\nvalidator = "none"\nmax_minutes = 0\n').commit()
    words = ("rlm", "go", "--agent", "true x", "--max-iterations", "0")
    in_file = stage.cli(*words)
    assert in_file.code == 5, in_file
    assert "(rlm-ci.toml" in in_file.stderr
    stage.repo.write("rlm-ci.toml", '[loop]\nroles = "triad"\n').commit()
    roles = stage.rlm("--agent", "autofix")
    assert roles.code == 5, roles
    assert "autofix cannot be the planner" in roles.stderr
    assert "(rlm-ci.toml" in roles.stderr
    assert "(--" not in variable.stderr + in_file.stderr + roles.stderr.partition("hint:")[0]


def test_no_key_and_no_agent(stage: Stage) -> None:
    ended, run = stage.fixed(env={"OPENAI_API_KEY": None, "OPENAI_BASE_URL": None})
    assert ended.code == 5, ended
    has_ended(run, 5, "invalid_config")
    told_plainly(ended)
    for way_out in ("OPENAI_API_KEY", "--agent autofix"):
        assert way_out in ended.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--roles", "quartet"), "quartet"),
        (("--max-iterations", "many"), "many"),
        (("--max-minutes", "-1"), "-1"),
        (("--sandbox", "chroot"), "chroot"),
    ],
)
def test_a_wrong_value_is_told_before_anything_begins(
    stage: Stage, arguments: tuple[str, ...], word: str
) -> None:
    ended = stage.rlm(*arguments)
    assert ended.code == 5, ended
    told_plainly(ended)
    assert word in ended.stderr
    assert stage.runs() == []


REFUSALS: dict[str, Reply] = {
    "key": refusal(401, "Incorrect API key provided", code="invalid_api_key"),
    "model": refusal(404, "The model does not exist", code="model_not_found"),
    "busy": busy("0"),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("case", REFUSALS)
def test_a_model_service_that_refuses(stage: Stage, case: str) -> None:
    stage.llm.script(lambda _asked: REFUSALS[case])
    ended, run = stage.fixed(timeout=120)
    assert ended.code == 8, ended
    has_ended(run, 8, "error")
    told_plainly(ended)
    assert 1 <= len(stage.llm.completions) <= 10
    assert stage.llm.key not in ended.stderr
    assert f"continue it: rlm-ci resume {run.id}\n" in ended.stderr
    again = stage.cli("resume", run.id)
    assert again.code == 8, again
    assert f"continue it: rlm-ci resume {run.id}\n" in again.stderr


@pytest.mark.full
def test_what_it_cost_is_told_however_it_ends(stage: Stage) -> None:
    first = Play([USELESS, done()])

    def play(asked: Asked) -> Reply:
        return first(asked) if len(stage.llm.completions) < 3 else REFUSALS["key"]

    stage.llm.script(play)
    ended, run = stage.fixed()
    assert (ended.code, run.final) == (8, "error"), ended
    assert "Models: 2 calls, " in ended.stderr
    assert f"continue it: rlm-ci resume {run.id}" in ended.stderr


def test_where_the_result_goes_is_looked_at_first(stage: Stage) -> None:
    ended = stage.rlm("-o", "/nonexistent/x")
    assert ended.code == 9, ended
    told_plainly(ended)
    assert stage.runs() == []
    assert stage.llm.completions == []


@pytest.mark.full
def test_nobody_listens(stage: Stage) -> None:
    stage.llm.stop()
    ended, run = stage.fixed(timeout=120)
    stage.llm.start()
    assert ended.code == 8, ended
    has_ended(run, 8, "error")
    told_plainly(ended)


def test_a_goal_is_needed(stage: Stage) -> None:
    for goal in (None, "", "  \n"):
        ended = stage.rlm(goal=goal)
        assert ended.code == 2, ended
        told_plainly(ended)
    ended = stage.rlm("another")
    assert ended.code == 2, ended
    assert stage.runs() == []


@pytest.mark.full
def test_what_was_edited_when_the_budget_ended_may_be_green(stage: Stage) -> None:
    stage.llm.script(Play([MEND, USELESS, done()]))
    ended, run = stage.fixed("--max-calls", "1")
    assert ended.code == 0, ended
    has_ended(run, 0, "passed")
    assert stage.llm.bill.calls == 1
