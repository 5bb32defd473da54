"""The record of a run's calls: resume, replay, cache, and what stands on the disk when."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import pytest
from llm.replies import Answer, Raw, refusal
from models.asking import question

from rlm_ci.errors import ConfigError, DamagedError, LimitError, RemoteError, RlmCiError
from rlm_ci.models import Completion, Request, SpentError, Usage
from rlm_ci.models.facts import Facts
from rlm_ci.models.ledger import Ledger, Spent
from rlm_ci.models.prices import Prices
from rlm_ci.models.recorded import Absent, Record
from rlm_ci.models.scripted import Scripted
from rlm_ci.redaction import Redactor
from rlm_ci.runs.journal import Journal, replay

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from llm.server import ModelServer

    from rlm_ci.models.openai_api import OpenAIModel

    Client = Callable[..., OpenAIModel]

ROOT = Path(__file__).parents[2]
SCHEMA = jsonschema_rs.validator_for(json.loads((ROOT / "schemas/calls.schema.json").read_text()))
DIME = {"m-1": {"input_per_million": 0, "output_per_million": 100}}
SECRET = "hunter2-hunter2"


def plain(text: str) -> str:
    return text


def opened(path: Path, **more: Any) -> Record:
    return Record.open(str(path), **{"redact": plain, **more})


def never() -> Mapping[str, Any]:
    raise AssertionError("this was answered before")


def lines(path: Path) -> list[dict[str, Any]]:
    """What stands in a journal; each line is held against the schema."""
    found = [json.loads(line) for line in path.read_bytes().splitlines()]
    for record in found:
        SCHEMA.validate(record)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "calls.jsonl"


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


def test_what_costs_money_is_synced_and_what_counts_only_is_not(path: Path) -> None:
    journal = Watched.open(str(path))
    with Record(Facts(str(path)), journal, plain, ()) as record:
        script = Scripted([SpentError("cut", again=True), "hi", RemoteError("away")])
        record.complete(script, Ledger(), question(), "1")
        with pytest.raises(RemoteError):
            record.complete(script, Ledger(), question(), "2")
    assert vars(journal)["asked"] == [
        ("intent", False), ("failed", True), ("intent", False), ("fact", True),
        ("intent", False), ("failed", False),
    ]  # fmt: skip


# -- replay, damage, other versions --------------------------------------------------------------


def test_a_replay_finds_everything_and_writes_nothing(path: Path) -> None:
    with opened(path) as record:
        first = record.complete(Scripted(["hi"]), Ledger(), question(), "1/1")
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    os.chmod(path, 0o400)
    with opened(path, replay_only=True) as record:
        assert record.complete(Absent("scripted"), Ledger(), question(), "1/1") == first
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
            model = Absent("scripted") if more else Scripted(["a", "b", "c"])
            for n in range(2):
                record.complete(model, ledger, question(), f"{n}")
            with pytest.raises(LimitError, match="2 calls") as caught:
                record.complete(model, ledger, question(), "2")
            assert caught.value.budget == "max_calls"


def test_an_absent_model_is_never_asked() -> None:
    with pytest.raises(ConfigError, match="asks no model"):
        Absent("openai").complete(question())


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
        ({"v": 1, "type": "fact", "place": "p"}, "none of a run's calls"),
        ({"v": 1, "type": "other", "place": "p", "key": "k"}, "none of a run's calls"),
        ({"v": 1, "type": "failed", "place": "p", "key": "k", "charge": {"usage": 5}}, "none of"),
        (
            {"v": 1, "type": "fact", "place": "p", "key": "k", "kind": "completion",
             "cached": False, "value": {"usage": None}},
            "none of",
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
    with opened(other) as record, pytest.raises(DamagedError, match="holds for start"):
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
        record.complete(Scripted(["hi"]), Ledger(), question(), "1")
    (row,) = (one for one in lines(path) if one["type"] == "fact")
    change(row["value"])
    other = tmp_path / "other.jsonl"
    forged(other, "completion", "1", row["value"], path)
    with pytest.raises(DamagedError, match="record 2 is none of a run's calls"):
        opened(other)
    cached = tmp_path / "cached.jsonl"
    with Journal.open(str(cached)) as journal:
        journal.append(
            {**{k: v for k, v in row.items() if k not in ("seq", "crc")}, "cached": True}
        )
    with pytest.raises(DamagedError, match="record 1 is none of a run's calls"):
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


# -- completions ---------------------------------------------------------------------------------


def test_a_completion_carries_what_it_cost(path: Path) -> None:
    ledger = Ledger(price=Prices(DIME).of)
    with opened(path) as record:
        model = Scripted([{"text": "hi", "usage": [7, 50]}])
        first = record.complete(model, ledger, question(), "1/1")
        assert first == Completion("hi", (), "stop", "m-1", Usage(7, 50), Decimal("0.005"))
        # Found: it charges nothing.
        assert record.complete(model, ledger, question(), "1/1") == first
        assert (record.calls, record.replayed, len(model.requests)) == (1, 1, 1)
        assert ledger.spent == record.spent == Spent(1, 7, 50, Decimal("0.005"))
        assert record.usage() == {
            "calls": 1, "replayed": 1, "prompt_tokens": 7, "completion_tokens": 50,
            "cost_usd": 0.005,
        }  # fmt: skip
    lines(path)


def test_what_nobody_knows_the_price_of_costs_null(path: Path) -> None:
    with opened(path) as record:
        assert record.usage()["cost_usd"] is None
        assert record.complete(Scripted(["hi"]), Ledger(), question(), "p").cost is None
        assert record.usage()["cost_usd"] is None
    lines(path)


def test_usage_that_the_endpoint_kept_to_itself_is_what_was_reserved(path: Path) -> None:
    silent = Scripted([Completion("hi", (), "stop", "m-1")])
    with opened(path) as record:
        answer = record.complete(silent, Ledger(price=Prices(DIME).of), question(), "p")
    assert answer.usage == Usage(question().prompt_bytes(), 100, estimated=True)
    assert answer.cost == Decimal("0.01")


def test_a_resumed_ledger_begins_with_what_was_spent(path: Path) -> None:
    answers = [{"text": "hi", "usage": [1, 1000]}] * 6
    request = question(max_tokens=1000)
    with opened(path) as record:
        ledger = Ledger(budget_usd=Decimal(1), price=Prices(DIME).of)
        for n in range(6):
            record.complete(Scripted(answers), ledger, request, f"{n}")
    with opened(path) as record:
        ledger = Ledger(budget_usd=Decimal(1), price=Prices(DIME).of, spent=record.spent)
        for n in range(10):
            record.complete(Scripted(answers), ledger, request, f"{n}")
        with pytest.raises(LimitError):
            record.complete(Scripted(answers), ledger, request, "10")
        assert (record.calls, record.replayed) == (4, 6)
        assert record.spent.usd == Decimal("1.0")


def test_a_lost_answer_is_charged_and_asked_for_once_more(path: Path) -> None:
    ledger = Ledger(price=Prices(DIME).of, max_calls=2)
    script = Scripted([SpentError("cut", again=True), {"text": "hi", "usage": [1, 10]}])
    with opened(path) as record:
        assert record.complete(script, ledger, question(), "p").text == "hi"
        reserved = question().prompt_bytes()
        assert ledger.spent == Spent(2, reserved + 1, 110, Decimal("0.011"))
        assert record.spent == ledger.spent
    assert [line["type"] for line in lines(path)] == ["intent", "failed", "intent", "fact"]
    with opened(path) as record:
        assert record.spent == ledger.spent


@pytest.mark.parametrize(("again", "asked"), [(True, 2), (False, 1)])
def test_what_stays_lost_is_an_error(path: Path, again: bool, asked: int) -> None:
    script = Scripted([SpentError("cut", again=again, usage=Usage(4, 5))] * 3)
    ledger = Ledger()
    with opened(path) as record, pytest.raises(SpentError, match="cut"):
        record.complete(script, ledger, question(), "p")
    assert len(script.requests) == asked
    assert ledger.spent == Spent(asked, 4 * asked, 5 * asked)


def test_there_is_no_second_try_without_room_for_it(path: Path) -> None:
    script = Scripted([SpentError("cut", again=True)] * 3)
    ledger = Ledger(max_calls=1)
    with opened(path) as record, pytest.raises(LimitError):
        record.complete(script, ledger, question(), "p")
    assert len(script.requests) == 1


def test_a_refusal_costs_nothing(path: Path) -> None:
    ledger = Ledger(max_calls=1)
    with opened(path) as record:
        for error in (RemoteError("away"), KeyboardInterrupt()):

            def fail(_request: object, error: BaseException = error) -> str:
                raise error

            with pytest.raises(type(error)):
                record.complete(Scripted(fail), ledger, question(), "p")
        assert ledger.spent == record.spent == Spent()
        record.complete(Scripted(["hi"]), ledger, question(), "p")


def test_another_provider_or_request_is_another_question(path: Path) -> None:
    with opened(path) as record:
        record.complete(Scripted(["a"]), Ledger(), question(), "p")
        other = Scripted(["b"], name="other")
        assert record.complete(other, Ledger(), question(), "p").text == "b"
        for more in ({"max_tokens": 5}, {"temperature": 0.5}, {"model": "m-2"}):
            assert record.complete(Scripted(["c"]), Ledger(), question(**more), "p").text == "c"


def test_a_call_that_was_begun_and_lost_with_its_process_is_counted(path: Path) -> None:
    with opened(path) as record:
        record.complete(Scripted(["a"]), Ledger(), question(), "p")
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b"\n") + 1])
    with opened(path) as record:
        record.complete(Scripted(["a"]), Ledger(), question(), "p")
        assert (record.calls, record.repeated) == (1, 1)
    with opened(path) as record:
        record.complete(Absent("scripted"), Ledger(), question(), "p")
        assert record.repeated == 0


class Slow:
    """A model that takes the time that it is given, and then gives up."""

    name = "slow"

    def __init__(self, error: RemoteError) -> None:
        self.given: list[float | None] = []
        self._error = error

    def complete(self, request: Request) -> Completion:
        self.given.append(request.seconds)
        time.sleep(request.seconds or 0)
        raise self._error


def test_the_minutes_of_the_run_end_a_call_and_it_is_charged(path: Path) -> None:
    """Time budgets hold: what a call may take is what is left of the run's minutes."""
    ledger = Ledger(max_minutes=0.2 / 60)
    model = Slow(SpentError("not whole", again=True))
    with opened(path) as record:
        with pytest.raises(LimitError, match="minutes is used up") as caught:
            record.complete(model, ledger, question(), "p", seconds=50)
        assert caught.value.budget == "max_minutes"
        assert ledger.spent == record.spent
        assert ledger.spent.calls == 1
    assert len(model.given) == 1
    assert 0 < (model.given[0] or 0) <= 0.2
    with opened(path, replay_only=True) as record, pytest.raises(LimitError) as again:
        record.complete(Absent("slow"), Ledger(), question(), "p")
    assert str(again.value) == str(caught.value)
    assert lines(path)[-1]["charge"] is not None


