"""A review's part of the report, and the files of ``artifacts/review/``.

All of it follows from the root's result and the report.
"""

from __future__ import annotations

from collections import Counter
from posixpath import splitext
from textwrap import shorten

from rlm_ci.recursion.coverage import refusal
from rlm_ci.recursion.nodes import FAILED, PARTIAL
from rlm_ci.report import review_advice, wording
from rlm_ci.report.details.fixes_and_proofs import ProofLimits, fix_of, proof_of
from rlm_ci.report.findings import INCOMPLETE, NOT_RUN, OLD, Part, Severity, fingerprints, order
from rlm_ci.report.formats.markdown import MarkdownSurface, excerpt
from rlm_ci.report.links import HINT
from rlm_ci.report.proof import LEVELS
from rlm_ci.resources import loader
from rlm_ci.review.analyzers import run
from rlm_ci.review.analyzers.programs import Analyzer
from rlm_ci.review.model.architecture import DOMAIN as ARCHITECTURE
from rlm_ci.review.model.refute import VERDICTS
from rlm_ci.review.results import json_lists
from rlm_ci.review.results.merge import rank, without_count
from rlm_ci.source.languages import language
from rlm_ci.text.neutralise import clip, code, fence, prose, record_pieces
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.recursion.nodes import NodeResult
    from rlm_ci.report.findings import Finding, Location, Report

    #: The address of a place, or None.
    Link = Callable[[Location], str | None]

PART = "review"
#: Why a file is not covered that no analyzer knows, where no model is set.
NOBODY = "no_analyzer: none reads such a file, and no model is set"
#: Why a document is not covered though a model reads the change.
UNREAD = "documents: the change has more than a model reads beside its code"
#: Endings of names that a summary lists, and characters of one.
_KINDS = 5
_ENDING = 12
#: Entries of each list in ``report.md``; ``findings.json`` has all of them.
_MOST = 1_000
_ROWS = 40
_NOT_SEEN = 100
#: Characters of a reason in a summary.
_REASON = 400
#: Lines of a quote, and of an output, that are shown; characters of code.
_QUOTED = 12
_OUTPUT_LINES = 40
_CODE = 20_000
_PROOF = ProofLimits(_CODE, _OUTPUT_LINES)
_SURFACE = MarkdownSurface()


def part(
    result: NodeResult,
    options: Mapping[str, Any],
    model: str | None = None,
    unseen: Sequence[tuple[str, str]] = (),
) -> Part:
    """A review's part of the report: ``result`` is the root's, ``options`` the objective's.

    ``unseen`` is what the function of that name gives.
    """
    state, summary = None, result.summary
    metrics = result.metrics
    files, looked = int(metrics.get("files", 0)), int(metrics.get("looked", 0))
    if result.status == FAILED:
        state = NOT_RUN
    elif files and not looked and not result.uncovered:
        summary = review_advice.unread(language(path) for path, _ in unseen)
        # A change without code is fine; a repository of which nothing was read is no answer.
        state = NOT_RUN if options["changed"] is None else None
    else:
        summary += _by_ending([path for path, _ in unseen])
        if result.status == PARTIAL or result.uncovered:
            state = INCOMPLETE
            # A reason without a file is about all of them.
            missing = len({path for path, _ in result.uncovered} - {"", "."})
            what = count(missing, "file") if missing else "the whole"
            summary += f"; {what} not looked at in full{_why(result)}"
    findings = tuple(finding.finding for finding in result.findings)
    shown: dict[str, Any] = {
        "files": files,
        "looked": looked,
        "confidence": result.confidence,
        "clusters": len({(finding.domain or "", finding.rule) for finding in findings}),
        "analyzers": [
            f"{option['name']} {option['version']}".strip() for option in options["analyzers"]
        ],
        "domains": list(options["domains"]),
        "model": model,
        **{name: int(metrics.get(name, 0)) for name in ("claims", "merged", *VERDICTS, *LEVELS)},
        **{name: int(metrics[name]) for name in ("turns", "looks") if name in metrics},
        "unchecked": len(result.data.get("unchecked", ())),
        "disputed": int(metrics.get("disputed", 0)),
    }
    return Part(PART, summary, shown, findings, state, refusal(result), evidence=result.counts)


