"""The pull requests of a merge group, each as a change of its own with its overrides.

GitHub names the last pull request in the group's ref. Which commits are whose is shown by the
second parents of merges, or else by the merge queue; commit messages are their authors' words.
"""

from __future__ import annotations

import re
from functools import cached_property

from rlm_ci.change import trigger
from rlm_ci.console.messages import say
from rlm_ci.errors import RemoteError, RlmCiError
from rlm_ci.github.posting.outcome import Destination
from rlm_ci.pull_request import answers
from rlm_ci.text.object_id import is_object_id
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.repository import Repository
    from rlm_ci.github.posting.outcome import PostingOptions
    from rlm_ci.github.session import GitHubSession

_REF = re.compile(r"refs/heads/gh-readonly-queue/.+/pr-([1-9][0-9]{0,9})-[0-9a-f]{40,64}")
_MERGE = re.compile(r"Merge pull request #([1-9][0-9]{0,9}) ")
_SQUASH = re.compile(r"\(#([1-9][0-9]{0,9})\)$")
_QUEUE = """\
query ($owner: String!, $name: String!, $branch: String!) {
  repository(owner: $owner, name: $name) {
    mergeQueue(branch: $branch) {
      entries(first: 100) { nodes { headCommit { oid } pullRequest { number } } }
    }
  }
}
"""


class MergeGroup(Value):
    """The changes of a group, oldest first, and the pull requests that are known."""

    changes: tuple[ChangeSet, ...]
    pulls: tuple[Destination, ...] = ()


def of_event(
    payload: Mapping[str, Any],
    path: str,
    posting: PostingOptions,
    way: GitHubSession,
    opened: Callable[[], Repository],
) -> MergeGroup | None:
    """The group of a ``merge_group`` event, the file ``path``; None if it cannot be read.

    Without a token, or an answer of GitHub, it is one change without a pull request.
    """
    try:
        change_set = trigger.from_event(opened(), path)
    except RlmCiError:
        return None  # the judgement reports what is wrong with it
    if change_set is None:
        return None
    ref = _REF.fullmatch(str(payload["merge_group"].get("head_ref")))
    lack = "" if ref else "the event does not name its pull request"
    if ref and not posting.access.token:
        lack = "there is no token to ask GitHub with"
    if ref and not lack:
        try:
            return _Reader(posting, way, change_set, int(ref[1])).group()
        except RlmCiError as error:
            lack = str(error)
    say(
        f"note: overrides and answers on the pull requests of this merge group do not count: {lack}"
    )
    return MergeGroup((change_set,))


class _Commit(Value):
    oid: str
    parents: tuple[str, ...]
    subject: str


