"""One report on a pull request: review comments, check run, summary, each once.

If GitHub refuses one of them, the others are still posted, and the publication says so.
"""

from __future__ import annotations

import os
import re
from collections import Counter

from rlm_ci.console.messages import say, warn
from rlm_ci.errors import RemoteError, RlmCiError
from rlm_ci.git import patches
from rlm_ci.github.api.errors import GitHubRefusedError, UnreachableError, record
from rlm_ci.github.posting import (
    check_run,
    review_threads,
    summary_comment,
)
from rlm_ci.github.posting.outcome import (
    FAILED,
    LAST_REVIEW,
    NONE,
    POSTED,
    REVIEW,
    SKIPPED,
    UPDATED,
    Destination,
    PostingOptions,
    Publication,
)
from rlm_ci.github.posting.review_comments import (
    FILE,
    INLINE,
    SUMMARY,
    CommentTexts,
    ReviewComments,
    place_findings,
)
from rlm_ci.github.posting.review_threads import CommentOrigin
from rlm_ci.github.posting.summary_comment import Checkpoint, SummaryComments
from rlm_ci.report import render
from rlm_ci.report.findings import fingerprints
from rlm_ci.report.render import RenderOptions
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rlm_ci.git.patches import PatchDiff
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.review_comments import PlacedFinding
    from rlm_ci.github.posting.review_threads import PullRequestThreads, ReviewThread
    from rlm_ci.github.posting.summary_comment import Override, SummaryComment
    from rlm_ci.github.session import GitHubSession
    from rlm_ci.report.findings import Report

#: GitHub lists no more files of a pull request.
_LISTED = 3000
#: Reasons with the numbers of lines, and without.
_NUMBERED = (
    (r".*[\d-]+ is not a range of lines$", "its lines are no range"),
    (r"lines? [\d-]+ (is|are) outside of the diff.*", "the lines are outside of the diff"),
    (r"lines [\d-]+ (go beyond their part of the diff).*", r"the lines \1"),
)
#: How often to check whether our last write replaced a newer text.
_ROUNDS = 4


