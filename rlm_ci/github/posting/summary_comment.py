"""The summary comment: one on each pull request, found again, kept up to date in its place.

GitHub changes a comment without asking what it was before, so two runs at once can post two
or write over each other. A run therefore looks right before it writes and again after it:
duplicates are folded into the oldest, and what belongs to a newer head is left alone or put
back (see ``comment_history``).
"""

from __future__ import annotations

from rlm_ci.github.api.errors import GitHubRefusedError, UnreachableError
from rlm_ci.github.posting import checkpoint
from rlm_ci.github.posting.outcome import POSTED, SKIPPED, UPDATED
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.checkpoint import Checkpoint

#: What a comment may be gone with: deleted, or never ours to see.
_GONE = (404, 410)


class SummaryComment(Value):
    """A summary comment of ours; ``last`` is its checkpoint, if it has one that holds.

    ``node`` is its global id, as GraphQL asks for it.
    """

    id: int
    url: str
    body: str
    last: Checkpoint | None
    node: str = ""


class SummaryComments:
    """The summary comments on one pull request that ``author`` wrote."""

    def __init__(self, client: GitHubClient, repository: str, number: int, author: str) -> None:
        self._client = client
        self._author = author
        self._comments = f"/repos/{repository}/issues/{number}/comments"
        self._comment = f"/repos/{repository}/issues/comments"

    def find(self) -> list[SummaryComment]:
        """All of them, oldest first. One that anybody else wrote is none, whatever it says."""
        return [comment for author, comment in self.marked() if author == self._author]

    def marked(self) -> list[tuple[str, SummaryComment]]:
        """Whatever looks like a summary of ours, with its author's login, oldest first."""
        found = []
        for record in self._client.pages(self._comments):
            user = record.get("user") if isinstance(record, dict) else None
            login = user.get("login") if isinstance(user, dict) else None
            if isinstance(login, str) and checkpoint.is_marked(str(record.get("body") or "")):
                found.append((login, _read(record)))
        return found

    def put(
        self,
        now: Checkpoint,
        head: Callable[[], str],
        write: Callable[[Checkpoint | None], str],
    ) -> tuple[str, SummaryComment]:
        """Post or update the summary of ``now``; what was done, and the comment.

        ``head`` tells that of the pull request, and is asked once, right before the write.
        ``write`` makes the body, given the last checkpoint. Raises GitHubRefusedError or
        UnreachableError.
        """
        known = self.find()
        current = head()
        if now.head != current:  # whoever wrote of another head since may know better than we do
            known = self.find()
            others = [one for one in known if one.last and one.last.head != now.head]
            if others:
                return SKIPPED, _newest(known, current) or others[-1]
        last = _newest(known, now.head) or (known[0] if known else None)
        body = write(last.last if last else None)
        if known:
            try:
                done, kept = UPDATED, self._update(known[0], body)
            except GitHubRefusedError as refused:
                if refused.status not in _GONE:
                    raise
                done, kept = POSTED, self._create(body, now)  # deleted while we wrote
        else:
            done, kept = POSTED, self._create(body, now)
        if len(known) > 1 or done == POSTED:
            kept = self._fold(kept, current)
        return done, kept

    def restore(self, kept: SummaryComment, body: str) -> SummaryComment:
        """Put ``body``, that of a newer head, back where an older run wrote over it."""
        return self._update(kept, body)

    def _create(self, body: str, now: Checkpoint) -> SummaryComment:
        def done() -> dict[str, Any] | None:
            # Nothing but the run tells this comment from one of an earlier attempt.
            for one in self.find():
                if one.last and one.last.run == now.run and one.last.head == now.head:
                    return {
                        "id": one.id, "html_url": one.url, "body": one.body, "node_id": one.node,
                    }  # fmt: skip
            return None

        return _read(self._client.write("POST", self._comments, {"body": body}, done=done))

    def _update(self, comment: SummaryComment, body: str) -> SummaryComment:
        path = f"{self._comment}/{comment.id}"

        def done() -> dict[str, Any] | None:
            record = self._client.get(path)
            held = str(record.get("body") or "").partition("\n")[0].rstrip("\r")
            return record if held == body.partition("\n")[0] else None

        if comment.body == body:
            return comment
        return _read(self._client.write("PATCH", path, {"body": body}, done=done))

    def _fold(self, kept: SummaryComment, current: str) -> SummaryComment:
        """One comment of all that are there now: the oldest, with the newest head's words."""
        found = self.find()
        if not found:
            return kept
        first = found[0]
        is_newest = kept.last is not None and kept.last.head == current
        best = kept if is_newest else _newest(found, current) or kept
        if first.id != best.id:
            first = self._update(first, best.body)
        for one in found[1:]:
            try:
                self._client.write("DELETE", f"{self._comment}/{one.id}")
            except GitHubRefusedError as refused:
                if refused.status not in _GONE:  # the other run was quicker
                    raise
        return first


def _newest(comments: list[SummaryComment], head: str) -> SummaryComment | None:
    """The one that is about ``head``; of several, the latest."""
    return next((one for one in reversed(comments) if one.last and one.last.head == head), None)


def _read(record: Any) -> SummaryComment:
    """Raises UnreachableError for what is no comment, as a proxy might answer it."""
    if not isinstance(record, dict) or not isinstance(record.get("id"), int):
        raise UnreachableError("GitHub's answer is not a comment", "issue comments")
    body = str(record.get("body") or "")
    url = str(record.get("html_url") or "")
    # It will be printed, and handed to other steps.
    plain = url.startswith(("https://", "http://")) and url.isascii() and url.isprintable()
    node = record.get("node_id")
    return SummaryComment(
        record["id"], url if plain else "", body, checkpoint.read(body),
        node if isinstance(node, str) else "",
    )  # fmt: skip
