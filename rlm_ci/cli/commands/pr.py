"""``rlm-ci pr``: the main job: everything that the config enables on a change, in one report."""

from __future__ import annotations

import os
from functools import partial

from rlm_ci import checks, errors
from rlm_ci.change import privileged_events, pushes, trigger
from rlm_ci.config.core_options import CHANGE, COMMON, OUT, REPORT
from rlm_ci.config.options import (
    BUDGET,
    BUDGET_OF_PR,
    FIX,
    LOOP,
    MODEL,
    PROGRAM,
    PUBLISH,
    RECURSION,
    REVIEW,
    REVIEW_OF_PR,
    TOGETHER,
    TOGETHER_OF_PR,
    WIKI_OF_PR,
)
from rlm_ci.config.settings import Settings
from rlm_ci.console import output
from rlm_ci.console.failures import failure
from rlm_ci.console.messages import say
from rlm_ci.console.progress import Progress
from rlm_ci.git.errors import no_repository
from rlm_ci.github.session import GitHubSession
from rlm_ci.judge.judge import judge, open_repository, read_templates
from rlm_ci.judge.options import (
    artifact_name,
    change_choice,
    output_of,
    posting_of,
    rests_on,
    reviewer_of,
    run_name,
)
from rlm_ci.pipelines.runner import live
from rlm_ci.pull_request import (
    answers,
    comment_commands,
    extra_parts,
    replies,
)
from rlm_ci.pull_request.slash_grammar import CHECK, REPLIED
from rlm_ci.pull_request.slash_grammar import REVIEW as REVIEWS
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report import render
from rlm_ci.report.findings import CLEAN, Part
from rlm_ci.runs import derived_task_id, is_task_id
from rlm_ci.runs.run import Run
from rlm_ci.runs.store import RunStore
from rlm_ci.system import files
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.arguments import Arguments
    from rlm_ci.github.posting.outcome import Destination, PostingOptions
    from rlm_ci.judge.judge import Judgement
    from rlm_ci.judge.pull_request_budget import PullRequestBudget
    from rlm_ci.pull_request.comment_commands import CommentCommand
    from rlm_ci.pull_request.extra_parts import ExtraParts, PostingTarget
    from rlm_ci.pull_request.merge_group import MergeGroup
    from rlm_ci.report.findings import Report

SUMMARY = "check a pull request, write the report and post it"
USAGE = "[--base REF] [--head REF] [--event FILE] [OPTION...]"
TAKES = ("no arguments", 0, 0)
EXAMPLES = ("rlm-ci pr --base main --no-publish",)
EXITS = errors.REPORT_EXITS


#: Characters of a template that an event can hold, and bytes of a report.
_TEMPLATE = 16_000
#: The setting that limits all runs on a pull request together.
_ROOF = "budget.pull_request_usd"
_LIMIT = 512 << 20
_REVIEW = "review"
#: Limits of a fix in a job of GitHub Actions.
_IN_ACTIONS = (("loop.max_minutes", 50.0), ("max_calls", 300))
_ADDED = (
    *REVIEW_OF_PR, *REVIEW, *WIKI_OF_PR, *BUDGET_OF_PR, *TOGETHER_OF_PR, *TOGETHER,
)  # fmt: skip
_MORE = (*PUBLISH, *FIX, *MODEL, *BUDGET, *LOOP, *RECURSION, *_ADDED)
#: Sections whose options another command describes.
FOLDED = {"loop": "fix"}
ROWS = (
    *COMMON, *CHANGE, *REPORT, *OUT, *PUBLISH, *_ADDED, *FIX, *MODEL, *BUDGET, *LOOP,
    *checks.rows(checks.names()),
)  # fmt: skip


