"""The validator, the agent and the model of a fix loop, by the options of the run."""

from __future__ import annotations

import os
from collections import Counter

from rlm_ci.agents import agent as agents
from rlm_ci.agents.agent import AgentOutcome
from rlm_ci.agents.autofix import AutofixAgent
from rlm_ci.agents.external import ExternalAgent
from rlm_ci.errors import ConfigError, DamagedError, UnavailableError
from rlm_ci.judge.options import models_of
from rlm_ci.models.gateway import Gateway
from rlm_ci.system.command_line import Command
from rlm_ci.text.object_id import is_object_id
from rlm_ci.validators.validator import Validator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci import sandbox
    from rlm_ci.agents.agent import Agent, Assignment
    from rlm_ci.config.settings import Settings
    from rlm_ci.fix.options import FixOptions
    from rlm_ci.fix.sandboxed_commands import SandboxedCommands
    from rlm_ci.models.record.clock import RunClock
    from rlm_ci.models.record.record import Record
    from rlm_ci.runs import Fact
    from rlm_ci.workspace.workspace import Workspace

    #: Runs the validator for tests named by paths or ids; what it says.
    Tests = Callable[[tuple[str, ...]], str]

_BUDGETS = ("max_calls", "max_tokens", "budget_usd")


class Participants:
    """Makes the validator and the agent of a run. In a ``replay`` they do nothing new."""

    def __init__(
        self,
        settings: Settings,
        options: FixOptions,
        commands: SandboxedCommands,
        record: Record,
        redact: Callable[[str], str],
        *,
        replay: bool = False,
    ) -> None:
        self._settings = settings
        self._options = options
        self._commands = commands
        self._record = record
        self._redact = redact
        self._replay = replay

    def validator(self) -> Validator | None:
        """The validator of the run, if any."""
        if self._options.validator is None:
            return None

        def exists(path: str) -> bool:
            return os.path.isfile(os.path.join(self._commands.root, path))

        return Validator(
            Command.parse(self._options.validator),
            root=self._commands.place,
            exists=exists,
            redact=self._redact,
            find=self._find,
            mark=self._options.mark,
            trust_exit_code=self._options.trust_exit_code,
        )

    def _find(self, program: str) -> str | None:
        """Where a program is; a replay asks for none that was not there."""
        return program if self._replay else self._commands.find(program)

    def agent(self, clock: RunClock, tests: Tests | None) -> Agent:
        """The agent of the run. Raises ConfigError for budgets that cannot hold."""
        name = self._options.agent
        if name == "openai":
            return self._coder(clock, tests)  # its completions are facts
        agent: Agent
        if name == "autofix":
            validator = self._options.validator or ""
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
                confined=self._options.isolated,
            )
        settings = self._settings
        given = [name for name in _BUDGETS if settings.sources[name] != "default"]
        agents.require_metered(agent, {name: getattr(settings, name) for name in given})
        return RecordedAgent(agent, self._record.fact, self._commands.workspace)

    @property
    def roles_from(self) -> str:
        """Where the roles come from: the settings, unless the run began with others."""
        source = str(self._settings.sources["loop.roles"])
        is_same = self._settings.loop.roles == self._options.roles
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

        options = self._options
        gateway = Gateway(
            models_of(self._settings),
            self._record,
            clock,
            model=options.model,
            max_minutes=options.max_minutes,
            provider=options.provider,
            replay=self._replay,
        )
        return BuiltinAgent(
            gateway.complete,
            self._record.fact,
            model=gateway.model,
            tests=tests,
            bounds=TurnLimits(max_tokens=options.max_completion_tokens),
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


class RecordedAgent:
    """An agent whose every assignment is one fact, with the tree that it left behind."""

    def __init__(self, agent: Agent, fact: Fact, copy: Workspace) -> None:
        self.name = agent.name
        self.metered = agent.metered
        self._agent = agent
        self._fact = fact
        self._copy = copy
        self._acts: Counter[str] = Counter()

    def act(self, task: Assignment) -> AgentOutcome:
        """As the agent does, or did. Raises what it raises."""
        place = f"iteration-{task.iteration}/{task.role}"
        self._acts[place] += 1
        place = f"{place}-{self._acts[place]}"
        key = {"agent": self.name, "prompt": task.prompt, "tree": self._copy.settled_tree()}

        def produce() -> Mapping[str, Any]:
            outcome = self._agent.act(task)
            self._copy.settled = None
            tree = self._copy.settled_tree()
            return {
                "exit_code": outcome.exit_code,
                "summary": outcome.summary,
                "output": outcome.output,
                "reason": outcome.reason,
                "tree": tree,
                "removed": [[one.path, one.reason] for one in self._copy.removed_at(tree)],
            }

        told = self._fact("agent", place, key, produce)
        if not is_object_id(told.get("tree")):  # it is put on command lines
            raise _damaged("the agent left something that is not a tree", place)
        if self._copy.settled != told["tree"]:
            self._copy.restore(told["tree"])
            self._copy.settled = told["tree"]
        removed = told.get("removed", [])
        if any([type(one) for one in pair] != [str, str] for pair in removed):
            raise _damaged("something was taken out of the copy which has no name", place)
        self._copy.recall(told["tree"], removed)
        return AgentOutcome(told["exit_code"], told["summary"], told["output"], told["reason"])


def _damaged(what: str, place: str) -> DamagedError:
    hint = "start a new run"
    return DamagedError(f"the record says that {what}", where=f"agent, {place}", hint=hint)
