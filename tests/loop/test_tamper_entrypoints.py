"""What the validator starts, loads and reads as settings may not be bent."""

from __future__ import annotations

import pytest
from loop.tampering import CUSTOM, Tree, judged, rules

#: Another tree than BASE: the validator, what is there, what is changed, and what is found.
OWN: dict[str, tuple[str, Tree, Tree, set[str]]] = {
    "a script of shell": ("sh check.sh", {"check.sh": "x\n"}, {"check.sh": "true\n"},
                          {"protected-test"}),
    "a script of Python": ("python check.py", {"check.py": "x\n"}, {"check.py": "1\n"},
                           {"protected-test"}),
    "a program": ("./tools/check --all", {"tools/check": "#!/bin/sh\nx\n"},
                  {"tools/check": "#!/bin/sh\n"}, {"protected-test"}),
    "a module": ("python -m tools.check", {"tools/check.py": "x\n"}, {"tools/check.py": "1\n"},
                 {"protected-test"}),
    "a line of shell": ("cd . && FOO=1 timeout 60 bash -e ./ci.sh | tee log; true",
                        {"ci.sh": "x\n"}, {"ci.sh": "true\n"}, {"protected-test"}),
    "a shell in a shell": ("sh -c 'python -X dev -W error check.py'", {"check.py": "x\n"},
                           {"check.py": "1\n"}, {"protected-test"}),
    "what a script starts": ("sh a.sh", {"a.sh": "set -e\n. ./b.sh\n", "b.sh": "python c.py\n",
                                         "c.py": "x\n"}, {"c.py": "1\n"}, {"protected-test"}),
    "what make starts": ("make test", {"Makefile": "PY = python\ntest: lint\n\t@echo\n\n"
                                       "lint:\n\t$(PY) tools/lint.py\n", "tools/lint.py": "x\n"},
                         {"tools/lint.py": "1\n"}, {"protected-test"}),
    "what npm starts": ("npm test", {"package.json": '{"scripts": {"pretest": "npm run lint", '
                                     '"lint": "node tools/lint.js", "test": "true"}}',
                                     "tools/lint.js": "x\n"}, {"tools/lint.js": "1\n"},
                        {"protected-test"}),
    "what uv starts": ("uv run check.py", {"check.py": "x\n"}, {"check.py": "1\n"},
                       {"protected-test"}),
    "a test that is named": ("python -m pytest -q check_calc.py::test_add",
                             {"check_calc.py": CUSTOM},
                             {"check_calc.py": CUSTOM.replace("3", "-1")}, {"assertion-weakened"}),
    "python_files": ("", {"pyproject.toml": '[tool.pytest.ini_options]\n'
                          'python_files = ["check_*.py"]\n', "check_calc.py": CUSTOM},
                     {"check_calc.py": CUSTOM.replace("3", "-1")}, {"assertion-weakened"}),
    "python_files in setup.cfg": ("", {"setup.cfg": "[tool:pytest]\npython_files = check_*.py\n",
                                       "a/check_calc.py": CUSTOM}, {"a/check_calc.py": "x = 1\n"},
                                  {"test-removed"}),
    "python_files in pytest.toml": ("", {"pytest.toml": '[pytest]\npython_files = ["c_*.py"]\n',
                                         "c_calc.py": CUSTOM}, {"c_calc.py": ""},
                                    {"test-removed"}),
    "testpaths": ("", {"pytest.ini": "[pytest]\ntestpaths = checks\npython_files = *.py\n",
                       "checks/calc.py": CUSTOM}, {"checks/calc.py": "x = 1\n"}, {"test-removed"}),
    "data of testpaths": ("", {"pytest.ini": "[pytest]\ntestpaths = checks\n",
                               "checks/test_a.py": CUSTOM, "checks/a.json": "1"},
                          {"checks/a.json": "2"}, {"protected-test"}),
}  # fmt: skip
#: Commands and scripts as people write them, and the file that would be emptied: all is protected.
FOLLOWED: dict[str, tuple[str, Tree, str]] = {
    "an included file": ("make test", {"Makefile": "include build/rules.inc\n",
                                       "build/rules.inc": "test:\n\ttrue\n"}, "build/rules.inc"),
    "what an included file starts": ("make test", {"Makefile": "include build/*.inc\n",
                                                   "build/rules.inc": "test:\n\tsh a.sh\n",
                                                   "a.sh": "x\n"}, "a.sh"),
    "a file that is to be included": ("make", {"Makefile": "-include local.conf\nall:\n\ttrue\n"},
                                      "local.conf"),
    "another Makefile": ("make -f build/rules.inc test", {"build/rules.inc": "test:\n\tsh a.sh\n",
                                                          "a.sh": "x\n"}, "build/rules.inc"),
    "make elsewhere": ("make -C sub test", {"sub/Makefile": "test:\n\tsh chk.sh\n",
                                            "sub/chk.sh": "x\n"}, "sub/chk.sh"),
    "make in make": ("make", {"Makefile": "all:\n\t$(MAKE) --directory=sub test\n",
                              "sub/Makefile": "test:\n\tsh chk.sh\n", "sub/chk.sh": "x\n"},
                     "sub/chk.sh"),
    "a pattern of targets": ("make test-a", {"Makefile": "test-%:\n\tsh ci/$*.sh\n",
                                             "ci/a.sh": "x\n"}, "ci/a.sh"),
    "what make asks": ("make", {"Makefile": "X := $(shell sh v.sh)\nall:\n\ttrue\n",
                                "v.sh": "x\n"}, "v.sh"),
    "another folder": ("cd sub && sh chk.sh", {"sub/chk.sh": "x\n"}, "sub/chk.sh"),
    "beside the script": ("sh ci/a.sh", {"ci/a.sh": '. "$(dirname "$0")/lib.sh"\n',
                                         "ci/lib.sh": "x\n"}, "ci/lib.sh"),
    "beside the script, as bash has it": (
        "ci/a", {"ci/a": ("100755", ('#!/usr/bin/env bash\nD="$(cd "$(dirname "${BASH_SOURCE[0]}")"'
                           ' && pwd)"\nsource "${D%/*}/x/lib"\n')), "x/lib": "x\n"}, "x/lib"),
    "under a folder in a variable": ("sh a.sh", {"a.sh": 'DIR=$(pwd)\n"$DIR/scripts/inner" --all\n',
                                                 "scripts/inner": "x\n"}, "scripts/inner"),
    "each of some": ("for f in scripts/inn*; do sh $f; done",
                     {"scripts/inner": ("100755", "x\n")}, "scripts/inner"),
    "handed on": ("find ci -name '*.sh' | xargs -n1 timeout 9 sh",
                  {"ci/x/a.sh": "x\n"}, "ci/x/a.sh"),
    "through another program": ("flock lock python check.py", {"check.py": "x\n"}, "check.py"),
    "from Python": ("python3 tools/c.py", {
        "tools/c.py": 'import subprocess\nsubprocess.call(["sh", "scripts/inner"])\n',
        "scripts/inner": "x\n"}, "scripts/inner"),
    "from Python, by a shell": ("python3 c.py", {"c.py": 'os.system("sh inner --all")\n',
                                                 "inner": "x\n"}, "inner"),
    "a module of a tool": ("python3 tools/c.py", {"tools/c.py": "import lib\n",
                                                  "tools/lib.py": "x\n"}, "tools/lib.py"),
    "workspaces": ("npm test", {
        "package.json": '{"scripts": {"test": "npm run test --workspaces"}}',
                                "packages/a/package.json": '{"scripts": {"test": "node check.js"}}',
                                "packages/a/check.js": "x\n"}, "packages/a/check.js"),
    "one workspace": ("npm run -w a test", {
        "package.json": "{}", "packages/a/package.json": '{"scripts": {"test": "node check"}}',
        "packages/a/check.js": "x\n"}, "packages/a/check.js"),
    "another package": ("npm --prefix packages/a test", {
        "packages/a/package.json": '{"scripts": {"test": "node check.js"}}',
        "packages/a/check.js": "x\n"}, "packages/a/check.js"),
    "a script without its ending": ("npm run t7", {
        "package.json": '{"scripts": {"t7": "node bin/run"}}', "bin/run.js": "x\n"}, "bin/run.js"),
    "what is loaded first": ("node --require ./setup.js bin/run.js", {"setup.js": "x\n"},
                             "setup.js"),
    "a task": ("just test", {"justfile": "test:\n    sh ci/a.sh\n", "ci/a.sh": "x\n"}, "ci/a.sh"),
}  # fmt: skip
#: Settings that are named somewhere, and the file that would be bent.
NAMED: dict[str, tuple[str, Tree, str]] = {
    "of a linter": ("ruff check --config ci/lint.toml shop.py", {"ci/lint.toml": "x = 1\n"},
                    "ci/lint.toml"),
    "with a sign": ("mypy --config-file=ci/types.cfg .", {"ci/types.cfg": "x\n"}, "ci/types.cfg"),
    "in a variable": ("RUFF_CONFIG=ci/lint.toml ruff check", {"ci/lint.toml": "x = 1\n"},
                      "ci/lint.toml"),
    "by ruff": ("ruff check shop.py", {"pyproject.toml": '[tool.ruff]\nextend = "lint/base.toml"\n',
                                       "lint/base.toml": "x = 1\n"}, "lint/base.toml"),
    "by one that is named": ("ruff check --config a.toml", {"a.toml": 'extend = "b.toml"\n',
                                                            "b.toml": "x = 1\n"}, "b.toml"),
    "by TypeScript": ("tsc -p .", {"tsconfig.json": '{"extends": "./config/base"}',
                                   "config/base.json": "{}"}, "config/base.json"),
    "by jest": ("jest", {
        "jest.config.js": "module.exports = { setupFilesAfterEnv: ['<rootDir>/x.js'] }",
                         "x.js": "x\n"}, "x.js"),
}  # fmt: skip
#: What a validator names, reads or finds, and an honest agent changes.
FREE: dict[str, tuple[str, Tree, Tree]] = {
    "what is read": ("grep -q 'a + b' calc.py", {"calc.py": "x\n"}, {"calc.py": "y = 1\n"}),
    "what is linted": ("ruff check calc.py && mypy calc.py", {"calc.py": "x\n"},
                       {"calc.py": "y = 1\n"}),
    "what is imported": ("python -c 'import calc' calc.py", {"calc.py": "x\n"},
                         {"calc.py": "y = 1\n"}),
    "doctests": ("pytest --doctest-modules calc.py", {"calc.py": "x\n"}, {"calc.py": "y = 1\n"}),
    "another target": ("make test", {"Makefile": "test:\n\ttrue\nrun:\n\tpython app.py\n",
                                     "app.py": "x\n"}, {"app.py": "y = 1\n"}),
    "what is compiled": ("make", {"Makefile": "app: app.c\n\t$(CC) app.c\n", "app.c": "x\n"},
                         {"app.c": "y\n"}),
    "another script": ("npm test", {"package.json": '{"scripts": {"test": "jest", '
                                    '"start": "node app.js"}}', "app.js": "x\n"},
                       {"app.js": "y\n"}),
    "sources in testpaths": ("", {"pytest.ini": "[pytest]\ntestpaths = src\n",
                                  "src/calc.py": "x\n", "src/more.py": "x\n",
                                  "src/test_calc.py": CUSTOM}, {"src/calc.py": "y = 1\n"}),
    "every file": ("", {"pytest.ini": "[pytest]\npython_files = *.py\n", "calc.py": "x\n"},
                   {"calc.py": "y = 1\n"}),
    "a script that is linted": ("shellcheck ci/a.sh; find . -name '*.sh' | xargs shellcheck",
                                {"ci/a.sh": "x\n"}, {"ci/a.sh": "y\n"}),
    "an executable that is linted": ("ruff check app.py",
                                     {"app.py": ("100755", "#!/usr/bin/python\n")},
                                     {"app.py": ("100755", "x = 1\n")}),
    "the product of a script": ("python check.py", {"check.py": "import calc\n", "calc.py": "x\n"},
                                {"calc.py": "y = 1\n"}),
    "what a package of node exports": ("node test.js", {"test.js": "require('./calc')\n",
                                                        "calc.js": "x\n"}, {"calc.js": "y\n"}),
    "what is required": ("pip install -r requirements.txt && python -m pytest",
                         {"requirements.txt": "a\n"}, {"requirements.txt": "b\n"}),
    "more of them": ("", {"pytest.ini": "[pytest]\npython_files = check_*.py\n",
                          "check_calc.py": CUSTOM},
                     {"check_calc.py": CUSTOM + "\n\ndef test_x():\n    assert add(0, 0) == 0\n",
                      "check_more.py": CUSTOM}),
}  # fmt: skip


