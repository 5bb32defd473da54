"""Which environment variables hold a secret, by the words of their names and by their values.

The last word decides (``DB_PASS``, ``TOKEN2``). If only another word does (``AUTH_HEADER``), or the
word has other meanings (``KEY``), the value is a secret unless it is words, a number, a path or an
address: ``CACHE_KEY=linux-node-18`` is none.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Endings of names whose values are always secrets.
_ENDS = (
    "TOKEN", "TOKENS", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE",
    "APIKEY", "API_KEY", "ACCESS_KEY", "PRIVATE_KEY", "SECRET_KEY", "CREDENTIAL", "CREDENTIALS",
    "WEBHOOK", "WEBHOOK_URL", "WEBHOOK_URI",
)  # fmt: skip
#: The same, as whole words: ``BYPASS`` and ``COMPAT`` are others.
_LAST = frozenset(("PASS", "PWD", "PAT", "COOKIE", "COOKIES", "CREDS", "JWT"))
#: Words anywhere in a name that make its value one, unless the value says otherwise.
_ANYWHERE = frozenset(
    ("TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASS", "PWD", "AUTH", "COOKIE", "CREDENTIAL",
     "CREDENTIALS", "CREDS", "DSN", "WEBHOOK", "APIKEY")
)  # fmt: skip
#: The last word of such a name, at its end, or before a word for how the value is written.
_KEYS = ("KEY", "KEYS", "DBPASS", "DBPWD")
_WRITTEN_AS = frozenset(("JSON", "BASE", "B", "VALUE", "DATA", "STRING", "PEM", "CONTENT"))
#: What only names a secret, or is given to everybody.
_PUBLIC_ENDS = (
    "PUBLIC_KEY", "PUBLIC_KEYS", "PUBKEY", "PUBLISHABLE_KEY", "PUBLISHABLE_KEYS", "ID",
)  # fmt: skip
#: What tells a program which model to ask, and where.
_SETTINGS = ("MODEL", "REGION", "LOCATION", "PROJECT", "VERSION")
#: The shell's own.
_FOLDERS = ("PWD", "OLDPWD")
#: A word or a number of those in ``created_at``, ``userId``, ``SHOP-1234``, ``linux-18``.
_PLAIN = r"(?:[a-z]+|[A-Z]+|[A-Za-z]?[a-z]+(?:[A-Z][a-z]+)*)?[0-9]{0,4}"
_JOINTS = r"[-_./:]"
#: A longer value is more than a few words, or none.
_PLAIN_LENGTH = 24
_PATH = r"(?:~|\.{1,2}|/[A-Z]?[a-z]+)/"
#: A configuration in JSON that holds secrets has few values, and is not nested deeply.
_MOST_JSON = 1 << 16


def secrets_in(name: str, value: str, *, is_known_secret: bool = False) -> set[str]:
    """What of ``value`` is a secret: all of it if ``is_known_secret``."""
    is_secret = is_known_secret or _is_secret(name, value)
    secrets = {value} if is_secret else set()
    if "://" in value and "@" in value:
        secrets.update(filter(is_no_words, _passwords(value)))
    elif is_secret:
        secrets.update(filter(is_no_words, _inside(value)))
    return secrets


def may_be_secret(name: str, value: str) -> bool:
    """Whether a value that somebody passes on by name may be one: it is no setting, nor words."""
    words = _words(name)
    return not (words and words[-1] in _SETTINGS) and is_no_words(value)


def _is_secret(name: str, value: str) -> bool:
    words = _words(name)
    if not words or name in _FOLDERS:
        return False
    joined = "_".join(words)
    if joined.endswith(_ENDS) or words[-1] in _LAST:
        return True
    if joined.endswith(_PUBLIC_ENDS):
        return False
    if words[-1] in _WRITTEN_AS and len(words) > 1:
        words.pop()
    if words[-1].endswith(_KEYS):
        return is_no_words(value)
    return not _ANYWHERE.isdisjoint(words) and not value.isdecimal() and is_no_words(value)


def _words(name: str) -> list[str]:
    """The words of a variable's name, in capitals, without digits at their ends."""
    parted = name.upper().replace("_", " ")
    if not parted.replace(" ", "").isalnum():
        parted = "".join(character if character.isalnum() else " " for character in parted)
    return [word for part in parted.split() if (word := part.rstrip("0123456789"))]


def is_no_words(value: str) -> bool:
    """Whether ``value`` is more than a few words, a path or an address, as any text has them."""
    import re

    if len(value) <= _PLAIN_LENGTH and all(
        re.fullmatch(_PLAIN, part) for part in re.split(_JOINTS, value)
    ):
        return False
    # Unlike a path, base64 may begin with a slash, and goes on as no name of a folder does.
    is_address = "://" in value[:16] and "@" not in value
    return not (is_address or re.match(_PATH, value))


def _passwords(address: str) -> Iterator[str]:
    """The password in an address, or the token alone before the host."""
    from urllib.parse import unquote

    login = address.partition("://")[2].partition("/")[0].rpartition("@")[0]
    user, colon, password = login.partition(":")
    secret = password if colon else user
    yield from {secret, unquote(secret)}


def _inside(value: str) -> Iterator[str]:
    """The texts in a value that is JSON, and the passwords of logins in base64."""
    texts = [value]
    if value.startswith(("{", "[")) and len(value) <= _MOST_JSON:
        texts = list(_texts(value))
        yield from texts
    for text in texts:
        login = decoded_login(text)
        if login:
            yield login.partition(":")[2]


def _texts(document: str) -> Iterator[str]:
    import json

    try:
        waiting = [json.loads(document)]
    except (ValueError, RecursionError):
        return
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            yield node
        elif isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()


def decoded_login(text: str) -> str:
    """The ``user:password`` that ``text`` is the base64 of, or ""."""
    from binascii import Error, a2b_base64

    if len(text) % 4 or not text.isascii():
        return ""
    try:
        login = a2b_base64(text, strict_mode=True).decode()
    except (Error, ValueError):
        return ""
    return login if ":" in login and login.isprintable() else ""
