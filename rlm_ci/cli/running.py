"""What the commands about runs share: the store, the run that is meant, how it is told."""

from __future__ import annotations

import os
import time

from rlm_ci.cli.judging import open_repository
from rlm_ci.cli.progress import duration
from rlm_ci.errors import UsageError
from rlm_ci.publishing import neutral
from rlm_ci.redaction import Redactor
from rlm_ci.runs import IN_PROGRESS, QUEUED, listing, require_task_id
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.store import Store
from rlm_ci.table import COMMON, LOOP
from rlm_ci.texts import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.cli.arguments import Arguments
    from rlm_ci.runs.listing import Entry
    from rlm_ci.runs.manifest import Manifest
    from rlm_ci.settings import Setting, Settings

OUT_DIR = tuple(row for row in LOOP if row.key == "out_dir")
ROWS: tuple[Setting, ...] = (*COMMON, *OUT_DIR)
#: Settings of one command line alone: whoever carries out a run is told in other ways.
OF_A_COMMAND = frozenset((
    "repo", "task", "format", "output", "quiet", "verbose", "color", "interactive", "loop.goal",
    "parent_run",
))  # fmt: skip
_WIDE = 72
#: Seconds of silence that are told: two heartbeats are missing.
_SILENT = 2 * manifests.HEARTBEAT


class Runs:
    """The runs of the repository that the settings name, or of the folder where there is none."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.root = open_repository(settings).root
        self.store = Store.at(self.root, settings.runs_dir)
        self.out = os.path.join(self.root, settings.out_dir)
        self.redactor = Redactor(settings.environ)

    @property
    def task(self) -> str | None:
        """The task that the command line limits the runs to; a variable does not."""
        if self.settings.sources["task"] != "--task":
            return None
        return require_task_id(self.settings.task, "--task")

    def find(self, word: str) -> Entry:
        """The run that ``word`` means. Raises UsageError, DamagedError."""
        return listing.find(self.store, word, self.task)


def one_run(arguments: Arguments, command: str) -> str:
    """The only argument of a command about one run. Raises UsageError."""
    if len(arguments.positionals) != 1 or arguments.rest:
        raise UsageError(
            f"{command} takes one run",
            where=f"rlm-ci {command}",
            hint="an id, the beginning of one, the path of a manifest, or: latest",
        )
    return arguments.positionals[0]


def resume_with(run_id: str) -> str:
    """The command that lets a run go on."""
    return f"rlm-ci resume {run_id}"


def record(entry: Entry) -> dict[str, Any]:
    """The manifest of a run as JSON, where it lies, and whether its process is gone."""
    gone = entry.is_gone(time.time())
    return {**entry.run.to_record(), "manifest": entry.place, "gone": gone}


def tell(entry: Entry, now: float) -> str:
    """A run for a person, a fact a line."""
    run = entry.run
    facts = [
        ("run", run.run_id),
        ("task", run.task_id),
        ("pipeline", run.pipeline_id),
        ("parent", run.parent_run_id),
        ("status", standing(entry, now)),
        ("started", run.started_at),
        ("ended", run.completed_at and f"{run.completed_at}, after {took(run, now)}"),
        ("exit code", None if run.exit_code is None else str(run.exit_code)),
        ("sandbox", run.sandbox),
        ("summary", run.summary and neutral.clip(neutral.one_line(run.summary), 400)),
        ("folder", run.artifact_root),
    ]
    lines = [f"{name:<11}{printable(value)}" for name, value in facts if value]
    for number, step in enumerate(run.commands, 1):
        told = [f"{number:>3}. {step.status:<10} {printable(step.title)}"]
        if step.summary:
            told.append(neutral.clip(neutral.one_line(step.summary), _WIDE))
        lines.append("  ".join(told))
    lines += [f"  child    {one.status:<12} {printable(one.run_id)}" for one in run.child_runs]
    return "".join(f"{neutral.log(line)}\n" for line in lines)


def standing(entry: Entry, now: float) -> str:
    """How a run stands, and what can be done where it does not go on by itself."""
    run = entry.run
    word = run.status.replace("_", " ")
    if entry.is_gone(now):
        why = "nobody has begun it" if run.status == QUEUED else "its process is gone"
        return f"{word}, but {why}: resume it with {resume_with(run.run_id)}"
    if run.status == IN_PROGRESS:
        silent = run.silent_for(now)
        heard = f", last heard of {duration(silent)} ago" if silent > _SILENT else ""
        return f"{word} for {took(run, now)}{heard}"
    detail = f" ({run.status_detail})" if run.status_detail not in (None, run.status) else ""
    if run.has_ended and run.is_resumable:
        return f"{word}{detail}: resume it with {resume_with(run.run_id)}"
    return f"{word}{detail}"


def took(run: Manifest, now: float) -> str:
    """How long a run took, or has taken so far."""
    end = manifests.moment(run.completed_at) if run.completed_at else now
    return duration(max(0.0, end - manifests.moment(run.started_at)))
