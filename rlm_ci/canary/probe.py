"""Checks that tests can still fail: changes them, and runs them on the result of a fix.

In three copies, each test is once *altered* (it expects something else), once *inverted* (its
claims are reversed) and once *reworded* (the same in other words), in an order that follows from a
secret. The first two must fail, by name and with a token in the message; the third must pass. A
test with a wrong result is probed once more with new random choices, then on the start tree: if it
does the same there, it is excused, unless it failed at the start.
"""

from __future__ import annotations

from random import Random

from rlm_ci.canary import answers, forms, readers
from rlm_ci.canary.answers import (
    FAILS,
    MISSING,
    PASSES,
    SILENT,
    CanaryResult,
    FailedProbe,
    TargetTest,
)
from rlm_ci.canary.forms import ALTERED, IDLE, INVERTED, REACHED, REWORDED, STOPPED
from rlm_ci.text.printable import count, printable
from rlm_ci.validators.outcomes import FAILED, PASSED, OutcomeIndex
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from rlm_ci.canary.answers import ValidatorAnswer
    from rlm_ci.canary.forms import ChangedTest, FoundTest
    from rlm_ci.validators.outcomes import TestOutcome, TestOutcomes


#: The forms of each test in the three copies, in some order.
COPIES = (ALTERED, INVERTED, REWORDED)
NOT_PROBED = "canary: not probed"
_MOST = 20
_NAME = 200


class _Round(Value):
    """The texts of one copy, and its changed tests."""

    texts: Mapping[str, str]
    made: Mapping[tuple[str, str], ChangedTest]


