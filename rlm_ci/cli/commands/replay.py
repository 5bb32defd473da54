"""``rlm-ci replay``: repeat a run from its record, without keys, network or commands."""

from __future__ import annotations

import json
import os
from contextlib import suppress

from rlm_ci import __version__, errors
from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.console.messages import say
from rlm_ci.console.progress import Progress
from rlm_ci.errors import FINDINGS, ConfigError, RlmCiError
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import definition, load, stored_runs
from rlm_ci.runs.request import RunRequest
from rlm_ci.runs.store import require_plain_run
from rlm_ci.solve import registry, verify_record
from rlm_ci.solve.pipeline import CALLS
from rlm_ci.system import files
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.runs.find import FoundRun

SUMMARY = "repeat a run from its record, without a key or network"
USAGE = "RUN [--check] [OPTION...]"
TAKES = stored_runs.ONE_RUN
EXAMPLES = ("rlm-ci replay latest --check",)
EXITS = {
    errors.OK: "the run succeeds again; with `--check`, its report is the same",
    errors.FINDINGS: "with `--check`, the report or a file differs; without it, codes are those of "
    "the run",
}
_OWN = (
    Setting("check", "exit with 1 if the report differs from the original, or a file that follows "
            "from the record", default=False, kind="boolean", flag="--check", file=False,
            own_env=False),
)  # fmt: skip
#: The fields in which a run and its replay may differ.
_OWN_KEYS = ("run_id", "usage", "publication")
_REPORT_LIMIT = 512 << 20
ROWS = (*stored_runs.ROWS, *_OWN)


def run(arguments: Arguments) -> int:
    table = (*PROGRAM, *ROWS)
    options = Settings(table, arguments.flags)
    output_of(options).require_place()
    runs = stored_runs.StoredRuns(options)
    entry = runs.own_run(arguments.words[0])
    _require_record(entry)
    require_plain_run(entry.path)
    request = RunRequest.read(entry.path, entry.run.pipeline_id)
    settings = Settings(table, {**request.flags, **arguments.flags})
    rests_on = verify_record.rests_on_of(entry.path)
    if rests_on and "wiki.out" in rests_on["settings"]:  # links of pages lead from there
        pages = verify_record.pages_folder(rests_on, runs.root)
        settings.values["wiki.out"] = pages
    with (
        Progress(settings.environ, quiet=settings.quiet, colour=settings.color) as progress,
        runs.create(entry.run.task_id, request.pipeline_id, parent_run_id=entry.run.run_id) as copy,
    ):
        # Keep no request: nothing may resume an interrupted replay with keys and commands.
        verify_record.begin_alike(entry.path, copy)
        progress.say(f"Run: {copy.id}, a replay of {entry.run.run_id}")
        record = os.path.join(entry.path, CALLS)
        work = registry.make(request.pipeline_id, settings, runs, progress, record)
        actions = {request.pipeline_id: work}
        try:
            code = load.conduct(copy, request, runs, definition.BUILT_IN, actions)
        except RlmCiError as error:
            _name_version(entry)
            if not settings.check or work.report is None:
                raise
            say(f"the replay ended with an error: {error}")
            code = error.code
    if work.report is not None:
        output_of(settings).show(work.report)
    if settings.check:
        differs = _compare(entry.path, copy.path, copy.redactor.text)
        if differs:
            _name_version(entry)
        return differs
    return code


def _require_record(entry: FoundRun) -> None:
    """Raise ConfigError for a run without a record to replay."""
    if entry.run.pipeline_id not in definition.BUILT_IN:
        raise ConfigError(
            f"a run of {entry.run.pipeline_id} cannot be replayed",
            where=entry.run.run_id,
            hint=f"rlm-ci verify {entry.run.run_id} makes its files again from its record; "
            f"replay takes runs of {', '.join(definition.BUILT_IN)}",
        )
    if not os.path.exists(os.path.join(entry.path, CALLS)):
        parent = entry.run.parent_run_id
        raise ConfigError(
            "the run has no record: it is a replay itself, or ended before it began",
            where=entry.run.run_id,
            hint=f"replay the original: rlm-ci replay {parent}" if parent else "start a new run",
        )


def _name_version(entry: FoundRun) -> None:
    """Name the version that made the run, if it is not this one: its prompts may differ."""
    with suppress(ConfigError):  # no report: the run has not ended, and the error says what to do
        tool = _report(entry.path).get("tool")
        made_by = printable(str(tool.get("version") if isinstance(tool, dict) else None))[:40]
        if made_by != __version__:
            say(f"rlm-ci {made_by} made the run, and this is {__version__}: use {made_by}")
        elif pages := verify_record.earlier_pages(entry.path, entry.run.pipeline_id):
            say(f"rlm-ci {made_by} made the run {pages}: use the rlm-ci that made it")


def _compare(before: str, now: str, clean: Callable[[str], str]) -> int:
    reports = [_report(folder) for folder in (before, now)]
    keys = dict.fromkeys(key for report in reports for key in report)
    absent = object()
    differing = [key for key in keys if reports[0].get(key, absent) != reports[1].get(key, absent)]
    lines = [f"the report differs in {key}" for key in differing]
    lines += verify_record.differing(before, now, clean)
    for line in lines or [
        "the report is the same, and so is every file that follows from the record"
    ]:
        say(line)
    return FINDINGS if lines else 0


def _report(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, "report.json")
    try:
        record = json.loads(files.read(path, _REPORT_LIMIT))
        if not isinstance(record, dict):
            raise ValueError("it is not a JSON object")
    except (files.UnreadableError, ValueError, RecursionError) as error:
        raise ConfigError(
            f"the report cannot be read: {printable(str(error))[:200]}",
            where=path,
            hint="resume the run, then replay it",
        ) from None
    return {key: value for key, value in record.items() if key not in _OWN_KEYS}
