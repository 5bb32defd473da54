"""The summary comment: one for each name of a run, found again and updated in place.

GitHub has no conditional write, so two runs at once can post two comments or overwrite each other.
A run therefore looks right before it writes and again after it: duplicates are folded into the
oldest, and the text of a newer head is left alone or put back from the texts that GitHub keeps.

Anybody who may write to the repository may edit a bot's comment: only our own edits count. GitHub
documents the text of an edit as "a summary of the changes", and returns the whole text; only one
that begins with our marker is used.

Its first line is a checkpoint: what a run leaves for the next one. Anybody who may edit a comment
can forge it, and any workflow that posts under the same login (``github-actions[bot]``). So it is
read only from our own comment, every field is checked, and on any doubt the next run starts from
nothing and says why. An override is a pointer to a person's comment, and counts only if GitHub
confirms that. What was spent is read from all texts that a comment had: no request erases those.
"""

from __future__ import annotations

import re

from rlm_ci import decoding
from rlm_ci.config.core_options import LONGEST_NAME
from rlm_ci.decoding import Kind, one_of
from rlm_ci.github.api.errors import GitHubRefusedError, UnreachableError, record, rows, text
from rlm_ci.github.posting.outcome import POSTED, SKIPPED, UPDATED
from rlm_ci.github.posting.review_threads import author_of, bare
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from rlm_ci.decoding import ObjectId
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.outcome import Destination
    from rlm_ci.report.findings import Usage


_VERSION = 1
_OPENS, _CLOSES = "<!-- rlm-ci:report", " -->"
#: Characters of a marker's data, without and with the state of a review.
_LONGEST = 8192
_LONGEST_WITH_REVIEW = 16_384
#: In place of the state of a review that is too long.
NO_ROOM = "-"
_MARKER = re.compile(rf"{_OPENS}(?: ([\w=-]*))?{_CLOSES}\r*(?:\n|$)", re.ASCII)
_VERDICTS = ("clean", "findings", "incomplete", "not_run")
_MOST_OVERRIDES = 10

if TYPE_CHECKING:
    Name = str
    Reason = str
    Branch = str
    RunName = str
    State = str
    Verdict = str
    ReviewVerdict = str
    Total = int
    Amount = float
else:
    Name, Reason, Branch, RunName = (
        decoding.text(size, 0) for size in (64, 500, 255, LONGEST_NAME)
    )
    State = decoding.text(_LONGEST_WITH_REVIEW, 0)
    Verdict, ReviewVerdict = one_of(*_VERDICTS), one_of("", *_VERDICTS)
    Total = decoding.number(0, 10**15 - 1)
    Amount = Kind(
        lambda value: type(value) in (int, float) and 0 <= value < 10**9,
        "an amount",
        {"type": "number", "minimum": 0, "exclusiveMaximum": 10**9},
        float,
    )


class Override(Value):
    """Findings of ``check`` that a person overrides by the comment with this id.

    It holds for ``head`` beyond ``merge_base``, on its way to the branch ``target``.
    """

    _ignores = True

    check: Name
    reason: Reason
    person: Name
    head: ObjectId
    comment: Total
    target: Branch = ""
    merge_base: ObjectId | None = None


