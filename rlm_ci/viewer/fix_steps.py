"""The steps of a fix loop: iterations, turns of the agent, tools, the validator, the canary."""

from __future__ import annotations

import json
import re

from rlm_ci.fix.role_prompts import spoken
from rlm_ci.viewer import phases
from rlm_ci.viewer.folder import (
    call_step,
    command_step,
    mappings_in,
    number_in,
    tell_origin,
    text_in,
    texts_in,
    whole_in,
)
from rlm_ci.viewer.steps import DONE, FAILED, ViewedStep
from rlm_ci.workspace.stored_trees import PATCH

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.viewer.folder import RecordedCall, RunFolder
    from rlm_ci.viewer.prompts import Prompts

_INNER = re.compile(r"iteration-([0-9]{1,9})/([a-z]+(?:-[0-9]+)?)(?:/turn-([0-9]{1,9}))?")
_ANALYSIS = re.compile(r"rlm/rlms/([a-z]+)-iter-([0-9]{1,9})(?:-attempt-[0-9]+)?/(.+)")
_JUDGED = re.compile(r"(validator|canary)-([0-9]{1,9})(?:-(.+))?")
#: Tools whose result is a fact, and its kind.
_FACTS = {"run": "command", "run_tests": "tests", "history": "history"}
#: What the state says of an iteration, and what people call it.
_STATE = (
    ("summary", "the agent says"), ("validatorReason", "validator"), ("diffSummary", "changes"),
)  # fmt: skip
_FINAL = "final"
#: What the events of a run call its phases.
_AGENT, _VALIDATOR = "agent", "validator"
_LAST, _CANARY = "last verdict, in a fresh tree", "canary, tests that must fail"
_APPLY = "applying the result"


