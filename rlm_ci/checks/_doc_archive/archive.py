"""The archive: its branch and links by the policy, its commit, its full texts."""

from __future__ import annotations

from rlm_ci.checks._doc_archive.stub import MARKER, LinkTarget, parse
from rlm_ci.errors import ConfigError, DamagedError, RemoteError
from rlm_ci.git import tracked
from rlm_ci.git.objects import is_branch, parse_contents, parse_refs
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping
    from typing import Self

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.repository import Repository, RunningGit

POLICY = "docs/implementation-docs-archive-policy.json"
DEFAULT_BRANCH = "doc-archives"
_POLICY_LIMIT = 1 << 20
#: Names of documents, and git's patterns for them.
ENDINGS = (".md", ".markdown", ".mdx")
DOCUMENTS = tuple(f":(icase)*{ending}" for ending in ENDINGS)
#: A stub has about eight lines: a larger text is not opened.
STUB_LIMIT = 4 << 10
#: Texts from which on a search may pay, and bytes that it may search for each.
_FEW = 64
_SEARCHED = 2 << 10
#: The one problem of a full text other than that it is missing.
IS_STUB = "is itself a stub"


def read_policy(changes: ChangeSet) -> tuple[str, LinkTarget]:
    """The archive branch, and where the links must lead; from the base on a pull request."""
    record = policy_record(changes) or {}
    branch, url = place_of(record, changes.repository)
    return branch, LinkTarget.from_url(url) or LinkTarget()


def place_of(record: Mapping[str, object], repository: Repository) -> tuple[str, str]:
    """The archive branch, and the address of its repository, by a policy or the remote.

    The address is "" where neither says it. Raises ConfigError.
    """
    branch = record.get("archive_branch", DEFAULT_BRANCH)
    url = record.get("repo_url")
    if url is None and repository.git_dir:
        url = repository.config(f"remote.{repository.remote()}.url")
    if not isinstance(branch, str) or not is_branch(branch):
        raise bad_policy("archive_branch is not the name of a branch")
    address = url if isinstance(url, str) and LinkTarget.from_url(url) else ""
    if not address and "repo_url" in record:
        hint = "write it as https://HOST/OWNER/NAME"
        raise bad_policy("repo_url is not the address of a repository", hint)
    return branch, address


def bad_policy(what: str, hint: str = "fix it on the base branch") -> ConfigError:
    return ConfigError(what, where=POLICY, hint=hint)


def policy_record(changes: ChangeSet) -> dict[str, object] | None:
    """The policy; None without one. Raises ConfigError for one that is no JSON object."""
    data = _read_policy(changes)
    if data is None:
        return None
    import json

    try:
        record = json.loads(data)
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise bad_policy("the archive policy is not a JSON object")
    return record


def _read_policy(changes: ChangeSet) -> bytes | None:
    commit = changes.policy_commit
    if commit is not None:
        return changes.repository.read(f"{commit}:{POLICY}")[0]
    try:
        return tracked.read(changes.repository, POLICY, _POLICY_LIMIT)
    except files.UnreadableError as error:
        if error.missing:
            return None
        what = f"the archive policy cannot be read: {error}"
        raise bad_policy(what, "fix or remove it") from None


def ask_archive(repository: Repository, branch: str) -> RunningGit:
    """Begin to list the refs that :func:`find_archive` chooses from."""
    return repository.start_refs(f"refs/heads/{branch}", f"refs/remotes/*/{branch}")


def find_archive(repository: Repository, branch: str, refs: bytes) -> str | None:
    """The archive's commit: that of the remote, else of the local branch, else None."""
    local, reachable = f"refs/heads/{branch}", f"refs/remotes/origin/{branch}"
    branches = parse_refs(refs)
    if reachable not in branches and len(branches) > (local in branches):
        reachable = f"refs/remotes/{repository.remote()}/{branch}"
    return (branches.get(reachable) or branches.get(local) or (None,))[0]


def tips(refs: bytes) -> frozenset[str]:
    """The commits of all branches with the archive's name."""
    return frozenset(commit for commit, _ in parse_refs(refs).values())


def fetch_archive(repository: Repository, branch: str) -> str | None:
    """Fetch the archive, and find it; raises RemoteError if that fails."""
    remote = repository.remote()
    refspec = f"+refs/heads/{branch}:refs/remotes/{remote}/{branch}"
    try:
        repository.run("fetch", "--no-tags", remote, refspec, network=True)
    except DamagedError as error:
        raise RemoteError(
            f"the archive branch {branch!r} cannot be fetched: {error.what}",
            where=f"--fetch from {remote}",
            hint=f"check that {remote} can be reached; "
            "if it has no such branch, rlm-ci archive makes it",
        ) from None
    with ask_archive(repository, branch) as asking:
        return find_archive(repository, branch, asking.finish())


