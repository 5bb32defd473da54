"""Payloads: derived ones keep to GitHub's description and agree with what the API says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from testing.loopback_github.events import Event, Events, deviations, published
from testing.loopback_github.scene import NAME, NUMBER, Scene

if TYPE_CHECKING:
    from pathlib import Path

#: What GitHub really sends, although its description of webhooks says otherwise.
KNOWN = {"deleted fork": ['pull_request.head.repo: null is not of type "object"']}


def test_derived_payloads_keep_to_the_description(scene: Scene) -> None:
    derived = Events(scene.github, NAME, NUMBER).derived()
    assert len(derived) >= 15
    for case, event in derived.items():
        assert deviations(event) == KNOWN.get(case, []), case


def test_the_judge_does_judge(scene: Scene) -> None:
    event = Events(scene.github, NAME, NUMBER).pull_request()
    event.payload["number"] = "12"
    del event.payload["pull_request"]["head"]["sha"]
    found = deviations(event)
    assert found is not None
    assert len(found) == 2
    assert deviations(Event("schedule", {})) is None


def test_they_agree_with_the_api(scene: Scene, tmp_path: Path) -> None:
    event = Events(scene.github, NAME, NUMBER).pull_request()
    payload = json.loads(event.write(tmp_path).read_text("utf-8"))
    remote = scene.raw("GET", f"/pulls/{NUMBER}")

    def agrees(sent: Any, told: Any, place: str) -> None:
        """All that both have is the same."""
        if isinstance(sent, dict) and isinstance(told, dict):
            for name in sent.keys() & told.keys():
                agrees(sent[name], told[name], f"{place}.{name}")
        elif not place.endswith(("_url", ".size", ".topics", "_at")):
            assert type(sent) is type(told) or None in (sent, told), place

    agrees(payload["pull_request"], remote, "")
    for side in ("head", "base"):
        assert payload["pull_request"][side]["sha"] == remote[side]["sha"]
        assert payload["pull_request"][side]["ref"] == remote[side]["ref"]
    assert payload["after"] == remote["head"]["sha"]
    assert payload["repository"]["id"] == remote["base"]["repo"]["id"]


def test_what_the_cases_are_about(scene: Scene) -> None:
    derived = {
        case: event.payload for case, event in Events(scene.github, NAME, NUMBER).derived().items()
    }
    fork = derived["fork"]["pull_request"]
    assert fork["head"]["repo"]["fork"]
    assert fork["head"]["repo"]["full_name"] == "mallory/shop"
    assert derived["deleted fork"]["pull_request"]["head"]["repo"] is None
    assert derived["null body"]["pull_request"]["body"] is None
    assert derived["bot"]["sender"]["type"] == "Bot"
    assert "pull_request" in derived["comment on the pull request"]["issue"]
    assert "pull_request" not in derived["comment on an issue"]["issue"]
    stranger = derived["comment by a stranger"]["comment"]
    assert (stranger["user"]["login"], stranger["author_association"]) == ("mallory", "NONE")
    assert "\n::error::" in derived["injection"]["pull_request"]["title"]


def test_a_workflow_run_of_a_fork_names_no_pull_request(scene: Scene) -> None:
    events = Events(scene.github, NAME, NUMBER)
    same = events.workflow_run(scene.github.workflow_run(NAME, NUMBER))
    assert [row["number"] for row in same.payload["workflow_run"]["pull_requests"]] == [NUMBER]
    scene.state.head_repository, scene.state.user = "mallory/shop", "mallory"
    fork = events.workflow_run(scene.github.workflow_run(NAME, NUMBER))
    run = fork.payload["workflow_run"]
    assert (run["pull_requests"], run["head_sha"]) == ([], scene.state.head_sha)
    assert run["head_repository"]["full_name"] == "mallory/shop"
    assert [deviations(event) for event in (same, fork)] == [[], []]


@pytest.mark.parametrize("deleted", [False, True])
def test_the_api_knows_forks_too(scene: Scene, deleted: bool) -> None:
    scene.state.head_repository = None if deleted else "mallory/shop"
    pull = scene.pull()
    assert (pull.head.repo is None) == deleted
    if not deleted:
        assert pull.head.repo.full_name == "mallory/shop"
        assert pull.head.repo.fork
        found = scene.repo().get_pulls(head=f"mallory:{pull.head.ref}")
        assert [one.number for one in found] == [NUMBER]


def test_published_examples_come_fresh() -> None:
    names = ("pull_request", "issue_comment", "workflow_run", "push")
    found = list(published(*names))
    assert {event.name for event in found} == set(names)
    assert len(found) > 40
    found[0].payload.clear()
    assert next(published(found[0].name)).payload
