"""The steps of a fix loop on its copy, each done once and journalled, or found in the journal."""

from __future__ import annotations

from rlm_ci.fix.gates.gate import FAILED, WAITING, GateView
from rlm_ci.fix.gates.gates import GateSequence
from rlm_ci.fix.loop import TurnResult, ValidationResult, blocking
from rlm_ci.fix.roles import RoleBrief, answer_of
from rlm_ci.guard import guard, rules, secret_in_diff
from rlm_ci.runs.journal import spans
from rlm_ci.text.printable import count, first_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.fix.gates.gate import Gate
    from rlm_ci.fix.options import FixContext
    from rlm_ci.fix.roles import Handover, Roles, RoleTurn
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
_HOW = {FAILED: "fails", WAITING: "waits"}


class FixSteps:
    """The steps that ``loop.run`` calls."""

    def __init__(
        self,
        context: FixContext,
        judge: ResultJudge,
        roles: Roles,
        handover: Handover,
        state: RunState,
        *,
        gates: Sequence[Gate] = (),
    ) -> None:
        self.context = context
        self._options = context.options
        self._redactor = context.redactor
        self._space = context.commands.workspace
        self._base = self._space.snapshot.tree
        self.verdicts = judge
        self._roles = roles
        self._handover = handover
        self._state = state
        self._gates = GateSequence(gates, context.path_of)
        #: A tree, and what has changed from the base to it.
        self._noted = (self._base, "")
        self._began = ""
        self._has_validator = context.validator is not None
        self.result = judge.result

    def elapsed(self, iteration: int) -> float:
        """Minutes since the run began, all its sessions together."""
        seconds, self._began = self.context.clock.tick(iteration)
        return seconds / 60

    # ── what decides ──

    def judge(self, label: str) -> ValidationResult:
        """What the validator says of the copy; without one, the gates alone decide."""
        result = ValidationResult(passed=True)
        if self._has_validator:
            result = self.verdicts.judge(label)
        if label == "0":
            self._gates.begin()
        return result

    def confirm(self) -> ValidationResult:
        return self.verdicts.confirm() if self._has_validator else ValidationResult(passed=True)

    # ── the agent ──

    def act(
        self, iteration: int, last: ValidationResult, tampering: tuple[Finding, ...]
    ) -> TurnResult:
        """Let the agent take a turn. Raises LimitError when a budget ends it."""
        self.verdicts.begin(iteration)
        self._gates.clear()
        before = self._space.settled_tree()
        brief = RoleBrief(
            self._options.goal,
            iteration,
            validator=self.context.validator.command.text if self.context.validator else "",
            passes=last.passed or bool(last.gates),
            feedback=last.feedback,
            changes=self._redactor.without_known(self._status(before)),
            findings=self._redactor.text(
                "\n".join(finding.message for finding in blocking(tampering))
            ),
            protected=(*PROTECTED, *sorted(self.verdicts.protection.scripts)[:_NAMED]),
            allow_edit=self._options.allow_edit,
            allow_test_edits=self._options.allow_test_edits,
            gates=self._gates.lines,
            gated=bool(last.gates),
        )
        if self._options.agent == "openai":  # it edits without a command
            self._space.settled = None
        try:
            self._roles.perform(brief)
        finally:
            self._tell_undone(iteration)
        outcome = next(turn for turn in reversed(self._roles.turns) if turn.edits).outcome
        summary = outcome.summary or outcome.reason or NOTHING_SAID
        if outcome.exit_code:  # why it failed comes before what it said
            summary = outcome.reason or summary
            self.context.on_step(f"iteration {iteration}: agent failed: {summary}")
        changed = self._space.settled_tree() != before
        is_question = outcome.summary.rstrip("*_` \n").endswith("?")
        asks = is_question and not changed and not outcome.exit_code
        return TurnResult(summary, changed, outcome.exit_code, outcome.blocked, asks=asks)

    def _tell_undone(self, iteration: int) -> None:
        for turn in self._roles.turns:
            if turn.undone:
                paths = turn.undone.strip().splitlines()
                what = f"what the {turn.role} changed was taken back: {first_of(paths, 'file')}"
                self.context.on_step(f"iteration {iteration}: {what}")

    def tampering(self) -> tuple[Finding, ...]:
        """What speaks against the tree, and against the last run of the validator on it."""
        # Which tests ran counts for a last verdict only: the copy may have other tests.
        verdict = self.verdicts.verdict
        is_last = self.verdicts.is_last and verdict is not None and verdict.passed
        lost = self.verdicts.lost() if is_last else ()
        has_counts = is_last and not lost
        findings = guard.findings(
            self._space,
            self._space.settled_tree(),
            self.verdicts.collected_first if has_counts else None,
            self.verdicts.collected if has_counts else None,
            protection=self.verdicts.protection,
            redactor=self._redactor,
            allow_test_edits=self._options.allow_test_edits,
        )
        findings += guard.not_run(lost) + guard.held_against(self.verdicts.rewritten)
        return rules.accepted(self.verdicts.decided(findings), self._options.allow)

    def probe(self) -> tuple[Finding, ...]:
        return rules.accepted(self.verdicts.probe(), self._options.allow)

    def plain(self) -> tuple[Finding, ...]:
        return rules.accepted(self.verdicts.plain(), self._options.allow)

    def gated(self, iteration: int, judged: ValidationResult) -> ValidationResult:
        """What the gates say of a result that has passed until here; ``judged`` without gates."""
        verdicts, turns = self.verdicts, self._roles.turns
        log = [f"rlm/validator-{verdicts.label}.log"] if verdicts.verdict else []
        names = [answer_of(number, turn) for number, turn in enumerate(turns, 1)]
        answers = [f"rlm/iteration-{iteration}/{name}" for name in names]
        view = GateView(
            iteration,
            self._base,
            verdicts.result(self._space.settled_tree()),
            verdicts.fresh(),
            turns=turns,
            files=(
                *log,
                *answers,
                *(role_turn.analysis for role_turn in turns if role_turn.analysis),
            ),
        )
        results = self._gates.check(view)
        gate_results = [result for result in results if result.verdict in (FAILED, WAITING)]
        reason = "; ".join(
            f"gate {result.name} {_HOW[result.verdict]}: {result.reason}" for result in gate_results
        )
        feedback = "\n\n".join(
            f"Gate {result.name}: {result.feedback or result.reason}" for result in gate_results
        )
        return judged.replace(
            passed=not gate_results,
            feedback=feedback,
            findings=tuple(finding for result in gate_results for finding in result.findings),
            reason=reason,
            failures=feedback,
            gates=results,
        )

    def is_unchanged(self) -> bool:
        return self.verdicts.result(self._space.settled_tree()) == self._base

    def _status(self, tree: str) -> str:
        noted_tree, status = self._noted
        return status if noted_tree == tree else self.context.commands.status(self._base, tree)

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
        self._handover.write(iteration, {"status.txt": status, "diff.patch": patch})
        verdict = self.verdicts.verdict
        self._state.add(
            {
                "n": iteration,
                "startedAt": self._began,
                "summary": acted.summary,
                "agentExitCode": acted.exit_code,
                "changed": acted.changed,
                "validatorExitCode": verdict.exit_code if verdict else None,
                "validatorPassed": judged.passed or bool(judged.gates),
                "validatorReason": verdict.reason if verdict else None,
                "validatorLogPath": f"rlm/validator-{self.verdicts.label}.log" if verdict else None,
                "diffSummary": _summary(status),
                "tampering": sorted({finding.rule for finding in tampering}),
                "turns": [_turn_record(turn) for turn in self._roles.turns],
            }
            | ({"gates": [gate.to_record() for gate in judged.gates]} if judged.gates else {})
        )
        step = spans.current()
        passed = (judged.passed or bool(judged.gates)) and not tampering
        step.outcome = spans.DONE if passed and judged.passed else spans.FAILED
        step.files["Change so far"] = f"rlm/iteration-{iteration}/diff.patch"
        step.details |= {
            "the agent says": acted.summary,
            "validator": verdict.reason if verdict else None,
            "changes": _summary(status),
            "guard": ", ".join(sorted({finding.rule for finding in tampering})),
            "agent's exit code": acted.exit_code or None,
        }
        for result in judged.gates:
            step.details[f"gate {result.name}"] = f"{result.verdict}: {result.reason}"


def _turn_record(turn: RoleTurn) -> dict[str, str | int | None]:
    return {
        "role": turn.role,
        "exitCode": turn.outcome.exit_code,
        "analysis": turn.analysis or None,
        "takenBack": _summary(turn.undone) or None,
        "verdict": turn.verdict or None,
    }


def _summary(status: str) -> str:
    lines = status.strip().splitlines()
    more = len(lines) - _SHOWN
    return "\n".join(lines[:_SHOWN] + ([f"and {count(more, 'more file')}"] if more > 0 else []))
