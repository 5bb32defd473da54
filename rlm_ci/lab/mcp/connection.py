"""A connection to an MCP server that a JSON file names, by the official SDK."""

from __future__ import annotations

import json
import logging
import os
import re
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial

import anyio
from anyio.from_thread import start_blocking_portal
from mcp import types
from mcp.client import Client
from mcp.os.posix.utilities import terminate_posix_process_tree
from mcp.shared.message import SessionMessage

from rlm_ci import __version__
from rlm_ci.config.settings import nearest
from rlm_ci.decoding import DecodeError
from rlm_ci.errors import ConfigError
from rlm_ci.runs.cancel import MARK
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from typing import Any

    from anyio.abc import ByteReceiveStream


#: Seconds of each step until a server is ready, and that it has to end by itself.
_START, _GRACE = 20.0, 1.0
#: Bytes of one message, and of all that a server writes; more ends it.
_MESSAGE, _ALL = 8 << 20, 256 << 20
#: Tools of one server, pages of their list, and bytes that are kept of what it says as errors.
_TOOLS, _PAGES, _TAIL = 128, 32, 2048


class McpConnection(Closing):
    """A server that runs until ``close``. All methods raise OSError where it fails."""

    def __init__(self, program: McpProgram, folder: str) -> None:
        """Start it, in ``folder`` unless it names its own."""
        self._program = program
        self._folder = folder
        self._tail = b""
        #: Whether it can answer no more.
        self.has_ended = False
        self._stack = ExitStack()
        # The SDK logs what a server writes wrongly; an observation says it.
        logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
        try:
            self._portal = self._stack.enter_context(start_blocking_portal())
            client = Client(
                self._transport(),
                read_timeout_seconds=_START,
                client_info=types.Implementation(name="rlm-ci", version=__version__),
                cache=None,
            )
            opened = self._portal.wrap_async_context_manager(client)
            self._client = self._stack.enter_context(opened)
        except Exception as error:  # noqa: BLE001 - the SDK's, of what the server says
            self.close()
            raise self._failed(error) from None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the server, and all that it has started in its session."""
        self.has_ended = True
        with suppress(Exception):  # it may have failed before
            self._stack.close()

    def tools(self) -> list[dict[str, Any]]:
        """Its tools: ``name``, ``description`` and ``schema`` of each."""
        tools: list[dict[str, Any]] = []
        cursor = None
        for _ in range(_PAGES):
            page = self._request(partial(self._client.list_tools, cursor=cursor), _START)
            tools += [
                {
                    "name": tool.name,
                    "description": tool.description or "",
                    "schema": tool.input_schema,
                }
                for tool in page.tools
            ]
            cursor = page.next_cursor
            if cursor is None or len(tools) >= _TOOLS:
                break
        return tools[:_TOOLS]

    def call(self, name: str, arguments: Mapping[str, Any], seconds: float) -> tuple[str, bool]:
        """What a tool answers, and whether it failed.

        Raises TimeoutError after ``seconds``; it may be stuck, so it has ended.
        """
        call = partial(
            self._client.call_tool, name, dict(arguments), read_timeout_seconds=seconds + _GRACE
        )
        result = self._request(call, seconds)
        parts = [_text(item) for item in result.content]
        if not parts and result.structured_content is not None:
            parts = [json.dumps(result.structured_content, ensure_ascii=False)]
        return "\n".join(parts), bool(result.is_error)

    def _request(self, ask: Any, seconds: float) -> Any:
        async def bounded() -> Any:
            with anyio.fail_after(seconds):
                return await ask()

        try:
            return self._portal.call(bounded)
        except TimeoutError:
            self.has_ended = True
            raise
        except Exception as error:  # noqa: BLE001 - the SDK's, of what the server says
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> OSError:
        """The first of nested errors, and the last words of the server."""
        inner: BaseException = error
        while isinstance(inner, BaseExceptionGroup):
            inner = inner.exceptions[0]
        lines = self._tail.decode("utf-8", "replace").strip().splitlines()
        last_words = f"; it said: {lines[-1]}" if lines else ""
        return OSError(f"{str(inner) or type(inner).__name__}{last_words}")

    # ── its process ──

    @asynccontextmanager
    async def _transport(self) -> AsyncIterator[Any]:
        """Streams of messages. A server that writes too much has ended."""
        program = self._program
        process = await anyio.open_process(
            program.argv,
            env=dict(program.env),
            cwd=program.cwd or self._folder,
            start_new_session=True,
        )
        stdin, stdout, stderr = process.stdin, process.stdout, process.stderr
        if stdin is None or stdout is None or stderr is None:
            raise RuntimeError("a process is started with pipes")
        to_us, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        sent, to_server = anyio.create_memory_object_stream[SessionMessage](0)

        async def read() -> None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async with to_us:
                    async for line in _lines(stdout):
                        await to_us.send(_message(line))
            self.has_ended = True

        async def write() -> None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                async for message in to_server:
                    data = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await stdin.send(f"{data}\n".encode())

        async def listen() -> None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for chunk in stderr:
                    self._tail = (self._tail + chunk)[-_TAIL:]

        async with anyio.create_task_group() as tasks, received, sent, to_server:
            for task in (read, write, listen):
                tasks.start_soon(task)
            try:
                yield received, sent
            finally:
                with anyio.CancelScope(shield=True):
                    with suppress(Exception):
                        await stdin.aclose()
                    with anyio.move_on_after(_GRACE):
                        await process.wait()
                    await terminate_posix_process_tree(process, _GRACE)
                    with anyio.move_on_after(_GRACE):
                        await process.wait()
                tasks.cancel_scope.cancel()
                # An unread pipe keeps asyncio's transport open, and nothing public closes it.
                transport = getattr(getattr(process, "_process", None), "_transport", None)
                if transport is not None:
                    transport.close()


async def _lines(stream: ByteReceiveStream) -> AsyncIterator[bytes]:
    """The lines of a stream, until one of them or their sum is too long."""
    parts: list[bytes] = []
    pending = total = 0
    async for chunk in stream:
        *lines, tail = chunk.split(b"\n")
        for line in lines:
            yield b"".join((*parts, line))
            parts, pending = [], 0
        parts.append(tail)
        pending += len(tail)
        total += len(chunk)
        if pending > _MESSAGE or total > _ALL:
            return


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


def _text(block: Any) -> str:
    """A part of a result as text; what is none is named."""
    if block.type == "text":
        return str(block.text)
    inner = getattr(getattr(block, "resource", None), "text", None)
    return str(inner) if isinstance(inner, str) else f"[{block.type}, left out]"


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

    ``file_variables`` are the variables that the file gives it.
    """

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = {}
    cwd: str | None = None
    file_variables: Mapping[str, str] = {}


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
