"""The place that a loop works at looks at its copy as often as somebody was at work in it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.agents.agent import AgentOutcome
from rlm_ci.fix import loop
from rlm_ci.fix.roles import Handover, Roles
from rlm_ci.fix.steps import FixSteps
from rlm_ci.fix.verdict import verdict
from rlm_ci.fix.verdict.verdict import ResultJudge
from rlm_ci.git.repository import Repository, discover
from rlm_ci.guard import secret_in_diff
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.runs.state import RunState
from rlm_ci.sandbox import choose
from rlm_ci.system.command_line import Command
from rlm_ci.validators.validator import Validator
from rlm_ci.workspace.sandboxed_commands import SandboxedCommands
from rlm_ci.workspace.workspace import Workspace
from testing.fix_options import context
from testing.repositories.git_repo import GitRepo
from testing.workspaces import patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.agents.agent import Assignment


class Writer:
    """An agent that writes the next text of ``a.txt`` and, in between, asks for the tests."""

    name = "writer"
    metered = True

    def __init__(self, texts: list[str]) -> None:
        self.texts = texts
        self.prompts: list[str] = []
        self.tests: Callable[[tuple[str, ...]], str] = lambda _names: ""

    def act(self, task: Assignment) -> AgentOutcome:
        self.prompts.append(task.prompt)
        place = Path(task.workspace.root, "a.txt")
        place.write_text("in between\n")
        self.tests(())
        place.write_text(self.texts.pop(0))
        return AgentOutcome(0, "written", "written")


@pytest.fixture
def place(repo: GitRepo, tmp_path: Path) -> tuple[Path, SandboxedCommands]:
    repo.write("a.txt", "first\n").commit()
    top, git_dir = discover(str(repo.path))
    environ = dict(os.environ)
    folder = tmp_path / "run"
    space = Workspace(str(folder), Repository(top, git_dir, environ), environ, isolated=False)
    # The folder of the copy is where commands run without a sandbox.
    return folder, SandboxedCommands(choose("none", environ), space, space.path, environ)


def run(
    step: tuple[Path, SandboxedCommands], validator: str, writer: Writer, iterations: int
) -> loop.FixEnd:
    folder, commands = step
    root = commands.workspace.path
    judge = Validator(Command.parse(validator), root=root, exists=lambda _path: True, redact=str,
                      find=lambda name: name, mark="mark", trust_exit_code=True)  # fmt: skip
    diff = lambda: patch(commands.workspace).decode()  # noqa: E731
    shared = context(folder, commands, judge, max_iterations=iterations, agent="openai")
    handover = Handover(shared.path_of)
    roles = Roles(writer, commands, diff=diff, handover=handover)
    state = RunState(shared.path_of("rlm", "state.json"), {})
    result_judge = ResultJudge(shared)
    steps = FixSteps(shared, result_judge, roles, handover, state)
    writer.tests = result_judge.tests
    return loop.run(steps, shared.options.limits)


def kept(place: tuple[Path, SandboxedCommands], iteration: int, name: str) -> str:
    return (place[0] / "rlm" / f"iteration-{iteration}" / name).read_text()


def test_every_turn_is_kept_as_it_left_the_copy(place: tuple[Path, SandboxedCommands]) -> None:
    writer = Writer(["second\n", "second\nthird\n"])
    run(place, "false", writer, 2)
    assert "+second\n" in kept(place, 1, "diff.patch")
    assert kept(place, 1, "status.txt") == "changed: a.txt (+1 -1)\n"
    assert kept(place, 2, "status.txt") == "changed: a.txt (+2 -1)\n"
    assert kept(place, 2, "diff.patch").encode() == patch(place[1].workspace)
    assert "changed: a.txt" not in writer.prompts[0]
    assert "changed: a.txt (+1 -1)" in writer.prompts[1]


def test_what_the_validator_writes_is_no_part_of_any_turn(
    place: tuple[Path, SandboxedCommands],
) -> None:
    writer = Writer(["second\n", "third\n"])
    run(place, "sh -c 'echo bent > a.txt; echo more > b.txt; false'", writer, 2)
    for iteration, text in ((1, "+second\n"), (2, "+third\n")):
        diff = kept(place, iteration, "diff.patch")
        assert text in diff
        assert "bent" not in diff
        assert "b.txt" not in diff
    root = Path(place[1].workspace.path)
    assert (root / "a.txt").read_text() == "third\n"
    assert not (root / "b.txt").exists()


def test_a_turn_that_takes_everything_back_has_no_patch(
    place: tuple[Path, SandboxedCommands],
) -> None:
    ended = run(place, "false", Writer(["second\n", "first\n", "first\n"]), 3)
    assert kept(place, 2, "diff.patch") == kept(place, 2, "status.txt") == ""
    assert ended.final.status == "max_iterations"


def test_what_is_too_large_is_named_and_no_part_of_the_patch(
    place: tuple[Path, SandboxedCommands],
) -> None:
    space = place[1].workspace
    Path(space.path, "a.txt").write_text("other\n")
    names = ("big.bin", "*", ":(top)x", "sp ace\n")
    for name in names:
        Path(space.path, name).write_bytes(b"\0" * (3 << 20))
    Path(space.path, "b.txt").write_text("more\n")
    tree = space.tree()
    status, told = secret_in_diff.account(space, tree, (), Redactor({}))
    assert "added: big.bin (binary)" in status
    assert len(status.splitlines()) == 6
    assert told.count(b"diff --git") == 2
    assert b"+other\n" in told
    assert b"+more\n" in told


def test_status_and_patch_are_told_together(place: tuple[Path, SandboxedCommands]) -> None:
    space = place[1].workspace
    first = space.snapshot.tree
    assert space.account(first) == ("", b"")
    Path(space.path, "a.txt").write_text("other\n")
    tree = space.tree()
    assert space.account(tree) == (space.status(first, tree), patch(space, tree))


def test_a_test_with_a_long_path_fits_into_one_name() -> None:
    path = "/".join(["folder" * 10] * 6) + "/test_\udcff.py"
    name = verdict._flat(path)
    assert len(os.fsencode(name)) < 220
    assert name.endswith(".py")
    assert name != verdict._flat(f"other/{path}")
    assert verdict._flat("tests/test_a.py") == "tests__test_a.py"
