"""What findings are about is told in steps in proportion to their number, in any file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.recursion.nodes import LeafText
from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.review.change import base_comparison

if TYPE_CHECKING:
    from collections.abc import Callable


def steps(work: Callable[[], object]) -> int:
    """How many functions are called, those of Python and of C."""
    number = 0

    def count(_frame: object, event: str, _argument: Any) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return number


@pytest.mark.parametrize("source", ["x = 1\n", "1,\n"])
def test_a_file_with_a_finding_in_each_line(source: str) -> None:
    def marked(lines: int) -> int:
        content = source * lines if "=" in source else f"x = [\n{source * lines}]\n"
        found = [
            Finding("a/b", Severity.HIGH, "it is", evidence=(Location("a.py", line, quote="x"),))
            for line in range(1, lines + 1)
        ]
        text = LeafText("a.py", "", content.encode())
        return steps(lambda: list(base_comparison.marks(found, [text])))

    assert marked(400) < 3 * marked(200)
