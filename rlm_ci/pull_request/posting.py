"""What ``pr`` and ``publish`` share: where to post a report, and posting it."""

from __future__ import annotations

import os

from rlm_ci.console.messages import say, warn
from rlm_ci.errors import ConfigError, RemoteError, RlmCiError
from rlm_ci.github.posting.outcome import FAILED, NONE, Destination, Publication
from rlm_ci.system import files
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.patches import PatchDiff
    from rlm_ci.github.posting.checkpoint import Override
    from rlm_ci.github.posting.outcome import PostingOptions
    from rlm_ci.github.session import GitHubSession
    from rlm_ci.report.findings import Report
    from rlm_ci.report.render import RenderOptions


def destination(
    posting: PostingOptions,
    report: Report,
    changes: Sequence[ChangeSet],
    commanded: GitHubSession | None = None,
) -> Destination | None:
    """Where our own report goes; None, with a warning if posting was requested, for nowhere.

    ``commanded`` is the way to GitHub of a command, which posts under the name of the other runs.
    """
    subject = report.subject
    source = posting.sources[0]
    if not posting.is_enabled:
        return None
    if not posting.access.token:
        what, hint = "there is no token", "give it as github-token, or in GITHUB_TOKEN"
    elif (
        group := [change for change in changes if change.trigger == "merge_group"]
    ) and subject.head:
        return Destination(
            subject.repository or "", subject.pull_request or 0, subject.head, report.name,
            group[-1].target or "", subject.merge_base, is_group=True,
        )  # fmt: skip
    elif subject.pull_request is None or subject.repository is None or subject.head is None:
        what, hint = "this is no pull request", "run it on a pull_request event, or with --event"
    else:
        target = next((change.target or "" for change in changes), "")
        to = Destination(
            subject.repository, subject.pull_request, subject.head, report.name, target,
            subject.merge_base,
        )  # fmt: skip
        return to.replace(name=_of_others(posting, to, commanded)) if commanded else to
    if source != "default":
        warn(ConfigError(f"nothing is posted: {what}", where=source, hint=hint))
    return None


def _of_others(posting: PostingOptions, to: Destination, way: GitHubSession) -> str:
    """The name of the runs that post on this pull request; "" if they have several."""
    from rlm_ci.github.posting import review_threads
    from rlm_ci.github.posting.summary_comment import SummaryComments

    if posting.name:
        return posting.name
    try:
        marked = SummaryComments(way.client(), to, "").marked()
        way.author = way.author or review_threads.viewer(way.client())
    except RlmCiError as error:
        say(f"note: the summary comments cannot be read: {error}")
        return ""
    names = sorted(
        {comment.last.name for who, comment in marked if comment.last and who == way.author} - {""}
    )
    if len(names) > 1:
        say(
            f"note: the runs {', '.join(names)} keep their comments and check runs; this one has "
            "its own, and an override counts for them when they run again"
        )
    return names[0] if len(names) == 1 else ""


def attempt(
    posting: PostingOptions,
    report: Report,
    to: Destination | None,
    options: RenderOptions,
    way: GitHubSession,
    *,
    diff: Callable[[], PatchDiff] | None = None,
    overrides: Sequence[Override] = (),
    review: str = "",
) -> Publication | None:
    """Post the report of our own run, if it goes anywhere. Never raises."""
    if to is None or ((to.is_group or posting.comment == NONE) and not posting.check_run):
        return None
    try:
        return post(
            posting, report, to, options, way, diff=diff, overrides=overrides, review=review
        )
    except Exception as error:  # noqa: BLE001 - a bug of posting does not undo a verdict either
        if not isinstance(error, RlmCiError):
            error = RlmCiError(f"internal error: {error!r}", hint="please report it as a bug")
        warn(RemoteError(f"the report is not posted: {error}", hint=error.hint))
        reason = posting.redact(printable(f"{error}. {error.hint}"))
        return Publication(FAILED, FAILED, FAILED, reason)


def post(
    posting: PostingOptions,
    report: Report,
    destination: Destination,
    options: RenderOptions,
    way: GitHubSession,
    *,
    diff: Callable[[], PatchDiff] | None = None,
    overrides: Sequence[Override] = (),
    pull: dict[str, Any] | None = None,
    review: str = "",
) -> Publication:
    """Post ``report``, and print what went wrong.

    ``pull`` is the API's record of the pull request, ``review`` state for the next run.
    """
    from rlm_ci.github.posting.publisher import Publisher

    publication = Publisher(
        way.client(),
        destination,
        report,
        run=report.run_id or os.urandom(8).hex(),
        config=posting.config,
        wishes=posting.replace(comment=NONE) if destination.is_group else posting,
        options=options.replace(colour=False),
        diff=diff,
        overrides=overrides,
        pull={"head": {"sha": destination.head}} if destination.is_group else pull,
        author=way.author,
        threads=way.threads,
        review=review,
    ).publish()
    if not publication.reason:
        return publication
    # It quotes GitHub, or a proxy.
    reason = posting.redact(publication.reason)
    where = f"{destination.repository}#{destination.number}"
    if FAILED in (publication.summary, publication.review, publication.check_run):
        warn(RemoteError(f"not all is posted: {reason}", where=where))
    else:
        say(f"note: posting on {where}: {reason}")
    return publication.replace(reason=reason)


def write_outputs(path: str, values: Mapping[str, str]) -> None:
    """Set outputs of the action's step; a random delimiter keeps a value from ending its block.

    ``path`` is the file that the job reads them from, "" for none.
    """
    if not path:
        return
    end = f"rlm-ci-{os.urandom(16).hex()}"
    text = "".join(f"{name}<<{end}\n{value}\n{end}\n" for name, value in values.items())
    files.append(path, text.encode("utf-8", "surrogateescape"))
