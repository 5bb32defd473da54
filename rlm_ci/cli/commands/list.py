"""``rlm-ci list``: all runs of the repository, the newest first; ``--prune`` removes old ones."""

from __future__ import annotations

import time

from rlm_ci import errors
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import stored_runs
from rlm_ci.runs.find import GONE
from rlm_ci.text import neutralise
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.runs.find import FoundRun

SUMMARY = "list the runs, the newest first, or remove old ones"
USAGE = "[--prune [--older-than AGE]] [OPTION...]"
TAKES = ("no arguments", 0, 0)
EXAMPLES = (
    "rlm-ci list",
    "rlm-ci list --prune --older-than 30d",
)
FORMS = ("text", "json")
EXITS = {errors.OK: "done"}
_UNITS = {"m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_PRUNING = (
    Setting("prune", "remove the runs older than --older-than", default=False,
            kind="boolean", flag="--prune", file=False, own_env=False),
    Setting("older_than", "age since the last sign of a run: 30d, 12h, 90m, 4w", "30d",
            flag="--older-than", metavar="AGE", file=False, own_env=False),
)  # fmt: skip
ROWS = (*_PRUNING, *stored_runs.ROWS)


def run(arguments: Arguments) -> int:
    settings = Settings(ROWS, arguments.flags)
    output = output_of(settings).require_text_or_json("list")
    if not settings.prune and settings.sources["older_than"] != "default":
        raise UsageError(
            "--older-than says what to remove", where="rlm-ci list", hint="add --prune"
        )
    runs = stored_runs.StoredRuns(settings)
    now, as_json = time.time(), settings.format == "json"
    if settings.prune:
        names = [entry.run_id for entry in runs.prune(_age(settings.older_than), now)]
        lines = [*names, f"removed {count(len(names), 'run')}", ""]
        text = neutralise.record({"removed": names}) if as_json else "\n".join(lines)
    else:
        entries = runs.entries()
        records = {"runs": [_record(entry, now) for entry in entries]}
        text = neutralise.record(records) if as_json else _text(entries, now)
    output.emit(text)
    return errors.OK


def _age(text: str) -> float:
    """The seconds of an age such as ``30d``. Raises ConfigError."""
    number, unit = text[:-1], text[-1:]
    if unit not in _UNITS or not (number.isascii() and number.isdigit()) or len(number) > 6:
        raise ConfigError(
            f"{text[:80]!r} is not an age",
            where="--older-than",
            hint="a whole number and one of m, h, d, w: 30d",
        )
    return float(int(number) * _UNITS[unit])


def _record(entry: FoundRun, now: float) -> dict[str, Any]:
    run = entry.manifest
    facts: dict[str, Any] = {
        "run_id": entry.run_id,
        "task_id": entry.task_id,
        "status": entry.status_at(now),
        "manifest": entry.manifest_path,
        "problem": None if entry.problem is None else entry.problem.what,
    }
    fields = ("pipeline_id", "parent_run_id", "started_at", "completed_at", "exit_code", "summary")
    facts |= {name: None if run is None else getattr(run, name) for name in fields}
    return facts | {"recorded_by": run.recorded_by.name if run and run.recorded_by else None}


def _text(runs: list[FoundRun], now: float) -> str:
    if not runs:
        return "no runs yet\n"
    heads = ("RUN", "TASK", "PIPELINE", "STATUS", "TOOK", "SUMMARY")
    table = [heads, *(_cells(entry, now) for entry in runs)]
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]) - 1)]
    lines = []
    for row in table:
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return "".join(f"{neutralise.log(line)}\n" for line in lines)


def _cells(entry: FoundRun, now: float) -> tuple[str, ...]:
    run = entry.manifest
    word = entry.status_at(now).replace("_", " ")
    if run is None:
        why = entry.problem.what if entry.problem else ""
        return entry.run_id, entry.task_id, "-", word, "-", neutralise.clip(printable(why), 100)
    gone = "its end was not reported" if run.recorded_by else "its process is gone"
    summary = run.summary or (gone if word == GONE else run.status_detail or "")
    summary = neutralise.clip(neutralise.one_line(summary), 60)
    took = stored_runs.took(run, now)
    made_by = run.recorded_by.program if run.recorded_by else run.pipeline_id
    return entry.run_id, entry.task_id, printable(made_by), word, took, summary
