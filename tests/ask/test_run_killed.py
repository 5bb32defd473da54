"""Killed anywhere and resumed, or taken again from its record: the same bytes, nothing twice."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rlm_ci.runs.journal.journal import replay
from testing.ask_stage import (  # fmt: skip
    CTX,
    LOG,
    NOBODY,
    STORY,
    Asking,
    Script,
    chunk,
    final,
    going_on,
    iteration_of,
    left,
    prompt_of,
    read,
    require_state,
    subcall,
)
from testing.fix_stage import told_plainly
from testing.leftovers import eventually
from testing.loopback_model.replies import Answer

if TYPE_CHECKING:
    from collections.abc import Callable

    from testing.fix_stage import Child, Outcome
    from testing.loopback_model.replies import Reply
    from testing.loopback_model.server import Asked

#: The story, with a plan that is repaired, and sub-calls that are asked twice or refused.
PLAY = Script(
    STORY[0],
    ["I would rather not.", STORY[1]],
    going_on(
        reads=[read("subcall:1:sc0001", 20)],
        subcalls=[
            subcall("subcall:1:sc0002", purpose="verify"),
            subcall(chunk(3), purpose="extract", expected_output="json"),
            subcall(chunk(3), model="no-such-model"),
            subcall(chunk(2), purpose="classify"),
        ],
    ),
    STORY[2],
)
#: Records in the journal of calls of a run that is not disturbed, and the answers among them.
RECORDS, ANSWERS = 90, 11
_ENV = {"RLM_MAX_CONCURRENCY": "3"}


@pytest.fixture(scope="module")
def calm() -> dict[str, dict[str, str]]:
    """What an undisturbed run leaves, made once by the first test that asks."""
    return {}


def undisturbed(stage: Asking, calm: dict[str, dict[str, str]]) -> dict[str, str]:
    """What the same run leaves behind when nobody disturbs it."""
    stage.llm.models = ["gpt-4o-mini"]
    stage.llm.script(PLAY)
    if not calm:
        ended, run = stage.ask(env=_ENV)
        assert ended.code == 0, ended
        assert len(run.lines("calls.jsonl")) == RECORDS
        calm["run"] = left(run)
        stage.llm.asked.clear()
    return calm["run"]


def begun(stage: Asking) -> tuple[Child, Callable[[], int]]:
    """A run under way, and how many records its journal has by now."""
    return stage.begin("--context", LOG, env=_ENV)


def _bodies(stage: Asking, first: int, last: int | None = None) -> list[str]:
    return [prompt_of(one) for one in stage.llm.completions[first:last] if one.status == 200]


def goes_on(stage: Asking, run: Outcome, expected: dict[str, str]) -> None:
    """Resume it, to the same end, without asking for what is known."""
    if (run.folder / "rlm/state.json").exists():
        require_state(run)
    stage.llm.settle()
    known = {one["value"]["text"] for one in run.facts()}
    before = len(stage.llm.completions)
    answered = _bodies(stage, 0)
    resumed = stage.cli("resume", run.id, env=_ENV)
    assert resumed.code == 0, resumed
    # What was said before, and is in the journal, is not asked for again.
    again = set(_bodies(stage, before)) & set(answered)
    told = [one for one in stage.llm.completions[before:] if prompt_of(one) in again]
    assert not {PLAY(one) for one in told if iteration_of(one) is None} & known
    assert len(_bodies(stage, before)) == len(run.facts()) - len(known)
    places = [one["place"] for one in run.facts()]
    assert len(places) == len(set(places)) == ANSWERS
    require_state(run)
    assert left(run) == expected
    assert run.manifest["status"] == "succeeded"
    assert run.report["usage"]["calls"] == ANSWERS
    finished = len(stage.llm.completions)
    again_ended = stage.cli("resume", run.id)
    assert (again_ended.code, "nothing to resume" in again_ended.stderr) == (0, True)
    assert len(stage.llm.completions) == finished


def killed_at(stage: Asking, calm: dict[str, dict[str, str]], number: int) -> None:
    expected = undisturbed(stage, calm)
    child, records = begun(stage)
    child.kill_when(lambda: records() >= number)
    child.wait()
    goes_on(stage, stage.runs()[-1], expected)


@pytest.mark.full
@pytest.mark.parametrize("number", sorted({1, 2, *range(3, RECORDS, 8), RECORDS}))
def test_killed_behind_a_record(
    stage: Asking, calm: dict[str, dict[str, str]], number: int
) -> None:
    """Killed anywhere and resumed: same bytes of report and artifacts, no journalled answer asked
    for again.
    """
    killed_at(stage, calm, number)


@pytest.mark.full
@pytest.mark.parametrize("hundredths", range(20, 160, 28))
def test_killed_at_a_time(stage: Asking, calm: dict[str, dict[str, str]], hundredths: int) -> None:
    expected = undisturbed(stage, calm)
    known = len(stage.runs())
    child, _ = begun(stage)
    time.sleep(hundredths / 100)
    child.process.kill()
    child.wait()
    if len(stage.runs()) == known or not (stage.runs()[-1].folder / "request.json").exists():
        return  # nothing had begun, and nobody was told of a run
    if stage.runs()[-1].manifest["status"] == "succeeded":
        return
    goes_on(stage, stage.runs()[-1], expected)


@pytest.mark.full
def test_killed_again_and_again(stage: Asking, calm: dict[str, dict[str, str]]) -> None:
    """Each process gets a little further, whatever becomes of it."""
    expected = undisturbed(stage, calm)
    child, records = begun(stage)
    assert child.kill_when(lambda: records() >= 4)
    child.wait()
    run = stage.runs()[-1]

    def has(number: int) -> bool:
        return records() >= number

    for number in (12, 20, 28, 36, 44):
        child = stage.spawn("resume", run.id, env=_ENV)
        child.kill_when(partial(has, number))
        child.wait()
    goes_on(stage, run, expected)


@pytest.mark.full
def test_a_torn_record_is_cut_off_and_produced_again(
    stage: Asking, calm: dict[str, dict[str, str]]
) -> None:
    expected = undisturbed(stage, calm)
    child, records = begun(stage)
    assert child.kill_when(lambda: records() >= 20)
    child.wait()
    run = stage.runs()[-1]
    journal = run.folder / "calls.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"crc":"0123')
    goes_on(stage, run, expected)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.full
def test_a_signal_ends_it_at_once(stage: Asking, number: int) -> None:
    """While sub-calls are under way: 130 or 143, nothing hangs, and it goes on when resumed."""
    over = False
    script = Script(going_on(subcalls=[subcall(chunk(1)), subcall(chunk(2))]), final())

    def play(asked: Asked) -> Reply:
        if iteration_of(asked) is None:
            eventually(lambda: over, 20)
        return script(asked)

    stage.llm.script(play)
    child = stage.spawn(*stage.words("--context", LOG))
    assert eventually(lambda: len(stage.subcalls()) == 2, 60)
    at = time.monotonic()
    child.process.send_signal(number)
    assert child.wait(10) == 128 + number
    assert time.monotonic() - at < 5
    assert "Traceback" not in child.stderr
    run = stage.only()
    assert (run.manifest["status"], run.manifest["status_detail"]) == ("cancelled", "interrupted")
    require_state(run)
    over = True
    resumed = stage.cli("resume", run.id)
    assert (resumed.code, run.final) == (0, "passed"), resumed


@pytest.mark.parametrize("is_subcall", [False, True], ids=["plan", "sub-calls"])
@pytest.mark.full
def test_ctrl_c_ends_answers_that_are_being_written_and_charges_them(
    stage: Asking, *, is_subcall: bool
) -> None:
    """On the main thread and on others: 130, what came is charged, the rest is asked again."""
    slow = True
    script = Script(going_on(subcalls=[subcall(chunk(1)), subcall(chunk(2))]), final())

    def play(asked: Asked) -> Reply:
        said = script(asked)
        if slow and isinstance(said, str) and (iteration_of(asked) is None) is is_subcall:
            return Answer(said, drip=0.3)
        return said

    stage.llm.script(play)
    child = stage.spawn(*stage.words("--context", LOG))
    number, calls = (2, 3) if is_subcall else (1, 1)

    def is_written() -> bool:
        number = len(stage.llm.completions)
        return number == calls and time.monotonic() - stage.llm.completions[-1].at > 1.5

    assert eventually(is_written, 60)
    at = time.monotonic()
    child.process.send_signal(signal.SIGINT)
    assert child.wait(10) == 130
    assert time.monotonic() - at < 5
    assert "Traceback" not in child.stderr
    run = stage.only()
    records = list(replay(str(run.folder / "calls.jsonl")))
    lost = [one for one in records if one["type"] == "failed"]
    assert len(lost) == number
    for one in lost:
        assert one["error"]["what"].startswith("the run was interrupted, after about ")
        written = one["charge"]["usage"]
        assert written["estimated"]
        assert 0 < written["completion_tokens"] < 120, "no more than came"
    answered = sum(one["type"] == "fact" and one["kind"] == "completion" for one in records)
    slow = False
    asked = len(stage.llm.completions)
    resumed = stage.cli("resume", run.id)
    assert (resumed.code, run.final) == (0, "passed"), resumed
    usage = run.report["usage"]
    again = len(stage.llm.completions) - asked
    assert usage["calls"] == len(stage.llm.completions), "each is charged once"
    assert again == len(stage.llm.completions) - answered - number, "none that was answered"


@pytest.mark.full
def test_a_stream_that_is_gone_cannot_be_read_again(stage: Asking) -> None:
    """A context from standard input is in the run, once it was read; before that it is lost."""
    stage.llm.script(Script(going_on("pause"), final()))
    ended, run = stage.ask(context="-", stdin=b"one\ntwo\n" * 100)
    assert ended.code == 3, ended
    assert stage.cli("resume", run.id).code == 0


# ── replayed ──


def test_replayed_without_a_key_and_a_network(
    stage: Asking, calm: dict[str, dict[str, str]]
) -> None:
    """Replayed without a key and network: same bytes; the run stays untouched."""
    expected = undisturbed(stage, calm)
    if not stage.runs():
        ended, _ = stage.ask(env=_ENV)
        assert ended.code == 0, ended
    run = stage.only()
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    stage.llm.stop()
    stage.repo.write(LOG, "something else\n").commit()
    replayed = stage.cli("replay", run.id, "--check", env={**NOBODY, "PATH": os.environ["PATH"]})
    stage.llm.start()
    assert replayed.code == 0, replayed
    assert "the report is the same" in replayed.stderr
    [other] = [one for one in stage.runs() if one.id != run.id]
    require_state(other)
    assert left(other) == left(run) == expected
    assert other.report["usage"]["replayed"] == len(run.facts())
    assert {path: path.read_bytes() for path in before} == before
    assert other.manifest["parent_run_id"] == run.id


@pytest.mark.full
def test_a_run_that_was_killed_is_resumed_first(stage: Asking) -> None:
    stage.llm.script(PLAY)
    child, records = begun(stage)
    assert child.kill_when(lambda: records() >= 15)
    child.wait()
    run = stage.only()
    replayed = stage.cli("replay", run.id, env=NOBODY)
    assert replayed.code == 5, replayed
    told_plainly(replayed)
    assert "hint: resume the run first" in replayed.stderr


@pytest.mark.full
def test_a_replay_ends_as_a_run_that_failed_did(stage: Asking) -> None:
    """Bad plans twice are bad in a replay as well, and leave the same behind."""
    stage.llm.script(Script(going_on(searches=[{"query": "x"}]), ["no", f"{CTX} no"]))
    ended, run = stage.ask()
    assert ended.code == 5, ended
    replayed = stage.cli("replay", run.id, "--check", env=NOBODY)
    assert replayed.code == 0, replayed
    [other] = [one for one in stage.runs() if one.id != run.id]
    assert left(other) == left(run)
