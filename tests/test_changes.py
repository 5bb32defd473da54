"""A change set counts what git counts, and its hunks are the difference between two texts."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from typing import TYPE_CHECKING

import oracle
import pytest
from histories import EMPTY_TREE, SYMLINK, GitRepo, History
from histories_archive import archive_stubs
from histories_changes import (
    HOSTILE_NAMES,
    every_kind_of_change,
    first_commit,
    hostile_messages,
    hostile_names,
    numbered,
    pending_changes,
    small_change,
)
from histories_random import random_history
from histories_shapes import (
    base_moved_ahead,
    criss_cross,
    detached_head,
    empty_commit,
    first_push,
    large_patch,
    large_tree,
    many_files,
    merge_commit,
    merged_branches,
    octopus,
    root_commit,
    set_traps,
    shallow_clone,
    sprung,
    there_and_back,
    unborn_head,
    unrelated_histories,
)
from strangers import closed_copy, holds_for_nobody, needs_root

from rlm_ci import changes, pushes
from rlm_ci.changes import ChangeSet
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.git import Repository, discover
from rlm_ci.patches import parse

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HISTORIES: dict[str, Callable[[GitRepo], History]] = {
    builder.__name__: builder
    for builder in (
        small_change, every_kind_of_change, hostile_names, hostile_messages, merged_branches,
        merge_commit, criss_cross, octopus, empty_commit, there_and_back, detached_head,
        base_moved_ahead, large_tree, first_commit, root_commit,
    )
}  # fmt: skip
HISTORIES["archive_stubs"] = lambda repo: archive_stubs(repo, 40, 5, odd_paths=True)
HISTORIES["checked out names"] = lambda repo: _checked_out(hostile_names(repo))
for _seed in range(12):
    # mypy cannot infer a lambda with a default; the default keeps each one's own seed.
    HISTORIES[f"random {_seed}"] = lambda repo, seed=_seed: random_history(repo, seed)  # type: ignore[misc]


def _checked_out(history: History) -> History:
    history.repo.run("reset", "-q", "--hard")
    return history


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], History]:
    """Each history, made once, when it is first asked for."""
    folder = tmp_path_factory.mktemp("histories")

    @cache
    def made(name: str) -> History:
        return HISTORIES[name](GitRepo(folder / name.replace(" ", "-")))

    return made


def repository(repo: GitRepo) -> Repository:
    return Repository(*discover(os.fspath(repo)), os.environ)


def change_of(history: History) -> ChangeSet:
    """The range, or for a root commit that commit."""
    opened = repository(history.repo)
    if history.base == EMPTY_TREE:
        return changes.from_commit(opened, history.head)
    return changes.from_range(opened, history.base, history.head, "test")


def old_side(history: History) -> str:
    if history.base == EMPTY_TREE:
        return EMPTY_TREE
    return oracle.merge_base(history.repo, history.base, history.head)


def counted(change: ChangeSet, *, renames: bool = True) -> oracle.Numstat:
    files = {one.path: (one.added, one.deleted) for one in change.files(renames=renames)}
    if not change.worktree:
        with change.count(renames=renames) as counting:
            assert {one.path: (one.added, one.deleted) for one in counting.finish()} == files
        with change.count(renames=renames) as counting:  # and by two gits, a part each
            counting.share(change.kinds(), least=2)
            assert {one.path: (one.added, one.deleted) for one in counting.finish()} == files
    return files


def assert_hunks_are_the_difference(change: ChangeSet, repo: GitRepo) -> None:
    """Applied to the old text of each file, the hunks give the new one; none is missing."""
    hunks, failed = change.hunks()
    assert failed == []
    files = {one.path: one for one in change.files()}
    assert hunks.keys() <= files.keys()
    for path, one in files.items():
        parts = hunks.get(path, ())
        if one.added is None:
            # A link that became a binary file is still told as the deletion of the link.
            assert parts == () or one.status == "T", path
            continue
        assert oracle.counts(parts) == (one.added, one.deleted), path
        old = oracle.content(repo, one.old_mode, one.old_oid)
        new = oracle.content(repo, one.new_mode, one.new_oid)
        if one.status == "T":  # told as a deletion and a creation
            half = [hunk for hunk in parts if hunk.new_count == 0]
            assert oracle.apply(old, half) == []
            assert oracle.apply(b"", parts[len(half) :]) == oracle.split(new)
        else:
            assert oracle.apply(old, parts) == oracle.split(new), path


# -- counts and hunks of committed changes ------------------------------------------------------


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", HISTORIES)
def test_counts_are_those_of_git(histories: Callable[[str], History], name: str) -> None:
    history = histories(name)
    change = change_of(history)
    old = old_side(history)
    assert change.merge_base == old
    assert counted(change) == oracle.numstat(history.repo, old, history.head)
    split_up = oracle.numstat(history.repo, old, history.head, options=["--no-renames"])
    assert counted(change, renames=False) == split_up
    assert sorted(change.names()) == sorted(split_up)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", HISTORIES)
def test_hunks_are_the_difference(histories: Callable[[str], History], name: str) -> None:
    history = histories(name)
    assert_hunks_are_the_difference(change_of(history), history.repo)


def test_a_long_common_tail_counts_as_it_does_in_git(repo: GitRepo) -> None:
    """Without context lines git leaves it out before it compares, and finds another difference."""
    words = "that begin any command prompt roles  single plan verdict answer edit  with those"
    tail = "".join(f"{word} {'=' * 100}\n" if word else "\n" for word in words.split(" "))
    blanks = "b" * 5 + "n" * 6 + "b" + "n" * 5 + "bnbnnnb" + "n" * 26
    new = "".join("\n" if one == "b" else f"new {at}\n" for at, one in enumerate(blanks))
    old_commit = repo.write("a.md", "\n" * 8 + f"old\n{tail}").commit()
    new_commit = repo.write("a.md", new + tail).commit()
    asked = ("diff", "--numstat", old_commit, new_commit)
    assert repo.run(*asked) != repo.run("-c", "diff.context=0", *asked)  # else it proves nothing
    change = changes.from_commit(repository(repo), new_commit)
    assert counted(change) == oracle.numstat(repo, old_commit, new_commit)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 300))
def test_random_histories(repo: GitRepo, seed: int) -> None:
    history = random_history(repo, seed, commits=14, files=20)
    change = change_of(history)
    old = old_side(history)
    assert counted(change) == oracle.numstat(repo, old, history.head)
    no_renames = oracle.numstat(repo, old, history.head, options=["--no-renames"])
    assert counted(change, renames=False) == no_renames
    assert_hunks_are_the_difference(change, repo)
    for commit in history.commits.values():
        one = changes.from_commit(repository(repo), commit)
        parent = repo.attempt("rev-parse", "--verify", "-q", f"{commit}^").stdout.decode().strip()
        assert counted(one) == oracle.numstat(repo, parent or EMPTY_TREE, commit)


@pytest.mark.full
@pytest.mark.parametrize("builder", [many_files, large_patch])
def test_large_histories(repo: GitRepo, builder: Callable[[GitRepo], History]) -> None:
    history = builder(repo)
    change = change_of(history)
    assert counted(change) == oracle.numstat(repo, history.base, history.head)
    assert_hunks_are_the_difference(change, repo)


def test_modes_ids_and_old_names_are_told(histories: Callable[[str], History]) -> None:
    files = {one.path: one for one in change_of(histories("every_kind_of_change")).files()}
    renamed = files["kinds/moved/renamed_new.py"]
    assert (renamed.status, renamed.old_path) == ("R", "kinds/renamed_old.py")
    assert renamed.old_oid == renamed.new_oid
    assert renamed.lines == 0
    assert (files["kinds/mode.sh"].old_mode, files["kinds/mode.sh"].new_mode) == (
        "100644",
        "100755",
    )
    assert files["kinds/file_to_link"].status == "T"
    assert files["kinds/submodule_bumped"].new_oid == "2" * 40
    assert files["kinds/added.py"].old_oid == "0" * 40
    assert files["kinds/added.py"].status == "A"
    assert files["kinds/deleted.py"].status == "D"


def test_a_file_named_like_a_commit_confuses_nobody(repo: GitRepo) -> None:
    # git takes an argument that is both a revision and a file for neither.
    base = repo.write("a", "1\n").commit()
    repo.write(f"{base}/.gitattributes", "*.x -diff\n").write(f"{base}/f.x", "1\n")
    second = repo.commit()
    head = repo.write(f"{base}/f.x", "1\n2\n").commit()
    repo.write(head, "untracked\n")
    opened = repository(repo)
    assert counted(changes.from_range(opened, base, head, "test")).keys() == {
        f"{base}/.gitattributes", f"{base}/f.x",
    }  # fmt: skip
    assert counted(changes.from_range(opened, second, head, "test")) == {f"{base}/f.x": (1, 0)}
    assert counted(changes.from_local(opened, "worktree")) == {head: (1, 0)}
    assert counted(changes.from_local(opened, "index")) == {}


# -- the surroundings change nothing ------------------------------------------------------------

CONFIG = {
    "diff.renames": "false", "diff.noprefix": "true", "diff.mnemonicPrefix": "true",
    "diff.external": "false", "core.quotePath": "false", "diff.algorithm": "histogram",
    "diff.indentHeuristic": "false", "diff.context": "0", "diff.interHunkContext": "50",
    "diff.renameLimit": "1", "diff.orderFile": "order", "diff.relative": "true",
    "diff.submodule": "log", "diff.ignoreSubmodules": "all", "diff.suppressBlankEmpty": "true",
    "diff.statGraphWidth": "1", "diff.wsErrorHighlight": "all", "diff.colorMoved": "zebra",
    "diff.dirstat": "lines", "color.ui": "always", "color.diff": "always", "core.pager": "false",
    "core.bigFileThreshold": "1", "core.attributesFile": "mine.gitattributes",
    "core.autocrlf": "true", "core.whitespace": "cr-at-eol", "diff.wordRegex": ".",
    "diff.all.textconv": "wc -c <", "diff.all.command": "false", "diff.all.binary": "true",
    "diff.all.algorithm": "patience", "log.showSignature": "true", "core.abbrev": "4",
    "core.ignoreCase": "true", "diff.tool": "false", "core.fsmonitor": "false",
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["every_kind_of_change", "hostile_names", "random 3"])
@pytest.mark.parametrize("scope", ["repository", "user"])
def test_no_configuration_changes_a_number(
    histories: Callable[[str], History],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    scope: str,
) -> None:
    history = histories(name)
    expected = oracle.numstat(history.repo, history.base, history.head)
    clone = history.repo.clone(tmp_path / "clone", "--no-checkout")
    attributes = tmp_path / "mine.gitattributes"
    attributes.write_text("* binary\n")
    file = os.fspath(clone.path / ".git/config" if scope == "repository" else tmp_path / "user")
    for key, value in CONFIG.items():
        given = str(attributes) if key == "core.attributesFile" else value
        subprocess.run(["git", "config", "--file", file, key, given], check=True)
    if scope == "user":
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", file)
    there = History(clone, history.base, history.head)
    change = change_of(there)
    assert counted(change) == expected
    assert_hunks_are_the_difference(change, history.repo)


@pytest.mark.parametrize("variable", [
    "GIT_EXTERNAL_DIFF", "GIT_DIFF_OPTS", "GIT_PAGER", "GIT_CONFIG_PARAMETERS", "GIT_TRACE",
    "GIT_NAMESPACE", "GIT_CEILING_DIRECTORIES", "GIT_GLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
    "GIT_ATTR_SOURCE", "GIT_REF_PARANOIA", "LANG", "GIT_REDIRECT_STDOUT", "GIT_CONFIG_COUNT",
])  # fmt: skip
def test_no_variable_changes_a_number(
    histories: Callable[[str], History], monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    history = histories("small_change")
    expected = oracle.numstat(history.repo, history.base, history.head)
    monkeypatch.setenv(variable, "'diff.renames=false'" if "CONFIG" in variable else "1")
    assert counted(change_of(history)) == expected


def test_it_is_the_same_from_a_subfolder_and_a_linked_work_tree(
    histories: Callable[[str], History], tmp_path: Path
) -> None:
    history = histories("every_kind_of_change")
    expected = oracle.numstat(history.repo, history.base, history.head)
    tree = history.repo.worktree(tmp_path / "linked")
    for start in (history.repo.path / "kinds", tree.path, tree.path / "texts"):
        opened = Repository(*discover(os.fspath(start)), os.environ)
        change = changes.from_range(opened, history.base, history.head, "test")
        assert counted(change) == expected
        assert_hunks_are_the_difference(change, history.repo)


@pytest.mark.parametrize("hiding", ["* binary\n", "*.py -diff\n", "* diff=x filter=x text\n"])
@pytest.mark.parametrize("checkout", [True, False])
def test_no_attribute_of_a_change_from_outside_counts(
    repo: GitRepo, tmp_path: Path, hiding: str, *, checkout: bool
) -> None:
    history = small_change(repo)
    expected = oracle.numstat(repo, history.base, history.head)
    repo.write(".gitattributes", hiding).write("src/.gitattributes", hiding)
    head = repo.commit("Hide")
    there = repo if checkout else repo.clone(tmp_path / "clone", "--no-checkout")
    change = change_of(History(there, history.base, head))
    seen = counted(change)
    assert {path: seen[path] for path in expected} == expected
    assert_hunks_are_the_difference(change, repo)
    assert change.hunks()[0].keys() >= expected.keys()


# -- what is not committed ----------------------------------------------------------------------


def local(repo: GitRepo, trigger: str) -> oracle.Numstat:
    return counted(changes.from_local(repository(repo), trigger))


def added_all(repo: GitRepo, head: str = "HEAD") -> oracle.Numstat:
    """What git counts once everything that it would take is added, in an index of its own."""
    index = {"GIT_INDEX_FILE": os.fspath(repo.path / ".git" / "oracle-index")}
    repo.run("read-tree", head, env=index)
    repo.run("add", "-A", env=index)
    tree = repo.run("write-tree", env=index).decode().strip()
    return oracle.numstat(repo, head, tree, options=["--no-renames"])


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
        one.path: one.new_mode for one in changes.from_local(repository(repo), "worktree").files()
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


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs to be somebody else")
def test_an_untracked_file_that_cannot_be_read_is_said(repo: GitRepo) -> None:
    repo.write("a", "1\n").commit()
    repo.write("closed", "x\n", 0)
    pid = os.fork()
    if pid == 0:
        os.seteuid(65534)
        try:
            one = changes._untracked(os.fspath(repo), "closed")
            os._exit(0 if one.unmeasured == "Permission denied" and one.lines == 0 else 1)
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
        found = changes.from_local(here, "worktree").files()
        return {one.path: one.unmeasured for one in found} == expected

    with closed_copy(repo, "new", "tracked", "ours") as copy:
        assert holds_for_nobody(copy, is_said)


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
    files = changes.from_local(repository(repo), "worktree").files()
    assert [one.path for one in files] == ["kept"]


def test_before_the_first_commit_everything_is_new(repo: GitRepo) -> None:
    unborn_head(repo)
    assert local(repo, "index") == {"staged.py": (3, 0)}
    assert local(repo, "worktree") == {"staged.py": (3, 0), "untracked.py": (2, 0)}
    change = changes.from_local(repository(repo), "index")
    assert (change.base, change.head, change.policy_commit) == (None, None, None)
    assert oracle.counts(change.hunks()[0]["staged.py"]) == (3, 0)


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
    hunks, failed = changes.from_local(opened, "worktree").hunks()
    assert failed == []
    assert (oracle.counts(hunks["b.py"]), oracle.counts(hunks["z.py"])) == ((4, 0), (1, 1))
    hunks, failed = changes.from_local(opened, "index").hunks()
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
    change = changes.from_local(repository(repo), "index")
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
    hunks, failed = changes.from_local(repository(repo), "worktree").hunks()
    assert failed == []
    assert set(hunks) == {"b.py"}


@pytest.mark.parametrize("trigger", ["index", "worktree"])
def test_local_hunks_are_the_difference(repo: GitRepo, trigger: str) -> None:
    history = every_kind_of_change(repo)
    repo.run("reset", "-q", "--soft", history.base)
    change = changes.from_local(repository(repo), trigger)
    expected = oracle.numstat(repo, history.base, history.head)
    assert counted(change) == expected
    hunks, failed = change.hunks()
    assert failed == []
    assert {path: oracle.counts(parts) for path, parts in hunks.items()} == {
        path: row for path, row in expected.items() if row[0] is not None and any(row)
    }


# -- reading one file of a change ---------------------------------------------------------------


@pytest.mark.skipif(os.name != "posix", reason="names of POSIX")
def test_both_sides_of_a_file_can_be_read_whatever_its_name(
    histories: Callable[[str], History],
) -> None:
    change = change_of(histories("checked out names"))
    for name in HOSTILE_NAMES:
        path = os.fsdecode(name)
        assert change.read(path, 99, old=True) == b"before\n", path
        assert change.read(path, 99) == b"before\nafter\n", path
        assert change.read(f"new/{path}", 99, old=True) is None
    assert change.read("no such file", 99) is None


def test_a_staged_name_that_looks_like_a_stage_is_a_name(repo: GitRepo) -> None:
    repo.write("README", "x\n").commit()
    repo.write("1:odd", "staged\n").run("add", "-A")
    change = changes.from_local(repository(repo), "index")
    assert change.read("1:odd", 100) == b"staged\n"
    assert change.sizes(["1:odd"]) == [7]


def test_a_file_that_is_larger_than_asked_for_is_not_read(repo: GitRepo) -> None:
    base = repo.write("a", "1\n").commit()
    head = repo.write("a", "12345\n").commit()
    opened = repository(repo)
    for change in (
        changes.from_range(opened, base, head, "test"),
        changes.from_local(opened, "index"),
        changes.from_local(opened, "worktree"),
    ):
        assert change.read("a", 6) == b"12345\n"
        assert change.read("a", 5) is None


# -- patches that are not what they should be ---------------------------------------------------


def test_a_patch_that_cannot_be_parsed_costs_its_own_file_alone() -> None:
    raw = b"".join(
        b":100644 100644 %s %s M\0%s\0" % (b"1" * 40, b"2" * 40, name)
        for name in (b"a", b"b", b"c")
    )
    good = b"diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n@@ -1 +1,2 @@\n x\n+y\n"
    bad = b"diff --git a/b b/b\n@@ -1 +1,9 @@\n x\n+y\n?z\n"
    patch = good.replace(b"%s", b"a") + bad + good.replace(b"%s", b"c")
    hunks, failed = parse(raw + b"\0" + patch)
    assert hunks.keys() == {"a", "c"}
    assert failed == ["b"]


def test_an_empty_patch_has_no_hunks() -> None:
    assert parse(b"") == ({}, [])


# -- where a change comes from ------------------------------------------------------------------


def test_an_island_has_no_merge_base(repo: GitRepo) -> None:
    history = unrelated_histories(repo)
    with pytest.raises(ConfigError, match="no common commit"):
        change_of(history)


def test_a_shallow_clone_is_told_and_how_to_mend_it(tmp_path: Path) -> None:
    history = shallow_clone(GitRepo(tmp_path / "origin"), tmp_path / "clone")
    with pytest.raises(ConfigError) as caught:
        change_of(history)
    assert "git fetch --unshallow origin" in caught.value.hint
    history.repo.run("fetch", "-q", "--unshallow", "origin")
    assert counted(change_of(history)) == {"feature.py": (5, 0)}


def test_the_first_commit_of_a_shallow_clone_is_not_taken_for_a_root(tmp_path: Path) -> None:
    history = shallow_clone(GitRepo(tmp_path / "origin"), tmp_path / "clone")
    with pytest.raises(ConfigError, match="parent"):
        changes.from_commit(repository(history.repo), history.head)


def test_a_merge_is_judged_against_its_first_parent(histories: Callable[[str], History]) -> None:
    for name in ("merge_commit", "octopus"):
        history = histories(name)
        change = changes.from_commit(repository(history.repo), history.head)
        assert change.merge_base == history.base
        assert counted(change) == oracle.numstat(history.repo, history.base, history.head)
        assert counted(change)


def test_a_first_push_is_against_the_default_branch(tmp_path: Path) -> None:
    history = first_push(GitRepo(tmp_path / "origin"), tmp_path / "clone")
    opened = repository(history.repo)
    change = pushes.from_first(opened, history.head, None, "test", trigger="push", target="feature")
    assert (change.base, change.merge_base) == (history.base, history.base)
    assert counted(change) == {"feature.py": (5, 0)}


@pytest.mark.parametrize("target", ["release", "refs/tags/v1"])
def test_a_new_branch_or_tag_at_the_default_branch_changes_nothing(
    tmp_path: Path, target: str
) -> None:
    history = first_push(GitRepo(tmp_path / "origin"), tmp_path / "clone")
    opened = repository(history.repo)
    change = pushes.from_first(opened, history.base, None, "test", trigger="push", target=target)
    assert counted(change) == {}
    assert change.base == history.base


def test_the_first_push_of_the_default_branch_itself_is_all_of_it(tmp_path: Path) -> None:
    history = first_push(GitRepo(tmp_path / "origin"), tmp_path / "clone")
    opened = repository(history.repo)
    change = pushes.from_first(opened, history.base, None, "test", trigger="push", target="main")
    assert counted(change) == {"main.py": (4, 0)}
    assert change.base is None
    unknown = pushes.from_first(opened, history.base, None, "test", trigger="push")
    assert counted(unknown) == {"main.py": (4, 0)}


def test_an_older_commit_of_the_default_branch_is_judged_by_itself(repo: GitRepo) -> None:
    repo.write("a.py", "x\n").commit()
    older = repo.write("b.py", "x\n" * 5).commit()
    repo.write("c.py", "x\n").commit()
    repo.checkout(older, detach=True)
    change = pushes.from_default_branch(repository(repo))
    assert (change.head, counted(change)) == (older, {"b.py": (5, 0)})
    repo.write("d.py", "x\n").commit()  # beyond it: what the branch has not
    assert counted(pushes.from_default_branch(repository(repo))) == {"d.py": (1, 0)}


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize("name", ["every_kind_of_change", "small_change"])
def test_nothing_that_a_repository_configures_is_run(tmp_path: Path, name: str) -> None:
    repo = GitRepo(tmp_path / "repo")
    history = HISTORIES[name](repo)
    expected = oracle.numstat(repo, history.base, history.head)
    repo.write(".gitattributes", "* filter=trap diff=trap merge=trap\n")
    set_traps(repo, tmp_path / "canary")
    change = change_of(history)
    assert counted(change) == expected
    assert change.hunks()[1] == []
    assert change.names()
    assert change.read(next(iter(expected)), 1 << 20) is not None
    default = pushes.from_default_branch(repository(repo))
    assert counted(default)
    assert sprung(tmp_path / "canary") == []
