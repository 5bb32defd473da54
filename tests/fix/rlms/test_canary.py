"""``rlm-ci doctor --rlms``: an analysis that must run, answer, and cite what holds."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from testing.analyses import answer, cast, finding
from testing.fix_stage import Play
from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import refusal

if TYPE_CHECKING:
    from testing.loopback_model.server import ModelServer
    from testing.program import Cli

__all__ = ["llm"]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is for Linux")


@pytest.mark.full
@pytest.mark.parametrize(
    ("said", "told"),
    [
        (answer(finding("shop/till.py", 5)), "1 of 1 held, first shop/till.py:5"),
        (refusal(400, "No such model."), "the request was refused (400): No such model."),
    ],
)
def test_a_model_that_is_set_up_is_asked(cli: Cli, llm: ModelServer, said: str, told: str) -> None:
    llm.script(cast({"": [said]}, Play([])))
    env = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url, "RLM_CI_MODEL": "gpt-4o"}
    ended = cli("doctor", "--rlms", env=env)
    assert told in ended.stdout, ended
    assert "scripted" not in ended.stdout
    is_well = told.startswith("1 of 1")
    assert ended.code == (0 if is_well else 4)
    assert ended.stdout.count("hint:") == (0 if is_well else 1)
    assert llm.completions
