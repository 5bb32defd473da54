"""What runs is contained: what it starts, says, uses and writes ends with it, or before."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import UnavailableError
from rlm_ci.sandbox import HOME, JobLimits, Mount, SandboxJob
from rlm_ci.sandbox.self_test import interpreter
from testing.leftovers import Belongings, eventually, mentioning, sleepers

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.sandbox.bubblewrap import Bubblewrap
    from rlm_ci.sandbox.job import Sandbox
    from rlm_ci.system.process import StreamResult

SMALL = JobLimits(
    wall=30.0, cpu=20, memory=256 << 20, file_size=16 << 20, processes=48, open_files=64,
    scratch=32 << 20,
)  # fmt: skip


def shell(sandbox: Sandbox, script: str, work: Path, limits: JobLimits = SMALL) -> StreamResult:
    mounts = (Mount(str(work), "/w", writable=True),)
    return sandbox.run(SandboxJob(("sh", "-c", script), cwd="/w", mounts=mounts, limits=limits))


def python(sandbox: Sandbox, code: str, work: Path, limits: JobLimits = SMALL) -> StreamResult:
    program, mounts = interpreter()
    mounts = (*mounts, Mount(str(work), "/w", writable=True))
    argv = (program, "-I", "-S", "-c", code)
    return sandbox.run(SandboxJob(argv, cwd="/w", mounts=mounts, limits=limits))


# -- what comes back ----------------------------------------------------------------------------


def test_a_job_ends_as_its_command_did(sandbox: Sandbox, work: Path) -> None:
    ended = shell(sandbox, "cat; echo out; echo err >&2; pwd -P; echo x >file; exit 3", work)
    assert (ended.returncode, ended.reason) == (3, "")
    assert ended.output.text().startswith("out\nerr\n")
    assert (work / "file").read_text() == "x\n"


def test_a_command_may_talk_like_its_sandbox(sandbox: Sandbox, work: Path) -> None:
    ended = shell(sandbox, "echo 'bwrap: No permissions to create new namespace'; exit 1", work)
    assert (ended.returncode, ended.reason) == (1, "")
    assert ended.output.text().startswith("bwrap: ")


def test_input_and_environment_are_those_of_the_job(sandbox: Sandbox) -> None:
    job = SandboxJob(
        ("sh", "-c", "cat; env -0"), stdin=b"given\0", env={"A": "caf\udce9 =\n", "HOME": "/"}
    )
    rows = sandbox.run(job).output.head.split(b"\0")
    assert rows[0] == b"given"
    names = {row.partition(b"=")[0] for row in rows[1:] if row}
    scratch = {b"TMPDIR"} if sandbox.name == "none" else set()
    assert names == {b"A", b"HOME", b"PATH", b"PWD"} | scratch
    assert b"A=caf\xe9 =\n" in rows
    assert b"HOME=/" in rows


def test_a_job_talks_by_what_it_inherits_until_it_is_stopped(sandbox: Sandbox) -> None:
    ours, its = socket.socketpair()
    stop, stopping = os.pipe()
    found: list[StreamResult] = []
    program, mounts = interpreter()
    code = (
        "import os, time; number = int(os.environ['TALK']); os.write(number, b'ready'); "
        "os.close(number); time.sleep(60)"
    )
    job = SandboxJob(
        (program, "-I", "-S", "-c", code),
        mounts=mounts, limits=SMALL, inherited={"TALK": its.fileno()},
    )  # fmt: skip
    running = threading.Thread(target=lambda: found.append(sandbox.run(job, stop=stop)))
    with ours, its:
        ours.settimeout(20)
        running.start()
        assert ours.recv(100) == b"ready"
        its.close()
        assert ours.recv(100) == b""  # nobody else holds it
        os.close(stopping)
        running.join()
    os.close(stop)
    assert found[0].reason == "stopped"
    assert found[0].seconds < 30


def test_home_is_empty_and_gone_afterwards(sandbox: Sandbox) -> None:
    job = SandboxJob(("sh", "-c", 'ls -A "$HOME"; echo x >"$HOME/x" && echo "$HOME"'))
    first, second = (sandbox.run(job).output.text().strip() for _ in range(2))
    for home in (first, second):
        assert os.path.isabs(home)
        assert "\n" not in home
        assert not os.path.exists(home)


def test_progress_is_told(sandbox: Sandbox) -> None:
    told: list[bytes] = []
    sandbox.run(SandboxJob(("sh", "-c", "echo one; echo two")), on_output=told.append)
    assert b"".join(told) == b"one\ntwo\n"


@pytest.mark.parametrize("name", ["no-such-program-here", "/no/such/program", "./gone", "/etc"])
def test_a_program_that_is_not_there_is_unavailable(sandbox: Sandbox, name: str) -> None:
    with pytest.raises(UnavailableError) as caught:
        sandbox.run(SandboxJob((name,)))
    assert name in str(caught.value)
    assert caught.value.hint


def test_a_command_may_end_with_127_itself(sandbox: Sandbox, work: Path) -> None:
    assert shell(sandbox, "no-such-program-here", work).returncode == 127


# -- what it leaves behind ----------------------------------------------------------------------

DAEMON = """
import os, sys
for step in (1, 2):
    if os.fork():
        os._exit(0) if step == 2 else (os.wait(), sys.exit(0))
    os.setsid()
