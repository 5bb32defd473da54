"""The agent without a model, with the real ruff and pre-commit, and stand-ins for the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from time import monotonic

import pytest

from rlm_ci.agents.agent import AgentOutcome, Assignment
from rlm_ci.agents.autofix import AutofixAgent, FixerProject
from rlm_ci.errors import ConfigError
from testing.agent_workspaces import Folder

REAL = Path(sys.executable).parent


class Shop:
    """A folder to mend, with the programs of ``programs`` or with stand-ins."""

    def __init__(self, path: Path, programs: Path | None = None) -> None:
        (path / "work").mkdir()
        (path / "bin").mkdir()
        self.programs = programs or path / "bin"
        self.workspace = Folder(path / "work", self.programs)
        self.write = self.workspace.write
        self.lines: list[str] = []

    def install(self, name: str, script: str) -> None:
        program = self.workspace.path / name if "/" in name else self.programs / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{script}")
        program.chmod(0o755)

    def find(self, name: str) -> str | None:
        place = (self.workspace.path if "/" in name else self.programs) / name
        return str(place) if os.access(place, os.X_OK) else None

    def task(self, *, read_only: bool = False, deadline: float | None = None) -> Assignment:
        return Assignment(
            role="planner",
            iteration=1,
            prompt="p",
            workspace=self.workspace,
            conversation=[],
            read_only=read_only,
            deadline=deadline,
            on_progress=self.lines.append,
        )

    def act(self, validator: str = "", deadline: float | None = None) -> AgentOutcome:
        agent = AutofixAgent(find=self.find, redact=str, validator=validator)
        return agent.act(self.task(deadline=deadline))

    def names(self, validator: str = "") -> list[str]:
        return [one.name for one in FixerProject(self.workspace.root, validator).fixers()]

    def make_repository(self) -> None:
        for argv in (["init", "-q"], ["add", "-A"]):
            subprocess.run(["git", *argv], cwd=self.workspace.path, check=True, timeout=30)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


@pytest.fixture
def real(tmp_path: Path) -> Shop:
    return Shop(tmp_path, REAL)


# -- real tools ---------------------------------------------------------------------------------


def test_ruff_mends_what_it_safely_can(real: Shop) -> None:
    real.write("pyproject.toml", '[tool.ruff.lint]\nselect = ["F", "I", "UP"]\n')
    real.write("a.py", "import sys\nimport os\nprint(os.getcwd())\nif  True :\n    x={1:2}\n")
    outcome = real.act()
    assert (outcome.exit_code, outcome.reason) == (0, "")
    text = (real.workspace.path / "a.py").read_text()
    assert "import sys" not in text
    assert "x={1:2}" in text, "nobody asked for another format"
    assert outcome.summary == "ruff check --fix: ran, a.py"
    assert real.lines == ["ruff check --fix"]
    assert sorted(one.name for one in real.workspace.path.iterdir()) == ["a.py", "pyproject.toml"]


def test_unsafe_fixes_stay_off_even_where_they_are_configured(real: Shop) -> None:
    real.write("ruff.toml", 'unsafe-fixes = true\n[lint]\nselect = ["F841", "F401"]\n')
    real.write("a.py", "import os\n\n\ndef f():\n    x = g()\n")
    outcome = real.act()
    text = (real.workspace.path / "a.py").read_text()
    assert "import os" not in text
    assert "x = g()" in text
    assert outcome.exit_code == 0


def test_ruff_formats_where_it_is_the_formatter(real: Shop) -> None:
    real.write("ruff.toml", '[format]\nquote-style = "single"\n')
    real.write("a.py", 'x={1 : "a"}\n')
    outcome = real.act()
    assert (real.workspace.path / "a.py").read_text() == "x = {1: 'a'}\n"
    assert "ruff format: ran" in outcome.summary
    again = real.act().summary
    assert "ruff format: ran, nothing to change" in again
    assert again.endswith("nothing was changed")


def test_ruff_with_a_broken_configuration(real: Shop) -> None:
    real.write("ruff.toml", "no toml at all [")
    outcome = real.act()
    assert outcome.exit_code == 1
    assert outcome.reason.startswith("ruff check --fix: ended with 2: ")


HOOK = """\
repos:
- repo: local
  hooks:
  - id: mend
    name: mend
    entry: sed -i s/bad/good/
    language: system
    types: [text]
    files: a.txt
