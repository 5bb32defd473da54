"""The fix loop: every way that it ends, on steps that keep state."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import LimitError
from rlm_ci.fix.gates.gate import GateResult
from rlm_ci.fix.loop import FixLimits, TurnResult, ValidationResult, run
from rlm_ci.report.findings import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Sequence

EDIT = Finding("tamper/protected-path", Severity.HIGH, "conftest.py is edited")
DISARMED = (
    Finding("tamper/disarmed", Severity.HIGH, "test_a passes with its claim reversed"),
    Finding("tamper/exit", Severity.MEDIUM, "shop.py ends the process"),
)
FOREVER = FixLimits(max_iterations=None, max_minutes=None)


class Tree:
    """A tree that is green once it holds ``goal``, and tampered with while it holds ``x``.

    The agent appends one text of its script a turn; an error in the script is raised. The
    fresh tree of the last verdict lacks whatever stands behind a dot.
    """

    #: Whether the last verdict itself shows what was bent.
    late = False

    def __init__(self, script: Sequence[str | LimitError], *, minutes: float = 0.0) -> None:
        self.text = self.first = ""
        self.script = list(script)
        self.minutes = minutes
        self.judgements: list[str] = []
        self.told: list[str] = []
        self.notes: list[tuple[int, bool, int]] = []

    def elapsed(self, iteration: int) -> float:
        return (iteration - 1) * self.minutes

    def judge(self, label: str) -> ValidationResult:
        self.judgements.append(label)
        return self._look(self.text)

    @staticmethod
    def _look(text: str) -> ValidationResult:
        return (
            ValidationResult(passed=True)
            if "goal" in text
            else ValidationResult(passed=False, feedback=text)
        )

    def act(
        self, _iteration: int, last: ValidationResult, tampering: tuple[Finding, ...]
    ) -> TurnResult:
        self.told.append("forbidden" if tampering else last.feedback)
        step = self.script.pop(0) if self.script else ""
        if isinstance(step, LimitError):
            self.text += step.hint
            raise step
        self.text = self.text.replace("x", "") if step == "mend" else self.text + step
        return TurnResult(step, changed=bool(step))

    def tampering(self) -> tuple[Finding, ...]:
        is_final = self.judgements[-1:] == ["final"]
        return (EDIT,) if "x" in self.text or (self.late and is_final) else ()

    def confirm(self) -> ValidationResult:
        self.judgements.append("final")
        return self._look(self.text.partition(".")[0])

    def probe(self) -> tuple[Finding, ...]:
        self.judgements.append("probe")
        return DISARMED if "disarmed" in self.text else ()

    def plain(self) -> tuple[Finding, ...]:
        self.judgements.append("plain")
        return ()

    def gated(self, _iteration: int, judged: ValidationResult) -> ValidationResult:
        return judged

    def is_unchanged(self) -> bool:
        return self.text == self.first

    def note(
        self,
        iteration: int,
        _acted: TurnResult,
        judged: ValidationResult,
        tampering: tuple[Finding, ...],
    ) -> None:
        self.notes.append((iteration, judged.passed, len(tampering)))


def end(tree: Tree, limits: FixLimits = FOREVER) -> tuple[str, int]:
    final = run(tree, limits).final
    assert final.reason
    return final.status, final.exit_code


def test_it_ends_when_the_validator_passes() -> None:
    tree = Tree(["a", "goal", "never"])
    assert end(tree) == ("passed", 0)
    assert tree.judgements == ["0", "1", "2", "final", "probe", "plain"]
    assert tree.notes == [(1, False, 0), (2, True, 0)]
    assert tree.script == ["never"]


def test_the_agent_hears_what_the_validator_said() -> None:
    tree = Tree(["a", "b", "goal"])
    run(tree, FOREVER)
    assert tree.told == ["", "a", "ab"]


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (FixLimits(3, None), ("max_iterations", 3)),
        (FixLimits(None, 3.0), ("max_minutes", 3)),
        (FixLimits(3, None, validated=False), ("budget_complete", 0)),
        (FixLimits(None, 3.0, validated=False), ("budget_complete", 0)),
    ],
    ids=str,
)
def test_a_budget_ends_it(limits: FixLimits, code: tuple[str, int]) -> None:
    tree = Tree("abcdefgh", minutes=1.0)
    assert end(tree, limits) == code
    assert tree.text == "abc"
    assert tree.judgements == (["0", "1", "2", "3"] if limits.validated else [])


@pytest.mark.parametrize("budget", ["max_calls", "max_tokens", "budget_usd"])
def test_a_budget_of_the_models_ends_it(budget: str) -> None:
    tree = Tree(["a", LimitError("it is used up", budget=budget)])
    assert end(tree) == (budget, 3)
    assert [one[0] for one in tree.notes] == [1, 2]


def test_what_was_edited_before_the_budget_ended_may_be_green() -> None:
    tree = Tree([LimitError("it is used up", budget="max_calls", hint="goal")])
    final = run(tree, FOREVER).final
    assert (final.status, final.exit_code) == ("passed", 0)
    assert final.reason.endswith("1 iteration (its turn was cut short: it is used up)")


def test_without_a_validator_the_budget_of_the_models_completes_it() -> None:
    tree = Tree(["a", LimitError("it is used up", budget="max_calls")])
    assert end(tree, FixLimits(None, None, validated=False)) == ("budget_complete", 0)


def test_two_turns_without_an_edit_are_enough() -> None:
    tree = Tree(["a", "", "b", "", ""])
    assert end(tree) == ("no_progress", 3)
    assert len(tree.notes) == 5


def test_without_a_validator_idle_turns_are_no_end() -> None:
    tree = Tree([])
    assert end(tree, FixLimits(4, None, validated=False)) == ("budget_complete", 0)
    assert len(tree.notes) == 4


def test_green_by_a_forbidden_edit_is_not_green() -> None:
    tree = Tree(["goal x", "more"])
    assert end(tree) == ("tampered", 1)
    assert tree.notes == [(1, True, 1), (2, True, 1)]
    assert "final" not in tree.judgements


def test_what_the_last_verdict_shows_is_held_against_it() -> None:
    """The guard looks again at what only a run in the fresh tree can tell."""
    tree = Tree(["goal", "more"])
    tree.late = True
    assert end(tree) == ("tampered", 1)
    assert tree.notes == [(1, True, 1), (2, True, 1)]
    assert tree.judgements == ["0", "1", "final", "2", "final"]


def test_what_a_last_verdict_that_fails_shows_is_no_forbidden_edit() -> None:
    tree = Tree([".goal", "", ""])
    tree.late = True
    assert end(tree) == ("no_progress", 3)


def test_a_forbidden_edit_that_is_taken_back_is_forgiven() -> None:
    tree = Tree(["goal x", "mend"])
    assert end(tree) == ("passed", 0)
    assert tree.told == ["", "forbidden"]


def test_a_budget_that_ends_on_a_forbidden_edit_says_so() -> None:
    ended = run(Tree(["x"]), FixLimits(1, None))
    assert (ended.final.status, ended.tampering) == ("tampered", (EDIT,))


def test_without_a_validator_forbidden_edits_are_told_and_do_not_fail() -> None:
    ended = run(Tree(["x"]), FixLimits(1, None, validated=False))
    assert (ended.final.exit_code, ended.tampering) == (0, (EDIT,))


def test_only_the_fresh_tree_counts() -> None:
    tree = Tree([".goal", "goal", ""])
    assert end(tree) == ("no_progress", 3)
    assert tree.judgements[:3] == ["0", "1", "final"]
    assert tree.notes[0] == (1, False, 0)


def test_no_iteration_at_all_when_the_time_was_over() -> None:
    tree = Tree(["goal"], minutes=1.0)
    assert end(tree, FixLimits(None, 0.0)) == ("max_minutes", 3)
    assert tree.notes == []
    assert run(green([]), FixLimits(None, 0.0)).final.reason.endswith("; the validator passes")


def green(script: Sequence[str | LimitError]) -> Tree:
    tree = Tree(script)
    tree.text = tree.first = "goal"
    return tree


def test_green_before_and_nothing_changed_is_no_success() -> None:
    assert end(green([""])) == ("no_change", 3)
    assert end(green([" and more"])) == ("passed", 0)


def test_green_before_is_enough_where_nothing_else_is_wanted() -> None:
    tree = green(["never"])
    ended = run(tree, FOREVER.replace(only_green=True))
    assert (ended.final.status, ended.final.reason) == ("passed", "the tests pass already")
    assert (tree.judgements, tree.told, tree.notes) == (["0"], [], [])
    assert run(Tree(["goal"]), FOREVER.replace(only_green=True)).final.status == "passed"


def test_what_was_changed_and_undone_is_no_change() -> None:
    class Undoing(Tree):
        def act(
            self, iteration: int, last: ValidationResult, tampering: tuple[Finding, ...]
        ) -> TurnResult:
            super().act(iteration, last, tampering)
            self.text = "broken" if iteration == 1 else self.first
            return TurnResult("", changed=True)

    tree = Undoing([])
    tree.text = tree.first = "goal"
    assert end(tree) == ("no_change", 3)
    assert len(tree.notes) == 2


def test_a_goal_that_may_hold_already_is_reached_by_an_agent_that_does_not_fail() -> None:
    class Failing(Tree):
        def act(
            self, iteration: int, last: ValidationResult, tampering: tuple[Finding, ...]
        ) -> TurnResult:
            return super().act(iteration, last, tampering).replace(exit_code=2)

    limits = FixLimits(None, None, allow_no_change=True)
    assert end(green([""]), limits) == ("passed", 0)
    tree = Failing([""])
    tree.text = tree.first = "goal"
    assert end(tree, limits) == ("no_change", 3)


def test_a_budget_that_ends_a_turn_before_any_change_is_what_ended_it() -> None:
    ended = run(green([LimitError("it is used up", budget="max_calls")]), FOREVER)
    assert (ended.final.status, ended.final.exit_code) == ("max_calls", 3)
    assert "the validator passes as it did before" in ended.final.reason


def test_a_validator_that_fails_and_then_passes_by_itself_has_seen_no_fix() -> None:
    class Flaky(Tree):
        def judge(self, label: str) -> ValidationResult:
            super().judge(label)
            return ValidationResult(passed=label != "0")

        def confirm(self) -> ValidationResult:
            return ValidationResult(passed=True)

    final = run(Flaky([""]), FOREVER).final
    assert final.status == "no_change"
    assert "passes now, and failed before" in final.reason


def test_an_agent_that_fails_is_the_reason() -> None:
    class Failing(Tree):
        def act(
            self, iteration: int, last: ValidationResult, tampering: tuple[Finding, ...]
        ) -> TurnResult:
            super().act(iteration, last, tampering)
            return TurnResult("it ended with 2: no such option", changed=False, exit_code=2)

    final = run(Failing([]), FOREVER).final
    assert (final.status, final.exit_code) == ("no_progress", 3)
    assert "the agent failed: it ended with 2: no such option" in final.reason


@pytest.mark.parametrize("validated", [True, False])
def test_an_agent_that_fails_is_told_whatever_comes_of_it(validated: bool) -> None:
    """The validator may pass for all that: nobody shall think that it was this agent's work."""

    class Failing(Tree):
        def act(
            self, iteration: int, last: ValidationResult, tampering: tuple[Finding, ...]
        ) -> TurnResult:
            return super().act(iteration, last, tampering).replace(exit_code=2)

    final = run(Failing(["goal"]), FixLimits(1, None, validated=validated)).final
    assert final.exit_code == 0
    assert "(the agent failed: goal)" in final.reason


