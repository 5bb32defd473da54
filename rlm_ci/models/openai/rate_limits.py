"""Limits of requests and tokens in a minute or a day, as endpoints tell them in a refusal (429).

Each endpoint words it in its own way; ``tests/testing/loopback_model/dialects.py`` has them.
"""

from __future__ import annotations

import re
import threading
import time

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Final


MINUTE: Final = "minute"
DAY: Final = "day"
_WINDOWS: Final = {
    # A day comes first: waiting a minute does not give it back.
    DAY: re.compile(r"per[ _-]?day|\b[RT]PD\b|\bdaily\b", re.IGNORECASE),
    MINUTE: re.compile(r"per[ _-]?min|\b[RT]PM\b", re.IGNORECASE),
}
_TOKENS: Final = re.compile(r"tokens? per|\bTP[DM]\b|token_count", re.IGNORECASE)
_MOST: Final = re.compile(r"\blimit(?: of|:)? (\d[\d,]{0,12})(?![\d,]*\d)", re.IGNORECASE)
_WAIT: Final = re.compile(
    r"(?:again|retry|wait|resets?|available|after)\b[^\d.]{0,30}"
    r"((?:\d+(?:\.\d+)? ?(?:ms|[hms])[a-z]*,? ?(?:and )?)+)",
    re.IGNORECASE,
)
_PIECE: Final = re.compile(r"(\d+(?:\.\d+)?) ?(ms|[hms])", re.IGNORECASE)
_SECONDS: Final = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
#: No wait beyond it is believed, in seconds.
_LONGEST: Final = 2 * 86400


class RateLimit(Value):
    """What a refusal tells of a limit.

    ``window`` is ``minute``, ``day``, or "" if it is not named; ``capacity`` is how many
    ``unit`` fit in it; ``wait`` are the seconds until there is room. None where it is not named.
    ``words`` are the endpoint's.
    """

    window: str = ""
    capacity: int | None = None
    unit: str = "requests"
    wait: float | None = None
    words: str = ""

    def __str__(self) -> str:
        if not self.window:
            return "too many requests"
        amount = "" if self.capacity is None else f" of {self.capacity:,}"
        return f"the limit{amount} {self.unit} a {self.window} is reached"


def read(error: object, message: str, retry_after: float | None) -> RateLimit:
    """The limit in a refusal: its ``error`` object, its words, and what Retry-After says.

    Nothing in it is trusted: figures that cannot be are left out.
    """
    quotas = list(_values(error, ("quotaId",)))
    text = " ".join((message, *quotas))
    window = next((name for name, words in _WINDOWS.items() if words.search(text)), "")
    match = _MOST.search(message)
    figures = [match[1].replace(",", "")] if match else []
    figures += _values(error, ("quotaValue", "X-RateLimit-Limit"))
    limit = next((int(figure) for figure in figures if figure.isascii() and figure.isdigit()), None)
    wait = retry_after
    if wait is None:
        wait = next(_moments(error), None)
    # Google tells of a minute's pause also when the day is over.
    if wait is None and not (quotas and window == DAY):
        delays = _values(error, ("retryDelay",))
        wait = next(filter(None, map(_duration, (_worded(message), *delays))), None)
    if wait is not None and not 0 <= wait <= _LONGEST:
        wait = None
    unit = "tokens" if _TOKENS.search(text) else "requests"
    return RateLimit(window, limit, unit, wait, message)


class RateLimits:
    """When the models of an endpoint may be asked again; safe for many threads."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._until: dict[str, tuple[float, RateLimit]] = {}  # by model

    def note(self, model: str, limit: RateLimit) -> None:
        """Remember a limit that was reached."""
        if limit.wait is None and limit.window != DAY:
            return
        until = float("inf") if limit.wait is None else self._clock() + limit.wait
        with self._lock:
            self._until[model] = until, limit

    def left(self, model: str) -> RateLimit | None:
        """The limit that ``model`` has still reached; its ``wait`` is what is left of it."""
        with self._lock:
            until, limit = self._until.get(model, (0.0, None))
        seconds = until - self._clock()
        if limit is None or seconds <= 0:
            return None
        return limit.replace(wait=None if limit.wait is None else seconds)


def _values(value: object, names: tuple[str, ...]) -> Iterator[str]:
    """The texts and numbers under ``names`` in an error object, a few levels deep."""
    stack = [(value, 0)]
    while stack:
        node, depth = stack.pop()
        inner: list[object] = []
        if isinstance(node, dict):
            yield from (str(node[name])[:80] for name in names if name in node)
            inner = list(node.values())
        elif isinstance(node, list):
            inner = node[:20]
        if depth < 5:
            stack += [(item, depth + 1) for item in inner if isinstance(item, (dict, list))]


def _moments(error: object) -> Iterator[float]:
    """Seconds until a limit is reset, where the moment is told in milliseconds."""
    for text in _values(error, ("X-RateLimit-Reset",)):
        if text.isascii() and text.isdigit() and len(text) == 13:
            yield max(0.0, int(text) / 1000 - time.time())


def _worded(message: str) -> str:
    match = _WAIT.search(message)
    return match[1] if match else ""


def _duration(text: str) -> float | None:
    """Seconds of ``1m26.4s``, ``46 seconds``, ``34s``; None for anything else."""
    pieces = _PIECE.findall(text.lower()[:40])
    return sum(float(number) * _SECONDS[unit] for number, unit in pieces) if pieces else None