def test_minutes_that_ended_while_nobody_could_be_reached_end_the_run_too(path: Path) -> None:
    ledger = Ledger(max_minutes=0.1 / 60)
    with opened(path) as record, pytest.raises(LimitError) as caught:
        record.complete(Slow(RemoteError("away")), ledger, question(), "p", seconds=50)
    assert caught.value.budget == "max_minutes"
    assert ledger.spent == Spent()


def test_both_tries_of_a_call_share_its_seconds(path: Path) -> None:
    model = Slow(SpentError("cut", again=True))
    with opened(path) as record:
        with pytest.raises(SpentError):
            record.complete(model, Ledger(), question(), "p", seconds=0.2)
        assert len(model.given) == 1, "there is no time for another"

        def lost(request: Request) -> Completion:
            given.append(request.seconds)
            time.sleep(0.05)
            raise SpentError("cut", again=True)

        given: list[float | None] = []
        with pytest.raises(SpentError):
            record.complete(Scripted(lost), Ledger(), question(), "q", seconds=10)
    first, second = given
    assert first == 10
    assert 5 < (second or 0) <= 9.96


def test_seconds_are_no_part_of_the_question(path: Path) -> None:
    with opened(path) as record:
        record.complete(Scripted(["a"]), Ledger(), question(), "p", seconds=5)
        record.complete(Absent("scripted"), Ledger(max_minutes=1), question(seconds=7), "p")
        assert (record.calls, record.replayed) == (1, 1)


