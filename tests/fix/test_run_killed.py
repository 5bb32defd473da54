"""Killed at any point and resumed: the same end, nothing asked twice, nothing paid twice."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rlm_ci.resources import loader
from testing.fix_stage import MENDED, QUICK, TWO_TURNS, Child, Outcome, Stage, alike, alive
from testing.leftovers import eventually, is_running
from testing.loopback_model.replies import refusal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from testing.loopback_model.replies import Answer, Reply
    from testing.loopback_model.server import Asked

#: Records in the journal of calls of a run that is not disturbed (see ``calm``).
RECORDS = 36


@pytest.fixture(scope="module")
def calm() -> dict[str, dict[str, str]]:
    """What an undisturbed run leaves, made once by the first test that asks."""
    return {}


def undisturbed(stage: Stage, calm: dict[str, dict[str, str]]) -> dict[str, str]:
    """What the same run leaves behind when nobody disturbs it."""
    if not calm:
        ended, run = stage.fixed("--no-apply")
        assert ended.code == 0, ended
        assert len(run.lines("calls.jsonl")) == RECORDS
        calm["run"] = alike(run)
    return calm["run"]


def begun(stage: Stage) -> tuple[Child, Callable[[], int]]:
    """A run under way, and how many records its journal has by now."""
    return stage.begin("--no-apply")


def goes_on(stage: Stage, run: Outcome, expected: dict[str, str]) -> None:
    """Resume it, to the same end, without asking for what is known."""
    known = run.facts()
    resumed = stage.cli("resume", run.id)
    assert resumed.code == 0, resumed
    facts = run.facts()
    # The call in flight at the kill, which may reach the server after it, is asked again: no other.
    calls = [str(one.body) for one in stage.llm.completions]
    repeated = Counter(calls) - Counter(set(calls))
    assert len(set(calls)) == len(facts)
    assert repeated <= Counter(calls[len(known) : len(known) + 1]), repeated
    places = [one["place"] for one in facts]
    assert len(places) == len(set(places))
    report = run.report
    assert report["usage"]["calls"] == len(facts)
    assert report["usage"]["prompt_tokens"] == sum(
        one["value"]["usage"]["prompt_tokens"] for one in facts
    )
    assert alike(run) == expected
    assert run.manifest["status"] == "succeeded"
    again = stage.cli("resume", run.id)
    assert (again.code, "nothing to resume" in again.stderr) == (0, True)
    assert len(stage.llm.completions) == len(calls)


def killed_at(stage: Stage, calm: dict[str, dict[str, str]], number: int) -> None:
    expected = undisturbed(stage, calm)
    stage.llm.asked.clear()
    child, records = begun(stage)
    was_under_way = child.kill_when(lambda: records() >= number)
    code = child.wait()
    run = stage.runs()[-1]
    if was_under_way and code == -signal.SIGKILL:
        assert run.manifest["status"] in ("in_progress", "queued", "succeeded")
        if (run.folder / "rlm/state.json").exists():
            assert not loader.misfit(run.state, "state.schema.json")
    goes_on(stage, run, expected)


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [4, *range(1, RECORDS + 1, 4), RECORDS])
def test_killed_behind_a_record(stage: Stage, calm: dict[str, dict[str, str]], number: int) -> None:
    killed_at(stage, calm, number)


@pytest.mark.full
@pytest.mark.parametrize("hundredths", range(20, 240, 30))
def test_killed_at_a_time(stage: Stage, calm: dict[str, dict[str, str]], hundredths: int) -> None:
    expected = undisturbed(stage, calm)
    stage.llm.asked.clear()
    known = len(stage.runs())
    child, _ = begun(stage)
    time.sleep(hundredths / 100)
    child.process.kill()
    child.wait()
    if len(stage.runs()) == known or not (stage.runs()[-1].folder / "request.json").exists():
        return  # nothing had begun, and nobody was told of a run
    goes_on(stage, stage.runs()[-1], expected)


@pytest.mark.full
def test_killed_again_and_again(stage: Stage, calm: dict[str, dict[str, str]]) -> None:
    """Each process gets a little further, whatever becomes of it."""
    expected = undisturbed(stage, calm)
    stage.llm.asked.clear()
    child, records = begun(stage)
    assert child.kill_when(lambda: records() >= 4)
    child.wait()
    run = stage.runs()[-1]

    def has(number: int) -> bool:
        return records() >= number

    for number in (10, 18, 26):
        child = stage.spawn("resume", run.id)
        child.kill_when(partial(has, number))
        child.wait()
    known = len(run.facts())
    before = len(stage.llm.completions)
    resumed = stage.cli("resume", run.id)
    assert resumed.code == 0, resumed
    repeated = len(stage.llm.completions) - before - (len(run.facts()) - known)
    assert repeated in (0, 1)  # the call in flight at the last kill may be counted only now
    assert alike(run) == expected


@pytest.mark.full
def test_a_torn_record_is_cut_off_and_produced_again(
    stage: Stage, calm: dict[str, dict[str, str]]
) -> None:
    expected = undisturbed(stage, calm)
    stage.llm.asked.clear()
    child, records = begun(stage)
    assert child.kill_when(lambda: records() >= 12)
    child.wait()
    run = stage.runs()[-1]
    journal = run.folder / "calls.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"crc":"0123')
    goes_on(stage, run, expected)


@pytest.mark.full
@pytest.mark.parametrize(
    ("number", "code", "where"),
    [(signal.SIGINT, 130, "agent"), (signal.SIGTERM, 143, "validator")],
)
def test_a_signal_ends_it_at_once(stage: Stage, number: int, code: int, where: str) -> None:
    """While it waits for a model, and while a command runs: no process is left."""
    mark = f"97.{code}{time.monotonic_ns() % 10**9:09}"
    waiting = _Waiting()
    words = stage.words("--no-apply")
    if where == "validator":
        words = stage.words("--no-apply", "--validator", f"sleep {mark}; {QUICK}")
    else:
        stage.llm.script(waiting)

    def ready() -> bool:
        return waiting.asked or alive(mark)

    child = stage.spawn(*words)
    assert eventually(ready, 60)
    below = child.descendants()
    locked = stage.cli("resume", stage.only().id)
    assert (locked.code, "error: " in locked.stderr) == (7, True), locked
    at = time.monotonic()
    child.process.send_signal(number)
    assert child.wait() == code
    assert time.monotonic() - at < 5
    assert eventually(lambda: not any(is_running(pid) for pid in below), 5)
    assert not alive(mark)
    run = stage.only()
    assert (run.manifest["status"], run.manifest["status_detail"]) == ("cancelled", "interrupted")
    assert "Traceback" not in child.stderr
    if where == "agent":
        waiting.over = True
        resumed = stage.cli("resume", run.id)
        assert resumed.code == 0, resumed
        assert run.final == "passed"


class _Waiting:
    """A model that takes its time until it is told not to."""

    def __init__(self) -> None:
        self.asked = self.over = False

    def __call__(self, asked: Asked) -> Answer:
        self.asked = True
        eventually(lambda: self.over, 20)
        return TWO_TURNS(asked)


@pytest.mark.full
def test_a_result_that_was_half_applied_is_applied_whole(stage: Stage) -> None:
    """Killed when the work tree may hold all or nothing of it: it ends with all of it."""
    child = stage.spawn(*stage.words())

    def landing() -> bool:
        return any(
            one["kind"] == "landed" for run in stage.runs() for one in run.lines("calls.jsonl")
        )

    child.kill_when(landing)
    child.wait()
    run = stage.only()
    resumed = stage.cli("resume", run.id)
    assert resumed.code == 0, resumed
    assert stage.source() == MENDED
    assert "not applied" not in run.report["parts"][0]["summary"]


@pytest.mark.full
def test_a_service_that_stays_away_is_waited_for_by_a_resume(stage: Stage) -> None:
    """What was paid for before it went is not asked for again."""

    def play(asked: Asked) -> Reply:
        is_first = "This is iteration 2" not in str(asked.messages)
        return TWO_TURNS(asked) if is_first else refusal(503, "overloaded")

    stage.llm.script(play)
    ended, run = stage.fixed(timeout=120)
    assert (ended.code, run.manifest["status"]) == (8, "failed"), ended
    assert "resume" in ended.stderr
    known, before = len(run.facts()), len(stage.llm.completions)
    assert known == 2
    stage.llm.script(TWO_TURNS)
    resumed = stage.cli("resume", run.id)
    assert resumed.code == 0, resumed
    assert len(stage.llm.completions) - before == len(run.facts()) - known == 3
    assert (run.final, run.report["verdict"]) == ("passed", "clean")
    assert run.report["usage"]["calls"] == 5
    assert stage.source() == MENDED


@pytest.mark.full
def test_a_program_that_is_there_by_now(stage: Stage, tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    env = {"PATH": os.pathsep.join([str(folder), stage.environment()["PATH"] or ""])}
    ended, run = stage.fixed("--validator", "judge-of-mine calc.py", env=env)
    assert (ended.code, run.final) == (4, "error"), ended
    program = folder / "judge-of-mine"
    program.write_text("#!/bin/sh\ngrep -q 'a + b' \"$1\"\n")
    program.chmod(0o755)
    resumed = stage.cli("resume", run.id, env=env)
    assert (resumed.code, run.final) == (0, "passed"), resumed


def test_a_run_that_is_cancelled_is_offered_no_way_on(stage: Stage) -> None:
    mark = f"97.4{time.monotonic_ns() % 10**9:09}"
    child = stage.spawn(*stage.words("--no-apply", "--agent", f"sh -c 'sleep {mark}'"))
    assert eventually(lambda: alive(mark), 60)
    ended = stage.cli("cancel", stage.only().id)
    assert ended.code == 0, ended
    assert child.wait() == 143
    assert "resume" not in child.stderr
    run = stage.only()
    assert (run.manifest["status"], run.manifest["status_detail"]) != ("cancelled", "interrupted")
    assert not list(run.folder.glob(".cancel*"))
