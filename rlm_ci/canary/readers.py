"""The reader for the tests in a file, and the text of the file."""

from __future__ import annotations

import tokenize
from functools import cache
from importlib import import_module
from io import BytesIO

from rlm_ci.canary.forms import UnparsableError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LANGUAGES = ("python", "go", "javascript", "rust")


@cache
def _readers() -> dict[str, Any]:
    reader_by_ending: dict[str, Any] = {}
    for name in _LANGUAGES:
        reader = import_module(f"rlm_ci.canary.{name}.reader")
        reader_by_ending.update(dict.fromkeys(reader.ENDINGS, reader))
    return reader_by_ending


def is_known(path: str) -> bool:
    """Whether there is a reader for a file, by the end of its name."""
    return path.endswith(tuple(_readers()))


def of(path: str) -> Any:
    """The reader of a file, a module as ``forms`` describes it; raises UnparsableError."""
    for ending, reader in _readers().items():
        if path.endswith(ending):
            return reader
    raise UnparsableError(path)


def encoding(path: str, content: bytes) -> str:
    """The encoding of a file: Python names it in a comment."""
    if not path.endswith(".py"):
        return "utf-8"
    try:
        return tokenize.detect_encoding(BytesIO(content).readline)[0]
    except SyntaxError:
        return "utf-8"


def decoded(path: str, content: bytes) -> str:
    """The text of a file; raises UnparsableError if it is none, or encoding would change it."""
    name = encoding(path, content)
    try:
        text = content.decode(name)
        if text.encode(name, "surrogateescape") == content:
            return text
    except (LookupError, UnicodeError):  # "rot13" is a codec of no text
        pass
    raise UnparsableError(path)