def test_only_completions_are_looked_up_in_other_runs(path: Path, tmp_path: Path) -> None:
    old, broken = tmp_path / "old.jsonl", tmp_path / "broken.jsonl"
    with opened(old) as record:
        for place, text in (("1", "first"), ("2", "second")):
            record.complete(Scripted([text]), Ledger(), question(), place)
        record.fact("command", "1/validator", {"argv": ["x"]}, lambda: {"code": 1})
    broken.write_bytes(b"no journal\n")
    cache = [str(broken), str(tmp_path / "missing.jsonl"), str(old)]
    with opened(path, cache=cache) as record:
        assert record.fact("command", "1/validator", {"argv": ["x"]}, lambda: {"code": 0}) == {
            "code": 0
        }
        found = [
            record.complete(Absent("scripted"), Ledger(), question(), place).text
            for place in ("2", "1", "elsewhere")
        ]
        assert found == ["second", "first", "first"], "the same place first"


def test_other_runs_are_looked_into_only_when_handed_in(path: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "old.jsonl") as record:
        old = record.complete(Scripted(["old"]), Ledger(price=Prices(DIME).of), question(), "1")
    with opened(path, cache=[str(tmp_path / "old.jsonl")]) as record:
        ledger = Ledger(max_calls=1)
        found = record.complete(Scripted([]), ledger, question(), "elsewhere")
        assert found == old
        assert record.complete(Scripted(["new"]), ledger, question("other"), "2").text == "new"
        assert ledger.spent.calls == record.spent.calls == 1
        assert record.usage()["replayed"] == 1
    lines(path)
    with opened(path) as record:  # the other run is not needed again
        assert record.complete(Absent("scripted"), Ledger(), question(), "elsewhere") == old
        assert record.spent.calls == 1
    with opened(tmp_path / "third.jsonl") as record:
        assert record.complete(Scripted(["mine"]), Ledger(), question(), "1").text == "mine"


