"""The journal: what a record is, what damage is, and what is cut off."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import stat
import tempfile
import threading
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rlm_ci.errors import DamagedError, LockedError, StorageError
from rlm_ci.runs.journal import reader
from rlm_ci.runs.journal.journal import Journal, replay
from rlm_ci.runs.journal.reader import JournalReader
from rlm_ci.system.lock import Lock

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Where many syncs take no time.
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None


def canonical(record: dict[str, Any]) -> bytes:
    """The contract's words, by the plainest means: the oracle of these tests."""
    return json.dumps(record, sort_keys=True, separators=(",", ":")).encode("ascii")


def line(record: dict[str, Any]) -> bytes:
    """A line that another program may have written: the checksum stands last."""
    return canonical(record)[:-1] + b',"crc":"%08x"}\n' % crc32(canonical(record))


def forged(body: bytes) -> bytes:
    """Whatever ``body`` says, with a checksum that fits."""
    return b'{"crc":"%08x",%b\n' % (crc32(body), body[1:])


def written(path: Path, *found: dict[str, Any]) -> bytes:
    with Journal.open(str(path)) as journal:
        for record in found:
            journal.append(record)
    return path.read_bytes()


def damage_of(path: Path) -> DamagedError:
    with pytest.raises(DamagedError) as caught:
        list(replay(str(path)))
    with pytest.raises(DamagedError) as again:
        Journal.open(str(path))
    assert str(again.value) == str(caught.value)
    return caught.value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.jsonl"


# -- a record -----------------------------------------------------------------------------------


def test_a_line_is_as_the_contract_says(path: Path) -> None:
    data = written(path, {"b": "é\u2028\ud800", "a": [1.5, None, True, {"z": 1, "y": -0.0}]})
    assert data.isascii()
    assert data.endswith(b"\n")
    found = json.loads(data)
    crc = found.pop("crc")
    assert crc == f"{crc32(canonical(found)):08x}"
    assert found == {"a": [1.5, None, True, {"z": 1, "y": 0.0}], "b": "é\u2028\ud800", "seq": 1}
    assert list(replay(str(path))) == [found]


def test_records_are_numbered_on_over_processes(path: Path) -> None:
    for turn in range(3):
        with Journal.open(str(path)) as journal:
            assert journal.seq == 2 * turn
            assert journal.append({"n": 1}) == 2 * turn + 1
            assert journal.append({"n": 2}, durable=False) == 2 * turn + 2
    assert [record["seq"] for record in replay(str(path))] == [1, 2, 3, 4, 5, 6]


def test_it_is_for_the_owner_alone(path: Path) -> None:
    written(path, {})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def circle() -> dict[str, Any]:
    found: dict[str, Any] = {}
    found["inner"] = [found]
    return found


def nested(depth: int) -> Any:
    return {"inner": nested(depth - 1)} if depth else 1


@pytest.mark.parametrize(
    "record",
    [
        {"seq": 1}, {"crc": "00000000"}, {"a": float("nan")}, {"a": [float("inf")]},
        {1: "a"}, {"a": {1: "b"}}, {"a": [{None: "b"}]}, {"a": {True: 1}}, {"a": {1.5: 1, "b": 2}},
        {"a": b"bytes"}, {"a": {1, 2}}, {"a": 1j}, {"a": Path("x")}, circle(),
        {"a": nested(100)}, {"a": "x" * reader.LIMIT},
    ],
    ids=lambda record: repr(record)[:40],
)  # fmt: skip
def test_what_is_not_json_is_refused_before_anything_is_written(
    path: Path, record: dict[Any, Any]
) -> None:
    with Journal.open(str(path)) as journal:
        journal.append({"n": 1})
        before = path.read_bytes()
        with pytest.raises((TypeError, ValueError)):
            journal.append(record)
        assert path.read_bytes() == before
        assert journal.append({"n": 2}) == 2


def test_a_record_as_deep_as_allowed_is_read_again(path: Path) -> None:
    deep = {"a": nested(98)}
    written(path, deep, deep)
    assert list(replay(str(path))) == [{**deep, "seq": 1}, {**deep, "seq": 2}]


