"""Which round of a pull request's reviews this is, and what a model finds too late in it.

The first review looks at everything. Later ones are about what was pushed since: what a model finds
anew on other lines counts only if a run shows it, so that reviews come to an end. After the last
round, only what is proven high is new. What an earlier review found is never too late.
"""

from __future__ import annotations

from rlm_ci.report.findings import ENDED, LATE, Severity
from rlm_ci.report.proof import PROVEN, REPRODUCED
from rlm_ci.review.change.base_comparison import changed_of, is_touched, overlaps
from rlm_ci.review.change.carry_over import line_after, unpack
from rlm_ci.review.objective import DOMAINS
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.github.posting.summary_comment import Checkpoint
    from rlm_ci.report.findings import Finding, Location

_MODEL = "model:"


class EarlierLines(Value):
    """The lines that an earlier claim points to, as they were; None for a file as a whole."""

    path: str
    line_start: int | None = None
    line_end: int | None = None


class ReviewRound(Value):
    """The round of ``number``, from 1, of ``limit`` (0: without an end).

    ``since`` is the commit of the last review, None if what was pushed since is not known; ``why``
    says why. ``earlier`` are the lines of its claims.
    """

    number: int = 1
    limit: int = 0
    since: str | None = None
    earlier: tuple[EarlierLines, ...] = ()
    why: str = ""

    @staticmethod
    def _upgraded(record: Any) -> Any:
        """Records of before call the limit ``most``."""
        return {"limit" if name == "most" else name: record[name] for name in record}

    @property
    def is_over(self) -> bool:
        """Whether the rounds have ended."""
        return 0 < self.limit < self.number


def begin(last: Checkpoint | None, change: ChangeSet, limit: int) -> ReviewRound:
    """The round of a review of ``change``, by the state that the last run has left."""
    if last is None or not last.round:
        return ReviewRound(1, limit)
    number = last.round + (last.head != change.head)
    if None in change.repository.resolve(last.head):
        return ReviewRound(number, limit, why=f"{last.head[:12]} is not in this clone")
    try:
        claims = unpack(last.review, "", DOMAINS).claims
    except ValueError:
        return ReviewRound(number, limit, why="the claims of the last review are not known")
    lines = [
        EarlierLines(hashed_lines.path, hashed_lines.line_start, hashed_lines.line_end)
        for claim in claims
        for hashed_lines in claim.places
    ]
    return ReviewRound(number, limit, last.head, tuple(dict.fromkeys(lines)))


class LateFindings:
    """Tells which findings of a round are too late."""

    def __init__(self, this: ReviewRound, change: ChangeSet) -> None:
        self._round = this
        after = change.replace(trigger="range", base=this.since, merge_base=this.since, also=())
        self._touched = changed_of(after)
        hunks = after.hunks(context=0)[0]
        renamed = {file.old_path: file.path for file in after.files() if file.old_path}
        self._earlier: dict[str, list[list[int]]] = {}
        for lines in this.earlier:
            path = renamed.get(lines.path, lines.path)
            edits = hunks.get(path, ())
            start, end = lines.line_start or 1, lines.line_end or lines.line_start or 1
            span = [line_after(edits, start)[0], line_after(edits, end)[1]]
            self._earlier.setdefault(path, []).append(span)

    def reason(self, finding: Finding) -> str:
        """Why a finding is too late; "" if it counts."""
        if not finding.source.startswith(_MODEL) or self._is_earlier(finding.evidence):
            return ""
        proof = finding.proof
        is_shown = proof is not None and proof.level in (PROVEN, REPRODUCED)
        if self._round.is_over:
            return "" if is_shown and finding.severity >= Severity.HIGH else ENDED
        return "" if is_shown or is_touched(finding, self._touched) else LATE

    def _is_earlier(self, places: Sequence[Location]) -> bool:
        return any(overlaps(location, self._earlier.get(location.path, ())) for location in places)


def parted(
    findings: Sequence[Finding], this: ReviewRound, change: ChangeSet
) -> tuple[tuple[Finding, ...], int]:
    """The findings, those that are too late with the reason, and how many these are."""
    if this.number < 2 or this.since is None:
        return tuple(findings), 0
    late = LateFindings(this, change)
    results, number = [], 0
    for finding in findings:
        reason = late.reason(finding) if finding.suppression is None else ""
        number += bool(reason)
        results.append(finding.replace(suppression=reason) if reason else finding)
    return tuple(results), number


def round_summary(this: ReviewRound, late: int) -> str:
    """What the summary of a review says of its round; "" for the first."""
    if this.number < 2:
        return ""
    limit = f" of {this.limit:,}" if this.limit else ""
    words = f"; round {this.number:,}{limit}"
    if this.why:
        words += f", in which each finding counts, because {this.why}"
    elif this.is_over:
        words += ", so only what is proven high is new"
    if late:
        where = "" if this.is_over else " on lines that this push does not touch"
        words += f"; {count(late, 'finding')} of this round{where} not posted"
    return words
