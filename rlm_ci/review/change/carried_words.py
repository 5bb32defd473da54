"""What a model said that a change does, kept for the next review of the same change.

A sentence goes on while nothing that it rests on has changed: the definitions that it quotes, and
what these and it name. The reader trusts none of it: a quote must have its digest at the last
review, and is looked up in the change as one of a new answer is.
"""

from __future__ import annotations

import keyword
import re
from functools import cache, cached_property

from rlm_ci.report.findings import Location
from rlm_ci.report.overview.changes import ModelWords, SaidLines, SaidSentence
from rlm_ci.review.change.carry_over import CarriedWords, digest_of, line_after, opened_at
from rlm_ci.review.change_prompts.changed_files import kind_of
from rlm_ci.review.change_prompts.hunk_rows import CODE, ReadableFile
from rlm_ci.review.change_prompts.pieces import used_name
from rlm_ci.source.outline import outline
from rlm_ci.text.printable import encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.patches import Hunk
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
