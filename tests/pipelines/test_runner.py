"""Stages are real processes: what they say is kept, and what they leave behind is not."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rlm_ci.errors import RemoteError
from rlm_ci.pipelines import definition, runner
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.run import Run
from testing.run_store import SECRET, Place

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups")


def setting(place: Place, *tables: dict[str, Any], **more: Any) -> runner.RunnerContext:
    place.root.mkdir(exist_ok=True)
    known = definition.merge(definition.from_settings(list(tables), "rlm-ci.toml"))
    environ = {"PATH": os.environ["PATH"], "MY_TOKEN": SECRET}
    actions = more.pop("actions", {})
    return runner.RunnerContext(place.store, str(place.root), environ, known, actions, **more)


def ci(*listed: str | dict[str, Any], name: str = "ci") -> dict[str, Any]:
    return {"id": name, "stages": [
        {"title": one, "command": one} if isinstance(one, str) else one for one in listed
    ]}  # fmt: skip


def conduct(place: Place, where: runner.RunnerContext, goal: str | None = None) -> tuple[int, Run]:
    with place.create() as run:
        return runner.conduct(run, "ci", where, goal), run


def told(run: Run) -> list[tuple[str, int | None, str | None]]:
    steps = manifests.read(run.path).commands
    return [(step.status, step.exit_code, step.summary) for step in steps]


def log(run: Run, number: int) -> str:
    return next(Path(run.path, "commands").glob(f"{number:02}-*.log")).read_text()


def test_all_stages_are_carried_out_in_order(place: Place) -> None:
    code, run = conduct(place, setting(place, ci("echo one >> said", "echo two >> said; echo 7")))
    assert code == 0
    assert (place.root / "said").read_text() == "one\ntwo\n"
    assert told(run) == [("succeeded", 0, ""), ("succeeded", 0, "7")]
    assert run.manifest.summary == "2 stages done"
    assert log(run, 2).endswith("$ echo two >> said; echo 7\n7\n[exit 0]\n")
    assert run.manifest.commands[1].log_path == (
        f"{run.manifest.artifact_root}/commands/02-echo-two-said-echo-7.log"
    )


def test_after_a_failure_the_rest_is_skipped(place: Place) -> None:
    listed = (
        "true",
        {"command": "exit 9", "title": "Odd", "allow_failure": True},
        "exit 3",
        "true",
    )
    code, run = conduct(place, setting(place, ci(*listed)))
    assert code == 1
    assert [status for status, _, _ in told(run)] == ["succeeded", "failed", "failed", "skipped"]
    assert told(run)[2:] == [("failed", 3, "exit 3"), ("skipped", None, "skipped: 'exit 3' failed")]
    assert (run.manifest.status, run.manifest.exit_code) == ("failed", 1)


def test_a_hint_is_the_summary_of_a_success(place: Place) -> None:
    stage = {"command": "echo noise", "summary_hint": "built"}
    _, run = conduct(place, setting(place, ci(stage)))
    assert run.manifest.summary == "built"


def test_a_stage_knows_its_run_and_its_own_words_are_stronger(place: Place) -> None:
    stage = {"command": "env; pwd", "cwd": "sub", "env": {"MCP_RUNNER_TASK_ID": "", "MINE": "a b"}}
    (place.root / "sub").mkdir(parents=True)
    _, run = conduct(place, setting(place, ci(stage)), "make it $HOME")
    said = set(log(run, 1).splitlines())
    prefix = "CODEX_ORCHESTRATOR_"
    assert {
        "MCP_RUNNER_TASK_ID=", "MINE=a b", "RLM_GOAL=make it $HOME", f"{prefix}TASK_ID=t1",
        f"{prefix}RUN_ID={run.id}", f"{prefix}PIPELINE_ID=ci", f"{prefix}RUN_DIR={run.path}",
        f"{prefix}MANIFEST_PATH={run.path}/manifest.json", f"{prefix}OUT_DIR={place.out}",
        f"{prefix}RUNS_DIR={place.store.root}", f"{prefix}ROOT={place.root}",
        str(place.root / "sub"),
    } <= said  # fmt: skip
    assert any(line.startswith(f"{prefix}PACKAGE_ROOT=") for line in said)


def test_a_secret_that_a_stage_prints_is_not_kept(place: Place) -> None:
    listed = ('echo "$MY_TOKEN"', 'echo "$MY_TOKEN" >&2; exit 1')
    _, run = conduct(place, setting(place, ci(*listed)))
    assert SECRET not in place.texts()
    assert "[redacted]" in log(run, 1)


@pytest.mark.parametrize("cut", [(256 << 10) - 7, -(768 << 10) - 7])
def test_a_secret_at_the_seam_of_what_is_left_out_is_not_kept(place: Place, cut: int) -> None:
    total = 2 << 20
    before = cut if cut > 0 else total + cut
    stage = (
        f"head -c {before} /dev/zero | tr '\\0' x; printf %s \"$MY_TOKEN\"; "
        f"head -c {total - before - len(SECRET)} /dev/zero | tr '\\0' y"
    )
    _, run = conduct(place, setting(place, ci(stage)))
    said = log(run, 1)
    assert "bytes left out" in said
    assert SECRET[:5] not in said
    assert SECRET[-5:] not in said


def test_output_of_any_size_and_kind_is_kept_in_bounds(place: Place) -> None:
    stage = r"head -c 20000000 /dev/zero | tr '\0' x; printf '\377\033[31m end'"
    _, run = conduct(place, setting(place, ci({"command": stage, "title": "Loud"})))
    assert len(log(run, 1)) < 1_200_000
    assert "bytes left out" in log(run, 1)
    summary = run.manifest.commands[0].summary
    assert summary is not None
    assert len(summary) <= 200
    assert summary.isprintable()


@pytest.mark.full
def test_a_stage_out_of_time_is_killed_with_all_that_it_started(place: Place) -> None:
    stage = {"command": "sleep 77 & echo $! > child; trap '' TERM; sleep 77", "timeout_ms": 300,
             "title": "Slow"}  # fmt: skip
    code, run = conduct(place, setting(place, ci(stage, "true")))
    assert code == 3
    assert told(run)[0][2] == "timed out after 0.3 s"
    assert log(run, 1).endswith("[timed out after 0.3 s]\n")
    child = int((place.root / "child").read_text())
    deadline = time.monotonic() + 5
    while Path(f"/proc/{child}/stat").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break
        time.sleep(0.02)
    else:
        assert not Path(f"/proc/{child}/stat").exists()


def test_a_stage_without_a_timeout_gets_the_default_one(place: Place) -> None:
    code, _ = conduct(place, setting(place, ci("sleep 77"), timeout=0.2))
    assert code == 3


@pytest.mark.parametrize(
    "stage", [{"command": ["no-such-program"]}, {"command": "true", "cwd": "nowhere"}]
)
def test_a_stage_that_cannot_be_started_is_unavailable(place: Place, stage: dict[str, Any]) -> None:
    code, run = conduct(place, setting(place, ci(stage)))
    assert code == 4
    assert "could not be started" in (told(run)[0][2] or "")


def test_words_are_passed_on_without_a_shell(place: Place) -> None:
    stage = {"command": ["printf", "%s|", "a b", "$HOME", "`id`", "*"]}
    _, run = conduct(place, setting(place, ci(stage)))
    assert "\na b|$HOME|`id`|*|\n" in log(run, 1)


# -- our own actions, and sub-pipelines ----------------------------------------------------------


def test_what_we_do_ourselves_is_a_stage_too(place: Place) -> None:
    asked = []

    def action(run: Run, goal: str | None) -> tuple[int, str]:
        asked.append((run.manifest.pipeline_id, goal))
        return 3, "out of budget"

    where = setting(place, ci({"pipeline": "rlm"}, "true"), actions={"rlm": action})
    code, run = conduct(place, where, "go")
    assert (code, asked) == (3, [("rlm", "go")])
    child = manifests.read(os.path.join(os.path.dirname(run.path), told_child(run)))
    assert (child.parent_run_id, child.exit_code, child.status) == (run.id, 3, "failed")
    assert run.manifest.child_runs[0].status == "failed"


def told_child(run: Run) -> str:
    [child] = manifests.read(run.path).child_runs
    [step] = [step for step in run.manifest.commands if step.kind == "subpipeline"]
    assert step.sub_run_id == child.run_id
    return child.run_id


def test_an_error_of_ours_in_a_sub_pipeline_is_the_exit_code_of_both(place: Place) -> None:
    def action(_run: Run, _goal: str | None) -> tuple[int, str]:
        raise RemoteError("it stayed away")

    where = setting(place, ci({"pipeline": "rlm"}), actions={"rlm": action})
    code, run = conduct(place, where)
    assert code == 8
    assert run.manifest.is_resumable
    assert told(run)[0][2] == "it stayed away"


def test_an_optional_sub_pipeline_may_fail_or_be_missing(place: Place) -> None:
    listed = ({"pipeline": "sub", "optional": True}, {"pipeline": "none", "optional": True}, "true")
    code, run = conduct(place, setting(place, ci(*listed), ci("exit 1", name="sub")))
    assert code == 0
    assert run.manifest.summary == "1 stage done; failed, as it may: sub, none"
    assert [status for status, _, _ in told(run)] == ["failed", "failed", "succeeded"]


# -- going on ------------------------------------------------------------------------------------


def test_an_interrupted_pipeline_goes_on_where_it_stopped(place: Place) -> None:
    tries = []

    def action(_run: Run, _goal: str | None) -> tuple[int, str]:
        tries.append(1)
        if len(tries) == 1:
            raise KeyboardInterrupt
        return 0, "done"

    inner = ci("echo inner >> said", {"pipeline": "rlm"}, name="sub")
    outer = ci("echo outer >> said", {"pipeline": "sub"}, "echo end >> said")
    where = setting(place, outer, inner, actions={"rlm": action})
    with place.create() as run, pytest.raises(KeyboardInterrupt):
        runner.conduct(run, "ci", where)
    stopped = manifests.read(run.path)
    assert (stopped.status, stopped.status_detail) == ("cancelled", "interrupted")
    assert [step.status for step in stopped.commands] == ["succeeded", "pending"]
    child = told_child(run)
    with place.open(run.path) as again:
        assert runner.conduct(again, "ci", where) == 0
    assert (place.root / "said").read_text() == "outer\ninner\nend\n"
    assert told_child(again) == child  # the same child went on
    assert again.manifest.child_runs[0].status == "succeeded"


def test_a_stage_is_told_the_inputs_that_the_environment_does_not_have(place: Place) -> None:
    table = ci("echo $RLM_VALIDATOR $RLM_MAX_ITERATIONS $RLM_CI_LOOP_AGENT_ENV")
    inputs = {"validator": "make", "max_iterations": 4, "agent_env": ["A", "B"]}
    where = setting(place, {**table, "inputs": inputs})
    where = where.replace(environ={**where.environ, "RLM_MAX_ITERATIONS": "9"})
    _, run = conduct(place, where)
    assert told(run) == [("succeeded", 0, "make 9 A,B")]


def test_a_run_that_pauses_can_go_on(place: Place) -> None:
    def pause(run: Run, _goal: str | None) -> tuple[int, str]:
        run.detail = manifests.PAUSED
        return 3, "paused: which of the two?"

    def go_on(_run: Run, _goal: str | None) -> tuple[int, str]:
        return 0, "done"

    with place.create(pipeline="rlm") as run:
        assert runner.conduct(run, "rlm", setting(place, actions={"rlm": pause})) == 3
    ended = manifests.read(run.path)
    assert (ended.status, ended.status_detail, ended.exit_code) == ("failed", "paused", 3)
    assert ended.is_resumable
    with place.open(run.path) as again:
        assert runner.conduct(again, "rlm", setting(place, actions={"rlm": go_on})) == 0
    ended = manifests.read(run.path)
    assert (ended.status, ended.status_detail) == ("succeeded", None)


@pytest.mark.parametrize(("is_resumable", "detail"), [(True, "interrupted"), (False, "cancelled")])
def test_after_a_signal_only_a_run_that_can_go_on_says_so(
    place: Place, is_resumable: bool, detail: str
) -> None:
    def work() -> tuple[int, str]:
        raise KeyboardInterrupt

    with place.create() as run, pytest.raises(KeyboardInterrupt):
        runner.live(run, work, is_resumable=is_resumable)
    ended = manifests.read(run.path)
    assert (ended.status, ended.status_detail) == ("cancelled", detail)
    assert ended.is_resumable is is_resumable
