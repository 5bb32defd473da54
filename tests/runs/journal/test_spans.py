"""Spans: what the events of a run say of its steps, in one process and in several."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import ConfigError, Paused, StorageError
from rlm_ci.runs.journal import spans
from rlm_ci.system.ordered_threads import in_order

if TYPE_CHECKING:
    from collections.abc import Mapping


class Events:
    """The events of a run, through JSON as on the disk; ``full`` is a disk that takes no more."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.announced: list[str] = []
        self.full = False

    def add(self, name: str, payload: Mapping[str, Any]) -> None:
        if self.full:
            raise StorageError("the disk is full", where="events.jsonl", hint="free some")
        event = {"event": name, "actor": "runner", "payload": payload}
        self.lines.append(json.loads(json.dumps(event)))

    @property
    def log(self) -> spans.SpanLog:
        return spans.SpanLog(self.add, self.announced.append)

    @property
    def records(self) -> dict[str, spans.SpanRecord]:
        return spans.read(self.lines)


def test_spans_are_a_tree_with_what_their_work_says() -> None:
    events = Events()
    with spans.recorded(events.log), spans.span("iteration", "iteration 1", words="one: go"):
        for title in ("first", "second"):
            with spans.span("tool", title) as step:
                assert spans.current_id() == step.id
                step.details |= {"count": 3, "empty": "", "none": None}
                step.files["Log"] = "rlm/a.log"
                step.title = f"{title}, done"
    assert spans.current_id() == ""
    [root, *tools] = events.records.values()
    assert [one.id for one in tools] == ["iteration-1/tool-1", "iteration-1/tool-2"]
    assert [one.title for one in root.children] == ["first, done", "second, done"]
    assert [one.outcome for one in (root, *tools)] == [spans.DONE] * 3
    assert tools[0].details == {"count": 3}
    assert tools[0].files == {"Log": "rlm/a.log"}
    assert root.start is not None
    assert root.seconds is not None
    assert events.announced == ["one: go"]


@pytest.mark.parametrize(
    ("error", "outcome", "details"),
    [
        (ConfigError("it is wrong"), spans.FAILED, {"error": "it is wrong"}),
        (KeyboardInterrupt(), spans.INTERRUPTED, {}),
        (Paused(), spans.INTERRUPTED, {}),
    ],
)
def test_an_exception_ends_a_span_and_goes_on(
    error: BaseException, outcome: str, details: dict[str, str]
) -> None:
    events = Events()
    with pytest.raises(type(error)), spans.recorded(events.log), spans.span("plan", "plan"):
        raise error
    [record] = events.records.values()
    assert (record.outcome, record.details) == (outcome, details)


def test_a_full_disk_hides_no_error_and_is_told_where_there_is_none() -> None:
    events = Events()

    def work(error: Exception | None) -> None:
        events.full = False
        with spans.recorded(events.log), spans.span("plan", "plan"):
            events.full = True
            if error is not None:
                raise error

    with pytest.raises(ConfigError):
        work(ConfigError("it is wrong"))
    with pytest.raises(StorageError):
        work(None)


def test_a_resumed_run_adds_to_its_spans() -> None:
    """A killed process leaves a span without an end; the next one opens it again."""
    events = Events()

    def walk(ends: int) -> None:
        with spans.recorded(events.log):
            for number in range(1, 3):
                with spans.span("turn", f"turn {number}", key=f"turn-{number}"):
                    pass
        del events.lines[ends:]

    walk(3)  # the second turn is under way
    assert [one.outcome for one in events.records.values()] == [spans.DONE, ""]
    assert events.records["turn-2"].seconds is None
    events.lines[1]["payload"]["ms"] = 5_000
    walk(99)
    first, second = events.records.values()
    assert (first.outcome, second.outcome) == (spans.DONE, spans.DONE)
    assert first.seconds is not None
    assert first.seconds >= 5
    assert second.seconds is not None


def test_threads_of_a_span_open_theirs_in_it() -> None:
    events = Events()

    def work(name: str) -> None:
        with spans.span("subcall", name, key=name):
            pass

    with spans.recorded(events.log), spans.span("map", "map", key="map"):
        in_order([lambda name=name: work(name) for name in "abc"], 3)  # type: ignore[misc]
    assert sorted(events.records) == ["map", "map/a", "map/b", "map/c"]
    assert {one.title for one in events.records["map"].children} == {"a", "b", "c"}


def test_the_work_on_a_node_has_its_id_wherever_it_is_done() -> None:
    events = Events()
    with (
        spans.recorded(events.log),
        spans.span("phase", "looking"),
        spans.node("b", "a", "node src") as opened,
    ):
        assert spans.current_id() == "b"
        with spans.span("tool", "read a.py"):
            pass
        opened.outcome = spans.PARTIAL
    _, record, tool = events.records.values()
    assert (record.parent, record.id, record.kind) == ("a", "b", "node")
    assert (record.title, record.outcome, record.seconds is None) == ("node src", "partial", False)
    assert (tool.parent, tool.id, record.children) == ("b", "b/tool-1", [tool])


def test_outside_of_a_run_a_span_is_written_nowhere() -> None:
    with spans.span("plan", "plan") as step:
        step.details["a"] = 1
    assert (spans.current_id(), step.outcome) == ("", spans.DONE)


@pytest.mark.parametrize(
    "payload",
    [
        None, [], {}, {"span": 1}, {"span": "a", "parent": "a"}, {"span": "a", "parent": ["b"]},
        {"span": "a", "at": 1e300, "title": None, "kind": 3}, {"span": "a", "at": -1},
        {"span": "a", "ms": "1", "files": [], "details": "x", "outcome": {}},
    ],
)  # fmt: skip
def test_whatever_an_event_holds_there_is_no_error(payload: Any) -> None:
    events = [
        {"event": name, "actor": "runner", "payload": payload}
        for name in (spans.STARTED, spans.ENDED, spans.STARTED)
    ]
    for record in spans.read(events).values():
        assert record.children == []
    assert isinstance(spans.latest(events), str)
    assert all(isinstance(spans.words_of(event), str) for event in events)


def test_another_process_makes_no_spans() -> None:
    payload = {"span": "a", "kind": "plan", "title": "plan", "at": 1}
    assert spans.read([{"event": spans.STARTED, "actor": "agent", "payload": payload}]) == {}


def test_the_latest_step_is_what_was_announced() -> None:
    events = Events()
    with spans.recorded(events.log), spans.span("iteration", "iteration 1", words="one: plan"):
        events.add("progress", {"summary": "one: 2 reads"})
        with spans.span("read", "read"):
            assert spans.latest(events.lines) == "one: 2 reads"
    assert spans.latest([]) == ""
