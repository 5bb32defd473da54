"""The objects of a pull request, brought into the clone; nothing is checked out."""

from __future__ import annotations

from base64 import b64encode

from rlm_ci.errors import ConfigError, DamagedError, RemoteError
from rlm_ci.report.links import check_server_url
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
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
        _fetch(repository, remote, [ref], access)
        if repository.resolve(commit)[0] is None:
            raise ConfigError(
                f"GitHub's API names {commit[:12]}, which is not what was fetched: the pull "
                "request has changed",
                where=f"{printable(remote)[:80]}, {ref}",
                hint=f"comment again, or fetch it: {_command(remote, ref)}",
            )


def fetch_heads(
    repository: Repository, branch: str, numbers: Iterable[int], access: Access
) -> tuple[str, dict[int, str]]:
    """The commits of ``branch`` and of the heads of pull requests, brought by one fetch.

    A head that the remote no longer has is not in the record. Raises ConfigError if it has no such
    branch, RemoteError if it cannot be reached.
    """
    remote, trunk = repository.remote(), f"refs/heads/{branch}"
    numbers_by_ref = {f"refs/pull/{number}/head": number for number in numbers}
    output = _reach(repository, ["ls-remote", "--", remote, trunk, *numbers_by_ref], access)
    rows = (row.partition("\t") for row in output.decode("utf-8", "surrogateescape").split("\n"))
    commits = {ref: commit for commit, _, ref in rows}
    if trunk not in commits:
        raise ConfigError(
            f"the remote has no branch {printable(branch)[:80]!r}",
            where=printable(remote)[:80],
            hint="name the base branch of the pull requests: --base main",
        )
    refs = [ref for ref in (trunk, *numbers_by_ref) if ref in commits]
    is_present = dict(zip(refs, repository.resolve(*(commits[ref] for ref in refs)), strict=True))
    if missing := [ref for ref in refs if is_present[ref] is None]:
        _fetch(repository, remote, missing, access)
    heads = {numbers_by_ref[ref]: commits[ref] for ref in refs if ref in numbers_by_ref}
    return commits[trunk], heads


def _fetch(repository: Repository, remote: str, refs: Sequence[str], access: Access) -> None:
    options = (
        "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-gc", "--no-write-fetch-head",
    )  # fmt: skip
    _reach(repository, ["fetch", *options, remote, *(f"+{ref}" for ref in refs)], access)


def _reach(repository: Repository, words: Sequence[str], access: Access) -> bytes:
    """The output of a git command that asks the remote. Raises RemoteError."""
    try:
        return repository.run(*words, env=_credentials(access), network=True)
    except DamagedError as error:
        remote, ref = repository.remote(), words[-1].removeprefix("+")
        raise RemoteError(
            f"the pull request's commits cannot be fetched: {error.what}",
            where=f"{printable(remote)[:80]}, {ref}",
            hint=f"see why: {_command(remote, ref)}",
        ) from None


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
