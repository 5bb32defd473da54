"""The MCP server: one client, on standard input and output, with the official SDK.

The SDK's own reader takes lines of any length into memory. While the server runs, descriptor 0 is
the null device and descriptor 1 is standard error: nothing that prints, and no child, reaches the
client.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import signal
import threading
import time
from collections import deque
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import anyio
from mcp import types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.shared.message import SessionMessage
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from rlm_ci import __version__
from rlm_ci.console.messages import complain
from rlm_ci.delegation import catalogue
from rlm_ci.delegation.tool import (
    FULL,
    QUESTION_ONLY,
    STATUS_ONLY,
    Call,
    CheckedTool,
    ToolError,
    error_record,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from typing import Any

    from rlm_ci.delegation.tool import ServerContext, ToolAnswer


#: Bytes of one message; longer ones are refused.
LINE_LIMIT = 4 << 20
_CHUNK = 1 << 16
#: Bytes that wait to be read by the client; meanwhile none of its messages are read.
_WAITING = 8 << 20


def claim() -> tuple[int, int]:
    """Descriptors of the client's input and output, which no child inherits."""
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    try:
        os.dup2(2, 1)
    except OSError:  # standard error is closed
        os.dup2(nothing, 1)
    os.close(nothing)
    return source, target


def lines(descriptor: int, limit: int = LINE_LIMIT) -> Iterator[bytes | None]:
    """Each line without its end; None for one above ``limit``, which is read and dropped."""
    pending, is_dropped = bytearray(), False
    while True:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except OSError:  # the other side is gone
            return
        if not chunk:
            break
        *ended, remainder = chunk.split(b"\n")
        for part in ended:
            pending += part
            yield None if is_dropped or len(pending) > limit else bytes(pending)
            pending, is_dropped = bytearray(), False
        pending += remainder
        if len(pending) > limit:
            pending, is_dropped = bytearray(), True
    if is_dropped or pending:
        yield None if is_dropped else bytes(pending)


class ClientOutput:
    """Writes lines in a thread, so that a client that does not read stops nothing but itself."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._held: deque[bytes] = deque()
        self._size = 0
        self._changed = threading.Condition()
        self.is_broken = False
        threading.Thread(target=self._write, name="output", daemon=True).start()

    def put(self, line: bytes) -> None:
        with self._changed:
            self._held.append(line + b"\n")
            self._size += len(line) + 1
            self._changed.notify_all()

    def wait_for_room(self) -> None:
        """Return when the client has read enough, or is gone."""
        with self._changed:
            self._changed.wait_for(lambda: self._size <= _WAITING or self.is_broken)

    def finish(self, seconds: float) -> None:
        """Wait until everything is written, at most so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._size or self.is_broken, seconds)

    def _write(self) -> None:
        while not self.is_broken:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._held))
                line = self._held.popleft()
            unsent = memoryview(line)
            with suppress(OSError):
                while unsent:
                    unsent = unsent[os.write(self._descriptor, unsent) :]
            with self._changed:
                self._size -= len(line)
                self.is_broken = bool(unsent)
                self._changed.notify_all()


#: Threads for quick tools, and for those that may take long.
_QUICK = 8
_BLOCKING = 64
#: Requests of one client that may be unanswered.
_MOST = 1000
#: Seconds that what was asked for before the end of the input has to be answered, and
#: that what was answered has to be read.
_GRACE = 1.0
#: Seconds between two looks whether the client's process is still there.
_LOOK = 2.0
#: Seconds between two looks whether a call is taken back, while a person is asked.
_POLL = 0.2
#: The name of our question to a person.
_PERSON = "person"
#: Clients that look for the dotted names of the specification, by the beginnings of theirs. To
#: others they are plain: the services of most models refuse a dot.
_WITH_DOTS = ("codex-orchestrator", "rlm-runner")
_STOP = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: What each mode is for, in the words that a client shows its model.
_INSTRUCTIONS = {
    FULL: "Tools of rlm-ci: start, follow and steer runs that fix, review or document the "
    "repository. A run goes on by itself: start it, then ask for its status now and then.",
    QUESTION_ONLY: "Tools of rlm-ci: follow runs that fix, review or document the repository, and "
    "ask the person at the run that delegated this one. No tool here starts a run.",
    STATUS_ONLY: "Tools of rlm-ci: follow runs that fix, review or document the repository, which "
    "a person starts with rlm-ci. No tool here starts or steers a run.",
}


def serve(context: ServerContext) -> int | None:
    """Serve until the input ends (None), or a signal, whose number is returned."""
    source, target = claim()
    served = _Served(context, ClientOutput(target))
    try:
        return asyncio.run(served.run(source))
    finally:
        for number in _STOP:  # a second signal must not leave half of it undone
            signal.signal(number, signal.SIG_IGN)
        for close in reversed(context.on_close):
            try:
                close()
            except Exception as error:  # noqa: BLE001 - the other callbacks must run, too
                complain(ToolError("internal", error_record(error)["message"]))
        served.output.finish(_GRACE)


