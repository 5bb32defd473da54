"""A file with something of everything, and what was found in it."""

from __future__ import annotations

from rlm_ci.recursion.nodes import NodeResult

SHOP = '''"""The shop."""

import pickle
import sqlite3


def orders(name, seen=[]):
    seen.append(name)
    rows = sqlite3.connect("db").execute("SELECT * FROM orders WHERE name = '%s'" % name)
    return rows, "%d of %d" % (1,)


def load(data):
    assert data
    return pickle.loads(data)  # noqa: S301
'''


def rules(result: NodeResult) -> dict[str, tuple[str, int | None]]:
    """Severity and line of each rule that was found."""
    return {
        one.finding.rule.removeprefix("review/"): (
            one.finding.severity.label,
            one.finding.evidence[0].line_start,
        )
        for one in result.findings
    }
