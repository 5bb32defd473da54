"""A validator's environment is the user's own, less secrets: nothing in it is there for us."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from testing import node_packages

if TYPE_CHECKING:
    from testing.fix_stage import Stage

#: What colours where nobody has said that it should not, and its tests.
PAINT = """\
import os

def paint(text):
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown")
    return text if plain else f"\\x1b[31m{text}\\x1b[0m"
"""
TEST_PAINT = """\
from calc import add
from paint import paint

def test_paint():
    assert paint("x") == "\\x1b[31mx\\x1b[0m"

def test_add():
    print(paint("sum"))
    assert add(1, 2) == 3
"""
PYTEST = "python -m pytest -p no:cacheprovider --color=yes"
SHOW = "import json, os; print('ENV', json.dumps(dict(os.environ)))"
#: Where a home, programs and their scratch folder are, the working folder, and no bytecode.
OURS = {"HOME", "PATH", "PWD", "PYTHONDONTWRITEBYTECODE"}
#: Where tools lie that would look below HOME, and what Python itself sets in the locale C.
TOOLS = {"CARGO_HOME", "PYENV_ROOT", "RUSTUP_HOME", "LC_CTYPE"}


@pytest.mark.full
@pytest.mark.parametrize("box", ["auto", "none"])
def test_tests_of_colour_pass_and_what_they_print_is_read(stage: Stage, box: str) -> None:
    stage.repo.write("paint.py", PAINT).write("test_calc.py", TEST_PAINT).commit()
    ended, run = stage.fixed("--validator", PYTEST, "--sandbox", box)
    assert (ended.code, run.final) == (0, "passed"), ended
    first = run.text("rlm/validator-0.log")
    assert "test_calc.py::test_add" in first
    assert "1 failed, 1 passed" in first
    for path in run.folder.rglob("*"):
        if path.suffix in (".log", ".md", ".json", ".html") and "rlm/git" not in str(path):
            assert b"\x1b[" not in path.read_bytes(), path
    said = next(one for one in stage.llm.completions if "validator said" in str(one.messages))
    assert "\\u001b" not in json.dumps(said.messages)
    assert "test_calc.py" in str(said.messages)


@pytest.mark.full
@pytest.mark.parametrize("box", ["auto", "none"])
def test_it_has_no_variable_that_the_user_has_not(stage: Stage, box: str) -> None:
    unnamed = {"PYTHONUNBUFFERED": "1", "PYTHONHASHSEED": "7", "PYTEST_ADDOPTS": "-k add",
               "NODE_ENV": "production", "SOME_TOKEN": "hunter2-hunter2"}  # fmt: skip
    given = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "FORCE_COLOR": "1",
             "LC_ALL": None, **unnamed}  # fmt: skip
    stage.repo.write("show.py", SHOW).commit()
    ended, run = stage.fixed("--validator", "python show.py", "--sandbox", box, "--max-iterations",
                         "1", "--agent", "sh -c :", goal="Look", env=given)  # fmt: skip
    users = {**os.environ, **given}
    ours = OURS | TOOLS | ({"TMPDIR"} if box == "none" else set())
    seen: dict[str, str] = {}
    for number, plugin in enumerate(({"PYTHONPATH", "PYTEST_PLUGINS", "RLM_CI_OUTCOMES"}, set())):
        log = run.text(f"rlm/validator-{number}.log").splitlines()
        seen = json.loads(next(one for one in log if "ENV" in one).removeprefix("ENV "))
        surplus = {name for name, value in seen.items() if users.get(name) != value}
        assert surplus <= ours | plugin
    assert {name for name, value in given.items() if value} - set(seen) == set(unnamed)
    assert "the validator does not get NODE_ENV, PYTEST_ADDOPTS:" in ended.stderr
    assert '"NODE_ENV=VALUE COMMAND"' in ended.stderr


@pytest.mark.full
def test_vitest_loads_its_configuration_beside_read_only_packages(stage: Stage) -> None:
    node_packages.install(stage.repo.path, "vitest")
    stage.repo.write("vitest.config.js", "export default { test: { globals: true } }\n")
    stage.repo.write("package.json", '{"type": "module"}').write(".gitignore", "node_modules\n")
    stage.repo.remove("calc.py", "test_calc.py")
    stage.repo.write("calc.js", "export const add = (a, b) => a - b\n")
    test = 'import { add } from "./calc.js"\ntest("add", () => expect(add(1, 2)).toBe(3))\n'
    stage.repo.write("calc.test.js", test).commit()
    command = ("--validator", "node_modules/.bin/vitest run", "--agent", "sed -i s/-/+/ calc.js")
    ended, run = stage.fixed(*command)
    assert (ended.code, run.final) == (0, "passed"), ended
    assert not list(stage.repo.path.joinpath("node_modules/.vite-temp").iterdir())
