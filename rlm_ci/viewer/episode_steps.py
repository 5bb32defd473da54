"""The steps of an episode: turns of the model, what it did in each, and the children it had."""

from __future__ import annotations

import json
import re

from rlm_ci.environments.repl.host import query_log
from rlm_ci.text.printable import printable
from rlm_ci.viewer.folder import (
    mapping_in,
    number_in,
    tell_origin,
    text_in,
    whole_in,
)
from rlm_ci.viewer.steps import DONE, FAILED, RUNNING, ViewedStep, ViewedText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.viewer.folder import RecordedCall, RunFolder
    from rlm_ci.viewer.prompts import Prompts

TRAJECTORY = "rlm/trajectory.jsonl"
#: The places of a REPL, which are folders of the run, too.
REPL = "rlm/repl"
_CHILDREN = "rlm/children"
_TURN = re.compile(r"turn-([0-9]{1,9})")
_BLOCK = re.compile(r"block-([0-9]{1,9})")
_CHILD = re.compile(r"[0-9]+\.[0-9]+|rlm-[\w-]+")


class ViewedEpisodes:
    """Episodes, each below the turn that asked for it; in a REPL also the questions of its code.

    ``top`` is the step of the first one. A path names an episode, a turn, a block of code or a call
    by the parts of its place.
    """

    def __init__(self, folder: RunFolder, top: ViewedStep, prompts: Prompts) -> None:
        self._folder = folder
        self._prompts = prompts
        self._steps: dict[tuple[str, ...], ViewedStep] = {(): top}
        #: The turn of each episode that is under way.
        self._now: dict[tuple[str, ...], ViewedStep] = {}
        #: Prompts by their places, by the folders of their blocks.
        self._questions: dict[str, Mapping[str, str]] = {}

    def read(self, calls: Sequence[RecordedCall]) -> None:
        for one in calls:
            path = _path_of(one.place)
            if path:
                self._take(one, path)
        self._lines(TRAJECTORY, ())
        for (name,) in self._folder.names(_CHILDREN, r"(.+)\.jsonl"):
            self._lines(f"{_CHILDREN}/{name}.jsonl", _child_path(name))

    def _step(self, path: tuple[str, ...]) -> ViewedStep:
        if path not in self._steps:
            above, name = path[:-1], path[-1]
            turn, block = _TURN.fullmatch(name), _BLOCK.fullmatch(name)
            if turn:
                made, under = ViewedStep("turn", f"Turn {turn[1]}", DONE), self._step(above)
            elif block:
                made = ViewedStep("code", f"Block {block[1]}", RUNNING)
                under = self._now.get(above) or self._step(above)
            else:
                made = ViewedStep("group", name, DONE)
                if _CHILD.fullmatch(name):
                    title = "Child" if name.startswith("rlm-") else f"Child {name}"
                    made = ViewedStep("episode", title, RUNNING)
                under = self._now.get(above) or self._step(above)
            self._steps[path] = under.add(made)
        return self._steps[path]

    def _take(self, one: RecordedCall, path: tuple[str, ...]) -> None:
        above, name = path[:-1], path[-1]
        is_turn = _TURN.fullmatch(name) is not None
        if one.kind == "child":
            self._step(path)
        elif one.kind == "clock" and is_turn:
            self._begin(above, self._step(path), number_in(one.value, "seconds"))
        elif one.kind == "execution":
            self._executed(self._step(path), one)
        elif one.kind == "branch" and is_turn:
            self._step(path).tell("branch taken", number_in(one.value, "chosen"))
        elif one.kind == "completion" and is_turn:
            self._step(path).add(self._call(one, "Answer", "/".join(above)))
        elif one.kind == "completion":
            title = name.replace("branch-", "Branch ")
            is_asked = name.startswith("llm-")
            title = f"Sub-call {len(self._step(above).children) + 1}" if is_asked else title
            self._step(above).add(self._call(one, title))

    def _call(self, one: RecordedCall, title: str, conversation: str | None = None) -> ViewedStep:
        step = self._prompts.step(one, title, f"of {conversation}" if conversation else "")
        if one.place.startswith(f"{REPL}/") and not _has(step, "Prompt"):
            asked = self._asked(one.place.rpartition("/")[0])
            prompt = asked.get(one.place) or self._folder.text(f"{one.place}/prompt.txt")
            if prompt:
                step.texts.insert(0, ViewedText("Prompt", prompt))
        return step

    def _asked(self, block: str) -> Mapping[str, str]:
        """The prompts of a block's questions, by their places."""
        if block not in self._questions:
            log = f"{block}/{query_log.NAME}"
            self._questions[block] = {
                query_log.place_of(log, {"id": text_in(one, "id")}): text_in(one, "prompt")
                for one in self._folder.objects(log)
            }
        return self._questions[block]

    def _executed(self, step: ViewedStep, one: RecordedCall) -> None:
        """A block of code, and what came of it."""
        error = text_in(one.value, "error")
        step.status = FAILED if error or one.state == FAILED else one.state
        step.start, step.seconds = one.start, number_in(one.value, "seconds")
        step.tell("questions", whole_in(one.value, "asked") or None)
        step.tell("limit", text_in(one.value, "limit"))
        step.show("Output", text_in(one.value, "output"))
        step.show("Error", error)
        step.show("Answer", text_in(one.value, "answer"))
        step.show("Variables", *told(one.value.get("variables")))

    def _begin(self, owner: tuple[str, ...], step: ViewedStep, at: float | None) -> None:
        """A turn begins, and the one before it ends."""
        last, episode = self._now.get(owner), self._step(owner)
        if last is not None:
            last.took(last.start, at)
        if owner and last is None:
            episode.start = at
        elif owner:
            episode.took(episode.start, at)
        step.start = at
        self._now[owner] = step

    def _lines(self, name: str, owner: tuple[str, ...]) -> None:
        for record in self._folder.objects(name):
            episode = self._step(owner)
            if text_in(record, "task") and ":" not in episode.title:
                episode.title = f"{episode.title}: {text_in(record, 'task')}"
            if text_in(record, "type") == "step":
                _act(self._step((*owner, f"turn-{whole_in(record, 'step')}")), record)
            elif text_in(record, "type") == "final":
                _end(episode, record)


