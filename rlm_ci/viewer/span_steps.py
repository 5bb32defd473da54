"""The steps of a run from its spans, with the requests and the facts that were made in them."""

from __future__ import annotations

from rlm_ci.environments.repl.environment import QUESTIONS
from rlm_ci.environments.repl.host import model_functions
from rlm_ci.runs.journal import spans
from rlm_ci.viewer.folder import (
    call_step,
    command_step,
    in_words,
    number_in,
    shaped,
    text_in,
    texts_in,
)
from rlm_ci.viewer.steps import DONE, FAILED, PARTIAL, RUNNING, ViewedStep, ViewedText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.models import ModelRequest
    from rlm_ci.runs.journal.spans import SpanRecord
    from rlm_ci.viewer.folder import RecordedCall, RunFolder

    Messages = Sequence[Mapping[str, Any]]


_STATUSES = {
    spans.DONE: DONE, spans.FAILED: FAILED, spans.PARTIAL: PARTIAL, spans.INTERRUPTED: PARTIAL,
    "": RUNNING,
}  # fmt: skip
#: Facts that are commands: their outcome is the exit code, but for changed tests, which must fail.
_COMMANDS = ("validator", "command", "tests", "repair-validator")
_CANARY = "canary"
#: Spans that are their one fact: a plan is the answer of the planner, a run of the validator one
#: command. What a tool has asked models is in it.
_SINGLE = ("plan", "subcall", "tool", "validator", "agent")
#: The label of what a command has printed, as a file.
_LOG = "Log"
#: Characters of a detail that is shown beside the others; longer ones are texts.
_SHORT = 300


class ViewedSpans:
    """Puts spans and facts below ``root``, or below the steps of ``nodes`` by their ids."""

    def __init__(
        self,
        folder: RunFolder,
        root: ViewedStep,
        prompts: Prompts,
        nodes: Mapping[str, ViewedStep],
    ) -> None:
        self._folder = folder
        self._root = root
        self._prompts = prompts
        self._nodes = nodes
        self._steps = dict(nodes)
        #: The spans by their ids.
        self._spans: Mapping[str, SpanRecord] = {}
        #: The prompts of questions, by their places, by the logs of their blocks.
        self._questions: dict[str, Mapping[str, str]] = {}
        #: The facts that are shown of each span.
        self._facts: dict[str, list[ViewedStep]] = {}

    def read(self, records: Mapping[str, SpanRecord], calls: Sequence[RecordedCall]) -> None:
        """Add the steps of all ``records``, and of the facts that a person wants to see."""
        self._spans = records
        for record in records.values():
            step = ViewedStep(record.kind, _title(record), _STATUSES.get(record.outcome, PARTIAL))
            step.start = None if record.start is None else record.start - self._folder.began
            step.seconds = record.seconds
            if record.id not in self._steps:  # else a node, of which the recursion tells
                self._steps[record.id] = self._steps.get(record.parent, self._root).add(step)
        for call in calls:
            fact = self._fact(call)
            if fact is not None:
                self._steps.get(call.span, self._root).add(fact)
                self._facts.setdefault(call.span, []).append(fact)
        for record in reversed(list(records.values())):  # what is in a span before itself
            self._finish(record)

    def _finish(self, record: SpanRecord) -> None:
        """Tell what a span says, join it with its one fact, and put what is in it in order."""
        step = self._steps[record.id]
        facts = self._facts.get(record.id, [])
        is_tool = record.kind == "tool"
        shown_facts = [fact for fact in facts if not (is_tool and fact.kind == "call")]
        if (
            record.kind in _SINGLE
            and len(shown_facts) == 1
            and (is_tool or step.children == shown_facts)
        ):
            _join(step, shown_facts[0], has_files=bool(record.files))
        for name, value in record.details.items():
            if (record.kind, name) == ("tool", "tool"):  # its title begins with it
                continue
            text, form = in_words(value)
            if len(text) > _SHORT or "\n" in text:
                step.show(name.capitalize(), text, form)
            elif (name, text) not in step.facts:  # as its one fact may have said
                step.tell(name, text)
        for label, path in record.files.items():
            has_output = any(text.label == "Output" for text in step.texts)
            if label == QUESTIONS or (label == _LOG and has_output):  # shown already
                continue
            form = "diff" if path.endswith((".patch", ".diff")) else "text"
            text = self._folder.text(path)
            step.show(label, *(shaped(text) if form == "text" else (text, form)))
        step.children.sort(key=when)

    def _fact(self, call: RecordedCall) -> ViewedStep | None:
        """The step of a fact; None for one that is only for the run."""
        above = self._spans.get(call.span)
        kind = above.kind if above else ""
        name = call.position.rpartition("/")[2]
        if call.kind == "completion":
            return self._call(call, kind, name)
        if call.kind in _COMMANDS:
            step = command_step(call, "command", name)
            step.status = call.state if kind == _CANARY else step.status
            return step
        if call.kind == "agent":
            return _agent(call)
        if call.kind == "execution":
            return _executed(call)
        if call.kind == "reproduction":
            return _proof(call)
        return None

    def _call(self, call: RecordedCall, kind: str, name: str) -> ViewedStep:
        if kind in _SINGLE and kind != "tool":
            before = len(self._facts.get(call.span, ()))
            return call_step(call, f"Attempt {before + 1}")
        title = name.replace("-", " ").capitalize()
        if kind == "turn" and name.startswith("turn-"):
            title = "Answer"
        elif kind == "tool":
            title = f"Sub-call {len(self._facts.get(call.span, ())) + 1}"
        elif call.span in self._nodes:
            title = call.position.removeprefix(f"{call.span}/")
        conversation = call.span.rpartition("/")[0] if kind == "turn" else ""
        step = self._prompts.step(call, title, conversation)
        prompt = self._prompt_of(call)
        if prompt and not any(text.label == "Prompt" for text in step.texts):
            step.texts.insert(0, ViewedText("Prompt", prompt))
        return step

    def _prompt_of(self, call: RecordedCall) -> str:
        """The prompt of a question that code has asked, from the log of its block; else ""."""
        span = self._spans.get(call.span)
        log = span.files.get(QUESTIONS, "") if span else ""
        if not log:
            return ""
        if log not in self._questions:
            self._questions[log] = {
                model_functions.place_of(log, {"id": text_in(record, "id")}): text_in(
                    record, "prompt"
                )
                for record in self._folder.objects(log)
            }
        return self._questions[log].get(call.position, "")


