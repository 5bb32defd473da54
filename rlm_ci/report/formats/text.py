"""The terminal's form. Every Git hook loads it, so it imports next to nothing."""

from __future__ import annotations

from rlm_ci.report import wording
from rlm_ci.report.findings import CLEAN, FINDINGS, Severity
from rlm_ci.text import neutralise
from rlm_ci.text.printable import first_of, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.report.findings import Document, Finding, Location, Part, RefutedClaim, Report
    from rlm_ci.report.proof import Proof
    from rlm_ci.report.render import RenderOptions

_RED, _GREEN, _YELLOW, _BLUE, _DIM, _BOLD = "31", "32", "33", "34", "2", "1"
_MARKS = {
    CLEAN: ("✓", _GREEN),
    FINDINGS: ("✗", _RED),
    wording.OFF: ("–", _DIM),
    wording.UNSEEN: ("–", _YELLOW),
    wording.NOTHING: ("–", _YELLOW),
}
_UNJUDGED = ("!", _YELLOW)
_SEVERITIES = {
    Severity.CRITICAL: _RED, Severity.HIGH: _RED, Severity.MEDIUM: _YELLOW, Severity.LOW: _BLUE,
}  # fmt: skip

#: Quoted lines of a finding with and without ``verbose``.
_QUOTED, _QUOTED_BRIEFLY = 40, 4
#: Characters of the line that a reproduction ends with.
_FAILING = 100
#: Places of an answer.
_PLACES = 12


def render(report: Report, options: RenderOptions) -> str:
    lines = list(_TextWriter(report, options).lines())
    return "".join(f"{neutralise.log(line)}\n" for line in lines)


