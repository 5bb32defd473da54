"""Reads which MCP servers there are: a JSON file in the form that agents have, ``mcpServers``."""

from __future__ import annotations

import json
import os
import re

from rlm_ci.config.settings import nearest
from rlm_ci.decoding import DecodeError
from rlm_ci.errors import ConfigError
from rlm_ci.runs.cancel import MARK
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_LIMIT = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9_-]{1,32}", re.ASCII)
#: A value that is one variable of ours.
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", re.ASCII)
#: What a server gets of our environment: no secret is among these.
_INHERITED = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    MARK,
)


class ServerEntry(Value):
    """What the file says of a server."""

    _ignores = True

    command: str
    args: tuple[str, ...] | None = None
    env: Mapping[str, str] | None = None
    cwd: str | None = None

    def _require(self) -> None:
        texts = (self.command, self.cwd or "", *(self.args or ()), *(self.env or {}).values())
        if any("\0" in text for text in texts):
            raise ValueError("a text has a NUL")
        if self.cwd is not None and not os.path.isabs(self.cwd):
            raise ValueError("cwd is no absolute path")


class McpProgram(Value):
    """A server: its command, its whole environment, and where it starts (None: nowhere special).

    ``own`` are the variables that the file gives it.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    cwd: str | None = None
    own: Mapping[str, str] = {}


def load(
    path: str, environ: Mapping[str, str], *, root: str, server: str | None = None
) -> tuple[McpProgram, ...]:
    """The servers that the file at ``path`` names, or the one named ``server``.

    Raises ConfigError, also for a file below ``root``: a repository must not name programs.
    """
    real_path = os.path.realpath(path)
    if files.below(os.path.realpath(root), real_path) is not None:
        raise _wrong(path, "it is in the repository, which must not name programs to run", _ELSE)
    try:
        record = json.loads(files.read(real_path, _LIMIT))
    except files.UnreadableError as error:
        raise _wrong(path, f"it cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:
        raise _wrong(path, f"it is not valid JSON: {printable(str(error))[:200]}") from None
    servers = record.get("mcpServers") if isinstance(record, dict) else None
    if not isinstance(servers, dict) or not servers:
        raise _wrong(path, "it names no servers")
    if server is not None and server not in servers:
        problem = f"there is no server {printable(server)[:80]!r} in it"
        raise _wrong(path, problem, nearest(server, list(servers)))
    names = servers if server is None else (server,)
    return tuple(_program(path, name, servers[name], environ) for name in names)


_FORM = 'give {"mcpServers": {"NAME": {"command": "PROGRAM", "args": […], "env": {…}}}}'
_ELSE = "keep it elsewhere, such as ~/.config/rlm-ci/mcp.json"


def _program(path: str, name: str, raw: Any, environ: Mapping[str, str]) -> McpProgram:
    if not _NAME.fullmatch(name):
        problem = f"{printable(name)[:80]!r} is no name: letters, digits, - and _, 32 at most"
        raise _wrong(path, problem)
    where = f"{path}: {name}"
    if isinstance(raw, dict) and not raw.get("command"):
        raise _wrong(where, "it has no command; servers at an address are not connected")
    try:
        entry = ServerEntry.from_dict(raw)
    except DecodeError as error:
        raise _wrong(where, f"it is not valid: {error}") from None
    configured = entry.env or {}
    variables = {key: environ[key] for key in _INHERITED if key in environ}
    for key, value in configured.items():
        reference = _VARIABLE.fullmatch(value)
        if reference and reference[1] not in environ:
            raise _wrong(where, f"the variable {reference[1]} is not set", f"set {reference[1]}")
        variables[key] = environ[reference[1]] if reference else value
    argv = (entry.command, *(entry.args or ()))
    return McpProgram(name, argv, variables, entry.cwd, {key: variables[key] for key in configured})


def _wrong(where: str, why: str, hint: str = _FORM) -> ConfigError:
    return ConfigError(why, where=printable(where)[:300], hint=hint)
