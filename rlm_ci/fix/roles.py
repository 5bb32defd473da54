"""The roles of an iteration: one agent for everything, or planner, reviser and critic in turn.

The planner writes a plan, the reviser edits, the critic looks at the difference and accepts it or
sends the reviser back, once; the next iteration sees what it said. With subagents each has a
conversation of its own and gets the notes of the others; else they share one, which goes on over
the iterations.
"""

from __future__ import annotations

import re

from rlm_ci.agents.agent import Assignment
from rlm_ci.errors import ConfigError
from rlm_ci.resources import loader
from rlm_ci.text.printable import clip, encodable, fenced, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlm_ci.agents.agent import Agent, AgentOutcome, AgentWorkspace

#: Characters of a goal, of feedback, of a difference and of a note in a prompt.
GOAL_LIMIT = 20_000
FEEDBACK_LIMIT = 16_000
DIFF_LIMIT = 24_000
CHANGE_LIMIT = 8_000
NOTE_LIMIT = 4000

#: A line with a verdict, whatever Markdown is around it.
_VERDICT = re.compile(
    r"^[ *`#_]*verdict[ *`]*:[ *`_.!]*(accept|revise)[ *`_.!#]*\r?$", re.IGNORECASE | re.MULTILINE
)
#: One agent for everything, or three roles, each in turns of its own.
MODES = ("single", "triad")


class RoleBrief(Value):
    """The variables of every role's prompt. ``to_dict`` quotes texts of files and commands.

    ``passes`` and ``feedback`` are what the validator said, ``changes`` which files differ from the
    start, ``findings`` what the guard holds against the result; ``protected`` are path patterns.
    """

    goal: str
    iteration: int
    validator: str = ""
    feedback: str = ""
    changes: str = ""
    findings: str = ""
    protected: tuple[str, ...] = ()
    allow_test_edits: bool = False
    passes: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The variables of the templates: bounded, and quoted where others wrote them."""
        return {
            "goal": encodable(clip(self.goal, GOAL_LIMIT)),
            "iteration": self.iteration,
            "validator": printable(self.validator[:500]).replace("`", "'"),
            "feedback": quoted("What the validator said", clip(self.feedback, FEEDBACK_LIMIT)),
            "changes": quoted("Files changed so far", clip(self.changes, NOTE_LIMIT)),
            "findings": quoted("What the guard found", clip(self.findings, NOTE_LIMIT)),
            "protected": [f"`{printable(one)}`" for one in self.protected],
            "allow_test_edits": self.allow_test_edits,
            "passes": self.passes,
        }


class RoleTurn(Value):
    """One assignment that was carried out: what was asked, and what came of it."""

    role: str
    prompt: str
    outcome: AgentOutcome


class Roles:
    """An agent in its roles: ``perform`` is one iteration's work."""

    def __init__(
        self,
        agent: Agent,
        workspace: AgentWorkspace,
        *,
        mode: str = "single",
        subagents: bool = False,
        diff: Callable[[], str],
        deadline: float | None = None,
        on_progress: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """``diff`` returns the changes since the start. Raises ConfigError for the mode."""
        if mode not in MODES:
            raise ConfigError(
                f"there is no role mode '{printable(mode[:100])}'",
                where="loop.roles",
                hint=f"known: {', '.join(MODES)}",
            )
        self._agent = agent
        self._workspace = workspace
        self._mode = mode
        self._subagents = subagents
        self._diff = diff
        self._deadline = deadline
        self._on_progress = on_progress
        self._conversation: list[Any] = []
        self._turns: list[RoleTurn] = []
        #: What each role said in this iteration, after what the critic said in the last one.
        self._notes: list[dict[str, str]] = []

    def perform(self, brief: RoleBrief) -> tuple[RoleTurn, ...]:
        """The turns of one iteration, in order. Raises the errors of the agent."""
        self._turns = []
        left: list[dict[str, str]] = []
        if self._mode == "single":
            self._turn("single", brief)
        else:
            self._turn("planner", brief, read_only=True)
            edited = self._turn("reviser", brief)
            if not edited.blocked and not self._is_accepted(brief):
                left = self._notes[-1:]
                self._turn("reviser", brief)
        self._notes = left
        return tuple(self._turns)

    def _turn(
        self, role: str, brief: RoleBrief, *, read_only: bool = False, **more: object
    ) -> AgentOutcome:
        """Let one role act, and keep what it said for the next ones."""
        heard = bool(self._conversation)  # the agent keeps it: what was said is in it
        notes = [] if heard else self._notes
        variables = {
            "brief": brief.to_dict(),
            "notes": notes,
            "heard": heard,
            "so_far": self._so_far() if heard and not self._turns else None,
            "summary_line": not self._agent.metered,  # the built-in agent ends by a tool
            **more,
        }
        prompt = loader.load_template(f"prompts/{role}.md.j2")(variables).strip() + "\n"
        outcome = self._agent.act(
            Assignment(
                role=role,
                iteration=brief.iteration,
                prompt=prompt,
                workspace=self._workspace,
                conversation=[] if self._subagents else self._conversation,
                deadline=self._deadline,
                read_only=read_only,
                on_progress=self._on_progress,
            )
        )
        self._turns.append(RoleTurn(role, prompt, outcome))
        said = outcome.summary or outcome.reason or "nothing"
        self._notes.append({"role": role, "text": quoted("Its answer", clip(said, NOTE_LIMIT))})
        return outcome

    def _so_far(self) -> str:
        """The change as a conversation sees it that goes on with the next iteration."""
        return quoted("The change so far", clip(self._diff(), CHANGE_LIMIT))

    def _is_accepted(self, brief: RoleBrief) -> bool:
        """Ask the critic, once more if it gives no verdict; without one nothing is accepted."""
        for unclear in (False, True):
            change = quoted("The change so far", clip(self._diff(), DIFF_LIMIT))
            diff = change or "Nothing differs yet."
            critic = self._turn("critic", brief, read_only=True, diff=diff, unclear=unclear)
            verdict = verdict_of(critic.summary) or verdict_of(critic.output)
            if verdict:
                return verdict == "accept"
        return False


def verdict_of(text: str) -> str:
    """The verdict in a critic's answer: ``accept``, ``revise``, or "" when there is none."""
    found = _VERDICT.findall(text)
    return found[-1].lower() if found else ""


def quoted(head: str, text: str) -> str:
    """``text`` as data under ``head``, in a fence that it cannot close; "" when there is none."""
    body = "\n".join(_visible(line) for line in text.strip("\n").split("\n"))
    return fenced(head, body) if body.strip() else ""


def _visible(line: str) -> str:
    return "\t".join(printable(part) for part in line.removesuffix("\r").split("\t"))
