"""The record of a run's calls: facts, replay, damage, and what stands on the disk when."""

from __future__ import annotations

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import ConfigError, DamagedError, LimitError, RemoteError, RlmCiError
from rlm_ci.models import SpentError
from rlm_ci.models.budget import Ledger
from rlm_ci.models.record.index import FactIndex
from rlm_ci.models.record.record import AbsentModel, Record
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.runs.journal.journal import Journal, replay
from testing.call_records import SECRET, lines, never, opened, plain
from testing.model_clients import question
from testing.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


# -- facts ---------------------------------------------------------------------------------------


def test_a_fact_is_produced_once_and_found_ever_after(path: Path) -> None:
    value = {"output": "é \x00\u2028", "code": 1, "rows": [1, 2.5, None, True]}
    with opened(path) as record:
        assert record.fact("command", "1/validator", {"argv": ["x"]}, lambda: value) == value
        assert record.fact("command", "1/validator", {"argv": ["x"]}, never) == value
    with opened(path) as record:
        assert record.fact("command", "1/validator", {"argv": ["x"]}, never) == value
    assert [line["type"] for line in lines(path)] == ["intent", "fact"]


def test_an_empty_fact_is_a_fact(path: Path) -> None:
    with opened(path) as record:
        assert record.fact("k", "p", {}, dict) == {}
        assert record.fact("k", "p", {}, never) == {}


@pytest.mark.parametrize(
    "other", [("k2", "p", {"a": 1}), ("k", "p2", {"a": 1}), ("k", "p", {"a": 2})]
)
def test_kind_place_and_key_all_count(path: Path, other: tuple[str, str, dict[str, int]]) -> None:
    with opened(path) as record:
        record.fact("k", "p", {"a": 1}, lambda: {"n": 1})
        assert record.fact(*other, lambda: {"n": 2}) == {"n": 2}
        assert record.fact("k", "p", {"a": 1}, never) == {"n": 1}


def test_the_order_of_names_does_not_count(path: Path) -> None:
    with opened(path) as record:
        record.fact("k", "p", {"a": 1, "b": {"c": 2, "d": 3}}, lambda: {"n": 1})
        assert record.fact("k", "p", {"b": {"d": 3, "c": 2}, "a": 1}, never) == {"n": 1}


def test_many_facts_are_found_among_each_other(path: Path) -> None:
    with opened(path) as record:
        for number in range(50):
            record.fact("k", f"p{number}", {}, partial(dict, n=number))
            assert record.fact("k", f"p{number // 2}", {}, never) == {"n": number // 2}
    with opened(path) as record:
        record.fact("k", "new", {}, lambda: {"n": "new"})
        for number in (49, 0, 17):
            assert record.fact("k", f"p{number}", {}, never) == {"n": number}
        assert record.fact("k", "new", {}, never) == {"n": "new"}


def test_who_asks_for_the_same_at_the_same_time_gets_the_same(path: Path) -> None:
    produced: list[int] = []
    gate = threading.Event()

    def produce() -> dict[str, Any]:
        gate.wait(5)
        produced.append(1)
        return {"n": len(produced)}

    with opened(path) as record, ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(record.fact, "k", "p", {}, produce) for _ in range(8)]
        gate.set()
        assert [future.result(10) for future in futures] == [{"n": 1}] * 8
    assert produced == [1]


def test_the_same_at_different_places_is_asked_for_each(path: Path) -> None:
    with opened(path) as record, ThreadPoolExecutor(8) as pool:
        asked = pool.map(lambda n: record.fact("k", f"p{n}", {}, lambda: {"n": n}), range(40))
        assert [value["n"] for value in asked] == list(range(40))
    assert sum(line["type"] == "fact" for line in lines(path)) == 40


def test_a_failure_is_no_fact_and_the_next_one_asks_again(path: Path) -> None:
    def fail() -> Mapping[str, Any]:
        raise RemoteError(f"away, {SECRET}\n\x1b[2J")

    redact = Redactor({"API_KEY": SECRET}).text
    with opened(path, redact=redact) as record:
        with pytest.raises(RemoteError):
            record.fact("k", "p", {}, fail)
        assert record.fact("k", "p", {}, lambda: {"n": 1}) == {"n": 1}
        assert record.repeated == 0
    kinds = [line["type"] for line in lines(path)]
    assert kinds == ["intent", "failed", "intent", "fact"]
    assert SECRET.encode() not in path.read_bytes()
    assert lines(path)[1]["error"]["what"].isprintable()


def test_secrets_are_gone_before_anybody_sees_the_fact(path: Path) -> None:
    redact = Redactor({"API_KEY": SECRET}).text
    said = {"out": f"key={SECRET}", SECRET: [SECRET, {"deep": f"<{SECRET}>"}], "bad": "\udc80"}
    with opened(path, redact=redact) as record:
        first = record.fact("k", "p", {}, lambda: said)
    assert SECRET not in json.dumps(first)
    assert SECRET.encode() not in path.read_bytes()
    with opened(path) as record:
        assert record.fact("k", "p", {}, never) == first


