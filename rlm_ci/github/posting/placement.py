"""Where each finding goes on a pull request: beside its lines, to its file, or to the summary.

GitHub refuses a whole review for one comment outside of the diff, so every place is checked against
the hunks first. No finding is dropped; one that is not inline has the reason.
"""

from __future__ import annotations

from rlm_ci.github.posting.repair import replaced
from rlm_ci.report import wording
from rlm_ci.report.details import suggestions
from rlm_ci.report.findings import Severity
from rlm_ci.text.printable import encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlm_ci.git.patches import FileDiff, Hunk, PatchDiff
    from rlm_ci.report.findings import Finding, Location

#: Where a finding goes.
INLINE, FILE, SUMMARY = "inline", "file", "summary"

#: What a diff says of a comment that GitHub refused.
VALID, UNKNOWN, INVALID = "valid", "unknown", "invalid"

#: GitHub's names of the sides.
_SIDES = {"old": "LEFT", "new": "RIGHT"}


class PlacedFinding(Value):
    """A finding and its place. ``where`` is INLINE, FILE or SUMMARY; ``reason`` why not INLINE.

    ``path`` is GitHub's name of the file: the new one, on both sides. ``line`` and ``side`` (LEFT
    or RIGHT) are those of the last line; ``start_line`` and ``start_side`` are for ranges only.
    ``suggestion`` replaces these lines: each ends in a line break; empty to delete them.
    ``is_run``: it is a repair that was run.
    """

    finding: Finding
    where: str
    reason: str = ""
    path: str | None = None
    line: int | None = None
    side: str | None = None
    start_line: int | None = None
    start_side: str | None = None
    suggestion: str | None = None
    is_run: bool = False


class CommentLimits(Value):
    """Maximum of comments: in all, on one file, and on files as a whole."""

    comments: int = 50
    per_file: int = 10
    whole_files: int = 5


def place(
    findings: Sequence[Finding],
    diff: PatchDiff,
    *,
    severity: Severity = Severity.LOW,
    caps: CommentLimits | None = None,
) -> list[PlacedFinding]:
    """One place for each finding, in the order given.

    Findings below ``severity``, suppressed ones and those of severity ``info`` go to the summary.
    The worst findings count first for ``caps``.
    """
    severity = max(severity, Severity.LOW)
    placed = [_place(finding, diff, severity=severity) for finding in findings]
    return _capped(placed, caps or CommentLimits())


def _place(finding: Finding, diff: PatchDiff, *, severity: Severity) -> PlacedFinding:
    def summary(reason: str) -> PlacedFinding:
        return PlacedFinding(finding, SUMMARY, reason)

    if finding.suppression is not None:
        return summary("it is suppressed")
    if finding.is_argued:
        return summary("nothing that ran shows it")
    if finding.severity < severity:
        return summary(f"its severity is {finding.severity.label}, less than {severity.label}")
    if not finding.evidence:
        return summary("it points to no file")
    spot = finding.evidence[0]
    if encodable(spot.path) != spot.path:
        return summary("its path is not UTF-8, and the API cannot name it")
    other = "new" if spot.side == "old" else "old"
    file = diff.file(spot.path, spot.side)
    is_named = file is not None
    file = file or diff.file(spot.path, other)
    if file is None:
        if diff.complete:
            return summary("the file is not part of the diff")
        return summary(f"the file is not among the {len(diff.files):,} that the API lists")
    if spot.line_start is None:
        return PlacedFinding(finding, FILE, "it points to the file as a whole", file.path)
    hunk = _fitting(file, spot)
    quoted = None if isinstance(hunk, str) else _quoted(hunk, spot)
    reason = _doubt(hunk, quoted=quoted, is_named=is_named)
    if isinstance(hunk, str) or reason:
        return PlacedFinding(finding, FILE, reason, file.path)
    return _inline(finding, file.path, hunk, quoted=bool(quoted))


def _inline(finding: Finding, path: str, hunk: Hunk, *, quoted: bool) -> PlacedFinding:
    """The place beside the lines; where they are as ``quoted``, with what can be applied."""
    spot = finding.evidence[0]
    start, end = _span(spot)
    suggestion = None
    is_run = bool(finding.proof and finding.proof.repair)
    if quoted and is_run:
        start, end, suggestion = _repair(finding, path, hunk)
    elif quoted:
        text = suggestions.replacement(finding.suggested_fix)
        suggestion = _offered(finding, hunk, text, start, end)
    side = _SIDES[spot.side]
    inline = PlacedFinding(finding, INLINE, "", path, end, side, suggestion=suggestion)
    inline = inline.replace(is_run=is_run and suggestion is not None)
    return inline.replace(start_line=start, start_side=side) if start < end else inline


def _span(spot: Location) -> tuple[int, int]:
    start = spot.line_start or 0
    return start, start if spot.line_end is None else spot.line_end


def _fitting(file: FileDiff, spot: Location) -> Hunk | str:
    """The hunk that has all lines of ``spot``, or why there is none."""
    start, end = _span(spot)
    if not 1 <= start <= end:
        return f"{start}-{end} is not a range of lines"
    if spot.side == "new" and file.status == "D":
        return "the file is deleted, and has no new lines"
    if spot.side == "old" and file.status in ("A", "C"):
        return "the file is new, and has no old lines"
    if file.hunks is None:
        return file.absent
    hunk = file.hunk_from(spot.side, start)
    first, last = hunk.span(spot.side) if hunk else (end + 1, end + 1)
    if hunk is None or end < first:
        lines = wording.spoken_lines(spot)
        return f"{lines} {'is' if start == end else 'are'} outside of the diff"
    if first <= start and end <= last:
        return hunk
    return f"lines {start}-{end} go beyond their part of the diff, lines {first}-{last}"