class _TextWriter:
    def __init__(self, report: Report, options: RenderOptions) -> None:
        self._report = report
        self._options = options
        self._width = max(options.width, 40)

    def lines(self) -> Iterator[str]:
        if not self._options.has_cause and wording.has_one_cause(self._report):
            yield self._verdict()
            return
        report, quiet = self._report, self._options.quiet
        for document in report.documents:
            if document.shown and (wording.is_question(report) or not quiet):
                yield from self._document(document)
        for part in report.parts:
            if part.block is not None and part.verdict(report.fail_level) == FINDINGS:
                yield from (printable(line) for line in part.block.rstrip("\n").split("\n"))
                yield ""
                continue
            findings = wording.worst_first(part.findings)
            if quiet or not self._options.verbose:  # one line counts the others
                findings = [finding for finding in findings if finding.suppression is None]
            findings = [
                finding for finding in findings if not finding.is_argued or finding.suppression
            ]
            for finding, following in zip(findings, [*findings[1:], None], strict=False):
                yield from self._finding(finding, following)
        if not quiet:
            yield from self._argued()
        yield from self._parts(quiet=quiet)
        if not quiet:
            yield from self._refuted()
        if self._options.verbose:
            yield from self._omitted()
        yield from self._end(quiet=quiet)

    def _parts(self, *, quiet: bool) -> Iterator[str]:
        report = self._report
        parts = report.parts if self._options.verbose else wording.rows(report)
        names = max((_cells(printable(part.id)) for part in parts), default=0)
        above = ""
        for part in parts:
            result = wording.result(part, report.fail_level, cure=False)
            if ignored := wording.ignored(part.metrics):
                result = f"{result}; {ignored}"
            if not quiet or part.state is not None:
                again = part.state is not None and result == above
                text = f"{wording.LABELS.get(part.state or '', '')}, as above" if again else result
                yield from self._part(part, names, text)
                if (hint := wording.hint(part)) and not again:
                    # To be copied, so it is one line, however long.
                    yield f"{' ' * (names + 4)}→ {hint}"
            above = result

    def _end(self, *, quiet: bool) -> Iterator[str]:
        if not quiet:
            yield ""
            yield from self._advice()
            for part, way in wording.overrides(self._report):
                yield f"  {self._ink(f'to override {part}:', _DIM)} {way}"
            yield from self._wrap(wording.remarks(self._report, beside_line=True), "  ")
        # A result that is not applied is shown even if quiet.
        if not quiet or wording.tone(self._report) != self._report.verdict():
            yield self._verdict()

    def _document(self, document: Document) -> Iterator[str]:
        for line in document.text.strip().splitlines():
            if line.startswith("|"):  # a row of a table keeps its columns
                yield _fit(printable(line), self._width)
            else:
                yield from self._wrap(line, "") if line.strip() else ("",)
        places = document.evidence
        limit = len(places) if self._options.verbose else _PLACES
        if places:
            yield ""
        for number, location in enumerate(places[:limit]):
            yield f"{self._ink('also' if number else 'from', _DIM)} {wording.position(location)}"
            yield from self._quote(location)
        if len(places) > limit:
            yield self._ink(f"and {wording.count(len(places) - limit, 'more place')}", _DIM)
        yield ""

    def _finding(self, finding: Finding, following: Finding | None) -> Iterator[str]:
        location = finding.evidence[0] if finding.evidence else None
        where = wording.position(location) if location else wording.subject(self._report)
        label, colour = finding.severity.label, _SEVERITIES.get(finding.severity, _DIM)
        if finding.suppression is not None:
            label, colour = f"{label}, suppressed", _DIM
        elif finding.proof is not None:
            label = f"{label}, {finding.proof.level}"
        rule = printable(finding.rule)
        yield f"{self._ink(where, _BOLD)}  {self._ink(rule, _DIM)}  {self._ink(label, colour)}"
        yield from self._wrap(finding.message, "  ")
        if finding.proof is not None:
            yield from self._rests_on(finding.proof)
        yield from self._quote(location)
        if self._options.verbose:
            for other in finding.evidence[1:]:
                yield f"  {self._ink('also', _DIM)} {wording.position(other)}"
        if finding.suppression is not None:
            yield from self._wrap(finding.suppression, "  ", "because ")
        elif finding.hint and not (following and _same_hint(finding, following)):
            yield from self._wrap(finding.hint, "  ", "→ ")
        if finding.suppression is None:
            yield from self._proof(finding)
        yield ""

    def _argued(self) -> Iterator[str]:
        """What nothing shows that ran, in brief; nothing can be folded here."""
        _, argued = wording.parted(wording.worst_first(self._report.findings))
        if not argued:
            return
        yield self._ink(wording.argued(len(argued)), _BOLD)
        yield ""
        for finding in argued[: wording.ARGUED_SHOWN]:
            yield from self._finding(finding, None)

    def _refuted(self) -> Iterator[str]:
        refuted: Sequence[RefutedClaim] = self._report.refuted
        if not self._options.verbose:  # one line counts the others
            refuted = wording.refuted_high(self._report)[: wording.ARGUED_SHOWN]
        if refuted:
            yield ""
            yield f"{wording.count(len(self._report.refuted), 'claim')} refuted:"
        for claim in refuted:
            where = (
                f"{wording.position(claim.finding.evidence[0])}: " if claim.finding.evidence else ""
            )
            yield from self._wrap(f"{where}{claim.finding.message} ({claim.reason})", "  ")

    def _proof(self, finding: Finding) -> Iterator[str]:
        """What proves it, and what to write instead."""
        proof = finding.proof
        repair = proof.repair if proof else ""
        if proof is not None:
            yield from self._reproduction(proof)
        if finding.suggested_fix and not repair:
            from rlm_ci.report.details import fixes_and_proofs  # no hook has one

            for is_code, piece in fixes_and_proofs.pieces(finding.suggested_fix):
                if is_code:
                    yield f"  {self._ink('Suggested:', _DIM)}"
                yield from self._code(piece) if is_code else self._wrap(piece, "  ", "→ ")
        reason = proof.repair_reason if proof else ""
        if repair:
            shown_reason = reason or "the reproduction passes with it"
            yield from self._wrap(f"Repair, which was run: {shown_reason}", "  ")
            yield from self._code(repair)
        elif reason:
            yield from self._wrap(f"No repair: {reason}", "  ")

    def _rests_on(self, proof: Proof) -> Iterator[str]:
        """In a line, how it failed and what runs it again, or else why it is not shown."""
        level = proof.level.title()
        command = "" if proof.is_argued else wording.proof_command(self._report, proof)
        if not command or self._options.verbose:
            yield from self._wrap(f"{level}: {proof.reason}", "  ")
        if not command:
            return
        if command != proof.command and (repository := self._options.repository):
            from shlex import quote  # most users stand in the repository

            command = f"{command} -C {quote(repository)}"
        last = printable(neutralise.clip(proof.failing_line or proof.reason, _FAILING))
        # To be copied, so it is one line, however long.
        yield f"  {level}: {last} · {self._ink('To run it:', _DIM)} {command}"

    def _reproduction(self, proof: Proof) -> Iterator[str]:
        if proof.is_argued or not self._options.verbose:
            return
        if proof.path:
            yield f"  {self._ink('The file is in the run, in', _DIM)} {printable(proof.path)}"
        for title, text in _outputs(proof):
            yield f"  {self._ink(title, _DIM)}"
            yield from self._code(text)

    def _code(self, text: str) -> Iterator[str]:
        lines = neutralise.code_lines(text.rstrip("\n")).split("\n")
        for line in lines[:_QUOTED]:
            yield f"    {self._ink('│', _DIM)} {line.expandtabs(4)}".rstrip()
        if len(lines) > _QUOTED:
            yield f"    {self._ink(f'│ … {len(lines) - _QUOTED} more', _DIM)}"

    def _quote(self, location: Location | None) -> Iterator[str]:
        if location is None or location.quote is None or location.line_start is None:
            return
        quoted = location.quote.rstrip("\n").split("\n")
        limit = _QUOTED if self._options.verbose else _QUOTED_BRIEFLY
        digits = len(str(location.line_start + len(quoted) - 1))
        room = self._width - digits - 7
        for number, line in enumerate(quoted[:limit], location.line_start):
            shown = _fit(printable(line.rstrip("\r").expandtabs(4)), room)
            gutter = self._ink(f"{number:>{digits}} │", _DIM)
            yield f"    {gutter} {shown}".rstrip()
        if len(quoted) > limit:
            yield self._ink(f"    {'':>{digits}} │ … {len(quoted) - limit} more", _DIM)

    def _part(self, part: Part, names: int, result: str) -> Iterator[str]:
        state = wording.state(part, self._report.fail_level)
        mark, colour = _MARKS.get(state, _UNJUDGED)
        name = printable(part.id)
        head = f"{mark} {name}{' ' * (names - _cells(name))}  "
        wrapped = list(self._wrap(result, " " * (names + 4)))
        first = wrapped[0].lstrip() if wrapped else ""
        inked = f"{self._ink(mark, colour)}{head[1:]}"
        if state == wording.OFF:
            inked, first = self._ink(head, _DIM), self._ink(first, _DIM)
        yield f"{inked}{first}".rstrip()
        yield from wrapped[1:]

    def _omitted(self) -> Iterator[str]:
        omitted = self._report.coverage.omitted
        if omitted:
            yield ""
            yield f"Not looked at: {wording.count(len(omitted), 'file')}"
        for path, others, reason in wording.gathered(omitted):
            yield from self._wrap(f"{printable(path)}{others}: {reason}", "  ")

    def _advice(self) -> Iterator[str]:
        advice = wording.advice(self._report)
        if advice is None:
            return
        sentence, lines = advice
        yield from self._wrap(sentence.replace("`", ""), "  ")
        yield from (f"    {self._ink(line, _DIM)}" for line in lines.splitlines())
        yield ""

    def _verdict(self) -> str:
        mark, colour = _MARKS.get(wording.tone(self._report), _UNJUDGED)
        headline = printable(
            wording.not_applied(self._report) or wording.verdict_line(self._report)
        )
        if headline.startswith("Done, with "):
            doubts = wording.suspicious(self._report)
            places = [location for finding in doubts for location in finding.evidence[:1]]
            spots = [f"{location.path}:{location.line_start or 1}" for location in places]
            headline += f": {first_of(spots, 'place')}" if spots else ""
        return self._ink(f"{mark} {headline}", _BOLD, colour)

    def _wrap(self, text: str, indent: str, lead: str = "") -> Iterator[str]:
        """``text`` within the width; ``lead`` begins its first line.

        What is between backticks may be a command, so it stays on one line, however long.
        """
        hanging = indent + " " * len(lead)
        line, used = "", 0
        room = self._width - len(hanging)
        before = indent + lead
        for word in _words(neutralise.one_line(text)):
            cells = _cells(word)
            if line and used + 1 + cells > room:
                yield before + line
                before, line, used = hanging, word, cells
            else:
                used += cells + (1 if line else 0)
                line = f"{line} {word}" if line else word
        if line:
            yield before + line

    def _ink(self, text: str, *codes: str) -> str:
        return f"\x1b[{';'.join(codes)}m{text}\x1b[0m" if self._options.colour else text


def _outputs(proof: Proof) -> list[tuple[str, str]]:
    texts = (
        ("Reproduction:", proof.reproduction), ("Here:", proof.head), ("At the base:", proof.base)
    )  # fmt: skip
    return [(title, text) for title, text in texts if text.strip()]


def _same_hint(finding: Finding, following: Finding) -> bool:
    """Whether the next finding, of the same check, shows the same hint."""
    checks = {member.rule.partition("/")[0] for member in (finding, following)}
    same = finding.hint == following.hint and len(checks) == 1
    return same and following.suppression is None


def _words(text: str) -> list[str]:
    """``text`` at its blanks, but for those between backticks."""
    if "`" not in text:
        return text.split(" ")
    words = [""]
    for is_code, piece in neutralise.segments(text):
        first, *more = [f"`{piece}`"] if is_code else piece.split(" ")
        words[-1] += first
        words += more
    return words


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    widths = (0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)
    return sum(widths)


def _fit(text: str, room: int) -> str:
    if _cells(text) <= room:
        return text
    if text.isascii():
        return f"{text[: room - 1]}…"
    shown, used = [], 1
    for char in text:
        used += _cells(char)
        if used > room:
            break
        shown.append(char)
    return "".join(shown) + "…"