@pytest.mark.parametrize(
    ("turns", "idled"),
    [
        ([(2, False), (1, False)], "turn 2"),
        ([(2, False), (0, False)], ""),
        ([(0, False), (2, False)], ""),
        ([(2, True), (2, False)], ""),
        ([], ""),
    ],
)
def test_an_agent_that_never_did_anything_is_told_as_that(
    turns: list[tuple[int, bool]], idled: str
) -> None:
    class Failing(Tree):
        def act(
            self, iteration: int, _last: ValidationResult, _tampering: tuple[Finding, ...]
        ) -> TurnResult:
            code, changed = turns[iteration - 1]
            return TurnResult(f"turn {iteration}", changed=changed, exit_code=code)

    ended = run(Failing([]), FixLimits(len(turns), None, validated=False))
    assert (ended.final.status, ended.final.exit_code) == ("budget_complete", 0)
    assert ended.idled == idled


def test_an_agent_that_failed_once_is_forgiven() -> None:
    class Failing(Tree):
        def act(
            self, iteration: int, last: ValidationResult, tampering: tuple[Finding, ...]
        ) -> TurnResult:
            acted = super().act(iteration, last, tampering)
            return acted.replace(exit_code=int(iteration == 1))

    assert "failed" not in run(Failing(["a", "goal"]), FOREVER).final.reason


