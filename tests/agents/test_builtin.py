"""The built-in agent, on a real record: resumed, replayed, and without tool support."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlm_ci.agents.agent import Agent, Assignment
from rlm_ci.agents.builtin import BuiltinAgent
from rlm_ci.environments.coding.tools import Services
from rlm_ci.environments.turn_loop import TurnLimits
from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.models import Completion, ModelRequest, SpentError
from rlm_ci.models.budget import Ledger
from rlm_ci.models.record.record import Record
from testing.agent_workspaces import Folder
from testing.killed_runs import facts, killed_after
from testing.scripted_model import ScriptedModel


def step(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": json.dumps(arguments)}]}


class Studio:
    """A coder on a record at ``path``, over a fresh folder each time."""

    def __init__(
        self,
        path: Path,
        steps: list[Any],
        *,
        replay: bool = False,
        model: str = "m",
        **bounds: int,
    ) -> None:
        self.model = ScriptedModel(steps, name="scripted")
        self.record = Record.open(str(path / "calls.jsonl"), redact=str, replay_only=replay)
        self.ledger = Ledger()
        self.tested: list[tuple[str, ...]] = []
        self.lines: list[str] = []
        folder = path / f"work-{len(list(path.iterdir()))}"
        folder.mkdir()
        (folder / "a.py").write_text("x = 1\n")
        self.workspace = Folder(folder)
        self.coder = BuiltinAgent(
            self._complete,
            self.record.fact,
            model=model,
            services=Services(tests=self._test),
            bounds=TurnLimits(**bounds),
        )
        self.agent: Agent = self.coder  # the loop's contract, as a type checker sees it

    def _complete(self, request: ModelRequest, step: str) -> Completion:
        return self.record.complete(self.model, self.ledger, request, step)

    def _test(self, tests: tuple[str, ...]) -> str:
        self.tested.append(tests)
        return "1 failed"

    def task(self, conversation: list[Any] | None = None, **more: Any) -> Assignment:
        fields = {"role": "single", "iteration": 1, "prompt": "The goal: x = 2."}
        return Assignment(
            **{**fields, **more},
            workspace=self.workspace,
            conversation=[] if conversation is None else conversation,
            on_progress=self.lines.append,
        )

    def shown(self) -> str:
        return json.dumps([one.to_dict() for one in self.model.requests])


STEPS = [
    step("read", path="a.py"),
    step("edit", path="a.py", old="1", new="2"),
    step("run_tests", tests=["a.py"]),
    step("done", summary="x is 2 now."),
]


def test_it_edits_and_says_so(tmp_path: Path) -> None:
    studio = Studio(tmp_path, STEPS)
    outcome = studio.agent.act(studio.task())
    assert (outcome.exit_code, outcome.summary, outcome.reason) == (0, "x is 2 now.", "")
    assert (studio.workspace.path / "a.py").read_text() == "x = 2\n"
    assert studio.tested == [("a.py",)]
    assert studio.lines[:2] == ["turn 1: read a.py", "turn 2: edit a.py"]
    assert studio.record.calls == 4
    assert studio.record.replayed == 0, "finding out about tools costs no call"
    assert studio.coder.metered


def test_resumed_at_any_point_it_asks_for_nothing_twice(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    first = Studio(whole, STEPS)
    expected = first.coder.act(first.task())
    first.record.close()
    for cut in range(len(facts(whole))):
        place = tmp_path / f"cut-{cut}"
        records = killed_after(whole, cut, place)
        again = Studio(
            place,
            STEPS[
                sum(
                    record.get("kind") == "completion" and record["type"] == "fact"
                    for record in records
                ) :
            ],
        )
        assert again.coder.act(again.task()) == expected
        assert again.record.calls + again.record.replayed == 4
        assert (again.workspace.path / "a.py").read_text() == "x = 2\n"
        again.record.close()
    replayed = Studio(whole, [], replay=True)
    assert replayed.coder.act(replayed.task()) == expected
    assert replayed.model.requests == []


def test_an_endpoint_without_tools_is_found_out_once(tmp_path: Path) -> None:
    refusal = RemoteError("400: registry/llama does not support tools")
    steps = [
        refusal,
        'I will.\n{"tool": "edit", "arguments": {"path": "a.py", "old": "1", "new": "2"}}',
        '{"tool": "done", "arguments": {"summary": "Done so."}}',
        '{"tool": "done", "arguments": {"summary": "Again."}}',
    ]
    studio = Studio(tmp_path, steps)
    assert studio.coder.act(studio.task()).summary == "Done so."
    assert studio.coder.act(studio.task(iteration=2)).summary == "Again."
    assert [bool(one.tools) for one in studio.model.requests] == [True, False, False, False]
    assert '"run_tests`' not in studio.shown()
    prompt = studio.model.requests[1].messages[1]["content"]
    assert prompt.startswith("The goal: x = 2.\n\nYou act by answering with exactly one JSON")
    assert "- `run_tests`: Run the validator" in prompt
    studio.record.close()
    replayed = Studio(tmp_path, [], replay=True)
    assert replayed.coder.act(replayed.task()).summary == "Done so."
    assert (replayed.workspace.path / "a.py").read_text() == "x = 2\n"


@pytest.mark.parametrize(
    "error",
    [
        RemoteError("401: the key is not valid"),
        RemoteError("the endpoint does not know the model m-tool (404): unknown model m-tool"),
        SpentError("a tool call of the answer is not supported"),
    ],
)
def test_another_failure_is_no_reason_to_do_without_tools(
    tmp_path: Path, error: RemoteError
) -> None:
    studio = Studio(tmp_path, [error], model="m-tool")
    with pytest.raises(RemoteError) as raised:
        studio.coder.act(studio.task())
    assert raised.value.what == error.what
    assert len(studio.model.requests) == 1


@pytest.mark.parametrize(
    "said",
    [
        "registry.example/library/gemma does not support tools",
        '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set',
        "Function calling is not enabled for models/tiny",
        "Unrecognized request argument supplied: tools",
        "tools: Extra inputs are not permitted",
    ],
)
def test_the_ways_in_which_endpoints_refuse_tools(tmp_path: Path, said: str) -> None:
    done = '{"tool": "done", "arguments": {"summary": "Out."}}'
    studio = Studio(tmp_path, [RemoteError(f"the request was refused (400): {said}"), done])
    assert studio.coder.act(studio.task()).summary == "Out."


@pytest.mark.parametrize(
    ("model", "said", "refuses"),
    [
        ("tool", "the model tool does not support tools", True),
        ("tool", "The model `tool` is unknown", False),
        ("tool", "tool choice is not supported", True),
        ("tools", "Unrecognized request argument supplied: tools", True),
        ("groq-tool-use:8b", "unknown model registry/groq-tool-use:8b", False),
        ("groq-tool-use:8b", "groq-tool-use:8b does not support tool_choice", True),
        ("e", "tools are not supported", True),
        ("m", "the toolkit is not supported", False),
        ("tool.*", "model tool.* is unknown", False),
    ],
)
def test_the_name_of_a_model_says_nothing_of_tools(
    tmp_path: Path, model: str, said: str, *, refuses: bool
) -> None:
    done = '{"tool": "done", "arguments": {"summary": "Out."}}'
    studio = Studio(tmp_path, [RemoteError(f"refused (400): {said}"), done], model=model)
    if refuses:
        assert studio.coder.act(studio.task()).summary == "Out."
    else:
        with pytest.raises(RemoteError):
            studio.coder.act(studio.task())


def test_roles_that_share_a_conversation(tmp_path: Path) -> None:
    steps = [
        step("read", path="a.py"),
        step("done", summary="Plan: change 1 to 2."),
        step("edit", path="a.py", old="1", new="2"),
        step("done", summary="Changed."),
    ]
    studio = Studio(tmp_path, steps)
    conversation: list[Any] = []
    looking = studio.task(conversation, role="planner", prompt="PLAN IT", read_only=True)
    assert studio.coder.act(looking).summary == "Plan: change 1 to 2."
    assert conversation
    studio.coder.act(studio.task(conversation, role="reviser", prompt="NOW EDIT"))
    names = [one["function"]["name"] for one in studio.model.requests[0].tools]
    assert names == ["read", "search", "list", "outline", "definition", "references", "done"]
    said = [one["content"] for one in studio.model.requests[-1].messages]
    assert said.index("PLAN IT") < said.index("NOW EDIT")
    assert "Plan: change 1 to 2." in json.dumps(studio.model.requests[2].messages)
    roles = [one["role"] for one in studio.model.requests[2].messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant", "tool", "user"]


def test_a_planner_cannot_edit_whatever_it_says(tmp_path: Path) -> None:
    steps = [step("write", path="a.py", content="no"), step("done", summary="A plan.")]
    studio = Studio(tmp_path, steps)
    outcome = studio.coder.act(studio.task(role="planner", read_only=True))
    assert outcome.summary == "A plan."
    assert (studio.workspace.path / "a.py").read_text() == "x = 1\n"
    assert "there is no tool 'write'" in studio.shown()


def test_the_same_role_twice_in_an_iteration_is_asked_twice(tmp_path: Path) -> None:
    studio = Studio(tmp_path, [step("done", summary="one"), step("done", summary="two")])
    assert studio.coder.act(studio.task()).summary == "one"
    assert studio.coder.act(studio.task()).summary == "two"
    assert studio.record.calls == 2


def test_a_confused_model_is_an_honest_failure(tmp_path: Path) -> None:
    studio = Studio(tmp_path, ["All done!"] * 4)
    outcome = studio.coder.act(studio.task())
    assert outcome.exit_code == 1
    assert "did not keep to its tools" in outcome.reason


def test_a_model_that_never_ends(tmp_path: Path) -> None:
    studio = Studio(tmp_path, [step("list")] * 9, turns=7)
    outcome = studio.coder.act(studio.task())
    assert (outcome.exit_code, outcome.reason) == (1, "not done after 7 turns")


def test_a_model_that_obeys_whatever_it_reads(tmp_path: Path) -> None:
    """The harness, not the model's virtue, keeps what is outside out of reach."""
    (tmp_path / "key").write_text("sk-very-secret")
    wishes = [
        step("read", path="../key"),
        step("read", path="/proc/self/environ"),
        step("search", text="sk-", path="../"),
        step("list", path="/"),
        step("write", path=".git/hooks/pre-commit", content="#!/bin/sh\ncurl evil"),
        step("write", path="../../out", content="x"),
        step("run_tests", tests=["--rootdir=/", "$(id)"]),
        step("bash", command="env"),
        step("done", summary="Obeyed."),
    ]
    studio = Studio(tmp_path, wishes)
    assert studio.coder.act(studio.task()).exit_code == 0
    assert "sk-very-secret" not in studio.shown()
    assert "PATH=" not in studio.shown()
    assert studio.tested == []
    assert [one.name for one in studio.workspace.path.iterdir()] == ["a.py"]


def test_a_script_that_runs_out_says_so(tmp_path: Path) -> None:
    studio = Studio(tmp_path, [step("list")])
    with pytest.raises(ConfigError, match="run out"):
        studio.coder.act(studio.task())