class Publisher:
    """Posts one report. The diff is that of our own clone, or else GitHub's."""

    def __init__(
        self,
        client: GitHubClient,
        destination: Destination,
        report: Report,
        *,
        run: str,
        wishes: PostingOptions | None = None,
        options: RenderOptions | None = None,
        diff: Callable[[], PatchDiff] | None = None,
        overrides: Sequence[Override] = (),
        pull: dict[str, Any] | None = None,
        author: str = "",
        threads: PullRequestThreads | None = None,
        review: str = "",
    ) -> None:
        """``run`` is the run's id.

        ``pull`` is the API's record of the pull request, ``author`` our login, ``threads``
        the review threads, if known; ``review`` is state for the next run.
        """
        self._client = client
        self._to = destination
        self._report = report
        self._wishes = wishes or PostingOptions()
        self._options = options or RenderOptions()
        self._local_diff = diff
        self._real: PatchDiff | None = None
        self._reasons: dict[str, None] = {}
        self._pull = pull or {}
        self._denied: set[str] = set()
        self._alert = ""
        self._author = author
        self._known = threads
        self._sticky: SummaryComments | None = None
        self._kept: SummaryComment | None = None
        self._url: str | None = None
        subject = report.subject
        self._now = Checkpoint(
            destination.number, destination.head, subject.base, destination.merge_base,
            report.verdict(), self._wishes.config, run, overrides=tuple(overrides), review=review,
            reviewed=_of_review(report), name=destination.name, target=destination.target,
            round=_round_of(report),
        )  # fmt: skip

    def publish(self) -> Publication:
        """Post all that the options ask for. GitHub's errors become part of the result."""
        if self._wishes.comment == NONE and not self._wishes.check_run:
            return Publication(
                reason="nothing was posted: publish.comment is none, and publish.check_run is off"
            )
        try:
            if not self._pull:
                self._look_at_pull()
        except RemoteError as error:
            self._blame(error)
            return self._result(FAILED, FAILED, FAILED)
        moved = self._current != self._to.head
        if moved:
            self._say_moved(self._current)
        review = SKIPPED
        notes: list[str] = []
        if self._wishes.comment == REVIEW and not moved:
            review = self._tried("review", lambda: self._review(notes))
        posted_check = SKIPPED
        if self._wishes.check_run:
            posted_check = self._tried("check_run", lambda: self._check_run(notes))
        summary = SKIPPED
        if self._wishes.comment != NONE:
            alone = posted_check != POSTED
            summary = self._tried("summary", lambda: self._summary(notes, alone=alone))
        if review == POSTED or summary in (POSTED, UPDATED):
            try:
                self._settle(notes, threads_too=review == POSTED)
            except RemoteError as error:
                self._blame(error)
        return self._result(summary, review, posted_check)

    def _look_at_pull(self) -> None:
        """Read the pull request as it is now. Raises RemoteError."""
        pull = self._client.get(self._to.path)
        head = pull.get("head")
        if not isinstance(head, dict) or not is_object_id(head.get("sha")):
            raise UnreachableError("GitHub's answer is not a pull request", f"GET {self._to.path}")
        self._pull = pull

    @property
    def _current(self) -> str:
        head: str = self._pull["head"]["sha"]
        return head

    # ── one surface after the other ──

    def _tried(self, name: str, surface: Callable[[], str]) -> str:
        try:
            return surface()
        except RemoteError as error:
            self._blame(error)
            if isinstance(error, GitHubRefusedError) and error.denied:
                self._denied.add(name)
            return FAILED

    def _review(self, notes: list[str]) -> str:
        look = self._known or self._threads()
        self._author, threads = look.login, _on_base(look, self._to.base)
        findings = self._report.findings
        marks = fingerprints(findings)
        diff = self._diff()
        placed = place_findings(findings, diff, caps=self._wishes.caps)
        review = ReviewComments(
            self._client, self._to.path, self._to.head,
            CommentTexts(
                self._report.subject,
                self._options,
                CommentOrigin(base=self._to.base, name=self._to.name),
            ),
            self._real_diff, lambda: self._threads().threads,
        )  # fmt: skip
        result = review.post(list(zip(placed, marks, strict=True)), threads)
        notes += _elsewhere([finding for finding, _ in result])
        before = {thread.fingerprint for thread in threads if not thread.resolved or thread.closed}
        new = [
            finding for finding, mark in result if finding.where != SUMMARY and mark not in before
        ]
        pairs = zip(findings, marks, strict=True)
        present = {mark for finding, mark in pairs if finding.suppression is None}
        try:
            ids = {part.id for part in self._report.parts if part.enabled and part.state is None}
            review.close_gone(threads, present, ids, self._to.name)
            current = [
                thread
                for thread in threads
                if not thread.resolved and thread.fingerprint in present
            ]
            moved = [o for o in current if o.origin.check and o.origin.base != self._to.base]
            review_threads.move(self._client, moved, self._to.base)
        except GitHubRefusedError as refused:
            self._note(f"old review comments stay as they are: {refused}. {refused.hint}")
        return POSTED if new else SKIPPED

    def _threads(self) -> PullRequestThreads:
        return review_threads.read(self._client, self._to.repository, self._to.number)

    def _diff(self) -> PatchDiff:
        """The diff of our own clone; GitHub's, if that cannot be read."""
        if self._local_diff:
            try:
                return self._local_diff()
            except RlmCiError as error:
                self._note(f"the places are from GitHub's diff: {error}")
        return self._real_diff()

    def _real_diff(self) -> PatchDiff:
        """The files of the pull request as GitHub lists them: at most 3,000."""
        if self._real is None:
            records = list(self._client.pages(f"{self._to.path}/files"))
            total = self._pull.get("changed_files")
            if not isinstance(total, int):  # missing in the list of pull requests
                total = len(records) + (len(records) >= _LISTED)
            self._real = patches.from_records(records, total)
        return self._real

    def _check_run(self, notes: list[str]) -> str:
        state = self._now.after(None, self._report.usage)
        others = {} if self._to.is_group else check_run.other_pulls(self._client, self._to)
        if others:
            notes.append(f"The check run is the worst of all: {check_run.told_of(others)}.")
        check_run.post(
            self._client, self._to, self._report,
            summary=self._body(state, notes, in_bytes=True), run=self._now.run,
            unfinished=self._wishes.unfinished, limit=self._wishes.annotations, others=others,
        )  # fmt: skip
        return POSTED

    def _summary(self, notes: Sequence[str], *, alone: bool) -> str:
        """``alone`` if no check run has a copy, from which another run could restore it."""
        self._author = self._author or review_threads.viewer(self._client)
        sticky = SummaryComments(self._client, self._to, self._author)

        def head() -> str:
            if alone:  # then no run could restore what we write over
                self._look_at_pull()
                if self._current != self._to.head:
                    self._say_moved(self._current)
            return self._current

        def write(last: Checkpoint | None) -> str:
            return self._body(self._now.after(last, self._report.usage), notes)

        done, comment = sticky.put(self._now, head, write)
        self._sticky, self._kept, self._url = sticky, comment, comment.url or None
        return done

    def _settle(self, notes: Sequence[str], *, threads_too: bool) -> None:
        """Look again for a run at the same time: remove duplicates, and let the newer head win."""
        if threads_too:
            look = self._threads()
            review_threads.remove_duplicates(self._client, _on_base(look, self._to.base))
            head = look.head
        else:
            self._look_at_pull()
            head = self._current
        if head == self._to.head:
            return
        self._say_moved(head)
        if self._sticky:
            self._make_way(self._sticky, notes)

    def _make_way(self, sticky: SummaryComments, notes: Sequence[str]) -> None:
        """Put back the words of the newer head where we wrote over them.

        They come from the comment's history, or else from the check run of that head. If neither
        has them, ours say that they are out of date. Each write needs another look.
        """
        heads = {self._to.head}
        is_told = False
        for _ in range(_ROUNDS):
            look, comment = self._look_back(sticky)
            last = comment.last if comment else None
            if comment is None or last is None or last.head == look.head or last.head not in heads:
                return
            words = self._words_of(look, last)
            if words:
                heads.add(look.head)
            elif is_told:
                return
            else:
                is_told = True
                self._say_moved(look.head)
                words = self._body(last, notes)
            self._kept = sticky.update(comment, words)

    def _look_back(
        self, sticky: SummaryComments
    ) -> tuple[summary_comment.CommentHistory, SummaryComment | None]:
        """The current head, and the comment as it is, with its earlier texts if GitHub has them."""
        comment = self._kept
        if comment is not None and comment.node:
            try:
                look = summary_comment.history_of(
                    self._client, self._to, comment.node, self._author
                )
                if look.body is not None:
                    return look, comment.replace(
                        body=look.body, last=summary_comment.checkpoint_of(look.body)
                    )
            except GitHubRefusedError as refused:
                self._note(f"what the summary said before cannot be read: {refused}")
                self._kept = comment.replace(node="")
        self._look_at_pull()
        oldest = next(iter(sticky.find()), None)
        if oldest is not None and comment is not None and oldest.id != comment.id:
            self._kept = oldest  # ours was folded into it
            return self._look_back(sticky)
        return summary_comment.CommentHistory(self._current), oldest

    def _words_of(self, look: summary_comment.CommentHistory, own_checkpoint: Checkpoint) -> str:
        """The summary of the newest head, with what we spent; empty for none."""
        words = look.words_of(look.head)
        last = summary_comment.checkpoint_of(words)
        if last is not None:
            merged = last.plus(self._report.usage)
        else:
            newer = check_run.find(
                self._client, self._to.replace(head=look.head), author=self._author
            ) if self._wishes.check_run and "check_run" not in self._denied else None  # fmt: skip
            words = str(record((newer or {}).get("output")).get("summary") or "")
            last = summary_comment.checkpoint_of(words)
            if last is None or last.head != look.head:
                return ""
            merged = last.replace(
                calls=last.calls + own_checkpoint.calls, tokens=last.tokens + own_checkpoint.tokens,
                cost_usd=last.cost_usd + own_checkpoint.cost_usd,
            )  # fmt: skip
        return f"{merged.marker()}\n{words.partition(chr(10))[2]}"

    def _say_moved(self, head: str) -> None:
        note = f"the pull request has moved on to {head[:12]}"
        self._note(note)
        self._alert = f"This is about {self._to.head[:12]}, and {note}."

    def _body(self, state: Checkpoint, notes: Sequence[str], *, in_bytes: bool = False) -> str:
        return render.render(
            self._report,
            "markdown",
            self._options,
            marker=state.marker(),
            notes=tuple(notes),
            alert=self._alert,
            in_bytes=in_bytes,
        )

    # ── what became of it ──

    def _note(self, reason: str) -> None:
        self._reasons[printable(reason)] = None

    def _blame(self, error: RemoteError) -> None:
        is_githubs = isinstance(error, (GitHubRefusedError, UnreachableError))
        self._note(f"{error}. {error.hint}" if is_githubs else str(error))

    def _result(self, summary: str, review: str, checked: str) -> Publication:
        wishes = self._wishes
        return Publication(
            SKIPPED if wishes.comment == NONE else summary,
            review if wishes.comment == REVIEW else SKIPPED,
            checked if wishes.check_run else SKIPPED,
            "; ".join(self._reasons) or None,
            self._url,
            frozenset(self._denied),
        )


