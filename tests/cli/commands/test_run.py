"""``rlm-ci run`` from the command line to its files, in the real sandbox."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from testing.fix_stage import Stage
from testing.loopback_model.fixture import llm

if TYPE_CHECKING:
    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]


def action(name: str, **arguments: Any) -> str:
    return json.dumps({"action": name, **arguments})


def story(asked: Asked) -> str:
    """Compute it, then answer with what was printed."""
    said = asked.messages[-1]["content"]
    if "5050" in said:
        return action("final", final_response="It is 5050.")
    return action("run_python", code="print(sum(range(101)))")


@pytest.fixture
def stage(repo: GitRepo, cli: Cli, llm: ModelServer) -> Stage:
    llm.script(story)
    return Stage(repo, cli, llm)


def test_a_task_is_solved_and_its_run_is_one_like_any_other(stage: Stage) -> None:
    ended = stage.cli("run", "Sum 1 to 100", "--model", "m", "--max-steps", "1")
    assert ended.code == 3, ended
    assert "not done after 1 turn" in ended.stdout
    run = stage.only()
    resumed = stage.cli("resume", run.id, "--max-iterations", "3")
    assert resumed.code == 0, resumed
    assert resumed.stdout.startswith("It is 5050.\n"), resumed
    assert len(stage.llm.completions) == 2
    assert run.json("run.json")["final_reward"] == 1.8
    assert run.manifest["sandbox"] == "bubblewrap"
    assert run.report["parts"][0]["summary"] == "solved in 2 steps, reward 1.8"
    verified = stage.cli("verify", run.id)
    assert verified.code == 0, verified
    assert "rebuilt from its record" in verified.stdout
    replayed = stage.cli("replay", run.id, "--check", env={"OPENAI_BASE_URL": None})
    assert replayed.code == 0, replayed
    for name in ("run.json", "rlm/trajectory.jsonl", "rlm/answer.md"):
        path = run.folder / name
        kept = path.read_text()
        path.write_text(kept.replace("5050", "5051", 1))
        assert path.read_text() != kept
    differs = stage.cli("replay", run.id, "--check")
    assert differs.code == 1
    told = "it is not what the record of the run gives"
    for name in ("run.json", "rlm/trajectory.jsonl", "rlm/answer.md"):
        assert f"{name}: {told}" in differs.stderr, differs


def test_a_wrong_environment_is_an_error_that_lists_the_known_ones(stage: Stage) -> None:
    ended = stage.cli("run", "Sum", "--model", "m", "--environment", "nowhere")
    assert ended.code == 5, ended
    assert "pure_rlm" in ended.stderr


def mending(asked: Asked) -> str:
    """Mend the bug by the actions of rlm-code; look at the result of each."""
    said = asked.messages[-1]["content"]
    if "a + b" in said:
        return action("run_tests")
    if "it passes" in said:
        return action("final", final_response="It adds now.")
    return action("patch_file", path="calc.py", search="a - b", replace="a + b")


@pytest.mark.full
def test_code_is_mended_in_a_copy_and_applied_at_the_end(stage: Stage) -> None:
    stage.llm.script(mending)
    tests = "python -m pytest -q -p no:cacheprovider"
    words = ("--environment", "dspy", "--branch-width", "2", "--validator", tests, "--model", "m")
    ended = stage.cli("run", "Mend add", *words)
    assert ended.code == 0, ended
    assert "1 file changed, applied\n" in ended.stdout
    assert "a + b" in stage.source()
    run = stage.only()
    [first, *_] = [one["value"] for one in run.facts("branches")]
    assert first["scores"] == [0.35, 0.35]
    assert "+    return a + b" in run.text("rlm/result.patch")
    assert stage.cli("verify", run.id).code == 0
    stage.repo.run("checkout", "calc.py")
    for where in ("", "true"):  # it is applied where it began, and replayed anywhere
        assert stage.cli("replay", run.id, "--check", env={"CI": where}).code == 0
    assert "a - b" in stage.source()
    edit = action("patch_file", path="calc.py", search="a - b", replace="a + b")
    stage.llm.script([edit, action("final", final_response="It adds now.")])
    ended = stage.cli("run", "Mend add", "--environment", "dspy", "--model", "m")
    assert "applied; nothing tested it (no validator)" in " ".join(ended.stdout.split())


def counting(asked: Asked) -> str:
    """Count in the whole text by code, ask a child about its beginning, answer."""
    said = "\n".join(one["content"] for one in asked.messages)
    if "what is first" in said and "how many" not in said:
        return "```repl\nFINAL(context.splitlines()[0])\n```"
    if "MANY" in asked.messages[-1]["content"]:
        return "```repl\nanswer['content'] = f'{n} after {first}'\nanswer['ready'] = True\n```"
    return (
        "```repl\nn = context.count('failed')\n"
        "first = rlm_query('what is first?', context=context[:20])\nprint('MANY')\n```"
    )


@pytest.mark.full
def test_a_context_is_a_variable_of_the_repl(stage: Stage) -> None:
    stage.llm.script(counting)
    stage.repo.write("app.log", "begin\n" + "order failed\n" * 5000)
    words = ("--environment", "pure_rlm", "--context", "app.log", "--model", "m")
    ended = stage.cli("run", "how many orders?", *words, "--max-steps", "1")
    assert ended.code == 3, ended
    run = stage.only()
    for name in ("monty", "none"):
        refused = stage.cli("resume", run.id, "--max-iterations", "4", "--sandbox", name)
        assert (refused.code, "continues in it" in refused.stderr) == (5, True), refused
    resumed = stage.cli("resume", run.id, "--max-iterations", "4")
    assert resumed.code == 0, resumed
    assert resumed.stdout.startswith("5000 after begin\n"), resumed
    assert not any("order failed" in str(one.body) for one in stage.llm.completions)
    assert len(list(run.folder.glob("rlm/children/*.jsonl"))) == 1
    assert stage.cli("verify", run.id).code == 0
    assert stage.cli("replay", run.id, "--check").code == 0
