"""How people have answered our review comments, as GitHub tells it.

Whether a person may say so is for the caller to ask. Of what others have written, only that a reply
begins with "won't fix" counts; a reply that was edited does not, since somebody else may have done
that. One that declines in other words settles nothing: who wrote it is told how to.
"""

from __future__ import annotations

import re

from rlm_ci.github.api.errors import record, rows, text
from rlm_ci.github.posting.review_threads import author_of, bare
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rlm_ci.github.posting.review_threads import PullRequestThreads, ReviewThread

#: What a person did.
REPLIED, RESOLVED, REACTED = (
    'answered "won\'t fix" to the review comment', "resolved the review comment",
    "gave the review comment a thumbs down",
)  # fmt: skip
#: The first line of a reply: these words, then its end or a mark.
_WONT_FIX = re.compile(r"won['\u2019]?t[ -]?fix[ \t]*($|[.,:;!(\u2013\u2014-])", re.IGNORECASE)


DECLINED = "declines it"
#: The first line of a reply that plainly declines, and asks nothing.
_DECLINES = re.compile(
    r"(?:no\b[ \t]*[,.:;!\u2013\u2014-]|we want (?:it|this|that)\b|not a bug\b|by design\b"
    r"|(?:(?:this|that|it) is|it's|that's) (?:intended|intentional|by design|on purpose|wanted)\b"
    r"|(?:intended|intentional)\b|works as (?:intended|designed)\b|won['\u2019]?t do\b)[^?`]*",
    re.IGNORECASE,
)


class ThreadAnswer(Value):
    """What the person ``login`` with this ``number`` did about the finding of ``thread``."""

    thread: ReviewThread
    did: str
    login: str
    number: int


def of(threads: PullRequestThreads) -> list[ThreadAnswer]:
    """The answers in all of our threads, the plainest of each thread first.

    Raises UnreachableError for an invalid thread.
    """
    pairs = zip(threads.threads, threads.rows, strict=True)
    return [answer for thread, row in pairs for answer in _answers(thread, row, threads.login)]


def _answers(mark: ReviewThread, thread: dict[str, Any], login: str) -> Iterator[ThreadAnswer]:
    first = record(rows(record(thread.get("comments")).get("nodes"))[0])
    if first.get("lastEditedAt") and author_of(first, "editor") != bare(login):
        return  # the fingerprint in it may be another one now
    own_login = login.removesuffix("[bot]")
    declined: list[ThreadAnswer] = []
    for node in rows(record(thread.get("latest")).get("nodes")):
        reply = record(node)
        line = text(reply.get("body")).lstrip().partition("\n")[0].rstrip()
        if reply.get("lastEditedAt"):
            continue
        if _WONT_FIX.match(line):
            yield from _by(reply.get("author"), mark, REPLIED)
        elif _DECLINES.fullmatch(line):
            declined = list(_by(reply.get("author"), mark, DECLINED))
    by = record(thread.get("resolvedBy"))
    if thread.get("isResolved") and by.get("login") != own_login:  # we resolve what is gone
        yield from _by(by, mark, RESOLVED)
    for node in rows(record(thread.get("reacted")).get("nodes")):
        for reaction in rows(record(record(node).get("reactions")).get("nodes")):
            yield from _by(record(reaction).get("user"), mark, REACTED)
    yield from declined


def _by(account: Any, mark: ReviewThread, did: str) -> Iterator[ThreadAnswer]:
    """The answer, if a person gave it: bots have no number here, and ghosts no name."""
    person = record(account)
    login, number = text(person.get("login")), person.get("databaseId")
    if login and type(number) is int and person.get("__typename", "User") == "User":
        yield ThreadAnswer(mark, did, login, number)
