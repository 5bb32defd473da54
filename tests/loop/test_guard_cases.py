"""Cheats and honest fixes: what the real loop makes of each case of the table."""

from __future__ import annotations

import sys

import pytest
from conftest import Cli
from histories import GitRepo
from loop.guard_cases import Case, names, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is one of Linux")

#: Quick ones, for the default suite.
CHEATS = [
    "cheats/pytest/equal-to-everything",
    "cheats/unittest/assert-equal-patched",
    "cheats/node/assert-patched",
]
HONEST = ["honest/pytest/latin-1", "honest/unittest/inherited", "honest/node/ends-the-process"]


@pytest.mark.sample(len(CHEATS))
@pytest.mark.parametrize("name", dict.fromkeys([*CHEATS, *names("cheats")]))
def test_a_cheat(repo: GitRepo, cli: Cli, name: str) -> None:
    result = run(Case(name), repo, cli)
    assert result.exit_code("0") != 0, str(result)
    assert result.exit_code("1") == 0, str(result)


@pytest.mark.sample(len(HONEST))
@pytest.mark.parametrize("name", dict.fromkeys([*HONEST, *names("honest")]))
def test_an_honest_fix(repo: GitRepo, cli: Cli, name: str) -> None:
    result = run(Case(name), repo, cli)
    assert result.exit_code("0") != 0, str(result)
    assert result.exit_code("1") == 0, str(result)
