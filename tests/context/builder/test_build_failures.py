"""A build that is disturbed leaves nothing that could be taken for an object."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.context import own_files
from rlm_ci.context.builder import build as build_build
from rlm_ci.context.builder import gather
from rlm_ci.context.context import Context
from rlm_ci.context.pointers import ChunkLayout
from rlm_ci.errors import ConfigError
from rlm_ci.system import atomic_folder as new_folder
from testing.contexts import built, nothing_left

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    gathered = gather.from_file(str(top / "a.txt"), "a.txt", f"{top}/link", 100, link=True)
    assert (
        build_build._hashed(
            f"{top}/link", gathered, ChunkLayout(0, 10, 0), 40, "now"
        ).head.layout.size
        == 5
    )
    with (top / "a.txt").open("a") as stream:
        stream.write("beta")
    with pytest.raises(ConfigError, match="the source changed while it was read"):
        build_build._hashed(f"{top}/link", gathered, ChunkLayout(0, 10, 0), 40, "now")
    assert nothing_left(out)


_LIMITED = """
import os, resource, signal, sys
from rlm_ci.errors import StorageError
from rlm_ci.context.builder import build as building
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
        build_build.build(Interrupted(), out)  # type: ignore[arg-type]
    assert nothing_left(out)


_ENDLESS = """
import sys
from rlm_ci.context.builder import build as building
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
            build_build.build(str(top / "a.txt"), out).close()
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
    with build_build.build(str(top / "a.txt"), str(folder)) as context:
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
        assert not own_files.is_object(out)
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
from rlm_ci.context.builder import build as building
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
building.build(sys.stdin.buffer if sys.argv[1] == "-" else sys.argv[1], sys.argv[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.full
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
