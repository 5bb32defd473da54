"""The output of a command as visible lines without secrets.

Terminal sequences go; of a line overwritten by carriage returns the last state stays. Control
and invisible characters go *before* the search for secrets, so that they cannot split one.
"""

from __future__ import annotations

import re

from rlm_ci.text.printable import clip, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.system.process import Clipped

#: Bytes of an output that are kept; three quarters are its end, where failures are.
LIMIT = 1 << 20
#: At a cut so much of the torn line goes at most: half a secret cannot be recognised.
_TORN = 1024
#: CSI, OSC and its kin up to their end, and all other escapes; possessive, so linear.
_TERMINAL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*+[ -/]*+[@-~]?"
    r"|\x1b[PX^_\]][^\x07\x1b]*+(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*+[0-~]?"
)


class Transcript(Value):
    """The lines; ``omitted`` bytes lie between ``head`` and ``tail``."""

    head: tuple[str, ...]
    tail: tuple[str, ...] = ()
    omitted: int = 0

    @property
    def lines(self) -> tuple[str, ...]:
        """All of them, with one that names the gap."""
        if not self.omitted:
            return self.head + self.tail
        return (*self.head, gap(self.omitted), *self.tail)

    def clipped(self, limit: int) -> str:
        """Head and tail in ``limit`` characters, with one gap that counts all that is left out."""
        head, tail = "\n".join(self.head), "\n".join(self.tail)
        if not self.omitted:
            return clip(head, limit)
        half = limit // 2
        left_out = len(head[half:].encode()) + len(tail[:-half].encode())
        return "\n".join((head[:half], gap(self.omitted + left_out), tail[-half:]))


def gap(omitted: int) -> str:
    """The line in place of ``omitted`` bytes."""
    return f"[... {omitted:,} bytes left out ...]"


def transcribe(output: Clipped, redact: Callable[[str], str], *, limit: int = LIMIT) -> Transcript:
    """The transcript of at most ``limit`` bytes of an output."""
    head, tail, omitted = output.head, output.tail, output.omitted
    if not omitted:
        head, tail = head + tail, b""
    if len(head) + len(tail) > limit:
        if not omitted:
            head, tail = head[: len(head) // 2], head[len(head) // 2 :]
        size = len(head) + len(tail)
        head, tail = head[: limit // 4], tail[-(limit - limit // 4) :]
        omitted += size - len(head) - len(tail)
    if not omitted:
        return Transcript(_lines(head, redact))
    size = len(head) + len(tail)
    head, tail = _whole_end(head), _whole_start(tail)
    omitted += size - len(head) - len(tail)
    return Transcript(_lines(head, redact), _lines(tail, redact), omitted)


def _whole_end(data: bytes) -> bytes:
    end = data.rfind(b"\n", max(0, len(data) - _TORN))
    return data[: end + 1] if end >= 0 else data[: max(0, len(data) - _TORN)]


def _whole_start(data: bytes) -> bytes:
    start = data.find(b"\n", 0, _TORN)
    return data[start + 1 :] if start >= 0 else data[_TORN:]


def _lines(data: bytes, redact: Callable[[str], str]) -> tuple[str, ...]:
    lines = plain(data.decode("utf-8", "replace")).split("\n")
    text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in lines)
    text = redact(visible(text)).removesuffix("\n")
    return tuple(text.split("\n")) if text else ()


def plain(text: str) -> str:
    """``text`` without terminal sequences, such as colours."""
    return _TERMINAL.sub("", text)


def visible(text: str) -> str:
    """``text`` without invisible characters; tabs and line breaks stay."""
    hidden = {ord(char): None for char in set(text) - {"\n", "\t"} if printable(char) != char}
    return text.translate(hidden) if hidden else text
