"""What ``pr`` adds to the checks: a review of the change, and stale wiki pages."""

from __future__ import annotations

from rlm_ci.console.failures import failure
from rlm_ci.console.messages import say, warn
from rlm_ci.errors import ConfigError, RlmCiError, UnavailableError
from rlm_ci.github.posting.outcome import Destination
from rlm_ci.report.findings import (
    CLEAN,
    INCOMPLETE,
    NOT_RUN,
    Part,
    Usage,
)
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.github.posting.outcome import PostingOptions
    from rlm_ci.github.session import GitHubSession
    from rlm_ci.judge.options import ReviewerOptions
    from rlm_ci.report.findings import Report

    #: Reviews a change: the report, and state for the next review. Raises RlmCiError.
    Review = Callable[[ChangeSet], tuple[Report, str]]

REVIEW, WIKI, TOGETHER = "review", "wiki", "together"
_AUTO, _ON, _OFF = "auto", "on", "off"


class PostingTarget(Value):
    """Where the report will be posted, if anywhere; ``is_asked``: a comment asked for a review."""

    to: Destination | None
    way: GitHubSession
    posting: PostingOptions
    is_asked: bool = False


class ExtraParts(Value):
    """The parts that the settings ask for.

    ``event`` is the one of a job that may write, None for another; ``review`` makes a review.
    ``wiki`` is ``auto``, ``on`` or ``off``; ``folder`` is that of the pages, with its source.
    ``where`` is the folder of the run, which has the traceback of a bug, if there is one.
    ``stale`` names the pages that a change makes stale. ``together`` compares a change with the
    other open ones.
    """

    reviewer: ReviewerOptions
    event: str | None
    review: Review
    wiki: str
    folder: tuple[str, str]
    environ: Mapping[str, str]
    where: str | None
    stale: Callable[[ChangeSet], Part]
    together: Callable[[ChangeSet], Part] | None = None


def add(
    parts: ExtraParts, report: Report, changes: Sequence[ChangeSet], wish: PostingTarget
) -> tuple[Report, str]:
    """``report`` with the parts that the settings ask for, and state for the next review.

    Never raises.
    """
    state = ""
    is_group = bool(changes) and changes[0].trigger == "merge_group"
    for change in changes if is_group else changes[:1]:
        if report.overview is None:
            from rlm_ci.overview.overview import attached

            report = attached(report, change, parts.environ)
        report, state = _with_review(parts, report, change, wish)
        part = _stale(parts, change)
        more = [part] if part is not None else []
        if parts.together is not None:
            more.append(_together(parts.together, change, parts.where))
        report = report.replace(parts=(*report.parts, *more))
    return report, state


def _together(compare: Callable[[ChangeSet], Part], change: ChangeSet, place: str | None) -> Part:
    if change.pull_request is None:
        return Part(TOGETHER, "off: this is no pull request", {"enabled": False}, enabled=False)
    try:
        return compare(change)
    except Exception as error:  # noqa: BLE001 - what the checks found is reported anyway
        return Part.from_error(TOGETHER, failure(error, place))


# ── the review ──


def _with_review(
    extra_parts: ExtraParts, report: Report, change: ChangeSet, wish: PostingTarget
) -> tuple[Report, str]:
    reviewer, event = extra_parts.reviewer, extra_parts.event
    enabled = _ON if wish.is_asked else reviewer.enabled
    if enabled == _OFF or change.head is None:
        return report, ""
    from rlm_ci.review.run import not_looked_at

    def extended(*parts: Part) -> tuple[Report, str]:
        return report.replace(parts=(*report.parts, *parts)), ""

    def unseen(why: str) -> Part:
        return not_looked_at(why, change, has_auto=reviewer.auto_analyzers)

    try:
        if event is not None and not wish.is_asked:
            if enabled == _AUTO:
                awaited = not _lacks_reviewer(reviewer, change)
                return extended(*_of_last_review(wish, awaited=awaited))
            raise ConfigError(
                f"a review is refused under {event}: it writes the pull request's files to the "
                "disk, in a job that has secrets and a token that may write",
                where=reviewer.source,
                hint="run it on pull_request, or ask for it in a comment",
            )
        if enabled == _AUTO and (lack := _lacks_reviewer(reviewer, change)):
            return extended(unseen(lack))
        review, state = extra_parts.review(change)
    except Exception as error:  # noqa: BLE001 - what the checks found is reported anyway
        return extended(Part.from_error(REVIEW, failure(error, extra_parts.where)))
    (part,) = review.parts
    if enabled == _AUTO and part.state == NOT_RUN and part.error is None:  # no reviewer
        part = unseen(part.summary)
    overview, words = report.overview or review.overview, review.overview
    report = report.replace(
        parts=(*report.parts, part),
        overview=overview.replace(said=words.said) if overview and words else overview,
        coverage=report.coverage + review.coverage,
        evidence=report.evidence + review.evidence,
        usage=_added(report.usage, review.usage),
        refuted=(*report.refuted, *review.refuted),
    )
    return report, state


