"""An object that is open: pointers, excerpts, searches, lines. Offsets are exact for any bytes."""

from __future__ import annotations

import gc
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm_ci.context.context import READ_LIMIT, Context, FileLines, PointerError
from rlm_ci.context.pointers import ChunkLayout
from rlm_ci.context.search import occurrences
from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.text.encodings import BYTES
from testing.contexts import SOURCES, change_index, cuts, made, scratch, slow_chunks, slow_search

TEXT = "one é two 漢字 three 😀 four\n" * 40


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return made(tmp_path, TEXT.encode(), 100, 10)


# ── chunks ──


@settings(deadline=None)
@given(st.integers(0, 300), cuts())
def test_chunks_cover_the_source_exactly(size: int, cut: tuple[int, int]) -> None:
    """For random chunk sizes and overlaps, chunks cover the source exactly."""
    layout = ChunkLayout(size, *cut)
    chunks = [layout.bounds(number) for number in range(layout.count)]
    assert chunks == slow_chunks(size, *cut)
    assert {byte for start, end in chunks for byte in range(start, end)} == set(range(size))
    for byte in range(size):
        assert layout.at(byte) == next(n for n, (a, b) in enumerate(chunks) if a <= byte < b)


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        (ChunkLayout(5, 0, 0), "too small"),
        (ChunkLayout(5, 10, 10), "cannot overlap by 10"),
        (ChunkLayout(5, 10, -1), "cannot overlap by -1"),
        (ChunkLayout(500_000, 1, 0), "500,000 chunks are more than 400,000"),
        (ChunkLayout(1 << 62, 1, 0), "chunks are more than"),
        (ChunkLayout((1 << 30) + 300_000, 1 << 30, (1 << 30) - 1), "repeats every byte too often"),
    ],
)
def test_a_cut_that_is_none_says_why(layout: ChunkLayout, said: str) -> None:
    assert said in (layout.flaw() or "")


# ── pointers ──


def test_a_pointer_means_a_chunk_or_bytes(context: Context) -> None:
    """Pointer syntax: ``ctx:<object_id>#chunk:<chunk_id>``; decision 13d adds ``#bytes:``."""
    prefix = f"ctx:{context.object_id}#"
    assert context.pointer(1) == f"{prefix}chunk:c000002"
    assert context.resolve(context.pointer(1)) == (90, 190)
    assert context.resolve(f"{prefix}bytes:5-17") == (5, 17)
    # A bare number counts from 0, or from 1 where that would be one too many.
    last = context.chunk_count
    assert context.resolve(f"{prefix}chunk:0") == (0, 100)
    assert context.resolve(f"{prefix}chunk:{last}") == context.resolve(f"{prefix}chunk:{last - 1}")


@pytest.mark.parametrize(
    ("pointer", "said"),
    [
        ("", "'' is not a pointer: write ctx:<object_id>#chunk:<chunk_id> or"),
        ("hello", "'hello' is not a pointer"),
        ("{p}", "is not a pointer"),
        ("{p}chunk:", "is not a pointer"),
        ("{p}chunk:c", "is not a pointer"),
        ("{p}chunk:c-00001", "is not a pointer"),
        ("{p}chunk:1e3", "is not a pointer"),
        ("{p}chunk:c²", "is not a pointer"),
        ("{p}bytes:5", "is not a pointer"),
        ("{p}bytes:-5-7", "is not a pointer"),
        ("{p}bytes:1-1e12", "is not a pointer"),
        ("{p}bytes:0-" + "9" * 5000, "is not a pointer"),
        ("{p}line:5", "is not a pointer"),
        ("{p}chunk:c000000", "there is no chunk c000000: they go from c000001 to c000015"),
        ("{p}chunk:c999999", "there is no chunk c999999"),
        ("{p}chunk:c1", "there is no chunk c1"),
        ("{p}chunk:99", "there is no chunk 99"),
        ("{p}bytes:7-7", "bytes 7-7 are not part of the context, which has bytes 0-1360"),
        ("{p}bytes:7-1361", "bytes 7-1361 are not part of the context"),
        ("ctx:sha256:ab#chunk:c000001", "ctx:sha256:ab is another context object; this one is"),
        ("ctx:\u202e\ud800\x1b[31m#chunk:1", "\\u202e\\ud800\\x1b[31m is another"),
        ("subcall:0:sc0001", "is not a pointer"),
    ],
)  # fmt: skip
def test_a_bad_pointer_is_told_the_same_each_time(
    context: Context, pointer: str, said: str
) -> None:
    """Invalid pointers raise a deterministic error."""
    pointer = pointer.replace("{p}", f"ctx:{context.object_id}#")
    with pytest.raises(PointerError) as caught:
        context.read(pointer)
    with pytest.raises(PointerError) as again:
        context.resolve(pointer)
    assert str(caught.value) == str(again.value)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 700


