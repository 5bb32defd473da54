"""One writer per run, however it ends, and what is said of it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from fnmatch import fnmatch
from pathlib import Path

import pytest

from rlm_ci.errors import LockedError, StorageError
from rlm_ci.system import lock
from rlm_ci.system.lock import Lock, exclusive, holder


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "lock")


HOLD = """
import os, sys
from rlm_ci.system.lock import Lock
lock = Lock.take(sys.argv[1], now=lambda: 1000.0)
print(os.getpid(), flush=True)
if sys.argv[2:] == ["orphan"]:
    if os.fork():
        os._exit(0)
sys.stdin.read()
"""


def start(path: str, *more: str) -> subprocess.Popen[bytes]:
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, path, *more], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    assert int(child.stdout.readline()) == child.pid
    return child


def refusal(path: str, now: float = 1005.0) -> LockedError:
    with pytest.raises(LockedError) as caught:
        Lock.take(path, now=lambda: now)
    return caught.value


def test_who_holds_it_is_said_and_the_next_one_gets_it(path: str) -> None:
    child = start(path)
    try:
        error = refusal(path)
        assert str(error) == f"process {child.pid} has held this run for 5 s ({path})"
        assert "rlm-ci cancel" in error.hint
        by = holder(path)
        assert by is not None
        assert (by.pid, by.since, by.alive) == (child.pid, 1000.0, True)
    finally:
        child.kill()
        child.communicate()
    by = holder(path)
    assert by is not None
    assert not by.alive  # killed, it could not take its name off
    with Lock.take(path):
        taken = holder(path)
        assert taken is not None
        assert (taken.pid, taken.alive) == (os.getpid(), True)
    assert holder(path) is None


def test_a_child_that_was_left_behind_is_told_apart(path: str) -> None:
    child = start(path, "orphan")
    assert child.wait(10) == 0
    assert child.stdin is not None
    try:
        error = refusal(path)
        assert f"a process that {child.pid} started has held this run for 5 s" in str(error)
        assert f"fuser {path}" in error.hint
    finally:
        child.stdin.close()
        assert child.stdout is not None
        child.stdout.read()  # the orphan ends, and with it its end of the pipe
        child.stdout.close()
    Lock.take(path).release()


def test_it_holds_within_one_process_too(path: str) -> None:
    with Lock.take(path) as lock:
        refusal(path)
        refusal(path)  # asking closed a descriptor of the file, which must not let go of it
    lock.release()
    Lock.take(path).release()


def test_a_program_that_is_started_does_not_inherit_it(path: str) -> None:
    lock = Lock.take(path)
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        lock.release()
        Lock.take(path).release()
    finally:
        child.kill()
        child.wait()


def test_a_file_put_in_its_place_is_the_lock(path: str) -> None:
    """Whoever waits on a file that has been replaced would hold what nobody else asks for."""
    counted = threading.Barrier(5)
    held = []
    stop = threading.Event()

    def replace() -> None:
        while not stop.is_set():
            with open(f"{path}.new", "wb"):
                os.replace(f"{path}.new", path)

    def take() -> None:
        counted.wait()
        for _ in range(200):
            try:
                with Lock.take(path) as lock:
                    held.append(os.fstat(lock._descriptor).st_ino)
            except LockedError:
                continue

    takers = [threading.Thread(target=take) for _ in range(4)]
    replacer = threading.Thread(target=replace)
    for thread in [*takers, replacer]:
        thread.start()
    counted.wait()
    for thread in takers:
        thread.join()
    stop.set()
    replacer.join()
    assert held
    Lock.take(path).release()


@pytest.mark.parametrize("kind", ["link", "dangling", "folder", "pipe"])
def test_what_is_no_file_is_refused(path: str, tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    if kind == "link":
        other.write_bytes(b"precious")
    if kind in ("link", "dangling"):
        os.symlink(other, path)
    elif kind == "folder":
        os.mkdir(path)
    else:
        os.mkfifo(path)
    with pytest.raises(StorageError):
        Lock.take(path)
    assert not other.exists() or other.read_bytes() == b"precious"
    assert holder(path) is None


def test_it_is_for_the_owner_alone(path: str) -> None:
    Lock.take(path).release()
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


_GOOD = {"pid": 1, "since": 5.0, "started": "1"}


@pytest.mark.parametrize(
    "content",
    [
        b"", b"\xff", b"{", b"[]", b"17", b"[" * 4000, b" " * 5000,
        *(
            json.dumps({**_GOOD, name: value}).encode()
            for name, value in [
                ("pid", "1"), ("pid", True), ("pid", -1), ("pid", 0), ("pid", 1 << 40),
                ("since", float("nan")), ("since", -1), ("since", "x"), ("started", 1),
            ]
        ),
    ],
)  # fmt: skip
def test_a_file_that_says_nothing_sensible_names_nobody(path: str, content: bytes) -> None:
    with Lock.take(path):
        Path(path).write_bytes(content)
        assert holder(path) is None
        assert str(refusal(path)) == f"another process holds this run ({path})"


def test_a_number_that_another_process_has_now_is_not_the_holder(path: str) -> None:
    said = {"pid": os.getpid(), "since": 5, "started": "12345"}
    Path(path).write_text(json.dumps(said))
    by = holder(path)
    assert by is not None
    assert not by.alive
    Path(path).write_text(json.dumps({**said, "started": ""}))
    by = holder(path)
    assert by is not None
    # Where the kernel tells when a process was started, the holder has said it.
    assert by.alive is not os.path.exists("/proc/self/stat")


def test_a_folder_is_had_by_one_after_the_other(tmp_path: Path) -> None:
    """Even where each of them removes it when done."""
    folder = tmp_path / "shared"
    inside: list[int] = []

    def work(number: int) -> None:
        for _ in range(10):
            with exclusive(str(folder)):
                inside.append(number)
                (folder / "mine").write_text(str(number))
                assert inside == [number]
                assert (folder / "mine").read_text() == str(number)
                (folder / "mine").unlink()
                inside.clear()
            with suppress(OSError):
                folder.rmdir()

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work, number) for number in range(4)]:
            done.result()
    assert not folder.exists()


def test_who_does_not_let_go_of_a_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "PATIENCE", 0.05)
    said = f"process {os.getpid()} is writing to this folder"
    with exclusive(str(tmp_path)), pytest.raises(LockedError, match=said), exclusive(str(tmp_path)):
        raise AssertionError("two are in it")
    assert os.listdir(tmp_path) == []


def test_a_file_of_the_folder_is_not_taken_for_the_lock(tmp_path: Path) -> None:
    """Such folders are in a work tree: no snapshot and no `git status` is to show the lock."""
    mine = tmp_path / ".lock"
    mine.write_text("mine")
    with exclusive(str(tmp_path)):
        (own,) = set(os.listdir(tmp_path)) - {".lock"}
        assert fnmatch(own, ".rlm-ci-*.tmp")
        assert mine.read_text() == "mine"
    assert os.listdir(tmp_path) == [".lock"]


def test_who_has_not_signed_a_lock_is_waited_for_a_little(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    passing = Lock.take(path, signs=False)
    threading.Timer(0.1, passing.release).start()
    with Lock.take_over(path), pytest.raises(LockedError):
        Lock.take_over(path)  # its holder has signed it
