"""A patch, as hunks with the numbers of their lines on both sides, parsed by ``unidiff``."""

from __future__ import annotations

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from rlm_ci.values import Value


class Line(Value):
    """A line of a hunk: ``kind`` is ``+``, ``-`` or blank; numbers are 1-based per side."""

    kind: str
    old: int | None
    new: int | None
    text: str


class Hunk(Value):
    """A hunk of a patch, with the ranges that it covers on both sides."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[Line, ...]


def parse(data: bytes) -> tuple[dict[str, tuple[Hunk, ...]], list[str]]:
    """The hunks in the output of ``git diff --raw -z --patch``, and the paths that failed.

    The names come from the raw records, in whose order the patch stands; a record without
    text (not merged, or equal once it is converted) has no section. What ``unidiff`` cannot
    parse costs its own file alone.
    """
    head, _, patch = data.partition(b"\0\0")
    fields = iter(head.split(b"\0"))
    # Lines of a hunk never begin like this, and names are quoted where they hold a line break.
    sections = (b"\n" + patch).split(b"\ndiff --git ")[:0:-1]
    hunks: dict[str, tuple[Hunk, ...]] = {}
    failed: list[str] = []
    for field in fields:
        if not field.startswith(b":"):
            continue
        old = new = next(fields)
        if field.rpartition(b" ")[2][:1] in (b"R", b"C"):
            new = next(fields)
        path = _decode(new)
        heading = b"%s %s\n" % (_quoted(b"a/" + old), _quoted(b"b/" + new))
        # A change of type is told as a deletion and a creation.
        while sections and sections[-1].startswith(heading):
            body = sections.pop().partition(b"\n* Unmerged path ")[0]
            start = body.find(b"\n@@ ")
            if start >= 0 and path not in failed:
                try:
                    found = _parse_hunks(body[start + 1 :])
                    hunks[path] = hunks.get(path, ()) + found
                except UnidiffParseError:
                    failed.append(path)
                    hunks.pop(path, None)
    return hunks, failed


def _quoted(name: bytes) -> bytes:
    """``name`` as the headings of a patch have it: in C's quotes where it needs them."""
    if name.isascii() and name.decode().isprintable() and b'"' not in name and b"\\" not in name:
        return name
    letters = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
    quoted = "".join(
        f"\\{letters[byte]}"
        if byte in letters
        else chr(byte)
        if 0x20 <= byte < 0x7F
        else f"\\{byte:03o}"
        for byte in name
    )
    return f'"{quoted}"'.encode()


def _parse_hunks(body: bytes) -> tuple[Hunk, ...]:
    text = _decode(body)
    # Split on \n alone: a lone CR, form feed or U+2028 is part of a line.
    lines = [f"{line}\n" for line in text.removesuffix("\n").split("\n")]
    parsed = PatchSet(["--- a\n", "+++ b\n", *lines])
    return tuple(
        Hunk(
            hunk.source_start,
            hunk.source_length,
            hunk.target_start,
            hunk.target_length,
            tuple(
                Line(
                    line.line_type,
                    line.source_line_no,
                    line.target_line_no,
                    line.value.removesuffix("\n"),
                )
                for line in hunk
                if line.line_type in "+- "
            ),
        )
        for hunk in parsed[0]
    )


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
