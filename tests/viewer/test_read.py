"""What ``rlm-ci view`` makes of real runs of every kind, whole, damaged and under way."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.git.repository import Repository, discover
from rlm_ci.runs.find import FoundRun
from rlm_ci.runs.journal import reader, spans
from rlm_ci.runs.journal.journal import replay
from rlm_ci.viewer import page, read
from rlm_ci.viewer.folder import RecordedCall, call_step
from rlm_ci.viewer.steps import DONE
from testing import ask_stage, fix_stage
from testing.loopback_model.replies import Answer
from testing.pipelines_stage import Stage
from testing.repl_stage import Coder, repl
from testing.viewed_page import ViewedPage

if TYPE_CHECKING:
    from pathlib import Path

    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is one of Linux")


@pytest.mark.full
def test_a_fix_loop(repo: GitRepo, cli: Cli, llm: ModelServer) -> None:
    llm.script(fix_stage.TWO_TURNS)
    stage = fix_stage.Stage(repo, cli, llm)
    _, run = stage.fixed("--budget-usd", "2")
    told = stage.cli("view", run.id)
    assert told.stdout == f"{run.folder}/view.html\n"
    seen = ViewedPage(run.text("view.html"))
    assert seen.outline()[1:12] == [
        "rlm > Before any edit",
        "rlm > Before any edit > Validator",
        "rlm > Iteration 1",
        "rlm > Iteration 1 > Agent",
        "rlm > Iteration 1 > Agent > Turn 1",
        "rlm > Iteration 1 > Agent > Turn 1 > Answer",
        "rlm > Iteration 1 > Agent > Turn 1 > write notes.txt",
        "rlm > Iteration 1 > Agent > Turn 2",
        "rlm > Iteration 1 > Agent > Turn 2 > Answer",
        "rlm > Iteration 1 > Agent > Turn 2 > done Summary: I did what I could.",
        "rlm > Iteration 1 > Validator",
    ]
    usage = run.report["usage"]
    assert seen.total("calls") == usage["calls"] == 5
    assert seen.total("prompt_tokens") == usage["prompt_tokens"]
    assert seen.total("cost") == pytest.approx(usage["cost_usd"])
    assert seen.record["budgets"] == {"budget_usd": 2.0}
    assert [seen.step(f"Iteration {n}")["status"] for n in (1, 2)] == ["failed", "done"]
    assert seen.step("Iteration 1")["seconds"] > 0
    require_times(seen)
    for step in seen.steps:  # nothing is said twice
        assert not {"Output", "Log"} <= {label for label, *_ in step["texts"]}
        assert len(set(map(tuple, step["facts"]))) == len(step["facts"])
    assert seen.step("Last verdict, in a fresh tree")["start"] > 0
    assert "new: a + b" in seen.text("edit calc.py", "Arguments")
    # Prompts and results of tools are in no file: they are made again.
    assert fix_stage.BUG.splitlines()[0] in seen.text("read calc.py", "Result")
    assert seen.text("Answer", "Prompt", "Turn 3").startswith("── assistant ──\n→ edit")
    assert next(title for title, _ in seen.record["diffs"]) == "The result"
    assert "+    return a + b" in seen.record["diffs"][0][1]
    assert seen.record["problems"] == []
    # The page lies in the folder of the run, and is no evidence of it.
    assert stage.cli("verify", run.id).code == 0
    _damaged(run.folder)


def written(step: Answer) -> Answer:
    """A call as a server leaves it that does not know the model's template."""
    [call] = step.calls
    made = {"name": call.name, "arguments": json.loads(call.arguments)}
    return Answer(f"<tool_call>{json.dumps(made)}</tool_call>")


@pytest.mark.full
def test_a_call_in_the_text_of_an_answer_is_shown_as_one(
    repo: GitRepo, cli: Cli, llm: ModelServer
) -> None:
    turns = fix_stage.call("read", path="calc.py"), fix_stage.MEND, fix_stage.done()
    llm.script(fix_stage.Play([written(turns[0]), *turns[1:]]))
    ended, run = fix_stage.Stage(repo, cli, llm).fixed()
    assert ended.code == 0, ended
    seen = ViewedPage.of(cli("view", run.id, "-o", "-", cwd=repo.path))
    tools = [step for step in seen.steps if step["kind"] == "tool"]
    origin = ["call", "read out of the text of the answer"]
    assert [origin in step["facts"] for step in tools] == [True, False, False]
    assert fix_stage.BUG.splitlines()[0] in seen.text("read calc.py", "Result")


