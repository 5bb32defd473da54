"""Full texts on the archive branch: added to what it holds, pushed, and found there again.

The branch is made with nothing but full texts if it is missing. Where it holds another text of a
document, that text gives way only if it is an older version of the same document: it stays in the
history of the branch. Any other text may be newer, and stays; so does the document.
"""

from __future__ import annotations

from rlm_ci.archive.plan import SkippedDocument
from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlm_ci.archive.plan import ArchivePlan
    from rlm_ci.git.clone import Clone, Delivery
    from rlm_ci.git.repository import Repository

#: Paths that one command of git gets.
_AT_ONCE = 500


class Payloads:
    """The full texts of a plan, and which of them the branch cannot take."""

    def __init__(self, repository: Repository, plan: ArchivePlan) -> None:
        self._repository, self._plan = repository, plan
        self.refused: list[SkippedDocument] = []

    def missing_in(self, archived: Mapping[str, str]) -> dict[str, str]:
        """The object ids to put to those of the branch, ``archived``; sets ``refused``."""
        documents = self._plan.documents
        differing = [
            document.path
            for document in documents
            if archived.get(document.path, document.oid) != document.oid
        ]
        earlier = versions(self._repository, self._plan.head, differing)
        folders = {folder for path in archived for folder in folders_of(path)}
        self.refused, additions = [], {}
        for document in documents:
            oid = archived.get(document.path)
            if document.path in folders or any(
                folder in archived for folder in folders_of(document.path)
            ):
                self._refuse(
                    document.path, document.task, "a folder and a file have the same name there"
                )
            elif oid is None or oid in earlier.get(document.path, ()):
                additions[document.path] = document.oid
            elif oid != document.oid:
                why = "it is no older version of this document"
                if self._repository.is_shallow():
                    why += ", as far as this shallow clone knows"
                self._refuse(document.path, document.task, why)
        return additions

    def _refuse(self, path: str, task: str, why: str) -> None:
        detail = f"{self._plan.policy.branch} has another text: {why}"
        self.refused.append(SkippedDocument(path, "archived_content_differs", detail, task))

    def push(self, clone: Clone) -> Delivery:
        """Put the full texts to the branch. Raises ConfigError, RemoteError."""
        branch = self._plan.policy.branch
        self._require_pushed(clone, branch)
        message = f"Archive documents\n\nFrom commit {self._plan.head}"
        return clone.add(branch, self.missing_in, message)

    def _require_pushed(self, clone: Clone, branch: str) -> None:
        """Raise ConfigError for a local branch with full texts that the remote does not have.

        The remote's branch hides it from the doc-archive check.
        """
        local, _ = self._repository.refs(f"refs/heads/{branch}").get(
            f"refs/heads/{branch}", ("", "")
        )
        if local and not clone.has(branch, local):
            raise ConfigError(
                f"the local branch {branch} has commits that are not on the remote",
                where=printable(branch),
                hint=f"push it first, or remove it: git push {self._repository.remote()} {branch}",
            )

    def found_again(self, clone: Clone) -> ArchivePlan:
        """The plan without what the branch, fetched again, does not have.

        Raises RemoteError where it lacks a full text that was just pushed.
        """
        clone.fetch()
        branch = self._plan.policy.branch
        archived = clone.object_ids(branch)
        plan = self.narrowed(archived)
        lost = [
            document.path
            for document in plan.documents
            if archived.get(document.path) != document.oid
        ]
        if lost:
            raise RemoteError(
                f"{count(len(lost), 'full text')} cannot be found again on the branch {branch}",
                where=printable(lost[0]),
                hint="no stub was written; look at the branch, then run it again",
            )
        return plan

    def narrowed(self, archived: Mapping[str, str]) -> ArchivePlan:
        """The plan without documents that were refused, and rows of stubs without a full text."""
        plan = self._plan.without(self.refused)
        return plan.replace(unmarked=tuple(path for path in plan.unmarked if archived.get(path)))


def versions(repository: Repository, head: str, paths: Sequence[str]) -> dict[str, set[str]]:
    """The object ids that each of ``paths`` has had in the history of ``head``."""
    oids: dict[str, set[str]] = {path: set() for path in paths}
    for start in range(0, len(paths), _AT_ONCE):
        within = ("--", *paths[start : start + _AT_ONCE])
        # Not ``git log``, which the configuration can change.
        commits = repository.run("rev-list", "--full-history", head, *within)
        how = ("--stdin", "--root", "-m", "-r", "--raw", "-z", "--no-abbrev", "--no-renames")
        printed = repository.run("diff-tree", *how, *within, stdin=commits)
        fields = iter(printed.decode("utf-8", "surrogateescape").split("\0"))
        for field in fields:
            if field.startswith(":"):
                words = field.split(" ")
                oids.setdefault(next(fields, ""), set()).update(words[2:4])
    return oids


def folders_of(path: str) -> Iterator[str]:
    """The folders that ``path`` is in, innermost first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path