def test_an_empty_source_has_no_chunks(tmp_path: Path) -> None:
    empty = made(tmp_path, b"")
    assert (empty.byte_length, empty.chunk_count) == (0, 0)
    for place in ("chunk:c000001", "chunk:0", "bytes:0-0", "bytes:0-1"):
        with pytest.raises(PointerError):
            empty.resolve(f"ctx:{empty.object_id}#{place}")
    assert empty.search(["x"])[0].total_hits == 0
    assert empty.read_span(0, 10).text == ""
    empty.verify()


# ── reading ──


@settings(deadline=None)
@given(SOURCES, cuts(), st.integers(0, 90), st.integers(0, 90), st.data())
def test_reads_never_leave_their_chunk(
    source: bytes, cut: tuple[int, int], size: int, offset: int, data: st.DataObject
) -> None:
    """Read returns at most ``bytes`` and is clamped to the chunk boundaries; slicing is byte-based.

    If decoding fails, previews use a lossy UTF-8 decode.
    """
    with scratch() as folder:
        context = made(Path(folder), source, *cut)
        if not context.chunk_count:
            return
        number = data.draw(st.integers(0, context.chunk_count - 1))
        start, end = context.resolve(context.pointer(number))
        excerpt = context.read(context.pointer(number), size, offset)
        context.close()
    wanted = min(start + offset, end), min(start + offset + size, end)
    assert start <= excerpt.start <= excerpt.end <= end
    assert excerpt.end - excerpt.start <= size
    assert excerpt.text == source[excerpt.start : excerpt.end].decode("utf-8", "replace")
    assert excerpt.truncated == (excerpt.end < end)
    # What is missing at an edge is a part of one character, and no more.
    for cut_off in (source[wanted[0] : excerpt.start], source[excerpt.end : wanted[1]]):
        assert len(cut_off) <= 3 or excerpt.start == excerpt.end


@settings(deadline=None)
@given(st.text(), st.integers(0, 60), st.integers(0, 60))
def test_an_excerpt_ends_on_borders_of_characters(text: str, start: int, length: int) -> None:
    source = text.encode("utf-8", "replace")
    with scratch() as folder, made(Path(folder), source) as context:
        excerpt = context.read_span(start, start + length)
    assert excerpt.text.encode() == source[excerpt.start : excerpt.end]
    characters = [len(char.encode()) for char in source.decode()]
    borders = {sum(characters[:count]) for count in range(len(characters) + 1)}
    inner = {at for at in borders if start <= at <= start + length}
    if inner and excerpt.text:
        assert (excerpt.start, excerpt.end) == (min(inner), max(inner))


def test_reads_and_peeks_by_size_and_offset(context: Context) -> None:
    pointer = context.pointer(0)
    assert context.read(pointer, 9).text == "one é tw"
    assert context.read(pointer, 4, 5).text == " tw"  # the first byte was the second of é
    assert context.read(pointer, 5).text == "one "  # the last would be the first of é
    assert context.read(pointer, -5).text == ""
    assert context.read(pointer, 10, -7).start == 0
    assert context.read(pointer, 10, 1 << 70).text == ""
    assert context.read(pointer, 1 << 70).end == 100
    assert context.read_span(-5, 3).text == "one"
    assert context.read_span(1358, 99999).text == "r\n"
    assert context.read_span(50, 20).text == ""


def test_one_read_is_bounded(tmp_path: Path) -> None:
    size = READ_LIMIT + 5
    context = made(tmp_path, b"a" * size, size, 0)
    excerpt = context.read(context.pointer(0), 1 << 40)
    assert (excerpt.end, excerpt.truncated) == (READ_LIMIT, True)


