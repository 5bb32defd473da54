"""Where the archive is: what the policy says, and the commit that others can reach."""

from __future__ import annotations

import json

from rlm_ci import files
from rlm_ci.checks._stub import Target
from rlm_ci.errors import ConfigError, DamagedError, RemoteError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.changes import ChangeSet
    from rlm_ci.git import Repository

POLICY = "docs/implementation-docs-archive-policy.json"
DEFAULT_BRANCH = "doc-archives"
_POLICY_LIMIT = 1 << 20


def read_policy(changes: ChangeSet) -> tuple[str, Target]:
    """The archive branch, and where the links must lead; from the base on a pull request."""
    record: object = {}
    data = _read_policy(changes)
    if data is not None:
        try:
            record = json.loads(data)
        except (ValueError, RecursionError):
            record = None
    if not isinstance(record, dict):
        raise ConfigError(
            "the archive policy is not a JSON object",
            where=POLICY,
            hint="mend it on the base branch",
        )
    branch = record.get("archive_branch", DEFAULT_BRANCH)
    url = record.get("repo_url")
    if url is None and changes.repository.git_dir:
        url = changes.repository.config(f"remote.{changes.repository.remote()}.url")
    if not isinstance(branch, str) or not _is_branch(branch):
        raise ConfigError(
            "archive_branch is not the name of a branch",
            where=POLICY,
            hint="mend it on the base branch",
        )
    target = Target.from_url(url) if isinstance(url, str) else None
    if target is None and "repo_url" in record:
        raise ConfigError(
            "repo_url is not the address of a repository",
            where=POLICY,
            hint="write it as https://HOST/OWNER/NAME",
        )
    return branch, target or Target()


def _read_policy(changes: ChangeSet) -> bytes | None:
    commit = changes.policy_commit
    if commit is not None:
        return changes.repository.read(f"{commit}:{POLICY}")[0]
    try:
        return files.read_inside(changes.repository.root, POLICY, _POLICY_LIMIT)
    except files.UnreadableError as error:
        if error.missing:
            return None
        raise ConfigError(
            f"the archive policy cannot be read: {error}", where=POLICY, hint="mend or remove it"
        ) from None


def _is_branch(name: str) -> bool:
    parts = name.split("/")
    return (
        bool(name)
        and name.isprintable()
        and not set(name) & set(" ~^:?*[\\")
        and ".." not in name
        and not name.startswith("-")
        and all(part and part[0] != "." and not part.endswith((".", ".lock")) for part in parts)
    )


def find_archive(repository: Repository, branch: str, *, fetch: bool) -> str | None:
    """The archive's commit: what others can reach, else the local branch, else None."""
    remote = repository.remote()
    places = (f"refs/remotes/{remote}/{branch}", f"refs/heads/{branch}")
    found = repository.resolve(*places)
    if not any(found) and fetch:
        refspec = f"+refs/heads/{branch}:{places[0]}"
        try:
            repository.run("fetch", "--no-tags", remote, refspec, network=True)
        except DamagedError as error:
            raise RemoteError(
                f"the archive branch {branch!r} cannot be fetched: {error.what}",
                where=f"--fetch from {remote}",
                hint="see that the remote can be reached and has the branch",
            ) from None
        found = repository.resolve(*places)
    return found[0] or found[1]


def missing_archive(repository: Repository, branch: str) -> ConfigError:
    from shlex import quote

    remote = repository.remote()
    refspec = f"{branch}:refs/remotes/{remote}/{branch}"
    return ConfigError(
        f"the archive branch {branch!r} is not in this clone",
        where=POLICY,
        hint=f"git fetch {quote(remote)} {quote(refspec)} (or let it be done: --fetch)",
    )
