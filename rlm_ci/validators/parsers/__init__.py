"""What tools print, turned into findings: one file a family of tools.

A family is a file of this package, or a row of a table of ``_line_patterns`` and ``_javascript``.
It has ``TOOL`` (the name in ``analyzer:NAME``), ``parse(printout)``, which yields findings, and, if
the tool says how many tests it ran, ``tally(printout)``: None for the output of another tool. A
runner of tests also has ``outcomes(printout)``: each test that it names, and how it ended. A parser
never raises, looks at each line a bounded number of times, and names only files of the repository.
"""

from __future__ import annotations

import os
from itertools import islice

from rlm_ci.validators.outcomes import PASSED, TestOutcomes, merged
from rlm_ci.validators.parsers import _javascript, _line_patterns
from rlm_ci.validators.parsers._output import MOST_FINDINGS, Printout, TestTally
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable
    from typing import Any

    from rlm_ci.report.findings import Finding
    from rlm_ci.validators.outcomes import TestOutcome

#: The families that are no file of their own.
_TABLE: dict[str, Any] = {**_line_patterns.TABLE, **_javascript.TABLE}
#: Tests of one runner that are read.
_MOST_OUTCOMES = 50_000
__all__ = ["ParsedOutput", "TestTally", "names", "outcomes", "read"]


class ParsedOutput(Value):
    """Findings, each once, and the tally of each tool that printed one."""

    findings: tuple[Finding, ...]
    tallies: tuple[tuple[str, TestTally], ...] = ()


def names() -> tuple[str, ...]:
    """The families, sorted."""
    files = (entry for entry in os.listdir(os.path.dirname(__file__)) if entry.endswith(".py"))
    return tuple(sorted([*_TABLE, *(entry[:-3] for entry in files if entry[0] not in "._")]))


def load(name: str) -> Any:
    """One family."""
    from importlib import import_module

    return _TABLE.get(name) or import_module(f"{__name__}.{name}")


def read(lines: Iterable[str], root: str, exists: Callable[[str], bool]) -> ParsedOutput:
    """What all families find in ``lines``; ``root`` and ``exists`` are those of Printout."""
    printout = Printout(lines, root, exists)
    findings: dict[Finding, None] = {}
    tallies = []
    for name in names():
        family = load(name)
        for number, finding in enumerate(family.parse(printout), 1):
            findings[finding] = None
            if number == MOST_FINDINGS:
                break
        tally = family.tally(printout) if hasattr(family, "tally") else None
        if tally is not None:
            tallies.append((family.TOOL, tally))
    return ParsedOutput(tuple(findings), tuple(tallies))


def outcomes(lines: Iterable[str], root: str, without: Collection[str] = ()) -> TestOutcomes:
    """How each test ended that a runner names, without the runners in ``without``.

    Complete if each test that a runner counts as passed is named; a family that does not count
    tests has ``names_all``. Output of failing tests of pytest is left out: it may be a whole run.
    """
    from rlm_ci.validators.parsers import pytest

    lines = tuple(lines)
    full = Printout(lines, root, lambda _path: True)
    others = Printout(pytest.without_failures(lines), root, lambda _path: True)
    test_outcomes: list[TestOutcome] = []
    complete = []
    for name in names():
        family = load(name)
        printout = full if name == "pytest" else others
        tally = family.tally(printout) if hasattr(family, "outcomes") else None
        if name in without or tally is None:
            continue
        passed = 0
        for outcome in islice(family.outcomes(printout), _MOST_OUTCOMES):
            test_outcomes.append(outcome)
            passed += outcome.state in getattr(family, "COUNTED", (PASSED,))
        names_all = getattr(family, "names_all", lambda _printout: True)
        complete.append(passed >= tally.passed and names_all(printout))
    return TestOutcomes(merged(test_outcomes), complete=bool(complete or without) and all(complete))
