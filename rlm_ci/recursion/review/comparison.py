"""What a change brings of what analyzers find: that which they do not find at its base.

They look at the base's files as well, and what is found there is taken off what is found at the
head, one for one. Nothing is guessed from which lines are changed.
"""

from __future__ import annotations

from collections import Counter

from rlm_ci.evidence import anchor
from rlm_ci.findings import KNOWN, UNTOUCHED, Location, Severity
from rlm_ci.recursion.nodes import FILE_GROUP, Node, Scope, Task, Text
from rlm_ci.recursion.review import analyzers, ruff
from rlm_ci.recursion.review.identity import marks
from rlm_ci.recursion.review.touched import is_touched, removed_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.changes import ChangeSet
    from rlm_ci.findings import Finding
    from rlm_ci.recursion.review.programs import Analyzer
    from rlm_ci.recursion.review.touched import Ranges

_SYNTAX = f"review/{ruff.NAME}-{ruff.SYNTAX}"
_UNDEFINED = f"review/{ruff.NAME}-f821"
#: So many files are looked at in one go.
_BATCH = 400


class _Side:
    """The files of one side of a change, and what is found in them."""

    def __init__(self, change: ChangeSet, analyzers_: Sequence[Analyzer], most: int) -> None:
        self._change = change
        self._analyzers = analyzers_
        self._most = most

    def look(
        self, oids: Mapping[str, str], domains: Sequence[str]
    ) -> Iterator[tuple[str, list[tuple[Finding, str]], list[str]]]:
        """For each path that can be read: what is found, with its mark, and who failed on it."""
        wanted = sorted(analyzers.known(self._analyzers, sorted(oids)) | _scripts(oids))
        for at in range(0, len(wanted), _BATCH):
            texts = self._texts({path: oids[path] for path in wanted[at : at + _BATCH]})
            if not texts:
                continue
            node = Node.of(("", None, 0, Scope.of((FILE_GROUP, "", 0, len(texts), None, None))))
            done = analyzers.analyse(Task(node, texts, {}), self._analyzers, domains)
            found: dict[str, list[tuple[Finding, str]]] = {one.path: [] for one in texts}
            for pair in zip(done.findings, marks(done.findings, texts), strict=True):
                found[pair[0].evidence[0].path].append(pair)
            failed: dict[str, list[str]] = {}
            for name, path, _ in done.failed:
                failed.setdefault(path, []).append(name)
            for path, some in found.items():
                yield path, some, failed.get(path, [])

    def _texts(self, oids: Mapping[str, str]) -> tuple[Text, ...]:
        repository = self._change.repository
        sizes = repository.sizes([*oids.values()])
        small = [path for path, size in zip(oids, sizes, strict=True) if 0 <= size <= self._most]
        contents = repository.read(*(oids[path] for path in small)) if small else []
        return tuple(
            Text.of((path, oids[path], content, 1, None))
            for path, content in zip(small, contents, strict=True)
            if content is not None
        )


def _scripts(paths: Mapping[str, str]) -> set[str]:
    """Those that may be scripts, which only their first line tells."""
    return {path for path in paths if "." not in path.rpartition("/")[2]}


