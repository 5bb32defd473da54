"""Files that somebody else may have made: bounded, regular, inside; written whole or not at all."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import STORAGE, StorageError
from rlm_ci.system import files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

posix = pytest.mark.skipif(os.name != "posix", reason="links, pipes and modes of POSIX")
as_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="needs root, to be somebody else"
)


def reason_of(read: Callable[[], object]) -> str:
    with pytest.raises(files.UnreadableError) as caught:
        read()
    return str(caught.value)


# -- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 999, 1000])
def test_a_file_within_the_limit_is_read_whole(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(os.urandom(size))
    data = path.read_bytes()
    assert files.read(str(path), 1000) == data
    assert files.read_inside(str(tmp_path), "file", 1000) == data


def test_one_byte_more_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1001)
    assert reason_of(lambda: files.read(str(path), 1000)) == "it has 1,001 bytes, more than 1,000"


def test_a_sparse_giant_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "giant"
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    assert "1,099,511,627,776 bytes" in reason_of(lambda: files.read(str(path), 1 << 20))


@posix
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_a_file_whose_size_is_not_told_is_read_to_its_end() -> None:
    # The files of /proc, and of some network file systems, say that they are empty.
    assert os.stat("/proc/self/status").st_size == 0
    assert files.read("/proc/self/status", 1 << 20).endswith(b"\n")
    assert reason_of(lambda: files.read("/proc/self/status", 20)) == "it has more than 20 bytes"


def test_line_ends_and_control_z_are_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "file"
    files.write(str(path), b"a\r\nb\nc\x1ad\r")
    assert files.read(str(path), 100) == b"a\r\nb\nc\x1ad\r"
    # Windows alone has a text mode below Python's, and it is the default there.
    assert files._ALWAYS & getattr(os, "O_BINARY", 0) == getattr(os, "O_BINARY", 0)


def test_what_is_not_there_is_missing(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for path in ("absent", "absent/below", "file/below"):
        with pytest.raises(files.UnreadableError) as caught:
            files.read_inside(str(tmp_path), path, 10)
        assert caught.value.missing, path
    with pytest.raises(files.UnreadableError) as caught:
        files.read(str(tmp_path / "absent"), 10)
    assert caught.value.missing


@posix
def test_neither_link_nor_pipe_nor_device_nor_folder_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to("secret")
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    listener = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(tmp_path)  # the path of a socket has to be short
    listener.bind("socket")
    try:
        for name in ("link", "dangling", "loop", "pipe", "folder", "socket"):
            with pytest.raises(files.UnreadableError) as caught:
                files.read(str(tmp_path / name), 100)
            assert not caught.value.missing, name
            with pytest.raises(files.UnreadableError):
                files.read_inside(str(tmp_path), name, 100)
        assert reason_of(lambda: files.read(str(tmp_path / "link"), 9)).startswith("it is a link")
        assert reason_of(lambda: files.read("/dev/zero", 100)) == "it is not a regular file"
    finally:
        listener.close()


@posix
@pytest.mark.full
def test_a_folder_is_cleared_however_deep_it_is(tmp_path: Path) -> None:
    doomed, outside = tmp_path / "doomed", tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_bytes(b"kept")
    (doomed / "a" / "b").mkdir(parents=True)
    (doomed / "a" / "b" / "link").symlink_to(outside)
    (doomed / "link").symlink_to(outside)
    os.mkfifo(doomed / "a" / "pipe")
    (doomed / "a").chmod(0o500)
    here = os.open(doomed, os.O_RDONLY)
    for _ in range(3000):  # more than the stack is deep, and than a path is long
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.fchmod(here, 0)
    os.close(here)
    files.clear(str(doomed))
    files.clear(str(doomed))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["outside"]
    (tmp_path / "link").symlink_to(outside)
    files.clear(str(tmp_path / "link"))
    assert [path.name for path in tmp_path.rglob("*")] == ["outside", "kept"]


@posix
def test_clearing_leaves_no_descriptor(tmp_path: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    (tmp_path / "a" / "b" / "c").mkdir(parents=True)
    files.clear(str(tmp_path / "a"))
    assert len(os.listdir("/dev/fd")) == before


@posix
def test_no_part_of_a_path_inside_may_be_a_link(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    root = tmp_path / "root"
    (root / "folder").mkdir(parents=True)
    (root / "folder" / "file").write_bytes(b"fine")
    (root / "link").symlink_to(outside)
    (root / "folder" / "up").symlink_to("../..")
    assert files.read_inside(str(root), "folder/file", 10) == b"fine"
    for path in ("link/secret", "folder/up/outside/secret"):
        with pytest.raises(files.UnreadableError) as caught:
            files.read_inside(str(root), path, 100)
        assert "secret" not in str(caught.value)
    # The root may be one for a reader, and may not for moves of files.
    assert files.read_inside(str(root / "link"), "secret", 10) == b"secret"
    with pytest.raises(OSError, match="link"), files.folder_of(str(root / "link"), "secret"):
        pass


@pytest.mark.parametrize(
    "path",
    ["", ".", "..", "../x", "a/../../x", "a//b", "a/./b", "/etc/passwd", "a/", "a/.."],
)
def test_a_path_that_is_no_plain_path_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").write_bytes(b"b")
    why = reason_of(lambda: files.read_inside(str(tmp_path), path, 10))
    assert why == "the path leaves the repository"


@posix
def test_names_are_bytes(tmp_path: Path) -> None:
    for name in (b"caf\xe9", b"new\nline", b"-rf", b"a b", b"\xff/\xfe"):
        place = os.path.join(os.fsencode(tmp_path), name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb") as stream:
            stream.write(name)
        assert files.read_inside(str(tmp_path), os.fsdecode(name), 99) == name


@posix
def test_a_root_that_is_not_there_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(files.UnreadableError) as caught:
        files.read_inside(str(tmp_path / "gone"), "file", 10)
    assert caught.value.missing


@posix
def test_reading_leaves_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_bytes(b"x" * 100)
    (tmp_path / "link").symlink_to("folder")
    before = sorted(os.listdir("/dev/fd"))
    for _ in range(50):
        files.read_inside(str(tmp_path), "folder/file", 100)
        for path in ("folder", "link/file", "folder/none", "folder/file/x", "folder/file"):
            with pytest.raises(files.UnreadableError):
                files.read_inside(str(tmp_path), path, 10)
    assert sorted(os.listdir("/dev/fd")) == before


@as_root
def test_what_may_not_be_read_says_so(tmp_path: Path) -> None:
    path = tmp_path / "closed"
    path.write_bytes(b"x")
    path.chmod(0)
    assert as_somebody(f"files.read({str(path)!r}, 9)", tmp_path) == "Permission denied"


# -- writing ------------------------------------------------------------------------------------


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with path.open("rb") as reader:
        files.write(str(path), b"new")
        assert reader.read() == b"old"  # whoever has it open keeps the whole of the old one
    assert path.read_bytes() == b"new"
    assert leftovers(tmp_path) == ["file"]


@posix
def test_a_file_is_written_in_pieces(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_bytes(b"before")

    def pieces() -> Iterator[bytes]:
        yield b"one, "
        assert place.read_bytes() == b"before"
        yield b"two"

    files.write(str(place), pieces())
    assert place.read_bytes() == b"one, two"
    with pytest.raises(AssertionError):
        files.write(str(place), pieces())
    assert place.read_bytes() == b"one, two"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_the_mode_is_that_of_the_caller_less_the_mask(tmp_path: Path) -> None:
    mask = os.umask(0o022)
    try:
        for mode, expected in ((0o600, 0o600), (0o644, 0o644), (0o666, 0o644)):
            files.write(str(tmp_path / "file"), b"x", mode)
            assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == expected
    finally:
        os.umask(mask)


@posix
def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"precious")
    (tmp_path / "link").symlink_to("target")
    files.write(str(tmp_path / "link"), b"new")
    assert target.read_bytes() == b"precious"
    assert not (tmp_path / "link").is_symlink()


@posix
def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        files.write(str(path), b"result")
        assert os.read(reader, 100) == b"result"
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(path.stat().st_mode)


@as_root
def test_a_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    # `--output /dev/null`, as root in a container: it must be there afterwards.
    path = tmp_path / "null"
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        path.write_bytes(b"")
    except PermissionError:
        pytest.skip("no devices may be made here")
    files.write(str(path), b"result")
    assert stat.S_ISCHR(path.stat().st_mode)
    (tmp_path / "link").symlink_to("null")
    files.write(str(tmp_path / "link"), b"result")
    assert (tmp_path / "link").is_symlink()


@posix
def test_standard_output_by_its_name_stays_what_it_is(tmp_path: Path) -> None:
    # Where it is redirected to a file, its name leads to a regular one.
    target = tmp_path / "out"
    code = "from rlm_ci.system import files; files.write('/proc/self/fd/1', b'result')"
    with target.open("wb") as stream:
        subprocess.run([sys.executable, "-I", "-c", code], check=True, stdout=stream, cwd=tmp_path)
    assert target.read_bytes() == b"result"
    assert leftovers(tmp_path) == ["out"]


def test_where_it_cannot_be_written_the_error_says_which(tmp_path: Path) -> None:
    path = tmp_path / "none" / "file"
    with pytest.raises(StorageError) as caught:
        files.write(str(path), b"x")
    assert caught.value.code == STORAGE
    assert str(path) in str(caught.value)
    assert caught.value.hint
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError):
        files.write(str(tmp_path / "folder"), b"x")
    assert leftovers(tmp_path) == ["folder"]


FULL_DISK = """
import resource, signal, sys
from rlm_ci import errors; from rlm_ci.system import files
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
try:
    files.write(sys.argv[1], b"n" * 100_000)
