"""The turn loop with a scripted model: obedient, confused, hostile, endless; always the same."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm_ci.environments.answer_formats import JsonCalls, NativeCalls
from rlm_ci.environments.coding.tools import CodeTools, Services
from rlm_ci.environments.conversation import Conversation
from rlm_ci.environments.turn_loop import CALLS_LIMIT, LoopEnd, TurnLimits, TurnLoop
from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models import PROMPT_TOO_LONG, Completion, ModelRequest, TokenUsage
from rlm_ci.models.context_length import ContextFit
from rlm_ci.models.openai.client import OpenAIModel
from testing.loopback_model.histories import HISTORIES
from testing.loopback_model.replies import Answer, Call
from testing.loopback_model.server import ModelServer
from testing.loopback_model.small_contexts import SmallContext
from testing.scripted_model import ScriptedModel

Step = dict[str, Any] | str | Completion


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "arguments": json.dumps(arguments)}


def step(*calls: dict[str, Any], text: str = "") -> dict[str, Any]:
    return {"text": text, "tool_calls": list(calls)}


DONE = step(call("done", summary="All well."))


class Talk:
    """One loop over a folder, with all that was asked in ``requests``."""

    def __init__(self, root: Path, *steps: Step, textual: bool = False, **bounds: int) -> None:
        self.model = ScriptedModel(list(steps))
        self.places: list[str] = []
        self.history = Conversation()
        self.history.prompt("system text", "system")
        self.history.prompt("the goal")
        self.loop = TurnLoop(
            self._complete,
            CodeTools(str(root), Services(tests=lambda tests: f"tested {tests}")),
            model="m",
            bounds=TurnLimits(**bounds),
            answers=JsonCalls() if textual else NativeCalls(),
        )

    def _complete(self, request: ModelRequest, step: str) -> Completion:
        self.places.append(step)
        return self.model.complete(request)

    def run(self) -> LoopEnd:
        return self.loop.run(self.history, "here")

    @property
    def requests(self) -> list[ModelRequest]:
        return self.model.requests

    def last(self) -> str:
        """The latest message that the model was shown."""
        content = self.requests[-1].messages[-1]["content"]
        assert isinstance(content, str)
        return content


def test_tools_are_carried_out_until_done(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    talk = Talk(
        tmp_path,
        step(call("read", path="a.py")),
        step(call("edit", path="a.py", old="1", new="2"), call("run_tests"), text="I see."),
        DONE,
    )
    assert talk.run() == LoopEnd("All well.", "", 3)
    assert (tmp_path / "a.py").read_text() == "x = 2\n"
    assert talk.places == ["here/turn-1", "here/turn-2", "here/turn-3"]
    messages = talk.requests[2].messages
    assert [one["role"] for one in messages] == [
        "system", "user", "assistant", "tool", "assistant", "tool", "tool",
    ]  # fmt: skip
    assert messages[4]["content"] == "I see."
    ids = [one["id"] for one in messages[4]["tool_calls"]]
    assert [one["tool_call_id"] for one in messages[5:]] == ids
    assert len(set(ids)) == 2
    assert all(one.max_tokens == 4096 for one in talk.requests)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("no call at all", "Your answer called no tool"),
        (step({"name": "shell", "arguments": "{}"}), "there is no tool 'shell'"),
        (step({"name": "a\u202eb\n", "arguments": "{}"}), "there is no tool 'a\\u202eb\\n'"),
        (step({"name": "read", "arguments": '{"path": "a'}), "are not JSON"),
        (step({"name": "read", "arguments": "[" * 100_000}), "are not JSON"),
        (step({"name": "read", "arguments": "[1]"}), "[1] is not of type 'object'"),
        (step({"name": "read", "arguments": "{}"}), "'path' is a required property"),
        (step(call("read", path=7)), "path: 7 is not of type 'string'"),
        (step(call("read", path="a", start="1")), "start: '1' is not of type 'integer'"),
        (step(call("read", path="a", start=True)), "start: True is not of type 'integer'"),
        (step(call("read", path="a", start=1.5)), "start: 1.5 is not of type 'integer'"),
        (step(call("read", path="a", argv="-x")), "'argv' was unexpected"),
        (step(call("read", path="a\0b")), "'path' has a NUL character"),
        (step(call("read", path="\ud800")), "'path' has half of a surrogate pair"),
        (step(call("run_tests", tests=[1])), "tests[0]: 1 is not of type 'string'"),
        (step(call("write", path="a", content="x" * (3 << 20))), "more than 2,097,152 characters"),
    ],
)
def test_what_is_wrong_is_told_and_asked_again(tmp_path: Path, wrong: Step, told: str) -> None:
    talk = Talk(tmp_path, wrong, DONE)
    assert talk.run().reason == ""
    assert told in talk.last()
    assert list(tmp_path.iterdir()) == []
    sent = json.dumps(talk.requests[-1].to_dict())
    assert len(sent) < 20_000
    for message in talk.requests[-1].messages:
        for one in message.get("tool_calls", ()):
            assert isinstance(json.loads(one["function"]["arguments"]), dict)
            assert one["function"]["name"].replace("_", "").isalnum()
        json.dumps(message, ensure_ascii=False).encode()  # as it goes over the wire


def test_after_so_many_mistakes_it_fails_and_is_no_answer(tmp_path: Path) -> None:
    talk = Talk(tmp_path, *["I have finished, trust me."] * 9)
    ending = talk.run()
    assert ending.turns == 4
    assert "did not keep to its tools" in ending.reason
    assert "called no tool" in ending.reason


def test_mistakes_are_counted_in_a_row(tmp_path: Path) -> None:
    good = step(call("list"))
    talk = Talk(tmp_path, "no", "no", "no", good, "no", "no", "no", DONE)
    assert talk.run() == LoopEnd("All well.", "", 8)


def test_a_refusal_is_no_mistake_and_turns_are_counted(tmp_path: Path) -> None:
    talk = Talk(tmp_path, *[step(call("read", path="/etc/passwd"))] * 20, turns=12)
    ending = talk.run()
    assert ending == LoopEnd("", "not done after 12 turns", 12, exhausted=True)
    assert len(talk.requests) == 12
    assert "root:" not in json.dumps([one.to_dict() for one in talk.requests])


def test_an_answer_that_was_cut_off_is_told_so(tmp_path: Path) -> None:
    cut = {"text": "Let me think", "finish_reason": "length"}
    talk = Talk(tmp_path, cut, DONE, max_tokens=9000)
    assert talk.run().reason == ""
    assert "It was cut off" in talk.last()
    assert [one.max_tokens for one in talk.requests] == [4096, 9000]


def test_calls_of_one_answer_run_in_order_and_end_with_done(tmp_path: Path) -> None:
    talk = Talk(
        tmp_path,
        step(
            call("write", path="a", content="1"),
            call("write", path="a", content="2"),
            call("done", summary="Fine."),
            call("delete", path="a"),
        ),
    )
    assert talk.run().text == "Fine."
    assert (tmp_path / "a").read_text() == "2"
    roles = [one["role"] for one in talk.history.messages()]
    assert roles[-4:] == ["tool"] * 4, "each call has its result, or nobody could go on from here"


def test_an_answer_with_endless_calls(tmp_path: Path) -> None:
    many = [call("write", path=f"f{number}", content="x") for number in range(CALLS_LIMIT + 50)]
    talk = Talk(tmp_path, step(*many), DONE)
    assert talk.run().reason == ""
    assert len(list(tmp_path.iterdir())) == CALLS_LIMIT
    assert "not carried out" in talk.last()


def test_odd_ids_are_replaced_alike(tmp_path: Path) -> None:
    calls = [
        {**call("list"), "id": ident} for ident in ("same", "same", "x" * 500, "", "a\nb", "ok")
    ]
    talk = Talk(tmp_path, step(*calls), DONE)
    talk.run()
    sent = [one["id"] for one in talk.requests[1].messages[2]["tool_calls"]]
    assert sent == ["same", "c00001001", "c00001002", "c00001003", "c00001004", "ok"]


def test_a_budget_passes_through(tmp_path: Path) -> None:
    talk = Talk(tmp_path, step(call("list")), LimitError("spent", budget="max_calls"))  # type: ignore[arg-type]
    with pytest.raises(LimitError, match="spent"):
        talk.run()


SCRIPT: list[Step] = [
    "no call",
    step(call("list"), call("search", text="x"), call("nonsense")),
    step(call("write", path="big.txt", content="line\n" * 20_000)),
    *[step(call("read", path="big.txt", start=number)) for number in range(1, 60, 3)],
    step(call("edit", path="a.py", old="1", new="2")),
    DONE,
]


def test_the_same_script_makes_the_same_requests(tmp_path: Path) -> None:
    seen = []
    largest = 0
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.py").write_text("x = 1\n")
        talk = Talk(tmp_path / name, *SCRIPT)
        assert talk.run().text == "All well."
        asked = [one.to_dict() for one in talk.requests]
        seen.append(json.dumps(asked).encode())
        assert str(tmp_path) not in seen[-1].decode()
        largest = max(one.prompt_bytes() for one in talk.requests)
    assert seen[0] == seen[1]
    assert 100_000 < largest < 260_000, "the bound was reached, and held"


NAMES = (
    "read", "search", "list", "outline", "definition", "references", "edit", "write", "delete",
    "run_tests", "done", "blocked", "", "bash",
)  # fmt: skip
TEXTS = st.text() | st.sampled_from((
    "a.py", "x", "a.x", "(", "../out", "/etc/passwd", ".git/config", "x = 1", "link/x", "-p",
    "**/**", "a.py::t", "",
))  # fmt: skip
VALUES = TEXTS | st.integers() | st.booleans() | st.none() | st.floats() | st.lists(TEXTS)
KEYS = st.sampled_from((
    "path", "text", "old", "new", "content", "summary", "tests", "glob", "start", "lines", "count",
    "name", "regex", "context", "reason",
))  # fmt: skip


@pytest.mark.full
@settings(max_examples=80, deadline=None, database=None)
@given(
    calls=st.lists(st.tuples(st.sampled_from(NAMES), st.dictionaries(KEYS, VALUES)), max_size=12),
    textual=st.booleans(),
)
def test_whatever_a_model_says_nothing_breaks_and_nothing_gets_out(
    calls: list[tuple[str, dict[str, Any]]], textual: bool
) -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder, "work")
        root.mkdir()
        (root / "a.py").write_text("x = 1\n")
        Path(folder, "out").write_text("outside")
        (root / "link").symlink_to(folder)
        steps: list[Step] = [
            json.dumps({"tool": name, "arguments": arguments})
            if textual
            else step({"name": name, "arguments": json.dumps(arguments)})
            for name, arguments in calls
        ]
        talk = Talk(root, *steps, *[""] * 60, textual=textual)
        assert talk.run().turns >= 1
        assert Path(folder, "out").read_text() == "outside"
        assert sorted(os.listdir(folder)) == ["out", "work"]
        assert not (root / ".git").exists()
        for request in talk.requests:
            json.dumps(request.to_dict(), ensure_ascii=False).encode()


# -- endpoints without tools --------------------------------------------------------------------


def said(tool: str, **arguments: Any) -> str:
    return f"I will.\n```json\n{json.dumps({'tool': tool, 'arguments': arguments})}\n```\n"


def test_calls_in_text(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = {1: 2}\n")
    talk = Talk(
        tmp_path,
        'Thinking about {"a": 1} and { broken.\n' + said("read", path="a.py"),
        said("edit", path="a.py", old="2", new="3") + said("delete", path="a.py"),
        "I am done.",
        said("shell", command="id"),
        said("done", summary="Mended."),
        textual=True,
    )
    assert talk.run().text == "Mended."
    assert (tmp_path / "a.py").read_text() == "x = {1: 3}\n"
    assert all(one.tools == () for one in talk.requests)
    assert {m["role"] for one in talk.requests for m in one.messages} == {
        "system", "user", "assistant",
    }  # fmt: skip
    shown = [m["content"] for m in talk.requests[-1].messages]
    assert any(text.startswith("Result of read:\na.py, lines 1-1") for text in shown)
    assert any("had no JSON object" in text for text in shown)


@pytest.mark.parametrize("text", ['{"a":' * 5000, "{" * 100_000, '{"tool": 7}' * 50, '{"tool": '])
def test_no_text_takes_long_or_counts_as_a_call(tmp_path: Path, text: str) -> None:
    talk = Talk(tmp_path, text, said("done", summary="Out."), textual=True)
    assert talk.run().text == "Out."


def test_a_whole_number_may_be_written_as_a_float(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = 2\n")
    talk = Talk(tmp_path, step(call("read", path="a.py", start=2.0, lines=1e300)), DONE)
    talk.run()
    assert talk.last().startswith("a.py, lines 2-2 of 2")


def test_the_environment_of_the_documentation_works() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "environments.md"
    _, _, rest = page.read_text(encoding="utf-8").partition("```python\n")
    names: dict[str, Any] = {}
    exec(rest.partition("```")[0], names)
    answers = [
        '{"action": "look_up", "word": "amber"}',
        '{"action": "look_up", "word": "ember"}',
        '{"action": "final", "final_response": "It is coal."}',
    ]
    model = ScriptedModel(answers)
    assert names["ask"](lambda request, _: model.complete(request), "What is an ember?") == (
        "It is coal."
    )
    assert "a glowing piece of coal" in model.requests[2].messages[-1]["content"]


@pytest.mark.parametrize("name", HISTORIES)
def test_an_endpoint_gets_back_what_it_wants_of_the_history(
    tmp_path: Path, llm: ModelServer, name: str
) -> None:
    (tmp_path / "a.py").write_text("a = 1\n")
    llm.history = HISTORIES[name]
    read, done = Call("read", '{"path": "a.py"}'), Call("done", '{"summary": "Done."}')
    llm.script([Answer(calls=[read]), "no call", Answer(calls=[read, read]), Answer(calls=[done])])
    history = Conversation()
    history.prompt("a goal")
    history.prompt("more of it")
    with OpenAIModel(base_url=llm.url, api_key=llm.key) as model:
        loop = TurnLoop(
            lambda request, _place: model.complete(request),
            CodeTools(str(tmp_path), Services(tests=str)),
            model=llm.history.model,
            bounds=TurnLimits(),
            answers=NativeCalls(),
        )
        assert loop.run(history, "here").text == "Done."


# ── a model that reads little ──


class Reader:
    """A model of ``context``, asked by a loop that takes it for one of ``believed`` tokens."""

    def __init__(self, root: Path, context: SmallContext, believed: int, *steps: Step) -> None:
        self.model, self.context = ScriptedModel(list(steps)), context
        self.refused: list[int] = []
        self.fit = ContextFit(believed)
        self.history = Conversation()
        self.history.prompt("system text", "system")
        self.history.prompt("the goal")
        self.loop = TurnLoop(
            self._complete,
            CodeTools(str(root), room=self.fit.output, few=self.fit.is_small),
            model="m",
            bounds=TurnLimits(),
            answers=NativeCalls(),
            fit=self.fit,
        )

    def _complete(self, request: ModelRequest, _place: str) -> Completion:
        body = {
            "messages": request.messages,
            "tools": request.tools,
            "max_tokens": request.max_tokens,
        }
        tokens = self.context.count(body)
        if self.context.refuses(body):
            self.refused.append(request.prompt_bytes())
            said = f"request ({tokens} tokens) exceeds the available context size"
            raise RemoteError(f"{PROMPT_TOO_LONG}: {said} ({self.context.tokens} tokens)")
        return self.model.complete(request).replace(usage=TokenUsage(tokens, 50))


@pytest.mark.parametrize("bytes_per_token", [1.3, 2.0, 3.0, 3.9])
@pytest.mark.parametrize("believed", [4096, 65_536])
def test_it_keeps_below_what_the_model_reads_whatever_it_counts(
    tmp_path: Path, bytes_per_token: float, believed: int
) -> None:
    """Also where nobody had said how much it reads: a refused prompt is never sent again."""
    (tmp_path / "a.py").write_text("".join(f"value_{n} = {n}\n" for n in range(4000)))
    reads = [step(call("read", path="a.py", start=1 + 100 * n)) for n in range(20)]
    reader = Reader(tmp_path, SmallContext(4096, bytes_per_token), believed, *reads, DONE)
    end = reader.loop.run(reader.history, "here")
    assert (end.text, end.turns) == ("All well.", 21)
    assert len(reader.refused) == len(set(reader.refused)) <= 4, reader.refused
    assert all(one.max_tokens <= 4096 for one in reader.model.requests)
    shown = reader.model.requests[-1].messages[-1]["content"]
    assert shown.startswith("a.py, lines 1901-"), "small reads show the lines from where they begin"


def test_what_cannot_be_made_shorter_ends_with_the_refusal(tmp_path: Path) -> None:
    reader = Reader(tmp_path, SmallContext(600), 65_536, DONE)
    with pytest.raises(RemoteError, match="the prompt is too long for the model"):
        reader.loop.run(reader.history, "here")
    assert len(reader.refused) == 1
