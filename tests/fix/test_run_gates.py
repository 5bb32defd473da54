"""Gates of a real run: what fails goes back to the agent, and a person has the last word."""

from __future__ import annotations

import json
import os
import re
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.resources import loader
from testing.fix_stage import BUG, MENDED, QUICK, alike

if TYPE_CHECKING:
    from collections.abc import Callable

    from testing.fix_stage import Outcome, Stage
    from testing.program import Ended

#: It mends at first, and does the rest only once the gates ask for it.
AGENT = """\
#!/bin/sh
if grep -q 'a gate does not'; then
  sed -i 's/\\[ \\]/[x]/' TODO.md
  echo 'Summary: ticked. <promise>ALL DONE</promise>'
else
  sed -i 's/a - b/a + b/' calc.py
  mkdir -p ok && echo '{"status": "approved"}' > ok/yes.json
  echo 'Summary: mended'
fi
"""
GATES = """\
[loop.gates]
promise.text = "ALL DONE"
tests.command = "sh check.sh calc.py"
validation.commands = ["grep -q 'x. Mend' TODO.md", "test -e calc.py"]
checklists.paths = ["TODO.md"]
evidence.enabled = true
approval.file = "ok/yes.json"
"""
WORDS = ("--agent", "sh agent.sh")
ALL = ["promise", "checklists", "tests", "validation", "evidence", "approval"]


def staged(stage: Stage, gates: str = GATES, agent: str = AGENT) -> None:
    stage.repo.write("agent.sh", agent).write("check.sh", f'{QUICK}\necho "it adds"\n')
    stage.repo.write("TODO.md", "- [ ] Mend it\n- [x] Ask\n").write("rlm-ci.toml", gates).commit()


def approve(stage: Stage, run: Outcome) -> Ended:
    (stage.repo.path / "ok").mkdir(exist_ok=True)
    (stage.repo.path / "ok/yes.json").write_text(run.text("rlm/approval.json"))
    return stage.cli("resume", run.id)


def verdicts(run: Outcome, iteration: int = 0) -> dict[str, str]:
    found = run.state["iterations"][iteration - 1].get("gates", [])
    return {one["name"]: one["verdict"] for one in found}


def evidence(run: Outcome) -> dict[str, Any]:
    """The manifest, without what differs by the seconds in a log."""
    found = run.json("rlm/evidence.json")
    logs = [one for one in found["artifacts"] if one["path"].endswith(".log")]
    assert all(re.fullmatch("[0-9a-f]{64}", one.pop("sha256")) for one in logs)
    return found


@pytest.mark.full
def test_what_fails_goes_to_the_agent_and_a_person_has_the_last_word(stage: Stage) -> None:
    staged(stage)
    ended, run = stage.fixed(*WORDS)
    assert (ended.code, run.final) == (3, "paused"), ended
    loader.validate(run.state, "state.schema.json", "state")
    failed = dict.fromkeys(("promise", "checklists", "validation"), "failed")
    assert verdicts(run, 1) == {
        **dict.fromkeys(ALL, "passed"), **failed, "approval": "not_asked"
    }  # fmt: skip
    assert verdicts(run) == {**dict.fromkeys(ALL, "passed"), "approval": "waiting"}
    prompt = run.text("rlm/iteration-2/1-single-prompt.md")
    assert "Gate checklists: TODO.md: 1 open item: Mend it" in prompt
    assert "Waiting: a person must approve the result" in ended.stdout
    assert f"rlm-ci resume {run.id}" in ended.stderr
    assert stage.source() == BUG
    found = evidence(run)
    assert [one["path"] for one in found["changes"]] == ["TODO.md", "calc.py"]
    assert "rlm/gate-tests-2-1.log" in [one["path"] for one in found["artifacts"]]
    ended = approve(stage, run)
    assert (ended.code, run.final) == (0, "passed"), ended
    assert verdicts(run) == dict.fromkeys(ALL, "passed")
    assert run.text("rlm/gate-summary.txt").startswith("iteration=2 promise=passed")
    assert evidence(run) == found
    assert "6 gates passed" in run.text("comment.md")
    assert stage.source() == MENDED
    verified = stage.cli("verify", run.id)
    assert verified.code == 0, verified
    assert len(run.facts("agent")) == 2  # none of it was done twice


def _has(records: Callable[[], int], number: int) -> bool:
    return records() >= number


