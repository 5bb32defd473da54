"""Check that what a claim points to exists at its commit."""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache
from io import BytesIO
from itertools import accumulate

from rlm_ci.change.change_set import require
from rlm_ci.report.findings import Evidence, Location
from rlm_ci.system import files
from rlm_ci.text.printable import encodable, printable
from rlm_ci.text.unpacking import DecodedText, UnpackLimit, UnreadableTextError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from rlm_ci.git.repository import Repository
    from rlm_ci.report.findings import Report, Subject

#: Bytes of a file of the work tree that are read to check a pointer into it.
_LIMIT = 64 << 20
#: Word characters that a quote needs to be searched outside the claimed lines, and within them:
#: a ``}`` is everywhere and proves nothing.
_TELLING = 8
_LEAST = 3

#: What became of a pointer.
VERIFIED = "verified"
REANCHORED = "reanchored"
REJECTED = "rejected"


def flaw(location: Location, content: bytes | None, blob: str | None) -> str | None:
    """Why ``location`` does not hold in ``content``, whose object id is ``blob``; or None."""
    if content is None:
        return "the path is not there"
    if location.blob is not None and location.blob != blob:
        return "the file has changed since it was quoted"
    if location.line_start is None:
        return None
    lines = lines_in(content)
    start, end = location.line_start, location.line_end or location.line_start
    why = _line_flaw(location.quote, start, end, lines[max(0, start - 1) : end], len(lines))
    if why is not None and (text := _decoded_lines(content, start, end)) is not None:
        return _line_flaw(location.quote, start, end, *text)
    return why


def _line_flaw(
    quote: str | None, start: int, end: int, lines: Sequence[str], number: int
) -> str | None:
    """Why ``lines``, those from ``start`` to ``end`` of ``number``, are not the quote's."""
    if not 1 <= start <= end <= number:
        which = f"line {end} is" if start == end else f"lines {start}-{end} are"
        return f"{which} not in the file, which has {number}"
    if quote is not None and encodable("\n".join(lines)) != encodable(quote):
        return "these lines do not have the quote"
    return None


def _decoded_lines(content: bytes, first: int, last: int) -> tuple[list[str], int] | None:
    """Lines of a file as a context reads it, and the number of all; None if it is plain UTF-8."""
    lines: list[str] = []
    number = 0
    parts: list[bytes] = []
    try:
        text = DecodedText(BytesIO(content), UnpackLimit())
        for block in text.blocks():
            parts.append(block)
            if b"\n" in block:
                *ended, begun = b"".join(parts).split(b"\n")
                inside = ended[max(0, first - number - 1) : max(0, last - number)]
                lines += (line.decode().rstrip("\r") for line in inside)
                number += len(ended)
                parts = [begun]
    except UnreadableTextError:
        return None
    if begun := b"".join(parts):
        number += 1
        lines += [begun.decode().rstrip("\r")] if first <= number <= last else []
    return (lines, number) if text.read_as else None


@lru_cache(maxsize=16)
def lines_in(content: bytes) -> tuple[str, ...]:
    """The lines of a file without their ends; cached for files with many pointers."""
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    if lines[-1] == "":
        lines.pop()
    return tuple(line.rstrip("\r") for line in lines)


class AnchoredClaim(Value):
    """Where a claim really points: ``location`` has blob and quote, and is None if REJECTED.

    ``outcome`` is VERIFIED, REANCHORED or REJECTED.
    """

    location: Location | None = None
    outcome: str = REJECTED


