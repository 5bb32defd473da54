"""What others post for a run enters its events once, in order, whoever dies meanwhile."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import DamagedError, LockedError, StorageError
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.resources import loader
from rlm_ci.runs import checksums, inbox
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.inbox import Inbox
from rlm_ci.runs.journal.journal import Journal, replay
from rlm_ci.system.lock import Lock
from testing.run_store import SECRET, Place

if TYPE_CHECKING:
    from rlm_ci.runs.run import Run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")
#: Processes that post at once, and events of each.
WRITERS, POSTED = 8, 40


def post(path: str, event: str, actor: str, payload: dict[str, Any]) -> None:
    inbox.send(path, event, payload, Redactor({"MY_TOKEN": SECRET}), actor)


def taken(path: str) -> list[int]:
    """The numbers of what came from the inbox, in the order of the events, which are whole."""
    events = list(replay(os.path.join(path, "events.jsonl")))
    return [one["payload"]["inbox"] for one in events if one["actor"] != "runner"]


def test_a_run_in_progress_takes_in_what_is_posted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifests, "HEARTBEAT", 0.02)
    with place.create() as run:
        run.begin()
        post(run.path, "question_queued", "child", {"prompt": f"is {SECRET} right?"})
        deadline = time.monotonic() + 30
        while not taken(run.path) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert taken(run.path) == [1]
        post(run.path, "question_closed", "user", {"question_id": "q"})
        run.finish("succeeded", exit_code=0)
        post(run.path, "question_closed", "user", {"question_id": "r"})
        assert taken(run.path) == [1, 2]
    assert taken(run.path) == [1, 2, 3]
    for name in ("events.jsonl", "inbox.jsonl"):
        for line in Path(run.path, name).read_text().splitlines():
            loader.validate(json.loads(line), "event.schema.json", name)
    assert SECRET not in place.texts()
    last = list(replay(os.path.join(run.path, "events.jsonl")))[-1]
    assert (last["event"], last["run_id"], last["task_id"]) == ("question_closed", run.id, "t1")


def test_what_follows_the_end_leaves_the_run_verified_and_ended(place: Place) -> None:
    run = place.finished()
    lock = Path(run.path, ".lock")
    lock.write_text("who held it")
    post(run.path, "question_queued", "child", {})
    assert taken(run.path) == [1]
    assert lock.read_text() == "who held it"
    assert checksums.tells_an_end(run.path)
    found = checksums.check(run.path, manifests.read(run.path))
    assert (found.problems, found.ending["status"]) == ((), "succeeded")


def test_a_run_that_goes_on_knows_what_it_has(place: Place) -> None:
    with place.create() as run:
        run.begin()
        run.finish("failed", exit_code=3, detail=manifests.PAUSED)
    post(run.path, "question_queued", "child", {})
    with place.open(run.path) as again:
        again.begin()
        post(run.path, "question_queued", "child", {})
        again.finish("succeeded", exit_code=0)
        with pytest.raises(LockedError):
            place.open(run.path)
    post(run.path, "question_queued", "child", {})
    assert taken(run.path) == [1, 2, 3]
    found: list[int] = []
    Inbox(
        run.path, place.redactor, take=lambda some: found.extend(one["seq"] for one in some)
    ).read()
    assert found == [1, 2, 3]


def _writer(path: str, name: str) -> None:
    for number in range(POSTED):
        post(path, "question_queued", name, {"number": number})


def crowd(path: str) -> list[Any]:
    context = multiprocessing.get_context("fork")
    found = [context.Process(target=_writer, args=(path, f"w{n}")) for n in range(WRITERS)]
    for one in found:
        one.start()
    return found


def in_order(path: str) -> dict[str, list[int]]:
    """What each writer has posted, as the events have it; all of the inbox is there, once."""
    posted = list(replay(os.path.join(path, "inbox.jsonl")))
    assert taken(path) == [one["seq"] for one in posted] == list(range(1, len(posted) + 1))
    found: dict[str, list[int]] = {}
    for one in posted:
        found.setdefault(one["actor"], []).append(one["payload"]["number"])
    return found


@pytest.mark.full
@pytest.mark.parametrize("killed", [False, True])
def test_many_processes_at_once(place: Place, killed: bool) -> None:
    with place.create() as run:
        run.begin()
        writers = crowd(run.path)
        if killed:
            for one in writers[::2]:
                time.sleep(0.1)
                one.kill()  # it may have ended already
        else:
            run.finish("succeeded", exit_code=0)
    for one in writers:
        one.join()
    post(run.path, "question_queued", "last", {"number": 0})
    found = in_order(run.path)
    for index in range(1 if killed else 0, WRITERS, 2 if killed else 1):
        assert found[f"w{index}"] == list(range(POSTED))
    assert all(numbers == list(range(len(numbers))) for numbers in found.values())


def test_a_torn_record_is_kept_aside(place: Place) -> None:
    run = place.finished()
    post(run.path, "question_queued", "child", {})
    with open(os.path.join(run.path, "inbox.jsonl"), "ab") as stream:
        stream.write(b'{"crc":"')
    post(run.path, "question_closed", "child", {})
    assert taken(run.path) == [1, 2]


def record_with(run: Run, **fields: Any) -> None:
    """One record in the inbox of ``run``, whole but for ``fields``."""
    at = manifests.timestamp(1.0)
    known = {"schema_version": 1, "timestamp": at, "task_id": "t1", "run_id": run.id,
             "event": "question_queued", "actor": "child", "payload": {}}  # fmt: skip
    with Journal.open(os.path.join(run.path, "inbox.jsonl")) as journal:
        journal.append({**known, **fields})


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"schema_version": 2}, "has version 2, this rlm-ci knows 1"),
        ({"actor": "runner"}, "no event of another process"),
        ({"payload": []}, "no event of another process"),
        ({"event": "run_completed"}, "no event of another process"),
        ({"timestamp": "now"}, "timestamp: expected a time in UTC"),
    ],
)
def test_a_damaged_inbox_is_refused_and_harms_no_run(
    place: Place, fields: dict[str, Any], said: str
) -> None:
    with place.create() as run:
        run.begin()
        record_with(run, **fields)
        assert run.finish("succeeded", exit_code=0) is None
    with pytest.raises(DamagedError, match=said):
        post(run.path, "question_queued", "child", {})
    assert taken(run.path) == []


def test_a_run_opens_whatever_its_events_hold(place: Place) -> None:
    with place.create() as run:
        run.begin()
    with Journal.open(os.path.join(run.path, "events.jsonl")) as journal:
        wrong: tuple[Any, ...] = (None, [], {"inbox": "x"}, {"inbox": True})
        for payload in wrong:
            journal.append({"actor": "child", "event": "child_started", "payload": payload})
        journal.append({"no": "event"})
    post(run.path, "question_queued", "child", {})
    with place.open(run.path) as again:
        assert again.finish("failed", exit_code=1) is None
    last = list(replay(os.path.join(run.path, "events.jsonl")))[-2]
    assert (last["event"], last["payload"]) == ("question_queued", {"inbox": 1})


def test_a_link_is_not_followed(place: Place, tmp_path: Path) -> None:
    run = place.finished()
    aim = tmp_path / "aim"
    aim.write_text("theirs")
    Path(run.path, "inbox.jsonl").symlink_to(aim)
    with pytest.raises(StorageError, match="cannot be read"):
        Inbox(run.path, place.redactor).read()
    with pytest.raises(StorageError, match="cannot be written"):
        post(run.path, "question_queued", "child", {})
    assert aim.read_text() == "theirs"


def test_an_inbox_is_bounded(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    run = place.finished()
    post(run.path, "question_queued", "child", {"text": "x" * 100})
    monkeypatch.setattr(inbox, "_LIMIT", 100)
    with pytest.raises(StorageError, match="more than 100 bytes"):
        post(run.path, "question_queued", "child", {})
    assert taken(run.path) == [1]


def test_a_lock_that_is_not_signed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("content")
    with Lock.take(str(path), signs=False), pytest.raises(LockedError):
        Lock.take(str(path))
    assert path.read_text() == "content"


def test_who_waits_for_the_inbox_says_so(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    run = place.finished()
    monkeypatch.setattr(inbox, "PATIENCE", 0.05)
    path = os.path.join(run.path, "inbox.jsonl")
    with Lock.take(path, signs=False), pytest.raises(LockedError, match="written to the inbox"):
        post(run.path, "question_queued", "child", {})
