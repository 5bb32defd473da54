"""The coding environment: what each action earns, the other names of actions, an episode."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlm_ci.environments.answer_formats import JsonActions
from rlm_ci.environments.coding.environment import CodingEnvironment
from rlm_ci.environments.coding.tools import Services
from rlm_ci.environments.coding.workspace_services import TestReport
from rlm_ci.environments.conversation import Conversation
from rlm_ci.environments.generic import Execution, GenericServices
from rlm_ci.environments.tool_calls import ToolCall, checker
from rlm_ci.environments.turn_loop import LoopAction, LoopWatcher, Observation, TurnLimits, TurnLoop
from rlm_ci.errors import UnavailableError
from testing.scripted_model import ScriptedModel


class Project:
    """A folder with an environment over it, whose tests pass once ``a.py`` says so."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.asked: list[tuple[str, ...]] = []
        (root / "a.py").write_text("def add(a, b):\n    return a - b\n")
        self.environment = CodingEnvironment(
            str(root),
            Services(run=lambda command: f"ran {command}"),
            GenericServices(execute=lambda code, _seconds: Execution(code)),
            tests=self._tests,
        )
        tools = [one["function"] for one in self.environment.tools()]
        self.checks = {one["name"]: checker(one["parameters"]) for one in tools}

    def _tests(self, names: tuple[str, ...]) -> TestReport | str:
        self.asked.append(names)
        if "missing" in names:
            raise UnavailableError("pytest was not found", where="validator", hint="install it")
        if "slow" in names:
            return TestReport("stopped", False, None, 0.0, 0, True)
        good = "a + b" in (self.root / "a.py").read_text()
        return TestReport("2 tests ran", good, good, 1.0 if good else 0.5, 2, False)

    def act(self, name: str, **arguments: Any) -> Observation:
        call = self.environment.translate(ToolCall("1", name, json.dumps(arguments)))
        told = json.loads(call.arguments)
        assert self.checks[call.name](told) == ""
        return self.environment.act(call.name, told)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def test_tools_are_those_of_the_work_tree_and_of_the_generic_environment(project: Project) -> None:
    assert list(project.checks) == [
        "read", "search", "list", "outline", "definition", "references", "edit", "write",
        "delete", "run", "run_tests", "blocked", "run_python", "final",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("read_file", {"path": "a.py", "start_line": 2, "end_line": 2}, "2\t    return a - b"),
        ("read_file", {"path": "a.py", "max_chars": 4000}, "lines 1-2 of 2"),
        ("search_code", {"pattern": "DEF +add", "path": ".", "glob": "*.py"}, "a.py:1: def add"),
        ("search_code", {"pattern": "DEF", "case_sensitive": True}, "0 lines"),
        ("list_tree", {"path": ".", "depth": 3}, "a.py"),
        ("write_file", {"path": "b/c.py", "content": "x = 1\n"}, "Made b/c.py"),
        ("patch_file", {"path": "a.py", "search": "a - b", "replace": "a + b"}, "Edited a.py"),
        ("patch_file", {"path": "a.py", "search": "a", "replace": "c", "all": True}, "Edited"),
        ("patch_file", {"path": "a.py", "content": "y = 2\n"}, "Replaced a.py"),
        ("run_tests", {"command": "make test"}, "ran make test"),
        ("run_tests", {"command": "python -m pytest -q a.py"}, "2 tests ran"),
        ("run_python", {"code": "import dspy"}, "import dspy"),
    ],
)
def test_the_reference_s_names_are_known(
    project: Project, name: str, arguments: dict[str, Any], told: str
) -> None:
    observation = project.act(name, **arguments)
    assert told in observation.text
    assert not observation.text.startswith("Refused")
    if name == "patch_file" and "all" in arguments:
        assert "return c - b" in (project.root / "a.py").read_text()
    if "pytest" in arguments.get("command", ""):
        assert project.asked == [("a.py",)]


def test_tests_are_a_line_of_shell_where_there_is_no_validator(tmp_path: Path) -> None:
    services = Services(run=lambda command: f"ran {command}")
    environment = CodingEnvironment(str(tmp_path), services, GenericServices())
    call = ToolCall("1", "run_tests", '{"command": "python -m pytest -q a.py"}')
    call = environment.translate(call)
    observation = environment.act(call.name, json.loads(call.arguments))
    assert observation.text == "ran python -m pytest -q a.py"


