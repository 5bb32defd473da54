"""A repository whose own stages take the place of the fix loop: they are told, and they tell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.resources import loader
from testing.fix_stage import told_plainly

if TYPE_CHECKING:
    from testing.fix_stage import Stage

NONE = ("--sandbox", "none")


def defined(stage: Stage, *commands: str, **more: Any) -> None:
    stages = [
        {"kind": "command", "title": f"Stage {number}", "command": text, **more}
        for number, text in enumerate(commands, 1)
    ]
    record = {"pipelines": [{"id": "rlm", "stages": stages}]}
    stage.repo.write("codex.orchestrator.json", json.dumps(record)).commit()


def test_its_stages_get_the_flags(stage: Stage) -> None:
    """Stronger than what the definition and the environment say; the sandbox is not passed on."""
    said = "; ".join(
        f"echo {name}=${name}"
        for name in ("RLM_GOAL", "RLM_VALIDATOR", "RLM_CI_LOOP_VALIDATOR", "RLM_MAX_ITERATIONS",
                     "RLM_CI_LOOP_ALLOW_TEST_EDITS", "RLM_ROLES", "RLM_CI_SANDBOX")
    )  # fmt: skip
    defined(stage, said, env={"RLM_VALIDATOR": "defined", "RLM_ROLES": "defined"})
    flags = ("--validator", "make it", "--max-iterations", "3", "--allow-test-edits")
    ended = stage.rlm(*NONE, *flags, env={"RLM_CI_LOOP_VALIDATOR": "weaker"})
    assert ended.code == 0, ended
    log = (stage.only().folder / "commands/01-stage-1.log").read_text()
    assert log.splitlines()[1:-1] == [
        "RLM_GOAL=make the tests pass",
        "RLM_VALIDATOR=make it",
        "RLM_CI_LOOP_VALIDATOR=make it",
        "RLM_MAX_ITERATIONS=3",
        "RLM_CI_LOOP_ALLOW_TEST_EDITS=true",
        "RLM_ROLES=defined",
        "RLM_CI_SANDBOX=",
    ]


def test_its_result_is_shown(stage: Stage) -> None:
    defined(stage, "echo all is well")
    ended = stage.rlm(*NONE)
    assert ended.code == 0, ended
    assert (stage.repo.path / stage.only().manifest["log_path"]).is_file()
    assert "status     succeeded" in ended.stdout
    assert "all is well" in ended.stdout
    as_json = stage.rlm(*NONE, "--format", "json")
    record = as_json.json()
    del record["manifest"], record["gone"]
    loader.validate(record, "manifest.schema.json", "rlm")
    assert (record["status"], record["summary"]) == ("succeeded", "all is well")
    assert stage.rlm(*NONE, "--format", "sarif").code == 2
    assert len(stage.runs()) == 2


@pytest.mark.parametrize(("code", "ends"), [(1, 1), (3, 3), (4, 4), (42, 1), (8, 8)])
def test_it_ends_as_ours_would(stage: Stage, code: int, ends: int) -> None:
    """A code of our table is what it is, any other one is a failure."""
    defined(stage, "true", f"echo boom; exit {code}", "true")
    ended = stage.rlm(*NONE)
    assert ended.code == ends, ended
    told_plainly(ended)
    run = stage.only()
    assert f"error: 'Stage 2' failed: exit {code}: boom (rlm)" in ended.stderr
    assert f"hint: its output is in .runs/rlm-repo/cli/{run.id}/commands/02-stage-2.log" in (
        ended.stderr
    )
    assert (f"continue it: rlm-ci resume {run.id}" in ended.stderr) == (ends in (4, 8))
    assert run.manifest["exit_code"] == ends
