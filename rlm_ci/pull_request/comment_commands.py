"""The command in a comment on a pull request: GitHub says who may give it, and on which commits.

The event is not believed in either. Nothing is fetched before GitHub has answered, and nothing
is checked out.
"""

from __future__ import annotations

import re

from rlm_ci.change import privileged_events, trigger
from rlm_ci.console.messages import say
from rlm_ci.errors import ConfigError
from rlm_ci.github import fetch, session
from rlm_ci.pull_request import replies
from rlm_ci.pull_request.replies import ReplyPlace
from rlm_ci.pull_request.slash_grammar import (
    ASK,
    CHECK,
    FIX,
    GRAMMAR,
    OVERRIDE,
    PREFIX,
    REVIEW,
    is_command,
    parse,
)
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.repository import Repository
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.outcome import PostingOptions
    from rlm_ci.judge.options import ReviewerOptions
    from rlm_ci.pull_request.slash_grammar import SlashCommand

#: A comment in the conversation, and one in a thread about lines.
EVENT, THREAD_EVENT = "issue_comment", "pull_request_review_comment"
#: The commands that read the change itself, and those that never do so for a fork: by what.
_READING = (CHECK, REVIEW, OVERRIDE, ASK)
_NOT_OF_FORKS = {
    REVIEW: "no model reads a change from a fork",
    ASK: "no model reads a change from a fork",
    FIX: "no fix loop runs the code of a fork",
}
#: GitHub's older names say ``write`` for ``maintain``.
_MAY_WRITE = ("admin", "maintain", "write")
#: Roles below it: an answer with one of these and a permission above contradicts itself.
_MAY_NOT = ("none", "read", "triage")
_REPOSITORY = re.compile(r"(?!\.+/)[\w.-]{1,100}/(?!\.+$)[\w.-]{1,100}", re.ASCII)
_LOGIN = re.compile(r"[\w-]{1,100}", re.ASCII)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_PAYLOAD = "give the payload as GitHub writes it to GITHUB_EVENT_PATH"


class CommentCommand(Value):
    """A command, the login of its author, and where the reply goes.

    ``change`` is None for a command that reads none; ``pull`` is the API's record.
    """

    command: SlashCommand
    person: str
    change: ChangeSet | None
    way: GitHubClient
    to: ReplyPlace
    pull: Mapping[str, Any]


def _refused(what: str, hint: str, where: str = "the comment") -> ConfigError:
    return ConfigError(what, where=where, hint=hint)


def is_comment(payload: Mapping[str, Any], name: str) -> bool:
    """Whether ``payload`` is the event of a comment; ``name`` is that of the event, "" for none."""
    is_possible = name in (EVENT, THREAD_EVENT, "")
    return is_possible and privileged_events.event_of(name, payload) in (EVENT, THREAD_EVENT)


def is_heard(payload: Mapping[str, Any]) -> bool:
    """Whether the comment of ``payload`` has a command to obey; says why it has none."""
    nothing = _not_heard(payload, _record(payload, "comment"))
    if nothing:
        say(f"nothing to do: {nothing}")
    return not nothing


def command_of(
    payload: Mapping[str, Any],
    posting: PostingOptions,
    reviewer: ReviewerOptions,
    opened: Callable[[], Repository],
) -> CommentCommand:
    """What the comment of ``payload``, which is heard, asks for; ``opened`` opens the repository.

    Raises ConfigError for what is not allowed, once whoever may write has a reply that says why;
    RemoteError if GitHub does not answer.
    """
    comment = _record(payload, "comment")
    to = _reply_place(payload, comment)
    if not posting.access.token:
        raise _refused(
            "asking GitHub whether the commenter may do this needs a token",
            "give it in the environment; in a workflow: ${{ github.token }}",
            "GITHUB_TOKEN",
        )
    way = session.client(posting.access)
    person = require_writer(way, to.repository, _record(comment, "user"))
    with replies.refusals(posting, way, to):
        command = parse(str(comment.get("body") or ""))
        if command is None:
            raise AssertionError("a comment that is heard has a command")
        pull = way.get(f"/repos/{to.repository}/pulls/{to.number}")
        _require_possible(reviewer, command, to, pull)
        if command.name == OVERRIDE:
            _require_still(pull, comment)
        change = None
        if command.name in _READING:  # its objects are fetched, and nothing is checked out
            repository = opened()
            fetch.fetch(repository, to.number, pull, posting.access)
            where = f"{to.repository}#{to.number}"
            change = trigger.from_pull_request(repository, pull, where, to.repository)
            privileged_events.refuse_checkout(change, THREAD_EVENT if to.thread else EVENT)
    return CommentCommand(command, person, change, way, to, pull)


def _require_possible(
    reviewer: ReviewerOptions, command: SlashCommand, to: ReplyPlace, pull: Mapping[str, Any]
) -> None:
    """Raise ConfigError for a command that this pull request, or this place, does not have."""
    if pull.get("state") != "open":
        raise _refused(
            f"the pull request {to.repository}#{to.number} is not open",
            "open it again, and comment again",
        )
    if command.name in _NOT_OF_FORKS and not _is_own(pull):
        raise _refused(
            _NOT_OF_FORKS[command.name], f"to run the checks on a fork's change: {GRAMMAR[0]}"
        )
    if command.name == REVIEW:
        _require_endpoint(reviewer)
    if command.name == OVERRIDE and to.thread:
        raise _refused(
            "an override is recorded by a comment in the conversation, not in a thread",
            "write the same there",
        )


