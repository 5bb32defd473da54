"""The tests to change, and copies in which they are changed."""

from __future__ import annotations

from random import Random

from rlm_ci.canary import forms, readers
from rlm_ci.canary.answers import TargetTest
from rlm_ci.canary.forms import IDLE
from rlm_ci.validators.outcomes import FAILED, PASSED, OutcomeIndex
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from rlm_ci.canary.answers import ValidatorAnswer
    from rlm_ci.canary.forms import ChangedTest, FoundTest
    from rlm_ci.validators.outcomes import TestOutcome, TestOutcomes


class ChangedCopy(Value):
    """The texts of one copy, and its changed tests; ``label`` names its run."""

    label: str
    texts: Mapping[str, str]
    changed_tests: Mapping[tuple[str, str], ChangedTest]


class TestCopies:
    """``targets`` are the tests to change, ``idle`` those that are not in the sample, by path.

    ``share`` is the part of the tests that passed at the start to change. ``unread`` counts files.
    """

    def __init__(
        self,
        contents: Mapping[str, bytes],
        first: TestOutcomes,
        verdict: ValidatorAnswer,
        *,
        secret: str,
        share: float,
    ) -> None:
        self._first, self._first_index = first, OutcomeIndex(first.tests)
        self._verdict, self._verdict_index = verdict, OutcomeIndex(verdict.outcomes.tests)
        self._secret = secret
        self._share = share
        self.texts: dict[str, str] = {}
        self.names: dict[str, list[str]] = {}
        self.unread = 0
        self.idle: dict[str, list[str]] = {}
        self.targets = self._read_targets(contents)
        self.red = {target.key for target in self.targets if target.was_red}

    def chance(self, purpose: str) -> Random:
        """Choices that nobody can guess, and that are the same when the run is resumed."""
        return Random(f"{self._secret}:{purpose}")  # noqa: S311 - the secret is what counts

    def _read_targets(self, contents: Mapping[str, bytes]) -> list[TargetTest]:
        target_tests: list[TargetTest] = []
        names_by_place: dict[str, set[str]] = {}
        for outcome in self._verdict.outcomes.tests:
            names_by_place.setdefault(outcome.location, set()).add(outcome.name)
        chance = self.chance("sample")
        for path in sorted(contents):
            try:
                text = readers.decoded(path, contents[path])
                tests = readers.of(path).tests(path, text, names_by_place.get(path))
            except forms.UnparsableError:
                self.unread += 1
                continue
            self.texts[path] = text
            self.names[path] = [test.name for test in tests]
            now = self._verdict_index.of_each(path, self.names[path])
            first = self._first_index.of_each(path, self.names[path])
            targets = [
                target
                for test in tests
                if (target := self._target(path, test, first[test.name], now[test.name]))
            ]
            sample = self._sampled(targets, chance)
            self.idle[path] = [target.test.name for target in targets if target not in sample]
            target_tests += sample
        return target_tests

    def _target(
        self,
        path: str,
        test: FoundTest,
        first: Collection[TestOutcome],
        now: Collection[TestOutcome],
    ) -> TargetTest | None:
        """The test, if it passed in the verdict."""
        states = {outcome.state for outcome in now}
        if FAILED in states or (PASSED not in states and (now or self._verdict.outcomes.complete)):
            return None
        red = frozenset(outcome.case for outcome in first if outcome.state == FAILED)
        broken = any(outcome.state == FAILED for outcome in self._first_index.of(path, ""))
        unknown = not first and (self._first.complete or not self._first.tests)
        return TargetTest(path, test, bool(red) or broken or unknown, red)

    def _sampled(self, targets: list[TargetTest], chance: Random) -> list[TargetTest]:
        """All tests that failed at the start, and a share of the others."""
        if self._share >= 1:
            return targets
        green = [target for target in targets if not target.was_red]
        limit = max(1, round(len(green) * self._share))
        chosen = set(chance.sample([target.key for target in green], min(limit, len(green))))
        return [target for target in targets if target.was_red or target.key in chosen]

    def changed(
        self, form_by_test: Mapping[tuple[str, str], str], label: str, *, plain: bool = False
    ) -> ChangedCopy:
        """A copy with each test of ``form_by_test`` in its form, by path and name."""
        texts: dict[str, str] = {}
        changed_tests: dict[tuple[str, str], ChangedTest] = {}
        by_path: dict[str, dict[str, str]] = {}
        for (path, name), form in form_by_test.items():
            by_path.setdefault(path, dict.fromkeys(self.idle[path], IDLE))[name] = form
        for path, names in by_path.items():
            reader, chance = readers.of(path), self.chance(f"{label}:{path}")
            try:
                changed = reader.change(path, self.texts[path], names, chance, plain=plain)
            except forms.UnparsableError:  # nested too deep to be changed: not probed
                continue
            if changed.text != self.texts[path]:
                texts[path] = changed.text
                changed_tests.update(
                    ((path, name), test)
                    for name, test in changed.changed_tests.items()
                    if test.form != IDLE
                )
        return ChangedCopy(label, texts, changed_tests)

    def alone(self, keys: Iterable[tuple[str, str]], form: str, label: str) -> ChangedCopy:
        """A copy in which no other test that failed at the start can end the run."""
        form_by_test = dict.fromkeys(sorted(keys), form)
        return self.changed({**dict.fromkeys(self.red, IDLE), **form_by_test}, label, plain=True)
