"""Who works in an iteration: one agent for everything, or planner, reviser and critic in turn.

The roles of the triad are real turns, each with its own assignment. The planner looks and
writes a plan, the reviser edits, the critic looks at the difference and accepts it or sends
the reviser back, once; what it said is told to the next iteration. With subagents each has a
conversation of its own and gets the notes of those before; else they share one, as far as the
agent can keep one.
"""

from __future__ import annotations

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
NOTE_LIMIT = 4000

#: One agent for everything, or three roles, each in turns of its own.
MODES = ("single", "triad")


class RoleBrief(Value):
    """What every role is told. Texts from files and commands are quoted here, not before.

    ``feedback`` is what the validator said, ``changes`` which files differ from the start,
    ``findings`` what the guard holds against the result; ``protected`` are path patterns.
    """

    goal: str
    iteration: int
    validator: str = ""
    feedback: str = ""
    changes: str = ""
    findings: str = ""
    protected: tuple[str, ...] = ()
    allow_test_edits: bool = False

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
        }


class RoleNote(Value):
    """What a role said, for those who come after it."""

    role: str
    text: str

    def to_dict(self) -> dict[str, str]:
        return {"role": self.role, "text": quoted("Its answer", clip(self.text, NOTE_LIMIT))}


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
        """``diff`` tells what differs now from the start. Raises ConfigError for the mode."""
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
        #: What the critic said at the end of an iteration, for the next one.
        self._left: tuple[RoleNote, ...] = ()

    def perform(self, brief: RoleBrief) -> tuple[RoleTurn, ...]:
        """The turns of one iteration, in order. Raises whatever the agent raises."""
        scene = _RoleIteration(self, brief, self._left)
        if self._mode == "single":
            scene.turn("single")
            return tuple(scene.turns)
        scene.turn("planner", read_only=True)
        scene.turn("reviser")
        self._left = ()
        if not scene.is_accepted():
            self._left = (scene.notes[-1],)
            scene.turn("reviser")
        return tuple(scene.turns)

    def assign(
        self, role: str, brief: RoleBrief, prompt: str, conversation: list[Any], *, read_only: bool
    ) -> AgentOutcome:
        """Let the agent act in a role."""
        return self._agent.act(
            Assignment(
                goal=brief.goal,
                role=role,
                iteration=brief.iteration,
                prompt=prompt,
                workspace=self._workspace,
                conversation=[] if self._subagents else conversation,
                deadline=self._deadline,
                read_only=read_only,
                on_progress=self._on_progress,
            )
        )

    def difference(self) -> str:
        """What differs now from the start, quoted."""
        return quoted("The change so far", clip(self._diff(), DIFF_LIMIT)) or "Nothing differs yet."


class _RoleIteration:
    """One iteration: its turns, and what its roles have to tell each other."""

    def __init__(self, roles: Roles, brief: RoleBrief, notes: tuple[RoleNote, ...]) -> None:
        self._roles = roles
        self._brief = brief
        self._conversation: list[Any] = []
        self.notes = list(notes)
        self.turns: list[RoleTurn] = []

    def turn(self, role: str, *, read_only: bool = False, **more: object) -> AgentOutcome:
        """Let one role act, and keep what it said for those who come."""
        heard = bool(self._conversation)  # the agent keeps it: what was said is in it
        notes = [] if heard else [note.to_dict() for note in self.notes]
        variables = {"brief": self._brief.to_dict(), "notes": notes, "heard": heard, **more}
        prompt = loader.load_template(f"prompts/{role}.md.j2")(variables).strip() + "\n"
        outcome = self._roles.assign(
            role, self._brief, prompt, self._conversation, read_only=read_only
        )
        self.turns.append(RoleTurn(role, prompt, outcome))
        self.notes.append(RoleNote(role, outcome.summary or outcome.reason or "nothing"))
        return outcome

    def is_accepted(self) -> bool:
        """Ask the critic, once more if it gives no verdict; without one nothing is accepted."""
        for unclear in (False, True):
            difference = self._roles.difference()
            critic = self.turn("critic", read_only=True, diff=difference, unclear=unclear)
            verdict = verdict_of(critic.summary) or verdict_of(critic.output)
            if verdict:
                return verdict == "accept"
        return False


def verdict_of(text: str) -> str:
    """The verdict in a critic's answer: ``accept``, ``revise``, or "" when there is none."""
    for line in reversed(text.splitlines()):
        name, _, verdict = line.strip(" *`#_").casefold().partition(":")
        word = verdict.strip(" *`_.!")
        if name.strip(" *`") == "verdict" and word in ("accept", "revise"):
            return word
    return ""


def quoted(head: str, text: str) -> str:
    """``text`` as data under ``head``, in a fence that it cannot close; "" when there is none."""
    body = "\n".join(_visible(line) for line in text.strip("\n").split("\n"))
    return fenced(head, body) if body.strip() else ""


def _visible(line: str) -> str:
    return "\t".join(printable(part) for part in line.removesuffix("\r").split("\t"))
