"""The environment for code: the tools of a work tree, Python, tests with scores, children.

Its actions have the names of our tools; the names of rlm-code's actions are known too.
"""

from __future__ import annotations

import json
import re
from functools import partial

from rlm_ci.environments import rewards
from rlm_ci.environments.coding.tools import CodeTools, Services, named_tests
from rlm_ci.environments.generic import GenericEnvironment
from rlm_ci.environments.quoting import OUTPUT_LIMIT, quoted
from rlm_ci.environments.turn_loop import ARGUMENTS_LIMIT, Observation
from rlm_ci.errors import UnavailableError
from rlm_ci.source import PARSED, UNPARSED
from rlm_ci.source.outline import outline
from rlm_ci.system.safe_tree import Outside, Refused, SafeTree
from rlm_ci.text.printable import clip, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.environments.coding.workspace_services import TestReport
    from rlm_ci.environments.generic import GenericServices
    from rlm_ci.environments.rewards import RLMRewardProfile
    from rlm_ci.environments.tool_calls import ToolCall

    Arguments = dict[str, Any]

#: What a tool earns that only looks. Edits and tests are judged by the profile.
_LOOKS = {
    "read": 0.2, "search": 0.25, "list": 0.15, "outline": 0.2, "definition": 0.25,
    "references": 0.25, "history": 0.2, "diff": 0.1,
}  # fmt: skip
_EDITS = ("edit", "write")
#: Of DSPy: what the profile has a bonus for.
_PATTERNS = tuple(
    map(re.compile, (
        r"\bimport dspy\b", r"\bdspy\.Signature\b", r"\bdspy\.InputField\b",
        r"\bdspy\.OutputField\b", r"\bdspy\.Module\b", r"\bdef forward\(",
    ))
)  # fmt: skip


class CodingEnvironment:
    """Works on the files below ``root``.

    ``tests`` runs the tests, all or those named; a text says why it cannot. ``services.tests`` is
    not looked at.
    """

    def __init__(
        self,
        root: str,
        services: Services,
        generic: GenericServices,
        *,
        tests: Callable[[tuple[str, ...]], TestReport | str] | None = None,
        name: str = "coding",
    ) -> None:
        self._tree = SafeTree(root)
        self._profile: RLMRewardProfile = generic.profile
        self._generic = GenericEnvironment(generic, name=name, patterns=_dspy_patterns)
        self._tests = tests
        self._diff = services.diff
        no_tests = services.replace(tests=None if tests is None else lambda _names: "")
        self._code = CodeTools(root, no_tests)
        #: Files that the model wrote, which must stay readable to their language.
        self._written: dict[str, None] = {}
        code = [tool for tool in self._code.tools() if tool["function"]["name"] != "done"]
        self._tools = (*code, *self._generic.tools())
        self._of_generic = {tool["function"]["name"] for tool in self._generic.tools()}

    def tools(self) -> tuple[dict[str, Any], ...]:
        """The tools as OpenAI describes functions."""
        return self._tools

    def act(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Carry out one call. Raises LimitError when a budget ends, StorageError.

        Whoever has changed the code cannot end before the tests pass.
        """
        if name == "final" and self._tests is not None and self._diff and self._diff():
            judged = self._test(self._tests, ())
            if judged.failed:
                text = f"Not accepted: the changed code does not pass.\n{judged.text}"
                return judged.replace(text=text)
        if name in self._of_generic:
            return self._generic.act(name, arguments)
        try:
            if name == "run_tests" and self._tests is not None:
                return self._test(self._tests, named_tests(arguments.get("tests", [])))
            return self._judged(name, arguments, self._code.carry_out(name, arguments))
        except Refused as error:
            outside = isinstance(error, Outside)
            reward = rewards.REFUSED_PATH if outside else rewards.UNSUPPORTED_ACTION
            return Observation(f"Refused: {error}", reward=reward, failed=True)

    def _judged(
        self, name: str, arguments: Mapping[str, Any], observation: Observation
    ) -> Observation:
        """An observation of a tool with its reward."""
        if name not in _EDITS:
            return observation.replace(reward=_LOOKS.get(name, 0.0))
        path = str(arguments["path"]).strip().removeprefix("./")
        self._written[path] = None
        compiles = self._compiles(path)
        reward = self._profile.verifier(
            score=0.0, compiles=compiles, tests=None, valid=None, warnings=0
        )
        text = observation.text
        if compiles is False:
            text += f"\n{path} has an error of syntax now."
        details = {"compile": compiles}
        return observation.replace(text=text, reward=reward, details=details)

    def _compiles(self, path: str) -> bool | None:
        """Whether a file can be parsed; None where no parser here knows its language."""
        try:
            state = outline(path, self._tree.read(path)).state
        except Refused:  # deleted since
            return None
        return None if state == UNPARSED else state == PARSED

    def _test(
        self, run: Callable[[tuple[str, ...]], TestReport | str], names: tuple[str, ...]
    ) -> Observation:
        try:
            report = run(names)
        except UnavailableError as error:
            report = f"the tests cannot be run: {printable(str(error)[:500])}"
        if isinstance(report, str):
            reward = rewards.UNSUPPORTED_ACTION
            return Observation(f"Refused: {report}", reward=reward, failed=True)
        parsed = [self._compiles(path) for path in self._written]
        results = [result for result in parsed if result is not None]
        scores = {
            "score": round(report.score, 4),
            "compile": all(results) if results else None,
            "pytest": report.tests,
            "validation": report.passed,
            "warnings": report.warnings,
        }
        reward = rewards.TESTS_TIMED_OUT
        if not report.timed_out:
            reward = self._profile.verifier(
                score=report.score,
                compiles=all(results) if results else None,
                tests=report.tests,
                valid=report.passed,
                warnings=report.warnings,
            )
        text = quoted("The validator", clip(report.text, OUTPUT_LIMIT))
        return Observation(text, reward=reward, failed=not report.passed, details=scores)

    def translate(self, call: ToolCall) -> ToolCall:
        """A call by an action's name of rlm-code, as a call of the tool that does it."""
        to_tool = _NAMES.get(call.name)
        if to_tool is None or len(call.arguments) > ARGUMENTS_LIMIT:
            return call
        try:
            arguments = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError):
            return call
        if not isinstance(arguments, dict):
            return call
        if call.name == "patch_file" and arguments.pop("all", False) is True:
            arguments["count"] = self._occurrences(arguments)
        command = arguments.get("command")
        name, arguments = to_tool(arguments)
        if name == "run_tests" and self._tests is None and command:
            name, arguments = "run", {"command": command}
        return call.replace(name=name, arguments=json.dumps(arguments, ensure_ascii=False))

    def _occurrences(self, arguments: Arguments) -> int:
        """How often the text that a patch replaces is in the file; at least 1."""
        try:
            data = self._tree.read(str(arguments.get("path", "")))
        except Refused:
            return 1
        text = data.decode("utf-8", "surrogateescape")
        search = str(arguments.get("search", ""))
        return max(1, text.count(search)) if search else 1


