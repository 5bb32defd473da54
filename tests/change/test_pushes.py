"""What a push adds, where the default branch was taken up since: both hooks say the same."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.change import change_set, pushes, trigger
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import Settings
from rlm_ci.errors import CONFIG, ConfigError
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
    is_known = clone.attempt("cat-file", "-e", old).returncode == 0
    if old == ZERO_SHA or not is_known:  # pre-commit looks by itself
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


def told(
    clone: GitRepo, before: str, folder: Path, *, ref: str = "feature", forced: bool = False
) -> ChangeSet:
    """What the event of a push says, in a clone that holds what GitHub's own action fetches."""
    ref = ref if ref.startswith("refs/") else f"refs/heads/{ref}"
    payload = events.push(before, clone.sha(), ref=ref, forced=forced)
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
    assert tagged() == {"more.py": 1}


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


# -- what other branches of the remote have -------------------------------------------------------


def lines(change: ChangeSet) -> dict[str, int]:
    return {one.path: one.lines for one in change.files()}


def stacked(clone: GitRepo) -> GitRepo:
    """On a new branch `part-2`, 7 lines beyond `feature`."""
    clone.checkout("part-2", new=True).write("part.py", numbered(7)).commit("Part 2")
    return clone


def test_what_is_pushed_on_the_branch_below_is_not_counted_again(
    origin: GitRepo, clone: GitRepo, tmp_path: Path
) -> None:
    main = clone.sha("origin/main")
    assert pushed(stacked(clone), ZERO_SHA, to="part-2") == {"part.py": 7}
    change = told(clone, ZERO_SHA, tmp_path, ref="part-2")
    assert (lines(change), change.policy_commit) == ({"part.py": 7}, main)
    goes_on(origin)
    clone.fetch().merge("origin/main")
    assert pushed(clone, clone.sha("part-2~"), to="part-2") == {}
    native = selected(clone, {}, f"refs/heads/x {clone.sha()} refs/heads/part-2 {ZERO_SHA}\n")
    assert lines(native) == {"part.py": 7}, "neither the part below nor main"
    assert lines(told(clone, ZERO_SHA, tmp_path, ref="part-2")) == {"part.py": 7}


def test_a_job_counts_what_a_merge_brings_from_another_branch(
    origin: GitRepo, clone: GitRepo, tmp_path: Path
) -> None:
    """A merge queue's branch is such a merge, and a required check may run on its push."""
    goes_on(origin)
    clone.fetch().checkout("origin/main", detach=True).checkout("queue", new=True)
    clone.merge("feature")
    assert lines(told(clone, ZERO_SHA, tmp_path, ref="queue")) == {"pushed.py": 50}
    below = clone.push("origin", "queue").sha()
    clone.checkout("next", new=True).write("next.py", "1\n").commit()
    assert lines(told(clone, ZERO_SHA, tmp_path, ref="next")) == {"next.py": 1}
    assert clone.sha("origin/queue") == below


def test_a_part_that_goes_on_below_is_the_remotes_in_a_hook(clone: GitRepo, tmp_path: Path) -> None:
    stacked(clone).checkout("feature").write("pushed.py", numbered(60)).commit("More")
    clone.push("origin", "feature").checkout("part-2")
    assert pushed(clone, ZERO_SHA, to="part-2") == {"part.py": 7}
    # A job cannot tell which of the two was pushed first.
    assert lines(told(clone, ZERO_SHA, tmp_path, ref="part-2")) == {"pushed.py": 50, "part.py": 7}


def test_a_part_that_was_rebased_on_the_rewritten_one_below(clone: GitRepo, tmp_path: Path) -> None:
    old = stacked(clone).sha()
    clone.push("origin", "part-2").checkout("feature")
    clone.run("reset", "-q", "--hard", "HEAD~")
    clone.write("pushed.py", numbered(60, "new")).commit("Better")
    clone.push("--force", "origin", "feature").checkout("part-2")
    clone.run("rebase", "-q", "--onto", "feature", "HEAD~")
    clone.write("part.py", numbered(8)).commit("More")
    assert pushed(clone, old, to="part-2") == {"part.py": 8}
    change = told(clone, old, tmp_path, ref="part-2", forced=True)
    assert lines(change) == {"part.py": 8}
    assert change.policy_commit == clone.sha("origin/main")


@pytest.mark.parametrize("ahead", [False, True])
def test_a_branch_that_has_all_of_the_pushed_one_hides_nothing(
    clone: GitRepo, tmp_path: Path, *, ahead: bool
) -> None:
    head = stacked(clone).sha()
    if ahead:
        clone.run("commit", "-q", "--allow-empty", "-m", "Helper")
    clone.push("origin", "HEAD:refs/heads/helper").run("reset", "-q", "--hard", head)
    assert lines(told(clone, ZERO_SHA, tmp_path, ref="part-2")) == {"part.py": 7}
    clone.run("update-ref", "-d", "refs/remotes/origin/feature")
    whole = {"pushed.py": 50, "part.py": 7}
    assert lines(told(clone, ZERO_SHA, tmp_path, ref="part-2")) == whole
    native = selected(clone, {}, f"refs/heads/part-2 {head} refs/heads/part-2 {ZERO_SHA}\n")
    assert lines(native) == whole


