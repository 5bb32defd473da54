"""Earlier reviews of a pull request, so that a model is asked about new things only.

The summary comment stores them. On any doubt everything is looked at, with the reason.

A sentence goes on while nothing that it rests on has changed: the definitions that it quotes, and
what these and it name. The reader trusts none of it: a quote must have its digest at the last
review, and is looked up in the change as one of a new answer is.
"""

from __future__ import annotations

import keyword
import re
from functools import cache, cached_property

from rlm_ci.errors import RlmCiError, UnavailableError
from rlm_ci.github.posting import summary_comment
from rlm_ci.github.posting.summary_comment import Checkpoint
from rlm_ci.report.findings import Location
from rlm_ci.report.overview.changes import ModelWords, SaidLines, SaidSentence
from rlm_ci.review.change import carry_over
from rlm_ci.review.change.carry_over import (
    CarriedReview,
    CarriedWords,
    EditedFile,
    digest_of,
    line_after,
    opened_at,
)
from rlm_ci.review.change_prompts.changed_files import kind_of
from rlm_ci.review.change_prompts.hunk_rows import CODE, ReadableFile
from rlm_ci.review.change_prompts.pieces import used_name
from rlm_ci.review.objective import DOMAINS
from rlm_ci.source.outline import outline
from rlm_ci.text.printable import count, encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.patches import Hunk
    from rlm_ci.github.posting.outcome import Destination
    from rlm_ci.github.session import GitHubSession
    from rlm_ci.review.change.affected_files import AffectedFiles
    from rlm_ci.review.change.carry_over import SavedReview
    from rlm_ci.source import Symbol


#: Sentences on groups of files, as many as a model may say; characters of one.
_GROUPS, _TEXT = 6, 500
#: Lines that pushes may change in the files of a sentence: so many, or this share of the change's.
_FEW, _SHARE = 5, 0.1
#: Bytes of a file whose definitions are read.
_MOST = 1 << 20
_WORD = re.compile(r"[^\W\d]\w{2,}")
_FUNCTIONS = frozenset(("function", "method"))
#: Words outside of functions that name nothing.
_NO_NAMES = frozenset((*keyword.kwlist, "self", "const", "function", "this", "export"))


def rows(words: ModelWords, head: str, mask: Callable[[str], str]) -> list[list[Any]]:
    """The sentences of a review of ``head`` for the next one; ``mask`` takes secrets out.

    There are none if the model was not asked for all of them.
    """
    records: list[list[Any]] = []
    if words.note:
        return records
    for is_group, sentences in ((False, words.about), (True, words.groups)):
        for sentence in sentences:
            places = [
                [at.path, at.line_start, at.line_end, at.side, digest_of(at.quote)]
                for at in sentence.lines
            ]
            names = (*sentence.files, *(at.path for at in sentence.lines))
            if all(mask(name) == name == encodable(name) for name in names):
                text, since = mask(sentence.text)[:_TEXT], sentence.since or head
                records.append([is_group, text, [*sentence.files], since, places])
    return records


def still_true(
    sentences: Sequence[Sequence[Any]], change: ChangeSet, since: str
) -> CarriedWords | None:
    """Those of the sentences that hold at the head, as at ``since``; None if all is asked anew."""
    push = _Push(change, since, sentences)
    about: list[SaidSentence] = []
    groups: list[SaidSentence] = []
    fallen: set[str] = set()
    is_whole = all(is_group for is_group, *_ in sentences)
    for is_group, text, files, commit, places in sentences:
        sentence = push.carried(text, files, commit, places, is_group=is_group)
        if sentence is not None:
            (groups if is_group else about).append(sentence)
            continue
        fallen.update((*files, *(location[0] for location in places)))
        if not is_group:
            is_whole = True
            fallen.update(push.lines_since(commit) or ())
    described = {path for group in groups for path in group.files}
    pushed = push.lines_since(since) or {}
    fallen.update(path for path, lines in pushed.items() if lines > _FEW and path not in described)
    unexplained = tuple(path for path in change.names() if path in fallen)
    has_no_place = bool(unexplained) and len(groups) >= _GROUPS
    if not (about or groups) or has_no_place or (is_whole and not unexplained):
        return None
    return CarriedWords(ModelWords("", tuple(about), tuple(groups)), unexplained, is_whole)


