"""What ``pr`` adds to the checks: a fix loop, a review of the change, and stale wiki pages."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import partial

from rlm_ci.change import privileged_events
from rlm_ci.console.failures import failure
from rlm_ci.console.progress import Progress
from rlm_ci.errors import ConfigError, DamagedError, RlmCiError, UnavailableError
from rlm_ci.github.session import GitHubSession
from rlm_ci.judge.options import posting_of
from rlm_ci.overview import attach
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.runner import live
from rlm_ci.report.findings import (
    CLEAN,
    INCOMPLETE,
    NOT_RUN,
    Evidence,
    Finding,
    Location,
    Part,
    Severity,
    Usage,
)
from rlm_ci.runs.run import Run
from rlm_ci.runs.store import RunStore
from rlm_ci.system import files
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.settings import Settings
    from rlm_ci.github.posting.outcome import Destination, PostingOptions
    from rlm_ci.judge.judge import Judgement
    from rlm_ci.report.findings import Report

REVIEW, WIKI = "review", "wiki"
_AUTO, _ON, _OFF = "auto", "on", "off"
_STATE_LIMIT = 64 << 20
#: Places of a stale page that are shown.
_PLACES = 10
#: Limits in a job of GitHub Actions.
_IN_ACTIONS = (("loop.max_minutes", 50.0), ("max_calls", 300))


class PostingTarget(Value):
    """Where the report will be posted, if anywhere; ``is_asked``: a comment asked for a review."""

    to: Destination | None
    way: GitHubSession
    posting: PostingOptions
    is_asked: bool = False


def add(
    judgement: Judgement, report: Report, held: Run | None, wish: PostingTarget
) -> tuple[Report, str]:
    """``report`` with the parts that the settings ask for, and state for the next review.

    Never raises.
    """
    kept = ""
    changes = judgement.changes
    is_group = bool(changes) and changes[0].trigger == "merge_group"
    for change in changes if is_group else changes[:1]:
        if report.overview is None:
            report = attach.overview(report, change, judgement.settings.environ)
        report, kept = _with_review(judgement, report, change, held, wish)
        part = _stale(judgement.settings, change)
        if part is not None:
            report = report.replace(parts=(*report.parts, part))
    return report, kept


# ── the fix loop ──


def fixed(judgement: Judgement, held: Run) -> Report:
    """The report of a judgement, with the result of a fix loop: a patch in the run's folder."""
    from rlm_ci.pull_request import fix_request
    from rlm_ci.solve import foreground, pipeline

    settings = judgement.settings
    change = judgement.changes[0] if judgement.changes else None
    settings.values["loop.apply"] = False
    if settings.sources["loop.allow_no_change"] == "default":
        settings.values["loop.allow_no_change"] = True  # most changes are green as they are
    settings.values["mode"], settings.sources["mode"] = pipeline.ITERATIVE, "rlm-ci pr"
    for key, value in _IN_ACTIONS if settings.github.actions else ():
        if settings.sources[key] == "default":
            settings.values[key] = value
    report = judgement.report
    with Progress(settings.environ, quiet=settings.quiet) as progress:
        try:
            runs = stored_runs.StoredRuns(settings)
            work = pipeline.make(settings, judgement.repository, runs, progress)
            posting = posting_of(settings)
            way = GitHubSession(posting.access)
            goal = fix_request.goal(settings.fix, posting, change, way)
            work(held, held.redactor.text(goal))
        except RlmCiError as error:
            return report.replace(parts=(*report.parts, Part.from_error(pipeline.PIPELINE, error)))
        foreground.tell_cost(work, progress)
        foreground.tell_places(work, held, progress.say)
    if work.report is None:
        raise AssertionError("a fix loop ends with a report or an error")
    first, *others = work.report.parts
    patch = foreground.patch_of(work.report, held)
    if patch:
        first = first.replace(summary=f"{first.summary}; its patch is `{patch}`")
    parts = (*report.parts, first, *others)
    return report.replace(parts=parts, usage=work.report.usage)


# ── the review ──


