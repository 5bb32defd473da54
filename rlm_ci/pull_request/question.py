"""``/rlm-ci ask``: an answer from the commit at the head, as git has it; nothing is checked out."""

from __future__ import annotations

import os
from functools import partial

from rlm_ci.ask.run import AskRun
from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import Settings
from rlm_ci.console.progress import Progress
from rlm_ci.context.builder.build import build
from rlm_ci.context.builder.sources import CommitFiles
from rlm_ci.environments.symbolic.planner.planner import BadPlanError
from rlm_ci.errors import ConfigError
from rlm_ci.judge import config_file
from rlm_ci.judge.judge import subject_of
from rlm_ci.judge.options import reviewer_of
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.job import Mode, without_runs
from rlm_ci.pipelines.runner import live
from rlm_ci.pipelines.verb_job import VerbJob
from rlm_ci.pull_request import comment_commands
from rlm_ci.runs.run import Run
from rlm_ci.runs.store import RunStore
from rlm_ci.system import files, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.models.record.record import Record
    from rlm_ci.report.findings import Report

_PIPELINE = "rlm"
#: Limits of a question, unless others are set.
_DEFAULTS = (("loop.max_minutes", 20.0), ("loop.max_iterations", 12.0), ("max_calls", 60))
#: Settings that do not hold here: no agent answers, and no code runs.
_NOT_HERE = (("loop.agent", None), ("symbolic.environment", "symbolic"), ("context.source", None))


class _QuestionJob(VerbJob):
    """Answers from a commit. The text of its files is one private file of the run."""

    def __init__(self, settings: Settings, change: ChangeSet, progress: Progress) -> None:
        runs = stored_runs.StoredRuns(settings)
        super().__init__(
            settings,
            change.repository,
            progress,
            skipped=without_runs(runs.root, settings.runs_dir, settings.out_dir),
        )
        self._commit = change.head or ""

    def prepare(self, run: Run, goal: str | None) -> None:  # noqa: ARG002 - the files alone count
        source = CommitFiles(self.repository, self._commit)
        build(source, run.path_of("rlm", "context"), required=True).close()

    def attempt(self, run: Run, goal: str, record: Record) -> AskRun:
        mode = Mode("symbolic", "a comment asks a question")
        commit = self._commit
        ask_run = AskRun(self, run, goal, record, mode, required=True, commit=commit).carry_out()
        if isinstance(ask_run.error, BadPlanError):  # its own hint is for a run that is kept
            hint = "ask again; or take a model that keeps to JSON"
            ask_run.error = ConfigError(ask_run.error.what, where="the model", hint=hint)
        return ask_run


def answer(environ: Mapping[str, str], change: ChangeSet, question: str, repository: str) -> Report:
    """The report with the answer to ``question``, by the model of the base's configuration.

    Raises ConfigError without a model, and what a run raises.
    """
    settings = Settings(PROGRAM, {}, environ)
    config_file.apply(settings, change)
    comment_commands.require_model(reviewer_of(settings), "question")
    for key, value in _DEFAULTS:
        if settings.sources[key] == "default":
            settings.values[key] = value
    settings.values.update(_NOT_HERE)
    process.harden()
    with (
        files.scratch("rlm-ci-ask-") as scratch,
        Progress(settings.environ, quiet=settings.quiet) as progress,
    ):
        work = _QuestionJob(settings, change, progress)
        with Run.create(
            RunStore(scratch, "ask"),
            "rlm-pr",
            pipeline_id=_PIPELINE,
            redactor=stored_runs.StoredRuns(settings).redactor,
            out=os.path.join(scratch, "out"),
        ) as run:
            live(run, partial(work, run, question))
    if work.report is None:
        raise AssertionError("a question ends with a report or an error")
    return work.report.replace(subject=subject_of([change], repository))
