"""What a push adds, where the default branch was taken up since: both hooks say the same."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.change import change_set, pushes, trigger
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import Settings
from rlm_ci.errors import ConfigError
from rlm_ci.git.repository import Repository, discover
from rlm_ci.judge.options import change_choice
from testing.repositories import events
from testing.repositories.changes import numbered
from testing.repositories.git_repo import ZERO_SHA, GitRepo

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rlm_ci.change.change_set import ChangeSet

BIG = numbered(3000)


@pytest.fixture
def origin(tmp_path: Path) -> GitRepo:
    origin = GitRepo(tmp_path / "origin")
    origin.write("main.py", numbered(4)).commit("Start")
    return origin


@pytest.fixture
def clone(origin: GitRepo, tmp_path: Path) -> GitRepo:
    """A clone whose branch `feature` is pushed: ``pushed.py`` +50."""
    clone = origin.clone(tmp_path / "clone").checkout("feature", new=True)
    clone.write("pushed.py", numbered(50)).commit("Feature")
    clone.push("origin", "feature")
    return clone


def goes_on(origin: GitRepo) -> None:
    """Others merge 3,000 lines."""
    origin.checkout("main").write("big.txt", BIG).commit("Approved")


def selected(clone: GitRepo, variables: Mapping[str, str], stdin: str) -> ChangeSet:
    [found] = trigger.select(
        change_choice(Settings(CORE, {} if variables else {"hook": "pre-push"}, variables)),
        Repository(*discover(os.fspath(clone)), os.environ),
        lambda opened: change_set.ChangeSet(opened, "default"),
        stdin.encode,
    )
    return found


def pushed(
    clone: GitRepo, old: str, *, to: str = "feature", remote: str = "origin"
) -> dict[str, int]:
    """The lines of each file, as the hook of git and pre-commit's both have them."""
    head = clone.sha()
    native = selected(clone, {}, f"refs/heads/feature {head} refs/heads/{to} {old}\n")
    variables = {
        "PRE_COMMIT_FROM_REF": old,
        "PRE_COMMIT_TO_REF": head,
        "PRE_COMMIT_REMOTE_NAME": remote,
        "PRE_COMMIT_LOCAL_BRANCH": "refs/heads/feature",
        "PRE_COMMIT_REMOTE_BRANCH": f"refs/heads/{to}",
    }
    if old == ZERO_SHA:  # pre-commit looks by itself
        newer = clone.text("rev-list", "--topo-order", "--reverse", head, "--not", "--remotes")
        variables["PRE_COMMIT_FROM_REF"] = f"{newer.split()[0]}^"
    through = selected(clone, variables, "")
    found = {one.path: one.lines for one in native.files()}
    with native.count() as counting:
        assert {one.path: one.lines for one in counting.finish()} == found
    assert {one.path: one.lines for one in through.files()} == found
    assert set(native.names()) == set(found)
    assert native.policy_commit is not None
    return found


def told(clone: GitRepo, before: str, folder: Path, *, forced: bool = False) -> ChangeSet:
    """What the event of a push says, in a clone that holds what GitHub's own action fetches."""
    payload = events.push(before, clone.sha(), forced=forced)
    found = trigger.from_event(
        Repository(*discover(os.fspath(clone)), os.environ),
        str(events.write_event(folder, payload)),
    )
    assert found is not None
    return found


@pytest.mark.parametrize("how", ["rebase", "merge"])
def test_the_event_of_a_push_is_judged_as_by_the_hook(
    origin: GitRepo, clone: GitRepo, tmp_path: Path, how: str
) -> None:
    before = clone.sha()
    goes_on(origin)
    clone.run("fetch", "-q", "origin")
    clone.run(how, "-q", "origin/main", *(["--no-edit"] if how == "merge" else []))
    clone.write("more.py", "x\n").commit("More")
    change = told(clone, before, tmp_path)
    expected = pushed(clone, before)
    assert "big.txt" not in expected
    assert {one.path: one.lines for one in change.files()} == expected


def test_what_a_forced_push_replaced_may_be_in_no_clone(
    origin: GitRepo, clone: GitRepo, tmp_path: Path
) -> None:
    goes_on(origin)
    clone.run("fetch", "-q", "origin")
    clone.run("rebase", "-q", "origin/main")
    change = told(clone, "dead" * 10, tmp_path, forced=True)
    assert [(one.path, one.lines) for one in change.files()] == [("pushed.py", 50)]
    assert "forced push" in change.label
    with pytest.raises(ConfigError, match="is not in this clone"):
        told(clone, "dead" * 10, tmp_path)


def test_a_forced_push_to_the_default_branch_says_what_to_fetch(
    clone: GitRepo, tmp_path: Path
) -> None:
    payload = events.push("dead" * 10, clone.sha(), ref="refs/heads/main", forced=True)
    here = Repository(*discover(os.fspath(clone)), os.environ)
    with pytest.raises(ConfigError) as caught:
        trigger.from_event(here, str(events.write_event(tmp_path, payload)))
    assert caught.value.hint == f"git fetch origin {'dead' * 10}"


def test_a_push_that_was_merged_before_it_was_judged_is_judged(
    clone: GitRepo, tmp_path: Path
) -> None:
    before = clone.sha()
    clone.write("more.py", "x\n").commit("More")
    clone.run("update-ref", "refs/remotes/origin/main", "HEAD")
    assert told(clone, before, tmp_path).names() == ["more.py"]


