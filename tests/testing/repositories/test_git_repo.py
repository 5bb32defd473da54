"""The test material is what it says: judged by git itself."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from testing.repositories import commit_writer
from testing.repositories.changes import (
    HOSTILE_BRANCHES,
    HOSTILE_NAMES,
    HOSTILE_TEXTS,
    every_kind_of_change,
    first_commit,
    hostile_messages,
    hostile_names,
    pending_changes,
    small_change,
)
from testing.repositories.git_repo import EMPTY_TREE, Change, Content, GitError, GitRepo, History
from testing.repositories.random_histories import random_history
from testing.repositories.shapes import (
    ATTRIBUTED_FILES,
    SELF_HIDING,
    attributed,
    base_moved_ahead,
    criss_cross,
    dangling_names,
    detached_head,
    empty_commit,
    first_push,
    forced_push,
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

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from testing.program import Cli

posix = pytest.mark.skipif(os.name != "posix", reason="names, modes and pipes of POSIX")


# -- what is written without a process ----------------------------------------------------------

#: Work trees one after the other: a str is a file, None takes it away, a mode or a link besides.
GROWING: list[dict[str, str | tuple[int, str] | None]] = [
    {"README.md": "# Shop\n"},
    {"a/b/c.py": "x = 1\n", "a.b": "1", "a/z": "", "run.sh": (0o755, "echo\n"), "\u00fc b": "\r\n"},
    {"link": (0, "a/b"), "README.md": None, "a/b/c.py": (0o755, "x = 2\n")},
    {},
    {"a/b/c.py": None, "a/b": "a file now\n", ".github/x.yml": "on: push\n"},
]
MESSAGES = [
    b"Change", b"", b"One\n\n  two\t three \n", b" \t leading\nmore\n\n\n", "\u00fc\n".encode(),
    b"# not a remark", b"\n\nlate\n", b"a\r\nb\r\n", b"\xff no text", "\ufdd0".encode(),
]  # fmt: skip


def lay(repo: GitRepo, files: dict[str, str | tuple[int, str] | None]) -> None:
    for name, given in files.items():
        if given is None:
            repo.remove(name)
        elif isinstance(given, str):
            repo.remove(*([name] if (repo.path / name).is_dir() else [])).write(name, given)
        elif given[0]:
            repo.write(name, given[1], given[0])
        else:
            repo.symlink(name, given[1])


def told(repo: GitRepo) -> list[bytes]:
    asked = (
        ("rev-parse", "HEAD"), ("ls-files", "--stage"), ("reflog", "--format=%H %gn %ge %gs"),
        ("reflog", "main"), ("diff-files",), ("status", "--porcelain", "-uall"),
        ("fsck", "--strict"),
    )  # fmt: skip
    return [repo.run(*args) for args in asked]


@posix
def test_what_is_committed_without_a_process_is_what_git_commits(tmp_path: Path) -> None:
    ours, git = GitRepo(tmp_path / "ours"), GitRepo(tmp_path / "git")
    blank = (ours.path / ".git" / "config").read_bytes()
    ours.remote("https://example.com/x.git")
    plain = 0
    for number, message in enumerate(MESSAGES):
        for repo in (ours, git):
            lay(repo, GROWING[number] if number < len(GROWING) else {f"{number}": "x\n"})
        clock = git.clock() | {"HOME": str(tmp_path)}
        env = {**os.environ, **git._env, **clock}
        made = commit_writer.commit(os.fsencode(ours.path), message, env, blank)
        plain += made is not None
        for repo in (git,) if made else (ours, git):
            repo.run("add", "-A")
            repo.run(
                "commit", "-q", "--allow-empty", "--allow-empty-message", "--cleanup=verbatim",
                "-F", "-", stdin=message, env=clock,
            )  # fmt: skip
        assert told(ours) == told(git), message
    assert plain == len(MESSAGES) - 2
    assert ours.text("remote", "get-url", "origin") == "https://example.com/x.git"


@posix
def test_an_index_is_refreshed_without_a_process_where_all_is_as_it_says(repo: GitRepo) -> None:
    repo.write("a/b", "1\n").write("run.sh", "echo\n", 0o755).symlink("link", "a/b").commit()
    for name in ("a/b", "run.sh"):
        os.utime(repo.place(name), (1, 1))
    assert repo.run("diff-files")
    assert commit_writer.refresh(os.fsencode(repo.path))
    assert repo.run("diff-files") == b""
    repo.write("a/b", "2\n")
    assert not commit_writer.refresh(os.fsencode(repo.path))
    repo.write("a/b", "1\n").chmod("run.sh", 0o644)
    assert not commit_writer.refresh(os.fsencode(repo.path))


@posix
@pytest.mark.parametrize(
    "files",
    [
        {".gitignore": "*.log\n"}, {"a/.gitattributes": "* text\n"}, {".git/MERGE_HEAD": "x\n"},
        {"inner/.git/HEAD": "x\n"}, {".git/info/exclude": "*\n"}, {"GIT~1": "x\n"},
        {".git/packed-refs": "x\n"}, {"large": "x" * (1 << 20)}, {".git/HEAD": "0" * 40 + "\n"},
        {".git/config": "[core]\n\tautocrlf = true\n"}, {".git/index": "DIRC and more than that"},
    ],
    ids=lambda files: next(iter(files)),
)  # fmt: skip
def test_what_is_not_plain_is_left_to_git(
    repo: GitRepo, tmp_path: Path, files: dict[str, str]
) -> None:
    blank = (repo.path / ".git" / "config").read_bytes()
    repo.write("file", "1\n").write_all(files)
    env = {**repo._env, **repo.clock(), "HOME": str(tmp_path)}
    assert commit_writer.commit(os.fsencode(repo.path), b"x", env, blank) is None
    assert not (repo.path / ".git" / "refs" / "heads" / "main").exists()


def numstat(repo: GitRepo, base: str, head: str, *options: str) -> dict[bytes, tuple[bytes, bytes]]:
    """New name to lines added and deleted, as git writes them."""
    fields = iter(
        repo.run("diff", "--numstat", "-z", "-M", *options, base, head, "--").split(b"\0")
    )
    rows = {}
    for row in fields:
        if not row:
            break
        added, deleted, name = row.split(b"\t", 2)
        if not name:
            next(fields)
            name = next(fields)
        rows[name] = added, deleted
    return rows


def raw(repo: GitRepo, base: str, head: str, *options: str) -> list[list[bytes]]:
    """For each change its old mode, new mode, old id, new id and letter, as git writes them."""
    fields = iter(repo.run("diff", "--raw", "-z", *options, base, head, "--").split(b"\0"))
    rows = []
    for row in fields:
        if row:
            rows.append(row.removeprefix(b":").split())
            next(fields)
            if rows[-1][4][:1] in b"RC":
                next(fields)
    return rows


def totals(repo: GitRepo, base: str, head: str) -> tuple[int, int, int]:
    """Files, lines added, lines deleted."""
    rows = [row for row in numstat(repo, base, head).values() if row[0] != b"-"]
    return len(rows), sum(int(added) for added, _ in rows), sum(int(gone) for _, gone in rows)


def merge_bases(history: History) -> list[str]:
    return (
        history.repo.attempt("merge-base", "--all", history.base, history.head)
        .stdout.decode()
        .split()
    )


# -- the builder --------------------------------------------------------------------------------


def test_the_same_calls_make_the_same_commits(tmp_path: Path) -> None:
    first, second = (small_change(GitRepo(tmp_path / name)) for name in ("one", "two"))
    assert (first.base, first.head) == (second.base, second.head)
    assert first.base != first.head


def test_nothing_of_the_machine_reaches_a_commit(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Mallory")
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    repo.write("a", "a").commit("One")
    assert (
        repo.text("log", "--format=%an %ae %aI")
        == "Ada Writer ada@example.com 2026-01-05T09:00:00+00:00"
    )


def test_a_failing_git_command_is_told(repo: GitRepo) -> None:
    with pytest.raises(GitError, match="no-such-branch"):
        repo.checkout("no-such-branch")
    assert repo.attempt("rev-parse", "--verify", "-q", "HEAD").returncode == 1


def test_bulk_and_single_commits_make_the_same_tree(tmp_path: Path) -> None:
    files: dict[str, Content] = {"a.txt": "a\n", "b/c.txt": b"\xff\0"}
    single, bulk = GitRepo(tmp_path / "single"), GitRepo(tmp_path / "bulk")
    single.write_all(files).commit("Files")
    with bulk.bulk() as stream:
        number = stream.commit("main", files, "Files", ())
    assert single.sha() == stream[number] == bulk.sha()


def test_bulk_keeps_modes_removes_and_merges(repo: GitRepo) -> None:
    with repo.bulk() as bulk:
        start: dict[str, Change] = {"run.sh": ("100755", "x"), "gone": "y"}
        first = bulk.commit("main", start, parents=())
        side = bulk.commit("side", {"side": ("120000", "run.sh")}, parents=[first])
        merged = bulk.commit(
            "main", {"gone": None, "sub": ("160000", "3" * 40)}, parents=[first, side]
        )
    assert repo.text("ls-tree", "--format=%(objectmode) %(path)", bulk[merged]).splitlines() == [
        "100755 run.sh",
        "160000 sub",
    ]
    assert repo.text("rev-list", "--parents", "-1", bulk[merged]).split()[1:] == [
        bulk[first],
        bulk[side],
    ]


def test_worktrees_tags_and_pushes(repo: GitRepo, tmp_path: Path) -> None:
    base = repo.write("a", "a").commit("One")
    origin = repo.clone(tmp_path / "origin.git", bare=True)
    tree = repo.worktree(tmp_path / "tree", branch="topic")
    head = tree.write("b", "b").commit("Two")
    repo.remote(origin).push("origin", "topic").tag("v1", head, message="First").fetch("--all")
    assert origin.sha("topic") == head == repo.sha("v1^{commit}") == repo.sha("origin/topic")
    assert (repo.sha(), (tmp_path / "tree" / ".git").is_file()) == (base, True)


# -- changes ------------------------------------------------------------------------------------


@posix
def test_every_kind_of_change_is_there(repo: GitRepo) -> None:
    history = every_kind_of_change(repo)
    rows = raw(repo, history.base, history.head, "-M", "-C")
    assert {row[4][:1] for row in rows} == set(b"A D M T R C".split())
    assert {b"R100", b"C100"} < {row[4] for row in rows}
    assert any(row[4].startswith(b"R0") for row in rows), "no rename with an edit"
    modes = {(row[0].decode(), row[1].decode()) for row in rows}
    assert {
        ("100644", "100755"), ("100644", "120000"), ("120000", "100644"), ("120000", "120000"),
        ("000000", "120000"), ("120000", "000000"), ("000000", "160000"), ("160000", "160000"),
        ("160000", "000000"), ("160000", "100644"),
    } <= modes  # fmt: skip
    lines = numstat(repo, history.base, history.head)
    assert lines[b"kinds/binary_renamed_new.png"] == (b"-", b"-")
    assert lines[b"kinds/mode.sh"] == lines[b"kinds/empty_added.txt"] == (b"0", b"0")
    assert lines[b"texts/lone_cr.txt"] == (b"2", b"1")
    assert lines[b"texts/line_separators.txt"] == (b"2", b"1")
    assert lines[b"texts/utf16.txt"] == (b"-", b"-")
    assert repo.text("status", "--porcelain") == ""


@posix
def test_hostile_names_arrive_as_they_are(repo: GitRepo) -> None:
    history = hostile_names(repo)
    lines = numstat(repo, history.base, history.head, "--no-renames")
    assert len(set(HOSTILE_NAMES)) == len(HOSTILE_NAMES)
    expected = {*HOSTILE_NAMES, b"new/.gitattributes", *(b"new/" + name for name in HOSTILE_NAMES)}
    assert lines == dict.fromkeys(expected, (b"1", b"0"))
    assert all(os.path.lexists(repo.place(name)) for name in HOSTILE_NAMES)
    assert repo.text("status", "--porcelain") == ""


@posix
def test_hostile_messages_forge_rows_and_branches_are_there(repo: GitRepo) -> None:
    history = hostile_messages(repo)
    log = repo.run("log", "--numstat", "--format=%B", history.head).splitlines()
    assert b"12\t0\tforged.py" in log, "the forged row is not where a reader would take it"
    assert numstat(repo, history.base, history.head) == {
        b"log.txt": (b"%d" % (len(HOSTILE_TEXTS) + 1), b"0")
    }
    refs = repo.run("for-each-ref", "--format=%(refname)", "refs/heads").decode().splitlines()
    assert {f"refs/heads/{name}" for name in HOSTILE_BRANCHES} < set(refs)


def test_pending_changes_differ_by_where_one_looks(repo: GitRepo) -> None:
    pending_changes(repo)
    staged = numstat(repo, "--cached", "HEAD")
    assert staged == {
        b"both.py": (b"1", b"0"),
        b"staged.py": (b"2", b"0"),
        b"undone.py": (b"1", b"0"),
    }
    tree = repo.text("diff", "--numstat", "HEAD").splitlines()
    assert tree == ["2\t0\tboth.py", "0\t3\tdeleted.py", "2\t0\tstaged.py", "1\t1\tunstaged.py"]
    assert repo.text("ls-files", "--others", "--exclude-standard") == "new file.py"


# -- shapes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "bases", "change"),
    [
        (small_change, 1, (2, 7, 1)),
        (merged_branches, 1, (2, 9, 0)),
        (merge_commit, 1, (1, 6, 0)),
        (octopus, 1, (3, 9, 0)),
        (empty_commit, 1, (0, 0, 0)),
        (there_and_back, 1, (0, 0, 0)),
        (detached_head, 1, (1, 5, 0)),
        (base_moved_ahead, 1, (1, 5, 0)),
        (root_commit, 0, (2, 5, 0)),
        (first_commit, 0, (3, 5, 0)),
        (criss_cross, 2, (2, 8, 0)),
    ],
)
def test_a_shape_holds_the_change_that_it_names(
    repo: GitRepo, build: Callable[[GitRepo], History], bases: int, change: tuple[int, int, int]
) -> None:
    history = build(repo)
    found = merge_bases(history)
    assert len(found) == bases
    assert totals(repo, found[0] if found else history.base, history.head) == change
    assert repo.sha() == history.head
    assert repo.text("status", "--porcelain") == ""


def test_heads_that_are_not_on_a_branch(repo: GitRepo, tmp_path: Path) -> None:
    assert unborn_head(repo).attempt("rev-parse", "--verify", "-q", "HEAD").returncode == 1
    assert repo.text("diff", "--cached", "--numstat", EMPTY_TREE) == "3\t0\tstaged.py"
    detached = detached_head(GitRepo(tmp_path / "detached"))
    assert detached.repo.attempt("symbolic-ref", "-q", "HEAD").returncode == 1
    apart = unrelated_histories(GitRepo(tmp_path / "apart"))
    assert merge_bases(apart) == []


def test_clones_lack_what_they_should(tmp_path: Path) -> None:
    shallow = shallow_clone(GitRepo(tmp_path / "a"), tmp_path / "shallow")
    assert shallow.repo.text("rev-parse", "--is-shallow-repository") == "true"
    assert shallow.repo.attempt("cat-file", "-e", shallow.commits["fork"]).returncode != 0
    assert shallow.repo.attempt("cat-file", "-e", shallow.base).returncode == 0
    forced = forced_push(GitRepo(tmp_path / "b"), tmp_path / "forced")
    assert forced.repo.text("branch", "-a", "--contains", forced.commits["before"]) == ""
    assert totals(forced.repo, forced.base, forced.head) == (1, 7, 0)
    pushed = first_push(GitRepo(tmp_path / "c"), tmp_path / "first")
    assert pushed.repo.sha("origin/HEAD") == pushed.base
    assert pushed.repo.attempt("rev-parse", "-q", "--verify", "origin/feature").returncode == 1


def test_large_histories_have_their_size(tmp_path: Path) -> None:
    many = many_files(GitRepo(tmp_path / "many"), 300, checkout=True)
    assert totals(many.repo, many.base, many.head) == (300, 570, 270)
    assert many.repo.text("status", "--porcelain") == ""
    large = large_patch(GitRepo(tmp_path / "large"), megabytes=1)
    assert 1_000_000 < len(large.repo.run("diff", large.base, large.head)) < 1_100_000
    tree = large_tree(GitRepo(tmp_path / "tree"), 500)
    assert len(tree.repo.text("ls-tree", "-r", "--name-only", tree.head).splitlines()) == 500


def test_attributes_say_what_the_table_says(repo: GitRepo) -> None:
    history = attributed(repo, SELF_HIDING[0])
    assert b"* linguist-generated" in repo.read(".gitattributes")
    repo.checkout(history.base, detach=True)
    names = b"\0".join(name.encode() for name in ATTRIBUTED_FILES)
    said = repo.run(
        "check-attr", "-z", "--stdin", "linguist-generated", "linguist-vendored", stdin=names
    ).split(b"\0")
    marked = {
        name.decode()
        for name, value in zip(said[::3], said[2::3], strict=False)
        if value in (b"set", b"true")
    }
    assert marked == {name for name, ignored in ATTRIBUTED_FILES.items() if ignored}


@posix
def test_traps_spring_under_a_careless_git(repo: GitRepo, tmp_path: Path) -> None:
    history = small_change(repo)
    canary = tmp_path / "canary"
    set_traps(repo, canary)
    # Of a file as long as before git reads the content, and so runs the filter; another length is
    # enough for it to know.
    os.utime(repo.path / "README.md", (1, 1))
    assert sprung(canary) == []
    repo.run("status")
    assert {"fsmonitor", "filter-clean"} <= set(sprung(canary))
    repo.run("diff", history.base, history.head)
    repo.run("log", "-p", "-1")
    assert {"driver-command", "textconv"} <= set(sprung(canary))


def test_revisions_that_name_nothing(repo: GitRepo) -> None:
    small_change(repo)
    for what, revision in dangling_names().items():
        asked = repo.attempt(
            "rev-parse", "--verify", "-q", "--end-of-options", revision + "^{commit}"
        )
        assert asked.returncode != 0, what


# -- random -------------------------------------------------------------------------------------


@posix
def test_random_histories_are_lively_and_repeatable(tmp_path: Path) -> None:
    letters: set[bytes] = set()
    merges = 0
    for seed in range(8):
        history = random_history(GitRepo(tmp_path / str(seed)), seed, checkout=True)
        letters |= {row[4][:1] for row in raw(history.repo, history.base, history.head, "-M")}
        merges += int(history.repo.text("rev-list", "--merges", "--count", history.head))
        assert history.repo.text("status", "--porcelain") == ""
        assert history.commits[str(len(history.commits) - 1)] == history.head
    assert letters >= set(b"A D M R".split())
    assert merges
    one, two, other = (
        random_history(GitRepo(tmp_path / name), seed).commits
        for name, seed in (("one", 7), ("two", 7), ("other", 8))
    )
    assert one == two != other


# -- the environment of the tests -----------------------------------------------------------------


def test_the_environment_is_closed(tmp_path: Path) -> None:
    for name in ("CI", "GITHUB_ACTIONS", "GIT_DIR", "TASK", "BASE_SHA", "RLM_GOAL"):
        assert name not in os.environ
    config = subprocess.run(
        ["git", "config", "--list", "--show-scope"], cwd=tmp_path, capture_output=True, check=True
    ).stdout
    assert {line.split(b"\t")[0] for line in config.splitlines()} == {b"global"}
    assert b"init.defaultbranch=main" in config


@pytest.mark.full
def test_the_program_runs_in_a_process_of_its_own(
    cli: Cli, repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repo.path / "rlm_ci.py").write_text("raise SystemExit('imported from the current folder')\n")
    monkeypatch.setenv("PYTHONPATH", str(repo.path))
    ended = cli("--version", cwd=repo, env={"HOME": None})
    assert (ended.code, ended.stdout.startswith("rlm-ci "), ended.stderr) == (0, True, "")
    with pytest.raises(AssertionError, match="no JSON on stdout"):
        ended.json()
