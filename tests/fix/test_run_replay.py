"""A run taken again from its record: no key, no model, no command, and the same report."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from rlm_ci import __version__
from rlm_ci.runs.journal import reader
from testing.fix_stage import BUG, QUICK, Play, alike, call, done, told_plainly, write
from testing.loopback_model.replies import refusal

if TYPE_CHECKING:
    from testing.fix_stage import Stage

NOTHING = {"OPENAI_API_KEY": None, "OPENAI_BASE_URL": None}
BUSY = Play(*([write("notes.txt", f"{n}\n"), done()] for n in range(99)))
#: How a run ends, by what its model says and what is asked for.
ENDS = {
    "passed": (None, (), 0),
    "max_iterations": (BUSY, ("--max-iterations", "2"), 3),
    "max_calls": (BUSY, ("--max-calls", "3"), 3),
    "max_minutes": (BUSY, ("--max-minutes", "0.02"), 3),
    "no_progress": (Play([done()]), (), 3),
    "tampered": (
        Play([call("write", path="pytest.ini", content="[pytest]\naddopts = -q\n"), done()]),
        ("--validator", "test -e pytest.ini"), 1,
    ),
    "budget_complete": (BUSY, ("--validator", "none", "--max-iterations", "1"), 0),
}  # fmt: skip


#: The others are of the same kind as one of these.
_SAMPLE = {"passed", "max_calls"}


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "status", [one if one in _SAMPLE else pytest.param(one, marks=pytest.mark.full) for one in ENDS]
)
def test_the_report_is_the_same(stage: Stage, status: str) -> None:
    play, arguments, code = ENDS[status]
    if play:
        stage.llm.script(play)
    ended, run = stage.fixed(*arguments)
    assert (ended.code, run.final) == (code, status), ended
    if code == 0:
        stage.repo.write("calc.py", BUG)
    before = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    asked = len(stage.llm.completions)
    stage.llm.stop()
    replayed = stage.cli("replay", run.id, "--check", env={**NOTHING, "PATH": os.environ["PATH"]})
    stage.llm.start()
    assert replayed.code == 0, replayed
    assert "the report is the same" in replayed.stderr
    assert len(stage.llm.completions) == asked
    other = next(one for one in stage.runs() if one.id != run.id)
    assert other.manifest["parent_run_id"] == run.id
    assert (other.final, other.report["usage"]["calls"]) == (status, run.report["usage"]["calls"])
    assert other.report["usage"]["replayed"] == len(run.facts())
    assert {
        key: value for key, value in other.report.items() if key not in ("run_id", "usage")
    } == {key: value for key, value in run.report.items() if key not in ("run_id", "usage")}
    assert _artifacts(alike(other, run)) == _artifacts(alike(run))
    after = {path: path.read_bytes() for path in run.folder.rglob("*") if path.is_file()}
    assert after == before
    if code == 0:
        assert stage.source() == BUG


def _artifacts(found: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in found.items() if name.startswith("rlm/")}


@pytest.mark.full
def test_the_work_tree_may_have_moved_on(stage: Stage) -> None:
    ended, run = stage.fixed("--no-apply")
    assert ended.code == 0, ended
    stage.repo.write("calc.py", "something else\n").write("new.txt", "x").commit()
    replayed = stage.cli("replay", run.id, "--check", env=NOTHING)
    assert replayed.code == 0, replayed
    assert stage.source() == "something else\n"


@pytest.mark.full
def test_a_run_that_was_killed_is_resumed_first(stage: Stage) -> None:
    child = stage.spawn(*stage.words("--no-apply"))
    assert child.kill_when(
        lambda: bool(stage.runs()) and len(stage.only().lines("calls.jsonl")) > 10
    )
    child.wait()
    run = stage.only()
    replayed = stage.cli("replay", run.id, env=NOTHING)
    assert replayed.code == 5, replayed
    assert "hint: resume the run first, then replay it" in replayed.stderr
    assert stage.cli("resume", run.id).code == 0
    assert stage.cli("replay", run.id, "--check", env=NOTHING).code == 0


@pytest.mark.full
def test_a_record_that_was_changed_is_no_record(stage: Stage) -> None:
    ended, run = stage.fixed("--no-apply")
    assert ended.code == 0, ended
    journal = run.folder / "calls.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"a + b", b"a * b"))
    replayed = stage.cli("replay", run.id, "--check", env=NOTHING)
    assert replayed.code == 6, replayed
    assert "calls.jsonl" in replayed.stderr
    assert "Traceback" not in replayed.stderr


@pytest.mark.full
def test_a_report_that_was_changed_differs(stage: Stage) -> None:
    ended, run = stage.fixed("--no-apply", "--validator", QUICK)
    assert ended.code == 0, ended
    path = run.folder / "report.json"
    path.write_text(path.read_text().replace("1 file changed", "9 files changed", 1)
                    .replace("2 files changed", "9 files changed", 1))  # fmt: skip
    replayed = stage.cli("replay", run.id, "--check", env=NOTHING)
    assert replayed.code == 1, replayed
    assert "the report differs in parts" in replayed.stderr


@pytest.mark.full
def test_a_report_with_less_in_it_differs(stage: Stage) -> None:
    ended, run = stage.fixed("--no-apply")
    assert ended.code == 0, ended
    path = run.folder / "report.json"
    whole = json.loads(path.read_text())
    for text, code in (
        ('{"run_id": 1}', 1),
        (json.dumps({key: value for key, value in whole.items() if key != "findings"}), 1),
        (json.dumps(whole | {"more": None}), 1),
        ("[]", 5),
        ("[" * 100_000, 5),
    ):
        path.write_text(text)
        replayed = stage.cli("replay", run.id, "--check", env=NOTHING)
        assert replayed.code == code, (text[:80], replayed)
        assert "the report is the same" not in replayed.stderr
        if code == 1:
            assert "the report differs in" in replayed.stderr
        else:
            told_plainly(replayed)


@pytest.mark.full
def test_a_run_that_ended_in_an_error_is_compared_too(stage: Stage) -> None:
    """'--check: 0 or 1'."""
    stage.llm.script(lambda _asked: refusal(401, "Incorrect API key", code="invalid_api_key"))
    ended, run = stage.fixed()
    assert (ended.code, run.final) == (8, "error"), ended
    replayed = stage.cli("replay", run.id, "--check", env=NOTHING)
    assert replayed.code in (0, 1), replayed
    assert "the replay ended with an error: " in replayed.stderr
    assert ("the report is the same" in replayed.stderr) == (replayed.code == 0)


@pytest.mark.full
def test_a_replay_that_fails_names_the_version_that_made_the_run(stage: Stage) -> None:
    """Another version may have worded its prompts in another way."""
    _, run = stage.fixed()
    calls, report = run.folder / "calls.jsonl", run.folder / "report.json"
    facts = [one for one in run.lines("calls.jsonl") if one["kind"] != "completion"]
    for number, one in enumerate(facts, 1):
        one["seq"] = number
        del one["crc"]
    calls.write_bytes(b"".join(map(reader.to_line, facts)))
    ended = stage.cli("replay", run.id, env=NOTHING)
    assert (ended.code, "the run ended before" in ended.stderr) == (5, True), ended
    assert "made the run" not in ended.stderr
    report.write_text(report.read_text().replace(f'"{__version__}"', '"0.0.9"'))
    ended = stage.cli("replay", run.id, env=NOTHING)
    assert ended.code == 5, ended
    assert f"rlm-ci 0.0.9 made the run, and this is {__version__}" in ended.stderr


@pytest.mark.full
def test_a_replay_that_was_killed_does_not_go_on_with_keys(stage: Stage) -> None:
    ended, run = stage.fixed("--no-apply")
    assert ended.code == 0, ended
    asked = len(stage.llm.completions)
    child = stage.spawn("replay", run.id)
    assert child.kill_when(lambda: len(stage.runs()) == 2 and _has_begun(stage))
    child.wait()
    [replay] = [one for one in stage.runs() if one.id != run.id]
    assert replay.manifest["status"] == "in_progress"
    told = stage.cli("status", replay.id)
    assert f"it cannot be resumed by itself, and belongs to {run.id}" in told.stdout
    refused = stage.cli("resume", replay.id)
    assert refused.code == 2, refused
    told_plainly(refused)
    assert len(stage.llm.completions) == asked


def _has_begun(stage: Stage) -> bool:
    run = stage.runs()[-1]
    is_there = (run.folder / "manifest.json").exists()
    return is_there and bool(run.manifest["status"] == "in_progress")
