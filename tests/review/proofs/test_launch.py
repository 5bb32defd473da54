"""Reproductions that lie or harm, and code of a change that fakes how tests end."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from rlm_ci.review.proofs.reproduction import ProofOutcome, Reproduction
from rlm_ci.review.proofs.runner import ProofRunner
from rlm_ci.trials.trees import ProofPlace
from testing.proofs_stage import BASE, HEAD, Facts, changed, place_of
from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.full

CLAIM = "from shop import password\n\ndef test_claim():\n    assert password('a:b:c') == 'b:c'\n"
SHOP = "src/shop/__init__.py"
LAST = "    return text.r"


def case(text: str, path: str = "tests/test_claim.py", expects: str = "Exception") -> Reproduction:
    return Reproduction(path, text, "test", expects)


def script(text: str, expects: str = "AssertionError") -> Reproduction:
    return Reproduction("script.py", text, "script", expects)


def check(place: ProofPlace, one: Reproduction, seconds: float = 60) -> ProofOutcome:
    with ProofRunner(place, Facts(), seconds=seconds) as runner:
        return runner.check(one)


#: What a model may write: script, the exception that it names, how the run at head ends.
LIES = {
    "edits": (
        "import shop\nopen(shop.__file__, 'a').write('x = 1')\nassert False\n", "OSError",
        "changed_files",
    ),
    "removes": ("import os, shop\nos.unlink(shop.__file__)\n", "OSError", "changed_files"),
    "sleeps": ("import time\ntime.sleep(600)\nassert False\n", "AssertionError", "timeout"),
    "prints": (
        "while True: print('x' * (1 << 20))\n", "AssertionError", "too_much_output",
    ),
    "fills": (
        "f = open('/tmp/x', 'wb')\nwhile True: f.write(b'x' * (1 << 20))\n", "OSError",
        "too_much_output",
    ),
    "exits": ("import os\nos._exit(1)\n", "SystemExit", "not_run"),
    "leaves": ("import sys, shop\nshop.total.__globals__['sys'] = sys\nsys.exit(3)\n",
        "SystemExit", "failed"),
    "kills": ("import os\nos.kill(os.getpid(), 9)\n", "SystemExit", "not_run"),
    "forks": (
        "import os\nfor _ in range(3): os.fork()\nassert False\n", "AssertionError", "failed",
    ),
    "grows": ("x = [b'x' * (1 << 20) for _ in range(4096)]\n", "AssertionError", ""),
    "reports": (
        ("import json, os\n"
        "text = json.dumps({'token': 'x', 'passed': [], 'failures': []})\n"
        "open('/proof/out/report', 'w').write(text)\nos._exit(0)\n"), "AssertionError", "not_run",
    ),
    "looks for secrets": (
        (
            "import glob, os\nfound = str(os.environ)\n"
            "for place in glob.glob('/proc/*/environ') + glob.glob('/home/*/*'):\n"
            "    try: found += open(place).read()\n"
            "    except OSError: pass\n"
            "assert 'hush' not in found, found\n"
        ),
        "AssertionError", "passed",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LIES)
def test_a_lie_is_never_proven(shop: ProofPlace, name: str) -> None:
    text, expects, status = LIES[name]
    before = sorted(os.listdir(shop.repository.root))
    found = check(shop, script(text, expects), seconds=3 if name == "sleeps" else 20)
    assert found.level == "argued", found
    assert status in {"", found.head.status}, found
    assert len(found.head.output) < 20_000
    assert sorted(os.listdir(shop.repository.root)) == before


def test_no_socket_leads_out(shop: ProofPlace) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.01)
        port = server.getsockname()[1]
        text = f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 5)\n"
        assert check(shop, script(text, "OSError")).level == "argued"
        with pytest.raises(TimeoutError):
            server.accept()


def test_a_reproduction_lies_beside_the_project(tmp_path: Path) -> None:
    """It replaces no file of it, and is written nowhere else."""
    outside = tmp_path / "outside"
    outside.mkdir()
    repo = GitRepo(tmp_path / "repo")
    base = repo.write_all(BASE).commit()
    os.symlink(outside, repo.path / "out")
    place = place_of(repo, base, repo.write_all(HEAD).commit())
    with ProofRunner(place, Facts()) as runner:
        for path in (
            "tests/conftest.py", "conftest.py", "sitecustomize.py", "../test_out.py",
            "/tmp/test_x.py", "tests/test_shop.py", "tests/../../test_x.py", "tests/test_\0.py",
            "test_x.js", "", "out/test_x.py", "out/new/test_x.py", ".git/test_x.py",
            "tests/test_shop.py/test_x.py", "tests/" + "x" * 290 + "/test_x.py",
        ):  # fmt: skip
            found = runner.check(case(CLAIM, path, "AssertionError"))
            assert (found.level, found.head.status) == ("argued", "not_run"), (path, found)
        assert not list(outside.iterdir())
        assert runner.check(case(CLAIM, "new/test_x.py", "AssertionError")).level == "proven"


HOOK = (
    "import pytest\n\n@pytest.hookimpl(hookwrapper=True)\n"
    "def pytest_runtest_makereport(item, call):\n    result = yield\n    call.excinfo = None\n"
    "    result.get_result().outcome = 'passed'\n\n"
    "@pytest.hookimpl(tryfirst=True)\ndef pytest_pyfunc_call(pyfuncitem):\n    return True\n"
)
PATCH = "import pytest, _pytest.python\n_pytest.python.Function.runtest = lambda self: None\n"
#: What a change may add so that no test fails: what counts is the base's, or left out.
ADDED = {
    "tests/conftest.py": HOOK,
    "conftest.py": HOOK,
    "sitecustomize.py": PATCH,
    "src/sitecustomize.py": PATCH,
    "src/evil.py": HOOK,
    "pytest.ini": "[pytest]\naddopts = -p evil\n",
    "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '-p evil --collect-only'\n",
    "evil.egg-info/entry_points.txt": "[pytest11]\nevil = evil\n",
    "src/evil.egg-info/entry_points.txt": "[pytest11]\nevil = evil\n",
    "src/shop/__pycache__/__init__.cpython-311.pyc": "x",
    **dict.fromkeys(
        (
            "pytest.py", "src/pytest.py", "src/unittest/__init__.py", "json.py", "src/_pytest.py",
            "src/traceback.py", "pluggy.py",
        ),
        "raise SystemExit(0)\n",
    ),
}  # fmt: skip


def test_files_of_a_change_do_not_hide_its_fault(tmp_path: Path) -> None:
    place = changed(tmp_path, {**HEAD, **ADDED})
    found = check(place, case(CLAIM, expects="AssertionError"))
    assert found.level == "proven", found


#: Code that a change may run as soon as it is imported, or in the function that has the fault.
IMPORTED = {
    "the runner": PATCH,
    "its hooks": "import _pytest.runner as r\nr.CallInfo.from_call = lambda *a, **k: None\n",
    "assert": "import builtins, unittest\nbuiltins.AssertionError = unittest.SkipTest\n",
    "a report": "import os\nopen('/proof/out/report', 'w').write('{}')\nos._exit(0)\n",
}
CALLED = ("import os; os._exit(0)", "import pytest; pytest.exit('', 0)")


@pytest.mark.parametrize("code", [*IMPORTED.values(), *CALLED], ids=[*IMPORTED, *CALLED])
def test_code_of_a_change_does_not_refute_a_claim(tmp_path: Path, code: str) -> None:
    shop = HEAD[SHOP]
    shop = shop.replace(LAST, f"    {code}\n{LAST}") if code in CALLED else f"{shop}\n{code}"
    found = check(changed(tmp_path, {SHOP: shop}), case(CLAIM, expects="AssertionError"))
    assert found.head.status != "passed", found
    assert found.level == "argued", found


def test_unittest_where_pytest_is_not_installed(tmp_path: Path) -> None:
    """The Python of the repository's own environment runs it."""
    text = (
        "import unittest, shop\n\nclass TestClaim(unittest.TestCase):\n"
        "    def test_claim(self):\n        self.assertEqual(shop.password('a:b:c'), 'b:c')\n"
    )
    place = changed(tmp_path, HEAD)
    programs = Path(place.repository.root, ".venv", "bin")
    programs.mkdir(parents=True)
    (programs / "python").write_text('#!/bin/sh\nexec python3 -S "$@"\n')
    (programs / "python").chmod(0o755)
    found = check(place, case(text, expects="AssertionError: 'c' != 'b:c'"))
    assert found.level == "proven", found


