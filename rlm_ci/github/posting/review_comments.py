"""Review comments: where a finding goes, how it is worded; what is new is posted in one review.

GitHub refuses a whole review for one comment outside of the diff, so every place is checked against
the hunks first. No finding is dropped; one that is not inline has the reason.
"""

from __future__ import annotations

from rlm_ci.github.api.errors import GitHubRefusedError
from rlm_ci.github.posting import review_threads
from rlm_ci.github.posting.outcome import CommentLimits
from rlm_ci.github.posting.review_threads import NOWHERE, CommentOrigin, marker, read_marker
from rlm_ci.report import wording
from rlm_ci.report.details import claim_mark, fixes_and_proofs
from rlm_ci.report.details.fixes_and_proofs import ProofLimits, fix_of, proof_of
from rlm_ci.report.findings import Severity
from rlm_ci.report.formats.markdown import ROOM, MarkdownSurface
from rlm_ci.report.links import Links
from rlm_ci.report.render import RenderOptions
from rlm_ci.report.view import SEVERITY_ICONS
from rlm_ci.resources import loader
from rlm_ci.text import neutralise
from rlm_ci.text.printable import count, encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from rlm_ci.git.patches import FileDiff, Hunk, PatchDiff
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.review_threads import ReviewThread
    from rlm_ci.report.findings import Finding, Location, Subject


#: Lines that a suggestion may replace.
_MOST = 40


class _Edits:
    """What a patch does to the lines of a file: which go, and what comes behind which."""

    def __init__(self, hunks: tuple[Hunk, ...]) -> None:
        self.gone: dict[int, str] = {}
        self.added: dict[int, list[str]] = {}
        for hunk in hunks:
            at = hunk.old_start - (1 if hunk.old_count else 0)
            for line in hunk.lines:
                if line.kind == "+":
                    self.added.setdefault(at, []).append(line.text)
                    continue
                at += 1
                if line.kind == "-":
                    self.gone[at] = line.text

    def applied(self, first: int, texts: list[str]) -> str:
        """The lines ``texts``, of which the first is number ``first``, once they are edited."""
        lines = list(self.added.get(first - 1, ()))
        for number, text in enumerate(texts, first):
            lines += [] if number in self.gone else [text]
            lines += self.added.get(number, ())
        return "".join(f"{line}\n" for line in lines)


def replaced(
    patch: str, path: str, hunk: Hunk, span: tuple[int, int]
) -> tuple[int, int, str] | None:
    """The first and the last line to replace, and the text for them; None if it cannot be.

    The lines are those of ``span`` and all that ``patch`` edits; ``hunk``, of the diff of
    ``path``, must have all of them on its new side, as the patch knows them.
    """
    from rlm_ci.git import patches  # a report without a repair needs no parser

    try:
        edited = patches.hunks_by_path(patch)
    except ValueError:
        return None
    if list(edited) != [path]:
        return None
    edits = _Edits(edited[path])
    low, high = hunk.span("new")
    # What is added behind a line goes with it; at the top of a file, with the first one.
    touched = [*edits.gone, *(max(at, 1) for at in edits.added)]
    first, last = min((*touched, span[0])), max((*touched, span[1]))
    if not touched or not low <= first <= last <= high or last - first >= _MOST:
        return None
    texts = [line.removesuffix("\r") for line in hunk.texts("new", first, last)]
    if any(texts[at - first] != text.removesuffix("\r") for at, text in edits.gone.items()):
        return None
    return first, last, edits.applied(first, texts)


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


def place_findings(
    findings: Sequence[Finding],
    diff: PatchDiff,
    *,
    caps: CommentLimits | None = None,
) -> list[PlacedFinding]:
    """One place for each finding, in the order given.

    Suppressed findings and those of severity ``info`` go to the summary. The worst findings count
    first for ``caps``.
    """
    placed = [_place_finding(finding, diff) for finding in findings]
    return _capped(placed, caps or CommentLimits())


def _place_finding(finding: Finding, diff: PatchDiff) -> PlacedFinding:
    def summary(reason: str) -> PlacedFinding:
        return PlacedFinding(finding, SUMMARY, reason)

    if finding.suppression is not None:
        return summary("it is suppressed")
    if finding.is_argued:
        return summary("nothing that ran shows it")
    if finding.severity < Severity.LOW:
        return summary(f"its severity is {finding.severity.label}, less than low")
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
        text = fixes_and_proofs.replacement(finding.suggested_fix)
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
    if text is None or finding.evidence[0].side != "new" or not fixes_and_proofs.is_plain(text):
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


