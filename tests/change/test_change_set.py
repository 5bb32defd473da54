"""A change set counts what git counts, and its hunks are the difference between two texts."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from typing import TYPE_CHECKING

import pytest

from rlm_ci.change import change_set, pushes
from rlm_ci.errors import ConfigError
from rlm_ci.git.patches import parse
from rlm_ci.git.repository import Repository, discover
from testing import reference_counts
from testing.change_sets import assert_hunks_are_the_difference, change_of, counted, repository
from testing.repositories.archives import archive_stubs
from testing.repositories.changes import (
    HOSTILE_NAMES,
    every_kind_of_change,
    first_commit,
    hostile_messages,
    hostile_names,
    small_change,
)
from testing.repositories.git_repo import EMPTY_TREE, GitRepo, History
from testing.repositories.random_histories import random_history
from testing.repositories.shapes import (
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
    unrelated_histories,
)

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


def old_side(history: History) -> str:
    if history.base == EMPTY_TREE:
        return EMPTY_TREE
    return reference_counts.merge_base(history.repo, history.base, history.head)


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", HISTORIES)
def test_counts_are_those_of_git(histories: Callable[[str], History], name: str) -> None:
    history = histories(name)
    change = change_of(history)
    old = old_side(history)
    assert change.merge_base == old
    assert counted(change) == reference_counts.numstat(history.repo, old, history.head)
    split_up = reference_counts.numstat(history.repo, old, history.head, options=["--no-renames"])
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
    change = change_set.from_commit(repository(repo), new_commit)
    assert counted(change) == reference_counts.numstat(repo, old_commit, new_commit)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 125))
def test_random_histories(repo: GitRepo, seed: int) -> None:
    history = random_history(repo, seed, commits=14, files=20)
    change = change_of(history)
    old = old_side(history)
    assert counted(change) == reference_counts.numstat(repo, old, history.head)
    no_renames = reference_counts.numstat(repo, old, history.head, options=["--no-renames"])
    assert counted(change, renames=False) == no_renames
    assert_hunks_are_the_difference(change, repo)
    for commit in history.commits.values():
        one = change_set.from_commit(repository(repo), commit)
        parent = repo.attempt("rev-parse", "--verify", "-q", f"{commit}^").stdout.decode().strip()
        assert counted(one) == reference_counts.numstat(repo, parent or EMPTY_TREE, commit)


@pytest.mark.long
@pytest.mark.full
@pytest.mark.parametrize("builder", [many_files, large_patch])
def test_large_histories(repo: GitRepo, builder: Callable[[GitRepo], History]) -> None:
    history = builder(repo)
    change = change_of(history)
    assert counted(change) == reference_counts.numstat(repo, history.base, history.head)
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
    assert counted(change_set.from_range(opened, base, head, "test")).keys() == {
        f"{base}/.gitattributes", f"{base}/f.x",
    }  # fmt: skip
    assert counted(change_set.from_range(opened, second, head, "test")) == {f"{base}/f.x": (1, 0)}
    assert counted(change_set.from_local(opened, "worktree")) == {head: (1, 0)}
    assert counted(change_set.from_local(opened, "index")) == {}


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
    expected = reference_counts.numstat(history.repo, history.base, history.head)
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
    expected = reference_counts.numstat(history.repo, history.base, history.head)
    monkeypatch.setenv(variable, "'diff.renames=false'" if "CONFIG" in variable else "1")
    assert counted(change_of(history)) == expected


@pytest.mark.full
def test_it_is_the_same_from_a_subfolder_and_a_linked_work_tree(
    histories: Callable[[str], History], tmp_path: Path
) -> None:
    history = histories("every_kind_of_change")
    expected = reference_counts.numstat(history.repo, history.base, history.head)
    tree = history.repo.worktree(tmp_path / "linked")
    for start in (history.repo.path / "kinds", tree.path, tree.path / "texts"):
        opened = Repository(*discover(os.fspath(start)), os.environ)
        change = change_set.from_range(opened, history.base, history.head, "test")
        assert counted(change) == expected
        assert_hunks_are_the_difference(change, history.repo)


@pytest.mark.parametrize("hiding", ["* binary\n", "*.py -diff\n", "* diff=x filter=x text\n"])
@pytest.mark.parametrize("checkout", [True, False])
def test_no_attribute_of_a_change_from_outside_counts(
    repo: GitRepo, tmp_path: Path, hiding: str, *, checkout: bool
) -> None:
    history = small_change(repo)
    expected = reference_counts.numstat(repo, history.base, history.head)
    repo.write(".gitattributes", hiding).write("src/.gitattributes", hiding)
    head = repo.commit("Hide")
    there = repo if checkout else repo.clone(tmp_path / "clone", "--no-checkout")
    change = change_of(History(there, history.base, head))
    seen = counted(change)
    assert {path: seen[path] for path in expected} == expected
    assert_hunks_are_the_difference(change, repo)
    assert change.hunks()[0].keys() >= expected.keys()


@pytest.mark.full
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
    change = change_set.from_local(repository(repo), "index")
    assert change.read("1:odd", 100) == b"staged\n"
    assert change.sizes(["1:odd"]) == [7]


def test_the_blobs_of_both_sides_are_those_of_git(repo: GitRepo) -> None:
    repo.write_all({"kept": "1\n", "gone": "2\n"}).symlink("link", "kept").commit()
    repo.write("kept", "3\n").write("new", "4\n").remove("gone", "link").symlink("link", "new")
    old, gone = repo.sha("HEAD:kept"), repo.sha("HEAD:gone")
    worktree = change_set.from_local(repository(repo), "worktree")
    assert worktree.blobs("kept") == (old, "")
    change = change_set.from_local(repository(repo.stage()), "index")
    assert change.kinds == {"gone": "D", "kept": "M", "link": "M", "new": "A"}
    assert [change.blobs(path) for path in ("gone", "kept", "link", "new", "none")] == [
        (gone, ""), (old, repo.sha(":kept")), ("", ""), ("", repo.sha(":new")), ("", ""),
    ]  # fmt: skip


def test_a_file_that_is_only_to_be_added_is_no_staged_change(repo: GitRepo) -> None:
    repo.write("a", "1\n").commit()
    repo.write("b", "2\n").run("add", "--intent-to-add", "b")
    assert change_set.from_local(repository(repo), "index").names() == []


def test_a_file_that_is_larger_than_asked_for_is_not_read(repo: GitRepo) -> None:
    base = repo.write("a", "1\n").commit()
    head = repo.write("a", "12345\n").commit()
    opened = repository(repo)
    for change in (
        change_set.from_range(opened, base, head, "test"),
        change_set.from_local(opened, "index"),
        change_set.from_local(opened, "worktree"),
    ):
        assert change.read("a", 6) == b"12345\n"
        assert change.read("a", 5) is None


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
        change_set.from_commit(repository(history.repo), history.head)


def test_a_merge_is_judged_against_its_first_parent(histories: Callable[[str], History]) -> None:
    for name in ("merge_commit", "octopus"):
        history = histories(name)
        change = change_set.from_commit(repository(history.repo), history.head)
        assert change.merge_base == history.base
        assert counted(change) == reference_counts.numstat(history.repo, history.base, history.head)
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
    expected = reference_counts.numstat(repo, history.base, history.head)
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
