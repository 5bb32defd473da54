"""``RLMRunner`` with a connector and an engine of the caller's own; each episode is a run."""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from rlm_ci.errors import ConfigError
from rlm_ci.evaluation import RLMEventBus, RLMRunner
from rlm_ci.lab import frameworks
from testing.loopback_model.fixture import llm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from rlm_ci.evaluation import RLMRuntimeEvent
    from rlm_ci.lab.frameworks import FrameworkEpisode
    from testing.loopback_model.server import ModelServer
    from testing.program import Cli

__all__ = ["llm"]


def action(name: str, **arguments: Any) -> str:
    return json.dumps({"action": name, **arguments})


def final(answer: str = "42") -> str:
    return action("final", final_response=answer)


class Connector:
    """Answers by what it was asked, so that the same is said again."""

    def __init__(self, say: Callable[[str], str]) -> None:
        self.say = say
        self.asked: list[str] = []

    def generate_response(self, prompt: str, **_more: Any) -> str:
        self.asked.append(prompt)
        return self.say(prompt)


class Engine:
    def __init__(self) -> None:
        self.ran: list[str] = []

    def execute_code(self, code: str) -> tuple[str, str | None]:
        self.ran.append(code)
        return (code.upper(), None) if "bad" not in code else ("", "it is bad")


@pytest.fixture
def runner(tmp_path: Path) -> Callable[..., RLMRunner]:
    def make(say: Callable[[str], str], **more: Any) -> RLMRunner:
        return RLMRunner(Connector(say), Engine(), workdir=tmp_path, **more)

    return make


def story(prompt: str) -> str:
    """Run some code, then answer."""
    return final() if "WORK" in prompt else action("run_python", code="work")


def test_an_episode_is_a_run_with_a_trajectory_and_events(
    runner: Callable[..., RLMRunner], cli: Cli, tmp_path: Path
) -> None:
    bus = RLMEventBus()
    events: list[RLMRuntimeEvent] = []
    end = bus.subscribe(events.append)
    made = runner(story, event_bus=bus, reward_profile={"global_scale": 0.5})
    result = made.run_task("What is it?")
    assert (result.completed, result.steps, result.final_response) == (True, 2, "42")
    assert result.total_reward == 0.9
    assert (result.environment, result.task) == ("generic", "What is it?")
    assert result.usage_summary is not None
    assert result.usage_summary["total_calls"] == 2
    assert result.started_at < result.finished_at
    lines = [json.loads(line) for line in result.run_path.read_text().splitlines()]
    assert [one["type"] for one in lines] == ["step", "step", "final"]
    assert [one.get("reward") for one in lines] == [0.4, 0.5, None]
    assert lines[-1]["total_reward"] == 0.9
    names = ["run_start", "step_start", "step_end", "step_start", "step_end", "run_end"]
    assert [one.name for one in events] == names
    assert {(one.run_id, one.depth, one.parent_run_id) for one in events} == {
        (result.run_id, 0, None)
    }
    end()
    made.run_task("And now?")
    assert len(events) == len(names)
    record = json.loads((result.run_path.parent.parent / "run.json").read_text())
    assert record["final_reward"] == 0.9
    replayed = cli("replay", result.run_id, "--check", cwd=tmp_path)
    assert replayed.code == 0, replayed