def at_base(
    change: ChangeSet, chosen: Sequence[Analyzer], domains: Sequence[str], most: int
) -> dict[str, Any]:
    """What is found at the base, as JSON. ``most`` are the bytes of a file that is looked at.

    ``found`` has the marks for each new path of a file that was there, ``left`` those that went out
    of their files, ``names`` what is undefined in each, and ``unknown`` who failed on which: of
    these nobody can say what is new, nor of a path that is not among the others. Raises
    StorageError.
    """
    files = [one for one in change.files() if one.old_mode.startswith("100")]
    before = {one.old_path or one.path: one for one in files if one.status[:1] in "MRTD"}
    hunks, _ = change.hunks() if before else ({}, [])
    gone = removed_lines(hunks)
    side = _Side(change, chosen, most)
    found: dict[str, list[str]] = {}
    names: dict[str, list[str]] = {}
    unknown: dict[str, list[str]] = {}
    moved: dict[str, Counter[str]] = {}
    oids = {old: one.old_oid for old, one in before.items()}
    for old, told, failed in side.look(oids, domains):
        one = before[old]
        everything = [mark for _, mark in told]
        if one.status[:1] == "D":
            moved[one.path] = Counter(everything)
            continue
        is_broken = any(finding.rule == _SYNTAX for finding, _ in told)
        found[one.path] = sorted(everything)
        names[one.path] = sorted({f.message for f, _ in told if f.rule == _UNDEFINED})
        unknown[one.path] = sorted({*failed, *([ruff.NAME] if is_broken else [])})
        if any(_overlaps(finding.evidence[0], gone.get(one.path, ())) for finding, _ in told):
            moved[one.path] = Counter(everything)
    after = {one.path: one.new_oid for one in files if one.path in moved and one.status[:1] != "D"}
    for path, told, _ in side.look(after, domains):
        moved[path] -= Counter(mark for _, mark in told)
    return {
        "found": dict(sorted(found.items())),
        "left": sorted(mark for marks_ in moved.values() for mark in marks_.elements()),
        "names": {path: some for path, some in sorted(names.items()) if some},
        "unknown": {path: some for path, some in sorted(unknown.items()) if some},
    }


def _overlaps(place: Location, lines: Sequence[Sequence[int]]) -> bool:
    start = place.line_start or 1
    end = place.line_end or start
    return any(first <= end and start <= last for first, last in lines)


def compared(
    found: Sequence[Finding], texts: Sequence[Text], changed: Ranges, base: Mapping[str, Any]
) -> list[Finding]:
    """``found``, each that the base has as well suppressed.

    What is new, and on lines that the change leaves alone, points to the nearest changed line
    first: something there is its cause.
    """
    known = {path: Counter(some) for path, some in base["found"].items()}
    left = Counter(base["left"])
    by_path = {one.path: one for one in texts}
    told: dict[int, Finding] = {}
    marked = list(marks(found, texts))
    # Of two that are the same, the one on lines that were not touched is the old one.
    for at in sorted(range(len(found)), key=lambda at: is_touched(found[at], changed)):
        told[at] = _told(found[at], marked[at], changed, base, known, left, by_path)
    return [told[at] for at in sorted(told)]


def _told(  # noqa: PLR0917 - what the base has, and is taken from it
    one: Finding,
    mark: str,
    changed: Ranges,
    base: Mapping[str, Any],
    known: Mapping[str, Counter[str]],
    left: Counter[str],
    texts: Mapping[str, Text],
) -> Finding:
    path = one.evidence[0].path
    if path not in changed:
        return one
    touched = is_touched(one, changed)
    pools = [known.get(path, Counter())] + ([left] if touched else [])
    for pool in pools:
        if pool[mark] > 0:
            pool[mark] -= 1
            return one.replace(suppression=KNOWN if touched else UNTOUCHED)
    if one.rule == _UNDEFINED and one.message in base["names"].get(path, ()):
        # Somebody gives the file this name: it was used before, and nothing bound it.
        one = one.replace(severity=min(one.severity, Severity.MEDIUM))
    if touched:
        return one
    is_known = path in base["found"] and _tool(one) not in base["unknown"].get(path, ())
    is_open = one.suppression is None and one.severity > Severity.INFO
    is_caused = is_known and is_open and path in texts
    cause = _cause(one.evidence[0], texts[path], changed) if is_caused else None
    if cause is None:
        return one.replace(suppression=UNTOUCHED)
    start = one.evidence[0].line_start
    where = "the file" if start is None else f"line {start}"
    message = f"{one.message} (at {where}, by what this change does elsewhere)"
    return one.replace(message=message, evidence=(cause, *one.evidence))


def _tool(finding: Finding) -> str:
    return finding.source.partition(":")[2]


def _cause(place: Location, text: Text, changed: Ranges) -> Location | None:
    """The changed line that is nearest to ``place``, which may be the one behind a deletion."""
    content = text.content if text.whole is None else text.whole
    last = max(1, len(content.splitlines()))
    start = place.line_start or 1
    ends = [min(end, last) for one in changed.get(place.path, ()) for end in one]
    if not ends:
        return None
    nearest = min(ends, key=lambda end: abs(end - start))
    return anchor(Location(place.path, nearest), content, text.blob).location
