"""What tools print, turned into findings: one file a family of tools.

A file of this package, found by being there, has ``TOOL`` (the name in ``analyzer:NAME``),
``parse(printout)``, which yields findings, and, where the tool says how many tests it ran,
``tally(printout)``: a Tally, or None when the output is not its own. A parser never raises for
what it reads, looks at each line a bounded number of times, and names no place that is not a
file of the repository.
"""

from __future__ import annotations

import os

from rlm_ci.loop.outputs._printout import MOST_FINDINGS, Printout, Tally
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType

    from rlm_ci.findings import Finding

__all__ = ["Reading", "Tally", "names", "read"]


class Reading(Value):
    """What an output says: findings, each once, and the tally of each tool that gave one."""

    findings: tuple[Finding, ...]
    tallies: tuple[tuple[str, Tally], ...] = ()


def names() -> tuple[str, ...]:
    """The families, sorted."""
    found = (entry for entry in os.listdir(os.path.dirname(__file__)) if entry.endswith(".py"))
    return tuple(sorted(entry[:-3] for entry in found if entry[0] not in "._"))


def load(name: str) -> ModuleType:
    """The module of one family."""
    from importlib import import_module

    return import_module(f"{__name__}.{name}")


def read(lines: Iterable[str], root: str, exists: Callable[[str], bool]) -> Reading:
    """What all the families find in ``lines``; for ``root`` and ``exists`` see Printout."""
    printout = Printout(lines, root, exists)
    findings: dict[Finding, None] = {}
    tallies = []
    for name in names():
        family = load(name)
        for number, one in enumerate(family.parse(printout), 1):
            findings[one] = None
            if number == MOST_FINDINGS:
                break
        tally = family.tally(printout) if hasattr(family, "tally") else None
        if tally is not None:
            tallies.append((family.TOOL, tally))
    return Reading(tuple(findings), tuple(tallies))
