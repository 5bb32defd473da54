"""The queue of questions: kept whatever dies, read alike by all, bounded."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.delegation.questions import queue as questions
from rlm_ci.delegation.questions.queue import Asker, QuestionQueue
from rlm_ci.errors import DamagedError, LimitError, StorageError, UsageError
from rlm_ci.runs import inbox as runs_inbox
from rlm_ci.runs.journal.journal import Journal, replay
from testing.run_store import SECRET, Place, place

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.delegation.questions.queue import RunQuestion

__all__ = ["place"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")
CHILD = Asker("2026-11-23T08-07-09Z-e35eefc6", "/r/.runs/t/cli/child/manifest.json")
WRITERS, ASKED = 8, 20


class Parent:
    """A run that is asked, its clock, and what was to be settled."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.path = place.finished().path
        self.settled: list[str] = []

    def queue(self) -> QuestionQueue:
        return QuestionQueue(self.path, self.place.redactor, self._settle, self.place.clock)

    def _settle(self, asked: Mapping[str, RunQuestion], closed: Sequence[RunQuestion]) -> None:
        assert all(asked[one.question_id] == one for one in closed)
        self.settled += [one.question_id for one in closed]

    def events(self) -> list[str]:
        found = list(replay(os.path.join(self.path, "events.jsonl")))
        return [one["event"] for one in found if one["actor"] != "runner"]


@pytest.fixture
def parent(place: Place) -> Parent:
    return Parent(place)


def test_asked_answered_dismissed_and_known_to_others(parent: Parent) -> None:
    asked = parent.queue().enqueue(CHILD, f"is {SECRET} right?", urgency="high", expires_in_ms=9)
    assert (asked.status, asked.urgency, asked.expires_in_ms) == ("queued", "high", 9)
    assert SECRET not in asked.prompt
    other = parent.queue().enqueue(CHILD, "and now?", auto_pause=False)
    assert other.question_id.startswith("q-0002-")
    answered = parent.queue().answer(asked.question_id, f"yes, {SECRET}")
    assert (answered.status, answered.answer) == ("answered", f"yes, {answered.answer[5:]}")  # type: ignore[index]
    assert parent.queue().dismiss(other.question_id).status == "dismissed"
    with pytest.raises(UsageError, match="the question is closed"):
        parent.queue().answer(other.question_id, "x")
    with pytest.raises(UsageError, match="the question is closed"):
        parent.queue().dismiss(asked.question_id)
    known = parent.queue().read()
    assert [one.status for one in known.values()] == ["answered", "dismissed"]
    assert set(parent.settled) == {asked.question_id}  # the other one pauses for nothing
    assert parent.events() == ["question_queued"] * 2 + ["question_answered", "question_closed"]
    assert SECRET not in parent.place.texts()


def test_a_question_expires_when_somebody_looks_whatever_the_clock_did(parent: Parent) -> None:
    queue = parent.queue()
    asked = [queue.enqueue(CHILD, "?", expires_in_ms=ms, fallback="fail") for ms in (5_000, 9_000)]
    never = queue.enqueue(CHILD, "?")
    parent.place.seconds -= 1_000_000
    assert {one.status for one in parent.queue().read().values()} == {"queued"}
    parent.place.seconds += 1_000_005
    later = parent.queue().read()
    assert [later[one.question_id].fallback for one in asked] == ["fail", None]
    assert later[asked[0].question_id].to_record()["expired_at"]
    with pytest.raises(UsageError, match="it was expired"):
        parent.queue().answer(asked[0].question_id, "late")
    parent.place.seconds -= 60  # what has expired stays so
    assert queue.read()[asked[0].question_id].status == "expired"
    parent.place.seconds += 60 + 10**8
    with pytest.raises(UsageError, match="it was expired"):  # nobody had looked before
        queue.answer(asked[1].question_id, "late")
    assert queue.answer(never.question_id, "x").status == "answered"
    assert parent.events().count("question_closed") == 2


def test_children_and_parents_are_bounded(parent: Parent, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "MOST_OPEN", 2)
    monkeypatch.setattr(questions, "MOST_OF_ONE", 4)
    monkeypatch.setattr(questions, "MOST", 6)
    queue, other = parent.queue(), CHILD.replace(run_id="other")
    first = queue.enqueue(CHILD, "1")
    queue.enqueue(CHILD, "2")
    with pytest.raises(LimitError, match="2 questions of this run wait"):
        parent.queue().enqueue(CHILD, "3")
    queue.enqueue(other, "3")
    queue.dismiss(first.question_id)
    assert queue.enqueue(CHILD, "4") == queue.latest(CHILD.run_id)
    for one in queue.read().values():
        if one.is_open:
            queue.dismiss(one.question_id)
    queue.enqueue(CHILD, "5")
    with pytest.raises(LimitError, match="this run has asked 4 questions"):
        parent.queue().enqueue(CHILD, "6")
    queue.enqueue(other, "6")
    with pytest.raises(LimitError, match="was asked 6 questions"):
        queue.enqueue(other, "7")


