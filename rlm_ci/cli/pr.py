"""``rlm-ci pr``: the main job. Everything that the config asks for on a change, one report."""

from __future__ import annotations

import os

from rlm_ci import changes, checks, errors, files, publishing
from rlm_ci.cli import asking, output, overrides, posting, privileged, say
from rlm_ci.cli.judging import judge, read_templates
from rlm_ci.cli.slash import CHECK
from rlm_ci.findings import CLEAN
from rlm_ci.runs import derived_task_id, is_task_id
from rlm_ci.runs.store import Store
from rlm_ci.settings import Settings
from rlm_ci.table import CHANGE, COMMON, OUT, PROGRAM, PUBLISH, REPORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.cli.arguments import Arguments
    from rlm_ci.cli.asking import Asked
    from rlm_ci.cli.judging import Judgement
    from rlm_ci.findings import Report
    from rlm_ci.settings import Setting

SUMMARY = "judge a pull request: checks, one report, every surface"
USAGE = "[--base REF] [--head REF] [--event FILE] [OPTION...]"
#: File of the output folder, and the renderer that makes it; the safest first.
_FILES = (
    ("report.json", "json"),
    ("report.sarif", "sarif"),
    ("comment.md", "markdown"),
    ("report.html", "html"),
)


def rows(_argv: Sequence[str]) -> tuple[Setting, ...]:
    return (*COMMON, *CHANGE, *REPORT, *OUT, *PUBLISH, *checks.rows(checks.names()))


def run(arguments: Arguments) -> int:
    if arguments.positionals or arguments.rest:
        from rlm_ci.errors import UsageError

        raise UsageError("pr takes no arguments", where="rlm-ci pr", hint=f"rlm-ci pr {USAGE}")
    asked = None
    settings = Settings(PROGRAM, arguments.flags)
    comment = asking.payload_of(settings)
    if comment is not None:
        asked = asking.asked(settings, comment)
        if asked is None:
            return errors.OK
    judgement = _judge(arguments, asked)
    settings = judgement.settings
    report = judgement.report
    to = posting.destination(settings, report)
    folder, run_id = _folder(judgement)
    report = report.replace(run_id=run_id)
    in_actions = bool(settings.github.actions)
    paths = {name: os.path.join(folder, name) for name, _ in _FILES}
    # What is known is written before GitHub is asked for anything: it may keep us waiting.
    plain = output.rendering(settings).replace(colour=False)
    _write(paths["report.json"], publishing.render(report, "json", plain), run_id)
    way = posting.Way(settings, asked.way if asked else None)
    held = overrides.held(settings, report, to, way, asked)
    report = overrides.apply(report, held)
    if in_actions:
        _write_outputs(settings, report, paths, _head(judgement))
    output.explain_parts(report)
    options = output.rendering(settings)
    for name, renderer in _FILES:
        if renderer == "markdown":  # from here on a template may be at fault
            options = options.replace(templates=read_templates(judgement))
            plain = options.replace(colour=False)
        _write(paths[name], publishing.render(report, renderer, plain), run_id)
    if in_actions and settings.github.step_summary:
        summary = publishing.render(report, "summary", plain)
        files.append(settings.github.step_summary, summary.encode("utf-8", "backslashreplace"))
    output.emit(publishing.render(report, settings.format, options), settings)
    if in_actions and settings.format == "text" and not settings.output:
        output.emit(publishing.render(report, "github", plain), settings)
    publication = posting.attempt(judgement, report, to, options, way, overrides=held)
    if publication:
        report = report.replace(publication=publication.to_dict())
        _write(paths["report.json"], publishing.render(report, "json", plain), run_id)
        if in_actions and publication.url:
            posting.write_outputs(settings, {"comment-url": publication.url})
    if not settings.quiet or report.verdict() != CLEAN:
        say(f"report: {paths['report.html']}")
    overrides.require_kept(asked, publication)
    return report.exit_code()


def _judge(arguments: Arguments, asked: Asked | None) -> Judgement:
    """The judgement of the change that the flags or the event tell, or a comment asks about."""
    judgement = judge(
        arguments.flags,
        (),
        changes.from_default_branch,
        with_repository_name=True,
        more=PUBLISH,
        change=asked.change if asked else None,
        also=asked.command.checks if asked and asked.command.name == CHECK else (),
    )
    github = judgement.settings.github
    if github.actions and asked is None:
        for change in judgement.changes:
            privileged.refuse_checkout(change, privileged.event_of(github.event_name))
    return judgement


def _write(path: str, text: str, run_id: str | None) -> None:
    """A file of the report: of a run of ours for its owner alone."""
    files.write(path, text.encode("utf-8", "backslashreplace"), 0o600 if run_id else 0o644)


def _folder(judgement: Judgement) -> tuple[str, str | None]:
    """Where the files go: ``--out``, else a run of its own; with the run's id."""
    settings = judgement.settings
    root = judgement.repository.root
    if settings.out:
        folder = os.path.abspath(settings.out)
        for name, _ in _FILES:
            files.require_inside(root, os.path.join(folder, name))
        files.make_folder(folder)
        return folder, None
    files.require_inside(root, os.path.join(root, settings.runs_dir))
    task = settings.task
    if not task or not is_task_id(task):
        task = derived_task_id(judgement.report.subject.repository or root)
    run_id, folder = Store.at(root, settings.runs_dir).new_run(task)
    return folder, run_id


def _head(judgement: Judgement) -> str:
    return judgement.report.subject.head or ""


def _write_outputs(settings: Settings, report: Report, paths: Mapping[str, str], head: str) -> None:
    """The outputs of the action that are known before anything is posted."""
    unsuppressed = sum(finding.suppression is None for finding in report.findings)
    values = {
        "verdict": report.verdict(),
        "findings": str(unsuppressed),
        "failing": str(len(report.failing())),
        "report": paths["report.json"],
        "sarif": paths["report.sarif"],
        "head-sha": head,
        "run-id": report.run_id or "",
    }
    posting.write_outputs(settings, values)
