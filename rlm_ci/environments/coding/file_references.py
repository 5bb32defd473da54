"""References to lines of files, which give a child what it needs to read.

``"path"``, ``"path:10"``, ``"path:10-20"``, or ``{"path", "start_line", "end_line", "reason"}``.
"""

from __future__ import annotations

import re

from rlm_ci.environments.coding.replace_text import lines as lines_of
from rlm_ci.environments.quoting import numbered, visible
from rlm_ci.system.safe_tree import Refused, SafeTree, checked
from rlm_ci.text.printable import clip, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: References of one action; characters of all their lines, and of one's.
REFERENCES, ROOM, ROOM_OF_ONE = 8, 6000, 1400
_KEYS = ("path", "start_line", "end_line", "reason")
_SPAN = re.compile(r"(.*?):(\d{1,9})(?:-(\d{1,9}))?", re.DOTALL)
_REASON = 200
#: Characters of the note on what is left out.
_NOTE = 300
#: JSON Schema of references, for tools.
SCHEMA = {
    "type": "array",
    "items": {
        "anyOf": [
            {"type": "string"},
            {
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "start_line": {"type": "integer", "minimum": 1},
                    "end_line": {"type": "integer", "minimum": 1},
                    "reason": {"type": "string"},
                },
                "required": ["path"],
                "additionalProperties": False,
            },
        ]
    },
    "description": 'lines to be shown: "path", "path:10-20", or path, start_line, end_line, reason',
}


class FileReference(Value):
    """Lines of a file; ``end_line`` is None for all from ``start_line`` on."""

    path: str
    start_line: int = 1
    end_line: int | None = None
    reason: str = ""

    @classmethod
    def of(cls, value: object) -> FileReference:
        """Raises Refused for what is no reference to lines inside of the tree."""
        if isinstance(value, str):
            path, first, last = value, "1", None
            if match := _SPAN.fullmatch(value):
                path, first, last = match[1], match[2], match[3] or match[2]
            value = {"path": path, "start_line": int(first), "end_line": last and int(last)}
        if not isinstance(value, dict) or not isinstance(value.get("path"), str):
            raise Refused(f"{_as_text(value)} is no reference: give 'path' or 'path:10-20'")
        if unknown := [key for key in value if key not in _KEYS]:
            raise Refused(f"{_as_text(value)}: a reference has no {_as_text(unknown[0])}")
        start, end = value.get("start_line"), value.get("end_line")
        start = 1 if start is None else start
        for line in (start, *([] if end is None else [end])):
            if isinstance(line, bool) or not isinstance(line, int) or line < 1:
                raise Refused(f"{_as_text(value)}: lines are numbers from 1")
        if end is not None and end < start:
            raise Refused(f"{_as_text(value)}: line {end} is before line {start}")
        return cls(checked(value["path"]), start, end, str(value.get("reason") or "")[:_REASON])


def _as_text(value: object) -> str:
    return printable(clip(str(value), 200))


class LazyFileContext:
    """Reads the lines of references below ``root`` when they are asked for."""

    def __init__(self, root: str) -> None:
        self._tree = SafeTree(root)

    def resolve_many(self, values: Sequence[object]) -> tuple[FileReference, ...]:
        """The references, sorted, each once. Raises Refused, which names all that are wrong."""
        if len(values) > REFERENCES:
            raise Refused(f"{len(values)} references; give at most {REFERENCES}")
        references, wrong = set(), []
        for value in values:
            try:
                reference = FileReference.of(value)
                self._lines(reference)
            except Refused as error:
                wrong.append(str(error))
            else:
                references.add(reference)
        if wrong:
            raise Refused("; ".join(wrong))
        return _sorted(references)

    def render(
        self, references: Iterable[FileReference], room: int = ROOM, room_of_one: int = ROOM_OF_ONE
    ) -> str:
        """Their lines with numbers, as far as there is room; what is left out is named."""
        blocks: list[str] = []
        left_out: list[str] = []
        room -= _NOTE
        for reference in _sorted(references):
            lines = self._lines(reference)
            last = len(lines) if reference.end_line is None else min(reference.end_line, len(lines))
            head = f"Wanted for: {visible(reference.reason)}\n" if reference.reason else ""
            # Around the lines there are the path, a fence and numbers.
            spare = min(room, room_of_one) - len(head) - len(reference.path) - 80
            first = reference.start_line
            if spare < 20 + len(visible(lines[first - 1]) if lines else ""):
                left_out.append(f"{reference.path}:{first}-{last}")
                continue
            blocks.append(head + numbered(reference.path, lines, first, last - first + 1, spare))
            room -= len(blocks[-1]) + 1
        if left_out:
            blocks.append(f"No room was left for: {', '.join(left_out)}"[: _NOTE - 1])
        return "\n".join(blocks)

    def _lines(self, reference: FileReference) -> list[str]:
        data = self._tree.read(reference.path)
        if b"\0" in data:
            raise Refused(f"{reference.path} is a binary file")
        lines = lines_of(data.decode("utf-8", "surrogateescape"))
        if reference.start_line > max(1, len(lines)):
            raise Refused(
                f"{reference.path} has {len(lines)} lines; there is no line {reference.start_line}"
            )
        return lines


def _sorted(references: Iterable[FileReference]) -> tuple[FileReference, ...]:
    return tuple(
        sorted(
            references,
            key=lambda reference: (
                reference.path,
                reference.start_line,
                reference.end_line or 0,
                reference.reason,
            ),
        )
    )
