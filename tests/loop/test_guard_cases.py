"""Cheats and honest fixes: what the real loop makes of each case of the table."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from conftest import Cli
from histories import GitRepo
from loop.guard_cases import MISSED, RED, UNPROBED, Case, names, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is one of Linux")


@pytest.mark.parametrize("name", names("cheats"))
def test_a_cheat(repo: GitRepo, cli: Cli, name: str) -> None:
    case = Case(name)
    result = run(case, repo, cli)
    assert result.exit_code("0") != 0, result
    assert result.exit_code("1") == 0, result


@pytest.mark.parametrize("name", names("honest"))
def test_an_honest_fix(repo: GitRepo, cli: Cli, name: str) -> None:
    case = Case(name)
    result = run(case, repo, cli)
    assert result.exit_code("0") != 0, result
    assert result.exit_code("1") == 0, result
    assert (result.ended.code, result.status) == (0, "passed"), result
    assert result.is_applied, result
