"""What the service says: a text, calls of tools, or one of the many ways to go wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class Call:
    """A tool that the model wants called; ``arguments`` as it wrote them."""

    name: str
    arguments: str = "{}"
    id: str | None = None


@dataclass(frozen=True)
class Answer:
    """What the model says. ``usage`` None leaves it out, ``(prompt, completion)`` is a lie."""

    text: str | None = ""
    calls: Sequence[Call] = ()
    finish_reason: str | None = None
    usage: tuple[int, int] | str | None = "counted"
    #: Laid over the answer, or over each chunk of a stream.
    more: Mapping[str, Any] = field(default_factory=dict)
    #: Seconds before anything is sent.
    delay: float = 0
    #: Seconds between two chunks, or between two bytes of a whole answer.
    drip: float = 0


@dataclass(frozen=True)
class Raw:
    """Anything else: a status with a body, part of one, or none at all."""

    status: int = 200
    body: bytes | Mapping[str, Any] = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    kind: str = "application/json"
    delay: float = 0
    #: Only so many bytes of the body are sent, though all were announced.
    cut: int | None = None
    #: The connection is closed without a word.
    drop: bool = False
    #: The body is sent so often, without an end being announced.
    endless: bool = False
    drip: float = 0
    #: What is sent instead of a head: the first once, the other one every ``drip`` seconds.
    never: tuple[bytes, bytes] | None = None


Reply = str | Answer | Raw


def slow_headers(pause: float) -> Raw:
    """Headers that never end."""
    return Raw(never=(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"a"), drip=pause)


def continues(pause: float) -> Raw:
    """A server that says again and again that one may go on."""
    return Raw(never=(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), drip=pause)


def html(status: int = 200) -> Raw:
    """The page of a web server that knows nothing of any API."""
    page = b"<!doctype html><html><body><h1>Welcome to nginx!</h1></body></html>"
    return Raw(status, page, kind="text/html")


def refusal(
    status: int,
    message: str,
    *,
    code: str | None = None,
    kind: str | None = None,
    param: str | None = None,
    **headers: str,
) -> Raw:
    """An error in OpenAI's shape; ``retry_after="2"`` is the header Retry-After."""
    error = {"message": message, "type": kind or code, "param": param, "code": code}
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return Raw(status, {"error": error}, sent)


def busy(retry_after: str | None = None) -> Raw:
    more = {} if retry_after is None else {"retry_after": retry_after}
    return refusal(429, "Rate limit reached", code="rate_limit_exceeded", **more)


def no_credit() -> Raw:
    return refusal(
        429, "You exceeded your current quota", code="insufficient_quota", kind="insufficient_quota"
    )


def redirect(to: str, status: int = 307) -> Raw:
    return Raw(status, b"", {"Location": to})


def deep_json(depth: int = 100_000) -> Raw:
    return Raw(200, b'{"choices":' + b"[" * depth + b"]" * depth + b"}")