class Checkpoint(Value):
    """The last judged state of a pull request.

    ``config`` is the fingerprint of the settings; ``calls``, ``tokens`` and ``cost_usd`` are the
    models' on this pull request in all. ``review`` is the state that a review of this head leaves
    for the next one, ``reviewed`` its verdict, "" without one, ``round`` the number of heads that a
    model has reviewed. ``name`` is that of the run,
    ``target`` the branch that the pull request goes to, ``run_usd`` what this run alone has spent.
    """

    _ignores = True
    _optional = ()
    _recent = ("review", "reviewed", "name", "target", "round", "run_usd")

    number: Total
    head: ObjectId
    base: ObjectId | None
    merge_base: ObjectId | None
    verdict: Verdict
    config: Name
    run: Name
    calls: Total = 0
    tokens: Total = 0
    cost_usd: Amount = 0.0
    overrides: tuple[Override, ...] = ()
    review: State = ""
    reviewed: ReviewVerdict = ""
    name: RunName = ""
    target: Branch = ""
    round: Total = 0
    run_usd: Amount = 0.0

    @staticmethod
    def _upgraded(older: Any) -> Any:
        """With the last overrides alone."""
        if older["v"] != _VERSION:
            raise ValueError("another version")
        return {**older, "overrides": older["overrides"][-_MOST_OVERRIDES:]}

    def is_of(self, to: Destination) -> bool:
        """Whether it judged the same commit of the same pull request, on the same base."""
        mine = (self.number, self.head, self.target, self.merge_base)
        return mine == (to.number, to.head, to.target, to.merge_base)

    def after(self, before: Checkpoint | None, usage: Usage) -> Checkpoint:
        """The same, with what was spent before and in this run; a run is counted once.

        Earlier overrides of this head and the verdict of its review stay, if the base is the same.
        """
        now = self.replace(run_usd=round(usage.cost_usd or 0.0, 6))
        if before is None:
            return now.plus(usage)
        same = ("number", "head", "target", "merge_base")
        if all(getattr(before, name) == getattr(self, name) for name in same):
            checks = {override.check for override in self.overrides}
            earlier = (override for override in before.overrides if override.check not in checks)
            now = self.replace(
                overrides=(*earlier, *self.overrides), reviewed=self.reviewed or before.reviewed
            )
        now = now.replace(round=max(now.round, before.round))
        now = now.replace(calls=before.calls, tokens=before.tokens, cost_usd=before.cost_usd)
        return now if before.run == self.run else now.plus(usage)

    def plus(self, usage: Usage) -> Checkpoint:
        """The same, with what another run has spent."""
        return self.replace(
            calls=self.calls + usage.calls,
            tokens=self.tokens + usage.prompt_tokens + usage.completion_tokens,
            cost_usd=round(self.cost_usd + (usage.cost_usd or 0.0), 6),
        )

    def marker(self) -> str:
        """The first line of the comment: with the review's state, or else the last overrides."""
        import json
        from base64 import urlsafe_b64encode

        fields = self.to_dict()
        overrides = fields["overrides"][-_MOST_OVERRIDES:]
        longest = _LONGEST_WITH_REVIEW if len(self.review) > len(NO_ROOM) else _LONGEST
        while True:
            fields |= {"v": _VERSION, "overrides": overrides}
            line = json.dumps(fields, separators=(",", ":"), sort_keys=True)
            data = urlsafe_b64encode(line.encode()).decode()
            if longest > _LONGEST and len(data) > longest:
                fields["review"], longest = NO_ROOM, _LONGEST
            elif overrides and len(data) > longest:
                del overrides[0]
            else:
                return f"{_OPENS} {data}{_CLOSES}"


def is_marked(body: str) -> bool:
    """Whether the first line of ``body`` is a marker of ours, with or without a checkpoint."""
    return _MARKER.match(body) is not None


def of_name(name: str, comments: Iterable[tuple[Checkpoint | None, Any]]) -> list[Any]:
    """The comments of the runs called ``name``; if there is none, those without a name.

    An older version gave none: the first run to come takes its comment over.
    """
    by_name: dict[str, list[Any]] = {}
    for last, comment in comments:
        by_name.setdefault(last.name if last else "", []).append(comment)
    return by_name.get(name) or by_name.get("", [])


def checkpoint_of(body: str) -> Checkpoint | None:
    """The checkpoint in the first line of our own comment; None if there is no valid one."""
    marked = _MARKER.match(body)
    if not marked or not marked[1] or len(marked[1]) > _LONGEST_WITH_REVIEW:
        return None
    import json
    from base64 import urlsafe_b64decode

    try:
        return Checkpoint.from_dict(json.loads(urlsafe_b64decode(marked[1])))
    except (ValueError, RecursionError):
        return None


def resume(
    last: Checkpoint | None, now: Checkpoint, is_ancestor: Callable[[str, str], bool]
) -> tuple[str | None, str]:
    """The commit since which ``now`` has anything new, and why; None for all of it.

    Only a run that looked at everything, under the same settings and from the same merge base,
    spares the next one anything. ``is_ancestor(one, other)`` asks the repository.
    """
    if last is None:
        return None, "there is no checkpoint of an earlier run"
    doubts = (
        (last.number != now.number, "the checkpoint is of another pull request"),
        (last.verdict not in ("clean", "findings"), "the last run did not look at everything"),
        (last.config != now.config, "the settings have changed"),
        (last.target != now.target, "the base branch has changed"),
        (last.merge_base != now.merge_base, "the merge base has changed"),
    )
    for holds, doubt in doubts:
        if holds:
            return None, doubt
    if last.head == now.head:
        return last.head, "this commit was checked before"
    if not is_ancestor(last.head, now.head):
        return None, "the branch was rewritten"
    return last.head, f"what was checked at {last.head[:12]} is unchanged"


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
        return of_name(
            self._name, ((summary_comment.last, summary_comment) for summary_comment in comments)
        )

    def marked(self) -> list[tuple[str, SummaryComment]]:
        """All comments with our marker, with their authors' logins, oldest first."""
        comments = []
        for row in self._client.pages(self._comments):
            user = row.get("user") if isinstance(row, dict) else None
            login = user.get("login") if isinstance(user, dict) else None
            if isinstance(login, str) and is_marked(str(row.get("body") or "")):
                comments.append((login, _read(row)))
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
        record["id"], url if plain else "", body, checkpoint_of(body),
        node if isinstance(node, str) else "",
    )  # fmt: skip


