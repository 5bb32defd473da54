"""What is not committed counts what git would count, and its hunks are the difference."""

from __future__ import annotations

import os
import stat

import pytest

from rlm_ci.change import change_set
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.git.repository import Repository
from testing import reference_counts
from testing.change_sets import counted, repository
from testing.repositories.changes import every_kind_of_change, numbered, pending_changes
from testing.repositories.git_repo import SYMLINK, GitRepo
from testing.repositories.shapes import detached_head, unborn_head
from testing.unprivileged_user import closed_copy, holds_for_nobody, needs_root


def local(repo: GitRepo, trigger: str) -> reference_counts.Numstat:
    return counted(change_set.from_local(repository(repo), trigger))


def added_all(repo: GitRepo, head: str = "HEAD") -> reference_counts.Numstat:
    """What git counts once everything that it would take is added, in an index of its own."""
    index = {"GIT_INDEX_FILE": os.fspath(repo.path / ".git" / "oracle-index")}
    repo.run("read-tree", head, env=index)
    repo.run("add", "-A", env=index)
    tree = repo.run("write-tree", env=index).decode().strip()
    return reference_counts.numstat(repo, head, tree, options=["--no-renames"])


def test_the_working_tree_is_one_diff_against_head(repo: GitRepo) -> None:
    pending_changes(repo)
    expected = {
        "staged.py": (2, 0), "both.py": (2, 0), "unstaged.py": (1, 1), "deleted.py": (0, 3),
        "new file.py": (4, 0),
    }  # fmt: skip
    assert local(repo, "worktree") == expected == added_all(repo)
    assert local(repo, "index") == {"staged.py": (2, 0), "both.py": (1, 0), "undone.py": (1, 0)}


UNTRACKED: dict[bytes, bytes] = {
    b"text.py": b"a\nb\n",
    b"no newline": b"a\nb",
    b"empty": b"",
    b"binary": b"\0\n\n\n",
    b"late binary": b"\n" * 8000 + b"\0\n",
    b"early binary": b"\n" * 7999 + b"\0\n",
    b"only newlines": b"\n\n\n",
    b"crlf": b"a\r\nb\r\n",
    b"lone cr": b"a\rb\r",
    b"new\nline": b"a\n",
    b"caf\xe9": b"\xe9\n",
    b"-rf": b"x\n",
    b"sub/folder/file": b"x\n",
    b'quote"d': b"x\n",
    b"large": b"line\n" * 700_000,
    b"long line": b"x" * 3_000_000,
}


@pytest.mark.skipif(os.name != "posix", reason="names of POSIX")
def test_untracked_files_count_as_they_would_once_added(repo: GitRepo) -> None:
    repo.write(".gitignore", "ignored\n").commit()
    for name, data in UNTRACKED.items():
        repo.write(name, data)
    repo.write("ignored", "x\n").symlink("link", "text.py").symlink("dangling", "nowhere")
    repo.symlink("link to a folder", "sub").write("program", "x\n", 0o755)
    os.mkfifo(repo.place("pipe"))
    inner = GitRepo(repo.path / "embedded")
    inner.write("inside", "x\n").commit()
    expected = added_all(repo)
    assert expected[os.fsdecode(b"caf\xe9")] == (1, 0)
    assert local(repo, "worktree") == expected
    modes = {
        one.path: one.new_mode
        for one in change_set.from_local(repository(repo), "worktree").files()
    }
    assert (modes["link"], modes["embedded"], modes["empty"]) == (SYMLINK, "160000", "100644")


@pytest.mark.skipif(os.name != "posix", reason="filters of a shell")
def test_untracked_files_are_counted_as_attributes_would_have_them_added(repo: GitRepo) -> None:
    rules = (
        "*.up filter=up\n*.u16 text working-tree-encoding=UTF-16\n*.min -diff\n"
        "*.dat diff\n*.crlf text eol=crlf\nkept* filter=up\n*.none filter=nowhere\n"
    )
    repo.write(".gitattributes", rules).write("kept", "1\n").commit()
    repo.config("filter.up.clean", "head -n 2")
    files: dict[str, str | bytes] = {
        "n.up": numbered(2000), "sub/new\nline.up": numbered(9), "short.up": "1\n",
        "n.u16": "1\n2\n3\n".encode("utf-16"), "a.min": "1\n", "a.dat": b"1\n\0\n",
        "a.crlf": b"1\r\n2\r\n", "plain": numbered(5), "a.none": numbered(4), "empty.up": "",
    }  # fmt: skip
    repo.write_all(files).symlink("link.up", "plain").run("rm", "-q", "--cached", "kept")
    before = {path.name for path in repo.path.joinpath(".git").iterdir()}
    here = local(repo, "worktree")
    assert {path.name for path in repo.path.joinpath(".git").iterdir()} == before
    repo.run("add", "kept")
    assert here.pop("kept") == (1, 1)  # it has left the index, and stays
    assert here == added_all(repo)
    assert (here["n.up"], here["n.u16"], here["a.min"]) == ((2, 0), (3, 0), (None, None))


