"""The base of our own pipelines' jobs, and what each job gets."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rlm_ci.config.settings import Settings
    from rlm_ci.console.progress import Progress
    from rlm_ci.git.repository import Repository
    from rlm_ci.models.record.record import OnAnswer
    from rlm_ci.report.findings import Report
    from rlm_ci.runs.run import Run


class Mode(Value):
    """How to reach a goal, and why this way."""

    name: str
    reason: str


class PipelineJob(ABC):
    """Carries out a pipeline in a run that this process holds; sets ``report`` at the end.

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
        #: Gets each request that has an answer, and its place; see ``Record.open``.
        self.on_answer: OnAnswer | None = None
        #: The budgets that ``resume`` increases; see ``budget_increase``.
        self.more: Mapping[str, float | None] = {}

    @property
    def tells(self) -> bool:
        """Whether the user asked for the report itself, not for another result."""
        return True

    @abstractmethod
    def __call__(self, run: Run, goal: str | None) -> tuple[int, str]:
        """Return the exit code and a line about the result. Raises RlmCiError once recorded."""


def without_runs(root: str, runs: str, out: str) -> tuple[str, ...]:
    return tuple(os.path.join(root, folder) for folder in (runs, out))