def test_the_reason_says_how_the_validator_fails() -> None:
    class Fresh(Tree):
        def confirm(self) -> ValidationResult:
            return super().confirm().replace(manner="fails in a fresh copy")

    assert run(Fresh([".goal"]), FixLimits(1, None)).final.reason.endswith(
        "; the validator fails in a fresh copy"
    )
    assert run(Fresh(["a"]), FixLimits(1, None)).final.reason.endswith(
        "; the validator still fails"
    )


def test_tests_that_cannot_fail_are_no_fix() -> None:
    tree = Tree(["goal disarmed", "again"])
    ended = run(tree, FOREVER)
    assert ended.final.status == "tampered"
    assert "the guard refuses the result: 1 finding" in ended.final.reason
    assert ended.tampering == DISARMED


def test_what_is_only_worth_a_look_stops_nothing() -> None:
    class Told(Tree):
        def probe(self) -> tuple[Finding, ...]:
            return DISARMED[1:]

    ended = run(Told(["goal"]), FOREVER)
    assert (ended.final.status, ended.tampering) == ("passed", DISARMED[1:])


class Gated(Tree):
    """A tree with a gate that fails until the text has ``gate``, and one that waits then."""

    def gated(self, iteration: int, judged: ValidationResult) -> ValidationResult:
        self.judgements.append(f"gates {iteration}")
        if self.text.endswith("approved"):
            return judged.replace(gates=(GateResult("person", "passed", "approved"),))
        verdict = "waiting" if "gate" in self.text else "failed"
        gate = GateResult("person", verdict, "no")
        told = f"gate person: {verdict}"
        return judged.replace(
            passed=False, feedback=told, reason=told, failures=told, gates=(gate,)
        )