def test_each_action_earns_what_it_is_worth(project: Project) -> None:
    rewards = {
        "look": project.act("read", path="a.py"),
        "outside": project.act("read", path="../b"),
        "git": project.act("write", path=".git/config", content="x"),
        "missing": project.act("read", path="b.py"),
        "broken": project.act("write", path="a.py", content="def add(:\n"),
        "red": project.act("run_tests"),
        "fine": project.act("write", path="./a.py", content="def add(a, b):\n    return a + b\n"),
        "text": project.act("write", path="notes.txt", content="hello"),
        "green": project.act("run_tests"),
        "slow": project.act("run_tests", tests=["slow"]),
        "none": project.act("run_tests", tests=["missing"]),
        "option": project.act("run_tests", tests=["-x"]),
        "dspy": project.act("run_python", code="import dspy\nclass A(dspy.Module): pass"),
        "blocked": project.act("blocked", reason="no"),
    }
    assert {name: round(one.reward, 4) for name, one in rewards.items()} == {
        "look": 0.2, "outside": -0.4, "git": -0.4, "missing": -0.2, "broken": -0.2,
        # 0.15 + 0.5 * 0.5 - 0.35 - 0.25 - 0.3 - 2 * 0.03
        "red": -0.56,
        "fine": 0.35, "text": 0.15,
        # 0.15 + 0.5 + 0.2 + 0.25 + 0.15 - 0.06
        "green": 1.19,
        "slow": -0.4, "none": -0.2, "option": -0.2, "dspy": 0.86, "blocked": 0.0,
    }  # fmt: skip
    assert "a.py has an error of syntax now" in rewards["broken"].text
    assert rewards["green"].details == {
        "score": 1.0, "compile": True, "pytest": True, "validation": True, "warnings": 2,
    }  # fmt: skip
    assert rewards["red"].failed
    assert not rewards["green"].failed
    assert "pytest was not found" in rewards["none"].text
    assert rewards["blocked"].blocked


@pytest.mark.parametrize(
    "arguments", ["", "[]", "{", "[" * 100_000, '{"path": 7, "all": true}', '{"command": [1]}', "7"]
)
def test_no_arguments_break_the_translation(project: Project, arguments: str) -> None:
    for name in ("read_file", "patch_file", "search_code", "run_tests", "finish", "unknown"):
        call = project.environment.translate(ToolCall("1", name, arguments))
        assert isinstance(call.arguments, str)


def test_an_episode_in_the_reference_s_words(project: Project) -> None:
    actions = [
        {"action": "read_file", "path": "a.py", "rationale": "look first"},
        {"action": "run_tests", "command": "pytest -q", "done": True, "final_response": "Fine."},
        {"action": "patch_file", "path": "a.py", "search": "a - b", "replace": "a + b"},
        {"action": "run_tests", "command": "pytest -q", "done": True, "final_response": "Mended."},
    ]
    model = ScriptedModel([json.dumps(one) for one in actions])
    seen: list[tuple[str, float]] = []

    class Rewards(LoopWatcher):
        def after(self, action: LoopAction, observation: Observation) -> None:
            seen.append((action.name, round(observation.reward, 2)))

    loop = TurnLoop(
        lambda request, _place: model.complete(request),
        project.environment,
        model="m",
        bounds=TurnLimits(turns=4),
        answers=JsonActions(),
        watcher=Rewards(),
        translate=project.environment.translate,
    )
    history = Conversation()
    history.prompt("Mend add.")
    end = loop.run(history, "here")
    assert (end.text, end.reason, end.turns) == ("Mended.", "", 4)
    assert [name for name, _ in seen] == ["read", "run_tests", "edit", "run_tests", "final"]
    assert "what came before it failed" in model.requests[2].messages[-1]["content"]


def test_who_has_changed_the_code_ends_only_once_the_tests_pass(project: Project) -> None:
    source = project.root / "a.py"
    start = source.read_text()
    environment = CodingEnvironment(
        str(project.root),
        Services(diff=lambda: "" if source.read_text() == start else "changed"),
        GenericServices(),
        tests=project._tests,
    )
    final = {"final_response": "Done."}
    assert environment.act("final", final).final, "an answer about unchanged code needs no tests"
    source.write_text(start.replace("-", "*"))
    refused = environment.act("final", final)
    assert (refused.final, refused.failed) == (False, True)
    assert refused.text.startswith("Not accepted: the changed code does not pass.\n")
    source.write_text(start.replace("-", "+"))
    assert environment.act("final", final).final
    assert project.asked == [(), ()]
