"""What a change adds to the findings of analyzers.

They look at the base's files too, and each finding there cancels one at the head.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from rlm_ci.change.evidence import anchor
from rlm_ci.recursion.nodes import FILE_GROUP, LeafTask, LeafText, Node, NodeScope
from rlm_ci.report.findings import KNOWN, UNTOUCHED, Location, Severity
from rlm_ci.review.analyzers import ruff, run
from rlm_ci.review.change.changed_lines import is_touched, overlaps, removed_of
from rlm_ci.review.change.finding_identity import marks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.report.findings import Finding
    from rlm_ci.review.analyzers.programs import Analyzer
    from rlm_ci.review.change.changed_lines import Ranges

_UNDEFINED = f"review/{ruff.NAME}-f821"
#: Files that are analysed at once.
_BATCH = 400


def _look(
    change: ChangeSet,
    analyzers: Sequence[Analyzer],
    domains: Sequence[str],
    most: int,
    oids: Mapping[str, str],
) -> Iterator[tuple[str, list[tuple[Finding, str]], list[str]]]:
    """For each readable path: its findings with their marks, and who failed on it."""
    # A script without an ending is known by its first line only.
    scripts = {path for path in oids if "." not in path.rpartition("/")[2]}
    wanted = sorted(run.known(analyzers, sorted(oids)) | scripts)
    for at in range(0, len(wanted), _BATCH):
        paths = wanted[at : at + _BATCH]
        contents = change.repository.read_small([oids[path] for path in paths], most)
        texts = tuple(
            LeafText.of((path, oids[path], content, 1, None))
            for path, content in zip(paths, contents, strict=True)
            if content is not None
        )
        if not texts:
            continue
        node = Node.of(("", None, 0, NodeScope.of((FILE_GROUP, "", 0, len(texts), None, None))))
        done = run.analyse(LeafTask(node, texts, {}), analyzers, domains)
        found: dict[str, list[tuple[Finding, str]]] = {one.path: [] for one in texts}
        for pair in zip(done.findings, marks(done.findings, texts), strict=True):
            found[pair[0].evidence[0].path].append(pair)
        failed: dict[str, list[str]] = {}
        for name, path, _ in done.failed:
            failed.setdefault(path, []).append(name)
        for path, some in found.items():
            yield path, some, failed.get(path, [])


def at_base(
    change: ChangeSet, chosen: Sequence[Analyzer], domains: Sequence[str], most: int
) -> dict[str, Any]:
    """What is found at the base, as JSON, in files of at most ``most`` bytes.

    By new path, ``found`` has the marks, ``names`` what is undefined, and ``unknown`` which
    analyzers failed: what is new for them is not known. ``left`` are marks that have left their
    files. Raises StorageError.
    """
    files = [one for one in change.files() if one.old_mode.startswith("100")]
    before = {one.old_path or one.path: one for one in files if one.status[:1] in "MRTD"}
    gone = removed_of(change) if before else {}
    look = partial(_look, change, chosen, domains, most)
    found: dict[str, list[str]] = {}
    names: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    moved: dict[str, Counter[str]] = {}
    oids = {old: one.old_oid for old, one in before.items()}
    for old, told, failed in look(oids):
        one = before[old]
        everything = [mark for _, mark in told]
        if one.status[:1] == "D":
            moved[one.path] = Counter(everything)
            continue
        is_broken = any(finding.rule == run.SYNTAX for finding, _ in told)
        found[one.path] = sorted(everything)
        names[one.path] = sorted({f.message for f, _ in told if f.rule == _UNDEFINED})
        unknown[one.path] = sorted({*failed, *([ruff.NAME] if is_broken else [])})
        if any(overlaps(finding.evidence[0], gone.get(one.path, ())) for finding, _ in told):
            moved[one.path] = Counter(everything)
    after = {one.path: one.new_oid for one in files if one.path in moved and one.status[:1] != "D"}
    for path, told, _ in look(after):
        moved[path] -= Counter(mark for _, mark in told)
    return {
        "found": dict(sorted(found.items())),
        "left": sorted(mark for marks_ in moved.values() for mark in marks_.elements()),
        "names": {path: some for path, some in sorted(names.items()) if some},
        "unknown": {path: some for path, some in sorted(unknown.items()) if some},
    }


def compared(
    found: Sequence[Finding], texts: Sequence[LeafText], changed: Ranges, base: Mapping[str, Any]
) -> list[Finding]:
    """``found``; what the base has too is suppressed.

    A new finding on untouched lines points to the nearest changed line first, its likely cause.
    """
    compare = _Comparison(texts, changed, base)
    marked = list(marks(found, texts))
    told: dict[int, Finding] = {}
    # Of two equal ones, the one on untouched lines is the old one.
    for at in sorted(range(len(found)), key=lambda at: is_touched(found[at], changed)):
        told[at] = compare(found[at], marked[at])
    return [told[at] for at in sorted(told)]


class _Comparison:
    def __init__(self, texts: Sequence[LeafText], changed: Ranges, base: Mapping[str, Any]) -> None:
        self._texts = {one.path: one for one in texts}
        self._changed = changed
        self._base = base
        self._known = {path: Counter(some) for path, some in base["found"].items()}
        self._left = Counter(base["left"])

    def __call__(self, one: Finding, mark: str) -> Finding:
        path = one.evidence[0].path
        if path not in self._changed:
            return one
        touched = is_touched(one, self._changed)
        if self._takes(path, mark, touched=touched):
            return one.replace(suppression=KNOWN if touched else UNTOUCHED)
        if one.rule == _UNDEFINED and one.message in self._base["names"].get(path, ()):
            # The name was used before without a definition, so something else may define it.
            one = one.replace(severity=min(one.severity, Severity.MEDIUM))
        if touched:
            return one
        cause = self._cause(one)
        if cause is None:
            return one.replace(suppression=UNTOUCHED)
        start = one.evidence[0].line_start
        where = "the file" if start is None else f"line {start}"
        message = f"{one.message} (at {where}, because of this change)"
        return one.replace(message=message, evidence=(cause, *one.evidence))

    def _takes(self, path: str, mark: str, *, touched: bool) -> bool:
        """Take an equal one from the base's, of this file or moved from another."""
        pools = [self._known.get(path, Counter()), *([self._left] if touched else [])]
        pool = next((one for one in pools if one[mark] > 0), None)
        if pool is not None:
            pool[mark] -= 1
        return pool is not None

    def _cause(self, one: Finding) -> Location | None:
        """The changed line nearest to a new finding on other lines, else None."""
        path = one.evidence[0].path
        is_open = one.suppression is None and one.severity > Severity.INFO
        tool = one.source.partition(":")[2]
        is_new = path in self._base["found"] and tool not in self._base["unknown"].get(path, ())
        if not (is_open and is_new and path in self._texts):
            return None
        return _nearest(one.evidence[0], self._texts[path], self._changed)


def _nearest(place: Location, text: LeafText, changed: Ranges) -> Location | None:
    last = max(1, len(text.complete.splitlines()))
    start = place.line_start or 1
    ends = [min(end, last) for one in changed.get(place.path, ()) for end in one]
    if not ends:
        return None
    nearest = min(ends, key=lambda end: abs(end - start))
    return anchor(Location(place.path, nearest), text.complete, text.blob).location
