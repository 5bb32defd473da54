"""Findings of a review that a person with write permission has settled, as accepted ones.

They said "won't fix", resolved the review comment, or gave it a thumbs down. That holds on this
pull request, while the lines of the finding stand, the branch that it goes to and the merge base
are the same, and the person may still write. A claim of a model may come back on the same lines by
another rule; one that is worse than what was settled is open again.
"""

from __future__ import annotations

from rlm_ci.console.messages import say
from rlm_ci.errors import ConfigError, RlmCiError, UnavailableError
from rlm_ci.github.posting.outcome import REVIEW as COMMENTS
from rlm_ci.pull_request.comment_commands import require_writer
from rlm_ci.report.details import claim_mark
from rlm_ci.report.details.claim_mark import Settlement
from rlm_ci.report.findings import OLD, fingerprints
from rlm_ci.text.printable import count, encodable, first_of, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.outcome import Destination, PostingOptions
    from rlm_ci.github.posting.review_threads import ReviewThread, ThreadAnswer
    from rlm_ci.github.session import GitHubSession
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
        f"{login} declines {_place(marked[mark])}"
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

    Only of what is about ``findings`` findings by their fingerprints, if these are given.
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


def _place(finding: Finding) -> str:
    location = finding.evidence[0]
    return f"{printable(encodable(location.path))}:{location.line_start}"


def _marked(
    report: Report, changed: dict[int, Finding], declined: Sequence[str], doubt: str
) -> Report:
    if not (changed or declined or doubt):
        return report
    settled = [finding for finding in changed.values() if finding.suppression is not None]
    worse = len(changed) - len(settled)
    names = [_place(finding) for finding in settled[:_NAMED]]
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
