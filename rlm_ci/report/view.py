"""The report as a template sees it: plain dicts of neutralised texts, within limits.

A template never gets the report itself, so it cannot print a text from outside that is not
neutralised. Templates of a project may rely on the keys of :meth:`View.build`.
"""

from __future__ import annotations

import re

from rlm_ci import __version__
from rlm_ci.report import wording
from rlm_ci.report.details.by_rule import FindingsByRule
from rlm_ci.report.details.document_blocks import blocks
from rlm_ci.report.details.fixes_and_proofs import ProofLimits, fix_of, proof_of
from rlm_ci.report.findings import CLEAN, FINDINGS, INCOMPLETE, NOT_RUN, OLD
from rlm_ci.report.links import Links
from rlm_ci.report.proof import REFUTED, Proof
from rlm_ci.text import neutralise
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rlm_ci.report.findings import Document, Finding, Location, Part, Report
    from rlm_ci.report.links import Surface
    from rlm_ci.report.render import RenderOptions


EVERYTHING = 10**9
#: When a run began, at the beginning of its id.
_RUN_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-\d\dZ-")
#: Rules that are named beside a hint that they share.
_RULES = 5
#: Hints of findings that are not shown.
_UNSHOWN = 10
#: Lines of what was printed for a refuted claim, with which a person judges it.
_REFUTED_LINES = 12
#: Characters of a message in a list of findings of one rule.
_ROW_TEXT = 200
#: Characters of a path in a pattern.
_PATTERN = 200


class ViewLimits(Value):
    """How much of a report is shown: ``text`` in characters, the others in items.

    ``repairs`` counts patches, and ``runs`` reproductions with what they printed.
    Findings beyond ``opened`` are folded away. Those of one rule that nothing proves become a list
    if they are more than ``alike``, with ``rows`` of each rule.
    """

    findings: int = EVERYTHING
    opened: int = EVERYTHING
    alike: int = EVERYTHING
    rows: int = EVERYTHING
    suppressed: int = EVERYTHING
    old: int = 0
    refuted: int = 0
    claims: int = 100
    places: int = EVERYTHING
    quote_lines: int = EVERYTHING
    hints: int = EVERYTHING
    omitted: int = EVERYTHING
    parts: int = EVERYTHING
    overview: int = EVERYTHING
    overrides: bool = True
    text: int = EVERYTHING
    repairs: int = EVERYTHING
    runs: int = EVERYTHING


#: What a browser can open: some four megabytes.
PAGE = ViewLimits(
    findings=5_000, suppressed=1_000, old=1_000, refuted=100, omitted=5_000, overview=500
)