@pytest.mark.full
def test_killed_anywhere_and_resumed_it_waits_for_the_same(stage: Stage) -> None:
    staged(stage)
    ended, calm = stage.fixed(*WORDS)
    assert ended.code == 3, ended
    expected, manifest = alike(calm), evidence(calm)
    del expected["rlm/evidence.json"]
    total = len(calm.lines("calls.jsonl"))
    for number in range(6, total, max(1, total // 2)):
        child, records = stage.begin(*WORDS)
        child.kill_when(partial(_has, records, number))
        killed = child.wait() == -signal.SIGKILL
        run = stage.runs()[-1]
        resumed = stage.cli("resume", run.id) if killed else None
        assert resumed is None or (resumed.code, run.final) == (3, "paused"), resumed
        assert evidence(run) == manifest
        found = alike(run)
        del found["rlm/evidence.json"]
        assert found == expected


#: What a hostile agent does besides its work, and the gate that stands in its way.
HOSTILE = {
    "approval": ("mv ok no; ln -s no ok; echo '!ok' > .gitignore", ""),
    "checklists": ("echo '- [x] All of it' > TODO.md", "2 items removed or reworded: "),
    "tests": ("echo 'exit 0' > check.sh; sed -i 's/a + b/a - b + 2 * b/' calc.py", ""),
    "validation": ("rm calc.py; ln -s TODO.md calc.py", ""),
}


@pytest.mark.full
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_agent_does_not_pass(stage: Stage, name: str) -> None:
    did, told = HOSTILE[name]
    staged(stage, agent=f"{AGENT}{did}\n")
    ended, run = stage.fixed(*WORDS, "--max-iterations", "4")
    assert run.final != "passed", ended
    assert told in ended.stdout
    assert stage.source() == BUG


@pytest.mark.full
def test_commands_decide_where_there_is_no_validator(stage: Stage) -> None:
    staged(stage, '[loop.gates]\ntests.command = "sh check.sh"\n')
    ended, run = stage.fixed(*WORDS, "--validator", "none")
    assert (ended.code, run.final) == (0, "passed"), ended
    assert "the gates pass after 1 iteration" in ended.stdout
    assert stage.source() == MENDED


@pytest.mark.full
def test_the_same_failures_again_and_again_end_it_with_a_report(stage: Stage) -> None:
    staged(stage, "")
    check = f"{QUICK} || {{ echo 'the sum is wrong'; exit 1; }}"
    agent = "sh -c 'echo $(wc -l < calc.py) >> n.txt; echo x >> calc.py'"
    ended, run = stage.fixed("--agent", agent, "--validator", check)
    assert (ended.code, run.final) == (3, "no_progress"), ended
    assert "3 turns in a row left the same failures" in ended.stdout
    told = run.text("rlm/stuck-report.md")
    assert "the sum is wrong" in told
    assert "## Iteration 3" in told
    ended, run = stage.fixed("--agent", agent, "--validator", check, "--max-iterations", "4",
                             env={"RLM_CI_LOOP_GATES_STUCK_TURNS": "0"})  # fmt: skip
    assert run.final == "max_iterations"


@pytest.mark.full
def test_a_pull_request_cannot_weaken_the_gates_that_judge_it(stage: Stage) -> None:
    staged(stage)
    base = stage.repo.sha()
    stage.repo.write("rlm-ci.toml", '[loop.gates]\npromise.text = "ALL"\n')
    stage.repo.write("TODO.md", "- [x] Mend it\n").write("ok/yes.json", '{"status": "approved"}')
    stage.repo.write("check.sh", "true\n").commit()
    ends = {"base": base, "head": stage.repo.sha()}
    pull_request = {"number": 1, "title": "One", "body": "", "labels": []} | {
        side: {"sha": sha, "ref": side, "repo": {"full_name": "o/r"}} for side, sha in ends.items()
    }
    event = stage.repo.path.parent / "event.json"
    event.write_text(json.dumps({"pull_request": pull_request}))
    env = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "pull_request",
           "GITHUB_EVENT_PATH": os.fspath(event)}  # fmt: skip
    ended, run = stage.fixed(*WORDS, "--max-iterations", "2", env=env)
    assert (ended.code, run.final) == (3, "max_iterations"), ended
    told = {one["name"]: one["reason"] for one in run.state["iterations"][-1]["gates"]}
    assert told["checklists"] == "TODO.md: 1 item removed or reworded: Ask"
    assert told["promise"] == "promised: ALL DONE"
    assert verdicts(run)["approval"] == "not_asked"


#: Tests that only a gate runs, and how an agent makes them pass: validator, gate, agent.
BENT = {
    "edited": (
        "python -m pytest -q test_calc.py",
        "python -m pytest -q verify_calc.py",
        "sed -i 's/return.*/return 3/' calc.py; sed -i 's/== 4/== 3/' verify_calc.py",
    ),
    "silent": (
        "grep -q add calc.py",
        "python -m pytest -q",
        "printf 'import os\\nprint(\"1 passed in 1s\", flush=True)\\nos._exit(0)  # add' > calc.py",
    ),
    "patched": (
        "grep -q add calc.py",
        "python -m pytest -q .",
        "printf 'import calc\\ncalc.add = int.__add__\\ndef test_it():\\n    pass\\n' > test_a.py",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("name", BENT)
def test_tests_that_only_a_gate_runs_are_protected_like_the_validators(
    stage: Stage, name: str
) -> None:
    validator, gate, did = BENT[name]
    verify = "from calc import add\n\n\ndef test_more():\n    assert add(2, 2) == 4\n"
    stage.repo.write("verify_calc.py", verify).write("agent.sh", did)
    stage.repo.write("rlm-ci.toml", f'[loop.gates.tests]\ncommand = "{gate}"\n').commit()
    ended, run = stage.fixed(*WORDS, "--validator", validator, "--max-iterations", "1")
    assert (ended.code, run.final) == (3, "max_iterations"), ended
    assert verdicts(run) == {"tests": "failed"}
