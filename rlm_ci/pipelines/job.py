"""The base of our own pipelines' jobs, and what each job gets."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from contextlib import contextmanager

from rlm_ci.judge.options import rests_on
from rlm_ci.models.gateway import earlier
from rlm_ci.models.record.record import FILE, Record
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report import render
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rlm_ci.config.settings import Settings
    from rlm_ci.console.progress import Progress
    from rlm_ci.git.repository import Repository
    from rlm_ci.models.record.record import OnAnswer
    from rlm_ci.report.findings import Report
    from rlm_ci.report.render import RenderOptions
    from rlm_ci.runs.run import Run


class Mode(Value):
    """How to reach a goal, and why this way."""

    name: str
    reason: str


class PipelineJob(ABC):
    """Carries out a pipeline in a run that this process holds, with the record of that run.

    ``skipped`` are folders in which rlm-ci itself writes: no part of the work tree. ``ask`` puts
    a question to the user, None without a terminal. With ``replay``, the record of another run,
    no command runs and no model is asked.
    """

    def __init__(
        self,
        settings: Settings,
        repository: Repository,
        progress: Progress,
        *,
        skipped: tuple[str, ...],
        ask: Callable[[str], str] | None = None,
        replay: str | None = None,
    ) -> None:
        self.settings = settings
        self.repository = repository
        self.progress = progress
        self.skipped = skipped
        self.ask = ask
        self.replay = replay
        self.report: Report | None = None
        #: What was left where, a line each: a command ends with them.
        self.places: list[str] = []
        #: Gets each request that has an answer, and its place; see ``Record.open``.
        self.on_answer: OnAnswer | None = None
        #: The budgets that ``resume`` increases; see ``budget_increase``.
        self.more: Mapping[str, float | None] = {}

    @property
    def runs(self) -> str:
        """The folder of all runs, "" for none."""
        return self.skipped[0] if self.skipped else ""

    @property
    def tells(self) -> bool:
        """Whether the user asked for the report itself, not for another result."""
        return True

    def shown(self, options: RenderOptions) -> str:
        """The result for people, "" if they asked for another one than the report."""
        if self.report is None or not self.tells:
            return ""
        return f"{render.render(self.report, 'text', options)}\n"

    def secrets(self) -> tuple[Iterable[str], Mapping[str, str]]:
        """More secrets: names of variables of ours, and variables that are not ours.

        Of the second, those count that have the name of a secret.
        """
        return (), {}

    @contextmanager
    def recording(self, run: Run) -> Iterator[Record]:
        """The record of ``run``, or of the one that is replayed, for the work of this process."""
        settings = self.settings
        names, variables = self.secrets()
        run.redactor = Redactor({**settings.environ, **variables}, names)
        run.rests_on = rests_on(settings, self.repository.root)
        self.progress.redact = clean = run.redactor.text
        path = self.replay or run.path_of(FILE)
        cache = earlier(run.path, FILE) if settings.models.cache and not self.replay else ()
        with Record.open(
            path,
            redact=clean,
            replay_only=bool(self.replay),
            cache=cache,
            on_answer=self.on_answer,
        ) as record:
            yield record

    @abstractmethod
    def __call__(self, run: Run, goal: str | None) -> tuple[int, str]:
        """Return the exit code and a line about the result. Raises RlmCiError once recorded."""


def without_runs(root: str, runs: str, out: str) -> tuple[str, ...]:
    return tuple(os.path.join(root, folder) for folder in (runs, out))