def _title(record: SpanRecord) -> str:
    """Tools and pages have names of their own; the rest is a sentence."""
    is_name = record.kind in ("tool", "page")
    return record.title if is_name else record.title[:1].upper() + record.title[1:]


def _join(step: ViewedStep, fact: ViewedStep, *, has_files: bool) -> None:
    """Let a span be its one fact, with the times of this; files of the span are its texts."""
    for name in ("start", "seconds", "model", "calls", "prompt_tokens", "completion_tokens",
                 "cost", "order"):  # fmt: skip
        setattr(step, name, getattr(fact, name))
    if step.status == DONE:
        step.status = fact.status
    step.facts += fact.facts
    in_files = ("Prompt", "Answer") if has_files else ()
    step.texts += [text for text in fact.texts if text.label not in in_files]
    step.children.remove(fact)


def when(step: ViewedStep) -> float:
    return float("inf") if step.start is None else step.start


def _agent(call: RecordedCall) -> ViewedStep:
    """One assignment of an external agent."""
    step = call.step("agent", "Run of its program")
    code, reason = number_in(call.value, "exit_code"), text_in(call.value, "reason")
    if code or reason:
        step.status = FAILED
    step.tell("exit code", code)
    step.tell("ended by", reason)
    step.tell("error", text_in(call.error, "what"))
    step.show("Output", text_in(call.value, "output"))
    return step


def _executed(call: RecordedCall) -> ViewedStep:
    """A block of code in a REPL, and what came of it."""
    error = text_in(call.value, "error")
    step = call.step("code", "Block")
    step.status = FAILED if error or call.state == FAILED else call.state
    seconds = number_in(call.value, "seconds")
    step.seconds = call.seconds if seconds is None else seconds
    step.tell("questions", number_in(call.value, "asked") or None)
    step.tell("limit", text_in(call.value, "limit"))
    step.show("Output", text_in(call.value, "output"))
    step.show("Error", error)
    step.show("Answer", text_in(call.value, "answer"))
    step.show("Variables", *in_words(call.value.get("variables")))
    return step


def _proof(call: RecordedCall) -> ViewedStep:
    """One run of a reproduction of a claim."""
    step = call.step("proof", f"Reproduction, {call.position.rpartition('/')[2]}")
    step.tell("status", text_in(call.value, "status"))
    step.tell("reason", text_in(call.value, "reason"))
    step.tell("wrote", ", ".join(texts_in(call.value, "written")))
    step.show("Output", text_in(call.value, "output"))
    return step


class Prompts:
    """The requests that are known, by the place of the call."""

    def __init__(self, requests: Mapping[str, ModelRequest]) -> None:
        self._known = requests
        #: The last request of each conversation: its next one repeats it.
        self._last: dict[str, Messages] = {}

    def step(self, call: RecordedCall, title: str, conversation: str = "") -> ViewedStep:
        """A call with its prompt: what is new in it, where it goes on with a conversation."""
        step = call_step(call, title)
        request = self._known.get(call.position)
        if request is None:
            return step
        messages = request.messages
        last = self._last.get(conversation, ()) if conversation else ()
        same = 0
        while same < min(len(last), len(messages)) and last[same] == messages[same]:
            same += 1
        if conversation:
            self._last[conversation] = messages
        if same:
            step.tell("prompt", f"{len(messages)} messages, the first {same} as in the last call")
        prompt = "\n\n".join(map(_message_text, messages[same:]))
        step.texts.insert(0, ViewedText("Prompt", prompt))
        return step


def _message_text(message: Mapping[str, Any]) -> str:
    """A message as a text: its role, what it says, what it calls."""
    lines = [f"── {message.get('role', '')} ──", str(message.get("content") or "")]
    for call in message.get("tool_calls") or ():
        function = call.get("function", {})
        lines.append(f"→ {function.get('name')} {function.get('arguments')}")
    return "\n".join(line for line in lines if line)
