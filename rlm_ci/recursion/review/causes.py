"""Faults on lines that a change leaves alone, and makes all the same: it deletes an import.

What ruff finds in a changed file, and did not find in it before, the change has caused. It looks
at each file by itself, so that the file's old content is all that this takes.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256

from rlm_ci.evidence import anchor
from rlm_ci.findings import Location, Severity
from rlm_ci.recursion.nodes import FILE_GROUP, Node, Scope, Task, Text
from rlm_ci.recursion.review import analyzers, ruff
from rlm_ci.recursion.review.touched import is_touched

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlm_ci.changes import ChangeSet
    from rlm_ci.findings import Finding
    from rlm_ci.recursion.review.programs import Analyzer
    from rlm_ci.recursion.review.touched import Ranges

    #: For each path, the marks of what was found in it.
    Marks = Mapping[str, Sequence[str]]

_SYNTAX = f"review/{ruff.NAME}-{ruff.SYNTAX}"
_SOURCE = f"analyzer:{ruff.NAME}"
#: So many files are looked at in one go.
_BATCH = 400


def found_before(
    change: ChangeSet, chosen: Sequence[Analyzer], domains: Sequence[str], most: int
) -> dict[str, list[str]]:
    """The marks of what ruff finds at the base, by the new path of each file that was there.

    A file of more than ``most`` bytes, or one that does not parse there, is not among them: of
    such a one nobody can say what is new. Raises StorageError.
    """
    builtin = [one for one in chosen if one.rules]
    places = {
        one.old_path or one.path: (one.path, one.old_oid)
        for one in change.files()
        if builtin and one.status[:1] in ("M", "R") and one.old_mode.startswith("100")
    }
    wanted = sorted(analyzers.known(builtin, sorted(places)))
    found: dict[str, list[str]] = {}
    for at in range(0, len(wanted), _BATCH):
        texts = _texts(change, {path: places[path][1] for path in wanted[at : at + _BATCH]}, most)
        node = Node.of(("", None, 0, Scope.of((FILE_GROUP, "", 0, len(texts), None, None))))
        done = analyzers.analyse(Task(node, texts, {}), builtin, domains)
        failed = {path for _, path, _ in done.failed}
        marks: dict[str, list[str]] = {one.path: [] for one in texts if one.path not in failed}
        broken = set()
        for one in done.findings:
            path = one.evidence[0].path
            if one.rule == _SYNTAX:
                broken.add(path)
            elif path in marks and one.severity > Severity.INFO:
                marks[path].append(_mark(one))
        found |= {places[path][0]: sorted(marks[path]) for path in marks if path not in broken}
    return dict(sorted(found.items()))


def _texts(change: ChangeSet, oids: Mapping[str, str], most: int) -> tuple[Text, ...]:
    repository = change.repository
    sizes = repository.sizes([*oids.values()])
    small = [path for path, size in zip(oids, sizes, strict=True) if 0 <= size <= most]
    contents = repository.read(*(oids[path] for path in small)) if small else []
    return tuple(
        Text.of((path, oids[path], content, 1, None))
        for path, content in zip(small, contents, strict=True)
        if content is not None
    )


def _mark(finding: Finding) -> str:
    """A rule and the text of its lines: where these stand may change."""
    text = f"{finding.rule}\0{finding.evidence[0].quote or ''}"
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def pointed(
    found: Sequence[Finding], texts: Sequence[Text], changed: Ranges, before: Marks
) -> Iterator[Finding]:
    """``found``; those that the change has caused point to the changed line nearest to them too."""
    left = {path: Counter(marks) for path, marks in before.items()}
    by_path = {one.path: one for one in texts}
    for one in found:
        path = one.evidence[0].path
        is_ours = one.source == _SOURCE and path in left and path in by_path
        if not is_ours or one.severity <= Severity.INFO or is_touched(one, changed):
            yield one
            continue
        mark = _mark(one)
        is_new = left[path][mark] <= 0 and one.suppression is None
        left[path][mark] -= 1
        cause = _cause(one.evidence[0], by_path[path], changed) if is_new else None
        yield one if cause is None else one.replace(evidence=(*one.evidence, cause))


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
