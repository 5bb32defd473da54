"""Excerpts of the context and of earlier sub-calls for models: bounded, and without secrets."""

from __future__ import annotations

from rlm_ci.context.context import Excerpt, PointerError
from rlm_ci.context.excerpts import cut_character
from rlm_ci.context.line_numbers import line_ranges as named
from rlm_ci.environments.symbolic.iteration import SUBCALL
from rlm_ci.environments.symbolic.secret_masking import FAR, MARGIN, masked, open_key
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.context.context import Context

#: Characters of a pointer in an error, and files in a label.
_POINTER = 120
_FILES = 4


class VisibleContext:
    """Turns a pointer into a text that may enter a prompt; the only way to do so.

    It reads pointers into ``context`` and, as ``subcall:<iteration>:<id>``, the outputs given to
    ``keep``. ``redact`` takes secrets, of at most ``longest`` bytes, out of a text. Thread-safe
    for reading.
    """

    def __init__(self, context: Context, redact: Callable[[str], str], longest: int = 0) -> None:
        self.context = context
        self.redact = redact
        self._margin = max(MARGIN, longest)
        self._outputs: dict[str, bytes] = {}

    def keep(self, pointer: str, output: str) -> None:
        self._outputs[pointer] = output.encode()

    def flaw(self, pointer: str) -> str | None:
        """Why ``pointer`` cannot be read, for a planner; None if it can."""
        try:
            self.span(pointer)
        except PointerError as error:
            return str(error)
        return None

    def span(self, pointer: str) -> tuple[int, int]:
        """The bytes that ``pointer`` names, in the source or the output. Raises PointerError."""
        if pointer.startswith(SUBCALL):
            return 0, len(self._output(pointer))
        return self.context.resolve(pointer)

    def read(self, pointer: str, size: int, offset: int = 0) -> Excerpt:
        """At most ``size`` bytes from ``offset`` on, never beyond the pointer's.

        Raises PointerError, DamagedError, StorageError.
        """
        if pointer.startswith(SUBCALL):
            return _cut(self._output(pointer), offset, size)
        excerpt = self.context.read(pointer, size, offset)
        return excerpt.replace(text=self.shown(excerpt.start, excerpt.end, excerpt.text))

    def text(self, start: int, end: int) -> str:
        """Bytes ``start`` to ``end`` of the source, without secrets."""
        return self.shown(start, end, _lossy(self.context.raw(start, end)))

    def shown(self, start: int, end: int, text: str) -> str:
        """``text``, bytes ``start`` to ``end`` of the source, without secrets."""
        context = self.context
        far = context.raw(max(0, start - max(FAR, self._margin)), start)
        begin = max(0, len(far) - self._margin)
        key = open_key(far)
        before = far[begin if key is None else min(begin, key) :]
        after = context.raw(end, min(context.byte_length, end + self._margin))
        return masked(_lossy(before), text, _lossy(after), self.redact)

    def label(self, pointer: str, excerpt: Excerpt) -> str:
        """The pointer, the bytes and the lines of files of an excerpt."""
        label = f"{pointer} | bytes {excerpt.start}-{excerpt.end}"
        if pointer.startswith(SUBCALL):
            return label
        places, more = self.context.first_places(excerpt.start, excerpt.end, _FILES)
        return f"{label} | {self.redact(named(places, more))}" if places else label

    def _output(self, pointer: str) -> bytes:
        output = self._outputs.get(pointer)
        if output is None:
            raise PointerError(
                f"{printable(pointer[:_POINTER])} is not the output of a sub-call of an earlier "
                "iteration"
            )
        if not output:
            raise PointerError(f"{pointer} failed and left no output")
        return output


def _lossy(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _cut(data: bytes, offset: int, size: int) -> Excerpt:
    """``size`` bytes of a text from ``offset``, without halves of characters."""
    first = min(max(0, offset), len(data))
    last = min(first + max(0, size), len(data))
    start, end = cut_character(data, first)[1], cut_character(data, last)[0]
    if start > end:  # both are in one character
        start = end = first
    return Excerpt(start, end, data[start:end].decode(), truncated=end < len(data))
