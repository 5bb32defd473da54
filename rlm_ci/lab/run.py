"""The pipeline ``run``: one episode, from its options to its report."""

from __future__ import annotations

from rlm_ci.errors import UsageError
from rlm_ci.lab.attempt import EpisodeAttempt
from rlm_ci.lab.mcp import connection
from rlm_ci.lab.mcp.tools import McpServers
from rlm_ci.lab.terms import EpisodeCaller
from rlm_ci.pipelines import load
from rlm_ci.pipelines.job import without_runs
from rlm_ci.pipelines.verb_job import VerbJob
from rlm_ci.runs.cancel import MARK, end_leftovers
from rlm_ci.system import process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from rlm_ci.config.settings import Settings
    from rlm_ci.console.progress import Progress
    from rlm_ci.git.repository import Repository
    from rlm_ci.lab.episodes.node import EpisodeEnd
    from rlm_ci.lab.mcp.connection import McpProgram
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.attempt import RunAttempt
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.runs.run import Run


class EpisodeJob(VerbJob):
    """The pipeline ``run``. ``caller`` is empty for a command line; ``end`` is set at the end."""

    def __init__(self, *args: Any, caller: EpisodeCaller | None = None, **more: Any) -> None:
        super().__init__(*args, **more)
        self.caller = caller or EpisodeCaller()
        self.end: EpisodeEnd | None = None
        #: The MCP servers that the user has named.
        self._programs: tuple[McpProgram, ...] = ()

    def prepare(self, run: Run, goal: str | None) -> None:
        """Read the file of MCP servers; a replay starts none. Raises ConfigError, UsageError."""
        if not goal or not goal.strip():
            raise UsageError("there is no task", where="TASK", hint='add it: rlm-ci run "TASK"')
        options = self.settings.episode
        if options.mcp_config and not self.replay:
            environ = {**self.settings.environ, MARK: run.id}
            self._programs = connection.load(
                options.mcp_config, environ, root=self.repository.root, server=options.mcp_server
            )

    def secrets(self) -> tuple[Iterable[str], Mapping[str, str]]:
        return (), {
            f"{program.name} {name}": text
            for program in self._programs
            for name, text in program.file_variables.items()
        }

    def attempt(self, run: Run, goal: str, record: Record) -> RunAttempt:
        with McpServers(self._programs) as servers:
            caller = self.caller.replace(servers=servers) if self._programs else self.caller
            attempt = EpisodeAttempt(self, run, goal, record, caller).carry_out()
        if self._programs:
            end_leftovers(run.id)
        self.end = attempt.end
        return attempt


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
