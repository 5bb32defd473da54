"""The HTTP server: whose turn it is, what it sends, its log."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import socket
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, unquote, urlsplit

from testing.leftovers import eventually
from testing.loopback_model import shapes, streams
from testing.loopback_model.replies import Answer, Raw, Reply, refusal
from testing.loopback_model.streams import StreamForm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from testing.loopback_model.histories import History
    from testing.loopback_model.small_contexts import SmallContext

    Script = Iterable[Reply] | Callable[["Asked"], Reply]

_AZURE = re.compile(r"/openai/deployments/([^/]+)/chat/completions")


@dataclass
class Asked:
    """One request as it came; ``status`` is what it was answered with, 0 for not at all."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: Any
    at: float
    status: int = 0

    @property
    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.body["messages"]
        return messages

    @property
    def cap(self) -> int | None:
        cap: int | None = self.body.get("max_completion_tokens", self.body.get("max_tokens"))
        return cap


@dataclass
class Billed:
    """What a provider would send a bill for."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class ModelServer:
    """OpenAI's chat API at ``url``, with or without ``/v1`` dropped by the client's base URL.

    ``script`` is a list of replies, given in order, or a callable that is asked with each
    request. Every request stands in ``asked``, what OpenAI would refuse of it in ``violations``;
    ``bill`` is what was charged: answers that the model worked on, whether or not they arrived.
    """

    def __init__(self, script: Script = (), *, key: str = "sk-loopback-0123456789abcdef") -> None:
        self.key = key
        self.models: list[str] = []  # none: any name will do
        #: What the list of models is instead of those names, as a provider gives it.
        self.listing: Any = None
        self.asked: list[Asked] = []
        self.violations: list[str] = []
        self.bill = Billed()
        #: Parameters that this endpoint has beyond OpenAI's.
        self.own_parameters = frozenset({"add_generation_prompt", "continue_final_message"})
        #: What it wants of the history of a conversation, and gives for it.
        self.history: History | None = None
        #: What it reads at most; None for anything.
        self.context: SmallContext | None = None
        #: What it has beside OpenAI's API, as JSON by path; called if it can be.
        self.beside: dict[str, Any] = {}
        #: A parameter that this endpoint does not know.
        self.unknown_parameter: str | None = None
        #: How it streams, and whether it does when it is asked to.
        self.stream_form = StreamForm()
        self.streams = True
        #: What it says instead of streaming an answer to a request, if anything.
        self.refuses_stream: Callable[[Asked], Raw | None] = lambda _asked: None
        self.lock = threading.Lock()
        self.port = 0
        self._server: _Listener | None = None
        self._expected: list[re.Pattern[str]] = []
        self._next: Iterator[Reply] | None = None
        self._callable: Callable[[Asked], Reply] | None = None
        self.script(script)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """The base URL of the API."""
        return f"{self.origin}/v1"

    @property
    def completions(self) -> list[Asked]:
        """The requests for completions alone, in order."""
        return [one for one in self.asked if one.path.endswith("/chat/completions")]

    def script(self, script: Script) -> None:
        """Say this from now on."""
        if callable(script):
            self._callable, self._next = script, None
        else:
            self._callable, self._next = None, iter(script)

    def expect(self, pattern: str) -> None:
        """Say that a violation that ``pattern`` finds is what the test is about."""
        self._expected.append(re.compile(pattern))

    def unexpected(self) -> list[str]:
        """Violations that nobody expected, and expectations that nothing met."""
        surplus = [v for v in self.violations if not any(p.search(v) for p in self._expected)]
        unmet = [p for p in self._expected if not any(p.search(v) for v in self.violations)]
        return surplus + [f"expected, but not seen: {p.pattern}" for p in unmet]

    def start(self) -> None:
        """Listen; the port stays the same over a stop."""
        self._server = _Listener(self)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Refuse connections from here on, and end those that are open."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def settle(self) -> None:
        """Wait until whatever a client that has died had sent is in ``asked``.

        Connections are accepted in order: once ours has been, all before it have been too.
        """
        with socket.create_connection(("127.0.0.1", self.port), 20) as own:
            own.shutdown(socket.SHUT_WR)
            assert own.recv(1) == b""
        listener = self._server
        assert listener is not None
        assert eventually(lambda: not listener.open), "a client is still there"

    # -- answering --------------------------------------------------------------------------

    def reply(self, asked: Asked) -> Answer | Raw:
        """What this request is answered with."""
        if asked.path in self.beside:
            value = self.beside[asked.path]
            return Raw(200, json.dumps(value(asked) if callable(value) else value).encode())
        if asked.path.endswith("/models"):
            rows = [{"id": name, "object": "model"} for name in self.models]
            told = {"object": "list", "data": rows}
            said = told if self.listing is None else self.listing
            return Raw(200, json.dumps(said).encode())
        azure = _AZURE.fullmatch(asked.path)
        if not azure and not asked.path.endswith("/chat/completions"):
            return refusal(404, f"Invalid URL (POST {asked.path})")
        problem = self._credentials(asked, azure is not None)
        if problem is not None:
            return problem
        known = asked.body.items()
        members = self.history.members if self.history else frozenset[str]()
        own = {k: v for k, v in known if k not in self.own_parameters}
        wrong = shapes.deviations(own, members)
        if wrong:
            with self.lock:
                self.violations += wrong
            return refusal(400, wrong[0], code="invalid_request_error")
        if self.history and (refused := self.history.refuses(asked.messages)):
            return refused
        if self.context and (refused := self.context.refuses(asked.body)):
            return refused
        if self.unknown_parameter in asked.body:
            name = self.unknown_parameter
            return refusal(
                400,
                f"Unsupported parameter: '{name}' is not supported with this model. Use another.",
                code="unsupported_parameter",
                param=name,
            )
        if asked.body.get("stream") and (refused := self.refuses_stream(asked)):
            return refused
        model = unquote(azure[1]) if azure else asked.body["model"]
        if self.models and model not in self.models:
            return refusal(404, f"The model `{model}` does not exist", code="model_not_found")
        return self._scripted(asked)

    def _credentials(self, asked: Asked, is_azure: bool) -> Raw | None:
        given = (
            asked.headers.get("api-key", "")
            if is_azure
            else asked.headers.get("authorization", "").removeprefix("Bearer ")
        )
        if given == self.key:
            return None
        # OpenAI's own message shows part of the key; some gateways show all of it.
        return refusal(401, f"Incorrect API key provided: {given}", code="invalid_api_key")

    def _scripted(self, asked: Asked) -> Answer | Raw:
        if self._callable is not None:
            said: Reply = self._callable(asked)
        else:
            with self.lock:
                assert self._next is not None
                try:
                    said = next(self._next)
                except StopIteration:
                    self.violations.append("the script of the model service has run out")
                    said = refusal(400, "the script of the model service has run out")
        return Answer(said) if isinstance(said, str) else said

    def completion(self, answer: Answer, asked: Asked) -> dict[str, Any]:
        """The body of a whole answer, and the bill for it."""
        own = self.history.call_id if self.history else None
        calls = [
            {
                "id": call.id or (f"call_{len(self.asked)}_{index}" if own is None else own),
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": call.arguments,
                    **(self.history.of_function if self.history else {}),
                },
                **(self.history.of_call if self.history else {}),
            }
            for index, call in enumerate(answer.calls)
        ]
        message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
        message |= self.history.message(answer.text) if self.history else {}
        if calls:
            message["tool_calls"] = calls
        counted = (
            # As many tokens as a tokenizer of English would find, about.
            len(json.dumps(asked.body["messages"])) // 4 + 1,
            (len(answer.text or "") + sum(len(call.arguments) for call in answer.calls)) // 4 + 1,
        )
        if self.context:
            counted = self.context.count(asked.body), counted[1]
        prompt, written = answer.usage if isinstance(answer.usage, tuple) else counted
        with self.lock:
            self.bill.calls += 1
            self.bill.prompt_tokens += prompt
            self.bill.completion_tokens += written
        body: dict[str, Any] = {
            "id": f"chatcmpl-{len(self.asked)}",
            "object": "chat.completion",
            "created": 1_700_000_000,
            "model": asked.body["model"],
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": answer.finish_reason or ("tool_calls" if calls else "stop"),
                    "logprobs": None,
                }
            ],
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": written,
                "total_tokens": prompt + written,
            },
        }
        if answer.usage is None:
            del body["usage"]
        return {**body, **answer.more}


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256

    def __init__(self, service: ModelServer) -> None:
        self.service = service
        self.open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", service.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self.open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        for connection in list(self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is none of our business."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body in one packet, at once: else each answer waits 40 ms for an ACK.
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Listener

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is given
        """Silence: the log is ModelServer.asked."""

    def _serve(self) -> None:
        service = self.server.service
        announced = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(announced)
        if len(raw) < announced:  # the client died while it was asking: nobody was asked
            self.close_connection = True
            return
        split = urlsplit(self.path)
        try:
            body = json.loads(raw) if raw else None
        except ValueError:
            body = None
        asked = Asked(
            self.command,
            split.path,
            dict(parse_qsl(split.query)),
            {name.lower(): value for name, value in self.headers.items()},
            body,
            time.monotonic(),
        )
        with service.lock:
            service.asked.append(asked)
        reply = service.reply(asked)
        if isinstance(reply, Raw):
            self._send_raw(reply, asked)
            return
        time.sleep(reply.delay)
        whole = service.completion(reply, asked)
        if asked.body.get("stream") and service.streams and "choices" not in reply.more:
            self._send_stream(reply, whole, asked)
        else:
            self._send_raw(Raw(200, whole, drip=reply.drip), asked)

    do_GET = do_POST = _serve  # noqa: N815 - http.server's names

    def _send_raw(self, reply: Raw, asked: Asked) -> None:
        time.sleep(reply.delay)
        if reply.drop:
            self.close_connection = True
            return
        if reply.never:
            self.wfile.write(reply.never[0])
            self._drip(itertools.repeat(reply.never[1]), reply.drip)
        asked.status = reply.status
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        self.send_header("Content-Type", reply.kind)
        if reply.endless:
            self.send_header("Connection", "close")
            self.close_connection = True
        else:
            self.send_header("Content-Length", str(len(body)))
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if reply.drip:
            self._drip((body[at : at + 1] for at in range(len(body))), reply.drip)
        while reply.endless:
            self.wfile.write(body)
        self.wfile.write(b"" if reply.drip else body[: reply.cut])
        self.wfile.flush()
        if reply.cut is not None:
            self.close_connection = True

    def _drip(self, pieces: Iterator[bytes], pause: float) -> None:
        for piece in pieces:
            self.wfile.write(piece)
            self.wfile.flush()
            time.sleep(pause)

    def _send_stream(self, reply: Answer, whole: dict[str, Any], asked: Asked) -> None:
        asked.status = 200
        form = self.server.service.stream_form
        options = asked.body.get("stream_options") or {}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        parts = streams.events(whole, form, with_usage=bool(options.get("include_usage")))
        framed = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
        if reply.drip:
            self._drip(iter(framed), reply.drip)
        else:
            self.wfile.write(b"".join(framed))
            self.wfile.flush()
        time.sleep(form.linger)
        if form.cut is None:
            self.wfile.write(b"0\r\n\r\n")
            self.wfile.flush()
        else:
            self.close_connection = True
