"""Tests that were written anew: how alike two are, which stands where another one stood, and what
reading alone cannot decide about them.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from itertools import pairwise
from operator import le

from rlm_ci.guard.weakened_tests import listed_cases
from rlm_ci.guard.weakened_tests.cases import is_literal, telling, words_of
from rlm_ci.guard.weakened_tests.strength import EXACT, NOTHING, shape, strength

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from rlm_ci.guard.weakened_tests.cases import Case, CaseFile, Facts

    Placed = tuple[str, Case]
    Lines = Sequence[tuple[int, str]]

#: Parts of the words of a test that another one must have: to be the same, and with most of the
#: words of their names in common.
ALIKE, _ALIKE_NAMED = 0.6, 0.25
#: The part of the words of a test that another one must have to have taken it in; a list of cases.
TAKEN, TAKEN_LISTED = 0.75, 0.5
#: Parts of a name that is long enough to be known again in a longer one.
_LONG_NAME = 3
#: What chooses a part of something, as ``first.1`` or ``rows[2]``.
_INDEX = re.compile(r"(?<=[A-Za-z_)\]])\.\d+|\[\d+\]")
#: Words of its set-up that a test must have gained to be another one: in parts, and at least.
_REWRITTEN, _SOME = 0.25, 6
#: Likeness of two tests of which the new one stands in for the other, with and without a name.
_NAMED_ALIKE, _UNNAMED_ALIKE = 0.25, 0.45
#: Parts of the name of a test that another one must have to be about the same.
_MOST_NAMES = 0.6
#: Letters of a name that says what a claim is about.
_NAME = 3
#: A part of a test of Go or Python that has a name.
_SUBTEST = re.compile(r"\b(?:Run|subTest)\((?=[\"'])([^,)]+)")
#: Letters of a part of a name that tells one test from others.
_LONG_PART = 6
#: A constant of another package, as ``http.StatusOK``.
_CONSTANT = re.compile(r"\b[a-z]\w*(?:\.|::)[A-Z]\w+(?![\w(])")
#: What puts the machine in order around a test, and claims nothing of the product.
_TIDYING = re.compile(
    r"\b(?:os|ioutil|shutil|fs|filepath)\.(?:Remove|Mkdir|Chdir|Setenv|Unsetenv|rm|unlink|mkdir)"
)
#: In Go, what a call gives as its error, and a claim that it gave none.
_ERROR_OF_CALL = re.compile(r"\berr\b(?:, ?\w+)* ?:?= ?\S")
_GUARD = re.compile(r"^if .*\berr!=nil|\bNoError\(")
#: A line that gives a name a value, and an ``if`` of Go that does so in its head.
_GIVEN = re.compile(
    r"\s*(?:(?:const|let|var)\s+(?:mut\s+)?)?(\w+)(?::[^=]{1,80})?\s*:?=\s*(?![=>])(.{1,400}?);?\s*$"
)
_GIVEN_IN_IF = re.compile(r"^if (\w+):=(.{1,400})\1(?=[!=<>])")
_PARTS = r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+"


def successors(
    lost: Iterable[Placed],
    added: Sequence[Placed],
    files: tuple[Mapping[str, CaseFile], Mapping[str, CaseFile]],
    paired: Mapping[int, int],
) -> list[tuple[str, Case, Case]]:
    """Of tests that are gone, the new one between the same neighbours; each for one.

    ``paired``: what each test of before became, by their ids.
    """
    before, after = files
    became = set(paired.values())
    places: dict[tuple[str, int], list[Case]] = {}
    for path, test in added:
        places.setdefault((path, _neighbour(test, after[path], became)), []).append(test)
    heirs = []
    for path, test in lost:
        neighbour = paired.get(_neighbour(test, before[path], paired), 0)
        cases = places.get((path, neighbour), [])
        best = max(cases, key=lambda case: _likeness_named(test, case), default=None)
        if best and _likeness_named(test, best) >= _ALIKE_NAMED:
            heirs.append((path, test, best))
            cases.remove(best)
    return heirs


def _neighbour(test: Case, file: CaseFile, shared: Mapping[int, int] | set[int]) -> int:
    """The id of the last test in front of one that is there on both sides; 0 if there is none."""
    above = [case for case in file.cases if case.line < test.line and id(case) in shared]
    return id(max(above, key=lambda case: case.line)) if above else 0


def likeness(case: Case, other: Case) -> float:
    """How much of their words two tests share, from 0 to 1; those of their names count more."""
    few, many = sorted((case.size, other.size))
    if few < _ALIKE_NAMED * many:  # nothing would make them alike
        return 0.0
    words, more = case.words, other.words
    shared = sum(min(words[word], more[word]) for word in words.keys() & more.keys())
    every = few + many - shared
    likeness = shared / every if every else 0.0
    if likeness < _ALIKE_NAMED:
        return likeness
    names = [name_parts(test.last_name) for test in (case, other)]
    both, either = len(names[0] & names[1]), len(names[0] | names[1])
    is_longer = both == min(map(len, names)) and (2 * both >= either or both > _LONG_NAME)
    return likeness + ALIKE if is_longer or 2 * both > either else likeness


def _likeness_named(case: Case, other: Case) -> float:
    """The likeness, if their names have two words in common; else 0."""
    shared = name_parts(case.last_name) & name_parts(other.last_name)
    return likeness(case, other) if len(shared) > 1 else 0.0


def shared_names(test: Case, other: Case) -> tuple[int, int]:
    """How many words of its name a test shares with the name and class of another; of how many."""
    words = name_parts(test.last_name)
    return len(words & name_parts(other.name)), len(words)


@lru_cache(maxsize=4096)
def name_parts(name: str) -> frozenset[str]:
    """The words of a name or title, in small letters."""
    return frozenset(part.lower() for part in re.findall(_PARTS, name)) - {"test"}


def runs_nothing(test: Case, file: CaseFile) -> bool:
    """Whether a test was left out already, or has nothing but its name."""
    if any(skip.owner == test.last_name for skip in file.skips):
        return True
    return not test.facts.claims and telling(test.words) <= {
        test.last_name,
        f'"{test.name}',
        "pass",
    }


def subtest(test: Case, line: int) -> Counter[str]:
    """The words of the subtest of Go that has a line of the file."""
    text = "\n".join(test.text.split("\n")[: line - test.line + 1])
    start = text.rfind("t.Run(")
    if start < 0 or listed_cases.end(test.text, start + 5) <= len(text):
        return Counter()
    return words_of(test.text[start : listed_cases.end(test.text, start + 5)])


def claims_as_much(old: Case, new: Case) -> bool:
    """Whether a test has as many claims as another, each as strong, and is no shorter."""
    was, now = (
        sorted((strength(claim) for _, claim in case.facts.claims), reverse=True)
        for case in (old, new)
    )
    return old.size <= new.size and all(map(le, was, now)) and len(was) <= len(now)


def names(test: Case) -> set[str]:
    """The words of a test but its name, and those that its title or classes have as names."""
    owners = (part.removeprefix("Test") for part in test.name.split(".")[:-1])
    titled = re.findall(r"\w+", test.name) if " " in test.name else []
    return {*test.words, *owners, *titled} - {test.last_name}


# ── what reading cannot decide: a reviewer is told of it ──


def setup(test: Case) -> Counter[str]:
    """The words of a test outside of its claims."""
    words = words_of(re.sub(r"(?m)^[ \t]*assert\b.*$", "", test.code))
    return words - words_of("\n".join(claim for _, claim in test.facts.claims))


def is_rewritten(old: Case, new: Case, lost: Lines, gained: Iterable[str]) -> bool:
    """Whether a test has other set-up to speak of, and claims that ask for as much as those lost.

    ``lost`` are its claims that are gone, with their lines; ``gained`` those that are new.
    """
    strongest = max((strength(claim) for claim in gained), default=NOTHING)
    if strongest < EXACT or strongest < max(strength(claim) for _, claim in lost):
        return False
    return has_other_setup(old, new, lost)


def is_another(old: Case, new: Case, lost: Lines, gained: Sequence[str]) -> bool:
    """Whether a test still claims something, and what it does, or how much, is something else."""
    return bool(new.facts.claims) and (
        has_other_setup(old, new, lost)
        or went_with_calls(old, new, lost)
        or claims_more(old, new, lost, gained)
        or all(_is_in_wider(claim, gained) for _, claim in lost)
    )


def _is_in_wider(claim: str, gained: Iterable[str]) -> bool:
    """Whether a new equality has the values of a claim, and something that it names."""
    words = telling(words_of(_INDEX.sub("", claim)))
    values = frozenset(filter(is_literal, words))
    names = frozenset(word for word in words - values if len(word) >= _NAME)
    return bool(values) and any(
        strength(text) >= EXACT and values <= others and not names.isdisjoint(others)
        for text, others in ((text, words_of(text).keys()) for text in gained)
    )


def has_other_setup(old: Case, new: Case, lost: Lines) -> bool:
    """Whether a test has other set-up to speak of; ``lost`` are claims that it has no more."""
    claimed = words_of("\n".join(claim for _, claim in lost))
    gained = (setup(new) - setup(old) - claimed).total()
    return gained >= max(_SOME, _REWRITTEN * setup(old).total())


def claims_more(old: Case, new: Case, lost: Lines, gained: Sequence[str]) -> bool:
    """Whether a test has twice as many new claims as it lost, one of them as strong as each."""
    strongest = max((strength(claim) for claim in gained), default=NOTHING)
    is_strong = strongest >= max(strength(claim) for _, claim in lost)
    return is_strong and len(gained) >= 2 * len(lost) and new.size > old.size


def went_with_calls(old: Case, new: Case, lost: Lines) -> bool:
    """Whether all lost claims of Go are guards against errors of calls that are gone, too."""
    calls = [len(_ERROR_OF_CALL.findall(case.code)) for case in (old, new)]
    are_guards = all(_GUARD.search(claim) for _, claim in lost)
    return are_guards and calls[0] - calls[1] >= len(lost)


def has_other_inputs(
    old: Case, new: Case, lost: Lines, gained: Sequence[str], files: tuple[CaseFile, CaseFile]
) -> bool:
    """Whether a test expects other values, and is given others, too: it, or a helper beside it."""
    claimed = words_of("\n".join(claim for _, claim in (*lost, *old.facts.claims)))
    fresh = setup(new) - setup(old) - claimed
    before, after = ({helper.name: helper.body for helper in file.helpers} for file in files)
    names = Counter(_CONSTANT.findall("\n".join(gained)))
    if names - Counter(_CONSTANT.findall("\n".join(claim for _, claim in lost))):
        return True  # a value that has a name by now
    return bool(gained) and (
        any(map(is_literal, fresh)) or any(after.get(name) != before[name] for name in before)
    )


def resolved(claim: str, line: int, test: Case) -> str:
    """A claim at a line of the file, with what each name stands for that the test gives a value.

    So it says the same under other names, and where a name takes the place of an expression.
    """
    above = test.text.split("\n")[: max(0, line - test.line)]
    values = {match[1]: "".join(match[2].split()) for match in map(_GIVEN.match, above) if match}
    claim = _GIVEN_IN_IF.sub(r"if \2", claim)
    names = re.compile(rf"(?<![\w.\"'])(?:{'|'.join(map(re.escape, values))})(?![\w\"'(])")
    return "".join((names.sub(lambda name: values[name[0]], claim) if values else claim).split())


def is_tidying(claim: str) -> bool:
    """Whether a claim is only about files that the test itself makes or removes."""
    return strength(claim) < EXACT and _TIDYING.search(claim) is not None


def stands_in(test: Case, added: Iterable[Case], *, code_changed: bool) -> bool:
    """Whether one of the new tests of a file may stand in for one of it which is gone.

    Where no code changed, its name must say so.
    """
    for other in added:
        shared, parts = shared_names(test, other)
        is_named = shared > 1 and shared >= _MOST_NAMES * parts
        enough = _NAMED_ALIKE if shared > 1 else _UNNAMED_ALIKE
        is_test = other.facts.claims or not test.facts.claims  # a macro may have the claims
        if is_test and (is_named or (code_changed and likeness(test, other) >= enough)):
            return True
    return False


def is_copy(test: Case, other: Case, *, code_changed: bool) -> bool:
    """Whether a test of another file is the same; with the code, whether most of its words are."""
    if test.last_name != other.last_name or not code_changed:
        return (test.last_name, test.body) == (other.last_name, other.body)
    words, more = telling(test.words), telling(other.words)
    return 2 * len(words & more) > len(words)


def is_left_to_helpers(
    claim: str, test: Case, before: Mapping[str, Sequence[Case]], cases: Iterable[Case]
) -> bool:
    """Whether a guard of Go went with a helper of the tests, or stands in one by now.

    ``before`` are the helpers by name as they were, ``cases`` those that the test names now.
    """
    if not claim.startswith("if ") or strength(claim) >= EXACT:
        return False
    for helper in cases:
        claims = [case.facts.claims for case in before.get(helper.name, ())]
        if claims and len(helper.facts.claims) > max(map(len, claims)):
            return True
    names = {helper.name for helper in cases}
    assigned = re.findall(r"(\w+)\s*:?=\s*(\w+)\(", test.text)
    return any(
        maker in before and maker not in names and re.search(rf"\b{name}\b", claim)
        for name, maker in assigned
    )


def dropped_conditions(before: Lines, gained: Iterable[str]) -> tuple[str, ...]:
    """The beginnings of claims under conditions whose other branch always holds by now."""
    ends = [f"else {claim}" for claim in gained]
    return tuple(claim[: -len(end)] for _, claim in before for end in ends if claim.endswith(end))


def is_stricter(claim: str, gained: Iterable[str]) -> bool:
    """Whether a test fails by now if one of two things is wrong, where both had to be."""
    if not (claim.startswith("if") and "&&" in claim):
        return False
    stricter = shape(claim).replace("&&", "||")
    return stricter in map(shape, gained)


def is_in_snapshot(claim: str, gained: Iterable[str]) -> bool:
    """Whether a test compares by now with a whole text that has the property of a claim."""
    match = re.search(r"\.(\w+)\)\.(?:not\.)?to[A-Z]", claim)
    return match is not None and any(
        "InlineSnapshot(" in text and f'"{match[1]}": ' in text for text in gained
    )


def is_repeated(claim: str, before: Lines, after: Lines) -> bool:
    """Whether a claim that is gone stood right beside an equal one, which stays."""
    texts = [claim for _, claim in before]
    return (claim, claim) in pairwise(texts) and claim in (text for _, text in after)


def is_of_table(test: Case, other: Case) -> bool:
    """Whether the name of a test is one that another makes of its cases, as ``adds %s``."""
    parts = re.split(r"%[a-z]|\$\{?\w+\}?", other.name)
    if len(parts) < 2 or max(map(len, parts)) < _LONG_PART:
        return False
    return re.fullmatch(".*".join(map(re.escape, parts)), test.name) is not None


def lost_parameters(old: Case, new: Case) -> set[str]:
    """What a test had to be given, and has not."""
    return set(old.facts.parameters) - set(new.facts.parameters)


def rounds(was: Facts, now: Facts) -> tuple[int, int] | None:
    """How often the same loops went round, and do now, in all; None if that is not known."""
    if len(was.rounds) != len(now.rounds) or None in (*was.rounds, *now.rounds):
        return None
    return sum(number or 0 for number in was.rounds), sum(number or 0 for number in now.rounds)


def more_subtests(old: Case, new: Case) -> int:
    """How many more subtests a test names than another."""
    was, now = (set(_SUBTEST.findall(case.text)) for case in (old, new))
    return len(now) - len(was)


def takes_another(old: Case, new: Case) -> bool:
    """Whether another parameter of Python stands in place of one."""
    heads = [re.search(r"def \w+\(([^)]*)\)", case.text) for case in (old, new)]
    was, now = (
        set(re.findall(r"(\w+)\s*(?=[:,=]|$)", head[1])) if head else set() for head in heads
    )
    return bool(was - now and now - was)


def is_in(
    former_words: frozenset[str], values: frozenset[str],
    gain: AbstractSet[str], words: AbstractSet[str], test: Case,
) -> bool:  # fmt: skip
    """Whether a test with these words, some of them new, says by now what ``former_words`` said.

    ``values``: those of them that are literals.
    """
    if not former_words or not gain or 2 * len(values & gain) < len(values):
        return False
    if (not values and former_words.isdisjoint(gain)) or len(
        former_words & words
    ) < TAKEN_LISTED * len(former_words):
        return False
    enough = TAKEN_LISTED if (test.facts.cases or 0) > 1 else TAKEN
    return all(len(some & words) >= enough * len(some) for some in (values, former_words))
