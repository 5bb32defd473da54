"""How tests ended, as a plugin in a real pytest tells it, and what a run can see of the plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rlm_ci.loop import reporting
from rlm_ci.loop.outcomes import Outcomes
from rlm_ci.loop.transcript import transcribe
from rlm_ci.process import Clipped

SUITE = """
import json, os, sys, unittest
from pathlib import Path
import pytest
from base import Base, imported

CASES = json.loads((Path(__file__).parent / "data" / "cases.json").read_text())

@pytest.mark.parametrize("x", CASES)
def test_case(x): assert x < 3, "a token"

class TestSub(Base):
    def test_own(self): assert 0, "another token"

class TestUnit(unittest.TestCase):
    def test_equal(self): self.assertEqual(1, 2)
    @unittest.expectedFailure
    def test_expected(self): self.assertEqual(1, 2)

test_imported = imported

@pytest.mark.xfail
def test_unexpected(): pass

@pytest.mark.skip
def test_skipped(): pass

@pytest.fixture
def broken():
    yield
    raise RuntimeError("at its end")

def test_teardown(broken): pass

def test_reads():
    from helper import load
    load()

def test_product():
    import shop
    shop.price()
"""
BASE = """
import functools

class Base:
    def test_inherited(self): assert True

def wrapped(function):
    @functools.wraps(function)
    def inner(*args): return function(*args)
    return inner

@wrapped
def imported(): assert True
"""
HELPER = """
from pathlib import Path

def load():
    return (Path(__file__).parent / "data" / "helped.txt").read_text()
"""
SHOP = """
from pathlib import Path

def price():
    return (Path(__file__).parent / "prices.txt").read_text()
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A project whose tests end in every way."""
    files = {
        "tests/test_all.py": SUITE, "tests/base.py": BASE, "tests/helper.py": HELPER,
        "tests/test_broken.py": "import gone\n", "tests/data/cases.json": "[1, 3]",
        "tests/data/helped.txt": "x", "conftest.py": "import sys; sys.path.append('.')\n",
        "shop.py": SHOP, "prices.txt": "1",
        "tests/test_text.txt": ">>> 1 + 1\n2\n",
        "pytest.ini": "[pytest]\naddopts = --doctest-glob=*.txt --doctest-modules\n",
    }  # fmt: skip
    for name, text in files.items():
        path = tmp_path / "project" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path / "project"


def run(
    root: Path,
    *args: str,
    before: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
    **how: bool,
) -> tuple[subprocess.CompletedProcess[str], Outcomes]:
    """Run pytest in ``root`` as a validator is run, and read what was told."""
    folder = root.parent / f"told-{len(list(root.parent.iterdir()))}"
    folder.mkdir()
    base = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    base |= reporting.environment(str(folder), str(root), base, **how)
    argv = [*before, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args]
    done = subprocess.run(
        argv, cwd=root, env=base, capture_output=True, text=True, check=False, timeout=120
    )
    lines = reporting.collect(str(folder))
    assert json.loads(json.dumps(lines)) == lines
    printed = transcribe(Clipped(done.stdout.encode()), str).lines
    return done, reporting.read(printed, lines, str(root))


def told(outcomes: Outcomes) -> dict[tuple[str, str, str], str]:
    return {(one.place, one.name, one.case): one.state for one in outcomes.tests}


FILE = "tests/test_all.py"
ENDED = {
    (FILE, "test_case", "1"): "passed",
    (FILE, "test_case", "3"): "failed",
    ("tests/base.py", "Base::test_inherited", f"{FILE}::TestSub::test_inherited"): "passed",
    (FILE, "TestSub::test_own", ""): "failed",
    (FILE, "TestUnit::test_equal", ""): "failed",
    (FILE, "TestUnit::test_expected", ""): "skipped",
    ("tests/base.py", "imported", f"{FILE}::test_imported"): "passed",
    (FILE, "test_unexpected", ""): "skipped",
    (FILE, "test_skipped", ""): "skipped",
    (FILE, "test_teardown", ""): "failed",
    (FILE, "test_reads", ""): "passed",
    (FILE, "test_product", ""): "passed",
    ("tests/test_broken.py", "", ""): "failed",
    ("tests/test_text.txt", "test_text.txt", ""): "passed",
}
HELD = {FILE, "tests/base.py", "tests/test_broken.py", "tests/test_text.txt", "conftest.py"}
OPENED = {"tests/data/cases.json", "tests/data/helped.txt"}


@pytest.mark.parametrize("args", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_a_run_tells_how_each_test_ended(root: Path, args: tuple[str, ...]) -> None:
    done, outcomes = run(root, "--continue-on-collection-errors", "-W", "error", *args)
    assert done.returncode == 1, done
    assert told(outcomes) == ENDED
    assert outcomes.complete
    assert outcomes.held == HELD
    assert outcomes.opened - {"tests/test_text.txt"} == OPENED
    said = {one.name: one.message for one in outcomes.tests}
    assert "a token" in said["test_case"]
    assert "another token" in said["TestSub::test_own"]
    assert "at its end" in said["test_teardown"]
    assert "gone" in said[""]