def run(arguments: Arguments) -> int:
    command = None
    settings = Settings(PROGRAM, arguments.flags)
    choice, opened = change_choice(settings), partial(open_repository, settings)
    payload = trigger.payload_of(choice)
    if payload is not None and comment_commands.is_comment(payload, choice.event_name):
        if not comment_commands.is_heard(payload):
            return errors.OK
        wishes = posting_of(settings), reviewer_of(settings)
        command = comment_commands.command_of(payload, *wishes, opened)
    shown = output_of(settings)
    shown.require_place()
    publishing = posting_of(settings)
    if command and command.command.name in REPLIED:
        from rlm_ci.pull_request import conversation

        return conversation.answer(publishing, shown, settings.environ, command)
    way = GitHubSession(publishing.access, command.way if command else None)
    group = None
    if payload and isinstance(payload.get("merge_group"), dict) and not command:
        from rlm_ci.pull_request import merge_group

        group = merge_group.of_event(payload, choice.event or "", publishing, way, opened)
    judgement = _judge(arguments, command, group)
    if command and command.command.name == REVIEWS:
        with replies.refusals(publishing, command.way, command.to):
            comment_commands.require_model(reviewer_of(judgement.settings))
    open_run = _hold(judgement)
    if open_run is None:
        return _report(judgement, command, None, way, group).exit_code()

    def work() -> tuple[int, str]:
        try:
            report = _report(judgement, command, open_run, way, group)
        except Exception as error:  # noqa: BLE001 - the run keeps the traceback of a bug
            raise failure(error, open_run.path) from None
        findings = count(len(report.findings), "finding")
        return report.exit_code(), f"{report.verdict().replace('_', ' ')}: {findings}"

    with open_run:  # a judgement is not resumed, but made again
        return live(open_run, work, is_resumable=False)


def _report(
    judgement: Judgement,
    command: CommentCommand | None,
    run: Run | None,
    way: GitHubSession,
    group: MergeGroup | None,
) -> Report:
    """Fix if asked, write the report in all formats, post it; return the report."""
    settings = judgement.settings
    report = judgement.report
    run_id = run.id if run else None
    report = report.replace(name="" if command else run_name(settings))
    folder = _folder(judgement, run)
    publishing = posting_of(settings)
    report, to, state = _with_parts(judgement, report, command, run, way)
    way.go_on()
    report = report.replace(run_id=run_id, name=to.name if to else report.name)
    in_actions = bool(settings.github.actions)
    paths = {name: os.path.join(folder, name) for name, _ in output.FILES}
    _record_inputs(run, judgement)
    # Write what is known before any request to GitHub, which may take long.
    plain = output_of(settings).options().replace(colour=False)
    _write(paths["report.json"], render.render(report, "json", plain), run_id)
    held_back = answers.overrides_on_head(publishing, report, to, way, command)
    report = answers.overridden(report, held_back)
    for pull in group.pulls if group else (to,):
        report = answers.apply(publishing, report, pull, way)
    if in_actions:
        _write_outputs(settings, report, paths, judgement.report.subject.head or "", _patch(run))
    output.explain_parts(report)
    options = output_of(settings).options()
    for name, renderer in output.FILES:
        if renderer == "markdown":  # from here on a template may fail
            options = options.replace(templates=read_templates(judgement))
            plain = options.replace(colour=False)
            _record_inputs(run, judgement, options.templates)
        _write(paths[name], render.render(report, renderer, plain), run_id)
    if in_actions and settings.github.step_summary:
        summary = render.render(report, "summary", plain)
        files.append(settings.github.step_summary, summary.encode("utf-8", "backslashreplace"))
    output_of(settings).emit(render.render(report, settings.format, options))
    if in_actions and settings.format == "text" and output_of(settings).path is None:
        output_of(settings).emit(render.render(report, "github", plain))
    publication = None
    if to is not None:
        from rlm_ci.github.posting import publisher

        diff = judgement.changes[0].diff if judgement.changes else None
        publication = publisher.attempt(
            publishing, report, to, options, way, diff=diff, overrides=held_back, review=state
        )
    if publication:
        report = report.replace(publication=publication.to_dict())
        _write(paths["report.json"], render.render(report, "json", plain), run_id)
        if in_actions and publication.url:
            publishing.write_outputs({"comment-url": publication.url})
    _keep(run, paths)
    if not settings.quiet or report.verdict() != CLEAN:
        say(f"report: {files.shown_path(paths['report.html'])}")
    answers.require_kept(command, publication)
    return report