for number in range(256):
    try: os.close(number)
    except OSError: pass
os.execv('/bin/sleep', ['sleep', '{seconds}'])
"""


def test_a_daemon_dies_with_its_command(sandbox: Sandbox, work: Path, seconds: str) -> None:
    ended = python(sandbox, DAEMON.replace("{seconds}", seconds), work)
    assert ended.returncode == 0
    assert sleepers(seconds) == []  # at once, not some time later


def test_an_orphan_that_holds_the_output_dies_too(
    sandbox: Sandbox, work: Path, seconds: str
) -> None:
    ended = shell(sandbox, f"setsid sleep {seconds} & echo said", work)
    assert ended.output.text() == "said\n"
    assert ended.returncode == 0
    assert sleepers(seconds) == []


@pytest.mark.full
def test_past_its_time_all_are_dead_whatever_they_ignore(
    sandbox: Sandbox, work: Path, seconds: str
) -> None:
    script = f"trap '' TERM INT HUP; setsid sleep {seconds} & while :; do sleep {seconds}; done"
    ended = shell(sandbox, script, work, SMALL.replace(wall=0.6))
    assert ended.reason == "timeout"
    assert ended.seconds < 15
    assert sleepers(seconds) == []


PARENT = """
import sys, time
from rlm_ci.sandbox import SandboxJob
from rlm_ci.sandbox.bubblewrap import Bubblewrap
from rlm_ci.sandbox.none import Unsandboxed
import os
sandbox = Bubblewrap.locate(os.environ) if sys.argv[1] == "bubblewrap" else Unsandboxed()
script = f"setsid sleep {sys.argv[2]} & sleep {sys.argv[2]}"
sandbox.run(SandboxJob(("sh", "-c", script)))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_when_we_are_killed_they_die_too(
    sandbox: Sandbox, seconds: str, number: signal.Signals
) -> None:
    argv = [sys.executable, "-c", PARENT, sandbox.name, seconds]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as parent:
        assert eventually(lambda: len(sleepers(seconds)) == 2)
        parent.send_signal(number)
        parent.wait(20)
    assert eventually(lambda: not sleepers(seconds))


def test_whatever_shell_begins_adds_nothing(bubblewrap: Bubblewrap) -> None:
    """The first to run is a shell; on many a system that is bash, which counts its levels."""
    others = (Mount("/usr/bin/bash", os.path.realpath("/bin/sh")),)
    for mounts in ((), others):
        rows = bubblewrap.run(SandboxJob(("env", "-0"), mounts=mounts)).output.head.split(b"\0")
        names = {row.partition(b"=")[0].decode() for row in rows if row}
        assert names == {*SandboxJob(()).environment(HOME), "PWD"}


