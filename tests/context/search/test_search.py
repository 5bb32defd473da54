"""Search: exact whatever the chunking, in the order that the spec gives, whichever engine."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rlm_ci.context.pointers import ChunkLayout
from rlm_ci.context.search import occurrences
from rlm_ci.context.search.occurrences import PLAIN, SearchEngine, overlaps_itself
from rlm_ci.context.search.search import BlockSizes, NeedleMatches, NeedleScan, search
from rlm_ci.errors import DamagedError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ENGINES = {"plain": PLAIN, "stringzilla": occurrences.engine()}
each_engine = pytest.mark.parametrize("engine", ENGINES)


@contextmanager
def file_of(source: bytes) -> Iterator[int]:
    with tempfile.TemporaryFile(buffering=0) as stream:
        stream.write(source)
        yield stream.fileno()


def found(
    source: bytes,
    needles: Sequence[bytes],
    *,
    target: int = 65536,
    overlap: int = 4096,
    top_k: int = 20,
    engine: str = "plain",
    grain: BlockSizes | None = None,
) -> tuple[NeedleMatches, ...]:
    with file_of(source) as descriptor:
        return search(
            descriptor, len(source), needles,
            target=target, overlap=overlap, top_k=top_k, engine=ENGINES[engine], grain=grain,
        )  # fmt: skip


def small_letters(text: bytes) -> bytes:
    return bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in text)


def expected(source: bytes, needle: bytes, target: int, overlap: int, top_k: int) -> NeedleMatches:
    """The same, slowly and obviously: the chunks, the hits, each in the first chunk that has it."""
    chunks: list[tuple[int, int]] = []
    start = 0
    while start < len(source) and (not chunks or chunks[-1][1] < len(source)):
        end = min(len(source), start + target)
        chunks.append((start, end))
        start = end - overlap
    text, needle = small_letters(source), small_letters(needle)
    hits: dict[int, list[int]] = {}
    at = 0
    while at + len(needle) <= len(text):
        if text[at : at + len(needle)] == needle:
            chunk = next(n for n, (low, high) in enumerate(chunks) if low <= at < high)
            hits.setdefault(chunk, []).append(at)
            at += len(needle)
        else:
            at += 1
    order = sorted(hits, key=lambda n: (-len(hits[n]), hits[n][0], n))
    total = sum(map(len, hits.values()))
    rows = tuple((n, hits[n][0], len(hits[n])) for n in order[:top_k])
    return NeedleMatches(total, len(hits), rows)


# Few different bytes, so that needles occur, overlap themselves and lie across borders.
small_text = st.lists(st.sampled_from(b"aaabbA\xc3\xa4\x00"), max_size=200).map(bytes)
repeated = st.builds(lambda part, times: part * times, small_text, st.integers(1, 9))
a_source = st.one_of(
    small_text, repeated, st.builds(lambda n: b"a" * n, st.integers(0, 300))
).map(lambda text: text[:600])  # fmt: skip
a_needle = st.one_of(
    st.sampled_from([b"a", b"aa", b"AAA", b"ab", b"aba", b"abab", b"\xc3", b"\xe4", b"\0", b"aab"]),
    st.lists(st.sampled_from(b"aabAB"), min_size=1, max_size=20).map(bytes),
    st.integers(1, 80).map(lambda n: b"a" * n),
)
a_grain = st.builds(BlockSizes, st.integers(1, 70), st.integers(1, 200))


@each_engine
@given(
    source=a_source,
    needles=st.lists(a_needle, min_size=1, max_size=4),
    chunking=st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))),
    top_k=st.integers(0, 9),
    grain=a_grain,
)
@example(b"a" * 100, [b"aa"], (7, 0), 20, BlockSizes(window=7, block=7))
@example(b"aab" * 60, [b"aabaab"], (30, 1), 20, BlockSizes(window=1, block=31))
@example(b"a" * 300, [b"a" * 40], (50, 9), 20, BlockSizes(window=200, block=200))
@settings(
    max_examples=settings().max_examples * 5,
    suppress_health_check=[HealthCheck.differing_executors],
)
def test_it_finds_what_a_slow_search_finds(  # noqa: PLR0917 - hypothesis gives them by name
    engine: str,
    source: bytes,
    needles: list[bytes],
    chunking: tuple[int, int],
    top_k: int,
    grain: BlockSizes,
) -> None:
    """The spec: a "deterministic case-insensitive substring scan", "sorted by: descending hit count
    → ascending first-hit byte offset → ascending chunk id".
    """
    target, overlap = chunking
    got = found(
        source, needles, target=target, overlap=overlap, top_k=top_k, engine=engine, grain=grain
    )
    assert got == tuple(expected(source, n, target, overlap, top_k) for n in needles)


@pytest.fixture(scope="module")
def real_code() -> bytes:
    """Some megabytes of Python's own library."""
    names = sorted(Path(sysconfig.get_path("stdlib")).glob("*.py"))
    return b"".join(name.read_bytes() for name in names)[: 3 << 20]


