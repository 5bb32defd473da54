"""Commands for some tests alone: what they become, and what real runners then run."""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rlm_ci.system.command_line import Command
from rlm_ci.validators import test_reports
from rlm_ci.validators.test_selection import narrowed, narrowed_in, unstopped
from testing import node_packages

NODE = node_packages.TOOLS / "node_modules"
FILES = (
    "tests/test_a.py", "tests/test_b.py", "pytest.ini", "src/a.test.ts", "jest.config.js",
    "test/a.js", "pkg/a_test.go", "src/lib.rs", "src/net/mod.rs", "tests/api.rs",
)  # fmt: skip


#: What makes a runner name each test, and measure no coverage.
REPORTS = {
    "jest": "--coverage=false --reporters=default --verbose",
    "vitest": "--coverage=false --reporter=verbose",
    "mocha": "--reporter=spec",
}


def made(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def filled(expected: str) -> str:
    """``expected`` with the words that a runner gets for its reports."""
    return re.sub(r"\{(\w+)\}", lambda name: REPORTS[name[1]], expected)


def selected(root: Path, command: str, *names: str) -> str | None:
    argv = tuple(shlex.split(command))
    found = narrowed(argv, names, str(root), lambda path: (root / path).exists())
    return None if found is None else shlex.join(found)


@pytest.mark.parametrize(
    ("command", "names", "expected"),
    [
        ("pytest", "tests/test_a.py::test_x", "pytest tests/test_a.py::test_x"),
        ("pytest -q tests", "tests/test_a.py", "pytest -q tests/test_a.py"),
        ("python3 -m pytest -c pytest.ini tests/test_a.py -x", "tests/test_b.py",
         "python3 -m pytest -c pytest.ini -x tests/test_b.py"),
        ("uv run --frozen pytest tests", "tests/test_a.py",
         "uv run --frozen pytest tests/test_a.py"),
        (".venv/bin/python -W error -m pytest", "a b", ".venv/bin/python -W error -m pytest 'a b'"),
        ("python -m unittest discover -s tests", "tests/test_a.py::Case::test_x",
         "python -m unittest tests.test_a.Case.test_x"),
        ("python -m unittest -v tests.test_a", "tests.test_b",
         "python -m unittest -v tests.test_b"),
        ("npx jest --config jest.config.js src", "src/a.test.ts",
         "npx jest --config jest.config.js {jest} src/a.test.ts"),
        ("npx vitest run", "src/a.test.ts::adds (1)",
         r"npx vitest run {vitest} -t '(adds \(1\))$' src/a.test.ts"),
        ("mocha test", "test/a.js::outer::inner", "mocha {mocha} -g '(outer inner)$' test/a.js"),
        ("node --test", "adds", "node --test '--test-name-pattern=(adds)$'"),
        ("go test ./...", "pkg/a_test.go::TestA", "go test -v -run '^TestA$' ./pkg"),
        ("go test -race ./...", "TestA/one", "go test -v -race -run '^TestA$/^one$' ./..."),
        ("go test ./...", "pkg", "go test -v ./pkg"),
        ("cargo test --all", "net::tests::works", "cargo test --all -- net::tests::works --exact"),
        ("cargo test", "src/net/mod.rs::tests::works", "cargo test -- net::tests::works --exact"),
        ("cargo test", "tests/api.rs::works", "cargo test --test api -- works --exact"),
        ("cargo test", "tests/api.rs", "cargo test --test api"),
        ("cargo test", "src/net/mod.rs", "cargo test -- net::"),
        ("bun test --bail", "src/a.test.ts::adds",
         "bun test --bail -t '(adds)$' ./src/a.test.ts"),
        ("bun test", "src/a.test.ts", "bun test ./src/a.test.ts"),
        ("bun run test", "src/a.test.ts",
         "bunx --no-install jest --ci {jest} src/a.test.ts"),
        ("npm test", "src/a.test.ts",
         "npx --no-install jest --ci {jest} src/a.test.ts"),
        ("npx vitest bench", "x", None),
        ("npx vitest --run typecheck", "x", None),
        ("make test", "tests/test_a.py", None),
        ("node run.js", "x", None),
        ("go vet ./...", "x", None),
        ("python -m tox", "x", None),
        ("pnpm run lint", "x", None),
    ],
)  # fmt: skip
def test_the_options_stay_and_the_paths_give_way(
    tmp_path: Path, command: str, names: str, expected: str | None
) -> None:
    made(tmp_path, *FILES)
    (tmp_path / "package.json").write_text(json.dumps({"scripts": {"test": "jest --ci src"}}))
    assert selected(tmp_path, command, names) == (expected and filled(expected))


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("npm run lint && vitest --run typecheck && vitest run",
         "npx --no-install vitest run {vitest} src/a.test.ts"),
        ("npm run lint; npm run unit -- --silent && playwright test",
         "npx --no-install jest --silent {jest} src/a.test.ts"),
        ("NODE_OPTIONS=--no-warnings jest",
         "env NODE_OPTIONS=--no-warnings npx --no-install jest {jest} src/a.test.ts"),
        ("cross-env TZ=UTC NODE_ENV=test c8 mocha --exit",
         "env TZ=UTC NODE_ENV=test npx --no-install mocha --exit {mocha} src/a.test.ts"),
        ("node --no-warnings node_modules/jest/bin/jest.js --ci",
         "node --no-warnings node_modules/jest/bin/jest.js --ci {jest} src/a.test.ts"),
        ("pnpm vitest run --coverage",
         "npx --no-install vitest run {vitest} src/a.test.ts"),
        ("npx jest --coverage=true --reporters summary --coverageReporters text",
         "npx jest --coverageReporters text {jest} src/a.test.ts"),
        ("node --test", "node --test src/a.test.ts"),
        ("jest | tee log", "npx --no-install jest {jest} src/a.test.ts"),
        ("mocha test/**/*.js", "npx --no-install mocha {mocha} src/a.test.ts"),
        ("cd packages/a && jest", None),
        ("jest $FILES", None),
        ("jest > log", None),
        ("a && b", None),
        ("npm test", None),
    ],
)  # fmt: skip
def test_the_runner_of_a_script_is_its_first_command_that_runs_tests(
    tmp_path: Path, script: str, expected: str | None
) -> None:
    made(tmp_path, *FILES)
    scripts = {"test": script, "lint": "eslint .", "unit": "jest"}
    (tmp_path / "package.json").write_text(json.dumps({"scripts": scripts}))
    assert selected(tmp_path, "npm test", "src/a.test.ts") == (expected and filled(expected))
    command = Command.parse(script)
    in_shell = narrowed_in(command, ("src/a.test.ts",), str(tmp_path))
    assert (in_shell is None) == (expected is None)