def test_a_fact_is_on_disk_before_it_is_returned(path: Path) -> None:
    seen: list[list[str]] = []
    with opened(path) as record:

        def produce() -> dict[str, Any]:
            seen.append([row["type"] for row in replay(str(path), live=True)])
            return {}

        record.fact("k", "p", {}, produce)
        seen.append([row["type"] for row in replay(str(path), live=True)])
    assert seen == [["intent"], ["intent", "fact"]]


class Watched(Journal):
    """A journal that remembers which kinds of records it was asked to make durable."""

    def append(self, record: Mapping[str, Any], *, durable: bool = True) -> int:
        self.__dict__.setdefault("asked", []).append((record["type"], durable))
        return super().append(record, durable=durable)


def test_what_costs_money_is_synced_and_what_counts_only_is_not(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rlm_ci.models.record.index.Journal", Watched)
    facts = FactIndex(str(path), writes=True)
    with Record(facts, plain) as record:
        script = ScriptedModel([SpentError("cut", again=True), "hi", RemoteError("away")])
        record.complete(script, Ledger(), question(), "1")
        with pytest.raises(RemoteError):
            record.complete(script, Ledger(), question(), "2")
    assert vars(facts.journal)["asked"] == [
        ("intent", False), ("failed", True), ("intent", False), ("fact", True),
        ("intent", False), ("failed", False),
    ]  # fmt: skip


# -- replay, damage, other versions --------------------------------------------------------------


def test_a_replay_finds_everything_and_writes_nothing(path: Path) -> None:
    with opened(path) as record:
        first = record.complete(ScriptedModel(["hi"]), Ledger(), question(), "1/1")
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    os.chmod(path, 0o400)
    with opened(path, replay_only=True) as record:
        assert record.complete(AbsentModel("scripted"), Ledger(), question(), "1/1") == first
        assert (record.calls, record.replayed) == (0, 1)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    assert sorted(os.listdir(path.parent)) == ["calls.jsonl"]


def test_a_replay_says_where_the_run_ended(path: Path) -> None:
    with opened(path) as record:
        record.fact("k", "1", {"a": 1}, dict)
    with opened(path, replay_only=True) as record:
        with pytest.raises(ConfigError, match="ended before 2 was answered") as caught:
            record.fact("k", "2", {"a": 1}, never)
        assert "resume" in caught.value.hint
        with pytest.raises(ConfigError, match="something else was asked at 1"):
            record.fact("k", "1", {"a": 2}, never)


@pytest.mark.parametrize(
    "error",
    [
        RemoteError("away", where="there", hint="wait"),
        LimitError("used up", budget="max_calls", where="max_calls", hint="raise it"),
        ConfigError("no"),
        ZeroDivisionError("a bug"),
    ],
)
def test_a_replay_ends_as_its_run_did(path: Path, error: Exception) -> None:
    def fail() -> Mapping[str, Any]:
        raise error

    with opened(path) as record, pytest.raises(type(error)):
        record.fact("k", "p", {}, fail)
    lines(path)
    with opened(path, replay_only=True) as record, pytest.raises(RlmCiError) as caught:
        record.fact("k", "p", {}, never)
    if isinstance(error, RlmCiError):
        assert type(caught.value) is type(error)
        assert vars(caught.value) == vars(error)
    else:
        assert (caught.value.code, caught.value.what) == (10, "ZeroDivisionError: a bug")


def test_a_budget_that_ended_a_run_ends_its_replay(path: Path) -> None:
    for more in ({}, {"replay_only": True}):
        with opened(path, **more) as record:
            ledger = Ledger(max_calls=2, spent=record.spent)
            model = AbsentModel("scripted") if more else ScriptedModel(["a", "b", "c"])
            for n in range(2):
                record.complete(model, ledger, question(), f"{n}")
            with pytest.raises(LimitError, match="2 calls") as caught:
                record.complete(model, ledger, question(), "2")
            assert caught.value.budget == "max_calls"


def test_an_absent_model_is_never_asked() -> None:
    with pytest.raises(ConfigError, match="asks no model"):
        AbsentModel("openai").complete(question())


def test_a_replay_needs_a_journal(path: Path) -> None:
    with pytest.raises(DamagedError):
        opened(path, replay_only=True)


def test_damage_is_told_and_nothing_stays_open(path: Path) -> None:
    with opened(path) as record:
        record.fact("k", "1", {}, lambda: {"text": "x" * 100})
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    fds = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for replay_only in (True, False):
        with pytest.raises(DamagedError, match="record 2"):
            opened(path, replay_only=replay_only)
    if fds:
        assert len(os.listdir("/proc/self/fd")) == fds


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"v": 2, "type": "fact"}, "version 2, not 1"),
        ({"type": "fact"}, "version None"),
        ({"v": 1, "type": "fact", "place": "p"}, "not one of a run's calls"),
        ({"v": 1, "type": "other", "place": "p", "key": "k"}, "not one of a run's calls"),
        ({"v": 1, "type": "failed", "place": "p", "key": "k", "charge": {"usage": 5}}, "not one"),
        (
            {"v": 1, "type": "fact", "place": "p", "key": "k", "kind": "completion",
             "cached": False, "value": {"usage": None}},
            "not one of",
        ),
    ],
)  # fmt: skip
def test_records_of_others_are_damage(path: Path, row: dict[str, Any], words: str) -> None:
    with Journal.open(str(path)) as journal:
        journal.append(row)
    with pytest.raises(DamagedError, match=words):
        opened(path)


