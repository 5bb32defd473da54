"""The validator of a fix loop: named, or found and tried, or picked by the user.

A trial runs no test: it checks that the program exists, and finds what it needs offline. Before any
edit the loop starts the validator once, and names what it lacks.
"""

from __future__ import annotations

import os

from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.system import files
from rlm_ci.system.command_line import Command, finder
from rlm_ci.system.transcript import transcribe
from rlm_ci.text.printable import printable
from rlm_ci.validators import detect, script_commands, start_failures
from rlm_ci.validators.validator import Validator, failure
from rlm_ci.values import Value
from rlm_ci.workspace.sandboxed_commands import Launch, SandboxedCommands, search_path
from rlm_ci.workspace.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.fix.options import FixOptions
    from rlm_ci.git.repository import Repository
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.attempt import PipelineJob
    from rlm_ci.sandbox.job import Sandbox


_HINT = (
    "install one where the sandbox can see it (a .venv of the repository is seen), or pass "
    '--validator "COMMAND"'
)
#: Seconds for a trial.
_TRIAL_SECONDS = 60.0
_SAID = 200


def select(
    setting: str,
    root: str,
    environ: Mapping[str, str],
    ask: Callable[[str], str] | None,
) -> detect.Selection:
    """The validator of the settings, or one of those found in ``root``.

    ``ask`` lets a person pick another where its program is missing.
    """
    detection = detect.detect(root)
    selection = detect.select(setting, detection, ask)
    find = finder(search_path(environ, root), root, root)
    while ask is not None and selection.command is not None and not selection.others:
        missing = [name for name in selection.command.programs if find(name) is None]
        if not missing:
            break
        picked = detect.choose(detection, ask, f"{missing[0]} was not found")
        if picked is None:
            break
        selection = picked
    return selection


def tried(
    work: PipelineJob,
    record: Record,
    options: FixOptions,
    commands: SandboxedCommands,
    redact: Callable[[str], str],
) -> FixOptions:
    """The options with the first validator that can run. Raises UnavailableError for none."""
    if options.validator is None or not options.others:
        return options
    texts = (options.validator, *options.others)

    def produce() -> Mapping[str, Any]:
        command, why = first_able(texts, commands, redact)
        if command is None:
            return _picked(work, options, why)
        if not why:
            return {"validator": command.text, "reason": options.reason}
        work.progress.say(f"{why}; using {_shown(commands, command)}")
        return {"validator": command.text, "reason": f"{options.reason}; {why}"}

    choice = record.fact("validator-found", "start", {"tried": list(texts)}, produce)
    options = options.replace(validator=choice["validator"], reason=choice["reason"])
    require_an_end(options, choice["reason"])
    return options


def first_able(
    texts: Sequence[str], commands: SandboxedCommands, redact: Callable[[str], str]
) -> tuple[Command | None, str]:
    """The first command that can run, and why those before it cannot."""
    refused: dict[str, None] = {}
    for text in texts:
        command = Command.parse(text)
        reason = _why_not(commands, command, redact)
        if not reason:
            return command, "; ".join(refused)
        refused[reason] = None
    return None, "; ".join(refused)


def _picked(work: PipelineJob, options: FixOptions, why: str) -> Mapping[str, Any]:
    detection = detect.detect(work.repository.root)
    picked = detect.choose(detection, work.ask, why) if work.ask else None
    if picked is None:
        raise none_can_run(why, options.reason)
    text = picked.command.text if picked.command else None
    return {"validator": text, "reason": picked.reason}


def none_can_run(why: str, where: str) -> UnavailableError:
    return UnavailableError(f"no validator that was found can run: {why}", where=where, hint=_HINT)


def require_an_end(options: FixOptions, where: str) -> None:
    """Raise ConfigError if neither a validator nor a budget would end the run."""
    unlimited = options.max_iterations is None and options.max_minutes is None
    if not options.limits.validated and unlimited:
        raise ConfigError(
            "without a validator, and with no limit, the run would never end",
            where=where,
            hint="set --max-iterations or --max-minutes, or name a validator",
        )


