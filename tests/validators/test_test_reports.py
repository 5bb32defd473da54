"""How tests ended, as a plugin in a real pytest tells it, and what a run can see of the plugin."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from rlm_ci.fix.verdict.validator_run import ValidatorRuns
from rlm_ci.git.repository import Repository, discover
from rlm_ci.guard.protected.protection import Protection
from rlm_ci.sandbox import choose
from rlm_ci.system import files
from rlm_ci.system.process import Clipped
from rlm_ci.system.transcript import transcribe
from rlm_ci.validators import test_reports
from rlm_ci.validators.outcomes import TestOutcomes
from rlm_ci.workspace.sandboxed_commands import SandboxedCommands
from rlm_ci.workspace.workspace import Workspace
from testing.fix_options import context
from testing.repositories.git_repo import GitRepo

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
    made = {"open": (Path(__file__).parent / "data" / "helped.txt").read_text}
    exec("def read(): return open()", made)
    return made["read"]()
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
) -> tuple[subprocess.CompletedProcess[str], TestOutcomes]:
    """Run pytest in ``root`` as a validator is run, and read what was told.

    It has a temporary folder of its own: in ours it would clear away, for minutes, what earlier
    runs of all our tests left there.
    """
    folder = root.parent / f"told-{len(list(root.parent.iterdir()))}"
    folder.mkdir()
    temporary = root.parent / "temporary"
    temporary.mkdir(exist_ok=True)
    base = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    base["TMPDIR"] = str(temporary)
    base |= test_reports.environment(str(folder), str(root), base, **how)
    argv = [*before, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *args]
    argv += ["-o", "faulthandler_timeout=60"]  # a run that hangs says where
    try:
        done = subprocess.run(
            argv, cwd=root, env=base, capture_output=True, text=True, check=False, timeout=120
        )
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"{error}\n{error.stdout!r}\n{error.stderr!r}")
    lines = test_reports.collect(str(folder))
    assert json.loads(json.dumps(lines)) == lines
    printed = transcribe(Clipped(done.stdout.encode()), str).lines
    return done, test_reports.read(printed, lines, str(root))


def told(outcomes: TestOutcomes) -> dict[tuple[str, str, str], str]:
    return {(one.location, one.name, one.case): one.state for one in outcomes.tests}


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


@pytest.mark.parametrize("args", [(), pytest.param(("-n", "2"), marks=pytest.mark.full)])
def test_a_run_tells_how_each_test_ended(root: Path, args: tuple[str, ...]) -> None:
    done, outcomes = run(root, "--continue-on-collection-errors", "-W", "error", *args)
    assert done.returncode == 1, done
    assert told(outcomes) == ENDED
    assert outcomes.complete
    assert outcomes.test_files == HELD
    said = {one.name: one.message for one in outcomes.tests}
    assert "a token" in said["test_case"]
    assert "another token" in said["TestSub::test_own"]
    assert "at its end" in said["test_teardown"]
    assert "gone" in said[""]


SEEN = """
import json, os, subprocess, sys
import pytest
from hypothesis import given, strategies

ASK = "import json, os, sys; print(json.dumps([sys.path, dict(os.environ)]))"

def test_environment():
    told = subprocess.run([sys.executable, "-c", ASK], capture_output=True, check=True).stdout
    for path, environ in (json.loads(told), [sys.path, dict(os.environ)]):
        assert not [one for one in path if "pytest_plugin" in one]
        assert environ["PYTHONPATH"] == "lib" and "PYTEST_PLUGINS" not in environ
        assert not [name for name in environ if "RLM_CI" in name]
    assert "rlm_ci_outcomes" not in sys.modules

def test_descriptors():
    links = map(os.readlink, (f"/proc/self/fd/{one}" for one in os.listdir("/proc/self/fd")[:3]))
    assert not [one for one in links if "jsonl" in one]

def test_nested(pytester):
    pytester.makepyfile("def test_a(): pass\\ndef test_b(): assert 0")
    pytester.runpytest_inprocess().assert_outcomes(passed=1, failed=1)
    pytester.runpytest_subprocess().assert_outcomes(passed=1, failed=1)

def test_patched(monkeypatch):
    for name in ("open", "write", "close", "getcwd"):
        monkeypatch.setattr(os, name, None)
    monkeypatch.setattr(json, "dumps", None)

@given(strategies.integers())
def test_property(number): assert isinstance(number, int)

@pytest.mark.parametrize("text", ["a::b", "[c]"])
class TestOuter:
    class TestInner:
        def test_text(self, text): assert 0

def factory():
    class TestLocal:
        def test_made(self): pass
    return TestLocal

