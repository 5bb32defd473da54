"""The steps of a question to a long text: plans, searches, reads and sub-calls."""

from __future__ import annotations

import json
import re

from rlm_ci.text.printable import count
from rlm_ci.viewer import phases
from rlm_ci.viewer.folder import (
    call_step,
    mapping_in,
    mappings_in,
    number_in,
    text_in,
    texts_in,
    whole_in,
)
from rlm_ci.viewer.steps import DONE, FAILED, PARTIAL, RUNNING, ViewedStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.viewer.folder import RecordedCall, RunFolder


#: A name that is no path.
_PLAIN = re.compile(r"[A-Za-z0-9-]+")
#: Characters of a map's prompt in its title.
_TITLE = 100


class ViewedQuestion:
    """Puts the calls of a question under its iterations."""

    def __init__(self, folder: RunFolder, root: ViewedStep) -> None:
        self._folder = folder
        self._root = root
        self._shown: dict[str, Mapping[tuple[int, int], str]] = {}

    def read(self, calls: Sequence[RecordedCall]) -> None:
        state = self._folder.json("rlm/state.json")
        records = {
            str(whole_in(one, "iteration")): one
            for one in mappings_in(state, "symbolic_iterations")
        }
        found: dict[str, dict[str, list[RecordedCall]]] = {number: {} for number in records}
        for one in calls:
            kind, _, rest = one.place.partition("/")
            number, _, name = rest.partition("/")
            if one.kind == "completion" and kind in ("plan", "subcall"):
                found.setdefault(number, {}).setdefault(f"{kind}/{name}", []).append(one)
        known = phases.read(self._folder.events())
        for number, some in found.items():
            step = self._root.add(ViewedStep("iteration", f"Iteration {number}", DONE))
            self._iteration(step, number, records.get(number), some)
            phases.give(known, number, step)

    def _iteration(
        self,
        step: ViewedStep,
        number: str,
        record: Mapping[str, Any] | None,
        calls: Mapping[str, Sequence[RecordedCall]],
    ) -> None:
        for name, some in calls.items():
            if name.startswith("plan/"):
                for one in some:
                    step.add(self._plan(one, number, name.removeprefix("plan/")))
        if record is None:
            step.status = RUNNING
        told = record or {}
        step.tell("intent", text_in(told, "intent"))
        step.tell("reason", text_in(told, "reason"))
        step.tell("planner's errors", "; ".join(texts_in(told, "planner_errors")))
        for search in mappings_in(told, "searches"):
            step.add(_search(search))
        for counted in mappings_in(told, "counts"):
            step.add(_count(counted))
        for read in mappings_in(told, "reads"):
            step.add(self._read(read, number))
        maps = {text_in(one, "id"): one for one in mappings_in(told, "maps")}
        parents = {name: step.add(self._map(number, one)) for name, one in maps.items()}
        mapped = (part for one in maps.values() for part in _parts(one))
        subcalls = {text_in(one, "id"): one for one in (*mappings_in(told, "subcalls"), *mapped)}
        names = [name.removeprefix("subcall/") for name in calls if name.startswith("subcall/")]
        for name in dict.fromkeys([*subcalls, *(one.partition("/")[0] for one in names)]):
            own = [
                one
                for key in (f"subcall/{name}", f"subcall/{name}/again")
                for one in calls.get(key, ())
            ]
            parent = parents.get(name.partition("-")[0], step)
            parent.add(self._subcall(number, name, subcalls.get(name, {}), own))

    def _plan(self, one: RecordedCall, number: str, attempt: str) -> ViewedStep:
        title = "Plan" if attempt == "1" else f"Plan, attempt {attempt}"
        step = call_step(one, title)
        place = f"rlm/planner/{number}/attempt-{attempt}"
        answer = step.texts.copy()
        step.texts.clear()
        step.show("Prompt", self._folder.text(f"{place}/prompt.txt"))
        for text in answer:
            step.show(text.label, *_as_json(text.text))
        meta = self._folder.json(f"{place}/meta.json")
        step.tell("error", text_in(meta, "error"))
        return step

    def _read(self, one: Mapping[str, Any], number: str) -> ViewedStep:
        start, end = whole_in(one, "start_byte"), whole_in(one, "end_byte")
        pointer = text_in(one, "pointer")
        title = f"Read bytes {start:,} to {end:,}"
        if pointer.startswith("subcall:"):
            title = f"{title} of an earlier answer"
        step = ViewedStep("read", title, DONE)
        step.tell("pointer", _short(pointer))
        step.tell("reason", text_in(one, "reason"))
        if one.get("truncated") is True:
            step.status = PARTIAL
            step.tell("cut off at", f"{end - start:,} bytes")
        step.show("Text", self._excerpts(number).get((start, end), ""))
        return step

    def _excerpts(self, number: str) -> Mapping[tuple[int, int], str]:
        """What was read in an iteration, as the next plan's prompt shows it: without secrets."""
        if number not in self._shown:
            place = f"rlm/planner/{int(number) + 1}/attempt-1"
            prompt = self._folder.text(f"{place}/prompt.txt").encode()
            self._shown[number] = {
                (whole_in(one, "start_byte"), whole_in(one, "end_byte")): (
                    prompt[whole_in(one, "start") : whole_in(one, "end")].decode("utf-8", "replace")
                )
                for one in mappings_in(self._folder.json(f"{place}/meta.json"), "sections")
                if text_in(one, "kind") == "read"
            }
        return self._shown[number]

    def _map(self, number: str, one: Mapping[str, Any]) -> ViewedStep:
        name, status = text_in(one, "id"), text_in(one, "status")
        title = f"Map {name} to {text_in(one, 'purpose')}: {text_in(one, 'prompt')[:_TITLE]}"
        step = ViewedStep("map", title, DONE if status == "succeeded" else FAILED)
        step.tell("status", status)
        step.tell("error", text_in(one, "error"))
        step.tell("expected tokens", number_in(mapping_in(one, "forecast"), "tokens"))
        step.tell("reduced by", text_in(one, "reduce"))
        step.tell("not asked", ", ".join(texts_in(one, "unasked")))
        if _PLAIN.fullmatch(name):
            place = f"rlm/subcalls/{number}/{name}/output.txt"
            step.show("Result", *_as_json(self._folder.text(place)))
        return step

    def _subcall(
        self, number: str, name: str, record: Mapping[str, Any], calls: Sequence[RecordedCall]
    ) -> ViewedStep:
        title = f"Sub-call {name}"
        if text_in(record, "purpose"):
            title = f"{title}: {text_in(record, 'purpose')}"
        if len(calls) == 1:
            step = call_step(calls[0], title)
            step.texts.clear()
        else:
            step = ViewedStep("call", title, DONE if record else RUNNING)
            for attempt, one in enumerate(calls, 1):
                step.add(call_step(one, f"Attempt {attempt}"))
        step.kind = "subcall"
        if text_in(record, "status") == "failed":
            step.status = FAILED
        step.tell("error", text_in(record, "error"))
        step.tell("read", ", ".join(map(_short, texts_in(record, "pointers"))))
        size = number_in(record, "input_bytes")
        step.tell("input", None if size is None else f"{size:,} bytes")
        for cut in mappings_in(record, "clamped"):
            told = f"{text_in(cut, 'what')}: {cut.get('asked')} to {cut.get('given')} bytes"
            step.tell("clamped", told)
        if _PLAIN.fullmatch(name):
            place = f"rlm/subcalls/{number}/{name}"
            step.show("Prompt", self._folder.text(f"{place}/prompt.txt"))
            step.show("Answer", self._folder.text(f"{place}/output.txt"))
        return step


