"""Who asks for what in a comment on a pull request: heard only after GitHub was asked itself.

The grammar of the comment is in :mod:`rlm_ci.pull_request.slash_grammar`. Whether its author
may say it, GitHub tells and not the event; so it does which commits are meant. Only then is
anything fetched, and nothing is checked out.
"""

from __future__ import annotations

from rlm_ci.change import privileged_events, trigger
from rlm_ci.console.messages import say
from rlm_ci.errors import ConfigError, RlmCiError
from rlm_ci.github import fetch, session
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import access_of
from rlm_ci.pull_request.slash_grammar import GRAMMAR, OVERRIDE, PREFIX, REVIEW, parse
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.settings import Settings
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.pull_request.slash_grammar import SlashCommand

EVENT = "issue_comment"
#: ``maintain`` is told as write where GitHub tells the older names.
_MAY_WRITE = ("admin", "maintain", "write")
#: Roles below it. An answer that names one of these and a permission above is believed in neither.
_MAY_NOT = ("none", "read", "triage")
_NO_WAY = "neither OPENAI_API_KEY nor OPENAI_BASE_URL is set"


class CommentCommand(Value):
    """A command, the ``person`` (a login) who may give it, and the change that it is about.

    ``comment`` is the id of the comment.
    """

    command: SlashCommand
    person: str
    change: ChangeSet
    way: GitHubClient
    comment: int


def payload_of(settings: Settings) -> dict[str, Any] | None:
    """The event of a comment, if this run is about one; None to go on as ever.

    ``--base`` and ``--head`` say what to judge, whatever the comment says.
    """
    path = settings.event or (settings.github.actions and settings.github.event_path)
    name = "" if settings.event else settings.github.event_name
    if not path or settings.base or settings.head or name not in (EVENT, "", None):
        return None
    if path.startswith("/dev/"):  # a pipe can be read once, and that by who judges
        return None
    try:
        payload = trigger.load(path)
    except RlmCiError:
        return None  # whoever judges will tell what is wrong with it
    return payload if privileged_events.event_of(name, payload) == EVENT else None


def asked(settings: Settings, payload: Mapping[str, Any]) -> CommentCommand | None:
    """What a person asks for in the comment of ``payload``; None for nothing, which is said.

    Raises ConfigError for what is not allowed, RemoteError where GitHub does not say.
    """
    comment, issue = _record(payload, "comment"), _record(payload, "issue")
    command = _heard(payload, comment)
    if command is None:
        return None
    number, said = issue.get("number"), comment.get("id")
    if "pull_request" not in issue or type(number) is not int or number < 1:
        raise ConfigError(
            "the comment is on an issue, not on a pull request",
            where="the comment",
            hint="comment on the pull request that you want to check",
        )
    if type(said) is not int or said < 1:
        raise ConfigError(
            "the event does not name a comment",
            where="comment.id",
            hint="give the payload as GitHub writes it to GITHUB_EVENT_PATH",
        )
    if not settings.github.token:
        raise ConfigError(
            "asking GitHub whether the commenter may do this needs a token",
            where="GITHUB_TOKEN",
            hint="give it in the environment; in a workflow: ${{ github.token }}",
        )
    name = _name(_record(payload, "repository").get("full_name"))
    way = session.client(access_of(settings))
    person = _require_writer(way, name, _record(comment, "user"))
    pull = _open_pull(way, name, number)
    if command.name == REVIEW:
        _require_own(pull)
        if not _has_way(settings):
            raise _nobody(_NO_WAY)
    if command.name == OVERRIDE:
        _require_still(pull, comment)
    repository = open_repository(settings)
    fetch.fetch(repository, number, pull, access_of(settings))
    change = trigger.from_pull_request(repository, pull, f"{name}#{number}", name)
    privileged_events.refuse_checkout(change, EVENT)
    return CommentCommand(command, person, change, way, said)


def again(
    way: GitHubClient, name: str, pull: Mapping[str, Any], comment: int
) -> tuple[SlashCommand | None, str]:
    """What the comment with this id says, and the login of its author, as GitHub tells them now.

    It is one on ``pull`` (as the API tells that) by a person who may write, it is as it was
    posted, and no fork was pushed to since. Raises ConfigError if anything of that is not so,
    RemoteError where GitHub does not say.
    """
    told = way.get(f"/repos/{name}/issues/comments/{comment}")
    user, posted = _record(told, "user"), told.get("created_at")
    doubt = ""
    if told.get("id") != comment:
        doubt = "GitHub answers with another comment"
    elif not str(told.get("issue_url")).endswith(f"/issues/{pull.get('number')}"):
        doubt = "the comment is on another pull request"
    elif user.get("type") != "User":
        doubt = "the comment's author is not a person"
    elif not isinstance(posted, str) or told.get("updated_at") != posted:
        doubt = "the comment was edited, possibly by somebody else"
    if doubt:
        raise ConfigError(doubt, where=f"comment {comment}", hint="comment again")
    _require_still(pull, told)
    return parse(str(told.get("body") or "")), _require_writer(way, name, user)


