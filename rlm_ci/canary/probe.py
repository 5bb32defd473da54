"""Checks that tests can still fail: changes them, and runs them on the result of a fix.

In three copies, each test is once *altered* (it expects something else), once *inverted* (its
claims are reversed) and once *reworded* (the same in other words), in an order that follows from a
secret. The first two must fail, by name and with a token in the message; the third must pass.

A test that passed at the start is excused if it does the same there, on the start tree. One that
failed there is probed once more with new random choices. If it no longer runs, or no longer reaches
its claim, the same text runs on the start tree: if the test could be probed there, it is a finding.
"""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.canary import acceptance, answers
from rlm_ci.canary.answers import (
    FAILS,
    MISSING,
    PASSES,
    SILENT,
    UNREACHED,
    VANISHED,
    CanaryResult,
    FailedProbe,
)
from rlm_ci.canary.copies import TestCopies
from rlm_ci.canary.forms import (
    ALTERED,
    INVERTED,
    NEARLY,
    ON_BRANCH,
    REACHED,
    REWORDED,
    STOPPED,
)
from rlm_ci.text.printable import count, printable
from rlm_ci.validators.outcomes import FAILED, PASSED, OutcomeIndex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from rlm_ci.canary.answers import TargetTest, ValidatorAnswer
    from rlm_ci.canary.copies import ChangedCopy
    from rlm_ci.canary.forms import ChangedTest
    from rlm_ci.report.findings import Finding
    from rlm_ci.validators.outcomes import TestOutcome, TestOutcomes


#: The forms of each test in the three copies, in some order.
COPIES = (ALTERED, INVERTED, REWORDED)
NOT_PROBED = "canary: not probed"
_MOST = 20
_NAME = 200
#: So many tests of a form that did not run are asked alone: no other failure ends that run.
_ALONE = 3
#: The forms of such tests, those first whose failure is the most certain.
_MISSED = (REWORDED, ALTERED)
_NO_TIME = "; no time was left to run it once more"


