"""Tools of MCP servers beside those of an environment: each call is a fact of the run's record."""

from __future__ import annotations

import json
import re
import threading
from contextlib import ExitStack

from rlm_ci.environments.quoting import OUTPUT_LIMIT, quoted
from rlm_ci.environments.tool_calls import function
from rlm_ci.environments.turn_loop import Observation
from rlm_ci.errors import UnavailableError
from rlm_ci.system import files, installation
from rlm_ci.text.printable import clip, printable
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.environments.turn_loop import Environment
    from rlm_ci.lab.mcp.connection import McpConnection, McpProgram

    #: ``(server, tool, arguments)``: the text of the answer, and whether it failed; a fact.
    CallTool = Callable[[str, str, Mapping[str, Any]], tuple[str, bool]]

#: How the name of a tool of a server begins, as agents have it: ``mcp__SERVER__TOOL``.
PREFIX = "mcp__"
#: Characters of a name and of a description, bytes of the arguments' schema, tools of all servers.
_NAME, _TEXT, _SCHEMA, _TOOLS = 64, 1000, 6000, 128
#: What is kept of a schema. The server checks the arguments; a pattern could take for ever.
_KEPT = ("type", "description", "enum", "minimum", "maximum", "required")
_DEPTH = 4
_TYPES = ("string", "integer", "number", "boolean", "array", "object", "null")
#: An argument that a model cannot give by this name: an answer has it for the tool.
_TAKEN = "action"
_OTHER = "action_"


class McpServers(Closing):
    """The servers of a run: each is started when it is needed, and ended with the run."""

    def __init__(self, programs: Iterable[McpProgram]) -> None:
        self._programs = {program.name: program for program in programs}
        self._open: dict[str, McpConnection] = {}
        self._stack = ExitStack()
        self._lock = threading.Lock()

    def listed(self) -> list[dict[str, Any]]:
        """All tools: ``server``, ``tool``, ``name`` for the model, ``description``, ``schema``.

        Raises UnavailableError for a server that does not start.
        """
        listing: list[dict[str, Any]] = []
        names: set[str] = set()
        for server in self._programs:
            try:
                tools = self._connection(server).tools()
            except (OSError, TimeoutError) as error:
                raise UnavailableError(
                    f"the MCP server {server} does not start: {_error_text(error)}",
                    where=printable(" ".join(self._programs[server].argv))[:200],
                    hint="start it by hand to see why, or leave it out by --mcp-server",
                ) from None
            for tool in tools:
                name = re.sub(r"[^A-Za-z0-9_-]", "_", f"{PREFIX}{server}__{tool['name']}")[:_NAME]
                if name not in names and len(listing) < _TOOLS:
                    names.add(name)
                    listing.append(
                        {
                            "server": server,
                            "tool": tool["name"],
                            "name": name,
                            "description": printable(clip(tool["description"], _TEXT)),
                            "schema": plain(tool["schema"]),
                        }
                    )
        return listing

    def call(
        self, server: str, tool: str, arguments: Mapping[str, Any], seconds: float
    ) -> dict[str, Any]:
        """What a tool answers, as a fact: what fails is an answer too."""
        timed_out = False
        try:
            with self._lock:
                connection = self._connection(server)
            text, failed = connection.call(tool, arguments, seconds)
        except TimeoutError:
            text, failed, timed_out = f"no answer within {seconds:g} seconds", True, True
        except (OSError, UnavailableError) as error:
            text, failed = f"the server failed: {_error_text(error)}", True
        return {"text": clip(text, OUTPUT_LIMIT), "failed": failed, "timed_out": timed_out}

    def close(self) -> None:
        for connection in self._open.values():
            connection.close()
        self._open = {}
        self._stack.close()

    def _connection(self, server: str) -> McpConnection:
        """The server, started again if it has ended."""
        try:
            from rlm_ci.lab.mcp.connection import McpConnection
        except ImportError:
            raise UnavailableError(
                "MCP servers need the library mcp", hint=installation.command("mcp")
            ) from None
        connection = self._open.get(server)
        if connection is not None and not connection.has_ended:
            return connection
        if connection is not None:
            connection.close()
        if server not in self._programs:
            raise OSError("it is not configured any more")
        # An empty folder: in the repository, a server could load its files as code.
        folder = self._stack.enter_context(files.scratch("rlm-ci-mcp-"))
        self._open[server] = McpConnection(self._programs[server], folder)
        return self._open[server]


def _error_text(error: BaseException) -> str:
    return printable(str(error) or type(error).__name__)[:300]


class McpEnvironment:
    """An environment with the tools of MCP servers beside its own."""

    def __init__(
        self, environment: Environment, tools: Sequence[Mapping[str, Any]], call: CallTool
    ) -> None:
        self._environment = environment
        # A record may come from anywhere, and a schema with it.
        self._named = {tool["name"]: {**tool, "schema": plain(tool["schema"])} for tool in tools}
        self._call = call

    def tools(self) -> tuple[dict[str, Any], ...]:
        """The tools as OpenAI describes functions."""
        return (*self._environment.tools(), *map(_function, self._named.values()))

    def act(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Carry out one call. Raises what the environment raises."""
        tool = self._named.get(name)
        if tool is None:
            return self._environment.act(name, arguments)
        if _TAKEN in tool["schema"].get("properties", {}):
            arguments = {_TAKEN if key == _OTHER else key: arguments[key] for key in arguments}
        text, failed = self._call(tool["server"], tool["tool"], arguments)
        head = f"{'The error' if failed else 'The answer'} of {name}"
        return Observation(quoted(head, text), failed=failed)


def _function(tool: Mapping[str, Any]) -> dict[str, Any]:
    schema = tool["schema"]
    properties = schema.get("properties", {})
    renamed = {_OTHER if name == _TAKEN else name: value for name, value in properties.items()}
    definition = function(tool["name"], tool["description"], renamed, 0)
    required = [_OTHER if name == _TAKEN else name for name in schema.get("required", ())]
    definition["function"]["parameters"]["required"] = required
    return definition


def plain(schema: Any) -> dict[str, Any]:
    """The arguments of a tool in the simple part of JSON Schema; without details if too long."""
    simple = _simplified(schema, _DEPTH)
    if len(json.dumps(simple)) > _SCHEMA:
        names = [name for name in simple.get("properties", {}) if len(name) <= _NAME]
        simple = {"properties": {name: {} for name in names[:_NAME]}}
    properties = simple.get("properties", {})
    required = [name for name in simple.get("required", ()) if name in properties]
    return {"properties": properties, "required": required}


def _simplified(schema: Any, depth: int) -> dict[str, Any]:
    if not isinstance(schema, dict) or not depth:
        return {}
    simple = {key: schema[key] for key in _KEPT if key in schema and _is_sound(key, schema[key])}
    if "description" in simple:
        simple["description"] = printable(clip(simple["description"], _TEXT))
    properties = schema.get("properties")
    if isinstance(properties, dict):
        simple["properties"] = {
            name: _simplified(value, depth - 1)
            for name, value in properties.items()
            if name == printable(name)
        }
    if isinstance(schema.get("items"), dict):
        simple["items"] = _simplified(schema["items"], depth - 1)
    return simple


def _is_sound(key: str, value: Any) -> bool:
    if key == "type":
        return value in _TYPES if isinstance(value, str) else False
    if key == "description":
        return isinstance(value, str)
    if key == "required":
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if key == "enum":
        return isinstance(value, list) and all(
            isinstance(item, (str, int, float, bool, type(None))) for item in value
        )
    return type(value) in (int, float)
