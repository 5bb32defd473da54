"""How an object is made: of what, with which hashes, whole or not at all."""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha1, sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recursion.contexts import SOURCES, change_index, cuts, made, scratch, slow_chunks

from rlm_ci.errors import ConfigError, DamagedError, RlmCiError, StorageError
from rlm_ci.recursion.context import Context, building, gathering, hashing, own, sources
from rlm_ci.recursion.context import folder as new_folder
from rlm_ci.recursion.context.hashing import BLOB_LIMIT, Piece
from rlm_ci.recursion.context.pointers import Layout

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from histories import GitRepo


@pytest.fixture
def out(tmp_path: Path) -> str:
    return str(tmp_path / "made" / "object")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    folder = tmp_path / "top"
    folder.mkdir()
    return folder


def names(context: Context) -> list[str]:
    return [piece.path for piece in context.files]


def built(top: Path, out: str, source: str = "", **more: object) -> Context:
    return building.build(
        os.path.join(top, source) if source else str(top), out, root=str(top), environ=os.environ,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def nothing_left(out: str) -> bool:
    """Is there neither an object nor anything half-written beside its place?"""
    parent = Path(out).parent
    return not parent.exists() or list(parent.iterdir()) == []


# ── hashes ──


@settings(deadline=None)
@given(SOURCES, cuts())
def test_hashes_are_those_of_the_bytes(source: bytes, cut: tuple[int, int]) -> None:
    with scratch() as folder, made(Path(folder), source, *cut) as context:
        assert context.object_id == f"sha256:{sha256(source).hexdigest()}"
        chunks = [context.chunk(number) for number in range(context.chunk_count)]
        context.verify()
    assert [(one.id, one.start, one.end, one.sha256) for one in chunks] == [
        (f"c{number:06d}", start, end, sha256(source[start:end]).hexdigest())
        for number, (start, end) in enumerate(slow_chunks(len(source), *cut), 1)
    ]


def test_hashes_of_more_than_one_job(tmp_path: Path) -> None:
    """Chunks larger than a buffer, files across the borders of jobs, and blobs as git has them."""
    data = os.urandom(1 << 20) * 70
    path = tmp_path / "data"
    path.write_bytes(data)
    layout = Layout(len(data), 5_000_000, 1_234_567)
    middle = 40_000_001
    pieces = (Piece("a", 0, middle, None), Piece("b", middle, len(data), None),
              Piece("c", len(data), len(data), None))  # fmt: skip
    with path.open("rb") as stream:
        found = hashing.digest(stream.fileno(), layout, pieces)
        longer = hashing.digest(stream.fileno(), layout, pieces, 64)
        with pytest.raises(hashing.ShrunkError):
            hashing.digest(stream.fileno(), layout.replace(size=len(data) + 1), ())
    assert found.whole == sha256(data).hexdigest()
    chunks = [data[slice(*layout.bounds(number))] for number in range(layout.count)]
    assert found.chunks == b"".join(sha256(chunk).digest() for chunk in chunks)
    parts = [data[:middle], data[middle:], b""]
    assert list(found.blobs) == [
        sha1(b"blob %d\0" % len(part) + part).hexdigest() for part in parts
    ]
    assert list(longer.blobs) == [
        sha256(b"blob %d\0" % len(part) + part).hexdigest() for part in parts
    ]


def test_a_large_file_has_no_blob(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as stream:
        stream.truncate(BLOB_LIMIT + 1)
    with building.build(str(path), str(tmp_path / "object"), target_bytes=1 << 22) as context:
        assert [piece.blob for piece in context.files] == [None]
        context.verify()


# ── one file, a stream ──


def test_a_file_is_copied_and_known_by_its_path(repo: GitRepo, out: str) -> None:
    repo.write("docs/long text.txt", "one\ntwo\n").commit()
    with built(repo.path, out, "docs/long text.txt") as context:
        (piece,) = context.files
        assert piece == Piece("docs/long text.txt", 0, 8, repo.sha("HEAD:docs/long text.txt"))
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
    with building.build(str(other), out, root=str(top)) as context:
        assert names(context) == [str(other)]


def test_blobs_are_of_the_repository_s_own_kind(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", "--object-format=sha256", tmp_path / "r"], check=True)
    (tmp_path / "r" / "a.txt").write_text("alpha\n")
    said = subprocess.run(
        ["git", "-C", tmp_path / "r", "hash-object", "a.txt"], check=True, capture_output=True
    ).stdout.decode()
    for source in ("r", "r/a.txt"):
        folder = str(tmp_path / f"object{len(source)}")
        with building.build(str(tmp_path / source), folder, environ=os.environ) as context:
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
        with building.build(
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
    with building.build(io.BytesIO(data), out) as context:
        assert context.object_id == f"sha256:{sha256(data).hexdigest()}"
        assert context.files == ()
        assert context.lines(0, 100) == ()


def test_a_stream_that_fails_leaves_nothing(out: str) -> None:
    class Broken(io.RawIOBase):
        def read(self, _size: int = -1) -> bytes:
            raise OSError(5, "Input/output error")

    with pytest.raises(ConfigError, match="Input/output error"):
        building.build(Broken(), out)  # type: ignore[arg-type]
    assert nothing_left(out)


# ── folders, globs ──


def test_a_folder_in_git_is_what_git_lists(repo: GitRepo, out: str) -> None:
    """Tracked and untracked without the ignored; what is no text is left out and counted."""
    repo.write_all({"b.txt": "bravo\n", "a/z.txt": "zulu\n", "a.txt": "alpha\n",
                    ".gitignore": "*.log\n", "gone.txt": "x", "run.log": "noise"})  # fmt: skip
    repo.write("image.png", b"\x89PNG\0").symlink("link", "a.txt")
    repo.commit()
    repo.write("new.txt", "untracked\n")
    (Path(repo.path) / "gone.txt").unlink()
    with built(Path(repo.path), out) as context:
        assert names(context) == [".gitignore", "a.txt", "a/z.txt", "b.txt", "new.txt"]
        assert context.omitted == {"binary": 1, "link": 1, "missing": 1}
        assert context.raw(0, 99) == b"*.log\nalpha\nzulu\nbravo\nuntracked\n"
        assert context.files[1].blob == repo.sha("HEAD:a.txt")
    with built(Path(repo.path), f"{out}2", "a") as context:
        assert names(context) == ["a/z.txt"]


def test_what_git_ignores_is_read_when_somebody_names_it(repo: GitRepo, out: str) -> None:
    repo.write_all({".gitignore": "logs/\n", "a.txt": "alpha\n"}).commit()
    repo.write_all({"logs/one.log": "1\n", "logs/two.log": "2\n"})
    with built(Path(repo.path), out, "logs") as context:
        assert names(context) == ["logs/one.log", "logs/two.log"]
    with built(Path(repo.path), f"{out}2", "logs/t*.log") as context:
        assert names(context) == ["logs/two.log"]


def test_a_conflict_and_a_submodule_are_counted_once(repo: GitRepo, out: str) -> None:
    repo.write("a.txt", "1\n").commit()
    repo.submodule("module", repo.sha())
    os.makedirs(os.path.join(repo.path, "module"), exist_ok=True)
    repo.run("update-index", "--index-info", stdin=b"".join(
        b"100644 %s %d\ta.txt\n" % (repo.sha("HEAD:a.txt").encode(), stage) for stage in (1, 2, 3)
    ))  # fmt: skip
    with built(Path(repo.path), out) as context:
        assert names(context) == ["a.txt"]
        assert context.omitted == {"submodule": 1}


def test_a_plain_folder_is_walked_in_order(top: Path, tmp_path: Path, out: str) -> None:
    (top / ".git").mkdir()  # no repository
    (top / ".git" / "notes").write_text("x")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (top / "way out").symlink_to(outside)
    (top / "b").mkdir()
    for name, text in {"b/x.txt": "bx", "b.txt": "b\n", "a-1.txt": "a", "empty.txt": ""}.items():
        (top / name).write_text(text)
    os.mkfifo(top / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(top / "sock"))
        with building.build(str(top), out, root=str(top)) as context:
            assert names(context) == ["a-1.txt", "b.txt", "b/x.txt", "empty.txt"]
            assert context.omitted == {"link": 1, "own": 1, "special": 2}
            # Each begins on a line of its own: the break between is of no file.
            assert context.raw(0, 99) == b"a\nb\nbx"
            assert [(one.start, one.end) for one in context.files] == [
                (0, 1), (2, 4), (4, 6), (6, 6)]  # fmt: skip
            assert context.lines(0, 99)[-1].path == "b/x.txt"
            context.verify()


def test_what_must_hold_something_may_not_be_empty(top: Path, out: str) -> None:
    """A context of no bytes is an error for whoever needs one; else it is an object."""
    (top / "empty.txt").touch()
    (top / "a.png").write_bytes(b"\0")
    for source, more in (("empty.txt", ""), ("", "; left out: 1 binary")):
        with pytest.raises(ConfigError, match=f"the context is empty{more} "):
            built(top, out, source, required=True)
        assert nothing_left(out)
    with pytest.raises(ConfigError, match="the context is empty"):
        building.take_in(io.BytesIO(), out, required=True)
    built(top, out, "empty.txt").close()
    with pytest.raises(ConfigError, match="the context is empty"):
        building.take_in(out, f"{out}2", required=True)
    assert not os.path.lexists(f"{out}2")


def _left_by_runs(top: Path) -> tuple[str, str]:
    """What rlm-ci writes, in a folder that somebody asks about; the folders that it is told of."""
    for name in (".runs/1/journal", ".runs/1/rlm/answer.md", "out/rollup.md", "lib/a.txt"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(f"{name}\n")
    with building.build(str(top / "lib/a.txt"), str(top / "lib/a.context")):
        pass
    (top / "lib/a.context/deeper").mkdir()
    (top / "lib/a.context/deeper/x.txt").write_text("x")
    return str(top / ".runs"), str(top / "out")


def test_what_we_write_is_no_part_of_a_folder(top: Path, out: str) -> None:
    """Nor is another object: each question would make the next one's context larger."""
    runs = _left_by_runs(top)
    for source, number in (("", 3), ("**/*.txt", 3), ("lib", 1)):
        with built(top, f"{out}{number}{source == ''}", source, without=runs) as context:
            assert names(context) == ["lib/a.txt"]
            assert context.omitted == {"own": number}


def test_what_we_write_is_no_part_of_a_work_tree(repo: GitRepo, out: str) -> None:
    """Where git lists it, as nothing ignores it."""
    runs = _left_by_runs(Path(repo.path))
    repo.write("b.txt", "bravo\n").commit()
    with built(Path(repo.path), out, without=runs) as context:
        assert names(context) == ["b.txt", "lib/a.txt"]
        assert context.omitted == {"own": 3}


def test_what_we_wrote_is_read_when_somebody_names_it(top: Path, out: str) -> None:
    runs = _left_by_runs(top)
    with built(top, out, ".runs/1", without=runs) as context:
        assert names(context) == [".runs/1/journal", ".runs/1/rlm/answer.md"]


def test_names_may_be_anything(top: Path, out: str) -> None:
    odd = [
        b"a\nb",
        b"\xff\xfe",
        b"`|<b>",
        b"*[x]?",
        b"-rf",
        "é 漢 😀".encode(),
        b"\x1b[31m",
        b"a" * 255,
    ]
    for number, name in enumerate(odd):
        (top / os.fsdecode(name)).mkdir()
        (top / os.fsdecode(name) / os.fsdecode(name)).write_text(f"{number}\n")
    with built(top, out) as context:
        found = {os.fsencode(path) for path in names(context)}
    assert found == {name + b"/" + name for name in odd}
    page = Path(out, "pointers.md").read_text()
    assert "\x1b" not in page
    assert all(line.startswith("| `") for line in page.splitlines() if "c000001 |" in line)


def test_a_tree_deeper_than_python_recurses(top: Path, out: str) -> None:
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("deep.txt", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    try:
        with built(top, out) as context:
            assert len(context.files) == 1
    finally:  # nor does pytest's cleaning
        subprocess.run(["rm", "-rf", top], check=True)


def test_a_folder_that_cannot_be_entered_is_counted(top: Path, out: str) -> None:
    (top / "a.txt").write_text("a")
    # More than the system takes as a path, whoever asks.
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=descriptor)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    try:
        with built(top, out) as context:
            assert names(context) == ["a.txt"]
            assert context.omitted == {"unreadable": 1}
    finally:
        subprocess.run(["rm", "-rf", top], check=True)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py", "lib/b.py", "lib/inner/c.py"]),
        ("lib/*.py", ["lib/b.py"]),
        ("lib/**", ["lib/b.py", "lib/inner/c.py", "lib/n.txt"]),
        ("l?b/inner/c.p?", ["lib/inner/c.py"]),
    ],
)
def test_a_glob_takes_what_fits(top: Path, out: str, pattern: str, expected: list[str]) -> None:
    (top / "lib" / "inner").mkdir(parents=True)
    for name in ("a.py", "lib/b.py", "lib/inner/c.py", "lib/n.txt", "z.txt"):
        (top / name).write_text("x\n")
    with built(top, out, pattern) as context:
        assert names(context) == expected


def test_a_name_with_a_star_is_a_name_where_there_is_one(top: Path, out: str) -> None:
    (top / "a*.txt").write_text("star")
    (top / "ab.txt").write_text("plain")
    with built(top, out, "a*.txt") as context:
        assert names(context) == ["a*.txt"]


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
        building.build("/dev/zero", out)


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
            building.build(source, out, target_bytes=1, overlap_bytes=0)
        assert caught.value.where == "RLM_CHUNK_TARGET_BYTES"
        assert nothing_left(out)


@pytest.mark.full
def test_too_many_files_are_refused(top: Path, out: str) -> None:
    for folder in range(31):
        (top / str(folder)).mkdir()
        for number in range(10_000):
            os.close(os.open(f"{top}/{folder}/{number}", os.O_CREAT | os.O_WRONLY))
    with pytest.raises(ConfigError, match="more than 300,000 files"):
        built(top, out)
    assert sources.MAX_FILES == 300_000


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


def test_an_object_inside_of_its_source_is_no_part_of_it(top: Path) -> None:
    (top / "a.txt").write_text("a")
    with built(top, str(top / "object")) as context:
        assert names(context) == ["a.txt"]


# ── changes, failures ──


_WRITER = """
import sys
with open(sys.argv[1], "ab", buffering=0) as stream:
    while True:
        stream.write(b"more\\n")
"""


@pytest.fixture
def restless(top: Path) -> Iterator[Path]:
    """A file that another process writes to all the time."""
    path = top / "restless.log"
    path.write_bytes(b"x\n" * (8 << 20))
    with subprocess.Popen([sys.executable, "-c", _WRITER, path]) as writer:
        while path.stat().st_size == 16 << 20:
            time.sleep(0.001)
        yield path
        writer.kill()


@pytest.mark.parametrize("link", [False, True])
@pytest.mark.parametrize("source", ["restless.log", ""])
def test_a_source_that_changes_while_it_is_read_is_noticed(
    top: Path, out: str, restless: Path, source: str, *, link: bool
) -> None:
    # On a busy machine the writer may stand still for all of a build, which then is right.
    for number in range(20):
        try:
            built(top, f"{out}{number}", source, link=link).close()
        except ConfigError as error:
            noticed = error
            break
    else:
        pytest.fail("it was never noticed")
    assert noticed.what == "the source changed while it was read"
    assert restless.name in noticed.where
    assert not os.path.exists(f"{out}{number}")
    assert not list(Path(out).parent.glob(".*"))


def test_a_shared_file_that_grew_before_it_was_hashed_is_noticed(top: Path, out: str) -> None:
    (top / "a.txt").write_text("alpha")
    gathered = gathering.from_file(str(top / "a.txt"), "a.txt", f"{top}/link", 100, link=True)
    assert building._hashed(f"{top}/link", gathered, Layout(0, 10, 0), 40, "now").layout.size == 5
    with (top / "a.txt").open("a") as stream:
        stream.write("beta")
    with pytest.raises(ConfigError, match="the source changed while it was read"):
        building._hashed(f"{top}/link", gathered, Layout(0, 10, 0), 40, "now")
    assert nothing_left(out)


_LIMITED = """
import os, resource, signal, sys
from rlm_ci.errors import StorageError
from rlm_ci.recursion.context import building
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
source = sys.argv[1]
try:
    building.build(
        sys.stdin.buffer if source == "-" else source, sys.argv[2],
        target_bytes=int(sys.argv[4]), overlap_bytes=0,
    )
except StorageError as error:
    print(error.what)
"""


@pytest.mark.parametrize("kind", ["file", "folder", "stream", "index"])
def test_a_full_disk_leaves_nothing(top: Path, out: str, kind: str) -> None:
    """Disk full leaves nothing half-written (played by a limit of file sizes)."""
    # Of an index with chunks of 50 bytes there is more than of its source.
    size, target = (50_000, 50) if kind == "index" else (1 << 20, 65536)
    data = b"text\n" * (size // 5)
    (top / "a.txt").write_bytes(data)
    source = {"file": str(top / "a.txt"), "stream": "-"}.get(kind, str(top))
    ended = subprocess.run(
        [sys.executable, "-c", _LIMITED, source, out, "100000", str(target)], check=True,
        input=data, capture_output=True,
    )  # fmt: skip
    assert ended.stdout.decode().strip() == "cannot be written: File too large"
    assert nothing_left(out)


def test_an_interrupt_leaves_nothing(out: str) -> None:
    class Interrupted(io.RawIOBase):
        def read(self, _size: int = -1) -> bytes:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        building.build(Interrupted(), out)  # type: ignore[arg-type]
    assert nothing_left(out)


_ENDLESS = """
import sys
from rlm_ci.recursion.context import building
building.build(sys.stdin.buffer, sys.argv[1])
"""


@pytest.mark.full
def test_builds_of_one_folder_at_once_do_not_end_each_other(top: Path, out: str) -> None:
    """One of them makes it; the others say that it is there, and nothing else."""
    (top / "a.txt").write_text("alpha\n")
    parent, begin, done = os.path.dirname(out), ".object.", threading.Event()
    os.makedirs(parent, exist_ok=True)

    def clear() -> None:
        while not done.is_set():
            new_folder._clear(parent, begin)  # as each build does when it begins

    def build(_number: int) -> str:
        try:
            building.build(str(top / "a.txt"), out).close()
        except ConfigError as error:
            return error.what
        return "built"

    with ThreadPoolExecutor(6) as pool:
        clearing = [pool.submit(clear) for _ in range(2)]
        try:
            for _ in range(40):
                told = list(pool.map(build, range(4)))
                assert sorted(told) == ["built", *["there is something already"] * 3]
                shutil.rmtree(out)
        finally:
            done.set()
        assert [one.result() for one in clearing] == [None, None]
    assert nothing_left(out)


def test_only_what_a_build_left_is_removed(top: Path, out: str) -> None:
    (top / "a.txt").write_text("alpha\n")
    parent = Path(out).parent
    parent.mkdir(exist_ok=True)
    left = parent / f".object.{'0f' * 6}.building"
    others = [
        parent / f".object.{'0f' * 7}.building",
        parent / ".object.mine.building",
        parent / f".object.x.{'0f' * 6}.building",
    ]
    for folder in (left, *others):
        folder.mkdir()
    with built(top, out, "a.txt"):
        assert not left.exists()
        assert all(folder.is_dir() for folder in others)


def test_a_long_name_in_another_script(top: Path, out: str) -> None:
    """A name may have 255 bytes, and so many of 80 characters has one of these."""
    (top / "a.txt").write_text("alpha\n")
    folder = Path(out).parent / ("圖" * 80)
    with building.build(str(top / "a.txt"), str(folder)) as context:
        assert context.byte_length == 6
    assert [one.name for one in folder.parent.iterdir() if one.name.endswith(".building")] == []


def test_what_a_killed_build_left_is_removed_by_the_next(top: Path, out: str) -> None:
    """Nothing half-written is ever taken for an object, nor does it stay."""
    (top / "a.txt").write_text("alpha\n")
    argv = [sys.executable, "-c", _ENDLESS, out]
    with (
        subprocess.Popen(argv, stdin=subprocess.PIPE) as killed,
        subprocess.Popen(argv, stdin=subprocess.PIPE) as living,
    ):
        parent = Path(out).parent
        while len(list(parent.glob(".object.*/source.txt"))) < 2:
            assert killed.poll() is living.poll() is None
            time.sleep(0.01)
        killed.kill()
        killed.wait()
        assert not own.is_object(out)
        with built(top, out, "a.txt") as context:
            assert context.byte_length == 6
        # That of the living one is left alone; it finds that somebody was quicker.
        assert len(list(parent.glob(".object.*"))) == 1
        living.communicate(b"text")
        assert living.returncode != 0
    assert os.listdir(parent) == ["object"]
    with Context.open(out) as context:
        context.verify()


_MEASURED = """
import resource, sys
from rlm_ci.recursion.context import building
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
building.build(sys.stdin.buffer if sys.argv[1] == "-" else sys.argv[1], sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["file", "folder", "stream"])
def test_memory_does_not_grow_with_the_source(top: Path, out: str, kind: str) -> None:
    """Streamed: memory does not grow with the source."""
    data = (b"0123456789abcde\n" * 4096) * 16 * 128  # 128 MiB
    (top / "a.txt").write_bytes(data)
    source = {"file": str(top / "a.txt"), "stream": "-"}.get(kind, str(top))
    with (top / "a.txt").open("rb") as stream:
        ended = subprocess.run(
            [sys.executable, "-c", _MEASURED, source, out], check=True, stdin=stream,
            capture_output=True,
        )  # fmt: skip
    assert int(ended.stdout) <= 64 << 10  # KiB
    os.unlink(top / "a.txt")
    os.unlink(os.path.join(out, "source.txt"))


# ── objects that are taken in ──


def _object(top: Path, source: bytes = b"alpha beta gamma delta\n" * 20) -> str:
    path = top / "text.txt"
    path.write_bytes(source)
    folder = str(top / "theirs")
    with building.build(str(path), folder, target_bytes=100, overlap_bytes=10, root=str(top)):
        pass
    return folder


def test_an_existing_object_is_shared(top: Path, out: str) -> None:
    """RLM_CONTEXT_PATH may point to an existing context object directory (used directly)."""
    theirs = _object(top)
    with building.take_in(theirs, out) as ours, Context.open(theirs) as other:
        assert os.path.samefile(ours.source_path, other.source_path)
        assert not os.path.samefile(ours.index_path, other.index_path)
        assert ours.known == other.known
        assert ours.target_bytes == 100
        assert ours.stamp() == ours.verify()


def test_anything_else_is_built(top: Path, out: str) -> None:
    (top / "a.txt").write_text("alpha\n")
    with building.take_in(str(top), out, root=str(top), target_bytes=3, overlap_bytes=1) as ours:
        assert names(ours) == ["a.txt"]
        assert ours.chunk_count == 3
    stream: BinaryIO = io.BytesIO(b"x")
    with building.take_in(stream, f"{out}2") as ours:
        assert ours.byte_length == 1


@pytest.mark.parametrize("what", ["source", "length", "index", "missing", "link"])
def test_an_object_that_was_tampered_with_is_not_taken_in(top: Path, out: str, what: str) -> None:
    """Verified in full when a run takes it in; a tampered one is refused by name."""
    theirs = _object(top)
    source = Path(theirs, "source.txt")
    said = "chunk c000002 (bytes 90-190)"
    if what == "source":
        data = bytearray(source.read_bytes())
        data[150] ^= 1
        source.write_bytes(data)
    elif what == "length":
        source.write_bytes(source.read_bytes()[:-1])
        said = "the source has 459 bytes, where its index tells of 460"
    elif what == "index":
        change_index(theirs, lambda record: record["chunks"][1].update(sha256="0" * 64))
        said = "the sha256 of chunk c000002 (bytes 90-190) is not its own"
    elif what == "missing":
        source.unlink()
        source.symlink_to("gone")
        said = "it is no context object"
    else:
        source.rename(top / "moved")
        source.symlink_to(top / "moved")
        said = "it is no context object"
    with pytest.raises(RlmCiError) as caught:
        building.take_in(theirs, out)
    assert said in str(caught.value)
    assert theirs in caught.value.where
    assert isinstance(caught.value, ConfigError if "no context" in said else DamagedError)
    assert nothing_left(out)


def test_a_source_that_is_swapped_after_it_was_verified_is_noticed(
    tmp_path: Path, top: Path
) -> None:
    theirs = _object(top)
    with Context.open(theirs) as context:
        verified = context.verify()
    (tmp_path / "other").write_bytes(b"z" * 460)
    os.replace(tmp_path / "other", os.path.join(theirs, "source.txt"))
    descriptor = os.open(os.path.join(theirs, "source.txt"), os.O_RDONLY)
    assert gathering.looks(descriptor)[0] != verified["inode"]
    os.close(descriptor)
    with pytest.raises(DamagedError, match="chunk c000001"):
        building.take_in(theirs, str(tmp_path / "ours"))


@settings(deadline=None)
@given(st.integers(0, 5))
def test_two_builds_of_the_same_are_the_same(count: int) -> None:
    with scratch() as folder:
        texts = []
        for number in range(2):
            Path(folder, "a").write_bytes(b"line\n" * count)
            out = f"{folder}/object{number}"
            building.build(f"{folder}/a", out, clock=lambda: 1.5, root=folder).close()
            texts.append([Path(out, name).read_bytes() for name in sorted(os.listdir(out))])
    assert texts[0] == texts[1]