def require_model(settings: Settings) -> None:
    """Raise ConfigError where a comment asks for a review, and there is no model to make it.

    ``settings`` are those of the base.
    """
    if settings.review.enabled == "off":
        raise _nobody("the settings switch it off: review.enabled")
    if settings.review.model == "off":
        raise _nobody("the settings allow no model: review.model")
    if not settings.model:
        raise _nobody("no model is named")
    if not _has_way(settings):
        raise _nobody(_NO_WAY)


def _has_way(settings: Settings) -> bool:
    return bool(settings.openai.api_key or settings.openai.base_url)


def _nobody(lack: str) -> ConfigError:
    return ConfigError(
        f"the review has no model: {lack}",
        where="the comment",
        hint="name a model in rlm-ci.toml on the base branch, and give this job the key; "
        f"to run the checks: {GRAMMAR[0]}",
    )


def _require_own(pull: Mapping[str, Any]) -> None:
    """Raise ConfigError for the pull request of a fork, or of one that is gone."""
    if not _is_own(pull):
        raise ConfigError(
            "no model reads a change from a fork",
            where="the comment",
            hint=f"to run the checks on a fork's change: {GRAMMAR[0]}",
        )


def _heard(payload: Mapping[str, Any], comment: Mapping[str, Any]) -> SlashCommand | None:
    """The command of a new comment by a person; None for anything else, which is said."""
    nothing = f"the comment does not begin with {PREFIX}"
    command = None
    if payload.get("action") != "created":
        nothing = "the comment is not new: somebody else may have edited it"
    elif _record(comment, "user").get("type") != "User":
        nothing = "the comment's author is not a person"
    else:
        command = parse(str(comment.get("body") or ""))
    if command is None:
        say(f"nothing to do: {nothing}")
    return command


def _open_pull(way: GitHubClient, name: str, number: int) -> dict[str, Any]:
    """The pull request as the API tells it. Raises ConfigError for one that is not open."""
    pull = way.get(f"/repos/{name}/pulls/{number}")
    if pull.get("state") != "open":
        raise ConfigError(
            f"the pull request {name}#{number} is not open",
            where="the comment",
            hint="open it again, and comment again",
        )
    return pull


def _record(record: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = record.get(key)
    return value if isinstance(value, dict) else {}


def _name(full: object) -> str:
    """``owner/name``, fit to stand in the address of a request."""
    parts = full.split("/") if isinstance(full, str) else []
    if len(parts) != 2 or not all(map(_is_plain, parts)):
        raise ConfigError(
            "the event names no repository",
            where="repository.full_name",
            hint="give the payload as GitHub writes it to GITHUB_EVENT_PATH",
        )
    return "/".join(parts)


def _is_plain(text: str, others: str = "-_.") -> bool:
    letters = text.translate(dict.fromkeys(map(ord, others), "a"))
    return letters.isascii() and letters.isalnum() and text.strip(".") != "" and len(text) <= 100


def _require_writer(way: GitHubClient, name: str, user: Mapping[str, Any]) -> str:
    """The login of ``user``, who may write to the repository ``name``, as GitHub says now."""
    login = user.get("login")
    if not isinstance(login, str) or not _is_plain(login, "-_"):
        raise ConfigError(
            "the comment names no author",
            where="comment.user",
            hint="give the payload as GitHub writes it to GITHUB_EVENT_PATH",
        )
    answer = way.get(f"/repos/{name}/collaborators/{login}/permission")
    permission, role = answer.get("permission"), answer.get("role_name")
    # A login can change hands; the number cannot.
    same = type(user.get("id")) is int and _record(answer, "user").get("id") == user["id"]
    if permission not in _MAY_WRITE or role in _MAY_NOT or not same:
        has = f"GitHub says {printable(str(role or permission))[:80]}"
        why = has if same else "the login belongs to another account"
        raise ConfigError(
            f"{login} may not give commands: write permission is needed, and {why}",
            where=name,
            hint="ask somebody who may write to the repository",
        )
    return login


def _require_still(pull: Mapping[str, Any], comment: Mapping[str, Any]) -> None:
    """Raise ConfigError if ``comment`` may be about another head than the one of ``pull``."""
    if not _is_still(pull, comment):
        raise ConfigError(
            "somebody pushed to the fork after the comment, or the fork is gone, so the comment "
            "may be about an older head",
            where="the comment",
            hint="look at the current head, and comment again",
        )


def _is_own(pull: Mapping[str, Any]) -> bool:
    """Whether the branch is of the same repository, for certain."""
    head, base = (_record(_record(pull, side), "repo") for side in ("head", "base"))
    return isinstance(head.get("full_name"), str) and head["full_name"] == base.get("full_name")


def _is_still(pull: Mapping[str, Any], comment: Mapping[str, Any]) -> bool:
    """Whether nothing was pushed to the fork of ``pull`` since ``comment``, for certain.

    Those who push to the repository itself may override too, and need no trick. Of a fork that
    is gone nobody knows when it was pushed to.
    """
    if _is_own(pull):
        return True
    head = _record(_record(pull, "head"), "repo")
    pushed, said = head.get("pushed_at"), comment.get("created_at")
    # Both are written as 2026-01-05T09:00:00Z, so that the texts are in the order of the times;
    # of two in the same second nobody knows the order.
    return isinstance(pushed, str) and isinstance(said, str) and pushed < said
