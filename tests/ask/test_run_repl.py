"""Questions that are answered by code: the run from every side, its limits, and its record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from testing.ask_stage import LOG, TELLING, Asking, left, log, prompt_of, require_state
from testing.repl_stage import Coder, is_turn, repl

if TYPE_CHECKING:
    from testing.fix_stage import Outcome

_REPL = ("--environment", "repl")
#: Look, ask about parts side by side, count, and cite what was printed.
STORY = Coder(
    "First I look.\n" + repl("import random, time\nlines = context.split('\\n')\n"
    "errors = [(n, line) for n, line in enumerate(lines, 1) if 'ERROR' in line]\n"
    "mark = random.random(), time.time()\nprint(mark)\nprint(*errors, sep='\\n')"),
    repl("parts = [lines[at : at + 500] for at in range(500, 3000, 500)]\n"
    "got = llm_query_batched(['What is it?\\n' + '\\n'.join(one) for one in parts])\n"
    "got.append(llm_query('same'))\ngot.append(llm_query('same'))\nprint(got)"),
    "I am sure that\nthis is all.",
    "I have it.\n\nFINAL_VAR(nothing)",
    repl("answer['content'] = f'{len(errors)} errors, {len(got)} parts, {mark} "
    "[service.log:{errors[0][0]}], and [service.log:7]'\nanswer['ready'] = True"),
)  # fmt: skip


def test_it_counts_all_of_a_text_and_cites_what_it_printed(stage: Asking) -> None:
    """State, report, artifacts, citations; verify and replay agree, and a change is found."""
    stage.llm.script(STORY)
    ended, run = stage.ask(*_REPL)
    assert ended.code == 0, ended
    answer = (run.folder / "rlm/answer.md").read_text()
    assert re.match(r"2 errors, 7 parts, .* \[service\.log:2000\], and ", answer), answer
    assert "[unverified: service.log:7]" in answer  # no model was shown it
    assert "1 citation verified; 1 could not be verified" in ended.stdout
    [part] = run.report["parts"]
    metrics = part["metrics"]
    assert (metrics["environment"], metrics["sandbox"]) == ("repl", "bubblewrap")
    assert (metrics["turns"], metrics["blocks"], metrics["subcalls"]) == (5, 4, 7)
    assert run.manifest["sandbox"] == "bubblewrap"
    turns = [one for one in stage.llm.completions if is_turn(one)]
    assert len(turns) == 5
    assert "no FINAL(...)" in prompt_of(turns[3])
    assert "there is no variable 'nothing'" in prompt_of(turns[4])
    assert all(len(prompt_of(one)) < len(log()) / 10 for one in turns)
    assert TELLING[0] in prompt_of(turns[1])
    assert len((run.folder / "rlm/repl/block-2/queries.jsonl").read_text().splitlines()) == 7
    assert not list((run.folder / "rlm/repl").rglob("state"))
    checked = stage.cli("verify", run.id)
    assert checked.code == 0, checked
    assert "4 blocks of code, 5 prompts of the model that wrote it, 7 sub-calls" in checked.stdout
    before = len(stage.llm.completions)
    again = stage.cli("replay", run.id, "--check")
    assert again.code == 0, again
    assert left(stage.runs()[-1]) == left(run)
    assert len(stage.llm.completions) == before
    changed = run.folder / "rlm/repl/block-2/queries.jsonl"
    changed.write_text(changed.read_text().replace("What", "When"))
    found = stage.cli("verify", run.id)
    assert found.code == 1
    assert "✗ rlm/repl/block-2/queries.jsonl: it is not what the run wrote" in found.stdout
    assert "✗ report.json: it cannot be made again from the record" in found.stdout


def parts_of(stage: Asking) -> list[str]:
    """All prompts of sub-calls so far that were answered."""
    return [
        prompt_of(one) for one in stage.llm.completions if not is_turn(one) and one.status == 200
    ]


def marks(run: Outcome) -> set[str]:
    """The random numbers and times of a run, wherever they are."""
    texts = [
        one.read_text() for one in (run.folder / "rlm").rglob("*.txt") if "context" not in one.parts
    ]
    texts.append((run.folder / "rlm/answer.md").read_text())
    return {found for text in texts for found in re.findall(r"\(0\.\d+, 1\d{9}\.\d+\)", text)}


@pytest.mark.full
@pytest.mark.parametrize("number", [2, 7, 11, 14, 20, 26, 34, 42])
def test_killed_and_resumed(stage: Asking, number: int) -> None:
    """Its variables are as they were, and nothing that was answered is asked again."""
    stage.llm.script(STORY)
    child, records = stage.begin("--context", LOG, *_REPL)
    assert child.kill_when(lambda: records() >= number)
    child.wait()
    run = stage.runs()[-1]
    stage.llm.settle()
    known = len([one for one in run.facts() if "llm-" in one["place"]])
    before = len(parts_of(stage))
    resumed = stage.cli("resume", run.id)
    assert resumed.code == 0, resumed
    require_state(run)
    assert len(parts_of(stage)) - before == 7 - known
    assert len(marks(run)) == 1
    assert stage.cli("verify", run.id).code == 0


def test_a_budget_ends_it_with_what_it_has(stage: Asking) -> None:
    """Also without a sandbox, which the report and the manifest say."""
    stage.llm.script(
        Coder(
            repl("answer['content'] = f'{len(context):,} characters'\nprint(context[:40])"),
            repl("llm_query_batched(['one', 'two', 'three'])\nanswer['content'] = 'wrong'"),
        )
    )
    ended, run = stage.ask(
        *_REPL, "--max-calls", "4", "--sandbox", "none", env={"RLM_MAX_CONCURRENCY": "1"}
    )
    assert ended.code == 3, ended
    assert run.final == "max_calls"
    answer = (run.folder / "rlm/answer.md").read_text()
    assert answer.startswith("(Not final: the budget of 4 calls is used up.)\n")
    assert answer.endswith(f"\n{len(log()):,} characters\n")
    summary = run.report["parts"][0]["summary"]
    assert summary.endswith("the answer is what it had by then; its code ran without a sandbox")
    assert (run.report["verdict"], run.manifest["sandbox"]) == ("incomplete", "none")
    assert run.report["usage"]["calls"] == 4
    require_state(run)
    again = stage.cli("replay", run.id, "--check")
    assert (again.code, "the report is the same" in again.stderr) == (0, True), again


def test_a_fix_loop_has_no_repl(stage: Asking) -> None:
    ended = stage.cli(*stage.words("--mode", "iterative", *_REPL))
    assert ended.code == 2, ended
    assert "a fix loop has no REPL (--environment)" in ended.stderr


@pytest.mark.full
def test_killed_in_a_block_that_asks_something_else_when_it_runs_again(stage: Asking) -> None:
    """What the first process has asked is paid, and is no part of the answer's evidence."""
    code = "import random\ngot = llm_query_batched([str(random.random()) for _ in range(9)])"
    stage.llm.script(Coder(repl(f"{code}\nFINAL(len(got))")))
    child, records = stage.begin("--context", LOG, *_REPL)
    assert child.kill_when(lambda: records() >= 17)
    child.wait()
    run = stage.runs()[-1]
    resumed = stage.cli("resume", run.id)
    assert resumed.code == 0, resumed
    assert (run.folder / "rlm/answer.md").read_text() == "9\n"
    assert len(run.facts()) > 10
    checked = stage.cli("verify", run.id)
    assert checked.code == 0, checked
    assert "1 prompt of the model that wrote it, 9 sub-calls" in checked.stdout
    assert stage.cli("replay", run.id, "--check").code == 0