def forged(path: Path, kind: str, place: str, value: Any, source: Path) -> None:
    """The facts of ``source`` in ``path``, that of ``place`` with another value; all sums right."""
    with Journal.open(str(path)) as journal:
        for row in lines(source):
            told = {name: one for name, one in row.items() if name not in ("seq", "crc")}
            if row["type"] == "fact" and (row["kind"], row["place"]) == (kind, place):
                told["value"] = value
            journal.append(told)


@pytest.mark.parametrize("value", [{}, {"name": {}}, [], None, "text", 7])
def test_a_fact_of_another_shape_is_damage(path: Path, tmp_path: Path, value: Any) -> None:
    """A record whose sum is right and that no run wrote: file and place are named, exit 6."""
    with opened(path) as record:
        record.fact("mode", "start", {}, lambda: {"name": {"deep": 1}, "why": "x"})
    other = tmp_path / "other.jsonl"
    forged(other, "mode", "start", value, path)

    def look() -> None:
        with opened(other) as record:
            told = record.fact("mode", "start", {}, never)
            assert told["name"]["deep"] + len(told["why"]) < 0

    with pytest.raises(DamagedError) as caught:
        look()
    assert caught.value.where == str(other)
    assert "start" in caught.value.what or "record 2" in caught.value.what


@pytest.mark.parametrize("value", [{}, {"goal": "x", "more": 1}])
def test_a_fact_that_something_is_made_of(path: Path, tmp_path: Path, value: Any) -> None:
    def terms(goal: str, most: int) -> tuple[str, int]:
        return goal, most

    def shape(told: Mapping[str, Any]) -> tuple[str, int]:
        return terms(**told)

    with opened(path) as record:
        made = record.shaped("terms", "start", {}, lambda: {"goal": "g", "most": 2}, shape)
        assert made == ("g", 2)
    other = tmp_path / "other.jsonl"
    forged(other, "terms", "start", value, path)
    with opened(other) as record, pytest.raises(DamagedError, match="record for start"):
        record.shaped("terms", "start", {}, never, shape)


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.clear(),
        lambda value: value.update(usage="many"),
        lambda value: value.update(usage={"prompt_tokens": 1}),
        lambda value: value.update(cost="dear"),
        lambda value: value.update(tool_calls=5),
    ],
)
def test_a_completion_of_another_shape_is_damage(
    path: Path, tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    """Its own run's, and one that was taken over from another run's."""
    with opened(path) as record:
        record.complete(ScriptedModel(["hi"]), Ledger(), question(), "1")
    (row,) = (one for one in lines(path) if one["type"] == "fact")
    change(row["value"])
    other = tmp_path / "other.jsonl"
    forged(other, "completion", "1", row["value"], path)
    with pytest.raises(DamagedError, match="record 2 is not one of a run's calls"):
        opened(other)
    cached = tmp_path / "cached.jsonl"
    with Journal.open(str(cached)) as journal:
        journal.append(
            {**{k: v for k, v in row.items() if k not in ("seq", "crc")}, "cached": True}
        )
    with pytest.raises(DamagedError, match="record 1 is not one of a run's calls"):
        opened(cached)


def test_a_torn_tail_is_no_fact(path: Path) -> None:
    with opened(path) as record:
        record.fact("k", "1", {}, lambda: {"n": 1})
        record.fact("k", "2", {}, lambda: {"n": 2})
    whole = path.read_bytes()
    for cut in range(len(whole) - 40, len(whole)):
        path.write_bytes(whole[:cut])
        with opened(path) as record:
            assert record.fact("k", "1", {}, never) == {"n": 1}
            assert record.fact("k", "2", {}, lambda: {"n": 3}) == {"n": 3}
            assert record.repeated == 0, "it was no call of a model"
            assert record.fact("k", "2", {}, never) == {"n": 3}
