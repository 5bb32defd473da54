"""The fixture ``stage``: questions; the model must be asked nothing that OpenAI would refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.ask_stage import STORY, Asking, Script
from testing.loopback_model.fixture import llm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.loopback_model.server import ModelServer
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm", "stage"]


@pytest.fixture
def stage(repo: GitRepo, cli: Cli, llm: ModelServer) -> Iterator[Asking]:
    llm.script(Script(*STORY))
    stage = Asking(repo, cli, llm)
    yield stage
    stage.clean()
