"""``rlm-ci archive``: documents of finished work go to the archive branch, and leave stubs."""

from __future__ import annotations

import os

from rlm_ci import errors
from rlm_ci.archive import report
from rlm_ci.archive.pull_request import open_pull_request
from rlm_ci.archive.repair import repair
from rlm_ci.archive.run import ArchiveOptions, archive
from rlm_ci.archive.task_snapshots import archive_tasks
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.errors import UsageError
from rlm_ci.git.remote_clone import RemoteUser
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import access_of, output_of
from rlm_ci.runs import require_task_id
from rlm_ci.system import files
from rlm_ci.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.archive.run import ArchiveOutcome
    from rlm_ci.config.arguments import Arguments
    from rlm_ci.git.repository import Repository

SUMMARY = "archive documents of finished work on a branch, and leave stubs"
USAGE = "[--split] [OPTION...] | --tasks [OPTION...] | --repair [OPTION...] | --pr [OPTION...]"
TAKES = ("no arguments", 0, 0)
EXAMPLES = (
    "rlm-ci archive --dry-run",
    "rlm-ci archive --split",
    "rlm-ci archive --tasks",
    "rlm-ci archive --repair",
)
FORMS = ("text", "json")
EXITS = {
    errors.OK: "done, or nothing to archive",
    errors.FINDINGS: "--repair found stubs that cannot be repaired",
    errors.CONFIG: "the policy, the registry or the index cannot be read",
    errors.REMOTE: "the full texts could not be pushed and found again: no stub was written",
}
_OWN = (
    Setting("archive.dry_run", "print the plan, and change nothing", default=False, kind="boolean",
            flag="--dry-run", file=False, own_env=False),
    Setting("archive.split", "make a branch for each batch within the diff budget, and leave the "
            "work tree alone", default=False, kind="boolean", flag="--split", file=False,
            own_env=False),
    Setting("archive.tasks", "archive completed snapshots of docs/TASKS.md instead",
            default=False, kind="boolean", flag="--tasks", file=False, own_env=False),
    Setting("archive.repair", "restore the full texts of stubs that have none, from the history",
            default=False, kind="boolean", flag="--repair", file=False, own_env=False),
    Setting("archive.pr", "push new stubs to the branch rlm-ci/archive; open or update its pull "
            "request", default=False, kind="boolean", flag="--pr",
            file=False, own_env=False),
    Setting("archive.base", "a document with open items at this ref stays (default: the default "
            "branch)", flag="--base", metavar="REF", file=False, own_env=False),
)  # fmt: skip
ROWS = (*COMMON, *_OWN)
#: The file of a task's report, as the archivers of other tools name it.
REPORT = "docs-archive-report.json"


def run(arguments: Arguments) -> int:
    settings = Settings((*PROGRAM, *_OWN), arguments.flags)
    output = output_of(settings).require_text_or_json("archive")
    output.require_place()
    if settings.task:
        require_task_id(settings.task, settings.sources["task"])
    repository = open_repository(settings)
    access = access_of(settings)
    section = settings.archive
    user = RemoteUser(access.token or None, access.server_url, settings.environ, "rlm-ci archive")
    if section.tasks or section.repair or section.pr:
        return _other(section, repository, user, settings)
    options = ArchiveOptions(user, section.base or "", split=section.split, dry_run=section.dry_run)
    outcome = archive(repository, options)
    text = neutralise.record(report.record(outcome, dry_run=section.dry_run))
    if settings.task and not section.dry_run:
        folder = os.path.join(repository.root, settings.out_dir, settings.task)
        files.require_inside(repository.root, folder)
        files.make_folder(folder)
        files.write(os.path.join(folder, REPORT), text.encode("ascii"))
    if settings.format != "json":
        text = "" if settings.quiet else _text(outcome, settings, repository.remote())
    output.emit(text)
    return errors.OK


def _text(outcome: ArchiveOutcome, settings: Settings, remote: str) -> str:
    dry_run = settings.archive.dry_run
    return report.text(outcome, dry_run=dry_run, verbose=settings.verbose, remote=remote)


def _other(
    archive_settings: Settings, repository: Repository, user: RemoteUser, settings: Settings
) -> int:
    """What the command does with one of its other flags: each has its own report."""
    if (
        archive_settings.split
        + archive_settings.tasks
        + archive_settings.repair
        + archive_settings.pr
        > 1
    ):
        raise UsageError(
            "--split, --tasks, --repair and --pr exclude each other",
            where="rlm-ci archive",
            hint="use one of them",
        )
    output, is_json = output_of(settings), settings.format == "json"
    dry_run = archive_settings.dry_run
    if archive_settings.pr:
        name = settings.github.repository or ""
        access = access_of(settings)
        lines = list(open_pull_request(repository, user, access, name, dry_run=dry_run))
        text = neutralise.record({"version": 1, "steps": lines})
        output.emit(text if is_json else "".join(f"{neutralise.log(line)}\n" for line in lines))
        return errors.OK
    if archive_settings.tasks:
        done = archive_tasks(repository, user, dry_run=dry_run)
        text = neutralise.record(done.record(dry_run=dry_run))
        output.emit(text if is_json else done.text(dry_run=dry_run))
        return errors.OK
    plan = repair(repository, user, dry_run=dry_run)
    text = neutralise.record(plan.record(dry_run=dry_run))
    output.emit(text if is_json else plan.text(dry_run=dry_run, verbose=settings.verbose))
    return errors.FINDINGS if plan.lost else errors.OK
