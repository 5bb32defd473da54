"""The validator, the agent and the model of a fix loop, by the options of the run."""

from __future__ import annotations

from collections import Counter

from rlm_ci.agents import agent as agents
from rlm_ci.agents.agent import AgentOutcome
from rlm_ci.agents.autofix import AutofixAgent
from rlm_ci.agents.builtin import BuiltinAgent
from rlm_ci.agents.external import ExternalAgent
from rlm_ci.environments.turn_loop import TurnLimits
from rlm_ci.system.command_line import Command
from rlm_ci.validators.validator import Validator
from rlm_ci.values import Value
from rlm_ci.workspace.recorded_change import recorded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.agents.agent import Agent, Assignment
    from rlm_ci.environments.coding.tools import Services
    from rlm_ci.fix.options import FixContext, FixOptions
    from rlm_ci.models.gateway import Gateway
    from rlm_ci.models.record.record import Record
    from rlm_ci.runs import Fact
    from rlm_ci.workspace.sandboxed_commands import SandboxedCommands
    from rlm_ci.workspace.workspace import Workspace


class AgentOptions(Value):
    """What the settings of today say of an agent, beside the options of the run.

    ``env``: the variables of an external agent. ``budgets``: those that somebody has set.
    ``roles_from``: the setting that names the roles.
    """

    env: Mapping[str, str]
    budgets: Mapping[str, Any]
    roles_from: str


def validator_of(
    options: FixOptions,
    commands: SandboxedCommands,
    redact: Callable[[str], str],
    find: Callable[[str], str | None],
) -> Validator | None:
    """The validator of the run, if any. ``find`` tells where the sandbox finds a program."""
    if options.validator is None:
        return None
    command = Command.parse(options.validator)
    by_code = options.trust_exit_code
    return Validator.over(
        commands, command, redact, find=find, mark=options.mark, trust_exit_code=by_code
    )


def agent_of(
    context: FixContext,
    today: AgentOptions,
    record: Record,
    find: Callable[[str], str | None],
    services: Services,
    *,
    gateway: Gateway | None,
) -> Agent:
    """The agent of the run.

    Raises ConfigError for budgets that the agent cannot keep, UnavailableError for its program.
    """
    options, redact = context.options, context.redactor.text
    if options.agent == "openai" and gateway is not None:  # its completions are facts
        return BuiltinAgent(
            gateway.complete,
            record.fact,
            model=gateway.model,
            services=services,
            bounds=TurnLimits(max_tokens=options.max_completion_tokens),
            context_tokens=options.context_tokens,
        )
    agent: AutofixAgent | ExternalAgent
    if options.agent == "autofix":
        agent = AutofixAgent(
            find=find,
            redact=redact,
            validator=options.validator or "",
            roles_from=today.roles_from,
        )
    else:
        agent = ExternalAgent(
            options.agent,
            env=today.env,
            find=find,
            redact=redact,
            confined=options.isolated,
            model=options.agent_model,
            seconds=options.agent_minutes * 60 or float("inf"),
        )
        agent.require_installed()  # before a validator takes its time
    agents.require_metered(agent, today.budgets)
    return RecordedAgent(agent, record.fact, context.commands.workspace)


class RecordedAgent:
    """An agent whose every assignment is one fact, with the tree that it left behind."""

    def __init__(self, agent: Agent, fact: Fact, copy: Workspace) -> None:
        self.name = agent.name
        self.metered = agent.metered
        self._agent = agent
        self._fact = fact
        self._copy = copy
        self._acts: Counter[str] = Counter()
        #: What its turns used, if rlm-ci does not see it; None for what one of them does not tell.
        self.used: dict[str, float | None] = {}
        self._is_unseen = isinstance(agent, ExternalAgent)

    def act(self, task: Assignment) -> AgentOutcome:
        """As the agent does, or did. Raises what it raises."""
        step = f"iteration-{task.iteration}/{task.role}"
        self._acts[step] += 1
        step = f"{step}-{self._acts[step]}"
        key = {"agent": self.name, "prompt": task.prompt}

        def produce() -> Mapping[str, Any]:
            outcome = self._agent.act(task)
            return {
                "exit_code": outcome.exit_code,
                "summary": outcome.summary,
                "output": outcome.output,
                "reason": outcome.reason,
                **({"usage": dict(outcome.usage)} if outcome.usage else {}),
            }

        fact = recorded(self._fact, self._copy, ("agent", step), key, produce)
        usage = fact.get("usage", {})
        for name in ("prompt_tokens", "completion_tokens", "cost_usd") if self._is_unseen else ():
            before, more = self.used.get(name, 0), usage.get(name)
            self.used[name] = None if before is None or more is None else before + more
        return AgentOutcome(
            fact["exit_code"], fact["summary"], fact["output"], fact["reason"], usage=usage
        )
