"""What is told where only the last verdict fails, and where an error ends a run in its midst."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from rlm_ci.resources import loader
from testing.fix_stage import BUG, MEND, MENDED, TEST, USELESS, Play, done, told_plainly
from testing.loopback_model.replies import refusal

if TYPE_CHECKING:
    from testing.fix_stage import Outcome, Stage
    from testing.loopback_model.replies import Answer, Reply
    from testing.loopback_model.server import Asked
    from testing.program import Ended

pytestmark = pytest.mark.full

#: It mends the code, and makes in an ignored folder what its validator asks for.
AGENT = "sh -c 'mkdir -p build; echo ok > build/ok; sed -i s/-/+/ calc.py'"
NEEDS = "grep -q 'a + b' calc.py && cat build/ok"
FRESH = "passes in the working copy and fails in a fresh one"


def prepare(stage: Stage, setup: str | None = None) -> None:
    ignored = stage.source(".gitignore")
    stage.repo.write(".gitignore", f"{ignored}build/\nnode_modules/\n")
    if setup:
        stage.repo.write("rlm-ci.toml", f"[loop]\nsetup = {setup!r}\n")
    stage.repo.commit()


def needs(stage: Stage, validator: str = NEEDS, agent: str = AGENT) -> tuple[str, int, Outcome]:
    ended, run = stage.fixed("--agent", agent, "--validator", validator)
    assert run.state["final"]["exitCode"] == ended.code
    return ended.stderr, ended.code, run


def test_what_passes_in_the_working_copy_alone_is_told(stage: Stage) -> None:
    """docs/fix-reference.md: the reason and the feedback say so, and name loop.setup."""
    prepare(stage)
    _, code, run = needs(stage)
    assert (code, run.final) == (3, "no_progress")
    reason = run.state["final"]["reason"]
    assert FRESH in reason
    assert "loop.setup" in reason
    assert "still fails" not in reason
    entry = run.state["iterations"][0]
    assert (entry["validatorExitCode"], entry["validatorPassed"]) == (1, False)
    assert FRESH in entry["validatorReason"]
    assert entry["validatorLogPath"] == "rlm/validator-1-final.log"
    assert "build/ok: No such file" in run.text(entry["validatorLogPath"])
    assert "[exit code 0" in run.text("rlm/validator-1.log")
    prompt = run.text("rlm/iteration-2/1-single-prompt.md")
    assert FRESH in prompt
    assert "loop.setup" in prompt
    assert stage.source() == BUG


def test_a_setup_that_brings_it_is_enough(stage: Stage) -> None:
    prepare(stage, "sh -c 'mkdir build; echo is there > build/ok; echo made it'")
    stderr, code, run = needs(stage)
    assert (code, run.final) == (0, "passed"), stderr
    assert "loop.setup failed" not in stderr
    log = run.text("rlm/setup-1-final.log").splitlines()
    assert log[0].startswith("$ sh -c ")
    assert log[1] == "made it"
    assert log[2].startswith("[exit code 0, ")
    assert stage.source() == MENDED


def test_a_setup_that_fails_ends_the_run_before_an_agent_is_asked(stage: Stage) -> None:
    prepare(stage, "sh -c 'echo no such package; exit 7'")
    ended, run = stage.fixed("--agent", AGENT, "--validator", NEEDS)
    assert (ended.code, run.final) == (4, "error"), ended
    told_plainly(ended)
    assert "error: it failed: exit code 7 (loop.setup)" in ended.stderr
    assert "\n  no such package\n" in ended.stderr
    assert f"{run.id}/rlm/setup-0.log" in ended.stderr
    assert "no such package" in run.text("rlm/setup-0.log")
    assert run.state["iterations"] == []
    assert stage.cli("replay", run.id).code == 4


def test_what_is_green_does_not_stay_so_with_a_setup_that_fails(stage: Stage) -> None:
    prepare(stage, "false")
    ended, run = stage.fixed("--agent", AGENT, "--validator", "true")
    assert (ended.code, run.final) == (4, "error"), ended
    assert "(loop.setup)" in ended.stderr


def test_a_setup_that_an_edit_breaks_ends_the_run_with_its_output(stage: Stage) -> None:
    prepare(stage, "python3 calc.py")
    agent = "sh -c \"printf 'import nowhere\\ndef add(a, b): return a + b' > calc.py\""
    ended, run = stage.fixed("--agent", agent, "--validator", "grep -q 'a + b' calc.py")
    assert (ended.code, run.final) == (4, "error"), ended
    assert "No module named 'nowhere'" in ended.stderr
    assert "No module named 'nowhere'" in run.text("rlm/setup-1-final.log")
    assert "a + b" in run.text("rlm/result.patch")
    assert stage.source() == BUG


TOOL = "mkdir -p node_modules; cp /bin/true node_modules/tool; sed -i s/-/+/ calc.py"
START = "grep -q 'a + b' calc.py && node_modules/tool"


@pytest.mark.parametrize("setup", [None, "true"])
def test_a_fresh_copy_that_cannot_start_it_is_no_work_for_an_agent(
    stage: Stage, setup: str | None
) -> None:
    """Decision 53: exit 4 and the hint, if neither the folders nor loop.setup help."""
    prepare(stage, setup)
    ended, run = stage.fixed("--agent", f"sh -c '{TOOL}'", "--validator", START)
    assert ended.code == 4, ended
    told_plainly(ended)
    assert "cannot be started in a fresh copy" in ended.stderr
    assert "node_modules" in ended.stderr
    assert "loop.setup" in ended.stderr
    assert "a + b" in run.text("rlm/result.patch")
    assert stage.source() == BUG
    assert stage.cli("replay", run.id).code == 4


def test_a_setup_that_is_not_there_is_named(stage: Stage) -> None:
    prepare(stage, "no-such-installer --all")
    ended, _ = stage.fixed("--agent", AGENT, "--validator", NEEDS)
    assert ended.code == 4, ended
    told_plainly(ended)
    assert "no-such-installer" in ended.stderr
    assert "loop.setup" in ended.stderr


# ── an error in the midst of it ──


class Breaking(Play):
    """A model that refuses for good after the first iteration."""

    refuses = True

    def __call__(self, asked: Asked) -> Answer | Reply:  # type: ignore[override]
        is_second = "This is iteration 2" in str(asked.messages)
        if is_second and self.refuses:
            return refusal(401, "the key is not valid any more")
        return super().__call__(asked)


def test_what_was_done_before_an_error_is_kept(stage: Stage) -> None:
    """docs/fix-reference.md: the patch and what it cost, and the exit code of the error."""
    play = Breaking([USELESS, done()], [MEND, done()])
    stage.llm.script(play)
    ended, run = stage.fixed()
    assert ended.code == 8, ended
    assert (run.final, run.state["final"]["exitCode"]) == ("error", 8)
    assert "notes.txt" in run.text("rlm/result.patch")
    report = run.report
    loader.validate(report, "report.schema.json", "report")
    assert report["verdict"] == "incomplete"
    [part] = [one for one in report["parts"] if one["id"] == "rlm"]
    assert part["verdict"] == "incomplete"
    assert "1 file changed" in part["summary"]
    metrics = part["metrics"]
    assert (metrics["iterations"], metrics["files"], metrics["applied"]) == (1, 1, False)
    assert metrics["patch"] == "rlm/result.patch"
    assert report["usage"]["calls"] >= 2
    assert not (stage.repo.path / "notes.txt").exists()
    play.refuses = False
    resumed = stage.cli("resume", run.id)
    assert resumed.code == 0, resumed
    assert stage.source() == MENDED
    assert run.report["verdict"] == "clean"


def test_a_secret_is_in_no_patch_of_a_run_that_an_error_ended(stage: Stage) -> None:
    """In its second turn the agent is not there any more."""
    stage.repo.write("rlm-ci.toml", '[loop]\nagent_env = ["AGENT_API_KEY"]\n')
    stage.repo.write("agent.sh", "#!/bin/sh\necho $AGENT_API_KEY > leak.txt\nrm agent.sh\n")
    (stage.repo.path / "agent.sh").chmod(0o755)
    stage.repo.commit()
    secret = "k3y-" + "z9" * 12
    ended, run = stage.fixed("--agent", "./agent.sh", env={"AGENT_API_KEY": secret})
    assert ended.code == 4, ended
    patch = run.text("rlm/result.patch")
    assert "leak.txt" in patch
    assert secret not in patch
    assert "tamper/secret" in run.rules
    assert run.report["verdict"] == "incomplete"
    assert "a secret was removed from the patch" in run.report["parts"][0]["summary"]


def test_an_error_before_anything_was_done_is_no_result(stage: Stage) -> None:
    stage.llm.script(lambda _asked: refusal(401, "no such key"))
    ended, run = stage.fixed()
    assert ended.code == 8, ended
    [part] = run.report["parts"]
    assert part["verdict"] == "not_run"
    assert not (run.folder / "rlm/result.patch").exists()


def test_an_agent_that_crashed_is_told_where_the_validator_passes(stage: Stage) -> None:
    asked = ("--agent", "python3 nonexist.py", "--validator", "true")
    ended, run = stage.fixed(*asked, goal="Look for more")
    assert (ended.code, run.final) == (3, "no_change"), ended
    assert "the agent failed: " in run.state["final"]["reason"]
    assert "the agent failed: " in " ".join(ended.stdout.split())


def test_a_budget_that_a_broken_agent_used_up_is_no_green_end(stage: Stage) -> None:
    broken = ("--agent", "python3 nonexist.py", "--validator", "none", "--max-iterations", "2")
    ended, run = stage.fixed(*broken)
    assert (ended.code, run.final) == (0, "budget_complete"), ended
    assert "! Nothing was done: the agent failed in all of its turns" in ended.stdout
    assert "\n## ⚠️ Nothing was done" in run.text("comment.md")
    [finding] = run.report["findings"]
    assert (finding["rule"], finding["severity"]) == ("rlm/agent-failed", "medium")
    assert "failed in each of its 2 turns" in finding["message"]
    assert "python3 nonexist.py ended with 2" in finding["message"]


def test_a_source_with_the_name_of_a_test_is_named_where_it_was_put_back(stage: Stage) -> None:
    """An A/B test is no test; nothing that git ignores has anything to do with it."""
    stage.repo.write("shop/ab_test.py", BUG).commit()
    command = ("--agent", "sed -i s/-/+/ shop/ab_test.py", "--validator")
    ended, run = stage.fixed(*command, "grep -q 'a + b' shop/ab_test.py")
    assert (ended.code, run.final) == (3, "no_progress"), ended
    way = "--allow-edit shop/ab_test.py"
    told = f"and shop/ab_test.py as before (a test; {way} keeps the edit)"
    assert told in run.state["final"]["reason"]
    assert "loop.setup" not in run.state["final"]["reason"]
    assert told in run.text("rlm/iteration-2/1-single-prompt.md")
    validator = "grep -q 'a + b' shop/ab_test.py"
    for flags in (("--allow-test-edits",), way.split()):
        stage.repo.write("shop/ab_test.py", BUG).commit()
        ended, run = stage.fixed(*command, validator, *flags)
        assert (ended.code, run.final) == (0, "passed"), ended
        assert "a + b" in stage.source("shop/ab_test.py")
    assert "allowed: edits of shop/ab_test.py" in " ".join(ended.stdout.split())
    assert json.loads((run.folder / "manifest.json").read_text())["allowed"] == [
        "edits of shop/ab_test.py"
    ]


def test_tests_beside_the_code_are_named_where_they_were_put_back(stage: Stage) -> None:
    test = (
        "#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {\n        assert!(false);\n    }\n}\n"
    )
    stage.repo.write("src/lib.rs", f"pub fn b() {{}}\n\n{test}").commit()
    agent = ("--agent", "sed -i s/false/true/ src/lib.rs", "--max-iterations", "1")
    _, run = stage.fixed(*agent, "--validator", "grep -q true src/lib.rs")
    assert "and the tests in src/lib.rs as before" in run.state["final"]["reason"]


def test_an_edit_of_what_may_be_a_test_is_told_where_none_could_be_tried(stage: Stage) -> None:
    stage.repo.write("ci/all.py", "import sums\n").write("ci/sums.py", "assert 1 - 2 == 3\n")
    stage.repo.commit()
    agent = ("--agent", "sed -i s/3/-1/ ci/sums.py", "--validator", "python3 ci/all.py")
    ended, run = stage.fixed(*agent)
    assert ended.code == 0, ended
    [finding] = run.report["findings"]
    assert (finding["rule"], finding["severity"]) == ("tamper/unprobed-test", "medium")
    [place] = finding["evidence"]
    assert (place["path"], place["line_start"]) == ("ci/sums.py", 1)
    assert stage.cli("replay", run.id, "--check").code == 0


def decisive(run: Outcome) -> list[str]:
    """The paths of the findings, which are medium."""
    findings = [one for one in run.report["findings"] if one["rule"] == "tamper/decisive-edit"]
    assert {one["severity"] for one in findings} <= {"medium"}
    return [one["evidence"][0]["path"] for one in findings]


def test_data_without_whose_edit_the_validator_fails_is_told(stage: Stage) -> None:
    """All of it is put back first, then each by itself; a page that nothing reads is not told."""
    for name in ("a.json", "b.json", "README.md"):
        stage.repo.write(name, "1\n")
    stage.repo.commit()
    agent = ("--agent", "sed -i s/1/2/ a.json b.json README.md", "--validator")
    ended, run = stage.fixed(*agent, "cat a.json b.json | grep -c 2 | grep -qx 2")
    assert ended.code == 0, ended
    assert decisive(run) == ["a.json", "b.json"]
    assert "passes only with the changed a.json" in ended.stdout
    assert stage.cli("replay", run.id, "--check").code == 0


def test_either_of_two_files_is_told_as_one(stage: Stage) -> None:
    stage.repo.write("a.json", "1\n").write("b.json", "1\n").commit()
    agent = ("--agent", "sed -i s/1/2/ a.json b.json", "--validator")
    ended, run = stage.fixed(*agent, "grep -q 2 a.json || grep -q 2 b.json")
    assert ended.code == 0, ended
    assert decisive(run) == ["a.json"]
    assert "passes only with the changed a.json and 1 more file" in " ".join(ended.stdout.split())


def test_a_fix_of_code_costs_no_run_more(stage: Stage) -> None:
    stage.repo.write("README.md", "1\n").commit()
    agent = ("--agent", "sed -i s/-/+/ calc.py", "--validator", "grep -q 'a + b' calc.py")
    ended, run = stage.fixed(*agent)
    assert ended.code == 0, ended
    assert [one["place"] for one in run.facts("validator")].count("validator-1-final") == 1
    assert len(run.facts("validator")) == 4
    assert decisive(run) == []


NEW = """
import test_calc


