"""A record whose sums are right and that no run wrote is damage, and told as that."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rlm_ci.runs.journal.journal import Journal, replay
from testing.ask_stage import LOG, QUESTION, Asking, Script, chunk, final, going_on, read, subcall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from testing.fix_stage import Outcome

pytestmark = pytest.mark.full

KINDS = ("mode", "context", "terms", "clock", "structured", "subcall", "completion")


def rejournal(
    run: Outcome, rows: list[dict[str, Any]], kind: str, change: Callable[[Any], Any]
) -> None:
    """Write the journal of a run anew, with right sums, the first fact of a kind changed."""
    journal = run.folder / "calls.jsonl"
    os.unlink(journal)
    is_done = False
    with Journal.open(str(journal)) as writer:
        for row in rows:
            told = {name: one for name, one in row.items() if name not in ("seq", "crc")}
            if not is_done and (row["type"], row["kind"]) == ("fact", kind):
                told["value"], is_done = change(told["value"]), True
            writer.append(told)


def ways(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each member of a JSON value, however deep, and to itself."""
    yield way
    members: Any = ()
    if isinstance(value, dict | list):
        members = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in members:
        yield from ways(inner, (*way, name))


def other(value: Any) -> Any:
    """A value of another type, which no record of ours has there."""
    return {str: 7, int: "x", float: "x", bool: "x", list: {"a": 1}, dict: [1]}.get(
        type(value), [1]
    )


def replaced(value: Any, way: tuple[Any, ...]) -> Any:
    if not way:
        return other(value)
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[way[0]] = replaced(value[way[0]], way[1:])
    return copy


@pytest.fixture
def ended(stage: Asking) -> Outcome:
    stage.llm.script(Script(going_on(subcalls=[subcall(chunk(3))]), final()))
    return stage.fixed("--context", LOG, goal=QUESTION)[1]


def test_a_fact_of_another_shape_ends_in_six(stage: Asking, ended: Outcome) -> None:
    """Exit 6 and the file by name, whichever fact was emptied; never an internal error."""
    whole = list(replay(str(ended.folder / "calls.jsonl")))
    assert set(KINDS) <= {row.get("kind") for row in whole}
    for kind in KINDS:
        rejournal(ended, whole, kind, lambda _value: {})
        child = stage.spawn("replay", ended.id)
        assert child.wait(60) == 6, (kind, child.stderr)
        assert "calls.jsonl" in child.stderr


def test_a_fact_of_wrong_types_ends_in_six(stage: Asking) -> None:
    """Each member of each fact, one after the other, is of another type: exit 6, the file and
    the record by name, whether the run is resumed, replayed or verified; never a traceback.
    """
    script = Script(
        going_on(reads=[read(chunk(1), 50)], subcalls=[subcall(chunk(3))]), going_on("pause")
    )
    stage.llm.script(script)
    _, run = stage.fixed("--context", LOG, goal=QUESTION)
    whole = list(replay(str(run.folder / "calls.jsonl")))
    asked, manifest = len(stage.llm.completions), run.folder / "manifest.json"
    paused = manifest.read_bytes()
    kinds = {row["kind"]: row["value"] for row in reversed(whole) if row["type"] == "fact"}
    assert set(KINDS) <= kinds.keys()
    for kind, value in kinds.items():
        for number, way in enumerate(ways(value)):
            if not (way or value):  # of a fact that says nothing, nothing is believed
                continue
            manifest.write_bytes(paused)  # a damaged run has failed, and is over
            rejournal(run, whole, kind, partial(replaced, way=way))
            command = ("replay", "resume")[number % 2]
            ended = stage.cli(command, run.id)
            assert ended.code == 6, (kind, way, ended)
            assert "calls.jsonl" in ended.stderr, (kind, way, ended)
            assert "record " in ended.stderr, (kind, way, ended)
    assert len(stage.llm.completions) == asked
    assert not list(run.folder.rglob("error-*.log"))


def test_a_state_that_no_run_has_written_is_named(stage: Asking, ended: Outcome) -> None:
    """200 MB of state: its name, and no memory taken for it."""
    os.truncate(ended.folder / "rlm/state.json", 200 << 20)
    checked = stage.cli("verify", ended.id)
    assert checked.code == 1, checked
    assert "✗ rlm/state.json: it has 209,715,200 bytes, more than" in checked.stdout
