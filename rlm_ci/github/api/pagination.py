"""A list of a pull request that may be long, page by page, by way of GraphQL."""

from __future__ import annotations

from rlm_ci.github.api.errors import UnreachableError, record, rows, text
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rlm_ci.github.api.client import GitHubClient

#: Pages of a hundred rows each.
_MOST = 50

_QUERY = """\
query ($owner: String!, $name: String!, $number: Int!, $after: String) {
  viewer { login }
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      headRefOid
      @LIST@(first: 100, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes {
          @FIELDS@
        }
      }
    }
  }
}
"""


class ResultPage(Value):
    """The login that we write under, the head of the pull request, and some of its rows."""

    login: str
    head: str
    rows: tuple[Any, ...]


def read(
    client: GitHubClient, repository: str, number: int, name: str, *, fields: str, what: str
) -> Iterator[ResultPage]:
    """The pages of the list ``name`` with these ``fields`` of each row; ``what`` to call it.

    Raises GitHubRefusedError or UnreachableError, also where GitHub answers in part: taken for all,
    everything would be posted again.
    """
    query = _QUERY.replace("@LIST@", name).replace("@FIELDS@", fields)
    owner, _, short = repository.partition("/")
    after = ""
    seen = {after}
    for _ in range(_MOST):
        data = client.query(query, owner=owner, name=short, number=number, after=after or None)
        login = text(record(data.get("viewer")).get("login"))
        pull = record(record(data.get("repository")).get("pullRequest"))
        listed = record(pull.get(name))
        head = text(pull.get("headRefOid"))
        if not login or not head or listed.get("nodes") is None:
            raise UnreachableError(f"GitHub does not name the {what}", "GraphQL")
        yield ResultPage(login, head, tuple(rows(listed["nodes"])))
        page = record(listed.get("pageInfo"))
        if not page.get("hasNextPage"):
            return
        after = text(page.get("endCursor"))
        if after in seen:
            break
        seen.add(after)
        client.more()
    raise UnreachableError(f"GitHub's list of {what} has no end", "GraphQL")
