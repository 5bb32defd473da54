"""Who takes part in a fix loop: its validator, its agent, its model, by the settings of the run."""

from __future__ import annotations

import os

from rlm_ci.agents import agent as agents
from rlm_ci.agents.autofix import AutofixAgent
from rlm_ci.agents.external import ExternalAgent
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.fix.step_records import RecordedAgent, UnrecordedAgent
from rlm_ci.judge.options import models_of
from rlm_ci.models.gateway import Gateway
from rlm_ci.system.command_line import Command
from rlm_ci.validators.validator import Validator
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlm_ci import sandbox
    from rlm_ci.agents.agent import Agent
    from rlm_ci.config.settings import Settings
    from rlm_ci.fix.sandboxed_commands import SandboxedCommands
    from rlm_ci.models.record.clock import RunClock
    from rlm_ci.models.record.record import Record

    #: Runs the validator for tests named by paths or ids; what it says.
    Tests = Callable[[tuple[str, ...]], str]

_BUDGETS = ("max_calls", "max_tokens", "budget_usd")


class FixOptions(Value):
    """What holds for a run from its first moment on, however often it is resumed.

    ``validator`` is the text of a command, None without one; ``mark`` a word that nobody could
    know before, for the fences of the feedback.
    """

    goal: str
    validator: str | None
    reason: str
    max_iterations: float | None
    max_minutes: float | None
    validator_minutes: float
    setup: str | None
    roles: str
    subagents: bool
    agent: str
    model: str | None
    provider: str
    max_completion_tokens: int
    allow_test_edits: bool
    trust_exit_code: bool
    sandbox: str
    isolated: bool
    mark: str
    # No terms of a run from before there were any:
    allow_no_change: bool = False
    #: Rules of the guard that may be broken.
    allow: tuple[str, ...] = ()
    canary_minutes: float | None = None
    #: Validators to be tried where the first cannot run.
    others: tuple[str, ...] = ()

    #: Those of the terms of which a run can be given more.
    budgets = ("max_iterations", "max_minutes")

    def to_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._fields}


class Participants:
    """Makes those who take part in one run. In a ``replay`` none of them does anything new."""

    def __init__(
        self,
        settings: Settings,
        agreed: FixOptions,
        commands: SandboxedCommands,
        record: Record,
        redact: Callable[[str], str],
        *,
        replay: bool = False,
    ) -> None:
        self._settings = settings
        self._agreed = agreed
        self._commands = commands
        self._record = record
        self._redact = redact
        self._replay = replay

    def validator(self) -> Validator | None:
        """The validator that was agreed on, if any."""
        if self._agreed.validator is None:
            return None

        def exists(path: str) -> bool:
            return os.path.isfile(os.path.join(self._commands.root, path))

        return Validator(
            Command.parse(self._agreed.validator),
            root=self._commands.place,
            exists=exists,
            redact=self._redact,
            find=self._find,
            mark=self._agreed.mark,
            trust_exit_code=self._agreed.trust_exit_code,
        )

    def _find(self, program: str) -> str | None:
        """Where a program is; a replay asks for none that was not there."""
        return program if self._replay else self._commands.find(program)

    def agent(self, clock: RunClock, tests: Tests | None) -> Agent:
        """The agent that was agreed on. Raises ConfigError for budgets that cannot hold."""
        name = self._agreed.agent
        if name == "openai":
            return UnrecordedAgent(self._coder(clock, tests), self._commands.workspace)
        agent: Agent
        if name == "autofix":
            validator = self._agreed.validator or ""
            agent = AutofixAgent(
                find=self._find,
                redact=self._redact,
                validator=validator,
                roles_from=self.roles_from,
            )
        else:
            env = {} if self._replay else self._granted()
            agent = ExternalAgent(
                name,
                env=env,
                find=self._find,
                redact=self._redact,
                confined=self._agreed.isolated,
            )
        settings = self._settings
        given = [name for name in _BUDGETS if settings.sources[name] != "default"]
        agents.require_metered(agent, {name: getattr(settings, name) for name in given})
        return RecordedAgent(agent, self._record.fact, self._commands.workspace)

    @property
    def roles_from(self) -> str:
        """Who has set the roles: the settings know it, unless the run began with others."""
        source = str(self._settings.sources["loop.roles"])
        is_same = self._settings.loop.roles == self._agreed.roles
        return source if is_same else "loop.roles, when the run began"

    def _granted(self) -> dict[str, str]:
        """The variables that an external agent is given, by name. Raises ConfigError."""
        environ = self._settings.environ
        missing = [name for name in self._settings.loop.agent_env if name not in environ]
        if missing:
            raise ConfigError(
                f"{missing[0]} is in loop.agent_env, but is not set",
                where=self._settings.sources["loop.agent_env"],
                hint="set it, or remove it from loop.agent_env",
            )
        return {name: environ[name] for name in self._settings.loop.agent_env}

    def _coder(self, clock: RunClock, tests: Tests | None) -> Agent:
        from rlm_ci.agents.builtin.agent import BuiltinAgent
        from rlm_ci.agents.builtin.turn_loop import TurnLimits

        agreed = self._agreed
        gateway = Gateway(
            models_of(self._settings),
            self._record,
            clock,
            model=agreed.model,
            max_minutes=agreed.max_minutes,
            provider=agreed.provider,
            replay=self._replay,
        )
        return BuiltinAgent(
            gateway.complete,
            self._record.fact,
            model=gateway.model,
            tests=tests,
            bounds=TurnLimits(max_tokens=agreed.max_completion_tokens),
        )


class ReplaySandbox:
    """The sandbox of a replay: nothing is run in it."""

    name = "replay"
    isolated = True

    def run(self, job: sandbox.SandboxJob, **_options: object) -> sandbox.StreamResult:
        raise UnavailableError(
            f"a replay runs no command, but {job.argv[0]} is needed",
            hint="replay with the version and the settings that the run had",
        )