def test_a_filter_that_is_not_there_is_said_by_name(repo: GitRepo) -> None:
    repo.write(".gitattributes", "*.up filter=up\n").commit()
    repo.config("filter.up.clean", "no-such-program").config("filter.up.required", "true")
    repo.write("n.up", "1\n")
    for _ in ("untracked", "in the index"):
        with pytest.raises(UnavailableError, match="clean filter 'up' failed") as caught:
            local(repo, "worktree")
        assert "install" in (caught.value.hint or "")
        repo.run("add", "-N", "n.up")


@pytest.mark.full
@pytest.mark.parametrize("program", ["no-such-program", "false", "echo nonsense; sleep 1"])
def test_a_filter_process_that_fails_is_unavailable(repo: GitRepo, program: str) -> None:
    """Git LFS is one; where it is missing, git speaks of a remote end."""
    repo.write(".gitattributes", "*.up filter=up\n").write("n.up", "1\n").commit()
    repo.config("filter.up.process", program).config("filter.up.required", "true")
    repo.write("n.up", "2\n3\n")
    with pytest.raises(UnavailableError, match="filter") as caught:
        local(repo, "worktree")
    assert "git config --get-regexp ^filter" in (caught.value.hint or "")


@pytest.mark.skipif(os.name != "posix", reason="pipes and sockets of POSIX")
@pytest.mark.parametrize("mode", [stat.S_IFIFO, stat.S_IFSOCK])
def test_a_tracked_file_that_became_a_pipe_is_named(repo: GitRepo, mode: int) -> None:
    repo.write("a b", "1\n").commit()
    repo.remove("a b")
    os.mknod(repo.place("a b"), mode | 0o600)
    with pytest.raises(ConfigError, match="a pipe, a socket or a device") as caught:
        local(repo, "worktree")
    assert (caught.value.where, caught.value.hint) == (
        "a b", "remove it, or bring the file back: git checkout -- 'a b'",
    )  # fmt: skip


def test_a_submodule_that_leads_nowhere_is_named(repo: GitRepo) -> None:
    repo.write("a", "1\n").commit()
    repo.run("update-index", "--add", "--cacheinfo", f"160000,{repo.text('rev-parse', 'HEAD')},lib")
    repo.write("lib/.git", "gitdir: ../nowhere\n")
    with pytest.raises(ConfigError, match=r"leads to no git repository \(.*nowhere"):
        local(repo, "worktree")


def test_what_is_in_conflict_is_not_measured(repo: GitRepo) -> None:
    repo.write("a", "1\n").commit()
    repo.checkout("other", new=True).write("a", "2\n").commit()
    repo.checkout("main").write("a", "3\n").commit()
    repo.attempt("merge", "--no-ff", "other")
    (one,) = change_set.from_local(repository(repo), "index").files()
    assert (one.path, one.unmeasured) == ("a", "it is in conflict: resolve it, then git add")
    (one,) = change_set.from_local(repository(repo), "worktree").files()
    assert (one.added, one.unmeasured) == (4, None)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs to be somebody else")
