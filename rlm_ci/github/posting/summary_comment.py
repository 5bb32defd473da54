"""The summary comment: one for each name of a run, found again and updated in place.

GitHub has no conditional write, so two runs at once can post two comments or overwrite each other.
A run therefore looks right before it writes and again after it: duplicates are folded into the
oldest, and the text of a newer head is left alone or put back (see ``comment_history``).
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
    from rlm_ci.github.posting.outcome import Destination

#: What a comment may be gone with: deleted, or never ours to see.
_GONE = (404, 410)


class SummaryComment(Value):
    """A summary comment of ours; ``last`` is its checkpoint, ``node`` its id for GraphQL."""

    id: int
    url: str
    body: str
    last: Checkpoint | None
    node: str = ""


class SummaryComments:
    """The summary comments on the pull request ``to`` that ``author`` wrote for the same name."""

    def __init__(self, client: GitHubClient, to: Destination, author: str) -> None:
        self._client = client
        self._author = author
        self._name = to.name
        self._comments = f"/repos/{to.repository}/issues/{to.number}/comments"
        self._comment = f"/repos/{to.repository}/issues/comments"

    def find(self) -> list[SummaryComment]:
        """All of ours, oldest first; without any, those of no name."""
        comments = [comment for author, comment in self.marked() if author == self._author]
        return checkpoint.of_name(
            self._name, ((summary_comment.last, summary_comment) for summary_comment in comments)
        )

    def marked(self) -> list[tuple[str, SummaryComment]]:
        """All comments with our marker, with their authors' logins, oldest first."""
        comments = []
        for record in self._client.pages(self._comments):
            user = record.get("user") if isinstance(record, dict) else None
            login = user.get("login") if isinstance(user, dict) else None
            if isinstance(login, str) and checkpoint.is_marked(str(record.get("body") or "")):
                comments.append((login, _read(record)))
        return comments

    def put(
        self,
        now: Checkpoint,
        head: Callable[[], str],
        write: Callable[[Checkpoint | None], str],
    ) -> tuple[str, SummaryComment]:
        """Post or update the summary of ``now``; what was done, and the comment.

        ``head`` is called once, right before the write, for the head of the pull request;
        ``write`` makes the body from the last checkpoint. Raises RemoteError.
        """
        comments = self.find()
        current = head()
        if now.head != current:  # a comment about another head may be newer than ours
            comments = self.find()
            others = [
                comment for comment in comments if comment.last and comment.last.head != now.head
            ]
            if others:
                return SKIPPED, _newest(comments, current) or others[-1]
        last = _newest(comments, now.head) or (comments[0] if comments else None)
        body = write(last.last if last else None)
        try:
            comment = self.update(comments[0], body) if comments else None
        except GitHubRefusedError as refused:
            if refused.status not in _GONE:
                raise
            comment = None  # deleted while we wrote
        done = UPDATED if comment else POSTED
        comment = comment or self._create(body, now)
        is_taken_over = bool(comments) and not self._is_own(comments[0])
        if is_taken_over and not any(map(self._is_own, self.find())):
            comment = self._create(body, now)  # a run of another name took the same one over
        if len(comments) > 1 or done == POSTED:
            comment = self._fold(comment, current)
        return done, comment

    def _is_own(self, comment: SummaryComment) -> bool:
        return (comment.last.name if comment.last else "") == self._name

    def _create(self, body: str, now: Checkpoint) -> SummaryComment:
        def done() -> SummaryComment | None:
            for comment in self.find():
                if comment.last and (comment.last.run, comment.last.head, comment.last.name) == (
                    now.run, now.head, now.name
                ):  # fmt: skip
                    return comment
            return None

        answer = self._client.write("POST", self._comments, {"body": body}, done=done)
        return answer if isinstance(answer, SummaryComment) else _read(answer)

    def update(self, comment: SummaryComment, body: str) -> SummaryComment:
        path = f"{self._comment}/{comment.id}"

        def done() -> dict[str, Any] | None:
            record = self._client.get(path)
            first_line = str(record.get("body") or "").partition("\n")[0].rstrip("\r")
            return record if first_line == body.partition("\n")[0] else None

        if comment.body == body:
            return comment
        return _read(self._client.write("PATCH", path, {"body": body}, done=done))

    def _fold(self, comment: SummaryComment, current: str) -> SummaryComment:
        """Fold all comments into the oldest, with the text of the newest head."""
        comments = self.find()
        if not comments:
            return comment
        first = comments[0]
        is_newest = comment.last is not None and comment.last.head == current
        best = comment if is_newest else _newest(comments, current) or comment
        if first.id != best.id:
            first = self.update(first, best.body)
        for summary_comment in comments[1:]:
            try:
                self._client.write("DELETE", f"{self._comment}/{summary_comment.id}")
            except GitHubRefusedError as refused:
                if refused.status not in _GONE:  # the other run was quicker
                    raise
        return first


def _newest(comments: list[SummaryComment], head: str) -> SummaryComment | None:
    """The one that is about ``head``; of several, the latest."""
    return next(
        (comment for comment in reversed(comments) if comment.last and comment.last.head == head),
        None,
    )


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
