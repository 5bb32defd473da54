"""Changes held against each other in pairs: one part of a report."""

from __future__ import annotations

from itertools import chain, combinations

from rlm_ci.checks._description.claims import closed_issues
from rlm_ci.console.failures import failure
from rlm_ci.errors import ConfigError
from rlm_ci.judge.config_file import TOGETHER as RULES
from rlm_ci.report.findings import INCOMPLETE, Finding, Location, Part, Severity
from rlm_ci.report.overview.changes import CHANGED, MOVED
from rlm_ci.system import files
from rlm_ci.text.printable import count, printable
from rlm_ci.together.conflicts import TrialMerges
from rlm_ci.together.lost_hunks import lost_hunks
from rlm_ci.together.names import added_twice, broken_uses
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.git.repository import Repository
    from rlm_ci.together.conflicts import Conflict, ConflictSide
    from rlm_ci.together.lost_hunks import LostHunk
    from rlm_ci.together.names import BrokenUse
    from rlm_ci.together.open_changes import NotLookedAt, OpenChange

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
        self._pairs = 0

    def part(self) -> Part:
        subject, focus = self._subject, self._subject.focus
        alone = [focus] if focus else subject.changes
        findings = [finding for change in alone for finding in self._of_change(change)]
        readable = [change for change in subject.changes if self._is_read(change)]
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
        self._pairs += 1
        if (
            change.head in other.commits
            or other.head in change.commits
            or (change.head == other.head)
        ):
            return []  # one is built on the other, and comes after it
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
        limits = list(dict.fromkeys(chain(*(change.sides.limits for change in readable))))
        summary = f"{count(len(readable), 'change')} of {printable(subject.base_name)} compared"
        summary += f" in {count(self._pairs, 'pair')}"
        if subject.left_out:
            summary += f"; {count(subject.left_out, 'older change')} not looked at (the limit)"
        for label, items in (
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
