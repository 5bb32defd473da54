"""The life of a run: held by one process, written down as it goes, ended once."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import DamagedError, LockedError, RemoteError, StorageError, UsageError
from rlm_ci.resources import loader
from rlm_ci.runs import cancel, task_summary
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.journal.journal import replay
from testing.run_store import SECRET, Place

if TYPE_CHECKING:
    from rlm_ci.runs.run import Run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")


def events(run: Run) -> list[dict[str, Any]]:
    return list(replay(os.path.join(run.path, "events.jsonl")))


def names(run: Run) -> list[str]:
    return [event["event"] for event in events(run)]


def document(path: Path, schema: str) -> dict[str, Any]:
    """A file of ours; it follows its schema, and is for its owner alone."""
    found: dict[str, Any] = json.loads(path.read_text())
    loader.validate(found, schema, str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    return found


def metrics(place: Place, task: str = "t1") -> dict[str, Any]:
    return document(place.root / ".runs" / task / "metrics.json", "metrics.schema.json")


def state(place: Place, task: str = "t1") -> dict[str, Any]:
    return document(place.root / "out" / task / "state.json", "task-state.schema.json")


# -- its life ------------------------------------------------------------------------------------


def test_a_new_run_is_queued_and_on_disk(place: Place) -> None:
    with place.create(parent_run_id="p") as run:
        assert manifests.read(run.path) == run.manifest
        assert run.manifest.status == "queued"
        assert run.manifest.artifact_root == f".runs/t1/cli/{run.id}"
        assert run.manifest.parent_run_id == "p"
        with pytest.raises(LockedError, match=f"process {os.getpid()}"):
            place.open(run.path)


@pytest.mark.parametrize(("code", "detail"), [(3, manifests.PAUSED), (8, None)])
def test_a_run_that_waits_to_be_resumed_can_be_cancelled(
    place: Place, code: int, detail: str | None
) -> None:
    with place.create() as run:
        run.begin()
        run.finish("failed", exit_code=code, detail=detail)
    outcome = cancel.cancel(run.path, run.manifest, redactor=place.redactor, out=place.out)
    assert (outcome.ended_now, outcome.manifest.status) == (True, "cancelled")
    assert not manifests.read(run.path).is_resumable


def test_a_run_from_begin_to_end(place: Place) -> None:
    with place.create() as run:
        run.begin()
        assert manifests.read(run.path).status == "in_progress"
        with run.step("Build", "make") as step:
            place.seconds += 2
            step.exit_code, step.summary = 0, "built"
        run.event("agent_message", {"text": "hello", "deep": [{"a": 1}]})
        place.seconds += 3
        assert run.finish("succeeded", exit_code=0, summary="done") is None
    ended = manifests.read(run.path)
    assert (ended.status, ended.exit_code, ended.summary) == ("succeeded", 0, "done")
    assert ended.commands[0].status == "succeeded"
    assert names(run) == [
        "run_started", "step_started", "step_completed", "agent_message", "run_completed",
    ]  # fmt: skip
    for raw in Path(run.path, "events.jsonl").read_text().splitlines():
        loader.validate(json.loads(raw), "event.schema.json", "event")
    assert metrics(place)["runs"][0]["duration_seconds"] == 5
    assert state(place)["runs"] == {"total": 1, "succeeded": 1, "failed": 0, "cancelled": 0}
    assert (place.root / "out" / "t1" / ".gitignore").read_text() == "*\n"
    place.open(run.path).close()  # the lock is free again


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("exit_code", None), ("exit_code", "1"), ("duration_seconds", float("nan")),
        ("duration_seconds", 10**400), ("completed_at", "soon"), ("recorded_at", 5),
        ("commands_passed", True), ("status_detail", []),
    ],
)  # fmt: skip
def test_one_odd_row_of_the_metrics_ends_no_later_run(
    place: Place, key: str, value: object
) -> None:
    first = place.finished()
    place.recorded(task="t1")  # not a run of rlm-ci
    path = place.root / ".runs" / "t1" / "metrics.json"
    rows = json.loads(path.read_text())
    if value is None:
        del rows["runs"][0][key]
    else:
        rows["runs"][0][key] = value
    path.write_text(json.dumps(rows))
    place.seconds += 60
    with place.create() as run:
        run.begin()
        assert run.finish("succeeded", exit_code=0) is None
    assert manifests.read(run.path).status == "succeeded"
    found = metrics(place)["runs"]
    assert [one["run_id"] for one in found] == [first.id, run.id]
    assert found[0]["exit_code"] == 0
    assert found[0]["duration_seconds"] == 0


def test_a_step_that_raises_has_failed_and_one_that_is_interrupted_waits(place: Place) -> None:
    with place.create() as run:
        run.begin()
        with pytest.raises(RemoteError), run.step("Ask"):
            raise RemoteError("it stayed away")
        with pytest.raises(KeyboardInterrupt), run.step("Nap"):
            raise KeyboardInterrupt
        with run.step("Test") as step:
            step.passed = False
        run.skip("Deploy", why="Test failed")
        statuses = {one.title: one.status for one in run.manifest.commands}
        assert statuses == {
            "Ask": "failed", "Nap": "pending", "Test": "failed", "Deploy": "skipped",
        }  # fmt: skip
        assert run.manifest.commands[0].summary == "it stayed away"
        with run.step("Nap"):  # again: in the place of the first try
            assert [one.index for one in run.manifest.commands] == [0, 1, 2, 3]
        assert run.manifest.commands[1].status == "succeeded"


@pytest.mark.parametrize(
    ("error", "status", "code", "resumable"),
    [
        (KeyboardInterrupt(), "cancelled", 130, True),
        (SystemExit(), "cancelled", 143, True),
        (RemoteError("it stayed away"), "failed", 8, True),
        (UsageError("what?"), "failed", 2, False),
        (ZeroDivisionError("oops"), "failed", 10, False),
    ],
)
def test_what_ends_the_work_ends_the_run(
    place: Place, error: BaseException, status: str, code: int, *, resumable: bool
) -> None:
    with place.create() as run:
        run.begin()
        run.stop(error)
    ended = manifests.read(run.path)
    assert (ended.status, ended.exit_code, ended.is_resumable) == (status, code, resumable)
    with place.open(run.path) as again:
        if resumable:
            again.begin()
            assert names(again)[-1] == "run_resumed"
            assert again.manifest.exit_code is None
            again.finish("succeeded", exit_code=0)
            assert metrics(place)["runs"][0]["status"] == "succeeded"  # one row, the last word
        else:
            with pytest.raises(UsageError, match="has ended"):
                again.begin()


def test_secrets_are_nowhere(place: Place) -> None:
    with place.create() as run:
        run.begin()
        with run.step(f"Say {SECRET}", f"echo {SECRET}", name="say") as step:
            step.summary = SECRET
        run.skip(f"Skip {SECRET}", SECRET, why=SECRET, name="skip")
        run.event("tool_called", {SECRET: [SECRET, {"x": SECRET}]})
        run.finish("failed", exit_code=1, summary=SECRET, detail=SECRET)
    assert SECRET not in place.texts()
    assert "[redacted]" in place.texts()


def test_texts_are_bounded_and_can_always_be_written(place: Place) -> None:
    with place.create() as run:
        run.begin()
        run.event("agent_message", {"text": "x" * 1_000_000, "odd": "\udcff"})
        run.finish("failed", exit_code=1, summary="\ud800" + "y" * 1_000_000)
    assert len(place.texts()) < 50_000
    assert manifests.read(run.path) == run.manifest


FILL_UP = """
import resource, sys
from rlm_ci.errors import StorageError
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.runs.run import Run
from rlm_ci.runs.store import RunStore
root = sys.argv[1]
store = RunStore.at(root, ".runs")
with Run.create(store, "t1", pipeline_id="ci", redactor=Redactor({}), out=root + "/out") as run:
    run.begin()
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
    try:
        while True:
            run.event("agent_message", {"text": "x" * 100})
    except StorageError as error:
        doubt = run.stop(error)
        assert doubt is not None and doubt.where.endswith("events.jsonl"), doubt
