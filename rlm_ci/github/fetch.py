"""The objects of a pull request, brought into the clone; nothing is checked out."""

from __future__ import annotations

from base64 import b64encode

from rlm_ci.errors import ConfigError, DamagedError, RemoteError
from rlm_ci.report.links import check_server_url
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.git.repository import Repository
    from rlm_ci.github.session import Access


def fetch(repository: Repository, number: int, pull: Mapping[str, Any], access: Access) -> None:
    """Fetch both commits of the pull request ``pull``, the API's record, unless they are there.

    Raises RemoteError if they cannot be fetched, ConfigError if the remote has other ones.
    """
    remote = repository.remote()
    base, head = _commit(pull, "base"), _commit(pull, "head")
    # A fork's commits have no other name.
    for commit, ref in ((base, base), (head, f"refs/pull/{number}/head")):
        if repository.resolve(commit)[0] is not None:
            continue
        where, command = f"{printable(remote)[:80]}, {ref}", _command(remote, ref)
        try:
            repository.run(
                *("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-gc"),
                *("--no-write-fetch-head", remote, f"+{ref}"),
                env=_credentials(access),
                network=True,
            )
        except DamagedError as error:
            raise RemoteError(
                f"the pull request's commits cannot be fetched: {error.what}",
                where=where,
                hint=f"see why: {command}",
            ) from None
        if repository.resolve(commit)[0] is None:
            raise ConfigError(
                f"GitHub's API names {commit[:12]}, which is not what was fetched: the pull "
                "request has changed",
                where=where,
                hint=f"comment again, or fetch it: {command}",
            )


def _commit(pull: Mapping[str, Any], side: str) -> str:
    branch = pull.get(side)
    sha = branch.get("sha") if isinstance(branch, dict) else None
    if not isinstance(sha, str) or not is_object_id(sha):
        raise RemoteError(
            f"GitHub does not name the {side} of the pull request",
            where=f"#{pull.get('number')}",
            hint="try again later",
        )
    return sha


def _command(remote: str, what: str) -> str:
    from shlex import quote

    return f"git fetch {quote(printable(remote)[:80])} {what}"


def _credentials(access: Access) -> dict[str, str]:
    """The token for a private repository: for GitHub's address alone, and in no argument.

    It replaces one that a workflow's checkout left in the clone, since GitHub refuses two.
    """
    server = check_server_url(access.server_url)
    secret = b64encode(f"x-access-token:{access.token}".encode()).decode()
    key = f"http.{server}/.extraHeader"
    return {
        "GIT_CONFIG_COUNT": "2",
        "GIT_CONFIG_KEY_0": key,
        "GIT_CONFIG_VALUE_0": "",
        "GIT_CONFIG_KEY_1": key,
        "GIT_CONFIG_VALUE_1": f"Authorization: Basic {secret}",
    }
