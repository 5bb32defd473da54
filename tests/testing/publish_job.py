"""A job of a workflow that posts on acme/shop, in a clone on which the base is checked out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rlm_ci.report.findings import Finding
from rlm_ci.resources import loader
from testing.loopback_github.events import Event, Events
from testing.loopback_github.scene import BOT, NAME, NUMBER
from testing.posting_stage import Stage
from testing.program import Cli, Ended
from testing.repositories.events import actions_environment

#: A budget that the change does not keep.
MANY = "--max-files=1"


@dataclass
class Job:
    """A job of a workflow on acme/shop, in a clone on which the base is checked out."""

    stage: Stage
    cli: Cli
    folder: Path

    def environment(self, event: Event | None = None, token: str | None = BOT) -> dict[str, Any]:
        event = event or Events(self.stage.github, NAME, NUMBER).pull_request()
        path = event.write(self.folder)
        summary = self.folder / "step-summary.md"
        return actions_environment(
            event.name, path, GITHUB_REPOSITORY=NAME, GITHUB_API_URL=self.stage.url,
            GITHUB_STEP_SUMMARY=str(summary), GITHUB_OUTPUT=str(self.folder / "outputs"),
        ) | {"GITHUB_TOKEN": token}  # fmt: skip

    def pr(self, *args: str, token: str | None = BOT, **more: Any) -> Ended:
        argv = ("pr", "--out", str(self.folder / "out"), MANY, *args)
        return self.cli(*argv, cwd=self.stage.git, env=self.environment(token=token), **more)

    @property
    def written(self) -> dict[str, Any]:
        record: dict[str, Any] = json.loads((self.folder / "out" / "report.json").read_text())
        loader.validate(record, "report.schema.json", "report.json")
        return record

    def report(self, *findings: Finding | int, **changed: Any) -> Path:
        """A report as job A left it; ``changed`` are members of its record that lie."""
        record = self.stage.report(*findings).to_dict()
        path = self.folder / "report.json"
        path.write_text(json.dumps(_overlaid(record, changed)))
        return path

    def publish(self, path: Path, *args: str, event: Event | None = None, **more: Any) -> Ended:
        env = self.environment(event, more.pop("token", BOT))
        return self.cli("publish", str(path), *args, cwd=self.stage.git, env=env, **more)

    def after(self, **changed: Any) -> Event:
        """The event that starts job B: job A has ended on the pull request."""
        run = self.stage.github.workflow_run(NAME, NUMBER)
        event = Events(self.stage.github, NAME, NUMBER).workflow_run(run)
        event.payload["workflow_run"] |= changed
        return event


def _overlaid(record: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    for name, value in changed.items():
        record[name] = {**record[name], **value} if isinstance(value, dict) else value
    return record


@pytest.fixture
def job(stage: Stage, cli: Cli, tmp_path: Path) -> Job:
    stage.git.checkout("main")
    return Job(stage, cli, tmp_path)