def _parts(one: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from mappings_in(one, "parts")
    yield from mappings_in(one, "reductions")


def _count(one: Mapping[str, Any]) -> ViewedStep:
    found = mapping_in(one, "found")
    error = text_in(found, "error")
    title = f"Count “{text_in(one, 'pattern')}”: {count(whole_in(found, 'hits'), 'hit')}"
    step = ViewedStep("search", title, FAILED if error else DONE)
    step.tell("error", error)
    step.tell("reason", text_in(one, "reason"))
    step.tell("lines", whole_in(found, "lines"))
    step.tell("counted by", text_in(found, "by"))
    step.tell("different values", whole_in(found, "values"))
    return step


def _search(one: Mapping[str, Any]) -> ViewedStep:
    hits = whole_in(one, "total_hits")
    step = ViewedStep("search", f"Search “{text_in(one, 'query')}”: {count(hits, 'hit')}", DONE)
    step.tell("reason", text_in(one, "reason"))
    step.tell("chunks matched", whole_in(one, "chunks_matched"))
    lines = (
        f"{_short(text_in(hit, 'pointer'))}  bytes {whole_in(hit, 'start_byte'):,}, "
        f"score {number_in(hit, 'score')}"
        for hit in mappings_in(one, "hits")
    )
    step.show("Hits", "\n".join(lines))
    return step


def _short(pointer: str) -> str:
    """A pointer without the id of the context, which is the same in a whole run."""
    return pointer.rpartition("#")[2]


def _as_json(text: str) -> tuple[str, str]:
    """An answer, indented where it is JSON, and its form."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False), "json"
    except (ValueError, RecursionError):
        return text, "text"