def unseen(
    paths: Sequence[str],
    options: Mapping[str, Any],
    model: str | None,
    result: NodeResult | None = None,
) -> tuple[tuple[str, str], ...]:
    """Those of ``paths`` that neither an analyzer nor a model looks at, each with the reason.

    ``result`` is the root's, which knows scripts without an ending.
    """
    if model is not None:
        unread = frozenset(result.data.get("unread", ()) if result else ())
        return tuple((path, UNREAD) for path in paths if path in unread)
    seen = run.paths_looked_at([Analyzer.from_dict(row) for row in options["analyzers"]], paths)
    seen |= frozenset(result.data.get("scripts", ()) if result else ())
    return tuple((path, NOBODY) for path in paths if path not in seen)


def _why(result: NodeResult) -> str:
    """The most frequent reason why files were not looked at, with how many others there are."""
    reasons = Counter(why for _, why in result.uncovered)
    if not reasons:
        return ""
    ((first, _),) = reasons.most_common(1)
    others = len(reasons) - 1
    more = f", and {count(others, 'other reason')}" if others else ""
    return f": {shorten(printable(first), _REASON, placeholder=' …')}{more}"


def _by_ending(paths: Sequence[str]) -> str:
    """``; 5 files not looked at (3 .c, 2 .md)``, "" for none."""
    if not paths:
        return ""
    kinds = Counter(splitext(path)[1][:_ENDING] or "other" for path in paths)
    names = sorted(kinds, key=lambda name: (name == "other", -kinds[name], name))
    listed = ", ".join(f"{kinds[name]:,} {printable(name)}" for name in names[:_KINDS])
    more = ", …" if len(names) > _KINDS else ""
    return f"; {count(len(paths), 'file')} not looked at ({listed}{more})"


def artifacts(
    result: NodeResult,
    report: Report,
    *,
    title: str,
    sarif: Callable[[Report], str],
    link: Link = lambda _: None,
    redact: Callable[[Report], Report] = lambda report: report,
    mask: Callable[[str], str] = lambda text: text,
) -> dict[str, Iterable[str]]:
    """The files of ``artifacts/review/`` by name, each in pieces that are made as they are read.

    ``report`` has the part that ``part`` gave, with suppressions applied, and no other. ``sarif``
    renders it. ``redact`` and ``mask`` take secrets out before texts are escaped.
    """
    report = redact(report)
    (part,) = report.parts
    nodes = [traced_finding.nodes for traced_finding in result.findings]
    rows = sorted(zip(part.findings, nodes, strict=True), key=lambda row: order(row[0]))
    marks = fingerprints(finding for finding, _ in rows)
    listed = [
        json_lists.ListedFinding(finding, mark, leaves)
        for (finding, leaves), mark in zip(rows, marks, strict=True)
    ]
    listed.sort(key=lambda listed_finding: rank(listed_finding.finding))
    findings = [finding.finding for finding in listed]
    groups = json_lists.clusters(findings)
    result = result.replace(
        notes=tuple(map(mask, result.notes)),
        uncovered=tuple((mask(path), mask(why)) for path, why in result.uncovered),
    )
    return {
        "report.md": (_page(result, report, findings, groups, title, link=link),),
        "findings.json": json_lists.findings(result, report, listed, groups),
        "clusters.json": record_pieces(groups, 1),
        "codequality.json": json_lists.code_quality(listed),
        "review.sarif": map(sarif, (report,)),
    }


# ── report.md ──


