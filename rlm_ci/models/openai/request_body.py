"""How a client sends questions to a model, learnt from the first that it made and sent.

Making a request anew takes the ``openai`` package as long as all the rest of a call, while URL,
key and headers stay the same. Threads that call share one interpreter: they would wait for it.
"""

from __future__ import annotations

import json
from contextlib import contextmanager

from rlm_ci.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Final

#: The header that is the same for all attempts at one question.
ONCE: Final = "Idempotency-Key"
_LENGTH: Final = b"Content-Length"
#: Headers that are a request's own.
_OWN: Final = (ONCE.lower().encode(), _LENGTH.lower(), b"cookie")


class RequestComposer:
    """The way of one client with one model; ``first`` is a request (``httpx2.Request``)."""

    def __init__(self, first: Any) -> None:
        self._kind = type(first)
        self._url = first.url
        self._stream = type(first.stream)
        self._headers = [pair for pair in first.headers.raw if pair[0].lower() not in _OWN]
        self._extensions = dict(first.extensions)

    def request(self, body: Mapping[str, Any], once: str, timeout: Any, cookies: Any) -> Any:
        """The same with another body, and a key of its own."""
        data = _encoded(body)
        own = [(ONCE.encode(), once.encode()), (_LENGTH, b"%d" % len(data))]
        return self._kind(
            "POST",
            self._url,
            headers=[*self._headers, *own],
            cookies=cookies or None,
            stream=self._stream(data),  # as it is: from ``content`` all headers are made anew
            extensions={**self._extensions, "timeout": timeout.as_dict()},
        )


def _encoded(body: Mapping[str, Any]) -> bytes:
    """As the package encodes it."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode()


@contextmanager
def unicode_only() -> Iterator[None]:
    """Raise ConfigError for a message that is no Unicode, when it is encoded."""
    try:
        yield
    except UnicodeEncodeError:
        raise ConfigError(
            "a message to the model has text that is not Unicode",
            hint="a bug in the code that made the message: bytes from files are escaped before",
        ) from None
