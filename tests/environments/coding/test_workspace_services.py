"""Services on a copy: what runs is in the sandbox, recorded with its tree, and found again."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.environments.coding.workspace_services import TestReport, WorkspaceServices
from rlm_ci.environments.quoting import OUTPUT_LIMIT
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.sandbox import choose
from rlm_ci.system.command_line import Command
from rlm_ci.validators.validator import Validator
from rlm_ci.workspace.sandboxed_commands import SandboxedCommands
from testing.workspaces import workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from testing.repositories.git_repo import GitRepo

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
TESTS = """
import warnings
from calc import add
def test_good(): assert add(1, 1) == 2
def test_warned(): warnings.warn("old"); assert True
def test_bad(): assert add(2, 2) == 5
"""


class Run:
    """A copy with its services; ``facts`` outlive it, as a record does."""

    def __init__(self, repo: GitRepo, folder: Path, facts: dict[str, Any]) -> None:
        self.asked: Counter[str] = Counter()
        self.facts = facts
        path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
        environ = {**os.environ, "PATH": path, "GITHUB_TOKEN": SECRET}
        self.space = workspace(repo, folder)
        commands = SandboxedCommands(choose("auto", environ), self.space, str(repo.path), environ)
        self.commands = commands
        self.services = WorkspaceServices(
            commands, self.fact, Redactor(environ), path_of=self.place, seconds=lambda: 60.0
        )
        self.validator = Validator(
            Command.parse("python -m pytest -q -p no:cacheprovider"),
            root=commands.visible_root,
            exists=lambda path: Path(self.space.path, path).is_file(),
            redact=str,
            find=commands.find,
            mark="mark",
        )

    def place(self, kind: str) -> str:
        self.asked[kind] += 1
        return f"{kind}-{self.asked[kind]}"

    def fact(
        self, kind: str, step: str, key: Mapping[str, Any], produce: Callable[[], Any]
    ) -> Mapping[str, Any]:
        name = json.dumps([kind, step, key], sort_keys=True)
        if name not in self.facts:
            self.facts[name] = json.dumps(produce())
        told: dict[str, Any] = json.loads(self.facts[name])
        return told

    def work(self) -> list[Any]:
        """A few steps, whose results are compared."""
        services = self.services
        said: list[Any] = [
            services.run("echo made > made.txt; date +%N; cat a.txt; exit 3"),
            services.python("import time; open('t.txt', 'w').write(str(time.time()))", 30),
            services.python(f"print('{SECRET}'); 1 / 0", 30),
        ]
        Path(self.space.path, "a.txt").write_text("second\n")
        said += [services.diff(), services.restore("a.txt"), services.restore("a.txt")]
        said.append(services.tests(self.validator, ()))
        said.append(Path(self.space.path, "t.txt").read_text())
        return said


@pytest.fixture
def project(repo: GitRepo) -> GitRepo:
    repo.write("a.txt", "first\n")
    repo.write("calc.py", "def add(a, b):\n    return a + b\n")
    repo.write("test_calc.py", TESTS).commit()
    return repo


@pytest.mark.parametrize("lines", [300, 3000, 60_000])
def test_an_output_of_any_length_keeps_its_ends(
    project: GitRepo, tmp_path: Path, lines: int
) -> None:
    services = Run(project, tmp_path / "run", {}).services
    text = services.run(f"echo FIRST; seq -f '%.0f bottles of beer on the wall' {lines}; echo LAST")
    output = services.python(f"print('FIRST')\nfor n in range({lines}): print(n, 'bottle')", 30)
    assert "FIRST\n1 bottles" in text
    assert "LAST" in text
    assert output.output.startswith("FIRST\n0 bottle")
    assert output.output.endswith(f"{lines - 1} bottle")
    for shown in (text, output.output):
        assert len(shown) <= OUTPUT_LIMIT
        assert shown.count("left out") == (lines > 300)


@pytest.mark.full
def test_what_runs_is_recorded_with_its_tree(project: GitRepo, tmp_path: Path) -> None:
    facts: dict[str, Any] = {}
    first = Run(project, tmp_path / "run", facts)
    shell, wrote, failed, diff, put_back, nothing, tests, _ = said = first.work()
    assert shell.startswith("The command ended: exit code 3")
    assert "first" in shell
    assert wrote.succeeded
    assert not failed.succeeded
    assert "ZeroDivisionError" in failed.output
    assert failed.output.endswith("[exit code 1]")
    assert SECRET not in json.dumps(said, default=str)
    assert "+second" in diff
    assert (put_back, nothing) == (True, False)
    assert isinstance(tests, TestReport)
    assert tests.text.startswith("3 tests ran")
    assert (tests.passed, tests.tests, tests.timed_out) == (False, False, False)
    assert tests.score == pytest.approx(2 / 3)
    assert tests.warnings == 1
    assert not Path(project.path, "made.txt").exists(), "the user's own tree is as it was"

    tree = first.space.tree()
    second = Run(project, tmp_path / "run", facts)
    before = dict(facts)
    assert second.work() == said, "clocks and all: a resumed run sees the same"
    assert facts == before, "nothing ran again"
    assert second.space.tree() == tree
