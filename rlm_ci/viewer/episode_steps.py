"""The steps of an episode: turns of the model, what it did in each, and the children it had."""

from __future__ import annotations

import json
import re

from rlm_ci.text.printable import printable
from rlm_ci.viewer.folder import (
    mapping_in,
    number_in,
    text_in,
    whole_in,
)
from rlm_ci.viewer.steps import DONE, FAILED, RUNNING, ViewedStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.viewer.folder import RecordedCall, RunFolder
    from rlm_ci.viewer.prompts import Prompts

TRAJECTORY = "rlm/trajectory.jsonl"
_CHILDREN = "rlm/children"
_ROOT = "root"
_PLACE = re.compile(r"(root(?:/[0-9]+\.[0-9]+)*)(?:/(.+))?")
_TURN = re.compile(r"turn-([0-9]{1,9})(?:/branch-([0-9]{1,9}))?")


class ViewedEpisodes:
    """The episode of a run and those of its children, each below the turn that asked for it."""

    def __init__(self, folder: RunFolder, root: ViewedStep, prompts: Prompts) -> None:
        self._folder = folder
        self._root = root
        self._prompts = prompts
        self._episodes: dict[str, ViewedStep] = {}
        self._turns: dict[tuple[str, int], ViewedStep] = {}
        #: The turn of each episode that is under way.
        self._now: dict[str, ViewedStep] = {}

    def read(self, calls: Sequence[RecordedCall]) -> None:
        for one in calls:
            if found := _PLACE.fullmatch(one.place):
                self._take(one, found[1], found[2] or "")
        self._lines(TRAJECTORY, _ROOT)
        for (name,) in self._folder.names(_CHILDREN, r"(.+)\.jsonl"):
            self._lines(f"{_CHILDREN}/{name}.jsonl", _place_of(name))

    def _episode(self, place: str) -> ViewedStep:
        if place not in self._episodes:
            above, _, number = place.rpartition("/")
            title = f"Child {number}" if above else "Episode"
            step = ViewedStep("episode", title, RUNNING)
            self._episodes[place] = step
            under = self._root
            if above:
                under = self._now.get(above) or self._episode(above)
            under.add(step)
        return self._episodes[place]

    def _turn(self, place: str, number: int) -> ViewedStep:
        if (place, number) not in self._turns:
            step = self._episode(place).add(ViewedStep("turn", f"Turn {number}", DONE))
            self._turns[place, number] = step
        return self._turns[place, number]

    def _take(self, one: RecordedCall, place: str, rest: str) -> None:
        turn = _TURN.fullmatch(rest)
        if one.kind == "child":
            self._episode(place)
        elif one.kind == "clock" and turn:
            self._begin(place, self._turn(place, int(turn[1])), number_in(one.value, "seconds"))
        elif one.kind == "completion" and turn:
            step = self._turn(place, int(turn[1]))
            title = f"Branch {turn[2]}" if turn[2] else "Answer"
            step.add(self._prompts.step(one, title, place))
        elif one.kind == "completion":
            under = self._now.get(place) or self._episode(place)
            under.add(self._prompts.step(one, rest or "Call"))
        elif one.kind == "branch" and turn:
            self._turn(place, int(turn[1])).tell("branch taken", number_in(one.value, "chosen"))

    def _begin(self, place: str, step: ViewedStep, at: float | None) -> None:
        """A turn begins, and the one before it ends."""
        last, episode = self._now.get(place), self._episodes[place]
        if last is None:
            episode.start = at
        else:
            last.took(last.start, at)
            episode.took(episode.start, at)
        step.start = at
        self._now[place] = step

    def _lines(self, name: str, place: str) -> None:
        for line in self._folder.text(name).splitlines():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                self._folder.problem(f"{name}: a line is not JSON")
                continue
            if not isinstance(record, dict):
                continue
            episode = self._episode(place)
            if episode.title in (place.rpartition("/")[2], "") or ":" not in episode.title:
                episode.title = f"{episode.title}: {text_in(record, 'task')}"
            if text_in(record, "type") == "step":
                _act(self._turn(place, whole_in(record, "step")), record)
            elif text_in(record, "type") == "final":
                _end(episode, record)


def _place_of(run_id: str) -> str:
    """The place of a child by its id, which ends with two numbers for each episode above."""
    _, *numbers = run_id.split(".")
    pairs = zip(numbers[::2], numbers[1::2], strict=False)
    return "/".join([_ROOT, *(".".join(pair) for pair in pairs)])


def _act(turn: ViewedStep, record: Mapping[str, Any]) -> None:
    """One action of a turn, and what came of it."""
    action, seen = mapping_in(record, "action"), mapping_in(record, "observation")
    name = text_in(action, "action") or text_in(action, "type")
    step = ViewedStep("tool", printable(name or "action"))
    step.status = FAILED if seen.get("success") is False else DONE
    step.tell("reward", number_in(record, "reward"))
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