@pytest.mark.sample(1)
@each_engine
def test_real_code_in_chunks_of_the_usual_size(real_code: bytes, engine: str) -> None:
    needles = [b"RETURN", b"timeout", b"heartbeat", b"no such thing", b"\n\n", b"  ", b"e",
               real_code[1_000_000:1_070_000], real_code[5000:6000]]  # fmt: skip
    got = found(real_code, needles, engine=engine)
    text = real_code.lower()
    for matches, needle in zip(got, needles, strict=True):
        assert matches.total == text.count(needle.lower())
        assert matches == expected_fast(text, needle.lower(), 65536, 4096, 20)


def expected_fast(
    text: bytes, needle: bytes, target: int, overlap: int, top_k: int
) -> NeedleMatches:
    """What ``expected`` says, for sources of megabytes."""
    hits: dict[int, list[int]] = {}
    at = text.find(needle)
    while at >= 0:
        number = 0 if at < target else (at - target) // (target - overlap) + 1
        hits.setdefault(number, []).append(at)
        at = text.find(needle, at + len(needle))
    order = sorted(hits, key=lambda n: (-len(hits[n]), n))
    rows = tuple((n, hits[n][0], len(hits[n])) for n in order[:top_k])
    return NeedleMatches(sum(map(len, hits.values())), len(hits), rows)


@each_engine
def test_how_a_source_is_cut_never_changes_what_is_found_in_it(
    real_code: bytes, engine: str
) -> None:
    source = real_code[: 1 << 19]
    needles = [b"return", b"timeout", b"self.", b"    "]
    totals = {
        tuple(m.total for m in found(source, needles, target=t, overlap=o, engine=engine))
        for t, o in [(1 << 30, 0), (65536, 4096), (65536, 65535), (1000, 999), (64, 0), (1, 0)]
    }
    assert totals == {tuple(source.lower().count(needle) for needle in needles)}


def test_equal_counts_come_in_the_order_of_their_first_hit() -> None:
    source = b"x" * 10 + b"hit hit..." + b"hit......." + b"..hit hit." + b"hit"
    (matches,) = found(source, [b"hit"], target=10, overlap=0)
    assert matches.hits == ((1, 10, 2), (3, 32, 2), (2, 20, 1), (4, 40, 1))


def test_top_k_are_the_first_of_all() -> None:
    source = b"".join(b"hit" * (n % 7) + b"." * (30 - 3 * (n % 7)) for n in range(100))
    (all_of_them,) = found(source, [b"hit"], target=30, overlap=0, top_k=1000)
    for top_k in (0, 1, 5, 99):
        (some,) = found(source, [b"hit"], target=30, overlap=0, top_k=top_k)
        assert some == all_of_them.replace(hits=all_of_them.hits[:top_k])


@each_engine
def test_only_ascii_letters_are_folded(engine: str) -> None:
    """Decision 8: a query's non-ASCII bytes match as they are."""
    source = "Ärger ärger ÄRGER K \u212a ſ s S \x00[@`{".encode()
    needles = ["ä".encode(), "ÄRGER".encode(), b"k", b"s", b"@", b"`", b"[", b"{", b"\0"]
    totals = [matches.total for matches in found(source, needles, engine=engine)]
    assert totals == [1, 2, 1, 2, 1, 1, 1, 1, 1]


@each_engine
def test_every_byte_can_be_looked_for(engine: str) -> None:
    source = bytes(range(256)) * 9
    totals = [m.total for m in found(source, [bytes([n]) for n in range(256)], engine=engine)]
    assert totals == [18 if chr(n).isascii() and chr(n).isalpha() else 9 for n in range(256)]


@each_engine
def test_sixty_four_needles_in_one_pass_are_as_each_alone(real_code: bytes, engine: str) -> None:
    source = real_code[: 1 << 20]
    some = random.Random(8)
    places = [some.randrange(len(source) - 40) for _ in range(64)]
    needles = [source[at : at + some.randrange(1, 40)] for at in places]
    together = found(source, needles, engine=engine)
    assert together == tuple(found(source, [n], engine=engine)[0] for n in needles)


def test_the_same_needle_twice_and_in_another_case() -> None:
    first, second, third = found(b"Hit hit", [b"hit", b"HIT", b"hit"])
    assert first == second == third == NeedleMatches(2, 1, ((0, 0, 2),))


