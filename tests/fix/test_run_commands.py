"""Commands of the built-in agent: in the sandbox, recorded, bounded; and how it gives up."""

from __future__ import annotations

import pytest

from testing.fix_stage import MEND, MENDED, USELESS, Play, Stage, call, done

SED = "sed -i 's/a - b/a + b/' calc.py && cat calc.py"


def results(stage: Stage) -> list[str]:
    """What the tools have answered, up to the last request."""
    return [one["content"] for one in stage.llm.completions[-1].messages if one["role"] == "tool"]


def test_a_command_may_change_the_copy(stage: Stage) -> None:
    stage.llm.script(Play([call("run", command=SED), call("diff"), done()]))
    ended, run = stage.fixed()
    assert ended.code == 0, ended
    assert stage.source() == MENDED
    said, shown = results(stage)
    assert said.startswith("The command ended: exit code 0, ")
    assert "return a + b" in said
    assert "+    return a + b" in shown
    [fact] = run.facts("command")
    assert fact["value"]["command"] == SED
    assert stage.cli("replay", run.id, "--check", env={"OPENAI_API_KEY": None}).code == 0


def test_it_reaches_no_network_and_no_secret(stage: Stage) -> None:
    host, port = stage.llm.origin.removeprefix("http://").split(":")
    look = f"env; python3 -c 'import socket; socket.create_connection((\"{host}\", {port}))'; id -u"
    stage.llm.script(Play([call("run", command=look), MEND, done()]))
    assert stage.fixed()[0].code == 0
    said = results(stage)[0]
    assert "Error" in said
    assert stage.llm.key not in said
    assert "OPENAI" not in said
    assert len(stage.llm.completions) == 3


@pytest.mark.full
@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        ("sleep 60", "stopped after"),
        ("exit 3", "exit code 3"),
        ("seq 1000000", "left out"),
        ("kill -9 $$", "SIGKILL"),
        ("rm -rf .git; mkdir .git; echo x > .git/config; ls", "exit code 0"),
        ("nohup sleep 600 >/dev/null 2>&1 &", "exit code 0"),
    ],
)
def test_a_command_is_bounded(stage: Stage, command: str, wanted: str) -> None:
    stage.llm.script(Play([call("run", command=command), MEND, done()]))
    ended, _ = stage.fixed(env={"RLM_CI_LOOP_COMMAND_SECONDS": "2"})
    assert ended.code == 0, ended
    said = results(stage)[0]
    assert wanted in said
    assert len(said) < 21_000
    assert stage.source() == MENDED


@pytest.mark.full
def test_a_killed_run_runs_no_command_twice(stage: Stage) -> None:
    count = "echo x >> count.txt; sed -i 's/a - b/a + b/' calc.py"
    slow = call("run", command="true")
    stage.llm.script(Play([call("run", command=count), slow, slow, slow, done()]))
    child, records = stage.begin()
    child.kill_when(lambda: records() >= 9)
    child.wait()
    run = stage.runs()[0]
    assert stage.cli("resume", run.id).code == 0
    assert stage.source("count.txt") == "x\n"
    assert stage.source() == MENDED


@pytest.mark.sample(1)
@pytest.mark.parametrize(("more", "has"), [((), False), (("--run-without-sandbox",), True)])
def test_without_a_sandbox_commands_must_be_asked_for(
    stage: Stage, more: tuple[str, ...], *, has: bool
) -> None:
    stage.repo.write("rlm-ci.toml", "[loop]\ncommand_seconds = 9\n").commit()
    stage.llm.script(Play([MEND, done()]))
    assert stage.fixed("--sandbox", "none", *more)[0].code == 0
    asked = stage.llm.completions[-1]
    names = {one["function"]["name"] for one in asked.body["tools"]}
    assert ("run" in names) is has
    assert ("There is no shell" in asked.messages[0]["content"]) is not has


def test_no_file_may_allow_it(stage: Stage) -> None:
    stage.repo.write("rlm-ci.toml", "[loop]\nrun_without_sandbox = true\n").commit()
    ended = stage.rlm()
    assert ended.code == 5, ended
    assert "run_without_sandbox" in ended.stderr


def test_a_blocked_agent_ends_the_run_and_says_why(stage: Stage) -> None:
    why = "The tests need a database, which is not running."
    stage.llm.script(Play([call("blocked", reason=why)]))
    ended, run = stage.fixed()
    assert (ended.code, run.final) == (3, "blocked"), ended
    assert "Blocked" in ended.stdout
    for text in (ended.stdout, run.text("comment.md"), run.state["final"]["reason"]):
        assert "a database" in " ".join(text.split())
    assert run.manifest["status_detail"] == "blocked"


@pytest.mark.full
def test_a_blocked_agent_may_have_been_wrong(stage: Stage) -> None:
    stage.llm.script(Play([MEND, call("blocked", reason="I give up.")]))
    assert stage.fixed()[1].final == "passed"
    assert stage.source() == MENDED


def test_restore_puts_the_start_back(stage: Stage) -> None:
    stage.llm.script(
        Play(
            [
                call("run", command="rm calc.py; echo x > test_calc.py; echo y > new.txt"),
                call("restore", path="calc.py"),
                call("restore", path="test_calc.py"),
                call("restore", path="new.txt"),
                call("restore", path="new.txt"),
                MEND,
                done(),
            ]
        )
    )
    assert stage.fixed()[0].code == 0
    assert results(stage)[1:5] == [
        "calc.py is as it was.",
        "test_calc.py is as it was.",
        "new.txt is as it was.",
        "Nothing has changed at new.txt.",
    ]
    assert (stage.repo.path / "new.txt").exists() is False