def anchor(
    claim: Location, content: bytes | None, blob: str | None, first_line: int = 1
) -> AnchoredClaim:
    """Open what ``claim`` points to in ``content``, whose first line has the number ``first_line``.

    A claim keeps the lines that it names if its quote is among them, or has them all; white space
    around lines does not count. A quote that is elsewhere in the file moves the claim to the
    nearest place. ``blob`` is recorded as it is.
    """
    if content is None:
        return AnchoredClaim()
    lines = lines_in(content)
    start, end, quote = claim.line_start, claim.line_end, claim.quote
    if start is None and quote is None:
        return AnchoredClaim(claim.replace(line_end=None, blob=blob), VERIFIED)
    end = start if end is None else end
    claimed = None
    text = ""
    if quote is not None:
        quote = encodable("\n".join(line.rstrip("\r") for line in quote.split("\n")))
    last = first_line + len(lines) - 1
    if start is not None and end is not None and first_line <= start <= end <= last:
        claimed = start, end
        text = "\n".join(lines[start - first_line : end - first_line + 1])
        if quote is None or _bare(quote) == _bare(encodable(text)):
            return AnchoredClaim(claim.replace(line_end=end, blob=blob, quote=text), VERIFIED)
    span = None if quote is None else _find(lines, quote, claimed, start, first_line)
    if span is None:
        return AnchoredClaim()
    if span == claimed:
        return AnchoredClaim(claim.replace(line_end=end, blob=blob, quote=text), VERIFIED)
    begin, stop = span
    text = "\n".join(lines[begin - first_line : stop - first_line + 1])
    moved = claim.replace(line_start=begin, line_end=stop, blob=blob, quote=text)
    return AnchoredClaim(moved, REANCHORED)


