"""Questions that are answered by code: the run from every side, its limits, and its record."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from testing.ask_stage import TELLING, Asking, left, log, prompt_of
from testing.repl_stage import Coder, is_turn, repl

if TYPE_CHECKING:
    pass

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
#: Records of the journal of an undisturbed run.
RECORDS = 48


@pytest.fixture(scope="module")
def calm() -> dict[str, dict[str, str]]:
    return {}


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
    for folder in (run.folder / "rlm/repl").rglob("meta.json"):
        assert {"prompt.txt", "output.txt"} <= {one.name for one in folder.parent.iterdir()}
    assert not list((run.folder / "rlm/repl").rglob("state"))
    checked = stage.cli("verify", run.id)
    assert checked.code == 0, checked
    assert "4 blocks of code, 5 prompts of the model that wrote it, 7 sub-calls" in checked.stdout
    before = len(stage.llm.asked)
    again = stage.cli("replay", run.id, "--check")
    assert again.code == 0, again
    assert left(stage.runs()[-1]) == left(run)
    assert len(stage.llm.asked) == before
    changed = next((run.folder / "rlm/repl/block-2").glob("llm-*/prompt.txt"))
    changed.write_text(changed.read_text().replace("What", "When"))
    found = stage.cli("verify", run.id)
    assert found.code == 1
    assert "prompt.txt is not what was written" in found.stdout
