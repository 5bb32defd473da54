"""A store to make runs in, and a clock that the test turns."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from rlm_ci.redaction.redactor import Redactor
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.manifest import Manifest, Recorder
from rlm_ci.runs.run import Run
from rlm_ci.runs.store import RunStore

RECORDER = Recorder("Claude Code", "2.1.197", "s-1", "a9d7", "Explore", "0" * 64, 1200)
SECRET = "hunter2-hunter2"


@dataclass
class Place:
    """A folder with a store; ``seconds`` is what the clock of its runs shows."""

    root: Path
    seconds: float = 1_800_000_000.0
    redactor: Redactor = field(default_factory=lambda: Redactor({"MY_TOKEN": SECRET}))

    @property
    def store(self) -> RunStore:
        return RunStore.at(str(self.root), ".runs")

    @property
    def out(self) -> str:
        return str(self.root / "out")

    def clock(self) -> float:
        return self.seconds

    def create(self, task: str = "t1", pipeline: str = "ci", **options: Any) -> Run:
        known: dict[str, Any] = {"redactor": self.redactor, "out": self.out, "now": self.clock}
        return Run.create(self.store, task, pipeline_id=pipeline, **{**known, **options})

    def open(self, path: str) -> Run:
        return Run.open(path, redactor=self.redactor, out=self.out, now=self.clock)

    def finished(self, status: str = "succeeded", code: int = 0, **options: Any) -> Run:
        with self.create(**options) as run:
            run.begin()
            run.finish(status, exit_code=code)
        return run

    def recorded(self, status: str = "succeeded", task: str = "t1-explore") -> Manifest:
        """A run of a subagent that the hook of Claude Code recorded."""
        at, run_id = manifests.timestamp(self.seconds), "claude-0011223344556677"
        shown = f".runs/{task}/cli/{run_id}"
        ended = at if status in manifests.ENDED else None
        run = Manifest(
            task, run_id, "subagent", at, at, shown, f"{shown}/manifest.json", status=status,
            completed_at=ended, summary="Looked at it.", recorded_by=RECORDER,
        )  # fmt: skip
        manifests.write(self.store.make(task, "cli", run_id), run)
        return run

    def texts(self) -> str:
        """Everything that was written, in one text."""
        found = [
            os.path.join(folder, name) for folder, _, names in os.walk(self.root) for name in names
        ]
        return "\n".join(Path(path).read_text() for path in sorted(found))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "repo")
