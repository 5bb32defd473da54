"""The work tree as a commit: exact, whatever git converts, ignores or cannot read."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.agent_hooks import work_tree
from rlm_ci.agent_hooks.work_tree import SessionTree
from rlm_ci.errors import ConfigError
from rlm_ci.git.repository import Repository

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo


@pytest.fixture
def work(repo: GitRepo, tmp_path: Path) -> SessionTree:
    repository = Repository(str(repo.path), str(repo.path / ".git"), os.environ)
    return SessionTree(repository, str(tmp_path / "record"), os.environ)


def _begun(work: SessionTree) -> tuple[str, str]:
    taken = work.begin()
    assert taken.large == ()
    return taken.commit, taken.tree


def _now(work: SessionTree, first: str, tree: str) -> tuple[str, str] | None:
    taken = work.now(first, tree)
    return None if taken.commit == first else (taken.commit, taken.tree)


def _grow(path: Path) -> None:
    with open(path, "ab") as stream:
        stream.truncate(10 << 30)


def _contents(work: SessionTree, tree: str) -> dict[str, bytes | None]:
    reader = work.reader()
    entries = reader.tree(tree)
    return dict(zip(entries, reader.read(*(entry.oid for entry in entries.values())), strict=True))


def test_only_what_differs_is_another_tree(repo: GitRepo, work: SessionTree) -> None:
    repo.write("a.txt", "a\n").write("b/c.txt", "c\n").commit()
    first, tree = _begun(work)
    assert _now(work, first, tree) is None
    repo.write("b/c.txt", "other\n").write("new.txt", "new\n")
    (repo.path / "a.txt").unlink()
    now = _now(work, first, tree)
    assert now is not None
    assert _contents(work, now[1]) == {"b/c.txt": b"other\n", "new.txt": b"new\n"}
    assert work.reader().parents(now[0]) == [first]
    repo.write("b/c.txt", "c\n").write("a.txt", "a\n")
    (repo.path / "new.txt").unlink()
    assert _now(work, first, tree) is None


def test_what_a_killed_hook_left_does_not_matter(repo: GitRepo, work: SessionTree) -> None:
    repo.write(".gitattributes", "*.txt text\n").write("a.txt", "a\n").write("b.txt", "b\n")
    repo.commit()
    work.begin()
    repo.run("rm", "-q", "b.txt")
    repo.write("b.txt", "b\n").write(".gitignore", "b.txt\n")
    _, tree = _begun(work)
    assert work.reader().tree(tree).keys() == {".gitattributes", ".gitignore", "a.txt"}


@pytest.mark.parametrize("how", ["attributes", "autocrlf"])
def test_bytes_are_those_of_the_disk(repo: GitRepo, work: SessionTree, how: str) -> None:
    if how == "attributes":
        repo.write(".gitattributes", "*.txt text eol=crlf\n")
    else:
        repo.run("config", "core.autocrlf", "true")
    repo.write("a.txt", "a\r\nb\r\n")
    repo.run("add", "-A")
    repo.run("commit", "-q", "-m", "first")
    first, tree = _begun(work)
    assert _contents(work, tree)["a.txt"] == b"a\r\nb\r\n"
    repo.write("a.txt", "a\r\nc\r\n")
    now = _now(work, first, tree)
    assert now is not None
    assert _contents(work, now[1])["a.txt"] == b"a\r\nc\r\n"


def test_no_program_of_the_repository_runs(
    repo: GitRepo, work: SessionTree, tmp_path: Path
) -> None:
    seen = tmp_path / "ran"
    repo.write("a.txt", "a\n").commit()
    first, tree = _begun(work)
    for folder in (work.folder, os.path.join(work.folder, "objects")):
        with open(os.path.join(folder, "config"), "w", encoding="utf-8") as stream:
            stream.write(
                f'[filter "x"]\n\tclean = touch {seen}\n[core]\n\tfsmonitor = touch {seen}\n'
            )
    repo.run("config", "filter.x.clean", f"touch {seen}")
    repo.run("config", "core.fsmonitor", f"touch {seen}")
    repo.write(".gitattributes", "* filter=x\n").write("a.txt", "b\n")
    now = _now(work, first, tree)
    assert now is not None
    assert _contents(work, now[1])["a.txt"] == b"b\n"
    assert not seen.exists()


def test_ignored_files_are_no_part(repo: GitRepo, work: SessionTree, tmp_path: Path) -> None:
    repo.write(".gitignore", "kept.txt\nx.tmp\n").write("kept.txt", "1\n")
    repo.run("add", "-f", "kept.txt", ".gitignore")
    repo.run("commit", "-q", "-m", "first")
    (repo.path / ".git" / "info").mkdir(exist_ok=True)
    (repo.path / ".git" / "info" / "exclude").write_text("own.txt\n")
    (tmp_path / "mine").write_text("global.txt\n")
    repo.run("config", "core.excludesFile", str(tmp_path / "mine"))
    for path in ("x.tmp", "own.txt", "global.txt", "p/__pycache__/a.pyc", ".runs/a", "out/a"):
        repo.write(path, "x\n")
    first, tree = _begun(work)
    assert work.reader().tree(tree).keys() == {".gitignore", "kept.txt"}
    # What the agent lets git ignore outside of the tree does not count.
    repo.write("new.txt", "new\n").write("kept.txt", "2\n")
    (repo.path / ".git" / "info" / "exclude").write_text("*\n")
    now = _now(work, first, tree)
    assert now is not None
    assert work.reader().tree(now[1]).keys() == {".gitignore", "kept.txt", "new.txt"}


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree", "--split-index"])
def test_no_index_hides_a_change(repo: GitRepo, work: SessionTree, flag: str, before: bool) -> None:
    repo.write("a.txt", "a\n").commit()
    if before:
        repo.run("update-index", flag, "a.txt")
    first, tree = _begun(work)
    assert work.is_as_taken(first, tree, 0.0)
    if not before:
        repo.run("update-index", flag, "a.txt")
    repo.write("a.txt", "b\n")
    assert not work.is_as_taken(first, tree, 0.0)
    assert _now(work, first, tree) is not None
    assert work.is_as_taken(first, tree, 0.0)


def test_a_sparse_checkout_is_whole(repo: GitRepo, work: SessionTree) -> None:
    repo.write("src/a.txt", "a\n").write("tests/b.txt", "b\n").commit()
    repo.run("sparse-checkout", "set", "src")
    first, tree = _begun(work)
    assert work.reader().tree(tree).keys() == {"src/a.txt", "tests/b.txt"}
    repo.write("tests/b.txt", "other\n")
    assert not work.is_as_taken(first, tree, 0.0)
    now = _now(work, first, tree)
    assert now is not None
    assert _contents(work, now[1])["tests/b.txt"] == b"other\n"


def test_an_ignored_file_counts_once_it_is_tracked(repo: GitRepo, work: SessionTree) -> None:
    repo.write("a.txt", "a\n").commit()
    first, tree = _begun(work)
    repo.write(".gitignore", "made/\n").write("made/b.txt", "b\n")
    repo.run("add", "--force", "made/b.txt")
    now = _now(work, first, tree)
    assert now is not None
    assert work.reader().tree(now[1]).keys() == {".gitignore", "a.txt", "made/b.txt"}


@pytest.mark.skipif(sys.platform == "win32", reason="pipes")
def test_a_file_that_became_a_pipe_is_gone(repo: GitRepo, work: SessionTree) -> None:
    repo.write("a.txt", "a\n").write("b.txt", "b\n").commit()
    first, tree = _begun(work)
    (repo.path / "a.txt").unlink()
    os.mkfifo(repo.path / "a.txt")
    repo.write("b.txt", "other\n")
    now = _now(work, first, tree)
    assert now is not None
    assert _contents(work, now[1]) == {"b.txt": b"other\n"}


@pytest.mark.skipif(sys.platform == "win32", reason="a shell")
def test_to_see_that_nothing_changed_runs_no_filter(repo: GitRepo, work: SessionTree) -> None:
    repo.write(".gitattributes", "*.txt filter=own\n").write("a.txt", "a\n").commit()
    first, tree = _begun(work)
    repo.run("config", "filter.own.clean", f"touch {repo.path}/ran; cat")
    os.utime(repo.path / "a.txt", (1, 1))
    assert work.is_as_taken(first, tree, 0.0)
    assert not (repo.path / "ran").exists()


@pytest.mark.parametrize("attributes", ["", "*.bin filter=lfs\n"])
def test_large_files_are_not_read(repo: GitRepo, work: SessionTree, attributes: str) -> None:
    repo.write("a.txt", "a\n").write("b [1].bin", "b\n").write(".gitattributes", attributes)
    repo.commit()
    old = (*(["b [1].bin"] if attributes else []), "before.bin")
    for name in old:
        _grow(repo.path / name)
    started = time.time() + 0.1
    first = work.begin()
    assert first.large == old
    assert work.is_as_taken(first.commit, first.tree, started)
    _grow(repo.path / "b [1].bin")
    _grow(repo.path / "new.bin")
    assert not work.is_as_taken(first.commit, first.tree, 0.0)
    repo.write("a.txt", "other\n")
    now = work.now(first.commit, first.tree)
    assert now.large == ("b [1].bin", "before.bin", "new.bin")
    assert _contents(work, now.tree).keys() == {".gitattributes", "a.txt"}


def test_changes_that_take_too_long_together_are_named(
    repo: GitRepo, work: SessionTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write("a.txt", "a\n").commit()
    first, tree = _begun(work)
    monkeypatch.setattr(work_tree, "_TOTAL", 10)
    repo.write("b.txt", "12345\n").write("c.txt", "123456\n")
    with pytest.raises(ConfigError, match=r"2 changed files of 13 bytes.*c\.txt, the largest"):
        work.now(first, tree)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes")
def test_a_pipe_of_patterns_is_an_empty_file(
    repo: GitRepo, work: SessionTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_tree, "_PATIENCE", 0.1)
    repo.write("a.txt", "a\n").commit()
    first, tree = _begun(work)
    for folder in ("", "b", "b/c"):
        (repo.path / folder).mkdir(exist_ok=True)
        os.mkfifo(repo.path / folder / ".gitignore")
        os.mkfifo(repo.path / folder / ".gitattributes")
    repo.write("b/c/d.txt", "d\n")
    assert not work.is_as_taken(first, tree, 0.0)
    now = _now(work, first, tree)
    assert now is not None
    assert _contents(work, now[1]).keys() == {"a.txt", "b/c/d.txt"}


@pytest.mark.skipif(sys.platform == "win32", reason="modes and pipes")
def test_what_is_no_file_stays_as_it_was(repo: GitRepo, work: SessionTree) -> None:
    repo.write("a.txt", "a\n").symlink("link", "a.txt").commit()
    os.mkfifo(repo.path / "pipe")
    inner = repo.path / "inner"
    inner.mkdir()
    repo.run("init", "-q", str(inner))
    first, tree = _begun(work)
    assert work.reader().tree(tree).keys() == {"a.txt", "link"}
    assert _now(work, first, tree) is None


def test_the_users_index_and_objects_stay(repo: GitRepo, work: SessionTree) -> None:
    repo.write("a.txt", "a\n").commit()
    repo.write("a.txt", "dirty\n")
    objects = sorted(str(path) for path in (repo.path / ".git" / "objects").rglob("*"))
    index = (repo.path / ".git" / "index").read_bytes()
    work.begin()
    assert sorted(str(path) for path in (repo.path / ".git" / "objects").rglob("*")) == objects
    assert (repo.path / ".git" / "index").read_bytes() == index


def test_a_git_that_had_no_time_leaves_no_lock(
    repo: GitRepo, work: SessionTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write("a.txt", "a\n").commit()
    first, tree = _begun(work)

    def give_up(*_: object) -> None:
        Path(work.folder, "index.lock").touch()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SessionTree, "_take", give_up)
        with pytest.raises(KeyboardInterrupt):
            _now(work, first, tree)
    repo.write("a.txt", "b\n")
    assert _now(work, first, tree) is not None
