"""Events that start a job with secrets and a token that may write, for strangers too.

Such a job must not check out the files of a pull request: a build, a test or a Git hook would run
the author's code with the job's rights. rlm-ci needs the base's files and git objects only.
"""

from __future__ import annotations

from rlm_ci.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet

#: The last one only for a branch of the same repository.
EVENTS = (
    "pull_request_target", "workflow_run", "issue_comment", "pull_request_review_comment",
)  # fmt: skip
#: What only the payload of that event holds; ``pull_request_target`` looks like a pull request.
_SHAPES = {
    "workflow_run": ("workflow_run",),
    "issue_comment": ("issue", "comment"),
    "pull_request_review_comment": ("pull_request", "comment"),
}


def event_of(name: str | None, payload: Mapping[str, Any] | None = None) -> str | None:
    """The one of EVENTS that this job runs under, or None.

    ``name`` is what ``GITHUB_EVENT_NAME`` holds; ``payload`` may be another event's, given with
    ``--event``: one of the two is enough.
    """
    if name in EVENTS:
        return name
    for event, keys in _SHAPES.items():
        if payload and all(isinstance(payload.get(key), dict) for key in keys):
            return event
    return None


def refuse_checkout(change: ChangeSet, event: str | None) -> None:
    """Raise ConfigError if, under one of EVENTS, HEAD holds any commit of ``change``.

    Those are the commits that the head has and the base has not. A shallow clone that cannot
    tell is refused too. Only HEAD is checked, no files and no other folders of the job.
    """
    if event not in EVENTS or change.head is None:
        return
    repository = change.repository
    head = repository.head_commit()
    if head is None:
        return  # nothing is checked out

    def beyond_base(*commits: str) -> bool:
        excluded = (
            [f"^{change.base}"] if change.base and change.base != repository.empty_tree() else []
        )
        return bool(repository.run("rev-list", "--max-count=1", *commits, *excluded))

    if not beyond_base(head):
        return
    shared = repository.run("merge-base", "--all", head, change.head, ok=(0, 1)).decode().split()
    holds = bool(shared) and beyond_base(*shared)
    if not holds and not repository.is_shallow():
        return
    ref = "ref: the default branch" if event == EVENTS[-1] else "without ref"
    what = (
        "the work tree has the pull request's code"
        if holds
        else "the clone is shallow, so rlm-ci cannot tell whether the work tree has the "
        "pull request's code"
    )
    number = change.pull_request.number if change.pull_request else "NUMBER"
    raise ConfigError(
        f"{what}, and {event} gives this job secrets and a token that may write: "
        "whatever runs from that tree runs with both",
        where=f"HEAD, {head[:12]}",
        hint=f"check out the base (actions/checkout with fetch-depth: 0 and {ref}), and fetch "
        f"the objects of the change: git fetch origin refs/pull/{number}/head",
    )


def refuse_execution(change: ChangeSet, event: str | None, *, what: str) -> None:
    """Raise ConfigError if ``what`` would run a fork's code, or any code under one of EVENTS."""
    if event in EVENTS:
        raise ConfigError(
            f"{what} runs the pull request's code, and {event} gives this job secrets and a token "
            "that may write",
            where="GITHUB_EVENT_NAME",
            hint="run it on pull_request, or on workflow_dispatch",
        )
    if change.pull_request and change.pull_request.from_fork:
        raise ConfigError(
            f"{what} is refused on the pull request of a fork: its author could run code here",
            where=f"pull request {change.pull_request.number}",
            hint="the checks still work; to run this, fetch the branch to a machine without "
            "secrets",
        )
