"""Branches of the clone as changes to compare, without GitHub."""

from __future__ import annotations

from rlm_ci.change import change_set
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.together.compare import ChangesToCompare
from rlm_ci.together.open_changes import NotLookedAt, OpenChange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.git.repository import Repository


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
