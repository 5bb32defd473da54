"""Our own summary as an earlier run left it, read before anything is judged.

One request tells our login, the summaries under it, and who has edited them: whoever may write
to the repository may edit a bot's comment, and then it is not ours any more.
"""

from __future__ import annotations

from rlm_ci.github.api import pagination
from rlm_ci.github.api.errors import record, text
from rlm_ci.github.posting import checkpoint
from rlm_ci.github.posting.review_threads import author_of, bare
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.checkpoint import Checkpoint

_FIELDS = """\
body
lastEditedAt
author { __typename login }
editor { __typename login }"""


class PreviousRun(Value):
    """``login`` is ours; ``last`` is what the one summary under it says, else ``doubt`` says why.

    Where there is no summary at all, there is no doubt either.
    """

    login: str
    last: Checkpoint | None = None
    doubt: str = ""


def read(client: GitHubClient, repository: str, number: int) -> PreviousRun:
    """Raises GitHubRefusedError or UnreachableError."""
    login = ""
    found: list[dict[str, Any]] = []
    told = pagination.read(client, repository, number, "comments", fields=_FIELDS, what="comments")
    for page in told:
        login = page.login
        for one in map(record, page.rows):
            is_ours = author_of(one) == bare(login)
            if is_ours and checkpoint.is_marked(text(one.get("body"))):
                found.append(one)
    return _judged(login, found)


def _judged(login: str, found: list[dict[str, Any]]) -> PreviousRun:
    if not found:
        return PreviousRun(login)
    if len(found) > 1:
        return PreviousRun(login, doubt="there is more than one summary comment")
    (one,) = found
    if one.get("lastEditedAt") and author_of(one, "editor") != bare(login):
        return PreviousRun(login, doubt="somebody has edited the summary comment")
    last = checkpoint.read(text(one.get("body")))
    return PreviousRun(login, last, "" if last else "the summary comment's state cannot be read")