# -- over HTTP, from many threads, and through a kill --------------------------------------------


def test_a_dollar_through_everything(path: Path, llm: ModelServer, client: Client) -> None:
    """A model that never finishes at ten cents a call, sixteen threads, some answers lost."""
    lost = iter(range(1000))

    def script(_asked: object) -> Answer | Raw:
        if next(lost) % 4 == 3:
            return Answer("more", usage=(10, 1000), more={"choices": []})
        return Answer("more", usage=(10, 1000), delay=0.005)

    llm.script(script)
    model = client(llm)
    request = question(max_tokens=1000)
    ledger = Ledger(budget_usd=Decimal(1), price=Prices(DIME).of)

    def work(number: int) -> str:
        for turn in range(100):
            try:
                record.complete(model, ledger, request, f"{number}/{turn}")
            except LimitError as error:
                return error.budget
        return "never"

    with opened(path) as record, ThreadPoolExecutor(16) as pool:
        assert set(pool.map(work, range(16))) == {"budget_usd"}
        assert llm.bill.calls == 10
        assert ledger.spent.usd == record.spent.usd == Decimal("1.0")
    with opened(path) as record:
        assert record.spent == ledger.spent


def test_refusals_and_lost_answers_over_http(path: Path, llm: ModelServer, client: Client) -> None:
    llm.script([refusal(503, "not now"), Answer("x", cut_after=2), "whole"])
    ledger = Ledger(max_calls=2)
    with opened(path) as record:
        model = client(llm, progress=lambda _: None)
        assert record.complete(model, ledger, question(), "p").text == "whole"
    assert len(llm.asked) == 3
    assert ledger.spent.calls == 2