def require_contents(repository: Repository, missing: int) -> None:
    """Raise ConfigError if the clone lacks the contents of ``missing`` documents."""
    if missing:
        raise ConfigError(
            f"{missing:,} document{'s' if missing > 1 else ''} cannot be read: this clone does not "
            "have their contents",
            where=repository.root,
            hint="fetch them: git fetch --refetch --no-filter",
        )


class ArchivePayloads:
    """What the archive has under some paths; a context manager, since git runs meanwhile."""

    def __init__(
        self, repository: Repository, archive: str, listing: bytes, container: Container[str]
    ) -> None:
        """``listing`` is that of ``archive``, with sizes; only the paths ``container`` count."""
        self._repository = repository
        #: What git says of the regular files with something in them, and of the others.
        self._whole: dict[str, str] = {}
        self._others: dict[str, str] = {}
        sizes, other_rows = [], []
        for row in listing.decode("utf-8", "surrogateescape").split("\0"):
            # There are thousands of rows.
            head, _, path = row.partition("\t")
            if path not in container or not head:
                other_rows.append(row)
                continue
            size = head.rpartition(" ")[2]
            if size.isdigit() and size != "0" and head[:3] == "100":
                self._whole[path] = head
                sizes.append(size)
            else:
                self._others[path] = head
        self._searching = self._is_search_cheap(sizes, other_rows)
        if self._searching:
            self._looking = repository.start_search([MARKER], archive, DOCUMENTS)
        else:
            self._small = self._small_of(self._whole)
            self._looking = repository.start_read(list(self._small.values()))

    def _is_search_cheap(self, sizes: list[str], other_rows: list[str]) -> bool:
        """Whether git finds the stubs faster by a search of all documents of the archive.

            A search takes half as long as reading small texts, but opens large ones and
        ``other_rows`` too.
        """
        if len(sizes) < _FEW or len(other_rows) > len(sizes):
            return False
        others = [*self._others.values()]
        others += [row.partition("\t")[0] for row in other_rows if row.lower().endswith(ENDINGS)]
        further = [head.rpartition(" ")[2] for head in others if head.startswith("100")]
        # What the clone does not hold cannot be searched.
        return all(size.isdigit() for size in further) and (
            sum(map(int, [*sizes, *further])) <= len(sizes) * _SEARCHED
        )

    def _small_of(self, paths: Iterable[str]) -> dict[str, str]:
        heads = {path: self._whole[path] for path in paths if path in self._whole}
        return {
            path: head.split(" ", 3)[2]
            for path, head in heads.items()
            if int(head.rpartition(" ")[2]) <= STUB_LIMIT
        }

    def __enter__(self) -> Self:
        self._looking.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._looking.__exit__(*error)

    def __contains__(self, path: str) -> bool:
        return path in self._whole or path in self._others

    def problems(self, paths: Collection[str]) -> dict[str, str]:
        """What is wrong with the full texts of ``paths``; call it once.

        Raises ConfigError if the clone lacks one of them.
        """
        stubs = self._stubs()
        flaws = {}
        missing = 0
        for path in [path for path in paths if path not in self._whole or path in stubs]:
            head = self._others.get(path)
            if path in stubs:
                flaws[path] = IS_STUB
            elif head is None:
                flaws[path] = "does not exist"
            elif not head.startswith("100"):
                flaws[path] = "is not a regular file"
            else:
                flaws[path] = "is empty"
                missing += not head.endswith(" 0")
        require_contents(self._repository, missing)
        return flaws

    def _stubs(self) -> set[str]:
        """The small texts that are stubs themselves; usually none has the marker."""
        output = self._looking.finish()
        if self._searching:
            names = output.decode("utf-8", "surrogateescape").split("\0")
            small = self._small_of(name.partition(":")[2] for name in names)
            texts = self._repository.read(*small.values()) if small else []
        elif MARKER in output:
            small, texts = self._small, parse_contents(output, len(self._small))
        else:
            return set()
        return {
            path
            for path, data in zip(small, texts, strict=True)
            if data and MARKER in data and parse(data) is not None
        }


def missing_archive(repository: Repository, branch: str) -> ConfigError:
    from shlex import quote

    remote = repository.remote()
    refspec = f"{branch}:refs/remotes/{remote}/{branch}"
    hint = "rlm-ci archive makes it"
    if repository.config(f"remote.{remote}.url"):
        fetch = f"git fetch {quote(remote)} {quote(refspec)}"
        hint = f"{fetch} (or use --fetch); if there is none yet, {hint}"
    return ConfigError(
        f"the archive branch {branch!r} is not in this clone",
        where=POLICY if branch != DEFAULT_BRANCH else f"the default; {POLICY} can name another",
        hint=hint,
    )
