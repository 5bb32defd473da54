"""The contract of a gate: it looks at a result that the validator has passed, and gives a verdict.

``gates`` has the list of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlm_ci.fix.roles import RoleTurn
    from rlm_ci.report.findings import Finding

#: The verdicts of a gate. One that waits needs a person; one is not asked where another fails.
PASSED, FAILED, WAITING, NOT_ASKED = "passed", "failed", "waiting", "not_asked"
VERDICTS = (PASSED, FAILED, WAITING, NOT_ASKED)


class GateResult(Value):
    """What a gate says. ``reason`` is a line for people, ``feedback`` the text for the agent.

    ``feedback`` is the reason where there is none. ``logs`` are files in the run's folder.
    """

    name: str
    verdict: str
    reason: str
    findings: tuple[Finding, ...] = ()
    feedback: str = ""
    logs: tuple[str, ...] = ()

    def to_record(self) -> dict[str, str]:
        """What the state of a run keeps of it."""
        return {"name": self.name, "verdict": self.verdict, "reason": self.reason}


class GateView(Value):
    """What a gate sees. ``base``, ``result`` and ``fresh`` are trees.

    ``base`` is that of the start, ``result`` what would be applied, ``fresh`` what a command is to
    judge. ``turns`` are those of the iteration, ``files`` its answers, analyses and last verdict in
    the run's folder, ``earlier`` what the gates before this one have said.
    """

    iteration: int
    base: str
    result: str
    fresh: str
    turns: tuple[RoleTurn, ...] = ()
    files: tuple[str, ...] = ()
    earlier: tuple[GateResult, ...] = ()


class Gate(ABC):
    """``line`` tells the agent what the gate asks for; "" where it can do nothing about it."""

    name: str
    line = ""

    def begin(self) -> None:  # noqa: B027 - few have anything to do
        """What there is to do before any edit. Raises as ``check`` does."""

    @abstractmethod
    def check(self, view: GateView) -> GateResult:
        """Raises the errors of what it runs or reads; what it runs is a fact of the record."""


def summary(results: Iterable[GateResult]) -> str:
    """The verdicts in a line: ``tests=passed approval=waiting``."""
    return " ".join(f"{result.name}={result.verdict}" for result in results)
