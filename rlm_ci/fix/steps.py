"""The steps of a fix loop, on its copy: sandbox, validator, agent, and the record of it all.

``loop`` says which step is next. Here each is done once and journalled, or found in the journal
and taken as it was.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

from rlm_ci.fix.loop import TurnResult, ValidationResult, blocking
from rlm_ci.fix.roles import RoleBrief
from rlm_ci.fix.verdict.verdict import ResultJudge
from rlm_ci.guard import guard, rules, secret_in_diff
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.system import files
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rlm_ci.fix.roles import Roles, RoleTurn
    from rlm_ci.fix.sandboxed_commands import SandboxedCommands
    from rlm_ci.fix.verdict.validator_run import ValidatorPlan
    from rlm_ci.models.record.clock import RunClock
    from rlm_ci.report.findings import Finding
    from rlm_ci.runs import Fact
    from rlm_ci.runs.state import RunState
    from rlm_ci.validators.validator import Validator

#: What an agent is told to leave alone; the guard knows more.
PROTECTED = (
    "conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "package.json scripts",
    ".github/", ".git*", ".pre-commit-config.yaml", "AGENTS.md", "CLAUDE.md", "sitecustomize.py",
)  # fmt: skip
#: Lines of a status in the state file.
_SHOWN = 40
#: Scripts of the validator that an agent is told of.
_NAMED = 20
#: Files that are written at the same time.
_WRITERS = 4


class FixSteps:
    """The steps that ``loop.run`` calls. ``path_of`` places a file in the run's folder."""

    def __init__(
        self,
        plan: ValidatorPlan,
        commands: SandboxedCommands,
        roles: Roles,
        validator: Validator | None,
        *,
        fact: Fact,
        clock: RunClock,
        state: RunState,
        path_of: Callable[..., str],
        on_step: Callable[[str], None] = lambda _text: None,
        redactor: Redactor | None = None,
    ) -> None:
        self._redactor = redactor or Redactor({})
        self._plan = plan
        self._commands = commands
        self._roles = roles
        self._validator = validator
        self._clock = clock
        self._state = state
        self._path_of = path_of
        self._on_step = on_step
        self._base = commands.workspace.snapshot.tree
        #: A tree, and what has changed from the base to it.
        self._noted = (self._base, "")
        self._began = ""
        self._judge = ResultJudge(
            plan,
            commands,
            validator,
            fact=fact,
            clock=clock,
            path_of=path_of,
            on_step=on_step,
            redactor=self._redactor,
        )
        #: Runs the validator on the tree as it stands, in a fresh one, or some tests for an agent.
        self.judge = self._judge.judge
        self.confirm = self._judge.confirm
        self.tests = self._judge.tests
        self.result = self._judge.result

    def elapsed(self, iteration: int) -> float:
        seconds, self._began = self._clock.tick(iteration)
        return seconds / 60

    # ── the agent ──

    def act(
        self, iteration: int, last: ValidationResult, tampering: tuple[Finding, ...]
    ) -> TurnResult:
        self._judge.begin(iteration)
        self._on_step(f"iteration {iteration}: agent")
        before = self._judge.tree()
        brief = RoleBrief(
            self._plan.goal,
            iteration,
            validator=self._validator.command.text if self._validator else "",
            feedback=last.feedback,
            changes=self._redactor.without_known(self._status(before)),
            findings=self._redactor.text("\n".join(one.message for one in blocking(tampering))),
            protected=(*PROTECTED, *sorted(self._judge.protection.scripts)[:_NAMED]),
            allow_test_edits=self._plan.allow_test_edits,
        )
        turns = self._roles.perform(brief)
        self._write_turns(iteration, turns)
        outcome = _edited(turns).outcome
        summary = outcome.summary or outcome.reason or "it said nothing"
        if outcome.exit_code:  # why it failed comes before what it said
            summary = outcome.reason or summary
            self._on_step(f"iteration {iteration}: agent failed: {summary}")
        return TurnResult(summary, self._judge.tree() != before, outcome.exit_code)

    def difference(self) -> str:
        """What differs from the start while the agents are at work, for one of them to read."""
        _, patch = secret_in_diff.account(
            self._commands.workspace, self._commands.tree(), (), self._redactor
        )
        return self._redactor.without_known(patch.decode("utf-8", "replace"))

    def _write_turns(self, iteration: int, turns: tuple[RoleTurn, ...]) -> None:
        texts = {}
        for number, turn in enumerate(turns, 1):
            said = turn.outcome.output or turn.outcome.summary
            reason = f"\n\nended early: {turn.outcome.reason}" if turn.outcome.reason else ""
            texts[f"{number}-{turn.role}-prompt.md"] = turn.prompt
            texts[f"{number}-{turn.role}-answer.md"] = f"{said}{reason}\n"
        self._write(iteration, texts)

    def tampering(self) -> tuple[Finding, ...]:
        # Which tests ran says something of a last verdict that would be believed, and else nothing:
        # in the copy of an agent there may be other tests.
        verdict = self._judge.verdict
        is_last = self._judge.is_last and verdict is not None and verdict.passed
        lost = self._judge.lost() if is_last else ()
        has_counts = is_last and not lost
        found = guard.findings(
            self._commands.workspace,
            self._judge.tree(),
            self._judge.collected_first if has_counts else None,
            self._judge.collected if has_counts else None,
            protection=self._judge.protection,
            redactor=self._redactor,
            allow_test_edits=self._plan.allow_test_edits,
        )
        found += guard.not_run(lost) + guard.held_against(self._judge.rewritten)
        return rules.accepted(found, self._plan.allow)

    def probe(self) -> tuple[Finding, ...]:
        return rules.accepted(self._judge.probe(), self._plan.allow)

    @property
    def canary(self) -> str:
        """One line on whether the tests can still fail; "" where that was not asked."""
        return self._judge.canary

    def is_of_tests(self, path: str) -> bool:
        """Whether a file of the start decides as a test does."""
        return self._judge.protection.is_of_tests(path)

    def is_unchanged(self) -> bool:
        return self._judge.result(self._judge.tree()) == self._base

    def _status(self, tree: str) -> str:
        """What has changed from the base to ``tree``; nearly always the last turn's end."""
        known, status = self._noted
        return status if known == tree else self._commands.status(self._base, tree)

    # ── what is kept of it ──

    def note(
        self,
        iteration: int,
        acted: TurnResult,
        judged: ValidationResult,
        tampering: tuple[Finding, ...],
    ) -> None:
        tree = self._judge.tree()
        space = self._commands.workspace
        status, patch = secret_in_diff.account(space, tree, tampering, self._redactor)
        self._noted = (tree, status)
        self._write(iteration, {"status.txt": status, "diff.patch": patch})
        verdict = self._judge.verdict
        self._state.add(
            {
                "n": iteration,
                "startedAt": self._began,
                "summary": acted.summary,
                "agentExitCode": acted.exit_code,
                "changed": acted.changed,
                "validatorExitCode": verdict.exit_code if verdict else None,
                "validatorPassed": judged.passed,
                "validatorReason": verdict.reason if verdict else None,
                "validatorLogPath": f"rlm/validator-{self._judge.label}.log" if verdict else None,
                "diffSummary": _summary(status),
                "tampering": sorted({one.rule for one in tampering}),
            }
        )

    def _write(self, iteration: int, contents: Mapping[str, str | bytes]) -> None:
        """Write files of a turn, side by side: all that they take is time of the disk."""
        paths = [self._path_of("rlm", f"iteration-{iteration}", name) for name in contents]
        found = [
            one.encode("utf-8", "backslashreplace") if isinstance(one, str) else one
            for one in contents.values()
        ]
        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(files.write, paths, found, repeat(0o600)))


def _edited(turns: tuple[RoleTurn, ...]) -> RoleTurn:
    """The last turn of a role that edits: what it says is what was done."""
    return next((one for one in reversed(turns) if one.role != "critic"), turns[-1])


def _summary(status: str) -> str:
    """The changed files, the first of them by name."""
    lines = status.strip().splitlines()
    more = len(lines) - _SHOWN
    return "\n".join(lines[:_SHOWN] + ([f"and {count(more, 'more file')}"] if more > 0 else []))
