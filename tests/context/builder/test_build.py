"""How an object is made: with which hashes, of one file or a stream, whole or not at all."""

from __future__ import annotations

import io
import os
import subprocess
from hashlib import sha1, sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm_ci.context.builder import build, digests, sources
from rlm_ci.context.builder.digests import BLOB_LIMIT
from rlm_ci.context.builder.file_table import Pieces, SourceFile
from rlm_ci.context.pointers import ChunkLayout
from rlm_ci.context.search import occurrences
from rlm_ci.errors import ConfigError, DamagedError, StorageError
from rlm_ci.text.encodings import BYTES
from testing.contexts import SOURCES, built, cuts, made, names, nothing_left, scratch, slow_chunks

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo


# ── hashes ──


@settings(deadline=None)
@given(SOURCES, cuts())
def test_hashes_are_those_of_the_bytes(source: bytes, cut: tuple[int, int]) -> None:
    with scratch() as folder, made(Path(folder), source, *cut) as context:
        assert context.object_id == f"sha256:{sha256(source).hexdigest()}"
        digests_of, bounds = context.full_index().digest, context.layout.bounds
        chunks = [(*bounds(number), digests_of(number)) for number in range(context.chunk_count)]
        context.verify()
    assert chunks == [
        (start, end, sha256(source[start:end]).hexdigest())
        for start, end in slow_chunks(len(source), *cut)
    ]


@pytest.mark.full
def test_hashes_of_more_than_one_job(tmp_path: Path) -> None:
    """Chunks larger than a buffer, files across the borders of jobs, and blobs as git has them."""
    data = os.urandom(1 << 20) * 70
    path = tmp_path / "data"
    path.write_bytes(data)
    layout = ChunkLayout(len(data), 5_000_000, 1_234_567)
    middle = 40_000_001
    pieces = Pieces()
    pieces.add("a", 0, middle)
    pieces.add("b", middle, len(data))
    pieces.add("c", len(data), len(data))
    with path.open("rb") as stream:
        found = digests.digest(stream.fileno(), layout, pieces)
        longer = digests.digest(stream.fileno(), layout, pieces, 64)
        with pytest.raises(digests.ShrunkError):
            digests.digest(stream.fileno(), layout.replace(size=len(data) + 1), Pieces())
    assert found.source == sha256(data).hexdigest()
    chunks = [data[slice(*layout.bounds(number))] for number in range(layout.count)]
    assert found.chunks == b"".join(sha256(chunk).digest() for chunk in chunks)
    parts = [data[:middle], data[middle:], b""]
    assert [found.blobs[at] for at in range(3)] == [
        sha1(b"blob %d\0" % len(part) + part).hexdigest() for part in parts
    ]
    assert [longer.blobs[at] for at in range(3)] == [
        sha256(b"blob %d\0" % len(part) + part).hexdigest() for part in parts
    ]


@pytest.mark.parametrize(
    "cut", [(65536, 4096), (4096, 4095), (4095, 0), (131_072, 0), (131_073, 0)]
)
def test_chunks_hashed_side_by_side_are_as_each_alone(tmp_path: Path, cut: tuple[int, int]) -> None:
    """Sizes on both sides of where that begins and ends, and a last chunk that is shorter."""
    data = os.urandom(cut[0] + 37 * (cut[0] - cut[1]) + 1)
    (tmp_path / "data").write_bytes(data)
    layout = ChunkLayout(len(data), *cut)
    with (tmp_path / "data").open("rb") as stream:
        found = digests.digest(stream.fileno(), layout, Pieces())
        with pytest.raises(digests.ShrunkError):
            digests.digest(stream.fileno(), layout.replace(size=len(data) + 1), Pieces())
    chunks = [data[slice(*layout.bounds(number))] for number in range(layout.count)]
    assert found.chunks == b"".join(sha256(chunk).digest() for chunk in chunks)
    hashed = occurrences.hasher()
    if hashed is not None:  # a processor with wide vectors, and the extra
        for texts in ([b""], [b"a", b"", data[:5000]], chunks[:16]):
            right = b"".join(sha256(text).digest() for text in texts)
            assert hashed([memoryview(text) for text in texts]) == right