@pytest.mark.parametrize("case", OWN)
def test_what_the_validator_starts_and_the_settings_name_is_protected(case: str) -> None:
    validator, there, change, expected = OWN[case]
    assert rules(judged(there, there | change, validator)) == expected


@pytest.mark.parametrize("case", FOLLOWED)
def test_what_is_started_is_found_however_it_is_written(case: str) -> None:
    validator, there, path = FOLLOWED[case]
    old = there.get(path)
    content = ("100755", "true\n") if isinstance(old, tuple) else "true\n"
    found = judged(there, there | {path: content}, validator)
    assert rules(found) & {"protected-test", "config-weakened"}


@pytest.mark.parametrize("case", NAMED)
def test_settings_that_are_named_are_protected(case: str) -> None:
    validator, there, path = NAMED[case]
    assert rules(judged(there, there | {path: "y = 2\n"}, validator)) == {"config-weakened"}


@pytest.mark.parametrize(
    ("validator", "there"),
    [
        ("pytest", {"conftest.py": 'pytest_plugins = ["supp.plug", "pytester"]\n'}),
        ("pytest", {"tests/conftest.py": "pytest_plugins: str = 'supp.plug'\n"}),
        ("pytest", {"pytest.ini": "[pytest]\naddopts = -q -p supp.plug\n"}),
        ("python -m pytest -p supp.plug", {}),
    ],
)
def test_what_pytest_is_told_to_load_is_protected(validator: str, there: Tree) -> None:
    there = there | {"supp/plug.py": "x = 1\n", "supp/calc.py": "x = 1\n"}
    changed = {"supp/plug.py": "x = 2\n", "supp/calc.py": "x = 2\n"}
    [finding] = judged(there, there | changed, validator)
    assert (finding.rule, finding.evidence[0].path) == ("tamper/protected-test", "supp/plug.py")