def _on_base(look: PullRequestThreads, base: str) -> tuple[ReviewThread, ...]:
    """Our threads; the answers about another base are over, and their findings come back."""
    answered = {
        answer.thread.id
        for answer in review_threads.answers_of(look)
        if answer.thread.origin.base != base
    }
    return tuple(
        thread.replace(resolved=True, closed=False) if thread.id in answered else thread
        for thread in look.threads
    )


def _of_review(report: Report) -> str:
    """The verdict of the last review by a model, or of the one in this run, "" without one."""
    for part in report.parts:
        if earlier := part.metrics.get(LAST_REVIEW):
            return str(earlier)
    for part in report.parts:
        if part.id == "review" and part.enabled and part.metrics.get("again", True):
            return part.verdict(report.fail_level)
    return ""


def _round_of(report: Report) -> int:
    """The round of a review by a model in this run, 0 without one."""
    return max((int(part.metrics.get("round", 0)) for part in report.parts), default=0)


def _elsewhere(placed: Sequence[PlacedFinding]) -> list[str]:
    """How many findings are not beside their lines, by reason.

    Left out are those that have no lines, and those that are only argued: their fold says it.
    """
    reasons: Counter[tuple[str, str]] = Counter()
    for placed_finding in placed:
        finding = placed_finding.finding
        live = finding.suppression is None and finding.evidence and not finding.is_argued
        if placed_finding.where != INLINE and live and placed_finding.reason:
            reasons[
                "on the file" if placed_finding.where == FILE else "only here",
                _kind(placed_finding.reason),
            ] += 1
    beside = sum(placed_finding.where == INLINE for placed_finding in placed)
    counts = [
        f"{count(number, 'finding')} {where}: {reason}"
        for (where, reason), number in sorted(reasons.items())
    ]
    return [f"{count(beside, 'finding')} beside the lines", *counts] if counts else []


