"""A benchmark that was ended anywhere and resumed: the same results, and nothing paid twice."""

from __future__ import annotations

import json
import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import LIMIT, OK, ConfigError
from rlm_ci.evaluation import RLMRunner
from rlm_ci.lab.bench import summary
from testing.fix_stage import Outcome, Stage
from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer
from testing.mending_model import mending

if TYPE_CHECKING:
    from pathlib import Path

    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]

CASES = [
    {"id": "first", "task": "Say 1.", "expected_answer": 1},
    {"id": "judged", "task": "Say 2.", "rubric": "It is 2.", "pass_score": 0.5},
    {"id": "mend", "context": {"generator": "broken-repository", "seed": 3}},
]


def story(prompt: str) -> str:
    """Two steps for a case, one for its baseline and its judge."""
    if "`python3 -m unittest` fails" in prompt:
        return mending(prompt)
    if "Rubric:" in prompt:
        return '{"score": 0.5, "reason": "half"}'
    said: str = re.findall(r"Say (\d)\.", prompt)[-1]
    if "exactly one JSON object" not in prompt:
        return said
    if "[assistant]\n" not in prompt:
        return json.dumps({"action": "run_python", "code": "print(1)"})
    return json.dumps({"action": "final", "final_response": said})


class Interrupted:
    """A connector that is interrupted at one of its calls, once."""

    model = "echo"

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.asked: list[str] = []

    def generate_response(self, prompt: str) -> str:
        self.asked.append(prompt)
        if len(self.asked) == self.at:
            raise KeyboardInterrupt
        return story(prompt)


class Engine:
    def execute_code(self, code: str) -> str:
        return code


#: What differs between two runs of the same.
_OWN = ("benchmark_id", "run_id", "started_at", "finished_at", "seconds", "latency_seconds")


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: timeless(one) for name, one in value.items() if name not in _OWN}
    return [timeless(one) for one in value] if isinstance(value, list) else value


def results(folder: Path) -> Any:
    [path] = folder.rglob("benchmark.json")
    return timeless(json.loads(path.read_text()))


def runner(folder: Path, connector: Interrupted) -> RLMRunner:
    folder.mkdir(exist_ok=True)
    (folder / "three.json").write_text(json.dumps({"presets": {"three": CASES}}))
    path = folder / "three.json"
    return RLMRunner(connector, Engine(), workdir=folder, benchmark_pack_paths=[path])


def of_bench(folder: Path) -> str:
    [path] = folder.rglob("benchmark.json")
    return path.parent.parent.name


@pytest.mark.full
@pytest.mark.parametrize("at", [2, 5, 6, 9])
def test_an_interrupted_benchmark_goes_on_where_it_was(tmp_path: Path, at: int) -> None:
    connector, straight = Interrupted(at), Interrupted()
    made = runner(tmp_path / "cut", connector)
    with pytest.raises(KeyboardInterrupt):
        made.run_benchmark(preset="three")
    run_id = of_bench(tmp_path / "cut")
    resumed = made.resume_benchmark(run_id)
    assert (resumed.cancelled, resumed.completed_cases) == (False, 3)
    runner(tmp_path / "whole", straight).run_benchmark(preset="three")
    assert results(tmp_path / "cut") == results(tmp_path / "whole")
    assert len(connector.asked) == len(straight.asked) + 1
    [entry] = [one for one in made.list_benchmark_runs() if one["benchmark_id"] == run_id]
    assert entry["cancelled"] is False


@pytest.mark.full
def test_a_model_that_was_away_is_asked_again(tmp_path: Path) -> None:
    class Away(Interrupted):
        is_away = True

        def generate_response(self, prompt: str) -> str:
            if self.is_away and "Say 2" in prompt:
                self.asked.append(prompt)
                raise OSError("no route")
            return super().generate_response(prompt)

    connector, straight = Away(), Interrupted()
    made = runner(tmp_path / "cut", connector)
    ended = made.run_benchmark(preset="three")
    assert [bool(one["error"]) for one in ended.case_results] == [False, True, False]
    away = [one for one in connector.asked if "Say 2" in one]
    connector.is_away = False
    assert made.resume_benchmark(ended.benchmark_id).completed_cases == 3
    runner(tmp_path / "whole", straight).run_benchmark(preset="three")
    assert results(tmp_path / "cut") == results(tmp_path / "whole")
    assert len(connector.asked) == len(straight.asked) + len(away)


