"""Which files of a tree the validator's command names as what it runs or obeys."""

from __future__ import annotations

import pytest

from rlm_ci.guard.protected import command_files

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
    assert command_files.named(command, FILES) == NAMED[command]


@pytest.mark.parametrize("command", READ)
def test_what_a_command_only_reads_is_free(command: str) -> None:
    assert command_files.named(command, FILES) == frozenset()


@pytest.mark.parametrize(
    "text", ["'" * 9000, "sh -c " * 3000, "$(" * 5000, "a\\\n" * 5000, "sh x;" * 5000, "\0"]
)
def test_a_command_meant_to_hurt_is_survived(text: str) -> None:
    assert command_files.named(text, FILES) == frozenset()