def _of_last_review(wish: PostingTarget, *, awaited: bool) -> list[Part]:
    """An incomplete part, if the last review of this commit was not clean, or is ``awaited``."""
    if wish.to is None:
        return []
    from rlm_ci.github.posting.summary_comment import previous_run

    try:
        last = previous_run(wish.way.client(), wish.to).last
    except UnavailableError:  # posting needs it too, and reports it
        return []
    except RlmCiError as error:
        summary = f"the last review of this commit cannot be read: {error}"
    else:
        if last is None or not last.is_of(wish.to):
            # Recorded as an unfinished review, which the next command sees.
            summary = "skipped; this commit has no review yet"
            return [_unreviewed(summary, {})] if awaited else []
        if last.reviewed in ("", CLEAN):
            return []
        summary = f"not repeated; the last review of this commit: {last.reviewed}"
    return [_unreviewed(summary, {"again": False})]


def _unreviewed(text: str, metrics: dict[str, bool]) -> Part:
    return Part(REVIEW, f"{text} (/rlm-ci review repeats it)", metrics, state=INCOMPLETE)


def _lacks_reviewer(reviewer: ReviewerOptions, change: ChangeSet) -> str:
    """Why no model or analyzer can look at the change, "" if one can."""
    from rlm_ci.report.review_advice import unread
    from rlm_ci.review.analyzers import ruff
    from rlm_ci.review.analyzers.programs import locate
    from rlm_ci.review.run import files_of

    has_model = bool(reviewer.model) and not reviewer.lack()
    if reviewer.analyzers or (has_model and reviewer.takes_model):
        return ""
    paths, endings = files_of(change), tuple(pattern.removeprefix("*") for pattern in ruff.FILES)
    if not paths:
        return "the change leaves no file to review"
    why = "no analyzer for it is set up and installed"
    if "Python" in paths.values() or any(path.endswith(endings) for path in paths):
        if reviewer.ruff == _OFF:
            why = "ruff is off (review.ruff)"
        elif reviewer.ruff == _ON or locate(ruff.NAME) is not None:
            return ""
        else:
            why = "ruff is not installed"
    return unread(paths.values(), why)


# ── the wiki ──


def _stale(parts: ExtraParts, change: ChangeSet) -> Part | None:
    """The pages that the change makes stale; None if there is no wiki, and none is asked for."""
    if parts.wiki == _OFF or change.merge_base is None:
        return None
    try:
        from rlm_ci.wiki import deliver

        path = f"{deliver.checked_folder(*parts.folder)}/wiki.json"
        if change.repository.sizes([f"{change.merge_base}:{path}"])[0] < 0:
            if parts.wiki == _AUTO:
                return None
            raise ConfigError(
                "the repository has no wiki",
                where=path,
                hint="write one: rlm-ci wiki --out DIR; or set its folder: wiki.folder",
            )
        return parts.stale(change)
    except Exception as error:  # noqa: BLE001 - what the checks found is reported anyway
        return Part.from_error(WIKI, failure(error, parts.where))


def _added(usage: Usage, other: Usage) -> Usage:
    costs = [cost for cost in (usage.cost_usd, other.cost_usd) if cost is not None]
    names = ("calls", "replayed", "prompt_tokens", "completion_tokens")
    sums = (getattr(usage, name) + getattr(other, name) for name in names)
    cached = usage.cached_tokens + other.cached_tokens
    cost = sum(costs) if costs else None
    more = (each.uncached_cost_usd or each.cost_usd or 0 for each in (usage, other))
    uncached = sum(more) if cached and cost is not None else None
    return Usage(*sums).replace(
        cost_usd=cost,
        cached_tokens=cached,
        uncached_cost_usd=uncached,
        lost_tokens=usage.lost_tokens + other.lost_tokens,
    )


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
