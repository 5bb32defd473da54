"""Our summary comment as earlier runs left it, and the texts that it had, as GitHub keeps them.

Anybody who may write to the repository may edit a bot's comment: only our own edits count. GitHub
documents the text of an edit as "a summary of the changes", and returns the whole text; only one
that begins with our marker is used.
"""

from __future__ import annotations

from rlm_ci.github.api.errors import UnreachableError, record, rows, text
from rlm_ci.github.posting import checkpoint
from rlm_ci.github.posting.review_threads import author_of, bare
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.checkpoint import Checkpoint
    from rlm_ci.github.posting.outcome import Destination

#: How many of the last edits are read.
_EDITS = 30

_QUERY = """\
query ($owner: String!, $name: String!, $number: Int!, $comment: ID!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) { headRefOid } }
  node(id: $comment) {
    ... on IssueComment {
      body
      userContentEdits(first: %d) {
        nodes { createdAt diff editor { __typename login } }
      }
    }
  }
}
"""

_FIELDS = """\
body
lastEditedAt
author { __typename login }
editor { __typename login }"""


class CommentHistory(Value):
    """The pull request's ``head``, a comment's ``body`` (None if gone) and texts, newest first."""

    head: str
    body: str | None = None
    texts: tuple[str, ...] = ()

    def words_of(self, head: str) -> str:
        """The last text that was about ``head``, "" for none."""
        for body in self.texts:
            last = checkpoint.read(body)
            if last is not None and last.head == head:
                return body
        return ""


def read(client: GitHubClient, to: Destination, comment: str, author: str) -> CommentHistory:
    """The comment of this global id, with the texts by ``author``. Raises RemoteError."""
    owner, _, name = to.repository.partition("/")
    variables = {"owner": owner, "name": name, "number": to.number, "comment": comment}
    data = client.query(_QUERY % _EDITS, **variables)
    pull = record(record(data.get("repository")).get("pullRequest"))
    head = text(pull.get("headRefOid"))
    if not head:
        raise UnreachableError("GitHub does not name the pull request's head", "GraphQL")
    node = record(data.get("node"))
    if "body" not in node:
        return CommentHistory(head)
    all_edits = map(record, rows(record(node.get("userContentEdits")).get("nodes")))
    edits = [edit for edit in all_edits if author_of(edit, "editor") == bare(author)]
    edits.sort(key=lambda edit: text(edit.get("createdAt")), reverse=True)
    return CommentHistory(head, text(node["body"]), tuple(text(edit.get("diff")) for edit in edits))


class PreviousRun(Value):
    """Our ``login``, the checkpoint of our summary, or ``doubt``: why an existing one has none."""

    login: str
    last: Checkpoint | None = None
    doubt: str = ""


def previous_run(client: GitHubClient, to: Destination) -> PreviousRun:
    """The last run of the same name. Raises RemoteError."""
    login, marked = _marked(client, to)
    comments = checkpoint.of_name(
        to.name, ((checkpoint.read(text(comment.get("body"))), comment) for comment in marked)
    )
    if not comments:
        return PreviousRun(login)
    if len(comments) > 1:
        return PreviousRun(login, doubt="there is more than one summary comment")
    (comment,) = comments
    if _is_edited(comment, login):
        return PreviousRun(login, doubt="somebody has edited the summary comment")
    last = checkpoint.read(text(comment.get("body")))
    return PreviousRun(login, last, "" if last else "the summary comment's state cannot be read")


def spending(client: GitHubClient, to: Destination) -> tuple[float, str]:
    """USD that the runs of all names have spent on models, and why that is not known, if so.

    Raises RemoteError.
    """
    login, marked = _marked(client, to)
    total = 0.0
    for comment in marked:
        last = checkpoint.read(text(comment.get("body")))
        if _is_edited(comment, login):
            return total, "somebody has edited a summary comment"
        if last is None or last.number != to.number:
            return total, "the state of a summary comment cannot be read"
        total += last.cost_usd
    return total, ""


def _marked(client: GitHubClient, to: Destination) -> tuple[str, list[dict[str, Any]]]:
    """Our login, and our own comments with a marker."""
    pull_request_list = client.of_pull_request(
        to.repository, to.number, "comments", fields=_FIELDS, what="comments"
    )
    comments = (
        comment
        for comment in map(record, pull_request_list.rows)
        if author_of(comment) == bare(pull_request_list.login)
    )
    return pull_request_list.login, [
        comment for comment in comments if checkpoint.is_marked(text(comment.get("body")))
    ]


def _is_edited(comment: dict[str, Any], login: str) -> bool:
    """Whether somebody else was the last who edited a comment of ours."""
    return bool(comment.get("lastEditedAt")) and author_of(comment, "editor") != bare(login)
