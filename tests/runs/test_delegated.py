"""What others ask of a run, and what they leave in its folder: real runs in the background."""

from __future__ import annotations

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from rlm_ci.redaction.redactor import Redactor
from rlm_ci.resources import loader
from rlm_ci.runs import delegated, inbox
from rlm_ci.runs.journal.run_event import CHILD_STARTED
from testing.leftovers import eventually, processes_of
from testing.pipelines_stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs in the background")


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    yield found
    found.clean()


def ask(folder: Path, seq: int, action: str) -> None:
    record = {"control_seq": seq, "latest_action": {"action": action}, "requests": []}
    (folder / "control.json").write_text(json.dumps(record))


@pytest.mark.full
@pytest.mark.parametrize("pipeline", ["ci", "outer"])
def test_a_run_pauses_between_two_stages_and_goes_on_there(stage: Stage, pipeline: str) -> None:
    wait = "echo one >> said; until test -e go; do sleep 0.02; done"
    stages = [{"kind": "command", "command": command} for command in (wait, "cat said")]
    whole = [{"kind": "subpipeline", "pipeline": "ci"}, *stages[1:]]
    pipelines = [{"id": "ci", "stages": stages}, {"id": "outer", "stages": whole}]
    record = json.dumps({"pipelines": pipelines})
    stage.repo.write("codex.orchestrator.json", record).commit()
    run_id = stage.start(pipeline, "--goal", "g")["run_id"]
    assert eventually(lambda: stage.read("said") == b"one\n")
    ask(stage.folder(run_id), 1, "pause")
    (stage.repo.path / "go").touch()
    paused = stage.cli("wait", run_id)
    assert (paused.code, stage.manifest(run_id)["status_detail"]) == (3, "paused")
    assert f"resume it with rlm-ci resume {run_id}" in paused.stdout
    left = {"ci": "succeeded", "outer": "pending"}[pipeline]
    assert [step["status"] for step in stage.manifest(run_id)["commands"]] == [left]
    assert stage.cli("verify", run_id).code == 0  # the control file came from others
    assert stage.cli("resume", run_id).code == 0  # what was asked for before holds no more
    assert stage.read("said") == b"one\n"
    assert len(stage.manifest(run_id)["commands"]) == 2


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{", '{"control_seq": true}', "[" * 100_000, '{"control_seq": 1, "requests": []}'],
)
def test_a_broken_control_file_asks_for_nothing(tmp_path: Path, content: str) -> None:
    (tmp_path / "control.json").write_text(content)
    assert delegated.last_action(str(tmp_path)) == (0, "")


@pytest.mark.full
def test_a_delegated_run_outlives_the_cancelled_run_that_has_it_as_a_child(stage: Stage) -> None:
    """Also where it is of the same task, and so lies beside its parent."""
    own = "2026-11-23T08-07-09Z-e35eefc6"
    program = f"{sys.executable} -I -m rlm_ci"
    stage.pipelines([
        {"id": "outer", "stages": [{"command": f"{program} start inner --run-id {own}; sleep 70"}]},
        {"id": "inner", "stages": [{"command": "sleep 70"}]},
    ])  # fmt: skip
    outer = stage.start("outer", "--goal", "g")["run_id"]
    assert eventually(lambda: len(processes_of(own)) > 0)
    stage.wait_for(own, "in_progress")
    inner = stage.folder(own)
    (inner / delegated.TOKEN).touch()
    os.kill(stage.holder(outer), 9)
    manifest = stage.manifest(outer)
    manifest["child_runs"] = [
        {"run_id": own, "pipeline_id": "inner", "status": "queued", "manifest": "m"}
    ]
    (stage.folder(outer) / "manifest.json").write_text(json.dumps(manifest))
    assert stage.cli("cancel", outer).code == 0
    assert not processes_of(outer)
    assert processes_of(own)
    assert stage.manifest(own)["status"] == "in_progress"
    again = stage.cli("start", "inner", "--run-id", own)
    assert (again.code, "File exists" in again.stderr) == (9, True)
    assert stage.cli("start", "inner", "--run-id", "../x").code == 2
    assert stage.cli("cancel", own).code == 0
    assert eventually(lambda: not processes_of(own))


def test_what_others_send_is_in_the_journal_of_a_live_run(stage: Stage) -> None:
    stage.pipelines([
        {"id": "outer", "stages": [{"command": "until test -e go; do sleep 0.02; done"}]},
        {"id": "inner", "stages": [{"command": "echo x"}]},
    ])  # fmt: skip
    outer = stage.start("outer", "--goal", "g")["run_id"]
    inner = stage.start("inner", "--task", "other")["run_id"]
    stage.wait_for(outer, "in_progress")
    stage.wait_for(inner, "succeeded")
    (stage.folder(inner) / delegated.TOKEN).touch()
    folder = stage.folder(outer)
    child, masks = {"task_id": "other", "run_id": inner}, Redactor({})
    with ThreadPoolExecutor(8) as pool:
        senders = [pool.submit(inbox.send, str(folder), CHILD_STARTED, child, masks)]
        senders += [
            pool.submit(
                inbox.send, str(folder), "question_queued", {"question_id": f"q-{n}"}, masks
            )
            for n in range(20)
        ]
        for one in senders:
            one.result()
    (stage.repo.path / "go").touch()
    assert stage.cli("wait", outer).code == 0
    assert stage.cli("verify", outer).code == 0
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    for one in events:
        loader.validate(one, "event.schema.json", "event")
    theirs = [one for one in events if one["actor"] == "delegation"]
    assert [one["event"] for one in theirs].count("question_queued") == 20
    [known] = stage.manifest(outer)["child_runs"]
    assert (known["run_id"], known["status"]) == (inner, "succeeded")
    inbox.send(str(folder), "question_queued", {}, masks)  # its last own event is still its end
    assert stage.cli("verify", outer).code == 0
