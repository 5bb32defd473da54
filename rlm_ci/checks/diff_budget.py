"""diff-budget: is the change small enough to be reviewed?

Files and lines (added and deleted) are those of ``git diff --numstat -z -M`` from the merge base to
the head, without lock files, vendored and generated trees, files that the *base* marks as generated
and configured patterns. A rename is one file and its changed lines.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from rlm_ci.change.change_set import NOTHING
from rlm_ci.checks._override import OverrideWords, accept, stated
from rlm_ci.config.settings import Setting
from rlm_ci.errors import ConfigError
from rlm_ci.report.findings import Finding, Part, Severity
from rlm_ci.system.files import storage_error
from rlm_ci.text import dates
from rlm_ci.text.globs import LOCK_FILES, matcher
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.change.numstat import LineCount
    from rlm_ci.config.settings import Settings
    from rlm_ci.runs.store import RunStore

ID = "diff-budget"
SUMMARY = "the change is within its budget of files and lines"
RULES = dict.fromkeys(
    ("files", "lines", "path-budget", "unmeasurable", "override-incomplete"), Severity.HIGH
)
#: Where a reason is given without a pull request.
_VARIABLE = "DIFF_BUDGET_OVERRIDE_REASON"
OPTIONS = (
    Setting("diff_budget.max_files", "maximum number of files in a change", 25, "integer",
            env=("DIFF_BUDGET_MAX_FILES",), flag="--max-files", metavar="N", minimum=0,
            input="max-files"),
    Setting("diff_budget.max_lines", "maximum number of lines in a change, added and deleted", 1200,
            "integer", env=("DIFF_BUDGET_MAX_LINES",), flag="--max-lines", metavar="N", minimum=0,
            input="max-lines"),
    Setting("diff_budget.renames", "count a rename as one file with its changed lines",
            default=True, kind="boolean", flag="--renames", file=False,
            off="count a rename as a deletion and an addition"),
    Setting("diff_budget.ignore", "patterns of paths that do not count", (), "list",
            metavar="PATTERN"),
    Setting("diff_budget.paths", "budgets for parts of the tree, in addition to the budget of "
            "the whole change", (), "table", columns=(
                Setting("glob", "path pattern", required=True),
                Setting("weight", "how much a line counts in the whole change", kind="number",
                        minimum=0),
                Setting("max_lines", "maximum number of lines under these paths", kind="integer",
                        minimum=0),
                Setting("max_files", "maximum number of files under these paths", kind="integer",
                        minimum=0),
            )),
    Setting("diff_budget.base", "base of the change for this check, if nothing else names it",
            env=("DIFF_BUDGET_BASE",), own_env=False, file=False),
    Setting("diff_budget.override_reason", "why the change must be larger; '(until YYYY-MM-DD)' "
            "in it ends the override", env=(_VARIABLE,), own_env=False, file=False),
)  # fmt: skip
HOOKS = {
    "diff-budget": {"args": (), "stages": ("pre-push",)},
    "diff-budget-staged": {"args": ("--staged",), "stages": ("pre-commit",)},
}
POLICY_FILES = (".gitattributes",)

IGNORED_FOLDERS = ("node_modules", "dist")
IGNORED_AT_ROOT = (".runs/", "archives/", "out/")
LABEL = "diff-budget-override"
_OVERRIDE = OverrideWords(_VARIABLE, LABEL, "Diff budget override")
_GENERATED = ("linguist-generated", "linguist-vendored")
#: An attribute file without one of these does not decide what is binary.
_BINARY_WORDS = (b"diff", b"binary")
#: Characters of folder names that are looked up one by one.
_PLACES_LIMIT = 1 << 20
_LARGEST = 5


def run(
    changes: ChangeSet,
    options: Settings,
    _runs: RunStore,
    today: Callable[[], str] = dates.today,
) -> Part:
    """One part; raises ConfigError for a pattern or an override that cannot be read."""
    budget = options.diff_budget
    counted, ignored = _measure(changes, budget)
    added = sum(line_count.added or 0 for line_count in counted)
    deleted = sum(line_count.deleted or 0 for line_count in counted)
    lines = added + deleted
    weighted = _weigh(counted, lines, budget.paths)
    metrics = {
        "files": len(counted),
        "max_files": budget.max_files,
        "lines": weighted,
        "max_lines": budget.max_lines,
        "added": added,
        "deleted": deleted,
        "ignored_files": len(ignored),
        "ignored_lines": sum(line_count.lines for line_count in ignored),
        "binary_files": sum(line_count.added is None for line_count in counted),
    }
    findings = [*_over(metrics, counted), *_paths_over(counted, budget.paths)]
    findings += [
        _finding(
            "unmeasurable",
            f"{printable(line_count.path)} could not be measured: {line_count.unmeasured}",
            "make it readable, or ignore it",
            line_count.path,
        )
        for line_count in counted
        if line_count.unmeasured
    ]
    summary = (
        f"{count(len(counted), 'file')} (limit {budget.max_files:,}), "
        f"{count(weighted, 'line')} (limit {budget.max_lines:,})"
    )
    if weighted != lines:
        summary += f", weighted from {lines:,}"
    if changes.trigger in NOTHING and not (counted or ignored):
        summary += f"; {NOTHING[changes.trigger]}"
    elif changes.also:
        summary += "; for a merge, files that differ from both sides"
    binary = [line_count.path for line_count in counted if line_count.added is None]
    if binary:
        size = count(sum(changes.sizes(binary)), "byte")
        summary += f"; {count(len(binary), 'binary file')}, {size}"
    if changes.trigger == "worktree" and changes.untracked.left_out:
        from rlm_ci.change import tool_folders

        left_out = tool_folders.listed(changes.untracked.left_out)
        summary += f"; not counted, to be added to .gitignore: {left_out}"
    if changes.label:  # of several refs that are pushed at once, which
        label = f"{printable(changes.label)}: "
        summary = f"{label}{summary}"
        findings = [finding.replace(message=f"{label}{finding.message}") for finding in findings]
    if findings:
        override = stated(_OVERRIDE, budget.override_reason, changes.pull_request, today())
        findings, note = accept(findings, override, _finding("override-incomplete", "", ""))
        summary += note
    return Part(ID, summary, metrics, tuple(findings))


def _finding(condition: str, message: str, hint: str, subject: str | None = None) -> Finding:
    return Finding(f"{ID}/{condition}", RULES[condition], message, hint=hint, subject=subject)


# ── measuring ──


def _measure(changes: ChangeSet, budget: Any) -> tuple[list[LineCount], list[LineCount]]:
    configured = _matcher(budget.ignore, "diff_budget.ignore has a pattern")
    counts: Sequence[LineCount]
    if changes.worktree:
        counts = changes.files(renames=budget.renames)
        paths = [change.path for change in counts]
        ignored = _ignored(changes, paths, configured, _attribute_files(changes, paths))
    else:
        counts, ignored = _count(changes, configured, renames=budget.renames)
    counted = [line_count for line_count in counts if line_count.path not in ignored]
    return counted, [
        line_count for line_count in counts if line_count.path in ignored
    ] if ignored else []


def _count(
    changes: ChangeSet, configured: Callable[[str], bool], *, renames: bool
) -> tuple[Sequence[LineCount], set[str]]:
    # git counts meanwhile; few attribute files say what is binary.
    with changes.count(renames=renames) as counting:
        kinds = changes.kinds
        counting.share(kinds)
        paths = list(kinds)
        attributes = _attribute_files(changes, paths)
        ignored = _ignored(changes, paths, configured, attributes)
        if not any(word in data for data in attributes.values() for word in _BINARY_WORDS):
            return counting.finish(), ignored
    with (
        _written(attributes) as folder,
        changes.count(renames=renames, attributes=folder) as counting,
    ):
        counting.share(kinds)
        return counting.finish(), ignored


def _ignored(
    changes: ChangeSet,
    paths: Sequence[str],
    configured: Callable[[str], bool],
    attributes: dict[str, bytes],
) -> set[str]:
    ignored = {path for path in paths if _is_ignored(path) or configured(path)}
    if attributes:
        with _written(attributes) as folder:
            others = [path for path in paths if path not in ignored]
            ignored.update(changes.repository.attributes(_GENERATED, others, folder))
    return ignored


def _is_ignored(path: str) -> bool:
    folders, _, name = path.rpartition("/")
    return (
        name in LOCK_FILES
        or path.startswith(IGNORED_AT_ROOT)
        or any(folder in IGNORED_FOLDERS for folder in folders.split("/"))
    )


def _attribute_files(changes: ChangeSet, paths: Sequence[str]) -> dict[str, bytes]:
    """The base's ``.gitattributes`` files for ``paths``, by their path."""
    commit = changes.base
    if commit is None:
        return {}
    places = _attribute_places(paths)
    if places is None:  # deep or many: all that the base has are fewer
        tree = changes.repository.tree(commit)
        places = [path for path in tree if path.rpartition("/")[2] == ".gitattributes"]
    contents = changes.repository.read(*(f"{commit}:{path}" for path in places))
    return {
        path: data
        for path, data in zip(places, contents, strict=True)
        # A tree that git itself would not check out may hold such folders.
        if data and not any(part in ("", ".", "..") for part in path.split("/"))
    }