@pytest.mark.full
def test_people_read_what_the_agent_said_and_which_files_it_changed(stage: Stage) -> None:
    stage.llm.script(Play([MEND, done("I added the numbers, see </sub> @octocat.")]))
    ended, run = stage.fixed()
    assert "The agent says: I added the numbers" in ended.stdout
    assert "changed: calc.py (+1 -1)" in ended.stdout
    comment = run.text("comment.md")
    assert "> changed: calc.py (+1 -1)  \n\n" in comment
    assert "</sub> @octocat" not in comment
    [document] = run.report["documents"]
    assert document["shown"] is True
    assert stage.cli("verify", run.id).code == 0


@pytest.mark.full
def test_last_words_stand_before_what_still_fails(stage: Stage) -> None:
    stage.llm.script(Play([USELESS, done("I found only notes.")]))
    words = ("--max-iterations", "1", "--validator", "python -m pytest")
    said = stage.fixed(*words)[0].stdout
    assert said.index("The agent says: I found only notes.") < said.index("assert -1 == 3")


@pytest.mark.full
def test_a_green_start_is_said_and_a_test_is_asked_for(stage: Stage) -> None:
    stage.llm.script(Play([MEND, done()]))
    stage.fixed("--validator", "true", goal="Let add add")
    said = stage.llm.completions[0].messages[1]["content"]
    assert "It passes now, so no test fails because of the goal" in said
    assert "Summary:" not in said


def test_history_is_recorded_and_replayed(stage: Stage) -> None:
    asked = [
        call("history", path="calc.py", start=1, end=2),
        call("history", path="no.py", start=1),
    ]
    stage.llm.script(Play([*asked, MEND, done()]))
    ended, run = stage.fixed()
    assert ended.code == 0, ended
    found, none = results(stage)[:2]
    assert found.startswith("Commits that changed calc.py, lines 1-2:\n```\ncommit ")
    assert "+    return a - b" in found
    assert none.startswith("No history: ")
    assert len(run.facts("history")) == 2
    assert stage.cli("replay", run.id, "--check", env={"OPENAI_API_KEY": None}).code == 0


@pytest.mark.full
def test_named_tests_run_alone_and_are_counted(stage: Stage) -> None:
    named = [["test_calc.py::test_add"], ["test_calc.py::test_none"], []]
    asked = [call("run_tests", tests=names) for names in named]
    stage.llm.script(Play([*asked, MEND, call("run_tests", tests=named[0]), done()]))
    stage.repo.write("test_more.py", "def test_more():\n    pass\n").commit("More tests")
    ended, _ = stage.fixed("--validator", "python -m pytest .")
    assert ended.code == 0, ended
    alone, none, every, _, mended = results(stage)
    assert "1 test ran\n" in alone
    assert "no test ran: none has such a name\n" in none
    assert "2 tests ran\n" in every
    assert "1 test ran\nit passes" in mended


@pytest.mark.full
def test_a_line_of_shell_runs_whole(stage: Stage) -> None:
    stage.llm.script(Play([call("run_tests", tests=["test_calc.py"]), MEND, done()]))
    ended, _ = stage.fixed()
    assert ended.code == 0, ended
    assert "cannot run some tests of this validator" in results(stage)[0]


def test_the_next_iteration_goes_on_with_the_conversation(stage: Stage) -> None:
    stage.llm.script(
        Play(
            [call("read", path="calc.py"), USELESS, done("Tried a comment.")],
            [MEND, done()],
        )
    )
    ended, run = stage.fixed()
    assert ended.code == 0, ended
    first, last = stage.llm.completions[0].messages, stage.llm.completions[3].messages
    assert last[:2] == first[:2]  # a provider's cache knows them
    digest, prompt = (one["content"] for one in last[2:])
    assert digest.split("\n")[::2][:3] == [
        "What you did before, in short:",
        'read {"path": "calc.py"}: calc.py, lines 1-2 of 2:',
        "1\tdef add(a, b):",
    ]
    assert "2\t    return a - b" in digest
    assert 'done {"summary": "Tried a comment."}: Done.' in digest
    assert "This is iteration 2." in prompt
    assert "The change so far:" in prompt
    assert "# Goal" not in prompt
    assert stage.cli("replay", run.id, "--check", env={"OPENAI_API_KEY": None}).code == 0


@pytest.mark.full
def test_the_prompt_names_the_variables_of_commands_as_the_run_began(stage: Stage) -> None:
    stage.llm.script(Play([call("blocked", reason="Later.")]))
    ended, run = stage.fixed(env={"TZ": "UTC", "MY_SECRET": "hunter2"})
    assert ended.code == 3, ended
    system = stage.llm.completions[0].messages[0]["content"]
    assert "PATH" in system
    assert "TZ" in system
    assert "SECRET" not in system
    assert stage.cli("replay", run.id, "--check", env={"OPENAI_API_KEY": None}).code == 0


def test_an_agent_that_asks_ends_the_run_with_its_question(stage: Stage) -> None:
    """Nobody answers it, and a second turn would ask again."""
    asks = "sh -c \"echo Summary: two files have it; echo; echo 'Which one is meant?'\""
    ended, run = stage.fixed("--agent", asks)
    assert (ended.code, run.final) == (3, "blocked"), ended
    told = " ".join(ended.stdout.split())
    assert "the agent asks: two files have it Which one is meant?" in told
    assert "start again with the answer in the goal" in told
    assert len(run.state["iterations"]) == 1


def test_a_question_after_an_edit_is_none(stage: Stage) -> None:
    edits = "sh -c \"sed -i 's/a - b/a + b/' calc.py; echo 'Summary: is it well?'\""
    ended, run = stage.fixed("--agent", edits, "--no-apply")
    assert (ended.code, run.final) == (0, "passed"), ended
