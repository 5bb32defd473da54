"""Planner, implementer, tester and reviewer turn a failing repository green; only one edits."""

from __future__ import annotations

import signal
from functools import partial
from typing import TYPE_CHECKING

import pytest

from rlm_ci.resources import loader
from testing.analyses import FORCED, answer, cast, finding
from testing.fix_stage import BUG, MEND, MENDED, USELESS, alike, call, done
from testing.repl_stage import repl

if TYPE_CHECKING:
    from collections.abc import Callable

    from testing.fix_stage import Outcome, Stage
    from testing.loopback_model.replies import Answer
    from testing.loopback_model.server import Asked

ROLES = ("planner", "implementer", "tester", "reviewer")
LOOP = ("--roles", "superloop", "--no-apply")
#: What each role does before it ends its turn, in the first iteration and in the second.
LINES = {
    "planner": ([call("read", path="calc.py")], []),
    "implementer": ([USELESS], [MEND]),
    "tester": (
        [call("run", command="sed -i 's/a - b/a * b/' calc.py; echo x > junk.txt; cat calc.py")],
        [call("run_tests")],
    ),
    "reviewer": ([call("diff")], []),
}
MAY_EDIT, MAY_RUN = {"implementer"}, {"implementer", "tester"}


def play(asked: Asked) -> Answer:
    """The line that the role of the last prompt takes there."""
    prompts = [at for at, one in enumerate(asked.messages) if one["role"] == "user"]
    prompt = asked.messages[prompts[-1]]["content"]
    [role] = [one for one in ROLES if f"# Your work now: the {one}" in prompt]
    said = [one["content"] for one in asked.messages if one["role"] == "user"]
    iteration = 2 if any("This is iteration 2" in one for one in said) else 1
    tools = {one["function"]["name"] for one in asked.body["tools"]}
    assert ("edit" in tools, "run" in tools) == (role in MAY_EDIT, role in MAY_RUN), role
    lines = LINES[role][iteration - 1]
    turn = sum(one["role"] == "assistant" for one in asked.messages[prompts[-1] :])
    verdict = "Verdict: revise" if role == "reviewer" else "Verdict: accept"  # only one has a say
    return lines[turn] if turn < len(lines) else done(f"The {role}, {iteration}.\n{verdict}")


def has_worked(run: Outcome) -> None:
    assert run.final == "passed"
    loader.validate(run.state, "state.schema.json", "state")
    assert run.state["roles"] == "superloop"
    first, second = (one["turns"] for one in run.state["iterations"])
    assert [one["role"] for one in first] == [one["role"] for one in second] == list(ROLES)
    undone = [one["takenBack"] for one in first + second]
    assert undone == [None, None, "changed: calc.py (+1 -1)\nadded: junk.txt (+1 -0)",
                      *5 * [None]]  # fmt: skip
    assert [one["verdict"] for one in second] == [None, None, None, "revise"]
    assert "the reviewer asks for a revision" in run.report["parts"][0]["summary"]
    patch = run.text("rlm/result.patch")
    assert "+    return a + b" in patch
    assert "junk.txt" not in patch
    assert "a * b" not in patch
    names = {path.name for path in run.folder.glob("rlm/iteration-2/*-answer.md")}
    assert names == {f"{number}-{role}-answer.md" for number, role in enumerate(ROLES, 1)}


#: What the analysis for each role does: it looks, and asks a model.
LOOKS = {"": [repl("print(llm_query(peek()['text']))"), answer(finding(), finding("no.py", 9999))]}
ANALYSED = cast(LOOKS, play, others="It subtracts.")
NAMED = "make the tests of calc.py pass"


@pytest.mark.full
def test_four_roles_turn_it_green_each_with_an_analysis(stage: Stage) -> None:
    stage.llm.script(ANALYSED)
    ended, run = stage.fixed(*LOOP, goal=NAMED, env=FORCED)
    assert ended.code == 0, ended
    has_worked(run)
    for iteration, one in enumerate(run.state["iterations"], 1):
        for turn in one["turns"]:
            name = f"rlm/rlms/{turn['role']}-iter-{iteration}.json"
            result = run.json(name)
            loader.validate(result, "rlms.schema.json", name)
            assert (turn["analysis"], result["ok"], result["metrics"]["subcalls"]) == (
                name,
                True,
                1,
            )
            assert (result["evidence"]["offered"], result["evidence"]["verified"]) == (2, 1)
            [cited] = result["citations"]
            assert (cited["path"], cited["start_line"]) == ("calc.py", 2)
    implementer = run.text("rlm/iteration-2/2-implementer-prompt.md")
    assert "`rlm/rlms/implementer-iter-2.json`" in implementer
    assert "- See calc.py (calc.py:2). It is wrong." in implementer
    assert "no.py" not in implementer
    index = run.json("rlm/rlms/index.json")
    assert index["current"] == {role: f"rlm/rlms/{role}-iter-2.json" for role in ROLES}
    assert "reviewer in iteration 2: rlm/rlms/reviewer-iter-2.json" in run.text("report.json")
    told = "iteration 1: what the tester changed was taken back: changed: calc.py (+1 -1)"
    assert told in ended.stderr
    reviewer = run.text("rlm/iteration-1/4-reviewer-prompt.md")
    assert "added: junk.txt" in reviewer
    for name in ("report.json", "comment.md"):
        assert "taken back" in run.text(name), name


