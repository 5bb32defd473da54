"""The command line: parses arguments, runs a command, handles errors, ends with an exit code."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from contextlib import suppress
from functools import partial
from time import monotonic

from rlm_ci import __version__, errors
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.settings import nearest
from rlm_ci.console.messages import annotate, complain, is_unread, say, write
from rlm_ci.errors import RlmCiError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType, ModuleType
    from typing import NoReturn

    from rlm_ci.config.settings import Setting

#: Modules of ``commands``. Each has SUMMARY, USAGE (its forms joined by " | "), EXAMPLES and EXITS
#: (exit codes and their meanings) for the reference; TAKES, a description of its words, and their
#: minimum and maximum; ROWS, its options, or rows(argv) if they depend on words; run(arguments);
#: FORMS, the formats that it has, if not all.
GROUPS = {
    "for every day": ("check", "pr", "review", "fix", "ask", "wiki", "init", "doctor"),
    "pull requests": ("together", "publish", "explain", "suppress", "receipt", "archive", "config"),
    "runs": (
        "list", "status", "wait", "view", "resume", "cancel", "start", "export", "replay", "verify",
    ),
    "delegation": ("mcp", "questions", "answer", "agent-hook"),
    "lab": ("rlm", "run", "chat", "bench", "context"),
    "shell": ("completion",),
}  # fmt: skip
COMMANDS = tuple(name for group in GROUPS.values() for name in group)


#: What people type for a command or an option of another name.
_OTHER_NAMES = {
    "comment": "rlm-ci pr",
    "delete": "rlm-ci list --prune",
    "hooks": "rlm-ci init",
    "install": "rlm-ci init",
    "kill": "rlm-ci cancel RUN",
    "lint": "rlm-ci check",
    "login": "rlm-ci doctor",
    "logs": "rlm-ci view RUN",
    "mend": "rlm-ci fix",
    "prune": "rlm-ci list --prune",
    "runs": "rlm-ci list",
    "scan": "rlm-ci check",
    "setup": "rlm-ci init",
    "show": "rlm-ci view RUN",
    "stop": "rlm-ci cancel RUN",
    "test": "rlm-ci check",
    "version": "rlm-ci --version",
}
#: Seconds within which signals count as one: a cancelled job may send two to the group at once.
_ONE = 0.5


class Terminated(BaseException):
    """SIGTERM or SIGHUP, as an exception, so that children are ended and files left whole."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; the exit code is one of ``errors.EXIT_CODES``."""
    words = [*(sys.argv[1:] if argv is None else argv)]
    try:
        _listen()
        code = _dispatch(words)
        return errors.CLOSED_PIPE if is_unread() else code
    except errors.ClosedPipe as error:
        return error.code
    except RlmCiError as error:
        return _fail(error, words)
    except (KeyboardInterrupt, Terminated) as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        say("interrupted" if interrupted else "terminated")
        return errors.INTERRUPTED if interrupted else errors.TERMINATED
    except errors.Paused:
        say("paused")
        return errors.LIMIT
    except Exception as error:  # noqa: BLE001 - the boundary: any other error is a bug of ours
        from rlm_ci.console.failures import failure  # imported here to keep hooks fast

        return _fail(failure(error, words=words), words)


def end(code: int) -> NoReturn:
    """End the process at once, but for what was registered: Python's own shutdown takes 4 ms."""
    atexit._run_exitfuncs()  # noqa: SLF001 - as Python does after a fork
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.flush()
    os._exit(code)


def _listen() -> None:
    """Turn SIGINT, SIGTERM and the hangup of the terminal into exceptions.

    A signal right after another one means the same, and must not disturb the end of children.
    Ignored signals stay ignored: the hangup under nohup, SIGINT of a shell's background job.
    """
    last = -_ONE

    def handle(number: int, _frame: FrameType | None) -> None:
        nonlocal last
        now = monotonic()
        if now - last >= _ONE:
            last = now
            raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows has no hangup
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handle)


def _dispatch(words: list[str]) -> int:
    from rlm_ci.config.arguments import parse, split_command

    if "--all" in words and {"-h", "--help"} & {*words}:
        words = ["help", *(word for word in words if word not in ("-h", "--help"))]
    name, argv = split_command(words, COMMON)
    if name is None:
        arguments = parse(argv, COMMON, "rlm-ci")
        if arguments.version:
            return _version()
        if words and not arguments.help:
            raise UsageError(
                "a command is missing", where="rlm-ci", hint=f"one of {', '.join(COMMANDS)}"
            )
        write(_overview())
        return errors.OK
    is_full = name == "help" and "--all" in argv
    if name == "help":
        name, argv = split_command([*(word for word in argv if word != "--all"), "--help"], COMMON)
        if name is None:
            write(_overview(is_full=is_full))
            return errors.OK
    command = load(name)
    rows = options(command, argv)
    arguments = parse(argv, rows, f"rlm-ci {name}")
    if arguments.version:
        return _version()
    if arguments.help:
        write(_help(name, command, rows, is_full=is_full))
        return errors.OK
    takes, fewest, limit = command.TAKES
    if not fewest <= len(arguments.words) <= limit:
        usage = f"rlm-ci {name} {command.USAGE.partition(' | ')[0]}"
        if not limit and any(row.key == "base" for row in rows):
            from rlm_ci.cli import folder_argument

            if refs := folder_argument.of_change(arguments.words[0], arguments.flags):
                usage = f"did you mean rlm-ci {name} {refs}?"
        raise UsageError(f"{name} takes {takes}", where=f"rlm-ci {name}", hint=usage)
    code: int = command.run(arguments)
    return code


