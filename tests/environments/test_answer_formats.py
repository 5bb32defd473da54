"""How calls are read from an answer: actions as JSON, code in blocks; and what is told of one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm_ci.environments.answer_formats import AnswerFormat, CodeBlocks, JsonActions
from rlm_ci.environments.conversation import Conversation
from rlm_ci.environments.turn_loop import (
    LoopAction,
    LoopWatcher,
    Observation,
    TurnLimits,
    TurnLoop,
)
from rlm_ci.models import Completion, TokenUsage
from testing.scripted_model import ScriptedModel


def said(text: str, reason: str = "stop") -> Completion:
    return Completion(text, (), reason, "m", TokenUsage(1, 1))


def read(answers: AnswerFormat, text: str, reason: str = "stop") -> list[tuple[str, Any]]:
    calls = answers.calls(said(text, reason), 1)
    assert [one.index for one in calls] == list(range(len(calls)))
    return [(one.name, json.loads(one.arguments)) for one in calls]


def test_actions_are_flat_objects() -> None:
    assert read(
        JsonActions(),
        'I run it. {"action": "run_python", "code": "1", "path": null, "rationale": "why not", '
        '"done": false} {"action": "final"}',
    ) == [("run_python", {"code": "1"})]
    for word in ("final", "finish", "complete"):
        text = json.dumps({"action": word, "final_response": "42", "done": True})
        assert read(JsonActions(), text) == [("final", {"final_response": "42"})]
    both = json.dumps({"action": "run_python", "code": "1", "done": True, "final_response": "one"})
    assert [name for name, _ in read(JsonActions(), both)] == ["run_python", "final"]
    assert read(JsonActions(), '{"tool": "run_python"} the answer is 42') == []


BLOCKS = """First:
```repl
x = 1
```
```text
no code
```
~~~python
print("```")
~~~
``` Python
y = 2\r
```
````repl
z = '''
```
'''
````
```repl

```
```repl
w = 3"""


def test_code_is_read_from_its_blocks_in_order() -> None:
    blocks = ["x = 1", 'print("```")', "y = 2", "z = '''\n```\n'''"]
    found = read(CodeBlocks("repl"), BLOCKS)
    assert found == [("repl", {"code": code}) for code in [*blocks, "w = 3"]]
    assert read(CodeBlocks("repl"), BLOCKS, "length") == found[:-1], "half a block is no code"
    assert read(CodeBlocks("repl", ("js",)), BLOCKS) == []
    assert read(CodeBlocks("repl"), "```repl\n" * 50_000)[1:] == []


class Notebook:
    """Code is kept; the word ``fail`` in it fails."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def tools(self) -> tuple[dict[str, Any], ...]:
        def function(name: str, key: str) -> dict[str, Any]:
            parameters = {
                "type": "object",
                "properties": {key: {"type": "string"}},
                "required": [key],
                "additionalProperties": False,
            }
            return {"type": "function", "function": {"name": name, "parameters": parameters}}

        return function("run_python", "code"), function("final", "final_response")

    def act(self, name: str, arguments: Any) -> Observation:
        if name == "final":
            return Observation(arguments["final_response"], final=True, reward=1.0)
        self.ran.append(arguments["code"])
        failed = "fail" in arguments["code"]
        return Observation("out", reward=-0.2 if failed else 0.8, failed=failed)


class Watched(LoopWatcher):
    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def before(self, action: LoopAction) -> None:
        self.seen.append(("before", action.number, action.turn, action.name, action.arguments))

    def after(self, action: LoopAction, observation: Observation) -> None:
        self.seen.append(("after", action.number, observation.reward, observation.failed))

    def answered(self, turn: int, completion: Completion) -> None:
        self.seen.append(("answered", turn, completion.usage is not None))


def run(answers: AnswerFormat, *texts: str, **bounds: Any) -> tuple[Any, Notebook, Watched, Any]:
    model, notebook, watched = ScriptedModel(list(texts)), Notebook(), Watched()
    loop = TurnLoop(
        lambda request, _place: model.complete(request),
        notebook,
        model="m",
        bounds=TurnLimits(**bounds),
        answers=answers,
        watcher=watched,
    )
    history = Conversation()
    history.prompt("system", "system")
    history.prompt("the goal")
    return loop.run(history, "here"), notebook, watched, model.requests


def action(name: str, **keys: Any) -> str:
    return json.dumps({"action": name, **keys})


def test_a_watcher_sees_each_action_and_each_mistake() -> None:
    end, notebook, watched, _ = run(
        JsonActions(),
        "The answer is 42.",
        action("shell", command="id"),
        action("run_python"),
        action("run_python", code="fail", done=True, final_response="no"),
        action("run_python", code="fine", done=True, final_response="yes"),
    )
    assert (end.text, end.reason, end.turns) == ("yes", "", 5)
    assert notebook.ran == ["fail", "fine"]
    assert watched.seen == [
        ("answered", 1, True),
        ("after", 1, -0.2, True), ("answered", 2, True),
        ("after", 2, -0.3, True), ("answered", 3, True),
        ("before", 3, 4, "run_python", {"code": "fail"}), ("after", 3, -0.2, True),
        ("answered", 4, True),
        ("before", 4, 5, "run_python", {"code": "fine"}), ("after", 4, 0.8, False),
        ("before", 5, 5, "final", {"final_response": "yes"}), ("after", 5, 1.0, False),
        ("answered", 5, True),
    ]  # fmt: skip


@pytest.mark.parametrize("answers", [JsonActions(), CodeBlocks("run_python")])
def test_an_answer_that_is_none_is_never_the_final_one(answers: AnswerFormat) -> None:
    end, _, _, requests = run(answers, *["It is 42, I am sure."] * 9)
    assert len(requests) == 4
    assert "did not keep to its tools" in end.reason
    assert "had no" in requests[-1].messages[-1]["content"]
    end, *_ = run(answers, *[action("run_python", code="1") + "\n```repl\n1\n```"] * 3, turns=3)
    assert (end.exhausted, end.reason) == (True, "not done after 3 turns")


FENCES = st.lists(
    st.sampled_from(
        ("```", "````", "~~~", "```repl", "``` python", "```js", "x = 1", "{", '{"a', "")
    ),
    max_size=30,
)
ACTIONS = st.dictionaries(
    st.sampled_from(("action", "code", "done", "final_response", "tool", "path", "rationale")),
    st.text(max_size=5) | st.booleans() | st.none() | st.lists(st.none(), max_size=2),
    max_size=5,
)


@pytest.mark.full
@settings(max_examples=200, deadline=None, database=None)
@given(lines=FENCES, action=ACTIONS, text=st.text(max_size=40), cut_off=st.booleans())
def test_whatever_an_answer_is_it_is_read_and_a_mistake_is_told(
    lines: list[str], action: dict[str, Any], text: str, cut_off: bool
) -> None:
    for answers in (JsonActions(), CodeBlocks("run_python")):
        for said_so in ("\n".join(lines), text + json.dumps(action), json.dumps([action])):
            reason = "length" if cut_off else "stop"
            for name, arguments in read(answers, said_so, reason):
                assert isinstance(name, str)
                assert isinstance(arguments, dict)
            end, notebook, _, requests = run(answers, *[said_so] * 5, turns=5)
            assert end.reason or end.text
            assert all(code.strip() for code in notebook.ran)
            for request in requests:
                json.dumps(request.to_dict(), ensure_ascii=False).encode()
