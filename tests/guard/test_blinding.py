"""Suspicious lines without their effect, by language."""

from __future__ import annotations

import random
import time

import pytest

from rlm_ci.guard import blinding
from rlm_ci.guard.blinding import Blinded
from rlm_ci.guard.known_hacks import hacks

WORD = "nobodyset"
#: The file, a line of the list, and a part of what it becomes.
LINES = [
    ("a.py", "if 'PYTEST_CURRENT_TEST' in os.environ: pass", "if 'nobodysetnobodysetn' in "),
    ("a.py", "if 'pytest' in sys.modules: pass", "if key.partition('.')[0] not in ('pytest'"),
    ("a.py", "if 'test' in sys.argv[0]: pass", "['/home/user/nobodyset.py'] if any("),
    ("a.py", "x = inspect.stack()[1].function", "function='nobodyset', code_context=None"),
    ("a.py", "x = frame.f_code.co_name", "x = 'nobodyset'"),
    ("a.py", "import time\ntime.time = zero", "if hasattr(time, 'time') else time).time = zero"),
    ("a.py", "import random\nsetattr(random, 'random', zero)", "hasattr(random, 'random') or set"),
    ("a.py", "import os\ndel os.path.exists", "import os\npass"),
    ("a.py", "def pytest_runtest_call(item): pass", "def nobodyset(item): pass"),
    ("a.py", "import os\nos._exit(0)", "((lambda *_: None) if any("),
    ("a.py", "raise SystemExit", "pass"),
    ("a.py", "x = date.today() < date(2027, 1, 1)", "date(2001, 1, 1)"),
    ("a.js", "x = process.env.JEST_WORKER_ID;", "x = process.env.nobodysetnobod;"),
    ("a.js", "x = new Error().stack.includes('t');", "x = 'Error\\n    at nobodyset ("),
    ("a.js", "Date.now = () => 0;", "Object('now' in Date ? {} : Date).now = "),
    ("a.js", "process.exit(0);", "Boolean(0);"),
    ("a.ts", "x = import.meta.vitest;", "x = undefined;"),
    ("a.go", "var x = testing.Testing()", "(testing.Testing() && false)"),
    ("a.go", "func f() { os.Exit(0) }", "func f() { nobodyset0(0) }\n\nfunc nobodyset0(...any)"),
    ("a.go", "func f() { os.Stdout = x }", "{ nobodyset0 = x }\n\nvar nobodyset0 = os.Stdout"),
    ("a.rs", "fn f() -> bool { cfg!(test) }", "cfg!(any())"),
    ("a.rs", "macro_rules! assert_eq { () => {} }", "macro_rules! nobodyset { "),
]


def blinded(path: str, text: str, before: str = "") -> Blinded:
    blind = Blinded(WORD)
    blind.add(path, hacks(path, text, before), before, text)
    return blind


@pytest.mark.parametrize(("path", "line", "part"), LINES)
def test_a_line_loses_its_effect(path: str, line: str, part: str) -> None:
    blind = blinded(path, f"{line}\n")
    assert [hack.path for hack in blind.lines] == [path]
    assert part in blind.texts[path]
    assert blind.reasons == {}


def test_what_cannot_be_blinded_has_a_reason() -> None:
    blind = blinded("a.py", "import logging\nlogging.getLogger('job').disabled = True\n")
    assert blind.texts == {}
    assert list(blind.reasons.values()) == ["its effect cannot be taken away"]


def test_a_file_that_is_about_such_lines_is_left_alone() -> None:
    before = "import os\n\ndef ended():\n    os._exit(1)\n"
    blind = blinded("a.py", f"{before}\ndef quiet():\n    os._exit(0)\n", before)
    assert blind.texts == {}
    assert list(blind.reasons.values()) == ["such lines are what the file is about"]


@pytest.mark.parametrize(
    ("line", "test", "is_subject"),
    [
        ("import os\nos._exit(0)", "subprocess.run([...])", True),
        ("import os\nos._exit(0)", "assert add(1, 2) == 3", False),
        ("if 'pytest' in sys.modules: pass", "assert loaded(sys.modules)", True),
        ("x = date.today() < date(2027, 1, 1)", "with freeze_time(): pass", True),
    ],
)
def test_a_test_may_be_about_what_a_line_does(line: str, test: str, *, is_subject: bool) -> None:
    [hack] = hacks("a.py", f"{line}\n")
    assert blinding.is_subject(hack, test) is is_subject


def test_python_runs_as_for_a_user() -> None:
    text = (
        "import random, sys, time\nseen = 'pytest' in sys.modules\n"
        "before = time.monotonic\ntime.monotonic = seen\nrandom.of_ours = 1\n"
    )
    space: dict[str, object] = {}
    exec(blinded("a.py", text).texts["a.py"], space)
    assert space["seen"] is False
    assert time.monotonic is space["before"]
    assert vars(random).pop("of_ours") == 1  # it patches nothing that was there


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", "def f():\n    warnings.showwarning = show"),
        ("a.js", "function f() {\n  console.log = g;\n}"),
        ("a.js", "if (f() { process.exit(0);"),  # it cannot be read
        ("a.rs", "std::process::exit(0);"),
    ],
)
def test_what_honest_programs_do_keeps_its_effect(path: str, text: str) -> None:
    assert blinded(path, text).texts == {}
