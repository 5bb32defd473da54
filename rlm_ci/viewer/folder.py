"""The files of a stored run, read as far as they can be: what cannot is kept as a problem."""

from __future__ import annotations

import json
import math
import os

from rlm_ci.errors import RlmCiError
from rlm_ci.models.record.record import FILE
from rlm_ci.runs.checksums import EVENTS
from rlm_ci.runs.journal.reader import JournalReader
from rlm_ci.system import files
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Row
from rlm_ci.viewer.steps import DONE, FAILED, RUNNING, ViewedStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

#: Bytes of one file that are read; those of a run are far smaller.
_LIMIT = 64 << 20
#: What a record of a call tells besides its identity.
_TOLD = ("value", "charge", "error")
#: Problems that are kept.
_PROBLEMS = 100


class RecordedCall(Row):
    """One fact of a run's record, or the failure to get it.

    ``value`` is empty where it failed, or was under way at the end: ``state`` says so. ``start`` is
    in seconds since the run began; older runs have no times.
    """

    seq: int
    kind: str
    position: str
    state: str
    value: Mapping[str, Any]
    charge: Mapping[str, Any]
    error: Mapping[str, Any]
    cached: bool
    start: float | None
    seconds: float | None
    #: The span, or the node, that it was made in.
    span: str = ""

    def step(self, kind: str, title: str) -> ViewedStep:
        """A step for it."""
        step = ViewedStep(kind, title, self.state)
        step.order, step.start, step.seconds = self.seq, self.start, self.seconds
        return step


class RunFolder:
    """The folder of a run; ``began`` is in seconds of the epoch."""

    def __init__(self, path: str, began: float) -> None:
        self.path = path
        self.began = began
        self.problems: list[str] = []
        self._events: list[dict[str, Any]] | None = None

    def problem(self, text: str) -> None:
        if len(self.problems) < _PROBLEMS:
            self.problems.append(printable(text)[:500])

    def text(self, name: str) -> str:
        """The text of a file; "" where there is none."""
        try:
            data = files.read_inside(self.path, name, _LIMIT)
        except files.UnreadableError as error:
            if not error.missing:
                self.problem(f"{name}: {error}")
            return ""
        return data.decode("utf-8", "replace")

    def json(self, name: str) -> dict[str, Any]:
        """The object in a file; an empty one where there is none."""
        text = self.text(name)
        try:
            value = json.loads(text) if text else {}
        except (ValueError, RecursionError):
            self.problem(f"{name}: it is not JSON")
            return {}
        return value if isinstance(value, dict) else {}

    def objects(self, name: str) -> Iterator[dict[str, Any]]:
        """The objects in a file, one in each line; none where there is no file."""
        for line in self.text(name).split("\n"):
            try:
                value = json.loads(line or "null")
            except (ValueError, RecursionError):
                self.problem(f"{name}: a line is not JSON")
                continue
            if isinstance(value, dict):
                yield value

    def records(self, name: str, *, rising: bool = False) -> Iterator[dict[str, Any]]:
        """The records of a journal up to its first damage."""
        reader = JournalReader(os.path.join(self.path, *name.split("/")), rising=rising)
        try:
            for some in reader.some():
                yield from some
        except RlmCiError as error:
            self.problem(f"{name}: {error.what}; what is before that is shown")
        if reader.tail:
            self.problem(f"{name}: its last record is not whole")

    def calls(self) -> list[RecordedCall]:
        """What the run got from outside, in order; what was under way comes last."""
        calls: list[RecordedCall] = []
        waiting: dict[tuple[str, str], RecordedCall] = {}
        for record in self.records(FILE):
            step, kind = text_in(record, "place"), text_in(record, "kind")
            state = {"fact": DONE, "failed": FAILED}.get(text_in(record, "type"), RUNNING)
            value, charge, error = (mapping_in(record, name) for name in _TOLD)
            cached = record.get("cached") is True
            at, took = number_in(record, "at"), number_in(record, "ms")
            call = RecordedCall(
                record["seq"], kind, step, state, value, charge, error, cached,
                None if at is None else max(0.0, at / 1000 - self.began),
                None if took is None else max(0.0, took / 1000),
                text_in(record, "span"),
            )  # fmt: skip
            identity = (step, text_in(record, "key"))
            waiting.pop(identity, None)
            if state == RUNNING:
                waiting[identity] = call
            else:
                calls.append(call)
        return [*calls, *waiting.values()]

    def events(self) -> list[dict[str, Any]]:
        """The events of the run."""
        if self._events is None:
            self._events = list(self.records(EVENTS))
        return self._events


