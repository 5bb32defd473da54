"""Review comments: new findings beside their lines in one review, those that are gone closed."""

from __future__ import annotations

from rlm_ci.github.api.errors import GitHubRefusedError
from rlm_ci.github.posting import review_threads
from rlm_ci.github.posting.placement import (
    FILE,
    INLINE,
    SUMMARY,
    VALID,
    classify,
    to_summary,
    without_invalid,
)
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rlm_ci.git.patches import PatchDiff
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.comment_text import CommentTexts
    from rlm_ci.github.posting.placement import PlacedFinding
    from rlm_ci.github.posting.review_threads import ReviewThread

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