def _dspy_patterns(code: str) -> int:
    return sum(pattern.search(code) is not None for pattern in _PATTERNS)


def _renamed(
    name: str, keys: Mapping[str, str], ignored: tuple[str, ...], arguments: Arguments
) -> tuple[str, Arguments]:
    return name, {
        keys.get(key, key): value for key, value in arguments.items() if key not in ignored
    }


def _read(arguments: Arguments) -> tuple[str, Arguments]:
    first, last = arguments.get("start_line", 1), arguments.get("end_line")
    name, renamed = _renamed("read", {"start_line": "start"}, ("end_line", "max_chars"), arguments)
    if isinstance(first, int) and isinstance(last, int):
        renamed["lines"] = max(1, last - first + 1)
    return name, renamed


def _search(arguments: Arguments) -> tuple[str, Arguments]:
    fold = arguments.get("case_sensitive") is not True
    keys = {"pattern": "text"}
    name, renamed = _renamed("search", keys, ("case_sensitive", "max_matches"), arguments)
    return name, {**renamed, "regex": True, "ignore_case": fold}


def _patch(arguments: Arguments) -> tuple[str, Arguments]:
    if arguments.get("content"):
        return _renamed("write", {}, ("search", "replace", "count"), arguments)
    return _renamed("edit", {"search": "old", "replace": "new"}, ("content",), arguments)


def _tests(arguments: Arguments) -> tuple[str, Arguments]:
    """``pytest -q tests/test_a.py`` names a file; another command is one of the shell."""
    command = arguments.get("command") or ""
    words = str(command).split()
    while words and words[0] in ("python", "python3", "-m"):
        words.pop(0)
    if not words:
        return _renamed("run_tests", {}, ("command",), arguments)
    if words[0] != "pytest":
        return "run", {"command": command}
    return "run_tests", {"tests": [word for word in words[1:] if not word.startswith("-")]}


#: Actions of rlm-code, and the tools that do the same.
_NAMES: Mapping[str, Callable[[Arguments], tuple[str, Arguments]]] = {
    "read_file": _read,
    "write_file": partial(_renamed, "write", {}, ()),
    "patch_file": _patch,
    "search_code": _search,
    "list_tree": partial(_renamed, "list", {}, ("depth", "max_depth", "max_entries")),
    "run_tests": _tests,
    "finish": partial(_renamed, "final", {}, ()),
    "complete": partial(_renamed, "final", {}, ()),
    "done": partial(_renamed, "final", {"summary": "final_response"}, ()),
}
