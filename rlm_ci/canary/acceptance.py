"""What follows from an altered claim that is accepted: the product lies, or is tolerant by design.

A test that failed at the start may compare by a helper or a type that is meant to be tolerant, and
its failure hides this from the start tree. So the result first names the alterations that it
accepts. The start tree then judges these apart from its bug: it compares the expected value itself
with the altered one, or asks whether the value that it has equals several.
"""

from __future__ import annotations

from rlm_ci.canary.answers import PASSES
from rlm_ci.canary.forms import (
    ACCEPTS,
    FAR,
    JUDGES,
    NEAR,
    PART,
    STYLE,
    UNUSED,
)
from rlm_ci.validators.outcomes import OutcomeIndex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlm_ci.canary.answers import FailedProbe, ValidatorAnswer
    from rlm_ci.canary.copies import ChangedCopy, TestCopies

    _Ask = Callable[..., ValidatorAnswer | None]

#: Words by test.
_Keys = dict[tuple[str, str], set[str]]


def judged(
    doubts: Sequence[FailedProbe], tests: TestCopies, ask: _Ask
) -> tuple[list[FailedProbe], set[tuple[str, str]]]:
    """The doubts that remain, each as what was accepted, some only told; and the excused tests.

    ``ask`` runs the validator on a copy; ``at_start=True`` on the start tree with the same texts.
    """
    keys = {doubt.subject.key for doubt in doubts}
    if not keys:
        return [], set()
    copy = tests.alone(keys, ACCEPTS, ACCEPTS)
    accepted: _Keys = _words(copy, ask(copy)) or {}
    judges: _Keys | None = {}
    if any(_of(copy, key, accepted, kind) for key in keys for kind in (NEAR, PART, UNUSED)):
        start = tests.alone(keys, JUDGES, ACCEPTS)  # with the same words
        judges = _words(start, ask(start, at_start=True))
    left = []
    for doubt in doubts:
        kind, is_told = _verdict(copy, doubt.subject.key, accepted, judges)
        if not accepted.get(doubt.subject.key) and doubt.what == PASSES:
            kind, is_told = PASSES, True  # it passed, and does not name what it accepts
        if kind:
            left.append(doubt.replace(what=kind, is_told=is_told))
    return left, keys - {doubt.subject.key for doubt in left}


def _verdict(
    copy: ChangedCopy, key: tuple[str, str], accepted: _Keys, judges: _Keys | None
) -> tuple[str, bool]:
    """The worst kind of what a test accepts, and whether it is only told; "" for nothing."""
    marked = (judges or {}).get(key, set())
    words = {kind: _of(copy, key, accepted, kind) for kind in (FAR, NEAR, PART, STYLE, UNUSED)}
    if words[FAR]:
        return FAR, False
    if words[NEAR] - marked:
        return NEAR, judges is None
    if words[PART] & marked:
        return PART, False
    if words[STYLE]:
        return STYLE, True
    if words[UNUSED] & marked:
        return UNUSED, True
    # Where the test does not even run at the start, nothing judges what it accepts.
    return (PART, True) if words[PART] and key not in (judges or {}) else ("", False)


def _of(copy: ChangedCopy, key: tuple[str, str], accepted: _Keys, kind: str) -> set[str]:
    """The accepted alterations of a kind."""
    kinds = copy.changed_tests[key].kinds if key in copy.changed_tests else {}
    return {word for word in accepted.get(key, ()) if kinds.get(word) == kind}


def _words(copy: ChangedCopy, reply: ValidatorAnswer | None) -> _Keys | None:
    """The words that each test of a copy shows, of those that ran; None if no time was left."""
    if reply is None:
        return None
    index, words = OutcomeIndex(reply.outcomes.tests), {}
    for (path, name), test in copy.changed_tests.items():
        outcomes = index.of(path, name)
        text = "\n".join([reply.printed, *(outcome.message for outcome in outcomes)])
        if outcomes or not reply.outcomes.complete:
            words[path, name] = {word for word in test.tokens if word in text}
    return words
