"""The texts that our summary comment had, as GitHub keeps them: what a late run wrote over.

GitHub calls the text of an edit "a summary of the changes". What it gives there is the whole text;
only one that begins with our marker and was written by us is taken for that, so that nothing comes
of it where that should change.
"""

from __future__ import annotations

from rlm_ci.github.api.errors import UnreachableError, record, rows, text
from rlm_ci.github.posting import checkpoint
from rlm_ci.github.posting.review_threads import author_of, bare
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.outcome import Destination

#: Edits that are looked at, the last ones.
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


class CommentHistory(Value):
    """The ``head`` of the pull request, and a comment with all its texts, the newest first.

    ``body`` is None for a comment that is gone.
    """

    head: str
    body: str | None = None
    texts: tuple[str, ...] = ()

    def words_of(self, head: str) -> str:
        """The last text that was about ``head``, "" for none."""
        for one in self.texts:
            last = checkpoint.read(one)
            if last is not None and last.head == head:
                return one
        return ""


def read(client: GitHubClient, to: Destination, comment: str, author: str) -> CommentHistory:
    """The comment whose global id is ``comment``, with the texts that ``author`` gave it.

    Raises GitHubRefusedError or UnreachableError.
    """
    owner, _, name = to.repository.partition("/")
    asked = {"owner": owner, "name": name, "number": to.number, "comment": comment}
    data = client.query(_QUERY % _EDITS, **asked)
    pull = record(record(data.get("repository")).get("pullRequest"))
    head = text(pull.get("headRefOid"))
    if not head:
        raise UnreachableError("GitHub does not name the pull request's head", "GraphQL")
    node = record(data.get("node"))
    if "body" not in node:
        return CommentHistory(head)
    edits = map(record, rows(record(node.get("userContentEdits")).get("nodes")))
    ours = [one for one in edits if author_of(one, "editor") == bare(author)]
    ours.sort(key=lambda one: text(one.get("createdAt")), reverse=True)
    return CommentHistory(head, text(node["body"]), tuple(text(one.get("diff")) for one in ours))