@pytest.mark.full
def test_a_record_as_long_as_allowed_is_read_again(path: Path) -> None:
    long = {"a": "x" * (reader.LIMIT - 20)}
    written(path, {}, long, {})
    assert list(replay(str(path))) == [{"seq": 1}, {**long, "seq": 2}, {"seq": 3}]


def test_a_number_may_be_left_out_where_journals_shared_them(path: Path) -> None:
    path.write_bytes(b"".join(line({"seq": seq}) for seq in (2, 3, 7)))
    reader = JournalReader(str(path), rising=True)
    reader.read()
    assert (reader.last, reader.offset) == (7, path.stat().st_size)
    assert "its number is 2, behind 0" in str(damage_of(path))


_TEXTS = st.text(st.characters(codec=None), max_size=8)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
_RECORDS = st.dictionaries(_TEXTS.filter(lambda name: name not in ("seq", "crc")), _VALUES)


@given(_RECORDS)
def test_any_record_comes_back(record: dict[str, Any]) -> None:
    numbered = {**record, "seq": 1}
    data = reader.to_line(numbered)
    assert data == b'{"crc":"%08x",%b\n' % (crc32(canonical(numbered)), canonical(numbered)[1:])
    assert reader.from_line(data[:-1]) == numbered
    assert reader.from_lines(data) in (None, ([numbered], [1]))
    assert reader.from_line(line(numbered)[:-1]) == numbered


@given(_RECORDS)
def test_orjson_writes_the_same_bytes(record: dict[str, Any]) -> None:
    assert reader._quickly({"b": [1, {"c": None}], "a": True}) == b'{"a":true,"b":[1,{"c":null}]}'
    assert reader._quickly(record) in (None, canonical(record))
    assert reader._by_json(record) == canonical(record)


# -- damage -------------------------------------------------------------------------------------

SAMPLE: tuple[dict[str, Any], ...] = (
    {"text": "two\nlines é", "n": 10},
    {"list": [1, {"a": None}], "f": 1.5},
    {"k": "v"},
)


def kept_of(path: Path) -> list[bytes]:
    """The torn tails that were kept of a journal."""
    return [one.read_bytes() for one in path.parent.glob(f"{path.name}.torn-*")]