def test_a_conftest_of_the_base_that_does_not_fit_the_head(tmp_path: Path) -> None:
    head = {SHOP: HEAD[SHOP].replace("LIMIT", "MOST")}
    found = check(changed(tmp_path, head), case(CLAIM, expects="AssertionError"))
    assert found.level == "proven", found


def test_a_plugin_that_the_change_edits(tmp_path: Path) -> None:
    """The base names it: what the head makes of it decides nothing."""
    repo = GitRepo(tmp_path)
    tests = {"conftest.py": "pytest_plugins = ['tests.more']\n", "tests/__init__.py": ""}
    base = repo.write_all({**BASE, **tests, "tests/more.py": ""}).commit()
    head = repo.write_all({**HEAD, "tests/more.py": HOOK}).commit()
    found = check(place_of(repo, base, head), case(CLAIM, expects="AssertionError"))
    assert found.level == "argued", found
    assert found.reason == "at head the change edits tests/more.py, a plugin of the tests"


STORE = """import tempfile


class Upload:
    def __init__(self):
        self.stream = tempfile.TemporaryFile()

    def finish(self):
        self.stream.seek(0)
        self.stream.close()
"""
_SHORT = "    one.finish()\n    assert one.stream.closed, 'still open'\n"
#: Tests of a leak, each of which leaves something for the garbage collector.
LEAKS = {
    "one file": f"def test_claim():\n    one = Upload()\n{_SHORT}",
    "a cycle": f"def test_claim():\n    one = Upload()\n    one.me = one\n{_SHORT}",
    "others": f"left = Upload()\n\ndef test_claim():\n    one, _ = Upload(), Upload()\n{_SHORT}",
    "a warning": (
        "import gc, warnings\n\ndef test_claim():\n"
        "    with warnings.catch_warnings(record=True) as heard:\n"
        "        warnings.simplefilter('always')\n        Upload().finish()\n        gc.collect()\n"
        "    assert not heard, 'still open'\n"
    ),
}


