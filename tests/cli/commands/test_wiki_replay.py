"""A wiki that a model had a part in, replayed and resumed, whatever others have read since."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING

import pytest

from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer
from testing.pipelines_stage import Stage
from testing.wiki_sentences import sentence, supports

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")

SAID = sentence("Prices are net.", "shop/__init__.py", (1, 1), "def price(net):")
WHOLE = {"text": "It sells.", "rests_on": [1]}


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    repo.write("README.md", "# Shop\n\nA shop that sells.\n").write("LICENSE", "Ours.\n")
    repo.write("data.json", "{}\n").write("shop/__init__.py", "def price(net):\n    return net\n")
    repo.write("till/__init__.py", "def pay(net):\n    return net\n").commit()
    yield found
    found.clean()


def says(asked: Asked) -> Answer:
    prompt = asked.messages[-1]["content"]
    if '"unsupported"' in prompt:
        return Answer(json.dumps(supports(prompt)))
    if "rests_on" in prompt:
        return Answer(json.dumps({"sentences": [WHOLE]}))
    return Answer(json.dumps({"sentences": [SAID] if "def price" in prompt else []}))


def test_a_replay_looks_at_what_the_run_has_looked_at(stage: Stage, llm: ModelServer) -> None:
    llm.script(says)
    reach = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}
    ended = stage.cli("wiki", "--model", "m-1", env=reach)
    assert ended.code == 0, ended.stderr
    run_id = stage.only()
    asked = len(llm.completions)
    for is_kept in (True, False):
        if not is_kept:
            shutil.rmtree(stage.folder(run_id).parents[2] / ".cache")
        replayed = stage.cli("replay", run_id, "--check")
        assert replayed.code == 0, replayed.stderr
    assert len(llm.completions) == asked


@pytest.mark.full
def test_a_run_goes_on_whatever_another_has_read(stage: Stage, llm: ModelServer) -> None:
    llm.script(says)
    reach = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}
    ended = stage.cli("wiki", "--model", "m-1", "--max-calls", "0", env=reach)
    assert ended.code == 3, ended.stderr
    run_id = stage.only()
    assert stage.cli("wiki").code == 0
    resumed = stage.cli("resume", run_id, "--max-calls", "9", env=reach)
    assert resumed.code == 0, resumed.stderr
    assert (
        b"Prices are net"
        in (stage.folder(run_id) / "rlm/artifacts/wiki/modules/shop.md").read_bytes()
    )