def require_times(seen: ViewedPage) -> None:
    """Each call of a model has its time, within that of the run."""
    calls = [step for step in seen.steps if step["calls"]]
    assert calls
    for one in calls:
        assert 0 < one["start"] <= one["start"] + one["seconds"] <= seen.steps[0]["seconds"] + 0.01


def shown(folder: Path) -> ViewedPage:
    """The page of a run, without the prompts that a repetition gives."""
    here = Repository(*discover(str(folder)), os.environ)
    place = str(folder)
    entry = FoundRun(folder.parents[1].name, folder.name, place, place).read()
    return ViewedPage(page.render(read.read(entry, here, {}), str))


def _damaged(folder: Path) -> None:
    """What can be read is shown, and what cannot is said."""
    calls = folder / "calls.jsonl"
    lines = calls.read_bytes().splitlines(keepends=True)
    calls.write_bytes(b"".join([*lines[:15], lines[15].replace(b"1", b"2", 1), *lines[16:]]))
    (folder / "report.json").write_text("{")
    seen = shown(folder)
    told = "\n".join(seen.record["problems"])
    assert "calls.jsonl: the journal is damaged at record 16" in told
    assert "report.json: it is not JSON" in told
    assert "rlm > Iteration 1 > Agent > Turn 1" in seen.outline()
    record = json.loads((folder / "manifest.json").read_text())
    ended = {"status": "in_progress", "completed_at": None, "exit_code": None, "summary": None}
    (folder / "manifest.json").write_text(json.dumps(record | ended | {"status_detail": None}))
    seen = shown(folder)
    assert "the run has not ended" in str(seen.record["problems"])
    (folder / "manifest.json").write_text("[]")
    seen = shown(folder)
    assert (
        "manifest.json: the manifest is not valid: expected an object, got a list"
        in seen.record["problems"]
    )
    assert seen.record["diffs"]


@pytest.mark.full
def test_a_question(repo: GitRepo, cli: Cli, llm: ModelServer) -> None:
    first, *others = ask_stage.STORY
    asked = {"purpose": "extract", "prompt": "Who?", "chunks": "c000002"}
    llm.script(ask_stage.Script({**first, "maps": [asked]}, *others))
    stage = ask_stage.Asking(repo, cli, llm)
    _, run = stage.ask()
    seen = ViewedPage.of(stage.cli("view", "latest", "-o", "-"))
    assert seen.outline()[1:] == [
        "rlm > Iteration 0",
        "rlm > Iteration 0 > Plan",
        "rlm > Iteration 0 > Search “error”: 2 hits",
        "rlm > Iteration 0 > Search “REFUSED”: 1 hit",
        "rlm > Iteration 0 > Count “(worker-.) ERROR”: 2 hits",
        "rlm > Iteration 0 > Map mp0001 to extract: Who?",
        "rlm > Iteration 0 > Map mp0001 to extract: Who? > Sub-call mp0001-c000002: extract",
        "rlm > Iteration 1",
        "rlm > Iteration 1 > Plan",
        "rlm > Iteration 1 > Read bytes 112,836 to 113,010",
        "rlm > Iteration 1 > Sub-call sc0001: extract",
        "rlm > Iteration 1 > Sub-call sc0002: verify",
        "rlm > Iteration 2",
        "rlm > Iteration 2 > Plan",
    ]
    assert seen.total("calls") == run.report["usage"]["calls"] == 6
    require_times(seen)
    assert seen.step("Map mp0001 to extract: Who?")["start"] > 0
    assert "In short" in seen.text("Map mp0001 to extract: Who?", "Result")
    assert "In short" in seen.text("Sub-call mp0001-c000002: extract", "Answer")
    assert seen.text("Read bytes 112,836 to 113,010", "Text") == "\n".join(ask_stage.TELLING)
    assert ask_stage.QUESTION in seen.text("Sub-call sc0001: extract", "Prompt")
    assert "In short" in seen.text("Sub-call sc0001: extract", "Answer")
    assert ask_stage.ANSWER in seen.record["documents"][0][1]
    llm.script(Coder(repl("print(llm_query('same'))"), "FINAL(yes)"))
    stage.ask("--environment", "repl")
    seen = ViewedPage.of(stage.cli("view", "latest", "-o", "-"))
    assert seen.outline()[1:7] == [
        "rlm > Turn 1",
        "rlm > Turn 1 > Answer",
        "rlm > Turn 1 > repl print(llm_query('same'))",
        "rlm > Turn 1 > repl print(llm_query('same')) > Sub-call 1",
        "rlm > Turn 2",
        "rlm > Turn 2 > Answer",
    ]
    assert seen.text("Sub-call 1", "Prompt") == "same"
    assert seen.step("Turn 1")["seconds"] > 0
    require_times(seen)