@pytest.mark.parametrize(
    "name", ["one file", *(pytest.param(name, marks=pytest.mark.full) for name in [*LEAKS][1:])]
)
def test_a_leak_is_proven_where_warnings_are_errors(tmp_path: Path, name: str) -> None:
    text = f"from store import Upload\n\n{LEAKS[name]}"
    repo = GitRepo(tmp_path)
    repo.write("pyproject.toml", '[tool.pytest.ini_options]\nfilterwarnings = ["error"]\n')
    base = repo.write("store.py", STORE).commit()
    head = repo.write("store.py", STORE.replace("        self.stream.close()\n", "")).commit()
    with ProofRunner(place_of(repo, base, head), Facts()) as runner:
        found = runner.check(case(text, "tests/test_claim.py", "AssertionError: still open"))
        assert found.level == "proven", found
        told = runner.shell("python -m pytest -q tests || ls -a", "head").output.text()
        assert "CacheWarning" not in told


#: Tests that record nothing, and what they expect.
OPEN = {
    "a file": ("def test_claim():\n    Upload().finish()\n", "ResourceWarning: unclosed"),
    "a cycle": (
        "def test_claim():\n    one = Upload()\n    one.me = one\n    one.finish()\n",
        "ResourceWarning",
    ),
    "as pytest calls it": (
        "def test_claim():\n    Upload().finish()\n", "pytest.PytestUnraisableExceptionWarning"
    ),
}  # fmt: skip


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("name", "filters"),
    [*((name, "error") for name in OPEN), ("a file", "default"), ("as pytest calls it", "default")],
)
def test_a_leak_that_a_test_expects_need_not_be_recorded(
    tmp_path: Path, name: str, filters: str
) -> None:
    text, expects = OPEN[name]
    repo = GitRepo(tmp_path)
    repo.write("pyproject.toml", f'[tool.pytest.ini_options]\nfilterwarnings = ["{filters}"]\n')
    base = repo.write("store.py", STORE).commit()
    head = repo.write("store.py", STORE.replace("        self.stream.close()\n", "")).commit()
    one = case(f"from store import Upload\n\n{text}", "tests/test_claim.py", expects)
    with ProofRunner(place_of(repo, base, head), Facts()) as runner:
        found = runner.check(one)
        is_told = filters == "error" or "Unraisable" not in expects
        assert found.level == ("proven" if is_told else "argued"), found
        # Who expects something else is not told of it, and what leaks at the base shows nothing.
        other = runner.check(one.replace(expects="RuntimeWarning: never awaited"))
        assert (other.level, other.head.status) == ("argued", "passed"), other
    with ProofRunner(place_of(repo, head, head), Facts()) as runner:
        assert runner.check(one).level == "argued"


@pytest.mark.parametrize(
    ("path", "text", "filters"),
    [
        ("pyproject.toml", '[tool.pytest.ini_options]\nfilterwarnings = ["error"]\n', "error"),
        pytest.param(
            "pytest.ini",
            "[pytest]\nfilterwarnings =\n    ignore:old\n    error::ResourceWarning\n",
            "ignore:old; error::ResourceWarning", marks=pytest.mark.full,
        ),
        pytest.param("tox.ini", "[pytest]\naddopts = -W error\n", "error", marks=pytest.mark.full),
        pytest.param(
            "setup.cfg", "[tool:pytest]\nfilterwarnings = ignore:error\n", "",
            marks=pytest.mark.full,
        ),
        pytest.param(
            "tests/conftest.py", "import nothing_of_this_name\n", "", marks=pytest.mark.full
        ),
    ],
)  # fmt: skip
def test_pytest_itself_says_whether_warnings_are_errors(
    tmp_path: Path, path: str, text: str, filters: str
) -> None:
    repo = GitRepo(tmp_path)
    base = repo.write("store.py", STORE).write("tests/test_a.py", "").write(path, text).commit()
    head = repo.write("store.py", "").commit()
    with ProofRunner(place_of(repo, base, head), Facts()) as runner:
        assert runner.framework().split("\n") == [
            f"pytest {pytest.__version__}",
            *([f"Warnings are errors, with these filters: {filters}"] if filters else []),
        ]
