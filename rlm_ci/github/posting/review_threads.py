"""The review threads of a pull request: which are ours, which are answered, which are over."""

from __future__ import annotations

from rlm_ci.github.api.errors import GitHubRefusedError, UnreachableError, record, rows, text
from rlm_ci.github.posting import comment_text
from rlm_ci.github.posting.comment_text import NOWHERE, CommentOrigin
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rlm_ci.github.api.client import GitHubClient

#: Mutations in one request, so that none of them takes GitHub too long.
_BATCH = 50
_FIELDS = """\
id
isResolved
resolvedBy { login databaseId }
comments(first: 20) {
  totalCount
  nodes {
    id body isMinimized minimizedReason lastEditedAt
    author { __typename login } editor { __typename login }
  }
}
reacted: comments(first: 1) {
  nodes { reactions(content: THUMBS_DOWN, last: 50) { nodes { user { login databaseId } } } }
}
latest: comments(last: 20) {
  nodes { body lastEditedAt author { __typename login ... on User { databaseId } } }
}"""

_VIEWER = "query { viewer { login } }"


class ReviewThread(Value):
    """A thread that we began; ``answered`` if anybody else wrote in it.

    ``resolved``, or folded away; ``closed`` if somebody else did that, and so settled the finding.
    ``body`` is that of the first comment, ``origin`` what it says of itself.
    """

    id: str
    comment: str
    fingerprint: str
    resolved: bool
    answered: bool
    closed: bool
    body: str = ""
    origin: CommentOrigin = NOWHERE


class PullRequestThreads(Value):
    """A pull request as it is now: its ``head``, our threads, and the login we write under.

    ``rows`` are GitHub's records of our threads.
    """

    login: str
    head: str
    threads: tuple[ReviewThread, ...]
    rows: tuple[dict[str, Any], ...] = ()


def viewer(client: GitHubClient) -> str:
    """The login of the token, as REST names it (a bot's ends in ``[bot]``). Raises RemoteError."""
    login = text(record(client.query(_VIEWER).get("viewer")).get("login"))
    if not login:
        raise UnreachableError("GitHub does not say whose token this is", "GraphQL")
    return login


def read(client: GitHubClient, repository: str, number: int) -> PullRequestThreads:
    """Raises RemoteError."""
    pull_request_list = client.of_pull_request(
        repository, number, "reviewThreads", fields=_FIELDS, what="review threads"
    )
    nodes = [record(node) for node in pull_request_list.rows]
    pairs = [(thread, node) for node in nodes if (thread := _ours(node, pull_request_list.login))]
    threads, records = zip(*pairs, strict=True) if pairs else ((), ())
    return PullRequestThreads(pull_request_list.login, pull_request_list.head, threads, records)


def _ours(node: dict[str, Any], login: str) -> ReviewThread | None:
    """Raises UnreachableError for an invalid thread."""
    comments = record(node.get("comments"))
    nodes = [record(row) for row in rows(comments.get("nodes")) if row is not None]
    authors = [author_of(entry) for entry in nodes]
    if not nodes or authors[0] != bare(login):
        return None
    first = nodes[0]
    fingerprint = comment_text.read_marker(text(first.get("body")))
    if fingerprint is None:
        return None
    thread, comment = text(node.get("id")), text(first.get("id"))
    if not thread or not comment:
        raise UnreachableError("GitHub gives a review thread without its id", "GraphQL")
    answered = comments.get("totalCount") != len(nodes) or any(
        author != authors[0] for author in authors
    )
    resolved = bool(node.get("isResolved"))
    by = text(record(node.get("resolvedBy")).get("login"))
    # Here GraphQL names a bot without saying that it is one, if it names it at all.
    is_ours = by in ("", login.removesuffix("[bot]")) if login.endswith("[bot]") else by == login
    closed = resolved and not is_ours
    if first.get("isMinimized"):  # we fold away as outdated, and for no other reason
        resolved = True
        closed = closed or text(first.get("minimizedReason")).lower() != "outdated"
    body = text(first.get("body"))
    origin = comment_text.read_origin(body)
    return ReviewThread(thread, comment, fingerprint, resolved, answered, closed, body, origin)


def author_of(comment: dict[str, Any], role: str = "author") -> str:
    """GraphQL leaves the ``[bot]`` off, so that a person's account could look the same."""
    author = record(comment.get(role))
    name = text(author.get("login"))
    return name if author.get("__typename") == "Bot" or not name else _person(name)


def bare(login: str) -> str:
    """A login of REST as ``author_of`` has it."""
    return login.removesuffix("[bot]") if login.endswith("[bot]") else _person(login)


def _person(name: str) -> str:
    """A name that no bot has: no login has that character."""
    return f"{name}\0person"


def close(client: GitHubClient, threads: Sequence[ReviewThread]) -> None:
    """Resolve these threads, or fold them if that is not allowed. Raises RemoteError."""
    try:
        _each(client, "resolveReviewThread(input: {threadId: $%s})", "thread { id }",
              [thread.id for thread in threads])  # fmt: skip
    except GitHubRefusedError as refused:  # it takes contents: write
        if not refused.denied and refused.status not in (404, 422):
            raise
        _each(client, "minimizeComment(input: {subjectId: $%s, classifier: OUTDATED})",
              "minimizedComment { isMinimized }",
              [thread.comment for thread in threads])  # fmt: skip


def remove_duplicates(client: GitHubClient, threads: Sequence[ReviewThread]) -> None:
    """Delete open threads that another run has made at the same time. Raises RemoteError."""
    seen: set[str] = set()
    surplus = []
    for thread in threads:
        if thread.resolved:
            continue
        if thread.fingerprint in seen and not thread.answered:
            surplus.append(thread.comment)
        seen.add(thread.fingerprint)
    try:
        _each(client, "deletePullRequestReviewComment(input: {id: $%s})", "clientMutationId",
              surplus)  # fmt: skip
    except GitHubRefusedError as refused:
        if refused.status != 404:  # the other run was quicker
            raise


def move(client: GitHubClient, threads: Sequence[ReviewThread], base: str) -> None:
    """Let these comments be about another base. Raises RemoteError."""
    bodies = [
        f"{comment_text.marker(thread.fingerprint, thread.origin.replace(base=base))}\n"
        f"{thread.body.partition(chr(10))[2]}"
        for thread in threads
    ]
    _each(
        client,
        "updatePullRequestReviewComment(input: {pullRequestReviewCommentId: $%s, body: $%s})",
        "clientMutationId", [thread.comment for thread in threads], bodies,
    )  # fmt: skip


def _each(
    client: GitHubClient,
    mutation: str,
    result: str,
    ids: Sequence[str],
    texts: Sequence[str] = (),
) -> None:
    """The mutation of each id, and of the text at its place, if it takes one."""
    for start in range(0, len(ids), _BATCH):
        if start:
            client.more()
        values: dict[str, str] = {}
        headings, fields = [], []
        for index, node_id in enumerate(ids[start : start + _BATCH], start):
            names = [f"i{index}", *([f"t{index}"] if texts else [])]
            values |= zip(names, (node_id, *texts[index : index + 1]), strict=True)
            headings += [f"${name}: {'ID' if name[0] == 'i' else 'String'}!" for name in names]
            fields.append(f"m{index}: {mutation % tuple(names)} {{ {result} }}")
        client.mutate(f"mutation ({', '.join(headings)}) {{ {' '.join(fields)} }}", **values)