def _bare(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n")]


@lru_cache(maxsize=16)
def _folded(lines: tuple[str, ...]) -> tuple[str, list[int]]:
    """The lines without the white space around them as a text, and where each begins in it."""
    bare = _bare("\n".join(map(encodable, lines)))
    starts = accumulate((len(line) + 1 for line in bare), initial=0)
    return "\n".join(bare), list(starts)[: len(bare)]


def _find(
    lines: tuple[str, ...],
    quote: str,
    claimed: tuple[int, int] | None,
    near_line: int | None,
    first_line: int,
) -> tuple[int, int] | None:
    """The lines that have a quote: the claimed ones, or the nearest; None if there are none."""
    needle = "\n".join(_bare(quote)).strip("\n")
    weight = sum(char.isalnum() or char == "_" for char in needle)
    if not needle:
        return None
    folded, starts = _folded(lines)
    places = []
    at = folded.find(needle)
    while at >= 0:
        after = at + len(needle)
        if _is_whole(folded, at, after):
            begin, stop = (bisect_right(starts, offset) - 1 for offset in (at, after - 1))
            places.append((begin + first_line, stop + first_line))
        at = folded.find(needle, after)
    if claimed is not None:
        low, high = claimed
        number = high - low + 1
        claimed_lines = folded[starts[low - first_line] :].split("\n", number)[:number]
        if needle == "\n".join(claimed_lines):
            return low, high
        inside = any(low <= begin and stop <= high for begin, stop in places)
        around = any(begin <= low and high <= stop for begin, stop in places)
        if (inside and weight >= _LEAST) or (around and weight >= _TELLING):
            return low, high
    if weight < _TELLING or not places:
        return None
    origin = near_line if near_line is not None else first_line
    return min(places, key=lambda span: (abs(span[0] - origin), span[0]))


def _is_whole(text: str, start: int, end: int) -> bool:
    def joins(left: str, right: str) -> bool:
        return (left.isalnum() or left == "_") and (right.isalnum() or right == "_")

    before = start > 0 and joins(text[start - 1], text[start])
    return not before and not (end < len(text) and joins(text[end - 1], text[end]))


class CheckedReport(Value):
    """The check of a report's pointers: ``problems`` and ``notes`` are a line for each.

    A note is on a pointer that holds in the run's own copy only.
    """

    counts: Evidence
    problems: tuple[str, ...]
    notes: tuple[str, ...]


def verify(
    report: Report, repository: Repository, container: Container[Location] = ()
) -> CheckedReport:
    """Check every pointer of a report; ``container`` are places which hold in the run's own copy.

    Needs no network. Raises ConfigError when a commit of the report is not in the clone.
    """
    places = [
        (finding.rule, location) for finding in report.findings for location in finding.evidence
    ]
    places += [
        (document.path, location) for document in report.documents for location in document.evidence
    ]
    words = report.overview.said if report.overview else None
    places += [
        (
            "overview",
            Location(lines.path, lines.line_start, lines.line_end, lines.side, quote=lines.quote),
        )
        for sentence in ((*words.about, *words.groups) if words else ())
        for lines in sentence.lines
    ]
    opened = contents(report.subject, [location for _, location in places], repository)
    problems, notes = [], []
    blobs: dict[int, str] = {}  # by the identity of the content
    for (claim, location), content in zip(places, opened, strict=True):
        if content is not None and location.blob is not None and id(content) not in blobs:
            blobs[id(content)] = repository.blob_id(content)
        blob = None if content is None or location.blob is None else blobs[id(content)]
        why = flaw(location, content, blob)
        if why is None:
            continue
        line = f":{location.line_start}" if location.line_start else ""
        message = printable(f"{location.path}{line} ({claim}): {why}")
        if location in container:
            notes.append(f"{message}; the run's own copy has the quote")
        else:
            problems.append(message)
    rejected = len(problems)
    problems += [
        printable(f"{finding.rule} ({finding.message[:80]}): it points to nothing")
        for finding in report.findings
        if finding.domain is not None and finding.source != "check" and not finding.evidence
    ]
    counts = Evidence(len(places), len(places) - rejected, 0, rejected)
    return CheckedReport(counts, tuple(problems), tuple(notes))


def contents(
    subject: Subject, places: Sequence[Location], repository: Repository
) -> list[bytes | None]:
    """The files of ``places``, as ``subject`` has them; None for one that is not there.

    Raises ConfigError when a commit is not in the clone.
    """
    if not places:
        return []
    commits: dict[str, str] = {}
    for side, commit in (("new", subject.head), ("old", subject.merge_base or subject.base)):
        needed = any(location.side == side for location in places)
        if needed and commit is not None and not (side == "new" and subject.worktree):
            # The empty tree, before a first commit, is a tree, not a commit.
            is_empty = commit == repository.empty_tree()
            commits[side] = (
                commit if is_empty else require(repository, commit, f"{side} side", "report")
            )
    specs = {
        location: _object(repository, commits[location.side], location.path)
        for location in places
        if location.side in commits and _is_name(location.path)
    }
    objects = list(dict.fromkeys(specs.values()))
    opened = dict(zip(objects, repository.read(*objects), strict=True)) if objects else {}
    read = {location: opened[name] for location, name in specs.items()}
    if subject.worktree or subject.head is None:
        locations = [
            location for location in places if location.side == "new" and _is_name(location.path)
        ]
        read.update(_uncommitted(repository, locations))
    return [read.get(location) for location in places]


def _is_name(path: str) -> bool:
    """Whether ``path`` can be a path of a tree: a report may hold any text."""
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return "\0" not in path and not {"", ".", ".."} & set(path.split("/"))


def _object(repository: Repository, commit: str, path: str) -> str:
    if "\n" not in path:
        return f"{commit}:{path}"
    entry = repository.tree(commit).get(path)  # git reads what it is asked for line by line
    return entry.oid if entry else commit


def _uncommitted(
    repository: Repository, places: Sequence[Location]
) -> dict[Location, bytes | None]:
    """The files of the work tree, or what is staged where only that has the blob."""
    paths = {location.path for location in places}
    opened = {path: _from_worktree(repository, path) for path in sorted(paths)}
    current = {location: opened[location.path] for location in places}

    def holds(location: Location, content: bytes | None) -> bool:
        return content is not None and location.blob in (None, repository.blob_id(content))

    others = [
        location
        for location, content in current.items()
        if location.blob and not holds(location, content)
    ]
    if repository.git_dir is None:  # nothing is staged
        return current
    staged = repository.read(*(f":0:{location.path}" for location in others)) if others else []
    pairs = zip(others, staged, strict=True)
    return current | {location: content for location, content in pairs if holds(location, content)}


def _from_worktree(repository: Repository, path: str) -> bytes | None:
    try:
        return files.read_inside(repository.root, path, _LIMIT)
    except files.UnreadableError:
        return None
