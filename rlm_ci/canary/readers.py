"""Which module reads the tests of a file, and the text of a file that it reads."""

from __future__ import annotations

import tokenize
from functools import cache
from importlib import import_module
from io import BytesIO

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from random import Random
    from typing import Protocol

    from rlm_ci.canary.forms import ChangedText, FoundTest

    class Reader(Protocol):
        """A module that reads one language: see ``forms``."""

        ENDINGS: tuple[str, ...]

        def tests(
            self, path: str, text: str, names: Collection[str] | None = None
        ) -> list[FoundTest]: ...

        def change(
            self,
            path: str,
            text: str,
            wanted: dict[str, str],
            chance: Random,
            *,
            plain: bool = False,
        ) -> ChangedText: ...


_LANGUAGES = ("python", "go", "javascript", "rust")


@cache
def _readers() -> dict[str, Reader]:
    found: dict[str, Reader] = {}
    for name in _LANGUAGES:
        reader: Reader = import_module(f"rlm_ci.canary.{name}.reader")
        found.update(dict.fromkeys(reader.ENDINGS, reader))
    return found


def of(path: str) -> Reader | None:
    """The reader of a file, by the end of its name; None where there is none."""
    return next((one for end, one in _readers().items() if path.endswith(end)), None)


def encoding(path: str, content: bytes) -> str:
    """How a file is encoded: Python tells by a comment, the others have one."""
    if not path.endswith(".py"):
        return "utf-8"
    try:
        return tokenize.detect_encoding(BytesIO(content).readline)[0]
    except SyntaxError:
        return "utf-8"


def decoded(path: str, content: bytes) -> str | None:
    """The text of a file, its ends of lines as they are; None where it is no text.

    Nor is what would be written in other bytes: a file may name any codec that Python has.
    """
    name = encoding(path, content)
    try:
        text = content.decode(name)
        return text if text.encode(name, "surrogateescape") == content else None
    except (LookupError, UnicodeError):  # "rot13" is a codec of no text
        return None