def test_a_needle_longer_than_the_source_or_no_source_at_all() -> None:
    assert found(b"abc", [b"abcd", b"abc"]) == (NeedleMatches(), NeedleMatches(1, 1, ((0, 0, 1),)))
    assert found(b"", [b"a"]) == (NeedleMatches(),)
    assert found(b"abc", []) == ()


def test_a_hit_may_reach_from_its_chunk_into_many_others() -> None:
    source = b".." + b"needle" * 4 + b".."
    (matches,) = found(source, [b"needle" * 2], target=3, overlap=1)
    assert matches.hits == ((0, 2, 1), (6, 14, 1))


@pytest.mark.parametrize("needles", [[b""], [b"a", b""]])
def test_an_empty_needle_is_refused(needles: list[bytes]) -> None:
    with pytest.raises(ValueError, match="at least"):
        found(b"abc", needles)


@pytest.mark.parametrize(("target", "overlap"), [(0, 0), (5, 5), (5, 6), (5, -1), (-5, -6)])
def test_chunks_that_do_not_advance_are_refused(target: int, overlap: int) -> None:
    with pytest.raises(ValueError, match="overlap"):
        found(b"abc", [b"a"], target=target, overlap=overlap)


# -- the file ------------------------------------------------------------------------------------


def test_a_descriptor_keeps_its_position(tmp_path: Path) -> None:
    path = tmp_path / "source.txt"
    path.write_bytes(b"one two one")
    with path.open("rb") as stream:
        stream.seek(5)
        matches = search(stream.fileno(), 11, [b"one"], target=8, overlap=0, top_k=5)
        assert stream.tell() == 5
    assert matches == (NeedleMatches(2, 2, ((0, 0, 1), (1, 8, 1))),)


def test_a_file_that_is_shorter_than_it_was_or_no_file(tmp_path: Path) -> None:
    with file_of(b"ab") as descriptor, pytest.raises(DamagedError, match=r"source\.txt"):
        search(descriptor, 3, [b"a"], target=8, overlap=0, top_k=5, name="source.txt")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(StorageError, match="folder"):
            search(folder, 3, [b"a"], target=8, overlap=0, top_k=5, name="folder")
    finally:
        os.close(folder)


def test_what_was_added_behind_the_size_is_not_looked_at() -> None:
    with file_of(b"hit hithit") as descriptor:
        (matches,) = search(descriptor, 6, [b"hit"], target=8, overlap=0, top_k=5)
    assert matches.total == 1


# -- hostile sources -----------------------------------------------------------------------------


class Meter:
    """The plain engine, with the bytes that it looked at."""

    def __init__(self) -> None:
        self.bytes = 0
        self.engine = SearchEngine(PLAIN.fold, self.count, self.find)

    def count(self, text: bytearray, needle: bytes, start: int, end: int) -> int:
        self.bytes += end - start
        return text.count(needle, start, end)

    def find(self, text: bytearray, needle: bytes, start: int, end: int) -> int:
        at = text.find(needle, start, end)
        self.bytes += (at + len(needle) if at >= 0 else end) - start
        return at