"""


def test_the_repositorys_own_hooks(real: Shop) -> None:
    real.write(".pre-commit-config.yaml", HOOK)
    real.write("a.txt", "bad\n")
    real.make_repository()
    outcome = real.act()
    assert (outcome.exit_code, outcome.reason) == (0, "")
    assert (real.workspace.path / "a.txt").read_text() == "good\n"
    assert "pre-commit: ran" in outcome.summary
    assert "rlm-fix" in real.workspace.launches[0].env["SKIP"]


def test_hooks_that_are_not_installed_are_said_to_be(real: Shop) -> None:
    hook = "repos:\n- repo: https://127.0.0.1:9/none\n  rev: v1\n  hooks:\n  - id: x\n"
    real.write(".pre-commit-config.yaml", hook)
    real.make_repository()
    outcome = real.act()
    assert "its hooks are not installed here; run `pre-commit install-hooks`" in outcome.summary


# -- what runs where ----------------------------------------------------------------------------

PACKAGE = json.dumps({"devDependencies": {"eslint": "9", "prettier": "3"}})
CALLS_RUFF = "lint:\n\truff check .\n\truff format --check .\n"


@pytest.mark.parametrize(
    ("files", "names"),
    [
        ({}, []),
        ({"a.py": "x=1"}, []),
        ({".ruff.toml": ""}, ["ruff check --fix"]),
        ({"pyproject.toml": "[tool.ruff]\n"}, ["ruff check --fix"]),
        ({"pyproject.toml": "[tool.ruff.format]\n"}, ["ruff check --fix", "ruff format"]),
        ({"pyproject.toml": "[tool.ruffian]\nx = '[tool.black'\n"}, []),
        ({"pyproject.toml": "[tool.black]\n[tool.isort]\n"}, ["isort", "black"]),
        ({"setup.cfg": "[isort]\n"}, ["isort"]),
        ({"Makefile": CALLS_RUFF}, ["ruff check --fix", "ruff format"]),
        ({"README.md": "we like black"}, []),
        ({"Makefile": "# a black box\n"}, []),
        ({"package.json": PACKAGE}, ["eslint --fix", "prettier --write"]),
        ({"package.json": "[" * 100_000}, []),
        ({"package.json": '{"devDependencies": ["eslint"]}'}, []),
        ({"eslint.config.mjs": ""}, ["eslint --fix"]),
        ({".prettierrc": ""}, ["prettier --write"]),
        ({"go.mod": "", "main.go": ""}, ["gofmt"]),
        ({"Cargo.toml": ""}, ["cargo fmt"]),
        ({".pre-commit-config.yaml": "- id: black\n"}, ["black", "pre-commit"]),
    ],
)
def test_what_is_set_up_runs(shop: Shop, files: dict[str, str], names: list[str]) -> None:
    for name, text in files.items():
        shop.write(name, text)
    assert shop.names() == names


def test_the_validator_says_what_formats(shop: Shop) -> None:
    assert shop.names("black --check .") == ["black"]
    both = shop.names("ruff check . && ruff format --check .")
    assert both == ["ruff check --fix", "ruff format"]
    assert shop.names("python -m pytest") == []


def test_a_configuration_that_is_a_link_is_not_read(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "outside.toml").write_text("[tool.ruff]\n")
    (shop.workspace.path / "pyproject.toml").symlink_to(tmp_path / "outside.toml")
    assert shop.names() == []


def test_gofmt_leaves_out_what_is_not_ours(shop: Shop) -> None:
    for name in ("go.mod", "main.go", "-x.go", "pkg/a.go", "vendor/b.go", ".git/c.go", "notes.md"):
        shop.write(name, "")
    (shop.workspace.path / "link").symlink_to("/nowhere")
    shop.install("gofmt", 'printf "%s\\n" "$@" > ../called\n')
    assert shop.act().exit_code == 0
    called = (shop.workspace.path.parent / "called").read_text().split()
    assert called == ["-l", "-w", "./-x.go", "./main.go", "./pkg"]


def test_nothing_set_up_and_nothing_installed_are_honest(shop: Shop) -> None:
    outcome = shop.act()
    assert outcome.exit_code == 1
    assert "no linter or formatter" in outcome.reason
    shop.write("ruff.toml", "")
    outcome = shop.act()
    assert outcome.exit_code == 1
    assert outcome.reason == "1 fixer set up here, but none of them is installed"
    assert "ruff is set up here, and not installed" in outcome.summary
    assert shop.workspace.launches == []


def test_the_projects_own_version_is_taken(shop: Shop) -> None:
    shop.write("package.json", PACKAGE)
    shop.install("eslint", "exit 9\n")
    shop.install("node_modules/.bin/eslint", "echo mended > a.js; exit 1\n")
    outcome = shop.act()
    assert outcome.exit_code == 0
    assert shop.workspace.launches[0].argv[0] == "node_modules/.bin/eslint"
    assert "prettier is set up here, and not installed" in outcome.summary
    assert "a.js" in outcome.summary


def test_one_that_fails_does_not_stop_the_others(shop: Shop) -> None:
    shop.write("package.json", PACKAGE)
    shop.install("eslint", "echo 'Oops: no parser' >&2; exit 2\n")
    shop.install("prettier", "echo x > b.js\n")
    outcome = shop.act()
    assert outcome.exit_code == 1
    assert outcome.reason == "eslint --fix: ended with 2: Oops: no parser"
    assert "prettier --write: ran" in outcome.summary
    assert "b.js" in outcome.summary


def test_time_is_bounded_and_there_is_no_network(shop: Shop) -> None:
    shop.write("ruff.toml", "")
    shop.install("ruff", "sleep 60\n")
    outcome = shop.act(deadline=monotonic() + 0.3)
    assert outcome.reason == "ruff check --fix: stopped: timeout"
    assert not any(one.network or one.files for one in shop.workspace.launches)
    assert shop.act(deadline=monotonic()).reason == "ruff check --fix: no time was left"
    assert len(shop.workspace.launches) == 1


def test_it_plays_no_role(shop: Shop) -> None:
    agent = AutofixAgent(find=shop.find, redact=str)
    with pytest.raises(ConfigError, match="cannot be the planner"):
        agent.act(shop.task(read_only=True))
