"""The steps of episodes: a trajectory of lines, each a step of an episode or its end."""

from __future__ import annotations

import json

from rlm_ci.runs import manifest as manifests
from rlm_ci.viewer.folder import mapping_in, number_in, text_in, whole_in
from rlm_ci.viewer.steps import DONE, FAILED, RUNNING, ViewedStep

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.viewer.folder import RunFolder

NAME = "trajectory.jsonl"


class ViewedEpisodes:
    """The episodes of a trajectory: a child stands below the step that was under way."""

    def __init__(self, folder: RunFolder, root: ViewedStep) -> None:
        self._folder = folder
        self._root = root
        self._episodes: dict[str, ViewedStep] = {}
        self._ends: dict[str, float] = {}

    def read(self) -> None:
        for line in self._folder.text(NAME).splitlines():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                self._folder.problem(f"{NAME}: a line is not JSON")
                continue
            if isinstance(record, dict):
                self._take(record)

    def _episode(self, record: Mapping[str, Any]) -> ViewedStep:
        name = text_in(record, "run_id")
        if name not in self._episodes:
            above = self._episodes.get(text_in(record, "parent_run_id"), self._root)
            step = ViewedStep("episode", f"Episode {name}", RUNNING)
            step.tell("depth", whole_in(record, "depth"))
            self._episodes[name] = above.add(step)
        return self._episodes[name]

    def _take(self, record: Mapping[str, Any]) -> None:
        episode, kind = self._episode(record), text_in(record, "type")
        stamp = text_in(record, "timestamp")
        at = manifests.moment(stamp) - self._folder.began if manifests.is_time(stamp) else None
        name = text_in(record, "run_id")
        if kind == "final":
            self._end(episode, record, at)
            return
        action = mapping_in(record, "action")
        title = f"Step {record.get('step')}"
        step = ViewedStep(
            "step", f"{title}: {text_in(action, 'action') or text_in(action, 'type')}"
        )
        step.status = DONE
        usage = mapping_in(record, "usage")
        step.prompt_tokens = whole_in(usage, "prompt_tokens")
        step.completion_tokens = whole_in(usage, "completion_tokens")
        step.calls = whole_in(usage, "total_calls") or int(bool(usage))
        step.cost = number_in(usage, "cost_usd")
        step.tell("reward", number_in(record, "reward"))
        step.show("Action", *_told(record.get("action")))
        step.show("Observation", *_told(record.get("observation")))
        step.took(self._ends.get(name), at)
        if at is not None:
            self._ends[name] = at
        episode.add(step)

    def _end(self, episode: ViewedStep, record: Mapping[str, Any], at: float | None) -> None:
        episode.status = DONE if record.get("completed") is True else FAILED
        episode.tell("reward", number_in(record, "total_reward"))
        episode.show("Answer", *_told(record.get("final_response")))
        starts = [one.start for one in episode.children if one.start is not None]
        episode.took(min(starts, default=None), at)


def _told(value: object) -> tuple[str, str]:
    """A value of a record as a text, and its form."""
    if isinstance(value, str):
        return value, "text"
    if value is None:
        return "", "text"
    return json.dumps(value, indent=2, ensure_ascii=False), "json"
