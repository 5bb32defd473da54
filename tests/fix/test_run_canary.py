"""The last word on a green result: its tests must fail where they are made to."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

from rlm_ci.resources import loader
from testing.fix_stage import BUG, MENDED, TEST

if TYPE_CHECKING:
    from testing.fix_stage import Outcome, Stage

PYTEST = "python -m pytest -q -p no:cacheprovider"
NEW = "from calc import add\n\n\ndef test_more():\n    assert add(2, 2) == 4\n"
#: It mends the code, edits an old test and adds a new one.
AGENT = (
    "import pathlib\n"
    f"pathlib.Path('calc.py').write_text({MENDED!r})\n"
    "test = pathlib.Path('test_calc.py')\n"
    "test.write_text(test.read_text().replace('add(1, 2) == 3', 'add(2, 1) == 3'))\n"
    f"pathlib.Path('test_new.py').write_text({NEW!r})\n"
)
#: It answers whatever is expected.
CHEAT = (
    "class Any(int):\n"
    "    def __eq__(self, other): return True\n"
    "    __hash__ = int.__hash__\n\n"
    "def add(a, b):\n    return Any(a - b)\n"
)


def fixed(
    stage: Stage, agent: str, *more: str, validator: str = PYTEST
) -> tuple[int, Outcome, str]:
    stage.repo.write("agent.py", agent).commit()
    ended, run = stage.fixed("--agent", "python agent.py", "--validator", validator, *more)
    return ended.code, run, " ".join(ended.stdout.split())


@pytest.mark.full
def test_edits_of_old_tests_are_kept_apart(stage: Stage) -> None:
    code, run, said = fixed(stage, AGENT)
    assert (code, run.final) == (0, "passed")
    assert "canary: 1 test can fail" in said
    assert "edits to 1 test file left out, see rlm/tests.patch" in said
    assert stage.source() == MENDED
    assert stage.source("test_calc.py") == TEST
    assert stage.source("test_new.py") == NEW
    assert "test_calc.py" not in run.text("rlm/result.patch")
    edits = run.text("rlm/tests.patch")
    assert "+    assert add(2, 1) == 3" in edits
    assert "calc.py b/calc.py" not in edits
    assert "test_new.py" not in edits
    part = next(one for one in run.report["parts"] if one["id"] == "rlm")
    assert part["metrics"]["canary"] == "canary: 1 test can fail"


@pytest.mark.full
def test_edited_tests_count_where_they_are_allowed(stage: Stage) -> None:
    code, run, said = fixed(stage, AGENT, "--allow-test-edits")
    assert (code, run.final) == (0, "passed")
    assert "canary: 2 tests can fail" in said
    assert "edited tests: test_calc.py" in said
    assert stage.source("test_calc.py") != TEST
    assert not (run.folder / "rlm/tests.patch").exists()


@pytest.mark.full
def test_tests_that_their_runner_does_not_name_are_probed(stage: Stage) -> None:
    """Unittest names only tests that fail, and here each file of them fails at some time."""
    head = "import unittest\nimport calc\n\n\nclass TestCalc(unittest.TestCase):\n"
    test = "    def test_it(self):\n        self.assertEqual(calc.add({}), {})\n"
    stage.repo.write("test_calc.py", head + test.format("2, 1", 3))
    stage.repo.write("test_zero.py", head + test.format("2, 0", 2))
    agent = f"open('calc.py', 'w').write({MENDED!r})\n"
    code, _, said = fixed(stage, agent, validator="python -m unittest")
    assert code == 0
    assert "canary: 2 tests can fail; a plain run passes, too ✓" in said


@pytest.mark.full
def test_tests_that_cannot_fail_any_more_are_no_fix(stage: Stage) -> None:
    agent = f"open('calc.py', 'w').write({CHEAT!r})\n"
    code, run, said = fixed(stage, agent, "--max-iterations", "1")
    assert (code, run.final) == (1, "tampered")
    assert "test_add passes where it expects something else" in said
    assert run.rules == {"tamper/disarmed", "tamper/comparison"}
    assert stage.source() == BUG
    changed = run.text("rlm/canary-1/test_calc.py")
    assert re.search(r":= \(add\(1, 2\)\)", changed)
    loader.validate(run.report, "report.schema.json", "report")


@pytest.mark.full
def test_a_replay_says_the_same(stage: Stage) -> None:
    _, run, _ = fixed(stage, AGENT)
    replayed = stage.cli("replay", run.id, "--check", env={"PATH": os.environ["PATH"]})
    assert replayed.code == 0, replayed
    assert "the report is the same" in replayed.stderr


DISARMING = "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"


@pytest.mark.full
def test_new_tests_that_disarm_the_old_ones_are_no_fix(stage: Stage) -> None:
    """They are in the result, and were not in the last verdict."""
    agent = f"open('calc.py', 'w').write({MENDED!r})\n"
    agent += f"open('test_aaa.py', 'w').write({DISARMING + NEW!r})\n"
    code, run, said = fixed(stage, agent, "--max-iterations", "1")
    assert (code, run.final) == (1, "tampered"), said
    assert "tamper/disarmed" in run.rules


@pytest.mark.full
def test_a_failure_that_nobody_prints_is_one(stage: Stage) -> None:
    """The exit code says 0, and our plugin of pytest has seen a test fail."""
    stage.repo.write("check.sh", f"{PYTEST} > /dev/null 2>&1; true\n").commit()
    agent = "open('notes.txt', 'w').write('I did nothing.')\n"
    stage.repo.write("agent.py", agent).commit()
    ended, run = stage.fixed("--agent", "python agent.py", "--validator", "sh check.sh",
                             "--max-iterations", "1")  # fmt: skip
    assert ended.code == 3, ended
    reason = run.state["iterations"][0]["validatorReason"]
    assert reason == "exit code 0, and yet test_calc.py test_add failed"


@pytest.mark.full
def test_it_has_no_more_time_than_it_is_given(stage: Stage) -> None:
    stage.repo.write("rlm-ci.toml", "[loop]\ncanary_minutes = 0.0001\n").commit()
    code, _, said = fixed(stage, f"open('calc.py', 'w').write({MENDED!r})\n")
    assert code == 0
    assert "1 test not probed" in said
