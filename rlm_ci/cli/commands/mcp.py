"""``rlm-ci mcp``: an MCP server for agents, on standard input and output."""

from __future__ import annotations

import os
import signal
import sys

from rlm_ci import checks, errors
from rlm_ci.config.core_options import CORE
from rlm_ci.config.options import DELEGATE, DELEGATE_MODES, PIPELINES, PROGRAM
from rlm_ci.config.settings import Settings
from rlm_ci.console.messages import say
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.judge import config_file
from rlm_ci.judge.judge import open_repository
from rlm_ci.pipelines import load, stored_runs
from rlm_ci.system import installation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.arguments import Arguments

SUMMARY = "serve runs and questions to an agent, by the Model Context Protocol"
USAGE = "[--mode NAME] [--root DIR]... [OPTION...]"
TAKES = ("no arguments", 0, 0)
EXAMPLES = ("rlm-ci mcp", "rlm-ci mcp --mode full --root ../shop")
FORMS = ("text",)
EXITS = {errors.OK: "the client has closed standard input, or has ended"}
ROWS = (*DELEGATE, *stored_runs.ROWS)


def run(arguments: Arguments) -> int:
    if sys.platform == "win32":
        raise UnavailableError(
            "the MCP server needs a POSIX system", hint="use Linux, macOS, or WSL"
        )
    settings = Settings((*CORE, *PIPELINES, *ROWS), arguments.flags)
    repository = open_repository(settings).root
    roots = [_root(word) for word in settings.delegate.roots] or [repository]
    mode = mode_of(settings)
    try:
        from rlm_ci.delegation.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "rlm_ci":
            raise
        raise UnavailableError(
            "the MCP server needs the library mcp", hint=installation.command("mcp")
        ) from None
    from rlm_ci.delegation.tool import ServerContext

    if sys.stdin is not None and sys.stdin.isatty():
        say(f"waiting for an MCP client on standard input, in the mode {mode}; Ctrl-D ends it")
    number = serve(ServerContext(roots, mode, settings.environ))
    if number is None:
        return errors.OK
    return errors.INTERRUPTED if number == signal.SIGINT else errors.TERMINATED


def _root(word: str) -> str:
    if not os.path.isdir(word):
        raise ConfigError(f"there is no folder {word[:80]!r}", where="--root", hint="name one")
    return os.path.abspath(word)


def mode_of(settings: Settings) -> str:
    """The narrowest mode of flag, environment and config file.

    A repository must not widen what an agent may do in it, nor an agent that is registered with
    ``--mode full`` what a run allows it.
    """
    rows = settings.rows.values()
    tiers = [
        Settings(rows, {}, settings.environ),
        Settings(rows, {"repo": settings.repo} if settings.repo else {}, {}),
    ]
    for change in load.changes_of(settings, open_repository(settings))[:1]:
        record, source = config_file.read(settings, change)
        tiers[1].apply(record, source, (*PROGRAM, *checks.rows(checks.names())))
    modes: list[str] = [settings.delegate.mode]
    modes += [tier.delegate.mode for tier in tiers if tier.sources["delegate.mode"] != "default"]
    return min(modes, key=DELEGATE_MODES.index)