def _with_parts(
    judgement: Judgement,
    report: Report,
    command: CommentCommand | None,
    run: Run | None,
    way: GitHubSession,
) -> tuple[Report, Destination | None, str]:
    """The report with a fix, a review and the wiki, as asked for; where it goes; state to keep."""
    settings, commanded = judgement.settings, way if command else None
    publishing = posting_of(settings)
    budget = _budget(judgement, report, publishing, way, commanded)
    if settings.fix and run:
        report = _fixed(judgement, run, budget)
        _limit(settings, budget, report.usage.cost_usd or 0.0)
    to = extra_parts.destination(publishing, report, judgement.changes, commanded)
    is_asked = command is not None and command.command.name == REVIEWS
    target = extra_parts.PostingTarget(to, way, publishing, is_asked)

    def added(report: Report) -> tuple[Report, str]:
        if budget is not None:
            report = report.replace(parts=(*report.parts, budget.part()))
            if budget.is_reached and budget.stops:
                return report, ""
        extra = _extra(judgement, run, target)
        return extra_parts.add(extra, report, judgement.changes, target)

    full, state = added(report)
    review = next((part for part in full.parts if part.id == _REVIEW), None)
    is_limited = settings.sources["budget_usd"] == _ROOF
    if budget is not None and review is not None and is_limited and not budget.lets_ask(review):
        budget = budget.replace(is_short=True)
        _limit(settings, budget)
        full, state = added(report.replace(usage=full.usage))
    return full, to, state


def _budget(
    judgement: Judgement,
    report: Report,
    publishing: PostingOptions,
    way: GitHubSession,
    commanded: GitHubSession | None,
) -> PullRequestBudget | None:
    """What is left for this pull request; None without a limit, a model or a pull request."""
    settings, changes = judgement.settings, judgement.changes
    limit = settings.budget.pull_request_usd
    asks = bool(settings.model) or settings.fix
    if limit is None or not asks or not changes or changes[0].pull_request is None:
        return None
    from rlm_ci.judge import pull_request_budget

    to = extra_parts.destination(publishing, report, changes, commanded)
    is_stop = settings.budget.reached == pull_request_budget.STOP
    budget = pull_request_budget.read(float(limit), to, way, stops=is_stop)
    _limit(settings, budget)
    return budget


def _limit(settings: Settings, budget: PullRequestBudget | None, now: float = 0.0) -> None:
    """Let models cost no more than is left of ``budget``, of which this run has spent ``now``."""
    if budget is None:
        return
    left, budget_usd = budget.left - now, settings.budget_usd
    if left <= 0:
        settings.values["review.model"], settings.sources["review.model"] = "off", _ROOF
    elif budget_usd is None or left < budget_usd:
        settings.values["budget_usd"], settings.sources["budget_usd"] = left, _ROOF


def _extra(judgement: Judgement, run: Run | None, target: PostingTarget) -> ExtraParts:
    settings = judgement.settings
    github, wiki = settings.github, settings.wiki
    return extra_parts.ExtraParts(
        reviewer_of(settings),
        privileged_events.event_of(github.event_name) if github.actions else None,
        partial(_review, judgement, run, target),
        wiki.enabled,
        (wiki.folder, settings.sources["wiki.folder"]),
        settings.environ,
        run.path if run else None,
        partial(_stale, judgement),
        partial(_together, judgement, target) if settings.together.enabled else None,
    )