def _doubt(hunk: Hunk | str, *, quoted: bool | None, is_named: bool) -> str:
    """Why the lines of ``hunk`` may be wrong; empty if they are right."""
    if isinstance(hunk, str):
        return hunk
    if quoted is False:
        return "these lines of the diff do not have its quote"
    if quoted is None and not is_named:
        return "its path is that of the other side of a rename, and no quote shows the lines"
    return ""


def _quoted(hunk: Hunk, spot: Location) -> bool | None:
    """Whether ``hunk`` has at ``spot`` what it quotes; None if unknown."""
    if spot.quote is None:
        return None
    lines = [line.rstrip("\r") for line in hunk.texts(spot.side, *_span(spot))]
    quote_lines = [line.rstrip("\r") for line in spot.quote.split("\n")]
    if quote_lines[-1] == "" and len(quote_lines) == len(lines) + 1:
        quote_lines.pop()  # a quote may end with the end of its last line
    if len(quote_lines) == len(lines) and any("\ufffd" in line for line in lines):
        return None  # bytes that are not UTF-8 come from the API like this
    return list(map(encodable, quote_lines)) == list(map(encodable, lines))


def _repair(finding: Finding, path: str, hunk: Hunk) -> tuple[int, int, str | None]:
    """The lines of the comment and its suggestion: those that the repair edits, if it can be."""
    spot = finding.evidence[0]
    span = _span(spot)
    repair = finding.proof.repair if finding.proof else ""
    edit = replaced(repair, path, hunk, span) if spot.side == "new" else None
    if edit is None or _offered(finding, hunk, edit[2], *edit[:2]) is None:
        return (*span, None)
    return edit


def _offered(finding: Finding, hunk: Hunk, text: str | None, start: int, end: int) -> str | None:
    """``text`` for the lines from ``start`` to ``end``, if GitHub can offer it."""
    if text is None or finding.evidence[0].side != "new" or not suggestions.is_plain(text):
        return None
    # GitHub writes all lines of a file with the same ending once it applies a suggestion.
    endings = {line.endswith("\r") for line in hunk.texts("new", *hunk.span("new"))}
    lines = [line.removesuffix("\r") for line in hunk.texts("new", start, end)]
    same = text == "".join(f"{line}\n" for line in lines)
    return None if same or len(endings) > 1 else text


def _capped(placed: list[PlacedFinding], caps: CommentLimits) -> list[PlacedFinding]:
    used: dict[str, int] = {}
    total = file_comments = 0
    for index in sorted(range(len(placed)), key=lambda index: _rank(placed[index])):
        finding = placed[index]
        if finding.where == SUMMARY or finding.path is None:
            continue
        on_file = used.get(finding.path, 0)
        if total >= caps.comments:
            over = f"more than {wording.count(caps.comments, 'review comment')}"
        elif on_file >= caps.per_file:
            over = f"more than {wording.count(caps.per_file, 'comment')} on this file"
        elif finding.where == FILE and file_comments >= caps.whole_files:
            over = f"more than {wording.count(caps.whole_files, 'comment')} on whole files"
        else:
            total, file_comments = total + 1, file_comments + (finding.where == FILE)
            used[finding.path] = on_file + 1
            continue
        placed[index] = to_summary(finding, f"{finding.reason}; {over}" if finding.reason else over)
    return placed


def _rank(finding: PlacedFinding) -> tuple[int, str, int]:
    spot = finding.finding.evidence[0] if finding.finding.evidence else None
    return -finding.finding.severity, finding.path or "", (spot and spot.line_start) or 0


def to_summary(finding: PlacedFinding, reason: str) -> PlacedFinding:
    return PlacedFinding(finding.finding, SUMMARY, reason, finding.path)


def classify(placed: PlacedFinding, diff: PatchDiff) -> str:
    """Whether a comment is VALID by GitHub's own ``diff``, INVALID or UNKNOWN."""
    if placed.where == SUMMARY or placed.path is None:
        return VALID
    file = diff.file(placed.path)
    if file is None:
        return INVALID if diff.complete else UNKNOWN
    if placed.where == FILE:
        return VALID
    if file.hunks is None:
        return UNKNOWN
    line = placed.line or 0
    start = line if placed.start_line is None else placed.start_line
    side = "old" if placed.side == "LEFT" else "new"
    hunk = file.hunk_from(side, start)
    if hunk is None or start < max(1, hunk.span(side)[0]) or line > hunk.span(side)[1]:
        return INVALID
    # A range begins above its last line, on the same side.
    range_holds = start < line and placed.start_side == placed.side
    return VALID if placed.start_line is None or range_holds else INVALID


def without_invalid(placed: Iterable[PlacedFinding], diff: PatchDiff) -> list[PlacedFinding]:
    """``placed`` after a refusal: what is invalid by ``diff`` goes to the summary."""
    reason = "GitHub refused the comment, and its diff does not have this place"
    return [
        to_summary(finding, reason) if classify(finding, diff) == INVALID else finding
        for finding in placed
    ]
