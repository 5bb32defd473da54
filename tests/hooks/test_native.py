"""hooks/ under `git config core.hooksPath`: real commits and pushes run the checks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from testing.repositories.archives import stub
from testing.repositories.delegated_runs import registered, write_index
from testing.repositories.git_repo import GitRepo

HOOKS = Path(__file__).resolve().parents[2] / "hooks"
MANY = {f"src/file_{n}.py": "print()\n" for n in range(26)}

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the hooks are shell scripts")


@pytest.fixture
def path() -> dict[str, str]:
    """An environment in which `rlm-ci` is the one under test."""
    return {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


@pytest.fixture
def hooked(repo: GitRepo) -> GitRepo:
    return repo.config("core.hooksPath", str(HOOKS))


def commit(repo: GitRepo, path: dict[str, str], *args: str) -> tuple[int, str]:
    repo.run("add", "-A")
    ended = repo.attempt("commit", "-q", "-m", "A change", *args, env=path)
    return ended.returncode, (ended.stdout + ended.stderr).decode("utf-8", "surrogateescape")


def push(repo: GitRepo, path: dict[str, str], *args: str) -> tuple[int, str]:
    ended = repo.attempt("push", "-q", *args, env=path)
    return ended.returncode, (ended.stdout + ended.stderr).decode("utf-8", "surrogateescape")


def test_the_first_commit_of_a_repository_is_judged(hooked: GitRepo, path: dict[str, str]) -> None:
    hooked.write_all(MANY)
    code, said = commit(hooked, path)
    assert code == 1
    assert "diff-budget/files" in said
    assert "26 files changed" in said
    hooked.remove("src/file_0.py")
    code, said = commit(hooked, path)
    assert code == 0, said
    assert "25 files (limit 25)" in said


def test_only_what_is_staged_counts_in_a_partial_commit(
    hooked: GitRepo, path: dict[str, str]
) -> None:
    hooked.write_all(dict.fromkeys(MANY, "")).write("one.py", "a\n")
    hooked.run("-c", "core.hooksPath=/dev/null", "add", "-A")
    hooked.run("-c", "core.hooksPath=/dev/null", "commit", "-qm", "Start")
    hooked.write_all(MANY).write("one.py", "b\n")
    ended = hooked.attempt("commit", "-q", "-m", "One", "one.py", env=path)
    assert ended.returncode == 0
    assert b"1 file (limit 25), 2 lines (limit 1,200)" in ended.stdout + ended.stderr
    ended = hooked.attempt("commit", "-q", "-a", "-m", "All", env=path)
    assert ended.returncode == 1
    assert b"26 files changed" in ended.stdout + ended.stderr


def test_commit_from_a_subfolder_and_in_a_linked_worktree(
    hooked: GitRepo, path: dict[str, str], tmp_path: Path
) -> None:
    hooked.write("docs/plan.md", "# Plan\n")
    code, said = commit(hooked, path)
    assert code == 0, said
    hooked.write("docs/more.md", "# More\n").run("add", "-A")
    ended = hooked.attempt("-C", "docs", "commit", "-q", "-m", "From below", env=path)
    assert ended.returncode == 0
    assert b"1 file (limit 25)" in ended.stdout + ended.stderr
    linked = hooked.worktree(tmp_path / "linked", branch="other")
    linked.write_all(MANY)
    code, said = commit(linked, path)
    assert (code, "26 files changed" in said) == (1, True)


@pytest.mark.parametrize(
    "name",
    [b"with space.py", b"-rf", b"--output=x", b"new\nline.py", b"caf\xe9.py", b"::error ::pwn",
     b"##[error]x", b"$(touch canary)", b"\x1b[31mred.py"],
)  # fmt: skip
def test_names_are_data(hooked: GitRepo, path: dict[str, str], name: bytes) -> None:
    hooked.write(name, b"x\n" * 1201)
    code, said = commit(hooked, path)
    assert code == 1
    assert "1,201 lines changed" in said
    assert "\x1b" not in said
    assert "##[" not in said
    assert not any(line.lstrip().startswith("::") for line in said.splitlines())
    assert not Path(hooked, "canary").exists()


def test_a_broken_stub_is_not_committed(hooked: GitRepo, path: dict[str, str]) -> None:
    hooked.write("README.md", "# Shop\n")
    assert commit(hooked, path)[0] == 0
    hooked.branch("doc-archives")
    hooked.write("docs/plan.md", stub("docs/plan.md"))
    code, said = commit(hooked, path)
    assert code == 1
    assert "doc-archive/dangling" in said


def test_a_task_without_a_subagent_run_is_not_committed(
    hooked: GitRepo, path: dict[str, str]
) -> None:
    write_index(Path(hooked), registered("0951-guard"))
    code, said = commit(hooked, {**path, "MCP_RUNNER_TASK_ID": "0951-guard"})
    assert code == 1
    assert "Delegation guard: issues detected" in said
    assert " - Missing: a subagent run of 0951-guard" in said


def test_first_push_later_push_and_deletion(
    hooked: GitRepo, path: dict[str, str], tmp_path: Path
) -> None:
    GitRepo(tmp_path / "remote", bare=True)
    hooked.remote(tmp_path / "remote").write("a.py", "a\n")
    hooked.commit("Start")
    code, said = push(hooked, path, "origin", "main")
    assert code == 0, said
    assert "1 file (limit 25)" in said
    hooked.checkout("topic", new=True).write_all(MANY)
    hooked.run("add", "-A")
    hooked.run("commit", "-q", "--no-verify", "-m", "Too much")
    code, said = push(hooked, path, "origin", "topic")
    assert code == 1
    assert "topic" in said
    assert "26 files changed" in said
    code, said = push(hooked, path, "--no-verify", "origin", "topic")
    assert code == 0, said
    hooked.write("b.py", "b\n")
    hooked.run("add", "-A")
    hooked.run("commit", "-q", "--no-verify", "-m", "A little more")
    code, said = push(hooked, path, "origin", "topic")
    assert code == 0, said
    assert "1 file (limit 25), 1 line (limit 1,200)" in said
    code, said = push(hooked, path, "origin", "--delete", "topic")
    assert code == 0, said
    assert "– Nothing was checked: every check is off" in said
    assert "Clean" not in said


@pytest.mark.full
def test_several_refs_are_each_judged(
    hooked: GitRepo, path: dict[str, str], tmp_path: Path
) -> None:
    GitRepo(tmp_path / "remote", bare=True)
    hooked.remote(tmp_path / "remote").write("a.py", "a\n")
    hooked.commit("Start")
    assert push(hooked, path, "origin", "main")[0] == 0
    for name, files in (("small", {"b.py": "b\n"}), ("large", MANY)):
        hooked.checkout("main").checkout(name, new=True).write_all(files)
        hooked.run("add", "-A")
        hooked.run("commit", "-q", "--no-verify", "-m", name)
    code, said = push(hooked, path, "origin", "small", "large")
    assert code == 1
    assert "small: 1 file (limit 25)" in said
    assert "large: 26 files (limit 25)" in said
    assert "large: 26 files changed (limit 25)" in " ".join(said.split())


def test_refs_of_one_change_are_judged_once_and_what_is_no_commit_is_passed_over(
    hooked: GitRepo, path: dict[str, str], tmp_path: Path
) -> None:
    GitRepo(tmp_path / "remote", bare=True)
    hooked.remote(tmp_path / "remote").write("a.py", "a\n")
    hooked.commit("Start")
    assert push(hooked, path, "origin", "main")[0] == 0
    hooked.write("b.py", "b\n").commit("More", stage=True)
    for number in range(5):
        hooked.branch(f"b{number}")
    hooked.tag("a-tree", "HEAD^{tree}").tag("a-blob", "HEAD:a.py", "of a file")
    code, said = push(hooked, path, "--all", "origin")
    assert code == 0, said
    assert said.count("diff-budget") == 1
    assert "main, b0, b1 and 3 more: 1 file (limit 25), 1 line (limit 1,200)" in " ".join(
        said.split()
    )
    code, said = push(hooked, path, "--tags", "origin")
    assert code == 0, said
    assert "note: refs/tags/a-tree names a tree, not a commit: it is not checked" in said
    assert "note: refs/tags/a-blob names a blob, not a commit: it is not checked" in said
    hooked.run("tag", "-f", "a-tree", "HEAD")
    code, said = push(hooked, path, "--force", "origin", "a-tree")
    assert code == 0, said


def test_what_others_brought_is_not_held_against_a_merge_or_a_rebase(
    hooked: GitRepo, path: dict[str, str], tmp_path: Path
) -> None:
    GitRepo(tmp_path / "remote", bare=True)
    hooked.remote(tmp_path / "remote").write("a.py", "a\n")
    hooked.commit("Start")
    hooked.push("--no-verify", "origin", "main")
    hooked.checkout("topic", new=True).write("a.py", "topic\n").commit("Topic")
    hooked.push("--no-verify", "origin", "topic").branch("other")
    hooked.checkout("main").write_all({"a.py": "main\n", "big.txt": "x\n" * 3000}).commit()
    hooked.push("--no-verify", "origin", "main").checkout("topic")
    assert hooked.attempt("merge", "main").returncode == 1
    hooked.write("a.py", "both\n")
    code, said = commit(hooked, path)
    assert code == 0, said
    assert "1 file (limit 25), 2 lines (limit 1,200); for a merge, files that" in said
    code, said = push(hooked, path, "origin", "topic")
    assert code == 0, said
    assert "topic: 1 file (limit 25), 2 lines (limit 1,200)" in said
    hooked.checkout("other").run("reset", "-q", "--hard", "HEAD~")
    hooked.run("merge", "-q", "--ff-only", "main")
    hooked.write("b.py", "b\n").commit("Rebased")
    code, said = push(hooked, path, "--force", "origin", "other:topic")
    assert code == 0, said
    assert "topic: 1 file (limit 25), 1 line (limit 1,200)" in said


@pytest.mark.full
def test_a_repository_that_git_knows_by_its_variables_alone(
    hooked: GitRepo, path: dict[str, str], tmp_path: Path
) -> None:
    """Dotfiles: the work tree has no .git, and stands in a folder that may have another one."""
    hooked.write("a.py", "a\n").commit("Another repository")
    for place in (tmp_path / "home", hooked.path / "home"):
        place.joinpath("sub").mkdir(parents=True)
        dot = tmp_path / f"dot-{place.parent.name}"
        both = (f"--git-dir={dot}", f"--work-tree={place}")
        hooked.run("init", "-q", "--bare", os.fspath(dot))
        for key, value in {
            "core.bare": "false", "core.hooksPath": str(HOOKS), "user.name": "A",
            "user.email": "a@example.com",
        }.items():  # fmt: skip
            hooked.run(*both, "config", key, value)
        for name, text in (*MANY.items(), ("rlm-ci.toml", "[diff_budget]\nmax_files = 27\n")):
            place.joinpath(name).parent.mkdir(exist_ok=True)
            place.joinpath(name).write_text(text)
        hooked.run(*both, "add", "--", str(place))
        ended = hooked.attempt(*both, "commit", "-q", "-m", "Start", env=path)
        said = (ended.stdout + ended.stderr).decode()
        assert ended.returncode == 0, said
        assert "27 files (limit 27)" in said
        place.joinpath("src/file_0.py").write_text("1\n2\n")
        variables = {"GIT_DIR": str(dot), "GIT_WORK_TREE": str(place)}
        for folder in (tmp_path, place / "sub"):
            ended_here = subprocess.run(
                ["rlm-ci", "check", "diff-budget"], cwd=folder, env={**path, **variables},
                capture_output=True, check=False,
            )  # fmt: skip
            assert b"1 file (limit 27), 3 lines (limit 1,200)" in ended_here.stdout
        # Without the work tree's name it is the current folder, or where core.worktree leads.
        del variables["GIT_WORK_TREE"]
        for folder in (place, tmp_path):
            ended_here = subprocess.run(
                ["rlm-ci", "check", "diff-budget"], cwd=folder, env={**path, **variables},
                capture_output=True, check=False,
            )  # fmt: skip
            assert b"1 file (limit 27), 3 lines (limit 1,200)" in ended_here.stdout
            hooked.run(*both, "config", "core.worktree", str(place))


@pytest.mark.full
def test_where_git_dir_names_a_file(repo: GitRepo, path: dict[str, str], tmp_path: Path) -> None:
    """`git submodule foreach` sets GIT_DIR=.git, and there and in a work tree .git is a file."""
    library = GitRepo(tmp_path / "library").write("a.py", "a\n")
    library.commit("Start")
    repo.run("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(library.path), "lib")
    repo.commit("Library")
    repo.write("lib/b.py", "b\n")
    said = repo.run("submodule", "foreach", "rlm-ci check diff-budget", env=path).decode()
    assert "1 file (limit 25), 1 line (limit 1,200)" in said
    repo.run("-C", "lib", "config", "core.hooksPath", str(HOOKS))
    each = "git add -A && git -c user.name=A -c user.email=a@example.com commit -qm B"
    ended = repo.attempt("submodule", "foreach", each, env=path)
    assert b"1 file (limit 25), 1 line (limit 1,200)" in ended.stdout + ended.stderr
    assert ended.returncode == 0
    linked = repo.worktree(tmp_path / "linked", branch="other").write("c.py", "c\n")
    linked.write("sub/d.py", "d\n")
    for folder, told in ((linked.path, ".git"), (linked.path / "sub", "../.git")):
        answer = subprocess.run(
            ["rlm-ci", "check", "diff-budget"], cwd=folder, env={**path, "GIT_DIR": told},
            capture_output=True, check=False,
        )  # fmt: skip
        assert b"2 files (limit 25), 2 lines (limit 1,200)" in answer.stdout, answer.stderr


def test_a_variable_that_leads_nowhere_is_named(
    repo: GitRepo, path: dict[str, str], tmp_path: Path
) -> None:
    ended = subprocess.run(
        ["rlm-ci", "check"], cwd=repo.path, env={**path, "GIT_DIR": str(tmp_path / "gone")},
        capture_output=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 5
    assert b"gone)" in ended.stderr
    assert b"hint: unset GIT_DIR" in ended.stderr


def test_without_rlm_ci_the_hook_says_so(hooked: GitRepo) -> None:
    hooked.write("a.py", "a\n")
    code, said = commit(hooked, {"PATH": "/usr/bin:/bin"})
    assert code != 0
    assert "rlm-ci is not installed" in said
    assert "hint:" in said
