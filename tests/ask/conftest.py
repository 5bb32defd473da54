"""A stage for questions; its model must be asked nothing that OpenAI would refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from llm.plugin import llm

from asking.stage import STORY, Asking, Script

if TYPE_CHECKING:
    from collections.abc import Iterator

    from histories import GitRepo
    from llm.server import ModelServer
    from testing.program import Cli

__all__ = ["llm"]


@pytest.fixture
def stage(repo: GitRepo, cli: Cli, llm: ModelServer) -> Iterator[Asking]:
    llm.script(Script(*STORY))
    found = Asking(repo, cli, llm)
    yield found
    found.clean()