class _Asking(BaseException):
    """The person must be asked first, by a client that answers in a second call."""

    def __init__(self, result: types.InputRequiredResult) -> None:
        super().__init__()
        self.result = result


class _Served:
    """One client and its requests."""

    def __init__(self, context: ServerContext, output: ClientOutput) -> None:
        self.output = output
        self._context = context
        self._tools = {tool.name: CheckedTool(tool) for tool in catalogue.TOOLS}
        self._quick = ThreadPoolExecutor(_QUICK, "quick")
        self._blocking = ThreadPoolExecutor(_BLOCKING, "blocking")
        #: Ids of unanswered requests, as texts: to the SDK 7 and "7" are the same.
        self._waiting: set[str] = set()
        self._states: dict[str, tuple[str, Any, str]] = {}
        self._server: Server[dict[str, Any]] = Server(
            "rlm-ci",
            version=__version__,
            instructions=_INSTRUCTIONS[context.mode],
            on_list_tools=self._list,
            on_call_tool=self._call,
        )

    async def run(self, source: int) -> int | None:
        loop = asyncio.get_running_loop()
        stopped: asyncio.Future[int | None] = loop.create_future()

        def stop(number: int | None = None) -> None:
            if not stopped.done():
                stopped.set_result(number)

        for number in _STOP:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, stop, number)
        incoming, requests = anyio.create_memory_object_stream[SessionMessage | Exception]()
        answers, outgoing = anyio.create_memory_object_stream[SessionMessage](math.inf)
        serving = asyncio.create_task(
            self._server.run(requests, answers, self._server.create_initialization_options())
        )
        serving.add_done_callback(lambda _: stop())
        writing = asyncio.create_task(self._write(outgoing))
        writing.add_done_callback(lambda _: stop())
        take = partial(self._take, incoming)
        for name, work in (
            ("input", partial(self._read, source, take, incoming.close, loop)),
            ("parent", partial(self._watch, stop, loop)),
        ):
            threading.Thread(target=work, name=name, daemon=True).start()
        ended_by = await stopped
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        with suppress(TimeoutError):
            await asyncio.wait_for(writing, _GRACE)
        for pool in (self._quick, self._blocking):
            pool.shutdown(wait=False, cancel_futures=True)
        return ended_by

    def _read(
        self,
        source: int,
        take: Callable[[bytes | None], Coroutine[Any, Any, None]],
        close: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Pass on what the client says, to its end; in a thread."""
        with suppress(RuntimeError, CancelledError):  # the loop has ended before
            for line in lines(source):
                self.output.wait_for_room()
                asyncio.run_coroutine_threadsafe(take(line), loop).result()
            until = time.monotonic() + _GRACE
            while self._waiting and time.monotonic() < until:
                time.sleep(0.01)
            loop.call_soon_threadsafe(close)

    def _watch(self, stop: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """End with the process that started us, though another one may hold the pipe open."""
        parent = os.getppid()
        while os.getppid() == parent and not self.output.is_broken:
            time.sleep(_LOOK)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(stop)

    # -- messages --

    async def _take(self, incoming: Any, line: bytes | None) -> None:
        """Pass one line of the client on; answer it here where it is no message."""
        if line is None:
            refused = f"a message is longer than {LINE_LIMIT:,} bytes"
            self._refuse(None, types.INVALID_REQUEST, refused)
            return
        if not line.strip():
            return
        try:
            if b"\\u" in line:  # half a character is in no text, so no answer could name it
                json.dumps(json.loads(line), ensure_ascii=False).encode()
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            # To the SDK a request whose id is no id is a notification.
            if isinstance(message, types.JSONRPCNotification) and "id" in json.loads(line):
                self._refuse(None, types.INVALID_REQUEST, "not an id")
                return
        except (ValueError, RecursionError):
            self._refuse(*_fault(line))
            return
        if isinstance(message, types.JSONRPCRequest):
            is_known = str(message.id) in self._waiting
            if is_known or len(self._waiting) >= _MOST:
                why = "the id of another request" if is_known else "too many requests at once"
                self._refuse(message.id, types.INVALID_REQUEST, why)
                return
            self._waiting.add(str(message.id))
        elif getattr(message, "method", "") == "notifications/cancelled":
            params = getattr(message, "params", None) or {}
            self._waiting.discard(str(params.get("requestId")))
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            await incoming.send(SessionMessage(message))

    def _refuse(self, request_id: types.RequestId | None, code: int, why: str) -> None:
        error = types.ErrorData(code=code, message=why)
        self._put(types.JSONRPCError(jsonrpc="2.0", id=request_id, error=error))

    def _put(self, message: types.JSONRPCMessage) -> None:
        self.output.put(message.model_dump_json(by_alias=True, exclude_unset=True).encode())

    async def _write(self, outgoing: Any) -> None:
        async for envelope in outgoing:
            if isinstance(envelope.message, types.JSONRPCResponse | types.JSONRPCError):
                self._waiting.discard(str(envelope.message.id))
            self._put(envelope.message)

    # -- tools --

    async def _list(self, ctx: Any, _params: Any) -> types.ListToolsResult:
        client = ctx.session.client_params
        name = client.client_info.name.lower() if client else ""
        is_dotted = name.startswith(_WITH_DOTS)
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=tool.name if is_dotted else _plain(tool.name),
                    description=tool.description,
                    input_schema=tool.schema("input"),
                    output_schema=tool.answer_schema(),
                    annotations=types.ToolAnnotations(
                        read_only_hint=tool.reads,
                        destructive_hint=tool.destroys,
                        idempotent_hint=tool.reads or tool.repeats,
                        # The repository, and the models that a person has set up.
                        open_world_hint=False,
                    ),
                )
                for tool in catalogue.TOOLS
                if self._context.offers(tool)
            ]
        )

    async def _call(
        self, ctx: Any, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        name = {_plain(tool): tool for tool in self._tools}.get(params.name, params.name)
        if name not in self._tools:
            raise MCPError(code=types.INVALID_PARAMS, message="there is no such tool")
        checked, cancelled = self._tools[name], threading.Event()
        asker = _Asker(ctx, params, cancelled, self._states)
        call = Call(self._context, cancelled, asker.ask, _progress(ctx.session))
        pool = self._blocking if checked.tool.blocking else self._quick
        future = pool.submit(checked.answer, call, params.arguments or {})
        try:
            return _result(await asyncio.wrap_future(future))
        except _Asking as asking:
            return asking.result
        except asyncio.CancelledError:
            cancelled.set()
            raise


def _progress(session: Any) -> Callable[[float, str], object]:
    """Reports the progress of a request from the thread of its tool."""
    loop = asyncio.get_running_loop()

    def report(number: float, message: str) -> None:
        telling = session.report_progress(number, message=message)
        with suppress(RuntimeError):  # the loop has ended before
            asyncio.run_coroutine_threadsafe(telling, loop)

    return report


class _Asker:
    """Asks the person at the client, for one request."""

    def __init__(
        self,
        ctx: Any,
        params: types.CallToolRequestParams,
        cancelled: threading.Event,
        states: dict[str, tuple[str, Any, str]],
    ) -> None:
        self._session, self._id = ctx.session, ctx.request_id
        self._params = params
        self._cancelled = cancelled
        self._states = states
        self._loop = asyncio.get_running_loop()

    def ask(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """See ``Call.ask_person``; in the thread of the tool."""
        capabilities = self._session.client_capabilities
        can = capabilities.elicitation if capabilities else None
        if can is None or (can.form is None and can.url is not None):
            return None
        if self._session.protocol_version in MODERN_PROTOCOL_VERSIONS:
            answer: types.ElicitResult | None = self._answered(message, schema)
        else:
            answer = self._wait_for(self._session.elicit_form(message, schema, self._id))
        return None if answer is None else {"action": answer.action, "content": answer.content}

    def _answered(self, message: str, schema: dict[str, Any]) -> types.ElicitResult:
        """What came with this call, if it is the second one. Raises _Asking for the first."""
        form = types.ElicitRequestFormParams(message=message, requested_schema=schema)
        request = types.ElicitRequest(params=form)
        question = self._params.name, self._params.arguments, request.model_dump_json()
        first_question = self._states.pop(self._params.request_state or "", None)
        answer = (self._params.input_responses or {}).get(_PERSON)
        if first_question == question and isinstance(answer, types.ElicitResult):
            return answer
        state = os.urandom(16).hex()
        self._states[state] = question
        for old in list(self._states)[:-_MOST]:
            self._states.pop(old, None)
        raise _Asking(
            types.InputRequiredResult(input_requests={_PERSON: request}, request_state=state)
        )

    def _wait_for(
        self, asking: Coroutine[Any, Any, types.ElicitResult]
    ) -> types.ElicitResult | None:
        future = asyncio.run_coroutine_threadsafe(asking, self._loop)
        while True:
            try:
                return future.result(_POLL)
            except TimeoutError:
                if self._cancelled.is_set():
                    future.cancel()
                    raise ToolError("cancelled", "the call was taken back") from None
            except CancelledError:  # the server ends
                raise ToolError("cancelled", "the client is gone") from None
            except (MCPError, ValueError):  # it cannot, whatever it says
                return None


def _fault(line: bytes) -> tuple[types.RequestId | None, int, str]:
    """The id of what is no message, if it has one, and the error."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None, types.PARSE_ERROR, "not JSON"
    identifier = record.get("id") if isinstance(record, dict) else None
    is_text = isinstance(identifier, str) and not re.search("[\ud800-\udfff]", identifier)
    is_id = is_text or (isinstance(identifier, int) and not isinstance(identifier, bool))
    return identifier if is_id else None, types.INVALID_REQUEST, "not a message"


def _plain(name: str) -> str:
    return name.replace(".", "_")


def _result(answer: ToolAnswer) -> types.CallToolResult:
    # A name of a file may have bytes that are no text.
    text = json.dumps(answer.record, ensure_ascii=False).encode("utf-8", "replace").decode()
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)],
        structured_content=json.loads(text),
        is_error=answer.is_error,
    )