def test_a_gate_that_fails_goes_to_the_agent_and_one_that_waits_pauses_the_run() -> None:
    tree = Gated(["goal", " more", " gate", "never"])
    final = run(tree, FOREVER).final
    assert (final.status, final.exit_code, final.reason) == ("paused", 3, "gate person: waiting")
    assert tree.told == ["", "gate person: failed", "gate person: failed"]
    assert tree.notes[-1] == (3, False, 0)
    assert end(Gated(["goal approved"])) == ("passed", 0)


def test_no_gate_is_asked_of_a_result_that_the_guard_refuses() -> None:
    tree = Gated(["goal x", "approved"])
    assert end(tree) == ("tampered", 1)
    assert not [one for one in tree.judgements if one.startswith("gates")]


def test_the_end_says_which_gate_fails() -> None:
    final = run(Gated(["goal"]), FixLimits(1, None)).final
    assert final.reason.endswith("is reached; the validator passes, but gate person: failed")
    final = run(Gated(["goal"]), FixLimits(1, None, has_validator=False)).final
    assert final.reason.endswith("is reached; gate person: failed")
    final = run(Gated(["goal approved"]), FixLimits(1, None, has_validator=False)).final
    assert final.reason == "the gates pass after 1 iteration"


def test_turns_that_leave_the_same_failures_end_it() -> None:
    limits = FixLimits(9, None, stuck_turns=3)
    stuck = run(Gated(["goal", "a", "b", "c"]), limits)
    assert (stuck.final.status, stuck.final.exit_code) == ("no_progress", 3)
    assert stuck.final.reason.startswith("3 turns in a row left the same failures")
    endless = Gated(["goal", *"abcdefgh"])
    assert end(endless, limits.replace(stuck_turns=0)) == ("max_iterations", 3)
    assert end(Tree(["a", "b", "c", "goal"]), limits) == ("passed", 0)
