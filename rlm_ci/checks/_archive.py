"""Where the archive is: what the policy says, and the commit that others can reach."""

from __future__ import annotations

from rlm_ci import files
from rlm_ci.checks._stub import MARKER, Target, parse
from rlm_ci.errors import ConfigError, DamagedError, RemoteError
from rlm_ci.objects import parse_contents

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Self

    from rlm_ci.changes import ChangeSet
    from rlm_ci.git import Repository
    from rlm_ci.objects import Entry

POLICY = "docs/implementation-docs-archive-policy.json"
DEFAULT_BRANCH = "doc-archives"
_POLICY_LIMIT = 1 << 20
#: A stub has about eight lines; a full text above this size is taken for one unopened.
STUB_LIMIT = 4 << 10
#: The one problem of a full text that is not that it is missing.
IS_STUB = "is itself a stub"


def read_policy(changes: ChangeSet) -> tuple[str, Target]:
    """The archive branch, and where the links must lead; from the base on a pull request."""
    record: object = {}
    data = _read_policy(changes)
    if data is not None:
        import json

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


def find_archive(repository: Repository, branch: str) -> str | None:
    """The archive's commit: what others can reach, else the local branch, else None."""
    local, reachable = f"refs/heads/{branch}", f"refs/remotes/origin/{branch}"
    known = repository.refs(local, f"refs/remotes/*/{branch}")
    if reachable not in known and len(known) > (local in known):
        reachable = f"refs/remotes/{repository.remote()}/{branch}"
    return (known.get(reachable) or known.get(local) or (None,))[0]


def fetch_archive(repository: Repository, branch: str) -> str | None:
    """Fetch the archive, and find it; raises RemoteError when the remote does not give it."""
    remote = repository.remote()
    refspec = f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}"
    try:
        repository.run("fetch", "--no-tags", remote, refspec, network=True)
    except DamagedError as error:
        raise RemoteError(
            f"the archive branch {branch!r} cannot be fetched: {error.what}",
            where=f"--fetch from {remote}",
            hint="see that the remote can be reached and has the branch",
        ) from None
    return find_archive(repository, branch)


def require_contents(repository: Repository, missing: int) -> None:
    """Raise ConfigError when the clone lacks the contents of ``missing`` documents."""
    if missing:
        raise ConfigError(
            f"{missing:,} document{'s' if missing > 1 else ''} cannot be read: this clone does not "
            "hold the contents",
            where=repository.root,
            hint="fetch them: git fetch --refetch --no-filter",
        )


class Payloads:
    """What the archive holds under some paths, as a context manager: git reads it beside us."""

    def __init__(self, repository: Repository, entries: Mapping[str, Entry]) -> None:
        """``entries`` with their sizes."""
        self._repository = repository
        self._entries = entries
        # Only what is small enough to be a stub is opened, to see whether it is one.
        self._small = [
            path
            for path, entry in entries.items()
            if 0 < entry.size <= STUB_LIMIT and entry.is_file
        ]
        self._contents = repository.start_read([entries[path].oid for path in self._small])

    def __enter__(self) -> Self:
        self._contents.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._contents.__exit__(*error)

    def problems(self, paths: Iterable[str]) -> dict[str, str]:
        """What is wrong with the full texts of ``paths``; to be asked once.

        Raises ConfigError when the clone does not hold one of them.
        """
        stubs = self._stubs()
        found = {}
        missing = 0
        for path in paths:
            entry = self._entries.get(path)
            if entry is None:
                found[path] = "does not exist"
            elif not entry.is_file:
                found[path] = "is not a regular file"
            elif entry.size <= 0:
                found[path] = "is empty"
                missing += entry.size < 0
            elif path in stubs:
                found[path] = IS_STUB
        require_contents(self._repository, missing)
        return found

    def _stubs(self) -> set[str]:
        """The small texts that are stubs themselves; mostly none has even the marker."""
        contents = self._contents.finish()
        if MARKER not in contents:
            return set()
        texts = parse_contents(contents, len(self._small))
        return {
            path
            for path, data in zip(self._small, texts, strict=True)
            if data and MARKER in data and parse(data) is not None
        }


def missing_archive(repository: Repository, branch: str) -> ConfigError:
    from shlex import quote

    remote = repository.remote()
    refspec = f"{branch}:refs/remotes/{remote}/{branch}"
    return ConfigError(
        f"the archive branch {branch!r} is not in this clone",
        where=POLICY,
        hint=f"git fetch {quote(remote)} {quote(refspec)} (or let it be done: --fetch)",
    )
