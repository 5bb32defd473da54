"""``start`` and what it leaves running: real processes, ended in every way that there is."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci import errors
from rlm_ci.resources import loader
from testing.leftovers import eventually, is_running, mentioning, processes_of
from testing.pipelines_stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs in the background")


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    yield found
    found.clean()


def test_the_manifest_is_there_before_anything_is_said(stage: Stage) -> None:
    stage.pipeline("ci", "echo hello")
    told = stage.start("ci", "--goal", "go", "--parent-run", "p1")
    assert set(told) == {
        "run_id", "task_id", "status", "pipeline_id", "artifact_root", "manifest", "log_path",
        "summary",
    }  # fmt: skip
    assert told["manifest"] == f"{told['artifact_root']}/manifest.json"
    assert told["status"] == "queued"
    manifest = stage.manifest(told["run_id"])
    loader.validate(manifest, "manifest.schema.json", "manifest")
    assert manifest["parent_run_id"] == "p1"
    request = json.loads((stage.folder(told["run_id"]) / "request.json").read_text())
    loader.validate(request, "request.schema.json", "request")
    assert request["goal"] == "go"
    assert stage.cli("wait", told["run_id"]).code == 0
    for path in stage.folder(told["run_id"]).rglob("*"):
        assert path.stat().st_mode & 0o077 == 0, path
    assert stage.repo.text("status", "--porcelain") == ""


def test_it_returns_at_once_and_says_where_to_look(stage: Stage) -> None:
    stage.pipeline("ci", "sleep 70")
    ended = stage.cli("start", "ci", "--goal", "go", timeout=30)
    assert ended.code == 0
    run_id = stage.only()
    assert f"rlm-ci status {run_id} --watch" in ended.stdout
    assert "task       rlm-repo\n" in ended.stdout
    assert ended.stderr == ""
    stage.wait_for(run_id, "in_progress")


@pytest.mark.full
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a full device")
def test_a_run_whose_name_could_not_be_said_is_named_in_the_hint(stage: Stage) -> None:
    stage.pipeline("ci", "true")
    with open("/dev/full", "wb") as full:
        argv = [sys.executable, "-I", "-m", "rlm_ci", "start", "ci", "--goal", "g"]
        ended = subprocess.run(
            argv, cwd=stage.repo, stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert ended.returncode == 9
    assert f"rlm-ci status {stage.only()} --watch".encode() in ended.stderr
    assert stage.cli("wait", stage.only(), "-q").code == 0


def test_a_script_gets_the_id_alone(stage: Stage) -> None:
    stage.pipeline("ci", "true")
    ended = stage.cli("start", "ci", "--goal", "g", "-q")
    assert ended.stdout == f"{stage.only()}\n"
    assert stage.cli("wait", stage.only(), "-q").code == 0


@pytest.mark.full
def test_two_starts_at_once_are_two_runs(stage: Stage) -> None:
    stage.pipeline("ci", "echo x >> said")
    both = [stage.spawn("start", "ci", "--goal", "go", "--format", "json") for _ in range(2)]
    ids = {json.loads(child.communicate(timeout=60)[0])["run_id"] for child in both}
    assert len(ids) == 2
    assert [stage.cli("wait", run_id, "-q").code for run_id in ids] == [0, 0]
    assert stage.repo.read("said") == b"x\nx\n"
    metrics = json.loads((Path(stage.repo) / ".runs/rlm-repo/metrics.json").read_text())
    assert {row["run_id"] for row in metrics["runs"]} == ids


def test_a_run_outlives_its_terminal(stage: Stage) -> None:
    """Started by a shell on a terminal that is then closed, as a window is."""
    stage.pipeline("ci", "while [ ! -e go ]; do sleep 0.05; done; echo still here")
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(stage.repo)
        os.execv(
            sys.executable, [sys.executable, "-I", "-m", "rlm_ci", "start", "ci", "--goal", "g"]
        )
    while b"follow it" not in os.read(terminal, 4096):
        pass
    os.waitpid(pid, 0)
    run_id = stage.only()
    stage.wait_for(run_id, "in_progress")
    holder = stage.holder(run_id)
    assert os.getsid(holder) == holder
    os.close(terminal)
    (Path(stage.repo) / "go").write_text("")
    assert stage.cli("wait", run_id, "-q").code == 0
    assert stage.manifest(run_id)["summary"] == "still here"
    assert eventually(lambda: not is_running(holder))


def test_nobody_waits_for_the_pipes_of_a_run(stage: Stage) -> None:
    """``$(rlm-ci start ...)`` ends with the command, and no descriptor of the caller is kept."""
    stage.pipeline("ci", "sleep 70")
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    child = stage.spawn("start", "ci", "--goal", "g", pass_fds=(theirs,))
    os.close(theirs)
    child.communicate(timeout=30)  # both of its streams have ended
    assert os.read(ours, 1) == b""
    os.close(ours)


@pytest.mark.full
def test_a_run_of_a_run_is_its_child_and_is_told_nothing_of_it(stage: Stage) -> None:
    program = f"{sys.executable} -I -m rlm_ci"
    stage.pipelines([
        {"id": "outer", "stages": [{"command": f"{program} start inner --goal g"}]},
        {"id": "inner", "stages": [{"command": 'test "$CODEX_ORCHESTRATOR_PIPELINE_ID" = inner'}]},
    ])  # fmt: skip
    outer = stage.start("outer", "--goal", "g")["run_id"]
    assert stage.cli("wait", outer).code == 0
    inner = next(run for run in stage.ids() if run != outer)
    assert stage.cli("wait", inner).code == 0
    assert stage.manifest(inner)["parent_run_id"] == outer


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        ((), 2, "start takes one pipeline"),
        (("ci", "more"), 2, "start takes one pipeline"),
        (("nope", "--goal", "g"), 2, "there is no pipeline 'nope'"),
        (("ci", "--format", "sarif"), 2, "start has no form 'sarif'"),
        (("ci", "--parent-run", "../x"), 2, "is not the id of a run (--parent-run)"),
        (("ci", "--task", "../x"), 5, "is not a task id (--task)"),
        (("rlm",), 2, "there is no goal (rlm-ci start)"),
        (("rlm", "--goal", " "), 2, "there is no goal (rlm-ci start)"),
        (("ci", "--nope"), 2, "unknown option '--nope'"),
    ],
)
def test_wrong_use_starts_nothing(
    stage: Stage, args: tuple[str, ...], code: int, said: str
) -> None:
    stage.pipeline("ci", "true")
    ended = stage.cli("start", *args)
    assert (ended.code, ended.stdout) == (code, "")
    assert said in ended.stderr
    assert "hint: " in ended.stderr
    assert stage.ids() == []


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("codex.orchestrator.json", "{", "not valid JSON"),
        ("codex.orchestrator.json", '{"pipelines": [{}]}', "pipelines[0].id must be"),
        ("rlm-ci.toml", "[[pipelines]]\nid = 'a'\n", "pipelines[0].stages must be a list"),
    ],
)
def test_a_wrong_definition_is_named_with_its_file(
    stage: Stage, name: str, text: str, said: str
) -> None:
    stage.repo.write(name, text)
    ended = stage.cli("start", "ci", "--goal", "g")
    assert ended.code == 5
    assert said in ended.stderr
    assert f"({name})" in ended.stderr
    assert stage.ids() == []


@pytest.mark.full
def test_the_configuration_wins_over_the_json_file(stage: Stage) -> None:
    stage.repo.write("rlm-ci.toml", "[[pipelines]]\nid='ci'\nstages=[{command='echo mine'}]\n")
    stage.pipeline("ci", "echo theirs")
    run_id = stage.start("ci", "--goal", "g")["run_id"]
    assert stage.cli("wait", run_id).code == 0
    assert stage.manifest(run_id)["summary"] == "mine"


def test_the_repository_is_not_asked_for_modules(stage: Stage) -> None:
    stage.pipeline("ci", "true")
    stage.repo.write("rlm_ci/__init__.py", "raise SystemExit(77)")
    stage.repo.write("json.py", "raise SystemExit(77)")
    run_id = stage.start("ci", "--goal", "g")["run_id"]
    assert stage.cli("wait", run_id).code == 0


def test_a_secret_in_the_goal_is_not_kept(stage: Stage) -> None:
    stage.pipeline("ci", 'echo "$MY_TOKEN"')
    secret = "hunter2-hunter2"
    run_id = stage.start("ci", "--goal", f"use {secret}", env={"MY_TOKEN": secret})["run_id"]
    assert stage.cli("wait", run_id).code == 0
    for path in stage.folder(run_id).rglob("*"):
        assert path.is_dir() or secret not in path.read_text(), path


# -- killed, and gone on -------------------------------------------------------------------------


def killed(stage: Stage) -> tuple[str, int]:
    """A run whose process was killed in its second stage, and that process."""
    stage.pipeline("ci", "echo first >> said", "echo second >> said; test -e go || sleep 70")
    run_id: str = stage.start("ci", "--goal", "g")["run_id"]
    assert eventually(lambda: b"second" in stage.read("said"))
    holder = stage.holder(run_id)
    os.kill(holder, signal.SIGKILL)
    assert eventually(lambda: not is_running(holder))
    return run_id, holder


def test_a_killed_run_is_seen_to_be_gone(stage: Stage) -> None:
    run_id, _ = killed(stage)
    assert stage.manifest(run_id)["status"] == "in_progress"
    shown = stage.cli("status", run_id)
    resume = f"rlm-ci resume {run_id}"
    assert f"in progress, but its process is gone: resume it with {resume}" in shown.stdout
    assert stage.cli("status", run_id, "--format", "json").json()["gone"] is True
    assert "  gone  " in stage.cli("list").stdout
    waited = stage.cli("wait", run_id, timeout=30)
    assert waited.code == 143
    assert f"hint: resume it with {resume}" in waited.stderr
    watched = stage.cli("status", run_id, "--watch", timeout=30)
    assert (watched.code, "its process is gone" in watched.stdout) == (0, True)


def test_a_killed_run_goes_on_without_doing_anything_twice(stage: Stage) -> None:
    run_id, _ = killed(stage)
    assert processes_of(run_id)  # the sleep of the second stage has outlived it
    stage.repo.write("go", "")
    resumed = stage.cli("resume", run_id)
    assert resumed.code == 0
    assert stage.read("said") == b"first\nsecond\nsecond\n"
    assert not processes_of(run_id)
    assert stage.manifest(run_id)["status"] == "succeeded"
    again = stage.cli("resume", run_id)
    assert again.code == 0
    assert "there is nothing to resume" in again.stderr


def test_a_killed_run_can_be_cancelled_with_what_it_left(stage: Stage) -> None:
    run_id, _ = killed(stage)
    ended = stage.cli("cancel", run_id)
    assert (ended.code, ended.stdout) == (0, f"{run_id} is cancelled\n")
    assert eventually(lambda: not processes_of(run_id))
    manifest = stage.manifest(run_id)
    assert (manifest["status"], manifest["exit_code"]) == ("cancelled", 143)
    assert [step["status"] for step in manifest["commands"]] == ["succeeded", "skipped"]
    assert stage.cli("resume", run_id).code == 143


@pytest.mark.full
def test_a_run_whose_pipeline_has_changed_does_not_go_on(stage: Stage) -> None:
    run_id, _ = killed(stage)
    stage.pipeline("ci", "echo hostile >> said")
    resumed = stage.cli("resume", run_id)
    assert resumed.code == 5
    assert "has changed since the run was started" in resumed.stderr
    assert b"hostile" not in stage.read("said")


def test_a_run_is_resumed_by_one_process_only(stage: Stage) -> None:
    run_id, _ = killed(stage)
    first = stage.spawn("resume", run_id)
    assert eventually(lambda: stage.read("said").count(b"second") == 2)
    second = stage.cli("resume", run_id)
    assert second.code == 7
    assert f"process {first.pid} has held this run" in second.stderr
    first.send_signal(signal.SIGINT)
    assert first.wait(30) == 130
    manifest = stage.manifest(run_id)
    assert (manifest["status"], manifest["status_detail"]) == ("cancelled", "interrupted")
    assert f"resume it with rlm-ci resume {run_id}" in stage.cli("status", run_id).stdout


@pytest.mark.sample(1)
@pytest.mark.parametrize("pause", [0.002, 0.0, 0.01, 0.03])
def test_two_interrupts_are_as_one(stage: Stage, pause: float) -> None:
    """However often it is interrupted, a run says so, can go on, and leaves nothing running."""
    run_id, _ = killed(stage)
    runner = stage.spawn("resume", run_id)
    assert eventually(lambda: stage.read("said").count(b"second") == 2)
    for _ in range(2):
        runner.send_signal(signal.SIGINT)
        time.sleep(pause)
    assert runner.wait(30) == 130
    manifest = stage.manifest(run_id)
    assert (manifest["status"], manifest["status_detail"]) == ("cancelled", "interrupted")
    assert not processes_of(run_id)


@pytest.mark.full
def test_a_terminal_that_hangs_up_interrupts_a_run(stage: Stage) -> None:
    run_id, _ = killed(stage)
    runner = stage.spawn("resume", run_id)
    assert eventually(lambda: stage.read("said").count(b"second") == 2)
    runner.send_signal(signal.SIGHUP)
    assert runner.wait(30) == 143
    manifest = stage.manifest(run_id)
    assert (manifest["status"], manifest["status_detail"]) == ("cancelled", "interrupted")
    assert eventually(lambda: not processes_of(run_id))


@pytest.mark.full
def test_a_hangup_that_is_ignored_stays_so(stage: Stage) -> None:
    """As ``nohup`` has it."""
    run_id, _ = killed(stage)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        runner = stage.spawn("resume", run_id)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert eventually(lambda: stage.read("said").count(b"second") == 2)
    runner.send_signal(signal.SIGHUP)
    with pytest.raises(subprocess.TimeoutExpired):
        runner.wait(0.5)
    runner.send_signal(signal.SIGINT)
    assert runner.wait(30) == 130


# -- cancelled -----------------------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize("started", ["", "its own"])
def test_cancel_ends_no_process_that_a_file_merely_names(stage: Stage, started: str) -> None:
    """A lock that nobody holds names nobody, whatever stands in it."""
    run_id, _ = killed(stage)
    stranger = subprocess.Popen(["sleep", "60"])
    try:
        told = Path(f"/proc/{stranger.pid}/stat").read_text().rpartition(")")[2].split()[19]
        said = {"pid": stranger.pid, "since": 0, "started": told if started else ""}
        (stage.folder(run_id) / ".lock").write_text(json.dumps(said))
        ended = stage.cli("cancel", run_id)
        assert (ended.code, ended.stdout) == (0, f"{run_id} is cancelled\n")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


def test_cancel_ends_a_run_and_all_of_its_processes(stage: Stage) -> None:
    stage.pipeline("ci", "sleep 70 & sleep 70")
    run_id = stage.start("ci", "--goal", "g")["run_id"]
    stage.wait_for(run_id, "in_progress")
    assert eventually(lambda: len(processes_of(run_id)) >= 2)
    ended = stage.cli("cancel", run_id)
    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout == f"{run_id} is cancelled; its process has ended\n"
    assert eventually(lambda: not processes_of(run_id))
    assert stage.cli("wait", run_id, "-q").code == 143
    again = stage.cli("cancel", run_id)
    assert (again.code, again.stdout) == (0, f"{run_id} had ended already: cancelled\n")


def test_cancel_kills_what_does_not_listen(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process cannot end by itself: after the grace it is killed with its tree."""
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.runs import cancel
    from rlm_ci.runs import manifest as manifests

    monkeypatch.chdir(stage.repo)
    stage.pipeline("ci", "setsid sleep 70 & sleep 70")
    run_id = stage.start("ci", "--goal", "g")["run_id"]
    stage.wait_for(run_id, "in_progress")
    assert eventually(lambda: len(processes_of(run_id)) >= 3)
    holder = stage.holder(run_id)
    os.kill(holder, signal.SIGSTOP)
    folder = str(stage.folder(run_id))
    done = cancel.cancel(
        folder, manifests.read(folder), redactor=Redactor({}), out=str(stage.repo.path / "out"),
        grace=0.3,
    )  # fmt: skip
    assert (done.process, done.ended_now, done.manifest.status) == ("killed", True, "cancelled")
    assert eventually(lambda: not processes_of(run_id) and not is_running(holder))