def test_an_empty_commit_on_a_branch_with_all_of_it_hides_nothing_in_a_job(
    clone: GitRepo, tmp_path: Path
) -> None:
    clone.checkout("topic", new=True).run("commit", "-q", "--allow-empty", "-m", "Empty")
    assert lines(told(clone, ZERO_SHA, tmp_path, ref="topic")) == {"pushed.py": 50}


def test_what_two_branches_pushed_at_once_share_is_judged_with_each(
    clone: GitRepo, tmp_path: Path
) -> None:
    stacked(clone).checkout("feature").checkout("other", new=True)
    clone.write("other.py", "1\n").commit()
    clone.push("origin", "part-2", "other", ":feature")
    for name, own in (("other", {"other.py": 1}), ("part-2", {"part.py": 7})):
        clone.checkout(name)
        assert lines(told(clone, ZERO_SHA, tmp_path, ref=name)) == {"pushed.py": 50} | own


def test_parts_that_are_pushed_at_once_are_judged_one_by_one(clone: GitRepo) -> None:
    stacked(clone).checkout("part-3", new=True).write("three.py", "1\n").commit()
    refs = "".join(
        f"refs/heads/{name} {clone.sha(name)} refs/heads/{name} {ZERO_SHA}\n"
        for name in ("part-3", "part-2", "feature")
    )
    tag = clone.tag("v1", "part-2", "annotated").text("rev-parse", "v1")
    refs += f"refs/tags/v1 {tag} refs/tags/v1 {ZERO_SHA}\n"
    clone.run("update-ref", "-d", "refs/remotes/origin/feature")
    found = trigger.select(
        change_choice(Settings(CORE, {"hook": "pre-push"}, {})),
        Repository(*discover(os.fspath(clone)), os.environ),
        lambda opened: change_set.ChangeSet(opened, "default"),
        refs.encode,
    )
    assert [lines(one) for one in found] == [{"three.py": 1}, {"part.py": 7}, {"pushed.py": 50}]
    assert [one.label for one in found] == ["part-3", "part-2, refs/tags/v1", "feature"]


@pytest.mark.parametrize("unrelated", [False, True])
def test_a_forced_push_over_what_the_clone_does_not_share(
    origin: GitRepo, clone: GitRepo, tmp_path: Path, *, unrelated: bool
) -> None:
    if unrelated:
        clone.orphan("island").write("island.py", "1\n").commit("Island")
        old = clone.sha()
        clone.checkout("feature")
    else:
        origin.checkout("feature").write("new.py", "1\n")
        old = origin.commit("Theirs")
    clone.append("pushed.py", "mine\n").run("commit", "-qa", "--amend", "-m", "Mine")
    line = f"refs/heads/feature {clone.sha()} refs/heads/feature {old}\n"
    change = selected(clone, {}, line)
    assert lines(change) == {"pushed.py": 51}
    assert "feature, beyond the default branch" in change.label
    assert pushed(clone, old) == {"pushed.py": 51}
    assert lines(told(clone, old, tmp_path, forced=True)) == {"pushed.py": 51}


def test_an_unrelated_history_is_all_of_it(clone: GitRepo, tmp_path: Path) -> None:
    main = clone.sha("origin/main")
    clone.orphan("island").write("island.py", "1\n").commit("Island")
    for name in ("main", "feature"):
        line = f"refs/heads/island {clone.sha()} refs/heads/{name} {main}\n"
        assert lines(selected(clone, {}, line)) == {"island.py": 1}
    clone.run("update-ref", "refs/remotes/origin/main", "HEAD")
    assert lines(told(clone, main, tmp_path, ref="main", forced=True)) == {"island.py": 1}


# -- clones that do not have everything -----------------------------------------------------------


def job_clone(origin: GitRepo, folder: Path, *fetched: str) -> GitRepo:
    """What a job checks out: `feature`, and what else is ``fetched``."""
    clone = GitRepo(folder).remote(origin.path.as_uri())
    clone.fetch("--no-tags", "origin", *fetched)
    return clone.checkout("origin/feature", detach=True)


