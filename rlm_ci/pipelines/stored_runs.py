"""Finds and describes stored runs, for all commands about runs."""

from __future__ import annotations

import os
import time

from rlm_ci.config.core_options import COMMON
from rlm_ci.config.options import LOOP, PROGRAM
from rlm_ci.config.settings import Settings
from rlm_ci.console.messages import warn
from rlm_ci.console.progress import Progress, duration
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.judge.judge import open_repository
from rlm_ci.pipelines.repository.tree_progress import TreeWatcher
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.runs import (
    IN_PROGRESS,
    QUEUED,
    cancel,
    derived_task_id,
    manifest,
    request,
    require_task_id,
    task_summary,
)
from rlm_ci.runs import find as runs_find
from rlm_ci.runs.journal import spans
from rlm_ci.runs.run import Run
from rlm_ci.runs.store import RunStore
from rlm_ci.text import neutralise
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.config.settings import Setting
    from rlm_ci.runs.cancel import CancelledRun
    from rlm_ci.runs.find import FoundRun
    from rlm_ci.runs.manifest import Manifest, Recorder

OUT_DIR = tuple(row for row in LOOP if row.key == "out_dir")
SANDBOX = tuple(row for row in LOOP if row.key == "sandbox")
ROWS: tuple[Setting, ...] = (*COMMON, *OUT_DIR)
#: The argument of a command about one run.
ONE_RUN = ("one run: an id, its beginning, the path of a manifest, or latest", 1, 1)
_WIDE = 72
#: Characters of an event.
_EVENT = 300
#: Seconds without a heartbeat that are reported: two are missing.
_SILENT = 2 * manifest.HEARTBEAT


def settings_of(flags: Mapping[str, Any]) -> Settings:
    """The settings of a run, without its config file. Raises ConfigError."""
    table = {row.key: row for row in (*PROGRAM, *ROWS)}
    return Settings(table.values(), flags)


class StoredRuns:
    """The runs of the repository that the settings name, or of a folder outside of git."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.root = open_repository(settings).root
        self.store = RunStore.at(self.root, settings.runs_dir, settings.environ)
        self.out = os.path.join(self.root, settings.out_dir)
        self.redactor = Redactor(settings.environ)

    @property
    def task(self) -> str | None:
        """The task of ``--task``, which limits the runs; a variable does not."""
        if self.settings.sources["task"] != "--task":
            return None
        return require_task_id(self.settings.task, "--task")

    def find(self, word: str) -> FoundRun:
        """The run that ``word`` means. Raises UsageError, DamagedError."""
        self._tell_of_brought()
        return runs_find.find(self.store, word, self.task)

    def locate(self, word: str) -> FoundRun:
        """As ``find``, but also a run whose manifest cannot be read. Raises UsageError."""
        self._tell_of_brought()
        return runs_find.locate(self.store, word, self.task)

    def own_run(self, word: str) -> FoundRun:
        """As ``find``, but only a run of rlm-ci in this repository, where it is carried out."""
        entry = self.find(word)
        runs_find.require_in(self.store, entry)
        require_ours(entry.run)
        return entry

    def create(self, task: str, pipeline_id: str, **more: Any) -> Run:
        return Run.create(
            self.store,
            task,
            pipeline_id=pipeline_id,
            redactor=self.redactor,
            out=self.out,
            **more,
        )

    def open(self, path: str) -> Run:
        """Open the run in the folder ``path`` and hold it. Raises as ``Run.open``."""
        return Run.open(path, redactor=self.redactor, out=self.out)

    def cancel(self, entry: FoundRun) -> CancelledRun:
        """End a run, and mark the nodes of a review or a wiki, too. Raises as ``cancel.cancel``."""
        outcome = cancel.cancel(entry.path, entry.run, redactor=self.redactor, out=self.out)
        inner = os.path.join(entry.path, "rlm")
        if outcome.ended_now and os.path.lexists(os.path.join(inner, "run.json")):
            from rlm_ci.recursion.journal import run_json

            with self.open(entry.path):
                run_json.cancel(inner)
        return outcome

    def task_or_own(self) -> str:
        """The task of the settings, else that of the repository. Raises ConfigError."""
        settings = self.settings
        if settings.task:
            return require_task_id(settings.task, settings.sources["task"])
        return derived_task_id(self.root)

    def entries(self) -> list[FoundRun]:
        """All runs, or those of the task. Raises StorageError."""
        self._tell_of_brought()
        return runs_find.entries(self.store, self.task)

    def prune(self, seconds: float, now: float) -> list[FoundRun]:
        self._tell_of_brought()
        removed = runs_find.prune(self.store, seconds, now, self.task)
        for task in {run.task_id for run in removed}:
            if not runs_find.entries(self.store, task):
                task_summary.remove(os.path.join(self.out, task))
        return removed

    def _tell_of_brought(self) -> None:
        """Warn of runs that came with the repository: resuming one could run any command."""
        number = runs_find.brought(self.store)
        if number:
            shown = self.store.shown
            warn(
                ConfigError(
                    f"{count(number, 'run')} came with the repository, and are ignored",
                    where=shown,
                    hint=f"remove them: git rm -r {shown}; or, if you have committed your own by"
                    f" accident, take them out of git: git rm -r --cached {shown}",
                )
            )


def require_ours(run: Manifest) -> None:
    """Raise UsageError for the run of a subagent that an agent's program recorded."""
    recorder = run.recorded_by
    if recorder is None:
        return
    digest = recorder.transcript_sha256
    hint = f"{recorder.program} has its transcript"
    if digest:
        hint += f": its first {count(recorder.transcript_bytes or 0, 'byte')} have SHA-256 {digest}"
    raise UsageError(
        f"the run was {recorded_by(run)}: there is nothing to carry out, stop or verify here",
        where=run.run_id,
        hint=printable(hint),
    )


