"""In a job with secrets the pull request's code is not checked out, and never run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci.change import change_set, privileged_events
from rlm_ci.errors import CONFIG, ConfigError
from rlm_ci.git.repository import Repository, discover
from testing.repositories import events

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from testing.repositories.git_repo import GitRepo

COMMIT = "1" * 40
WORKFLOW_RUN = {"action": "completed", "workflow_run": {"head_sha": COMMIT, "event": "push"}}


@pytest.fixture
def history(repo: GitRepo) -> dict[str, str]:
    """A pull request of two commits, and where HEAD may stand: name to commit.

    start ── base ── later (main went on)
       │       └──── merged (GitHub's merge of the head into the base), undone on top of it
       └─ first ── head ── follow (a commit after the pull request's last)
    """
    start = repo.write("README.md", "# Shop\n").commit("Start")
    repo.checkout("feature", new=True)
    first = repo.write("a.py", "a\n").commit("First")
    head = repo.write("b.py", "b\n").commit("Second")
    follow = repo.write("c.py", "c\n").commit("Third")
    repo.checkout("main")
    base = repo.write("other.md", "x\n").commit("Main goes on")
    later = repo.write("other.md", "y\n").commit("Main goes on again")
    repo.checkout(base, detach=True)
    merged = repo.merge(head)
    undone = repo.remove("a.py").commit("On top of the merge")
    repo.checkout(base, detach=True)
    part = repo.merge(first)
    unrelated = repo.orphan("pages").write("index.html", "").commit("Pages")
    return {
        "start": start, "base": base, "later": later, "unrelated": unrelated, "head": head,
        "first": first, "merged": merged, "undone": undone, "part": part, "follow": follow,
    }  # fmt: skip


def change_of(repo: os.PathLike[str], base: str, head: str, **fields: Any) -> ChangeSet:
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    return change_set.from_range(opened, base, head, "test", **fields)


def refusal(change: ChangeSet, event: str | None = "issue_comment") -> ConfigError | None:
    try:
        privileged_events.refuse_checkout(change, event)
    except ConfigError as error:
        return error
    return None


@pytest.mark.sample(2)
@pytest.mark.parametrize("event", privileged_events.EVENTS)
@pytest.mark.parametrize("place", ["head", "first", "merged", "undone", "part", "follow"])
def test_the_pull_requests_code_is_refused(
    repo: GitRepo, history: dict[str, str], place: str, event: str
) -> None:
    repo.checkout(history[place], detach=True)
    pull_request = change_set.PullRequest(events.NUMBER)
    found = change_of(repo, history["base"], history["head"], pull_request=pull_request)
    error = refusal(found, event)
    assert error is not None
    assert error.code == CONFIG
    assert event in str(error)
    assert "secrets" in str(error)
    assert history[place][:12] in error.where
    assert f"git fetch origin refs/pull/{events.NUMBER}/head" in error.hint


@pytest.mark.parametrize("place", ["start", "base", "later", "unrelated"])
def test_what_is_not_the_pull_requests_is_fine(
    repo: GitRepo, history: dict[str, str], place: str
) -> None:
    repo.checkout(history[place], detach=True)
    for event in privileged_events.EVENTS:
        assert refusal(change_of(repo, history["base"], history["head"]), event) is None


@pytest.mark.sample(2)
@pytest.mark.parametrize("event", ["pull_request", "push", "merge_group", "schedule", "", None])
def test_without_privilege_the_code_may_be_there(
    repo: GitRepo, history: dict[str, str], event: str | None
) -> None:
    repo.checkout(history["head"], detach=True)
    assert refusal(change_of(repo, history["base"], history["head"]), event) is None


def test_a_branch_called_like_the_base_changes_nothing(
    repo: GitRepo, history: dict[str, str]
) -> None:
    """Names in the clone may be the pull request's choice; commits decide."""
    repo.run("checkout", "-q", "-B", "main", history["head"])
    repo.run("update-ref", "refs/remotes/origin/main", history["head"])
    assert refusal(change_of(repo, history["base"], history["head"]))


def test_the_code_beside_a_common_commit_of_the_base(
    repo: GitRepo, history: dict[str, str]
) -> None:
    """The pull request took main in: it shares two newest commits with an older merge of it."""
    repo.checkout(history["first"], detach=True)
    repo.merge(history["base"])
    updated = repo.write("d.py", "d\n").commit("After the update")
    repo.checkout(history["part"], detach=True)
    shared = repo.text("merge-base", "--all", "HEAD", updated).split()
    assert set(shared) == {history["base"], history["first"]}
    assert shared[0] == history["base"], "the first alone would not show it"
    assert refusal(change_of(repo, history["base"], updated))


def test_nothing_checked_out_is_fine(
    repo: GitRepo, history: dict[str, str], tmp_path: Path
) -> None:
    bare = repo.clone(tmp_path / "empty")
    bare.run("symbolic-ref", "HEAD", "refs/heads/unborn")
    assert refusal(change_of(bare, history["base"], history["head"])) is None


@pytest.mark.parametrize(("place", "refused"), [("base", False), ("later", True), ("merged", True)])
def test_a_shallow_clone_needs_a_proof(
    repo: GitRepo, history: dict[str, str], place: str, refused: bool
) -> None:
    """HEAD is cut off from its parents, as actions/checkout leaves it by default."""
    repo.checkout(history[place], detach=True)
    cut = sorted({history[place]} - {history["base"]})
    shallow = repo.path / ".git" / "shallow"
    shallow.write_text("".join(f"{commit}\n" for commit in cut or [history["start"]]))
    error = refusal(change_of(repo, history["base"], history["head"]))
    assert (error is not None) == refused
    if error:
        assert "shallow" in str(error)
        assert "fetch-depth: 0" in error.hint


def test_the_first_commit_of_all(repo: GitRepo) -> None:
    root = repo.write("a", "a").commit()
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    assert refusal(change_set.from_commit(opened, root))


def test_a_change_of_the_working_tree_names_no_pull_request(repo: GitRepo) -> None:
    repo.write("a", "a").commit()
    repo.write("a", "b")
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    for trigger in ("index", "worktree"):
        assert refusal(change_set.from_local(opened, trigger)) is None


# ── which event it is ──


@pytest.mark.parametrize("case", events.every_event(COMMIT, COMMIT))
def test_the_event_by_its_name(case: str) -> None:
    name, payload = events.every_event(COMMIT, COMMIT)[case]
    expected = name if name in privileged_events.EVENTS else None
    assert privileged_events.event_of(name, payload) == expected
    assert privileged_events.event_of(name) == expected


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (events.issue_comment(), "issue_comment"),
        (events.issue_comment(on_pull_request=False), "issue_comment"),
        (WORKFLOW_RUN, "workflow_run"),
        (events.pull_request(COMMIT, COMMIT), None),
        (events.push(COMMIT, COMMIT), None),
        ({"workflow_run": None, "issue": {}, "comment": "text"}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_event_by_its_shape(payload: Mapping[str, Any] | None, expected: str | None) -> None:
    assert privileged_events.event_of(None, payload) == expected
    assert privileged_events.event_of("", payload) == expected


def test_another_payload_does_not_hide_the_event() -> None:
    """``--event`` with a pull request's payload, in a job that a comment started."""
    payload = events.pull_request(COMMIT, COMMIT)
    assert privileged_events.event_of("pull_request_target", payload) == "pull_request_target"
    assert privileged_events.event_of("issue_comment", payload) == "issue_comment"
    assert privileged_events.event_of("push", events.issue_comment()) == "issue_comment"
    thread: dict[str, object] = {"comment": {}, "pull_request": {}}
    assert privileged_events.event_of("", thread) == "pull_request_review_comment"
