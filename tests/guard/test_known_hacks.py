"""The three hacks that are told, and honest code that comes close to them."""

from __future__ import annotations

import pytest

from rlm_ci.guard.known_hacks import EQUAL, EXIT, PATCHED, added
from rlm_ci.report.findings import Severity
from testing.guarded_trees import judged

#: A file, what is new in it, and the rule that tells of it.
HACKS: dict[str, tuple[str, str, str]] = {
    "at once": ("a.py", "import os\ndef f():\n    os._exit(0)\n", EXIT),
    "imported": ("a.py", "from os import _exit\ndef f():\n    _exit(0)\n", EXIT),
    "at the end": ("a.py", "import atexit, os\natexit.register(os._exit, 0)\n", EXIT),
    "in a lambda": ("a.py", "import atexit, os\natexit.register(lambda: os._exit(0))\n", EXIT),
    "at import": ("a.py", "import sys\ntry:\n    sys.exit()\nfinally:\n    pass\n", EXIT),
    "raised at import": ("a.py", "raise SystemExit(0)\n", EXIT),
    "a class": ("a.py", "class A(int):\n    def __eq__(self, o):\n        return True\n", EQUAL),
    "with a docstring": (
        "a.py", "class A:\n    def __eq__(self, o):\n        'Any.'\n        return True\n", EQUAL,
    ),
    "a lambda": ("a.py", "class A:\n    __eq__ = lambda self, other: True\n", EQUAL),
    "a report": (
        "a.py", "from _pytest.reports import TestReport\nTestReport.outcome = 'passed'\n", PATCHED,
    ),
    "a runner": (
        "a.py", "import _pytest.runner as r\ndef f():\n    r.CallInfo.from_call = None\n", PATCHED,
    ),
    "a case": ("a.py", "import unittest\nsetattr(unittest.TestCase, 'run', print)\n", PATCHED),
    "by its name": (
        "a.py", "import importlib\nimportlib.import_module('_pytest.python').x = 1\n", PATCHED,
    ),
    "among modules": ("a.py", "import sys\nsys.modules['pytest'].fail = print\n", PATCHED),
    "a hook": ("a.py", "def pytest_runtest_makereport(item, call):\n    pass\n", PATCHED),
    "a script": ("a.js", "const a = 1;\nprocess.exit(0);\n", EXIT),
    "another exit": ("a.mjs", "process.on('exit', () => { process.exitCode = 0; });\n", EXIT),
    "claims": ("a.ts", "globalThis.expect = () => anything;\n", PATCHED),
    "an assertion": ("a.cjs", "assert.strictEqual = () => {};\n", PATCHED),
    "a package": ("a.go", "package a\n\nfunc init() {\n\tos.Exit(0)\n}\n", EXIT),
    "arguments": ("a.go", "package a\n\nfunc init() {\n\tos.Args = nil\n}\n", PATCHED),
}  # fmt: skip
HONEST: dict[str, tuple[str, str]] = {
    "a program": ("a.py", "import sys\nif __name__ == '__main__':\n    sys.exit(main())\n"),
    "without a guard": ("a.py", "import sys\nsys.exit(main())\n"),
    "in a function": ("a.py", "import sys\ndef cli(a):\n    if a:\n        sys.exit(0)\n"),
    "with a failure": ("a.py", "import os, sys\ndef f():\n    os._exit(1)\nsys.exit(2)\n"),
    "a child": ("a.py", "import os\ndef f():\n    if not os.fork():\n        os._exit(0)\n"),
    "another program": ("a.py", "import os\ndef f(a):\n    os.execvp(a[0], a)\n"),
    "equality": ("a.py", "class A:\n    def __eq__(self, o):\n        return self.a == o.a\n"),
    "of some": (
        "a.py", "class A:\n    def __eq__(self, o):\n        if o:\n            return True\n",
    ),
    "a mock": ("a.py", "from unittest import mock\nm = mock.Mock()\nm.x = 1\n"),
    "modules": ("a.py", "import sys\nsys.modules['a.b'] = sys\nsys.modules[__name__].x = 1\n"),
    "help": ("a.js", "if (help) {\n  process.exit(0);\n}\nfunction f() { process.exit(0) }\n"),
    "a code": ("a.js", "process.exitCode = process.exitCode ?? 0;\nprocess.exit(code);\n"),
    "a signal": ("a.js", "process.on('SIGINT', () => process.exit(0));\n"),
    "a program of Go": ("a.go", "package main\n\nfunc main() {\n\tos.Exit(0)\n}\n"),
    "no Python": ("a.py", "os._exit(0\n"),
    "another language": ("a.txt", "process.exit(0);\n"),
}  # fmt: skip


@pytest.mark.parametrize("case", HACKS)
def test_a_hack_is_told_and_refuses_nothing(case: str) -> None:
    path, text, rule = HACKS[case]
    assert [found for _, found, _ in added(path, "", text)] == [rule]
    assert list(added(path, text, f"{text}\n")) == []  # it was there
    [finding] = judged({}, {f"src/{path}": text})
    assert (finding.rule, finding.severity) == (f"tamper/{rule}", Severity.MEDIUM)
    assert not finding.fails(Severity.HIGH)


@pytest.mark.parametrize("case", HONEST)
def test_honest_code_is_no_hack(case: str) -> None:
    path, text = HONEST[case]
    assert list(added(path, "", text)) == []


def test_hooks_of_a_plugin_are_its_own() -> None:
    before = "def pytest_addoption(parser):\n    pass\n"
    after = f"{before}\n\ndef pytest_runtest_setup(item):\n    pass\n"
    assert list(added("plugin.py", before, after)) == []


@pytest.mark.full
@pytest.mark.timeout(60)
def test_what_is_meant_to_hurt_is_survived() -> None:
    for text in ("(" * 100_000, "a." * 20_000 + "b = 1\n", "f(" * 90 + ")" * 90, "\0", "\ud800",
                 "os._exit(0)\n" * 5_000, "a().b = 1\n" * 5_000):  # fmt: skip
        for path in ("a.py", "a.js", "a.go", "a.tsx"):
            assert len(list(added(path, "", text))) <= 5_000
