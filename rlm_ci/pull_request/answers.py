"""Findings that a person with write permission has accepted on the pull request.

An override is a comment that accepts those of a check, for one head and its base, with a name and a
reason. Our summary comment records it for later runs. Other workflows may post under our login, so
each run asks GitHub again for the person's comment and rights.

Those of a review are settled one by one: a person said "won't fix", resolved the review comment, or
gave it a thumbs down. That holds while the lines of the finding stand, the branch that it goes to
and the merge base are the same, and the person may still write. A claim of a model may come back on
the same lines by another rule; one that is worse than what was settled is open again.
"""

from __future__ import annotations

from rlm_ci.console.messages import say
from rlm_ci.errors import ConfigError, RemoteError, RlmCiError, UnavailableError
from rlm_ci.github.posting.outcome import NONE, POSTED, UPDATED
from rlm_ci.github.posting.outcome import REVIEW as COMMENTS
from rlm_ci.pull_request import comment_commands
from rlm_ci.pull_request.comment_commands import require_writer
from rlm_ci.pull_request.slash_grammar import LONGEST_REASON, OVERRIDABLE, OVERRIDE
from rlm_ci.report.details import claim_mark
from rlm_ci.report.details.claim_mark import Settlement
from rlm_ci.report.findings import OLD, fingerprints
from rlm_ci.text.printable import count, encodable, first_of, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.outcome import Destination, PostingOptions, Publication
    from rlm_ci.github.posting.review_threads import ReviewThread, ThreadAnswer
    from rlm_ci.github.posting.summary_comment import Override
    from rlm_ci.github.session import GitHubSession
    from rlm_ci.pull_request.comment_commands import CommentCommand
    from rlm_ci.pull_request.slash_grammar import SlashCommand
    from rlm_ci.report.findings import Finding, Part, Report


_PART = "review"
#: Begins what is added to the summary of the review.
_HERE = "; on the pull request: "
#: Settled findings that the summary names.
_NAMED = 5
#: What settles a finding that somebody has declined in other words.
_WAY = "with write access, settle it by the reply `won't fix`, or resolve the comment"
#: People that GitHub is asked about.
_MOST = 30


def apply(
    posting: PostingOptions, report: Report, to: Destination | None, way: GitHubSession
) -> Report:
    """``report`` with the settled findings of its review marked.

    If GitHub cannot be asked, nothing is marked, and the part says so.
    """
    pairs = zip(fingerprints(report.findings), report.findings, strict=True)
    marked = {mark: finding for mark, finding in pairs if _can_settle(finding)}
    if not marked:
        return report
    settled, doubt = read(posting, to, way, marked)
    if doubt:
        say(f"note: {doubt}")
    changed = {}
    for mark, finding in marked.items():
        before, is_worse = claim_mark.settled(finding, mark, settled)
        # The review may have left some out already.
        if before is None or finding.suppression not in (None, before.reason):
            continue
        if is_worse:
            worse = claim_mark.worsened(finding, before.claim, before.reason)
            changed[id(finding)] = worse.replace(suppression=None)
        else:
            changed[id(finding)] = finding.replace(suppression=before.reason)
    declined = [
        f"{login} declines {_position(marked[mark])}"
        for mark, login in way.declined.items()
        if mark in marked and id(marked[mark]) not in changed and marked[mark].suppression is None
    ]
    return _marked(report, changed, declined, doubt)


def read(
    posting: PostingOptions,
    to: Destination | None,
    way: GitHubSession,
    findings: Mapping[str, Finding] | None = None,
) -> tuple[list[Settlement], str]:
    """Why findings are settled, and why not all of it is known.

    Only of what is about ``findings``, by their fingerprints, if these are given.
    """
    if to is None or to.is_group or posting.comment != COMMENTS:
        return [], ""
    try:
        from rlm_ci.github.posting import review_threads

        way.threads = review_threads.read(way.client(), to.repository, to.number)
        answers = review_threads.answers_of(way.threads)
        if findings is not None:
            answers = [answer for answer in answers if _is_about(answer.thread, findings)]
        on_base = [answer for answer in answers if answer.thread.origin.base == to.base]
        settled, doubt = _settled(way, to, on_base)
        way.declined = {
            answer.thread.fingerprint: answer.login
            for answer in on_base
            if answer.did == review_threads.DECLINED
        }
        if len(on_base) < len(answers):
            say("note: answers to review comments that are about another base do not count")
    except UnavailableError:
        return [], ""  # posting needs it too, and reports it
    except RlmCiError as error:
        settled, doubt = [], f"the answers to review comments cannot be read: {error}"
    return settled, posting.redact(doubt)


