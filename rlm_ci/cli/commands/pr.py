"""``rlm-ci pr``: the main job: everything that the config enables on a change, in one report."""

from __future__ import annotations

import os
from functools import partial

from rlm_ci import checks, errors
from rlm_ci.change import privileged_events, pushes
from rlm_ci.config.core_options import CHANGE, COMMON, OUT, REPORT
from rlm_ci.config.options import (
    BUDGET,
    FIX,
    LOOP,
    MODEL,
    PROGRAM,
    PUBLISH,
    RECURSION,
    REVIEW,
    REVIEW_OF_PR,
    WIKI_OF_PR,
)
from rlm_ci.config.settings import Settings
from rlm_ci.console import output
from rlm_ci.console.failures import failure
from rlm_ci.console.messages import say
from rlm_ci.github.session import GitHubSession
from rlm_ci.judge.judge import judge, open_repository, read_templates
from rlm_ci.judge.options import change_choice, output_of, posting_of, rests_on
from rlm_ci.judge.run_name import artifact_name, run_name
from rlm_ci.pull_request import (
    answers,
    comment_commands,
    merge_group,
    overrides,
    posting,
    replies,
)
from rlm_ci.pull_request.slash_grammar import CHECK, REPLIED
from rlm_ci.pull_request.slash_grammar import REVIEW as REVIEWS
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report import render
from rlm_ci.report.findings import CLEAN
from rlm_ci.runs import FAILED, SUCCEEDED, derived_task_id, is_task_id
from rlm_ci.runs.run import Run
from rlm_ci.runs.store import RunStore
from rlm_ci.system import files
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.judge.judge import Judgement
    from rlm_ci.pull_request.comment_commands import CommentCommand
    from rlm_ci.pull_request.merge_group import MergeGroup
    from rlm_ci.report.findings import Report

SUMMARY = "check a pull request, write the report and post it"
USAGE = "[--base REF] [--head REF] [--event FILE] [OPTION...]"
TAKES = ("no arguments", 0, 0)
EXAMPLES = ("rlm-ci pr --base main --no-publish",)
EXITS = errors.REPORT_EXITS


#: Characters of a template that an event can hold, and bytes of a report.
_TEMPLATE = 16_000
_LIMIT = 512 << 20
_ADDED = (*REVIEW_OF_PR, *REVIEW, *WIKI_OF_PR)
_MORE = (*PUBLISH, *FIX, *MODEL, *BUDGET, *LOOP, *RECURSION, *_ADDED)
#: Sections whose options another command describes.
FOLDED = {"loop": "fix"}
ROWS = (
    *COMMON, *CHANGE, *REPORT, *OUT, *PUBLISH, *_ADDED, *FIX, *MODEL, *BUDGET, *LOOP,
    *checks.rows(checks.names()),
)  # fmt: skip


def run(arguments: Arguments) -> int:
    asked = None
    settings = Settings(PROGRAM, arguments.flags)
    comment = comment_commands.payload_of(settings)
    if comment is not None:
        asked = comment_commands.asked(settings, comment)
        if asked is None:
            return errors.OK
    output_of(settings).require_place()
    if asked and asked.command.name in REPLIED:
        from rlm_ci.pull_request import conversation

        return conversation.answer(settings, asked)
    publishing = posting_of(settings)
    way = GitHubSession(publishing.access, asked.way if asked else None)
    opened = partial(open_repository, settings)
    choice = change_choice(settings)
    group = None if asked else merge_group.of_event(choice, publishing, way, opened)
    judgement = _judge(arguments, asked, group)
    if asked and asked.command.name == REVIEWS:
        with replies.refusals(publishing, asked.way, asked.to):
            comment_commands.require_model(judgement.settings)
    held = _hold(judgement)
    if held is None:
        return _report(judgement, asked, None, way, group).exit_code()
    with held:
        held.begin()
        try:
            report = _report(judgement, asked, held, way, group)
        except Exception as error:  # noqa: BLE001 - the run keeps the traceback of a bug
            found = failure(error, held.path)
            held.stop(found)
            raise found from None
        except BaseException:  # a judgement is not resumed, but made again
            held.cancel()
            raise
        code = report.exit_code()
        status = SUCCEEDED if code == errors.OK else FAILED
        summary = f"{report.verdict().replace('_', ' ')}: {count(len(report.findings), 'finding')}"
        held.finish(status, exit_code=code, summary=summary)
        return code