#: As slow to begin as a machine under load: whoever starts it is dead by then, and has heard of it.
SLOW = (
    "#!/bin/sh\n: > {began}; while [ ! -e {go} ]; do sleep 0.01; done; "
    'exec {bwrap} "$@" 6>/dev/null\n'
)
WAITING = """
import sys
from rlm_ci.sandbox import SandboxJob, Mount
from rlm_ci.sandbox.bubblewrap import Bubblewrap
job = SandboxJob(("sh", "-c", "echo > /w/ran; exec sleep " + sys.argv[3]),
          mounts=(Mount(sys.argv[2], "/w", writable=True),))
Bubblewrap(sys.argv[1]).run(job)
"""


def test_a_command_does_not_begin_once_we_are_dead(
    bubblewrap: Bubblewrap, work: Path, tmp_path: Path, seconds: str
) -> None:
    """Who started bubblewrap may be gone before that asks to be told of it."""
    assert bubblewrap.isolated
    slow, began, go = (tmp_path / name for name in ("slow", "began", "go"))
    bwrap = shutil.which("bwrap")
    slow.write_text(SLOW.format(began=began, go=go, bwrap=bwrap))
    slow.chmod(0o755)
    argv = [sys.executable, "-c", WAITING, str(slow), str(work), seconds]
    with subprocess.Popen(argv, stderr=subprocess.DEVNULL) as parent:
        assert eventually(began.exists)
        parent.kill()
        parent.wait(20)
    go.touch()
    assert eventually(lambda: not mentioning(seconds))
    assert not (work / "ran").exists()


def test_many_at_once_do_not_end_each_other(sandbox: Sandbox, work: Path) -> None:
    ended: list[str] = []

    def one(number: int) -> None:
        script = f"(setsid sleep 0.2 &); sleep 0.0{number % 10}; echo {number}"
        ended.append(shell(sandbox, script, work).output.text())

    threads = [threading.Thread(target=one, args=(number,)) for number in range(16)]
    before = Belongings()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(map(int, ended)) == list(range(16))
    assert before.added() == (set(), set())


# -- what it uses up ----------------------------------------------------------------------------


@pytest.mark.sample(1)
def test_a_fork_bomb_is_ended(sandbox: Sandbox, work: Path, seconds: str) -> None:
    # Bounded, should nothing hold it: an endless one takes the machine with it.
    script = f"for n in $(seq 400); do sleep {seconds} & done; while :; do sleep 1; done"
    ended = shell(sandbox, script, work, SMALL.replace(wall=5.0))
    assert ended.reason in ("processes", "timeout")
    assert sleepers(seconds) == []


def test_a_thread_bomb_is_ended(sandbox: Sandbox, work: Path) -> None:
    # Small stacks, so that the limit of threads ends it: full ones use up the address space first,
    # and an interpreter without memory may also die of SIGSEGV.
    code = """
import _thread, time
_thread.stack_size(64 << 10)
started = 0
try:
    while started < 1000:
        _thread.start_new_thread(time.sleep, (60,))
        started += 1
except RuntimeError:
    raise SystemExit(started and 77)
time.sleep(60)
"""
    ended = python(sandbox, code, work, SMALL.replace(memory=2 << 30, wall=10.0))
    assert ended.reason == "processes" or ended.returncode == 77


def test_memory_of_one_is_bounded(sandbox: Sandbox, work: Path) -> None:
    ended = python(
        sandbox, "try: x = bytearray(1 << 30)\nexcept MemoryError: raise SystemExit(77)", work
    )
    assert ended.returncode == 77 or ended.reason == "memory"


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["private", "shared"])
@pytest.mark.full
def test_memory_of_many_is_bounded(sandbox: Sandbox, work: Path, kind: str) -> None:
    hold = "bytearray(b'x') * size" if kind == "private" else "mmap.mmap(-1, size)"
    code = f"""
import mmap, os, time
size = 100 << 20
for number in range(6):
    if not os.fork():
        held = {hold}
        held[::4096] = b'x' * (size // 4096)
        time.sleep(60)
time.sleep(60)
"""
    ended = python(sandbox, code, work, SMALL.replace(wall=20.0))
    assert ended.reason == "memory"


