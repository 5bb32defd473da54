"""The job of a recursion over a repository, which review and wiki share."""

from __future__ import annotations

import os

from rlm_ci.console.messages import warn
from rlm_ci.judge.options import models_of
from rlm_ci.models.gateway import require_endpoint
from rlm_ci.pipelines.job import without_runs
from rlm_ci.pipelines.repository import scope
from rlm_ci.pipelines.repository.attempt import RepositoryAttempt, address
from rlm_ci.pipelines.repository.plan import RepositoryVerb
from rlm_ci.pipelines.repository.tree_progress import TreeWatcher
from rlm_ci.system import files, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from rlm_ci.config.settings import Settings
    from rlm_ci.console.progress import Progress
    from rlm_ci.git.repository import Repository
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.attempt import RunAttempt
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.run import Run

    Kind = TypeVar("Kind", bound="RepositoryJob")

#: The budgets in GitHub Actions if the user sets none.
_IN_ACTIONS = (("recursion.max_minutes", 50.0), ("max_calls", 300))


class RepositoryJob(RepositoryVerb):
    """Carries out a review or a wiki in a run that this process holds; sets ``report`` at the end.

    ``skipped`` are folders in which rlm-ci itself writes. With ``replay``, the record of another
    run, no model is asked.
    """

    def prepare(self, run: Run, goal: str | None) -> None:  # noqa: ARG002 - it has no goal
        for key, value in _IN_ACTIONS if self.settings.github.actions else ():
            if self.settings.sources[key] == "default":
                self.settings.values[key] = value
        self.progress.watch(TreeWatcher(run.path, self.name).facts)

    def attempt(self, run: Run, goal: str, record: Record) -> RunAttempt:  # noqa: ARG002
        return RepositoryAttempt(self, run, record).carry_out()

    def deliver(self, run: Run) -> None:
        run.event("progress", {"summary": "all is in the folder of the run"})
        page = ("rlm", "artifacts", self.name, "report.md")
        if os.path.isfile(run.path_of(*page)):
            self.places.append(f"report: {files.shown_path(run.path_of(*page))}")


def _prepare(settings: Settings, repository: Repository) -> None:
    """Apply the configuration of the repository. Raises ConfigError."""
    from rlm_ci.judge import config_file
    from rlm_ci.pipelines import load

    process.harden()
    scope.require_tree(repository)
    for change in load.changes_of(settings, repository):
        for doubt in config_file.apply(settings, change):
            warn(doubt)
    address(settings)


def making(kind: type[Kind]) -> Callable[..., Kind]:
    """A function for ``registry.make`` that makes a job of this kind; it raises ConfigError."""

    def make(
        settings: Settings,
        repository: Repository,
        runs: StoredRuns,
        progress: Progress,
        replay: str | None = None,
    ) -> Kind:
        _prepare(settings, repository)
        if replay is None and settings.sources["model"] == "--model":
            require_endpoint(models_of(settings), "set its key, or leave --model out")
        skipped = without_runs(runs.root, settings.runs_dir, settings.out_dir)
        return kind(settings, repository, progress, skipped=skipped, replay=replay)

    return make