def _reply_place(payload: Mapping[str, Any], comment: Mapping[str, Any]) -> ReplyPlace:
    """Where the comment stands."""
    is_thread = "issue" not in payload
    about = _record(payload, "pull_request" if is_thread else "issue")
    number, comment_id = about.get("number"), comment.get("id")
    if not (is_thread or "pull_request" in about) or type(number) is not int or number < 1:
        raise _refused(
            "the comment is on an issue, not on a pull request",
            "comment on the pull request that you want to check",
        )
    if type(comment_id) is not int or comment_id < 1:
        raise _refused("the event does not name a comment", _PAYLOAD, "comment.id")
    first = comment.get("in_reply_to_id")
    thread = (first if type(first) is int and first > 0 else comment_id) if is_thread else 0
    since = comment.get("created_at")
    is_known = isinstance(since, str) and _TIME.fullmatch(since)
    name = _name(_record(payload, "repository").get("full_name"))
    return ReplyPlace(name, number, comment_id, thread, str(since) if is_known else "")


def again(
    way: GitHubClient,
    name: str,
    pull: Mapping[str, Any],
    comment: int,
    *,
    is_thread: bool = False,
) -> tuple[SlashCommand | None, str]:
    """What the comment with this id says now, and the login of its author.

    Raises ConfigError unless a person who may write posted it on ``pull``, never edited it, and
    nobody pushed to a fork since; RemoteError if GitHub does not answer.
    """
    number, kind = pull.get("number"), "pulls" if is_thread else "issues"
    answer = way.get(f"/repos/{name}/{kind}/comments/{comment}")
    of = answer.get("pull_request_url" if is_thread else "issue_url")
    user, posted = _record(answer, "user"), answer.get("created_at")
    doubt = ""
    if answer.get("id") != comment:
        doubt = "GitHub answers with another comment"
    elif not str(of).endswith(f"/{kind}/{number}"):
        doubt = "the comment is on another pull request"
    elif user.get("type") != "User":
        doubt = "the comment's author is not a person"
    elif not isinstance(posted, str) or answer.get("updated_at") != posted:
        doubt = "the comment was edited, possibly by somebody else"
    if doubt:
        raise _refused(doubt, "comment again", f"comment {comment}")
    _require_still(pull, answer)
    return parse(str(answer.get("body") or "")), require_writer(way, name, user)


def require_model(reviewer: ReviewerOptions, what: str = "review") -> None:
    """Raise ConfigError if the settings of the base have no model for ``what``."""
    if what == "review" and reviewer.enabled == "off":
        raise _no_model(what, "the settings switch it off: review.enabled")
    if what == "review" and not reviewer.takes_model:
        raise _no_model(what, "the settings allow no model: review.model")
    if not reviewer.model:
        raise _no_model(what, "no model is named")
    _require_endpoint(reviewer, what)


def _require_endpoint(reviewer: ReviewerOptions, what: str = "review") -> None:
    if lack := reviewer.lack():
        raise _no_model(what, lack)


def _no_model(what: str, lack: str) -> ConfigError:
    return _refused(
        f"the {what} has no model: {lack}",
        "name a model in rlm-ci.toml on the base branch, and give this job the key; "
        f"to run the checks: {GRAMMAR[0]}",
    )


def _not_heard(payload: Mapping[str, Any], comment: Mapping[str, Any]) -> str:
    """Why there is no command to obey; "" for a new comment by a person that begins with one."""
    if payload.get("action") != "created":
        return "the comment is not new: somebody else may have edited it"
    if _record(comment, "user").get("type") != "User":
        return "the comment's author is not a person"
    body = str(comment.get("body") or "")
    return "" if is_command(body) else f"the comment does not begin with {PREFIX}"


def _record(record: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def _name(full: object) -> str:
    """``owner/name``, fit for the address of a request."""
    if not isinstance(full, str) or not _REPOSITORY.fullmatch(full):
        raise _refused("the event names no repository", _PAYLOAD, "repository.full_name")
    return full


def require_writer(way: GitHubClient, name: str, user: Mapping[str, Any]) -> str:
    """The login of ``user``, who may write to the repository ``name``, as GitHub says now."""
    login = user.get("login")
    if not isinstance(login, str) or not _LOGIN.fullmatch(login):
        raise _refused("the comment names no author", _PAYLOAD, "comment.user")
    answer = way.get(f"/repos/{name}/collaborators/{login}/permission")
    permission, role = answer.get("permission"), answer.get("role_name")
    # A login can change hands; the number cannot.
    account = _record(answer, "user")
    same = type(user.get("id")) is int and account.get("id") == user["id"]
    same = same and account.get("type", "User") == "User"
    if permission not in _MAY_WRITE or role in _MAY_NOT or not same:
        has = f"GitHub says {printable(str(role or permission))[:80]}"
        why = has if same else "the login belongs to another account"
        raise _refused(
            f"{login} may not give commands: write permission is needed, and {why}",
            "ask somebody who may write to the repository",
            name,
        )
    return login


def _require_still(pull: Mapping[str, Any], comment: Mapping[str, Any]) -> None:
    """Raise ConfigError if ``comment`` may be about an older head of a fork than ``pull`` has."""
    head = _record(_record(pull, "head"), "repo")
    pushed, commented = head.get("pushed_at"), comment.get("created_at")
    # As texts both sort by time (2026-01-05T09:00:00Z); within one second the order is unknown.
    is_still = isinstance(pushed, str) and isinstance(commented, str) and pushed < commented
    if not is_still and not _is_own(pull):
        raise _refused(
            "somebody pushed to the fork after the comment, or the fork is gone, so the comment "
            "may be about an older head",
            "look at the current head, and comment again",
        )


def _is_own(pull: Mapping[str, Any]) -> bool:
    """Whether the branch is of the same repository, for certain."""
    head, base = (_record(_record(pull, side), "repo") for side in ("head", "base"))
    return isinstance(head.get("full_name"), str) and head["full_name"] == base.get("full_name")
