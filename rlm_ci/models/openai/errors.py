"""Refusals of an endpoint: whether to ask again, which limit they tell of, and what to do."""

from __future__ import annotations

import json
import re
import threading
import time
from http import HTTPStatus

from rlm_ci.console.progress import duration
from rlm_ci.models import PROMPT_TOO_LONG, SHORTER
from rlm_ci.models.openai import responses
from rlm_ci.system.transport import retry_after
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Final


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


def rate_limit_of(error: object, message: str, retry_after: float | None) -> RateLimit:
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


#: The endpoint did no work: asking again costs nothing twice.
_REPEATABLE: Final = frozenset((408, 409, 425, 429, 500, 502, 503, 529))
#: A gateway gave up, while the model may be at work.
GAVE_UP: Final = frozenset((504, 524))
_NO_MONEY: Final = frozenset(("insufficient_quota", "billing_hard_limit_reached"))
_TOO_LONG: Final = frozenset((
    "context_length_exceeded", "exceed_context_size_error", "model_max_prompt_tokens_exceeded",
    "string_above_max_length",
))  # fmt: skip
#: Where no code tells it, the words of the message do.
_TOO_LONG_SAID: Final = re.compile(
    r"maximum (?:context|prompt|input|model|allowed) length|(?:prompt|input)(?: is)? too long"
    r"|input token count|prompt token count|too many tokens|model token limit"
    r"|request (?:is )?too large|(?:available|configured) context size|loaded with context length"
    r"|(?:longer|larger|greater) than the (?:\S+ ){0,2}context"
    r"|exceed(?:s|ed)? (?:\S+ ){0,3}context"
    r"|context[_ ](?:window|size|length)[_ ](?:has been )?exceed"
    r"|(?:prompt|input) exceeds max(?:imum)? length|range of input length|max_model_len="
    r"|`inputs` (?:tokens \+ `max_new_tokens`|must have less)"
    r"|reduce the length of the (?:messages|prompt|input)"
)
_ANSWER_CAP: Final = re.compile(r"\bmax_(?:completion_|output_|new_)?tokens\b")
_CAP_HINT: Final = "lower models.max_completion_tokens"
_UNKNOWN: Final = (
    "unsupported", "not supported", "unrecognized", "unknown", "unexpected", "not permitted",
)  # fmt: skip
_BY_STATUS: Final = {
    401: ("the key was refused", "check OPENAI_API_KEY, and that it belongs to this endpoint"),
    403: ("access was refused", "check what the key may do, and where it may be used from"),
    404: (
        "the endpoint does not know the model {model}",
        "check the model's name and the base URL",
    ),
    410: ("the service is gone", "choose another provider, or another address"),
    413: ("the request is too large for the endpoint", "use a smaller context"),
}


class EndpointRefusedError(Exception):
    """The endpoint did no work: ``status`` 0 when it was not even reached.

    ``limit`` is the limit of a minute or a day that was reached, if one was.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        param: str = "",
        retry_after: float | None = None,
        again: bool = False,
        limit: RateLimit | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.param = param
        self.retry_after = retry_after
        self.again = again
        self.limit = limit

    def is_about(self, cap: str) -> bool:
        """Whether the endpoint does not know ``cap``, the name of a parameter."""
        text = self.message.lower()
        return (
            self.status in (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)
            and (self.param == cap or cap in text.replace("'", " ").replace('"', " ").split())
            and any(word in text for word in _UNKNOWN)
        )

    @property
    def is_too_long(self) -> bool:
        """Whether the prompt has more tokens than the model, or a minute, takes."""
        is_limit = self.status == HTTPStatus.TOO_MANY_REQUESTS or self.code in _NO_MONEY
        match = _TOO_LONG_SAID.search(self.message.casefold())
        return not is_limit and (self.code in _TOO_LONG or bool(match))


def read(status: int, data: bytes, headers: Mapping[str, str]) -> EndpointRefusedError:
    """The refusal in an answer with ``status`` and the body ``data``, which may be anything."""
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, list) and value:  # as Google sends it
        value = value[0]
    error = value.get("error") if isinstance(value, dict) else None
    fields = error if isinstance(error, dict) else value if isinstance(value, dict) else {}
    code, kind, param = (str(fields.get(key) or "") for key in ("code", "type", "param"))
    message = responses.message_of(value)
    if value is None and not data.lstrip().startswith(b"<"):
        message = data.decode("utf-8", "replace").strip()
    spent = {code, kind} & _NO_MONEY
    after, limit = retry_after(headers), None
    if status == HTTPStatus.TOO_MANY_REQUESTS and not spent:
        limit = rate_limit_of(error, message, after)
        after = limit.wait
    return EndpointRefusedError(
        message,
        status=status,
        code=min({code, kind} & (_NO_MONEY | _TOO_LONG), default=code or kind),
        param=param,
        retry_after=after,
        again=status in _REPEATABLE and not spent,
        limit=limit,
    )


def of_event(value: Mapping[str, Any]) -> EndpointRefusedError | None:
    """The refusal that an endpoint sends as the only event of a stream, by its number."""
    error = value.get("error")
    fields = error if isinstance(error, dict) else {}
    status = str(fields.get("code") or fields.get("status_code") or "")
    if not re.fullmatch("[45][0-9][0-9]", status) or int(status) in GAVE_UP:
        return None
    return read(int(status), json.dumps({"error": error}).encode(), {})


def explained(refused: EndpointRefusedError, model: str) -> tuple[str, str]:
    """What a refusal means, and what to do about it."""
    status, code = refused.status, refused.code
    if not status:
        return "the model service cannot be reached", "check the base URL, the network, the proxy"
    if code in _NO_MONEY or status == HTTPStatus.PAYMENT_REQUIRED:
        return "the account has no credit left", "add credit or raise its limit, then resume"
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return _limited(refused)
    if refused.is_too_long:
        return PROMPT_TOO_LONG, SHORTER
    if _ANSWER_CAP.search(refused.message):
        return "the endpoint allows no answer of so many tokens", _CAP_HINT
    if code == "content_filter":
        return "the endpoint's content filter refused the prompt", "reword the goal"
    what, hint = _BY_STATUS.get(status, ("the request was refused", "see the endpoint's message"))
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        what, hint = "the model service failed", "resume the run later"
    return f"{what.format(model=printable(model[:100]))} ({status})", hint


def _limited(refused: EndpointRefusedError) -> tuple[str, str]:
    """What a limit of a minute or a day means; what a run has is kept in either case."""
    after, limit = refused.retry_after, refused.limit
    later = "later" if after is None or after < 1 else f"in {duration(after)}"
    hint = f"what was done is kept: resume the run {later}"
    if limit is not None and limit.window == DAY:
        later = "tomorrow" if after is None else later
        hint = f"what was done is kept: resume the run {later}, or start one with another model"
    return f"{limit or RateLimit()} (429)", hint