#: How many of the last edits are read at once, and how often for all of them.
_EDITS = 30
_MOST_PAGES = 60

_QUERY = """\
query ($owner: String!, $name: String!, $number: Int!, $comment: ID!, $after: String) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) { headRefOid } }
  node(id: $comment) {
    ... on IssueComment {
      body
      userContentEdits(first: %d, after: $after) {
        pageInfo { hasNextPage endCursor }
        nodes { createdAt diff editor { __typename login } }
      }
    }
  }
}
"""

_FIELDS = """\
id
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
            last = checkpoint_of(body)
            if last is not None and last.head == head:
                return body
        return ""


def history_of(
    client: GitHubClient, to: Destination, comment: str, author: str, *, every_edit: bool = False
) -> CommentHistory:
    """The comment of this global id, with the last texts by ``author``, or those of ``every_edit``.

    Raises RemoteError.
    """
    owner, _, name = to.repository.partition("/")
    variables = {"owner": owner, "name": name, "number": to.number, "comment": comment}
    all_edits: list[dict[str, Any]] = []
    after = ""
    for _ in range(_MOST_PAGES):
        data = client.query(_QUERY % _EDITS, **variables, after=after or None)
        pull = record(record(data.get("repository")).get("pullRequest"))
        head = text(pull.get("headRefOid"))
        if not head:
            raise UnreachableError("GitHub does not name the pull request's head", "GraphQL")
        node = record(data.get("node"))
        if "body" not in node:
            return CommentHistory(head)
        listed = record(node.get("userContentEdits"))
        all_edits += map(record, rows(listed.get("nodes")))
        page = record(listed.get("pageInfo"))
        if not (every_edit and page.get("hasNextPage")):
            break
        after = text(page.get("endCursor"))
        client.more()
    else:
        raise UnreachableError(f"a comment has more than {_EDITS * _MOST_PAGES} edits", "GraphQL")
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
    comments = of_name(
        to.name, ((checkpoint_of(text(comment.get("body"))), comment) for comment in marked)
    )
    if not comments:
        return PreviousRun(login)
    if len(comments) > 1:
        return PreviousRun(login, doubt="there is more than one summary comment")
    (comment,) = comments
    if _is_edited(comment, login):
        return PreviousRun(login, doubt="somebody has edited the summary comment")
    last = checkpoint_of(text(comment.get("body")))
    return PreviousRun(login, last, "" if last else "the summary comment's state cannot be read")


class WrittenState(Value):
    """``last``: what a summary comment of ours says, ``all``: what we have ever let it say.

    ``last`` is None if somebody else wrote it, or it cannot be read.
    """

    last: Checkpoint | None
    all: tuple[Checkpoint, ...]


def written_states(client: GitHubClient, to: Destination) -> tuple[str, list[WrittenState]]:
    """Our login, and the states of the summary comments of runs of all names. Raises RemoteError.

    Whoever edits a comment leaves the text before in its history, and GitHub's API erases none.
    """
    login, marked = _marked(client, to)
    states = []
    for comment in marked:
        client.more()
        history = history_of(client, to, text(comment.get("id")), login, every_edit=True)
        body = "" if _is_edited(comment, login) else text(comment.get("body"))
        last, *earlier = (
            state if state and state.number == to.number else None
            for state in map(checkpoint_of, (body, *history.texts))
        )
        states.append(WrittenState(last, tuple(filter(None, (last, *earlier)))))
    return login, states


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
        comment for comment in comments if is_marked(text(comment.get("body")))
    ]


def _is_edited(comment: dict[str, Any], login: str) -> bool:
    """Whether somebody else was the last who edited a comment of ours."""
    return bool(comment.get("lastEditedAt")) and author_of(comment, "editor") != bare(login)