def test_more():
    assert test_calc.add(2, 2) == 4
"""
#: It fails until there is a second file of tests.
COUNTED = f"{sys.executable} -m pytest -q -p no:cacheprovider && test $(ls test_*.py | wc -l) = 2"


def added(stage: Stage, start: str, new: str) -> tuple[Ended, Outcome]:
    """The loop where an agent leaves one new file of tests."""
    stage.repo.write("calc.py", start).write("test_calc.py", TEST).commit()
    agent = shlex.join(["sh", "-c", f"printf %s {shlex.quote(new)} > test_more.py"])
    return stage.fixed("--agent", agent, "--validator", COUNTED, "--max-iterations", "1")


def test_a_goal_of_new_tests_is_judged_with_them(stage: Stage) -> None:
    ended, run = added(stage, MENDED, NEW)
    assert ended.code == 0, ended
    assert decisive(run) == ["test_more.py"]
    assert "passes only with the new test_more.py" in ended.stdout
    assert "def test_more" in stage.source("test_more.py")
    assert stage.cli("replay", run.id, "--check").code == 0


def test_a_new_test_does_not_make_an_old_one_pass(stage: Stage) -> None:
    ended, run = added(stage, BUG, "import calc\n\ncalc.add = lambda a, b: a + b\n\n\n" + NEW)
    assert (ended.code, run.final) == (3, "max_iterations"), ended


def test_a_file_that_there_is_not_cannot_be_allowed(stage: Stage) -> None:
    for path in ("calc.pi", "../calc.py", "/etc/passwd"):
        ended = stage.rlm("--allow-edit", path, "--validator", "true")
        assert ended.code == 5, ended
        assert f"error: the repository has no file '{path}' (--allow-edit)" in ended.stderr
