"""The roles of an iteration, one agent or several in turn, and the files that they hand over.

``triad``: the planner writes a plan, the reviser edits, the critic looks at the difference and
accepts it or sends the reviser back, once. ``superloop``: the planner plans, the implementer edits,
the tester runs, the reviewer reads. The next iteration sees what critic, tester and reviewer said.

What a role changes that may not edit is taken back. With subagents each has a conversation of its
own and gets the notes of the others; else they share one, which goes on over the iterations.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

from rlm_ci.agents.agent import Assignment
from rlm_ci.errors import ConfigError, RlmCiError
from rlm_ci.resources import loader
from rlm_ci.runs.journal import spans
from rlm_ci.system import files
from rlm_ci.text.printable import clip, encodable, fenced, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Protocol

    from rlm_ci.agents.agent import Agent, AgentOutcome, AgentWorkspace

    class RoleAnalyses(Protocol):
        """Analyses before turns."""

        def before_turn(self, role: str, brief: RoleBrief, text: str) -> AnalysisNote | None:
            """The analysis for a role, which said ``text`` last ("" at first)."""

        def keyword(self, role: str) -> str:
            """The word by which a role asks for one before its next turn; "" if it cannot."""


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


#: A line with a verdict, whatever Markdown is around it.
_VERDICT = re.compile(
    r"^[ *`#_]*verdict[ *`]*:[ *`_.!]*(accept|revise)[ *`_.!#]*\r?$", re.IGNORECASE | re.MULTILINE
)


class Role(Value):
    """A role, and what it may do: what one that may not edit has changed is taken back."""

    name: str
    edits: bool = False
    #: Whether it may run commands; one that edits may.
    runs: bool = False


SINGLE = Role("single", edits=True)
PLANNER = Role("planner")
REVISER = Role("reviser", edits=True)
CRITIC = Role("critic")
IMPLEMENTER = Role("implementer", edits=True)
TESTER = Role("tester", runs=True)
REVIEWER = Role("reviewer")
#: The roles of each mode, in the order of their turns.
MODES: Mapping[str, tuple[Role, ...]] = {
    "single": (SINGLE,),
    "triad": (PLANNER, REVISER, CRITIC),
    "superloop": (PLANNER, IMPLEMENTER, TESTER, REVIEWER),
}


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
        handover: Handover,
        deadline: float | None = None,
        redact: Callable[[str], str] = str,
        on_progress: Callable[[str], None] = lambda _line: None,
        on_failure: Callable[[str, str], None] = lambda _why, _answer: None,
        analyses: RoleAnalyses | None = None,
    ) -> None:
        """``diff`` returns the changes since the start. Raises ConfigError for the mode.

        ``on_failure`` gets why a turn failed, and the name of the file with its answer.
        ``analyses`` are asked once for each role of an iteration, as its first turn begins.
        """
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
        self._handover = handover
        self._deadline = deadline
        self._redact = redact
        self._on_progress = on_progress
        self._on_failure = on_failure
        self._analyses = analyses
        #: The analysis for each role in this iteration, and what each role said last.
        self._offered: dict[str, AnalysisNote | None] = {}
        self._said: dict[str, str] = {}
        self._conversation: list[Any] = []
        self._turns: list[RoleTurn] = []
        #: What each role said in this iteration, after what is left of the last one.
        self._notes: list[RoleNote] = []
        #: The role of the last turn and what was taken back of it.
        self._undone: tuple[str, str] = ("", "")

    @property
    def turns(self) -> tuple[RoleTurn, ...]:
        """The turns of this iteration that are over."""
        return tuple(self._turns)

    def perform(self, brief: RoleBrief) -> None:
        """Take the turns of one iteration, in order. Raises the errors of the agent."""
        self._turns = []
        self._offered = {}
        if self._mode == "triad":
            self._notes = self._triad(brief)
        elif self._mode == "superloop":
            self._notes = self._superloop(brief)
        else:
            self._turn(SINGLE, brief)
            self._notes = []

    def _triad(self, brief: RoleBrief) -> list[RoleNote]:
        """Returns what the next iteration is told."""
        self._turn(PLANNER, brief)
        if self._turn(REVISER, brief).blocked or self._is_accepted(brief):
            return []
        left = self._notes[-1:]
        self._turn(REVISER, brief)
        return left

    def _superloop(self, brief: RoleBrief) -> list[RoleNote]:
        """Returns what the next iteration is told."""
        self._turn(PLANNER, brief)
        if self._turn(IMPLEMENTER, brief).blocked:
            return []
        self._turn(TESTER, brief)
        self._turn(REVIEWER, brief, diff=self._change())
        return self._notes[-2:]

    def _turn(self, role: Role, brief: RoleBrief, **more: object) -> AgentOutcome:
        """Let one role act, and keep what it said for the next ones."""
        analysis = self._analysis(role.name, brief)
        name = "agent" if role == SINGLE else f"agent, as {role.name}"
        with spans.span("agent", name, words=f"iteration {brief.iteration}: agent") as step:
            outcome = self._acted(role, brief, analysis, more)
            turn = self._turns[-1]
            step.outcome = spans.FAILED if outcome.exit_code else spans.DONE
            step.files = self._handover.files_of(brief.iteration, len(self._turns), turn)
            step.details |= {
                "verdict": turn.verdict,
                "analysis": turn.analysis,
                "taken back": turn.undone.strip(),
            }
        return outcome

    def _acted(
        self, role: Role, brief: RoleBrief, analysis: AnalysisNote | None, more: Mapping[str, Any]
    ) -> AgentOutcome:
        heard = bool(self._conversation)  # the agent keeps it: what was said is in it
        notes = [] if heard else self._notes
        undone = self._undone if heard else ("", "")
        variables = {
            "brief": brief.to_dict(),
            "notes": [note.to_dict() for note in notes],
            "undone": {"role": undone[0], "undone": taken_back(undone[1])},
            "analysis": analysis.to_dict() if analysis else None,
            "keyword": self._analyses.keyword(role.name) if self._analyses else "",
            "heard": heard,
            "so_far": self._so_far() if heard and not self._turns else None,
            "summary_line": not self._agent.metered,  # the built-in agent ends by a tool
            "editor": next(role.name for role in MODES[self._mode] if role.edits),
            **more,
        }
        prompt = loader.load_template(f"prompts/{role.name}.md.j2")(variables).strip() + "\n"
        offered = [note.path for note in notes if note.path] + ([analysis.path] if analysis else [])
        task = Assignment(
            role=role.name,
            iteration=brief.iteration,
            prompt=prompt,
            workspace=self._workspace,
            conversation=[] if self._subagents else self._conversation,
            deadline=self._deadline,
            read_only=not role.edits,
            may_run=role.edits or role.runs,
            files={name: self._handover.path_of(name) for name in offered},
            on_progress=self._on_progress,
        )
        outcome, undone_now = self._act(task)
        turn = RoleTurn(
            role.name,
            prompt,
            outcome,
            edits=role.edits,
            analysis=analysis.path if analysis else "",
            undone=undone_now,
            verdict=verdict_of(outcome) if role in (CRITIC, REVIEWER) else "",
        )
        self._turns.append(turn)
        path = self._handover.keep(brief.iteration, len(self._turns), turn)
        if outcome.exit_code:
            self._on_failure(f"{role.name}: {outcome.reason}", path)
        self._said[role.name] = outcome.output or outcome.summary
        self._undone = (role.name, undone_now)
        self._notes.append(RoleNote.of(turn, path))
        return outcome

    def _analysis(self, role: str, brief: RoleBrief) -> AnalysisNote | None:
        if self._analyses is None:
            return None
        if role not in self._offered:
            message = self._said.get(role, "")
            self._offered[role] = self._analyses.before_turn(role, brief, message)
        return self._offered[role]

    def _act(self, task: Assignment) -> tuple[AgentOutcome, str]:
        """Carry it out; of a role that may not edit, take back what it changed, and say what."""
        if not task.read_only:
            return self._agent.act(task), ""
        before = self._workspace.tree()
        try:
            outcome = self._agent.act(task)
            after = self._workspace.tree()
        except RlmCiError:
            self._workspace.restore(before)
            raise
        if after == before:
            return outcome, ""
        changed = self._redact(self._workspace.status(before, after))
        self._workspace.restore(before)
        return outcome, changed

    def _so_far(self) -> str:
        """The change as a conversation sees it that goes on with the next iteration."""
        return quoted("The change so far", clip(self._diff(), CHANGE_LIMIT))

    def _change(self) -> str:
        """The change for a role that reviews it."""
        change = quoted("The change so far", clip(self._diff(), DIFF_LIMIT))
        return change or "Nothing differs yet."

    def _is_accepted(self, brief: RoleBrief) -> bool:
        """Ask the critic, once more if it gives no verdict; without one nothing is accepted."""
        for unclear in (False, True):
            self._turn(CRITIC, brief, diff=self._change(), unclear=unclear)
            if verdict := self._turns[-1].verdict:
                return verdict == "accept"
        return False


def verdict_of(outcome: AgentOutcome) -> str:
    """The verdict of a turn: ``accept``, ``revise``, or "" when there is none; or it failed."""
    texts = () if outcome.exit_code else (outcome.summary, outcome.output)
    verdicts = [last for text in texts for last in _VERDICT.findall(text)[-1:]]
    return str(verdicts[0]).lower() if verdicts else ""


#: Files that are written at the same time.
_WRITERS = 4


def answer_of(number: int, turn: RoleTurn) -> str:
    """The name of the file with what was said in the turn of this number."""
    return f"{number}-{turn.role}-answer.md"


class Handover:
    """Files of a run, by their names in its folder: ``rlm/iteration-1/1-planner-answer.md``."""

    def __init__(self, path_of: Callable[..., str]) -> None:
        """``path_of`` places a file in the run's folder."""
        self._path_of = path_of

    def path_of(self, name: str) -> str:
        """The path of the file ``name``."""
        return self._path_of(*name.split("/"))

    def keep(self, iteration: int, number: int, turn: RoleTurn) -> str:
        """Write what was asked and said in a turn, as its end; returns the name of the answer."""
        outcome = turn.outcome
        reason = f"\n\nended early: {outcome.reason}" if outcome.reason else ""
        undone = f"\n\nIts changes were taken back:\n{turn.undone}" if turn.undone else ""
        answer = answer_of(number, turn)
        self.write(
            iteration,
            {
                f"{number}-{turn.role}-prompt.md": turn.prompt,
                answer: f"{outcome.output or outcome.summary}{reason}{undone.rstrip()}\n",
            },
        )
        return f"rlm/iteration-{iteration}/{answer}"

    def files_of(self, iteration: int, number: int, turn: RoleTurn) -> dict[str, str]:
        """What ``keep`` has written, by what it is."""
        folder = f"rlm/iteration-{iteration}"
        prompt = f"{folder}/{number}-{turn.role}-prompt.md"
        return {"Prompt": prompt, "Answer": f"{folder}/{answer_of(number, turn)}"}

    def write(self, iteration: int, contents: Mapping[str, str | bytes]) -> None:
        """Write files of an iteration, side by side: the disk takes the time."""
        paths = [self._path_of("rlm", f"iteration-{iteration}", name) for name in contents]
        texts = [
            content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
            for content in contents.values()
        ]
        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(files.write, paths, texts, repeat(0o600)))
