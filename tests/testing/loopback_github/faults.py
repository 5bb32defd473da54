"""What can go wrong between a client and GitHub, on order."""

from __future__ import annotations

import fnmatch
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from testing.loopback_github.server import Request

MESSAGES: Mapping[int, str] = {
    401: "Bad credentials", 403: "Resource not accessible by integration", 404: "Not Found",
    406: "Sorry, the diff exceeded the maximum number of files (300).",
    410: "This resource is gone.", 422: "Validation Failed",
    429: "Too many requests", 500: "Server Error", 502: "Server Error",
    503: "Service Unavailable", 504: "We couldn't respond to your request in time.",
}  # fmt: skip


@dataclass
class Fault:
    """One thing that goes wrong with requests that match ``method`` and ``path`` (fnmatch).

    The first ``skip`` matches pass; then it happens ``times`` times (None: always). In order:
    ``before`` is called, ``stall`` seconds pass, the request is served unless a ``status`` or
    ``drop`` is set without ``store``, ``after`` is called, ``delay`` seconds pass, and the answer
    goes out: with ``status`` the failure instead of the real one, with ``cut`` only that many
    bytes of its body, with ``drop`` nothing at all but the end of the connection.
    """

    method: str = "*"
    path: str = "*"
    times: int | None = 1
    skip: int = 0
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    stall: float = 0.0
    delay: float = 0.0
    cut: int | None = None
    drop: bool = False
    store: bool = False
    before: Callable[[Request], None] | None = None
    after: Callable[[Request], None] | None = None
    hits: int = 0

    @property
    def serves(self) -> bool:
        """Whether the request takes effect."""
        return self.store or (self.status is None and not self.drop)

    def failure(self) -> Any:
        """The failure's JSON, or what ``body`` says in its place; bytes go out as they are."""
        if self.body is not None:
            return self.body
        message = MESSAGES.get(self.status or 0, "Error")
        return {"message": message, "documentation_url": "https://docs.github.com/rest"}


def rate_limited(reset_in: float = 1.0, **more: Any) -> Fault:
    """The hourly limit is used up: 403, ``x-ratelimit-remaining: 0`` and when it ends."""
    headers = {
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": str(int(time.time() + reset_in + 0.999)),
    }
    return Fault(status=403, headers=headers, body=_limited("API rate limit exceeded"), **more)


def secondary_limited(retry_after: int | None = 1, *, status: int = 403, **more: Any) -> Fault:
    """The limit on fast writing: 403 or 429, with ``retry-after`` or (None) without."""
    headers = {} if retry_after is None else {"retry-after": str(retry_after)}
    text = "You have exceeded a secondary rate limit. Please wait a few minutes and try again"
    return Fault(status=status, headers=headers, body=_limited(text), **more)


def _limited(text: str) -> dict[str, str]:
    link = "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api"
    return {"message": f"{text}.", "documentation_url": link}


class Faults:
    """The faults that wait for their requests; the first that matches is taken."""

    def __init__(self) -> None:
        self._waiting: list[Fault] = []
        self._lock = threading.Lock()

    def add(self, fault: Fault) -> Fault:
        with self._lock:
            self._waiting.append(fault)
        return fault

    def clear(self) -> None:
        with self._lock:
            self._waiting.clear()

    def take(self, method: str, path: str) -> Fault | None:
        """The fault of this request, if it has one; counts it."""
        with self._lock:
            for fault in self._waiting:
                if not fnmatch.fnmatchcase(method, fault.method):
                    continue
                if not fnmatch.fnmatchcase(path, fault.path):
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                if fault.times is not None and fault.hits >= fault.times:
                    continue
                fault.hits += 1
                return fault
        return None
