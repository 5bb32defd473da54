"""``delegate.pause`` and ``delegate.cancel``, of real runs."""

from __future__ import annotations

import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest

from testing.leftovers import eventually, processes_of
from testing.pipelines_stage import Stage
from testing.run_store import Place
from testing.tool_calls import called, refused, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs in the background")


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    yield found
    found.clean()


@pytest.mark.full
def test_a_run_is_paused_and_goes_on_once_for_each_request(stage: Stage) -> None:
    stage.pipeline("ci", "echo one >> said; until test -e go; do sleep 0.02; done", "cat said")
    server = served(stage.repo.path)
    run = called(server, "delegate.spawn", pipeline="ci", task_id="t-x", start_only=True)
    place = {"manifest_path": run["manifest_path"]}
    assert eventually(lambda: stage.read("said") == b"one\n")
    asked = called(server, "delegate.pause", paused=True, request_id="r1", reason="wait", **place)
    assert (asked["paused"], asked["action"], asked["control_seq"]) == (False, "pause", 1)
    again = called(server, "delegate.pause", paused=True, request_id="r1", **place)
    assert (again["repeated"], again["control_seq"]) == (True, 1)
    (stage.repo.path / "go").touch()
    stage.wait_for(run["run_id"], "failed")
    waiting = called(server, "delegate.pause", paused=True, request_id="r1", **place)
    assert (waiting["paused"], waiting["status_detail"]) == (True, "paused")
    on = called(server, "delegate.pause", paused=False, request_id="r2", **place)
    assert (on["paused"], on["action"]) == (False, "resume")
    stage.wait_for(run["run_id"], "succeeded")
    assert stage.read("said") == b"one\n"
    assert refused(server, "delegate.pause", paused=True, **place) == "run_ended"
    lines = (stage.folder(run["run_id"]) / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    told = [(one["event"], one["payload"]["request_id"]) for one in events
            if one["actor"] == "delegation"]  # fmt: skip
    assert told == [("pause_requested", "r1"), ("resume_requested", "r2")]
    assert [one["seq"] for one in events] == list(range(1, len(events) + 1))
    assert stage.cli("verify", run["run_id"]).code == 0


def test_only_a_person_cancels_a_run(stage: Stage) -> None:
    stage.pipeline("ci", "sleep 70")
    server = served(stage.repo.path)
    run = called(server, "delegate.spawn", pipeline="ci", task_id="t-x", start_only=True)
    place = {"manifest_path": run["manifest_path"]}
    assert refused(server, "delegate.cancel", confirm=True, **place) == "invalid_arguments"
    asked = called(server, "delegate.cancel", **place)
    assert asked["status"] == "confirmation_required"
    heard: list[str] = []

    def answering(action: str, **content: Any) -> Any:
        def answer(message: str, _schema: dict[str, Any]) -> dict[str, Any]:
            heard.append(message)
            return {"action": action, "content": content or None}

        return answer

    dismissed = called(server, "delegate.cancel", answering("cancel"), **place)
    assert dismissed == asked, "nobody has chosen"
    for refusal in (answering("decline"), answering("accept"), answering("accept", cancel=False)):
        assert called(server, "delegate.cancel", refusal, **place)["status"] == "declined"
    assert all(run["run_id"] in message for message in heard)
    stage.wait_for(run["run_id"], "in_progress")
    done = called(server, "delegate.cancel", answering("accept", cancel=True), **place)
    assert (done["status"], done["run_status"]) == ("cancelled", "cancelled")
    assert eventually(lambda: not processes_of(run["run_id"]))
    words = shlex.split(asked["command"])
    assert words[:2] == ["rlm-ci", "cancel"]
    assert "had ended already" in stage.cli(*words[1:]).stdout
    assert called(server, "delegate.cancel", **place)["status"] == "ended_before"


def test_a_recorded_subagent_is_shown_and_not_controlled(repo: GitRepo) -> None:
    place = Place(repo.path)
    run = place.recorded("in_progress")
    server = served(repo.path)
    named = {"manifest_path": f"{run.artifact_root}/manifest.json"}
    assert called(server, "delegate.status", **named)["pipeline_id"] == "subagent"
    for tool, more in (("delegate.pause", {"paused": True}), ("delegate.cancel", {})):
        assert refused(server, tool, **named, **more) == "usage"
    assert os.listdir(repo.path / run.artifact_root) == ["manifest.json"]