@pytest.mark.full
def test_cancel_never_hits_a_process_that_got_the_number(stage: Stage) -> None:
    run_id, _ = killed(stage)
    innocent = subprocess.Popen(["sleep", "70"], start_new_session=True)
    try:
        lock = stage.folder(run_id) / ".lock"
        said: dict[str, Any] = json.loads(lock.read_text())
        lock.write_text(json.dumps(said | {"pid": innocent.pid}))
        assert stage.cli("cancel", run_id).code == 0
        time.sleep(0.2)
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


def test_a_run_that_was_cancelled_in_the_queue_never_begins(stage: Stage) -> None:
    stage.pipeline("ci", "echo x >> said")
    run_id = stage.start("ci", "--goal", "g")["run_id"]
    ended = stage.cli("cancel", run_id)
    assert ended.code == 0
    waited = stage.cli("wait", run_id)
    # The race between the two has two outcomes, and no third one.
    status = stage.manifest(run_id)["status"]
    assert (status, waited.code) in {("cancelled", 143), ("succeeded", 0)}


def test_a_review_that_is_cancelled_in_the_queue_is_not_taken_up(repo: GitRepo, cli: Cli) -> None:
    """By the process that was to begin it, since a cancelled review can be resumed."""
    repo.write("a.py", "a = 1\n").commit()
    run_id = cli("start", "review", "--quiet", cwd=repo).stdout.strip()
    ended = cli("cancel", run_id, cwd=repo)
    assert eventually(lambda: not mentioning(run_id))
    status = cli("status", run_id, "--format", "json", cwd=repo).json()["status"]
    assert (ended.stdout.split()[1], status) in {("is", "cancelled"), ("had", "succeeded")}