def test_a_subscriber_that_raises_does_not_end_the_run(
    runner: Callable[..., RLMRunner], capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(_event: RLMRuntimeEvent) -> None:
        raise ValueError("no")

    bus = RLMEventBus()
    bus.subscribe(fail)
    assert runner(story, event_bus=bus).run_task("What is it?").completed
    assert capfd.readouterr().err.count("ValueError: no") == 1


def test_the_best_branch_is_carried_out(runner: Callable[..., RLMRunner]) -> None:
    said = iter([action("run_python", code="bad"), action("run_python", code="good"), "nothing"])
    made = runner(lambda prompt: final() if "GOOD" in prompt else next(said))
    result = made.run_task("What is it?", branch_width=3)
    assert (result.completed, result.total_reward) == (True, 1.8)
    steps = [json.loads(line) for line in result.run_path.read_text().splitlines()]
    assert steps[0]["action"]["code"] == "good"


class WrittenCalls:
    """A framework that calls what the model wants called, until there is nothing to call."""

    @staticmethod
    def run(episode: FrameworkEpisode) -> str:
        while True:
            answer = episode.ask([{"role": "user", "content": episode.goal}], tools=True)
            for call in answer.tool_calls:
                episode.call(call["name"], json.loads(call["arguments"]))
            if not answer.tool_calls:
                return answer.text


def test_a_call_in_the_text_of_an_answer_is_marked_in_its_step(
    tmp_path: Path, llm: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = '<tool_call>{"name": "run_python", "arguments": {"code": "6 * 7"}}</tool_call>'
    said = iter([written, "42"])
    llm.script(lambda _: next(said))
    settings = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url, "RLM_CI_MODEL": "m"}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(frameworks._FRAMEWORKS, "dspy", ("json", "dspy"))
    monkeypatch.setitem(sys.modules, f"{frameworks.__name__}.dspy", WrittenCalls)
    result = RLMRunner(None, Engine(), workdir=tmp_path).run_task("6 x 7?", framework="dspy")
    assert (result.completed, result.final_response) == (True, "42")
    steps = [json.loads(line) for line in result.run_path.read_text().splitlines()][:-1]
    assert [(one["action"]["action"], one.get("origin")) for one in steps] == [
        ("run_python", "text"), ("final", None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ({"environment": "nowhere"}, "pure_rlm"),
        ({"framework": "langchain"}, "pydantic_ai"),
    ],
)
def test_what_is_not_known_is_an_error_that_lists_what_is(
    runner: Callable[..., RLMRunner], given: dict[str, Any], hint: str
) -> None:
    with pytest.raises(ConfigError) as found:
        runner(story).run_task("What is it?", **given)
    assert hint in found.value.hint


@pytest.mark.parametrize("width", [1, 2])
def test_without_an_answer_the_steps_end_it(runner: Callable[..., RLMRunner], width: int) -> None:
    made = runner(lambda _prompt: action("run_python", code="work"))
    result = made.run_task("What is it?", max_steps=2, branch_width=width)
    assert (result.completed, result.steps) == (False, 2)


def test_a_model_that_does_not_act_solves_nothing(runner: Callable[..., RLMRunner]) -> None:
    result = runner(lambda _prompt: "I would rather not.").run_task("What is it?", max_steps=9)
    assert (result.completed, result.steps, result.total_reward) == (False, 4, 0.0)
    report = json.loads((result.run_path.parent.parent / "report.json").read_text())
    [finding] = report["findings"]
    assert finding["rule"] == "run/unsolved"
    assert report["parts"][0]["summary"] == "no answer after 4 steps, reward 0"


def test_a_context_is_a_part_of_the_prompt_or_is_refused(
    runner: Callable[..., RLMRunner], tmp_path: Path
) -> None:
    asked: list[str] = []

    def say(prompt: str) -> str:
        asked.append(prompt)
        return final()

    made = runner(say)
    (tmp_path / "notes.txt").write_text("from a file")
    assert made.run_task("x", context="from a text").completed
    assert made.run_task("x", context=tmp_path / "notes.txt").completed
    assert "from a text" in asked[0]
    assert "from a file" in asked[1]
    with pytest.raises(ConfigError, match="150,000 bytes"):
        made.run_task("x", context="y" * 200_000)


def test_code_and_an_engine_of_the_caller_are_replayed(
    runner: Callable[..., RLMRunner], cli: Cli, tmp_path: Path
) -> None:
    made = runner(lambda prompt: story(prompt.rpartition("its top")[2]))
    result = made.run_task("What is it?", environment="dspy")
    assert result.completed
    assert made.execution_engine.ran == ["work"]
    replayed = cli("replay", result.run_id, "--check", cwd=tmp_path)
    assert replayed.code == 0, replayed


def test_a_sub_model_without_a_price_is_an_error_before_anything_is_paid(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Priced:
        model = "gpt-4o"

        def generate_response(self, _prompt: str) -> str:
            raise AssertionError("it is asked")

    monkeypatch.setenv("RLM_CI_BUDGET_USD", "1")
    made = RLMRunner(Priced(), None, workdir=tmp_path)
    with pytest.raises(ConfigError, match="price of the model 'nobody-knows'"):
        made.run_task("t", sub_model="nobody-knows")
    with pytest.raises(ConfigError, match="price of the model 'nobody-knows'"):
        made.run_benchmark(limit=1, sub_model="nobody-knows")


@pytest.mark.full
def test_the_record_of_many_sub_calls_grows_with_their_number(tmp_path: Path) -> None:
    """By hand with 20,000: 573 bytes and 1 ms a call, as with 1,000."""

    class Many:
        model = "m"
        calls = 0

        def generate_response(self, prompt: str) -> str:
            if prompt.startswith("q"):
                return f"a{prompt}"
            code = (
                f"found = [one for i in range({self.calls // 100}) "
                "for one in llm_query_batched([f'q{i}-{j}' for j in range(100)])]"
            )
            return f"```repl\n{code}\nFINAL(str(len(set(found))))\n```"

    sizes = []
    for number in (200, 800):
        folder = tmp_path / str(number)
        folder.mkdir()
        connector = Many()
        connector.calls = number
        made = RLMRunner(connector, None, workdir=folder)
        result = made.run_task("count", environment="pure_rlm", exec_timeout=300)
        assert result.final_response == str(number)
        assert result.usage_summary is not None
        assert result.usage_summary["total_calls"] == number + 1
        sizes += [sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())]
    assert sizes[1] < 4.2 * sizes[0]


def test_an_episode_with_a_context_is_replayed_whatever_the_settings_name(
    tmp_path: Path, cli: Cli
) -> None:
    """That of a benchmark's case is gone by then, and another variable may be set."""

    class Reads:
        model = "m"

        def generate_response(self, prompt: str) -> str:
            said = "7" if "The number is 7." in prompt else "none"
            return json.dumps({"action": "final", "final_response": said})

    made = RLMRunner(Reads(), None, workdir=tmp_path)
    (tmp_path / "other.txt").write_text("other")
    (tmp_path / "pack.json").write_text(
        json.dumps([{"id": "a", "task": "Which?", "context": "The number is 7.", "expected": 7,
                     "environment": "generic"}])
    )  # fmt: skip
    [entry] = made.run_benchmark(preset=str(tmp_path / "pack.json")).case_results
    without = made.run_task("Which?")
    for run_id, said in ((entry["run_id"], "7"), (without.run_id, "none")):
        env = {"RLM_CONTEXT_PATH": str(tmp_path / "other.txt")}
        ended = cli("replay", run_id, "--check", cwd=tmp_path, env=env)
        assert (ended.code, said in ended.stdout) == (0, True), ended


NO_ANSWER = "There is no answer: not done after 2 turns. The last action was run_python: "


def test_without_an_answer_the_response_is_a_text_of_what_was_done_last(
    runner: Callable[..., RLMRunner],
) -> None:
    acts = runner(lambda _prompt: action("run_python", code="work"))
    response = acts.run_task("What is it?", max_steps=2).final_response
    assert response.startswith(NO_ANSWER)
    assert "WORK" in response
    talks = runner(lambda _prompt: "I think it is 42.")
    response = talks.run_task("What is it?", max_steps=2).final_response
    assert response == "There is no answer: not done after 2 turns. Nothing was done."
    code = runner(lambda _prompt: "```repl\nprint('work')\n```")
    response = code.run_task("What is it?", max_steps=2, environment="pure_rlm").final_response
    assert response.startswith(NO_ANSWER.replace("run_python", "repl"))


@pytest.mark.full
def test_a_time_budget_that_is_used_up_at_once_leaves_a_text(
    runner: Callable[..., RLMRunner],
) -> None:
    def slow(_prompt: str) -> str:
        time.sleep(3)
        return final()

    response = runner(slow).run_task("What is it?", time_budget_seconds=1).final_response
    assert response.startswith("There is no answer: ")
    assert response.endswith("Nothing was done.")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"max_steps": 0}, "max_steps must be a whole number of at least 1, not '0' (RLMRunner)"),
        ({"branch_width": "x"}, "branch_width must be a whole number of at least 1, not 'x'"),
        ({"exec_timeout": 0}, "exec_timeout must be a number of at least 1, not '0'"),
        ({"max_depth": True}, "max_depth must be a whole number"),
        ({"environment": "pure"}, "there is no environment 'pure' (environment): known: generic, "),
        ({"framework": "langchain"}, "'langchain'"),
    ],
)
def test_a_wrong_parameter_is_named_with_what_is_known(
    runner: Callable[..., RLMRunner], given: dict[str, Any], what: str
) -> None:
    made = runner(story)
    for method in (partial(made.run_task, "x"), partial(made.run_benchmark, limit=1)):
        if "max_depth" in given and method.args == ():
            continue
        with pytest.raises(ConfigError) as found:
            method(**given)
        assert what in str(found.value)
        assert "known: " in str(found.value) or "must be" in str(found.value)
        assert "--" not in str(found.value)
    assert not made.llm_connector.asked


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"max_parallelism": 0}, "max_parallelism must be a whole number of at least 1, not '0'"),
        ({"max_parallelism": "x"}, "max_parallelism must be a whole number of at least 1, not 'x'"),
        ({"benchmark_pack_paths": 5}, "benchmark_pack_paths must be a list of paths, not 5"),
        ({"benchmark_pack_paths": [5]}, "benchmark_pack_paths must be a list of paths, not [5]"),
        ({"run_dir": 5}, "run_dir must be a path, not 5"),
        ({"event_bus": 5}, "int has no method emit (RLMRunner): give it emit()"),
        ({"event_bus": 0}, "int has no method emit"),
        ({"observability": 5}, "int has no method on_event"),
        ({"reward_profile": 5}, "a reward profile is a table of numbers, not 5"),
        ({"reward_profile": {"global_scal": 1}}, "known: global_scale, "),
    ],
)
def test_a_wrong_parameter_of_the_runner_itself_is_an_error(
    runner: Callable[..., RLMRunner], given: dict[str, Any], what: str
) -> None:
    with pytest.raises(ConfigError) as found:
        runner(story, **given)
    assert what in str(found.value)


