"""A stage for the fix loop; its model must be asked nothing that OpenAI would refuse."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from llm.plugin import llm

from fixing.stage import TWO_TURNS, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from histories import GitRepo
    from llm.server import ModelServer
    from testing.program import Cli

__all__ = ["llm"]


@pytest.fixture
def stage(repo: GitRepo, cli: Cli, llm: ModelServer) -> Iterator[Stage]:
    if sys.platform != "linux":
        pytest.skip("the sandbox is one of Linux")
    llm.script(TWO_TURNS)
    found = Stage(repo, cli, llm)
    yield found
    found.clean()