class _Reader:
    """Reads the group ``whole``, whose last pull request is ``last``. Raises RemoteError."""

    def __init__(
        self, posting: PostingOptions, way: GitHubSession, change_set: ChangeSet, last: int
    ) -> None:
        self._posting = posting
        self._way = way
        self._whole = change_set
        self._last = last
        self._pulls: dict[int, dict[str, Any]] = {}

    def group(self) -> MergeGroup:
        changes, pulls = [], []
        start = self._whole.merge_base
        parts = self._parts()
        for commits, number in parts:
            change = self._whole.replace(merge_base=start, head=commits[-1].oid)
            start = commits[-1].oid
            if len(parts) > 1:
                change = change.replace(label=f"#{number}" if number else commits[-1].oid[:12])
            if number and (to := self._destination(number, commits[-1])):
                recorded = answers.recorded(self._posting, self._way, to)
                pull = trigger.pull_request_of({"pull_request": self._pull(number)}, to.path)
                accepted = tuple(
                    (override.check, answers.reason_of(override)) for override in recorded
                )
                change = change.replace(pull_request=pull and pull.replace(overrides=accepted))
                pulls.append(to)
            else:
                say(f"note: whose {change.label or 'this change'} is cannot be told for certain")
            changes.append(change)
        return MergeGroup(tuple(changes), tuple(pulls))

    def _parts(self) -> list[tuple[list[_Commit], int]]:
        """The commits, parted by pull request; 0 where it is not certain."""
        commits = self._commits()
        parts: list[tuple[list[_Commit], int]] = [([], 0)]
        for commit in commits:
            parts[-1][0].append(commit)
            number = self._last if commit is commits[-1] else self._merged(commit)
            if number:
                parts[-1] = (parts[-1][0], number)
                parts.append(([], 0))
        parts.pop()
        return [share for part, number in parts for share in self._of_queue(part, number)]

    def _of_queue(self, commits: list[_Commit], number: int) -> list[tuple[list[_Commit], int]]:
        """The same where all is of one pull request, else parted as the queue says."""
        count = self._pull(number).get("commits")
        if len(commits) == 1 or (
            len(commits) == count and not any(map(self._is_of_another, commits))
        ):
            return [(commits, number)]
        parts: list[tuple[list[_Commit], int]] = []
        start = 0
        for index, commit in enumerate(commits, 1):
            if commit.oid in self._entries or index == len(commits):
                owner = self._entries.get(commit.oid, 0)
                parts.append((commits[start:index], owner))
                start = index
        return parts

    def _commits(self) -> list[_Commit]:
        """The first parents from the base to the head, oldest first."""
        span = f"{self._whole.merge_base}..{self._whole.head}"
        form = "--format=%H%x00%P%x00%s"
        data = self._whole.repository.run("log", "--first-parent", "--reverse", form, span)
        rows = (line.split("\0") for line in data.decode("utf-8", "replace").split("\n") if line)
        return [_Commit(oid, tuple(parents.split()), subject) for oid, parents, subject in rows]

    def _pull(self, number: int) -> dict[str, Any]:
        if number not in self._pulls:
            path = f"/repos/{self._whole.name}/pulls/{number}"
            self._pulls[number] = self._way.client().get(path)
        return self._pulls[number]

    def _is_queued(self, number: int) -> bool:
        """Whether it may be in this queue: open, and on its way to the same branch."""
        pull = self._pull(number)
        base = pull.get("base")
        target = base.get("ref") if isinstance(base, dict) else None
        return pull.get("state") == "open" and target == self._whole.target

    def _merged(self, commit: _Commit) -> int:
        """The pull request whose head the commit merges, 0 for none."""
        match = _MERGE.match(commit.subject)
        if len(commit.parents) < 2 or not match or not self._is_queued(int(match[1])):
            return 0
        head = self._pull(int(match[1])).get("head")
        same = isinstance(head, dict) and head.get("sha") == commit.parents[1]
        return int(match[1]) if same else 0

    def _is_of_another(self, commit: _Commit) -> bool:
        match = _SQUASH.search(commit.subject)
        return bool(match and int(match[1]) != self._last and self._is_queued(int(match[1])))

    @cached_property
    def _entries(self) -> dict[str, int]:
        """The merge queue: the last commit of each entry, and its pull request."""
        owner, _, name = str(self._whole.name).partition("/")
        variables = {"owner": owner, "name": name, "branch": self._whole.target or ""}
        try:
            data = self._way.client().query(_QUEUE, **variables)
        except RemoteError as error:
            say(f"note: the merge queue cannot be read: {error}")
            return {}
        entries = {}
        for node in _nodes(data, "repository", "mergeQueue", "entries"):
            oid, number = _at(node, "headCommit", "oid"), _at(node, "pullRequest", "number")
            if isinstance(oid, str) and type(number) is int:
                entries[oid] = number
        return entries

    def _destination(self, number: int, commit: _Commit) -> Destination | None:
        """The pull request as its own runs know it; None if ``commit`` cannot bring it."""
        pull, name = self._pull(number), str(self._whole.name)
        base, head = _at(pull, "base", "sha"), _at(pull, "head", "sha")
        if not self._is_queued(number) or not (is_object_id(base) and is_object_id(head)):
            return None
        if len(commit.parents) > 1 and commit.parents[1] != head:
            return None  # it has another head by now
        merge_base = self._way.client().merge_base(name, base, head)
        return Destination(name, number, head, "", self._whole.target or "", merge_base)


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _nodes(data: Any, *keys: str) -> Sequence[Any]:
    nodes = _at(data, *keys, "nodes")
    return nodes if isinstance(nodes, list) else ()
