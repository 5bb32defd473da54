"""Which files of a tree the validator's command names as what it runs or obeys."""

from __future__ import annotations

import json

import pytest

from rlm_ci.guard.protected import protection

FILES = frozenset((
    "check.sh", "check.py", "tools/check", "tools/check.py", "ci/lint.toml", "setup.js",
    "bin/run.js", "sub/chk.sh", "calc.py", "README.md", "data.json", "lock",
))  # fmt: skip
NAMED = {
    "sh check.sh": {"check.sh"},
    "./check.sh --all": {"check.sh"},
    "tools/check": {"tools/check"},
    "python -X dev -W error check.py calc.py": {"check.py"},
    "python -m tools.check": {"tools/check.py"},
    "python -m unittest -v check calc": {"check.py", "calc.py"},
    "cd . && FOO=1 timeout 60 bash -e ./check.sh | tee log; true": {"check.sh"},
    "cd sub && sh chk.sh": {"sub/chk.sh"},
    "sh -c 'python -u check.py'": {"check.py"},
    "bash -euc 'cd sub; ./chk.sh' && true": {"sub/chk.sh"},
    "uv run check.py": {"check.py"},
    "node --require ./setup.js bin/run.js": {"setup.js", "bin/run.js"},
    "flock lock python check.py": {"check.py"},
    "ruff check --config ci/lint.toml calc.py": {"ci/lint.toml"},
    "mypy --config-file=ci/lint.toml .": {"ci/lint.toml"},
    "RUFF_CONFIG=ci/lint.toml ruff check": {"ci/lint.toml"},
    "pytest -c ci/lint.toml": {"ci/lint.toml"},
    "sh check.sh 'an open quote": {"check.sh"},
}
READ = (
    "grep -q 'a + b' calc.py", "ruff check calc.py && mypy calc.py",
    "python -c 'import calc' calc.py", "python -m py_compile calc.py",
    "pytest --doctest-modules calc.py", "test -f README.md",
    "wc -c calc.py", "rm -f calc.py", "prettier --check data.json", "shellcheck check.sh",
    "node --check bin/run.js", "find . -name '*.sh' | xargs shellcheck",
    "poetry run ruff check calc.py",
    "", "'", "sh -c",
)  # fmt: skip


@pytest.mark.parametrize("command", NAMED)
def test_what_a_command_runs_or_obeys_is_found(command: str) -> None:
    assert protection.files_of_command(command, FILES) == NAMED[command]


@pytest.mark.parametrize("command", READ)
def test_what_a_command_only_reads_is_free(command: str) -> None:
    assert protection.files_of_command(command, FILES) == frozenset()


MAKE = """
PYTHON ?= python
.PHONY: test check-all
all: test
test: unit check-all
\t@$(PYTHON) checks/sums.py $(ARGS)
unit:
\t-$(MAKE) -C sub quick
check-all: ; sh tools/all.sh
serve:
\tpython app.py
"""
TREE = {
    "Makefile": MAKE,
    "sub/Makefile": "quick:\n\tcd lib && node run.js\n",
    "justfile": "default: check\n\ncheck: lint\n    python checks/sums.py\n\n"
    "lint:\n    ./tools/all.sh\n",
    "Taskfile.yml": "tasks:\n  test:\n    deps: [lint]\n    cmds:\n      - python checks/sums.py\n"
    "  lint:\n    cmds:\n      - task: deep\n  deep: node sub/lib/run.js\n  serve: python app.py\n",
    "package.json": json.dumps(
        {"scripts": {"test": "npm run -s unit", "unit": "node sub/lib/run.js", "start": "node s.js",
                     "posttest": "mocha 'specs/*.js'", "tap": "tape old checks/x.js | tap-spec"}}
    ),
    "packages/a/package.json": json.dumps({"scripts": {"test": "ts-node check.ts"}}),
    "tox.ini": "[testenv]\nallowlist_externals = sh\ncommands =\n    python checks/sums.py\n",
    "noxfile.py": "def tests(session):\n    session.run('python', 'checks/sums.py')\n",
    "tools/all.sh": 'set -e\ncd "$(dirname "$0")/.."\n"$ROOT/tools/verify.py" --fast\n',
    "tools/verify.py": "import subprocess as s, sys\ns.run([sys.executable, 'checks/sums.py'])\n",
    "run_all.py": "import unittest\nunittest.defaultTestLoader.loadTestsFromName('checks.sums')\n",
    "e2e.sh": "python app.py --version | grep -q 1\ntest \"$(node s.js)\" = 2\nout=$(node s.js)\n",
    **dict.fromkeys(
        ("checks/sums.py", "checks/__init__.py", "sub/lib/run.js", "packages/a/check.ts", "app.py",
         "s.js", "specs/a.js", "old/b.js", "checks/x.js", "lib/a.pm", "u/t.py"), "",
    ),
}  # fmt: skip
#: What is run in turn, beside the settings that name it.
IN_TURN = {
    "make": "sub/lib/run.js tools/all.sh tools/verify.py checks/sums.py",
    "make test": "sub/lib/run.js tools/all.sh tools/verify.py checks/sums.py",
    "make unit": "sub/lib/run.js",
    "just": "tools/all.sh tools/verify.py checks/sums.py",
    "just check": "tools/all.sh tools/verify.py checks/sums.py",
    "task test": "checks/sums.py sub/lib/run.js",
    "npm test --silent": "sub/lib/run.js specs/a.js",
    "pnpm -r test": "sub/lib/run.js specs/a.js packages/a/check.ts",
    "yarn tap": "old/b.js checks/x.js",
    "npm --prefix packages/a test": "packages/a/check.ts",
    "tox": "checks/sums.py",
    "python -m nox -s tests": "checks/sums.py",
    "python run_all.py": "run_all.py checks/sums.py",
    "python -m unittest discover -q -s u": "u/t.py",
    "prove -I lib checks/x.js": "checks/x.js",
    "sh e2e.sh": "e2e.sh",
    "python app.py | diff - expected": "",
    "python checks/sums.py | tail -3": "checks/sums.py",
}


@pytest.mark.parametrize("command", IN_TURN)
def test_what_a_script_or_recipe_starts_in_turn_is_found(command: str) -> None:
    found = protection.files_of_command(command, TREE, lambda path: TREE.get(path, ""))
    assert found == frozenset(IN_TURN[command].split())


def test_recipes_that_ask_for_each_other_end() -> None:
    recipes = "".join(f"t{n}: {' '.join(f't{m}' for m in range(99))}\n" for n in range(99))
    files = {"Makefile": recipes, "a.sh": "sh a.sh; make t1"}
    found = protection.files_of_command("sh a.sh", files, lambda path: files.get(path, ""))
    assert found == {"a.sh"}


@pytest.mark.parametrize(
    "text", ["'" * 9000, "sh -c " * 3000, "$(" * 5000, "a\\\n" * 5000, "sh x;" * 5000, "\0"]
)
def test_a_command_meant_to_hurt_is_survived(text: str) -> None:
    assert protection.files_of_command(text, FILES) == frozenset()
