"""Ended anywhere and resumed, or replayed: the same steps, and no answer asked for twice."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.evaluation import RLMRunner
from testing.fix_stage import Outcome, Stage
from testing.loopback_model.fixture import llm

if TYPE_CHECKING:
    from pathlib import Path

    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]


def action(name: str, **arguments: Any) -> str:
    return json.dumps({"action": name, **arguments})


def story(prompt: str) -> str:
    """Compute, delegate twice to children that compute, answer."""
    if "Child 2 is done" in prompt:
        return action("final", final_response="all is done")
    if "PRINTED" in prompt:
        if "TASK: part" in prompt:
            return action("final", final_response="a part is done")
        return action("delegate_batch", tasks=["TASK: part one", "TASK: part two"])
    return action("run_python", code="print('PRIN' + 'TED')")


def told(run: Outcome) -> dict[str, str]:
    """What a run leaves, without its times and its id."""
    names = sorted((run.folder / "rlm").rglob("*.jsonl"))
    found = [run.folder / "run.json", run.folder / "comment.md", *names]
    texts = {
        str(path.relative_to(run.folder)).replace(run.id, "RUN"): path.read_text() for path in found
    }
    return {
        name: re.sub(r'"timestamp": "[^"]+"', "TIME", text.replace(run.id, "RUN"))
        for name, text in texts.items()
    }


class Interrupted:
    """A connector that is interrupted at one of its calls, once."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.lock = threading.Lock()
        self.asked: list[str] = []

    def generate_response(self, prompt: str) -> str:
        with self.lock:
            self.asked.append(prompt)
            if len(self.asked) == self.at:
                raise KeyboardInterrupt
        return story(prompt)


class Engine:
    def execute_code(self, code: str) -> str:
        return "PRINTED" if "PRIN" in code else ""


@pytest.mark.parametrize(
    "at", [pytest.param(2, marks=pytest.mark.full), 4, pytest.param(7, marks=pytest.mark.full)]
)
def test_an_interrupted_episode_goes_on_where_it_was(tmp_path: Path, at: int) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for folder in (whole, cut):
        folder.mkdir()
    connector = Interrupted(at)
    runner = RLMRunner(connector, Engine(), workdir=cut)
    with pytest.raises(KeyboardInterrupt):
        runner.run_task("TASK: all", parallelism=1)
    [folder] = cut.glob(".runs/*/cli/*/")
    assert runner.resume_run(folder.name).final_response == "all is done"
    straight = Interrupted()
    RLMRunner(straight, Engine(), workdir=whole).run_task("TASK: all", parallelism=1)
    [undisturbed] = whole.glob(".runs/*/cli/*/")
    assert told(Outcome(folder)) == told(Outcome(undisturbed))
    assert len(connector.asked) == len(straight.asked) + 1


@pytest.mark.full
def test_the_time_budget_kills_what_still_runs(tmp_path: Path) -> None:
    class Slow:
        def generate_response(self, _prompt: str) -> str:
            threading.Event().wait(30)
            return ""

    class SlowEngine:
        def execute_code(self, _code: str) -> str:
            threading.Event().wait(30)
            return ""

    for model, engine in ((Slow(), Engine()), (Interrupted(), SlowEngine())):
        result = RLMRunner(model, engine, workdir=tmp_path).run_task("x", time_budget_seconds=1)
        assert not result.completed
        status = json.loads((result.run_path.parent.parent / "run.json").read_text())["status"]
        assert status == "max_minutes"


def test_a_budget_holds_for_the_whole_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLM_CI_MAX_CALLS", "5")
    connector = Interrupted()
    result = RLMRunner(connector, Engine(), workdir=tmp_path).run_task("TASK: all", branch_width=2)
    assert not result.completed
    assert len(connector.asked) <= 5


@pytest.mark.full
@pytest.mark.parametrize("number", range(4, 60, 13))
def test_a_killed_episode_goes_on_where_it_was(
    repo: GitRepo, cli: Cli, llm: ModelServer, number: int
) -> None:
    def say(asked: Asked) -> str:
        return story("\n".join(one["content"] for one in asked.messages))

    llm.script(say)
    stage = Stage(repo, cli, llm)
    words = ("run", "TASK: all", "--model", "m", "--branch-width", "2")
    child = stage.spawn(*words)

    def records() -> int:
        found = list(repo.path.glob(".runs/*/cli/*/calls.jsonl"))
        return found[0].read_bytes().count(b"\n") if found else 0

    killed = child.kill_when(lambda: records() >= number)
    child.wait()
    run = stage.only()
    if killed:
        resumed = stage.cli("resume", run.id)
        assert resumed.code == 0, resumed
    assert stage.cli(*words).code == 0
    assert told(run) == told(stage.runs()[1])
    assert stage.cli("replay", run.id, "--check").code == 0
    assert stage.cli("verify", run.id).code == 0
    stage.clean()