def test_an_untracked_file_that_cannot_be_read_is_said(repo: GitRepo) -> None:
    repo.write("a", "1\n").commit()
    repo.write("closed", "x\n", 0)
    pid = os.fork()
    if pid == 0:
        os.seteuid(65534)
        try:
            one = change_set._uncounted(os.fspath(repo), "closed")
            is_said = one and (one.unmeasured, one.lines) == ("Permission denied", 0)
            os._exit(0 if is_said else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@needs_root
def test_a_folder_that_cannot_be_opened_is_said(repo: GitRepo) -> None:
    """Git passes over it with a warning, and takes for deleted what it has in there."""
    repo.write("tracked/file", "x\n").write("a", "1\n").write(".gitignore", "ours/\n").commit()
    repo.write("new/file", "x\n").write("ours/file", "x\n").remove("a")
    expected = {
        "a": None,
        "new/": "the folder cannot be opened",
        "tracked/": "the folder cannot be opened",
        "tracked/file": "Permission denied",
    }

    def is_said(here: Repository) -> bool:
        found = change_set.from_local(here, "worktree").files()
        return {one.path: one.unmeasured for one in found} == expected

    with closed_copy(repo, "new", "tracked", "ours") as copy:
        assert holds_for_nobody(copy, is_said)


@pytest.mark.full
def test_a_giant_untracked_file_is_not_read_to_its_end(repo: GitRepo) -> None:
    with open(repo.place("sparse"), "wb") as stream:
        stream.truncate(1 << 42)
    # Longer than what git compares line by line, and text as far as one looks.
    with open(repo.place("text"), "wb") as stream:
        stream.write(b"text\n" * 2000)
        stream.truncate((512 << 20) + 1)
    assert local(repo, "worktree") == {"sparse": (None, None), "text": (None, None)}


def test_a_file_that_left_the_index_and_stayed_is_one_file(repo: GitRepo) -> None:
    repo.write("kept", "1\n2\n").write("other", "x\n").commit()
    repo.run("rm", "-q", "--cached", "kept")
    repo.append("kept", "3\n")
    files = change_set.from_local(repository(repo), "worktree").files()
    assert [one.path for one in files] == ["kept"]


def test_before_the_first_commit_everything_is_new(repo: GitRepo) -> None:
    unborn_head(repo)
    assert local(repo, "index") == {"staged.py": (3, 0)}
    assert local(repo, "worktree") == {"staged.py": (3, 0), "untracked.py": (2, 0)}
    change = change_set.from_local(repository(repo), "index")
    assert (change.base, change.head, change.policy_commit) == (None, None, None)
    assert reference_counts.counts(change.hunks()[0]["staged.py"]) == (3, 0)


def test_on_no_branch_the_working_tree_is_against_the_commit(repo: GitRepo) -> None:
    detached_head(repo)
    repo.append("detached.py", "more\n")
    assert local(repo, "worktree") == {"detached.py": (1, 0)}


def test_a_merge_that_is_not_resolved_is_counted_and_has_hunks(repo: GitRepo) -> None:
    repo.write_all({"a.py": "1\n", "b.py": numbered(9), "z.py": "1\n"}).commit()
    repo.checkout("side", new=True)
    repo.write("b.py", numbered(9).replace("5", "five"))
    repo.write_all({"a.py": "2\n", "z.py": "2\n"}).commit()
    repo.checkout("main")
    repo.write("b.py", numbered(9).replace("5", "FIVE")).commit()
    assert repo.attempt("merge", "side").returncode == 1
    assert local(repo, "worktree") == {"a.py": (1, 1), "b.py": (4, 0), "z.py": (1, 1)}
    assert local(repo, "index") == {"b.py": (0, 0)}, "the rest is the side's own"
    opened = repository(repo)
    hunks, failed = change_set.from_local(opened, "worktree").hunks()
    assert failed == []
    assert (reference_counts.counts(hunks["b.py"]), reference_counts.counts(hunks["z.py"])) == (
        (4, 0),
        (1, 1),
    )
    hunks, failed = change_set.from_local(opened, "index").hunks()
    assert (hunks, failed) == ({}, [])


def test_of_a_merge_that_waits_only_what_differs_from_every_side_is_staged(repo: GitRepo) -> None:
    repo.write_all({"both.py": numbered(9), "gone.py": "1\n", "ours.py": "1\n"}).commit()
    repo.checkout("side", new=True).remove("gone.py")
    repo.write_all({"both.py": numbered(9) + "side\n" * 500, "new.py": "side\n" * 500})
    repo.commit()
    repo.checkout("main")
    repo.write_all({"both.py": numbered(9) + "main\n", "ours.py": "2\n"}).commit()
    assert repo.attempt("merge", "side").returncode == 1
    repo.write_all({"both.py": numbered(9) + "main\n" + "side\n" * 500, "mended.py": "1\n"})
    repo.append("new.py", "more\n").stage()
    change = change_set.from_local(repository(repo), "index")
    assert counted(change) == {"both.py": (1, 0), "mended.py": (1, 0), "new.py": (1, 0)}
    assert change.names() == ["both.py", "mended.py", "new.py"]
    assert set(change.hunks()[0]) == {"both.py", "mended.py", "new.py"}
    repo.commit()
    assert local(repo, "index") == {}


def test_of_an_octopus_too(repo: GitRepo) -> None:
    repo.write("a.py", "1\n").commit()
    for name in ("one", "two"):
        repo.checkout("main").checkout(name, new=True).write(f"{name}.py", f"{name}\n").commit()
    repo.checkout("main").run("merge", "--no-commit", "--no-ff", "one", "two")
    assert local(repo, "index") == {}
    repo.append("two.py", "more\n").stage()
    assert local(repo, "index") == {"two.py": (1, 0)}


def test_a_touched_file_without_a_difference_is_no_change(repo: GitRepo) -> None:
    repo.config("core.autocrlf", "input")
    repo.write("a.py", "1\n").write("b.py", "1\n").commit()
    repo.write("a.py", "1\r\n").append("b.py", "2\n")
    assert local(repo, "worktree")["b.py"] == (1, 0)
    hunks, failed = change_set.from_local(repository(repo), "worktree").hunks()
    assert failed == []
    assert set(hunks) == {"b.py"}


@pytest.mark.parametrize("trigger", ["index", "worktree"])
def test_local_hunks_are_the_difference(repo: GitRepo, trigger: str) -> None:
    history = every_kind_of_change(repo)
    repo.run("reset", "-q", "--soft", history.base)
    change = change_set.from_local(repository(repo), trigger)
    expected = reference_counts.numstat(repo, history.base, history.head)
    assert counted(change) == expected
    hunks, failed = change.hunks()
    assert failed == []
    assert {path: reference_counts.counts(parts) for path, parts in hunks.items()} == {
        path: row for path, row in expected.items() if row[0] is not None and any(row)
    }