#: The status with which GitHub refuses the content of a request.
_UNFIT = 422

Marked = tuple["PlacedFinding", str]


class ReviewComments(Value):
    """The review comments of one run on ``head``; ``path`` is the pull request's in the API.

    ``real_diff`` reads its files from GitHub, ``look`` our threads.
    """

    client: GitHubClient
    path: str
    head: str
    remarks: CommentTexts
    real_diff: Callable[[], PatchDiff]
    look: Callable[[], Sequence[ReviewThread]]

    def post(self, placed: Sequence[Marked], threads: Sequence[ReviewThread]) -> list[Marked]:
        """Comment on what is new; returns all of ``placed``, as it is on GitHub in the end.

        A thread that somebody else resolved is an answer: its finding is not raised again. One that
        we resolved was gone, and comes back. Raises RemoteError.
        """
        before = {thread.id for thread in threads}
        marks = {thread.fingerprint for thread in threads if not thread.resolved or thread.closed}
        new = [pair for pair in placed if pair[0].where == INLINE and pair[1] not in marks]
        result = {mark: finding for finding, mark in placed}
        result.update((mark, finding) for finding, mark in self._inline(new, before))
        for finding, mark in placed:
            if finding.where == FILE and mark not in marks:
                result[mark] = self._on_file(finding, mark, before)
        return [(placed_finding, mark) for mark, placed_finding in result.items()]

    def _inline(self, new: list[Marked], before: set[str]) -> list[Marked]:
        """Send the batch; after a refusal without proven errors, then without unproven places."""
        if not new:
            return []
        try:
            self._send(new, before)
            return new
        except GitHubRefusedError as refused:
            if refused.status != _UNFIT:
                raise
            reason = f"GitHub refused it: {'; '.join(refused.reasons) or 'no reason given'}"
        diff = self.real_diff()
        findings = without_invalid([finding for finding, _ in new], diff)
        marked = [(finding, mark) for finding, (_, mark) in zip(findings, new, strict=True)]
        sent, posted = len(new), set[str]()
        inline = [pair for pair in marked if pair[0].where == INLINE]
        for batch in (inline, [pair for pair in inline if classify(pair[0], diff) == VALID]):
            if not batch or len(batch) == sent:
                continue
            sent = len(batch)
            try:
                self._send(batch, before)
            except GitHubRefusedError as refused:
                if refused.status != _UNFIT:
                    raise
                continue
            posted = {mark for _, mark in batch}
            reason = "GitHub refused the comment, and gives no diff that explains it"
            break
        return [
            (
                finding
                if mark in posted or finding.where == SUMMARY
                else to_summary(finding, reason),
                mark,
            )
            for finding, mark in marked
        ]

    def _send(self, batch: Sequence[Marked], before: set[str]) -> None:
        comments = [self._comment(finding, mark) for finding, mark in batch]
        body = {
            "commit_id": self.head,
            "event": "COMMENT",
            "body": f"{count(len(batch), 'finding')} beside the lines; the summary has all.",
            "comments": comments,
        }
        marks = {mark for _, mark in batch}
        path = f"{self.path}/reviews"
        self.client.write("POST", path, body, done=lambda: self._posted(marks, before))

    def _posted(self, marks: set[str], before: set[str]) -> dict[str, Any] | None:
        """A review is posted whole or not at all: one of its comments is proof of all."""
        # A closed thread that was there before may have the same mark.
        new = (thread for thread in self.look() if thread.id not in before)
        return {} if any(thread.fingerprint in marks for thread in new) else None

    def _comment(self, finding: PlacedFinding, mark: str) -> dict[str, Any]:
        body = self.remarks.body(finding, mark)
        record = {"path": finding.path, "line": finding.line, "side": finding.side, "body": body}
        if finding.start_line is not None:
            record |= {"start_line": finding.start_line, "start_side": finding.start_side}
        return record

    def _on_file(self, finding: PlacedFinding, mark: str, before: set[str]) -> PlacedFinding:
        """Post a comment on the file as a whole, which cannot be part of a review."""
        record = {
            "commit_id": self.head,
            "path": finding.path,
            "subject_type": "file",
            "body": self.remarks.body(finding, mark),
        }
        self.client.more()
        try:
            self.client.write(
                "POST", f"{self.path}/comments", record, done=lambda: self._posted({mark}, before)
            )
        except GitHubRefusedError as refused:
            if refused.status != _UNFIT:
                raise
            return to_summary(finding, f"{finding.reason}; GitHub refused a comment on the file")
        return finding

    def close_gone(
        self, threads: Sequence[ReviewThread], present: set[str], checks: set[str], name: str
    ) -> None:
        """Close our threads whose finding is gone, unless a person answered.

        Those of another check than ``checks``, or of a run with another name, stay.
        """
        gone = [
            thread
            for thread in threads
            if not thread.resolved and not thread.answered and thread.fingerprint not in present
            if thread.origin.check in checks and thread.origin.name in ("", name)
        ]
        review_threads.close(self.client, gone)


