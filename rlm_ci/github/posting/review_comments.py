"""Review comments: new findings beside their lines in one review, those that are gone closed."""

from __future__ import annotations

from rlm_ci.github.api.errors import GitHubRefusedError
from rlm_ci.github.posting import review_threads
from rlm_ci.github.posting.placement import FILE, INLINE, SUMMARY, VALID, classify, without_invalid
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rlm_ci.git.patches import PatchDiff
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.comment_text import CommentTexts
    from rlm_ci.github.posting.placement import PlacedFinding
    from rlm_ci.github.posting.review_threads import ReviewThread

#: The statuses with which GitHub refuses what it was sent, rather than who sent it.
_UNFIT = 422

Marked = tuple["PlacedFinding", str]


class ReviewComments:
    """The review comments of one run on the head ``head`` of a pull request."""

    def __init__(
        self,
        client: GitHubClient,
        pull_request: str,
        head: str,
        *,
        remarks: CommentTexts,
        real_diff: Callable[[], PatchDiff],
        look: Callable[[], Sequence[ReviewThread]],
    ) -> None:
        """``pull_request`` is its path in the API.

        ``real_diff`` gives its files as GitHub has them, ``look`` our threads as they are.
        """
        self._client = client
        self._path = pull_request
        self._head = head
        self._remarks = remarks
        self._real_diff = real_diff
        self._look = look
        self._before: set[str] = set()

    def post(self, placed: Sequence[Marked], known: Sequence[ReviewThread]) -> list[Marked]:
        """Comment on what is new; all of ``placed``, as it stands on GitHub in the end.

        A thread that somebody else resolved is an answer, so its finding is not raised again;
        one that we resolved was gone, and comes back. Raises GitHubRefusedError, UnreachableError.
        """
        self._before = {one.id for one in known}
        there = {one.fingerprint for one in known if not one.resolved or one.closed}
        new = [one for one in placed if one[0].where == INLINE and one[1] not in there]
        settled = dict.fromkeys(mark for _, mark in placed)
        result = {mark: one for one, mark in placed}
        result.update((mark, one) for one, mark in self._inline(new))
        for one, mark in placed:
            if one.where == FILE and mark not in there:
                result[mark] = self._on_file(one, mark)
        return [(result[mark], mark) for mark in settled]

    def _inline(self, new: list[Marked]) -> list[Marked]:
        """Send the batch; after a refusal, what is proven wrong goes, and then what is unproven."""
        if not new:
            return []
        try:
            self._send(new)
            return new
        except GitHubRefusedError as refused:
            if refused.status != _UNFIT:
                raise
            first = refused
        diff = self._real_diff()
        held = without_invalid([one for one, _ in new], diff)
        batches = [
            [one if one.where == INLINE else None for one in held],
            [one if one.where == INLINE and classify(one, diff) == VALID else None for one in held],
        ]
        sent = len(new)
        for batch in batches:
            kept = [(one, mark) for one, (_, mark) in zip(batch, new, strict=True) if one]
            if not kept or len(kept) == sent:
                continue
            sent = len(kept)
            try:
                self._send(kept)
            except GitHubRefusedError as refused:
                if refused.status != _UNFIT:
                    raise
                continue
            posted = {mark for _, mark in kept}
            reason = "GitHub refused the comment, and gives no diff that explains it"
            return [
                (one if mark in posted or one.where == SUMMARY else _shift(one, reason), mark)
                for one, (_, mark) in zip(held, new, strict=True)
            ]
        told = "; ".join(first.reasons) or "no reason given"
        return [
            (one if one.where == SUMMARY else _shift(one, f"GitHub refused it: {told}"), mark)
            for one, (_, mark) in zip(held, new, strict=True)
        ]

    def _send(self, batch: Sequence[Marked]) -> None:
        comments = [self._comment(one, mark) for one, mark in batch]
        body = {
            "commit_id": self._head,
            "event": "COMMENT",
            "body": f"{count(len(batch), 'finding')} beside the lines; the summary has all.",
            "comments": comments,
        }
        marks = {mark for _, mark in batch}
        self._client.write("POST", f"{self._path}/reviews", body, done=lambda: self._posted(marks))

    def _posted(self, marks: set[str]) -> dict[str, Any] | None:
        """A review is posted whole or not at all, so one of its comments tells of all.

        A thread that was there before, and is closed, may have the same mark.
        """
        new = (one for one in self._look() if one.id not in self._before)
        return {} if any(one.fingerprint in marks for one in new) else None

    def _comment(self, one: PlacedFinding, mark: str) -> dict[str, Any]:
        record = {
            "path": one.path,
            "line": one.line,
            "side": one.side,
            "body": self._remarks.body(one, mark),
        }
        if one.start_line is not None:
            record |= {"start_line": one.start_line, "start_side": one.start_side}
        return record

    def _on_file(self, one: PlacedFinding, mark: str) -> PlacedFinding:
        """A comment on the file as a whole: a review has no room for it, it goes by itself."""
        record = {
            "commit_id": self._head,
            "path": one.path,
            "subject_type": "file",
            "body": self._remarks.body(one, mark),
        }
        self._client.more()
        try:
            self._client.write(
                "POST", f"{self._path}/comments", record, done=lambda: self._posted({mark})
            )
        except GitHubRefusedError as refused:
            if refused.status != _UNFIT:
                raise
            return _shift(one, f"{one.reason}; GitHub refused a comment on the file")
        return one

    def close_gone(self, known: Sequence[ReviewThread], present: set[str]) -> None:
        """Close our threads whose finding is gone, unless a person answered."""
        gone = [
            one
            for one in known
            if not one.resolved and not one.answered and one.fingerprint not in present
        ]
        review_threads.close(self._client, gone)


def _shift(one: PlacedFinding, reason: str) -> PlacedFinding:
    return one.replace(
        where=SUMMARY, reason=reason, line=None, side=None, start_line=None, start_side=None,
        suggestion=None,
    )  # fmt: skip
