"""The review threads of a pull request: which are ours, which are over, how people answered them.

A marker in the first line of a comment tells ours. Whether a person may answer is for the caller to
ask. Of what others have written, only that a reply begins with "won't fix" counts; a reply that was
edited does not, since somebody else may have done that. One that declines in other words settles
nothing: who wrote it is told how to.
"""

from __future__ import annotations

import re

from rlm_ci.github.api.errors import GitHubRefusedError, UnreachableError, record, rows, text
from rlm_ci.report.details import claim_mark
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from rlm_ci.github.api.client import GitHubClient


_OPENS, _CLOSES = "<!-- rlm-ci:finding ", " -->"
_MARKER = re.compile(
    rf"{_OPENS}(?P<fingerprint>[0-9a-f]{{32}})"
    r"(?: (?P<check>[a-z][a-z0-9-]*) (?P<base>[0-9a-f]{16})"
    rf"(?: @(?P<claim>{claim_mark.PATTERN}))?(?: (?P<name>[^<>\n]+))?)?"
    rf"{_CLOSES}\r?(?:\n|$)"
)
#: The rule in the text of a comment.
_RULE = re.compile(r"`([a-z][a-z0-9-]*)/[\w-]+`")
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


class CommentOrigin(Value):
    """The check that a finding is of, the base that it is about, the name of the run, what the
    claim of a model is about; "" for an unknown one.
    """

    check: str = ""
    base: str = ""
    name: str = ""
    claim: str = ""


#: Of a comment that says nothing of itself.
NOWHERE = CommentOrigin()


def marker(fingerprint: str, origin: CommentOrigin = NOWHERE) -> str:
    """The first line of the comment about the finding with this fingerprint."""
    claim = f"@{origin.claim}" if origin.base and origin.claim else ""
    words = (fingerprint, origin.check, origin.base, claim, origin.name)
    return f"{_OPENS}{' '.join(filter(None, words))}{_CLOSES}"


def read_marker(body: str) -> str | None:
    """The fingerprint in a comment's first line, or None. Check the author: others can forge it."""
    marked = _MARKER.match(body)
    return marked["fingerprint"] if marked else None


def read_origin(body: str) -> CommentOrigin:
    """What a comment's first line says besides; of an older version, the check of its rule."""
    marked = _MARKER.match(body)
    if marked and marked["check"]:
        return CommentOrigin(
            marked["check"], marked["base"], marked["name"] or "", marked["claim"] or ""
        )
    rule = _RULE.search(body)
    return CommentOrigin(rule[1] if rule else "")


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
    pairs = [
        (thread, node) for node in nodes if (thread := _own_thread(node, pull_request_list.login))
    ]
    threads, records = zip(*pairs, strict=True) if pairs else ((), ())
    return PullRequestThreads(pull_request_list.login, pull_request_list.head, threads, records)


def _own_thread(node: dict[str, Any], login: str) -> ReviewThread | None:
    """Raises UnreachableError for an invalid thread."""
    comments = record(node.get("comments"))
    nodes = [record(row) for row in rows(comments.get("nodes")) if row is not None]
    authors = [author_of(entry) for entry in nodes]
    if not nodes or authors[0] != bare(login):
        return None
    first = nodes[0]
    fingerprint = read_marker(text(first.get("body")))
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
    origin = read_origin(body)
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
        f"{marker(thread.fingerprint, thread.origin.replace(base=base))}\n"
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


def answers_of(threads: PullRequestThreads) -> list[ThreadAnswer]:
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
