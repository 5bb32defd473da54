"""The forms of changed tests, and the interface of the reader of each language.

A reader is a module with ``ENDINGS``, the suffixes of its files, and two functions:

- ``tests(path, text, names=None)``: the tests of a file in the order of the text, or those of the
  ``names`` that a runner reports, where tests may have any name; raises UnparsableError.
- ``change(path, text, form_by_name, chance, plain=False)``: the text with each test of
  ``form_by_name`` in its form, and a ``ChangedTest`` for each that could be changed. ``chance`` is
  a ``random.Random``: every choice and every constant comes from it. ``plain`` asks for the
  simplest change of each form, if a more thorough one was not understood.

Only the necessary parts of a text change: comments, other tests and, if possible, the numbers of
lines stay the same.
"""

from __future__ import annotations

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

#: Another expected literal, at random. Without a literal: inverted.
ALTERED = "altered"
#: ALTERED in every way that the claims must refuse, also by a little.
NEARLY = "nearly"
#: The test fails with the words of those alterations of NEARLY that its claims accept.
ACCEPTS = "accepts"
#: The same test for the start tree: it fails with the words of the alterations that it judges.
JUDGES = "judges"
#: The claims are reversed, each in a way chosen at random. Without a claim: STOPPED, at its end.
INVERTED = "inverted"
#: The same claims, taken apart, with other constants in between.
REWORDED = "reworded"
#: The test fails with its first statement.
STOPPED = "stopped"
#: The test fails at each of its claims, with a token that its text does not have in one piece.
REACHED = "reached"
#: Follows the token of such a claim that a condition or a handler of exceptions guards.
ON_BRANCH = "if"
#: The test returns at once, because it is not in the sample.
IDLE = "idle"


#: What follows from an alteration that a claim accepts: a lie, for a value far away; for a near one
#: a lie unless the start tree judges that its values are as tolerant; for a single part of a value,
#: or of what a helper gets, a lie if the start tree judges that it refuses it. Another case or
#: blank is told, and what a helper does not use if it did at the start.
FAR, NEAR, PART, STYLE, UNUSED = "far", "near", "part", "style", "unused"


class UnparsableError(ValueError):
    """A text that is no source code of its language."""


class FoundTest(Value):
    """A test: its name as in ``TestOutcome``, and its lines (1-based, inclusive).

    A part of the name that is computed, or filled in by parameters, is ``*``.
    """

    name: str
    line: int
    end: int


class ChangedTest(Value):
    """The real form of a changed test; its failure prints one of ``tokens``, if there are any.

    ``kinds``: the kinds of the alterations in the forms ACCEPTS and JUDGES, by their words.
    """

    form: str
    tokens: tuple[str, ...] = ()
    kinds: Mapping[str, str] = {}


class ChangedText(Value):
    """A changed text, and its changed tests by name."""

    text: str
    changed_tests: dict[str, ChangedTest]


def token(chance: Random) -> str:
    """A random word that no test can guess."""
    return "".join(chance.choice("bcdfghjklmnpqrstvwxz") for _ in range(12))


def halves(word: str, *, on_branch: bool) -> tuple[str, str]:
    """A token in two pieces, as some forms require: runners quote the lines around a failure."""
    return word[:6], f"{word[6:]}{ON_BRANCH if on_branch else ''}"
