"""Which of the commands that may be the validator can run: each is tried where it will run.

A trial is cheap, and runs no test of the repository: it asks whether the program is there, and
whether the program finds what it needs without a network.
"""

from __future__ import annotations

import os

from rlm_ci.system import files
from rlm_ci.system.command_line import Command
from rlm_ci.system.transcript import transcribe
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlm_ci.fix.sandboxed_commands import SandboxedCommands

#: What to do where none can run.
HINT = (
    "install one where the sandbox can see it (a .venv of the repository is seen), or pass "
    '--validator "COMMAND"'
)
_SECONDS = 60.0
_SAID = 200


class ChosenValidator(Value):
    """The first command that can run, None where none can; ``refused`` says why others cannot."""

    command: Command | None
    refused: tuple[str, ...] = ()


def choose(
    commands: SandboxedCommands, texts: Sequence[str], redact: Callable[[str], str]
) -> ChosenValidator:
    """Try the commands in order, in the copy of ``commands``, which stays as it is."""
    refused: list[str] = []
    for text in texts:
        command = Command.parse(text)
        why = _why_not(commands, command, redact)
        if not why:
            return ChosenValidator(command, tuple(refused))
        if why not in refused:
            refused.append(why)
    return ChosenValidator(None, tuple(refused))


def shown(commands: SandboxedCommands, command: Command) -> str:
    """A command as one would type it, with the path of a program of the repository's own."""
    place = commands.find(command.argv[0])
    inside = os.path.relpath(place, commands.place) if place else os.pardir
    return (
        command.text
        if inside.startswith(os.pardir)
        else command.text.replace(command.argv[0], inside, 1)
    )


def _why_not(commands: SandboxedCommands, command: Command, redact: Callable[[str], str]) -> str:
    """Why a command cannot run, as a sentence without an end; "" where it can."""
    program = command.argv[0]
    if commands.find(program) is None:
        return f"{program} is not installed"
    trial = _trial(command.argv)
    if not trial:
        return ""
    before, names = commands.tree(), set(os.listdir(commands.root))
    ended = commands.command(trial, _SECONDS)
    for name in set(os.listdir(commands.root)) - names:  # an environment that it began to make
        files.clear(os.path.join(commands.root, name))
    if commands.tree() != before:
        commands.workspace.restore(before)
    if ended.returncode == 0:
        return ""
    if command.argv[1:2] == ("-m",):
        return f"{program} has no {command.argv[2]}"
    lines = [line.strip() for line in transcribe(ended.output, redact).lines if line.strip()]
    told = [line for line in lines if line.lower().startswith("error")] or lines[-1:] or ["no word"]
    return f"{command.text} cannot run here: {printable(told[0])[:_SAID]}"


def _trial(argv: tuple[str, ...]) -> tuple[str, ...]:
    """What to run to see whether ``argv`` can; nothing where its program is enough."""
    match argv:
        case ("uv", "run", *words):
            return ("uv", "run", "--offline", *words, "--version")
        case ("tox",):
            return ("tox", "--notest")
        case ("nox",):
            return ("nox", "--install-only")
        case (python, "-m", module):
            return (python, "-c", f"import {module}")
    return ()
