"""What a change adds to the findings of analyzers, and which of these are on lines that it touches.

Analyzers look at the base's files too, and each finding there cancels one at the head.

Two findings are the same if they have the same rule and the same code. The code is the name of a
definition if the finding is on its head, a statement of Python without annotations and layout, or
any other text without white space. So code may be moved, reformatted or annotated.

Findings on lines that the change does not touch are labelled, and do not fail the run.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_left
from collections import Counter
from functools import partial
from hashlib import sha256

from rlm_ci.change.evidence import anchor
from rlm_ci.recursion.nodes import FILE_GROUP, LeafTask, LeafText, Node, NodeScope
from rlm_ci.report.findings import KNOWN, UNTOUCHED, Location, Severity
from rlm_ci.review.analyzers import ruff, run
from rlm_ci.source import outline as source_outline
from rlm_ci.source.languages import language
from rlm_ci.source.python import syntax

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.report.findings import Finding
    from rlm_ci.review.analyzers.programs import Analyzer

    #: For each changed path the first and last lines of what it changes, in order.
    Ranges = Mapping[str, Sequence[Sequence[int]]]


#: The lines of a file that is gone: none of the new side.
GONE = [0, 0]
#: A line after the last one of any file.
_END = 1 << 31
_WHOLE = [[1, _END]]


def changed_of(change: ChangeSet) -> dict[str, list[list[int]]]:
    """The changed lines of each file, new side; for removed lines, the two around the gap.

    A deleted file has GONE alone. A text or test that becomes code by its new name is new as a
    whole, and so is a file whose patch cannot be read.
    """
    hunks, unknown = change.hunks(context=0)
    ranges = dict.fromkeys(unknown, _WHOLE)
    for path, some in hunks.items():
        touched: set[int] = set()
        for hunk in some:
            # Without lines, a hunk begins at the one before the gap.
            touched.update(range(hunk.new_start, hunk.new_start + (hunk.new_count or 2)))
        ranges[path] = _runs(sorted(touched - {0}))
    for file in change.files():
        if file.status[:1] == "D":
            ranges[file.path] = [GONE]
            continue
        ranges.setdefault(file.path, [])
        moved = file.status[:1] in ("R", "C") and file.old_path
        if file.status[:1] == "T" or (moved and _kind(file.old_path) != _kind(file.path)):
            ranges[file.path] = _WHOLE
    return ranges


def restored(recorded: Ranges, names: Mapping[str, str]) -> dict[str, Sequence[Sequence[int]]]:
    """``recorded`` by its true paths, of which ``names`` has what a record writes for each.

    Where several became one, or none is there, the whole file counts as changed: no name may hide
    a finding.
    """
    uses = Counter(names.values())
    ranges = {path: lines for path, lines in recorded.items() if path not in uses}
    for path, name in names.items():
        ranges[path] = recorded.get(name, _WHOLE) if uses[name] == 1 else _WHOLE
    return ranges


def _kind(path: str) -> tuple[str, bool]:
    return language(path), ruff.is_test(path)


def removed_of(change: ChangeSet) -> dict[str, list[list[int]]]:
    """The lines of the old side that are not those of the new one, by the new path."""
    hunks, _ = change.hunks(context=0)
    return {
        path: [[hunk.old_start, hunk.span("old")[1]] for hunk in some if hunk.old_count]
        for path, some in hunks.items()
    }


def _runs(numbers: Sequence[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return runs


def marked(finding: Finding, changed: Ranges | None) -> Finding:
    """``finding`` with its changed lines first; suppressed if it has none.

    A suggestion goes where others come first: it is for the lines that it was written for.
    """
    if changed is None or finding.suppression is not None:
        return finding
    if not is_touched(finding, changed):
        return finding.replace(suppression=UNTOUCHED)
    places = sorted(
        finding.evidence, key=lambda location: (location.side, not _overlaps(location, changed))
    )
    if tuple(places[:1]) != finding.evidence[:1]:
        finding = finding.replace(suggested_fix=None)
    return finding.replace(evidence=tuple(places))


def is_touched(finding: Finding, changed: Ranges) -> bool:
    """Whether any of the places of ``finding`` is on a changed line."""
    return any(_overlaps(location, changed) for location in finding.evidence)


def _overlaps(location: Location, changed: Ranges) -> bool:
    lines = changed.get(location.path)
    if lines is None:
        return False
    return (
        is_moved_with_file(location, changed)
        if location.side == "old"
        else overlaps(location, lines)
    )


def is_moved_with_file(location: Location, changed: Ranges) -> bool:
    """Whether ``location`` went with its file; other places of the old side are guidelines."""
    lines = changed.get(location.path, ())
    return location.side == "old" and any(list(line) == GONE for line in lines)


def overlaps(location: Location, lines: Sequence[Sequence[int]]) -> bool:
    """Whether ``location`` is on one of ``lines``; a file as a whole always is."""
    if location.line_start is None:
        return True
    end = location.line_end or location.line_start
    return any(first <= end and location.line_start <= last for first, last in lines)


_NUMBER = re.compile(r"\d+")
#: The fields of a statement that hold others.
_BELOW = ("body", "handlers", "cases", "orelse", "finalbody")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def marks(findings: Sequence[Finding], texts: Sequence[LeafText]) -> Iterator[str]:
    """The mark of each finding; ``texts`` hold the files of all."""
    contents = {text.path: text.complete for text in texts}
    files: dict[str, _File] = {}
    for finding in findings:
        location = finding.evidence[0]
        if location.path not in files:
            files[location.path] = _File(location.path, contents.get(location.path, b""))
        about = files[location.path].about(location.line_start, location.quote or "")
        # Numbers in a message are counts and lines.
        text = "\0".join((finding.rule, _NUMBER.sub("0", finding.message), about))
        yield sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def with_definition(claim: Finding, content: bytes) -> Finding:
    """A model's claim, whose ``subject`` is the innermost definition at its first line."""
    location = claim.evidence[0]
    line = location.line_start or 0
    around = [
        symbol for symbol in source_outline.outline(location.path, content).symbols
        if symbol.line_start <= line <= symbol.line_end
    ]  # fmt: skip
    inner = min(around, key=lambda symbol: symbol.line_end - symbol.line_start, default=None)
    return claim.replace(subject=inner.name if inner else None)


