"""The fixture ``stage``: fix loops; the model must be asked nothing that OpenAI would refuse."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from testing.fix_stage import TWO_TURNS, Stage
from testing.loopback_model.fixture import llm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.loopback_model.server import ModelServer
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm", "stage"]


@pytest.fixture
def stage(repo: GitRepo, cli: Cli, llm: ModelServer) -> Iterator[Stage]:
    if sys.platform != "linux":
        pytest.skip("the sandbox is one of Linux")
    llm.script(TWO_TURNS)
    stage = Stage(repo, cli, llm)
    yield stage
    stage.clean()