def _page(
    result: NodeResult,
    report: Report,
    findings: Sequence[Finding],
    groups: Sequence[Mapping[str, Any]],
    title: str,
    *,
    link: Link,
) -> str:
    open_ones, argued = wording.parted(findings)
    grave = [finding for finding in open_ones if finding.severity >= Severity.MEDIUM]
    minor = [finding for finding in open_ones if finding.severity < Severity.MEDIUM]
    (part,) = report.parts
    render = loader.load_template("review/report.md.j2")
    counting = {id(finding) for finding in (*grave, *minor)}
    groups = [
        group
        for group in groups
        if any(id(findings[number]) in counting for number in group["findings"])
    ]
    return render({
        "title": prose(title),
        "base": code(report.subject.base[:12]) if report.subject.base else "",
        "commit": code(report.subject.head[:12]) if report.subject.head else "",
        "summary": prose(part.summary),
        "domains": ", ".join(
            # Only a model looks for what all findings show together.
            domain
            for domain in part.metrics["domains"]
            if domain != ARCHITECTURE or part.metrics["model"]
        ),
        "analyzers": ", ".join(map(prose, part.metrics["analyzers"])) or "none",
        "model": code(part.metrics["model"]) if part.metrics["model"] else "none",
        "levels": _levels(open_ones, argued),
        "clusters": [
            {
                **group,
                "title": prose(_short(group["title"]), cell=True),
                "rule": code(group["rule"].partition("/")[2], cell=True),
                "domain": group["domain"] or "",
            }
            for group in groups[:_ROWS]
        ],
        "more_clusters": max(0, len(groups) - _ROWS),
        **_listed(grave, minor, argued, report, link),
        "left": max(0, len(grave) - _MOST) + max(0, len(minor) - _MOST),
        "accepted": _accepted(findings),
        "unseen": [
            f"{code(path)}: {prose(why)}" for path, why in result.uncovered[:_NOT_SEEN]
        ],
        "more_unseen": max(0, len(result.uncovered) - _NOT_SEEN),
        "omitted": _by_reason(report.coverage.omitted, result.uncovered),
        "notes": [prose(note) for note in result.notes[:_NOT_SEEN]],
        "more_notes": max(0, len(result.notes) - _NOT_SEEN),
        "files": count(int(part.metrics["files"]), "file"),
        "looked": f"{int(part.metrics['looked']):,}",
        "confidence": f"{100 * result.confidence:.0f} %",
        "confident": _confident(part),
        "counts": result.counts,
        "verdicts": [
            f"{int(part.metrics[name]):,} {name}" for name in VERDICTS if part.metrics[name]
        ],
    })  # fmt: skip


def _levels(findings: Sequence[Finding], argued: Sequence[Finding]) -> list[str]:
    counts = Counter(finding.severity for finding in findings)
    levels = [(level.label, counts[level]) for level in reversed(Severity)]
    return [f"{number:,} {name}" for name, number in (*levels, ("argued", len(argued))) if number]


def _listed(
    grave: Sequence[Finding],
    minor: Sequence[Finding],
    argued: Sequence[Finding],
    report: Report,
    link: Link,
) -> dict[str, Any]:
    findings = [finding for finding in minor[:_MOST] if _is_told(finding)]
    return {
        "grave": [_entry(finding, link, report) for finding in grave[:_MOST]],
        "low": [_entry(finding, link, report) for finding in findings],
        "minor": _minor([finding for finding in minor[:_MOST] if not _is_told(finding)], link),
        "argued": [_entry(finding, link, report) for finding in argued[: wording.ARGUED_SHOWN]],
        "argued_told": wording.argued(len(argued)),
        "argued_more": [
            {
                "severity": finding.severity.label,
                "place": _location_link(finding.evidence[0], link),
                "message": prose(_sentence(finding.message)),
            }
            for finding in argued[wording.ARGUED_SHOWN : _NOT_SEEN]
        ],
        "refuted": [
            {
                "place": _location_link(claim.finding.evidence[0], link),
                "message": prose(_sentence(claim.finding.message)),
                "reason": prose(_sentence(claim.reason)),
            }
            for claim in report.refuted[:_NOT_SEEN]
        ],
        "more_refuted": max(0, len(report.refuted) - _NOT_SEEN),
    }


def _entry(finding: Finding, link: Link, report: Report) -> dict[str, Any]:
    alone = wording.proof_command(report, finding.proof) if finding.proof else ""
    certainty = finding.confidence
    return {
        "severity": finding.severity.label,
        "message": prose(_sentence(finding.message)),
        "place": _location_link(finding.evidence[0], link),
        "more": [_location_link(location, link) for location in finding.evidence[1:]],
        "about": ", ".join(
            text
            for text in (
                code(finding.rule.partition("/")[2]),
                finding.domain or "",
                code(finding.source),
                "" if certainty is None else f"{100 * certainty:.0f} % sure ({_reason(finding)})",
            )
            if text
        ),
        "quote": _quoted(finding.evidence[0].quote),
        "hint": _hint(finding),
        "fix": fix_of(finding, _SURFACE, _CODE, _CODE),
        "proof": proof_of(finding, _SURFACE, _PROOF, alone),
    }


def _reason(finding: Finding) -> str:
    """Why the confidence in a finding is what it is."""
    if finding.proof is not None:
        return finding.proof.level
    by_model = finding.source.startswith("model:")
    return "the model's own figure" if by_model else "the rule's record"