def recorded_by(run: Manifest) -> str:
    """Who recorded a run that is not of rlm-ci; "" for one that is."""
    recorder = run.recorded_by
    return f"recorded by {printable(recorder.name)}, not run by rlm-ci" if recorder else ""


def resume_with(run_id: str) -> str:
    return f"rlm-ci resume {run_id}"


def way_on(entry: FoundRun) -> str:
    """How to continue a run whose process has ended, as a hint."""
    if entry.is_resumable:
        return f"resume it with {resume_with(entry.run_id)}"
    parent = entry.run.parent_run_id
    belongs = f"belongs to {printable(parent)}" if parent else "must be started again"
    return f"it cannot be resumed by itself, and {belongs}"


def flag_of(budget: str) -> str:
    return f"--{budget.replace('_', '-')}"


def more_of(run: Manifest) -> str:
    """The command that increases the budget that ended a run; "" if no budget did."""
    ended = run.spent_budget
    letter = "X" if ended == "budget_usd" else "N"
    return f"{resume_with(run.run_id)} {flag_of(ended)} {letter}" if ended else ""


def tell_way_on(stored_run: Run, progress: Progress) -> None:
    """Say how to continue a run that has just ended early, if it can be continued."""
    run = stored_run.manifest
    way = resume_with(stored_run.id) if run.is_resumable else more_of(run)
    is_cancelled = os.path.exists(os.path.join(stored_run.path, cancel.SIGN))
    if way and not is_cancelled and request.is_kept(stored_run.path):
        progress.close()  # nothing of it stays below
        progress.say(f"continue it: {way}")


def record(entry: FoundRun) -> dict[str, Any]:
    """The manifest of a run as JSON, its path, whether its process is gone, and its tree."""
    gone = entry.is_gone(time.time())
    tree = TreeWatcher(entry.path, entry.run.pipeline_id).record(entry.run.status)
    fields = {**entry.run.to_dict(), "manifest": entry.manifest_path, "gone": gone}
    return fields if tree is None else {**fields, "recursion": tree}


def tell(entry: FoundRun, now: float) -> str:
    look = TreeWatcher(entry.path, entry.run.pipeline_id)
    lines = (f"{name:<{11 if name else 0}}{text}" for name, text in facts(entry, now, look))
    return "".join(f"{neutralise.log(line)}\n" for line in lines)


