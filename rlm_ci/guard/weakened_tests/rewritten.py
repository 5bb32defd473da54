"""Tests that were written anew: how alike two are, and which stands where another one stood."""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from operator import le

from rlm_ci.guard.weakened_tests import listed_cases
from rlm_ci.guard.weakened_tests.cases import telling, words_of
from rlm_ci.guard.weakened_tests.strength import strength

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlm_ci.guard.weakened_tests.cases import Case, CaseFile, Skip

    Placed = tuple[str, Case]

#: Parts of the words of a test that another one must have: to be the same, and with most of the
#: words of their names in common.
ALIKE, _ALIKE_NAMED = 0.6, 0.25
#: Parts of a name that is long enough to be known again in a longer one.
_LONG_NAME = 3
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
    found = []
    for path, test in lost:
        neighbour = paired.get(_neighbour(test, before[path], paired), 0)
        near = places.get((path, neighbour), [])
        best = max(near, key=lambda one: _likeness_named(test, one), default=None)
        if best and _likeness_named(test, best) >= _ALIKE_NAMED:
            found.append((path, test, best))
            near.remove(best)
    return found


def _neighbour(test: Case, file: CaseFile, known: Mapping[int, int] | set[int]) -> int:
    """The id of the last test in front of one that is there on both sides; 0 if there is none."""
    above = [one for one in file.cases if one.line < test.line and id(one) in known]
    return id(max(above, key=lambda one: one.line)) if above else 0


def likeness(one: Case, other: Case) -> float:
    """How much of their words two tests share, from 0 to 1; those of their names count more."""
    few, many = sorted((one.size, other.size))
    if few < _ALIKE_NAMED * many:  # nothing would make them alike
        return 0.0
    words, more = one.words, other.words
    shared = sum(min(words[word], more[word]) for word in words.keys() & more.keys())
    every = few + many - shared
    likeness = shared / every if every else 0.0
    if likeness < _ALIKE_NAMED:
        return likeness
    names = [_parts(test.last_name) for test in (one, other)]
    both, either = len(names[0] & names[1]), len(names[0] | names[1])
    is_longer = both == min(map(len, names)) and (2 * both >= either or both > _LONG_NAME)
    return likeness + ALIKE if is_longer or 2 * both > either else likeness


def _likeness_named(one: Case, other: Case) -> float:
    """The likeness, if their names have two words in common; else 0."""
    shared = _parts(one.last_name) & _parts(other.last_name)
    return likeness(one, other) if len(shared) > 1 else 0.0


@lru_cache(maxsize=4096)
def _parts(name: str) -> frozenset[str]:
    return frozenset(part.lower() for part in re.findall(_PARTS, name)) - {"test"}


def runs_nothing(test: Case, file: CaseFile) -> bool:
    """Whether a test was left out already, or has nothing but its name."""
    if any(one.owner == test.last_name for one in file.skips):
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
        sorted((strength(said) for _, said in case.facts.claims), reverse=True)
        for case in (old, new)
    )
    return old.size <= new.size and all(map(le, was, now)) and len(was) <= len(now)


def names(test: Case) -> set[str]:
    """The words of a test, and what the names of its classes say that they test."""
    return {*test.words, *(part.removeprefix("Test") for part in test.name.split(".")[:-1])}


def is_gate_as_wide(gate: Skip, before: Iterable[Skip], after: Sequence[Skip]) -> bool:
    """Whether a ``cfg`` of Rust for no single test asks for no more than one that it replaced."""
    texts = {skip.text for skip in after}
    return "cfg(" in gate.text and any(
        all(map(set.issubset, _asked(gate.text), _asked(skip.text)))
        for skip in before
        if not skip.owner and "cfg(" in skip.text and skip.text not in texts
    )


def _asked(gate: str) -> tuple[set[str], set[str]]:
    """What a ``cfg`` of Rust asks for, but for alternatives; and what it rules out."""
    asked, depth = (set[str](), set[str]()), list[str]()
    for part in re.findall(r"\w+\(|\)|[\w=\"-]+", gate):
        if part == ")":
            depth = depth[:-1]
        elif part[-1] == "(":
            depth.append(part)
        elif "not(" in depth or "any(" not in depth:
            asked["not(" in depth].add(part)
    return asked
