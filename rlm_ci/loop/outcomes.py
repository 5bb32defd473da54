"""How each test ended, by its file and its name, as the runner of a validator tells it."""

from __future__ import annotations

from rlm_ci.values import Value

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Outcome(Value):
    """How one test ended, or one case of it.

    ``place`` is where it stands, as far as the runner tells: the path of a file relative to the
    root, the dotted name of a module, the folder of a package, or "". ``name`` has its parts joined
    by ``::``, those that enclose it first, and no parameters; ``case`` tells one case from others.
    ``message`` is what it failed with, shortened.
    """

    place: str
    name: str
    state: str
    case: str = ""
    message: str = ""


class Outcomes(Value):
    """All that a run tells. ``complete``: tests that passed are named as well, every one."""

    tests: tuple[Outcome, ...] = ()
    complete: bool = False
    #: For pytest: files of the tree that held tests, and files that code of tests opened to read.
    held: frozenset[str] = frozenset()
    opened: frozenset[str] = frozenset()