def _stale(judgement: Judgement, change: ChangeSet) -> Part:
    """The pages of the repository's wiki that the change makes stale."""
    from rlm_ci.judge import config_file
    from rlm_ci.pipelines import stored_runs
    from rlm_ci.pipelines.attempt import without_runs
    from rlm_ci.wiki.check import WikiCheck

    settings = judgement.settings
    runs = stored_runs.StoredRuns(settings)
    skipped = without_runs(runs.root, settings.runs_dir, settings.out_dir)
    with Progress(settings.environ, quiet=True) as progress:
        job = WikiCheck(settings, judgement.repository, progress, skipped=skipped)
        part = job.of_change(change, judgement.report.subject.repository, runs.redactor)
    return config_file.accepted(part, settings)


def _together(judgement: Judgement, wish: PostingTarget, change: ChangeSet) -> Part:
    """The change beside the other open pull requests of its base."""
    from rlm_ci.judge import config_file
    from rlm_ci.together.compare import compare
    from rlm_ci.together.pull_requests import PullRequestSource, of_pull_requests

    settings, access = judgement.settings, wish.posting.access
    name = judgement.report.subject.repository or ""
    # Its requests are none of posting's, which are counted.
    origin = PullRequestSource(access, name, settings.together.max_changes, GitHubSession(access))
    subject = of_pull_requests(judgement.repository, origin, change.target or "", change)
    return config_file.accepted(compare(judgement.repository, subject), settings)


def _fixed(judgement: Judgement, run: Run, budget: PullRequestBudget | None) -> Report:
    """The report of a judgement, with the result of a fix loop: a patch in the run's folder."""
    from rlm_ci.pipelines import stored_runs
    from rlm_ci.pull_request import conversation
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
    if budget is not None and budget.is_reached:
        spent = errors.LimitError(
            "no model is asked: the pull request's budget is spent",
            budget="budget_usd",
            where=_ROOF,
            hint=f"raise {_ROOF} on the base branch",
        )
        return report.replace(parts=(*report.parts, Part.from_error(pipeline.PIPELINE, spent)))
    with Progress(settings.environ, quiet=settings.quiet) as progress:
        try:
            runs = stored_runs.StoredRuns(settings)
            work = pipeline.make(settings, judgement.repository, runs, progress)
            posting = posting_of(settings)
            way = GitHubSession(posting.access)
            goal = conversation.goal(settings.fix, posting, change, way)
            work(run, run.redactor.text(goal))
        except errors.RlmCiError as error:
            return report.replace(parts=(*report.parts, Part.from_error(pipeline.PIPELINE, error)))
        foreground.tell_cost(work, progress)
        foreground.tell_places(work, run, progress.say)
    if work.report is None:
        raise AssertionError("a fix loop ends with a report or an error")
    first, *others = work.report.parts
    patch = foreground.patch_of(work.report, run)
    if patch:
        first = first.replace(summary=f"{first.summary}; its patch is `{patch}`")
    parts = (*report.parts, first, *others)
    return report.replace(parts=parts, usage=work.report.usage)


