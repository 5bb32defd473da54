"""A command is run to its end, within its bounds, and nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import UnavailableError
from rlm_ci.system import process
from testing.leftovers import Belongings, eventually, is_running

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and groups of POSIX")

ENV = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
PYTHON = sys.executable


def python(code: str, **options: object) -> process.ProcessResult:
    return process.run([PYTHON, "-I", "-S", "-c", code], env=ENV, **options)  # type: ignore[arg-type]


def shell(script: str, **options: object) -> process.ProcessResult:
    return process.run(["sh", "-c", script], env=ENV, **options)  # type: ignore[arg-type]


# -- what comes back ----------------------------------------------------------------------------


def test_both_streams_and_the_exit_code_come_back() -> None:
    ended = shell("printf out; printf err >&2; exit 3")
    assert ended == process.ProcessResult(3, b"out", b"err")


def test_a_signal_is_a_negative_code() -> None:
    assert shell("kill -KILL $$").returncode == -signal.SIGKILL


def test_the_environment_is_exactly_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_OURS", "x")
    given = {"PATH": ENV["PATH"], "GIVEN": "caf\udce9 \n=;$(touch canary)"}
    ended = process.run(["env", "-0"], env=given)
    rows = dict(row.split(b"=", 1) for row in ended.stdout.split(b"\0") if row)
    assert rows == {name.encode(): os.fsencode(value) for name, value in given.items()}


def test_arguments_are_never_seen_by_a_shell(tmp_path: Path) -> None:
    words = ["$(id)", "`id`", "; id", "a b", "", "-n", "*", "caf\udce9", "new\nline", '"', "'"]
    code = "import os,sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    ended = process.run([PYTHON, "-I", "-c", code, *words], env=ENV)
    assert ended.stdout.split(b"\0") == [os.fsencode(word) for word in words]
    assert os.listdir(tmp_path) == []


def test_a_child_has_the_default_handling_of_a_broken_pipe() -> None:
    # Python ignores SIGPIPE; a child that inherits that would write to a dead pipe for ever.
    status = process.run(["cat", "/proc/self/status"], env=ENV).stdout.decode()
    mask = int(next(row for row in status.splitlines() if row.startswith("SigIgn:"))[7:], 16)
    assert not mask & 1 << (signal.SIGPIPE - 1)


# -- input and output ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, 5_000_000])
def test_input_of_any_size_comes_back_whole(size: int) -> None:
    data = os.urandom(1 << 16) * (size // (1 << 16) + 1)
    ended = process.run(["cat"], env=ENV, stdin=data[:size])
    assert ended.stdout == data[:size]


def test_a_child_that_answers_on_both_streams_while_it_is_fed() -> None:
    ended = shell("tee /dev/stderr", stdin=b"x" * 3_000_000)
    assert (len(ended.stdout), len(ended.stderr)) == (3_000_000, 3_000_000)


@pytest.mark.parametrize("script", ["exec <&-; sleep 0.05; echo done", "head -c 1; exit 0", "true"])
def test_a_child_that_does_not_read_its_input_is_no_error(script: str) -> None:
    ended = shell(script, stdin=b"y" * 2_000_000)
    assert ended.returncode == 0
    assert not ended.timed_out


def test_a_child_that_closed_its_output_is_not_fed_for_ever() -> None:
    ended = shell("exec >&- 2>&-; cat >/dev/null; exit 5", stdin=b"z" * 5_000_000, timeout=30)
    assert (ended.returncode, ended.timed_out) == (5, False)


def test_without_input_a_child_sees_its_end_at_once() -> None:
    assert process.run(["cat"], env=ENV, timeout=10) == process.ProcessResult(0, b"", b"")


# -- bounds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [1, 2])
def test_output_past_the_limit_ends_the_child(stream: int) -> None:
    started = time.monotonic()
    ended = shell(f"exec yes >&{stream}", limit=100_000, timeout=60)
    assert ended.truncated
    assert ended.returncode == -signal.SIGKILL
    assert len(ended.stdout if stream == 1 else ended.stderr) == 100_000
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(("size", "truncated"), [(1000, False), (1001, True)])
def test_the_limit_is_exact(size: int, *, truncated: bool) -> None:
    ended = process.run(["head", "-c", str(size), "/dev/zero"], env=ENV, limit=1000)
    assert (ended.truncated, len(ended.stdout)) == (truncated, 1000)


def test_a_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"sh -c 'echo $$ >>{pids}; exec sleep 60' & echo $$ >>{pids}; echo early; wait"
    ended = shell(script, timeout=0.5)
    assert (ended.timed_out, ended.stdout) == (True, b"early\n")
    members = [int(line) for line in pids.read_text().split()]
    assert len(members) == 2
    assert eventually(lambda: not any(map(is_running, members)))


def test_a_timeout_holds_for_a_grandchild_that_keeps_the_output_open(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    started = time.monotonic()
    ended = shell(f"sleep 60 & echo $! >{pids}; exit 0", timeout=0.5)
    assert ended.timed_out
    assert time.monotonic() - started < 20
    assert eventually(lambda: not is_running(int(pids.read_text())))


def test_a_timeout_holds_for_a_child_that_closed_its_output() -> None:
    started = time.monotonic()
    ended = shell("exec >&- 2>&-; exec sleep 60", timeout=0.5)
    assert ended.timed_out
    assert ended.returncode == -signal.SIGKILL
    assert time.monotonic() - started < 20


def test_a_child_that_ignores_signals_is_ended_too() -> None:
    assert shell("trap '' TERM INT HUP; while :; do sleep 0.1; done", timeout=0.5).timed_out


# -- nothing stays behind -----------------------------------------------------------------------


@pytest.mark.full
def test_five_hundred_runs_leave_neither_descriptor_nor_zombie(tmp_path: Path) -> None:
    before = Belongings()
    unusable = tmp_path / "not-executable"
    unusable.write_text("")
    for number in range(500):
        if number % 50 == 7:
            with pytest.raises(UnavailableError):
                process.run([str(unusable)], env=ENV)
        elif number % 50 == 8:
            assert shell("exec yes", limit=10).truncated
        elif number % 100 == 9:
            assert shell("sleep 9", timeout=0.01).timed_out
        else:
            process.run(["true"], env=ENV, stdin=b"unread" * (number % 3))
    assert before.added() == (set(), set())


class _Interruption(BaseException):
    pass


def test_an_interrupt_leaves_no_child_and_no_descriptor(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    before = Belongings()

    def interrupt(*_: object) -> None:
        raise _Interruption

    previous = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(_Interruption):
            shell(f"sleep 60 & echo $! $$ >{pids}; wait")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert eventually(lambda: not any(map(is_running, map(int, pids.read_text().split()))))
    assert before.added() == (set(), set())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_a_child_starts_leaves_no_child(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    # Starting takes the parent a good part of a millisecond, in which signals do arrive.
    started: list[int] = []
    spawn = os.posix_spawnp

    def spawn_and_interrupt(*args: object, **options: object) -> int:
        started.append(spawn(*args, **options))  # type: ignore[arg-type]
        # To this very thread: the test runner has others, which do not block it.
        signal.pthread_kill(threading.get_ident(), number)
        return started[0]

    def interrupt(*_: object) -> None:
        raise _Interruption

    before = Belongings()
    monkeypatch.setattr(os, "posix_spawnp", spawn_and_interrupt)
    previous = signal.signal(number, interrupt)
    try:
        with pytest.raises(_Interruption):
            shell("sleep 60")
    finally:
        signal.signal(number, previous)
    assert eventually(lambda: not is_running(started[0]))
    assert before.added() == (set(), set())


@pytest.mark.sample(2)
@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of others cannot")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGABRT])
@pytest.mark.parametrize("thread", [False, True])
def test_no_child_outlives_us_however_we_end(
    tmp_path: Path, number: signal.Signals, *, thread: bool
) -> None:
    script = f"echo $$ > {tmp_path}/child; (echo $BASHPID > {tmp_path}/inner; sleep 100) & wait"
    run = f"process.run(['bash', '-c', {script!r}], env={{'PATH': '/usr/bin:/bin'}})"
    if thread:
        run = f"t = threading.Thread(target=lambda: {run}); t.start(); t.join()"
    code = f"import threading\nfrom rlm_ci.system import process\n{run}"
    with subprocess.Popen([sys.executable, "-c", code]) as ours:
        inner = tmp_path / "inner"
        assert eventually(lambda: inner.exists() and inner.read_text().endswith("\n"))
        pids = [int((tmp_path / name).read_text()) for name in ("child", "inner")]
        assert all(map(is_running, pids))
        # The child may be ahead of us.
        info = Path(f"/proc/{pids[0]}/fdinfo/3")
        assert eventually(lambda: bool(int(info.read_text().split()[3], 8) & os.O_ASYNC))
        ours.send_signal(number)
        ours.wait(60)
    assert eventually(lambda: not any(map(is_running, pids)))


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel of others cannot")
def test_a_child_outlives_the_thread_that_started_it() -> None:
    started: list[process.Child] = []
    environ = {"PATH": "/usr/bin:/bin"}
    starting = threading.Thread(
        target=lambda: started.append(process.Child(["sh", "-c", "sleep 0.3; echo on"], environ))
    )
    starting.start()
    starting.join()
    with started[0] as child:
        assert child.finish().stdout == b"on\n"


def test_a_child_may_be_interrupted_though_its_start_was_not() -> None:
    status = process.run(["cat", "/proc/self/status"], env=ENV).stdout.decode()
    blocked = int(next(row for row in status.splitlines() if row.startswith("SigBlk:"))[7:], 16)
    assert not blocked & (1 << (signal.SIGINT - 1) | 1 << (signal.SIGTERM - 1))


def test_without_a_handle_on_the_child_its_end_is_seen_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert shell("exec >&- 2>&-; sleep 0.05; exit 4") == process.ProcessResult(4, b"", b"")
    assert shell("exec >&- 2>&-; exec sleep 60", timeout=0.2).timed_out


# -- programs that cannot be started ------------------------------------------------------------


@pytest.mark.parametrize("kind", ["missing", "folder", "not executable", "no format"])
def test_a_program_that_cannot_be_started_is_unavailable(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "program"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(b"\0\0\0\0")
        path.chmod(0o755 if kind == "no format" else 0o644)
    with pytest.raises(UnavailableError) as caught:
        process.run([str(path)], env=ENV)
    assert caught.value.code == 4
    assert str(path) in str(caught.value)
    assert caught.value.hint


# -- the way of other platforms -----------------------------------------------------------------


def test_elsewhere_it_means_the_same() -> None:
    def run(script: str, stdin: bytes = b"", timeout: float = 30, limit: int = 1 << 20) -> object:
        argv: list[str | bytes] = [b"sh", "-c", script]
        with process.PortableChild(argv, ENV, stdin, timeout, limit) as child:
            return child.finish()

    assert run("cat; printf err >&2; exit 3", b"in") == process.ProcessResult(3, b"in", b"err")
    late = run("exec sleep 60", timeout=0.2)
    assert isinstance(late, process.ProcessResult)
    assert late.timed_out
    much = run("printf 12345", limit=3)
    assert much == process.ProcessResult(0, b"123", b"", truncated=True)
    with pytest.raises(UnavailableError):
        process.PortableChild(["no-such-program-here"], ENV)


def test_elsewhere_the_program_is_never_taken_from_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Windows looks there first, and it is the folder of the change that is judged.
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        (folder / "git.exe").write_text("")
    monkeypatch.chdir(here)
    path = os.pathsep.join(["", ".", str(tmp_path / "gone"), str(there)])
    assert process.locate("git", path, ".COM;.EXE") == str(there / "git.exe")
    assert process.locate("git.exe", path, ".COM;.EXE") == str(there / "git.exe")
    assert process.locate(str(here / "git.exe"), path, ".EXE") == str(here / "git.exe")
    assert process.locate("hg", path, ".COM;.EXE") is None