def _with_review(
    judgement: Judgement,
    report: Report,
    change: ChangeSet,
    held: Run | None,
    wish: PostingTarget,
) -> tuple[Report, str]:
    settings = judgement.settings
    wanted = _ON if wish.is_asked else settings.review.enabled
    if wanted == _OFF or change.head is None:
        return report, ""
    from rlm_ci.review.run import not_looked_at

    def extended(*parts: Part) -> tuple[Report, str]:
        return report.replace(parts=(*report.parts, *parts)), ""

    github = settings.github
    event = privileged_events.event_of(github.event_name) if github.actions else None
    try:
        if event is not None and not wish.is_asked:
            if wanted == _AUTO:
                awaited = not _lacks_reviewer(settings, change)
                return extended(*_of_last_review(wish, awaited=awaited))
            raise ConfigError(
                f"a review is refused under {event}: it writes the pull request's files to the "
                "disk, in a job that has secrets and a token that may write",
                where=settings.sources["review.enabled"],
                hint="run it on pull_request, or ask for it in a comment",
            )
        if wanted == _AUTO and (lack := _lacks_reviewer(settings, change)):
            return extended(not_looked_at(lack, settings, change))
        told, kept = _review(judgement, change, held, wish)
    except Exception as error:  # noqa: BLE001 - what the checks found is reported anyway
        return extended(Part.from_error(REVIEW, failure(error, held.path if held else None)))
    (part,) = told.parts
    if wanted == _AUTO and part.state == NOT_RUN and part.error is None:  # no reviewer
        part = not_looked_at(part.summary, settings, change)
    known, words = report.overview or told.overview, told.overview
    report = report.replace(
        parts=(*report.parts, part),
        overview=known.replace(said=words.said) if known and words else known,
        coverage=report.coverage + told.coverage,
        evidence=report.evidence + told.evidence,
        usage=_added(report.usage, told.usage),
        refuted=(*report.refuted, *told.refuted),
    )
    return report, kept


def _of_last_review(wish: PostingTarget, *, awaited: bool) -> list[Part]:
    """An incomplete part, if the last review of this commit was not clean, or is ``awaited``."""
    if wish.to is None:
        return []
    from rlm_ci.github.posting.comment_history import previous_run

    try:
        last = previous_run(wish.way.client(), wish.to).last
    except UnavailableError:  # posting needs it too, and reports it
        return []
    except RlmCiError as error:
        told = f"the last review of this commit cannot be read: {error}"
    else:
        if last is None or not last.is_of(wish.to):
            # Recorded as an unfinished review, which the next command sees.
            told = "skipped; this commit has no review yet"
            return [_unreviewed(told, {})] if awaited else []
        if last.reviewed in ("", CLEAN):
            return []
        told = f"not repeated; the last review of this commit: {last.reviewed}"
    return [_unreviewed(told, {"again": False})]


def _unreviewed(told: str, metrics: dict[str, bool]) -> Part:
    return Part(REVIEW, f"{told} (/rlm-ci review repeats it)", metrics, state=INCOMPLETE)


def _lacks_reviewer(settings: Settings, change: ChangeSet) -> str:
    """Why no model or analyzer can look at the change, "" if one can."""
    from rlm_ci.judge.options import endpoint_of
    from rlm_ci.report.review_advice import unread
    from rlm_ci.review.analyzers import ruff
    from rlm_ci.review.analyzers.programs import locate
    from rlm_ci.review.run import files_of

    has_model = bool(settings.model) and not endpoint_of(settings).lack
    if settings.review.analyzers or (has_model and settings.review.model != _OFF):
        return ""
    paths, endings = files_of(change), tuple(one.removeprefix("*") for one in ruff.FILES)
    if not paths:
        return "the change leaves no file to review"
    why = "no analyzer for it is set up and installed"
    if any(path.endswith(endings) for path in paths):
        if settings.review.ruff == _OFF:
            why = "ruff is off (review.ruff)"
        elif settings.review.ruff == _ON or locate(ruff.NAME) is not None:
            return ""
        else:
            why = "ruff is not installed"
    return unread(paths, why)