def test_a_branch_that_was_rebased_is_what_a_reviewer_will_see(
    origin: GitRepo, clone: GitRepo
) -> None:
    old = clone.sha()
    goes_on(origin)
    clone.fetch().run("rebase", "-q", "origin/main")
    clone.write("more.py", "1\n").commit()
    assert pushed(clone, old) == {"pushed.py": 50, "more.py": 1}


def test_a_merge_of_the_default_branch_brings_nothing_new(origin: GitRepo, clone: GitRepo) -> None:
    old = clone.sha()
    goes_on(origin)
    clone.fetch().merge("origin/main")
    assert pushed(clone, old) == {}
    clone.append("big.txt", "mine\n").append("pushed.py", "more\n").write("more.py", "1\n").commit()
    assert pushed(clone, old) == {"big.txt": 1, "pushed.py": 1, "more.py": 1}
    old = clone.sha()
    clone.push("origin", "feature").append("more.py", "2\n").commit()
    assert pushed(clone, old) == {"more.py": 1}, "later, as ever: since the last push"


def test_lines_that_only_another_branch_has_are_counted(origin: GitRepo, clone: GitRepo) -> None:
    old = clone.sha()
    clone.checkout("spare", new=True).write("big.txt", BIG).commit()
    clone.push("origin", "spare").checkout("feature").merge("spare")
    assert pushed(clone, old) == {"big.txt": 3000}
    assert pushed(clone, origin.sha("main"), to="main") == {"big.txt": 3000, "pushed.py": 50}


def test_of_the_default_branch_all_is_counted(origin: GitRepo, clone: GitRepo) -> None:
    old = origin.sha("main")
    clone.config("remote.origin.push", "feature:main")
    clone.run("update-ref", "refs/remotes/origin/main", "feature")  # a ref that is wrong
    assert pushed(clone, old, to="main") == {"pushed.py": 50}


def test_a_ref_of_an_older_main_hides_nothing(origin: GitRepo, clone: GitRepo) -> None:
    old, stale = clone.sha(), clone.sha("origin/main")
    goes_on(origin)
    clone.fetch().run("rebase", "-q", "origin/main")
    clone.run("update-ref", "refs/remotes/origin/main", stale)
    assert pushed(clone, old) == {"big.txt": 3000, "pushed.py": 50}
    clone.run("update-ref", "-d", "refs/remotes/origin/main")
    clone.run("symbolic-ref", "-d", "refs/remotes/origin/HEAD")
    assert pushed(clone, old) == {"big.txt": 3000, "pushed.py": 50}


@pytest.mark.parametrize("first", [True, False])
def test_a_fork_is_rebased_on_what_it_was_forked_from(
    origin: GitRepo, clone: GitRepo, tmp_path: Path, *, first: bool
) -> None:
    above = origin.clone(tmp_path / "upstream")
    goes_on(above)
    old = clone.sha()
    clone.remote(above.path, "upstream").fetch("upstream").run("rebase", "-q", "upstream/main")
    if first:
        clone.run("update-ref", "-d", "refs/remotes/origin/feature")
    assert pushed(clone, ZERO_SHA if first else old) == {"pushed.py": 50}


def test_a_branch_that_only_lags_behind_is_counted_since_its_last_push(
    origin: GitRepo, clone: GitRepo
) -> None:
    old = clone.sha()
    goes_on(origin)
    clone.fetch().write("more.py", "1\n").commit()
    assert pushed(clone, old) == {"more.py": 1}


def test_a_branch_of_a_fork_is_judged_from_the_newer_of_two_default_branches(
    origin: GitRepo, clone: GitRepo, tmp_path: Path
) -> None:
    above = origin.clone(tmp_path / "upstream")
    goes_on(above)
    clone.remote(above.path, "upstream").fetch("upstream").run("rebase", "-q", "upstream/main")
    change = pushes.from_default_branch(Repository(*discover(os.fspath(clone)), os.environ))
    assert {one.path: one.lines for one in change.files()} == {"pushed.py": 50}
    assert change.policy_commit == above.sha("main")


def test_a_tag_of_what_a_remote_branch_has_brings_nothing(clone: GitRepo) -> None:
    def tagged() -> dict[str, int]:
        line = f"refs/tags/v1 {clone.sha()} refs/tags/v1 {ZERO_SHA}\n"
        return {one.path: one.lines for one in selected(clone, {}, line).files()}

    assert tagged() == {}
    clone.write("more.py", "1\n").commit()
    assert tagged() == {"pushed.py": 50, "more.py": 1}


@pytest.mark.parametrize("event", ["first push", "later push", "dispatch"])
def test_an_event_says_what_the_default_branch_is_called(
    origin: GitRepo, clone: GitRepo, tmp_path: Path, event: str
) -> None:
    origin.checkout("develop", new=True).write("big.txt", BIG).commit("Approved")
    clone.fetch().run("rebase", "-q", "origin/develop")
    # A job's clone has no origin/HEAD, and the old main is still there.
    clone.run("symbolic-ref", "-d", "refs/remotes/origin/HEAD")
    payload = {
        "first push": events.push(ZERO_SHA, clone.sha()),
        "later push": events.push(clone.sha("origin/feature"), clone.sha(), forced=True),
        "dispatch": events.workflow_dispatch(),
    }[event]
    payload["repository"]["default_branch"] = "develop"
    path = events.write_event(tmp_path, payload)
    [change] = trigger.select(
        change_choice(Settings(CORE, {"event": os.fspath(path)}, {})),
        Repository(*discover(os.fspath(clone)), os.environ),
        pushes.from_default_branch,
    )
    assert {one.path: one.lines for one in change.files()} == {"pushed.py": 50}
