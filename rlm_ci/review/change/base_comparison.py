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
    limit: int,
    oids: Mapping[str, str],
) -> Iterator[tuple[str, list[tuple[Finding, str]], list[str]]]:
    """For each readable path: its findings with their marks, and who failed on it."""
    # A script without an ending is known by its first line only.
    scripts = {path for path in oids if "." not in path.rpartition("/")[2]}
    candidates = sorted(run.paths_looked_at(analyzers, sorted(oids)) | scripts)
    for at in range(0, len(candidates), _BATCH):
        paths = candidates[at : at + _BATCH]
        contents = change.repository.read_small([oids[path] for path in paths], limit)
        texts = tuple(
            LeafText.of((path, oids[path], content, 1, None))
            for path, content in zip(paths, contents, strict=True)
            if content is not None
        )
        if not texts:
            continue
        node = Node.of(("", None, 0, NodeScope.of((FILE_GROUP, "", 0, len(texts), None, None))))
        done = run.analyse(LeafTask(node, texts, {}), analyzers, domains)
        by_path: dict[str, list[tuple[Finding, str]]] = {text.path: [] for text in texts}
        for pair in zip(done.findings, marks(done.findings, texts), strict=True):
            by_path[pair[0].evidence[0].path].append(pair)
        failed: dict[str, list[str]] = {}
        for name, path, _ in done.failed:
            failed.setdefault(path, []).append(name)
        for path, some in by_path.items():
            yield path, some, failed.get(path, [])


def at_base(
    change: ChangeSet, chosen: Sequence[Analyzer], domains: Sequence[str], limit: int
) -> dict[str, Any]:
    """What is found at the base, as JSON, in files of at most ``limit`` bytes.

    By new path, ``found`` has the marks, ``names`` what is undefined, and ``unknown`` which
    analyzers failed: what is new for them is not known. ``left`` are marks that have left their
    files. Raises StorageError.
    """
    files = [file for file in change.files() if file.old_mode.startswith("100")]
    before = {file.old_path or file.path: file for file in files if file.status[:1] in "MRTD"}
    gone = removed_of(change) if before else {}
    look = partial(_look, change, chosen, domains, limit)
    marks_by_path: dict[str, list[str]] = {}
    names: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    moved: dict[str, Counter[str]] = {}
    oids = {old: file_change.old_oid for old, file_change in before.items()}
    for old, pairs, failed in look(oids):
        file_change = before[old]
        everything = [mark for _, mark in pairs]
        if file_change.status[:1] == "D":
            moved[file_change.path] = Counter(everything)
            continue
        is_broken = any(finding.rule == run.SYNTAX for finding, _ in pairs)
        marks_by_path[file_change.path] = sorted(everything)
        names[file_change.path] = sorted({f.message for f, _ in pairs if f.rule == _UNDEFINED})
        unknown[file_change.path] = sorted({*failed, *([ruff.NAME] if is_broken else [])})
        if any(
            overlaps(finding.evidence[0], gone.get(file_change.path, ())) for finding, _ in pairs
        ):
            moved[file_change.path] = Counter(everything)
    after = {
        file.path: file.new_oid for file in files if file.path in moved and file.status[:1] != "D"
    }
    for path, pairs, _ in look(after):
        moved[path] -= Counter(mark for _, mark in pairs)
    return {
        "found": dict(sorted(marks_by_path.items())),
        "left": sorted(mark for marks_ in moved.values() for mark in marks_.elements()),
        "names": {path: some for path, some in sorted(names.items()) if some},
        "unknown": {path: some for path, some in sorted(unknown.items()) if some},
    }


def compared(
    findings: Sequence[Finding], texts: Sequence[LeafText], changed: Ranges, base: Mapping[str, Any]
) -> list[Finding]:
    """``findings``; what the base has too is suppressed.

    A new finding on untouched lines points to the nearest changed line first, its likely cause.
    """
    compare = _Comparison(texts, changed, base)
    marked = list(marks(findings, texts))
    by_index: dict[int, Finding] = {}
    # Of two equal ones, the one on untouched lines is the old one.
    for at in sorted(range(len(findings)), key=lambda at: is_touched(findings[at], changed)):
        by_index[at] = compare(findings[at], marked[at])
    return [by_index[at] for at in sorted(by_index)]


class _Comparison:
    def __init__(self, texts: Sequence[LeafText], changed: Ranges, base: Mapping[str, Any]) -> None:
        self._texts = {text.path: text for text in texts}
        self._changed = changed
        self._base = base
        self._known = {path: Counter(some) for path, some in base["found"].items()}
        self._left = Counter(base["left"])

    def __call__(self, finding: Finding, mark: str) -> Finding:
        path = finding.evidence[0].path
        if path not in self._changed:
            return finding
        touched = is_touched(finding, self._changed)
        if self._takes(path, mark, touched=touched):
            return finding.replace(suppression=KNOWN if touched else UNTOUCHED)
        if finding.rule == _UNDEFINED and finding.message in self._base["names"].get(path, ()):
            # The name was used before without a definition, so something else may define it.
            finding = finding.replace(severity=min(finding.severity, Severity.MEDIUM))
        if touched:
            return finding
        cause = self._cause(finding)
        if cause is None:
            return finding.replace(suppression=UNTOUCHED)
        start = finding.evidence[0].line_start
        where = "the file" if start is None else f"line {start}"
        message = f"{finding.message} (at {where}, because of this change)"
        return finding.replace(message=message, evidence=(cause, *finding.evidence))

    def _takes(self, path: str, mark: str, *, touched: bool) -> bool:
        """Take an equal one from the base's, of this file or moved from another."""
        pools = [self._known.get(path, Counter()), *([self._left] if touched else [])]
        pool = next((counts for counts in pools if counts[mark] > 0), None)
        if pool is not None:
            pool[mark] -= 1
        return pool is not None

    def _cause(self, finding: Finding) -> Location | None:
        """The changed line nearest to a new finding on other lines, else None."""
        path = finding.evidence[0].path
        is_open = finding.suppression is None and finding.severity > Severity.INFO
        tool = finding.source.partition(":")[2]
        is_new = path in self._base["found"] and tool not in self._base["unknown"].get(path, ())
        if not (is_open and is_new and path in self._texts):
            return None
        return _nearest(finding.evidence[0], self._texts[path], self._changed)


def _nearest(location: Location, text: LeafText, changed: Ranges) -> Location | None:
    last = max(1, len(text.complete.splitlines()))
    start = location.line_start or 1
    ends = [min(end, last) for span in changed.get(location.path, ()) for end in span]
    if not ends:
        return None
    nearest = min(ends, key=lambda end: abs(end - start))
    return anchor(Location(location.path, nearest), text.complete, text.blob).location