class View:
    """Makes views of one report for one surface."""

    def __init__(
        self, report: Report, surface: Surface, options: RenderOptions, parts: Sequence[Part]
    ) -> None:
        """``parts`` are those of the report that are listed."""
        self._report = report
        self._parts = parts
        self._surface = surface
        self._links = Links(report.subject, options)
        self._time = options.time
        findings = wording.worst_first(report.findings)
        self.live, self.argued = wording.parted(findings)
        self.old = [finding for finding in findings if finding.suppression in OLD]
        self.suppressed = [
            finding
            for finding in findings
            if finding.suppression is not None and finding.suppression not in OLD
        ]
        self._old_claims = [claim for claim in self.old if claim.proof is not None]
        #: Those that have a repair, and those of which something ran, the worst first.
        self._repaired = [id(claim) for claim in self.live if claim.proof and claim.proof.repair]
        #: The severe refuted claims with what was run, for a person to judge.
        self._refuted_high = [
            claim.finding.replace(
                proof=(claim.finding.proof or Proof(REFUTED, "")).replace(
                    level=REFUTED, reason=claim.reason
                )
            )
            for claim in wording.refuted_high(report)[: wording.ARGUED_SHOWN]
        ]
        claims = (*self.live, *self.argued[: wording.ARGUED_SHOWN], *self._refuted_high)
        self._run = [id(claim) for claim in claims if claim.proof and claim.proof.reproduction]
        self._by_rule = FindingsByRule(self.live)
        #: Each hint, with how many findings of each rule it is for.
        self._fixes: dict[str, dict[str, int]] = {}
        #: Where each rule is explained.
        self._pages: dict[str, str | None] = {}
        for finding in self.live:
            if finding.hint:
                rules = self._fixes.setdefault(finding.hint, {})
                rules[finding.rule] = rules.get(finding.rule, 0) + 1
                if finding.rule not in self._pages:
                    self._pages[finding.rule] = self._links.rule(finding)

    @property
    def repairs(self) -> int:
        """How many findings have one."""
        return len(self._repaired)

    @property
    def runs(self) -> int:
        """Of how many findings a reproduction is shown, if there is room."""
        return len(self._run)

    @property
    def claims_with_runs(self) -> int:
        """How many claims a comment shows in full, if something was run for one of them."""
        claims = [
            *(finding for finding in self.live if finding.proof),
            *self.argued[: wording.ARGUED_SHOWN],
            *self._refuted_high,
        ]
        return (
            len(claims) if any(claim.proof and claim.proof.reproduction for claim in claims) else 0
        )

    def build(self, limits: ViewLimits) -> dict[str, Any]:
        """The variables of a template."""
        report = self._report
        alike = self._alike(limits)
        listed = {id(member) for members in alike for member in members}
        live = [finding for finding in self.live[: limits.findings] if id(finding) not in listed]
        suppressed = self.suppressed[: limits.suppressed]
        verdict, models = report.verdict(), wording.spent(report.usage)
        return {
            "verdict": verdict,
            "tone": wording.tone(report),
            "headline": self.headline(),
            "remarks": self._surface.text(neutralise.clip(wording.remarks(report), 1000)),
            "tool": f"rlm-ci {__version__}",
            "title": self._text(report.title, limits),
            "fail_level": report.fail_level.label,
            "subject": self._subject(),
            "run_id": self._surface.code(report.run_id) if report.run_id else None,
            "models": self._surface.text(models) if models else None,
            "name": self._surface.code(self._report.name) if self._report.name else None,
            "overview": self._overview(limits),
            "documents": [
                self._document(document, limits) for document in report.documents if document.shown
            ],
            "parts": [self._part(part, limits) for part in self._parts[: limits.parts]],
            "by_rule": self._by_rule.view(self._surface),
            "groups": self._groups(live[: limits.opened], limits),
            "alike": [self._list(members, limits) for members in alike],
            "alike_count": f"{wording.count(len(listed), 'finding')} by rule",
            "folded": self._groups(live[limits.opened :], limits, brief=True),
            "folded_count": wording.count(len(live[limits.opened :]), "more finding"),
            "argued": self._groups(self.argued[: wording.ARGUED_SHOWN], limits),
            "argued_briefly": [
                self._brief(finding, limits)
                for finding in self.argued[wording.ARGUED_SHOWN : limits.claims]
            ],
            "argued_told": wording.argued(len(self.argued)),
            "refuted": self._refuted(limits),
            "refuted_high": self._groups(
                self._refuted_high,
                limits.replace(quote_lines=max(limits.quote_lines, _REFUTED_LINES)),
            ),
            "refuted_briefly": self._refuted_briefly(limits),
            "refuted_count": wording.count(len(report.refuted), "refuted claim"),
            "old_claims": [
                self._brief(old_claim, limits) for old_claim in self._old_claims[: limits.claims]
            ],
            "old_claims_count": wording.count(len(self._old_claims), "claim"),
            "suppressed": self._groups(suppressed, limits),
            "suppressed_count": wording.count(len(self.suppressed), "suppressed finding"),
            "old": self._groups(self.old[: limits.old], limits),
            "old_count": wording.count(len(self.old), "finding"),
            "hints": self._hints(limits),
            "advice": self._advice(),
            "unseen": self._unseen(limits),
            "overrides": self._overrides() if limits.overrides else None,
            "shed": self._shed(limits),
            "page_is_whole": not self._shed(PAGE),
            "totals": {
                "findings": len(report.findings),
                "failing": len(report.failing()),
                "suppressed": len(self.suppressed),
                "old": len(self.old),
            },
        }

    def headline(self) -> Any:
        return self._surface.text(neutralise.clip(wording.headline(self._report), 300))

    def _text(self, text: str, limits: ViewLimits) -> Any:
        return self._surface.text(neutralise.clip(text, limits.text))

    def _hint(self, text: str, limits: ViewLimits) -> Any:
        return self._surface.hint(neutralise.clip(text, limits.text))

    def _subject(self) -> dict[str, Any]:
        subject = self._report.subject
        commits = {}
        for name in ("base", "merge_base", "head"):
            sha = getattr(subject, name)
            short = None if sha is None else self._surface.code(sha[:12])
            commits[name] = {"short": short, "url": self._links.commit(sha)}
        run = _RUN_TIME.match(self._report.run_id or "")
        time = f"{run[1]} {run[2]}:{run[3]} UTC" if run else self._time
        return {
            "time": time or None,
            "repository": self._surface.code(subject.repository) if subject.repository else None,
            "url": self._links.repository,
            "pull_request": subject.pull_request,
            "pull_request_url": self._links.pull_request(subject.pull_request),
            "worktree": subject.worktree,
            **commits,
        }

    def _overview(self, limits: ViewLimits) -> dict[str, Any] | None:
        if self._report.overview is None:
            return None
        from rlm_ci.report.overview.shown import OverviewView

        view = OverviewView(self._report.overview, self._surface, self._links)
        return view.build(limits.overview)

    def _part(self, part: Part, limits: ViewLimits) -> dict[str, Any]:
        fail_level = self._report.fail_level
        state = wording.state(part, fail_level)
        summary = neutralise.clip(wording.result(part, fail_level), limits.text)
        return {
            "id": self._surface.code(neutralise.clip(part.id, 80)),
            "state": state,
            "label": wording.LABELS.get(state, state),
            "result": self._surface.cell(summary),
            "summary": self._surface.cell(
                neutralise.clip(part.summary.removeprefix(f"{state}: "), limits.text)
            ),
            "findings": len(part.findings),
        }

    def _document(self, document: Document, limits: ViewLimits) -> dict[str, Any]:
        text = neutralise.clip(document.text, limits.text)
        places = document.evidence[: limits.places]
        return {
            "lines": [self._surface.text(line) for line in text.strip().splitlines()],
            "blocks": [
                {
                    "lines": [self._surface.text(line) for line in lines],
                    "rows": [[self._surface.cell(cell) for cell in row] for row in rows],
                }
                for lines, rows in blocks(text)
            ],
            "places": [self._location(location) for location in places],
            "places_more": len(document.evidence) - len(places),
        }

    def _groups(
        self, findings: Sequence[Finding], limits: ViewLimits, *, brief: bool = False
    ) -> list[dict[str, Any]]:
        """The findings by file, in the order in which the files come up.

        ``brief`` leaves out the link to a file whose findings all link to lines of it.
        """
        groups: dict[tuple[str, str] | None, list[Finding]] = {}
        for finding in findings:
            places = finding.evidence[:1]
            key = (places[0].path, places[0].side) if places else None
            groups.setdefault(key, []).append(finding)
        views = []
        subject = wording.subject(self._report)
        for members in groups.values():
            location = members[0].evidence[0] if members[0].evidence else None
            linked = brief and all(member.evidence[0].line_start for member in members if location)
            views.append({
                "path": self._surface.code(location.path) if location else None,
                "url": self._links.file(location) if location and not linked else None,
                "about": subject[0].upper() + subject[1:],
                "removed": bool(location and location.side == "old"),
                "findings": [self._finding(member, limits) for member in members],
            })  # fmt: skip
        return views

    def _alike(self, limits: ViewLimits) -> list[list[Finding]]:
        """The findings that are listed, by severity and rule."""
        rules: dict[tuple[int, str], list[Finding]] = {}
        for finding in self.live[: limits.findings]:
            if finding.proof is None:
                rules.setdefault((finding.severity, finding.rule), []).append(finding)
        return [members for members in rules.values() if len(members) > limits.alike]

    def _list(self, findings: Sequence[Finding], limits: ViewLimits) -> dict[str, Any]:
        rows = limits.replace(text=min(limits.text, _ROW_TEXT))
        return {
            "severity": findings[0].severity.label,
            "fails": findings[0].fails(self._report.fail_level),
            "rule": self._surface.code(neutralise.clip(findings[0].rule, 120)),
            "count": wording.count(len(findings), "finding"),
            "rows": [self._brief(finding, rows) for finding in findings[: limits.rows]],
            "more": f"{left:,} more" if (left := len(findings) - limits.rows) > 0 else None,
        }

    def _finding(self, finding: Finding, limits: ViewLimits) -> dict[str, Any]:
        places = finding.evidence[: max(1, limits.places)]
        quote = None
        if places and places[0].quote is not None and limits.quote_lines:
            quote = self._surface.quote(places[0], limits.quote_lines)
        suppression = finding.suppression
        code = limits.text if limits.quote_lines else 0  # shed with the quotes
        has_repair = id(finding) not in self._repaired[limits.repairs :]
        has_runs = id(finding) not in self._run[limits.runs :]
        proof_limits = ProofLimits(2 * limits.text, limits.quote_lines, has_repair, has_runs)
        alone = wording.proof_command(self._report, finding.proof) if finding.proof else ""
        return {
            "rule": self._surface.code(neutralise.clip(finding.rule, 120)),
            "rule_url": self._links.rule(finding),
            "rule_number": self._by_rule.number(finding.rule),
            "severity": finding.severity.label,
            "fails": finding.fails(self._report.fail_level),
            "message": self._text(finding.message, limits),
            "hint": self._hint(finding.hint, limits) if finding.hint else None,
            "fix": fix_of(finding, self._surface, limits.text, code),
            "proof": proof_of(finding, self._surface, proof_limits, alone),
            "suppression": None if suppression is None else self._text(suppression, limits),
            "source": None if finding.source == "check" else self._surface.code(finding.source),
            "lines": wording.spoken_lines(places[0]) if places else "",
            "url": self._links.address_of(places[0]) if places else None,
            "place": self._location(places[0]) if places else None,
            "quote": quote,
            "places": [self._location(location) for location in places[1:]],
            "places_more": len(finding.evidence) - len(places),
        }

    def _refuted(self, limits: ViewLimits) -> list[dict[str, Any]]:
        return [
            self._brief(claim.finding, limits, claim.reason)
            for claim in self._report.refuted[: limits.refuted]
        ]

    def _refuted_briefly(self, limits: ViewLimits) -> list[dict[str, Any]]:
        """The refuted claims that are not shown with what was run."""
        shown = wording.refuted_high(self._report)[: wording.ARGUED_SHOWN]
        others = [claim for claim in self._report.refuted if claim not in shown]
        return [self._brief(case.finding, limits, case.reason) for case in others[: limits.claims]]

    def _brief(self, finding: Finding, limits: ViewLimits, reason: str = "") -> dict[str, Any]:
        """A claim in a line."""
        return {
            "severity": finding.severity.label,
            "place": self._location(finding.evidence[0]) if finding.evidence else None,
            "message": self._text(finding.message, limits),
            "reason": self._text(reason, limits),
        }

    def _location(self, location: Location) -> dict[str, Any]:
        lines = wording.lines(location)
        path = f"{location.path}:{lines}" if lines else location.path
        return {"path": self._surface.code(path), "url": self._links.address_of(location)}

    def _hints(self, limits: ViewLimits) -> list[dict[str, Any]]:
        """Each hint once, with its rules and the number of its findings."""
        return [
            {
                "rules": [
                    self._surface.link(neutralise.clip(rule, 120), self._pages[rule])
                    for rule in list(rules)[:_RULES]
                ],
                "rules_more": max(0, len(rules) - _RULES),
                "hint": self._hint(hint, limits),
                "count": (number := sum(rules.values())),
                "times": wording.count(number, "time") if number > len(rules) else None,
            }
            for hint, rules in list(self._fixes.items())[: self._hinted(limits)]
        ]

    def _hinted(self, limits: ViewLimits) -> int:
        # Hints are in the order of the findings.
        shown = {finding.hint for finding in self.live[: limits.findings] if finding.hint}
        return min(len(self._fixes), limits.hints, len(shown) + _UNSHOWN)

    def _unseen(self, limits: ViewLimits) -> dict[str, Any]:
        """What was ignored, left out, not run or off."""
        report = self._report
        counts = []
        for part in report.parts:
            binary = wording.amount(part.metrics, "binary_files")
            notes = [wording.ignored(part.metrics)]
            if binary:
                notes.append(f"{wording.count(binary, 'binary file')}, counted without lines")
            text = "; ".join(filter(None, notes))
            if text:
                counts.append({"id": self._surface.code(part.id), "text": text})
        parts = [
            {"id": self._surface.code(neutralise.clip(part.id, 80)),
             "text": self._text(wording.result(part, report.fail_level), limits)}
            for part in self._parts[: limits.parts]
            if part.state is not None or not part.enabled
        ]  # fmt: skip
        gathered = wording.gathered(report.coverage.omitted)
        omitted = [
            {"path": self._surface.code(path), "others": others,
             "reason": self._text(reason, limits)}
            for path, others, reason in gathered[: limits.omitted]
        ]  # fmt: skip
        more = len(gathered) - len(omitted)
        return {
            "counts": counts[: limits.parts], "parts": parts, "omitted": omitted,
            "more": wording.count(more, "more file") if more else None,
            "any": bool(counts or parts or omitted or more),
        }  # fmt: skip

    def _advice(self) -> dict[str, Any] | None:
        advice = wording.advice(self._report)
        if advice is None:
            return None
        text, lines = advice
        example = self._surface.block(lines, "toml") if lines else None
        return {"text": self._surface.text(text), "example": example}

    def _overrides(self) -> dict[str, Any] | None:
        """How to accept the failing findings; None when nothing fails."""
        every, locked = self._report.failing(), (wording.TAMPER, wording.BENCH)
        failing = [finding for finding in every if finding.rule.partition("/")[0] not in locked]
        if not failing:
            return None
        checks = dict.fromkeys(finding.rule.partition("/")[0] for finding in failing)
        first = next((finding for finding in failing if finding.evidence), failing[0])
        example = ["[[suppressions]]", f"rule = {_toml(neutralise.clip(first.rule, 120))}"]
        if first.evidence:
            example.append(f"path = {_toml(_pattern(first.evidence[0].path))}")
        return {
            "checks": [
                {
                    "id": self._surface.code(check),
                    "text": self._surface.text(wording.OVERRIDES[check]),
                }
                for check in checks
                if check in wording.OVERRIDES
            ],
            "example": self._surface.block(
                "\n".join([*example, 'reason = "why this may stay"']), "toml"
            ),
        }

    def _shed(self, limits: ViewLimits) -> list[str]:
        lists = (
            (len(self.live), limits.findings, "finding", ""),
            (len(self.suppressed), limits.suppressed, "suppressed finding", ""),
            (len(self.old), limits.old or EVERYTHING, "finding", " not of this change"),
            (len(self._report.refuted), limits.refuted or EVERYTHING, "refuted claim", ""),
        )
        shed = [
            f"{total - shown:,} of {wording.count(total, noun)}{suffix}"
            for total, shown, noun, suffix in lists
            if total > shown
        ]
        if len(self._parts) > limits.parts:
            shed.append(f"{len(self._parts) - limits.parts:,} of the checks")
        findings = self.live + self.suppressed
        if not limits.quote_lines and any(
            p.quote for finding in findings for p in finding.evidence[:1]
        ):
            shed.append("quoted lines")
        elif listed := sum(map(len, self._alike(limits))):
            shed.append(f"the quoted lines of {wording.count(listed, 'finding')} that are listed")
        hidden = len(self._fixes) - self._hinted(limits)
        if hidden:
            ways = f"{hidden:,} of {len(self._fixes):,} ways to fix them"
            shed.append(ways if limits.hints else "how to fix")
        if not limits.overrides and self._report.failing():
            shed.append("how to override")
        if not limits.overview and self._report.overview:
            shed.append("the whole of what changes")
        for total, shown, noun, suffix in (
            (self.runs, limits.runs if limits.quote_lines else 0, "reproduction", " with output"),
            (self.repairs, limits.repairs, "repair", ""),
        ):
            if total > shown:
                shed.append(f"{total - shown:,} of {wording.count(total, noun)}{suffix}")
        return shed


def _toml(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _pattern(path: str) -> str:
    """The pattern, as in ``.gitignore``, of this path, or of the beginning of a very long one.

    Characters that cannot be printed become ``?``.
    """
    special = {**{char: f"\\{char}" for char in "\\*?[]"}, " ": "\\ "}
    chars = (special.get(char, char if char.isprintable() else "?") for char in path[:_PATTERN])
    return f"/{''.join(chars)}{'*' if len(path) > _PATTERN else ''}"


#: The marks of the surfaces that have emoji.
ICONS = {CLEAN: "✅", FINDINGS: "❌", NOT_RUN: "⚠️", INCOMPLETE: "⚠️", wording.OFF: "➖",
         wording.UNSEEN: "➖", wording.NOTHING: "➖", wording.REPORTED: "⚠️"}  # fmt: skip
SEVERITY_ICONS = {"critical": "⛔", "high": "🔴", "medium": "🟠", "low": "🟡", "info": "🔵"}
