"""The options of an episode: those that its run began with, else what the settings say now."""

from __future__ import annotations

import os
import secrets

from rlm_ci.environments.names import CODING, REPL, environment_of
from rlm_ci.environments.repl.pool import Sessions
from rlm_ci.environments.rewards import RLMRewardProfile
from rlm_ci.errors import ConfigError
from rlm_ci.judge.options import models_of
from rlm_ci.lab import frameworks
from rlm_ci.lab.chat import ChatSession
from rlm_ci.lab.episodes.episode import EpisodeOptions
from rlm_ci.models.gateway import provider_of, require_endpoint
from rlm_ci.pipelines.agreed_context import agreed_context
from rlm_ci.sandbox import choose
from rlm_ci.text.printable import printable
from rlm_ci.validators import detect
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.lab.connectors import ConnectorModel
    from rlm_ci.lab.episodes.setups import Interpreter
    from rlm_ci.lab.event_bus import RLMEventBus
    from rlm_ci.lab.mcp.tools import McpServers
    from rlm_ci.lab.observability import RLMObservability
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.attempt import PipelineJob
    from rlm_ci.runs.run import Run
    from rlm_ci.sandbox.job import Sandbox

#: The place of code that an engine of the caller runs.
ENGINE = "engine"


class EpisodeCaller(Value):
    """What a Python program brings: a model, an interpreter, who follows the events, rewards.

    ``servers`` are the MCP servers of the user.
    """

    model: ConnectorModel | None = None
    interpreter: Interpreter | None = None
    bus: RLMEventBus | None = None
    observability: RLMObservability | None = None
    profile: RLMRewardProfile = RLMRewardProfile()
    max_parallelism: int | None = None
    servers: McpServers | None = None


class EpisodeTerms:
    """Agrees on the options of one run."""

    def __init__(self, work: PipelineJob, run: Run, record: Record, caller: EpisodeCaller) -> None:
        self._work = work
        self._settings = work.settings
        self._run = run
        self._record = record
        self._caller = caller
        self.sessions = Sessions(
            work.settings.sandbox, work.settings.environ, replay=bool(work.replay)
        )

    def agree(self, task: str) -> EpisodeOptions:
        """The options of the run: those of its record, else what the settings say now."""

        def produce() -> Mapping[str, Any]:
            settings, repository, caller = self._settings, self._work.repository, self._caller
            episode = settings.episode
            environment_of(episode.environment, settings.sources["episode.environment"])
            if caller.model is None:
                require_endpoint(models_of(settings), "set one of them")
                self._require_provider()
            kind = environment_of(episode.environment)
            framework = self._framework()
            if kind == REPL and episode.branch_width > 1:
                raise ConfigError(
                    "a REPL cannot try branches: its code asks models",
                    where=settings.sources["episode.branch_width"],
                    hint="leave --branch-width out, or use another environment",
                )
            sandbox, isolated = self._sandbox_of(kind)
            model = settings.model or (caller.model.model if caller.model else "")
            seconds = episode.time_budget_seconds
            options = settings.filled(
                EpisodeOptions,
                "episode",
                task=task,
                model=model,
                provider=caller.model.name if caller.model else provider_of(models_of(settings)),
                # None outside of git and before the first commit.
                head=repository.head_commit() if repository.git_dir else None,
                framework=framework,
                max_children=episode.max_children_per_step,
                max_minutes=None if seconds is None else seconds / 60,
                **agreed_context(self._work, model, caller.model).terms(),
                sandbox=sandbox,
                isolated=isolated,
                rewards=caller.profile.to_dict(),
                sub_model=episode.sub_model,
                engine=caller.interpreter is not None and kind != REPL,
                validator=self._validator() if kind == CODING else None,
                mark=secrets.token_hex(8),
                session=self._session_so_far(),
                mcp=self._mcp_tools(kind),
            )
            return options.to_dict()

        return self._record.shaped(
            "terms", "start", {}, produce, lambda terms: EpisodeOptions(**terms)
        )

    def _sandbox_of(self, kind: str) -> tuple[str, bool]:
        """Where code runs, and whether it is isolated there."""
        if kind == REPL:
            pool = self.sessions.pool()
            return pool.name, pool.isolated
        if self._caller.interpreter is not None and kind != CODING:
            return ENGINE, False
        sandbox = self.sandbox()
        return sandbox.name, sandbox.isolated

    def _framework(self) -> str | None:
        """The framework, which is installed. Raises ConfigError, UnavailableError."""
        episode, source = self._settings.episode, self._settings.sources["episode.framework"]
        if episode.framework in (None, "native"):
            return None
        name = frameworks.require(episode.framework, source)
        if episode.branch_width > 1 or environment_of(episode.environment) == REPL:
            what = "best of N" if episode.branch_width > 1 else "the REPL"
            raise ConfigError(
                f"a framework has its own loop, and {what} needs ours",
                where=source,
                hint="leave --framework out",
            )
        return name

    def _mcp_tools(self, kind: str) -> list[dict[str, Any]]:
        """The tools of the MCP servers. Raises ConfigError, UnavailableError."""
        servers = self._caller.servers
        if servers is None:
            return []
        if kind == REPL:
            raise ConfigError(
                "the code of a REPL has no tools of MCP servers",
                where=self._settings.sources["episode.mcp_config"],
                hint="leave --mcp-config out, or use another environment",
            )
        self._work.progress.step("starting the MCP servers")
        return servers.listed()

    def _require_provider(self) -> None:
        """Raise ConfigError where sub-calls are to go to another provider than the endpoint."""
        settings = self._settings
        provider, now = settings.episode.sub_provider, provider_of(models_of(settings))
        if provider not in (None, now):
            raise ConfigError(
                f"there is no provider {printable(provider)[:80]!r} here",
                where=settings.sources["episode.sub_provider"],
                hint=f"known: {now}, that of the endpoint; --sub-model names a model there",
            )

    def _validator(self) -> str | None:
        """The command of the tests, None where none is found."""
        validator = self._settings.loop.validator
        try:
            selection = detect.select(validator, detect.detect(self._work.repository.root))
        except detect.NoValidatorError as error:
            self._work.progress.say(f"run_tests is not there: {error.what}; {error.hint}")
            return None
        return selection.command.text if selection.command else None

    def sandbox(self) -> Sandbox:
        return choose(self._settings.sandbox, self._settings.environ)

    def session(self, session_id: str) -> ChatSession:
        task = os.path.dirname(os.path.dirname(self._run.path))
        return ChatSession(task, session_id)

    def _session_so_far(self) -> Mapping[str, Any] | None:
        session_id = self._settings.chat.session_id
        if session_id is None:
            return None
        record = self.session(session_id).read() or {"histories": [], "compacted_summaries": []}
        return {
            "id": session_id,
            "history": record["histories"],
            "summaries": record["compacted_summaries"],
            "takes_words": True,
        }