def _attribute_places(paths: Sequence[str]) -> list[str] | None:
    """Where attribute files for ``paths`` may be; None for too many places."""
    folders = {""}
    size = 0
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            size += len(folder)
            if size > _PLACES_LIMIT or "\n" in folder:
                return None
            folder = folder.rpartition("/")[0]
    return sorted(f"{folder}/.gitattributes" if folder else ".gitattributes" for folder in folders)


@contextmanager
def _written(attributes: dict[str, bytes]) -> Iterator[str]:
    """A folder with these files: git reads attributes for a diff from a work tree only.

    The checked-out files may be the change's own. Raises StorageError.
    """
    from tempfile import TemporaryDirectory

    try:
        holder = TemporaryDirectory(prefix="rlm-ci-", ignore_cleanup_errors=True)
    except OSError as error:
        raise storage_error(error, "the folder of temporary files") from None
    with holder as root:
        try:
            for path, data in attributes.items():
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "wb") as stream:
                    stream.write(data)
        except OSError as error:
            raise storage_error(error, root) from None
        yield root


def _weigh(counted: Sequence[LineCount], lines: int, paths: Sequence[dict[str, Any]]) -> int:
    """What all the ``lines`` count for, by the first budget that matches each path."""
    rows = [(_glob(row), row["weight"]) for row in paths if row["weight"] is not None]
    if not rows:
        return lines
    weighted = 0.0
    for line_count in counted:
        weight = next((weight for match, weight in rows if match(line_count.path)), 1)
        weighted += line_count.lines * weight
    # Round up, but not an error in the last digit: 100 times 0.07 is 7.
    return -int(-round(weighted, 6) // 1)


def _glob(row: dict[str, Any]) -> Callable[[str], bool]:
    return _matcher((row["glob"],), "diff_budget.paths has a glob")


def _matcher(patterns: Sequence[str], what: str) -> Callable[[str], bool]:
    try:
        return matcher(patterns)
    except ValueError as error:
        raise ConfigError(f"{what} that cannot be read: {error}", hint="fix the pattern") from None


# ── judging ──


def _split_hint(counted: Sequence[LineCount]) -> str:
    """Where most of the change is: the largest folders, then the largest of the other files."""
    from heapq import nsmallest

    from rlm_ci.change import tool_folders

    outside, generated = tool_folders.part(line_count.path for line_count in counted)
    if 2 * len(outside) < len(counted):  # committed or staged, so it counts
        names = tool_folders.listed(generated)
        return f"take out what a tool made: {names}; git rm -r --cached, and add to .gitignore"
    groups = _by_folder(counted)
    sizes = {
        path: (sum(line_count.lines for line_count in inside), len(inside))
        for path, inside in groups
    }
    top = nsmallest(_LARGEST, sizes, lambda path: (-sum(sizes[path]), path))
    shown = []
    for path in sorted(top, key=lambda path: not path.endswith("/")):
        lines, files = sizes[path]
        inside = f"{count(files, 'file')}, " if path.endswith("/") else ""
        shown.append(f"{printable(path)} ({inside}{count(lines, 'line')})")
    return f"split the change; largest: {', '.join(shown)}"


def _by_folder(counted: Sequence[LineCount]) -> list[tuple[str, list[LineCount]]]:
    """The change in folders and files; a folder with more than half of it is opened again."""
    groups = {"": list(counted)}
    half = sum(line_count.lines + 1 for line_count in counted) / 2
    while True:
        weights = {
            path: sum(line_count.lines + 1 for line_count in inside)
            for path, inside in groups.items()
            if not path or path.endswith("/")
        }
        folder = max(weights, key=weights.__getitem__, default=None)
        if folder is None or weights[folder] <= half:
            return list(groups.items())
        opened: dict[str, list[LineCount]] = {}
        for group in groups[folder]:
            name, below, _ = group.path[len(folder) :].partition("/")
            opened.setdefault(f"{folder}{name}{below}", []).append(group)
        if len(groups) > 1 and not any(path.endswith("/") for path in opened):
            return list(groups.items())
        del groups[folder]
        groups.update(opened)


def _over(metrics: dict[str, int], counted: Sequence[LineCount]) -> list[Finding]:
    units = [unit for unit in ("files", "lines") if metrics[unit] > metrics[f"max_{unit}"]]
    hint = _split_hint(counted) if units else ""
    return [
        _finding(unit, _excess(metrics[unit], unit, metrics[f"max_{unit}"]), hint) for unit in units
    ]


def _excess(number: int, unit: str, limit: int, under: str = "") -> str:
    return f"{count(number, unit.removesuffix('s'))} changed{under} (limit {limit:,})"


def _paths_over(counted: Sequence[LineCount], paths: Sequence[dict[str, Any]]) -> Iterator[Finding]:
    for row in paths:
        glob, match = row["glob"], _glob(row)
        inside = [line_count for line_count in counted if match(line_count.path)]
        sums = {"files": len(inside), "lines": sum(line_count.lines for line_count in inside)}
        for unit, number in sums.items():
            limit = row[f"max_{unit}"]
            if limit is not None and number > limit:
                message = _excess(number, unit, limit, f" under {printable(glob)}")
                yield _finding("path-budget", message, _split_hint(inside), f"{glob} {unit}")