def require_no_watch(validator: str, commands: SandboxedCommands, where: str) -> str:
    """Raise ConfigError for a validator that waits for changes, and so never ends.

    Returns a note on one that would wait on a terminal, or "".
    """
    is_ci = bool(commands.env.get("CI"))
    command = script_commands.find(validator, commands.text, is_ci=is_ci)
    if command is None:
        return ""
    origin = command.location or where
    if command.ends:
        return f"{command.text} watches where there is a terminal; here it runs once ({origin})"
    raise ConfigError(
        f"the validator watches for changes, and never ends: {command.text}",
        where=origin,
        hint=f'pass --validator "{command.once}"' if command.once else "pass one that ends",
    )


def _shown(commands: SandboxedCommands, command: Command) -> str:
    """A command, with the path of a program of the repository's own."""
    program = commands.find(command.argv[0])
    inside = files.below(commands.visible_root, program) if program else None
    return command.text.replace(command.argv[0], inside, 1) if inside else command.text


def _why_not(commands: SandboxedCommands, command: Command, redact: Callable[[str], str]) -> str:
    """Why a command cannot run; "" where it can."""
    program = command.argv[0]
    if commands.find(program) is None:
        return f"{program} is not installed"
    trial = _trial(command.argv)
    if not trial:
        return ""
    before, names = commands.tree(), set(os.listdir(commands.root))
    ended = commands.run(Launch(trial, _TRIAL_SECONDS))
    for name in set(os.listdir(commands.root)) - names:  # an environment that it began to make
        files.clear(os.path.join(commands.root, name))
    if commands.tree() != before:
        commands.workspace.restore(before)
    if ended.returncode == 0:
        return ""
    if command.argv[1:2] == ("-m",):
        return f"{program} has no {command.argv[2]}"
    line = start_failures.telling_line(transcribe(ended.output, redact).lines) or "no word"
    return f"{command.text} cannot run here: {printable(line)[:_SAID]}"


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


#: Seconds after which it has started.
_START_SECONDS = 30.0


class ValidatorTrial(Value):
    """The command that was started, why that one, and how it ended."""

    command: str
    reason: str
    end: str


def try_out(
    setting: str,
    repository: Repository,
    sandbox: Sandbox,
    environ: Mapping[str, str],
    tell: Callable[[str], None],
) -> ValidatorTrial:
    """Start the validator ``setting``, or the one that is found; ``tell`` of it before.

    Raises UsageError where there is none, or several, ConfigError for one that watches, and
    UnavailableError for one that cannot start.
    """
    selection = select(setting, repository.root, environ, None)
    if selection.command is None:
        return ValidatorTrial("none", selection.reason, "nothing is validated")
    redact = Redactor(environ).text
    with files.scratch("rlm-ci-") as folder:
        workspace = Workspace(folder, repository, environ, isolated=sandbox.isolated)
        commands = SandboxedCommands(sandbox, workspace, repository.root, environ)
        texts = (selection.command.text, *selection.others)
        command, why = selection.command, ""
        if selection.others:
            able, why = first_able(texts, commands, redact)
            if able is None:
                raise none_can_run(why, selection.reason)
            command = able
        note = require_no_watch(command.text, commands, selection.reason)
        validator = Validator.over(commands, command, redact)
        validator.require()
        tell(f"starting the validator, for at most {_START_SECONDS:.0f} s: {command.text}")
        ended = commands.run(Launch(command.argv, _START_SECONDS))
        validator.require_started(ended, may_edit=False)
    end = failure(ended, command) or "it passes"
    if ended.reason == "timeout":
        end = f"it was still running after {_START_SECONDS:.0f} s"
    text = "; ".join(filter(None, (selection.reason, why, note)))
    return ValidatorTrial(command.text, text, f"it starts: {end}")
