"""Calls of models in the record of a run: what they cost, resume, cache, and a kill."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models import Completion, ModelRequest, SpentError, TokenUsage
from rlm_ci.models.budget import BudgetUse, Ledger
from rlm_ci.models.prices import Prices
from rlm_ci.models.record.record import AbsentModel
from rlm_ci.report.findings import Usage
from rlm_ci.runs.journal.journal import replay
from testing.call_records import DIME, ROOT, lines, never, opened
from testing.leftovers import eventually
from testing.loopback_model.replies import Answer, Raw, refusal
from testing.model_clients import Client, question
from testing.scripted_model import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Callable

    from testing.loopback_model.server import ModelServer


# -- completions ---------------------------------------------------------------------------------


def test_a_completion_carries_what_it_cost(path: Path) -> None:
    ledger = Ledger(price=Prices(DIME).of)
    with opened(path) as record:
        model = ScriptedModel([{"text": "hi", "usage": [7, 50]}])
        first = record.complete(model, ledger, question(), "1/1")
        assert first == Completion("hi", (), "stop", "m-1", TokenUsage(7, 50), Decimal("0.005"))
        # Found: it charges nothing.
        assert record.complete(model, ledger, question(), "1/1") == first
        assert (record.calls, record.replayed, len(model.requests)) == (1, 1, 1)
        assert ledger.spent == record.spent == BudgetUse(1, 7, 50, Decimal("0.005"))
        assert record.usage() == {
            "calls": 1, "replayed": 1, "prompt_tokens": 7, "completion_tokens": 50,
            "cost_usd": 0.005,
        }  # fmt: skip
    lines(path)


def test_the_answers_of_a_batch_share_fsyncs_and_end_on_the_disk(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        fsync(descriptor)

    with opened(path) as record:
        monkeypatch.setattr(os, "fsync", watched)
        with record.batch():
            for number in range(100):
                record.complete(ScriptedModel(["hi"]), Ledger(), question(), f"{number}")
            before = len(synced)
            record.fact("command", "1", {}, lambda: {"code": 0})  # alone, as what acts on them
            assert len(synced) == before + 1
            record.complete(ScriptedModel(["hi"]), Ledger(), question(), "the last")
        assert before < 100
        assert synced[-1] == path.stat().st_size
        record.complete(ScriptedModel(["hi"]), Ledger(), question(), "alone")
        assert synced[-1] == path.stat().st_size
    lines(path)


def test_what_nobody_knows_the_price_of_costs_null(path: Path) -> None:
    with opened(path) as record:
        assert record.usage()["cost_usd"] is None
        assert record.complete(ScriptedModel(["hi"]), Ledger(), question(), "p").cost is None
        assert record.usage()["cost_usd"] is None
    lines(path)


def test_usage_that_the_endpoint_kept_to_itself_is_what_was_reserved(path: Path) -> None:
    silent = ScriptedModel([Completion("hi", (), "stop", "m-1")])
    with opened(path) as record:
        answer = record.complete(silent, Ledger(price=Prices(DIME).of), question(), "p")
    assert answer.usage == TokenUsage(question().prompt_bytes(), 100, estimated=True)
    assert answer.cost == Decimal("0.01")


def test_a_resumed_ledger_begins_with_what_was_spent(path: Path) -> None:
    answers = [{"text": "hi", "usage": [1, 1000]}] * 6
    request = question(max_tokens=1000)
    with opened(path) as record:
        ledger = Ledger(budget_usd=Decimal(1), price=Prices(DIME).of)
        for n in range(6):
            record.complete(ScriptedModel(answers), ledger, request, f"{n}")
    with opened(path) as record:
        ledger = Ledger(budget_usd=Decimal(1), price=Prices(DIME).of, spent=record.spent)
        for n in range(10):
            record.complete(ScriptedModel(answers), ledger, request, f"{n}")
        with pytest.raises(LimitError):
            record.complete(ScriptedModel(answers), ledger, request, "10")
        assert (record.calls, record.replayed) == (4, 6)
        assert record.spent.usd == Decimal("1.0")


def test_a_lost_answer_is_charged_and_asked_for_once_more(path: Path) -> None:
    ledger = Ledger(price=Prices(DIME).of, max_calls=2)
    script = ScriptedModel([SpentError("cut", again=True), {"text": "hi", "usage": [1, 10]}])
    with opened(path) as record:
        assert record.complete(script, ledger, question(), "p").text == "hi"
        reserved = question().prompt_bytes()
        assert ledger.spent == BudgetUse(2, reserved + 1, 110, Decimal("0.011"))
        assert record.spent == ledger.spent
    assert [line["type"] for line in lines(path)] == ["intent", "failed", "intent", "fact"]
    with opened(path) as record:
        assert record.spent == ledger.spent


@pytest.mark.parametrize(("again", "asked"), [(True, 2), (False, 1)])
def test_what_stays_lost_is_an_error(path: Path, again: bool, asked: int) -> None:
    script = ScriptedModel([SpentError("cut", again=again, usage=TokenUsage(4, 5))] * 3)
    ledger = Ledger()
    with opened(path) as record, pytest.raises(SpentError, match="cut"):
        record.complete(script, ledger, question(), "p")
    assert len(script.requests) == asked
    assert ledger.spent == BudgetUse(asked, 4 * asked, 5 * asked)


def test_there_is_no_second_try_without_room_for_it(path: Path) -> None:
    script = ScriptedModel([SpentError("cut", again=True)] * 3)
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
                record.complete(ScriptedModel(fail), ledger, question(), "p")
        assert ledger.spent == record.spent == BudgetUse()
        record.complete(ScriptedModel(["hi"]), ledger, question(), "p")


def test_another_provider_or_request_is_another_question(path: Path) -> None:
    with opened(path) as record:
        record.complete(ScriptedModel(["a"]), Ledger(), question(), "p")
        other = ScriptedModel(["b"], name="other")
        assert record.complete(other, Ledger(), question(), "p").text == "b"
        for more in ({"max_tokens": 5}, {"temperature": 0.5}, {"model": "m-2"}):
            assert (
                record.complete(ScriptedModel(["c"]), Ledger(), question(**more), "p").text == "c"
            )


def test_a_call_that_was_begun_and_lost_with_its_process_is_counted(path: Path) -> None:
    with opened(path) as record:
        record.complete(ScriptedModel(["a"]), Ledger(), question(), "p")
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b"\n") + 1])
    with opened(path) as record:
        record.complete(ScriptedModel(["a"]), Ledger(), question(), "p")
        assert (record.calls, record.repeated) == (1, 1)
    with opened(path) as record:
        record.complete(AbsentModel("scripted"), Ledger(), question(), "p")
        assert record.repeated == 0


class Writing:
    """A model that has written some of its answer when something happens."""

    name = "scripted"

    def __init__(self, happens: Callable[[], None]) -> None:
        self._happens = happens

    def complete(self, request: ModelRequest) -> Completion:
        assert request.active is not None
        request.active.add("half of it", 3)
        self._happens()
        return Completion("half of it, and the rest", (), "stop", "m-1", TokenUsage(7, 50))


def interrupt() -> None:
    raise KeyboardInterrupt


def test_what_an_interrupted_answer_has_cost_is_charged_once(path: Path) -> None:
    ledger = Ledger(price=Prices(DIME).of)
    with pytest.raises(KeyboardInterrupt), opened(path) as record:
        record.complete(Writing(interrupt), ledger, question(max_tokens=1000), "p")
    intent, failed = lines(path)
    assert (intent["type"], failed["type"]) == ("intent", "failed")
    assert failed["error"]["what"] == (
        "the run was interrupted, after about 3 tokens of this answer"
    )
    written = TokenUsage(question().prompt_bytes(), len("half of it"), estimated=True)
    assert failed["charge"] == {"usage": written.to_dict(), "cost": "0.001"}
    with opened(path) as record:
        assert record.spent == ledger.spent
        again = record.complete(ScriptedModel(["whole"]), Ledger(), question(max_tokens=1000), "p")
        assert (again.text, record.repeated, record.spent.calls) == ("whole", 0, 2)


def test_an_answer_that_comes_after_the_end_of_the_run_is_not_written(path: Path) -> None:
    """The thread of an answer goes on for a moment after a signal; it is charged already."""
    ledger, over, failed = Ledger(), threading.Event(), []
    record = opened(path)

    def wait() -> None:
        assert over.wait(20)

    def work() -> None:
        try:
            record.complete(Writing(wait), ledger, question(), "p")
        except RemoteError as error:
            failed.append(error.what)

    thread = threading.Thread(target=work)
    thread.start()
    assert eventually(lambda: record.active.shown() != "")
    record.close()
    over.set()
    thread.join(20)
    assert failed == ["the run has ended"]
    assert [line["type"] for line in lines(path)] == ["intent", "failed"]
    assert ledger.spent.calls == 1


class Slow:
    """A model that takes the time that it is given, and then gives up."""

    name = "slow"

    def __init__(self, error: RemoteError) -> None:
        self.given: list[float | None] = []
        self._error = error

    def complete(self, request: ModelRequest) -> Completion:
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
        record.complete(AbsentModel("slow"), Ledger(), question(), "p")
    assert str(again.value) == str(caught.value)
    assert lines(path)[-1]["charge"] is not None


def test_minutes_that_ended_while_nobody_could_be_reached_end_the_run_too(path: Path) -> None:
    ledger = Ledger(max_minutes=0.1 / 60)
    with opened(path) as record, pytest.raises(LimitError) as caught:
        record.complete(Slow(RemoteError("away")), ledger, question(), "p", seconds=50)
    assert caught.value.budget == "max_minutes"
    assert ledger.spent == BudgetUse()


def test_both_tries_of_a_call_share_its_seconds(path: Path) -> None:
    model = Slow(SpentError("cut", again=True))
    with opened(path) as record:
        with pytest.raises(SpentError):
            record.complete(model, Ledger(), question(), "p", seconds=0.2)
        assert len(model.given) == 1, "there is no time for another"

        def lost(request: ModelRequest) -> Completion:
            given.append(request.seconds)
            time.sleep(0.05)
            raise SpentError("cut", again=True)

        given: list[float | None] = []
        with pytest.raises(SpentError):
            record.complete(ScriptedModel(lost), Ledger(), question(), "q", seconds=10)
    first, second = given
    assert first == 10
    assert 5 < (second or 0) <= 9.96


def test_seconds_are_no_part_of_the_question(path: Path) -> None:
    with opened(path) as record:
        record.complete(ScriptedModel(["a"]), Ledger(), question(), "p", seconds=5)
        record.complete(AbsentModel("scripted"), Ledger(max_minutes=1), question(seconds=7), "p")
        assert (record.calls, record.replayed) == (1, 1)


def test_only_completions_are_looked_up_in_other_runs(path: Path, tmp_path: Path) -> None:
    old, broken = tmp_path / "old.jsonl", tmp_path / "broken.jsonl"
    with opened(old) as record:
        for place, text in (("1", "first"), ("2", "second")):
            record.complete(ScriptedModel([text]), Ledger(), question(), place)
        record.fact("command", "1/validator", {"argv": ["x"]}, lambda: {"code": 1})
    broken.write_bytes(b"no journal\n")
    cache = [str(broken), str(tmp_path / "missing.jsonl"), str(old)]
    with opened(path, cache=cache) as record:
        assert record.fact("command", "1/validator", {"argv": ["x"]}, lambda: {"code": 0}) == {
            "code": 0
        }
        found = [
            record.complete(AbsentModel("scripted"), Ledger(), question(), place).text
            for place in ("2", "1", "elsewhere")
        ]
        assert found == ["second", "first", "first"], "the same place first"


def test_other_runs_are_looked_into_only_when_handed_in(path: Path, tmp_path: Path) -> None:
    with opened(tmp_path / "old.jsonl") as record:
        old = record.complete(
            ScriptedModel(["old"]), Ledger(price=Prices(DIME).of), question(), "1"
        )
    with opened(path, cache=[str(tmp_path / "old.jsonl")]) as record:
        ledger = Ledger(max_calls=1)
        found = record.complete(ScriptedModel([]), ledger, question(), "elsewhere")
        assert found == old
        assert record.complete(ScriptedModel(["new"]), ledger, question("other"), "2").text == "new"
        assert ledger.spent.calls == record.spent.calls == 1
        assert record.usage()["replayed"] == 1
    lines(path)
    with opened(path) as record:  # the other run is not needed again
        assert record.complete(AbsentModel("scripted"), Ledger(), question(), "elsewhere") == old
        assert record.spent.calls == 1
    with opened(tmp_path / "third.jsonl") as record:
        assert record.complete(ScriptedModel(["mine"]), Ledger(), question(), "1").text == "mine"


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
            except SpentError:  # lost twice at one place: charged twice, and the next is asked
                continue
        return "never"

    with opened(path) as record, ThreadPoolExecutor(16) as pool:
        assert set(pool.map(work, range(16))) == {"budget_usd"}
        assert llm.bill.calls == 10
        assert ledger.spent.usd == record.spent.usd == Decimal("1.0")
    with opened(path) as record:
        assert record.spent == ledger.spent


def test_refusals_and_lost_answers_over_http(path: Path, llm: ModelServer, client: Client) -> None:
    llm.script([refusal(503, "not now"), Raw(200, b'{"choices": [', cut=5), "whole"])
    ledger = Ledger(max_calls=2)
    with opened(path) as record:
        model = client(llm)
        assert record.complete(model, ledger, question(), "p").text == "whole"
    assert len(llm.asked) == 3
    assert ledger.spent.calls == 2


CHILD = """
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from rlm_ci.models import ModelRequest
from rlm_ci.models.budget import Ledger
from rlm_ci.models.openai.client import OpenAIModel
from rlm_ci.models.record.record import Record

path, url, key = sys.argv[1:]
with Record.open(path, redact=str) as record, OpenAIModel(base_url=url, api_key=key) as model:
    ledger = Ledger(spent=record.spent)

    def work(n):
        request = ModelRequest("m-1", ({"role": "user", "content": f"q{n}"},), 100)
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


@pytest.mark.full
@pytest.mark.parametrize("count", range(1, 24, 4))
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


@pytest.mark.full
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


def test_cached_tokens_are_counted_and_cost_their_own_price(path: Path) -> None:
    figures = {"input_per_million": 10, "output_per_million": 0, "cached_per_million": 1}
    ledger = Ledger(price=Prices({"m-1": figures}).of)
    answer = Completion("hi", (), "stop", "m-1", TokenUsage(1_000_000, 5, 600_000))
    with opened(path) as record:
        said = record.complete(ScriptedModel([answer]), ledger, question(), "p")
        assert said.cost == Decimal("4.6")
    with opened(path) as record:
        usage = record.usage()
    assert (usage["cached_tokens"], usage["cost_usd"]) == (600_000, 4.6)
    assert usage["uncached_cost_usd"] == 10
    assert ledger.spent.cached_tokens == 600_000
    report = Usage.from_dict(usage)
    assert report.to_dict() == usage