@pytest.mark.full
def test_a_review_and_a_wiki(repo: GitRepo, cli: Cli, llm: ModelServer) -> None:
    stage = Stage(repo, cli)
    repo.write(
        "shop/cart.py", "import os\n\n\ndef total(some):\n    return sum(some) / len(some)\n"
    )
    for number in range(16):  # more than a leaf has
        repo.write(f"data/{number}.txt", "a line\n")
    repo.commit()
    claim = {
        "rule": "division-by-zero", "severity": "medium", "domain": "quality", "confidence": 0.8,
        "message": "An empty list.", "path": "shop/cart.py", "line_start": 5, "line_end": 5,
        "quote": "    return sum(some) / len(some)", "suggested_fix": None,
    }  # fmt: skip
    llm.script(lambda _asked: Answer(json.dumps({"findings": [claim], "sentences": []})))
    reach = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}
    for verb, more in (("review", ()), ("wiki", ("--out", "pages"))):
        known = set(stage.ids())
        assert stage.cli(verb, "--model", "gpt-5-mini", *more, env=reach).code in (0, 1, 3)
        [run] = set(stage.ids()) - known
        seen = ViewedPage.of(stage.cli("view", run, "-o", "-"))
        report = json.loads((stage.folder(run) / "report.json").read_text())
        nodes = [step for step in seen.steps if step["kind"] == "node"]
        assert len(nodes) >= 4
        folder = stage.folder(run)
        recorded = spans.read(replay(str(folder / "events.jsonl")))
        answers = [one for one in replay(str(folder / "calls.jsonl")) if one["type"] == "fact"]
        asked_in = {one["span"] for one in answers if one["kind"] == "completion"}
        assert {recorded[one].kind for one in asked_in} == {"node"}
        assert all(recorded[one].seconds is not None for one in asked_in)
        pages = [step["title"] for step in seen.steps if step["kind"] == "page"]
        documents = report["documents"] if verb == "wiki" else []
        assert pages == [one["path"].removeprefix("artifacts/wiki/") for one in documents]
        assert (len(pages) >= 2) == (verb == "wiki")
        assert all(step["seconds"] is not None for step in nodes)
        assert ["decision", "split: too many files"] in nodes[0]["facts"]
        assert seen.total("calls") == report["usage"]["calls"] > 0
        assert seen.record["problems"] == []
        require_times(seen)
        calls = [step for step in seen.steps if step["kind"] == "call"]
        assert all(one["texts"][0][0] == "Prompt" for one in calls)
        by = {one["rule"]: one["steps"] for one in seen.record["findings"]}
        if verb == "review":
            place = by["review/division-by-zero"][0]
            [found] = [one for one in seen.record["findings"] if "division" in one["rule"]]
            assert found["places"][0]["before"] == ["", "", "def total(some):"]
            assert (
                "division-by-zero"
                in dict(map(tuple, (one[:2] for one in seen.steps[place]["texts"])))["Findings"]
            )


JUNK: tuple[Any, ...] = (None, True, -1, 1e308, "x", "", [], {}, [[]], {"a": []}, "iteration-1")


def mixed_up(value: Any, chance: random.Random) -> Any:
    """``value`` with other things in a few places."""
    if chance.random() < 0.03:
        return chance.choice(JUNK)
    if isinstance(value, dict):
        return {name: mixed_up(inner, chance) for name, inner in value.items()}
    if isinstance(value, list):
        return [mixed_up(inner, chance) for inner in value]
    return value


