"""The answer of an analysis: each citation is opened, and what does not hold is left out."""

from __future__ import annotations

from rlm_ci.change import evidence
from rlm_ci.models.json_question import repeats
from rlm_ci.models.strict_json import read_object
from rlm_ci.report.findings import Location
from rlm_ci.resources import loader
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    #: The content of a file of the context, and the id of its blob.
    Open = Callable[[str], tuple[bytes | None, str]]

#: The text in the example of the prompt, which small models copy.
_EXAMPLES = ("must know, in a few sentences",)
_SCHEMA = "rlms-answer.schema.json"
#: Findings, and citations of all findings, that are looked at; characters of texts.
_FINDINGS, _CITATIONS = 80, 120
_TITLE, _DETAIL, _SUMMARY, _SNIPPET, _QUOTE, _PATH = 200, 2000, 4000, 220, 4000, 500
#: Citations that do not hold and are listed.
_LISTED = 20
_NO_FILE = "the context has no such file"
_TOO_MANY = f"only the first {_CITATIONS} citations are looked at"


class CheckedAnswer(Value):
    """An answer as far as it holds.

    ``findings`` have their verified citations; ``left_out`` is how many have none. ``rejected`` are
    the first citations that do not hold, with the reason.
    """

    summary: str
    findings: tuple[Mapping[str, Any], ...]
    offered: int
    verified: int
    reanchored: int
    left_out: int
    rejected: tuple[Mapping[str, Any], ...]

    @property
    def citations(self) -> list[Mapping[str, Any]]:
        return [citation for finding in self.findings for citation in finding["citations"]]


def check(text: str, paths: Iterable[str], opened: Open, *, must_cite: bool) -> CheckedAnswer:
    """The answer in ``text``, about the files ``paths``.

    Raises ValueError, in words for the model, for what is no answer, and for one without a citation
    that holds if it ``must_cite``.
    """
    answer = read_object(text, lambda value: loader.misfit(value, _SCHEMA))
    wrong = loader.misfit(answer, _SCHEMA)
    if wrong or repeats(answer["summary"], _EXAMPLES):
        raise ValueError(wrong or "the summary repeats the example of the prompt")
    checker = _Citations({encodable(path): path for path in paths}, opened, must_cite=must_cite)
    raw_findings = answer["findings"][:_FINDINGS]
    findings = tuple(filter(None, map(checker.finding, raw_findings)))
    if must_cite and not checker.verified:
        places = (
            f"{citation['path']}:{citation['start_line']}: {citation['why']}"
            for citation in checker.rejected
        )
        why = "; ".join(places) or "it cites nothing"
        raise ValueError(f"no citation of the answer holds: {why}"[:_DETAIL])
    return CheckedAnswer(
        answer["summary"][:_SUMMARY],
        findings,
        checker.offered,
        checker.verified,
        checker.reanchored,
        len(answer["findings"]) - len(findings),
        tuple(checker.rejected),
    )


class _Citations:
    def __init__(self, names: Mapping[str, str], opened: Open, *, must_cite: bool) -> None:
        self._names = names
        self._open = opened
        self._must_cite = must_cite
        self.offered = self.verified = self.reanchored = 0
        self.rejected: list[dict[str, Any]] = []

    def finding(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        """A finding with the citations that hold; None if it needs one, and has none."""
        title = printable(row["title"][:_TITLE])
        places = [cited for cited in map(self._location, row["citations"]) if cited is not None]
        if self._must_cite and not places:
            return None
        citations = [{**cited, "signal": title} for cited in places]
        detail = encodable(row.get("detail", "")[:_DETAIL])
        return {"title": title, "detail": detail, "citations": citations}

    def _location(self, row: Mapping[str, Any]) -> dict[str, Any] | None:
        self.offered += 1
        if self.offered > _CITATIONS:
            self._reject(row, _TOO_MANY)
            return None
        path = self._names.get(row["path"].removeprefix("./"))
        if path is None:
            self._reject(row, _NO_FILE)
            return None
        content, blob = self._open(path)
        quote = (row.get("quote") or "")[:_QUOTE] or None
        start, end = (None if line is None else int(line)
                      for line in (row["start_line"], row.get("end_line")))  # fmt: skip
        claim = Location(path, start, end, quote=quote)
        anchored_claim = evidence.anchor(claim, content, blob)
        if anchored_claim.location is None:
            self._reject(row, evidence.flaw(claim, content, blob) or _NO_FILE)
            return None
        self.verified += 1
        self.reanchored += anchored_claim.outcome == evidence.REANCHORED
        location = anchored_claim.location
        return {
            "path": encodable(location.path),
            "start_line": location.line_start,
            "end_line": location.line_end,
            "snippet": encodable((location.quote or "")[:_SNIPPET]),
            "blob": blob,
        }

    def _reject(self, row: Mapping[str, Any], why: str) -> None:
        if len(self.rejected) < _LISTED:
            path = printable(row["path"][:_PATH])
            line = str(row["start_line"])[:20]
            self.rejected.append({"path": path, "start_line": line, "why": why})