def _review(
    judgement: Judgement, extra_run: Run | None, wish: PostingTarget, change: ChangeSet
) -> tuple[Report, str]:
    """The review as a run of its own, below that of ``pr`` if there is one; state for the next."""
    from rlm_ci.github.posting.outcome import NONE
    from rlm_ci.pipelines import stored_runs
    from rlm_ci.pipelines.attempt import without_runs
    from rlm_ci.review.change.previous_review import PreviousReviews
    from rlm_ci.review.run import ChangeReviewJob

    settings = judgement.settings
    runs = stored_runs.StoredRuns(settings)
    with (
        files.scratch("rlm-ci-review-") as scratch,
        Progress(settings.environ, quiet=settings.quiet or not settings.model) as progress,
        Run.create(
            RunStore(extra_run.path_of(_REVIEW), extra_run.shown(_REVIEW))
            if extra_run
            else RunStore(scratch, _REVIEW),
            extra_run.task_id if extra_run else "rlm-pr",
            pipeline_id=_REVIEW,
            redactor=runs.redactor,
            out=os.path.join(scratch, "out"),
            parent_run_id=extra_run.id if extra_run else None,
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
        except errors.RlmCiError:
            if work.report is None:
                raise
        finally:
            if extra_run:
                extra_run.add_child(run.manifest)
    if work.report is None:
        raise AssertionError("a review ends with a report or an error")
    return work.report, work.packed_text


def _record_inputs(
    run: Run | None, judgement: Judgement, templates: Mapping[str, str] = {}
) -> None:
    """Record what the run's files depend on in its last event."""
    if run:
        facts = rests_on(judgement.settings, judgement.repository.root)
        is_short = all(len(text) < _TEMPLATE for text in templates.values())
        run.rests_on = {**facts, "templates": dict(templates) if is_short else None}


def _keep(run: Run | None, paths: Mapping[str, str]) -> None:
    """Copy the files of the report into the run: elsewhere they may change."""
    for name, path in paths.items() if run else ():
        if run and path != os.path.join(run.path, name):
            files.write(run.path_of(name), files.read(path, _LIMIT), 0o600)


def _judge(
    arguments: Arguments, command: CommentCommand | None, group: MergeGroup | None
) -> Judgement:
    change = command.change if command else None
    judgement = judge(
        arguments.flags,
        (),
        pushes.from_default_branch,
        with_repository_name=True,
        more=_MORE,
        changes=group.changes if group else (change,) if change else (),
        also=command.command.checks if command and command.command.name == CHECK else (),
    )
    github = judgement.settings.github
    if github.actions and command is None:
        for change in judgement.changes:
            privileged_events.refuse_checkout(change, privileged_events.event_of(github.event_name))
    return judgement


def _write(path: str, text: str, run_id: str | None) -> None:
    """Write a file of the report; in a run, only its owner may read it."""
    files.write(path, text.encode("utf-8", "backslashreplace"), 0o600 if run_id else 0o644)


def _hold(judgement: Judgement) -> Run | None:
    """A new run for the files; None if ``--out`` takes them all.

    Raises ConfigError outside of a work tree, where nobody looks for runs; a job of GitHub Actions
    that forgot its checkout posts the report.
    """
    settings = judgement.settings
    if settings.out and not settings.fix:
        return None
    root = judgement.repository.root
    if judgement.repository.git_dir is None and not settings.github.actions:
        raise no_repository(root)
    files.require_inside(root, os.path.join(root, settings.runs_dir))
    task = settings.task
    if not task or not is_task_id(task):
        task = derived_task_id(judgement.report.subject.repository or root)
    return Run.create(
        RunStore.at(root, settings.runs_dir),
        task,
        pipeline_id="pr",
        redactor=Redactor(settings.environ),
        out=os.path.join(root, settings.out_dir),
    )


def _folder(judgement: Judgement, run: Run | None) -> str:
    """The folder of the files: ``--out``, else the folder of the run."""
    settings = judgement.settings
    if not settings.out:
        if run is None:
            raise AssertionError("there is neither a folder nor a run")
        return run.path
    folder: str = os.path.abspath(settings.out)
    for name, _ in output.FILES:
        files.require_inside(judgement.repository.root, os.path.join(folder, name))
    files.make_folder(folder)
    return folder


def _patch(run: Run | None) -> str:
    """The path of a fix loop's patch; "" without one, or if it is empty."""
    if run is None:
        return ""
    path = os.path.join(run.path, "rlm", "result.patch")
    return path if os.path.exists(path) and os.path.getsize(path) else ""


def _write_outputs(
    settings: Settings, report: Report, paths: Mapping[str, str], head: str, patch: str
) -> None:
    unsuppressed = sum(finding.suppression is None for finding in report.findings)
    values = {
        "verdict": report.verdict(),
        "findings": str(unsuppressed),
        "failing": str(len(report.failing())),
        "report": paths["report.json"],
        "sarif": paths["report.sarif"],
        "head-sha": head,
        "run-id": report.run_id or "",
        "cost-usd": "" if report.usage.cost_usd is None else f"{report.usage.cost_usd:.4f}",
        "patch": patch,
        "artifact": artifact_name(report.name),
    }
    posting_of(settings).write_outputs(values)
