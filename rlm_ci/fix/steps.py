"""The steps of a fix loop on its copy, each done once and journalled, or found in the journal."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

from rlm_ci.fix.loop import TurnResult, ValidationResult, blocking
from rlm_ci.fix.roles import RoleBrief
from rlm_ci.guard import guard, rules, secret_in_diff
from rlm_ci.system import files
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.fix.options import FixContext
    from rlm_ci.fix.roles import Roles, RoleTurn
    from rlm_ci.fix.verdict.verdict import ResultJudge
    from rlm_ci.report.findings import Finding
    from rlm_ci.runs.state import RunState

#: What the prompt forbids an agent to edit; the guard knows more.
PROTECTED = (
    "conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "package.json scripts",
    ".github/", ".git*", ".pre-commit-config.yaml", "AGENTS.md", "CLAUDE.md", "sitecustomize.py",
)  # fmt: skip
#: Lines of a status in the state file.
_SHOWN = 40
#: Scripts of the validator that a prompt names.
_NAMED = 20
#: The summary of a turn without one.
NOTHING_SAID = "it said nothing"
#: Files that are written at the same time.
_WRITERS = 4


class FixSteps:
    """The steps that ``loop.run`` calls."""

    def __init__(
        self, context: FixContext, judge: ResultJudge, roles: Roles, state: RunState
    ) -> None:
        self.context = context
        self._options = context.options
        self._redactor = context.redactor
        self._space = context.commands.workspace
        self._base = self._space.snapshot.tree
        self.verdicts = judge
        self._roles = roles
        self._state = state
        #: A tree, and what has changed from the base to it.
        self._noted = (self._base, "")
        self._began = ""
        self.judge = judge.judge
        self.confirm = judge.confirm
        self.result = judge.result

    def elapsed(self, iteration: int) -> float:
        """Minutes since the run began, all its sessions together."""
        seconds, self._began = self.context.clock.tick(iteration)
        return seconds / 60

    # ── the agent ──

    def act(
        self, iteration: int, last: ValidationResult, tampering: tuple[Finding, ...]
    ) -> TurnResult:
        """Let the agent take a turn. Raises LimitError when a budget ends it."""
        self.verdicts.begin(iteration)
        self.context.on_step(f"iteration {iteration}: agent")
        before = self._space.settled_tree()
        brief = RoleBrief(
            self._options.goal,
            iteration,
            validator=self.context.validator.command.text if self.context.validator else "",
            passes=last.passed,
            feedback=last.feedback,
            changes=self._redactor.without_known(self._status(before)),
            findings=self._redactor.text("\n".join(one.message for one in blocking(tampering))),
            protected=(*PROTECTED, *sorted(self.verdicts.protection.scripts)[:_NAMED]),
            allow_test_edits=self._options.allow_test_edits,
        )
        if self._options.agent == "openai":  # it edits without a command
            self._space.settled = None
        turns = self._roles.perform(brief)
        self._write_turns(iteration, turns)
        outcome = _edited(turns).outcome
        summary = outcome.summary or outcome.reason or NOTHING_SAID
        if outcome.exit_code:  # why it failed comes before what it said
            summary = outcome.reason or summary
            self.context.on_step(f"iteration {iteration}: agent failed: {summary}")
        changed = self._space.settled_tree() != before
        return TurnResult(summary, changed, outcome.exit_code, outcome.blocked)

    def _write_turns(self, iteration: int, turns: tuple[RoleTurn, ...]) -> None:
        texts = {}
        for number, turn in enumerate(turns, 1):
            said = turn.outcome.output or turn.outcome.summary
            reason = f"\n\nended early: {turn.outcome.reason}" if turn.outcome.reason else ""
            texts[f"{number}-{turn.role}-prompt.md"] = turn.prompt
            texts[f"{number}-{turn.role}-answer.md"] = f"{said}{reason}\n"
        self._write(iteration, texts)

    def tampering(self) -> tuple[Finding, ...]:
        """What speaks against the tree, and against the last run of the validator on it."""
        # Which tests ran counts for a last verdict only: the copy may have other tests.
        verdict = self.verdicts.verdict
        is_last = self.verdicts.is_last and verdict is not None and verdict.passed
        lost = self.verdicts.lost() if is_last else ()
        has_counts = is_last and not lost
        found = guard.findings(
            self._space,
            self._space.settled_tree(),
            self.verdicts.collected_first if has_counts else None,
            self.verdicts.collected if has_counts else None,
            protection=self.verdicts.protection,
            redactor=self._redactor,
            allow_test_edits=self._options.allow_test_edits,
        )
        found += guard.not_run(lost) + guard.held_against(self.verdicts.rewritten)
        return rules.accepted(found, self._options.allow)

    def probe(self) -> tuple[Finding, ...]:
        return rules.accepted(self.verdicts.probe(), self._options.allow)

    def is_unchanged(self) -> bool:
        return self.verdicts.result(self._space.settled_tree()) == self._base

    def _status(self, tree: str) -> str:
        known, status = self._noted
        return status if known == tree else self.context.commands.status(self._base, tree)

    # ── what is kept of it ──

    def note(
        self,
        iteration: int,
        acted: TurnResult,
        judged: ValidationResult,
        tampering: tuple[Finding, ...],
    ) -> None:
        tree = self._space.settled_tree()
        status, patch = secret_in_diff.account(self._space, tree, tampering, self._redactor)
        self._noted = (tree, status)
        self._write(iteration, {"status.txt": status, "diff.patch": patch})
        verdict = self.verdicts.verdict
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
                "validatorLogPath": f"rlm/validator-{self.verdicts.label}.log" if verdict else None,
                "diffSummary": _summary(status),
                "tampering": sorted({one.rule for one in tampering}),
            }
        )

    def _write(self, iteration: int, contents: Mapping[str, str | bytes]) -> None:
        """Write files of a turn, side by side: the disk takes the time."""
        paths = [self.context.path_of("rlm", f"iteration-{iteration}", name) for name in contents]
        found = [
            one.encode("utf-8", "backslashreplace") if isinstance(one, str) else one
            for one in contents.values()
        ]
        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(files.write, paths, found, repeat(0o600)))


def _edited(turns: tuple[RoleTurn, ...]) -> RoleTurn:
    return next((one for one in reversed(turns) if one.role != "critic"), turns[-1])


def _summary(status: str) -> str:
    lines = status.strip().splitlines()
    more = len(lines) - _SHOWN
    return "\n".join(lines[:_SHOWN] + ([f"and {count(more, 'more file')}"] if more > 0 else []))
