"""Replies to commands: one a command, found by its marker, and edited if its run is repeated."""

from __future__ import annotations

import re
from contextlib import contextmanager

from rlm_ci.console.messages import say, warn
from rlm_ci.errors import RemoteError, RlmCiError
from rlm_ci.system import files
from rlm_ci.text import neutralise
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rlm_ci.console.output import Output
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.outcome import PostingOptions

_MARKER = re.compile(
    r"<!-- rlm-ci:reply (?P<comment>[0-9]{1,20})"
    r"(?: (?P<kind>[a-z]+) (?P<head>[0-9a-f]{40,64}))? -->"
)
_CUT = "The answer is too long for a comment: the job summary of the run has it."


class ReplyPlace(Value):
    """Where the reply to a ``comment`` goes: below it in its ``thread``, named by its first
    comment, or, for 0, into the conversation of the pull request ``number``.

    ``since`` is when the comment was posted, "" if unknown.
    """

    repository: str
    number: int
    comment: int
    thread: int = 0
    since: str = ""

    @property
    def comments(self) -> str:
        """The list of the comments beside it."""
        kind = "pulls" if self.thread else "issues"
        return f"/repos/{self.repository}/{kind}/{self.number}/comments"

    def edited(self, comment: int) -> str:
        """The comment with this id, beside it."""
        kind = "pulls" if self.thread else "issues"
        return f"/repos/{self.repository}/{kind}/comments/{comment}"


def marker(to: ReplyPlace, *, fix_at: str = "") -> str:
    """The first line of the reply; ``fix_at`` is the head that a fix was requested for."""
    kind = "thread" if to.thread else "fix"
    return f"<!-- rlm-ci:reply {to.comment}{f' {kind} {fix_at}' if fix_at else ''} -->"


def last_fix(way: GitHubClient, to: ReplyPlace, head: str) -> tuple[int, bool] | None:
    """The comment that last requested a fix of ``head``, by our replies, and whether it is in a
    thread. Raises RemoteError.
    """
    requests: list[tuple[str, int, bool]] = []
    for reply_place in (to, to.replace(thread=1)):
        for record, mark in _own_replies(way, reply_place):
            if mark["head"] == head:
                created = str(record.get("created_at"))
                requests.append((created, int(mark["comment"]), mark["kind"] == "thread"))
    return max(requests)[1:] if requests else None


def deliver(
    posting: PostingOptions,
    output: Output,
    way: GitHubClient,
    to: ReplyPlace,
    text: str,
    *,
    fix_at: str = "",
) -> None:
    """Print ``text``, Markdown that is harmless, add it to the job summary, and post it.

    Only a warning says that it cannot be posted.
    """
    clean = neutralise.document(posting.redact(text))
    if posting.step_summary:
        files.append(posting.step_summary, f"{clean}\n".encode("utf-8", "backslashreplace"))
    output.emit(f"{clean}\n")
    post(posting, way, to, text, fix_at=fix_at)


def post(
    posting: PostingOptions, way: GitHubClient, to: ReplyPlace, text: str, *, fix_at: str = ""
) -> None:
    """Post ``text``, or put it into the reply that is there. Only warns if it cannot."""
    from rlm_ci.report.formats.markdown import ROOM

    clean = neutralise.document(posting.redact(text))
    body = f"{marker(to, fix_at=fix_at)}\n{clean}\n"
    if not ROOM.has(body):
        body = f"{marker(to)}\n{_CUT}\n"
    way.go_on()
    try:
        url = _post(way, to, body)
    except RlmCiError as error:
        warn(RemoteError(f"the reply is not posted: {error}", hint=error.hint))
    else:
        say(f"reply: {url}")


@contextmanager
def refusals(posting: PostingOptions, way: GitHubClient, to: ReplyPlace) -> Iterator[None]:
    """Reply with the reason to whom a command is refused, and raise it."""
    try:
        yield
    except RlmCiError as refused:
        from rlm_ci.github.api.errors import GitHubRefusedError, UnreachableError
        from rlm_ci.pull_request import reply_texts

        if not isinstance(refused, (GitHubRefusedError, UnreachableError)):
            post(posting, way, to, reply_texts.refusal(refused))
        raise


def _post(way: GitHubClient, to: ReplyPlace, body: str) -> str:
    """Post or edit the reply; its address. Raises RemoteError."""
    reply = _own_reply(way, to)
    if reply is None:
        path = f"{to.comments}/{to.thread}/replies" if to.thread else to.comments
        answer = way.write("POST", path, {"body": body}, done=lambda: _own_reply(way, to))
    elif reply.get("body") == body:
        answer = reply
    else:
        answer = way.write("PATCH", to.edited(reply["id"]), {"body": body})
    url = str(answer.get("html_url") if isinstance(answer, dict) else "")
    return url if url.startswith("https://") and url.isascii() and url.isprintable() else "posted"


def _own_reply(way: GitHubClient, to: ReplyPlace) -> dict[str, Any] | None:
    """Our reply to the comment, if there is one already."""
    return next(
        (row for row, mark in _own_replies(way, to) if int(mark["comment"]) == to.comment), None
    )


def _own_replies(
    way: GitHubClient, to: ReplyPlace
) -> Iterator[tuple[dict[str, Any], re.Match[str]]]:
    """Our replies beside ``to``, each with its marker: others can write one, too."""
    from rlm_ci.github.posting import review_threads

    author = review_threads.viewer(way)
    for record in way.pages(to.comments, **({"since": to.since} if to.since else {})):
        user = record.get("user") if isinstance(record, dict) else None
        if isinstance(user, dict) and user.get("login") == author:
            mark = _MARKER.match(str(record.get("body") or ""))
            if mark and type(record.get("id")) is int:
                yield record, mark
