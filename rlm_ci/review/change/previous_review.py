"""Earlier reviews of a pull request, so that a model is asked about new things only.

The summary comment stores them. On any doubt everything is looked at, with the reason.
"""

from __future__ import annotations

from rlm_ci.errors import RlmCiError, UnavailableError
from rlm_ci.github.posting import summary_comment
from rlm_ci.github.posting.summary_comment import Checkpoint
from rlm_ci.review.change import carried_words, carry_over
from rlm_ci.review.change.carry_over import CarriedReview, EditedFile
from rlm_ci.review.objective import DOMAINS
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.github.posting.outcome import Destination
    from rlm_ci.github.session import GitHubSession
    from rlm_ci.review.change.affected_files import AffectedFiles
    from rlm_ci.review.change.carry_over import SavedReview


class PreviousReviews:
    """The earlier runs on the pull request ``to``, None if this run posts no summary comment.

    ``fingerprint`` gives that of the settings, once the run has completed them. ``is_asked``: a
    comment asks for a full review.
    """

    def __init__(
        self,
        fingerprint: Callable[[], str],
        to: Destination | None,
        way: GitHubSession,
        *,
        is_asked: bool,
    ) -> None:
        self.is_asked = is_asked
        self._fingerprint = fingerprint
        self._to = to
        self._way = way
        #: The checkpoint of the last run, once a review has begun.
        self.last: Checkpoint | None = None

    @property
    def is_posted(self) -> bool:
        """Whether there is a comment to keep state in."""
        return self._to is not None

    def begin(
        self,
        change: ChangeSet,
        files: AffectedFiles,
        source: str,
        asked_for: str,
    ) -> CarriedReview:
        """What a review of ``change`` can take from the last one.

        ``source`` is that of the model's findings, ``asked_for`` a hash of its task.
        """
        if self._to is None:
            return CarriedReview("this run posts no summary comment to store results in")
        if self.is_asked:
            return CarriedReview("a comment asks for a full review", is_kept=True)
        last, doubt = self._last(self._to)
        self.last = last
        if last is None:
            why = doubt or "there is no earlier review"
            return CarriedReview(why, is_doubt=bool(doubt), is_kept=True)
        now = Checkpoint(
            self._to.number, self._to.head, change.base, change.merge_base, "",
            self._fingerprint(), "", target=self._to.target,
        )  # fmt: skip
        since, why = summary_comment.resume(
            last, now, lambda old, new: _is_ancestor(change, old, new)
        )
        if since is None:
            return CarriedReview(why, is_doubt=True, is_kept=True)
        saved = _read(last.review, source, asked_for)
        if isinstance(saved, str):
            return CarriedReview(saved, is_doubt=True, is_kept=True)
        return _gone_on(since, why, saved, change, files)

    def _last(self, to: Destination) -> tuple[Checkpoint | None, str]:
        """The checkpoint of the last run, or why there is none."""
        from rlm_ci.github.posting.summary_comment import previous_run

        try:
            run = previous_run(self._way.client(), to)
        except UnavailableError as error:  # posting fails by it too, and says so
            return None, str(error)
        except RlmCiError as error:
            return None, f"the summary comment cannot be read: {error}"
        self._way.author = run.login
        return run.last, run.doubt


def _is_ancestor(change: ChangeSet, old: str, new: str) -> bool:
    repository = change.repository
    if None in repository.resolve(old, new):
        return False  # rewritten
    return repository.merge_base(old, new) == old


def _read(text: str, source: str, asked_for: str) -> SavedReview | str:
    """The stored review, or why it cannot be used."""
    if not text:
        return "the last run had no complete review by a model"
    if text in (carry_over.TOO_MUCH, summary_comment.NO_ROOM):
        return "the last review found more than the summary comment can store"
    try:
        review = carry_over.unpack(text, source, DOMAINS)
    except ValueError:
        return "the state of the last review cannot be read"
    if review.asked_for != asked_for:
        return "the model or its task has changed"
    return review


def _gone_on(
    since: str, why: str, review: SavedReview, change: ChangeSet, affected_files: AffectedFiles
) -> CarriedReview:
    corpus, changed = affected_files.corpus, change.names()
    by_path = {file.path: file for file in corpus.files}
    new = [path for path in changed if affected_files.mark(path) not in review.marks]
    after = change.replace(trigger="range", base=since, merge_base=since, also=())
    # A file that is as at the base again is no longer part of the change, and nobody reads it.
    restored = frozenset(after.names()).difference(changed)
    stale = carry_over.stale(review.claims, [*new, *restored], by_path.keys())
    claimed = {lines.path for claim in review.claims for lines in claim.places}
    again = {
        lines.path
        for claim in review.claims
        if claim.has_reproduction
        for lines in claim.places
        if lines.path in stale or lines.path not in by_path
    }
    edited = _edited(after, affected_files, again)
    files = [by_path[path] for path in sorted(claimed & by_path.keys() - stale)]
    pairs = zip(files, corpus.read(files) if files else (), strict=True)
    contents = {file.path: (file.oid, content) for file, content in pairs}
    claims, counts = carry_over.opened(review.claims, stale, by_path.keys(), contents, edited)
    if counts.rejected:
        lost = f"{count(counts.rejected, 'place')} that the last review names"
        return CarriedReview(
            f"{lost} cannot be found again", is_doubt=True, is_kept=True, counts=counts
        )
    order = tuple(path for path in changed if path in stale)
    return CarriedReview(
        why,
        is_kept=True,
        since=since,
        asked=order,
        claims=claims,
        counts=counts,
        is_same=since == change.head,
        unchecked=tuple(path for path in review.unchecked if path in by_path and path not in stale),
        words=carried_words.still_true(review.sentences, change, since)
        if review.sentences
        else None,
    )


def _edited(
    after: ChangeSet, affected_files: AffectedFiles, paths: Collection[str]
) -> dict[str, EditedFile]:
    """Those of ``paths`` that are still there behind ``after``, if by another name."""
    if not paths:
        return {}
    hunks = after.hunks(context=0)[0]
    names = {change.old_path: change.path for change in after.files() if change.old_path}
    files = {path: affected_files.files([names.get(path, path)]) for path in sorted(paths)}
    present = {path: some[0] for path, some in files.items() if some}
    before = after.repository.read(*(f"{after.base}:{path}" for path in present)) if present else ()
    contents = affected_files.corpus.read([*present.values()]) if present else ()
    return {
        path: EditedFile(old, file.path, file.oid, content, hunks.get(file.path, ()))
        for (path, file), old, content in zip(present.items(), before, contents, strict=True)
        if old is not None
    }