@pytest.mark.full
def test_a_changed_pack_and_a_lost_episode_are_refused(tmp_path: Path) -> None:
    connector = Interrupted(4)
    made = runner(tmp_path, connector)
    with pytest.raises(KeyboardInterrupt):
        made.run_benchmark(preset="three")
    run_id = of_bench(tmp_path)
    pack = tmp_path / "three.json"
    kept = pack.read_text()
    pack.write_text(kept.replace("Say 1", "Say 7"))
    with pytest.raises(ConfigError, match="cases of three have changed"):
        made.resume_benchmark(run_id)
    pack.write_text(kept)
    episodes = [one for one in tmp_path.glob(".runs/*/cli/*/") if one.name != run_id]
    episodes[0].rename(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match="an episode of the benchmark is gone"):
        made.resume_benchmark(run_id)
    (tmp_path / "elsewhere").rename(episodes[0])
    asked = len(connector.asked)
    assert made.resume_benchmark(run_id).completed_cases == 3
    assert "Say 1." not in "".join(connector.asked[asked:])


def say(asked: Asked) -> Answer:
    told = (f"[{one['role']}]\n{one['content']}" for one in asked.messages)
    return Answer(story("\n".join(told)))


WORDS = ("bench", "run", "three", "--pack", "three.json", "--model", "gpt-4o")


@pytest.fixture
def stage(repo: GitRepo, cli: Cli, llm: ModelServer) -> Stage:
    llm.script(say)
    made = Stage(repo, cli, llm)
    repo.write("three.json", json.dumps({"presets": {"three": CASES[:2]}})).commit()
    return made


def of_command(stage: Stage) -> list[Outcome]:
    return [one for one in stage.runs() if one.manifest["pipeline_id"] == "bench"]


@pytest.mark.full
def test_a_budget_is_one_over_all_processes(stage: Stage, llm: ModelServer) -> None:
    ended = stage.cli(*WORDS, "--max-calls", "4")
    assert ended.code == LIMIT
    [run] = of_command(stage)
    assert f"rlm-ci resume {run.id} --max-calls N" in ended.stderr, ended.stderr
    assert len(llm.completions) == 4
    assert "more than the run has: 4" in stage.cli("resume", run.id, "--max-calls", "4").stderr
    more = stage.cli("resume", run.id, "--max-calls", "100")
    assert (more.code, len(llm.completions)) == (OK, 8), more
    assert "judged" in more.stdout
    assert summary.read(str(run.folder / "rlm" / "benchmark.json")).record["completed_cases"] == 2


@pytest.mark.full
def test_a_killed_benchmark_goes_on_where_it_was(stage: Stage, llm: ModelServer) -> None:
    """Killed while the model answers, so that each call is either whole or begun again."""
    held = threading.Event()

    def slow(asked: Asked) -> Answer:
        if len(llm.completions) == 9 and not held.is_set():
            held.set()
            threading.Event().wait(1)
        return say(asked)

    llm.script(slow)
    words = (*WORDS, "--repeats", "2")
    child = stage.spawn(*words)
    assert child.kill_when(held.is_set)
    child.wait()
    [run] = of_command(stage)
    resumed = stage.cli("resume", run.id)
    assert resumed.code == OK, resumed
    cut, asked = results(run.folder), len(llm.completions)
    assert stage.cli(*words).code == OK
    assert len(llm.completions) - asked == asked - 1
    whole = next(one for one in of_command(stage) if one.id != run.id)
    assert results(whole.folder) == cut
    assert stage.cli("verify", run.id).code == OK
    stage.clean()
