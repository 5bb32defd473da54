"""Where a report is posted, what is posted of it, and the result."""

from __future__ import annotations

from rlm_ci.github.posting.placement import CommentLimits
from rlm_ci.report.findings import Severity
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: The result of one surface.
POSTED, UPDATED, SKIPPED, FAILED = "posted", "updated", "skipped", "failed"

#: What to post. ``sticky``: summary and check run; ``review``: review comments too.
STICKY, REVIEW, NONE = "sticky", "review", "none"


class PostingOptions(Value):
    """What is posted, and how much; ``unfinished`` is the conclusion of an incomplete report.

    ``closes`` comments of findings that are gone; a report that looked at less must not.
    """

    comment: str = REVIEW
    check_run: bool = True
    unfinished: str = "action_required"
    caps: CommentLimits = CommentLimits()
    least: Severity = Severity.LOW
    annotations: int = 500
    closes: bool = True


class Destination(Value):
    """The pull request: ``owner/name``, its number, and the commit that was judged."""

    repository: str
    number: int
    head: str

    @property
    def path(self) -> str:
        return f"/repos/{self.repository}/pulls/{self.number}"


class Publication(Value):
    """The result of each surface; ``reason`` says what went wrong, or why nothing was posted.

    ``denied`` are the surfaces that failed for lack of a permission.
    """

    summary: str = SKIPPED
    review: str = SKIPPED
    check_run: str = SKIPPED
    reason: str | None = None
    url: str | None = None
    denied: frozenset[str] = frozenset()

    @property
    def ok(self) -> bool:
        """Whether all is posted that the token may post; false if the summary failed."""
        surfaces = {"summary": self.summary, "review": self.review, "check_run": self.check_run}
        failed = {name for name, state in surfaces.items() if state == FAILED}
        there = any(state in (POSTED, UPDATED) for state in surfaces.values())
        return not failed or (there and failed <= self.denied - {"summary"})

    def to_dict(self) -> dict[str, Any]:
        names = ("summary", "review", "check_run", "reason", "url")
        return {name: getattr(self, name) for name in names}
