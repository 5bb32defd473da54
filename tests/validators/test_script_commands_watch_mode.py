"""A validator that waits for changes of files is seen by its words."""

from __future__ import annotations

import json
from functools import partial

import pytest

from rlm_ci.validators import script_commands
from rlm_ci.validators.script_commands import WatchedCommand


def found(command: str, files: dict[str, str], *, is_ci: bool = False) -> WatchedCommand | None:
    return script_commands.find(command, lambda path: files.get(path, ""), is_ci=is_ci)


def package(**scripts: str) -> dict[str, str]:
    return {"package.json": json.dumps({"scripts": scripts})}


@pytest.mark.parametrize(
    ("script", "once"),
    [
        ("jest --watchAll", "npx jest"),
        ("jest --watch --coverage", "npx jest --coverage"),
        ("cross-env NODE_ENV=test jest --watchAll=true", "npx jest"),
        ("node --experimental-vm-modules node_modules/.bin/jest --watchAll", "npx jest"),
        ("vitest --watch", "npx vitest run"),
        ("vitest -w", "npx vitest run"),
        ("vitest watch src", "npx vitest run src"),
        ("npx vitest dev", "npx vitest run"),
        ("tsc --noEmit && mocha -w test", "npx mocha test"),
        ("ava --watch", "npx ava"),
        ("tsc -w --noEmit", "npx tsc --noEmit"),
        ("node --test --watch", "node --test"),
        ("bun test --watch", "bun test"),
        ("react-scripts test", ""),
        ("nodemon --exec jest", ""),
        ("ng test", ""),
        ("npm run unit", "npx jest"),
        ("CI=1 pnpm unit", "npx jest"),
    ],
)
def test_a_script_that_watches_is_named_with_what_runs_once(script: str, once: str) -> None:
    watched = found("npm test", package(test=script, unit="jest --watchAll"))
    assert watched is not None
    assert (watched.once, watched.ends) == (once, False)
    assert watched.location in ("script test of package.json", "script unit of package.json")


@pytest.mark.parametrize(
    "script",
    [
        "jest", "vitest run", "vitest --run", "jest --watchAll=false", "jest --watch=false",
        "jest --watchAll false", "jest --no-watch", "ng test --watch=false", "jest -w 2",
        "karma start --single-run", "node --test", "node cli.js --watch fixtures", "tsc -p .",
        "./run --watch", "echo --watchAll", "npm run test", "bun test", "pytest --watch-dogs",
        "react-scripts test --watchAll=false", "grep -w jest README",
    ],
)  # fmt: skip
def test_one_that_ends_is_left_alone(script: str) -> None:
    assert found("npm test", package(test=script, watch="jest --watch")) is None


def test_vitest_alone_watches_on_a_terminal_only() -> None:
    watched = found("yarn test", package(test="vitest --coverage"))
    assert watched == WatchedCommand(
        "vitest --coverage", "script test of package.json", "npx vitest run --coverage", ends=True
    )


def test_what_a_variable_decides() -> None:
    scripts = package(test="react-scripts test")
    assert found("npm test", scripts) is not None
    assert found("npm test", scripts, is_ci=True) is None
    assert found("npm test", package(test="jest --watchAll"), is_ci=True) is not None


def test_a_target_of_make_and_a_script_are_followed() -> None:
    makefile = "watch:\n\tnpx jest --watch\n\ntest: unit lint\n\nunit:\n\t@cd web && {}\n"
    make = partial(found, "make test")
    watched = make({"Makefile": makefile.format("npx jest --watchAll")})
    assert watched is not None
    assert (watched.text, watched.location) == ("npx jest --watchAll", "target unit of Makefile")
    assert make({"Makefile": makefile.format("npx jest")}) is None
    script = {"check.sh": "#!/bin/sh\nset -e\nnpx jest --watchAll\n"}
    assert found("./check.sh", script) is not None
    assert found("sh check.sh", script) is not None
    assert found("sh -c 'jest --watchAll'", {}) is not None
    assert found("jest --watchAll", {}) == WatchedCommand("jest --watchAll", "", "npx jest")


@pytest.mark.parametrize("text", ["[]", "{", '{"scripts": 7}', '{"scripts": {"test": {}}}', ""])
def test_a_package_json_that_says_nothing(text: str) -> None:
    assert found("npm test", {"package.json": text}) is None


def test_scripts_that_call_each_other_end() -> None:
    scripts = package(test="npm run a && npm run b", a="npm test && npm test", b="npm run a")
    assert found("npm test", scripts) is None
    assert found("make test", {"Makefile": "test: a\na: test\n\tmake test a test a\n"}) is None