# ── fields of records that may come from anywhere ──


def text_in(record: Mapping[str, Any], name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""


def number_in(record: Mapping[str, Any], name: str) -> float | None:
    value = record.get(name)
    return value if type(value) in (int, float) and _is_fit(value) else None


def whole_in(record: Mapping[str, Any], name: str) -> int:
    return int(number_in(record, name) or 0)


def mapping_in(record: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def mappings_in(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    value = record.get(name)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts_in(record: Mapping[str, Any], name: str) -> list[str]:
    value = record.get(name)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def amount(value: object) -> float | None:
    """A number that may be written as a text, as amounts of money are."""
    try:
        number = float(str(value))
    except ValueError:
        return None
    return number if _is_fit(number) else None


def _is_fit(value: Any) -> bool:
    return bool(abs(value) < 1 << 53) and math.isfinite(value)


def in_words(value: object) -> tuple[str, str]:
    """A value of a record as a text, and its form."""
    if isinstance(value, str):
        return value, "text"
    if value in (None, {}, []):
        return "", "text"
    return json.dumps(value, indent=2, ensure_ascii=False), "json"


def shaped(text: str) -> tuple[str, str]:
    """A text, indented where it is JSON, and its form."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.dumps(json.loads(text), indent=2, ensure_ascii=False), "json"
        except (ValueError, RecursionError):
            pass
    return text, "text"


# ── steps that all kinds of runs have ──


def call_step(call: RecordedCall, title: str) -> ViewedStep:
    """A call of a model."""
    step = call.step("call", title)
    step.model = text_in(call.value, "model")
    paid = call.value or call.charge
    usage = mapping_in(paid, "usage")
    if usage and not call.cached:
        step.calls = 1
        step.prompt_tokens = whole_in(usage, "prompt_tokens")
        step.completion_tokens = whole_in(usage, "completion_tokens")
        step.cost = amount(paid.get("cost"))
    step.tell("cached tokens", whole_in(usage, "cached_tokens") or None)
    step.tell("ended by", text_in(call.value, "finish_reason"))
    if call.cached:
        step.tell("from", "the record of an earlier run, so it cost nothing")
    if call.state == RUNNING:
        step.tell("state", "it was under way at the end of the record")
    step.tell("error", text_in(call.error, "what"))
    step.tell("hint", text_in(call.error, "hint"))
    step.tell("left out", text_in(call.value, "left_out"))
    if resumed := whole_in(call.value, "resumed_tokens"):
        step.tell("broke off", f"after about {count(resumed, 'token')}, and goes on from them")
    if lost := whole_in(call.value, "lost_tokens"):
        step.tell("broke off", f"about {count(lost, 'token')} were lost, and are paid for again")
    step.show("Thoughts", text_in(call.value, "thoughts") or _reasoning(call.value))
    step.show("Answer", text_in(call.value, "text"))
    calls = mappings_in(call.value, "tool_calls")
    step.show(
        "Calls", "\n".join(f"{text_in(it, 'name')} {text_in(it, 'arguments')}" for it in calls)
    )
    return step


def _reasoning(value: Mapping[str, Any]) -> str:
    """What the endpoint gave beside an answer as its reasoning."""
    extra = mapping_in(value, "extra")
    parts = (*mappings_in(extra, "content"), *mappings_in(extra, "reasoning_details"))
    texts = (
        text_in(inner, name)
        for part in parts
        if text_in(part, "type") != "text"
        for inner in (part, *mappings_in(part, "thinking"))
        for name in ("text", "summary")
    )
    fields = (text_in(extra, name) for name in ("reasoning_content", "reasoning"))
    return next(filter(None, (*fields, "".join(texts))), "")


def command_step(call: RecordedCall, kind: str, title: str) -> ViewedStep:
    """A command that ran, as ``validator_run.record_of`` has it."""
    value = call.value
    code = number_in(value, "returncode")
    is_good = code == 0 and not text_in(value, "reason")
    step = call.step(kind, title)
    if call.state == DONE and not is_good:
        step.status = FAILED
    seconds = number_in(value, "seconds")
    step.seconds = call.seconds if seconds is None else seconds
    step.tell("exit code", code)
    step.tell("ended by", text_in(value, "reason"))
    step.tell("error", text_in(call.error, "what"))
    omitted = whole_in(value, "omitted")
    gap = f"\n[… {omitted:,} bytes were not kept …]\n" if omitted else ""
    step.show("Command", text_in(value, "command"))
    step.show("Output", f"{text_in(value, 'head')}{gap}{text_in(value, 'tail')}")
    return step
