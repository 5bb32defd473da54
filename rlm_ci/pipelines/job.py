"""One of our own pipelines at work in a run: what each of them is given."""

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
    from rlm_ci.report.findings import Report
    from rlm_ci.runs.run import Run


class Mode(Value):
    """How a goal is gone about, and why so."""

    name: str
    reason: str


class PipelineJob(ABC):
    """Carries out a pipeline in a run that is held; ``report`` is there once it has ended.

    ``skipped`` are folders in which rlm-ci itself writes: no part of the work tree. ``ask`` puts
    a question to a person, None where nobody is there. With ``replay``, the record of another
    run, no command is run and no model asked.
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
        #: What the run is given more of from here on; see ``budget_increase``.
        self.more: Mapping[str, float | None] = {}

    @property
    def tells(self) -> bool:
        """Whether the report is what was asked for, and not only how it went."""
        return True

    @abstractmethod
    def __call__(self, run: Run, goal: str | None) -> tuple[int, str]:
        """The exit code, and a line about the end. Raises RlmCiError, after it is written down."""


def without_runs(root: str, runs: str, out: str) -> tuple[str, ...]:
    return tuple(os.path.join(root, folder) for folder in (runs, out))