TestMade = factory()
"""


@pytest.mark.full
def test_nothing_of_it_can_be_seen(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "test_seen.py").write_text(SEEN, encoding="utf-8")
    args = ["-v", "-W", "error", "--strict-config", "--strict-markers", "-p", "pytester"]
    args += ["-p", "no:hypothesispytest"]  # it says where its examples are
    done, outcomes = run(root, *args, env={"PYTHONPATH": "lib"})
    names = [(one.name, one.case, one.state) for one in outcomes.tests]
    assert names == [
        ("test_environment", "", "passed"),
        ("test_descriptors", "", "passed"),
        ("test_nested", "", "passed"),
        ("test_patched", "", "passed"),
        ("test_property", "", "passed"),
        ("TestOuter::TestInner::test_text", "a::b", "failed"),
        ("TestOuter::TestInner::test_text", "[c]", "failed"),
        ("TestLocal::test_made", "test_seen.py::TestMade::test_made", "passed"),
    ], done.stdout
    plain, _ = run(root, *args, env={"PYTHONPATH": "lib"}, plugin=False)
    assert plain.returncode == done.returncode == 1
    body = [
        one.stdout.partition("collected")[2].partition("= short test")[0] for one in (done, plain)
    ]
    assert body[0].partition("PASSES")[0].splitlines()[:12] == body[1].splitlines()[:12]


@pytest.mark.full
def test_a_worker_that_dies_takes_a_failed_test_with_it(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    text = "import os\ndef test_dies(): os._exit(3)\ndef test_lives(): pass\n"
    (root / "test_crash.py").write_text(text, encoding="utf-8")
    _, outcomes = run(root, "-n", "1")
    assert told(outcomes) == {
        ("test_crash.py", "test_dies", ""): "failed",
        ("test_crash.py", "test_lives", ""): "passed",
    }


MANNER = """
import os
def test_first(): assert 0, "first"
def test_hidden(): assert "PYTEST_CURRENT_TEST" not in os.environ
def test_version(): assert "PYTEST_VERSION" not in os.environ
def test_last(): assert 0, "last"
"""


@pytest.mark.full
@pytest.mark.parametrize("args", [(), pytest.param(("-n", "1"), marks=pytest.mark.full)])
def test_a_run_can_be_short_and_without_the_variables_of_pytest(
    tmp_path: Path, args: tuple[str, ...]
) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "test_manner.py").write_text(MANNER, encoding="utf-8")
    done, outcomes = run(root, "-x", "--full-trace", *args, short=True, hide=True)
    states = [one.state for one in outcomes.tests]
    assert states == ["failed", "passed", "passed", "failed"], done.stdout
    assert "AssertionError: last" in done.stdout
    assert "def test_last" not in done.stdout
    _, outcomes = run(root, *args)
    assert [one.state for one in outcomes.tests] == ["failed"] * 4


PROPERTY = """
from hypothesis import given, settings, strategies

class TestAll:
    @settings(max_examples=500)
    @given(strategies.lists(strategies.integers()))
    def test_sums(self, numbers):
        with open("calls", "a") as file:
            file.write("x")
        assert sum(numbers) < 10
