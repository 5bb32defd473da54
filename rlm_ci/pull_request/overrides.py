"""Findings that a person overrides by a comment, for one head and its base, with name and reason.

Our summary comment records the override for later runs. Other workflows may post under our
login, so each run asks GitHub again for the person's comment and rights.
"""

from __future__ import annotations

from rlm_ci.console.messages import say
from rlm_ci.errors import ConfigError, RemoteError, RlmCiError, UnavailableError
from rlm_ci.github.posting.outcome import NONE, POSTED, UPDATED
from rlm_ci.pull_request import comment_commands
from rlm_ci.pull_request.slash_grammar import LONGEST_REASON, OVERRIDABLE, OVERRIDE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.checkpoint import Override
    from rlm_ci.github.posting.outcome import Destination, PostingOptions, Publication
    from rlm_ci.github.session import GitHubSession
    from rlm_ci.pull_request.comment_commands import CommentCommand
    from rlm_ci.pull_request.slash_grammar import SlashCommand
    from rlm_ci.report.findings import Part, Report

#: How many of the last records are confirmed.
_MOST = 3


def held(
    posting: PostingOptions,
    report: Report,
    to: Destination | None,
    way: GitHubSession,
    command: CommentCommand | None = None,
) -> tuple[Override, ...]:
    """The overrides on the head of ``report`` and its base, by this command or an earlier one.

    Raises ConfigError if this command's override could not be stored.
    """
    if command and command.command.name == OVERRIDE:
        if to is None or posting.comment == NONE:
            raise ConfigError(
                "an override is stored in the summary comment, but this run posts none",
                where=posting.sources[1 if to else 0],
                hint="post it: publish.comment sticky or review, and no --no-publish",
            )
        return (_override(posting, command.command, command.person, to, command.to.comment),)
    overridable = any(finding.rule.partition("/")[0] in OVERRIDABLE for finding in report.failing())
    return recorded(posting, way, to) if to and overridable and not to.is_group else ()


def recorded(posting: PostingOptions, way: GitHubSession, to: Destination) -> tuple[Override, ...]:
    """The overrides on the head of ``to`` by earlier commands; nothing on any doubt."""
    try:
        return _recorded(posting, way, to)
    except UnavailableError:
        return ()  # posting needs it too, and reports it
    except RlmCiError as error:
        say(f"note: the overrides cannot be read: {error}")
        return ()


def _override(
    posting: PostingOptions, command: SlashCommand, person: str, to: Destination, comment: int
) -> Override:
    from rlm_ci.github.posting.checkpoint import Override

    (check,) = command.checks
    reason = posting.redact(command.reason)[:LONGEST_REASON]
    return Override(check, reason, person, to.head, comment, to.target, to.merge_base)


def _recorded(posting: PostingOptions, way: GitHubSession, to: Destination) -> tuple[Override, ...]:
    """What our own summaries say of this head; nothing on any doubt, with a message."""
    from rlm_ci.github.posting import review_threads
    from rlm_ci.github.posting.summary_comment import SummaryComments

    marked = SummaryComments(way.client(), to, "").marked()
    if all(comment.last and not comment.last.overrides for _, comment in marked):
        return ()  # most often there is nothing to confirm
    way.author = way.author or review_threads.viewer(way.client())
    comments = [comment for login, comment in marked if login == way.author]
    if any(comment.last is None for comment in comments):
        say("note: the state in our summary comment cannot be read, so nothing in it counts")
    records = [
        record
        for last in (comment.last for comment in comments)
        if last and (last.number, last.head) == (to.number, to.head)
        for record in last.overrides
    ]
    # Runs of several names may carry the same one on.
    return _confirmed(posting, way.client(), to, list(dict.fromkeys(records)))


def _confirmed(
    posting: PostingOptions, way: GitHubClient, to: Destination, records: Sequence[Override]
) -> tuple[Override, ...]:
    overrides = [
        record for record in records if record.head == to.head and record.check in OVERRIDABLE
    ]
    base = (to.target, to.merge_base)
    fitting = [
        override
        for override in overrides
        if to.merge_base and (override.target, override.merge_base) == base
    ]
    if len(fitting) < len(overrides):
        say("note: an override that was given on another base does not count: comment again")
    if not fitting:
        return ()
    pull = way.get(to.path)
    head, base_ref = (pull.get(side) for side in ("head", "base"))
    if pull.get("number") != to.number or not isinstance(head, dict) or head.get("sha") != to.head:
        say("note: the pull request is at another head, so nothing is overridden on this one")
        return ()
    if not isinstance(base_ref, dict) or base_ref.get("ref") != to.target:
        say("note: the pull request goes to another branch now, so nothing is overridden here")
        return ()
    return tuple(
        override for override in fitting[-_MOST:] if _is_confirmed(posting, way, to, pull, override)
    )


def _is_confirmed(
    posting: PostingOptions,
    way: GitHubClient,
    to: Destination,
    pull: dict[str, Any],
    record: Override,
) -> bool:
    """Whether the comment that ``record`` points to says the same; prints why not."""
    doubt = "the comment says something else"
    try:
        command, person = comment_commands.again(way, to.repository, pull, record.comment)
    except RlmCiError as error:
        doubt = str(error)
    else:
        if command is not None and command.name == OVERRIDE:
            override = _override(posting, command, person, to, record.comment)
            if override == record:
                return True
    say(f"note: the override of {record.check} in our summary comment does not count: {doubt}")
    return False


def reason_of(override: Override) -> str:
    return f"{override.reason} (override by {override.person})"


def apply(report: Report, overrides: Sequence[Override]) -> Report:
    """``report`` with the findings of the overridden checks marked."""
    reasons = {override.check: reason_of(override) for override in overrides}
    return report.replace(parts=tuple(_marked(part, reasons.get(part.id)) for part in report.parts))


def _marked(part: Part, reason: str | None) -> Part:
    if reason is None or all(finding.suppression is not None for finding in part.findings):
        return part
    findings = tuple(
        finding if finding.suppression is not None else finding.replace(suppression=reason)
        for finding in part.findings
    )
    return part.replace(findings=findings, summary=f"{part.summary}; overridden: {reason}")


def require_kept(command: CommentCommand | None, publication: Publication | None) -> None:
    """Raise RemoteError if a command's override is not on the pull request, for later runs."""
    if command is None or command.command.name != OVERRIDE:
        return
    if publication is None or publication.summary not in (POSTED, UPDATED):
        raise RemoteError(
            "the override could not be stored, so it applies to this run only",
            where="the summary comment",
            hint="see the warning above; then comment again",
        )
