"""The tables of tests/specs: each requirement of a spec names a test that is there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
TABLES = sorted((TESTS / "specs").glob("*.md"))
#: The five specs, and the fewest requirements that a table of each has.
SPECS = {
    "delegation-guard-and-symbolic-rlm": 80,
    "repo-recursion": 30,
    "rlm-orchestrator": 50,
    "rlm-runner": 70,
    "rlms-hybrid-trigger": 30,
}
_ROW = re.compile(
    r"^\| (?P<chapter>[\w.,/ ]+) \| (?P<what>.+) \| `(?P<path>[\w/.]+)::(?P<test>\w+)` \|$"
)


@cache
def names_in(path: str) -> set[str]:
    """The names of the tests in a file below ``tests/``."""
    tree = ast.parse((TESTS / path).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_spec_has_a_table() -> None:
    assert {table.stem for table in TABLES} == set(SPECS)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_each_requirement_names_a_test(table: Path) -> None:
    lines = table.read_text("utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|")][2:]
    matches = [_ROW.match(row) for row in rows]
    assert [row for row, match in zip(rows, matches, strict=True) if not match] == []
    unknown = [
        match[0] for match in matches if match and match["test"] not in names_in(match["path"])
    ]
    assert unknown == []
    requirements = [match["what"] for match in matches if match]
    assert len(requirements) == len(set(requirements)) >= SPECS[table.stem]
