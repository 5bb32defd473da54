"""Merge findings that say the same into one, which keeps the evidence and the lineage of all.

Two are the same if they have one rule at the same lines, in the same words or by a model; or if
their lines overlap and their words are similar. The better the lines agree, the less the words
need to. The order in which they come does not matter.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rlm_ci.recursion.nodes import TracedFinding
from rlm_ci.report.findings import Location, Severity
from rlm_ci.report.suppressions import inline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlm_ci.report.findings import Finding

#: The share of the shorter text's words that must agree: at the same lines and in the same
#: domain, at overlapping lines, and across domains.
_SAME_LINES = 0.3
_OVERLAPPING = 0.5
_ACROSS = 0.7
#: Places of a merged finding, and characters of the other's message.
_PLACES = 20
_SAID = 300
#: Lines between two places that two sources may mean by one.
_NEAR = 2
#: Findings of a line that one is compared with.
_MANY = 100
#: Lines from which a place is compared with all others of its file.
_LONG = 64
#: No two sources make a thing certain.
_SUREST = 0.99

_NUMBER = re.compile(r"\b[A-Z]+[0-9]+\b")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: Words that tell nothing about what is wrong.
_EMPTY = frozenset((
    "a", "all", "also", "an", "and", "any", "are", "as", "at", "be", "been", "being", "both",
    "but", "by", "can", "cause", "check", "code", "could", "detect", "do", "does", "each",
    "ensure", "file", "for", "from", "function", "had", "has", "have", "here", "if", "in",
    "instead", "into", "is", "it", "its", "line", "may", "method", "might", "more", "must",
    "no", "not", "of", "on", "one", "only", "or", "other", "possible", "potential",
    "probable", "require", "should", "so", "some", "such", "than", "that", "the", "their",
    "them", "then", "there", "these", "they", "this", "those", "to", "too", "use", "used",
    "user", "using", "value", "via", "was", "were", "when", "where", "which", "while", "will",
    "with", "without", "would", "you",
))  # fmt: skip
_ENDINGS = ("ations", "ation", "ings", "ions", "ing", "ion", "ies", "ed", "es", "s", "y", "e")
#: Words for one thing, by their stems.
_SYNONYMS = {
    "concaten": "build", "construct": "build", "built": "build", "interpolat": "build",
    "format": "build", "deserializ": "pickl", "unpickl": "pickl", "insecur": "unsaf",
    "vulnerabl": "unsaf", "danger": "unsaf", "execut": "run", "invok": "run", "eval": "eval",
    "subproces": "shell", "command": "shell", "credential": "password", "secret": "password",
    "untrust": "input", "attacker": "input", "catch": "except", "exception": "except",
    "swallow": "ignor", "silenc": "ignor", "hidden": "ignor", "hide": "ignor", "loop": "iterat",
    "slow": "quadrat", "md5": "hash", "sha1": "hash", "weak": "unsaf",
}  # fmt: skip


def merge(findings: Iterable[TracedFinding]) -> tuple[TracedFinding, ...]:
    """Each finding once, ranked: the worst and surest first."""
    ranked = sorted(findings, key=_rank)
    by_path: dict[str, list[TracedFinding]] = {}
    for finding in ranked:
        path = finding.finding.evidence[0].path if finding.finding.evidence else ""
        by_path.setdefault(path, []).append(finding)
    traced_findings: list[TracedFinding] = []
    for some in by_path.values():
        united = _FileFindings()
        for finding in some:
            united.add(finding)
        traced_findings += united.all
    return tuple(sorted(traced_findings, key=_rank))


def apart(findings: Iterable[TracedFinding]) -> tuple[TracedFinding, ...]:
    """As ``merge``, with the claims of a model beside what tools found.

    What a claim rests on is decided for each alone.
    """
    some = list(findings)
    tools = merge(finding for finding in some if not is_claim(finding.finding))
    return tuple(sorted((*tools, *merge(claims_of(some))), key=_rank))


def claims_of(findings: Iterable[TracedFinding]) -> list[TracedFinding]:
    return [finding for finding in findings if is_claim(finding.finding)]


def is_claim(finding: Finding) -> bool:
    """Whether a model says it, and no tool."""
    return finding.source.startswith("model:")


def are_near(left: Finding, other: Finding) -> bool:
    """Whether both are about lines that overlap."""
    first, second = (finding.evidence[0].path for finding in (left, other))
    (start, end), (begin, stop) = _lines(left), _lines(other)
    return first == second and start <= stop and begin <= end


class _FileFindings:
    """The findings of one file, each once, indexed by their lines."""

    def __init__(self) -> None:
        self.all: list[TracedFinding] = []
        self._at: dict[int, dict[str, list[int]]] = {}
        self._long: list[int] = []
        self._told: dict[tuple[object, ...], int] = {}

    def add(self, traced_finding: TracedFinding) -> None:
        finding = traced_finding.finding
        start, end = _lines(finding)
        exact = (finding.source, finding.rule, start, end, finding.message)
        best = self._told.get(exact)
        if best is None:
            same = [
                index
                for index in self._candidates(finding, start, end)
                if _is_same(finding, self.all[index].finding)
            ]
            if same:
                best = min(same, key=lambda index: _distance(finding, self.all[index].finding))
        if best is not None:
            self.all[best] = _united(self.all[best], traced_finding)
            return
        self._told[exact] = len(self.all)
        if end - start >= _LONG:
            self._long.append(len(self.all))
        else:
            for line in range(start, end + 1):
                self._at.setdefault(line, {}).setdefault(finding.source, []).append(len(self.all))
        self.all.append(traced_finding)

    def _candidates(self, finding: Finding, start: int, end: int) -> list[int]:
        """Those nearby that may mean the same; for a tool, those of other sources."""
        if end - start >= _LONG:
            return list(range(len(self.all)))[:_MANY]
        is_tool = not is_claim(finding)
        candidates: set[int] = set()
        for line in range(start - _NEAR, end + _NEAR + 1):
            for source, indexes in self._at.get(line, {}).items():
                if not (is_tool and source == finding.source):
                    candidates.update(indexes[:_MANY])
        return sorted(candidates | set(self._long[:_MANY]))


def rank(finding: Finding) -> tuple[object, ...]:
    """The reading order: what fails first, then the worst and surest."""
    location = finding.evidence[0] if finding.evidence else Location("")
    return (
        finding.suppression is not None,
        -finding.severity,
        -(finding.confidence or 0.0),
        location.path.encode("utf-8", "surrogateescape"),
        location.line_start or 0,
        location.line_end or 0,
        finding.rule,
        finding.message,
        finding.source,
    )


def _rank(finding: TracedFinding) -> tuple[object, ...]:
    return (*rank(finding.finding), finding.nodes)


def _is_same(finding: Finding, other: Finding) -> bool:
    if not finding.evidence or not other.evidence:
        return finding.rule == other.rule and finding.message == other.message
    lines, others = _lines(finding), _lines(other)
    same_rule = finding.rule == other.rule
    if finding.source == other.source and not is_claim(finding):
        return same_rule and lines == others and finding.message == other.message
    gap = max(lines[0] - others[1], others[0] - lines[1], 0)
    if gap > _NEAR or (gap and finding.source == other.source):
        return False
    if lines == others and same_rule:
        return True
    words, more = _words(finding), _words(other)
    fewer = min(len(words), len(more))
    shared = len(words & more)
    if not fewer or not shared:
        return False
    alike = shared / fewer
    if gap:  # a model often names the line above, or the one that follows
        return finding.domain == other.domain and shared > 2 and alike >= _OVERLAPPING
    if finding.domain != other.domain:
        return shared > 1 and alike >= _ACROSS
    if lines == others:
        return alike >= _SAME_LINES
    return (shared > 1 and alike >= _OVERLAPPING) or (same_rule and alike >= _SAME_LINES)


def _distance(finding: Finding, other: Finding) -> int:
    if not finding.evidence or not other.evidence:
        return 0
    lines, others = _lines(finding), _lines(other)
    return abs(lines[0] - others[0]) + abs(lines[1] - others[1])


def _lines(finding: Finding) -> tuple[int, int]:
    location = finding.evidence[0] if finding.evidence else Location("")
    start = location.line_start or 0
    return start, location.line_end or start


@lru_cache(maxsize=4096)
def _words(finding: Finding) -> frozenset[str]:
    """The stems of a finding's message, and of its rule's name."""
    name = finding.rule.partition("/")[2]
    if finding.source.startswith("analyzer:"):  # the hint begins with the rule's name
        name = _NUMBER.sub("", (finding.hint or "").partition(":")[0])
    text = f"{finding.message} {name.replace('-', ' ')}"
    return frozenset(
        stem
        for word in _WORD.findall(text)
        if len(word) > 2 and word.casefold() not in _EMPTY and (stem := _stem(word.casefold()))
    )


def _stem(word: str) -> str:
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word[: -len(ending)]
            break
    return _SYNONYMS.get(word, word)


def _united(first: TracedFinding, second: TracedFinding) -> TracedFinding:
    """Merge two: an analyzer's rule wins, and the hint keeps the other's message."""
    finding, other = first.finding, second.finding
    if other.source.startswith("analyzer:") and not finding.source.startswith("analyzer:"):
        finding, other = other, finding
    places = dict.fromkeys((*finding.evidence, *other.evidence))
    spans = {
        (location.path, location.line_start, location.line_end, location.side)
        for location in finding.evidence
    }
    locations = [
        location for location in places
        if location in finding.evidence
        or (location.path, location.line_start, location.line_end, location.side) not in spans
    ]  # fmt: skip
    accepted = None if None in (finding.suppression, other.suppression) else finding.suppression
    # An argument makes what a tool says no more severe.
    raised = finding.severity if other.is_argued else max(finding.severity, other.severity)
    # A suggestion is for the lines that it was written for.
    fixes = (each.suggested_fix for each in (finding, other) if _lines(each) == _lines(finding))
    shown = (each.proof for each in (finding, other) if each.proof and not each.is_argued)
    return TracedFinding(
        finding.replace(
            severity=Severity(raised),
            confidence=_surer(finding, other),
            evidence=tuple(locations[:_PLACES]),
            hint=_difference(finding, other),
            suggested_fix=next(filter(None, fixes), None),
            suppression=accepted,
            proof=next(shown, finding.proof),
        ),
        tuple(sorted({*first.nodes, *second.nodes})),
    )


def _surer(finding: Finding, other: Finding) -> float | None:
    """Two independent sources make a finding surer; one that repeats itself does not."""
    confidence, other_confidence = finding.confidence, other.confidence
    if confidence is None or other_confidence is None:
        return confidence if other_confidence is None else other_confidence
    if finding.source == other.source:
        return max(confidence, other_confidence)
    return min(_SUREST, round(1 - (1 - confidence) * (1 - other_confidence), 3))


def _difference(finding: Finding, other: Finding) -> str | None:
    if finding.source == other.source or other.message == finding.message:
        return finding.hint or other.hint
    remark = f"`{other.source}` says too: {other.message[:_SAID]}"
    if finding.hint and remark in finding.hint:
        return finding.hint
    return f"{finding.hint}; {remark}" if finding.hint else remark


_GATHERED = 3
_MORE = "more of the kind in this file)"
_COUNT = re.compile(rf" \(and [0-9,]+ {re.escape(_MORE)}$")


def without_count(message: str) -> str:
    """The message of a finding as it was before ``gathered``."""
    return _COUNT.sub("", message)


def _accepted(finding: Finding) -> Finding:
    reason = inline(finding) if finding.suppression is None else None
    return finding if reason is None else finding.replace(suppression=reason)


def gathered(findings: Sequence[Finding]) -> list[Finding]:
    """Three or more minor findings of one rule in one file become one with all of their places."""
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in map(_accepted, findings):
        minor = finding.severity <= Severity.LOW and len(finding.evidence) == 1
        key = (
            (finding.rule, finding.evidence[0].path, finding.suppression, finding.severity)
            if minor
            else (id(finding),)
        )  # fmt: skip
        groups.setdefault(key, []).append(finding)
    merged: list[Finding] = []
    for group in groups.values():
        if len(group) < _GATHERED:
            merged += group
            continue
        group.sort(key=rank)
        first = group[0]
        message = f"{first.message} (and {len(group) - 1:,} {_MORE}"
        places = tuple(finding.evidence[0] for finding in group[:_PLACES])
        merged.append(first.replace(message=message, evidence=places))
    return merged
