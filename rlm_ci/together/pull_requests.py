"""The open pull requests of a base branch, listed by GitHub and brought by one fetch."""

from __future__ import annotations

from rlm_ci.change import change_set, trigger
from rlm_ci.errors import ConfigError
from rlm_ci.github.fetch import fetch_heads
from rlm_ci.text.printable import printable
from rlm_ci.together.branches import base_of
from rlm_ci.together.compare import ChangesToCompare
from rlm_ci.together.open_changes import NotLookedAt, OpenChange
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.repository import Repository
    from rlm_ci.github.session import Access, GitHubSession

_WHERE = "rlm-ci together"
_INSTEAD = "or name branches of the clone: rlm-ci together BRANCH BRANCH"
_HEADS = "refs/heads/"


class PullRequestSource(Value):
    """The repository ``name`` on GitHub, asked for at most ``limit`` pull requests by ``way``."""

    access: Access
    name: str
    limit: int
    way: GitHubSession


def of_pull_requests(
    repository: Repository, source: PullRequestSource, base: str, focus: ChangeSet | None = None
) -> ChangesToCompare:
    """The open pull requests into ``base``, the default branch for "", the last updated first.

    More than the limit are counted as left out. ``focus`` is one of them: it alone is compared with
    the others. Raises ConfigError, RemoteError, UnavailableError.
    """
    name = source.name
    if not source.access.token:
        raise ConfigError(
            "listing the pull requests needs a token", where="GITHUB_TOKEN",
            hint=f"give one that may read them; {_INSTEAD}",
        )  # fmt: skip
    if not name:
        raise ConfigError(
            "the remote is no repository of this GitHub", where=_WHERE,
            hint=f"set GITHUB_REPOSITORY to owner/name, and GITHUB_SERVER_URL; {_INSTEAD}",
        )  # fmt: skip
    branch = _branch(repository, base)
    query = {"state": "open", "base": branch, "sort": "updated", "direction": "desc"}
    records = [
        record
        for record in source.way.client().pages(f"/repos/{name}/pulls", **query)
        if isinstance(record, dict) and _is_number(record.get("number"))
    ]
    focus_number = focus.pull_request.number if focus and focus.pull_request else 0
    records = [record for record in records if record["number"] != focus_number]
    left_out = len(records[source.limit :])
    records = sorted(records[: source.limit], key=lambda record: int(record["number"]))
    numbers = [record["number"] for record in records]
    base_commit, heads = fetch_heads(repository, branch, numbers, source.access)
    changes: list[OpenChange] = []
    not_looked_at: list[NotLookedAt] = []
    for record in records:
        opened = _opened(repository, record, base_commit, heads.get(record["number"], ""), name)
        if isinstance(opened, OpenChange):
            changes.append(opened)
        else:
            not_looked_at.append(opened)
    subject = None
    if focus is not None:
        subject = OpenChange(
            f"#{focus_number}" if focus_number else "the change", _rebased(focus, base_commit)
        )
        changes.insert(0, subject)
    return ChangesToCompare(
        base_commit, branch, tuple(changes), tuple(not_looked_at), left_out, subject
    )


def _branch(repository: Repository, base: str) -> str:
    """The name of the base branch on the remote."""
    name = base or base_of(repository, "", _WHERE)[0]
    return name.removeprefix(_HEADS).removeprefix(f"{repository.remote()}/")


def _rebased(change: ChangeSet, base: str) -> ChangeSet:
    """A change against the base as it is now. Raises ConfigError without a common commit."""
    now = change_set.from_range(change.repository, base, change.head or "", _WHERE)
    return change.replace(base=base, merge_base=now.merge_base)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _opened(
    repository: Repository, record: dict[str, Any], base: str, head: str, name: str
) -> OpenChange | NotLookedAt:
    """The change of a pull request as it is now, or why it cannot be looked at."""
    label = f"#{record['number']}"
    if not head:
        return NotLookedAt(label, "the remote does not have its head")
    sides = {
        side: {**(record[side] if isinstance(record.get(side), dict) else {}), "sha": commit}
        for side, commit in (("base", base), ("head", head))
    }
    try:
        change = trigger.from_pull_request(repository, {**record, **sides}, label, name)
    except ConfigError as error:
        return NotLookedAt(label, printable(f"{error}; {error.hint}"))
    return OpenChange(label, change, is_draft=record.get("draft") is True)