def _path_of(place: str) -> tuple[str, ...]:
    """A place by its parts; the empty path for one of no episode."""
    kind, _, rest = place.partition("/")
    if kind == "root" and rest:
        return tuple(rest.split("/"))
    if place.startswith(f"{REPL}/"):
        first, *parts = place.removeprefix(f"{REPL}/").split("/")
        # A child's folder is its place, written as one name.
        owner = first.split("-")[1:] if first.startswith("root-") else [first]
        return (*owner, *parts)
    if kind.startswith("iteration-") and not rest:
        return (kind.replace("iteration", "turn"),)
    return ()


def _child_path(run_id: str) -> tuple[str, ...]:
    """The path of a child by its id: two numbers, or a block and a question, for each above."""
    found: list[str] = []
    numbers: list[str] = []
    for part in run_id.split(".")[1:]:
        if part.isdecimal():
            numbers.append(part)
            if len(numbers) == 2:
                found.append(".".join(numbers))
                numbers.clear()
        else:
            found.append(part)
    return tuple(found)


def _act(turn: ViewedStep, record: Mapping[str, Any]) -> None:
    """One action of a turn, and what came of it."""
    action, seen = mapping_in(record, "action"), mapping_in(record, "observation")
    name = text_in(action, "action") or text_in(action, "type")
    blocks = [one for one in turn.children if one.kind == "code" and not _has(one, "Code")]
    if name == "repl" and blocks:
        blocks[0].tell("reward", number_in(record, "reward"))
        blocks[0].texts.insert(0, ViewedText("Code", text_in(action, "code")))
        return
    step = ViewedStep("tool", printable(name or "action"))
    step.status = FAILED if seen.get("success") is False else DONE
    step.tell("reward", number_in(record, "reward"))
    tell_origin(step, text_in(record, "origin"))
    for key, value in action.items():
        if key != "action":
            step.show(key, *told(value))
    observation = record.get("observation")
    text = text_in(seen, "text")
    step.show("Observation", *(told(observation) if not text else (text, "text")))
    # Children stand behind the action that asked for them.
    place = next(
        (at for at, one in enumerate(turn.children) if one.kind == "episode"), len(turn.children)
    )
    turn.children.insert(place, step)


def _has(step: ViewedStep, label: str) -> bool:
    return any(one.label == label for one in step.texts)


def _end(episode: ViewedStep, record: Mapping[str, Any]) -> None:
    episode.status = DONE if record.get("completed") is True else FAILED
    episode.tell("task", text_in(record, "task"))
    episode.tell("environment", text_in(record, "environment"))
    episode.tell("run", text_in(record, "run_id"))
    episode.tell("reward", number_in(record, "total_reward"))
    episode.tell("reason", text_in(record, "reason"))
    episode.show("Answer", *told(record.get("final_response")))


def told(value: object) -> tuple[str, str]:
    """A value of a record as a text, and its form."""
    if isinstance(value, str):
        return value, "text"
    if value in (None, {}, []):
        return "", "text"
    return json.dumps(value, indent=2, ensure_ascii=False), "json"
