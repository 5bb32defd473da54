"""Patches from git and from GitHub, as hunks with line numbers, parsed by ``unidiff``."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from operator import itemgetter

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from unidiff.patch import PatchedFile


class HunkLine(Value):
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
    lines: tuple[HunkLine, ...]

    def span(self, side: str) -> tuple[int, int]:
        """The first and last line on ``side``, ``old`` or ``new``; last < first without lines."""
        if side == "old":
            return self.old_start, self.old_start + self.old_count - 1
        return self.new_start, self.new_start + self.new_count - 1

    def texts(self, side: str, start: int, end: int) -> Sequence[str]:
        """The lines from ``start`` to ``end`` on ``side``; both must be in its span."""
        first = self.span(side)[0]
        return self._texts[side][start - first : end - first + 1]

    @cached_property
    def _texts(self) -> dict[str, list[str]]:
        others = {"old": "+", "new": "-"}
        return {
            side: [line.text for line in self.lines if line.kind != other]
            for side, other in others.items()
        }


class FileDiff(Value):
    """The change of one file: its new path (of a deleted file the old one) and git's letter.

    ``hunks`` is None where the patch is not known, and ``absent`` says why.
    """

    path: str
    old_path: str
    status: str
    hunks: tuple[Hunk, ...] | None
    absent: str = ""

    def hunk_from(self, side: str, line: int) -> Hunk | None:
        """The first hunk with lines on ``side`` that ends at ``line`` or behind it."""
        hunks = self._by_end[side]
        at = bisect_left(hunks, line, key=lambda hunk: hunk.span(side)[1])
        return hunks[at] if at < len(hunks) else None

    @cached_property
    def _by_end(self) -> dict[str, list[Hunk]]:
        """The hunks with lines on each side, by the last of them."""
        by_side = {}
        for side in ("old", "new"):
            spans = [(hunk.span(side), hunk) for hunk in self.hunks or ()]
            inside = [(last, hunk) for (first, last), hunk in spans if first <= last]
            by_side[side] = [hunk for _, hunk in sorted(inside, key=itemgetter(0))]
        return by_side


class PatchDiff(Value):
    """The files of a change; not ``complete`` where some may be missing."""

    files: tuple[FileDiff, ...]
    complete: bool = True

    def file(self, path: str, side: str = "new") -> FileDiff | None:
        """The file that has this name on ``side``; a deleted one has the same on both."""
        return self._files_by_name[side].get(path)

    @cached_property
    def _files_by_name(self) -> dict[str, dict[str, FileDiff]]:
        by_side: dict[str, dict[str, FileDiff]] = {"old": {}, "new": {}}
        for file in self.files:
            by_side["new"].setdefault(file.path, file)
            if file.status not in ("A", "C"):
                by_side["old"].setdefault(file.old_path, file)
        return by_side


#: GitHub's words for changes of a file, where git's letter is not M.
_STATUS = {"added": "A", "removed": "D", "renamed": "R", "copied": "C"}
#: Why the hunks of a file are not known.
UNREADABLE = "the patch of the file cannot be read"
_NO_FILE = "/dev/null"
_WITHHELD = "GitHub gives no patch of the file (binary, too large, or no line changed)"


def from_records(records: Iterable[Mapping[str, Any]], total: int | None = None) -> PatchDiff:
    """The diff of GitHub's *list pull request files*, all pages together.

    ``total`` is the pull request's number of files: the list ends at 3,000.
    """
    diffs = []
    listed = 0
    for record in records:
        listed += 1
        path = record.get("filename")
        if not isinstance(path, str) or not path:
            continue
        status = _STATUS.get(str(record.get("status")), "M")
        before = record.get("previous_filename")
        moved = status in ("R", "C") and isinstance(before, str) and before
        hunks, absent = _hunks_of(record.get("patch"))
        diffs.append(FileDiff(path, str(before) if moved else path, status, hunks, absent))
    return PatchDiff(tuple(diffs), len(diffs) == listed and (total is None or listed >= total))


def _hunks_of(patch: object) -> tuple[tuple[Hunk, ...] | None, str]:
    """The hunks of a patch without a heading; None, and why, without them."""
    if not isinstance(patch, str) or not patch:
        return None, _WITHHELD
    try:
        hunks = _parse_hunks(patch)
    except (UnidiffParseError, ValueError):
        hunks = ()
    return (hunks, "") if hunks else (None, UNREADABLE)


def parse(data: bytes) -> tuple[dict[str, tuple[Hunk, ...]], list[str]]:
    """The hunks in the output of ``git diff --raw -z --patch``, and the paths that failed.

    The names come from the raw records; the sections of the patch have the same order, and a
    record without text (not merged, or equal once it is converted) has none.
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
        # A change of type has two sections: a deletion and a creation.
        while sections and sections[-1].startswith(heading):
            body = sections.pop().partition(b"\n* Unmerged path ")[0]
            start = body.find(b"\n@@ ")
            if start >= 0 and path not in failed:
                try:
                    parsed = _parse_hunks(_decode(body[start + 1 :]))
                    hunks[path] = hunks.get(path, ()) + parsed
                except UnidiffParseError:
                    failed.append(path)
                    hunks.pop(path, None)
    return hunks, failed


def _quoted(name: bytes) -> bytes:
    """``name`` as the headings of a patch have it: in C's quotes where it needs them."""
    if name.isascii() and name.decode().isprintable() and b'"' not in name and b"\\" not in name:
        return name
    letters = {7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 34: '"', 92: "\\"}
    escapes = {byte: f"\\{letter}" for byte, letter in letters.items()}
    plain = {byte: chr(byte) for byte in range(0x20, 0x7F)} | escapes
    quoted = "".join(plain.get(byte, f"\\{byte:03o}") for byte in name)
    return f'"{quoted}"'.encode()


def hunks_by_path(patch: str) -> dict[str, tuple[Hunk, ...]]:
    """The hunks of a patch by the names of the files that it edits.

    Raises ValueError where it is no patch, or does more than edit text.
    """
    try:
        parsed = PatchSet(_lines(patch))
        files = {file.path: file for file in parsed}
        # By its hunks alone, unidiff takes what is put before the first line for a new file.
        ends = {name for file in parsed for name in (file.source_file, file.target_file)}
        if len(files) != len(parsed) or _NO_FILE in ends or any(file.is_rename for file in parsed):
            raise ValueError("not only edits of files")
        return {path: _hunks(file) for path, file in files.items()}
    except (UnidiffParseError, AttributeError, TypeError) as error:
        raise ValueError(f"no patch: {error}") from None


def _lines(text: str) -> list[str]:
    # Split on \n alone: a lone CR, form feed or U+2028 is part of a line.
    return [f"{line}\n" for line in text.removesuffix("\n").split("\n")]


def _parse_hunks(text: str) -> tuple[Hunk, ...]:
    return _hunks(PatchSet(["--- a\n", "+++ b\n", *_lines(text)])[0])


def _hunks(file: PatchedFile) -> tuple[Hunk, ...]:
    return tuple(
        Hunk(
            hunk.source_start,
            hunk.source_length,
            hunk.target_start,
            hunk.target_length,
            tuple(
                HunkLine(
                    line.line_type,
                    line.source_line_no,
                    line.target_line_no,
                    line.value.removesuffix("\n"),
                )
                for line in hunk
                if line.line_type in ("+", "-", " ")  # and not "", the end of a cut text
            ),
        )
        for hunk in file
    )


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")