def test_what_is_no_question_of_ours_is_passed_over(parent: Parent) -> None:
    asked = parent.queue().enqueue(CHILD, "?")
    masks = parent.place.redactor
    for payload in (
        {}, {"question_id": [], "prompt": "x"}, {**asked.to_dict(), "prompt": "another"},
        {**asked.to_dict(), "question_id": "q-2", "expires_at": "soon"},
        {**asked.to_dict(), "question_id": "q-2", "parent_run_id": "another"},
        {**asked.to_dict(), "question_id": "q-2", "urgency": ["low"]},
    ):  # fmt: skip
        runs_inbox.send(parent.path, "question_queued", payload, masks)
    wrong: tuple[object, ...] = ("answered", "queued", [], None)
    for status in wrong:
        ended = {"question_id": asked.question_id, "status": status, "closed_at": asked.queued_at}
        runs_inbox.send(parent.path, "question_closed", ended, masks)
    assert parent.queue().read() == {asked.question_id: asked}


def _ask(step: Place, path: str, name: str) -> None:
    queue = QuestionQueue(path, step.redactor, lambda *_: None, step.clock)
    for number in range(ASKED):
        queue.enqueue(CHILD.replace(run_id=name), str(number))


@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=pytest.mark.full)])
def test_many_children_at_once(parent: Parent, killed: bool) -> None:
    """No question is lost or doubled, also if every other child is killed while it asks."""
    context = multiprocessing.get_context("fork")
    names = [f"c{number}" for number in range(WRITERS)]
    children = [context.Process(target=_ask, args=(parent.place, parent.path, n)) for n in names]
    for one in children:
        one.start()
    for one in children[:: 2 if killed else WRITERS + 1]:
        time.sleep(0.05)
        if killed:
            one.kill()
    for one in children:
        one.join()
    known = parent.queue().read().values()
    assert len({one.question_id for one in known}) == len(known)
    for index, name in enumerate(names):
        prompts = [one.prompt for one in known if one.from_run_id == name]
        assert prompts == [str(number) for number in range(len(prompts))]
        assert len(prompts) == ASKED or (killed and index % 2 == 0)
    parent.queue().enqueue(CHILD, "the last")
    assert parent.events() == ["question_queued"] * (len(known) + 1)


@pytest.mark.full
def test_ten_thousand_questions(parent: Parent) -> None:
    """Each is read once by each process: ten times as many take ten times as long."""
    queue = parent.queue()
    begun = time.process_time()
    for number in range(1_000):
        queue.enqueue(CHILD.replace(run_id=f"c{number}"), "x" * 100)
    first = time.process_time() - begun
    for number in range(1_000, 9_999):
        queue.enqueue(CHILD.replace(run_id=f"c{number}"), "x" * 100)
    asked = queue.enqueue(CHILD, "the last")
    assert time.process_time() - begun < 30 * first
    with pytest.raises(LimitError):
        queue.enqueue(CHILD, "one more")
    assert len(parent.events()) == 10_000
    assert parent.queue().answer(asked.question_id, "x").status == "answered"


def test_an_inbox_that_is_damaged_newer_or_a_link(parent: Parent, tmp_path: Path) -> None:
    parent.queue().enqueue(CHILD, "?")
    inbox = Path(parent.path, "inbox.jsonl")
    whole = inbox.read_bytes()
    inbox.write_bytes(whole.replace(b'"prompt":"?"', b'"prompt":"!"'))
    with pytest.raises(DamagedError, match="checksum"):
        parent.queue().read()
    record = json.loads(whole)
    inbox.unlink()
    with Journal.open(str(inbox)) as journal:
        fields = {name: value for name, value in record.items() if name not in ("seq", "crc")}
        journal.append({**fields, "schema_version": 2})
    with pytest.raises(DamagedError, match="has version 2"):
        parent.queue().enqueue(CHILD, "?")
    inbox.unlink()
    aim = tmp_path / "aim"
    aim.write_text("theirs")
    inbox.symlink_to(aim)
    with pytest.raises(StorageError):
        parent.queue().enqueue(CHILD, "?")
    assert aim.read_text() == "theirs"


@pytest.mark.parametrize(
    "text", ["\x1b[2J\x07", "\ud800", "<b>&`::error::", "a\nb\r\n", "é" * 8000]
)
def test_hostile_text_comes_back_as_it_is(parent: Parent, text: str) -> None:
    asked = parent.queue().enqueue(CHILD, text)
    assert parent.queue().read()[asked.question_id].prompt == text


def test_a_queue_notices_that_its_file_was_replaced(parent: Parent) -> None:
    queue = parent.queue()
    queue.enqueue(CHILD, "?")
    Path(parent.path, "inbox.jsonl").unlink()
    with pytest.raises(DamagedError, match="shorter than it was"):
        queue.enqueue(CHILD, "?")
