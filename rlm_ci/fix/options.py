"""What a fix loop is to do, and what all of its steps share."""

from __future__ import annotations

import posixpath
import re

from rlm_ci.fix.gates.options import GateOptions
from rlm_ci.fix.loop import FixLimits
from rlm_ci.fix.rlms.trigger import RlmsOptions
from rlm_ci.system.command_line import Command
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.models.record.clock import RunClock
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.runs import Fact
    from rlm_ci.validators.validator import Validator
    from rlm_ci.workspace.sandboxed_commands import SandboxedCommands

#: Where a setup says what to install.
SETUP = "loop.setup"
#: A goal that says no more than "make it pass".
_ONLY_GREEN = re.compile(
    r"(?:please )?(?:(?:make|get) (?:it|(?:(?:all|of|the|my|our) )*(?:unit )?"
    r"(?:tests?|test suite|validator))(?: to)? (?:pass|(?:be )?green)(?: again)?"
    r"|fix (?:all |the )*(?:failing|broken) tests?|fix until green)[.!]*",
    re.IGNORECASE,
)


class FixOptions(Value):
    """The options of a run, which stay the same however often it is resumed.

    ``validator`` is the text of a command, None without one; ``mark`` a random word for the fences
    of the feedback.
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
    # Old runs have not recorded these:
    allow_no_change: bool = False
    #: Rules of the guard that may be broken.
    allow: tuple[str, ...] = ()
    #: Files that may be edited, whatever they decide.
    allow_edit: tuple[str, ...] = ()
    canary_minutes: float | None = None
    #: Validators to be tried where the first cannot run.
    others: tuple[str, ...] = ()
    #: For one command of the built-in agent; 0 where it may run none.
    command_seconds: float = 0
    #: For one turn of an external agent: after an hour it hangs (runs of older versions have
    #: recorded others). And the model that it is to ask; "" for its own choice.
    agent_minutes: float = 60
    agent_model: str = ""
    gates: GateOptions = GateOptions()
    #: The settings of analyses before turns, None for none; ``asked`` is whether label or trailer
    #: ask for them.
    rlms: Mapping[str, Any] | None = None
    asked: bool = False
    #: What the model reads.
    context_tokens: int | None = None
    #: Whether questions of the review have the schema of their answers.
    forms: bool = False

    #: Those of which a run can be given more.
    budgets = ("max_iterations", "max_minutes")

    @property
    def asks_model(self) -> bool:
        """Whether agent, analyses or review ask a model of ours."""
        return self.agent == "openai" or self.rlms is not None or self.gates.review

    @property
    def limits(self) -> FixLimits:
        return FixLimits(
            self.max_iterations,
            self.max_minutes,
            validated=self.validator is not None or self.gates.decide,
            allow_no_change=self.allow_no_change,
            has_validator=self.validator is not None,
            stuck_turns=self.gates.stuck_turns,
            only_green=self.only_green,
        )

    @property
    def allowed(self) -> tuple[str, ...]:
        """What the user allows, in words."""
        return (*self.allow, *(f"edits of {printable(path)}" for path in self.allow_edit))

    @property
    def only_green(self) -> bool:
        """Whether nothing is left to do once the validator passes."""
        is_wanted = _ONLY_GREEN.fullmatch(" ".join(self.goal.split())) is not None
        has_gates = self.gates.replace(review=False).required
        return is_wanted and self.validator is not None and not has_gates

    @property
    def analyses(self) -> RlmsOptions | None:
        """When an analysis runs before a turn; None if none does."""
        if self.rlms is None:
            return None
        return RlmsOptions(**{**self.rlms, "roles": tuple(self.rlms["roles"])})

    @property
    def validator_seconds(self) -> float:
        """For one run of the validator."""
        return self.validator_minutes * 60 or float("inf")

    @property
    def canary_seconds(self) -> float:
        """For all runs on changed tests together."""
        minutes = self.canary_minutes
        return self.validator_seconds if minutes is None else minutes * 60 or float("inf")

    def setup_command(self) -> Command | None:
        """Raises UsageError for a setup that is no command."""
        return Command.parse(self.setup, where=SETUP) if self.setup else None


class FixContext(Value):
    """What the steps of a run share.

    ``path_of`` places a file in the run's folder, ``shown`` is its path in messages.
    """

    options: FixOptions
    commands: SandboxedCommands
    validator: Validator | None
    fact: Fact
    clock: RunClock
    path_of: Callable[..., str]
    on_step: Callable[[str], None]
    redactor: Redactor
    shown: Callable[..., str] = posixpath.join

    def seconds_left(self, limit: float) -> float:
        """The seconds that a command may take, at least 1, so that the run ends when it must."""
        if self.options.max_minutes is None:
            return limit
        return min(limit, max(1.0, self.options.max_minutes * 60 - self.clock.seconds()))