@pytest.fixture
def in_memory() -> Iterator[Path]:
    """A folder where a sync takes no time, if the system has one."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


def test_a_journal_cut_at_any_byte_has_its_whole_records_and_goes_on(in_memory: Path) -> None:
    data = written(in_memory / "whole", *SAMPLE)
    for end in range(len(data) + 1):
        path = in_memory / f"cut-{end}"
        path.write_bytes(data[:end])
        whole = data[:end].count(b"\n")
        tail = data[:end].rpartition(b"\n")[2]
        for live in (True, False):
            assert len(list(replay(str(path), live=live))) == whole
        with Journal.open(str(path)) as journal:
            assert journal.seq == whole
            assert kept_of(path) == ([tail] if tail else [])
            assert journal.append({"n": "next"}) == whole + 1
        again = list(replay(str(path)))
        assert again[:-1] == [
            {**record, "seq": n} for n, record in enumerate(SAMPLE[:whole], start=1)
        ]
        assert again[-1] == {"n": "next", "seq": whole + 1}


def test_each_tail_is_kept(path: Path) -> None:
    data = written(path, *SAMPLE)
    for tail in (b"one", b"another", b"one"):
        path.write_bytes(data + tail)
        Journal.open(str(path)).close()
    assert sorted(kept_of(path)) == [b"another", b"one"]
    for aside in path.parent.glob("*.torn-*"):
        assert stat.S_IMODE(aside.stat().st_mode) == 0o600


def test_a_bit_flipped_anywhere_is_never_believed(path: Path) -> None:
    data = written(path, *SAMPLE)
    right = list(replay(str(path)))
    ends = [index for index, byte in enumerate(data) if byte == 10]
    damaged = 0
    for index in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[index] ^= 1 << bit
            path.write_bytes(flipped)
            found: list[dict[str, Any]] = []
            try:
                found.extend(replay(str(path)))
            except DamagedError:
                damaged += 1
                continue
            if index == len(data) - 1:
                assert found == right[:-1]  # without its commit mark it was never written
            else:  # the same record, spelt in another way
                assert found == right
                assert chr(data[index]).lower() == chr(flipped[index]).lower()
    assert len(ends) == 3
    assert damaged >= 8 * len(data) - 16


def test_damage_is_told_with_its_place_and_the_way_on(path: Path) -> None:
    data = written(path, *SAMPLE)
    path.write_bytes(data.replace(b"1.5", b"2.5"))
    error = damage_of(path)
    start = data.index(b"\n") + 1
    assert str(error) == (
        f"the journal is damaged at record 2, byte {start}: its checksum does not fit ({path})"
    )
    assert f"truncate -s {start} {path}" in error.hint
    seen: list[int] = []
    with contextlib.suppress(DamagedError):
        seen.extend(record["seq"] for record in replay(str(path)))
    assert seen == [1]
    os.truncate(path, start)
    assert [record["seq"] for record in replay(str(path))] == [1]


_GOOD = b'{"a":1,"seq":2}'
DAMAGES = {
    "empty": b"\n",
    "no object": b'[{"crc":"0","seq":2}]\n',
    "a number": b"17\n",
    "no crc": _GOOD + b"\n",
    "crc in capitals": forged(_GOOD).replace(b"%08x" % crc32(_GOOD), b"%08X" % crc32(_GOOD)),
    "crc a number": b'{"crc":%d,"a":1,"seq":2}\n' % crc32(_GOOD),
    "crc null": b'{"crc":null,"a":1,"seq":2}\n',
    "two crc": b'{"crc":"%08x","crc":"%08x","a":1,"seq":2}\n' % (crc32(_GOOD), crc32(_GOOD)),
    "a name twice": b'{"crc":"%08x","a":0,"a":1,"seq":2}\n' % crc32(_GOOD),
    "two seq": forged(b'{"a":1,"seq":1,"seq":2}'),
    "no seq": forged(b'{"a":1}'),
    "a gap": forged(b'{"a":1,"seq":3}'),
    "a repeat": forged(b'{"a":1,"seq":1}'),
    "seq a text": forged(b'{"a":1,"seq":"2"}'),
    "seq a float": forged(b'{"a":1,"seq":2.0}'),
    "seq true": forged(b'{"a":1,"seq":true}'),
    "NaN": forged(b'{"a":NaN,"seq":2}'),
    "infinity": forged(b'{"a":-Infinity,"seq":2}'),
    "a float without end": forged(b'{"a":1e999,"seq":2}'),
    "an integer without end": forged(b'{"a":' + b"9" * 5000 + b',"seq":2}'),
    "too deep": forged(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b',"seq":2}'),
    "not ASCII": forged('{"a":"é","seq":2}'.encode()),
    "not UTF-8": forged(b'{"a":"\xff","seq":2}'),
    "BOM": b"\xef\xbb\xbf" + forged(_GOOD),
    "NUL": b"\0" * 4096 + b"\n",
    "two in a line": forged(_GOOD)[:-1] + forged(b'{"a":1,"seq":3}'),
    "a text over two lines": b'{"crc":"%08x","a":"\n","seq":2}\n' % crc32(b'{"a":",","seq":2}'),
}


@pytest.mark.parametrize("name", DAMAGES)
@pytest.mark.parametrize("after", [0, 1, 3000])
def test_damage_that_stands_before_a_newline(path: Path, name: str, after: int) -> None:
    first = written(path, {"n": 1})
    rest = b"".join(forged(b'{"seq":%d}' % number) for number in range(3, 3 + after))
    path.write_bytes(first + DAMAGES[name] + rest)
    error = damage_of(path)
    assert f"at record 2, byte {len(first)}: " in str(error)


def test_the_first_record_has_the_number_one(path: Path) -> None:
    path.write_bytes(forged(b'{"seq":2}'))
    assert "its number is 2" in str(damage_of(path))


def test_lines_in_another_layout_are_taken(path: Path) -> None:
    spaced = json.dumps({"seq": 2, "crc": f"{crc32(_GOOD):08x}", "a": 1}).encode() + b"\n"
    path.write_bytes(line({"z": 1, "a": 2, "seq": 1}) + spaced)
    assert list(replay(str(path))) == [{"z": 1, "a": 2, "seq": 1}, {"a": 1, "seq": 2}]
    assert written(path, {"n": 3}).endswith(b'"n":3,"seq":3}\n')


def test_names_of_ours_deeper_down_are_anybody_s(path: Path) -> None:
    found = {"inner": {"seq": 7, "crc": "x"}, "text": '"crc":"seq":', "list": [{"seq": None}]}
    written(path, found, found)
    assert list(replay(str(path))) == [{**found, "seq": 1}, {**found, "seq": 2}]


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(0, 200), st.integers(0, 60))
def test_no_bytes_make_it_stumble(noise: bytes, position: int, cut: int) -> None:
    data = b"".join(
        reader.to_line({**record, "seq": n}) for n, record in enumerate(SAMPLE, start=1)
    )
    mixed = (data[:position] + noise + data[position + cut :]).rpartition(b"\n")[0] + b"\n"
    fast = reader.from_lines(mixed)
    slow: list[dict[str, Any]] = []
    with contextlib.suppress(reader.FlawError):
        slow.extend(map(reader.from_line, mixed.split(b"\n")[:-1]))
    assert fast is None or fast == (slow, [one["seq"] for one in slow])


# -- the file -----------------------------------------------------------------------------------


def test_a_journal_that_is_missing(path: Path) -> None:
    assert list(replay(str(path), live=True)) == []
    with pytest.raises(DamagedError, match="missing"):
        list(replay(str(path)))


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_what_is_no_file_is_refused(path: Path, tmp_path: Path, kind: str) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"")
    if kind == "link":
        path.symlink_to(other)
    elif kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(StorageError):
        Journal.open(str(path))
    with pytest.raises(StorageError):
        list(replay(str(path)))
    assert other.read_bytes() == b""


def test_a_reader_of_a_live_journal_sees_what_is_whole(path: Path) -> None:
    with Journal.open(str(path)) as journal:
        for number in range(1, 50):
            journal.append({"n": number}, durable=False)
            assert len(list(replay(str(path), live=True))) == number


def test_a_file_without_end_is_refused_early(path: Path) -> None:
    first = written(path, {"n": 1})
    with path.open("ab") as stream:
        stream.truncate(1 << 40)
    assert f"record 2, byte {len(first)}: it has no end" in str(damage_of(path))


@pytest.mark.full
def test_a_replay_takes_no_memory(path: Path) -> None:
    with path.open("wb") as stream:
        for number in range(1, 300_001):
            stream.write(forged(b'{"seq":%d,"text":"%b"}' % (number, b"x" * 150)))
    tracemalloc.start()
    try:
        assert sum(1 for _ in replay(str(path))) == 300_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 50 << 20
    assert peak < 4 << 20


# -- when something fails -----------------------------------------------------------------------


def test_after_an_error_it_takes_no_more(path: Path) -> None:
    journal = Journal.open(str(path))
    journal.append({"n": 1})
    size = path.stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
    try:
        with pytest.raises(StorageError, match="File too large"):
            journal.append({"n": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    for durable in (True, False):  # the disk has room again, and is not believed
        with pytest.raises(StorageError, match="File too large"):
            journal.append({"n": 2}, durable=durable)
    assert path.stat().st_size == size
    journal.close()
    with pytest.raises(StorageError):
        journal.append({"n": 2})
    assert [record["n"] for record in replay(str(path))] == [1]


def test_all_that_wait_are_told_of_an_fsync_that_failed(tmp_path: Path) -> None:
    """The descriptor is a pipe's: it is written to well, and cannot be synced."""
    reader, writer = os.pipe()
    journal = Journal(str(tmp_path / "pipe"), writer, (0, 0))
    told: list[int] = []
    start = threading.Barrier(8)

    def append() -> None:
        start.wait()
        try:
            journal.append({"n": 1})
        except StorageError as error:
            told.append(error.code)

    threads = [threading.Thread(target=append) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert told == [9] * 8
    assert os.strerror(errno.EINVAL) in str(journal._failure)
    journal.close()
    os.close(reader)


class Interrupt(BaseException):
    """As KeyboardInterrupt, which pytest would take for its own."""


def test_an_interrupt_in_the_middle_leaves_it_well(path: Path) -> None:
    """A signal's handler raises wherever Python happens to be; the journal goes on."""
    armed: list[bool] = []
    acknowledged = []
    interrupted = 0

    def interrupt(_number: int, _frame: object) -> None:
        if armed:
            armed.clear()
            raise Interrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with Journal.open(str(path)) as journal:
            for number in range(300):
                try:
                    armed.append(True)
                    signal.setitimer(signal.ITIMER_REAL, (1 + number % 50) * 1e-5)
                    acknowledged.append(journal.append({"n": number}, durable=number % 2 == 0))
                    armed.clear()
                except Interrupt:
                    interrupted += 1
            assert journal.append({"n": -1}) == journal.seq
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    found = [record["seq"] for record in replay(str(path))]
    assert found == list(range(1, len(found) + 1))
    assert set(acknowledged) <= set(found)
    assert interrupted > 0


def test_a_closed_journal_says_so(path: Path) -> None:
    journal = Journal.open(str(path))
    journal.append({"n": 1}, durable=False)
    journal.close()
    journal.close()
    with pytest.raises(ValueError, match="closed"):
        journal.append({"n": 2})


def test_many_threads_lose_and_mix_up_nothing(path: Path) -> None:
    with Journal.open(str(path)) as journal:
        got: dict[int, list[int]] = {}

        def append(worker: int) -> None:
            got[worker] = [
                journal.append({"worker": worker, "n": number}, durable=number % 5 == 0)
                for number in range(100)
            ]

        threads = [threading.Thread(target=append, args=(worker,)) for worker in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        journal.sync()
    found = list(replay(str(path)))
    assert len(found) == 800
    for worker, numbers in got.items():
        assert [record["seq"] for record in found if record["worker"] == worker] == numbers


# -- any history --------------------------------------------------------------------------------


class Histories(RuleBasedStateMachine):
    """Append, crash with a torn tail, open again, a second writer: what was said stays."""

    @initialize(folder=st.uuids())
    def begin(self, folder: object) -> None:
        self.folder = tempfile.TemporaryDirectory(prefix=f"{folder}-", dir=MEMORY)
        self.path = str(Path(self.folder.name) / "journal")
        self.model: list[dict[str, Any]] = []
        self.journal: Journal | None = None
        self.lock: Lock | None = None
        self.reopen()

    def teardown(self) -> None:
        if self.journal is not None:
            self.journal.close()
        if self.lock is not None:
            self.lock.release()
        self.folder.cleanup()

    @precondition(lambda self: self.journal is None)
    @rule()
    def reopen(self) -> None:
        self.lock = Lock.take(f"{self.path}.lock")
        self.journal = Journal.open(self.path)
        assert self.journal.seq == len(self.model)

    @precondition(lambda self: self.journal is not None)
    @rule(record=_RECORDS, durable=st.booleans())
    def append(self, record: dict[str, Any], durable: bool) -> None:
        assert self.journal is not None
        seq = self.journal.append(record, durable=durable)
        self.model.append({**record, "seq": seq})

    @precondition(lambda self: self.journal is not None)
    @rule(record=_RECORDS, part=st.floats(0, 1, exclude_max=True))
    def crash(self, record: dict[str, Any], part: float) -> None:
        assert self.journal is not None
        assert self.lock is not None
        torn = reader.to_line({**record, "seq": len(self.model) + 1})
        self.journal.close()
        self.lock.release()
        self.journal = self.lock = None
        with open(self.path, "ab") as stream:
            stream.write(torn[: int(len(torn) * part)])

    @precondition(lambda self: self.journal is not None)
    @rule()
    def second_writer(self) -> None:
        with pytest.raises(LockedError):
            Lock.take(f"{self.path}.lock")

    @invariant()
    def all_is_there(self) -> None:
        if hasattr(self, "path"):
            assert list(replay(self.path)) == self.model


Histories.TestCase.settings = settings(stateful_step_count=20)
TestHistories = Histories.TestCase
