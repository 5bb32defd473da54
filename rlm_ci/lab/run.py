"""The pipeline ``run``: one episode, from its options to its report."""

from __future__ import annotations

from rlm_ci.errors import UsageError
from rlm_ci.judge.options import output_of
from rlm_ci.lab.attempt import EpisodeAttempt
from rlm_ci.lab.mcp import configuration
from rlm_ci.lab.mcp.tools import McpServers
from rlm_ci.lab.terms import EpisodeCaller
from rlm_ci.pipelines import load
from rlm_ci.pipelines.job import PipelineJob, without_runs
from rlm_ci.runs.cancel import MARK, end_leftovers
from rlm_ci.runs.manifest import BUDGETS, PAUSED
from rlm_ci.system import files, process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.config.settings import Settings
    from rlm_ci.console.progress import Progress
    from rlm_ci.git.repository import Repository
    from rlm_ci.lab.episodes.node import EpisodeEnd
    from rlm_ci.lab.mcp.configuration import McpProgram
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.run import Run


class EpisodeJob(PipelineJob):
    """The pipeline ``run``. ``caller`` is empty for a command line; ``end`` is set at the end."""

    def __init__(self, *args: Any, caller: EpisodeCaller | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.caller = caller or EpisodeCaller()
        self.end: EpisodeEnd | None = None

    def __call__(self, run: Run, goal: str | None) -> tuple[int, str]:
        """The exit code, and a line about the end. Raises RlmCiError, once it is stored."""
        if not goal or not goal.strip():
            raise UsageError("there is no task", where="TASK", hint='add it: rlm-ci run "TASK"')
        programs = self._programs(run)
        given = {f"{one.name} {name}": text for one in programs for name, text in one.own.items()}
        with (
            self.recording(run, more=given) as record,
            McpServers(programs) as servers,
        ):
            caller = self.caller.replace(servers=servers) if programs else self.caller
            attempt = EpisodeAttempt(self, run, record, caller)
            self.report = attempt.carry_out(run.redactor.text(goal))
        if programs:
            end_leftovers(run.id)
        for name, pieces in output_of(self.settings).rendered(self.report):
            files.write(run.path_of(name), pieces, 0o600)
        if attempt.error is not None:
            run.detail = PAUSED if attempt.goes_on else None
            raise attempt.error
        self.end = end = attempt.end
        if end is None:
            raise RuntimeError("an attempt without an error has an end")
        run.detail = end.budget if end.budget in BUDGETS else None
        return self.report.exit_code(), self.report.parts[0].summary

    def _programs(self, run: Run) -> tuple[McpProgram, ...]:
        """The MCP servers that the user has named; a replay starts none. Raises ConfigError."""
        told = self.settings.episode
        if not told.mcp_config or self.replay:
            return ()
        environ = {**self.settings.environ, MARK: run.id}
        root = self.repository.root
        return configuration.load(told.mcp_config, environ, root=root, wanted=told.mcp_server)


def make(
    settings: Settings,
    repository: Repository,
    runs: StoredRuns,
    progress: Progress,
    replay: str | None = None,
    *,
    caller: EpisodeCaller | None = None,
) -> EpisodeJob:
    """The job that the settings and the config file describe.

    Raises ConfigError, also if the change's code must not run.
    """
    process.harden()
    load.configure(settings, repository, "an episode")
    return EpisodeJob(
        settings,
        repository,
        progress,
        skipped=without_runs(runs.root, settings.runs_dir, settings.out_dir),
        replay=replay,
        caller=caller,
    )