print(run.path)
"""


def test_a_run_whose_journal_cannot_be_written_says_so_in_its_manifest(place: Place) -> None:
    argv = [sys.executable, "-c", FILL_UP, str(place.root)]
    ended = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=60)
    path = ended.stdout.strip()
    manifest = manifests.read(path)
    assert (manifest.status, manifest.exit_code, manifest.is_resumable) == ("failed", 9, True)
    assert manifest.summary is not None
    assert "events.jsonl" in manifest.summary
    with place.open(path) as again:  # there is room again
        again.begin()
        again.finish("succeeded", exit_code=0)
        assert names(again)[-2:] == ["run_resumed", "run_completed"]


# -- heartbeat -----------------------------------------------------------------------------------


def test_the_heart_beats_and_stops(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "HEARTBEAT", 0.01)
    before = threading.active_count()
    with place.create() as run:
        run.begin()
        place.seconds += 60
        deadline = time.monotonic() + 10
        while manifests.read(run.path).heartbeat_at != manifests.timestamp(place.seconds):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        run.finish("succeeded", exit_code=0)
        place.seconds += 60
        time.sleep(0.1)
        assert manifests.read(run.path) == run.manifest
    assert threading.active_count() == before


def test_a_run_that_is_let_go_of_without_an_end_can_go_on(place: Place) -> None:
    with place.create() as run:
        run.begin()
        with run.step("Build"):
            pass
    with place.open(run.path) as again:
        assert again.manifest.status == "in_progress"
        again.begin()
        assert again.manifest.commands[0].status == "succeeded"
        assert names(again) == ["run_started", "step_started", "step_completed", "run_resumed"]


# -- rollups -------------------------------------------------------------------------------------

END_ONE = """
import sys
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.runs.run import Run
from rlm_ci.runs.store import RunStore
root, count = sys.argv[1], int(sys.argv[2])
for _ in range(count):
    store = RunStore.at(root, ".runs")
    with Run.create(store, "t1", pipeline_id="ci", redactor=Redactor({}), out=root + "/out") as run:
        run.begin()
        run.finish("succeeded", exit_code=0)