def without(summary: str) -> str:
    """The summary of a review as it was before :func:`apply`."""
    return summary.partition(_HERE)[0]


def _can_settle(finding: Finding) -> bool:
    """Whether an answer to the finding counts: its lines must show that they still stand."""
    is_new = finding.suppression not in OLD and finding.rule.partition("/")[0] == _PART
    return is_new and bool(finding.evidence and finding.evidence[0].quote)


def _is_about(thread: ReviewThread, findings: Mapping[str, Finding]) -> bool:
    claim = thread.origin.claim
    return thread.fingerprint in findings or any(
        claim_mark.is_same(claim, claim_mark.of(finding)) for finding in findings.values()
    )


def _settled(
    way: GitHubSession, to: Destination, answers: Sequence[ThreadAnswer]
) -> tuple[list[Settlement], str]:
    """Why the finding of each thread is settled, and whom GitHub was not asked about."""
    from rlm_ci.github.posting.review_threads import DECLINED

    may = way.writers
    settled: dict[str, Settlement] = {}
    unasked: set[str] = set()
    for answer in answers:
        who = answer.login, answer.number
        if answer.thread.id in settled or answer.did == DECLINED:
            continue
        if who not in may and len(may) >= _MOST:
            unasked.add(answer.login)
            continue
        if who not in may:
            may[who] = _may_write(way.client(), to.repository, answer)
        if may[who]:
            mark, claim = answer.thread.fingerprint, answer.thread.origin.claim
            settled[answer.thread.id] = Settlement(mark, claim, f"{answer.login} {answer.did}")
    left = count(len(unasked), "more account")
    doubt = f"{_MOST} accounts answered review comments, and {left}, whose answers do not count"
    return [*settled.values()], doubt if unasked else ""


def _may_write(way: GitHubClient, repository: str, answer: ThreadAnswer) -> bool:
    """Whether GitHub says so now. Raises RemoteError."""
    from rlm_ci.github.api.errors import GitHubRefusedError

    way.more()
    try:
        require_writer(way, repository, {"login": answer.login, "id": answer.number})
    except ConfigError:
        return False
    except GitHubRefusedError as refused:
        if refused.status != 404:  # there is no such account any more
            raise
        return False
    return True


def _position(finding: Finding) -> str:
    location = finding.evidence[0]
    return f"{printable(encodable(location.path))}:{location.line_start}"


def _marked(
    report: Report, changed: dict[int, Finding], declined: Sequence[str], doubt: str
) -> Report:
    if not (changed or declined or doubt):
        return report
    settled = [finding for finding in changed.values() if finding.suppression is not None]
    worse = len(changed) - len(settled)
    names = [_position(finding) for finding in settled[:_NAMED]]
    names += ["..."] if len(settled) > _NAMED else []
    notes = [f"{count(len(settled), 'finding')} settled ({', '.join(names)})"] if settled else []
    notes += [f"{count(worse, 'settled finding')} got worse, and counts again"] if worse else []
    notes += [f"{first_of(declined, 'answer')}: {_WAY}"] if declined else []
    more = "; ".join((*notes, *([doubt] if doubt else ())))

    def marked(part: Part) -> Part:
        findings = tuple(changed.get(id(finding), finding) for finding in part.findings)
        return part.replace(findings=findings, summary=f"{part.summary}{_HERE}{more}")

    parts = (marked(part) if part.id == _PART else part for part in report.parts)
    return report.replace(parts=tuple(parts))


#: How many of the last records are confirmed.
_CONFIRMED = 3


def overrides_on_head(
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
    from rlm_ci.github.posting.summary_comment import Override

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
        override
        for override in fitting[-_CONFIRMED:]
        if _is_confirmed(posting, way, to, pull, override)
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


def overridden(report: Report, overrides: Sequence[Override]) -> Report:
    """``report`` with the findings of the overridden checks marked."""
    reasons = {override.check: reason_of(override) for override in overrides}
    return report.replace(
        parts=tuple(_override_marked(part, reasons.get(part.id)) for part in report.parts)
    )


def _override_marked(part: Part, reason: str | None) -> Part:
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
