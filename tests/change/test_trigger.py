"""Which change is meant: the order of precedence, and what each way of telling it means."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.change import change_set, trigger
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import Settings
from rlm_ci.errors import CONFIG, ConfigError, UsageError
from rlm_ci.git.repository import Repository, discover
from rlm_ci.judge.options import change_choice
from testing.repositories import events
from testing.repositories.changes import HOSTILE_BRANCHES, hostile_messages, small_change
from testing.repositories.git_repo import ZERO_SHA, GitRepo, History
from testing.repositories.shapes import (
    base_moved_ahead,
    criss_cross,
    dangling_names,
    first_push,
    merged_branches,
    set_traps,
    sprung,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rlm_ci.change.change_set import ChangeSet
    from testing.program import Cli

STATED = "the default of the command"


def select(
    repo: GitRepo,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    stdin: str = "",
) -> list[ChangeSet]:
    """The changes; one whose trigger is STATED where nothing told any."""
    return trigger.select(
        change_choice(Settings(CORE, flags or {}, environ or {})),
        Repository(*discover(os.fspath(repo)), os.environ),
        lambda opened: change_set.ChangeSet(opened, STATED),
        lambda: stdin.encode("utf-8", "surrogateescape"),
    )


def failure(repo: GitRepo, *args: Any, **more: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        select(repo, *args, **more)
    assert caught.value.code == CONFIG
    assert caught.value.hint
    return caught.value


def one(found: list[ChangeSet]) -> ChangeSet:
    assert len(found) == 1
    return found[0]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> History:
    return small_change(GitRepo(tmp_path_factory.mktemp("triggers") / "repo"))


# -- precedence ---------------------------------------------------------------------------------


def sources(history: History, folder: Path) -> list[tuple[str, dict[str, Any], dict[str, str]]]:
    """Every way to tell a change, strongest first: the trigger that it makes, flags, variables."""
    event = events.write_event(folder, events.merge_group(history.base, history.head), "flag.json")
    ambient = events.write_event(folder, events.push(history.base, history.head), "ambient.json")
    return [
        ("commit", {"commit": "HEAD"}, {}),
        ("index", {"staged": True}, {}),
        ("range", {"base": history.base}, {}),
        ("merge_group", {"event": str(event)}, {}),
        ("push", {}, events.actions_environment("push", ambient)),
        ("push", {}, {"PRE_COMMIT_FROM_REF": history.base, "PRE_COMMIT_TO_REF": "HEAD"}),
        ("push", {}, {"PRE_COMMIT_REMOTE_NAME": "origin", "PRE_COMMIT_LOCAL_BRANCH": "HEAD"}),
        ("range", {}, {"BASE_SHA": history.base}),
    ]


@pytest.mark.parametrize("first", range(9))
def test_the_first_that_is_given_wins(history: History, tmp_path: Path, first: int) -> None:
    given = sources(history, tmp_path)
    expected = given[first][0] if first < len(given) else STATED
    flags = given[first][1] if first < len(given) else {}
    environ = {key: value for _, _, more in given[first:] for key, value in more.items()}
    assert one(select(history.repo, flags, environ)).trigger == expected


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ({"staged": True, "base": "HEAD"}, "--staged and --base"),
        ({"staged": True, "commit": "HEAD"}, "--commit and --staged"),
        ({"commit": "HEAD", "base": "HEAD", "head": "HEAD"}, "--commit and --base and --head"),
    ],
)
def test_flags_that_name_two_changes_are_refused(
    history: History, flags: dict[str, Any], told: str
) -> None:
    with pytest.raises(UsageError, match=f"{told} name different changes"):
        select(history.repo, flags)


BROKEN = "refs/heads/no-such-branch"


@pytest.mark.parametrize("first", range(8))
def test_one_that_does_not_resolve_is_an_error_and_never_the_next(
    history: History, tmp_path: Path, first: int
) -> None:
    given = sources(history, tmp_path)
    if first == 1:
        pytest.skip("the index is always there")
    flags = {}
    environ = {key: value for _, _, more in given[first + 1 :] for key, value in more.items()}
    for key in given[first][1]:
        flags[key] = str(tmp_path / "no-such-event") if key == "event" else BROKEN
    for key in given[first][2]:
        if key in ("PRE_COMMIT_TO_REF", "PRE_COMMIT_LOCAL_BRANCH", "BASE_SHA"):
            environ[key] = BROKEN
        elif key == "GITHUB_EVENT_PATH":
            environ |= {"GITHUB_ACTIONS": "true", key: str(tmp_path / "no-such-event")}
        else:
            environ[key] = given[first][2][key]
    failure(history.repo, flags, environ)


def test_an_event_path_counts_in_actions_only(history: History, tmp_path: Path) -> None:
    path = events.write_event(tmp_path, events.push(history.base, history.head))
    variables = events.actions_environment("push", path)
    assert one(select(history.repo, {}, variables)).trigger == "push"
    del variables["GITHUB_ACTIONS"]
    assert one(select(history.repo, {}, variables)).trigger == STATED


# -- refs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [kind for kind in dangling_names() if kind != "empty"])
@pytest.mark.parametrize("flag", ["base", "head", "commit", "BASE_SHA"])
def test_what_names_no_commit_is_an_error(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, flag: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ref = dangling_names()[kind]
    if flag == "BASE_SHA":
        if not ref.strip():
            return  # a variable that is blank is not given
        error = failure(history.repo, {}, {"BASE_SHA": ref})
    else:
        more = {"base": history.base} if flag == "head" else {}
        error = failure(history.repo, {flag: ref, **more})
    assert len(str(error)) < 300
    assert os.listdir(tmp_path) == []


def test_every_branch_that_git_accepts_can_be_judged(repo: GitRepo) -> None:
    history = hostile_messages(repo)
    before = sorted(os.listdir(repo.path))
    for name in HOSTILE_BRANCHES:
        change = one(select(repo, {"base": history.base, "head": f"refs/heads/{name}"}))
        assert change.head == history.head, name
        assert one(select(repo, {"commit": f"refs/heads/{name}"})).head == history.head
        if len(name) != 40:  # that one is an object id before it is a name
            found = one(select(repo, {"base": history.base, "head": name}))
            assert found.head == history.head, name
    assert sorted(os.listdir(repo.path)) == before


def test_an_error_shows_a_hostile_ref_harmless(history: History) -> None:
    for ref in ("\x1b[31mred", "a\n::error::b", "x\u202ey", "$(touch canary)", "x\udce9"):
        error = failure(history.repo, {"base": ref})
        assert str(error).isprintable()
        assert "touch" not in error.hint


def test_a_head_alone_is_against_the_default_branch(repo: GitRepo) -> None:
    history = base_moved_ahead(repo)
    change = one(select(repo, {"head": "feature"}))
    assert (change.base, change.merge_base) == (history.base, history.commits["fork"])
    assert one(select(repo, {"base": "main"})).merge_base == history.commits["fork"]


def test_without_a_default_branch_a_head_alone_is_an_error(repo: GitRepo) -> None:
    repo.checkout("other", new=True).write("a", "1\n").commit()
    error = failure(repo, {"head": "HEAD"})
    assert "--base" in error.hint


def test_the_merge_base_is_git_s_own(repo: GitRepo) -> None:
    history = criss_cross(repo)
    change = one(select(repo, {"base": history.base, "head": history.head}))
    assert change.merge_base == repo.text("merge-base", history.base, history.head)


def test_in_an_unborn_repository_a_range_is_an_error(repo: GitRepo) -> None:
    assert "no commit yet" in str(failure(repo, {"commit": "HEAD"}))


def test_outside_of_a_repository_it_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a git repository"):
        trigger.select(
            change_choice(Settings(CORE, {"base": "main"}, {})),
            Repository(str(tmp_path), None, os.environ),
            lambda _: pytest.fail("a given change is never the default"),
        )


# -- fetching what is missing -------------------------------------------------------------------


def run_hint(repo: GitRepo, error: ConfigError) -> None:
    """Do what the hint says, as a user would: by a shell."""
    command = error.hint.removeprefix("the clone is shallow: ").partition(";")[0]
    subprocess.run(
        command, shell=True, check=True, cwd=repo, capture_output=True, env=repo._env, timeout=60
    )


@pytest.mark.parametrize("depth", [0, 1])
@pytest.mark.parametrize("kind", ["branch", "id", "id that no branch holds"])
def test_the_command_that_fetches_a_missing_base_mends_it(
    tmp_path: Path, kind: str, depth: int
) -> None:
    origin = GitRepo(tmp_path / "origin")
    history = merged_branches(origin)
    late = history.base
    if kind == "id that no branch holds":
        origin.checkout(history.base, detach=True)
        late = origin.write("late.py", "1\n").commit("Late")
        origin.checkout("feature")
    options = [f"--depth={depth}"] if depth else []
    clone = origin.clone(tmp_path / "clone", "--single-branch", "--branch", "feature", *options)
    if not depth and kind == "id":
        late = origin.checkout("main").write("late.py", "1\n").commit("Late")
    base = "origin/main" if kind == "branch" else late
    error = failure(clone, {"base": base})
    run_hint(clone, error)
    change = one(select(clone, {"base": base}))
    assert change.merge_base == history.base
    assert {file.path for file in change.files()} == {"feature.py", "shared.py"}


def test_the_command_for_a_shallow_range_mends_it(tmp_path: Path) -> None:
    origin = GitRepo(tmp_path / "origin")
    history = base_moved_ahead(origin)
    clone = origin.clone(tmp_path / "clone", depth=1).checkout("feature")
    error = failure(clone, {"base": "origin/main"})
    assert "common commit" in str(error)
    run_hint(clone, error)
    assert one(select(clone, {"base": "origin/main"})).merge_base == history.commits["fork"]


def test_the_command_for_a_shallow_commit_mends_it(tmp_path: Path) -> None:
    origin = GitRepo(tmp_path / "origin")
    history = base_moved_ahead(origin)
    clone = origin.clone(tmp_path / "clone", depth=1).checkout("feature")
    error = failure(clone, {"commit": "HEAD"})
    run_hint(clone, error)
    assert one(select(clone, {"commit": "HEAD"})).merge_base == history.commits["fork"]


# -- git hooks and pre-commit -------------------------------------------------------------------


def test_the_pre_commit_hook_judges_the_index(history: History) -> None:
    assert one(select(history.repo, {"hook": "pre-commit"})).trigger == "index"


def test_a_pre_push_hook_judges_each_ref(repo: GitRepo) -> None:
    history = small_change(repo)
    other = repo.write("other.py", "1\n").commit("Other")
    repo.tag("v1", history.base)
    lines = [
        f"refs/heads/feature {history.head} refs/heads/feature {history.base}",
        f"refs/heads/new {other} refs/heads/new {ZERO_SHA}",
        f"(delete) {ZERO_SHA} refs/heads/gone {history.base}",
        f"refs/tags/v1 {history.base} refs/tags/v1 {ZERO_SHA}",
        f"HEAD {other} refs/heads/$(id) {history.head}",
    ]
    found = select(repo, {"hook": "pre-push"}, stdin="\n".join(lines) + "\n")
    assert [change.label for change in found] == ["feature", "new", "refs/tags/v1", "$(id)"]
    assert {change.trigger for change in found} == {"push"}
    assert [change.merge_base for change in found] == [
        history.base, history.base, history.base, history.head,
    ]  # fmt: skip
    assert [len(change.files()) for change in found] == [2, 3, 0, 1]


def test_a_push_without_refs_has_no_change(history: History) -> None:
    assert select(history.repo, {"hook": "pre-push"}) == []
    deleted = f"(delete) {ZERO_SHA} refs/heads/gone {history.base}\n"
    assert select(history.repo, {"hook": "pre-push"}, stdin=deleted) == []


@pytest.mark.parametrize("line", ["nonsense", "a b c", "a b c d e", "refs/heads/x HEAD"])
def test_what_git_never_says_to_a_hook_is_an_error(history: History, line: str) -> None:
    good = f"refs/heads/feature {history.head} refs/heads/feature {history.base}\n"
    for text in (line, f"{good}{line}\n", f"{line}\n{good}"):
        assert "pre-push" in failure(history.repo, {"hook": "pre-push"}, stdin=text).hint


def test_a_pushed_commit_that_the_clone_lacks_is_an_error(history: History) -> None:
    line = f"refs/heads/feature {'dead' * 10} refs/heads/feature {history.base}\n"
    assert "dead" in failure(history.repo, {"hook": "pre-push"}, stdin=line).hint


def test_pre_commit_tells_a_push(history: History) -> None:
    variables = {"PRE_COMMIT_FROM_REF": history.base, "PRE_COMMIT_TO_REF": history.head}
    change = one(select(history.repo, {}, variables))
    assert (change.trigger, change.base, change.head) == ("push", history.base, history.head)
    assert change.policy_commit == history.base


def test_pre_commit_tells_a_first_push_without_refs(tmp_path: Path) -> None:
    history = first_push(GitRepo(tmp_path / "origin"), tmp_path / "clone")
    variables = {
        "PRE_COMMIT_REMOTE_NAME": "origin",
        "PRE_COMMIT_REMOTE_BRANCH": "refs/heads/feature",
        "PRE_COMMIT_LOCAL_BRANCH": "refs/heads/feature",
    }
    change = one(select(history.repo, {}, variables))
    assert (change.trigger, change.merge_base) == ("push", history.base)
    assert [file.path for file in change.files()] == ["feature.py"]


@pytest.mark.parametrize("flags", [{"staged": True}, {"hook": "pre-commit"}])
def test_a_range_given_to_pre_commit_is_what_its_staged_hooks_judge(
    history: History, flags: dict[str, Any]
) -> None:
    refs = {"PRE_COMMIT_FROM_REF": history.base, "PRE_COMMIT_TO_REF": history.head}
    variables = {"PRE_COMMIT": "1", **refs}
    change = one(select(history.repo, flags, variables))
    assert (change.trigger, change.base, change.head) == ("push", history.base, history.head)
    assert one(select(history.repo, flags, refs)).trigger == "index", "outside of pre-commit"
    del variables["PRE_COMMIT_TO_REF"]
    assert one(select(history.repo, flags, variables)).trigger == "index"
    unrelated = history.repo.commit_tree(f"{history.head}^{{tree}}")
    variables |= refs | {"PRE_COMMIT_FROM_REF": unrelated}
    assert failure(history.repo, flags, variables).hint == "name a base with a common history"


def test_one_of_pre_commit_s_refs_alone_tells_nothing(history: History) -> None:
    variables = {"PRE_COMMIT_FROM_REF": history.base}
    assert one(select(history.repo, {}, variables)).trigger == STATED


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_finding_the_change_runs_nothing(repo: GitRepo, tmp_path: Path) -> None:
    history = small_change(repo)
    set_traps(repo, tmp_path / "canary")
    line = f"refs/heads/new {history.head} refs/heads/new {ZERO_SHA}\n"
    select(repo, {"hook": "pre-push"}, stdin=line)
    for flags in ({"base": "main"}, {"head": "HEAD"}, {"commit": "HEAD"}):
        select(repo, flags)
    assert sprung(tmp_path / "canary") == []


@pytest.mark.parametrize(
    ("refs", "ref", "taken", "other"),
    [
        (("tags/main", "heads/main"), "main", "refs/tags/main", "refs/heads/main"),
        (("heads/a/b", "remotes/a/b"), "a/b", "refs/heads/a/b", "refs/remotes/a/b"),
        (("heads/HEAD",), "HEAD", "HEAD", "refs/heads/HEAD"),
        (("tags/v1", "heads/v1"), "v1~0", "refs/tags/v1", "refs/heads/v1"),
    ],
)
def test_a_name_of_two_refs_is_told(
    repo: GitRepo, refs: tuple[str, ...], ref: str, taken: str, other: str
) -> None:
    first = repo.write("a", "1\n").commit()
    for number, name in enumerate(refs, 2):
        repo.write("a", f"{number}\n").commit()
        repo.run("update-ref", f"refs/{name}", "HEAD" if number == 2 else first)
    here = Repository(*discover(os.fspath(repo)), os.environ)
    told: list[str] = []
    here.note = told.append
    change_set.require(here, ref, "base", "--base")
    found = change_set.from_range(here, ref, first, "--base").base
    assert found == repo.text("rev-parse", taken)
    (text,) = told
    assert f"ambiguous: {taken} was taken, not {other};" in text


def test_the_note_of_a_name_of_two_refs_is_printed_once(cli: Cli, repo: GitRepo) -> None:
    repo.write("a.py", "x = 1\n").commit()
    repo.run("update-ref", "refs/tags/main", "HEAD")
    repo.write("a.py", "x = 2\n").commit()
    ended = cli("review", "--base", "main", cwd=repo)
    assert ended.code == 0, ended
    assert ended.stderr.count("is ambiguous") == 1, ended


@pytest.mark.parametrize(
    ("path", "is_one"),
    [("/dev/stdin", True), ("/dev/fd/63", True), ("/dev/shm/event.json", False), ("e.json", False)],
)
def test_a_stream_is_no_file_that_happens_to_lie_in_dev(path: str, is_one: bool) -> None:
    assert trigger.is_stream(path) is is_one