def _kind(reason: str) -> str:
    """A reason without the numbers of its lines, so that it can be counted."""
    for numbered, plain in _NUMBERED:
        reason = re.sub(numbered, plain, reason)
    return reason


def attempt(
    posting: PostingOptions,
    report: Report,
    to: Destination,
    options: RenderOptions,
    way: GitHubSession,
    *,
    diff: Callable[[], PatchDiff] | None = None,
    overrides: Sequence[Override] = (),
    review: str = "",
) -> Publication | None:
    """Post the report of our own run, if anything of it is to be posted. Never raises."""
    if (to.is_group or posting.comment == NONE) and not posting.check_run:
        return None
    try:
        return post(
            posting, report, to, options, way, diff=diff, overrides=overrides, review=review
        )
    except Exception as error:  # noqa: BLE001 - a bug of posting does not undo a verdict either
        if not isinstance(error, RlmCiError):
            error = RlmCiError(f"internal error: {error!r}", hint="please report it as a bug")
        warn(RemoteError(f"the report is not posted: {error}", hint=error.hint))
        reason = posting.redact(printable(f"{error}. {error.hint}"))
        return Publication(FAILED, FAILED, FAILED, reason)


def post(
    posting: PostingOptions,
    report: Report,
    destination: Destination,
    options: RenderOptions,
    way: GitHubSession,
    *,
    diff: Callable[[], PatchDiff] | None = None,
    overrides: Sequence[Override] = (),
    pull: dict[str, Any] | None = None,
    review: str = "",
) -> Publication:
    """Post ``report``, and print what went wrong.

    ``pull`` is the API's record of the pull request, ``review`` state for the next run.
    """
    publication = Publisher(
        way.client(),
        destination,
        report,
        run=report.run_id or os.urandom(8).hex(),
        wishes=posting.replace(comment=NONE) if destination.is_group else posting,
        options=options.replace(colour=False),
        diff=diff,
        overrides=overrides,
        pull={"head": {"sha": destination.head}} if destination.is_group else pull,
        author=way.author,
        threads=way.threads,
        review=review,
    ).publish()
    if not publication.reason:
        return publication
    # It quotes GitHub, or a proxy.
    reason = posting.redact(publication.reason)
    where = f"{destination.repository}#{destination.number}"
    if FAILED in (publication.summary, publication.review, publication.check_run):
        warn(RemoteError(f"not all is posted: {reason}", where=where))
    else:
        say(f"note: posting on {where}: {reason}")
    return publication.replace(reason=reason)
