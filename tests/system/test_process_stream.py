"""A command that says what it likes for as long as it likes: bounded, and gone at the end."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import UnavailableError
from rlm_ci.system import process
from rlm_ci.system.process import Clipped
from rlm_ci.system.process_stream import DRAIN, Clip, stream
from testing.leftovers import Belongings, eventually, is_running

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and groups of POSIX")

ENV = {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}
PYTHON = sys.executable


def shell(script: str, **options: Any) -> process.StreamResult:
    return stream(["sh", "-c", script], env=ENV, **options)


# -- what comes back ----------------------------------------------------------------------------


def test_both_outputs_come_back_in_the_order_of_writing() -> None:
    ended = shell("printf 1; printf 2 >&2; printf 3; printf 4 >&2; exit 3")
    assert (ended.returncode, ended.reason) == (3, "")
    assert ended.output == Clipped(b"1234", b"", 0)
    assert 0 < ended.seconds < 10


def test_a_signal_is_a_negative_code() -> None:
    assert shell("kill -SEGV $$").returncode == -signal.SIGSEGV


def test_it_works_in_the_folder_that_it_was_given(tmp_path: Path) -> None:
    folder = tmp_path / "a b;$(touch x)'\"\n-"
    folder.mkdir()
    ended = stream(["pwd"], env=ENV, cwd=str(folder))
    assert ended.output.head == os.fsencode(f"{folder}\n")
    assert os.listdir(folder) == []


def test_words_pass_through_unchanged_with_a_folder_too(tmp_path: Path) -> None:
    words = ["$(id)", "`id`", "; id", "a b", "", "-n", "*", "caf\udce9", "new\nline", '"', "'"]
    code = "import os,sys; sys.stdout.buffer.write(b'\\0'.join(map(os.fsencode, sys.argv[1:])))"
    ended = stream([PYTHON, "-I", "-c", code, *words], env=ENV, cwd=str(tmp_path))
    assert ended.output.head.split(b"\0") == [os.fsencode(word) for word in words]


def test_the_environment_is_exactly_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_OURS", "x")
    given = {"PATH": ENV["PATH"], "GIVEN": "caf\udce9 \n=;$(touch canary)"}
    ended = stream(["env", "-0"], env=given)
    rows = dict(row.split(b"=", 1) for row in ended.output.head.split(b"\0") if row)
    assert rows == {name.encode(): os.fsencode(value) for name, value in given.items()}


@pytest.mark.parametrize("size", [0, 1, 65_537, 5_000_000])
def test_input_of_any_size_comes_back_whole(size: int) -> None:
    data = random.Random(size).randbytes(size)
    ended = stream(["cat"], env=ENV, stdin=data, clip=Clip(1 << 23))
    assert ended.output == Clipped(data, b"", 0)


@pytest.mark.parametrize("script", ["exec <&-; sleep 0.05; echo done", "head -c 1; exit 0", "true"])
def test_a_child_that_does_not_read_its_input_is_no_error(script: str) -> None:
    assert shell(script, stdin=b"y" * 2_000_000).returncode == 0


def test_descriptors_become_three_and_four() -> None:
    reading, writing = os.pipe()
    try:
        ended = shell("printf said >&4; cat <&3", descriptors=_pair(b"told", writing))
        assert os.read(reading, 100) == b"said"
    finally:
        os.close(reading)
        os.close(writing)
    assert ended.output.head == b"told"


def _pair(data: bytes, other: int) -> tuple[int, int]:
    descriptor = os.memfd_create("test")
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor, other


def test_each_piece_is_told_as_it_comes() -> None:
    told: list[tuple[float, bytes]] = []
    started = time.monotonic()
    shell("echo one; sleep 0.4; echo two", on_output=lambda chunk: told.append(
        (time.monotonic() - started, chunk)))  # fmt: skip
    assert b"".join(chunk for _, chunk in told) == b"one\ntwo\n"
    assert told[0][0] < told[-1][0] - 0.3


# -- what is kept -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30))
def test_head_and_tail_are_those_of_the_whole(seed: int) -> None:
    chance = random.Random(seed)
    head, tail = chance.randrange(60), chance.randrange(1, 60)
    clip, whole = Clip(head, tail), b""
    for _ in range(chance.randrange(30)):
        chunk = chance.randbytes(chance.choice([0, 1, 7, 50, 400_000 if seed % 5 == 0 else 90]))
        clip.add(chunk)
        whole += chunk
        kept = clip.clipped()
        assert kept.size == len(whole)
        assert kept.head == whole[:head]
        assert kept.tail == whole[head:][-tail:]
        assert bool(kept.omitted) == (len(whole) > head + tail)


@pytest.mark.parametrize("cut", range(1, 40))
def test_a_cut_character_is_left_out_whole(cut: int) -> None:
    text = "aé漢😀" * 10
    data = text.encode()
    head, tail = data[:cut], data[-cut:]
    before, _, after = Clipped(head, tail, len(data) - 2 * cut).text().partition("\n[...")
    assert "\ufffd" not in before + after
    assert text.startswith(before)
    assert text.endswith(after.partition("]\n")[2])
    left_out = int(after.split()[0].replace(",", ""))
    assert left_out == len(data) - len(before.encode()) - len(after.partition("]\n")[2].encode())


def test_what_is_no_text_is_still_shown() -> None:
    ended = shell(r"printf 'a\377\376\000\033[31mb'")
    assert ended.output.text() == "a\ufffd\ufffd\x00\x1b[31mb"
    assert Clipped(b"\x80" * 9, b"\x80" * 9, 3).text().count("\ufffd") == 15


FLOOD = """
import resource, sys
from rlm_ci.system.process_stream import stream
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ended = stream(sys.argv[2:], env={"PATH": "/usr/bin:/bin"}, timeout=280)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(ended.returncode, ended.output.size, (after - before) >> 10)
"""


def flood(size: int, *argv: str) -> None:
    args = [PYTHON, "-c", FLOOD, str(size), *argv]
    ended = subprocess.run(args, capture_output=True, check=True, timeout=290)
    code, seen, grown = map(int, ended.stdout.split())
    assert (code, seen) == (0, size)
    assert grown < 48  # MiB


@pytest.mark.full
@pytest.mark.parametrize("lines", [True, False])
def test_memory_stays_flat(lines: bool) -> None:
    size = 512 << 20
    flood(
        size,
        "sh",
        "-c",
        f"{'yes | ' if lines else ''}head -c {size} {'' if lines else '/dev/zero'}",
    )


@pytest.mark.full
@pytest.mark.parametrize("lines", [True, False])
def test_memory_stays_flat_at_four_gibibytes(lines: bool) -> None:
    size = 4 << 30
    flood(
        size,
        "sh",
        "-c",
        f"{'yes | ' if lines else ''}head -c {size} {'' if lines else '/dev/zero'}",
    )


# -- its end ------------------------------------------------------------------------------------


def test_past_its_time_the_whole_group_is_dead(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    script = f"trap '' TERM; sh -c 'echo $$ >>{pids}; exec sleep 60' & echo $$ >>{pids}; wait; wait"
    ended = shell(f"echo early; {script}", timeout=0.5)
    assert (ended.reason, ended.returncode) == ("timeout", -signal.SIGKILL)
    assert ended.output.head == b"early\n"
    members = [int(line) for line in pids.read_text().split()]
    assert len(members) == 2
    assert eventually(lambda: not any(map(is_running, members)))


@pytest.mark.full
def test_a_grandchild_that_holds_the_output_is_waited_for_a_little(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    started = time.monotonic()
    ended = shell(f"(echo $$; sleep 0.3; echo late; exec sleep 60) & echo $! >{pids}; exit 4")
    assert (ended.returncode, ended.reason) == (4, "")
    assert ended.output.head.endswith(b"late\n")
    assert DRAIN <= time.monotonic() - started < DRAIN + 15
    assert eventually(lambda: not is_running(int(pids.read_text())))


def test_a_grandchild_that_closed_the_output_ends_with_its_command(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    ended = shell(f"sleep 60 <&- >&- 2>&- & echo $! >{pids}; exit 0")
    assert ended.seconds < DRAIN
    assert eventually(lambda: not is_running(int(pids.read_text())))


def test_one_that_closed_its_output_is_waited_for() -> None:
    assert shell("exec >&- 2>&-; sleep 0.3; exit 5").returncode == 5
    assert shell("exec >&- 2>&-; exec sleep 60", timeout=0.3).reason == "timeout"


@pytest.mark.full
@pytest.mark.parametrize(
    ("script", "said", "code"),
    [
        ("trap 'echo bye; exit 7' TERM; while :; do sleep 0.05; done", b"bye\n", 7),
        ("trap '' TERM; while :; do sleep 0.05; done", b"", -signal.SIGKILL),
    ],
)
def test_who_is_given_grace_may_use_it(script: str, said: bytes, code: int) -> None:
    ended = shell(script, timeout=0.5, grace=1.0)
    assert (ended.reason, ended.returncode, ended.output.head) == ("timeout", code, said)


def test_a_watch_can_stop_it(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    seen: list[int] = []

    def watch(pid: int) -> str:
        seen.append(pid)
        return "seen" if flag.exists() else ""

    ended = shell(f"echo $$; sleep 0.3; touch {flag}; exec sleep 60", watch=watch)
    assert ended.reason == "seen"
    assert set(seen) == {int(ended.output.head)}


class _Interruption(BaseException):
    pass


def test_an_error_of_a_listener_leaves_nothing() -> None:
    before, pids = Belongings(), []

    def listen(chunk: bytes) -> None:
        pids.append(int(chunk))
        raise _Interruption

    with pytest.raises(_Interruption):
        shell("echo $$; exec sleep 60", on_output=listen)
    assert eventually(lambda: before.are_all() and not is_running(pids[0]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("early", [True, False])
def test_an_interrupt_ends_the_child_first(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, *, early: bool
) -> None:
    import threading

    started: list[int] = []
    spawn = os.posix_spawnp
    me = threading.get_ident()

    def spawn_and_interrupt(*args: object, **options: object) -> int:
        started.append(spawn(*args, **options))  # type: ignore[arg-type]
        if early:  # between the start of the child and the care for it
            signal.pthread_kill(me, number)
        else:
            threading.Timer(0.3, signal.pthread_kill, (me, number)).start()
        return started[0]

    def interrupt(*_: object) -> None:
        raise _Interruption

    before = Belongings()
    monkeypatch.setattr(os, "posix_spawnp", spawn_and_interrupt)
    previous = signal.signal(number, interrupt)
    try:
        with pytest.raises(_Interruption):
            shell("sleep 60 & wait")
    finally:
        signal.signal(number, previous)
    assert eventually(lambda: before.are_all() and not is_running(started[0]))


def test_a_child_may_be_interrupted_though_its_start_was_not() -> None:
    status = stream(["cat", "/proc/self/status"], env=ENV).output.text()
    fields = dict(row.split(":", 1) for row in status.splitlines())
    assert int(fields["SigBlk"], 16) == 0
    assert not int(fields["SigIgn"], 16) & 1 << (signal.SIGPIPE - 1)


@pytest.mark.full
@pytest.mark.parametrize("names", [("pidfd_open",), ("pidfd_open", "waitid")])
def test_where_the_system_tells_less_it_means_the_same(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    for name in names:
        monkeypatch.delattr(os, name, raising=False)
    assert shell("echo a; exit 4").output.head == b"a\n"
    assert shell("exec >&- 2>&-; sleep 0.05; exit 4").returncode == 4
    assert shell("sleep 60 & exit 6").returncode == 6
    assert shell("exec sleep 60", timeout=0.2).reason == "timeout"


def test_two_hundred_runs_leave_neither_descriptor_nor_zombie() -> None:
    before = Belongings()
    for number in range(200):
        if number % 50 == 7:
            with pytest.raises(UnavailableError):
                stream(["no-such-program-here"], env=ENV)
        elif number % 50 == 8:
            assert shell("sleep 9", timeout=0.01).reason == "timeout"
        else:
            stream(["true"], env=ENV, stdin=b"unread" * (number % 3))
    assert before.added() == (set(), set())


# -- programs that cannot be started ------------------------------------------------------------


@pytest.mark.parametrize("kind", ["missing", "folder", "not executable", "no format"])
def test_a_program_that_cannot_be_started_is_unavailable(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "program"
    if kind == "folder":
        path.mkdir()
    elif kind != "missing":
        path.write_bytes(b"\0\0\0\0")
        path.chmod(0o755 if kind == "no format" else 0o644)
    before = Belongings()
    with pytest.raises(UnavailableError) as caught:
        stream([str(path)], env=ENV)
    assert str(path) in str(caught.value)
    assert caught.value.hint
    assert before.added() == (set(), set())


def test_a_folder_to_work_in_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="not a folder to work in"):
        stream(["true"], env=ENV, cwd=str(tmp_path / "gone"))


def test_a_program_is_never_found_by_a_relative_path(tmp_path: Path) -> None:
    trap = tmp_path / "true"
    trap.write_text("#!/bin/sh\nexit 66\n")
    trap.chmod(0o755)
    with pytest.raises(UnavailableError):
        stream(["true"], env={"PATH": f".:{tmp_path.name}:"}, cwd=str(tmp_path))
    assert stream(["./true"], env=ENV, cwd=str(tmp_path)).returncode == 66


# -- a process that holds secrets ---------------------------------------------------------------

HARDENED = """
import ctypes, os, subprocess, sys
from rlm_ci.system import process
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)  # root may read everything
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # who changes the user is closed to others already
def read(name):
    return subprocess.run(["cat", f"/proc/{os.getpid()}/{name}"], capture_output=True)
print(b"CANARY" in read("environ").stdout)
print(process.harden())
print(b"CANARY" in read("environ").stdout, read("environ").returncode, read("maps").returncode)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a switch of Linux")
def test_other_processes_of_the_user_cannot_read_a_hardened_one() -> None:
    ended = subprocess.run(
        [PYTHON, "-c", HARDENED], env={**ENV, "CANARY": "x"}, capture_output=True, check=True
    )
    assert ended.stdout.decode().split("\n")[:3] == ["True", "True", "False 1 1"]
