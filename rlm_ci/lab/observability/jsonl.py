"""Figures of all episodes of a task in one file, a line an event; no text of a model."""

from __future__ import annotations

import json
import os

from rlm_ci.lab.event_bus import RUN_END, RUN_START, STEP_END
from rlm_ci.system import files
from rlm_ci.text.printable import encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.lab.event_bus import RLMRuntimeEvent

NAME = "episodes.jsonl"
_EVENTS = (RUN_START, STEP_END, RUN_END)
_FIGURES = (
    "run_id", "parent_run_id", "depth", "environment", "framework", "step", "reward",
    "total_reward", "completed", "steps", "status", "usage",
)  # fmt: skip


def figures(event: RLMRuntimeEvent) -> dict[str, Any]:
    """What may leave the run: numbers, ids, and the names of actions."""
    values = {name: event.payload[name] for name in _FIGURES if name in event.payload}
    action = event.payload.get("action")
    return {**values, "action": printable(str(action["action"]))[:100]} if action else values


class JSONLSink:
    """Appends to ``episodes.jsonl`` in ``folder``."""

    name = "jsonl"

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, NAME)

    def status(self) -> dict[str, Any]:
        return {"name": self.name, "enabled": True, "available": True, "detail": self._path}

    def on_event(self, event: RLMRuntimeEvent) -> None:
        """Raises StorageError."""
        if event.name not in _EVENTS:
            return
        line = {"timestamp": event.timestamp, "event": event.name, **figures(event)}
        data = f"{encodable(json.dumps(line))}\n".encode()
        try:
            file = files.open_regular(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            try:
                os.write(file, data)  # one write: episodes of other processes append, too
            finally:
                os.close(file)
        except OSError as error:
            raise files.storage_error(error, self._path) from None

    def flush(self) -> None:
        """All is written."""