@pytest.mark.sample(4)
@pytest.mark.sample(4)
@pytest.mark.parametrize("chunking", [(65536, 4096), (1000, 0), (64, 40), (1 << 30, 0)])
@pytest.mark.parametrize(
    ("part", "needle"),
    [
        (b"a", b"a"), (b"a", b"aa"), (b"a", b"a" * 7), (b"a", b"a" * 200), (b"a", b"a" * 255),
        (b"ab", b"abab"), (b"ab", b"ba" * 100 + b"b"), (b"timeou", b"timeout"),
        (b"a" * 4000 + b"b", b"a" * 251),
    ],
)  # fmt: skip
def test_a_source_of_one_long_repetition_is_exact_and_not_quadratic(
    part: bytes, needle: bytes, chunking: tuple[int, int]
) -> None:
    source = part * ((1 << 19) // len(part))
    layout = ChunkLayout(len(source), *chunking)
    meter = Meter()
    grain = BlockSizes(window=1 << 16, block=1 << 18)
    with file_of(source) as descriptor:
        scan = NeedleScan(
            descriptor, "", layout, [needle], top_k=5, engine=meter.engine, grain=grain
        )  # fmt: skip
        for block in range(scan.blocks):
            scan.scan(block)
    (tally,) = scan.tallies
    want = expected_fast(source, needle, *chunking, 5)
    assert (tally.total, tally.chunks) == (want.total, want.chunks)
    assert sorted(tally.best, reverse=True) == [(n, -number, at) for number, at, n in want.hits]
    assert meter.bytes <= 12 * len(source)


def test_a_hostile_long_needle_is_left_to_python() -> None:
    """Its search is linear; the fast one compares such a needle with every place of the text."""
    meter = Meter()
    layout = ChunkLayout(2000, 100, 0)
    with file_of(b"a" * 2000) as descriptor:
        for length, looked in [(256, True), (257, False)]:
            scan = NeedleScan(
                descriptor, "", layout, [b"a" * length],
                top_k=5, engine=meter.engine, grain=BlockSizes(),
            )  # fmt: skip
            meter.bytes = 0
            scan.scan(0)
            assert scan.tallies[0].total == 2000 // length
            assert (meter.bytes > 0) is looked


def test_a_needle_longer_than_a_window_makes_the_windows_longer() -> None:
    """Else each window would read all of the needle's length once more."""
    folded = []

    def fold(text: bytearray) -> bytearray:
        folded.append(len(text))
        return text.lower()

    source = b"ab" * 50_000
    with file_of(source) as descriptor:
        scan = NeedleScan(
            descriptor, "", ChunkLayout(len(source), 10, 0), [b"c" * 10_000],
            top_k=5, engine=PLAIN.replace(fold=fold), grain=BlockSizes(window=100),
        )  # fmt: skip
        for block in range(scan.blocks):
            scan.scan(block)
    assert sum(folded) <= 3 * len(source)


@pytest.mark.sample(2)
@each_engine
@pytest.mark.parametrize("length", [257, 5000, 70_000, 1_000_000])
def test_long_needles_in_a_source_of_one_letter(engine: str, length: int) -> None:
    source = b"a" * (1 << 21)
    assert found(source, [b"A" * length], engine=engine) == (
        expected_fast(source, b"a" * length, 65536, 4096, 20),
    )
    almost = b"a" * (length // 2) + b"b" + b"a" * (length - length // 2)
    assert found(source, [almost], engine=engine) == (NeedleMatches(),)


@pytest.mark.parametrize(
    ("needle", "does"),
    [(b"a", False), (b"aa", True), (b"abab", True), (b"timeout", True), (b"return", False),
     (b"aab", False), (b"aabaaa", True), (b"abcdabce", False)],
)  # fmt: skip
def test_which_needles_can_overlap_themselves(needle: bytes, does: bool) -> None:
    assert overlaps_itself(needle) is does


@given(st.lists(st.sampled_from(b"ab"), min_size=1, max_size=12).map(bytes))
def test_a_needle_overlaps_itself_where_an_end_of_it_is_its_beginning(needle: bytes) -> None:
    ends = any(needle.startswith(needle[at:]) for at in range(1, len(needle)))
    assert overlaps_itself(needle) is ends


@given(
    st.integers(0, 400),
    st.integers(1, 50).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))),
)
def test_the_segments_of_a_source_are_what_its_chunks_own(
    size: int, chunking: tuple[int, int]
) -> None:
    layout = ChunkLayout(size, *chunking)
    borders = [layout.start(number) for number in range(layout.count + 1)]
    assert borders == sorted(set(borders))
    assert borders[0] == 0
    assert borders[-1] == size
    for number in range(layout.count):
        owners = {layout.at(n) for n in range(borders[number], borders[number + 1])}
        assert owners == {number}


# -- what is installed, and what it costs ---------------------------------------------------------


def run(script: str, *arguments: str) -> str:
    """What a script of its own process prints."""
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True, check=False, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_the_extra_python_searches(tmp_path: Path) -> None:
    script = """
import sys
sys.modules["stringzilla"] = None  # as Python does for what cannot be imported
from rlm_ci.context.search.search import search
with open(sys.argv[1], "rb") as stream:
    print(search(stream.fileno(), 5, [b"B"], target=9, overlap=0, top_k=1)[0].total)
"""
    path = tmp_path / "source.txt"
    path.write_bytes(b"abbcB")
    assert run(script, str(path)) == "3\n"


@pytest.mark.full
@each_engine
def test_memory_does_not_grow_with_the_source(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "source.txt"
    size = 100 << 20
    with path.open("wb") as stream:
        stream.truncate(size)  # nothing but zeros, and no blocks of the disk
    script = """
import re, sys
from rlm_ci.context.search.occurrences import PLAIN
from rlm_ci.context.search.search import search
stream = open(sys.argv[1], "rb")
engine = PLAIN if sys.argv[3] == "plain" else None
(matches,) = search(stream.fileno(), int(sys.argv[2]), [b"\\0" * 3], target=65536, overlap=4096,
                    top_k=20, engine=engine, workers=1)
peak = re.search(r"VmHWM:\\s*(\\d+) kB", open("/proc/self/status").read())[1]
print(matches.total, peak)
"""
    total, peak = map(int, run(script, str(path), str(size), engine).split())
    assert total == size // 3
    assert peak <= 40 << 10