class Canary:
    """``contents`` are the files of tests by path, as the verdict saw them.

    ``first`` are the outcomes of tests at the start; ``share`` is the part of the tests that passed
    there to change; ``has_new``: the result has tests that did not run for the verdict.

    ``run(label, texts)`` runs the validator with changed files; None if no time is left. Its
    ``at_start=True`` does so on the start tree, ``with_new=True`` on the result with new tests.
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
    ) -> None:
        self._has_new = has_new
        self._first, self._first_index = first, OutcomeIndex(first.tests)
        self._verdict, self._verdict_index = verdict, OutcomeIndex(verdict.outcomes.tests)
        self._run = run
        self._secret = secret
        self._share = share
        self._texts: dict[str, str] = {}
        self._names: dict[str, list[str]] = {}
        self._unread = 0
        self._idle: dict[str, list[str]] = {}
        #: The forms in which a test had the right result.
        self._answered: dict[tuple[str, str], set[str]] = {}
        self._unprobed: set[tuple[str, str]] = set()
        self._excused: set[tuple[str, str]] = set()
        self._disputed: set[tuple[str, str]] = set()
        self._stopped = ""
        #: Whether a token was seen at all: some validators print nothing of a failure.
        self._shows = False
        #: Wrong results of a copy as a whole.
        self._whole: dict[int, str] = {}
        self._written: list[str] = []
        self._rounds: dict[int, _Round] = {}
        self._subjects = self._found(contents)

    def probe(self) -> CanaryResult:
        """Run the copies, and the further runs that their results require."""
        if not self._subjects:
            return CanaryResult((), self._line(), {})
        first = [one for copy in range(len(COPIES)) for one in self._first_round(copy)]
        left = self._settled(self._unexcused(self._again(first)))
        if self._has_new and not left:
            left = self._beside_new()
        changed = {one.subject.path: self._rounds[one.copy].texts[one.subject.path] for one in left}
        self._disputed = {one.subject.key for one in left}
        whole = (*list(self._whole.values())[:1], *self._written)
        return CanaryResult(answers.findings(left, whole, self._texts), self._line(), changed)

    # ── which tests ──

    def _found(self, contents: Mapping[str, bytes]) -> list[TargetTest]:
        found: list[TargetTest] = []
        named: dict[str, set[str]] = {}
        for outcome in self._verdict.outcomes.tests:
            named.setdefault(outcome.place, set()).add(outcome.name)
        chance = Random(f"{self._secret}:sample")  # noqa: S311 - the secret is what counts
        for path in sorted(contents):
            try:
                text = readers.decoded(path, contents[path])
                tests = readers.of(path).tests(path, text, named.get(path))
            except forms.UnparsableError:
                self._unread += 1
                continue
            self._texts[path] = text
            self._names[path] = [test.name for test in tests]
            now = self._verdict_index.of_each(path, self._names[path])
            first = self._first_index.of_each(path, self._names[path])
            subjects = [
                one
                for test in tests
                if (one := self._subject(path, test, first[test.name], now[test.name])) is not None
            ]
            kept = self._sampled(subjects, chance)
            self._idle[path] = [one.test.name for one in subjects if one not in kept]
            found += kept
        return found

    def _subject(
        self,
        path: str,
        test: FoundTest,
        first: Collection[TestOutcome],
        now: Collection[TestOutcome],
    ) -> TargetTest | None:
        """The test, if it passed in the verdict."""
        states = {one.state for one in now}
        if FAILED in states or (PASSED not in states and (now or self._verdict.outcomes.complete)):
            return None
        red = frozenset(one.case for one in first if one.state == FAILED)
        broken = any(one.state == FAILED for one in self._first_index.of(path, ""))
        unknown = not first and (self._first.complete or not self._first.tests)
        return TargetTest(path, test, bool(red) or broken or unknown, red)

    def _sampled(self, subjects: list[TargetTest], chance: Random) -> list[TargetTest]:
        """All tests that failed at the start, and a share of the others."""
        if self._share >= 1:
            return subjects
        green = [one for one in subjects if not one.was_red]
        most = max(1, round(len(green) * self._share))
        chosen = set(chance.sample([one.key for one in green], min(most, len(green))))
        return [one for one in subjects if one.was_red or one.key in chosen]

    # ── the copies ──

    def _first_round(self, copy: int) -> list[FailedProbe]:
        turn = int(self._secret[:8], 16)
        wanted = {
            subject.key: COPIES[(number + copy + turn) % len(COPIES)]
            for number, subject in enumerate(self._subjects)
        }
        made = self._rounds[copy] = self._changed(wanted, _label(copy))
        reply = self._run(_label(copy), made.texts) if made.made else None
        if reply is None or reply.stopped:
            self._stopped = (reply.stopped if reply else "") or self._stopped or "no time was left"
            return []
        self._judge_whole(copy, made, reply)
        return self._doubts(copy, made, reply)

    def _changed(
        self, wanted: Mapping[tuple[str, str], str], label: str, *, plain: bool = False
    ) -> _Round:
        texts: dict[str, str] = {}
        made: dict[tuple[str, str], ChangedTest] = {}
        by_path: dict[str, dict[str, str]] = {}
        for (path, name), form in wanted.items():
            by_path.setdefault(path, dict.fromkeys(self._idle[path], IDLE))[name] = form
        for path, names in by_path.items():
            reader = readers.of(path)
            chance = Random(f"{self._secret}:{label}:{path}")  # noqa: S311 - see above
            try:
                changed = reader.change(path, self._texts[path], names, chance, plain=plain)
            except forms.UnparsableError:  # nested too deep to be changed: not probed
                continue
            if changed.text != self._texts[path]:
                texts[path] = changed.text
                made.update(
                    ((path, name), one) for name, one in changed.made.items() if one.form != IDLE
                )
        return _Round(texts, made)

    def _doubts(self, copy: int, made: _Round, reply: ValidatorAnswer) -> list[FailedProbe]:
        """The tests of a copy with a wrong result."""
        index = OutcomeIndex(reply.outcomes.tests)
        each = {path: index.of_each(path, self._names[path]) for path in made.texts}
        tokens = {one: one in reply.printed for test in made.made.values() for one in test.tokens}
        found = []
        for subject in self._subjects:
            one = made.made.get(subject.key)
            if one is None:
                continue
            what, shown = self._answer(
                subject, one, reply, each[subject.path][subject.test.name], tokens
            )
            if what:
                found.append(FailedProbe(subject, copy, one.form, what, shown))
            else:
                self._answered.setdefault(subject.key, set()).add(one.form)
        return found

    def _answer(
        self,
        subject: TargetTest,
        made: ChangedTest,
        reply: ValidatorAnswer,
        now: Collection[TestOutcome],
        tokens: Mapping[str, bool],
    ) -> tuple[str, str]:
        """The wrong result of a test, and in how many cases; "" for a right one."""
        failed = [one for one in now if one.state == FAILED]
        passed = [one for one in now if one.state == PASSED]
        if not (failed or passed) and (now or not self._is_judged(reply)):
            return MISSING, ""
        if made.form == REWORDED:
            shown = f" ({len(failed)} of {len(now)})" if len(now) > 1 else ""
            return (FAILS, shown) if failed else ("", "")
        red = [one for one in passed if one.case in subject.cases]
        if not failed or red:
            shown = f" ({len(passed)} of {len(now)})" if len(now) > 1 else ""
            return PASSES, shown
        messages = "\n".join(one.message for one in failed)
        seen = any(tokens[one] or one in messages for one in made.tokens)
        self._shows = self._shows or seen
        return (SILENT, "") if made.tokens and not seen and not reply.clipped else ("", "")

    def _is_judged(self, reply: ValidatorAnswer) -> bool:
        """Whether a test without a name in the report has passed: as many ran as in the verdict."""
        if reply.outcomes.complete or reply.clipped:
            return False
        known = self._verdict.judged
        return known is not None and reply.judged is not None and reply.judged >= known

    def _judge_whole(self, copy: int, made: _Round, reply: ValidatorAnswer) -> None:
        """Note an exit code 0 although tests fail, and changed files that were written."""
        must_fail = sum(one.form != REWORDED for one in made.made.values())
        failed = any(one.state == FAILED for one in reply.outcomes.tests)
        if reply.exit_code == 0 and must_fail and failed:
            tests = count(must_fail, "test")
            self._whole[copy] = f"the validator ends with exit code 0 where {tests} must fail"
        for path in sorted(reply.rewritten & made.texts.keys())[:_MOST]:
            self._written.append(f"{printable(path)[:_NAME]} was written while its tests ran")

    # ── doubts ──

    def _again(self, doubts: Iterable[FailedProbe]) -> list[FailedProbe]:
        """The doubts that are left when only their tests are changed, more simply."""
        stable: list[FailedProbe] = []
        for number, batch in enumerate(_batches(doubts), len(COPIES)):
            wanted = {key: doubt.form for key, doubt in batch.items()}
            made = self._rounds[number] = self._changed(wanted, _label(number), plain=True)
            reply = self._run(_label(number), made.texts)
            if reply is None or reply.stopped:
                self._unprobed |= batch.keys()
            else:
                stable += self._doubts(number, made, reply)
        return stable

    def _unexcused(self, doubts: list[FailedProbe]) -> list[FailedProbe]:
        """The doubts that the start tree does not share; a test that did not run shows nothing."""
        left = [one for one in doubts if one.subject.was_red or one.what == MISSING]
        green = [one for one in doubts if not one.subject.was_red and one.what != MISSING]
        for copy in sorted({one.copy for one in green} | self._whole.keys()):
            made = self._rounds[copy]
            reply = self._run(f"{_label(copy)}-start", made.texts, at_start=True)
            doubted = [one for one in green if one.copy == copy]
            if reply is None or reply.stopped:
                self._unprobed |= {one.subject.key for one in doubted}
                continue
            if reply.exit_code == 0:  # it always ends with 0, whatever its tests do
                self._whole.pop(copy, None)
            alike = {(one.subject.key, one.what) for one in self._doubts(copy, made, reply)}
            for doubt in doubted:
                if (doubt.subject.key, doubt.what) in alike:
                    self._excused.add(doubt.subject.key)
                else:
                    left.append(doubt)
        return left

    def _settled(self, doubts: list[FailedProbe]) -> list[FailedProbe]:
        """The doubts that become findings.

        A test that did not run, or whose runner shows no message, was not probed. A claim that
        passes reversed may never be reached, or the test catches its failure: then another failure
        in its place passes, too, but one at the start of the test fails.
        """
        left = []
        for doubt in doubts:
            if doubt.what == MISSING or (doubt.what == SILENT and not self._shows):
                self._unprobed.add(doubt.subject.key)
            else:
                left.append(doubt)
        reversals = {
            one.subject.key for one in left if one.what in (PASSES, SILENT) and one.subject.was_red
        }
        if not reversals:
            return left
        failing = {form: self._failing(reversals, form) for form in (STOPPED, REACHED)}
        unreached = (reversals & failing[STOPPED]) - failing[REACHED]
        self._unprobed |= unreached
        return [one for one in left if one.what == FAILS or one.subject.key not in unreached]

    def _failing(self, keys: Iterable[tuple[str, str]], form: str) -> set[tuple[str, str]]:
        """The tests that fail in ``form``."""
        made = self._changed(dict.fromkeys(sorted(keys), form), form, plain=True)
        reply = self._run(form, made.texts)
        if reply is None or reply.stopped:
            return set()
        doubted = {one.subject.key for one in self._doubts(0, made, reply)}
        return set(made.made) - doubted

    def _beside_new(self) -> list[FailedProbe]:
        """The tests that cannot fail when new tests are beside them."""
        wanted = dict.fromkeys((one.key for one in self._subjects), STOPPED)
        made = self._rounds[0] = self._changed(wanted, "new", plain=True)
        reply = self._run("with-new-tests", made.texts, with_new=True)
        if reply is None or reply.stopped:
            return []
        answered = {key: set(forms) for key, forms in self._answered.items()}
        doubts = [one for one in self._doubts(0, made, reply) if one.what == PASSES]
        self._answered = answered
        return doubts

    def _line(self) -> str:
        unread = [f"{count(self._unread, 'file')} not read"] if self._unread else []
        if not self._subjects:
            return ", ".join((f"{NOT_PROBED}, no test that ran can be changed", *unread))
        every = {one.key for one in self._subjects}
        failed = {ALTERED, INVERTED, STOPPED}
        reversed_ = {key for key, forms in self._answered.items() if forms & failed}
        reversed_ -= self._unprobed | self._excused | self._disputed
        reply = [f"{count(len(reversed_), 'claim')} reversed"]
        if self._disputed:
            reply.append(f"{count(len(self._disputed), 'test')} disarmed")
        if self._excused:
            reply.append(f"{len(self._excused):,} excused")
        reply += unread
        unprobed = self._unprobed | (every - self._answered.keys() - self._excused - self._disputed)
        if unprobed:
            reply.append(f"{count(len(unprobed), 'test')} not probed")
        red = {one.key for one in self._subjects if one.was_red}
        if red and not red & (reversed_ | self._disputed):
            reply.append("none of a test that failed at the start")
        if idle := sum(map(len, self._idle.values())):
            reply.append(f"{count(idle, 'test')} not in the sample")
        if self._stopped:
            reply.append(self._stopped)
        return f"canary: {', '.join(reply)}"


def _label(number: int) -> str:
    more = number - len(COPIES)
    return f"again-{more + 1}" if more >= 0 else str(number + 1)


def _batches(doubts: Iterable[FailedProbe]) -> list[dict[tuple[str, str], FailedProbe]]:
    """Doubts by their tests, each of which can have one form at a time.

    A test is probed in every form in which it was doubted: in one of them, a cheat may have the
    right result.
    """
    batches: list[dict[tuple[str, str], FailedProbe]] = []
    known = set()
    for doubt in doubts:
        key = doubt.subject.key
        if (key, doubt.form) in known:
            continue
        known.add((key, doubt.form))
        batch = next((one for one in batches if key not in one), None)
        if batch is None:
            batches.append(batch := {})
        batch[key] = doubt
    return batches