ONE = "+refs/heads/feature:refs/remotes/origin/feature"
EVERY = "+refs/heads/*:refs/remotes/origin/*"
OLD = "+refs/heads/old:refs/remotes/origin/old"


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("fetched", "what"),
    [
        (["--depth=1", EVERY], "where this branch starts is not in this clone"),
        (["--depth=2", ONE, OLD], "'origin/main' is not in this clone"),
        (["--depth=1", ONE], "'origin/main' is not in this clone"),
        ([ONE, OLD], "'origin/main' is not in this clone"),
    ],
)
def test_a_job_that_cannot_tell_where_a_branch_starts(
    origin: GitRepo, tmp_path: Path, fetched: list[str], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.branch("old").write("more.py", numbered(4)).commit("Main goes on")
    origin.checkout("feature", new=True).write("a.py", "1\n").commit("Feature")
    origin.write("b.py", "1\n").commit("More")
    clone = job_clone(origin, tmp_path / "job", *fetched)
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    for ref in ("refs/heads/feature", "refs/tags/v1"):
        with pytest.raises(ConfigError, match=what) as caught:
            told(clone, ZERO_SHA, tmp_path, ref=ref)
        assert "fetch-depth: 0" in caught.value.hint
        assert caught.value.code == CONFIG
        clone.run("update-ref", "-d", "refs/remotes/origin/feature")  # of a tag, only the tag


def test_a_shallow_clone_that_has_the_start_is_enough(origin: GitRepo, tmp_path: Path) -> None:
    origin.write("more.py", numbered(4)).commit("Main goes on")
    origin.checkout("feature", new=True).write("a.py", "1\n").commit("Feature")
    clone = job_clone(origin, tmp_path / "job", "--depth=2", EVERY)
    assert lines(told(clone, ZERO_SHA, tmp_path)) == {"a.py": 1}
    clone.checkout("new", new=True).write("b.py", "1\n").commit("New")
    assert pushed(clone, ZERO_SHA, to="new") == {"b.py": 1}


@pytest.mark.parametrize("depth", [(), ("--depth=1",)])
def test_a_clone_of_one_branch_counts_from_there(
    origin: GitRepo, tmp_path: Path, depth: tuple[str, ...]
) -> None:
    origin.checkout("develop", new=True).write("dev.py", numbered(4)).commit("Develop")
    clone = origin.clone(tmp_path / "single", "--single-branch", "-b", "develop", *depth)
    clone.checkout("feature", new=True).write("a.py", "1\n").commit("Feature")
    assert pushed(clone, ZERO_SHA) == {"a.py": 1}
    line = f"refs/tags/v1 {clone.sha()} refs/tags/v1 {ZERO_SHA}\n"
    assert lines(selected(clone, {}, line)) == {"a.py": 1}
    clone.run("update-ref", "-d", "refs/remotes/origin/develop")
    line = f"refs/heads/feature {clone.sha()} refs/heads/feature {ZERO_SHA}\n"
    if depth:
        with pytest.raises(ConfigError, match="where this branch starts") as caught:
            selected(clone, {}, line)
        assert caught.value.hint == "the clone is shallow: git fetch --unshallow origin"
    else:
        change = selected(clone, {}, line)
        assert "all of it" in change.label
        assert lines(change) == {"main.py": 4, "dev.py": 4, "a.py": 1}


# -- pull requests ---------------------------------------------------------------------------------


def asked(clone: GitRepo, base: str, folder: Path, to: str = "main") -> ChangeSet:
    """What the event of a pull request says."""
    payload = events.pull_request(base, clone.sha(), base_ref=to)
    path = events.write_event(folder, payload)
    found = trigger.from_event(Repository(*discover(os.fspath(clone)), os.environ), str(path))
    assert found is not None
    return found


def test_a_base_that_an_event_names_too_late_is_replaced(
    origin: GitRepo, clone: GitRepo, tmp_path: Path
) -> None:
    stale = clone.sha("origin/main")
    goes_on(origin)
    clone.fetch()
    change = asked(clone, stale, tmp_path)
    assert (change.base, lines(change)) == (stale, {"pushed.py": 50}), "it has not merged main"
    clone.merge("origin/main")
    merged = clone.sha("origin/main")
    origin.write("later.py", "1\n").commit("Later")
    clone.fetch()
    change = asked(clone, stale, tmp_path)
    assert lines(change) == {"pushed.py": 50}
    assert (change.base, change.merge_base) == (merged, merged)
    # What another branch has is no base of a pull request to main.
    assert lines(asked(clone, stale, tmp_path, "gone")) == {
        "pushed.py": 50, "big.txt": 3000,
    }  # fmt: skip
    clone.push("origin", "HEAD:refs/heads/helper")
    assert lines(asked(clone, stale, tmp_path)) == {"pushed.py": 50}


@pytest.mark.sample(1)
@pytest.mark.parametrize("how", ["merged since", "clone is older", "rewritten"])
def test_a_base_that_is_no_older_stays(
    origin: GitRepo, clone: GitRepo, tmp_path: Path, how: str
) -> None:
    base = clone.sha("origin/main")
    if how == "merged since":
        clone.run("update-ref", "refs/remotes/origin/main", "HEAD")
    elif how == "clone is older":
        goes_on(origin)
        clone.fetch().merge("origin/main")
        newer = clone.sha("origin/main")
        clone.run("update-ref", "refs/remotes/origin/main", base)
        base = newer
    else:
        clone.orphan("other").write("x.py", "1\n").commit()
        clone.run("update-ref", "refs/remotes/origin/main", "HEAD")
        clone.checkout("feature")
    change = asked(clone, base, tmp_path)
    assert (change.base, lines(change)) == (base, {"pushed.py": 50})