@pytest.mark.parametrize("package", [None, "", "[]", '{"scripts": {"test": 1}}', "{" * 9999])
def test_without_a_script_nothing_is_known(tmp_path: Path, package: str | None) -> None:
    if package is not None:
        (tmp_path / "package.json").write_text(package)
    assert selected(tmp_path, "npm test", "a.test.js") is None


#: For a runner: its command, files, a name, and how many tests the name has of two or three.
RUNNERS = {
    "pytest": ("{python} -m pytest tests", "tests/test_a.py::test_one",
               {"tests/test_a.py": "def test_one(): pass\ndef test_two(): assert 0\n"}),
    "unittest": ("{python} -m unittest discover", "test_a.py::Case::test_one",
                 {"test_a.py": "import unittest\nclass Case(unittest.TestCase):\n"
                  "    def test_one(self): pass\n    def test_two(self): assert 0\n"}),
    "node": ("node --test --test-reporter=tap", "one",
             {"package.json": "{}",
              "a.test.js": "const t = require('node:test');\nt('one', () => {});\n"
              "t('two', () => { throw 1 });\n"}),
    "go": ("go test ./...", "TestOne",
           {"go.mod": "module x\n", "a_test.go": 'package x\nimport "testing"\n'
            "func TestOne(t *testing.T) {}\nfunc TestOneMore(t *testing.T) { t.Fail() }\n"}),
    "cargo": ("cargo test --offline", "one",
              {"Cargo.toml": '[package]\nname = "x"\nversion = "0.1.0"\nedition = "2021"\n',
               "src/lib.rs": "",
               "tests/api.rs": "#[test]\nfn one() {}\n#[test]\nfn one_more() { panic!() }\n"}),
    "jest": ("{node}/.bin/jest", "a.test.js::one",
             {"a.test.js": "test('one', () => {});\ntest('two', () => { throw 1 });\n",
              "package.json": "{}"}),
    "jest of a script with more": ("npm test", "a.test.mjs::one",
             {"a.test.mjs": "test('one', () => {});\ntest('two', () => { throw 1 });\n",
              "jest.config.mjs": "export default {collectCoverage: true, testMatch: ['**/*.mjs'],"
              " coverageThreshold: {global: {lines: 100}}};\n",
              "package.json": '{"type": "module", "scripts": {"test": "echo lint &&'
              ' NODE_OPTIONS=--experimental-vm-modules jest"}}'}),
    "vitest of a script with more": ("npm test", "a.test.ts::one",
             {"a.test.ts": "import {test} from 'vitest';\ntest('one', () => {});\n"
              "test('two', () => { throw 1 });\n",
              "vitest.config.ts": "import {defineConfig} from 'vitest/config';\nexport default"
              " defineConfig({test: {coverage: {enabled: true, provider: 'v8'}}});\n",
              "package.json": '{"type": "module", "scripts": {"test": "echo lint && vitest"}}'}),
    "vitest": ("{node}/.bin/vitest run --globals", "a.test.js::one",
               {"a.test.js": "test('one', () => {});\ntest('two', () => { throw 1 });\n",
                "package.json": "{}"}),
}  # fmt: skip