@pytest.mark.full
def test_each_may_have_a_conversation_of_its_own(stage: Stage) -> None:
    stage.llm.script(play)
    ended, run = stage.fixed(*LOOP, env={"RLM_SUBAGENTS": "1"})
    assert ended.code == 0, ended
    has_worked(run)
    planner = run.text("rlm/iteration-2/1-planner-prompt.md")
    assert "The tester, 1." in planner
    assert "The reviewer, 1." in planner


def _has(records: Callable[[], int], number: int) -> bool:
    return records() >= number


@pytest.mark.long
@pytest.mark.full
def test_killed_anywhere_and_resumed_it_ends_the_same(stage: Stage) -> None:
    stage.llm.script(ANALYSED)
    env = {**FORCED, "RLM_GOAL": NAMED, "RLM_CI_LOOP_RLMS_CONTEXT": "all"}
    loop = (*LOOP, "--max-calls", "400", "--budget-usd", "9")
    ended, calm = stage.fixed(*loop, env=env)
    assert ended.code == 0, ended
    expected = alike(calm)
    total = len(calm.lines("calls.jsonl"))
    for number in (9, 17, 60, total - 30):
        stage.llm.asked.clear()
        child, records = stage.begin(*loop, env=env)
        child.kill_when(partial(_has, records, number))
        killed = child.wait() == -signal.SIGKILL
        run = stage.runs()[-1]
        resumed = stage.cli("resume", run.id)
        assert resumed.code == 0, resumed
        assert alike(run) == expected
        repeated = len(stage.llm.completions) - len(run.facts())
        assert repeated in ((0, 1) if killed else (0,))  # the call in flight at the kill


#: A command that edits in every role, and mends as one that may.
SCRIBBLER = """\
#!/bin/sh
prompt=$(cat)
role=$(printf %s "$prompt" | sed -n 's/^# Your work now: the //p')
case $role in
(reviser|implementer) sed -i 's/a - b/a + b/' calc.py;;
(*) sed -i 's/a . b/a * b/' calc.py; echo "$role" >> mine.txt;;
esac
echo "I am the $role. $(seq -s ' ' 2000)"
answer=$(printf %s "$prompt" | sed -n 's/^The whole of it is in `\\(.*\\)`\\.$/\\1/p' | head -n 1)
test "$role" = planner || grep -c "I am the planner. 1 2 3" "$answer"
echo "Summary: Verdict: accept"
"""


@pytest.mark.full
@pytest.mark.parametrize("mode", ["triad", "superloop"])
@pytest.mark.parametrize("sandbox", ["none", "auto"])
def test_only_the_edits_of_the_role_that_edits_stay_with_a_command(
    stage: Stage, mode: str, sandbox: str
) -> None:
    stage.repo.write("agent.sh", SCRIBBLER).commit()
    words = ("--agent", "sh agent.sh", "--roles", mode, "--sandbox", sandbox)
    ended, run = stage.fixed(*words)
    assert (ended.code, run.final) == (0, "passed"), ended
    assert stage.source() == MENDED != BUG
    assert not (stage.repo.path / "mine.txt").exists()
    [turns] = [one["turns"] for one in run.state["iterations"]]
    undone = {one["role"] for one in turns if one["takenBack"]}
    others = {"planner", "critic"} if mode == "triad" else {"planner", "tester", "reviewer"}
    closed = set() if sandbox == "none" else {"planner", "critic", "reviewer"}
    assert undone == others - closed  # a closed tree takes no edits
    for number, turn in enumerate(turns[1:], 2):
        answer = run.text(f"rlm/iteration-1/{number}-{turn['role']}-answer.md")
        assert "\n1\nSummary" in answer, answer[-300:]
