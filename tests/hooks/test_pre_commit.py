""".pre-commit-hooks.yaml through the real pre-commit: it builds its own environment from us."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from testing.repositories.archives import stub
from testing.repositories.delegated_runs import registered, write_index
from testing.repositories.git_repo import GitRepo

TOP = Path(__file__).resolve().parents[2]
PRE_COMMIT = Path(sys.executable).with_name("pre-commit")
CONFIG = """\
default_install_hook_types: [pre-commit, pre-push]
repos:
  - repo: {url}
    rev: {rev}
    hooks:
      - {{id: diff-budget-staged, verbose: true}}
      - {{id: diff-budget, verbose: true}}
      - {{id: doc-archive, verbose: true}}
      - {{id: delegation-guard, verbose: true}}
      - {{id: rlm-fix, verbose: true}}
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str, str]:
    """Our checkout as a repository with one commit; its path, the commit, pre-commit's home.

    All workers share them: pre-commit takes seconds for its environment, and makes it once a home.
    """
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    place = shared / "published"
    if not place.exists():
        made = tmp_path_factory.mktemp("made")
        _publish(made / "rlm-ci")
        with suppress(OSError):  # another worker was quicker
            made.rename(place)
    ours = place / "rlm-ci"
    return str(ours), GitRepo(ours).sha("HEAD"), str(place / "home")


def _publish(place: Path) -> None:
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=TOP, capture_output=True, check=True,
    ).stdout.decode().split("\0")  # fmt: skip
    ours = GitRepo(place)
    for name in names:
        if name and not name.startswith("tests/") and (TOP / name).is_file():
            ours.write(name, (TOP / name).read_bytes())
    ours.commit("Publish")


@pytest.fixture
def env(published: tuple[str, str, str]) -> dict[str, str]:
    """What git hands to pre-commit on top of its own environment."""
    return {"PRE_COMMIT_HOME": published[2]}


@pytest.fixture
def project(repo: GitRepo, published: tuple[str, str, str], env: dict[str, str]) -> GitRepo:
    url, rev, _ = published
    repo.write(".pre-commit-config.yaml", CONFIG.format(url=url, rev=rev))
    repo.commit("Start")
    ended = run(repo, env, "install")
    assert ended[0] == 0, ended
    return repo


