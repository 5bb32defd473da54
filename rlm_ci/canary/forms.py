"""What a reader of one language makes of the tests in a file.

Such a module has ``ENDINGS``, the ends of the names of files that it reads, and two functions:

- ``tests(path, text, names=None)``: the tests of a file in the order of the text, or those of the
  ``names`` that a runner reports, where tests may have any name; raises UnparsableError.
- ``change(path, text, wanted, chance, plain=False)``: the text with each test named in ``wanted``
  in the form given there, and a ``ChangedTest`` for each that could be. ``chance`` is a
  ``random.Random``: every choice and every constant comes from it. ``plain`` asks for the
  simplest change of each form, where a more thorough one was not understood.

A text is changed where it has to be and nowhere else: comments, other tests and, as far as
that can be, the numbers of lines stay.
"""

from __future__ import annotations

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from random import Random

#: Another expected literal, at random. Where there is none: inverted.
ALTERED = "altered"
#: The claims are reversed, each in a way chosen at random. Without a claim: STOPPED, at its end.
INVERTED = "inverted"
#: The same claims, taken apart, with other constants in between.
REWORDED = "reworded"
#: It fails with its first statement.
STOPPED = "stopped"
#: It fails at each of its claims.
REACHED = "reached"
#: It returns at once, as it is not in the sample.
IDLE = "idle"


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
    """The form that a test really has; a failure prints one of ``tokens``, if there are any."""

    form: str
    tokens: tuple[str, ...] = ()


class ChangedText(Value):
    """A changed text, and what was made of each test by its name."""

    text: str
    made: dict[str, ChangedTest]


def token(chance: Random) -> str:
    """A word that cannot be foreseen."""
    return "".join(chance.choice("bcdfghjklmnpqrstvwxz") for _ in range(12))
