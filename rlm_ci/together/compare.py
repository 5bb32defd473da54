"""Open changes compared in pairs, and each with the merges of its branch: one part of a report.

A merge of the base may have lost hunks that the branch had added.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import reduce
from itertools import chain, combinations
from operator import or_

from rlm_ci.change.change_set import ChangeSet, diff_of
from rlm_ci.checks._description.claims import closed_issues
from rlm_ci.console.failures import failure
from rlm_ci.errors import ConfigError
from rlm_ci.judge.config_file import TOGETHER as RULES
from rlm_ci.report.findings import INCOMPLETE, Finding, Location, Part, Severity
from rlm_ci.report.overview.changes import CHANGED, MOVED
from rlm_ci.system import files
from rlm_ci.text.globs import LOCK_FILES
from rlm_ci.text.printable import count, printable
from rlm_ci.together.conflicts import TrialMerges
from rlm_ci.together.names import added_twice, broken_uses
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlm_ci.git.patches import FileDiff, Hunk, PatchDiff
    from rlm_ci.git.repository import Repository
    from rlm_ci.together.conflicts import Conflict, ConflictSide
    from rlm_ci.together.names import BrokenUse
    from rlm_ci.together.open_changes import NotLookedAt, OpenChange


#: Merges of one change that are looked at, the newest first, and bytes of a file.
MOST_MERGES, _LIMIT = 20, 1 << 20
#: Lines such as ``}`` and ``else:`` say nothing of where they come from.
_TELLING = re.compile(r"\w\W*\w\W*\w\W*\w\W*\w")


class LostHunk(Value):
    """Lines of ``path`` before ``merge`` that it lacks, or, if ``is_back``, has back.

    They stood from ``line_start`` to ``line_end`` of ``branch`` (of the base, if ``is_back``);
    ``line`` is where they would be after the merge, 0 where the file is gone. ``is_silent``: a
    merge by git alone had kept them.
    """

    merge: str
    branch: str
    path: str
    line_start: int
    line_end: int
    line: int
    is_back: bool
    is_silent: bool


class _Merge(Value):
    """A merge of the base: its commit, the branch before it, and the commit of the base."""

    commit: str
    branch: str
    trunk: str


def lost_hunks(change: OpenChange, merges: TrialMerges) -> list[LostHunk]:
    """The hunks that merges of the base lost, and that later commits did not bring back."""
    lost: list[LostHunk] = []
    for merge in _merges(change):
        lost += _of_merge(change, merge, merges)
    return lost


def _merges(change: OpenChange) -> Iterator[_Merge]:
    """The merges with one parent of the branch and one of the base, the newest first."""
    repository, base = change.change.repository, str(change.change.base)
    options = ("--merges", "--parents", f"--max-count={MOST_MERGES + 1}")
    rows = repository.run("rev-list", *options, change.head, "--not", base).decode().split("\n")
    if rows[MOST_MERGES + 1 :]:
        change.sides.limit(f"merges of {change.name} before its last {MOST_MERGES}")
    for row in rows[:MOST_MERGES]:
        commit, *parents = row.split() or [""]
        outside = [parent for parent in parents if parent not in change.commits]
        if len(parents) == 2 and len(outside) == 1:
            branch = next(parent for parent in parents if parent not in outside)
            yield _Merge(commit, branch, outside[0])


def _of_merge(change: OpenChange, merge: _Merge, merges: TrialMerges) -> Iterator[LostHunk]:
    repository = merges.repository
    fork = repository.merge_base(merge.branch, merge.trunk)
    if fork is None:
        return
    branch = _difference(repository, fork, merge.branch)
    merged = _difference(repository, merge.branch, merge.commit)
    added = {
        line.text.strip()
        for file in merged.files
        for hunk in file.hunks or ()
        for line in hunk.lines
        if line.kind == "+"
    }
    by_git = None
    for file in branch.files:
        after = merged.file(file.path, "old")
        back = merged.file(file.path) if file.status == "D" else after
        if after is None and back is None:
            continue  # the merge left it as the branch had it
        if file.path.rpartition("/")[2] in LOCK_FILES:
            continue  # a tool writes it anew
        by_git = by_git or repository.merge_trees(merge.branch, merge.trunk)
        names = tuple({file.path, file.old_path, after.path if after else file.path})
        is_silent = frozenset(names).isdisjoint(by_git[1])
        commits = merge.trunk, change.head, by_git[0] if is_silent else merge.branch, merge.commit
        texts = [_lines(repository, commit, names) for commit in commits]
        for hunk in file.hunks or ():
            lost = _lost(hunk, after, added, texts, is_silent=is_silent) or _back(hunk, back, texts)
            if lost is None:
                continue
            start, end, line, is_back = lost
            yield LostHunk(
                merge.commit, fork if is_back else merge.branch,
                file.old_path if is_back else file.path, start, end, line, is_back, is_silent,
            )  # fmt: skip


def _difference(repository: Repository, old: str, new: str) -> PatchDiff:
    side = ChangeSet(repository, "range", base=old, head=new, merge_base=old)
    return diff_of(side.files(), *side.hunks(0))


def _lines(repository: Repository, commit: str, names: Sequence[str]) -> Counter[str]:
    """The lines of a file at a commit, counted, by whichever of its names it has there."""
    contents = repository.read_small([f"{commit}:{name}" for name in names], _LIMIT)
    texts = [(content or b"").decode("utf-8", "surrogateescape") for content in contents]
    return reduce(or_, (Counter(line.strip() for line in text.split("\n")) for text in texts))


def _lost(
    hunk: Hunk, after: FileDiff | None, added: set[str], texts: Sequence[Counter[str]],
    *, is_silent: bool,
) -> tuple[int, int, int, bool] | None:  # fmt: skip
    """The lines that a hunk added and a merge removed, for nothing or for lines of the base.

    A merge in conflict must have removed all of them: to leave some of them out may be its answer.
    """
    if after is None or after.hunks is None:
        return None
    trunk, head, expected, at_merge = texts
    present = head | at_merge  # later commits may bring lines back, or take them away
    removed = _removed(after)
    numbers = [line.new for line in hunk.lines if line.kind == "+" and line.new]
    candidates, lost = 0, []
    for line in hunk.lines:
        text, number = line.text.strip(), line.new or 0
        if line.kind != "+" or not _TELLING.search(text) or not (is_silent or text not in trunk):
            continue
        candidates += 1
        if number in removed and text not in added and present[text] < expected[text]:
            position, replaced = removed[number]
            # What nobody had before was written anew.
            if not any(other.strip() and other.strip() not in trunk for other in replaced):
                lost.append((number, position))
    if not lost or not (is_silent or len(lost) == candidates):
        return None
    if len(lost) < candidates:
        numbers = [number for number, _ in lost]
    return numbers[0], numbers[-1], 0 if after.status == "D" else lost[0][1], False


def _removed(file: FileDiff) -> Mapping[int, tuple[int, list[str]]]:
    """The lines that are gone, each with where it would be now, and the lines in its stead."""
    removed: dict[int, tuple[int, list[str]]] = {}
    for hunk in file.hunks or ():
        texts = [line.text for line in hunk.lines if line.kind == "+"]
        position = max(1, hunk.new_start)
        removed |= {line.old: (position, texts) for line in hunk.lines if line.old}
    return removed


def _back(
    hunk: Hunk, after: FileDiff | None, texts: Sequence[Counter[str]]
) -> tuple[int, int, int, bool] | None:
    """The lines that a hunk only removed and a merge has back."""
    if after is None or any(line.kind == "+" for line in hunk.lines):
        return None
    head = texts[1]
    lines = [line for line in hunk.lines if line.kind == "-"]
    telling = {line.text.strip() for line in lines if _TELLING.search(line.text)}
    added = [line for other in after.hunks or () for line in other.lines if line.kind == "+"]
    back = [line for line in added if line.text.strip() in telling]
    if not telling or {line.text.strip() for line in back} != telling or not telling <= head.keys():
        return None
    return lines[0].old or 1, lines[-1].old or 1, back[0].new or 1, True


ID = "together"
_HINTS = {
    "removed": "keep the name until both are merged, or let the second of them follow",
    "changed": "let the second of them follow the new form",
    "conflict": "merge one of them, and bring the other up to date",
    "added-twice": "leave it to one of them, or choose another name",
    "same-issue": "agree on one of them",
    "base-conflict": "merge the base into it",
    "lost-hunk": "look at the merge, and bring the lines back if they are still needed",
}
#: Findings of a part, and names of changes and limits in its summary.
_MOST, _SHOWN = 300, 5


class ChangesToCompare(Value):
    """Changes of one base, and those that could not be read; ``focus`` is one of the changes.

    With it only its own pairs are compared. ``left_out`` counts changes that nobody looked at.
    """

    base: str
    base_name: str
    changes: tuple[OpenChange, ...]
    not_looked_at: tuple[NotLookedAt, ...] = ()
    left_out: int = 0
    focus: OpenChange | None = None


def compare(repository: Repository, subject: ChangesToCompare) -> Part:
    """One part: ``incomplete`` if not everything could be looked at."""
    with files.scratch("rlm-ci-together-") as folder:
        comparison = _Comparison(subject, TrialMerges(repository, subject.base, folder))
        return comparison.part()


class _Comparison:
    def __init__(self, subject: ChangesToCompare, merges: TrialMerges) -> None:
        self._subject, self._merges = subject, merges
        self._unread = {item.name: item.reason for item in subject.not_looked_at}
        self._unpaired: list[str] = []
        self._pairs = self._stacked = 0

    def part(self) -> Part:
        subject, focus = self._subject, self._subject.focus
        alone = [focus] if focus else subject.changes
        findings = [finding for change in alone for finding in self._of_change(change)]
        readable = [
            change for change in subject.changes if self._is_read(change) and change.commits
        ]
        merging = {change.name for change in readable if not self._merges.with_base(change)}
        for change, other in combinations(readable, 2):
            if focus in (None, change, other):
                findings += self._of_pair(change, other, merging)
        return self._summed_up(findings, readable)

    # ── what is looked at ──

    def _is_read(self, change: OpenChange) -> bool:
        """Whether a change can be read as a whole; why not is said in the summary."""
        if change.name in self._unread:
            return False
        try:
            _ = change.names, change.hunks, change.commits
            self._merges.with_base(change)
        except Exception as error:  # noqa: BLE001 - one hostile change must not hide the others
            self._unread[change.name] = str(failure(error))
            return False
        return True

    def _of_change(self, change: OpenChange) -> list[Finding]:
        """What is wrong between a change and its base."""
        if not self._is_read(change):
            return []
        try:
            lost = lost_hunks(change, self._merges)
            findings = [self._lost(change, item) for item in lost]
            if paths := self._merges.with_base(change):
                findings.append(self._with_base(change, paths))
        except Exception as error:  # noqa: BLE001 - as above
            self._unread[change.name] = str(failure(error))
            return []
        return findings

    def _of_pair(self, change: OpenChange, other: OpenChange, merging: set[str]) -> list[Finding]:
        """What breaks if both are merged, each of them alone being fine."""
        if (
            change.head in other.commits
            or other.head in change.commits
            or (change.head == other.head)
        ):
            self._stacked += 1
            return []  # one is built on the other, and comes after it
        self._pairs += 1
        try:
            findings = list(self._of_names(change, other))
            if {change.name, other.name} <= merging:
                findings += self._of_merge(change, other)
            findings += self._of_issues(change, other)
        except Exception as error:  # noqa: BLE001 - as above
            self._unpaired.append(f"{change.name} with {other.name}: {failure(error)}")
            return []
        return findings

    # ── findings ──

    def _of_names(self, change: OpenChange, other: OpenChange) -> Iterator[Finding]:
        for taker, user in ((change, other), (other, change)):
            for item in broken_uses(taker, user):
                yield self._broken(taker, user, item)
        for double in added_twice(change, other):
            name = printable(double.name)[:100]
            both = _both(f"{double.path}:{double.line}", f"{double.other_path}:{double.other_line}")
            yield self._finding(
                "added-twice",
                f"{change.name} and {other.name} both add `{name}` ({both})",
                (change, double.path, double.line), (other, double.other_path, double.other_line),
                about=double.name,
            )  # fmt: skip

    def _broken(self, taker: OpenChange, user: OpenChange, item: BrokenUse) -> Finding:
        verb = {CHANGED: "changes", MOVED: "moves"}.get(item.kind, "removes")
        name = printable(item.taken)[:200]
        position = printable(f"{item.taken_path}:{item.taken_line}")
        notes = "; ".join((position, *map(printable, item.notes)))[:400]
        more = f", and in {item.count - 1:,} more lines" if item.count > 1 else ""
        what = f"`{name}` ({notes})" if name != item.taken_path else f"the file {position}"
        finding = self._finding(
            "changed" if item.kind == CHANGED else "removed",
            f"{taker.name} {verb} {what}, which {user.name} uses in new lines "
            f"({printable(item.path)}:{item.line}{more})",
            (taker, item.taken_path, item.taken_line, item.is_old), (user, item.path, item.line),
            about=item.taken,
        )  # fmt: skip
        is_draft = taker.is_draft or user.is_draft
        return finding.replace(severity=Severity.MEDIUM) if is_draft else finding

    def _of_merge(self, change: OpenChange, other: OpenChange) -> Iterator[Finding]:
        if conflicts := self._merges.between(change, other):
            conflict = conflicts[0]
            first, second = conflict.sides
            both = _both(_position(first), _position(second)) + _more(len(conflicts) - 1)
            yield self._finding(
                "conflict", f"{change.name} and {other.name} conflict in {both}",
                (change, first.path, first.line, first.old),
                (other, second.path, second.line, second.old), about=conflict.path,
            )  # fmt: skip

    def _with_base(self, change: OpenChange, paths: Sequence[str]) -> Finding:
        path, more = paths[0], _more(len(paths) - 1)
        conflict: Conflict = self._merges.base_conflict(change, path)
        first, second = conflict.sides
        base = printable(self._subject.base_name)
        both = _both(_position(first), _position(second))
        return self._finding(
            "base-conflict",
            f"{change.name} conflicts with {base} in {both}{more}",
            (change, first.path, first.line, first.old), about=path,
        )  # fmt: skip

    def _of_issues(self, change: OpenChange, other: OpenChange) -> Iterator[Finding]:
        doubles = [issue for issue in _issues(change) if issue in _issues(other)]
        for issue in doubles:
            what = f"{change.name} and {other.name} both close {issue}"
            yield self._finding("same-issue", what, about=f"{change.name} {other.name} {issue}")

    def _lost(self, change: OpenChange, item: LostHunk) -> Finding:
        span = "-".join(map(str, dict.fromkeys((item.line_start, item.line_end))))
        path, merge = printable(item.path), item.merge[:12]
        now = f"now at {path}:{item.line}" if item.line else "the file is gone"
        what = "brought back lines that it had removed" if item.is_back else "lost its lines"
        by_git = "" if item.is_silent else "; the merge was in conflict there"
        source = "of the base" if item.is_back else f"of {item.branch[:12]}"
        message = (
            f"in {change.name} the merge {merge} of the base {what}: "
            f"{path}:{span} {source}, {now}{by_git}"
        )
        finding = self._finding(
            "lost-hunk", message, (change, item.path, None), about=f"{merge} {path} {span}"
        )
        return finding if item.is_silent else finding.replace(severity=Severity.MEDIUM)

    def _finding(
        self, condition: str, message: str, *places: tuple[OpenChange, str, int | None]
        | tuple[OpenChange, str, int | None, bool], about: str,
    ) -> Finding:  # fmt: skip
        """A finding with the places in the change in focus, which is what a report is about."""
        focus = self._subject.focus
        evidence: list[Location] = []
        for change, path, line, *old in places:
            if focus in (None, change):
                evidence.append(change.location(path, line, old=any(old)))
        names = " ".join(dict.fromkeys(change.name for change, *_ in places))
        return Finding(
            f"{ID}/{condition}", RULES[condition], message, hint=_HINTS[condition],
            evidence=tuple(evidence), subject=f"{names} {about}".strip(),
        )  # fmt: skip

    # ── the summary ──

    def _summed_up(self, findings: Sequence[Finding], readable: Sequence[OpenChange]) -> Part:
        subject = self._subject
        lost = [f"{name} ({reason})" for name, reason in self._unread.items()]
        merged = [
            change.name
            for change in subject.changes
            if change.name not in self._unread and not change.commits
        ]
        limits = list(dict.fromkeys(chain(*(change.sides.limits for change in readable))))
        summary = f"{count(len(readable), 'change')} of {printable(subject.base_name)} compared"
        summary += f" in {count(self._pairs, 'pair')}"
        if self._stacked:
            summary += f"; {count(self._stacked, 'pair')} not compared, as one contains the other"
        if subject.left_out:
            summary += f"; {count(subject.left_out, 'older change')} not looked at (the limit)"
        for label, items in (
            ("without a commit that the base lacks", merged),
            ("not looked at", lost),
            ("pairs not compared", self._unpaired),
            ("not read", limits),
        ):
            if items:
                summary += f"; {len(items):,} {label}: {_listed(items)}"
        if findings[_MOST:]:
            summary += f"; {len(findings) - _MOST:,} more findings are only counted"
        metrics = {
            "changes": len(readable), "pairs": self._pairs, "findings": len(findings),
            "not_looked_at": len(lost) + subject.left_out,
            "pairs_not_compared": len(self._unpaired),
        }  # fmt: skip
        is_whole = not (lost or subject.left_out or self._unpaired or findings[_MOST:])
        ordered = sorted(findings, key=lambda finding: -finding.severity)[:_MOST]
        if not readable and lost:
            error = ConfigError(f"nothing could be looked at: {_listed(lost)}", where=ID,
                                hint="fetch the whole history: git fetch --unshallow")  # fmt: skip
            return Part.from_error(ID, error)
        return Part(ID, summary, metrics, tuple(ordered), state=None if is_whole else INCOMPLETE)


def _issues(change: OpenChange) -> list[str]:
    """The issues that a change closes, by its pull request and its commits."""
    pull = change.change.pull_request
    # Bots quote what other repositories say of theirs.
    texts = [(pull.title, pull.body)] if pull and not pull.by_bot else []
    texts += [("", message.text) for message in change.change.messages if not message.is_by_bot]
    issues = (issue for title, body in texts for issue in closed_issues(title, body))
    name = change.change.name or ""
    return list(dict.fromkeys(issue.removeprefix(name) for issue in issues))


def _position(side: ConflictSide) -> str:
    line = f":{side.line}" if side.line else ""
    gone = " of its base" if side.old and side.line else ""
    return f"{side.path}{line}{gone}"


def _both(first: str, second: str) -> str:
    """The places of both sides, in the order of the names before them."""
    return printable(f"{first} and {second}")


def _more(number: int) -> str:
    return f", and in {count(number, 'more file')}" if number else ""


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _SHOWN:,} more" if items[_SHOWN:] else ""
    return "; ".join(printable(item)[:200] for item in items[:_SHOWN]) + more