def test_a_large_file_has_no_blob(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as stream:
        stream.truncate(BLOB_LIMIT + 1)
    with build.build(
        str(path), str(tmp_path / "object"), target_bytes=1 << 22, encoding=BYTES
    ) as context:
        assert [piece.blob for piece in context.files] == [None]
        context.verify()


@settings(deadline=None)
@given(st.integers(0, 5))
def test_two_builds_of_the_same_are_the_same(count: int) -> None:
    with scratch() as folder:
        texts = []
        for number in range(2):
            Path(folder, "a").write_bytes(b"line\n" * count)
            out = f"{folder}/object{number}"
            build.build(f"{folder}/a", out, clock=lambda: 1.5, root=folder).close()
            texts.append([Path(out, name).read_bytes() for name in sorted(os.listdir(out))])
    assert texts[0] == texts[1]


# ── one file, a stream ──


def test_a_file_is_copied_and_known_by_its_path(repo: GitRepo, out: str) -> None:
    repo.write("docs/long text.txt", "one\ntwo\n").commit()
    with built(repo.path, out, "docs/long text.txt") as context:
        (piece,) = context.files
        assert piece == SourceFile("docs/long text.txt", 0, 8, repo.sha("HEAD:docs/long text.txt"))
        assert os.stat(context.source_path).st_nlink == 1
        assert context.lines(4, 6)[0].line_start == 2
    assert sorted(os.listdir(out)) == ["index.json", "pointers.md", "source.txt"]
    assert os.stat(out).st_mode & 0o777 == 0o700
    assert "docs/long text.txt" in Path(out, "pointers.md").read_text()


def test_a_file_outside_of_the_root_keeps_the_name_it_was_given(
    tmp_path: Path, top: Path, out: str
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("x")
    with build.build(str(other), out, root=str(top)) as context:
        assert names(context) == [str(other)]


def test_blobs_are_of_the_repository_s_own_kind(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--object-format=sha256", tmp_path / "r"], check=True)
    (tmp_path / "r" / "a.txt").write_text("alpha\n")
    said = subprocess.run(
        ["git", "-C", tmp_path / "r", "hash-object", "a.txt"], check=True, capture_output=True
    ).stdout.decode()
    for source in ("r", "r/a.txt"):
        folder = str(tmp_path / f"object{len(source)}")
        with build.build(str(tmp_path / source), folder, environ=os.environ) as context:
            assert [piece.blob for piece in context.files] == [said.strip()]
            context.verify()


def test_bytes_that_are_no_text_are_kept(tmp_path: Path) -> None:
    """If decoding fails, the runner stores bytes."""
    data = bytes(range(256)) * 3
    with made(tmp_path, data) as context:
        assert context.raw(0, 768) == data
        assert context.read(context.pointer(0)).text == data.decode("utf-8", "replace")


def test_a_link_that_somebody_names_is_followed(top: Path, tmp_path: Path) -> None:
    (top / "log-2026.txt").write_text("text")
    (top / "latest").symlink_to("log-2026.txt")
    for link in (False, True):
        with build.build(
            str(top / "latest"), str(tmp_path / f"object{link}"), link=link, root=str(top)
        ) as context:
            assert names(context) == ["log-2026.txt"]
            assert context.byte_length == 4


def test_a_linked_object_shares_the_file(top: Path, out: str) -> None:
    (top / "a.txt").write_text("alpha")
    with built(top, out, "a.txt", link=True) as context:
        assert os.path.samefile(context.source_path, top / "a.txt")
        context.verify()
        (top / "a.txt").write_text("gamma")
        with pytest.raises(DamagedError, match="chunk c000001"):
            context.verify()


def test_where_it_cannot_be_linked_a_file_is_copied(top: Path) -> None:
    if not os.path.ismount("/dev/shm"):
        pytest.skip("no second file system")
    from tempfile import TemporaryDirectory

    (top / "a.txt").write_text("alpha")
    with (
        TemporaryDirectory(dir="/dev/shm") as folder,
        built(top, f"{folder}/object", "a.txt", link=True) as context,
    ):
        assert context.raw(0, 9) == b"alpha"


def test_a_stream_becomes_an_object_without_files(out: str) -> None:
    data = os.urandom(3 << 20)
    with build.build(io.BytesIO(data), out, encoding=BYTES) as context:
        assert context.object_id == f"sha256:{sha256(data).hexdigest()}"
        assert not context.files
        assert context.lines(0, 100) == ()


def test_a_stream_that_fails_leaves_nothing(out: str) -> None:
    class Broken(io.RawIOBase):
        def read(self, _size: int = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(ConfigError, match="Input/output error"):
        build.build(Broken(), out)  # type: ignore[arg-type]
    assert nothing_left(out)


# ── refusals ──


def test_what_cannot_be_read_is_one_clear_error(top: Path, out: str) -> None:
    os.mkfifo(top / "pipe")
    (top / "loop").symlink_to("loop")
    for source, said in (
        ("nothing", "No such file"),
        ("pipe", "it is not a regular file"),
        ("loop", "symbolic links"),
        ("no*match", "no file fits"),
        ("nothing/*.py", "No such file"),
        ("a\0b", "a path has no NUL"),
        ("x" * 5000, "too long"),
    ):
        with pytest.raises(ConfigError) as caught:
            built(top, out, source)
        assert said in caught.value.what
        assert caught.value.hint
        assert nothing_left(out)
    with pytest.raises(ConfigError, match="not a regular file"):
        build.build("/dev/zero", out)


@pytest.mark.parametrize(("target", "overlap"), [(0, 0), (10, 10), (10, -1), (-5, -9)])
def test_a_cut_that_is_none_is_refused(top: Path, out: str, target: int, overlap: int) -> None:
    with pytest.raises(ConfigError) as caught:
        built(top, out, target_bytes=target, overlap_bytes=overlap)
    assert caught.value.where == "RLM_CHUNK_TARGET_BYTES, RLM_CHUNK_OVERLAP_BYTES"


def test_too_many_chunks_are_refused_before_they_are_made(top: Path, out: str) -> None:
    (top / "a.txt").write_bytes(b"x" * 400_001)
    stream = io.BytesIO(b"x" * 400_001)
    for source in (str(top / "a.txt"), str(top), stream):
        with pytest.raises(ConfigError, match="more than 400,000 bytes") as caught:
            build.build(source, out, target_bytes=1, overlap_bytes=0)
        assert caught.value.where == "RLM_CHUNK_TARGET_BYTES"
        assert nothing_left(out)


def test_too_many_files_are_refused(top: Path, out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sources.MAX_FILES == 300_000
    monkeypatch.setattr(sources, "MAX_FILES", 300)
    for folder in range(31):
        (top / str(folder)).mkdir()
        for number in range(10):
            (top / str(folder) / str(number)).touch()
    with pytest.raises(ConfigError, match="more than 300 files"):
        built(top, out)


def test_what_is_there_is_never_replaced(top: Path, out: str) -> None:
    (top / "a.txt").write_text("a")
    os.makedirs(out)
    with built(top, out, "a.txt"):
        pass
    for place in (out, str(top / "a.txt")):
        with pytest.raises(ConfigError, match="there is something already"):
            built(top, place, "a.txt")
    with pytest.raises(StorageError):
        built(top, str(top / "a.txt" / "inside"), "a.txt")
    assert (top / "a.txt").read_text() == "a"


def test_what_must_hold_something_may_not_be_empty(top: Path, out: str) -> None:
    """A context of no bytes is an error for whoever needs one; else it is an object."""
    (top / "empty.txt").touch()
    (top / "a.png").write_bytes(b"\0")
    for source, more in (("empty.txt", ""), ("", "; left out: 1 binary")):
        with pytest.raises(ConfigError, match=f"the context is empty{more} "):
            built(top, out, source, required=True)
        assert nothing_left(out)
    with pytest.raises(ConfigError, match="the context is empty"):
        build.build(io.BytesIO(), out, required=True, adopt=True)
    built(top, out, "empty.txt").close()
    with pytest.raises(ConfigError, match="the context is empty"):
        build.build(out, f"{out}2", required=True, adopt=True)
    assert not os.path.lexists(f"{out}2")
