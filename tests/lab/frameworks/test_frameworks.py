"""Each framework with our model and our environment: the same episodes, the same ends.

CI runs them with each framework installed; docs/environments.md says how to.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlm_ci.environments.generic import Execution, GenericEnvironment, GenericServices
from rlm_ci.environments.turn_loop import LoopAction, LoopEnd, LoopWatcher, Observation, TurnLimits
from rlm_ci.errors import ConfigError, LimitError, StorageError, UnavailableError
from rlm_ci.lab import frameworks
from rlm_ci.lab.frameworks import FrameworkEpisode
from testing.scripted_model import ScriptedModel

INSTALLED = [one.name for one in frameworks.statuses() if one.is_installed]


def each(test: Any) -> Any:
    """Run a test with each framework that is installed, and only where one is asked for."""
    names = [
        pytest.param(name, marks=pytest.mark.skipif(name not in INSTALLED, reason="not installed"))
        for name in frameworks.supported_frameworks()
    ]
    return pytest.mark.full(pytest.mark.parametrize("name", names)(test))


class Watcher(LoopWatcher):
    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def after(self, action: LoopAction, observation: Observation) -> None:
        self.seen.append((action.turn, action.name, round(observation.reward, 2)))

    def answered(self, turn: int, completion: Any) -> None:
        assert completion.text is not None
        self.seen.append((turn, "answered"))


def tool(name: str, of: str, **arguments: Any) -> Any:
    """An answer that calls a tool, as the framework's model writes it."""
    if of != "dspy":
        call = {"name": name, "arguments": json.dumps(arguments)}
        return {"text": "I do it.", "tool_calls": [call]}
    fields = {"next_thought": "I do it.", "next_tool_name": name,
              "next_tool_args": json.dumps(arguments)}  # fmt: skip
    said = "\n\n".join(f"[[ ## {field} ## ]]\n{text}" for field, text in fields.items())
    return f"{said}\n\n[[ ## completed ## ]]"


def answer(text: str, of: str) -> list[Any]:
    """The answers by which a model ends in a framework's own way."""
    if of != "dspy":
        return [text]
    fields = f"[[ ## reasoning ## ]]\nSo.\n\n[[ ## answer ## ]]\n{text}\n\n[[ ## completed ## ]]"
    return [tool("finish", of), fields]


class Bench:
    def __init__(self, name: str, *steps: Any, textual: bool = False, **bounds: int) -> None:
        self.name = name
        self.model = ScriptedModel(steps)
        self.places: list[str] = []
        self.ran: list[str] = []
        self.watcher = Watcher()
        environment = GenericEnvironment(GenericServices(execute=self._execute))
        self.episode = FrameworkEpisode(
            self._complete,
            environment,
            goal="What is {6} times 7?",
            system="You know {arithmetic}.",
            model="loopback",
            bounds=TurnLimits(**bounds),
            step="here",
            watcher=self.watcher,
            textual=textual,
        )

    def _complete(self, request: Any, step: str) -> Any:
        self.places.append(step)
        return self.model.complete(request)

    def _execute(self, code: str, _seconds: float) -> Execution:
        if code == "full":
            raise StorageError("the disk is full", where="copy", hint="make room")
        self.ran.append(code)
        return Execution(f"{code} is 42")

    def run(self) -> LoopEnd:
        return frameworks.run(self.name, self.episode)

    def sent(self) -> str:
        return json.dumps([one.to_dict() for one in self.model.requests])


@each
def test_an_episode(name: str) -> None:
    sent = []
    for _ in range(2):
        bench = Bench(name, tool("run_python", name, code="6*7"), *answer("42", name))
        end = bench.run()
        turns = len(bench.model.requests)
        assert end == LoopEnd("42", "", turns)
        assert bench.ran == ["6*7"]
        assert bench.places == [f"here/turn-{turn + 1}" for turn in range(turns)]
        assert bench.watcher.seen[:2] == [(1, "run_python", 0.8), (1, "answered")]
        assert bench.watcher.seen[-2:] == [(turns, "final", 1.0), (turns, "answered")]
        first, second = bench.model.requests[:2]
        assert first.messages[0]["role"] == "system"
        assert "You know {arithmetic}." in first.messages[0]["content"]
        assert "What is {6} times 7?" in first.messages[-1]["content"]
        assert "6*7 is 42" in second.messages[-1]["content"]
        assert first.max_tokens == 4096
        sent.append(bench.sent())
    assert sent[0] == sent[1], "a resumed run finds its answers again"


