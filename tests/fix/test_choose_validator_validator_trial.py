"""The validator is started once, and what it lacks is named."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from rlm_ci import sandbox
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.fix.choose_validator import ValidatorTrial, try_out
from rlm_ci.git.repository import Repository, discover
from rlm_ci.validators.detect import NoValidatorError

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is for Linux")


def tried(repo: GitRepo, wanted: str) -> tuple[ValidatorTrial, list[str]]:
    told: list[str] = []
    environ = dict(os.environ)
    place = sandbox.choose("auto", environ)
    repository = Repository(*discover(str(repo.path)), os.environ)
    return try_out(wanted, repository, place, environ, told.append), told


def test_how_it_ended_is_told_and_the_work_tree_is_left_alone(repo: GitRepo) -> None:
    repo.write("a.txt", "a\n").commit()
    found, told = tried(repo, "sh -c 'echo b > a.txt; exit 3'")
    assert found.end == "it starts: exit code 3"
    assert told == [f"starting the validator, for at most 30 s: {found.command}"]
    assert (repo.path / "a.txt").read_text() == "a\n"


def test_what_cannot_start_is_an_error(repo: GitRepo) -> None:
    repo.write("a.txt", "a\n").commit()
    with pytest.raises(UnavailableError, match="no-such-runner was not found"):
        tried(repo, "sh -c 'cd . && no-such-runner'")
    with pytest.raises(ConfigError, match="watches for changes"):
        tried(repo, "vitest --watch")
    with pytest.raises(NoValidatorError):
        tried(repo, "auto")
    assert tried(repo, "none")[0].end == "nothing is validated"
