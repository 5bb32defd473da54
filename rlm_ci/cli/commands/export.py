"""``rlm-ci export``: write a run to one file, to attach, keep, or read elsewhere."""

from __future__ import annotations

import sys

from rlm_ci import errors
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.console.messages import say, write
from rlm_ci.console.output import STDOUT
from rlm_ci.errors import UsageError
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.stored_runs import ONE_RUN, StoredRuns
from rlm_ci.runs import archive
from rlm_ci.system import files
from rlm_ci.text import neutralise
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.runs.archive import ExportedRun

SUMMARY = "write a run to one tar.gz, with the SHA-256 of each file"
USAGE = "RUN [-o FILE] [--log FILE] [OPTION...]"
TAKES = ONE_RUN
EXAMPLES = ("rlm-ci export latest -o run.tar.gz",)
FORMS = ("text", "json")
EXITS = {errors.OK: "the file is written"}
_OWN = (
    Setting("log", "write only the steps of an episode, as a log that the visualizer of rlm "
            "opens", flag="--log", metavar="FILE", file=False, own_env=False),
)  # fmt: skip
ROWS = (*stored_runs.ROWS, *_OWN)


def run(arguments: Arguments) -> int:
    settings = Settings(ROWS, arguments.flags)
    output_of(settings).require_text_or_json("export")
    runs = StoredRuns(settings)
    entry = runs.find(arguments.words[0])
    if settings.log:
        return _log(runs, entry.run_id, settings)
    target = settings.output or f"{entry.run_id}.tar.gz"
    if target == STDOUT:
        return _to_stdout(entry.path, entry.run_id, settings, runs.redactor.text)
    done = archive.export(entry.path, entry.run_id, target, runs.redactor.text)
    if settings.format == "json":
        facts = {"file": target, "run_id": entry.run_id, "files": done.files, "bytes": done.size}
        facts |= {"sha256": done.sha256, "git_objects": done.objects}
        write(neutralise.record(facts | ({"notes": [done.note]} if done.lacking else {})))
    elif not settings.quiet:
        write(f"sha256 {done.sha256}\n")
        write(f"{printable(target)}: {_summary(done)}\n")
    return errors.OK


def _log(runs: StoredRuns, run_id: str, settings: Settings) -> int:
    from rlm_ci.lab import trajectories
    from rlm_ci.lab.trajectories import Trajectories

    steps = trajectories.write(Trajectories(runs, ()).require(run_id), settings.log)
    if not settings.quiet:
        write(f"{printable(settings.log)}: {count(steps, 'step')}\n")
    return errors.OK


def _to_stdout(folder: str, run_id: str, settings: Settings, clean: Callable[[str], str]) -> int:
    """Write the archive to standard output, and a summary to standard error."""
    if sys.stdout is None or sys.stdout.isatty() or settings.format == "json":
        reason = "it gets the result as JSON" if settings.format == "json" else "it is a terminal"
        raise UsageError(
            f"the archive cannot go to standard output: {reason}",
            where=f"--output {STDOUT}",
            hint="name a file, or a pipe",
        )
    try:
        done = archive.write(sys.stdout.buffer, folder, run_id, clean)
        sys.stdout.buffer.flush()
    except OSError as error:
        raise files.storage_error(error, "standard output") from None
    if not settings.quiet:
        say(f"{_summary(done)}, sha256 {done.sha256}")
    return errors.OK


def _summary(done: ExportedRun) -> str:
    more = f", {done.note}" if done.note else ""
    return f"{count(done.files, 'file')}, {count(done.size, 'byte')}{more}"