@pytest.mark.parametrize("case", FREE)
def test_what_the_validator_only_looks_at_may_be_mended(case: str) -> None:
    validator, there, change = FREE[case]
    assert judged(there, there | change, validator) == []


@pytest.mark.parametrize(
    ("path", "output", "known"),
    [
        ("check_calc.py", "FAILED check_calc.py::test_add - assert -1 == 3\n", True),
        ("check_calc.py", "check_calc.py::TestAll::test_add[1] PASSED [ 50%]\n", True),
        ("a/check.py", "FAIL: test_add (a.check.Calc.test_add)\n", True),
        ("src/add.check.ts", "\x1b[31mFAIL\x1b[0m src/add.check.ts\n", True),
        ("calc.py", "FAILED calc.py::calc.add\n", False),
        ("calc.py", "FAILED calc.py::mypy - mypy.py: errors\n", False),
        ("calc.py", "calc.py:2: AssertionError\n", False),
        ("calc.py", "FAIL: add (calc)\nDoctest: calc.add\n", False),
    ],
)  # fmt: skip
def test_the_first_output_names_tests(path: str, output: str, *, known: bool) -> None:
    there: Tree = {path: "x = 1\n"}
    found = judged(there, {}, output=output)
    assert rules(found) == ({"test-removed"} if known else set())


@pytest.mark.parametrize(
    "text", ["'" * 9000, "make " * 3000, "$(" * 5000, "a\\\n" * 5000, "sh x\n" * 5000, "\0"]
)
def test_a_command_meant_to_hurt_is_survived(text: str) -> None:
    there: Tree = {
        "Makefile": f"a: a b\n\t{text}\nb: a\n\tmake a\nX = $(X)$(X)$(X)\n",
        "x": f"sh x\n{text}",
        "package.json": '{"scripts": {"test": "npm test"}}',
    }
    for validator in (text, "make a", "sh x", "npm test"):
        judged(there, there, validator)