@pytest.mark.full
@pytest.mark.parametrize("round_", range(3))
def test_a_run_that_is_killed_again_and_again_comes_to_its_end(stage: Stage, round_: int) -> None:
    """Whenever its process is killed, what is on disk can be read, and the run can go on."""
    random = Random(round_)
    names = [f"s{number}" for number in range(8)]
    stage.pipeline("ci", *(f"echo {name} >> said; sleep 0.1" for name in names))
    run_id = stage.start("ci", "--goal", "g")["run_id"]
    kills = 0
    while True:
        time.sleep(random.random())
        lock = (stage.folder(run_id) / ".lock").read_text()
        if lock:
            with suppress(ProcessLookupError):  # killed before, and the next has not begun
                os.kill(json.loads(lock)["pid"], signal.SIGKILL)
                kills += 1
        manifest = stage.manifest(run_id)
        loader.validate(manifest, "manifest.schema.json", "manifest")
        if manifest["status"] == "succeeded":
            break
        assert manifest["status"] in ("queued", "in_progress")
        assert stage.cli("status", run_id).code == 0
        if kills > 40:
            # One that was spawned before may have begun it meanwhile.
            assert stage.cli("resume", run_id).code in (errors.OK, errors.LOCKED)
            break
        stage.spawn("resume", run_id)
    assert stage.cli("wait", run_id, "-q").code == 0
    said = stage.read("said").decode().split()
    assert list(dict.fromkeys(said)) == names
    assert kills
    assert len(said) <= len(names) + kills
    metrics = json.loads((stage.repo.path / ".runs/rlm-repo/metrics.json").read_text())
    assert [row["status"] for row in metrics["runs"]] == ["succeeded"]
