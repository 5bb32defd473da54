"""The built-in pipelines by name."""

from __future__ import annotations

from rlm_ci.judge.judge import open_repository
from rlm_ci.pipelines import attempt, definition, stored_runs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.config.settings import Settings
    from rlm_ci.console.progress import Progress
    from rlm_ci.pipelines.attempt import PipelineJob
    from rlm_ci.pipelines.runner import Action
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.request import RunRequest
    from rlm_ci.runs.run import Run


def make(
    name: str,
    settings: Settings,
    runs: StoredRuns,
    progress: Progress,
    replay: str | None = None,
) -> PipelineJob:
    """The job of the pipeline ``name``. Raises ConfigError.

    With ``replay``, the record of another run, no model is asked.
    """
    repository = open_repository(settings)
    return _maker(name)(settings, repository, runs, progress, replay)


def _maker(name: str) -> Callable[..., PipelineJob]:
    if name == "rlm":
        from rlm_ci.solve import pipeline

        return pipeline.make
    if name == definition.BENCH:
        from rlm_ci.lab.bench import run as bench

        return bench.make
    if name == definition.EPISODE:
        from rlm_ci.lab import run

        return run.make
    from rlm_ci.pipelines.repository.attempt import making

    return making(job_type(name))


def job_type(name: str) -> Any:
    """The class of the jobs of a pipeline that keeps a record of calls; None for others."""
    if name == "rlm":
        from rlm_ci.solve.pipeline import RlmJob

        return RlmJob
    if name == definition.EPISODE:
        from rlm_ci.lab.run import EpisodeJob

        return EpisodeJob
    if name == "review":
        from rlm_ci.review.run import ReviewJob

        return ReviewJob
    if name == "wiki":
        from rlm_ci.wiki.run import WikiJob

        return WikiJob
    return None


def actions(
    request: RunRequest,
    flags: Mapping[str, Any],
    runs: StoredRuns,
    progress: Progress,
    done: list[PipelineJob],
) -> dict[str, Action]:
    """The built-in pipelines for a stored run; their jobs are added to ``done``."""

    def action(name: str) -> Action:
        def carry_out(run: Run, goal: str | None) -> tuple[int, str]:
            settings = stored_runs.settings_of({**request.flags, **flags})
            work = make(name, settings, runs, progress)
            work.more = attempt.budgets_set(settings, flags)
            done.append(work)
            return work(run, goal)

        return carry_out

    return {name: action(name) for name in (*definition.BUILT_IN, definition.BENCH)}
