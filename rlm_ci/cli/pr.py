"""``rlm-ci pr``: the main job. Everything that the config asks for on a change, one report."""

from __future__ import annotations

import os

from rlm_ci import changes, checks, files, publishing
from rlm_ci.cli import output, say
from rlm_ci.cli.judging import judge, read_templates
from rlm_ci.findings import CLEAN
from rlm_ci.runs import derived_task_id, is_task_id
from rlm_ci.runs.store import Store
from rlm_ci.settings import CHANGE, COMMON, OUT, REPORT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.cli.arguments import Arguments
    from rlm_ci.cli.judging import Judgement
    from rlm_ci.findings import Report
    from rlm_ci.settings import Setting, Settings

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
    return (*COMMON, *CHANGE, *REPORT, *OUT, *checks.rows(checks.names()))


def run(arguments: Arguments) -> int:
    if arguments.positionals or arguments.rest:
        from rlm_ci.errors import UsageError

        raise UsageError("pr takes no arguments", where="rlm-ci pr", hint=f"rlm-ci pr {USAGE}")
    judgement = judge(arguments.flags, (), changes.from_default_branch, with_repository_name=True)
    settings = judgement.settings
    folder, run_id = _folder(judgement)
    report = judgement.report.replace(run_id=run_id)
    in_actions = bool(settings.github.actions)
    paths = {name: os.path.join(folder, name) for name, _ in _FILES}
    if in_actions:
        _write_outputs(settings, report, paths, _head(judgement))
    output.explain_parts(report)
    options = output.rendering(settings)
    plain = options.replace(colour=False)
    for name, renderer in _FILES:
        if renderer == "markdown":  # from here on a template may be at fault
            options = options.replace(templates=read_templates(judgement))
            plain = options.replace(colour=False)
        text = publishing.render(report, renderer, plain)
        files.write(
            paths[name], text.encode("utf-8", "backslashreplace"), 0o600 if run_id else 0o644
        )
    if in_actions and settings.github.step_summary:
        summary = publishing.render(report, "summary", plain)
        files.append(settings.github.step_summary, summary.encode("utf-8", "backslashreplace"))
    output.emit(publishing.render(report, settings.format, options), settings)
    if in_actions and settings.format == "text" and not settings.output:
        output.emit(publishing.render(report, "github", plain), settings)
    if not settings.quiet or report.verdict() != CLEAN:
        say(f"report: {paths['report.html']}")
    return report.exit_code()


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
    """The outputs of the action. No value can end its own block: the delimiter is random."""
    if not settings.github.output:
        return
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
    blocks = []
    for name, value in values.items():
        end = f"rlm-ci-{os.urandom(16).hex()}"
        blocks.append(f"{name}<<{end}\n{value}\n{end}\n")
    files.append(settings.github.output, "".join(blocks).encode("utf-8", "surrogateescape"))
