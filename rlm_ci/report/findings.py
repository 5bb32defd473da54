"""Severity, Location, Finding, Part and Report.

A check yields findings in a part; parts make a report; every output is a view of it. Only
:meth:`Report.verdict` computes a verdict. The JSON form is ``schemas/report.schema.json``.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cached_property

from rlm_ci import __version__, errors
from rlm_ci.text.error_text import explain
from rlm_ci.text.printable import encodable
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from rlm_ci.decoding import Interned
    from rlm_ci.report.overview.changes import Overview
    from rlm_ci.report.proof import Proof

SCHEMA_VERSION = 1

#: Verdicts, worst first: the report's is the first that any part has.
FINDINGS = "findings"
NOT_RUN = "not_run"
INCOMPLETE = "incomplete"
CLEAN = "clean"
VERDICTS = (FINDINGS, NOT_RUN, INCOMPLETE, CLEAN)
REVIEW = "review"

#: Why a finding of a review does not count: the change does not bring it.
UNTOUCHED = "on lines that this change does not touch"
KNOWN = "the base has it too"
#: The same: a later review found it, and it is too late for that.
LATE = "found after the first review, on lines that this push does not touch; no run shows it"
ENDED = "found after the last round of reviews, and not proven high"
OLD = (UNTOUCHED, KNOWN, LATE, ENDED)

#: The causes that end the process with a code of their own.
_OWN_CODES = (errors.UNAVAILABLE, errors.DAMAGED, errors.LOCKED, errors.REMOTE, errors.STORAGE)


class Severity(IntEnum):
    """Ordered, so that a fail level is one comparison."""

    INFO = 0
    LOW = 1
    MEDIUM = 2
    HIGH = 3
    CRITICAL = 4

    @property
    def label(self) -> str:
        """The name as settings and JSON write it."""
        return self.name.lower()

    @classmethod
    def from_label(cls, label: str) -> Severity:
        """Raises KeyError when there is no such severity."""
        return cls[label.upper()]

    from_json = from_label


class Location(Row):
    """What a finding points to: a file, or lines of it (1-based, inclusive), on one side.

    ``path`` is relative to the top level, ``/`` between parts, bytes that are not UTF-8
    kept by surrogateescape. ``blob`` is the object id of the content that ``quote``, the
    text of these lines, was read from. Lines are None for the whole file.
    """

    _ignores = True
    _optional = ()

    path: Interned
    line_start: int | None = None
    line_end: int | None = None
    side: Interned = "new"
    blob: Interned | None = None
    quote: Interned | None = None

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] = {
            "path": encodable(self.path),
            "line_start": self.line_start,
            "line_end": self.line_end,
            "side": self.side,
            "blob": self.blob,
            "quote": None if self.quote is None else encodable(self.quote),
        }
        if record["path"] != self.path:
            from base64 import b64encode

            record["path_b64"] = b64encode(self.path.encode("utf-8", "surrogateescape")).decode()
        return record

    @staticmethod
    def _upgraded(record: Any) -> Any:
        if "path_b64" not in record:
            return record
        from base64 import b64decode

        path = b64decode(record["path_b64"], validate=True).decode("utf-8", "surrogateescape")
        return {**record, "path": path}


class Finding(Value):
    """One diagnostic. ``rule`` is ``check-id/condition``; ``evidence[0]`` is the primary place.

    ``suppression`` is the reason to accept the finding: it is still reported, and does not fail
    the run. ``subject`` tells findings of one rule at one place apart; that of a model's claim is
    the definition at its lines. ``source`` is ``check``, ``analyzer:NAME`` or ``model:NAME``;
    ``proof`` is what a model's claim rests on.
    """

    _ignores = True
    _optional = ("proof",)

    rule: Interned
    severity: Severity
    message: Interned
    hint: Interned | None = None
    evidence: tuple[Location, ...] = ()
    domain: Interned | None = None
    confidence: float | None = None
    subject: str | None = None
    suggested_fix: str | None = None
    suppression: Interned | None = None
    source: Interned = "check"
    proof: Proof | None = None

    @classmethod
    def _types(cls) -> Mapping[str, Any]:
        from rlm_ci.report.proof import Proof

        return {"Proof": Proof}

    @property
    def is_argued(self) -> bool:
        """Whether a model claims it and nothing that ran shows it."""
        return self.proof is not None and self.proof.is_argued

    def fails(self, fail_level: Severity) -> bool:
        """Whether this finding alone makes a run fail."""
        return self.suppression is None and self.severity >= fail_level and not self.is_argued

    def to_dict(self) -> dict[str, Any]:
        record = super().to_dict()
        for name in ("message", "hint", "subject", "suggested_fix", "suppression"):
            if record[name] is not None:
                record[name] = encodable(record[name])
        record["severity"] = self.severity.label
        return record


class RefutedClaim(Value):
    """A claim of a model that a run, or a second look, showed to be wrong, and how."""

    finding: Finding
    reason: str

    def to_dict(self) -> dict[str, Any]:
        finding = _marked(self.finding, *fingerprints([self.finding]))
        return {"finding": finding, "reason": encodable(self.reason)}


def order(finding: Finding) -> tuple[int, str, int, str, str]:
    """The order of a report: worst first, then by place."""
    location = finding.evidence[0] if finding.evidence else Location("")
    where = location.path, location.line_start or 0
    return (-finding.severity, *where, finding.rule, finding.subject or "")


def fingerprints(findings: Iterable[Finding]) -> list[str]:
    """The identity of each finding over time: 32 hex digits, in the order given.

    SHA-256 over rule, path, subject, the anchored lines with white space folded, and an
    index among equals in that file; never line numbers, never the wording of the message.
    """
    from hashlib import sha256

    seen: dict[tuple[str, ...], int] = {}
    prints = []
    for finding in findings:
        location = finding.evidence[0] if finding.evidence else Location("")
        folded = " ".join((location.quote or "").split())
        # Of a model's claim it is the definition, which tells nothing apart here.
        subject = "" if finding.source.startswith("model:") else finding.subject or ""
        # As the report writes them, so that one read back gives the same.
        texts = (finding.rule, location.path, subject, folded)
        key = tuple(encodable(text) for text in texts)
        index = seen[key] = seen.get(key, -1) + 1
        prints.append(sha256("\0".join((*key, str(index))).encode()).hexdigest()[:32])
    return prints


class Document(Value):
    """A text that a run produced, with the places that its claims rest on.

    ``shown``: every format has it in full, because it is what was asked for.
    """

    path: str
    text: str
    evidence: tuple[Location, ...] = ()
    shown: bool = False

    def to_dict(self) -> dict[str, Any]:
        return {
            **super().to_dict(),
            "path": encodable(self.path),
            "text": encodable(self.text),
        }


class Part(Value):
    """What one check, or one objective, has to say.

    ``state`` is None when it looked at everything, else ``not_run`` or ``incomplete``, with
    the cause in ``error`` if known. ``block`` is the part's own form in a terminal. ``enabled``
    is False for a check that was not asked for.
    """

    id: str
    summary: str
    metrics: Mapping[str, Any] = {}
    findings: tuple[Finding, ...] = ()
    state: str | None = None
    error: errors.RlmCiError | None = None
    block: str | None = None
    enabled: bool = True
    evidence: Evidence | None = None

    @classmethod
    def from_error(cls, part_id: str, error: errors.RlmCiError) -> Part:
        """The part of a check that could not start."""
        return cls(part_id, explain(error), state=NOT_RUN, error=error)

    def verdict(self, fail_level: Severity) -> str:
        if any(finding.fails(fail_level) for finding in self.findings):
            return FINDINGS
        return self.state or CLEAN


class Evidence(Value):
    """Numbers of pointers: offered, valid, moved to their quote, rejected."""

    offered: int = 0
    verified: int = 0
    reanchored: int = 0
    rejected: int = 0

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(*(getattr(self, name) + getattr(other, name) for name in self._fields))


class Subject(Value):
    """What was judged: commits are full object ids; ``worktree`` when it was not committed.

    ``agents`` are those that wrote some of its ``commits``, each with how many, the most first.
    """

    repository: str | None = None
    base: str | None = None
    head: str | None = None
    merge_base: str | None = None
    worktree: bool = False
    pull_request: int | None = None
    commits: int = 0
    agents: tuple[tuple[str, int], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        record = super().to_dict()
        agents = [{"name": name, "commits": number} for name, number in record.pop("agents")]
        commits = record.pop("commits")
        return {**record, "commits": commits, "agents": agents} if agents else record

    @staticmethod
    def _upgraded(record: Any) -> Any:
        """With the pairs that ``to_dict`` writes as objects."""
        agents = [[agent["name"], agent["commits"]] for agent in record.get("agents", ())]
        return {**record, "agents": agents}


class Coverage(Value):
    """``omitted`` holds pairs of path and reason."""

    eligible: int = 0
    covered: int = 0
    omitted: tuple[tuple[str, str], ...] = ()

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            self.eligible + other.eligible,
            self.covered + other.covered,
            self.omitted + other.omitted,
        )

    def to_dict(self) -> dict[str, Any]:
        rows = [{"path": encodable(path), "reason": encodable(why)} for path, why in self.omitted]
        return {**super().to_dict(), "omitted": rows}

    @staticmethod
    def _upgraded(record: Any) -> Any:
        """With the pairs that ``to_dict`` writes as objects."""
        return {**record, "omitted": [[row["path"], row["reason"]] for row in record["omitted"]]}


class Usage(Value):
    """What the models cost. ``unknown`` names the numbers that nobody told us, which are 0 here.

    ``cached_tokens`` of the prompts' were cached by the endpoint, which may not say so; without
    that they had cost ``uncached_cost_usd``. About ``lost_tokens`` of answers that broke off were
    paid for again; they are in the other numbers.
    """

    calls: int = 0
    replayed: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float | None = None
    unknown: tuple[str, ...] = ()
    cached_tokens: int = 0
    uncached_cost_usd: float | None = None
    lost_tokens: int = 0

    @staticmethod
    def _upgraded(record: Any) -> Any:
        """With the numbers that are null by their names."""
        numbers = {name: value for name, value in record.items() if value is not None}
        return {**numbers, "unknown": sorted(record.keys() - numbers.keys() - {"cost_usd"})}

    def to_dict(self) -> dict[str, Any]:
        record = {**super().to_dict(), **dict.fromkeys(self.unknown)}
        del record["unknown"]
        for name in ("cached_tokens", "uncached_cost_usd", "lost_tokens"):
            if not record[name]:
                del record[name]
        return record


class Report(Value):
    """One run's outcome; ``fail_level`` fails it, ``refuted`` and ``overview`` do not.

    ``name`` is that of the run on a pull request, "" for none.
    """

    subject: Subject
    fail_level: Severity
    parts: tuple[Part, ...]
    title: str = ""
    documents: tuple[Document, ...] = ()
    coverage: Coverage = Coverage()
    evidence: Evidence = Evidence()
    usage: Usage = Usage()
    publication: Mapping[str, Any] | None = None
    run_id: str | None = None
    refuted: tuple[RefutedClaim, ...] = ()
    overview: Overview | None = None
    name: str = ""

    @cached_property
    def findings(self) -> tuple[Finding, ...]:
        """All findings, part by part, worst first, then by place."""
        return tuple(finding for part in self.parts for finding in sorted(part.findings, key=order))

    def verdict(self) -> str:
        """``findings``, ``not_run``, ``incomplete`` or ``clean``: the worst of any part."""
        verdicts = {part.verdict(self.fail_level) for part in self.parts}
        return next((verdict for verdict in VERDICTS if verdict in verdicts), NOT_RUN)

    def exit_code(self) -> int:
        """The code of the verdict, or of the one cause that explains it."""
        verdict = self.verdict()
        if verdict == CLEAN:
            return errors.OK
        if verdict == FINDINGS:
            return errors.FINDINGS
        default = errors.CONFIG if verdict == NOT_RUN else errors.LIMIT
        causes = {
            part.error.code if part.error else 0 for part in self.parts if part.state == verdict
        }
        cause = causes.pop() if len(causes) == 1 else 0
        return cause if cause in _OWN_CODES else default

    def failing(self) -> tuple[Finding, ...]:
        """The findings that make the verdict ``findings``."""
        return tuple(finding for finding in self.findings if finding.fails(self.fail_level))

    def to_dict(self) -> dict[str, Any]:
        """The form of ``schemas/report.schema.json``."""
        outline = self.outline()
        return {**outline, **{name: list(outline[name]) for name in ("findings", "documents")}}

    def outline(self) -> dict[str, Any]:
        """As ``to_dict``, with each finding and document made when its turn comes."""
        return {
            "schema_version": SCHEMA_VERSION,
            "tool": {"name": "rlm-ci", "version": __version__},
            "subject": self.subject.to_dict(),
            "verdict": self.verdict(),
            "fail_level": self.fail_level.label,
            "parts": [
                {
                    "id": part.id,
                    "verdict": part.verdict(self.fail_level),
                    "summary": encodable(part.summary),
                    "metrics": dict(part.metrics),
                }
                for part in self.parts
            ],
            "findings": map(_marked, self.findings, fingerprints(self.findings)),
            **({"refuted": [claim.to_dict() for claim in self.refuted]} if self.refuted else {}),
            **({"overview": self.overview.to_dict()} if self.overview else {}),
            "documents": map(Document.to_dict, self.documents),
            "coverage": self.coverage.to_dict(),
            "evidence": self.evidence.to_dict(),
            "usage": self.usage.to_dict(),
            "publication": None if self.publication is None else dict(self.publication),
            "run_id": self.run_id,
            **({"name": self.name} if self.name else {}),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Report:
        """The report that ``record``, already valid under the schema, describes.

        Raises ValueError for a finding of no part, a path that cannot be decoded, or a
        verdict that the findings contradict.
        """
        from rlm_ci.report.overview.changes import Overview

        by_check: dict[str, list[Finding]] = {item["id"]: [] for item in record["parts"]}
        for item in record["findings"]:
            finding = Finding.from_dict(item)
            check = finding.rule.partition("/")[0]
            if check not in by_check:
                raise ValueError(f"a finding of {finding.rule}, and no part {check}")
            by_check[check].append(finding)
        parts = []
        for item in record["parts"]:
            findings = tuple(
                by_check.pop(item["id"], ())
            )  # where an id comes twice, the first has them
            state = item["verdict"] if item["verdict"] in (NOT_RUN, INCOMPLETE) else None
            is_on = (metrics := item["metrics"]).get("enabled") is not False
            parts.append(Part(item["id"], item["summary"], metrics, findings, state, enabled=is_on))
        report = cls(
            subject=Subject.from_dict(record["subject"]),
            fail_level=Severity.from_label(record["fail_level"]),
            parts=tuple(parts),
            documents=tuple(map(Document.from_dict, record["documents"])),
            coverage=Coverage.from_dict(record["coverage"]),
            evidence=Evidence.from_dict(record["evidence"]),
            usage=Usage.from_dict(record["usage"]),
            publication=record["publication"],
            run_id=record["run_id"],
            refuted=tuple(map(RefutedClaim.from_dict, record.get("refuted", ()))),
            overview=Overview.from_dict(record["overview"]) if "overview" in record else None,
            name=record.get("name", ""),
        )
        if report.verdict() != record["verdict"]:
            raise ValueError(f"the verdict {record['verdict']} where it must be {report.verdict()}")
        return report


def _marked(finding: Finding, mark: str) -> dict[str, Any]:
    return {**finding.to_dict(), "fingerprint": mark}