"""


@pytest.mark.full
def test_a_short_run_takes_the_first_example_of_a_failure(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    (root / "test_property.py").write_text(PROPERTY, encoding="utf-8")
    calls = []
    for short in (False, True):
        _, outcomes = run(root, short=short)
        assert [outcome.state for outcome in outcomes.tests] == ["failed"]
        calls.append((root / "calls").stat().st_size)
        (root / "calls").unlink()
    assert calls[1] * 2 < calls[0]


@pytest.mark.full
def test_where_it_cannot_be_imported_the_summary_tells(root: Path) -> None:
    (root / "tests" / "test_broken.py").unlink()
    before = ("env", "PYTHONPATH=src")
    done, outcomes = run(root, before=before)
    assert test_reports.refused(done.stdout + done.stderr)
    assert outcomes == TestOutcomes()
    with (root / "pytest.ini").open("a", encoding="utf-8") as file:
        file.write("    -x --tb=long\n")
    done, outcomes = run(root, before=before, plugin=False, short=True)
    assert not test_reports.refused(done.stdout + done.stderr)
    assert outcomes.complete
    told_so = told(outcomes)
    assert told_so[FILE, "test_case", "3"] == "failed"
    assert told_so[FILE, "test_teardown", ""] == "failed"
    assert told_so[FILE, "TestSub::test_inherited", ""] == "passed"


def test_what_is_read_back_may_be_anything(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    rows = [
        "[" * 15_000, "[]", "{}", "null", '["test"]',
        '["test", 1]', '["test","a"]', "\\", '["begun"]',
        json.dumps(["test", "../x", "n", "", "passed", ""]),
        json.dumps(["test", "/x", "n", "", "won", ""]),
        json.dumps(["test", "a.py", "\ud800\x1b", "", "failed", "\x1b[31m\ud800"]),
        json.dumps(["held", "../up"]), json.dumps(["held", ""]), json.dumps(["held", "a\0"]),
    ]  # fmt: skip
    (tmp_path / "a").write_text("\n".join(rows), encoding="utf-8")
    (tmp_path / "b").write_bytes(b"\xff\xfe" * 1000 + b"x" * 30_000)
    outcomes = test_reports.read([], test_reports.collect(str(tmp_path)), "/")
    assert [(one.location, one.state) for one in outcomes.tests] == [
        ("", "passed"),
        ("a.py", "failed"),
    ]
    assert outcomes.test_files == frozenset()
    "".join(one.name + one.message for one in outcomes.tests).encode()
    assert test_reports.collect(str(tmp_path / "gone")) == []


@pytest.mark.full
def test_without_a_sandbox_a_fresh_tree_has_places_as_well(repo: GitRepo, tmp_path: Path) -> None:
    text = "from pathlib import Path\ndef test_a(): (Path(__file__).parent / 'a.txt').read_text()\n"
    repo.write("tests/test_a.py", text).write("tests/a.txt", "x\n").commit()
    environ = dict(os.environ)
    place = Repository(*discover(str(repo.path)), environ)
    space = Workspace(str(tmp_path / "run"), place, environ, isolated=False)
    cell = SandboxedCommands(choose("none", environ), space, place.root, environ)
    runs = ValidatorRuns(context(tmp_path, cell), Protection())
    argv = (sys.executable, "-m", "pytest")
    tree = space.snapshot.tree
    for ran in (runs.in_copy("validator", "a", argv, tree), runs.in_fresh("b", argv, tree)):
        assert told(ran.outcomes) == {("tests/test_a.py", "test_a", ""): "passed"}
        assert ran.outcomes.test_files == {"tests/test_a.py"}


DEEP = """
import os
from pathlib import Path
def test_deep():
    for at in list(Path(OWN).glob("rlm-ci-*")):
        for _ in range(1500):
            os.chdir(at)
            os.mkdir("a")
            at = "a"
"""


@pytest.mark.full
def test_a_job_may_leave_anything_where_the_plugin_writes(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(own))
    repo.write("test_a.py", DEEP.replace("OWN", repr(str(own))))
    repo.commit()
    environ = dict(os.environ)
    place = Repository(*discover(str(repo.path)), environ)
    space = Workspace(str(tmp_path / "run"), place, environ, isolated=False)
    cell = SandboxedCommands(choose("none", environ), space, place.root, environ)
    runs = ValidatorRuns(context(tmp_path, cell), Protection())
    try:
        ran = runs.in_fresh("a", (sys.executable, "-m", "pytest"), space.snapshot.tree)
        left = [one.name for one in own.iterdir() if one.name.startswith("rlm-ci-")]
    finally:
        files.clear(str(own))  # pytest could not remove it
    assert told(ran.outcomes) == {("test_a.py", "test_deep", ""): "passed"}
    assert not left


@pytest.mark.parametrize(("more", "complete"), [
    ("", True),
    ("Tests:       2 passed, 2 total\n", False),
    ("test a ... ok\ntest result: ok. 1 passed; 0 failed; 0 ignored\n", True),
])  # fmt: skip
def test_all_runners_must_name_all_their_tests(more: str, complete: bool) -> None:
    """What jest leaves out of a green run is not lost."""
    rows = [["begun"], ["test", "test_a.py", "test_a", "", "passed", ""]]
    printed = f"1 passed in 0.1s\n{more}".splitlines()
    assert test_reports.read(printed, map(json.dumps, rows), "/").complete == complete


def test_a_plugin_that_told_nothing_leaves_it_to_what_is_printed() -> None:
    printed = ["FAILED test_a.py::test_a - assert 0", "PASSED test_a.py::test_b"]
    printed = ["=== short test summary info ===", *printed, "=== 1 failed, 1 passed in 0.1s ==="]
    outcomes = test_reports.read(printed, ['["begun"]'], "/")
    assert [one.name for one in outcomes.tests] == ["test_a", "test_b"]
    assert outcomes.complete
    assert test_reports.refused('  File "/x/pytest_plugin/rlm_ci_outcomes.py", line 12\n')
