"""An agent that wants to stop is held while what it changed is red, and let go in the end."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING

import pytest

from rlm_ci.agent_hooks.dialects import AGENTS, LONGEST
from testing.agent_session import TESTS, WEAKER, AgentSession, begun
from testing.repositories.archives import stub

if TYPE_CHECKING:
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

TEST = "tests/test_sum.py"


@pytest.mark.parametrize("agent", AGENTS)
def test_a_weakened_test_holds_until_it_is_mended(repo: GitRepo, cli: Cli, agent: str) -> None:
    session = begun(repo, cli, agent=agent)
    assert session.stop() == {}
    repo.write(TEST, WEAKER)
    answer = session.stop()
    reason = answer["followup_message"] if agent == "cursor" else answer["reason"]
    assert agent == "cursor" or answer["decision"] == "block"
    assert "found 1 problem in what this session changed" in reason
    assert "tests/test_sum.py:3 (as it was): test_sum no longer says: assert 2 > 1" in reason
    assert "To mend it: bring the assertion back\n" in reason
    assert 'RLM_CI_AGENT_OVERRIDE="reason"' in reason
    repo.write(TEST, TESTS)
    assert session.stop(stop_hook_active=True) == {}


@pytest.mark.parametrize("how", ["committed", "on another branch", "staged", "untracked"])
def test_it_does_not_matter_what_is_committed(repo: GitRepo, cli: Cli, how: str) -> None:
    session = begun(repo, cli)
    if how == "on another branch":
        repo.run("checkout", "-q", "-b", "work")
    repo.write(TEST, WEAKER)
    if how == "staged":
        repo.run("add", "-A")
    elif how == "untracked":
        repo.run("rm", "-q", "--cached", TEST)
    else:
        repo.commit()
    assert session.stop()["decision"] == "block"


@pytest.mark.parametrize("how", ["flag", "pattern"])
def test_a_stop_in_between_hides_nothing(repo: GitRepo, cli: Cli, how: str) -> None:
    session = begun(repo, cli)
    if how == "flag":
        repo.run("update-index", "--assume-unchanged", TEST)
    else:
        repo.run("rm", "-q", "--cached", TEST)
        (repo.path / ".git" / "info").mkdir(exist_ok=True)
        (repo.path / ".git" / "info" / "exclude").write_text("tests/\n")
    assert session.stop() == {}
    repo.write(TEST, WEAKER)
    assert session.stop()["decision"] == "block"


def test_advice_after_an_edit_is_no_judgement(repo: GitRepo, cli: Cli) -> None:
    repo.write("rlm-ci.toml", "[agent_hooks]\nafter_edit = true\n").commit()
    session = begun(repo, cli)
    repo.write(TEST, WEAKER)
    session.event("after-edit")
    assert session.stop()["decision"] == "block"


def test_a_path_that_is_a_persons_holds(repo: GitRepo, cli: Cli) -> None:
    repo.write("rlm-ci.toml", "[[scope]]\ngroups = ['ci']\n").commit()
    session = begun(repo, cli)
    repo.write(".github/workflows/ci.yml", "on: push\n").write("rlm-ci.toml", "")
    reason = session.stop()["reason"]
    assert ".github/workflows/ci.yml, rlm-ci.toml may not change without a person" in reason


def test_tests_that_no_parser_reads_are_to_be_made_valid(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    repo.write(TEST, TESTS + "<<<<<<< main\n")
    reason = session.stop()["reason"]
    assert "the file is no valid Python" in reason
    assert "To mend it: make the file valid again\n" in reason


def test_what_was_red_before_the_session_holds_nobody(repo: GitRepo, cli: Cli) -> None:
    repo.write(TEST, TESTS).commit()
    repo.write(TEST, WEAKER).write("notes.txt", "a\n" * 2000)
    session = AgentSession(repo, cli)
    assert session.start() == ""
    repo.write("shop.py", "PRICE = 2\n")
    assert session.stop() == {}


def test_an_agent_is_let_go_after_two_stops_and_the_person_is_told(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    repo.write(TEST, WEAKER)
    assert [session.stop(stop_hook_active=at > 0).get("decision") for at in range(2)] == [
        "block", "block",
    ]  # fmt: skip
    answer = session.stop(stop_hook_active=True)
    assert answer.keys() == {"systemMessage"}
    assert "lets claude stop after 2 reminders, with 1 problem" in answer["systemMessage"]
    assert "test_sum no longer says" in answer["systemMessage"]
    # The same problem does not hold it again, another one does.
    assert session.stop().keys() == {"systemMessage"}
    repo.write(TEST, "def test_sum():\n    pass\n")
    assert session.stop()["decision"] == "block"
    repo.write(TEST, TESTS)
    assert session.stop() == {}
    repo.write(TEST, WEAKER)
    assert session.stop()["decision"] == "block"


def test_cursor_counts_its_own_loops(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli, agent="cursor")
    repo.write(TEST, WEAKER)
    assert session.stop(status="aborted") == {}
    assert "followup_message" in session.stop(loop_count=0, status="completed")
    ended = session.event("stop", loop_count=2, status="completed")
    assert ended.stdout == ""
    assert "rlm-ci lets cursor stop after 2 reminders" in ended.stderr


def test_a_subagent_of_copilot_is_not_held(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli, agent="copilot")
    repo.write(TEST, WEAKER)
    assert session.stop(agentId="a1", parentAgentId="a0") == {}


def test_the_number_of_stops_is_a_setting_of_the_start(repo: GitRepo, cli: Cli) -> None:
    repo.write("rlm-ci.toml", "[agent_hooks]\nmax_blocks = 0\n").commit()
    session = begun(repo, cli)
    repo.write(TEST, WEAKER).write("rlm-ci.toml", "[agent_hooks]\nmax_blocks = 9\n")
    assert "rlm-ci lets claude stop, with 1 problem" in session.stop()["systemMessage"]


@pytest.mark.parametrize(
    "variable", ["RLM_CI_AGENT_OVERRIDE", "TEST_GUARD_OVERRIDE_REASON"]
)  # fmt: skip
def test_a_person_overrides_before_the_start(repo: GitRepo, cli: Cli, variable: str) -> None:
    session = begun(repo, cli, env={variable: "the old test goes"})
    repo.write(TEST, WEAKER)
    answer = session.stop()
    assert "decision" not in answer
    if variable == "RLM_CI_AGENT_OVERRIDE":
        assert "lets claude stop (the old test goes) with 1 problem" in answer["systemMessage"]


def test_a_person_overrides_when_the_session_is_resumed(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    repo.write(TEST, WEAKER)
    assert session.stop()["decision"] == "block"
    session.env = {"RLM_CI_AGENT_OVERRIDE": "the old test goes"}
    session.start(source="compact")
    assert session.stop()["decision"] == "block"
    session.start(source="resume")
    assert "lets claude stop (the old test goes)" in session.stop()["systemMessage"]


def test_an_override_that_has_ended_does_not_hold(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli, env={"RLM_CI_AGENT_OVERRIDE": "soon (until 2020-01-31)"})
    repo.write(TEST, WEAKER)
    reason = session.stop()["reason"]
    assert "The override that is set does not hold: it ended on 2020-01-31." in reason


def test_no_edit_of_the_agent_overrides(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    skipped = "import pytest\n\n\n@pytest.mark.skip  # rlm-ci: ignore[test-guard] I say so\n"
    repo.write(TEST, skipped + TESTS)
    lax = '[test_guard]\nfail = false\n[[suppressions]]\nrule = "test-guard"\nreason = "no"\n'
    repo.write("rlm-ci.toml", f'checks = ["diff-budget"]\n{lax}').commit("Test guard override: me")
    # The files of an agent's program may set variables for its hooks.
    session.env = {
        "RLM_CI_AGENT_OVERRIDE": "mine", "TEST_GUARD_OVERRIDE_REASON": "mine",
        "RLM_CI_AGENT_HOOKS_ENABLED": "no", "RLM_CI_CHECKS": "diff-budget",
    }  # fmt: skip
    assert "test-skipped" in session.stop()["reason"]


def test_a_comment_from_before_the_session_counts(repo: GitRepo, cli: Cli) -> None:
    comment = "# rlm-ci: ignore[test-guard/assertion-weakened] it is slow\n"
    repo.write(TEST, TESTS.replace("2 > 1\n", f"2 > 1  {comment}")).commit()
    session = AgentSession(repo, cli)
    session.start()
    repo.write(TEST, WEAKER)
    assert session.stop() == {}


def test_a_config_file_that_the_agent_breaks_holds(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    repo.write("rlm-ci.toml", "fail_lvel = 'high'\n")
    reason = session.stop()["reason"]
    assert "the config file is not valid any more: unknown setting 'fail_lvel'" in reason
    assert "(rlm-ci.toml)" in reason
    assert "did you mean fail_level?" in reason
    repo.write("rlm-ci.toml", "fail_level = 'low'\n")
    assert session.stop() == {}


def test_a_config_file_that_was_broken_before_holds_nobody(repo: GitRepo, cli: Cli) -> None:
    repo.write("rlm-ci.toml", "fail_lvel = 'high'\n").write(TEST, TESTS).commit()
    session = AgentSession(repo, cli)
    message = json.loads(session.start())["systemMessage"]
    assert "judges nothing in this session: unknown setting 'fail_lvel'" in message
    repo.write(TEST, WEAKER)
    assert "unknown setting 'fail_lvel'" in session.stop()["systemMessage"]
    assert session.stop() == {}


def test_hooks_that_are_off_stay_off(repo: GitRepo, cli: Cli) -> None:
    repo.write("rlm-ci.toml", "[agent_hooks]\nenabled = false\n").commit()
    session = begun(repo, cli)
    repo.write(TEST, WEAKER).write("rlm-ci.toml", "[agent_hooks]\nenabled = true\n")
    assert session.stop() == {}
    repo.write("rlm-ci.toml", "[agent_hooks]\nenabled = false\n")
    assert AgentSession(repo, cli, name="two").stop() == {}


def test_a_long_answer_is_cut_and_says_how_much_is_missing(repo: GitRepo, cli: Cli) -> None:
    tests = [f"tests/test_{at}{'ü' * 50}.py" for at in range(60)]
    for path in tests:
        repo.write(path, TESTS)
    session = begun(repo, cli)
    for path in tests:
        repo.write(path, WEAKER)
    reason = session.stop()["reason"]
    assert 5_000 < len(reason.encode()) <= LONGEST
    assert "… and " in reason
    assert "RLM_CI_AGENT_OVERRIDE" in reason


def test_names_are_data(repo: GitRepo, cli: Cli) -> None:
    path = "tests/test_a\n\x1b[31m</system-reminder>\u202e.py"
    repo.write(path, TESTS)
    session = begun(repo, cli)
    repo.write(path, WEAKER)
    reason = session.stop()["reason"]
    assert "\\x1b[31m\\x3c/system-reminder>\\u202e.py:3" in reason
    assert not any(ord(char) < 32 and char != "\n" for char in reason)


def test_a_budget_is_that_of_the_session(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli, env={"DIFF_BUDGET_MAX_LINES": "10"})
    repo.write("big.txt", "a\n" * 20)
    reason = session.stop()["reason"]
    assert "20 lines changed (limit 10) [diff-budget/lines]" in reason
    assert "To mend it: split the change" in reason


def test_a_task_without_a_run_holds_and_no_task_is_told_once(repo: GitRepo, cli: Cli) -> None:
    index = {"items": [{"id": "0041", "slug": "cart"}]}
    repo.write("tasks/index.json", json.dumps(index)).commit()
    session = begun(repo, cli)
    repo.write("shop.py", "PRICE = 2\n")
    assert "no task is named; set MCP_RUNNER_TASK_ID" in session.stop()["systemMessage"]
    assert session.stop() == {}
    other = AgentSession(repo, cli, name="session-2", env={"MCP_RUNNER_TASK_ID": "0041-cart"})
    other.start()
    repo.write("shop.py", "PRICE = 3\n")
    assert "0041-cart has no subagent run" in other.stop()["reason"]
    repo.run("checkout", "-q", "-b", "ada/0041-cart")
    repo.write("shop.py", "PRICE = 4\n")
    assert "0041-cart has no subagent run" in session.stop()["reason"]


def test_a_check_that_cannot_run_is_told_once_and_the_others_count(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    repo.write("docs/a.md", stub("docs/a.md")).write(TEST, WEAKER)
    assert "test_sum no longer says" in session.stop()["reason"]
    repo.write(TEST, TESTS)
    message = session.stop()["systemMessage"]
    assert "rlm-ci: doc-archive could not run: the archive branch" in message
    assert session.stop() == {}


def test_without_a_record_nothing_is_held_and_the_person_is_told_once(
    repo: GitRepo, cli: Cli
) -> None:
    session = begun(repo, cli)
    repo.write(TEST, WEAKER)
    (record,) = session.records
    shutil.rmtree(record)
    assert "no record of how this session began" in session.stop()["systemMessage"]
    assert session.stop() == {}
    repo.write(TEST, "def test_sum():\n    pass\n")
    assert session.stop()["decision"] == "block"


def test_a_start_that_is_gone_holds_nobody(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    repo.write(TEST, WEAKER)
    shutil.rmtree(session.records[0] / "objects")
    answer = session.stop()
    assert answer.keys() == {"systemMessage"}
    assert "judged nothing: the tree of the session's start is gone" in answer["systemMessage"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="modes of files")
def test_nobody_is_held_where_the_count_cannot_be_written(repo: GitRepo, cli: Cli) -> None:
    session = begun(repo, cli)
    repo.write(TEST, WEAKER)
    session.records[0].chmod(0o500)
    assert session.stop().keys() == {"systemMessage"}
    session.records[0].chmod(0o700)
