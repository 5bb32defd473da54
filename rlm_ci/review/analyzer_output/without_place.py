"""Results of an analyzer that have no place in the files: they are told, and not passed over."""

from __future__ import annotations

from rlm_ci.report.findings import Severity
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlm_ci.review.analyzer_output.sarif import AnalyzerResult

#: Characters of what the first of them says.
_SAID = 200


def note(name: str, results: Sequence[AnalyzerResult]) -> list[str]:
    """What is told of them: how many, and what the first one says."""
    if not results:
        return []
    have = "has" if len(results) == 1 else "have"
    first = results[0].message[:_SAID]
    return [f"{count(len(results), 'result')} of {name} {have} no place in the files: {first}"]


def grave(
    results: Sequence[AnalyzerResult], weigh: Callable[[AnalyzerResult], Severity]
) -> list[str]:
    """Why there is more to look at, where one of them would fail a run if it had a place."""
    return next(
        (
            [f"a result of it has no place in the files: {one.message[:_SAID]}"]
            for one in results
            if one.suppression is None and weigh(one) >= Severity.HIGH
        ),
        [],
    )
