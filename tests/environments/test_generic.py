"""The generic environment in a loop: code, questions, children; what each earns, and refuses."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.environments.answer_formats import JsonActions
from rlm_ci.environments.coding.file_references import LazyFileContext
from rlm_ci.environments.conversation import Conversation
from rlm_ci.environments.delegation import ChildResult, ChildSlots, ChildTask, Delegation
from rlm_ci.environments.generic import Execution, GenericEnvironment, GenericServices
from rlm_ci.environments.names import environment_of, supported_environments
from rlm_ci.environments.rewards import RLMRewardProfile
from rlm_ci.environments.tool_calls import checker
from rlm_ci.environments.turn_loop import LoopAction, LoopWatcher, Observation, TurnLimits, TurnLoop
from rlm_ci.errors import ConfigError, LimitError, RemoteError
from testing.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from pathlib import Path


def execute(code: str, seconds: float) -> Execution:
    assert seconds == 30
    if "raise" in code:
        return Execution("before", "Traceback: \x1b[31mboom", succeeded=False)
    return Execution(f"ran {code}", "a warning" if "warn" in code else "")


def query(prompt: str, place: str) -> str:
    if "fail" in prompt:
        raise RemoteError("the endpoint is down", where="model", hint="try later")
    if "spend" in prompt:
        raise LimitError("the money is spent", budget="budget_usd")
    return "" if "empty" in prompt else f"{place}: {prompt}"


def child(task: ChildTask, _here: Delegation) -> ChildResult:
    if "broken" in task.task:
        raise RemoteError("no answer", where="model", hint="")
    return ChildResult(
        f"{task.environment}|{task.role}|{task.context}", completed=True, steps=2, reward=0.5
    )


def environment(root: Path, **bounds: Any) -> GenericEnvironment:
    return GenericEnvironment(
        GenericServices(
            execute=execute,
            query=query,
            delegation=Delegation(child, slots=ChildSlots(2), **bounds),
            files=LazyFileContext(str(root)),
        )
    )


def act(where: GenericEnvironment, name: str, **arguments: Any) -> Observation:
    schemas = {one["function"]["name"]: one["function"]["parameters"] for one in where.tools()}
    assert checker(schemas[name])(arguments) == ""
    return where.act(name, arguments)


def test_code(tmp_path: Path) -> None:
    here = environment(tmp_path)
    fine = act(here, "run_python", code="1+1")
    assert fine.text == "Output:\n```\nran 1+1\n```"
    assert fine.reward == pytest.approx(0.8)
    assert not fine.failed
    assert act(here, "run_python", code="warn").reward == pytest.approx(0.7)
    failed = act(here, "run_python", code="raise")
    assert failed.failed
    assert failed.reward == pytest.approx(-0.3)
    assert "The code failed." in failed.text
    assert "\\x1b[31mboom" in failed.text
    assert act(here, "run_python", code="  ").text.startswith("Refused")


def test_questions(tmp_path: Path) -> None:
    here = environment(tmp_path)
    assert "query-1: why" in act(here, "llm_query", prompt="why").text
    assert act(here, "llm_query", prompt="empty").reward == 0.05
    failed = act(here, "llm_query", prompt="fail")
    assert (failed.failed, failed.reward) == (True, -0.3)
    many = act(here, "llm_query_batched", prompts=[f"p{number}" for number in range(9)])
    assert many.reward == 0.3
    places = [many.text.index(f"query-4.{number + 1}: p{number}") for number in range(9)]
    assert places == sorted(places), "answers are in the order of the questions"
    some = act(here, "llm_query_batched", prompts=["a", "fail", "b"])
    assert some.reward == pytest.approx(0.05)
    assert "Question 2 was not answered: the endpoint is down" in some.text
    assert "query-5.3: b" in some.text
    for name, arguments in (
        ("llm_query", {"prompt": "spend"}),
        ("llm_query_batched", {"prompts": ["a", "spend"]}),
    ):
        with pytest.raises(LimitError, match="spent"):
            act(here, name, **arguments)


def test_children_see_what_references_name(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\nthree\n")
    here = environment(tmp_path)
    one = act(here, "delegate", task="read", context_refs=["a.py:2"], role="reader")
    assert "generic|reader|a.py, lines 2-2 of 3:" in one.text
    assert one.reward == pytest.approx(0.7)
    assert json.loads(json.dumps(one.details))["children"][0]["steps"] == 2
    both = act(here, "delegate_batch", tasks=["x", "broken"], environment="rlm", parallel=1)
    assert both.reward == pytest.approx(0.2 + 0.25 - 0.175)
    assert "generic||" in both.text
    assert "Child 2 did not get done: no answer" in both.text
    for wrong, told in (
        ({"task": "x", "context_refs": ["../out"]}, "is not a path inside"),
        ({"task": "x", "environment": "nowhere"}, "generic, rlm, coding"),
        ({"task": " "}, "not empty"),
        ({"task": "x", "environment": "dspy"}, "only who works on code itself"),
    ):
        refused = act(here, "delegate", **wrong)
        assert told in refused.text
        assert refused.reward == -0.2
    many = act(here, "delegate_batch", tasks=["x"] * 5)
    assert "one action may give 4" in many.text


def test_children_that_work_on_code_do_so_one_after_the_other() -> None:
    at_work: list[str] = []
    seen: list[tuple[str, int]] = []

    def worker(task: ChildTask, _here: Delegation) -> ChildResult:
        at_work.append(task.task)
        threading.Event().wait(0.002)
        seen.append((task.environment, len(at_work)))
        at_work.remove(task.task)
        return ChildResult("done", completed=True)

    services = GenericServices(delegation=Delegation(worker, slots=ChildSlots(4), parallelism=4))
    here = GenericEnvironment(services, name="dspy")
    act(here, "delegate_batch", tasks=["a", "b", "c"], parallel=4)
    assert seen == [("coding", 1)] * 3
    act(here, "delegate_batch", tasks=["a", "b", "c"], environment="generic")
    assert [name for name, _ in seen[3:]] == ["generic"] * 3


def test_guards_are_told(tmp_path: Path) -> None:
    deep = environment(tmp_path, depth=2, max_depth=2)
    told = act(deep, "delegate", task="x")
    assert (told.reward, told.failed) == (-0.3, True)
    assert "was not started: depth 2 is the deepest" in told.text
    same = ChildTask("x", environment="generic").fingerprint()
    cycle = act(environment(tmp_path, lineage=(same,)), "delegate", task="x")
    assert cycle.reward == -0.25
    assert "a cycle" in cycle.text


def test_an_action_without_its_service_is_not_there() -> None:
    alone = GenericEnvironment(GenericServices())
    assert [one["function"]["name"] for one in alone.tools()] == ["final"]
    services = GenericServices(delegation=Delegation(child, slots=ChildSlots(1)))
    offered = {
        one["function"]["name"]: one["function"]["parameters"]["properties"]
        for one in GenericEnvironment(services).tools()
    }
    assert "context_refs" not in offered["delegate"] | offered["delegate_batch"]


def test_an_episode(tmp_path: Path) -> None:
    rewards: list[float] = []

    class Sum(LoopWatcher):
        def after(self, _action: LoopAction, observation: Observation) -> None:
            rewards.append(observation.reward)

    model = ScriptedModel([
        "The answer is surely 42.",
        '{"action": "run_python", "code": "6*7"}',
        '{"action": "final", "final_response": "  "}',
        '{"action": "final", "final_response": "42"}',
    ])  # fmt: skip
    loop = TurnLoop(
        lambda request, _place: model.complete(request),
        environment(tmp_path),
        model="m",
        bounds=TurnLimits(turns=4),
        answers=JsonActions(),
        watcher=Sum(),
    )
    history = Conversation()
    history.prompt("What is 6 times 7?")
    end = loop.run(history, "here")
    assert (end.text, end.reason) == ("42", "")
    assert rewards == pytest.approx([0.8, -0.2, 1.0])
    assert RLMRewardProfile().apply_global_scale(sum(rewards)) == 1.0


def test_environments_have_names() -> None:
    assert environment_of("dspy-coding") == environment_of("framework") == "coding"
    assert environment_of("pure_rlm") == "repl"
    assert {"generic", "rlm", "dspy", "pure-rlm"} <= set(supported_environments())
    with pytest.raises(ConfigError, match="no environment 'shell'") as raised:
        environment_of("shell")
    assert "dspy-coding" in str(raised.value.hint)
