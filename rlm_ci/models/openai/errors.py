"""Refusals of an endpoint: whether to ask again, and what to do about them."""

from __future__ import annotations

import json
import re
from http import HTTPStatus

from rlm_ci.console.progress import duration
from rlm_ci.models import PROMPT_TOO_LONG, SHORTER
from rlm_ci.models.openai import rate_limits, responses
from rlm_ci.system.transport import retry_after
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Final

    from rlm_ci.models.openai.rate_limits import RateLimit

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
        limit = rate_limits.read(error, message, after)
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
    if limit is not None and limit.window == rate_limits.DAY:
        later = "tomorrow" if after is None else later
        hint = f"what was done is kept: resume the run {later}, or start one with another model"
    return f"{limit or rate_limits.RateLimit()} (429)", hint