def test_wrong_limits_of_benchmarks_are_errors(runner: Callable[..., RLMRunner]) -> None:
    made = runner(story)
    with pytest.raises(ConfigError, match="limit is 'x'"):
        made.run_benchmark(limit="x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="min_reward_delta must be a number, not 'x'"):
        made.compare_benchmarks(min_reward_delta="x")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="known are: "):
        made.run_benchmark(preset="no-such")


def test_the_provider_of_sub_calls_reaches_the_connector(tmp_path: Path) -> None:
    class Providers:
        model = "m"
        seen: ClassVar[list[tuple[str | None, str | None]]] = []

        def generate_response(
            self, prompt: str, model: str | None = None, provider: str | None = None
        ) -> str:
            self.seen.append((model, provider))
            is_done = model or "What is 6 x 7?" in prompt
            return final() if is_done else action("llm_query", prompt="What is 6 x 7?")

    (tmp_path / "pack.json").write_text(
        json.dumps([{"id": "a", "task": "Which?", "expected": 42, "environment": "generic"}])
    )
    made = RLMRunner(Providers(), None, workdir=tmp_path)
    made.run_task("x", sub_model="small", sub_provider="elsewhere")
    assert ("small", "elsewhere") in Providers.seen
    Providers.seen.clear()
    preset = str(tmp_path / "pack.json")
    made.run_benchmark(preset=preset, sub_model="small", sub_provider="elsewhere")
    assert ("small", "elsewhere") in Providers.seen
    assert (None, "elsewhere") not in Providers.seen