@pytest.mark.full
def test_whatever_the_files_hold_there_is_a_page(
    repo: GitRepo, cli: Cli, llm: ModelServer, tmp_path: Path
) -> None:
    llm.script(fix_stage.TWO_TURNS)
    stage = fix_stage.Stage(repo, cli, llm)
    _, run = stage.fixed()
    chance = random.Random(19)
    for number in range(40):
        folder = tmp_path / "task" / "cli" / f"run-{number}"
        shutil.copytree(run.folder, folder, ignore=shutil.ignore_patterns("git"))
        for path in folder.rglob("*.json"):
            path.write_text(json.dumps(mixed_up(json.loads(path.read_text()), chance)))
        for path in folder.rglob("*.jsonl"):
            lines = []
            for record in map(json.loads, path.read_text().splitlines()):
                kept = {"seq": record["seq"]}
                made = {name: mixed_up(one, chance) for name, one in record.items()} | kept
                made.pop("crc")
                lines.append(reader.to_line(made))
            path.write_bytes(b"".join(lines))
        assert shown(folder).steps


@pytest.mark.full
def test_a_pipeline(repo: GitRepo, cli: Cli) -> None:
    stage = Stage(repo, cli)
    stage.pipeline("nightly", "echo made", "exit 3")
    run = str(stage.start("nightly")["run_id"])
    stage.wait_for(run, "failed")
    seen = ViewedPage.of(stage.cli("view", run, "-o", "-"))
    assert seen.outline() == ["nightly", "nightly > Stage 1", "nightly > Stage 2"]
    assert "made" in seen.text("Stage 1", "Output")
    assert seen.step("Stage 2")["status"] == "failed"


@pytest.mark.full
def test_an_episode_and_a_benchmark(repo: GitRepo, cli: Cli, llm: ModelServer) -> None:
    def says(asked: Asked) -> Answer:
        words = str(asked.messages)
        if "child 7" in words or "look closer" in words.rpartition("user")[2]:
            return Answer(json.dumps({"action": "final", "final_response": "child 7"}))
        return Answer(json.dumps({"action": "delegate", "task": "look closer"}))

    llm.script(says)
    stage = Stage(repo, cli)
    reach = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}
    assert stage.cli("run", "What is it?", "--model", "gpt-4o", env=reach).code == 0
    run = stage.only()
    seen = ViewedPage.of(stage.cli("view", run, "-o", "-"))
    turn = "run > Episode: What is it? > Turn 1"
    assert seen.outline()[1:10] == [
        "run > Episode: What is it?",
        turn,
        f"{turn} > Answer",
        f"{turn} > delegate",
        f"{turn} > delegate > Child 1.1: look closer",
        f"{turn} > delegate > Child 1.1: look closer > Turn 1",
        f"{turn} > delegate > Child 1.1: look closer > Turn 1 > Answer",
        f"{turn} > delegate > Child 1.1: look closer > Turn 1 > final",
        "run > Episode: What is it? > Turn 2",
    ]
    report = json.loads((stage.folder(run) / "report.json").read_text())
    assert seen.total("calls") == report["usage"]["calls"] == 3
    assert "reward" in dict(seen.step("delegate")["facts"])
    assert all(one["texts"][0][0] == "Prompt" for one in seen.steps if one["kind"] == "call")
    case = {
        "case_id": "needle", "completed": True, "score": 0.5, "seconds": 2.0, "task": "find it",
        "usage": {"total_calls": 2, "prompt_tokens": 9, "completion_tokens": 1},
    }  # fmt: skip
    (stage.folder(run) / "rlm" / "benchmark.json").write_text(json.dumps({"case_results": [case]}))
    seen = ViewedPage.of(stage.cli("view", run, "-o", "-"))
    assert seen.outline() == ["run", "run > needle"]
    assert ["score", "0.5"] in seen.step("needle")["facts"]


@pytest.mark.parametrize(
    "extra",
    [
        {"reasoning_content": "I greet."},
        {"reasoning": "I greet.", "reasoning_details": [{"type": "reasoning.text", "text": "I"}]},
        {"reasoning_details": [{"text": "I "}, {"summary": "greet."}, {"data": "b3BhcXVl"}]},
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I greet."}]},
                     {"type": "text", "text": "Hello."}]},
        None,
    ],
)  # fmt: skip
def test_thoughts_stand_beside_their_answer(extra: dict[str, Any] | None) -> None:
    value = {"thoughts": "I greet."} if extra is None else {"extra": extra}
    answer = {"text": "Hello.", **value, "left_out": "huge (2,000,000 bytes)"}
    call = RecordedCall(1, "completion", "turn-1", DONE, answer, {}, {}, False, None, None)
    step = call_step(call, "a call")
    texts = {text.label: text.text for text in step.texts}
    assert texts == {"Thoughts": "I greet.", "Answer": "Hello."}
    assert ("left out", "huge (2,000,000 bytes)") in step.facts
