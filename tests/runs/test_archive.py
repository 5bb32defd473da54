"""An exported run is the same bytes every time, and holds no more than the run has found."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tarfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import ConfigError, StorageError
from rlm_ci.runs.archive import export
from testing.folders import unpack
from testing.run_store import Place

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        found = {}
        for member in archive.getmembers():
            assert member.isreg()
            assert (member.mtime, member.uid, member.uname, member.mode) == (0, 0, "", 0o600)
            stream = archive.extractfile(member)
            assert stream is not None
            found[member.name] = stream.read()
        return found


def test_an_export_is_deterministic_and_sums_up(place: Place, tmp_path: Path) -> None:
    run = place.finished()
    Path(run.path_of("rlm", "café \udcff.txt")).write_text("x")
    first, second = tmp_path / "a.tar.gz", tmp_path / "b.tar.gz"
    done = export(run.path, run.id, str(first), str)
    for name in os.listdir(run.path):
        os.utime(os.path.join(run.path, name), (1, 1))
    assert export(run.path, run.id, str(second), str) == done
    assert first.read_bytes() == second.read_bytes()
    assert hashlib.sha256(first.read_bytes()).hexdigest() == done.sha256
    found = members(first)
    sums = found.pop(f"{run.id}/SHA256SUMS").decode("utf-8", "surrogateescape")
    assert sums == "".join(
        f"{hashlib.sha256(data).hexdigest()}  {name.partition('/')[2]}\n"
        for name, data in found.items()
    )
    assert done.files == len(found) == 4
    assert done.size == sum(map(len, found.values()))


def test_links_copies_and_git_folders_stay_out(place: Place, tmp_path: Path) -> None:
    run = place.finished()
    (tmp_path / "secret").write_text("secret")
    Path(run.path, "link").symlink_to(tmp_path / "secret")
    Path(run.path, "folder").symlink_to(tmp_path)
    os.mkfifo(os.path.join(run.path, "pipe"))
    for name in ("rlm/git/HEAD", "rlm/git/objects/x", "rlm/work/a.py", "rlm/verdict/a.py",
                 "rlm/other/.git", "rlm/other/b.py", "rlm/work.txt", "work/kept.txt"):  # fmt: skip
        Path(run.path_of(*name.split("/"))).write_text("x")
    export(run.path, run.id, str(tmp_path / "a.tar.gz"), str)
    names = {name.partition("/")[2] for name in members(tmp_path / "a.tar.gz")}
    assert names == {
        "SHA256SUMS", "events.jsonl", "files.sha256", "manifest.json", "rlm/work.txt",
        "work/kept.txt",
    }  # fmt: skip


def test_objects_of_trees_come_along_all_or_none(place: Place, tmp_path: Path) -> None:
    run = place.finished()
    store = "rlm/git/objects/objects"
    for name, data in (
        ("rlm/git/HEAD", b"x"), ("rlm/git/excludes", b"*.log\n"), ("rlm/git/objects/config", b"x"),
        (f"{store}/ab/{'c' * 38}", zlib.compress(b"blob 3\0abc")), (f"{store}/info/packs", b"x"),
        (f"{store}/ab/tmp_obj_1", b"x"),
    ):  # fmt: skip
        Path(run.path_of(*name.split("/"))).write_bytes(data)

    def inside(clean: Callable[[str], str] = str) -> tuple[set[str], str]:
        done = export(run.path, run.id, str(tmp_path / "a.tar.gz"), clean)
        names = {name.partition("/")[2] for name in members(tmp_path / "a.tar.gz")}
        return {name for name in names if name.startswith("rlm/")}, done.note

    tree_files = {"rlm/git/excludes", f"{store}/ab/{'c' * 38}"}
    assert inside() == (tree_files, "with 1 git object, for verify")
    cannot = "verify cannot make its report again"
    lacking = f"without its git objects (one has what looks like a secret): {cannot}"
    assert inside(lambda text: text.replace("abc", "…")) == (set(), lacking)
    for name, data, why in (
        (f"{store}/ab/{'d' * 38}", b"no object", "one is damaged"),
        (f"{store}/ab/{'d' * 38}", zlib.compress(bytes(20 << 20)), "one has more than 16 MiB"),
        (f"{store}/ab/{'d' * 38}", os.urandom(5 << 20), "they have more than 4 MiB"),
        (f"{store}/aa/{'d' * 38}", zlib.compress(b"blob 0\0"), "they have more than 4 MiB"),
    ):
        Path(run.path_of(*name.split("/"))).write_bytes(data)
        assert inside() == (set(), f"without its git objects ({why}): {cannot}")


def test_a_run_in_progress_is_exported_as_it_stands(place: Place, tmp_path: Path) -> None:
    with place.create() as run:
        run.begin()
        export(run.path, run.id, str(tmp_path / "a.tar.gz"), str)
        assert f"{run.id}/manifest.json" in members(tmp_path / "a.tar.gz")


def test_a_pipe_is_written_to_and_stays_one(place: Place, tmp_path: Path) -> None:
    run = place.finished()
    whole = tmp_path / "whole.tar.gz"
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        done = export(run.path, run.id, str(pipe), str)
        said = read.result(timeout=30)
    assert export(run.path, run.id, str(whole), str) == done
    assert said == whole.read_bytes()
    assert pipe.is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["pipe", "repo", "whole.tar.gz"]


def test_a_link_to_a_device_is_no_name_to_take(place: Place, tmp_path: Path) -> None:
    run = place.finished()
    link = tmp_path / "null"
    link.symlink_to(os.devnull)
    assert export(run.path, run.id, str(link), str).files == 3
    assert link.is_symlink()


def test_nothing_is_left_where_nothing_can_be_written(place: Place, tmp_path: Path) -> None:
    run = place.finished()
    with pytest.raises(StorageError):
        export(run.path, run.id, str(tmp_path / "none" / "a.tar.gz"), str)
    (tmp_path / "taken").mkdir()
    with pytest.raises(StorageError):
        export(run.path, run.id, str(tmp_path / "taken"), str)
    assert sorted(os.listdir(tmp_path)) == ["repo", "taken"]


def test_any_name_of_a_file_can_be_checked(place: Place, tmp_path: Path) -> None:
    run = place.finished()
    for name in ("a\nb", "c\\d", "e f", "\udcff"):
        Path(run.path, name).write_text(name.encode("utf-8", "backslashreplace").decode())
    export(run.path, run.id, str(tmp_path / "a.tar.gz"), str)
    unpack(tmp_path / "a.tar.gz", tmp_path)
    ended = subprocess.run(
        ["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=tmp_path / run.id,
        capture_output=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended
    assert ended.stdout.count(b": OK\n") == 7


def test_a_run_that_is_too_large_is_refused(place: Place, tmp_path: Path) -> None:
    run = place.finished()
    for number in range(2):
        with Path(run.path, f"sparse{number}").open("wb") as file:
            file.truncate((1 << 30) + number)
    target = tmp_path / "run.tar.gz"
    with pytest.raises(ConfigError, match="an export takes 2 GiB at most") as raised:
        export(run.path, run.id, str(target), str)
    assert raised.value.hint.endswith("the largest file is sparse1")
    assert not target.exists()