_TEMPLATE = "review.md.j2"
#: Further places of a finding that a comment names.
_PLACES = 5

#: Lines of an output.
_OUTPUT_LINES = 20
#: Characters that each text may take before it is made harmless, which can make it longer.
_LENGTHS = (4000, 1000, 100)

_CUT = "This finding is too long for a comment: `report.json` and `report.html` have it."


class CommentTexts:
    """Writes the comments about one report. Raises ConfigError for a bad ``server_url``
    or an override of ``review.md.j2`` that cannot be used.
    """

    def __init__(
        self,
        subject: Subject,
        options: RenderOptions | None = None,
        origin: CommentOrigin = NOWHERE,
    ) -> None:
        options = options or RenderOptions()
        self._origin = origin
        self._links = Links(subject, options)
        self._template = loader.load_template(_TEMPLATE, overrides=options.templates)
        self._surface = MarkdownSurface()

    def body(self, placed: PlacedFinding, fingerprint: str) -> str:
        """The Markdown of one comment, short enough for GitHub; its first line is the marker.

        Raises ValueError for a fingerprint that is not 32 hex digits.
        """
        origin = self._origin
        if origin.base:
            check = placed.finding.rule.partition("/")[0]
            origin = origin.replace(check=check, claim=claim_mark.of(placed.finding))
        first = marker(fingerprint, origin)
        if read_marker(first) != fingerprint:
            raise ValueError("a fingerprint is 32 hex digits")
        for length in _LENGTHS:
            text = self._template(self._view(placed, length)).strip("\n")
            body = f"{first}\n{neutralise.document(text)}\n"
            if ROOM.has(body):
                return body
        return f"{first}\n{_CUT}\n"

    def _view(self, placed: PlacedFinding, length: int) -> dict[str, Any]:
        """The variables of the template; a project that overrides it may rely on them."""
        finding = placed.finding
        spot = finding.evidence[0] if finding.evidence else None
        more = finding.evidence[1 : 1 + _PLACES]
        # A shortened block would be another change.
        offered = placed.suggestion is not None and length > _LENGTHS[-1]
        proof = proof_of(finding, self._surface, ProofLimits(length, _OUTPUT_LINES))
        if proof and placed.is_run and offered:
            proof["repair"] = proof["left_out"] = None  # the suggestion is it
        return {
            "severity": finding.severity.label,
            "severity_icons": SEVERITY_ICONS,
            "rule": self._surface.link(
                neutralise.clip(finding.rule, 120), self._links.rule(finding)
            ),
            "source": None if finding.source == "check" else self._code(finding.source),
            "message": self._text(finding.message, length),
            "hint": self._surface.hint(neutralise.clip(finding.hint, length))
            if finding.hint
            else None,
            "suggestion": fixes_and_proofs.block(placed.suggestion or "") if offered else None,
            "is_run": placed.is_run,
            "fix": fix_of(finding, self._surface, length, length),
            "proof": proof,
            "reason": self._text(placed.reason, length),
            "lines": wording.spoken_lines(spot) if spot else "",
            "url": self._links.address_of(spot) if spot else None,
            "removed": bool(spot and spot.side == "old"),
            "places": [self._location(location) for location in more],
            "places_more": max(0, len(finding.evidence) - 1 - len(more)),
        }

    def _code(self, name: str) -> str:
        return self._surface.code(neutralise.clip(name, 120))

    def _text(self, text: str, length: int) -> str:
        return self._surface.text(neutralise.clip(text, length))

    def _location(self, location: Location) -> dict[str, Any]:
        lines = wording.lines(location)
        path = f"{location.path}:{lines}" if lines else location.path
        return {"path": self._surface.code(path), "url": self._links.address_of(location)}
