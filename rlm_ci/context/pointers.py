"""The bounds of a context's chunks, and the meaning of a pointer into it.

All follows from the sizes of source, chunk and overlap. Offsets count bytes.
"""

from __future__ import annotations

import re

from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

#: Chunks of one object: at the default size, those of 23 GiB.
MAX_CHUNKS = 400_000
#: Chunks that a byte may be in, on average; a larger overlap is a mistake.
_REPEATS = 64
_FREE = 1 << 30
#: Characters of a pointer that an error repeats, and digits of an offset.
_SHOWN = 160
_DIGITS = 18
#: A pointer without the object, which is the same in all of them.
_SHORT = re.compile("#?(chunk:.*|bytes:.*|c[0-9]+)", re.ASCII)
_FORMS = "ctx:<object_id>#chunk:<chunk_id> or ctx:<object_id>#bytes:<start>-<end>"


def in_full(pointer: str, object_id: str) -> str:
    """``pointer`` with the object, also for ``chunk:5``, ``bytes:0-9``, ``c6``."""
    short = _SHORT.fullmatch(pointer)
    if short is None:
        return pointer
    return f"ctx:{object_id}#{short[1] if ':' in short[1] else f'chunk:{short[1]}'}"


class PointerError(ValueError):
    """Why a pointer cannot be followed, for its author; the same words each time."""


def chunk_id(index: int) -> str:
    """The id of the chunk at ``index``, which counts from 0: ``c000001`` is the first."""
    return f"c{index + 1:06d}"


class ChunkLayout(Value):
    """How ``size`` bytes are cut: chunks of ``target``, each ``overlap`` into the one before.

    Use the others only if there is no ``flaw``.
    """

    size: int
    target: int
    overlap: int

    @property
    def step(self) -> int:
        """Bytes from the start of a chunk to the start of the next."""
        return self.target - self.overlap

    @property
    def count(self) -> int:
        """The number of chunks; an empty source has none."""
        if self.size <= self.target:
            return min(self.size, 1)
        return -(-(self.size - self.target) // self.step) + 1

    def bounds(self, index: int) -> tuple[int, int]:
        """The bytes of the chunk at ``index``."""
        start = index * (self.target - self.overlap)
        return start, min(start + self.target, self.size)

    def at(self, byte: int) -> int:
        """The first chunk with ``byte``."""
        return max(0, (byte - self.target) // self.step + 1)

    def start(self, index: int) -> int:
        """The start of a chunk's segment: of the bytes that no earlier chunk has."""
        return 0 if index == 0 else min(self.size, self.target + (index - 1) * self.step)

    def flaw(self) -> str | None:
        """Why a source cannot be cut so; None if it can."""
        if self.target < 1:
            return f"a chunk of {count(self.target, 'byte')} is too small"
        if not 0 <= self.overlap < self.target:
            return f"chunks of {count(self.target, 'byte')} cannot overlap by {self.overlap:,}"
        if self.count > MAX_CHUNKS:
            return f"{count(self.count, 'chunk')} are more than {MAX_CHUNKS:,}"
        if self.count * self.target > max(_REPEATS * self.size, _FREE):
            return f"an overlap of {count(self.overlap, 'byte')} repeats every byte too often"
        return None


class Pointers:
    """The pointers of one object, written and read."""

    def __init__(self, object_id: str, layout: ChunkLayout) -> None:
        self._object_id = object_id
        self._prefix = f"ctx:{object_id}#"
        self._layout = layout
        self._count = layout.count

    def to_chunk(self, index: int) -> str:
        return f"{self._prefix}chunk:{chunk_id(index)}"

    def to_bytes(self, start: int, end: int) -> str:
        return f"{self._prefix}bytes:{start}-{end}"

    def resolve(self, pointer: str) -> tuple[int, int]:
        """The bytes that ``pointer`` names, start and end. Raises PointerError."""
        if not pointer.startswith(self._prefix):
            raise self._stranger(pointer)
        kind, _, position = pointer[len(self._prefix) :].partition(":")
        if kind == "chunk":
            return self._layout.bounds(self._chunk(position, pointer))
        if kind == "bytes":
            return self._bytes(position, pointer)
        raise _malformed(pointer)

    def _chunk(self, name: str, pointer: str) -> int:
        """The index of a chunk, by its id, or by a number that counts from 0 (then from 1)."""
        number = _number(name.removeprefix("c"))
        if number is None:
            raise _malformed(pointer)
        if name.startswith("c"):
            if 0 < number <= self._count and chunk_id(number - 1) == name:
                return number - 1
        elif number <= self._count > 0:
            return min(number, self._count - 1)
        if not self._count:
            raise PointerError(f"there is no chunk {_shown(name)}: the context is empty")
        last = chunk_id(self._count - 1)
        raise PointerError(
            f"there is no chunk {_shown(name)}: they go from {chunk_id(0)} to {last}"
        )

    def _bytes(self, span: str, pointer: str) -> tuple[int, int]:
        start, end = (_number(word) for word in (span.partition("-")[0], span.partition("-")[2]))
        if start is None or end is None:
            raise _malformed(pointer)
        if not start < end <= self._layout.size:
            raise PointerError(
                f"bytes {start}-{end} are not part of the context, which has bytes "
                f"0-{self._layout.size}"
            )
        return start, end

    def _stranger(self, pointer: str) -> PointerError:
        head, sharp, _ = pointer.partition("#")
        if sharp and head.startswith("ctx:") and len(head) > 4:
            return PointerError(
                f"{_shown(head)} is another context object; this one is ctx:{self._object_id}"
            )
        return _malformed(pointer)


def _number(text: str) -> int | None:
    """A plain whole number; None for anything else."""
    if text.isascii() and text.isdigit() and len(text) <= _DIGITS:
        return int(text)
    return None


def _malformed(pointer: str) -> PointerError:
    return PointerError(f"{_shown(pointer)!r} is not a pointer: write {_FORMS}")


def _shown(text: str) -> str:
    return printable(text[:_SHOWN]) + ("…" if len(text) > _SHOWN else "")
