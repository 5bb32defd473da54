"""Where a report is posted, what is posted of it, and the result."""

from __future__ import annotations

import os

from rlm_ci.github.session import Access
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: The result of one surface.
POSTED, UPDATED, SKIPPED, FAILED = "posted", "updated", "skipped", "failed"

#: What to post. ``sticky``: summary and check run; ``review``: review comments too.
STICKY, REVIEW, NONE = "sticky", "review", "none"

#: The metric of a part that has the verdict of the last review by a model, for the next run.
LAST_REVIEW = "last_review"


class CommentLimits(Value):
    """Maximum of comments: in all, on one file, and on files as a whole."""

    comments: int = 50
    per_file: int = 10
    whole_files: int = 5


class PostingOptions(Value):
    """What is posted, where and how much; made once from the settings.

    ``unfinished`` is the conclusion of an incomplete report. ``sources`` are the settings that
    switch posting on and choose the comment. ``name`` is that of the run if the settings give one,
    ``config`` the identity of those that judge. ``redact`` takes secrets out of a text.
    ``event``, ``outputs`` and ``step_summary`` are files of a job of GitHub Actions, "" for none.
    """

    comment: str = REVIEW
    check_run: bool = True
    unfinished: str = "action_required"
    caps: CommentLimits = CommentLimits()
    annotations: int = 500
    is_enabled: bool = True
    sources: tuple[str, str] = ("default", "default")
    name: str = ""
    config: str = ""
    access: Access = Access("")
    label_token: str = ""
    redact: Callable[[str], str] = str
    event: str = ""
    outputs: str = ""
    step_summary: str = ""

    def write_outputs(self, values: Mapping[str, str]) -> None:
        """Set outputs of the action's step, if it is one."""
        if not self.outputs:
            return
        end = f"rlm-ci-{os.urandom(16).hex()}"  # it keeps a value from ending its block
        text = "".join(f"{name}<<{end}\n{value}\n{end}\n" for name, value in values.items())
        files.append(self.outputs, text.encode("utf-8", "surrogateescape"))


class Destination(Value):
    """The pull request: ``owner/name``, its number, and the commit that was judged.

    ``name`` is that of the run, "" for none: each name has its own comment and check run.
    ``target`` is the branch that the pull request goes to, ``merge_base`` where it begins. The
    head of a merge group (``is_group``) has a check run alone.
    """

    repository: str
    number: int
    head: str
    name: str = ""
    target: str = ""
    merge_base: str | None = None
    is_group: bool = False

    @property
    def base(self) -> str:
        """The identity of what the head was compared with: 16 hex digits."""
        from hashlib import sha256

        text = f"{self.target}\0{self.merge_base}"
        return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]

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
        has_posted = any(state in (POSTED, UPDATED) for state in surfaces.values())
        return not failed or (has_posted and failed <= self.denied - {"summary"})

    def to_dict(self) -> dict[str, Any]:
        names = ("summary", "review", "check_run", "reason", "url")
        return {name: getattr(self, name) for name in names}