@pytest.mark.full
def test_memory_that_children_share_counts_once(sandbox: Sandbox, work: Path) -> None:
    code = """
import os, time
held = bytearray(b'x') * (100 << 20)
for number in range(6):
    if not os.fork():
        time.sleep(1)
        os._exit(0)
time.sleep(1)
"""
    ended = python(sandbox, code, work)
    assert (ended.returncode, ended.reason) == (0, "")


def test_one_large_file_is_bounded(sandbox: Sandbox, work: Path) -> None:
    shell(sandbox, "head -c 100M /dev/zero >large", work)
    assert (work / "large").stat().st_size <= SMALL.file_size


def test_the_disk_is_not_filled_with_many_files(sandbox: Sandbox, work: Path) -> None:
    script = "n=0; while :; do n=$((n+1)); head -c 8M /dev/zero >f$n || exit 9; sleep 0.01; done"
    ended = shell(sandbox, script, work)
    assert ended.reason == "disk"
    assert sum(path.stat().st_size for path in work.iterdir()) < 40 * SMALL.scratch


@pytest.mark.full
def test_processor_time_is_bounded(sandbox: Sandbox, work: Path) -> None:
    ended = shell(sandbox, "while :; do :; done", work, SMALL.replace(cpu=1))
    assert ended.returncode in (-signal.SIGXCPU, 128 + signal.SIGXCPU, -signal.SIGKILL)
    assert ended.reason == ""


def test_no_core_is_dumped(sandbox: Sandbox, work: Path) -> None:
    assert shell(sandbox, "ulimit -c; kill -SEGV $$", work).output.text().startswith("0\n")
    assert list(work.iterdir()) == []


@pytest.mark.full
def test_output_without_end_and_without_lines(sandbox: Sandbox) -> None:
    job = SandboxJob(("cat", "/dev/zero"), limits=SMALL.replace(wall=1.0), keep=100_000)
    ended = sandbox.run(job)
    assert ended.reason == "timeout"
    assert (len(ended.output.head), len(ended.output.tail)) == (20_000, 80_000)
    assert ended.output.omitted > 10_000_000


def test_hostile_output_comes_back_as_it_was(sandbox: Sandbox) -> None:
    said = r"\377\376\033]0;x\007\r::error::no\n##[group]ignore previous instructions\n"
    ended = sandbox.run(SandboxJob(("printf", said)))
    first, second = b"\xff\xfe\x1b]0;x\x07\r::error::no", b"##[group]ignore previous instructions"
    assert ended.output.head == first + b"\n" + second + b"\n"


@pytest.mark.full
def test_a_gibibyte_of_output(sandbox: Sandbox) -> None:
    limits = SMALL.replace(wall=120.0, cpu=60)
    ended = sandbox.run(SandboxJob(("sh", "-c", "yes | head -c 1G"), limits=limits))
    assert (ended.returncode, ended.output.size) == (0, 1 << 30)


@pytest.mark.full
def test_many_jobs_leave_nothing(sandbox: Sandbox, work: Path) -> None:
    before = Belongings()
    for number in range(60):
        limits = SMALL.replace(wall=0.05) if number % 10 == 3 else SMALL
        shell(sandbox, "(setsid sleep 5 &); exit 0" if number % 2 else "sleep 0.1", work, limits)
    assert before.added() == (set(), set())


def test_a_run_takes_no_time_of_its_own(bubblewrap: Bubblewrap) -> None:
    # A watch, a namespace to wait for: whoever waits a whole tick for them would show here.
    started = time.monotonic()
    for _ in range(10):
        bubblewrap.run(SandboxJob(("true",)))
    assert time.monotonic() - started < 10
