"""What holds only where rlm-ci runs it is refused; what fails for other reasons is told."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from testing.fix_stage import BUG, MENDED, alive

if TYPE_CHECKING:
    from testing.fix_stage import Outcome, Stage

PYTEST = "python -m pytest -q -p no:cacheprovider"
IN_SANDBOX = {
    "home": "os.environ['HOME'].split('/')[1:] == ['tmp', 'home']",
    "machine": "socket.gethostname() == 'sandbox'",
    "user": "pwd.getpwuid(os.getuid()).pw_name == 'sandbox'",
    "variables": "b'RLM_CI' in open('/proc/self/environ', 'rb').read()",
    "bytecode": "sys.dont_write_bytecode",
    "ignored": "not os.path.exists('local.cfg')",
}


def fixed(stage: Stage, code: str, *more: str, validator: str = PYTEST) -> tuple[int, Outcome, str]:
    stage.repo.write(".gitignore", "local.cfg\n.runs/\n__pycache__/\n")
    stage.repo.write("agent.py", f"open('calc.py', 'w').write({code!r})").commit()
    stage.repo.write("local.cfg", "mine\n")
    words = ("--agent", "python agent.py", "--validator", validator, "--max-iterations", "1")
    ended, run = stage.fixed(*words, *more)
    return ended.code, run, " ".join(ended.stdout.split())


def cheat(question: str) -> str:
    add = f"def add(a, b):\n    return a + b if {question} else a - b\n"
    return f"import os, pwd, socket, sys\n\n{add}"


@pytest.mark.sample(1)
@pytest.mark.parametrize("mark", IN_SANDBOX)
def test_a_fix_that_holds_only_in_the_sandbox_is_refused(stage: Stage, mark: str) -> None:
    stage.repo.write("check.py", "import calc\nassert calc.add(1, 2) == 3\n")
    validator = PYTEST if mark == "variables" else "python check.py"
    code, run, said = fixed(stage, cheat(IN_SANDBOX[mark]), validator=validator)
    assert (code, run.final) == (1, "tampered"), said
    assert "tamper/only-in-copy" in run.rules
    assert "passes in the sandbox's copy, and fails as you run it: " in said
    assert "a plain run fails" in said
    assert (stage.source(), stage.source("local.cfg")) == (BUG, "mine\n")
    assert stage.repo.text("status", "--short") == ""
    assert "a + b" in run.text("rlm/result.patch")
    assert "AssertionError" in run.text("rlm/validator-1-plain.log")


@pytest.mark.full
def test_it_can_be_accepted_and_replayed(stage: Stage) -> None:
    code, run, said = fixed(stage, cheat(IN_SANDBOX["home"]), "--allow", "tamper/only-in-copy")
    assert (code, run.final) == (0, "passed"), said
    assert stage.source() != BUG
    replayed = stage.cli("replay", run.id, "--check")
    assert replayed.code == 0, replayed


@pytest.mark.full
def test_what_fails_beside_ignored_files_before_the_change_is_told(stage: Stage) -> None:
    stage.repo.write(
        "test_local.py",
        "import os\n\n\ndef test_local():\n    assert not os.path.exists('local.cfg')\n",
    )
    code, run, said = fixed(stage, MENDED)
    assert (code, run.final, stage.source()) == (0, "passed", MENDED), said
    assert "a plain run fails as before: test_local" in said
    assert run.rules == {"tamper/only-in-copy"}


@pytest.mark.full
def test_one_that_fails_once_and_writes_files_is_kept(stage: Stage) -> None:
    validator = f"sh -c 'echo 1 >> made.txt; {PYTEST}; r=$?; test -d $HOME/.cache/x && exit $r;"
    validator += ' mkdir -p $HOME/.cache/x; test -z "$(env | grep DONTWRITE)" && exit 3; exit $r\''
    code, run, said = fixed(stage, MENDED, validator=validator)
    assert (code, run.final, stage.source()) == (0, "passed", MENDED), said
    assert "a plain run passes, too" in said
    assert stage.repo.text("status", "--short").split() == ["M", "calc.py"]


@pytest.mark.full
def test_without_a_sandbox_the_summary_says_that_it_did_not_run(stage: Stage) -> None:
    code, run, said = fixed(stage, MENDED, "--sandbox", "none", validator=f"PYTHONPATH=. {PYTEST}")
    assert (code, run.final) == (0, "passed"), said
    assert "no plain run: there is no sandbox for it" in said


@pytest.mark.full
def test_a_run_without_applying_has_it_too(stage: Stage) -> None:
    code, _, said = fixed(stage, cheat(IN_SANDBOX["user"]), "--no-apply")
    assert code == 1, said


@pytest.mark.full
def test_what_does_not_fit_beside_the_result_is_named(stage: Stage) -> None:
    with (stage.repo.path / "local.cfg").open("wb") as file:
        os.truncate(file.fileno(), 2 << 30)
    stage.repo.write(".gitignore", "local.cfg\n.runs/\n__pycache__/\n")
    stage.repo.write("agent.py", f"open('calc.py', 'w').write({MENDED!r})").commit()
    words = ("--agent", "python agent.py", "--validator", PYTEST, "--max-iterations", "1")
    ended, _ = stage.fixed(*words)
    assert ended.code == 0, ended
    said = " ".join(ended.stdout.split())
    assert "a plain run passes, too, without local.cfg (too large, or not to be read)" in said


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_ends_within_it_goes_on(stage: Stage, number: signal.Signals) -> None:
    waits = "6.0625"
    validator = f"sh -c '{PYTEST} || exit; test -n \"$PYTHONDONTWRITEBYTECODE\" || sleep {waits}'"
    stage.repo.write("agent.py", f"open('calc.py', 'w').write({MENDED!r})").commit()
    words = ("--agent", "python agent.py", "--validator", validator, "--max-iterations", "1")
    child, _ = stage.begin(*words)
    assert child.kill_when(lambda: alive(waits), number)
    assert child.wait() == (130 if number == signal.SIGINT else -number)
    assert stage.source() == BUG
    resumed = stage.cli("resume", stage.only().id)
    assert (resumed.code, stage.source()) == (0, MENDED), resumed


@pytest.mark.long
@pytest.mark.full
def test_one_that_the_run_has_no_time_for_is_told(stage: Stage) -> None:
    validator = f"sh -c '{PYTEST} || exit; test -n \"$PYTHONDONTWRITEBYTECODE\" || sleep 99'"
    code, run, said = fixed(stage, MENDED, "--max-minutes", "0.5", validator=validator)
    assert (code, run.final, stage.source()) == (0, "passed", MENDED), said
    assert run.rules == {"tamper/only-in-copy"}
    assert "a plain run did not end: it was stopped after" in said
    assert "Done, with 1 suspicious finding" in said