def _report(
    judgement: Judgement,
    asked: CommentCommand | None,
    held: Run | None,
    way: GitHubSession,
    group: MergeGroup | None,
) -> Report:
    """Fix if asked, write the report in all formats, post it; return the report."""
    settings = judgement.settings
    report = judgement.report
    run_id = held.id if held else None
    report = report.replace(name="" if asked else run_name(settings))
    folder = _folder(judgement, held)
    publishing = posting_of(settings)
    from rlm_ci.pull_request import extra_parts

    if settings.fix and held:
        report = extra_parts.fixed(judgement, held)
    to = posting.destination(publishing, report, judgement.changes, way if asked else None)
    is_asked = asked is not None and asked.command.name == REVIEWS
    target = extra_parts.PostingTarget(to, way, publishing, is_asked)
    report, kept = extra_parts.add(judgement, report, held, target)
    way.go_on()
    report = report.replace(run_id=run_id, name=to.name if to else report.name)
    in_actions = bool(settings.github.actions)
    paths = {name: os.path.join(folder, name) for name, _ in output.FILES}
    _rest(held, judgement)
    # Write what is known before any request to GitHub, which may take long.
    plain = output_of(settings).options().replace(colour=False)
    _write(paths["report.json"], render.render(report, "json", plain), run_id)
    held_back = overrides.held(publishing, report, to, way, asked)
    report = overrides.apply(report, held_back)
    for pull in group.pulls if group else (to,):
        report = answers.apply(publishing, report, pull, way)
    if in_actions:
        _write_outputs(settings, report, paths, judgement.report.subject.head or "", _patch(held))
    output.explain_parts(report)
    options = output_of(settings).options()
    for name, renderer in output.FILES:
        if renderer == "markdown":  # from here on a template may fail
            options = options.replace(templates=read_templates(judgement))
            plain = options.replace(colour=False)
            _rest(held, judgement, options.templates)
        _write(paths[name], render.render(report, renderer, plain), run_id)
    if in_actions and settings.github.step_summary:
        summary = render.render(report, "summary", plain)
        files.append(settings.github.step_summary, summary.encode("utf-8", "backslashreplace"))
    output_of(settings).emit(render.render(report, settings.format, options))
    if in_actions and settings.format == "text" and output_of(settings).place is None:
        output_of(settings).emit(render.render(report, "github", plain))
    diff = judgement.changes[0].diff if judgement.changes else None
    publication = posting.attempt(
        publishing, report, to, options, way, diff=diff, overrides=held_back, review=kept
    )
    if publication:
        report = report.replace(publication=publication.to_dict())
        _write(paths["report.json"], render.render(report, "json", plain), run_id)
        if in_actions and publication.url:
            posting.write_outputs(publishing.outputs, {"comment-url": publication.url})
    _keep(held, paths)
    if not settings.quiet or report.verdict() != CLEAN:
        say(f"report: {files.near(paths['report.html'])}")
    overrides.require_kept(asked, publication)
    return report


def _rest(held: Run | None, judgement: Judgement, templates: Mapping[str, str] = {}) -> None:
    """Record what the run's files depend on in its last event."""
    if held:
        facts = rests_on(judgement.settings, judgement.repository.root)
        is_short = all(len(text) < _TEMPLATE for text in templates.values())
        held.rests_on = {**facts, "templates": dict(templates) if is_short else None}


def _keep(held: Run | None, paths: Mapping[str, str]) -> None:
    """Copy the files of the report into the run: elsewhere they may change."""
    for name, path in paths.items() if held else ():
        if held and path != os.path.join(held.path, name):
            files.write(held.path_of(name), files.read(path, _LIMIT), 0o600)


def _judge(
    arguments: Arguments, asked: CommentCommand | None, group: MergeGroup | None
) -> Judgement:
    change = asked.change if asked else None
    judgement = judge(
        arguments.flags,
        (),
        pushes.from_default_branch,
        with_repository_name=True,
        more=_MORE,
        known=group.changes if group else (change,) if change else (),
        also=asked.command.checks if asked and asked.command.name == CHECK else (),
    )
    github = judgement.settings.github
    if github.actions and asked is None:
        for change in judgement.changes:
            privileged_events.refuse_checkout(change, privileged_events.event_of(github.event_name))
    return judgement


def _write(path: str, text: str, run_id: str | None) -> None:
    """Write a file of the report; in a run, only its owner may read it."""
    files.write(path, text.encode("utf-8", "backslashreplace"), 0o600 if run_id else 0o644)


def _hold(judgement: Judgement) -> Run | None:
    """A new run for the files; None if ``--out`` takes them all."""
    settings = judgement.settings
    if settings.out and not settings.fix:
        return None
    root = judgement.repository.root
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


def _folder(judgement: Judgement, held: Run | None) -> str:
    """The folder of the files: ``--out``, else the folder of the run."""
    settings = judgement.settings
    if not settings.out:
        if held is None:
            raise AssertionError("there is neither a folder nor a run")
        return held.path
    folder: str = os.path.abspath(settings.out)
    for name, _ in output.FILES:
        files.require_inside(judgement.repository.root, os.path.join(folder, name))
    files.make_folder(folder)
    return folder


def _patch(held: Run | None) -> str:
    """The path of a fix loop's patch; "" without one, or if it is empty."""
    if held is None:
        return ""
    path = os.path.join(held.path, "rlm", "result.patch")
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
    posting.write_outputs(settings.github.output or "", values)