class _File:
    def __init__(self, path: str, content: bytes) -> None:
        self._module: ast.Module | None = None
        self._heads: dict[int, str] = {}
        # Cached: a file may have as many findings as lines.
        self._bodies: dict[ast.AST, tuple[list[ast.stmt], list[int]]] = {}
        self._written: dict[ast.AST, str | None] = {}
        if source_outline.language_of(path, content) == "Python":
            read = syntax.read(content)
            self._module = None if read is None else read.module
        else:
            outline = source_outline.outline(path, content)
            self._heads = {symbol.line_start: symbol.name for symbol in reversed(outline.symbols)}

    def about(self, line: int | None, quote: str) -> str:
        """The code at ``line``, whose text is ``quote``."""
        if line is None:
            return ""
        if line in self._heads:
            return f"definition {self._heads[line]}"
        statement = None if self._module is None else self._statement(self._module, line)
        return statement or "".join(quote.split())

    def _statement(self, module: ast.Module, line: int) -> str | None:
        """The innermost statement at ``line``, None where there is a comment, or nothing."""
        names: list[str] = []
        node: ast.AST = module
        while True:
            body, ends = self._body(node)
            at = bisect_left(ends, line)
            if at == len(body) or syntax.first_line(body[at]) > line:
                break
            node = body[at]
            if isinstance(node, _DEFINITIONS):
                names.append(node.name)
        if isinstance(node, ast.Module) or (body and line > syntax.first_line(body[0])):
            return None
        if isinstance(node, _DEFINITIONS):
            return f"definition {'.'.join(names)}"
        if node not in self._written:
            self._written[node] = _written(node)
        return self._written[node]

    def _body(self, node: ast.AST) -> tuple[list[ast.stmt], list[int]]:
        """The statements right below a node, and the last line of each."""
        if node not in self._bodies:
            body = _inside(node)
            self._bodies[node] = (body, [child.end_lineno or child.lineno for child in body])
        return self._bodies[node]


def _written(node: ast.AST) -> str | None:
    try:
        return ast.unparse(_bare(node))
    except (RecursionError, ValueError, AttributeError):
        return None


def _inside(node: ast.AST) -> list[ast.stmt]:
    nodes: list[ast.stmt] = []
    for name in _BELOW:
        below = getattr(node, name, None)
        for child in below if isinstance(below, list) else ():
            nodes += [child] if isinstance(child, ast.stmt) else _inside(child)
    return nodes


def _bare(node: ast.AST) -> ast.AST:
    """A statement without its annotation, and without those below it."""
    if isinstance(node, ast.AnnAssign):
        return ast.Assign([node.target], node.value, lineno=0) if node.value else node.target
    fields = dict(ast.iter_fields(node))
    below: dict[str, list[ast.stmt]] = {
        name: [] for name in _BELOW if isinstance(fields.get(name), list)
    }
    if "body" in below:
        below["body"] = [ast.Pass()]
    return type(node)(**{**fields, **below}) if below else node


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
