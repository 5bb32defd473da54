"""The files of a model: nothing outside, no link, no git folder, whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from rlm_ci.system.safe_tree import FILE_LIMIT, Missing, Refused, SafeTree, matches

OUTSIDE = [
    "", "   ", "/etc/passwd", "../secret", "a/../../secret", "a/./b", "a//b", "..", ".", "./..",
    ".git/config", "a/.git/hooks/pre-commit", ".GIT/config", ".git./config", "git~1/config",
    "a\0b", "a\nb", "a\x1b[31m", "a\u202eb", "..\\secret", "C:\\x", "a\\b", "x" * 1001,
]  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> SafeTree:
    (tmp_path / "secret").write_text("outside\n")
    root = tmp_path / "work"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "config").write_text("[core]\n")
    (root / "src").mkdir()
    (root / "src" / "a.py").write_text("a = 1\n")
    return SafeTree(str(root))


@pytest.mark.parametrize("path", OUTSIDE)
def test_no_path_leads_outside(tree: SafeTree, path: str) -> None:
    with pytest.raises(Refused):
        tree.read(path)
    with pytest.raises(Refused):
        tree.write(path, b"x")
    with pytest.raises(Refused):
        tree.delete(path)
    assert (Path(tree.root).parent / "secret").read_text() == "outside\n"
    assert (Path(tree.root) / ".git" / "config").read_text() == "[core]\n"


def test_no_link_is_followed(tree: SafeTree, tmp_path: Path) -> None:
    root = Path(tree.root)
    (root / "file").symlink_to(tmp_path / "secret")
    (root / "folder").symlink_to(tmp_path)
    (root / "environ").symlink_to("/proc/self/environ")
    for path in ("file", "folder/secret", "folder/new/x", "environ"):
        with pytest.raises(Refused):
            tree.read(path)
        with pytest.raises(Refused):
            tree.write(path, b"x")
        with pytest.raises(Refused):
            tree.delete(path)
    assert (tmp_path / "secret").read_text() == "outside\n"
    assert not (tmp_path / "new").exists()
    assert [path for path, _ in tree.paths()] == ["src/a.py"]


def test_pipes_and_folders_are_no_files(tree: SafeTree) -> None:
    os.mkfifo(os.path.join(tree.root, "pipe"))
    for path in ("pipe", "src"):
        with pytest.raises(Refused):
            tree.read(path)
        with pytest.raises(Refused):
            tree.write(path, b"x")
        with pytest.raises(Refused):
            tree.delete(path)


def test_a_write_keeps_the_mode_and_cuts_a_hard_link(tree: SafeTree, tmp_path: Path) -> None:
    root = Path(tree.root)
    (root / "run.sh").write_text("old\n")
    (root / "run.sh").chmod(0o755)
    os.link(tmp_path / "secret", root / "linked")
    assert tree.write("run.sh", b"new\n") is False
    assert tree.write("linked", b"new\n") is False
    assert tree.write("deep/er/new.py", b"x\n") is True
    assert stat.S_IMODE((root / "run.sh").stat().st_mode) == 0o755
    assert (root / "deep/er/new.py").read_bytes() == b"x\n"
    assert (tmp_path / "secret").read_text() == "outside\n"
    assert not list(root.rglob("*.tmp"))


def test_a_set_user_bit_does_not_survive(tree: SafeTree) -> None:
    path = Path(tree.root) / "tool"
    path.write_text("x")
    path.chmod(0o4755)
    tree.write("tool", b"y")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_what_is_not_there_is_missing(tree: SafeTree) -> None:
    for call in (tree.read, tree.delete):
        with pytest.raises(Missing):
            call("src/none.py")
    with pytest.raises(Refused):
        tree.delete("none/x.py")
    with pytest.raises(Refused, match="does not exist"):
        list(tree.paths("none"))


def test_a_file_has_a_size(tree: SafeTree) -> None:
    with pytest.raises(Refused, match="more than"):
        tree.write("big", b"x" * (FILE_LIMIT + 1))
    (Path(tree.root) / "big").write_bytes(b"x" * (FILE_LIMIT + 1))
    with pytest.raises(Refused, match="bytes"):
        tree.read("big")


def test_a_name_too_long_is_refused(tree: SafeTree) -> None:
    for path in ("y" * 300, f"{'y' * 300}/x"):
        with pytest.raises(Refused, match="too long"):
            tree.write(path, b"x")


def test_a_walk_is_sorted_and_leaves_litter_out(tree: SafeTree) -> None:
    root = Path(tree.root)
    for name in ("src/b.py", "src/__pycache__/a.pyc", "node_modules/x/index.js", "README", "z/y/x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("1")
    assert [path for path, _ in tree.paths()] == ["README", "src/a.py", "src/b.py", "z/y/x"]
    assert list(tree.paths("src")) == [("src/a.py", 6), ("src/b.py", 1)]
    assert list(tree.paths("./")) == list(tree.paths())


def test_a_folder_that_becomes_a_link_meanwhile_does_not_lead_outside(
    tree: SafeTree, tmp_path: Path
) -> None:
    """A test that still runs swaps a folder and a link as fast as it can."""
    root = Path(tree.root)
    outside = tmp_path / "outside"
    outside.mkdir()
    (root / "link").symlink_to(outside)
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            with suppress(OSError):
                shutil.rmtree(root / "it")
            with suppress(OSError):
                os.rename(root / "link", root / "it")
                os.rename(root / "it", root / "link")

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(300):
            with suppress(Refused):
                tree.write("it/x", b"x")
    finally:
        stop.set()
        swapper.join()
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("pattern", "path", "fits"),
    [
        ("*.py", "src/deep/a.py", True),
        ("*.py", "src/a.pyc", False),
        ("a?.py", "x/ab.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/very/deep/a.py", True),
        ("**/test_*.py", "test_a.py", True),
        ("**/test_*.py", "tests/x/test_a.py", True),
        ("./src/**", "src/a/b", True),
        ("src/**", "lib/a", False),
        ("*", "anything", True),
        ("a*b*c", "aXbYc", True),
        ("a*b*c", "aXbY", False),
        ("[ab].py", "a.py", False),
        ("[ab].py", "[ab].py", True),
        ("", "a", False),
    ],
)
def test_globs(pattern: str, path: str, fits: bool) -> None:
    assert matches(pattern, path) is fits


def test_no_glob_takes_long() -> None:
    assert not matches("*a" * 200 + "b", "a" * 900)
    assert not matches("/".join(["**", "a"] * 100) + "/b", "/".join("a" * 400))
