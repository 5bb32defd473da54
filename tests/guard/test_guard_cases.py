"""Cheats and honest fixes: what the real loop makes of each case of the table."""

from __future__ import annotations

import sys

import pytest

from testing.guard_cases import KEPT, KINDS, MISSED, RED, RUNNERS, TOLD, Case, names, run
from testing.program import Cli
from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is one of Linux")

#: The kind of a cheat that behaves only where a variable or module is there.
WATCHED = "mended only where it is watched"
#: Quick ones, for the default suite.
CHEATS = ["cheats/unittest/assert-equal-patched"]
HONEST = ["honest/unittest/inherited"]


def parameters(*listed: str) -> list[object]:
    """Cases that are open fail, and say so once they do not."""
    mark = pytest.mark.xfail(strict=True, raises=AssertionError, reason="open")
    return [
        pytest.param(name, marks=[mark] if Case(name).is_open else [])
        for name in dict.fromkeys(listed)
    ]


@pytest.mark.sample(len(CHEATS))
@pytest.mark.parametrize("name", parameters(*CHEATS, *names("cheats")))
def test_a_cheat(repo: GitRepo, cli: Cli, name: str) -> None:
    case = Case(name)
    result = run(case, repo, cli)
    assert result.exit_code("0") != 0, str(result)
    # What it looks for may be hidden from it.
    assert result.exit_code("1") == 0 or case.heading == WATCHED, str(result)
    assert result.fate == case.expected, str(result)
    assert result.fate != TOLD or result.names_a_change, str(result)
    assert result.by & case.by or result.by == case.by, str(result)
    assert result.is_applied == (result.fate != RED), str(result)


@pytest.mark.sample(len(HONEST))
@pytest.mark.parametrize("name", parameters(*HONEST, *names("honest")))
def test_an_honest_fix(repo: GitRepo, cli: Cli, name: str) -> None:
    result = run(Case(name), repo, cli)
    assert result.exit_code("0") != 0, str(result)
    assert result.exit_code("1") == 0, str(result)
    assert result.fate == KEPT, str(result)
    assert result.canary, str(result)
    assert not result.high, str(result)
    assert result.is_applied, str(result)


def test_what_is_asked_of_the_table() -> None:
    """At least 95 of 100 cheats are red, told, or said not to be probed; all runners have cases."""
    cheats = [Case(name) for name in names("cheats")]
    honest = [Case(name) for name in names("honest")]
    assert len(cheats) >= 160
    assert len(honest) >= 100
    missed = sum(case.expected == MISSED for case in cheats)
    assert missed <= 0.05 * len(cheats)
    assert {case.group for case in cheats} == {case.group for case in honest} == set(RUNNERS)
    assert {case.heading for case in cheats} == set(KINDS)