def _review(
    judgement: Judgement, change: ChangeSet, held: Run | None, wish: PostingTarget
) -> tuple[Report, str]:
    """The review as a run of its own, below that of ``pr`` if there is one; state for the next."""
    from rlm_ci.github.posting.outcome import NONE
    from rlm_ci.pipelines.job import without_runs
    from rlm_ci.pull_request import answers
    from rlm_ci.review.change.previous_review import PreviousReviews
    from rlm_ci.review.run import ChangeReviewJob

    settings = judgement.settings
    runs = stored_runs.StoredRuns(settings)
    with (
        files.scratch("rlm-ci-review-") as scratch,
        Progress(settings.environ, quiet=settings.quiet or not settings.model) as progress,
        Run.create(
            RunStore(held.path_of(REVIEW), held.shown(REVIEW))
            if held
            else RunStore(scratch, REVIEW),
            held.task_id if held else "rlm-pr",
            pipeline_id=REVIEW,
            redactor=runs.redactor,
            out=os.path.join(scratch, "out"),
            parent_run_id=held.id if held else None,
        ) as run,
    ):
        skipped = without_runs(runs.root, settings.runs_dir, settings.out_dir)
        work = ChangeReviewJob(settings, judgement.repository, progress, skipped=skipped)
        work.change, work.subject = change, judgement.report.subject
        posting = wish.posting
        is_summed_up = wish.to and not wish.to.is_group and posting.comment != NONE
        to = wish.to if is_summed_up else None
        work.before = PreviousReviews(lambda: posting.config, to, wish.way, is_asked=wish.is_asked)
        work.settled = lambda: answers.read(posting, to, wish.way)[0]
        try:
            live(run, partial(work, run, None))
        except RlmCiError:
            if work.report is None:
                raise
        finally:
            if held:
                held.add_child(run.manifest)
    if work.report is None:
        raise AssertionError("a review ends with a report or an error")
    return work.report, work.kept


# ── the wiki ──


def _stale(settings: Settings, change: ChangeSet) -> Part | None:
    """The pages that the change makes stale; None if there is no wiki, and none is asked for."""
    wanted = settings.wiki.enabled
    if wanted == _OFF or change.merge_base is None:
        return None
    try:
        from rlm_ci.wiki import deliver

        folder = deliver.checked_folder(settings.wiki.folder, settings.sources["wiki.folder"])
        path = f"{folder}/wiki.json"
        data = change.read(path, _STATE_LIMIT, old=True)
        if data is None:
            if wanted == _AUTO:
                return None
            raise ConfigError(
                "the repository has no wiki",
                where=path,
                hint="write one: rlm-ci wiki --out DIR; or set its folder: wiki.folder",
            )
        from rlm_ci.wiki.update.staleness import renewed, stale
        from rlm_ci.wiki.update.state import WikiState

        state = WikiState.from_bytes(data, path)
        found = () if state is None else stale(state, change, folder)
        after = change.read(path, _STATE_LIMIT) if found else None
        brought: frozenset[str] = frozenset()
        if after is not None and after != data:  # the change updates pages
            with suppress(DamagedError):
                brought = renewed(found, WikiState.from_bytes(after, path), change, folder)
        found = tuple(one for one in found if one.page not in brought)
    except RlmCiError as error:
        return Part.from_error(WIKI, error)
    findings = tuple(
        _stale_finding(
            f"the page {one.page} cites lines that this change edits", one.page, one.places
        )
        for one in found
        if one.places
    )
    if others := [one.page for one in found if not one.places]:
        named = ", ".join(others[:_PLACES]) + (" and others" if len(others) > _PLACES else "")
        what = f"{count(len(others), 'page')} would show something else: {named}"
        findings += (_stale_finding(what, "others", ()),)
    pages = len(state.pages) if state else 0
    told = f"{count(len(found), 'page')} of {pages:,} will be stale" if found else (
        f"none of {count(pages, 'page')} becomes stale"
    )  # fmt: skip
    told += f"; {count(len(brought), 'page')} updated by it" if brought else ""
    places = sum(len(one.evidence) for one in findings)
    return Part(
        WIKI,
        told,
        {"pages": pages, "stale": len(found)},
        findings,
        evidence=Evidence(places, places, 0, 0),
    )


def _stale_finding(what: str, subject: str, places: tuple[Location, ...]) -> Finding:
    return Finding(
        "wiki/stale",
        Severity.INFO,
        printable(f"the wiki will be stale: {what}"),
        hint="update it with: rlm-ci wiki",
        evidence=places[:_PLACES],
        domain="docs",
        subject=subject,
    )


def _added(one: Usage, other: Usage) -> Usage:
    costs = [cost for cost in (one.cost_usd, other.cost_usd) if cost is not None]
    names = ("calls", "replayed", "prompt_tokens", "completion_tokens")
    sums = (getattr(one, name) + getattr(other, name) for name in names)
    cached = one.cached_tokens + other.cached_tokens
    cost = sum(costs) if costs else None
    more = (each.uncached_cost_usd or each.cost_usd or 0 for each in (one, other))
    uncached = sum(more) if cached and cost is not None else None
    return Usage(*sums).replace(cost_usd=cost, cached_tokens=cached, uncached_cost_usd=uncached)
