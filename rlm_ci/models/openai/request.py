"""A request to a model: its address and key, and its body.

``RequestComposer`` reuses the URL, key and headers of the first request: to make them again takes
the ``openai`` package as long as the rest of a call, while other threads wait.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from urllib.parse import urlsplit

from rlm_ci.errors import ConfigError
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Final

DEFAULT_URL: Final = "https://api.openai.com/v1"
#: The header that is the same for all attempts at one question.
ONCE: Final = "Idempotency-Key"
_LENGTH: Final = b"Content-Length"
#: Headers that are a request's own.
_OWN: Final = (ONCE.lower().encode(), _LENGTH.lower(), b"cookie")


class RequestComposer:
    """Makes requests like ``first`` (an ``httpx2.Request``)."""

    def __init__(self, first: Any) -> None:
        self._kind = type(first)
        self._url = first.url
        self._stream = type(first.stream)
        self._headers = [pair for pair in first.headers.raw if pair[0].lower() not in _OWN]
        self._extensions = dict(first.extensions)

    def request(self, body: Mapping[str, Any], once: str, timeout: Any, cookies: Any) -> Any:
        # Encoded as the package does.
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        data = text.encode()
        headers = [(ONCE.encode(), once.encode()), (_LENGTH, b"%d" % len(data))]
        return self._kind(
            "POST",
            self._url,
            headers=[*self._headers, *headers],
            cookies=cookies or None,
            stream=self._stream(data),  # ``content`` would make all headers again
            extensions={**self._extensions, "timeout": timeout.as_dict()},
        )


@contextmanager
def unicode_only() -> Iterator[None]:
    """Raise ConfigError for a message that cannot be encoded."""
    try:
        yield
    except UnicodeEncodeError:
        raise ConfigError(
            "a message to the model has text that is not Unicode",
            hint="a bug in the code that made the message: bytes from files are escaped before",
        ) from None


def checked_url(url: str) -> str:
    """``url`` without a slash at its end. Raises ConfigError for an unusable one."""
    problem = _problem(url)
    if problem:
        raise ConfigError(
            f"the base URL of the model service {problem}",
            where="OPENAI_BASE_URL",
            hint=f"such as {DEFAULT_URL}; the key goes into OPENAI_API_KEY",
        )
    return url.rstrip("/")


def _problem(url: str) -> str:
    if printable(url) != url:
        return "has characters that a URL cannot have"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        if host and ":" not in host:  # as the socket will read it
            host.encode("idna")
    except ValueError:
        return "has no host and port that can be read"
    if parts.scheme not in ("http", "https") or not host or port == 0:
        return "is not an http or https URL"
    if parts.username or parts.password:
        return "holds credentials"
    if parts.query or parts.fragment:
        return "has more than a host and a path"
    return ""


def checked_key(key: str) -> str:
    """``key``. Raises ConfigError, without the key, where it cannot be in a header."""
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(
            "the key of the model service has characters that a key cannot have",
            where="OPENAI_API_KEY",
            hint="copy it again, without spaces, line breaks or quotes",
        )
    return key