def facts(entry: FoundRun, now: float, look: TreeWatcher) -> list[tuple[str, str]]:
    """Names and values that describe a run; steps have no name."""
    run = entry.run
    values = [
        ("run", run.run_id),
        ("task", run.task_id),
        ("pipeline", run.pipeline_id),
        ("parent", run.parent_run_id),
        ("status", status_in_words(entry, now)),
        ("started", run.started_at),
        ("ended", run.completed_at and f"{run.completed_at}, after {took(run, now)}"),
        ("exit code", None if run.exit_code is None else str(run.exit_code)),
        ("sandbox", run.sandbox),
        ("origin", recorded_by(run)),
        ("subagent", run.recorded_by and run.recorded_by.subagent_type),
        ("transcript", run.recorded_by and _transcript(run.recorded_by)),
        ("summary", run.summary and neutralise.clip(neutralise.one_line(run.summary), 400)),
        ("answer", _answer(entry)),
        ("folder", run.artifact_root),
    ]
    rows = [(name, printable(value)) for name, value in values if value]
    rows += look.facts()
    for number, step in enumerate(run.commands, 1):
        words = [f"{number:>3}. {step.status:<10} {printable(step.title)}"]
        if step.summary:
            words.append(neutralise.clip(neutralise.one_line(step.summary), _WIDE))
        rows.append(("", "  ".join(words)))
    rows += [
        ("", f"  child    {child_run.status:<12} {printable(child_run.run_id)}")
        for child_run in run.child_runs
    ]
    return rows


def _transcript(recorder: Recorder) -> str:
    digest, size = recorder.transcript_sha256, recorder.transcript_bytes
    return f"{count(size or 0, 'byte')}, SHA-256 {digest}" if digest else "not hashed"


def _answer(entry: FoundRun) -> str | None:
    """The path of the answer, if the run has one."""
    parts = ("rlm", "answer.md")
    is_there = os.path.isfile(os.path.join(entry.path, *parts))
    return "/".join((entry.run.artifact_root, *parts)) if is_there else None


def status_in_words(entry: FoundRun, now: float) -> str:
    """The status of a run, and how to continue it if its process has ended."""
    run = entry.run
    word = run.status.replace("_", " ")
    if run.recorded_by and not run.has_ended:
        return f"{word} for {took(run, now)}: {printable(run.recorded_by.name)} reported no end"
    if entry.is_gone(now):
        why = "it has not started" if run.status == QUEUED else "its process is gone"
        return f"{word}, but {why}: {way_on(entry)}"
    if run.status == IN_PROGRESS:
        silent = run.silent_for(now)
        silence = f", last heard of {duration(silent)} ago" if silent > _SILENT else ""
        return f"{word} for {took(run, now)}{silence}"
    detail = f" ({run.status_detail})" if run.status_detail not in (None, run.status) else ""
    if run.has_ended and entry.is_resumable:
        return f"{word}{detail}: {way_on(entry)}"
    if entry.can_be_raised:
        return f"{word}{detail}: give it more with {more_of(run)}"
    return f"{word}{detail}"


def took(run: Manifest, now: float) -> str:
    end = manifest.moment(run.completed_at) if run.completed_at else now
    return duration(max(0.0, end - manifest.moment(run.started_at)))


def event_text(event: Mapping[str, Any]) -> str:
    """What an event of a run says, in one line."""
    if step := spans.words_of(event):
        return neutralise.log(neutralise.clip(neutralise.one_line(step), _EVENT))
    payload = event.get("payload")
    payload = payload if isinstance(payload, dict) else {}
    words = [str(event.get("event", "")).replace("_", " ")]
    # No text of a question: another delegated run may ask for the status.
    for name in ("title", "text", "tool", "summary", "status_detail", "question_id"):
        value = payload.get(name)
        if isinstance(value, str) and value:
            words.append(neutralise.clip(neutralise.one_line(value), 160))
    code = payload.get("exit_code")
    if isinstance(code, int) and code:
        words.append(f"exit {code}")
    return neutralise.log(printable("  ".join(words)))