@each
def test_the_tool_final_ends_it_at_once(name: str) -> None:
    bench = Bench(name, tool("final", name, final_response="42"), "never asked")
    assert bench.run() == LoopEnd("42", "", 1)
    assert bench.watcher.seen == [(1, "final", 1.0), (1, "answered")]


@each
def test_wrong_arguments_are_told_to_the_model(name: str) -> None:
    steps = [tool("run_python", name, program="6*7"), tool("run_python", name, code="6*7")]
    bench = Bench(name, *steps, *answer("42", name))
    assert bench.run().text == "42"
    assert bench.ran == ["6*7"]
    assert bench.watcher.seen[0] == (1, "run_python", -0.3)
    assert "required property" in bench.model.requests[1].messages[-1]["content"]


@each
def test_a_model_that_keeps_to_no_tool_is_no_answer(name: str) -> None:
    bench = Bench(name, *[tool("run_python", name, program="6*7")] * 20)
    end = bench.run()
    assert end.text == ""
    assert "did not keep to its tools" in end.reason
    assert end.turns == 4
    bench = Bench(name, *[tool("shell", name, command="id")] * 20, turns=12)
    end = bench.run()
    assert end.text == ""
    assert end.reason
    assert bench.ran == []


@each
def test_a_model_without_tools_is_told_of_them_in_words(name: str) -> None:
    if name == "dspy":
        pytest.skip("it does so anyway")
    run = {"tool": "run_python", "arguments": {"code": "6*7"}}
    final = {"tool": "final", "arguments": {"final_response": "42"}}
    steps = [json.dumps(run), "The answer is 42.", json.dumps(final)]
    bench = Bench(name, *steps, textual=True)
    assert bench.run().text == "42"
    assert bench.ran == ["6*7"]
    assert all(not one.tools for one in bench.model.requests)
    first, second, third = bench.model.requests
    assert "You know {arithmetic}." in first.messages[0]["content"]
    assert '{"tool": "NAME", "arguments": {...}}' in first.messages[0]["content"]
    assert second.messages[-1]["content"].startswith("Result of run_python:")
    assert json.loads(second.messages[-2]["content"]) == run
    assert third.messages[-2]["content"] == "The answer is 42."
    assert "had no JSON object" in third.messages[-1]["content"]
    bench = Bench(name, *["It is 42, trust me."] * 9, textual=True)
    end = bench.run()
    assert (end.text, end.turns) == ("", 4)
    assert "did not keep to its tools" in end.reason


@each
def test_turns_and_budgets_end_it(name: str) -> None:
    bench = Bench(name, *[tool("run_python", name, code="1")] * 20, turns=3)
    assert bench.run() == LoopEnd("", "not done after 3 turns", 3, exhausted=True)
    assert len(bench.model.requests) == 3
    spent = LimitError("the money is spent", budget="budget_usd")
    bench = Bench(name, tool("run_python", name, code="1"), spent)
    with pytest.raises(LimitError, match="money is spent"):
        bench.run()
    bench = Bench(name, tool("run_python", name, code="full"), "never asked")
    with pytest.raises(StorageError, match="disk is full"):
        bench.run()
    assert len(bench.model.requests) == 1


def test_unknown_frameworks_are_refused_with_the_known_ones() -> None:
    assert frameworks.supported_frameworks() == ("dspy", "pydantic_ai", "google_adk")
    with pytest.raises(ConfigError, match="no framework 'langchain'") as raised:
        Bench("langchain").run()
    assert "dspy, pydantic_ai, google_adk" in str(raised.value.hint)


def test_a_missing_framework_says_how_to_install_it() -> None:
    missing = [one for one in frameworks.statuses() if not one.is_installed]
    for one in missing:
        with pytest.raises(UnavailableError, match="is not installed") as raised:
            Bench(one.name.replace("_", "-")).run()
        assert one.install in str(raised.value.hint)
        assert one.name.replace("_", "-") in one.install
    assert len(missing) + len(INSTALLED) == 3