def _confident(part: Part) -> str:
    """What the confidence that there is nothing else rests on."""
    files, looked = int(part.metrics["files"]), int(part.metrics["looked"])
    who = "a model read" if part.metrics["model"] else "analyzers, and no model, looked at"
    return f"{who} {looked:,} of {count(files, 'file')}"


def _is_told(finding: Finding) -> bool:
    """Whether a minor finding has more to say than its rule and its place."""
    return finding.suggested_fix is not None or finding.source.startswith("model:")


def _hint(finding: Finding) -> str:
    """A hint, in which the page of an analyzer's rule is a link."""
    hint = finding.hint or ""
    page = HINT.match(hint) if finding.source.startswith("analyzer:") else None
    if page is None:
        return prose(hint) if hint else ""
    trailing = hint[page.end() :]
    return f"[{prose(page[1])}](<{page[2]}>){prose(trailing) if trailing else ''}"


def _minor(findings: Sequence[Finding], link: Link) -> list[dict[str, Any]]:
    """Minor findings by rule: a shared message once, then the places by file."""
    groups: dict[tuple[Severity, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding.severity, finding.rule), []).append(finding)
    kinds = []
    for (severity, rule), some in groups.items():
        messages = {without_count(finding.message) for finding in some}
        by_path: dict[str, list[str]] = {}
        for finding in sorted(some, key=order):
            path = finding.evidence[0].path
            places = ", ".join(
                _location_link(location, link, path) for location in finding.evidence
            )
            text = "" if len(messages) == 1 else f": {prose(_sentence(finding.message))}"
            by_path.setdefault(path, []).append(f"{places}{text}")
        left = sum(_left(finding) for finding in some)
        kinds.append({
            "title": prose(_sentence(min(messages))) if len(messages) == 1 else "",
            "rule": code(rule.partition("/")[2]),
            "about": f"{severity.label}, {some[0].domain or 'no domain'}, {code(some[0].source)}",
            "hint": _hint(some[0]),
            "files": [
                f"{code(_link_text(path))}: {(', ' if len(messages) == 1 else ' ').join(texts)}"
                for path, texts in by_path.items()
            ],
            "left": left,
        })  # fmt: skip
    return kinds


def _left(finding: Finding) -> int:
    """How many places a gathered finding has that are not among its evidence."""
    suffix = finding.message[len(without_count(finding.message)) :]
    number = "".join(char for char in suffix if char.isdigit())
    return max(0, int(number) + 1 - len(finding.evidence)) if number else 0


def _link_text(path: str) -> str:
    return path if len(path) <= 300 else f"…{path[-299:]}"


def _location_link(location: Location, link: Link, beside: str | None = None) -> str:
    """A link to a place; only its lines where its path, ``beside``, is already written."""
    lines = wording.lines(location)
    if location.path == beside:
        shown = lines or "whole file"
    else:
        shown = code(f"{_link_text(location.path)}{lines and f':{lines}'}")
    address = link(location)
    return f"[{shown}](<{address}>)" if address else shown


def _quoted(quote: str | None) -> str:
    return fence(excerpt(quote, _QUOTED, 300)) if quote and quote.strip() else ""


def _short(text: str) -> str:
    return clip(" ".join(text.split()), 100)


def _sentence(text: str) -> str:
    line = " ".join(text.split())
    return line if line.endswith((".", "!", "?", ")", "…", ":")) else f"{line}."


def _accepted(findings: Sequence[Finding]) -> list[dict[str, Any]]:
    groups: Counter[tuple[str, str]] = Counter()
    for finding in findings:
        if finding.suppression is not None:
            groups[finding.suppression, finding.rule] += max(1, len(finding.evidence))
    keys = sorted(groups, key=lambda key: (key[0] in OLD, -groups[key], key))
    return [
        {"rule": code(rule.partition("/")[2], cell=True), "places": groups[reason, rule],
         "reason": prose(_short(reason), cell=True)}
        for reason, rule in keys[:_NOT_SEEN]
    ]  # fmt: skip


def _by_reason(
    omitted: Iterable[tuple[str, str]], uncovered: Iterable[tuple[str, str]]
) -> list[str]:
    listed = set(uncovered)
    reasons = Counter(pair[1] for pair in omitted if pair not in listed)
    frequent = sorted(reasons, key=lambda reason: (-reasons[reason], reason))
    return [f"{count(reasons[reason], 'file')}: {prose(reason)}" for reason in frequent[:_ROWS]]
