"""A model on loopback for programs that are agents: each is answered in its own streaming dialect.

``/v1/messages`` is Anthropic's, ``/v1/responses`` OpenAI's, ``…:streamGenerateContent`` Google's.
``/v1/chat/completions`` answers at once, with a text.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What Gemini's router wants to hear.
_CHOICE = (
    '{"reasoning": "", "model_choice": "flash", "complexity_reasoning": "", "complexity_score": 1}'
)
#: Tokens that each answer is charged: sent, answered.
USAGE = (120, 30)


class Use(NamedTuple):
    """A call of a tool."""

    tool: str
    arguments: dict[str, Any]


class Request(NamedTuple):
    """What a program sent; ``results`` counts the results of tools in it."""

    path: str
    body: dict[str, Any]
    results: int

    @property
    def text(self) -> str:
        return json.dumps(self.body, ensure_ascii=False)


class AgentEndpoint:
    """Answers what ``script`` says to a request: a text, a call of a tool, or an HTTP status."""

    def __init__(self, script: Callable[[Request], str | Use | int]) -> None:
        self.script = script
        self.requests: list[Request] = []
        self._server = _Server(("127.0.0.1", 0), _handler(self))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_request: object) -> None:
        """A program that is stopped hangs up."""


def _handler(endpoint: AgentEndpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is given
            pass

        def do_GET(self) -> None:
            # Codex asks for a WebSocket first, and takes this for an end of that.
            self._send(426, b"{}", "application/json")

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("content-length", 0)))
            body = json.loads(data) if data[:1] == b"{" else {}
            path = self.path.partition("?")[0]
            dialect = next((_DIALECTS[end] for end in _DIALECTS if path.endswith(end)), None)
            if dialect is None:
                self._send(404, b"{}", "application/json")
                return
            request = Request(path, body, dialect.results(body))
            if path.endswith(":generateContent"):  # which model to take
                whole = next(iter(dialect.answer(_CHOICE, body)))
                self._send(200, json.dumps(whole).encode(), "application/json")
                return
            endpoint.requests.append(request)
            answer = endpoint.script(request)
            if isinstance(answer, int):
                self._send(answer, dialect.refusal(answer), "application/json")
            else:
                events = b"".join(map(dialect.event, dialect.answer(answer, body)))
                at_once = path.endswith("/chat/completions")
                self._send(200, events, "application/json" if at_once else "text/event-stream")

        def _send(self, status: int, data: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


class _Anthropic:
    @staticmethod
    def results(body: dict[str, Any]) -> int:
        blocks = (m["content"] for m in body.get("messages", []) if isinstance(m["content"], list))
        return sum(block.get("type") == "tool_result" for row in blocks for block in row)

    @staticmethod
    def refusal(status: int) -> bytes:
        error = {"type": "authentication_error", "message": f"invalid x-api-key ({status})"}
        return json.dumps({"type": "error", "error": error}).encode()

    @staticmethod
    def event(event: dict[str, Any]) -> bytes:
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()

    @staticmethod
    def answer(answer: str | Use, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        message = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": body.get("model", "m"),
            "content": [], "stop_reason": None, "stop_sequence": None,
            "usage": {"input_tokens": USAGE[0], "output_tokens": 1},
        }  # fmt: skip
        yield {"type": "message_start", "message": message}
        if isinstance(answer, Use):
            block = {
                "type": "tool_use",
                "id": f"toolu_{len(body['messages'])}",
                "name": answer.tool,
            }
            start: dict[str, Any] = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.arguments)}
        else:
            start = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": answer}
        yield {"type": "content_block_start", "index": 0, "content_block": start}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        reason = "tool_use" if isinstance(answer, Use) else "end_turn"
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": USAGE[1]},
        }
        yield {"type": "message_stop"}


class _OpenAI:
    @staticmethod
    def results(body: dict[str, Any]) -> int:
        kinds = ("function_call_output", "custom_tool_call_output")
        return sum(row.get("type") in kinds for row in body.get("input", []))

    @staticmethod
    def refusal(status: int) -> bytes:
        error = {"message": f"Incorrect API key provided ({status})", "code": "invalid_api_key"}
        return json.dumps({"error": error}).encode()

    @staticmethod
    def event(event: dict[str, Any]) -> bytes:
        return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()

    @staticmethod
    def answer(answer: str | Use, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"type": "response.created", "response": {"id": "resp_1"}}
        if isinstance(answer, Use):
            call = f"call_{len(body['input'])}"
            space, _, name = answer.tool.rpartition(".")
            kind, content = "function_call", {"arguments": json.dumps(answer.arguments)}
            if answer.arguments.keys() == {"input"}:  # a free text, as JavaScript that calls tools
                kind, content = "custom_tool_call", answer.arguments
            item: dict[str, Any] = {
                "type": kind,
                "id": "fc_1",
                "call_id": call,
                "name": name,
                **content,
                **({"namespace": space} if space else {}),
            }
        else:
            parts = [{"type": "output_text", "text": answer, "annotations": []}]
            item = {"type": "message", "id": "msg_1", "role": "assistant", "content": parts}
        yield {"type": "response.output_item.done", "output_index": 0, "item": item}
        usage = {
            "input_tokens": USAGE[0], "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": USAGE[1], "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": sum(USAGE),
        }  # fmt: skip
        yield {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}


class _Google:
    @staticmethod
    def results(body: dict[str, Any]) -> int:
        parts = (part for row in body.get("contents", []) for part in row.get("parts", []))
        return sum("functionResponse" in part for part in parts)

    @staticmethod
    def refusal(status: int) -> bytes:
        error = {"code": status, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}
        return json.dumps({"error": error}).encode()

    @staticmethod
    def event(event: dict[str, Any]) -> bytes:
        return f"data: {json.dumps(event)}\r\n\r\n".encode()

    @staticmethod
    def answer(answer: str | Use, _body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        if isinstance(answer, Use):
            part: dict[str, Any] = {"functionCall": {"name": answer.tool, "args": answer.arguments}}
        else:
            part = {"text": answer}
        candidate = {
            "content": {"role": "model", "parts": [part]},
            "finishReason": "STOP",
            "index": 0,
        }
        usage = {
            "promptTokenCount": USAGE[0], "candidatesTokenCount": USAGE[1],
            "totalTokenCount": sum(USAGE),
        }  # fmt: skip
        yield {"candidates": [candidate], "usageMetadata": usage}


class _Chat:
    refusal = staticmethod(_OpenAI.refusal)

    @staticmethod
    def results(_body: dict[str, Any]) -> int:
        return 0

    @staticmethod
    def event(event: dict[str, Any]) -> bytes:
        return json.dumps(event).encode()

    @staticmethod
    def answer(answer: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        message = {"role": "assistant", "content": answer}
        usage = {"prompt_tokens": USAGE[0], "completion_tokens": USAGE[1]}
        yield {
            "id": "chat_1", "object": "chat.completion", "created": 1, "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {**usage, "total_tokens": sum(USAGE)},
        }  # fmt: skip


_DIALECTS: dict[str, Any] = {
    "/chat/completions": _Chat,
    "/v1/messages": _Anthropic,
    "/responses": _OpenAI,
    ":streamGenerateContent": _Google,
    ":generateContent": _Google,
}
