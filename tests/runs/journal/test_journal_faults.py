"""What a journal is for: whatever befalls the process or the disk, nothing said is lost."""

from __future__ import annotations

import subprocess
from itertools import count
from pathlib import Path

import pytest

from rlm_ci.errors import LOCKED, STORAGE
from rlm_ci.runs.journal.journal import Journal, replay
from testing.journal_faults import (
    Ended,
    command,
    each,
    environment,
    inject,
    require_kept,
    require_order,
    run,
    trace,
)

#: What happens to one write or fsync, and how the process ends by it.
FAULTS = {
    "error=ENOSPC": STORAGE, "error=EIO": STORAGE, "error=EDQUOT": STORAGE, "error=EINTR": 0,
    "retval=7": STORAGE, "retval=0": STORAGE, "signal=KILL": -9,
}  # fmt: skip


def points(call: str) -> list[str]:
    return [fault for fault in FAULTS if call == "write" or not fault.startswith("retval")]


def suffer(path: Path, call: str, fault: str, when: int) -> Ended:
    ended = inject(path, f"{call}:{fault}:when={when}")
    require_kept(path, ended)
    expected = 0 if ended.said[-1:] == (6,) else FAULTS[fault]
    assert ended.code == expected, ended
    return ended


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("write", "error=ENOSPC"), ("write", "error=EINTR"), ("write", "retval=7"),
        ("write", "signal=KILL"), ("fsync", "error=EIO"), ("fsync", "signal=KILL"),
    ],
)  # fmt: skip
def test_a_fault_in_the_middle_loses_nothing(tmp_path: Path, call: str, fault: str) -> None:
    ended = suffer(tmp_path / "journal", call, fault, 3)
    assert (ended.code == 0) == (fault == "error=EINTR")


@pytest.mark.full
@pytest.mark.parametrize(
    ("call", "fault"), [(call, fault) for call in ("write", "fsync") for fault in points(call)]
)
def test_a_fault_at_any_point_loses_nothing(tmp_path: Path, call: str, fault: str) -> None:
    for when in count(1):
        path = tmp_path / str(when) / "journal"
        path.parent.mkdir()
        ended = suffer(path, call, fault, when)
        if ended.said[-1:] == (6,) and fault != "error=EINTR":
            break  # the program came to its end before the fault did
        if when > 12:
            assert fault == "error=EINTR"
            break
    assert when >= 7  # six records, and one fsync when it is opened


def test_a_disk_that_stays_broken_is_asked_once(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    ended = inject(path, "fsync:error=EIO:when=3+")
    assert (ended.code, ended.said) == (STORAGE, (0, 1))
    assert [entry["number"] for entry in replay(str(path))] == [1]


def test_a_rollback_that_fails_leaves_a_tail_that_is_cut_later(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    ended = inject(path, "ftruncate:error=EIO", argv=command(path, limit=300))
    assert ended.code == STORAGE
    assert path.stat().st_size == 300
    Journal.open(str(path)).close()
    (aside,) = path.parent.glob("journal.torn-*")
    assert 0 < aside.stat().st_size == 300 - path.stat().st_size
    require_kept(path, ended)


# -- the order of things ------------------------------------------------------------------------


def test_nothing_is_acknowledged_before_it_is_durable(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    for _ in range(2):  # made, and gone on with
        ended, calls = trace(path)
        assert ended.code == 0, ended
        assert require_order(path, calls) == 7
    assert len(list(replay(str(path)))) == 12


def test_threads_share_an_fsync_and_none_is_early(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    ended, calls = trace(path, count=64, threads=8)
    assert ended.code == 0, ended
    assert require_order(path, calls) == 65
    assert len(list(replay(str(path)))) == 64
    # Each waits for its own, and eight wait at once: what is one fsync each would be 65.
    assert sum("sync" in call.name and call.is_on(path) for call in calls) < 60


def test_each_record_is_one_write(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    _, calls = trace(path)
    writes = [call for call in calls if call.name == "write" and call.is_on(path)]
    assert len(writes) == 6
    assert all(call.text.endswith(f"= {call.result}") for call in writes)
    assert sum(int(call.result) for call in writes) == path.stat().st_size


# -- a disk that is full ------------------------------------------------------------------------


def full_disk(path: Path, ended: Ended) -> None:
    lengths = [len(line) + 1 for line in path.read_bytes().split(b"\n")[:-1]]
    assert sum(lengths) == path.stat().st_size, "half a record was left behind"
    assert ended.code == STORAGE
    assert "File too large" in ended.complaint
    assert ended.said == tuple(range(len(lengths) + 1))
    require_kept(path, ended)


@pytest.mark.parametrize("limit", [100, 333])
def test_a_write_that_the_disk_cuts_short_is_rolled_back(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "journal"
    full_disk(path, run(command(path, limit=limit)))


@pytest.mark.full
@pytest.mark.parametrize("part", range(8))
def test_a_disk_that_is_full_at_any_byte(tmp_path: Path, part: int) -> None:
    whole = tmp_path / "whole"
    assert run(command(whole)).code == 0
    for path, ended in each(tmp_path, range(1 + part, whole.stat().st_size, 8)):
        full_disk(path, ended)


def test_a_short_write_is_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    # The disk has room again while the journal looks how far it came.
    ended = inject(path, "%fstat:delay_enter=300000", argv=command(path, limit="333+"))
    assert (ended.code, ended.said) == (0, tuple(range(7))), ended
    require_kept(path, ended)


# -- more than one ------------------------------------------------------------------------------


def start(path: Path) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    argv = command(path, hold=True)
    return subprocess.Popen(argv, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe)


@pytest.mark.parametrize("turn", [0, *(pytest.param(n, marks=pytest.mark.full) for n in range(9))])
def test_of_four_writers_at_once_one_writes(tmp_path: Path, turn: int) -> None:
    path = tmp_path / f"journal-{turn}"
    writers = [start(path) for _ in range(4)]
    try:
        ended: list[subprocess.Popen[bytes]] = []
        while len(ended) < 3:  # the one that writes holds on until its stdin ends
            ended = [writer for writer in writers if writer.poll() is not None]
        assert [writer.returncode for writer in ended] == [LOCKED] * 3
        (winner,) = (writer for writer in writers if writer not in ended)
        said, _ = winner.communicate(timeout=30)
        assert winner.returncode == 0
        for writer in ended:
            out, complaint = writer.communicate()
            assert out == b""
            assert b"this run" in complaint
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()
    assert tuple(map(int, said.split())) == tuple(range(7))
    assert [entry["number"] for entry in replay(str(path))] == list(range(1, 7))