def run(repo: GitRepo, env: dict[str, str], *args: str) -> tuple[int, str]:
    ended = subprocess.run(
        [str(PRE_COMMIT), *args],
        cwd=repo,
        env=os.environ | env,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return ended.returncode, ended.stdout + ended.stderr


def test_the_manifest_is_valid() -> None:
    ended = subprocess.run(
        [str(PRE_COMMIT), "validate-manifest", str(TOP / ".pre-commit-hooks.yaml")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.full
def test_a_range_is_judged_and_that_nothing_is_staged_is_said(
    repo: GitRepo, tmp_path: Path
) -> None:
    program = Path(sys.executable).with_name("rlm-ci")
    hooks = "".join(
        f"      - {{id: {name}, name: {name}, entry: {program} check {name} --staged, "
        "language: system, always_run: true, pass_filenames: false, verbose: true}\n"
        for name in ("diff-budget", "test-guard")
    )
    repo.write(".pre-commit-config.yaml", f"repos:\n  - repo: local\n    hooks:\n{hooks}")
    repo.write("test_a.py", "def test_a():\n    assert 1\n").commit("Start")
    repo.checkout("topic", new=True).remove("test_a.py").write("big.txt", "x\n" * 3000).commit()
    env = {"PRE_COMMIT_HOME": str(tmp_path / "home")}
    code, said = run(repo, env, "run", "--from-ref", "main", "--to-ref", "HEAD")
    assert code == 1
    assert "3,002 lines changed (limit 1,200)" in said
    assert "test_a is gone" in said
    code, said = run(repo, env, "run", "--all-files")
    assert code == 0, said
    assert "0 files (limit 25), 0 lines (limit 1,200); nothing is staged" in said
    assert "test-guard  nothing is staged" in said
    assert "no test is weakened" not in said


@pytest.mark.full
def test_commit_and_push_through_pre_commit(
    project: GitRepo, tmp_path: Path, env: dict[str, str]
) -> None:
    env |= {"SKIP": "delegation-guard"}  # there are no tasks here
    project.write_all({f"src/-file {n}.py": "print()\n" for n in range(26)})
    project.run("add", "-A")
    ended = project.attempt("commit", "-m", "Too much", env=env)
    said = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 1, said
    assert "26 files changed" in said
    assert "diff budget staged" in said
    project.run("commit", "--no-verify", "-qm", "Too much all the same")

    GitRepo(tmp_path / "remote", bare=True)
    project.remote(tmp_path / "remote")
    ended = project.attempt("push", "origin", "main", env=env)  # pre-commit gives no refs here
    said = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 1, said
    assert "27 files (limit 25)" in said
    project.run("push", "--no-verify", "-q", "origin", "main")
    project.write("a.py", "a\n")
    project.commit("A little")
    ended = project.attempt("push", "origin", "main", env=env)
    said = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 0, said
    assert "1 file (limit 25), 1 line (limit 1,200)" in said


@pytest.mark.full
def test_what_others_brought_is_not_held_against_a_merge_or_a_rebase(
    project: GitRepo, tmp_path: Path, env: dict[str, str]
) -> None:
    env |= {"SKIP": "delegation-guard"}
    GitRepo(tmp_path / "remote", bare=True)
    project.remote(tmp_path / "remote").push("--no-verify", "origin", "main")
    project.checkout("topic", new=True).write("a.py", "topic\n").commit("Topic")
    project.push("--no-verify", "origin", "topic").branch("other")
    project.checkout("main").write_all({"a.py": "main\n", "big.txt": "x\n" * 3000}).commit()
    project.push("--no-verify", "origin", "main").checkout("topic")
    assert project.attempt("merge", "main").returncode == 1
    project.write("a.py", "both\n").stage("a.py")
    ended = project.attempt("commit", "--no-edit", env=env)
    said = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 0, said
    assert "1 file (limit 25), 2 lines (limit 1,200); for a merge" in said
    ended = project.attempt("push", "origin", "topic", env=env)
    said = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 0, said
    assert "1 file (limit 25), 2 lines (limit 1,200); for a merge" in said
    project.checkout("other")
    project.run("rebase", "-q", "-X", "theirs", "main")
    ended = project.attempt("push", "--force", "origin", "other:topic", env=env)
    said = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 0, said
    assert "1 file (limit 25), 2 lines (limit 1,200)" in said


@pytest.mark.full
def test_the_guard_fails_a_commit_without_a_subagent_run(
    project: GitRepo, env: dict[str, str]
) -> None:
    write_index(Path(project), registered("0951-guard"))
    project.run("add", "-A")
    ended = project.attempt(
        "commit", "-m", "A task", env={**env, "MCP_RUNNER_TASK_ID": "0951-guard"}
    )
    said = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 1
    assert "Missing: a subagent run of 0951-guard" in said


@pytest.mark.full
def test_documents_are_judged_by_name(project: GitRepo, env: dict[str, str]) -> None:
    project.branch("doc-archives")
    project.write("docs/-my plan.md", stub("docs/-my plan.md")).write("docs/other.md", "# Other\n")
    project.run("add", "-A")
    code, said = run(project, env, "run", "doc-archive", "--all-files")
    assert code == 1, said
    assert "doc-archive/dangling" in said
    code, said = run(project, env, "run", "doc-archive", "--files", "docs/other.md")
    assert code == 0, said
    assert "no stubs" in said


@pytest.mark.full
def test_in_a_submodule_and_in_a_linked_work_tree(
    project: GitRepo, env: dict[str, str], tmp_path: Path
) -> None:
    env |= {"SKIP": "delegation-guard"}  # there are no tasks here
    top = GitRepo(tmp_path / "top")
    top.run("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(project.path), "lib")
    library = GitRepo(top.path / "lib").write("a.md", "# A\n")
    library.run("add", "-A")
    asked = f"{PRE_COMMIT} run diff-budget-staged && {PRE_COMMIT} install && git commit -m A"
    ended = top.attempt("submodule", "foreach", asked, env=env)
    said = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 0, said
    assert said.count("1 file (limit 25), 1 line (limit 1,200)") == 2, said
    linked = library.worktree(tmp_path / "linked", branch="other").write("b.md", "# B\n")
    linked.run("add", "-A")
    said = linked.run("commit", "-m", "B", env={**env, "GIT_DIR": ".git"}).decode()
    assert linked.text("log", "-1", "--format=%s") == "B", said


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")
def test_fixing_when_asked(project: GitRepo, env: dict[str, str]) -> None:
    # The validator and the fixer are the project's own, and on its PATH.
    env = {**env, "CI": "", "PATH": f"{PRE_COMMIT.parent}{os.pathsep}{os.environ['PATH']}"}
    project.write(".gitignore", ".runs/\nout/\n").write("ruff.toml", "")
    project.write("rlm-ci.toml", '[loop]\nvalidator = "ruff check ."\n')
    project.write("shop.py", "import os\nimport sys\n\nprint(sys.path)\n")
    project.run("add", "-A")
    ended = project.attempt("commit", "-m", "Lint", env=env | {"SKIP": "delegation-guard"})
    said = (ended.stdout + ended.stderr).decode()
    assert ended.returncode == 0, said
    assert "rlm fix" not in said, "it runs only when asked"

    asked = ("run", "--hook-stage", "manual", "rlm-fix")
    code, said = run(project, env, *asked)
    assert code == 1, said
    assert "files were modified by this hook" in said
    assert (project.path / "shop.py").read_text() == "import sys\n\nprint(sys.path)\n"
    project.run("add", "-A")
    code, said = run(project, env, *asked)
    assert code == 0, said
    assert "the validator passes" in said
