"""REST: reviews, and comments on the diff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from testing.loopback_github import bodies
from testing.loopback_github.identity import RefusalError, not_found
from testing.loopback_github.placing import MisplacedError, Wanted, belongs, place_new
from testing.loopback_github.rest import check_author, check_text, react
from testing.loopback_github.routes import ROUTES, Answer, Call, R
from testing.loopback_github.state import ACTIONS_BOT, Review, ReviewComment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testing.loopback_github.state import Pull

P = f"{R}/pulls/{{pull_number}}"
_READ, _WRITE = "pull_requests=read", "pull_requests=write"
_STATES = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
_RESOURCE = "PullRequestReviewComment"


def _unprocessable(text: str) -> RefusalError:
    return RefusalError(422, "Unprocessable Entity", [text])


def _visible(pr: Pull) -> list[ReviewComment]:
    """The review comments but those of others' pending reviews."""
    hidden = {made.id for made in pr.reviews if made.state == "PENDING"}
    return [made for made in pr.review_comments if made.review not in hidden]


# -- comments -----------------------------------------------------------------------------------


@ROUTES.add("GET", f"{P}/comments", _READ)
def _comments(call: Call) -> Answer:
    repo, pr = call.repo, call.pull
    since = call.query.get("since", "")
    found = [made for made in _visible(pr) if made.updated_at >= since]
    if call.query.get("direction") == "desc":
        found.reverse()
    return call.page(found, lambda made: bodies.review_comment(repo, pr, made, call.api))


@ROUTES.add("POST", f"{P}/comments", _WRITE)
def _create_comment(call: Call) -> Answer:
    repo, pr, asked = call.repo, call.pull, call.body
    text = check_text(asked["body"], _RESOURCE)
    if "in_reply_to" in asked:
        return _reply(call, asked["in_reply_to"], text)
    if not belongs(repo, pr, asked["commit_id"]):
        row = {"resource": _RESOURCE, "code": "custom", "field": "commit_id"}
        row["message"] = "commit_id is not part of the pull request"
        raise RefusalError(422, "Validation Failed", [row])
    try:
        wanted = place_new(repo, pr, asked["commit_id"], asked)
    except MisplacedError as error:
        raise RefusalError(422, "Validation Failed", error.rows()) from None
    review = _new_review(call, "", "COMMENTED", asked["commit_id"])
    made = _attach(call, review, wanted, text)
    body = bodies.review_comment(repo, pr, made, call.api)
    return Answer(body, 201, {"Location": body["url"]})


def _attach(
    call: Call, review: Review, wanted: Wanted, text: str, reply_to: ReviewComment | None = None
) -> ReviewComment:
    now = call.world.now()
    made = ReviewComment(
        call.world.new_id(), review.id, call.me.login, text,
        reply_to.commit if reply_to else review.commit, wanted.path, wanted.subject, wanted.line,
        wanted.side, wanted.start_line, wanted.start_side, wanted.position, wanted.diff_hunk,
        reply_to.id if reply_to else None, now, now,
    )  # fmt: skip
    call.pull.review_comments.append(made)
    return made


@ROUTES.add("POST", f"{P}/comments/{{comment_id}}/replies", _WRITE)
def _create_reply(call: Call) -> Answer:
    text = check_text(call.body["body"], _RESOURCE)
    return _reply(call, int(call.params["comment_id"]), text)


def _reply(call: Call, to: int, text: str) -> Answer:
    repo, pr = call.repo, call.pull
    first = next((made for made in pr.review_comments if made.id == to), None)
    if first is None:
        raise not_found()
    if first.in_reply_to is not None:  # GitHub's threads are flat
        first = next(made for made in pr.review_comments if made.id == first.in_reply_to)
    wanted = Wanted(
        first.path, first.subject, first.original_line, first.side, first.original_start_line,
        first.start_side, first.original_position, first.diff_hunk,
    )  # fmt: skip
    review = _new_review(call, "", "COMMENTED", first.commit)
    made = _attach(call, review, wanted, text, first)
    body = bodies.review_comment(repo, pr, made, call.api)
    return Answer(body, 201, {"Location": body["url"]})


def _own(call: Call) -> tuple[Pull, ReviewComment]:
    wanted = int(call.params["comment_id"])
    for pr in call.repo.pulls.values():
        for made in pr.review_comments:
            if made.id == wanted:
                return pr, made
    raise not_found()


@ROUTES.add("GET", f"{R}/pulls/comments/{{comment_id}}", _READ)
def _comment(call: Call) -> Answer:
    pr, made = _own(call)
    return Answer(bodies.review_comment(call.repo, pr, made, call.api))


@ROUTES.add("PATCH", f"{R}/pulls/comments/{{comment_id}}", _WRITE)
def _update_comment(call: Call) -> Answer:
    pr, made = _own(call)
    check_author(call, made.user)
    made.edit(check_text(call.body["body"], _RESOURCE), call.me.login, call.world.now())
    return Answer(bodies.review_comment(call.repo, pr, made, call.api))


@ROUTES.add("DELETE", f"{R}/pulls/comments/{{comment_id}}", _WRITE)
def _delete_comment(call: Call) -> Answer:
    pr, made = _own(call)
    check_author(call, made.user)
    pr.review_comments.remove(made)
    # The next comment of a thread becomes its first.
    rest = [reply for reply in pr.review_comments if reply.in_reply_to == made.id]
    for reply in rest:
        reply.in_reply_to = None if reply is rest[0] else rest[0].id
    return Answer(status=204)