class _Push:
    """What became of ``change`` since the commit ``since``."""

    def __init__(self, change: ChangeSet, since: str, sentences: Iterable[Sequence[Any]]) -> None:
        self._change = change
        self._repository = change.repository
        self._since = since
        after = self._after(since)
        self._files = after.files()
        self._hunks = after.hunks(context=0)[0]
        self._names = frozenset(change.names())
        renamed = {file.old_path: file.path for file in change.files() if file.old_path}
        touched = {name for file in self._files for name in (file.path, file.old_path)}
        #: Files that the push touches, by all of their names.
        self._touched = touched | {old for old, new in renamed.items() if new in touched}
        names = self._names.union(renamed)
        rested = {(path, side) for *_, some in sentences for path, _, _, side, _ in some}
        places = [(path, side) for path, side in sorted(rested) if path in names]
        commits = {"new": since, "old": change.merge_base}
        texts = self._repository.read(*(f"{commits[side]}:{path}" for path, side in places))
        self._contents = dict(zip(places, texts, strict=True))
        self.lines_since = cache(self._lines_since)

    def carried(
        self,
        text: str,
        files: Sequence[str],
        commit: str,
        places: Iterable[Sequence[Any]],
        *,
        is_group: bool,
    ) -> SaidSentence | None:
        """A sentence of ``commit``, its lines at the head; None if it may be wrong."""
        left = tuple(path for path in files if path in self._names)
        if not self._is_little(commit, left if is_group else self._names):
            return None
        lines, subject = [], text
        for path, start, end, side, digest in places:
            first, last = int(start), int(end)
            content = self._contents.get((path, side)) or b""
            opened = opened_at(Location(path, first, last, side), content, digest)
            hunks = self._hunks.get(path, ())
            if opened is None or (path in self._touched and (side == "old" or not hunks)):
                return None
            definition, span = opened.quote or "", (first, last)
            if side == "new" and (around := _innermost(path, content).get(first)):
                span = min(first, around.line_start), max(last, around.line_end)
                lined = content.decode("utf-8", "surrogateescape").split("\n")
                definition = "\n".join(lined[span[0] - 1 : span[1]])
            if any(_is_touched(hunk, *span) for hunk in hunks):
                return None
            shift = line_after(hunks, first)[0] - first
            lines.append(SaidLines(path, first + shift, last + shift, side, opened.quote or ""))
            subject += f"\n{definition}"
        if self._touched_names.intersection(_WORD.findall(subject)):
            return None
        return SaidSentence(text, tuple(lines), left, commit)

    def _is_little(self, commit: str, paths: Container[str]) -> bool:
        """Whether pushes since ``commit`` have changed few of the lines of some files."""
        pushed = self.lines_since(commit)
        if pushed is None:
            return False
        more = sum(lines for path, lines in pushed.items() if path in paths)
        total = sum(file.lines for file in self._change.files() if file.path in paths)
        return more <= max(_FEW, _SHARE * total)

    def _lines_since(self, commit: str) -> dict[str, int] | None:
        """The changed lines of each file since an ancestor of the last review's commit."""
        if None in self._repository.resolve(commit):
            return None
        if self._repository.merge_base(commit, self._since) != commit:
            return None
        return {file.path: file.lines for file in self._after(commit).files()}

    def _after(self, commit: str) -> ChangeSet:
        return self._change.replace(trigger="range", base=commit, merge_base=commit, also=())

    @cached_property
    def _touched_names(self) -> frozenset[str]:
        """What the push defines in another way, and the words of its lines outside of functions."""
        oids = [oid for file in self._files for oid in (file.old_oid, file.new_oid)]
        read = iter(self._repository.read_small(oids, _MOST))
        names: set[str] = set()
        for file in self._files:
            for side, path in (("old", file.old_path or file.path), ("new", file.path)):
                content = next(read) or b""
                if kind_of(path) != CODE:
                    continue
                inner = _innermost(path, content)
                lines = content.decode("utf-8", "surrogateescape").split("\n")
                for hunk in self._hunks.get(file.path, ()):
                    for number in range(hunk.span(side)[0], hunk.span(side)[1] + 1):
                        symbol = inner.get(number)
                        if symbol is not None:
                            names.add(used_name(symbol.name))
                        if symbol is None or symbol.kind not in _FUNCTIONS:
                            names.update(_WORD.findall(lines[number - 1]))
        return frozenset(names) - _NO_NAMES


def _innermost(path: str, content: bytes) -> dict[int, Symbol]:
    """The innermost definition at each line that is in one."""
    symbols = outline(path, content).symbols if kind_of(path) == CODE else ()
    ordered = tuple(sorted(symbols, key=lambda symbol: (symbol.line_start, -symbol.line_end)))
    return ReadableFile(path, "", CODE, (), (), symbols=ordered).innermost


def _is_touched(hunk: Hunk, first: int, last: int) -> bool:
    """Whether a hunk changes a line of a definition, or comes right before or behind it."""
    start, end = hunk.span("old")
    if not hunk.old_count:  # new lines stand behind the old line ``start``
        return first - 1 <= start <= last
    return start <= last and first <= end


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
        unread_files=order,
        claims=claims,
        counts=counts,
        is_same=since == change.head,
        unchecked=tuple(path for path in review.unchecked if path in by_path and path not in stale),
        words=still_true(review.sentences, change, since) if review.sentences else None,
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