def options(command: ModuleType, words: Sequence[str]) -> tuple[Setting, ...]:
    """The options of a command, given the words after it."""
    settings: tuple[Setting, ...] = (
        command.rows(words) if hasattr(command, "rows") else command.ROWS
    )
    forms = getattr(command, "FORMS", None)
    return settings if forms is None else tuple(map(partial(_with_forms, forms), settings))


def _with_forms(forms: tuple[str, ...], row: Setting) -> Setting:
    return row.replace(choices=forms) if row.key == "format" else row


def _version() -> int:
    write(f"rlm-ci {__version__}\n")
    return errors.OK


def load(name: str) -> ModuleType:
    """The module of a command. Raises UsageError for an unknown command."""
    if name not in COMMANDS:
        other = _OTHER_NAMES.get(name)
        hint = f"did you mean {other}?" if other else nearest(name, COMMANDS)
        if not hint.startswith("did you mean"):
            hint = "rlm-ci --help lists the commands"
        raise UsageError(f"unknown command {name[:80]!r}", where="rlm-ci", hint=hint)
    module = f"rlm_ci.cli.commands.{name.replace('-', '_')}"
    __import__(module)  # importlib itself takes a millisecond to be imported
    return sys.modules[module]


# ── help ──


_ALWAYS = f"""\
{"  -V, --version":<28}show the version
{"  -h, --help":<28}show this
"""


def _width() -> int:
    try:
        return max(60, min(100, os.get_terminal_size().columns or 80))
    except OSError:
        return 80


def _overview(*, is_full: bool = False) -> str:
    """The commands that a person needs, or all of them, grouped."""
    from textwrap import fill

    groups = GROUPS if is_full else {"commands": GROUPS["for every day"]}
    commands = "\n\n".join(
        f"{title}:\n" + "\n".join(f"  {name:<11}{load(name).SUMMARY}" for name in names)
        for title, names in groups.items()
    )
    if not is_full:
        commands += "\n\nrlm-ci help --all lists all commands: for runs, delegation, the lab."
    codes = "\n".join(
        fill(text, _width(), initial_indent=f"  {code:<5}{name:<13}", subsequent_indent=" " * 20)
        for code, name, text in errors.EXIT_CODES
    )
    examples = "".join(f"  {load(name).EXAMPLES[0]}\n" for name in ("check", "review", "init"))
    return (
        "Check pull requests without a key or a network, review code, and let an agent\n"
        "edit until your tests pass.\n\n"
        f"usage: rlm-ci COMMAND [OPTION...]\n\n{commands}\n\n"
        f"exit codes:\n{codes}\n\nexamples:\n{examples}\n"
        "Run rlm-ci COMMAND --help for the options and examples of a command.\n"
    )


def _help(name: str, command: ModuleType, rows: Sequence[Setting], *, is_full: bool = False) -> str:
    """The help of a command: a line for each option, or, if it is full, all that they say."""
    from rlm_ci.config.option_help import describe, outline

    if not is_full:
        forms = command.USAGE.replace(" | ", f"\n       rlm-ci {name} ")
        shown = outline(rows, {row.key for row in COMMON}, _width(), command.__dict__.get("FOLDED"))
        examples = "".join(f"  {example}\n" for example in command.EXAMPLES)
        return (
            f"{command.SUMMARY}\n\nusage: rlm-ci {name} {forms}\n\noptions:\n{shown}\n"
            f"\nexamples:\n{examples}\nrlm-ci help --all {name} says more of each option.\n"
        )
    common = {row.key for row in COMMON}
    groups: dict[str, list[Setting]] = {"options": [], "common options": []}
    for row in rows:
        section, dot, _ = row.key.partition(".")
        title = f"options of {section.replace('_', '-')}" if dot else "options"
        groups.setdefault("common options" if row.key in common else title, []).append(row)
    groups["common options"] = groups.pop("common options")  # they come last
    forms = command.USAGE.replace(" | ", f"\n       rlm-ci {name} ")
    text = f"{command.SUMMARY}\n\nusage: rlm-ci {name} {forms}\n"
    for title, group in groups.items():
        listed = describe(group, _width())
        if listed:
            text += f"\n{title}:\n{listed}\n"
    examples = "".join(f"  {example}\n" for example in command.EXAMPLES)
    return f"{text}{_ALWAYS}\nexamples:\n{examples}"


def _fail(error: RlmCiError, words: Sequence[str]) -> int:
    """Print an error that ended the run, in Actions also as an annotation; return its exit code."""
    if words[:1] == ["agent-hook"]:
        try:
            from rlm_ci.cli.commands import agent_hook

            if agent := agent_hook.agent_of(words):
                return agent_hook.tell_failure(agent, error)
        except Exception:  # noqa: BLE001 - not even this can be imported
            complain(error)
            return errors.FINDINGS  # no program is held by it
    complain(error)
    annotate("error", error)
    return error.code