@ROUTES.add("POST", f"{R}/pulls/comments/{{comment_id}}/reactions", _WRITE)
def _react(call: Call) -> Answer:
    return react(call, _own(call)[1].reactions)


@ROUTES.add("GET", f"{R}/pulls/comments/{{comment_id}}/reactions", _READ)
def _reactions(call: Call) -> Answer:
    return call.page(_own(call)[1].reactions, lambda one: bodies.reaction(one, call.api))


# -- reviews ------------------------------------------------------------------------------------


@ROUTES.add("GET", f"{P}/reviews", _READ)
def _reviews(call: Call) -> Answer:
    repo, pr = call.repo, call.pull
    me = call.who.login if call.who else None
    found = [made for made in pr.reviews if made.state != "PENDING" or made.user == me]
    return call.page(found, lambda made: bodies.review(repo, pr, made, call.api))


@ROUTES.add("POST", f"{P}/reviews", _WRITE)
def _create_review(call: Call) -> Answer:
    """All or nothing: one comment that cannot be placed, and nothing is stored."""
    repo, pr = call.repo, call.pull
    asked: Mapping[str, Any] = call.body or {}
    rows, commit = asked.get("comments", []), asked.get("commit_id") or pr.head_sha
    _check_event(call, asked.get("event"), asked.get("body"), has_comments=bool(rows))
    if not belongs(repo, pr, commit):
        raise _unprocessable("Commit is not part of the pull request")
    wanted = []
    for row in rows:
        text = _sentence_check(row["body"])
        try:
            wanted.append((place_new(repo, pr, commit, row), text))
        except MisplacedError as error:
            raise _unprocessable(error.sentence()) from None
    if asked.get("body"):
        _sentence_check(asked["body"])
    state = _STATES[asked["event"]] if asked.get("event") else "PENDING"
    made = _new_review(call, asked.get("body") or "", state, commit)
    for place, text in wanted:
        _attach(call, made, place, text)
    return Answer(bodies.review(repo, pr, made, call.api))


def _sentence_check(text: str) -> str:
    """A body, checked as reviews word it. Raises RefusalError."""
    try:
        return check_text(text, _RESOURCE)
    except RefusalError as error:
        row = error.body["errors"][0]
        raise _unprocessable(row.get("message", "Body can't be blank")) from None


def _new_review(call: Call, body: str, state: str, commit: str) -> Review:
    submitted = None if state == "PENDING" else call.world.now()
    made = Review(call.world.new_id(), call.me.login, body, state, commit, submitted)
    call.pull.reviews.append(made)
    return made


def _check_event(call: Call, event: str | None, body: str | None, *, has_comments: bool) -> None:
    pr, me = call.pull, call.me
    if event is None:
        if any(made.state == "PENDING" and made.user == me.login for made in pr.reviews):
            raise _unprocessable("User can only have one pending review per pull request")
        return
    if event == "APPROVE" and me.login == ACTIONS_BOT:
        raise _unprocessable("GitHub Actions is not permitted to approve pull requests.")
    if event != "COMMENT" and me.login == pr.user:
        what = "approve" if event == "APPROVE" else "request changes on"
        raise _unprocessable(f"Can not {what} your own pull request")
    if not body and (event == "REQUEST_CHANGES" or (event == "COMMENT" and not has_comments)):
        raise _unprocessable("Body can't be blank")


def _own_review(call: Call) -> Review:
    wanted = int(call.params["review_id"])
    for made in call.pull.reviews:
        if made.id == wanted:
            return made
    raise not_found()


@ROUTES.add("GET", f"{P}/reviews/{{review_id}}", _READ)
def _review(call: Call) -> Answer:
    return Answer(bodies.review(call.repo, call.pull, _own_review(call), call.api))


@ROUTES.add("POST", f"{P}/reviews/{{review_id}}/events", _WRITE)
def _submit(call: Call) -> Answer:
    made = _own_review(call)
    if made.state != "PENDING" or made.user != call.me.login:
        raise _unprocessable("Can not submit a review that is not pending")
    own = any(row.review == made.id for row in call.pull.review_comments)
    text = call.body.get("body") or made.body
    _check_event(call, call.body["event"], text, has_comments=own)
    made.state, made.submitted_at = _STATES[call.body["event"]], call.world.now()
    made.body = text
    return Answer(bodies.review(call.repo, call.pull, made, call.api))


@ROUTES.add("DELETE", f"{P}/reviews/{{review_id}}", _WRITE)
def _delete_review(call: Call) -> Answer:
    made, pr = _own_review(call), call.pull
    if made.state != "PENDING":
        raise _unprocessable("Can not delete a non-pending pull request review")
    body = bodies.review(call.repo, pr, made, call.api)
    pr.reviews.remove(made)
    pr.review_comments[:] = [row for row in pr.review_comments if row.review != made.id]
    return Answer(body)


@ROUTES.add("PUT", f"{P}/reviews/{{review_id}}/dismissals", _WRITE)
def _dismiss(call: Call) -> Answer:
    made = _own_review(call)
    if made.state not in {"APPROVED", "CHANGES_REQUESTED"}:
        raise _unprocessable("Can not dismiss a commented pull request review")
    made.state = "DISMISSED"
    return Answer(bodies.review(call.repo, call.pull, made, call.api))
