"""What the rest of a change says of the names that a lost test or claim has.

If the product says them less often, the test may have gone with what it tested. If new text of the
tests beside it says them, it may be there in other words. Both are signs and no proof: who wants
to lose a test can write them, so that they excuse no agent.
"""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.guard.weakened_tests.cases import is_literal, telling
from rlm_ci.guard.weakened_tests.rewritten import name_parts
from rlm_ci.guard.weakened_tests.rewritten import names as test_names
from rlm_ci.guard.weakened_tests.strength import strength

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from rlm_ci.guard.weakened_tests.cases import Case, CaseFile

#: Kinds of notes: a test went with its code, is written anew, or went and was never collected.
OBSOLETE, REWRITTEN, UNCOLLECTED = "obsolete", "rewritten", "uncollected"

#: Letters of a name that says what a test is about.
_SHORTEST = 3
#: Parts of these names that the product says less often, and that new text of the tests says.
_RARER, _SAID = 0.25, 0.6
#: Names of a claim that are too few to know it by, where no code changed.
_FEW = 2


class Subjects:
    """Tests before and after a change, by path, and which names its product says less often.

    ``before`` gives, by the id of a test, what it was; ``rarer`` and ``has_shrunk`` are called if
    something is lost.
    """

    def __init__(
        self,
        files: tuple[Mapping[str, CaseFile], Mapping[str, CaseFile]],
        before: Mapping[int, Case],
        rarer: Callable[[], frozenset[str]],
        has_shrunk: Callable[[], bool] = bool,
        *,
        code_changed: bool,
    ) -> None:
        self._files = files
        self._before = before
        self._rarer = rarer
        self._has_shrunk = has_shrunk
        self._code_changed = code_changed
        self._fresh: dict[str, frozenset[str]] = {}

    def doubts(self, lost: Sequence[tuple[str, Case]], explained: Mapping[str, int]) -> list[str]:
        """The kind of note for each test that is gone, with the path of its file; "" for an alarm.

        Where most tests that a file lost have a sign, or are among the ``explained``, all went the
        same way.
        """
        signs = [(path, self._doubt(path, test)) for path, test in lost]
        marked = Counter(explained)
        marked.update(path for path, sign in signs if sign)
        silent = Counter(path for path, sign in signs if not sign)
        return [sign or (OBSOLETE if marked[path] > silent[path] else "") for path, sign in signs]

    def _doubt(self, path: str, test: Case) -> str:
        names = _names(test_names(test))
        if self._is_rarer(names, filter(is_literal, test.words)):
            return OBSOLETE
        is_said = _part(names | _names(name_parts(test.name)), self._fresh_words(path)) >= _SAID
        is_said = is_said or self._is_claimed(path, test)
        return REWRITTEN if is_said or (test.facts.claims and self._is_as_much(path)) else ""

    def _is_claimed(self, path: str, test: Case) -> bool:
        """Whether other tests of its file have most of the claims of a test, word by word."""
        claims = frozenset(text for _, text in test.facts.claims)
        others = (text for case in self._files[1][path].cases for _, text in case.facts.claims)
        return len(claims) > 1 and _part(claims, frozenset(others)) >= _SAID

    def doubt_of_claims(
        self, path: str, words: Iterable[str], *, is_replaced: bool, is_rewritten: bool,
        has_lost: bool = False,
    ) -> str:  # fmt: skip
        """The same for claims that a test has no more.

        ``is_replaced``: the test has weaker ones in their place, so that no other text has them;
        ``is_rewritten``: the test has others, and what it does is something else; ``has_lost``:
        claims are gone, where they do not only have other values.
        """
        words = [*words]
        names = _names(words)
        if self._is_rarer(names, words):
            return OBSOLETE
        is_new = self._code_changed or (len(names) > _FEW and self._has_more_tests(path))
        is_said = is_new and _part(names, self._fresh_words(path)) >= _SAID
        is_said = is_said or self._has_grown(path)
        is_said = is_said or is_rewritten or (has_lost and self._is_as_much(path))
        return REWRITTEN if is_said and not is_replaced else ""

    def doubt_of_cases(self, path: str, values: frozenset[str]) -> str:
        """The same for cases that a test lists no more, by the literals that they had."""
        is_said = self._code_changed and _part(values, self._fresh_words(path)) >= _SAID
        return REWRITTEN if is_said or self._is_as_much(path) else ""

    def _has_more_tests(self, path: str) -> bool:
        before, after = self._files
        return len(after[path].cases) > len(before[path].cases)

    def _has_grown(self, path: str) -> bool:
        """Whether a file has more tests, with the code, and as many claims as before at least."""
        if not self._code_changed or not self._has_more_tests(path):
            return False
        before, after = (files[path].cases for files in self._files)
        was, now = (sum(len(case.facts.claims) for case in cases) for cases in (before, after))
        return now >= was

    def _is_as_much(self, path: str) -> bool:
        """Whether the tests that changed in a folder have as many cases, and ask for as much.

        Where no code changed, most tests of the file must be others than before.
        """
        folder = path.rpartition("/")[0]
        if not (self._code_changed or self._is_overhauled(path)):
            return False
        before, after = (
            [case for other, file in side.items() if other.rpartition("/")[0] == folder
             for case in file.cases]
            for side in self._files
        )  # fmt: skip
        return all(
            sum(map(weight, after)) >= sum(map(weight, before))
            for weight in (_cases, _total_strength)
        )

    def _is_overhauled(self, path: str) -> bool:
        pairs = ((self._before.get(id(case)), case) for case in self._files[1][path].cases)
        same = sum(old is not None and old.text == case.text for old, case in pairs)
        others = len(self._files[0][path].cases) - same
        return others > max(1, same)

    def _is_rarer(self, names: frozenset[str], words: Iterable[str]) -> bool:
        """Whether the product says enough of the names less often, or shrank by such words."""
        if not self._code_changed:
            return False
        rarer = self._rarer()
        is_lost = self._has_shrunk() and not _parts(rarer).isdisjoint(_parts(words))
        return is_lost or _part(names, rarer) >= _RARER

    def _fresh_words(self, path: str) -> frozenset[str]:
        """The words that tests, and functions that they name, have and had not, in its folder."""
        folder = path.rpartition("/")[0]
        if folder not in self._fresh:
            paths = [path for path in self._files[1] if path.rpartition("/")[0] == folder]
            cases = [case for path in paths for case in self._files[1][path].cases]
            used = {word for case in cases for word in case.words}
            words = (word for path in paths for word in self._gained(path, used))
            self._fresh[folder] = frozenset(words)
        return self._fresh[folder]

    def _gained(self, path: str, used: AbstractSet[str]) -> Iterator[str]:
        """The new words of a file; functions that no test names run nothing."""
        before, after = (files[path] for files in self._files)
        old_helpers = {helper.name: helper for helper in before.helpers}
        used = used - {case.last_name for case in before.cases}  # a test that is no test any more
        for case in (*after.cases, *(helper for helper in after.helpers if helper.name in used)):
            old = self._before.get(id(case)) or old_helpers.get(case.name)
            if old is None:
                yield from case.words
                yield from name_parts(case.name)
            elif old.text != case.text:
                yield from Counter(case.words) - Counter(old.words)


def _cases(test: Case) -> int:
    """How many cases a test has: one, or those that it lists."""
    return max(1, test.facts.cases or 0)


def _total_strength(test: Case) -> int:
    """How much the claims of a test ask for, in all."""
    return sum(strength(claim) for _, claim in test.facts.claims)


def _names(words: Iterable[str]) -> frozenset[str]:
    """Those of the words that say what a test is about."""
    names = telling(dict.fromkeys(words, 1))
    return frozenset(word for word in names if len(word) >= _SHORTEST and not is_literal(word))


def _parts(words: Iterable[str]) -> frozenset[str]:
    """The longer words in those that tell something: in texts, each by itself."""
    terms = telling(dict.fromkeys(words, 1))
    return frozenset(part for word in terms for part in re.findall(r"\w{3,}", word))


def _part(names: frozenset[str], others: frozenset[str]) -> float:
    """How many of the names are among others, in parts."""
    return len(names & others) / len(names) if names else 0.0