def test_many_threads_read_at_once(tmp_path: Path) -> None:
    context = made(tmp_path, bytes(range(256)) * 400, 1000, 100)
    wrong = []

    def reader(first: int) -> None:
        for number in range(first, context.chunk_count, 4):
            start, end = context.resolve(context.pointer(number))
            if context.raw(start, end) != (bytes(range(256)) * 400)[start:end]:
                wrong.append(number)
            context.lines(start, end)

    threads = [threading.Thread(target=reader, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_context_that_is_dropped_closes_its_file(tmp_path: Path) -> None:
    context = made(tmp_path, b"text")
    descriptor = context._descriptor
    os.fstat(descriptor)
    del context
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_closed_context_reads_nothing(context: Context) -> None:
    descriptor = context._descriptor
    context.close()
    context.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


# ── searching ──


@settings(deadline=None)
@given(SOURCES, cuts(), st.sampled_from(["needle", "a", "é", "aa", "漢", "\n", "NE", "x"]),
       st.integers(1, 5))  # fmt: skip
def test_search_says_what_a_slow_reference_says(
    source: bytes, cut: tuple[int, int], query: str, top_k: int
) -> None:
    """Sorted by: descending hit count, ascending first-hit byte offset, ascending chunk id."""
    if not query.strip():
        return
    with scratch() as folder, made(Path(folder), source, *cut) as context:
        found, again, none = context.search([query, query.upper(), " "], top_k=top_k)
    needle = query.encode()
    hits = slow_search(source, needle, slow_chunks(len(source), *cut))
    order = sorted(
        (-len(offsets), offsets[0], number) for number, offsets in enumerate(hits) if offsets
    )
    assert found.total_hits == sum(map(len, hits))
    assert found.chunks_matched == len(order)
    assert [(-hit.score, hit.start_byte, hit.pointer) for hit in found.hits] == [
        (score, first, context.pointer(number)) for score, first, number in order[:top_k]
    ]
    for hit in found.hits:
        assert source[hit.start_byte : hit.end_byte].lower() == needle.lower()
        assert hit.preview == source[hit.preview_start : hit.preview_end].decode("utf-8", "replace")
    assert none.hits == ()
    if query.isascii():
        assert [hit.to_dict() for hit in again.hits] == [hit.to_dict() for hit in found.hits]


def test_a_preview_is_capped_and_shows_the_hit(tmp_path: Path) -> None:
    """``preview`` is capped at RLM_MAX_PREVIEW_BYTES."""
    text = (
        "first line\n" + "漢" * 300 + " needle " + "字" * 300 + "\n  def f(): the Needle is here\n"
    )
    context = made(tmp_path, text.encode(), 5000, 0)
    for size in (7, 20, 50, 512):
        (found,) = context.search([" needle "], preview_bytes=size)
        (hit,) = found.hits
        assert len(hit.preview.encode()) <= size
        assert "\ufffd" not in hit.preview
        assert "needle"[: size // 4] in hit.preview
        assert hit.start_byte >= hit.preview_start
        assert found.total_hits == 2
    # What is no UTF-8 grows as a text, and the bound is on what is given.
    odd = made(tmp_path, b"\xff" * 900 + b"needle" + b"\xfe\xe9" * 900, 5000, 0)
    for size in (20, 50, 512):
        (hit,) = odd.search(["needle"], preview_bytes=size)[0].hits
        assert len(hit.preview.encode()) <= size
        assert "needle" in hit.preview
        around = odd.raw(hit.preview_start, hit.preview_end).decode("utf-8", "replace")
        assert hit.preview == around
        excerpt = odd.read(odd.pointer(0), size, 890)
        assert size - 3 < len(excerpt.text.encode()) <= size
        assert excerpt.truncated
    assert len(odd.read("ctx:" + odd.object_id + "#bytes:0-9", 512).text) == 9
    last = made(tmp_path, b"zero\n  def f(): the Needle is here\nnext", 5000, 0)
    assert last.search(["needle"])[0].hits[0].preview.startswith("  def f()")


def test_a_query_may_be_any_text(context: Context) -> None:
    hostile = ["\ud800", "\udcff", "\x00", "a" * 100_000, ".*", "😀", "\udc80\ud800"]
    found = context.search(hostile)
    assert [one.query for one in found] == hostile
    assert [one.total_hits for one in found] == [0, 0, 0, 0, 0, 40, 0]


# ── lines ──


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=30).map(lambda data: data.replace(b"\0", b"\n")), min_size=1,
             max_size=5),
    st.integers(0, 120), st.integers(0, 40),
)  # fmt: skip
def test_a_span_maps_back_to_paths_and_lines(
    contents: list[bytes], start: int, length: int
) -> None:
    """Concatenated with a file table, so that a pointer maps back to path and line."""
    from rlm_ci.context.builder import build

    with scratch() as folder:
        top = Path(folder, "top")
        top.mkdir()
        for number, data in enumerate(contents):
            (top / f"{number}.txt").write_bytes(data)
        with build.build(str(top), f"{folder}/object", root=str(top), encoding=BYTES) as context:
            places = context.lines(start, start + length)
            source = context.raw(0, context.byte_length)
    expected = []
    for piece, data in zip(context.files, contents, strict=True):
        assert source[piece.start : piece.end] == data
        inside = range(max(start, piece.start), min(start + length, piece.end))
        if inside:
            first, last = inside[0] - piece.start, inside[-1] - piece.start
            lines = (data[:first].count(b"\n") + 1, data[:last].count(b"\n") + 1)
            expected.append(FileLines(piece.path, *lines, piece.blob))
    assert list(places) == expected


