"""A validator that could not start is told from one that fails, by what it printed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rlm_ci.system.process import Clipped, StreamResult
from rlm_ci.validators import parsers, start_failures
from rlm_ci.validators.start_failures import RepositoryRoot, StartFailure

NPM = {"package.json": '{"scripts": {"test": "vitest run"}, "devDependencies": {"zod": "3"}}'}
PY = {"pyproject.toml": '[project]\nname = "shop"\ndependencies = ["requests>=2"]\n'}


def of(
    folder: Path,
    output: str,
    code: int = 1,
    *,
    command: str = "npm test",
    reason: str = "",
    may_edit: bool = False,
) -> StartFailure | None:
    lines = output.splitlines()

    def exists(path: str) -> bool:
        return (folder / path).is_file()

    def text(path: str) -> str:
        return (folder / path).read_text() if exists(path) else ""

    return start_failures.find(
        StreamResult(code, reason, Clipped(output.encode()), 1.0),
        lines,
        parsers.read(lines, str(folder), exists),
        RepositoryRoot(str(folder), exists, text),
        command=command,
        may_edit=may_edit,
    )


def made(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


#: As the tools printed it, with the exit code, and what must be told.
NOT_STARTED = [
    ("sh: 1: vitest: not found", 127, NPM, "vitest was not found", "npm install"),
    ("sh: vitest: not found\nnpm notice", 127, NPM | {"pnpm-lock.yaml": ""},
     "vitest was not found", "pnpm install"),
    (("$ vitest run\n/usr/bin/bash: line 1: vitest: command not found\n"
     'error: script "test" exited with code 127'), 127, NPM | {"bun.lock": ""},
     "vitest was not found", "bun install"),
    ("vitest run\nmake: vitest: No such file or directory\nmake: *** [Makefile:2: test] Error 127",
     2, {}, "vitest was not found", "where the sandbox"),
    (("/bin/sh: 1: pytest: not found\nmake[1]: *** [Makefile:2: unit] Error 127\n"
     "make: *** [Makefile:5: test] Error 2"), 2, {}, "pytest was not found", "pip install pytest"),
    ("make[1]: pytest: No such file or directory\nmake[1]: *** [Makefile:2: unit] Error 127", 2,
     {"pyproject.toml": 'test = ["pytest"]', "uv.lock": ""}, "pytest was not found", "uv sync"),
    ("./check.sh: line 3: phpunit: command not found", 127, {}, "phpunit was not found", "install"),
    ("/usr/bin/env: 'nodee': No such file or directory", 127, {}, "nodee was not found", "install"),
    ("./node_modules/.bin/jest: not found\nsh: 1: ./node_modules/.bin/jest: not found", 127,
     {"package.json": '{"scripts": {"test": "jest"}}', "yarn.lock": ""},
     "./node_modules/.bin/jest was not found", "yarn install"),
    ("bash: line 1: ./check.sh: Permission denied", 126, {}, "./check.sh cannot be executed",
     "chmod +x ./check.sh"),
    ("/usr/bin/python3: No module named pytest\nmake: *** [Makefile:2: test] Error 1", 2, {},
     "Python has no module pytest", "pip install pytest"),
    ("error: Failed to spawn: `pytest`\n  Caused by: No such file or directory", 2,
     {"uv.lock": ""}, "pytest was not found", "pip install pytest"),
    ("Command not found: pytest", 1, {}, "pytest was not found", "pip install pytest"),
    ("bundler: command not found: rspec\nInstall missing gem executables with `bundle install`",
     127, {"Gemfile": ""}, "rspec was not found", "bundle install"),
    ('npm error npx canceled due to missing packages and no YES option: ["vitest@4.1.12"]', 1, NPM,
     "vitest was not found", "npm install"),
    (("error: rustup could not choose a version of cargo to run, because one wasn't specified"
     " explicitly, and no default is configured.\nhelp: run 'rustup default stable'"), 1, {},
     "rustup has no toolchain", "rustup default stable"),
    ("error: toolchain '1.99.0-x86_64-unknown-linux-gnu' is not installed", 1, {},
     "there is no toolchain 1.99.0", "rustup toolchain install"),
    ("error: could not create home directory: '/root/.rustup': Read-only file system", 1, {},
     "rustup finds no home", "rustup"),
    ("error: no such command: `nextest`", 101, {}, "cargo-nextest was not found",
     "cargo install cargo-nextest"),
    (("error: failed to get `serde` as a dependency of package `shop v0.1.0`\n\nCaused by:\n"
     "  [6] Could not resolve hostname (Could not resolve host: index.crates.io)"), 101, {},
     "crates are not there", "cargo fetch"),
    (("go: example.com/x@v1.0.0: Get \"https://proxy.golang.org/x\": dial tcp: lookup"
     " proxy.golang.org: no such host"), 1, {}, "modules are not there", "go mod download"),
    (("shop.go:3:8: example.com/x@v1.0.0: Get \"https://proxy.golang.org/x\": dial tcp: lookup"
     " proxy.golang.org: no such host\nFAIL\texample.com/shop [setup failed]\nFAIL"), 1, {},
     "modules are not there", "go mod download"),
    ("s.go:2:8: mkdir /home/ada/go/pkg/mod/cache: read-only file system\nFAIL\ts [setup failed]",
     1, {}, "modules are not there", "go mod download"),
    (("go: errors parsing go.mod:\n/shop/go.mod:3: invalid go version '1.21.0': must match format"
     " 1.23"), 1, {}, "needs Go 1.21.0", "install"),
    (("ERROR: usage: pytest [options]\npytest: error: unrecognized arguments: --cov=shop\n"
     "  inifile: /shop/pyproject.toml"), 4, {}, "pytest does not know --cov=shop", "pytest-cov"),
    ("● Validation Error:\n\n  Preset ts-jest not found relative to rootDir /shop.", 1,
     NPM | {"package-lock.json": ""}, "ts-jest was not found", "npm ci"),
    (("⎯⎯⎯ Startup Error ⎯⎯⎯\nError: getaddrinfo EAI_AGAIN localhost\n"
     "    at file:///shop/node_modules/vite/dist/node/cli.js:1:2"), 1, NPM,
     "runner could not start", "see its output"),
    (("PHP Warning: require(vendor/autoload.php)\nPHP Fatal error:  Uncaught Error: Failed opening"
     " required '/shop/vendor/autoload.php'"), 255, {}, "packages are not installed", "composer"),
    (("============ test session starts ============\ncollected 0 items / 1 error\n"
     "============ ERRORS ============\n_____ ERROR collecting tests/test_a.py _____\n"
     "tests/test_a.py:1: in <module>\n    import requests\n"
     "E   ModuleNotFoundError: No module named 'requests'\n"
     "============ short test summary info ============\nERROR tests/test_a.py\n"
     "!!!! Interrupted: 1 error during collection !!!!\n============ 1 error in 0.1s ============"),
     2, PY, "the package requests is not installed", "pip install --editable ."),
    (("FAIL test/a.test.js\n  ● Test suite failed to run\n\n"
     "    Cannot find module 'zod' from 'test/a.test.js'\n\nTest Suites: 1 failed, 1 total\n"
     "Tests:       0 total"), 1, NPM, "the package zod is not installed", "npm install"),
    ("Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /shop/a.mjs", 1, NPM,
     "the package zod is not installed", "npm install"),
    ("no tests ran in 0.01s", 5, {}, "pytest found no test", "--allow-test-edits"),
    ("===== 7 deselected in 0.19s =====", 5, {}, "pytest found no test", "--allow-test-edits"),
    ("No tests found, exiting with code 1", 1, {}, "jest found no test", "--allow-test-edits"),
    ("No test files found, exiting with code 1", 1, {}, "vitest found no test", "write one"),
    ("?   \texample.com/shop\t[no test files]", 0, {}, "go found no test", "write one"),
    (("running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; "
     "0 filtered out; finished in 0.00s"), 0, {}, "cargo found no test", "write one"),
    ("No tests executed!", 0, {}, "phpunit found no test", "write one"),
    ("ℹ tests 0\nℹ pass 0\nℹ fail 0", 0, {}, "node found no test", "write one"),
    ("Ran 0 tests in 0.000s\n\nNO TESTS RAN", 5, {}, "unittest found no test", "write one"),
    ('npm error Missing script: "test"\nnpm error', 1, {}, "there is no test", "name what runs"),
    ("make: *** No rule to make target 'test'.  Stop.", 2, {}, "there is no test", "name what"),
]  # fmt: skip


@pytest.mark.parametrize("case", NOT_STARTED)
def test_what_is_missing_is_named_with_what_installs_it(
    case: tuple[str, int, dict[str, str], str, str], tmp_path: Path
) -> None:
    output, code, files, what, hint = case
    found = of(made(tmp_path, files), output, code, command="./check.sh")
    assert found is not None
    assert what in found.what
    assert hint in found.hint
    assert found.what.isprintable()


#: What an agent may mend, or what is a failing test.
STARTED = [
    # a test says so, and fails
    ("sh: 1: vitest: not found\nexpected 3, got 4", 1, {}),
    ("FAILED test_a.py::test_cli\n===== 1 failed in 0.1s =====\nsh: 1: shop: not found", 127, {}),
    ("ok 1 - adds\nsh: 1: shop: not found", 127, {}),
    ("3 tests ran\n./check.sh: line 4: shop: command not found", 127, {}),
    ("✓ adds\n./check.sh: line 4: shop: command not found", 127, {}),
    # a code without a word
    ("", 127, {}),
    ("", 126, {}),
    # the repository's own program, or a script of the product
    ("sh: 1: ./build/shop: not found", 127, {}),
    ("./check.sh: line 4: shop: command not found", 127, {"bin/shop": ""}),
    ("/shop/bin/deploy: line 4: jqq: command not found", 127, {"bin/deploy": ""}),
    ("/usr/bin/python3: No module named shop", 1, {"src/shop/__init__.py": ""}),
    # its own module, one that no manifest names, and one of two causes
    ("E   ModuleNotFoundError: No module named 'shop.cart'\n===== 1 error in 0.1s =====", 2,
     PY | {"shop/__init__.py": ""}),
    ("E   ModuleNotFoundError: No module named 'numpy'\n===== 1 error in 0.1s =====", 2, PY),
    ("E   SyntaxError: invalid syntax\n===== 1 error in 0.1s =====", 2, PY),
    ("Error: Cannot find module './cart' from 'test/a.test.js'", 1, NPM),
    ("Error: Cannot find package 'left-pad' imported from /shop/a.mjs", 1, NPM),
    (("===== short test summary info =====\nERROR a.py - ModuleNotFoundError: No module named"
     " 'requests'\nERROR b.py - SyntaxError: invalid syntax\n===== 2 errors in 0.1s ====="), 2, PY),
    ("E   ModuleNotFoundError: No module named 'requests'\n== 1 passed, 1 error in 0.1s ==", 1, PY),
    # a runner that trips over the repository's own code
    (("failed to load config\n⎯⎯⎯ Startup Error ⎯⎯⎯\nTypeError: x is not a function\n"
     "    at file:///shop/build/plugin.js:3:1\n    at build/plugin.js:3:1"), 1,
     {"build/plugin.js": ""}),
    # no runner of tests
    ("src/a.ts(3,1): error TS2304: Cannot find name 'x'.", 2, {"src/a.ts": ""}),
    ("make: *** No rule to make target 'src/foo.c', needed by 'test'.  Stop.", 2, {}),
    ("make: *** [Makefile:2: lint] Error 1", 2, {}),
    # all tests are skipped: the code may be why
    ("===== 3 skipped in 0.1s =====", 0, {}),
    ("Tests:       3 skipped, 3 total", 0, {}),
    ("FAIL\texample.com/shop [build failed]\nFAIL", 1, {}),
]  # fmt: skip


@pytest.mark.parametrize(("output", "code", "files"), STARTED)
def test_where_the_code_may_be_the_cause_the_agent_is_asked(
    output: str, code: int, files: dict[str, str], tmp_path: Path
) -> None:
    assert of(made(tmp_path, files), output, code, command="./check.sh") is None


def test_what_was_stopped_did_start(tmp_path: Path) -> None:
    assert of(tmp_path, "sh: 1: vitest: not found", 127, reason="timeout") is None
    assert of(tmp_path, "sh: 1: vitest: not found", -9) is None


def test_an_agent_that_may_edit_tests_may_write_the_first_one(tmp_path: Path) -> None:
    assert of(tmp_path, "no tests ran in 0.01s", 5, may_edit=True) is None
    assert of(tmp_path, 'npm error Missing script: "test"', may_edit=True) is None
    assert of(tmp_path, "sh: 1: vitest: not found", 127, may_edit=True) is not None


@pytest.mark.parametrize(
    ("makefile", "what"),
    [
        ("test:\n\tnowhere-to-be-found run\n", "nowhere-to-be-found was not found"),
        ("test:\n\t@cd . && nowhere-to-be-found run\n", "nowhere-to-be-found was not found"),
        ("test:\n\tpython3 -m nowhere_to_be_found\n", "Python has no module nowhere_to_be_found"),
        ("test:\n\t./run.sh\n", "nowhere-to-be-found was not found"),
        ("test:\n\t./shop.sh | cat >/dev/null; exit 1\n", None),
        ("test:\n\t@echo '2 tests passed'; nowhere-to-be-found\n", None),
    ],
)
def test_real_scripts_of_make(makefile: str, what: str | None, tmp_path: Path) -> None:
    assert shutil.which("make")
    made(tmp_path, {"Makefile": makefile, "run.sh": "#!/bin/bash\nset -e\nnowhere-to-be-found\n",
                    "shop.sh": "#!/bin/sh\nnowhere-to-be-found\n"})  # fmt: skip
    for script in ("run.sh", "shop.sh"):
        (tmp_path / script).chmod(0o755)
    ended = subprocess.run(
        ["make", "test"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        env={"PATH": os.environ["PATH"]}, text=True, check=False,
    )  # fmt: skip
    found = of(tmp_path, ended.stdout, ended.returncode, command="make test")
    assert (found and found.what) == what
