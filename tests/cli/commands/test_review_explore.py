"""``rlm-ci review`` with a model that looks around: killed, resumed, replayed; or without tools."""

from __future__ import annotations

import json
import os
import signal
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer, Call, refusal
from testing.pipelines_stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")

CLAIM = {
    "rule": "no-price", "severity": "medium", "domain": "quality", "confidence": 0.8,
    "message": "`price` gives None, and rates.py:1 says that no row is empty.", "path": "shop.py",
    "line_start": 5, "line_end": 5, "quote": "        total += price(row)", "suggested_fix": None,
    "also": [{"path": "rates.py", "line_start": 1, "line_end": 1, "quote": "EMPTY_ROWS = False"}],
}  # fmt: skip
TURNS = (
    [Call("definition", '{"name": "price"}'), Call("read", '{"path": "shop.py", "side": "base"}')],
    [
        Call("history", '{"path": "shop.py", "start": 4, "end": 5}'),
        Call("compare", '{"script": "import price\\nprint(price.price(\'3\'))"}'),
    ],
)
MODEL = ("--model", "gpt-5-mini", "--depth", "normal")


class ChangeStage(Stage):
    base = ""


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[ChangeStage]:
    """A branch that changes one file, and another file that decides."""
    found = ChangeStage(repo, cli)
    repo.write("price.py", "def price(row):\n    return float(row) if row else None\n")
    repo.write("rates.py", "EMPTY_ROWS = False\n")
    repo.write("shop.py", "from price import price\n").commit()
    found.base = repo.sha()
    code = "def sum_of(rows):\n    total = 0\n    for row in rows:\n        total += price(row)\n"
    repo.write("shop.py", f"from price import price\n{code}").commit()
    yield found
    found.clean()


def says(asked: Asked) -> Answer:
    turn = sum(one["role"] == "assistant" for one in asked.messages)
    if asked.body.get("tools") and turn < len(TURNS):
        return Answer("", TURNS[turn])
    return Answer(json.dumps({"findings": [CLAIM]}))


def reach(llm: ModelServer) -> dict[str, str]:
    return {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}


def reviewed(stage: ChangeStage, llm: ModelServer, *more: str) -> dict[str, Any]:
    told = ("review", "--base", stage.base, *MODEL, *more, "--format", "json")
    report: dict[str, Any] = stage.cli(*told, env=reach(llm)).json()
    return report


def results(stage: ChangeStage, run_id: str) -> dict[str, bytes]:
    """What a run found, but for what says when and which run it was."""
    folder = stage.folder(run_id) / "rlm" / "artifacts"
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def in_conversation(llm: ModelServer) -> list[Asked]:
    return [one for one in llm.completions if one.body.get("tools")]


@pytest.mark.full
@pytest.mark.parametrize("answer", [1, 2, 3])
def test_killed_and_resumed_gives_the_same_and_pays_for_nothing_twice(
    stage: ChangeStage, llm: ModelServer, answer: int
) -> None:
    llm.script(says)
    whole = reviewed(stage, llm)
    asked, run_id = len(llm.completions), stage.only()
    assert [len(one.messages) for one in in_conversation(llm)] == [1, 4, 7]
    [part] = whole["parts"]
    assert part["metrics"]["looks"] == 4
    told = in_conversation(llm)[-1].messages[-1]["content"]
    assert told.startswith("The same at head and at base:\n```\n3.0\n```")
    [found] = whole["findings"]
    assert [one["path"] for one in found["evidence"]] == ["shop.py", "rates.py"]
    assert found["message"] == CLAIM["message"]

    def killed() -> str:
        [found] = {*stage.ids()} - {run_id}
        return found

    def kills(asked: Asked) -> Answer:
        if len(llm.completions) == before + answer:
            os.kill(stage.holder(killed()), signal.SIGKILL)
        return says(asked)

    before = len(llm.completions)
    llm.script(kills)
    told = ("review", "--base", stage.base, *MODEL)
    assert stage.cli(*told, env=reach(llm)).code < 0
    llm.script(says)
    resumed = stage.cli("resume", killed(), "--format", "json", env=reach(llm))
    assert resumed.code == 0, resumed.stderr
    assert results(stage, killed()) == results(stage, run_id)
    # The answer that was under way when it was killed is asked for again, and no other.
    assert len(llm.completions) - before == asked + 1
    for one, after in pairwise(in_conversation(llm)[-3:]):
        assert after.messages[: len(one.messages)] == one.messages
    replayed = stage.cli("replay", killed(), "--check")
    assert replayed.code == 0, replayed.stderr
    assert len(llm.completions) - before == asked + 1


@pytest.mark.full
def test_without_tools_or_with_depth_quick_it_only_reads(
    stage: ChangeStage, llm: ModelServer
) -> None:
    llm.script(says)
    quick = reviewed(stage, llm, "--depth", "quick")
    assert not in_conversation(llm)
    assert "looks" not in quick["parts"][0]["metrics"]
    [found] = quick["findings"]  # what it was not shown is no evidence
    assert [one["path"] for one in found["evidence"]] == ["shop.py"]
    assert "[unverified: rates.py:1]" in found["message"]
    llm.script(
        lambda asked: (
            refusal(404, "No endpoints found that support tool use")
            if asked.body.get("tools")
            else says(asked)
        )
    )
    report = reviewed(stage, llm)
    assert len(in_conversation(llm)) == 1
    assert "its endpoint takes no tools" in report["parts"][0]["summary"]
    assert report["findings"] == quick["findings"]