@given(st.binary(max_size=300).map(lambda data: data.replace(b"a", b"\n")))
def test_line_breaks_are_counted_by_vectors_as_well(data: bytes) -> None:
    count = occurrences.line_counter()
    if count is not None:
        assert count(data) == data.count(b"\n")
        assert count(data * 1000) == 1000 * data.count(b"\n")


def test_lines_far_into_a_large_file(tmp_path: Path) -> None:
    lines = [f"line {number}\n" for number in range(1, 400_001)]
    source = "".join(lines).encode()
    context = made(tmp_path, source)
    for number in (400_000, 1, 123_456, 399_999):
        at = source.index(f"line {number}\n".encode())
        (place,) = context.lines(at, at + 5)
        assert (place.line_start, place.line_end) == (number, number)


# ── verifying ──


def test_a_whole_object_verifies_and_is_stamped(context: Context) -> None:
    stamp = context.verify()
    assert stamp == context.stamp()
    assert set(stamp) == {"device", "inode", "size", "mtime_ns", "ctime_ns"}
    os.utime(context.source_path, ns=(1, 1))
    assert context.stamp() != stamp


def _flip(context: Context, at: int) -> None:
    with open(context.source_path, "r+b") as stream:
        stream.seek(at)
        byte = stream.read(1)[0]
        stream.seek(at)
        stream.write(bytes([byte ^ 1]))


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (500, "chunk c000006 (bytes 450-550) is not what was indexed"),
        (92, "chunk c000001 (bytes 0-100) is not what was indexed, and 1 chunk more"),
        (1359, "chunk c000015 (bytes 1260-1360) is not what was indexed"),
    ],
)
def test_a_changed_byte_is_found_by_its_chunk(context: Context, at: int, said: str) -> None:
    """A tampered object is refused by name."""
    _flip(context, at)
    with pytest.raises(DamagedError) as caught:
        context.verify()
    assert said in str(caught.value)
    assert caught.value.where == context.source_path


def test_a_changed_index_is_found_by_what_it_says(tmp_path: Path) -> None:
    def chunk(record: dict[str, list[dict[str, object]]]) -> None:
        record["chunks"][3]["sha256"] = "0" * 64

    def whole(record: dict[str, object]) -> None:
        record["object_id"] = f"sha256:{'0' * 64}"

    def blob(record: dict[str, dict[str, list[dict[str, object]]]]) -> None:
        record["source"]["files"][0]["blob"] = "0" * 40

    for change, said in (
        (chunk, "the sha256 of chunk c000004 (bytes 270-370) is not its own"),
        (whole, "object_id is not that of the source"),
        (blob, "0.txt is not that of its bytes"),
    ):
        folder = tmp_path / change.__name__
        folder.mkdir()
        made(folder, TEXT.encode(), 100, 10)
        change_index(str(folder / "0.context"), change)
        with (
            Context.open(str(folder / "0.context")) as changed,
            pytest.raises(DamagedError) as caught,
        ):
            changed.verify()
        assert said in str(caught.value)
        assert caught.value.where.endswith("index.json")


def test_a_source_that_has_another_length_is_refused_at_once(context: Context) -> None:
    """``search`` and ``read`` check lengths only."""
    with open(context.source_path, "ab") as stream:
        stream.write(b"x")
    with pytest.raises(DamagedError, match="1,361 bytes, but its index says 1,360"):
        Context.open(context.folder)
    os.truncate(context.source_path, 7)
    with pytest.raises(DamagedError, match="shorter"):
        context.verify()
    with pytest.raises(DamagedError, match="shorter"):
        context.read(context.pointer(3))


@pytest.mark.parametrize("name", ["source.txt", "index.json"])
@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "missing"])
def test_a_part_that_is_no_file_makes_no_object(
    context: Context, name: str, kind: str, tmp_path: Path
) -> None:
    path = Path(context.folder, name)
    path.rename(tmp_path / "elsewhere")
    if kind == "link":
        path.symlink_to(tmp_path / "elsewhere")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    with pytest.raises(ConfigError, match="it is not a context object") as caught:
        Context.open(context.folder)
    assert caught.value.hint


def test_a_folder_may_be_named_by_a_link(context: Context, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(context.folder)
    with Context.open(str(tmp_path / "link")) as same:
        assert same.object_id == context.object_id
