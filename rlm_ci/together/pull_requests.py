"""The changes to compare: pull requests of a base branch, or branches of the clone.

GitHub lists the pull requests, and one fetch brings them.
"""

from __future__ import annotations

from rlm_ci.change import change_set, trigger
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.github.fetch import fetch_heads
from rlm_ci.text.printable import printable
from rlm_ci.together.compare import ChangesToCompare
from rlm_ci.together.open_changes import NotLookedAt, OpenChange
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.repository import Repository
    from rlm_ci.github.session import Access, GitHubSession


def of_branches(
    repository: Repository, names: Sequence[str], base: str, source: str
) -> ChangesToCompare:
    """The changes of refs since their merge base with ``base``, the default branch if it is "".

    Raises ConfigError for a ref that is not there, UsageError for one branch alone.
    """
    names = list(dict.fromkeys(names))
    if len(names) < 2:
        raise UsageError(
            "one branch has nothing to be compared with",
            where="rlm-ci together",
            hint="name two branches or more; without any, the open pull requests are compared",
        )
    base_name, base_commit = base_of(repository, base, source)
    for name in names:
        change_set.require(repository, name, "branch", "rlm-ci together")
    changes, not_looked_at = [], []
    for name in names:
        try:
            change = change_set.from_range(repository, base_commit, name, "rlm-ci together")
        except ConfigError as error:
            not_looked_at.append(NotLookedAt(name, f"{error}: {error.hint}"))
        else:
            changes.append(OpenChange(name, change))
    return ChangesToCompare(base_commit, base_name, tuple(changes), tuple(not_looked_at))


def base_of(repository: Repository, base: str, source: str) -> tuple[str, str]:
    """The name and the commit of the base. Raises ConfigError."""
    if base:
        return base, change_set.require(repository, base, "base", source)
    default = repository.default_branch()
    if default is None:
        raise ConfigError(
            "the clone does not say which branch is the default one",
            where="rlm-ci together",
            hint="name the base: --base main",
        )
    return default


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
