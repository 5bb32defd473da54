"""Our own summary as an earlier run left it, read before anything is judged.

One request tells our login, the summaries under it, and who has edited them: whoever may write
to the repository may edit a bot's comment, and then it is not ours any more.
"""

from __future__ import annotations

from rlm_ci.publishing import checkpoint
from rlm_ci.publishing.refusals import UnreachableError, record, rows, text
from rlm_ci.publishing.threads import author_of, bare
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.publishing.checkpoint import Checkpoint
    from rlm_ci.publishing.github import Client

#: Pages of a hundred comments each.
_MOST_PAGES = 50

_QUERY = """\
query ($owner: String!, $name: String!, $number: Int!, $after: String) {
  viewer { login }
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      comments(first: 100, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes {
          body
          lastEditedAt
          author { __typename login }
          editor { __typename login }
        }
      }
    }
  }
}
"""


class Earlier(Value):
    """``login`` is ours; ``last`` is what the one summary under it says, else ``doubt`` says why.

    Where there is no summary at all, there is no doubt either.
    """

    login: str
    last: Checkpoint | None = None
    doubt: str = ""


def read(client: Client, repository: str, number: int) -> Earlier:
    """Raises RefusedError or UnreachableError."""
    owner, _, name = repository.partition("/")
    after = ""
    seen = {after}
    found: list[dict[str, Any]] = []
    for _ in range(_MOST_PAGES):
        data = client.query(_QUERY, owner=owner, name=name, number=number, after=after or None)
        login = text(record(data.get("viewer")).get("login"))
        pull = record(record(data.get("repository")).get("pullRequest"))
        comments = record(pull.get("comments"))
        if not login or comments.get("nodes") is None:
            raise UnreachableError("GitHub does not tell the comments", "GraphQL")
        for one in map(record, rows(comments["nodes"])):
            is_ours = author_of(one) == bare(login)
            if is_ours and checkpoint.is_marked(text(one.get("body"))):
                found.append(one)
        page = record(comments.get("pageInfo"))
        if not page.get("hasNextPage"):
            return _judged(login, found)
        after = text(page.get("endCursor"))
        if after in seen:
            break
        seen.add(after)
        client.more()
    raise UnreachableError("GitHub's list of comments has no end", "GraphQL")


def _judged(login: str, found: list[dict[str, Any]]) -> Earlier:
    if not found:
        return Earlier(login)
    if len(found) > 1:
        return Earlier(login, doubt="there is more than one summary comment")
    (one,) = found
    if one.get("lastEditedAt") and author_of(one, "editor") != bare(login):
        return Earlier(login, doubt="somebody has edited the summary comment")
    last = checkpoint.read(text(one.get("body")))
    return Earlier(login, last, "" if last else "the summary comment's state cannot be read")