"""


def test_runs_that_end_at_once_are_all_counted(place: Place) -> None:
    argv = [sys.executable, "-c", END_ONE, str(place.root), "5"]
    children = [subprocess.Popen(argv) for _ in range(4)]
    assert [child.wait(60) for child in children] == [0] * 4
    assert len({row["run_id"] for row in metrics(place)["runs"]}) == 20
    assert state(place)["runs"]["total"] == 20


@pytest.mark.parametrize(
    "damage", [None, b"", b"{", b"[]", b'{"version": 1, "runs": [{}]}', b'{"version": 0}', b"\xff"]
)
def test_a_damaged_rollup_is_made_anew(place: Place, damage: bytes | None) -> None:
    first = place.finished()
    path = place.root / ".runs" / "t1" / "metrics.json"
    path.unlink() if damage is None else path.write_bytes(damage)
    second = place.finished("failed", 1)
    assert {row["run_id"] for row in metrics(place)["runs"]} == {first.id, second.id}


def test_a_newer_rollup_is_left_alone_and_the_run_ends_all_the_same(place: Place) -> None:
    place.finished()
    path = place.root / ".runs" / "t1" / "metrics.json"
    path.write_text('{"version": 2}')
    with place.create() as run:
        run.begin()
        doubt = run.finish("succeeded", exit_code=0)
    assert isinstance(doubt, DamagedError)
    assert "version 2" in str(doubt)
    assert manifests.read(run.path).status == "succeeded"
    assert path.read_text() == '{"version": 2}'


def test_the_out_folder_is_not_written_through_a_link(place: Place, tmp_path: Path) -> None:
    place.root.mkdir()
    outside = tmp_path / "outside"
    outside.mkdir()
    (place.root / "out").symlink_to(outside)
    with place.create() as run:
        run.begin()
        doubt = run.finish("succeeded", exit_code=0)
    assert doubt is not None
    assert "link" in str(doubt)
    assert os.listdir(outside) == []


def test_the_last_run_is_the_one_that_ended_last(place: Place) -> None:
    first, second = place.create(), place.create()
    for run in (first, second):
        run.begin()
    place.seconds += 1
    second.finish("failed", exit_code=1)
    place.seconds += 1
    first.finish("succeeded", exit_code=0)
    assert state(place)["last_run"]["run_id"] == first.id
    first.close()
    second.close()
    task = os.path.join(place.store.root, "t1")
    task_summary.record(task, os.path.join(place.out, "t1"), first.manifest, place.seconds)
    assert state(place)["runs"]["total"] == 2  # told twice, counted once


# -- its folder ----------------------------------------------------------------------------------

LINKED = [
    ".lock", "manifest.json", "events.jsonl", "calls.jsonl", "request.json", "report.json",
    "commands", "commands/01-a.log", "rlm", "rlm/state.json", "rlm/git", "rlm/work", "rlm/context",
    "rlm/iteration-1/status.txt",
]  # fmt: skip


@pytest.mark.parametrize("name", LINKED)
def test_a_run_with_a_link_in_its_folder_is_not_taken_over(
    place: Place, tmp_path: Path, name: str
) -> None:
    with place.create() as run:
        run.begin()
    before = manifests.read(run.path)
    elsewhere, path = tmp_path / "elsewhere", Path(run.path, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists():
        path.rename(elsewhere)
    else:
        elsewhere.mkdir()
        (elsewhere / "thesis.txt").write_text("x")
    path.symlink_to(elsewhere)
    kept = _contents(elsewhere)
    with pytest.raises((DamagedError, StorageError)) as caught:
        place.open(run.path)
    assert str(path) in str(caught.value)
    assert _contents(elsewhere) == kept
    path.unlink()
    if elsewhere.is_file():
        elsewhere.rename(path)
    with place.open(run.path) as again:  # nobody holds it
        assert again.manifest == before


def _contents(place: Path) -> object:
    return (
        {one: one.read_text() for one in place.iterdir()} if place.is_dir() else place.read_text()
    )


def test_a_pipe_in_the_folder_of_a_run_hangs_nobody(place: Place) -> None:
    with place.create() as run:
        run.begin()
    os.mkfifo(os.path.join(run.path, "calls.jsonl"))
    with pytest.raises(DamagedError, match="neither a file nor a folder"):
        place.open(run.path)


def test_the_copies_of_a_tree_may_hold_links(place: Place) -> None:
    with place.create() as run:
        run.begin()
    for name in ("work", "verdict", "git"):
        os.symlink("/etc", run.path_of("rlm", name, "link"))
    place.open(run.path).close()


def test_a_folder_of_a_run_that_is_a_link_is_not_written_to(place: Place, tmp_path: Path) -> None:
    with place.create() as run:
        outside = tmp_path / "outside"
        outside.mkdir()
        os.symlink(outside, os.path.join(run.path, "rlm"))
        for parts in (("rlm", "a.txt"), ("rlm", "subcalls", "a.txt")):
            with pytest.raises(StorageError, match="a link in the repository leads elsewhere"):
                run.path_of(*parts)
        assert list(outside.iterdir()) == []
