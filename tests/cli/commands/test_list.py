"""The commands about runs, as a person and a program use them."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyte
import pytest

from rlm_ci.cli import Terminated
from rlm_ci.resources import loader
from testing.folders import unpack
from testing.leftovers import eventually
from testing.pipelines_stage import Stage
from testing.run_store import Place

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    yield found
    found.clean()


@pytest.fixture
def made(repo: GitRepo) -> Place:
    """Makes runs in the repository without a process of their own."""
    return Place(repo.path, seconds=time.time() - 3600)


WRONG = [
    ((), "takes one run"),
    (("latest",), "there are no runs yet (RUN)"),
    (("a", "b"), "takes one run"),
    (("nope",), "there is no run 'nope' (RUN)"),
    (("../../etc",), "there is no run at ../../etc (RUN)"),
    (("a b",), "is not the id of a run"),
    (("latest", "--format", "html"), "has no form 'html'"),
]


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    ("command", "args", "said"),
    [
        *(("status", *case) for case in WRONG),
        *((name, *case) for name in ("wait", "cancel", "export", "resume") for case in WRONG[:2]),
    ],
)
def test_wrong_use(stage: Stage, command: str, args: tuple[str, ...], said: str) -> None:
    ended = stage.cli(command, *args)
    assert (ended.code, ended.stdout) == (2, "")
    assert said in ended.stderr
    assert "hint: " in ended.stderr


def test_a_run_is_listed_shown_and_waited_for(stage: Stage, made: Place) -> None:
    assert stage.cli("list").stdout == "no runs yet\n"
    good = made.finished()
    made.seconds += 60
    bad = made.finished("failed", 3)
    lines = stage.cli("list").stdout.splitlines()
    assert lines[0].split() == ["RUN", "TASK", "PIPELINE", "STATUS", "TOOK", "SUMMARY"]
    assert [line.split()[0] for line in lines[1:]] == [bad.id, good.id]
    assert stage.cli("list", "--task", "other").stdout == "no runs yet\n"
    assert f"run        {bad.id}\n" in stage.cli("status", "latest").stdout
    shown = stage.cli("status", good.id, "--format", "json").json()
    assert {name: shown.pop(name) for name in ("manifest", "gone")} == {
        "manifest": f"{good.manifest.artifact_root}/manifest.json", "gone": False,
    }  # fmt: skip
    loader.validate(shown, "manifest.schema.json", "status")
    assert stage.cli("wait", good.id).code == 0
    assert stage.cli("wait", "latest").code == 3
    assert stage.cli("wait", "latest", "--format", "json").json()["exit_code"] == 3
    assert stage.cli("wait", "latest", "-q").stdout == ""


def test_a_damaged_run_is_listed_and_says_what_is_wrong(stage: Stage, made: Place) -> None:
    run = made.finished()
    Path(run.path, "manifest.json").write_text('{"version": 9}')
    assert "damaged" in stage.cli("list").stdout
    [row] = stage.cli("list", "--format", "json").json()["runs"]
    assert (row["status"], row["pipeline_id"]) == ("damaged", None)
    assert "version 9" in row["problem"]
    for command in ("status", "wait", "cancel", "export", "resume"):
        ended = stage.cli(command, run.id)
        assert ended.code == 6, command
        assert "has version 9, this rlm-ci knows 1" in ended.stderr


def test_hostile_texts_are_shown_harmlessly(stage: Stage, made: Place) -> None:
    with made.create() as run:
        run.begin()
        with run.step("::error::title\x1b[2J", "x") as step:
            step.summary = "\x1b]0;owned\x07\n::set-output name=a::b"
        run.event("agent_message", {"text": "\x1b[31m\n::stop-commands::x\u202e"})
        run.finish("failed", exit_code=1, summary="\n::error::##[error]\x9b31m")
    for args in (("list",), ("status", run.id), ("status", run.id, "--watch"), ("wait", run.id)):
        said = stage.cli(*args).stdout
        assert "\x1b" not in said
        assert "\x9b" not in said
        assert "\u202e" not in said
        assert "##[" not in said
        assert not any(line.lstrip().startswith("::") for line in said.splitlines()), said


@pytest.mark.full
def test_the_latest_run_is_the_last_one_that_did_something(stage: Stage, repo: GitRepo) -> None:
    repo.write("a.py", "import os\n").commit()
    refusals = (
        ("rlm", "x", "--agent", "nosuch", "--validator", "true"),  # no such agent: 5
        ("rlm", "x", "--validator", "true"),  # no model: 5
        ("rlm", "x", "--agent", "autofix"),  # no validator: 2
        ("rlm", "x", "--agent", "autofix", "--validator", "no-such-program x"),  # 4
        ("rlm", "Which?", "--context", "a.py"),
        ("run", "x"),
    )
    assert [stage.cli(*words).code for words in refusals] == [5, 5, 2, 4, 5, 5]
    assert "failed" in stage.cli("status", "latest").stdout  # there is no other
    stage.cli("review", "--base", "HEAD~1")
    for words in refusals[:3]:
        stage.cli(*words)
    assert "pipeline   review\n" in stage.cli("status", "latest").stdout
    refused = next(row["run_id"] for row in stage.cli("list", "--format", "json").json()["runs"])
    assert stage.cli("status", refused).code == 0  # by its id it is found
    ended = stage.cli("rlm", "x", "--agent", "autofix", "--validator", "test -e no-such-file")
    assert ended.code == 3
    assert "pipeline   rlm\n" in stage.cli("status", "latest").stdout


def test_a_recorded_subagent_is_shown_as_what_it_is(stage: Stage, made: Place) -> None:
    run = made.recorded()
    origin = "recorded by Claude Code 2.1.197, not run by rlm-ci"
    listed = stage.cli("list").stdout.splitlines()[1].split()
    assert listed[:5] == [run.run_id, "t1-explore", "Claude", "Code", "succeeded"]
    record = json.loads(stage.cli("list", "--format", "json").stdout)["runs"][0]
    assert record["recorded_by"] == "Claude Code 2.1.197"
    shown = stage.cli("status", run.run_id).stdout
    assert f"origin     {origin}\nsubagent   Explore\n" in shown
    assert f"transcript 1,200 bytes, SHA-256 {'0' * 64}\n" in shown
    assert stage.cli("wait", run.run_id).code == 0
    assert stage.cli("export", run.run_id).code == 0
    page = stage.cli("view", run.run_id, "-o", "-")
    assert page.code == 0
    assert "Claude Code 2.1.197, not run by rlm-ci" in page.stdout
    before = os.listdir(made.root / run.artifact_root)
    for command in ("resume", "cancel", "replay", "verify"):
        refused = stage.cli(command, run.run_id)
        assert (refused.code, refused.stdout) == (2, "")
        assert f"the run was {origin}" in refused.stderr
        assert f"SHA-256 {'0' * 64}" in refused.stderr
    assert os.listdir(made.root / run.artifact_root) == before


def test_a_recorded_subagent_that_works_is_not_gone_and_not_the_latest(
    stage: Stage, made: Place
) -> None:
    made.finished()
    made.seconds += 60
    run = made.recorded("in_progress")
    listed = stage.cli("list").stdout.splitlines()
    assert listed[1].split()[0] == run.run_id
    assert "in progress" in listed[1]
    shown = stage.cli("status", run.run_id).stdout
    assert "in progress for 59m" in shown
    assert "Claude Code 2.1.197 reported no end" in shown
    assert "pipeline   ci\n" in stage.cli("status", "latest").stdout
    made.seconds -= 90_000
    made.recorded("in_progress")
    listed = stage.cli("list").stdout.splitlines()
    assert " gone " in listed[2]
    assert stage.cli("wait", run.run_id).code == 143
    made.recorded("failed")
    assert stage.cli("wait", run.run_id).code == 3


def test_every_run_that_has_ended_has_a_summary(stage: Stage, made: Place) -> None:
    for error in (KeyboardInterrupt(), Terminated()):
        with made.create() as run:
            run.begin()
            with suppress(BaseException), run.step("Reach the goal"):
                raise error
            run.stop(error)
    with made.create() as run:
        run.begin()
        run.cancel()
    with made.create() as gone:
        gone.begin()
    lines = stage.cli("list").stdout.splitlines()[1:]
    assert sorted(re.split(" {2,}", line)[5] for line in lines) == [
        "cancelled",
        "interrupted: Reach the goal",
        "its process is gone",
        "terminated: Reach the goal",
    ]


# -- prune ---------------------------------------------------------------------------------------


def test_old_runs_are_removed_when_asked(stage: Stage, made: Place) -> None:
    made.seconds = time.time() - 40 * 86_400
    old = made.finished()
    made.seconds = time.time() - 20 * 86_400
    young = made.finished()
    assert stage.cli("list", "--prune").stdout == f"{old.id}\nremoved 1 run\n"
    ended = stage.cli("list", "--prune", "--older-than", "2w", "--format", "json")
    assert ended.json() == {"removed": [young.id]}
    assert stage.cli("list").stdout == "no runs yet\n"


def test_the_summary_of_a_task_goes_with_its_last_run(stage: Stage, made: Place) -> None:
    one, other = made.finished(task="a"), made.finished(task="b")
    out = Path(made.out)
    (out / "b" / "export.tar.gz").touch()
    everything = ("list", "--prune", "--older-than", "0m", "--task")
    assert one.id in stage.cli(*everything, "a").stdout
    assert sorted(os.listdir(out)) == ["b"]
    assert other.id in stage.cli(*everything, "b").stdout
    assert sorted(os.listdir(out / "b")) == [".gitignore", "export.tar.gz", "state.json"]
    (out / "b" / "export.tar.gz").unlink()
    made.finished(task="b")
    stage.cli(*everything, "b")
    assert not out.exists()


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("--older-than", "3d"), 2),
        (("x",), 2),
        (("--prune", "--older-than", "3"), 5),
        (("--prune", "--older-than", "-3d"), 5),
        (("--prune", "--older-than", "1.5d"), 5),
        (("--prune", "--older-than", "²d"), 5),
    ],
)
def test_what_is_no_age_removes_nothing(
    stage: Stage, made: Place, args: tuple[str, ...], code: int
) -> None:
    made.seconds = 0
    made.finished()
    assert stage.cli("list", *args).code == code
    assert len(stage.ids()) == 1


# -- watching ------------------------------------------------------------------------------------


@pytest.mark.full
def test_watching_follows_a_run_to_its_end(stage: Stage) -> None:
    stage.pipeline("ci", "while [ ! -e go ]; do sleep 0.05; done; echo went")
    run_id = stage.start("ci", "--goal", "g")["run_id"]
    watcher = stage.spawn("status", run_id, "--watch")
    assert watcher.stdout is not None
    assert watcher.stdout.readline().endswith("run started\n")
    assert watcher.stdout.readline().endswith("step started  Stage 1\n")
    stage.repo.write("go", "")
    said = watcher.stdout.read()
    assert watcher.wait(30) == 0
    assert said.splitlines()[0].endswith("step completed  Stage 1  went")
    assert "status     succeeded" in said


def test_watching_as_json_is_a_line_an_event(stage: Stage, made: Place) -> None:
    run = made.finished()
    lines = stage.cli("status", run.id, "--watch", "--format", "json").stdout.splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["run_started", "run_completed"]
    assert stage.cli("status", run.id, "--watch", "-o", "x").code == 2


@pytest.mark.full
@pytest.mark.parametrize("columns", [200, 30])
def test_on_a_terminal_the_run_is_drawn_over_itself(stage: Stage, columns: int) -> None:
    title = "[red]one[/red] :smile: \x1b[2J"
    command = "while [ ! -e go ]; do sleep 0.05; done; echo went"
    stage.pipelines([{"id": "ci", "stages": [{"title": title, "command": command}]}])
    run_id = stage.start("ci", "--goal", "g")["run_id"]
    stage.wait_for(run_id, "in_progress")
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    apart = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    watcher = subprocess.Popen(
        [sys.executable, "-I", "-m", "rlm_ci", "status", run_id, "--watch"],
        cwd=stage.repo, stdin=theirs, stdout=theirs, stderr=theirs,
        env={**apart, "TERM": "xterm", "CI": ""},
    )  # fmt: skip
    os.close(theirs)
    screen = pyte.Screen(columns, 30)
    stream = pyte.ByteStream(screen)
    said = b""
    while said.count(b"in progress for") < 2:
        chunk = _rest(ours)
        assert chunk, said
        said += chunk
        stream.feed(chunk)
    stage.repo.write("go", "")
    while chunk := _rest(ours):
        stream.feed(chunk)
    assert watcher.wait(30) == 0
    os.close(ours)
    lines = [line.rstrip() for line in screen.display]
    assert lines[0] == f"run        {run_id}"[: columns - 4] + ("" if columns > 40 else "…")
    assert sum(line.startswith("status ") for line in lines) == 1
    assert "status     succeeded" in lines
    told = r"[red]one[/red] :smile: \x1b[2J"
    if columns > 80:
        assert any(line.endswith(f"step completed  {told}  went") for line in lines)
        assert f"  1. succeeded  {told}  went" in lines
    else:
        assert all(len(line) < columns for line in lines)


def _rest(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other side has gone
        return b""


def test_waiting_ends_with_the_run(stage: Stage) -> None:
    stage.pipeline("ci", "while [ ! -e go ]; do sleep 0.05; done; exit 5")
    run_id = stage.start("ci", "--goal", "g")["run_id"]
    waiter = stage.spawn("wait", run_id)
    assert not eventually(lambda: waiter.poll() is not None, 0.5)
    stage.repo.write("go", "")
    assert waiter.wait(30) == 1


# -- export --------------------------------------------------------------------------------------


def test_a_run_is_exported_where_one_is_or_where_one_says(
    stage: Stage, made: Place, tmp_path: Path
) -> None:
    run = made.finished()
    ended = stage.cli("export", "latest")
    assert ended.code == 0
    assert f"{run.id}.tar.gz: 3 files" in ended.stdout
    out = tmp_path / "x.tar.gz"
    told = stage.cli("export", run.id, "-o", str(out), "--format", "json").json()
    assert (told["run_id"], told["files"], told["file"]) == (run.id, 3, str(out))
    assert out.read_bytes() == (stage.repo.path / f"{run.id}.tar.gz").read_bytes()
    unpack(out, tmp_path)
    checked = subprocess.run(
        ["sha256sum", "--check", "SHA256SUMS"], cwd=tmp_path / run.id, check=False,
        capture_output=True,
    )  # fmt: skip
    assert checked.returncode == 0, checked


def test_a_run_is_exported_into_a_pipe(stage: Stage, made: Place, tmp_path: Path) -> None:
    """On standard output stands the archive and nothing else; no file is named "-"."""
    run = made.finished()
    out = tmp_path / "x.tar.gz"
    stage.cli("export", run.id, "-o", str(out))
    piped = subprocess.run(
        [sys.executable, "-m", "rlm_ci", "export", run.id, "-o", "-"], cwd=stage.repo.path,
        check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    assert piped.stdout == out.read_bytes()
    assert b"3 files, " in piped.stderr
    assert not (stage.repo.path / "-").exists()
    refused = stage.cli("export", run.id, "-o", "-", "--format", "json")
    assert (refused.code, refused.stdout) == (2, "")


def test_runs_outside_of_a_repository_can_be_looked_at(tmp_path: Path, cli: Cli) -> None:
    place = Place(tmp_path / "kept")
    run = place.finished()
    assert run.id in cli("list", cwd=place.root).stdout
    assert cli("status", "latest", "-C", str(place.root)).code == 0
    assert cli("list", cwd=tmp_path).stdout == "no runs yet\n"