@pytest.mark.parametrize(
    "runner",
    [
        runner if runner == "unittest" else pytest.param(runner, marks=pytest.mark.full)
        for runner in RUNNERS
    ],
)
def test_a_real_runner_runs_what_is_named_and_nothing_else(tmp_path: Path, runner: str) -> None:
    command, name, files = RUNNERS[runner]
    command = command.format(python=sys.executable, node=NODE)
    program = shlex.split(command)[0]
    if shutil.which(program) is None:
        pytest.skip(f"{runner} is not installed")
    if program.startswith(str(NODE)) or program == "npm":
        (tmp_path / "node_modules").symlink_to(NODE)
    for path, text in files.items():
        made(tmp_path, path)
        (tmp_path / path).write_text(text)

    def ran(name: str) -> tuple[int, int]:
        line = selected(tmp_path, command, name)
        assert line is not None
        home = pwd.getpwuid(os.getuid()).pw_dir  # the tests have another, without toolchains
        env = {"RUSTUP_HOME": f"{home}/.rustup", **os.environ, "GOFLAGS": "-mod=mod", "CI": "1"}
        done = subprocess.run(
            shlex.split(line), cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        counts = test_reports.parse(f"{done.stdout}\n{done.stderr}")
        return done.returncode, max((one.judged for one in counts.values()), default=0)

    assert ran(name) == (0, 1)
    code, number = ran(name.replace("one", "none").replace("One", "None"))
    assert code or not number


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ("cargo test --offline", "cargo test --no-fail-fast --offline"),
        ("/opt/bin/cargo +nightly test -- a", "/opt/bin/cargo +nightly test --no-fail-fast -- a"),
        ("cargo test --no-fail-fast", "cargo test --no-fail-fast"),
        ("cargo build", "cargo build"),
        ("python -m pytest test", "python -m pytest test"),
    ],
)
def test_a_binary_that_fails_is_not_the_last(argv: str, expected: str) -> None:
    assert unstopped(tuple(argv.split())) == tuple(expected.split())