class Canary:
    """``contents`` are the files of tests by path, as the verdict saw them.

    ``first`` are the outcomes of tests at the start; ``share`` is the part of the tests that passed
    there to change; ``has_new``: the result has tests that did not run for the verdict.

    ``run(label, texts)`` runs the validator with changed files; None if no time is left. Its
    ``at_start=True`` does so on the start tree, ``with_new=True`` on the result with new tests.
    ``slowness()`` says how slow the tests became, if there would have been time for them as they
    were; else "".
    """

    def __init__(
        self,
        contents: Mapping[str, bytes],
        first: TestOutcomes,
        verdict: ValidatorAnswer,
        run: Callable[..., ValidatorAnswer | None],
        *,
        secret: str,
        share: float = 1.0,
        has_new: bool = False,
        slowness: Callable[[], str] = str,
    ) -> None:
        self._has_new = has_new
        self._verdict = verdict
        self._run = run
        self._turn = int(secret[:8], 16)
        self._is_scarce = share < 1
        self._slowness = slowness
        self._tests = TestCopies(contents, first, verdict, secret=secret, share=share)
        #: The forms in which a test had the right result.
        self._answered: dict[tuple[str, str], set[str]] = {}
        self._unprobed: set[tuple[str, str]] = set()
        self._excused: set[tuple[str, str]] = set()
        self._disputed: set[tuple[str, str]] = set()
        self._stopped = ""
        #: Whether a token was seen at all: some validators print nothing of a failure.
        self._shows = False
        #: Wrong results of a copy as a whole.
        self._whole: dict[str, str] = {}
        self._written: list[str] = []
        self._copies: dict[str, ChangedCopy] = {}
        self._replies: dict[str, ValidatorAnswer | None] = {}
        #: Tests that cannot fail when new tests are beside them.
        self._beside_new: list[FailedProbe] = []
        #: Doubts that are not certain.
        self._told: list[FailedProbe] = []

    def probe(self) -> CanaryResult:
        """Run the copies, and the further runs that their results require."""
        if not self._tests.targets:
            return CanaryResult((), self._line(), {})
        doubts = self._unexcused(self._audible(self._first()))
        stable = self._again(doubts)
        left = self._settled(stable) + self._accepted(doubts, stable)
        left = left + self._told or self._beside_new
        changed = {
            doubt.subject.path: self._copies[doubt.copy].texts[doubt.subject.path] for doubt in left
        }
        self._disputed = {doubt.subject.key for doubt in left if not doubt.is_told}
        run_problems = (*list(self._whole.values())[:1], *self._written)
        findings = answers.findings(left, run_problems, self._tests.texts)
        return CanaryResult(findings + self._hidden(left), self._line(), changed)

    def _hidden(self, probes: Iterable[FailedProbe]) -> tuple[Finding, ...]:
        """What failed at the start, and was not tried because the tests became slow."""
        why = self._slowness() if self._stopped else ""
        keys = self._tests.red - self._reversed() - {doubt.subject.key for doubt in probes}
        late = (target for target in self._tests.targets if target.key in keys)
        return answers.hidden(late, why, self._tests.texts) if why else ()

    # ── the copies ──

    def _first(self) -> list[FailedProbe]:
        """The wrong results of the three copies; new tests run with the last if all is right."""
        doubts: list[FailedProbe] = []
        for number in range(len(COPIES)):
            form_by_test = {
                target.key: self._form(number, at, target)
                for at, target in enumerate(self._tests.targets)
            }
            copy = self._tests.changed(form_by_test, str(number + 1))
            beside: list[FailedProbe] = []
            reply = None
            if self._has_new and number == len(COPIES) - 1:
                reply = self._ask(copy, with_new=True)
                beside = self._doubts(copy, reply) if reply else []
            if reply is None or beside:
                reply = self._ask(copy)
            if reply is not None:
                self._judge_whole(copy, reply)
                more = self._doubts(copy, reply)
                doubts += more
                keys = {doubt.subject.key for doubt in more}
                self._beside_new = [
                    doubt
                    for doubt in beside
                    if doubt.what == PASSES and doubt.subject.key not in keys
                ]
            if self._is_scarce and any(doubt.subject.was_red for doubt in doubts):
                break  # the time is for these
        return doubts

    def _form(self, number: int, at: int, target: TargetTest) -> str:
        """The form of a test in a copy.

        What was red must fail in the first one where time is scarce, else beside new tests.
        """
        shift = self._turn + at
        if target.was_red and (self._is_scarce or self._has_new):
            shift = shift % 2 + (not self._is_scarce)
        form = COPIES[(number + shift) % len(COPIES)]
        return NEARLY if form == ALTERED and target.was_red else form

    def _ask(
        self, copy: ChangedCopy, *, at_start: bool = False, with_new: bool = False
    ) -> ValidatorAnswer | None:
        """How the validator ends on a copy; None where it has no test, or no time is left."""
        self._copies[copy.label] = copy
        if not copy.changed_tests:
            return None
        label = f"{copy.label}{'-start' * at_start}{'-with-new-tests' * with_new}"
        if label not in self._replies:
            reply = self._run(label, copy.texts, at_start=at_start, with_new=with_new)
            if reply is None or reply.stopped:
                self._stopped = (
                    (reply.stopped if reply else "") or self._stopped or "no time was left"
                )
                reply = None
            self._replies[label] = reply
        return self._replies[label]

    def _results(
        self, copy: ChangedCopy, reply: ValidatorAnswer
    ) -> dict[tuple[str, str], tuple[str, str]]:
        """What each changed test did wrong, and in how many cases; "" for nothing."""
        index = OutcomeIndex(reply.outcomes.tests)
        each = {path: index.of_each(path, self._tests.names[path]) for path in copy.texts}
        tokens = {
            word: word in reply.printed
            for test in copy.changed_tests.values()
            for word in test.tokens
        }
        return {
            target.key: self._answer(
                target, changed_test, reply, each[target.path][target.test.name], tokens
            )
            for target in self._tests.targets
            if (changed_test := copy.changed_tests.get(target.key)) is not None
        }

    def _doubts(self, copy: ChangedCopy, reply: ValidatorAnswer) -> list[FailedProbe]:
        """The tests of a copy with a wrong result."""
        results = self._results(copy, reply)
        doubts = []
        for target in self._tests.targets:
            if target.key not in results:
                continue
            form, (what, shown) = copy.changed_tests[target.key].form, results[target.key]
            if what:
                doubts.append(FailedProbe(target, copy.label, form, what, shown))
            else:
                self._answered.setdefault(target.key, set()).add(form)
        return doubts

    def _answer(
        self,
        subject: TargetTest,
        test: ChangedTest,
        reply: ValidatorAnswer,
        now: Collection[TestOutcome],
        tokens: Mapping[str, bool],
    ) -> tuple[str, str]:
        """The wrong result of a test, and in how many cases; "" for a right one."""
        failed = [outcome for outcome in now if outcome.state == FAILED]
        passed = [outcome for outcome in now if outcome.state == PASSED]
        if not (failed or passed) and (now or not self._is_judged(reply)):
            return MISSING, ""
        if test.form == REWORDED:
            shown = f" ({len(failed)} of {len(now)})" if len(now) > 1 else ""
            return (FAILS, shown) if failed else ("", "")
        red = [outcome for outcome in passed if outcome.case in subject.cases]
        if not failed or red:
            shown = f" ({len(passed)} of {len(now)})" if len(now) > 1 else ""
            return PASSES, shown
        messages = "\n".join(outcome.message for outcome in failed)
        seen = any(tokens[token] or token in messages for token in test.tokens)
        self._shows = self._shows or seen
        return (SILENT, "") if test.tokens and not seen and not reply.clipped else ("", "")

    def _is_judged(self, reply: ValidatorAnswer) -> bool:
        """Whether a test without a name in the report has passed: as many ran as in the verdict."""
        if reply.outcomes.complete or reply.clipped:
            return False
        judged = self._verdict.judged
        return judged is not None and reply.judged is not None and reply.judged >= judged

    def _judge_whole(self, copy: ChangedCopy, reply: ValidatorAnswer) -> None:
        """Note an exit code 0 although tests fail, and changed files that were written."""
        must_fail = sum(test.form != REWORDED for test in copy.changed_tests.values())
        failed = any(outcome.state == FAILED for outcome in reply.outcomes.tests)
        if reply.exit_code == 0 and must_fail and failed:
            tests = count(must_fail, "test")
            self._whole[copy.label] = f"the validator ends with exit code 0 where {tests} must fail"
        for path in sorted(reply.rewritten & copy.texts.keys())[:_MOST]:
            self._written.append(f"{printable(path)[:_NAME]} was written while its tests ran")

    # ── doubts ──

    def _audible(self, doubts: list[FailedProbe]) -> list[FailedProbe]:
        """The doubts that are left where a validator prints no message of any failure."""
        silent = [doubt for doubt in doubts if doubt.what == SILENT]
        if not silent or self._shows or self._shows_at_start(silent):
            return doubts
        self._unprobed |= {doubt.subject.key for doubt in silent}
        return [doubt for doubt in doubts if doubt.what != SILENT]

    def _shows_at_start(self, silent: Iterable[FailedProbe]) -> bool:
        """Whether the start tree prints messages: then it is the result that keeps them back."""
        copy = self._copies[max(silent, key=lambda doubt: doubt.subject.was_red).copy]
        reply = self._ask(copy, at_start=True)
        if reply is not None:
            self._results(copy, reply)
        return self._shows

    def _unexcused(self, doubts: list[FailedProbe]) -> list[FailedProbe]:
        """The doubts without those on green tests that do the same on the start tree."""
        left = doubts
        if self._is_scarce and any(doubt.subject.was_red for doubt in doubts):
            left = [doubt for doubt in doubts if doubt.subject.was_red]
            self._unprobed |= {doubt.subject.key for doubt in doubts if doubt not in left}
        for label in dict.fromkeys([*_by_copy(doubts), *self._whole]):
            green = [doubt for doubt in left if doubt.copy == label and _is_green(doubt)]
            if not green and label not in self._whole:
                continue
            copy = self._copies[label]
            reply = self._ask(copy, at_start=True)
            if reply is None:
                gone = {doubt.subject.key for doubt in green}
                self._unprobed |= gone
            else:
                if reply.exit_code == 0:  # it always ends with 0, whatever its tests do
                    self._whole.pop(label, None)
                results = self._results(copy, reply)
                gone = {
                    doubt.subject.key
                    for doubt in green
                    if results[doubt.subject.key][0] == doubt.what
                }
                self._excused |= gone
            left = [doubt for doubt in left if doubt.subject.key not in gone]
        return left

    def _again(self, doubts: Iterable[FailedProbe]) -> list[FailedProbe]:
        """The doubts that are left when only their tests are changed, more simply."""
        stable: list[FailedProbe] = []
        for number, batch in enumerate(_batches(doubts), 1):
            form_by_test = {
                key: ALTERED if doubt.form == NEARLY else doubt.form for key, doubt in batch.items()
            }
            copy = self._tests.changed(form_by_test, f"again-{number}", plain=True)
            reply = self._ask(copy)
            if reply is None:
                self._leave(batch.values())
            else:
                stable += self._doubts(copy, reply)
        return stable

    def _accepted(
        self, doubts: Iterable[FailedProbe], stable: Iterable[FailedProbe]
    ) -> list[FailedProbe]:
        """The doubts on tests that refuse what is far away, and accept what is near."""
        settled = {doubt.subject.key for doubt in (*stable, *self._told)}
        probes = [
            doubt
            for doubt in doubts
            if doubt.form == NEARLY
            if doubt.what in (PASSES, SILENT) and doubt.subject.key not in settled
        ]
        left, excused = acceptance.judged(probes, self._tests, self._ask)
        self._excused |= excused
        return left

    def _leave(self, doubts: Iterable[FailedProbe]) -> None:
        """No time is left to be certain of these doubts."""
        why = ": ".join(filter(None, (_NO_TIME, self._slowness())))
        for doubt in doubts:
            self._unprobed.add(doubt.subject.key)
            if doubt.subject.was_red:
                self._told.append(doubt.replace(is_told=True, shown=f"{doubt.shown}{why}"))

    def _settled(self, doubts: list[FailedProbe]) -> list[FailedProbe]:
        """The doubts that become findings."""
        missing = [doubt for doubt in doubts if doubt.what == MISSING]
        left = [doubt for doubt in doubts if doubt.what != MISSING]
        return self._vanished(missing) + self._reached(left)

    def _vanished(self, doubts: Iterable[FailedProbe]) -> list[FailedProbe]:
        """Of tests that did not run, one that does with the same text on the start tree.

        A few of each form are asked alone, and no longer once one is certain.
        """
        by_form: dict[str, dict[tuple[str, str], FailedProbe]] = {form: {} for form in _MISSED}
        for doubt in doubts:
            self._unprobed.add(doubt.subject.key)
            if doubt.subject.was_red:
                by_form.setdefault(doubt.form, {}).setdefault(doubt.subject.key, doubt)
        left: list[FailedProbe] = []
        probes: list[FailedProbe] = []
        for by_key in by_form.values():
            few = list(by_key.values())
            self._tests.chance("alone").shuffle(few)
            probes += few[:_ALONE]
        for number, doubt in enumerate(probes, 1):
            key, label = doubt.subject.key, f"alone-{number}"
            copy = self._tests.alone([key], doubt.form, label)
            now = self._result(copy, key)
            start = self._result(copy, key, at_start=True) if now == MISSING else MISSING
            if now == "":
                self._unprobed.discard(key)
                self._answered.setdefault(key, set()).add(doubt.form)
            if now is None or start is None:
                self._leave([doubt])
            elif now == MISSING != start:
                gone = doubt.replace(copy=label, what=VANISHED)
                # One that fails before its claim at the start may be ended by its claim now.
                if doubt.form == REWORDED or not start or not self._shows:
                    return [gone]
                reached = self._tests.alone([key], REACHED, f"{REACHED}-{number}")
                if self._result(reached, key) == "":
                    return [gone]
                left.append(gone.replace(is_told=True))
        return left

    def _result(
        self, copy: ChangedCopy, key: tuple[str, str], *, at_start: bool = False
    ) -> str | None:
        """What a test did wrong in a copy, "" for nothing; None if that is unknown."""
        reply = self._ask(copy, at_start=at_start)
        return None if reply is None else self._results(copy, reply).get(key, (MISSING, ""))[0]

    def _reached(self, doubts: list[FailedProbe]) -> list[FailedProbe]:
        """The doubts without those on claims that are not reached, or whose failure is caught.

        A claim that passes reversed may be one: then another failure in its place passes, too, but
        one at the start of the test fails. If that other failure fails on the start tree, the claim
        was reached there: a finding of its own.
        """
        keys = {
            doubt.subject.key
            for doubt in doubts
            if doubt.what in (PASSES, SILENT) and doubt.subject.was_red
        }
        if not keys:
            return doubts
        copies = {form: self._tests.alone(keys, form, form) for form in (STOPPED, REACHED)}
        failing = {form: self._failing(copy) for form, copy in copies.items()}
        unreached = (keys & failing[STOPPED]) - failing[REACHED]
        left = [
            doubt for doubt in doubts if doubt.what == FAILS or doubt.subject.key not in unreached
        ]
        return left + self._unreached(copies[REACHED], unreached)

    def _failing(self, copy: ChangedCopy, *, at_start: bool = False) -> set[tuple[str, str]]:
        """The tests of a copy that fail as they must."""
        reply = self._ask(copy, at_start=at_start)
        results = {} if reply is None else self._results(copy, reply)
        return {key for key, (what, _) in results.items() if not what}

    def _unreached(self, copy: ChangedCopy, keys: set[tuple[str, str]]) -> list[FailedProbe]:
        """Of tests that do not reach their claims, those that do on the start tree.

        Behind a condition, such as an exception that is no longer raised, this is only told.
        """
        self._unprobed |= keys
        doubts = [
            FailedProbe(target, copy.label, REACHED, UNREACHED)
            for target in self._tests.targets
            if target.key in keys
        ]
        reply = self._ask(copy, at_start=True) if doubts else None
        if reply is None:
            self._leave(doubts)
            return []
        failing, index = self._failing(copy, at_start=True), OutcomeIndex(reply.outcomes.tests)
        left = []
        for doubt in doubts:
            if doubt.subject.key in failing:
                outcomes = index.of(doubt.subject.path, doubt.subject.test.name)
                text = "\n".join([reply.printed, *(outcome.message for outcome in outcomes)])
                tokens = copy.changed_tests[doubt.subject.key].tokens
                certain = any(re.search(f"{word}(?!{ON_BRANCH})", text) for word in tokens)
                left.append(doubt.replace(is_told=not certain))
        return left

    def _reversed(self) -> set[tuple[str, str]]:
        """The tests that failed as they must, and about which no doubt is left."""
        failed = {ALTERED, NEARLY, INVERTED, STOPPED}
        keys = {key for key, forms in self._answered.items() if forms & failed}
        return keys - self._unprobed - self._excused - self._disputed

    def _line(self) -> str:
        unread = [f"{count(self._tests.unread, 'file')} not read"] if self._tests.unread else []
        if not self._tests.targets:
            return ", ".join((f"{NOT_PROBED}, no test that ran can be changed", *unread))
        every, reversed_ = {target.key for target in self._tests.targets}, self._reversed()
        can_fail = f"{count(len(reversed_), 'test')} can fail"
        reply = [can_fail if reversed_ else "no test was seen to fail"]
        if self._disputed:
            reply.append(f"{count(len(self._disputed), 'test')} disarmed")
        if self._excused:
            reply.append(f"{len(self._excused):,} excused")
        reply += unread
        unprobed = self._unprobed | (every - self._answered.keys() - self._excused)
        if unprobed := unprobed - self._disputed:
            reply.append(f"{count(len(unprobed), 'test')} not probed")
        if self._tests.red and not self._tests.red & (reversed_ | self._disputed):
            reply.append("none of a test that failed at the start")
        if idle := sum(map(len, self._tests.idle.values())):
            reply.append(f"{count(idle, 'test')} not in the sample")
        if self._stopped:
            reply.append(self._stopped)
        return f"canary: {', '.join(reply)}"


def _is_green(doubt: FailedProbe) -> bool:
    """Whether the start tree may excuse it; a test that did not run shows nothing."""
    return not doubt.subject.was_red and doubt.what != MISSING


def _by_copy(doubts: Iterable[FailedProbe]) -> list[str]:
    """The copies with doubts on green tests, those with most of them first."""
    return [label for label, _ in Counter(map(_copy_of, filter(_is_green, doubts))).most_common()]


def _copy_of(doubt: FailedProbe) -> str:
    return doubt.copy


def _batches(doubts: Iterable[FailedProbe]) -> list[dict[tuple[str, str], FailedProbe]]:
    """Doubts by their tests, each of which can have one form at a time.

    A test is probed in every form in which it was doubted: in one of them, a cheat may have the
    right result.
    """
    batches: list[dict[tuple[str, str], FailedProbe]] = []
    seen = set()
    for doubt in doubts:
        key = doubt.subject.key
        if (key, doubt.form) in seen:
            continue
        seen.add((key, doubt.form))
        batch = next((other for other in batches if key not in other), None)
        if batch is None:
            batches.append(batch := {})
        batch[key] = doubt
    return batches