CHILD = """
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from rlm_ci.models import Request
from rlm_ci.models.ledger import Ledger
from rlm_ci.models.openai_api import OpenAIModel
from rlm_ci.models.recorded import Record

path, url, key = sys.argv[1:]
with Record.open(path, redact=str) as record, OpenAIModel(base_url=url, api_key=key) as model:
    ledger = Ledger(spent=record.spent)

    def work(n):
        request = Request("m-1", ({"role": "user", "content": f"q{n}"},), 100)
        text = record.complete(model, ledger, request, f"{n}").text
        os.write(1, f"{n} {text}\\n".encode())

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(24)))
    print("counts", record.calls, record.replayed, record.repeated, ledger.spent.calls, flush=True)
"""


def killed_after(path: Path, url: str, key: str, count: int) -> list[str]:
    """Run the child until it has acknowledged ``count`` answers, then kill it; what it said."""
    argv = [sys.executable, "-c", CHILD, str(path), url, key]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout
        said = []
        for line in child.stdout:
            said.append(line.rstrip("\n"))
            if len(said) == count:
                child.send_signal(signal.SIGKILL)
        child.wait(30)
    return said


@pytest.mark.parametrize(
    "count", [7, *(pytest.param(n, marks=pytest.mark.full) for n in range(1, 24) if n != 7)]
)
def test_after_a_kill_no_journalled_answer_is_asked_for_again(
    path: Path, llm: ModelServer, count: int
) -> None:
    llm.script(lambda asked: Answer(asked.messages[0]["content"].upper(), delay=0.01))
    first = killed_after(path, f"{llm.origin}/first", llm.key, count)
    stored = [row for row in replay(str(path)) if row["type"] == "fact"]
    begun = sum(row["type"] == "intent" for row in replay(str(path)))
    # Whatever was acknowledged is there.
    assert {line.split()[0] for line in first} <= {row["place"] for row in stored}

    second = killed_after(path, f"{llm.origin}/second", llm.key, -1)
    texts = dict(line.split() for line in second[:-1])
    assert texts == {str(n): f"Q{n}" for n in range(24)}
    calls, replayed, repeated, paid = map(int, second[-1].split()[1:])
    assert replayed == len(stored)
    assert calls == 24 - len(stored)
    assert repeated == begun - len(stored) <= 4, "no more than were under way"
    assert sum(asked.path.startswith("/second/") for asked in llm.asked) == calls
    assert paid == 24
    lines(path)


# -- size ----------------------------------------------------------------------------------------


def test_answers_are_not_kept_in_memory(path: Path) -> None:
    text = "x" * 100_000
    with opened(path) as record:
        record.fact("k", "warm", {}, lambda: {"text": text})
        gc.collect()
        tracemalloc.start()
        for number in range(100):
            record.fact("k", f"p{number}", {}, lambda: {"text": text})
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
        tracemalloc.stop()
    tracemalloc.start()
    with opened(path) as record:
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
        assert record.fact("k", "p99", {}, never) == {"text": text}
    tracemalloc.stop()
