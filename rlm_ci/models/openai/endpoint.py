"""Where a model is asked: what an address and a key must be before anything is sent there."""

from __future__ import annotations

from urllib.parse import urlsplit

from rlm_ci.errors import ConfigError
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

DEFAULT_URL: Final = "https://api.openai.com/v1"


def checked_url(url: str) -> str:
    """``url`` without a slash at its end. Raises ConfigError when it is none to be used."""
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
    """``key``, of which a header can be made. Raises ConfigError, which does not tell it."""
    if key and not (key.isascii() and key.isprintable() and " " not in key):
        raise ConfigError(
            "the key of the model service has characters that a key cannot have",
            where="OPENAI_API_KEY",
            hint="copy it again, without spaces, line breaks or quotes",
        )
    return key