except errors.StorageError as error:
    print(error.code, error.what)
"""


@posix
def test_a_disk_that_fills_up_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    ended = subprocess.run(
        [sys.executable, "-I", "-c", FULL_DISK, str(path)], check=True, capture_output=True
    )
    assert ended.stdout == b"9 cannot be written: File too large\n"
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == ["file"]


def as_somebody(expression: str, folder: Path) -> str:
    """What ``expression`` raises for a user who owns nothing here."""
    for parent in (folder, *folder.parents):
        if parent.stat().st_uid == 0 and parent.name.startswith("pytest"):
            parent.chmod(0o755)
    code = (
        "import os\nfrom rlm_ci import errors; from rlm_ci.system import files\nos.setuid(65534)\n"
        f"try:\n    {expression}\nexcept Exception as error:\n    print(error)\n"
    )
    ended = subprocess.run([sys.executable, "-I", "-c", code], check=True, capture_output=True)
    return ended.stdout.decode().strip()


@as_root
def test_a_folder_that_is_closed_leaves_the_old_content(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o666)
    tmp_path.chmod(0o555)
    said = as_somebody(f"files.write({str(path)!r}, b'new')", tmp_path)
    assert said == f"cannot be written: Permission denied ({path})"
    assert path.read_bytes() == b"old"
    assert leftovers(tmp_path) == ["file"]


def test_appending_keeps_what_others_wrote(tmp_path: Path) -> None:
    path = tmp_path / "outputs"
    path.write_bytes(b"theirs\n")
    files.append(str(path), b"ours\n")
    assert path.read_bytes() == b"theirs\nours\n"
    with pytest.raises(StorageError):
        files.append(str(tmp_path), b"x")


def test_folders_are_made_with_their_parents(tmp_path: Path) -> None:
    files.make_folder(str(tmp_path / "a" / "b"), 0o700)
    files.make_folder(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
    if os.name == "posix":
        assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError):
        files.make_folder(str(tmp_path / "file" / "below"))


@posix
def test_folders_side_by_side_have_real_paths_and_go_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    os.symlink("real", tmp_path / "link")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "link"))
    with files.scratch_folders("tree", "out") as (tree, out):
        top = os.path.dirname(tree)
        assert top == os.path.dirname(out) == os.path.realpath(top)
        assert os.path.dirname(top) == str(tmp_path / "real")
        assert sorted(os.listdir(top)) == ["out", "tree"]
        assert {os.stat(path).st_mode & 0o777 for path in (tree, out)} == {0o700}
    assert os.listdir(tmp_path / "real") == []


def test_scratch_folders_of_killed_processes_go_and_those_of_live_ones_stay(tmp_path: Path) -> None:
    """By the kernel's locks: no process is asked for, as it may be one of another container."""
    source = (
        "import sys, time\n"
        "from rlm_ci.system import files\n"
        "with files.scratch('rlm-ci-repl-') as place:\n"
        "    open(place + '/kept', 'w').close()\n"
        "    print(place, flush=True)\n"
        "    sys.argv[1:] and time.sleep(60)\n"
    )
    argv = [sys.executable, "-c", source]
    env = {**os.environ, "TMPDIR": str(tmp_path)}

    def start() -> tuple[subprocess.Popen[str], Path]:
        child = subprocess.Popen([*argv, "wait"], stdout=subprocess.PIPE, text=True, env=env)
        assert child.stdout is not None
        return child, Path(child.stdout.readline().strip())

    (tmp_path / "rlm-ci-other-held").symlink_to(tmp_path)
    (tmp_path / "rlm-ci-older").mkdir()
    with ExitStack() as held:
        killed, left = start()
        held.callback(killed.communicate)
        killed.kill()
        killed.wait()
        assert left.exists()
        live, kept = start()
        held.callback(live.communicate)
        held.callback(live.kill)
        assert not left.exists()
        subprocess.run(argv, env=env, check=True, stdout=subprocess.DEVNULL)
        assert (kept / "kept").exists()
        assert leftovers(tmp_path) == sorted([kept.name, "rlm-ci-older", "rlm-ci-other-held"])
