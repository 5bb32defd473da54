"""What the prompts of roles are made of: the task, notes of other roles, analyses."""

from __future__ import annotations

from rlm_ci.text.printable import clip, encodable, fenced, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.agents.agent import AgentOutcome

#: Characters of a goal, of feedback, of a difference and of a note in a prompt.
GOAL_LIMIT = 20_000
FEEDBACK_LIMIT = 16_000
DIFF_LIMIT = 24_000
CHANGE_LIMIT = 8_000
NOTE_LIMIT = 4000
#: Characters of the summary of an analysis in a prompt.
ANALYSIS_LIMIT = 8_000


class RoleBrief(Value):
    """The variables of every role's prompt. ``to_dict`` quotes texts of files and commands.

    ``passes`` and ``feedback`` are what the validator said, ``changes`` which files differ from the
    start, ``findings`` what the guard holds against the result; ``protected`` are path patterns,
    ``gates`` what the gates ask for. ``gated``: one of them fails, and ``feedback`` is theirs.
    """

    goal: str
    iteration: int
    validator: str = ""
    feedback: str = ""
    changes: str = ""
    findings: str = ""
    protected: tuple[str, ...] = ()
    allow_edit: tuple[str, ...] = ()
    allow_test_edits: bool = False
    passes: bool = False
    gates: tuple[str, ...] = ()
    gated: bool = False

    def to_dict(self) -> dict[str, Any]:
        """The variables of the templates: bounded, and quoted where others wrote them."""
        return {
            "goal": encodable(clip(self.goal, GOAL_LIMIT)),
            "iteration": self.iteration,
            "validator": printable(self.validator[:500]).replace("`", "'"),
            "feedback": quoted(
                f"What the {'gates' if self.gated else 'validator'} said",
                clip(self.feedback, FEEDBACK_LIMIT),
            ),
            "changes": quoted("Files changed so far", clip(self.changes, NOTE_LIMIT)),
            "findings": quoted("What the guard found", clip(self.findings, NOTE_LIMIT)),
            "protected": [f"`{printable(path)}`" for path in self.protected],
            "allow_edit": [f"`{printable(path)}`" for path in self.allow_edit],
            "allow_test_edits": self.allow_test_edits,
            "passes": self.passes,
            "gates": self.gates,
            "gated": self.gated,
        }


class AnalysisNote(Value):
    """An analysis made for a role: its file, by its place in the run's folder, and a summary."""

    path: str
    summary: str

    def to_dict(self) -> dict[str, str]:
        """The variables of the templates: never the whole of it."""
        summary = quoted("Its summary", clip(self.summary, ANALYSIS_LIMIT))
        return {"path": printable(self.path), "summary": summary}


class RoleTurn(Value):
    """One assignment that was carried out: what was asked, and what came of it.

    ``analysis`` is the file of the analysis that it was offered; ``undone`` says which changes of
    it were taken back, a line for each file; ``verdict`` is that of a critic or a reviewer.
    """

    role: str
    prompt: str
    outcome: AgentOutcome
    edits: bool = True
    analysis: str = ""
    undone: str = ""
    verdict: str = ""


class RoleNote(Value):
    """What a role said, for the roles after it; ``path`` is the whole of it, where that is more."""

    role: str
    message: str
    undone: str
    path: str

    @classmethod
    def of(cls, turn: RoleTurn, path: str) -> RoleNote:
        words = turn.outcome.summary or turn.outcome.reason or "nothing"
        is_whole = len(words) <= NOTE_LIMIT and turn.outcome.output.strip() in ("", words.strip())
        return cls(turn.role, words, turn.undone, "" if is_whole else path)

    def to_dict(self) -> dict[str, str]:
        """The variables of the templates."""
        text = quoted("Its answer", clip(self.message, NOTE_LIMIT))
        undone = taken_back(self.undone)
        return {"role": self.role, "text": text, "undone": undone, "path": self.path}


def spoken(role: str) -> str:
    """A role in words: the only one of its mode is the agent."""
    return "agent" if role == "single" else role


def taken_back(status: str) -> str:
    """What was taken back of a role, a line for each file, for a prompt."""
    return quoted("Its changes, taken back", clip(status, NOTE_LIMIT))


def quoted(head: str, text: str) -> str:
    """``text`` as data under ``head``, in a fence that it cannot close; "" when there is none."""
    body = "\n".join(_visible(line) for line in text.strip("\n").split("\n"))
    return fenced(head, body) if body.strip() else ""


def _visible(line: str) -> str:
    return "\t".join(printable(part) for part in line.removesuffix("\r").split("\t"))
