"""The change side of the real command: which change, which figures, which exit code."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci import checks
from testing import reference_counts
from testing.repositories import events
from testing.repositories.changes import (
    HOSTILE_NAMES,
    HOSTILE_TEXTS,
    every_kind_of_change,
    hostile_messages,
    hostile_names,
    numbered,
    pending_changes,
    small_change,
)
from testing.repositories.git_repo import EMPTY_TREE, ZERO_SHA, GitRepo, History
from testing.repositories.shapes import (
    SELF_HIDING,
    attributed,
    first_push,
    merge_commit,
    root_commit,
    set_traps,
    shallow_clone,
    sprung,
    unborn_head,
    unrelated_histories,
)

if TYPE_CHECKING:
    from testing.program import Cli, Ended

posix = pytest.mark.skipif(os.name != "posix", reason="signals, hooks and programs of POSIX")


def budget(cli: Cli, repo: GitRepo, *args: Any, **more: Any) -> dict[str, Any]:
    """The metrics of the diff budget, by the command."""
    ended = cli("check", "diff-budget", *args, "--format", "json", cwd=repo, **more)
    report = ended.json()
    assert ended.code == {"clean": 0, "findings": 1}[report["verdict"]], ended
    part = next(part for part in report["parts"] if part["id"] == "diff-budget")
    metrics: dict[str, Any] = part["metrics"]
    return metrics


def refused(ended: Ended, code: int = 5) -> str:
    """What stderr says: two harmless lines, and no verdict of clean."""
    assert ended.code == code, ended
    assert ended.stderr.startswith("error: "), ended
    assert "\nhint: " in ended.stderr
    assert "Traceback" not in ended.stderr
    assert all(line.isprintable() for line in ended.stderr.splitlines())
    assert not any(line.startswith(("::", "##[")) for line in ended.stderr.splitlines())
    assert "✓" not in ended.stdout
    return ended.stderr


# -- figures ------------------------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize("builder", [every_kind_of_change, hostile_names, hostile_messages])
def test_the_figures_are_git_s_from_anywhere(
    cli: Cli, repo: GitRepo, tmp_path: Path, builder: Any
) -> None:
    history = builder(repo)
    expected = reference_counts.budget(
        reference_counts.numstat(repo, history.base, history.head)
    ).metrics()
    flags = ("--base", history.base, "--head", history.head)
    (repo.path / "below" / "it").mkdir(parents=True)
    tree = repo.worktree(tmp_path / "linked")
    clone = repo.clone(tmp_path / "clone", "--no-checkout")
    clone.config("diff.renames", "false").config("diff.noprefix", "true")
    clone.config("diff.external", "false").config("diff.algorithm", "histogram")
    for place in (repo.path, repo.path / "below" / "it", tree.path, clone.path):
        found = budget(cli, repo, *flags, "-C", place)
        assert {name: found[name] for name in expected} == expected


def test_no_renames_is_a_flag(cli: Cli, repo: GitRepo) -> None:
    history = every_kind_of_change(repo)
    rows = reference_counts.numstat(repo, history.base, history.head, options=["--no-renames"])
    found = budget(cli, repo, "--base", history.base, "--no-renames")
    assert (found["files"], found["lines"]) == (len(rows), reference_counts.budget(rows).lines)


@pytest.mark.sample(2)
@pytest.mark.parametrize("hiding", SELF_HIDING)
def test_a_pull_request_cannot_hide_itself(cli: Cli, repo: GitRepo, hiding: str) -> None:
    history = attributed(repo, hiding)
    repo.write("rlm-ci.toml", '[diff_budget]\nmax_files = 999\nignore = ["*"]\n')
    head = repo.commit("And more room")
    ended = cli("check", "diff-budget", "--base", history.base, "--max-files", "3", cwd=repo)
    assert ended.code == 1
    assert "diff-budget/files" in ended.stdout
    assert "edited here, and not used" in ended.stdout
    assert budget(cli, repo, "--base", history.base, "--head", head)["max_files"] == 25


def test_local_work_is_judged_in_each_of_its_forms(cli: Cli, repo: GitRepo) -> None:
    history = pending_changes(repo)
    assert budget(cli, repo)["files"] == 5
    assert budget(cli, repo, "--staged")["files"] == 3
    assert budget(cli, repo, "--hook", "pre-commit")["files"] == 3
    assert budget(cli, repo, "--commit", history.head)["files"] == 6


@pytest.mark.parametrize("base", ["main", "HEAD", "later"])
def test_a_head_without_a_change_is_said(cli: Cli, repo: GitRepo, base: str) -> None:
    repo.commit()
    repo.checkout("later", new=True).write("a.py", "x = 1\n").commit()
    repo.checkout("main")
    ended = cli("check", "--base", base, cwd=repo)
    text = " ".join(ended.stdout.split())
    assert text.count("the head has nothing that the base lacks") == 2
    assert "no test is weakened" not in text


def test_commits_with_no_one_and_two_parents(cli: Cli, tmp_path: Path) -> None:
    root = root_commit(GitRepo(tmp_path / "root"))
    assert budget(cli, root.repo, "--commit", "HEAD")["lines"] == 5
    merge = merge_commit(GitRepo(tmp_path / "merge"))
    assert budget(cli, merge.repo, "--commit", "HEAD")["lines"] == 6
    unborn = unborn_head(GitRepo(tmp_path / "unborn"))
    assert budget(cli, unborn)["lines"] == 5
    assert budget(cli, unborn, "--staged")["lines"] == 3
    refused(cli("check", "diff-budget", "--commit", "HEAD", cwd=unborn))


def test_the_last_to_be_asked_is_the_base_of_this_one_check(cli: Cli, repo: GitRepo) -> None:
    history = small_change(repo)
    repo.write("new.py", "1\n")
    own = {"DIFF_BUDGET_BASE": history.base}
    assert budget(cli, repo, env=own)["files"] == 2
    assert budget(cli, repo, env={**own, "BASE_SHA": history.head})["files"] == 0
    assert budget(cli, repo, "--base", history.head, env=own)["files"] == 0
    refused(cli("check", "diff-budget", cwd=repo, env={"DIFF_BUDGET_BASE": "no-such"}))
    refused(cli("check", "diff-budget", cwd=repo, env={**own, "BASE_SHA": "no-such"}))


def test_a_base_of_this_one_check_that_is_not_there_stops_no_other(cli: Cli, repo: GitRepo) -> None:
    head = small_change(repo).head
    wrong = {"DIFF_BUDGET_BASE": "no-such"}
    for command, worktree in ((("check",), True), (("pr", "--out", "../out"), False)):
        ended = cli(*command, "--format", "json", cwd=repo, env=wrong)
        assert "(DIFF_BUDGET_BASE)" in refused(ended)
        assert ended.stderr.count("error: ") == 1
        report = ended.json()
        assert report["verdict"] == "not_run"
        states = {part["id"]: part["verdict"] for part in report["parts"]}
        assert states.pop("review", "clean") == "clean"  # pr has it too
        assert states == dict.fromkeys(checks.names(), "clean") | {"diff-budget": "not_run"}
        assert (report["subject"]["head"] is None) == worktree
        assert report["subject"]["head"] in (None, head)
    repo.write("rlm-ci.toml", 'checks = ["doc-archive"]\n')
    assert cli("check", cwd=repo, env=wrong).code == 0  # it speaks to nobody


def test_flags_stand_above_the_environment_and_that_above_the_file(cli: Cli, repo: GitRepo) -> None:
    repo.write("rlm-ci.toml", "[diff_budget]\nmax_files = 7\n").commit()
    weak, strong = {"DIFF_BUDGET_MAX_FILES": "8"}, {"RLM_CI_DIFF_BUDGET_MAX_FILES": "9"}
    assert budget(cli, repo)["max_files"] == 7
    assert budget(cli, repo, env=weak)["max_files"] == 8
    assert budget(cli, repo, env=weak | strong)["max_files"] == 9
    assert budget(cli, repo, "--max-files", "0", env=weak | strong)["max_files"] == 0
    for name in ("DIFF_BUDGET_MAX_LINES", "RLM_CI_DIFF_BUDGET_MAX_LINES"):
        said = refused(cli("check", "diff-budget", cwd=repo, env={name: "lots"}))
        assert f"({name})" in said
    assert "--max-lines" in refused(cli("check", "diff-budget", "--max-lines", "-1", cwd=repo))
    repo.write("rlm-ci.toml", "[diff_budget]\nmax_files = -7\n")
    assert "rlm-ci.toml" in refused(cli("check", "diff-budget", cwd=repo))


def test_an_override_is_reported_and_does_not_fail(cli: Cli, repo: GitRepo) -> None:
    history = small_change(repo)
    body = "Diff budget override: a vendored parser"
    labels = ["diff-budget-override"]
    for given, code in (((labels, body), 0), (([], body), 1), ((labels, "none"), 1)):
        payload = events.pull_request(history.base, history.head, labels=given[0], body=given[1])
        path = events.write_event(repo.path.parent, payload)
        ended = cli("check", "diff-budget", "--max-files", "1", "--event", path, cwd=repo)
        assert ended.code == code
        assert ("diff-budget/files" in ended.stdout) == bool(code)
        assert ("override-incomplete" in ended.stdout) == bool(code)
        assert ("a vendored parser" in " ".join(ended.stdout.split())) != bool(code)
    reason = {"DIFF_BUDGET_OVERRIDE_REASON": "because"}
    args = ("check", "diff-budget", "--base", history.base, "--max-files", "1")
    assert cli(*args, cwd=repo, env=reason).code == 0
    assert cli(*args, "--dry-run", cwd=repo).code == 0


def test_every_name_passes_through_every_format(cli: Cli, repo: GitRepo) -> None:
    history = hostile_names(repo)
    for form in ("text", "json", "markdown", "sarif", "github", "html"):
        args = ("--base", history.base, "--max-files", "1", "--format", form)
        ended = cli("check", "diff-budget", *args, cwd=repo)
        assert ended.code == 1, (form, ended.stderr)
        assert not ended.stderr
    for name in HOSTILE_NAMES:
        assert os.path.lexists(repo.place(name))
    assert not repo.text("status", "--porcelain")


def test_a_policy_file_in_a_folder_of_any_name_is_told(cli: Cli, repo: GitRepo) -> None:
    base = repo.write("a", "1\n").commit()
    for folder in ("caf\udce9", "new\nline", "a b"):
        repo.write(f"{folder}/.gitattributes", "* linguist-generated\n")
    repo.commit()
    ended = cli("check", "diff-budget", "--base", base, "--format", "json", cwd=repo)
    assert ended.code == 0, ended
    assert ended.json()["parts"][-1]["metrics"] == {"edited": 3}


# -- what cannot be judged is never clean -------------------------------------------------------


@pytest.mark.parametrize("command", [("check",), ("check", "diff-budget"), ("pr",)])
def test_a_shallow_clone_says_what_mends_it(
    cli: Cli, tmp_path: Path, command: tuple[str, ...]
) -> None:
    history = shallow_clone(GitRepo(tmp_path / "origin"), tmp_path / "clone")
    said = refused(cli(*command, "--base", "origin/main", cwd=history.repo))
    hint = said.partition("hint: the clone is shallow: ")[2].partition("\n")[0]
    history.repo.run(*hint.split()[1:])
    assert budget(cli, history.repo, "--base", "origin/main")["lines"] == 5


@pytest.mark.parametrize("ref", ["no-such-branch", "-rf", "--output=canary", "dead" * 10, "a\nb"])
@pytest.mark.parametrize("flag", ["--base", "--head", "--commit"])
def test_a_ref_that_names_nothing_is_refused(cli: Cli, repo: GitRepo, ref: str, flag: str) -> None:
    small_change(repo)
    before = sorted(os.listdir(repo.path))
    refused(cli("check", "diff-budget", f"{flag}={ref}", cwd=repo))
    assert sorted(os.listdir(repo.path)) == before


def test_flags_that_name_two_changes_are_a_mistake_in_the_arguments(
    cli: Cli, repo: GitRepo
) -> None:
    ended = cli("check", "--staged", "--base", "HEAD", cwd=repo)
    assert "--staged and --base name different changes" in refused(ended, 2)


def test_two_histories_that_never_met_are_refused(cli: Cli, repo: GitRepo) -> None:
    unrelated_histories(repo)
    assert "no common commit" in refused(cli("check", "diff-budget", "--base", "main", cwd=repo))


def test_outside_of_a_repository_it_is_refused(cli: Cli) -> None:
    assert "not a git repository" in refused(cli("check", "diff-budget"))
    assert "not a git repository" in refused(cli("pr"))


def test_a_bare_repository_is_called_so(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    small_change(repo)
    bare = repo.clone(tmp_path / "bare it.git", bare=True)
    for args in (("check", "diff-budget", "--commit", "HEAD"), ("pr", "--out", tmp_path / "out")):
        said = refused(cli(*args, cwd=bare))
        assert "a bare repository has no work tree" in said
        assert f"git clone '{bare.path}'" in said


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs another user")
def test_a_repository_of_another_user_says_what_mends_it(cli: Cli, repo: GitRepo) -> None:
    history = small_change(repo)
    for folder, _, _ in os.walk(repo.path):
        os.chown(folder, 65_534, 65_534)
    args = ("check", "diff-budget", "--base", history.base)
    said = refused(cli(*args, cwd=repo))
    command = said.partition("hint: to trust it: ")[2].strip()
    assert command == f"git config --global --add safe.directory {repo.path}"
    subprocess.run(command.split(), check=True)
    assert cli(*args, cwd=repo).code == 0


@posix
def test_without_git_it_is_unavailable(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    small_change(repo)
    said = refused(cli("check", "diff-budget", cwd=repo, env={"PATH": str(tmp_path)}), code=4)
    assert "install git" in said


# -- events -------------------------------------------------------------------------------------


@pytest.mark.full
def test_every_event_by_flag_and_by_the_runner(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    history = small_change(repo)
    for case, (name, payload) in events.every_event(history.base, history.head).items():
        path = events.write_event(tmp_path, payload)
        ended = cli("check", "diff-budget", cwd=repo, env=events.actions_environment(name, path))
        if name == "issue_comment" or case == "push that deletes":
            refused(ended)
        else:
            assert ended.code == 0, (case, ended)
            files = 0 if name in ("schedule", "workflow_dispatch") else 2
            assert f"{files} files (limit 25)" in ended.stdout, case


@pytest.mark.sample(2)
@pytest.mark.parametrize("text", [HOSTILE_TEXTS[n] for n in (2, 3, 4, 5, 10, 11, 13, 14, 16)])
def test_hostile_texts_in_an_event_reach_nobody(
    cli: Cli, repo: GitRepo, tmp_path: Path, text: str
) -> None:
    history = small_change(repo)
    payload = events.pull_request(
        history.base, history.head, title=text, labels=[text, "diff-budget-override"],
        body=f"Diff budget override: {text}", base_ref=text, head_ref=text,
    )  # fmt: skip
    payload["repository"]["full_name"] = text
    path = events.write_event(tmp_path, payload)
    before = sorted(os.listdir(repo.path))
    for form in ("text", "github", "markdown"):
        ended = cli(
            "check", "diff-budget", "--max-files", "1", "--event", path, "--format", form, cwd=repo
        )
        assert ended.code in (0, 1), ended
        lines = ended.stdout.splitlines() + ended.stderr.splitlines()
        assert not any(line.startswith(("::error file=a.py", "::set-output")) for line in lines)
        assert "\x1b" not in ended.stdout
        assert "\u202e" not in ended.stdout
    assert sorted(os.listdir(repo.path)) == before


def test_an_event_that_cannot_be_read_is_refused(cli: Cli, repo: GitRepo, tmp_path: Path) -> None:
    small_change(repo)
    path = tmp_path / "event.json"
    contents = (b"[" * 100_000, b"\xff", b"[]", b'{"pull_request": {}}', b"", b"x" * (33 << 20))
    for content in contents:
        path.write_bytes(content)
        for command in (("pr",), ("check", "diff-budget")):
            refused(cli(*command, "--event", path, cwd=repo))
    refused(cli("check", "--event", tmp_path / "none", cwd=repo))


@pytest.mark.skipif(not os.path.exists("/dev/stdin"), reason="needs /dev/stdin")
def test_an_event_may_come_through_a_pipe(cli: Cli, repo: GitRepo) -> None:
    history = small_change(repo)
    payload = json.dumps(events.pull_request(history.base, history.head))
    args = ("check", "diff-budget", "--format", "json", "--event")
    for path in ("/dev/stdin", "/dev/fd/0"):
        ended = cli(*args, path, cwd=repo, stdin=payload)
        assert ended.json()["subject"]["head"] == history.head
        for wrong in ("", "[]"):
            refused(cli(*args, path, cwd=repo, stdin=wrong))
    refused(cli(*args, "/dev/fd/99", cwd=repo))
    large = cli(*args, "/dev/stdin", cwd=repo, stdin="x" * (33 << 20))
    assert "more than 33,554,432 bytes" in refused(large)


# -- hooks: the real git runs the real command --------------------------------------------------


def hook(repo: GitRepo, stage: str, *args: str) -> None:
    """Let ``stage`` of the repository run the diff budget."""
    folder = repo.path / ".git" / "hooks"
    folder.mkdir(exist_ok=True)
    words = " ".join([f"'{sys.executable}' -I -m rlm_ci check diff-budget", *args])
    (folder / stage).write_text(f"#!/bin/sh\nexec {words}\n")
    (folder / stage).chmod(0o755)


@posix
@pytest.mark.parametrize("form", ["index", "-a", "paths", "worktree", "subfolder"])
def test_a_commit_is_judged_by_the_index_that_it_will_have(
    repo: GitRepo, tmp_path: Path, form: str
) -> None:
    repo.write_all({"a.py": "1\n", "b.py": "1\n", "sub/c.py": "1\n"}).commit()
    hook(repo, "pre-commit", "--staged", "--max-files", "1")
    place = repo.worktree(tmp_path / "linked", branch="linked") if form == "worktree" else repo
    place.append("a.py", "2\n").append("b.py", "2\n")
    cwd = place.path / "sub" if form == "subfolder" else place.path
    git = GitRepo(cwd)
    if form in ("index", "worktree", "subfolder"):
        place.stage("a.py")
    words = {"-a": ["-a"], "paths": ["a.py"]}.get(form, [])
    ended = git.attempt("commit", "-m", "x", *words)
    assert ended.returncode == (1 if form == "-a" else 0), ended.stderr
    place.stage()
    if form != "paths":
        place.append("sub/c.py", "2\n").stage()
        assert git.attempt("commit", "-m", "y").returncode == 1


@posix
def test_the_first_commit_of_all_is_judged(repo: GitRepo) -> None:
    hook(repo, "pre-commit", "--staged", "--max-lines", "5")
    repo.write("a.py", numbered(6)).stage()
    ended = repo.attempt("commit", "-m", "x")
    assert ended.returncode == 1
    assert b"6 lines changed" in ended.stdout + ended.stderr
    repo.write("a.py", numbered(5)).stage()
    assert repo.attempt("commit", "-m", "x").returncode == 0


@posix
def test_a_push_of_several_refs_is_judged_ref_by_ref(tmp_path: Path) -> None:
    history = first_push(GitRepo(tmp_path / "origin"), tmp_path / "clone")
    clone = history.repo
    bare = clone.clone(tmp_path / "bare", bare=True)
    clone.run("remote", "set-url", "origin", os.fspath(bare))
    clone.run("push", "-q", "origin", "feature:old")
    hook(clone, "pre-push", "--hook", "pre-push", "--max-lines", "5")
    clone.tag("v1", history.base)
    assert clone.attempt("push", "origin", "feature", ":old", "v1", "main:copy").returncode == 0
    clone.write("more.py", numbered(6)).commit()
    clone.branch("small", history.head)
    ended = clone.attempt("push", "origin", "feature", "small")
    assert ended.returncode == 1
    assert b"feature: " in ended.stdout + ended.stderr
    assert clone.attempt("push", "origin", "small").returncode == 0


def test_a_push_that_git_would_not_tell_is_refused(cli: Cli, repo: GitRepo) -> None:
    history = small_change(repo)
    args = ("check", "diff-budget", "--hook", "pre-push")
    refused(cli(*args, cwd=repo, stdin="nonsense\n"))
    assert cli(*args, cwd=repo, stdin="").code == 0
    deleted = f"(delete) {ZERO_SHA} refs/heads/x {history.head}\n"
    assert cli(*args, cwd=repo, stdin=deleted).code == 0
    assert EMPTY_TREE not in cli(*args, cwd=repo, stdin=deleted).stdout


# -- nothing of the repository runs -------------------------------------------------------------


@pytest.mark.sample(2)
@posix
@pytest.mark.parametrize("command", [
    ("check", "--base", "BASE"), ("pr", "--base", "BASE", "--out", "OUT"),
    ("check", "--event", "EVENT"), ("check", "--commit", "HEAD"), ("config", "--base", "BASE"),
    ("check", "--hook", "pre-push"),
    ("check", "diff-budget", "--staged"), ("pr", "--out", "OUT"),
])  # fmt: skip
def test_no_command_springs_a_trap(
    cli: Cli, repo: GitRepo, tmp_path: Path, command: tuple[str, ...]
) -> None:
    history = attributed(repo, "* filter=trap diff=trap merge=trap\n")
    repo.branch("side", history.base)
    payload = events.from_fork(history.base, history.head)
    places = {
        "BASE": history.base, "OUT": str(tmp_path / "out"),
        "EVENT": str(events.write_event(tmp_path, payload)),
    }  # fmt: skip
    set_traps(repo, tmp_path / "canary")
    pushed = f"refs/heads/x {history.head} refs/heads/x {history.base}\n"
    ended = cli(*(places.get(word, word) for word in command), cwd=repo, stdin=pushed)
    assert ended.code in (0, 1, 5), ended
    assert sprung(tmp_path / "canary") == []
    assert "internal error" not in ended.stderr


# -- interrupts ---------------------------------------------------------------------------------

SLOW = """#!/bin/sh
case "$*" in *numstat*) echo $$ >{pids}; sleep 60 & echo $! >>{pids}; wait;; esac
exec {git} "$@"
"""


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_ends_git_and_what_git_started(
    repo: GitRepo, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    history: History = attributed(repo)
    pids = tmp_path / "pids"
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "git").write_text(SLOW.format(pids=pids, git=shutil.which("git")))
    (folder / "git").chmod(0o755)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    child = subprocess.Popen(
        [sys.executable, "-I", "-m", "rlm_ci", "check", "diff-budget", "--base", history.base],
        cwd=repo, env={**os.environ, "PATH": path, "TMPDIR": str(scratch)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    end = time.monotonic() + 20
    while time.monotonic() < end and (not pids.exists() or pids.read_text().count("\n") < 2):
        time.sleep(0.01)
    time.sleep(0.2)  # by then it waits for git, and makes no folder
    child.send_signal(number)
    out, err = child.communicate(timeout=20)
    assert child.returncode == code
    assert (out, b"Traceback" in err) == (b"", False)
    started = [int(line) for line in pids.read_text().split()]
    while time.monotonic() < end and not all(map(gone, started)):
        time.sleep(0.01)
    assert all(map(gone, started))
    assert os.listdir(scratch) == []


# -- what is said fixes it ----------------------------------------------------------------------


def test_a_shallow_clone_of_one_branch_is_told_how_to_get_its_base(
    cli: Cli, repo: GitRepo, tmp_path: Path
) -> None:
    repo.write("a", "1\n").commit()
    repo.checkout("pr", new=True).write("a", "2\n").commit()
    clone = tmp_path / "clone"
    repo.run("clone", "-q", "--depth", "1", "-b", "pr", repo.path.as_uri(), os.fspath(clone))
    ended = cli("check", "diff-budget", "--base", "main", cwd=clone)
    assert ended.code == 5
    hint = ended.stderr.partition("hint: the clone is shallow: ")[2]
    for command in hint.partition(";")[0].split(" && "):
        GitRepo(clone).run(*command.split()[1:])
    ended = cli("check", "diff-budget", "--base", "main", cwd=clone)
    assert (ended.code, "1 file (limit 25), 2 lines (limit 1,200)" in ended.stdout) == (0, True), (
        ended
    )


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="gives files to another user")
@pytest.mark.parametrize("args", [(), ("--staged",)])
def test_a_work_tree_of_another_owner_is_explained(
    cli: Cli, repo: GitRepo, args: tuple[str, ...]
) -> None:
    repo.write("a", "1\n").commit()
    for folder, _, names in os.walk(repo.path):
        for name in ("", *names):
            os.lchown(os.path.join(folder, name), 1234, 1234)
    ended = cli("check", "diff-budget", *args, cwd=repo)
    assert ended.code == 5
    assert "git config --global --add safe.directory" in ended.stderr