class ViewedFix:
    """Puts the facts of a fix loop under the iterations that they belong to."""

    def __init__(self, folder: RunFolder, root: ViewedStep, prompts: Prompts) -> None:
        self._folder = folder
        self._root = root
        self._prompts = prompts
        self._iterations: dict[str, ViewedStep] = {}
        #: Agents and canaries, by the number of their iteration and their names.
        self._parts: dict[tuple[str, str], ViewedStep] = {}
        #: Steps by the phase that they were: its iteration and its name.
        self._phases: dict[tuple[str, str], list[ViewedStep]] = {}
        #: Calls of tools whose results are still to come, by the kind of the fact.
        self._pending: dict[str, list[ViewedStep]] = {}

    def read(self, calls: Sequence[RecordedCall]) -> None:
        for one in calls:
            self._take(one)
        for record in mappings_in(self._folder.json("rlm/state.json"), "iterations"):
            self._note(record)
        for number, step in self._iterations.items():
            self._files(number, step)
        self._times()

    def diffs(self) -> Iterator[tuple[str, str]]:
        yield "The result", self._folder.text(f"rlm/{PATCH}")
        yield "Edits to tests that were left out", self._folder.text("rlm/tests.patch")
        for number in self._iterations:
            patch = self._folder.text(f"rlm/iteration-{number}/diff.patch")
            yield f"After iteration {number}", patch

    def _iteration(self, number: str) -> ViewedStep:
        if number not in self._iterations:
            title = "Before any edit" if number == "0" else f"Iteration {number}"
            self._iterations[number] = self._root.add(ViewedStep("iteration", title))
        return self._iterations[number]

    def _in(self, number: str, phase: str, step: ViewedStep) -> ViewedStep:
        self._phases.setdefault((number, phase), []).append(step)
        return step

    def _part(self, number: str, name: str, title: str, kind: str) -> ViewedStep:
        if (number, name) not in self._parts:
            part = self._iteration(number).add(ViewedStep(kind, title, DONE))
            self._parts[number, name] = self._in(
                number, _AGENT if kind == "agent" else _CANARY, part
            )
        return self._parts[number, name]

    def _take(self, one: RecordedCall) -> None:
        inner, judged = _INNER.fullmatch(one.place), _JUDGED.fullmatch(one.place)
        if inner and one.kind == "completion":
            self._turn(one, inner[1], inner[2], inner[3] or "")
        elif inner and one.kind in _FACTS.values():
            self._result(one, inner[1])
        elif inner and one.kind == "agent":
            step = self._iteration(inner[1]).add(_agent(one, inner[2]))
            self._parts[inner[1], inner[2]] = self._in(inner[1], _AGENT, step)
        elif judged and one.kind == "validator":
            self._judged(one, judged[1], judged[2], judged[3] or "")
        elif one.kind == "completion" and (within := _ANALYSIS.fullmatch(one.place)):
            self._analysis(one, within[1], within[2], within[3])
        elif one.kind == "completion":
            self._root.add(self._prompts.step(one, one.place))
        elif one.kind == "landed":
            step = self._in("", _APPLY, self._root.add(one.step("result", "Apply the result")))
            step.tell("not applied", text_in(one.value, "reason"))

    def _turn(self, one: RecordedCall, number: str, role: str, turn: str) -> None:
        step = self._prompts.step(one, f"Turn {turn}", role.partition("-")[0])
        self._part(number, role, _as(role), "agent").add(step)
        for call, result in self._prompts.calls(one, int(turn or 0)):
            about, told = _arguments(call.arguments)
            tool = step.add(ViewedStep("tool", f"{call.name} {about}".strip(), DONE))
            tool.order = one.seq
            tell_origin(tool, call.origin)
            tool.show("Arguments", told)
            tool.show("Result", result)
            if call.name in _FACTS:
                self._pending.setdefault(_FACTS[call.name], []).append(tool)

    def _analysis(self, one: RecordedCall, role: str, number: str, name: str) -> None:
        """A call of the analysis before a role's turn."""
        key = number, f"analysis-{role}"
        if key not in self._parts:
            step = ViewedStep("agent", f"Analysis for the {spoken(role)}", DONE)
            self._parts[key] = self._iteration(number).add(step)
            result = self._folder.json(f"rlm/rlms/{role}-iter-{number}.json")
            step.status = DONE if result.get("ok") is True else FAILED
            step.show("Summary", self._folder.text(f"rlm/rlms/{role}-iter-{number}.md"))
        call = self._parts[key].add(call_step(one, name))
        call.show("Prompt", self._folder.text(f"{one.place}/prompt.txt"))

    def _result(self, one: RecordedCall, number: str) -> None:
        """The result of a tool that is a fact itself."""
        step = command_step(one, "command", one.place.rpartition("/")[2])
        if one.kind == "history":
            step.status = FAILED if text_in(one.value, "error") else one.state
            step.show("Output", text_in(one.value, "text"))
        waiting = self._pending.get(one.kind)
        if not waiting:
            self._iteration(number).add(step)
            return
        tool = waiting.pop(0)
        tool.status, tool.start, tool.seconds = step.status, step.start, step.seconds
        tool.facts += step.facts
        tool.texts += [text for text in step.texts if text.label == "Output"]

    def _judged(self, one: RecordedCall, kind: str, number: str, rest: str) -> None:
        title, phase = "Validator", _VALIDATOR
        if kind == "canary":
            told = "Canary: changed tests, which must fail"
            step = self._part(number, "canary", told, "canary").add(
                command_step(one, "validator", rest)
            )
            step.status = one.state  # to fail is what they are for
            return
        if rest.startswith(_FINAL):
            title, phase = "Last verdict, in a fresh tree", _LAST
        step = self._iteration(number).add(command_step(one, "validator", title))
        self._in(number, phase, step)
        name = f"validator-{number}{f'-{rest}' if rest else ''}"
        step.tell("run as", name)
        if not any(text.label == "Output" for text in step.texts):
            step.show("Log", self._folder.text(f"rlm/{name}.log"))
        step.tell("it wrote", ", ".join(texts_in(one.value, "written")))

    def _note(self, record: Mapping[str, Any]) -> None:
        """What the state says of an iteration."""
        step = self._iteration(str(whole_in(record, "n")))
        for name, label in _STATE:
            step.tell(label, text_in(record, name))
        for turn in mappings_in(record, "turns"):
            role = text_in(turn, "role")
            step.tell(f"analysis for the {role}", text_in(turn, "analysis"))
            step.tell(f"taken back from the {role}", text_in(turn, "takenBack"))
            step.tell(f"verdict of the {role}", text_in(turn, "verdict"))
        gates = mappings_in(record, "gates")
        for gate in gates:
            told = f"{text_in(gate, 'verdict')}: {text_in(gate, 'reason')}"
            step.tell(f"gate {text_in(gate, 'name')}", told)
        step.tell("guard", ", ".join(texts_in(record, "tampering")))
        step.tell("agent's exit code", number_in(record, "agentExitCode") or None)
        passed = record.get("validatorPassed") is True
        passed = passed and all(text_in(one, "verdict") == "passed" for one in gates)
        step.status = DONE if passed and not record.get("tampering") else FAILED

    def _files(self, number: str, step: ViewedStep) -> None:
        """What each role was asked and said, and the change, as the run has kept them."""
        place = f"rlm/iteration-{number}"
        acts: dict[str, int] = {}
        found = self._folder.names(place, r"([0-9]+)-([a-z]+)-prompt\.md")
        for index, role in sorted(found, key=lambda one: int(one[0])):
            acts[role] = acts.get(role, 0) + 1
            names = (role, f"{role}-1") if acts[role] == 1 else (f"{role}-{acts[role]}",)
            known = (self._parts.get((number, name)) for name in names)
            part = next((one for one in known if one is not None), step)
            part.show("Prompt", self._folder.text(f"{place}/{index}-{role}-prompt.md"))
            part.show("Answer", self._folder.text(f"{place}/{index}-{role}-answer.md"))
        step.show("Change so far", self._folder.text(f"{place}/diff.patch"), "diff")

    def _times(self) -> None:
        """Give the steps the times that the events of the run have."""
        known = phases.read(self._folder.events())
        for number, step in self._iterations.items():
            phases.give(known, number, step)
            step.status = step.status or next((one.status for one in step.children), "")
        for (number, what), steps in self._phases.items():
            start, seconds = known.get((number, what), (None, None))
            for one in steps if what != _AGENT or len(steps) == 1 else []:
                one.start = start if one.start is None else one.start
                one.seconds = seconds if one.seconds is None else one.seconds


def _as(role: str) -> str:
    return "Agent" if role == "single" else f"Agent, as {role}"


def _agent(one: RecordedCall, role: str) -> ViewedStep:
    """One assignment of an external agent."""
    step = one.step("agent", _as(role.partition("-")[0]))
    code, reason = number_in(one.value, "exit_code"), text_in(one.value, "reason")
    if code or reason:
        step.status = FAILED
    step.tell("exit code", code)
    step.tell("ended by", reason)
    step.tell("error", text_in(one.error, "what"))
    step.show("Output", text_in(one.value, "output"))
    return step


def _arguments(text: str) -> tuple[str, str]:
    """What a call of a tool is about, and its arguments with a line for each."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return "", text
    if not isinstance(found, dict):
        return "", text
    names = ("path", "command", "pattern", "query", "name", "summary", "reason")
    about = next((found[name] for name in names if isinstance(found.get(name), str)), "")
    lines = (
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in found.items()
    )
    return about.partition("\n")[0][:120], "\n".join(lines)
