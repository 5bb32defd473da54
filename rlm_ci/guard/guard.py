"""The guard of the fix loop: findings for changes that make a validator green by other means.

It compares two trees by git's objects and runs nothing. Edits of old tests, and of what tests are
run with, are no findings: the result leaves them out.
"""

from __future__ import annotations

from itertools import groupby, islice, zip_longest

from rlm_ci.guard import (
    blind_spots,
    blinding,
    known_hacks,
    lint_silencing,
    rules,
    secret_in_diff,
)
from rlm_ci.guard.blinding import Blinded
from rlm_ci.guard.known_hacks import Hack
from rlm_ci.guard.protected import by_name, config_sections
from rlm_ci.guard.protected.protection import Protection
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.text.printable import count, printable
from rlm_ci.workspace.tree_diff import LINK, SUBMODULE, changes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.validators.test_reports import CollectedTests
    from rlm_ci.workspace.tree_diff import ChangedFile, Store
    from rlm_ci.workspace.workspace import Workspace

_BINARY_PROBE = 8000
_LONGEST_QUOTE = 1000
#: More than a person, or a prompt, has use for: of one file, and in all.
_MOST_OF_FILE, _MOST = 20, 200
#: Lines of a file that are compared with the list of what deceives tests.
_MOST_LISTED = 1000
#: Files of tests whose claims are read.
_MOST_TESTS = 500
#: Tests that did not run, and are named: where an agent ends the runner, all are lost.
_MOST_LOST = 5
#: What a runner looks for before it runs anything.
_RUN_WITH = (by_name.HOOKS, by_name.VALIDATOR, by_name.STARTUP)
#: The rule that a change of a file breaks by its kind alone.
_RULES = {
    by_name.STARTUP: "startup-file", by_name.CI: "protected-path",
    by_name.GIT: "protected-path", by_name.AGENT: "protected-path",
    by_name.LOCK: "protected-path", by_name.VALIDATOR: "config-weakened",
    by_name.DEPENDENCY: "dependency", by_name.ACTION: "build-file",
}  # fmt: skip


def findings(
    workspace: Workspace,
    tree: str,
    before: Mapping[str, CollectedTests] | None = None,
    after: Mapping[str, CollectedTests] | None = None,
    *,
    protection: Protection | None = None,
    redactor: Redactor | None = None,
    allow_test_edits: bool = False,
) -> tuple[Finding, ...]:
    """The findings for ``tree`` as the result of ``workspace``.

    ``before`` and ``after``: the tests that each runner counted, if any.
    """
    redactor = redactor or Redactor({})
    results = list(
        compared(
            workspace.entries(workspace.snapshot.tree),
            workspace.entries(tree),
            workspace,
            protection or Protection(),
            redactor,
            allow_test_edits=allow_test_edits,
        )
    )
    results += shrunk(before or {}, after or {})
    results += [
        _finding("embedded-repository", file.path, f"removed from the copy: {file.reason}")
        for file in workspace.removed_at(tree)
        if not redactor.known_in(file.path)
    ]
    if allow_test_edits:
        results = [
            finding
            for finding in results
            if finding.rule.removeprefix(rules.PREFIX) not in rules.OF_TESTS
        ]
    results = sorted(
        dict.fromkeys(results), key=lambda finding: finding.rule != secret_in_diff.DISCLOSED
    )
    if len(results) > _MOST:
        more = f"and {count(len(results) - _MOST, 'more finding')}"
        results[_MOST:] = [_of_all("more", more)]
    return tuple(results)


def compared(
    base: Mapping[str, TreeEntry],
    now: Mapping[str, TreeEntry],
    store: Store,
    protection: Protection,
    redactor: Redactor,
    *,
    allow_test_edits: bool = False,
) -> Iterator[Finding]:
    """The findings from ``base`` to ``now``, by path; ``store`` has the objects of both."""
    listed: list[ChangedFile] = []
    for change in changes(base, now, store):
        if redactor.known_in(change.path):  # whatever else: its name goes nowhere
            yield _of_all("secret", "the name of a file has a secret that the agent was given")
            continue
        yield from _secret(change, redactor)
        is_new = change.new is not None and change.old is None
        if not allow_test_edits and protection.leaves_out(change.path, new=is_new):
            continue
        if is_new and (module := by_name.shadowed(change.path, base)):
            what = f"would be imported instead of {module}"
            yield _finding("shadowed-module", change.path, what, change)
        if is_new and _is_run(change, base, protection):
            what = "adds a file that a build, a service or CI runs by its name"
            yield _finding("build-file", change.path, what, change)
        yield from islice(_judge(change, protection), _MOST_OF_FILE)
        yield from _new_silencers(change, protection)
        if not protection.kind_of(change.path):
            listed.append(change)
    hacks = [*_new_hacks(listed), *_blind_spots(listed, base, store, protection)]
    for hack, change in hacks:
        yield _finding(
            hack.rule,
            hack.path,
            hack.what,
            change,
            line=hack.line,
            text=_text(change.after),
            subject=hack.what,
        )


def _new_hacks(listed: Iterable[ChangedFile]) -> Iterator[tuple[Hack, ChangedFile]]:
    """The lines of the list that these changes of the product add, wherever they were before."""
    before, after = list[Hack](), list[Hack]()
    by_path = {change.path: change for change in listed}
    for path, change in by_path.items():
        texts = _text(change.before), _text(change.after)
        before += known_hacks.hacks(path, *texts)
        new = known_hacks.hacks(path, *reversed(texts))[:_MOST_LISTED]
        is_plugin = "def pytest_" in texts[0]
        after += (line for line in new if not (is_plugin and line.what == known_hacks.IS_HOOK))
    for hack in known_hacks.added(before, after):
        yield hack, by_path[hack.path]


def _blind_spots(
    listed: Sequence[ChangedFile],
    base: Mapping[str, TreeEntry],
    store: Store,
    protection: Protection,
) -> Iterator[tuple[Hack, ChangedFile]]:
    """The lines of these changes that the tests of ``base`` cannot tell from a fix."""
    by_path = {file.path: file for file in listed if known_hacks.language(file.path) and file.new}
    if not by_path:
        return
    paths = [path for path in base if known_hacks.language(path) and base[path].is_file]
    paths = [path for path in paths if protection.kind_of(path) == by_name.TESTS][:_MOST_TESTS]
    contents = store.contents(base[path].oid for path in paths)
    tests = {path: _text(data or b"") for path, data in zip(paths, contents, strict=True)}
    tests |= {path: _text(file.before) for path, file in by_path.items() if path.endswith(".rs")}
    product = [(path, _text(file.before), _text(file.after)) for path, file in by_path.items()]
    for hack in blind_spots.findings(product, tests):
        yield hack, by_path[hack.path]


def blinded(
    workspace: Workspace,
    tree: str,
    protection: Protection,
    word: str,
    lines: Collection[Hack] | None = None,
) -> Blinded:
    """The product of ``tree`` with no effect of these new lines; of all that a run can decide."""
    edits = changes(workspace.entries(workspace.snapshot.tree), workspace.entries(tree), workspace)
    listed = [edit for edit in edits if edit.after and not protection.kind_of(edit.path)]
    hacks = [
        (hack, change)
        for hack, change in _new_hacks(listed)
        if (hack.rule in blinding.RULES if lines is None else hack in lines)
    ]
    blind = Blinded(word)
    for path, rows in groupby(hacks, key=lambda row: row[0].path):
        added, of = zip(*rows, strict=True)
        sides = (side.decode("utf-8", "surrogateescape") for side in (of[0].before, of[0].after))
        blind.add(path, added, *sides)
    return blind


def decided(finding: Finding, severity: Severity, message: str) -> Finding:
    """A finding of the list, with what a run has said of its line."""
    hint = rules.hint(finding.rule, severity)
    return finding.replace(severity=severity, message=printable(message), hint=hint)


def rewritten(
    base: Mapping[str, TreeEntry],
    now: Mapping[str, TreeEntry],
    store: Store,
    protection: Protection,
    *,
    allow_test_edits: bool = False,
) -> tuple[str, ...]:
    """The paths that commands wrote while they ran, and that decide the outcome.

    New files count only if a runner looks for them: many runs make test data and lock files.
    """
    paths = []
    for change in changes(base, now, store):
        path, old = change.path, change.old
        kind = protection.kind_of(path)
        if kind and not protection.is_protected(path, allow_test_edits=allow_test_edits):
            continue
        if kind:
            counts = kind in _RUN_WITH or (old is not None and kind != by_name.LOCK)
        else:
            counts = bool(_sections(change))
        if counts:
            paths.append(path)
    return tuple(paths)


def held_against(paths: Iterable[str]) -> tuple[Finding, ...]:
    """Findings for the paths of ``rewritten``."""
    return tuple(
        _finding("rewritten", path, "was written while the last verdict was taken")
        for path in islice(paths, _MOST_OF_FILE)
    )


def decisive(workspace: Workspace, tree: str, paths: Sequence[str]) -> Finding:
    """The finding for edits of what is no source, with which put back the validator fails."""
    sides = [workspace.entries(oid) for oid in (workspace.snapshot.tree, tree)]
    base, now = ({path: side[path] for path in paths[:1] if path in side} for side in sides)
    change = next(changes(base, now, workspace))
    if module := _stands_for(change, sides[0]):
        what = f"the validator passes only with it, and reads it in place of {module}"
        return _finding("shadowed-module", change.path, what, change, line=1)
    how = {"adds": "only with the new", "changes": "only with the changed"}
    more = f" and {count(len(paths) - 1, 'more file')}" if len(paths) > 1 else ""
    return _finding(
        "decisive-edit",
        change.path,
        f"the validator passes {how.get(_done(change), 'only without')} {paths[0]}{more}",
        change,
        line=_first_line(change),
        text=_text(change.after),
    )


def _stands_for(change: ChangedFile, base: Mapping[str, TreeEntry]) -> str:
    """The module beside which a new file has types only; "" if there is none."""
    stem, _, ending = change.path.rpartition(".d.") if ".d." in change.path else ("", "", "")
    if change.path.endswith(".pyi"):
        stem, ending = change.path.removesuffix(".pyi"), "py"
    endings = {"py": ("py",)}.get(ending, ("js", "mjs", "cjs", "jsx", "ts", "tsx"))
    modules = (f"{stem}.{suffix}" for suffix in endings if stem and change.old is None)
    return next((path for path in modules if path in base), "")


def unprobed(workspace: Workspace, tree: str, protection: Protection) -> tuple[Finding, ...]:
    """Findings for changed files that may be tests, where no test could be changed to see it."""
    base, now = workspace.entries(workspace.snapshot.tree), workspace.entries(tree)
    results = [
        _finding(
            "unprobed-test",
            change.path,
            f"{_done(change)} what may be a test, and no test could be tried",
            change,
            line=_first_line(change),
            text=_text(change.after),
        )
        for change in changes(base, now, workspace)
        if change.old is not None and protection.may_be_test(change.path)
    ]
    return tuple(results[:_MOST_OF_FILE])


def not_run(lost: Collection[str]) -> tuple[Finding, ...]:
    """Findings for tests that ran at first, and not in the last verdict."""
    results = [_of_tests(test) for test in islice(lost, _MOST_LOST)]
    if len(lost) > _MOST_LOST:
        more = count(len(lost) - _MOST_LOST, "more test")
        results.append(_of_tests(f"and {more} did not run as before"))
    return tuple(results)


def _secret(change: ChangedFile, redactor: Redactor) -> Iterator[Finding]:
    if change.new is not None and change.after:
        secrets = redactor.known_in(_text(change.after))
        if secrets and secrets - redactor.known_in(_text(change.before)):
            yield _finding("secret", change.path, "has a new secret", change)


def _judge(change: ChangedFile, protection: Protection) -> Iterator[Finding]:
    path = change.path
    kind = protection.kind_of(path)
    yield from _shape(change)
    if change.large[1]:
        yield _finding(
            "too-large", path, f"{_done(change)} a file that is too large to judge", change
        )
    if path in protection.allowed:
        return
    if kind in _RULES:
        yield _finding(_RULES[kind], path, f"{_done(change)} {by_name.NAMES[kind]}", change)
    elif not kind:
        for section in _sections(change):
            what, subject = (
                config_sections.section_words(section),
                section.strip(config_sections.UNKNOWN),
            )
            yield _finding("config-weakened", path, f"changes {what}", change, subject=subject)


def _is_run(change: ChangedFile, base: Mapping[str, TreeEntry], protection: Protection) -> bool:
    """Whether a new file is run by its name: neither test data nor a file that was moved."""
    if protection.kind_of(change.path) or not by_name.is_run_by_name(change.path, protection.homes):
        return False
    name = change.path.rpartition("/")[2]
    return all(
        entry != change.new or path.rpartition("/")[2] != name for path, entry in base.items()
    )


def _sections(change: ChangedFile) -> list[str]:
    """The changed settings that decide something; "" for a file that is too large."""
    if any(change.large) and config_sections.is_sectioned(change.path):
        return [""]
    return config_sections.changed(change.path, change.before, change.after)


def _shape(change: ChangedFile) -> Iterator[Finding]:
    """Links, submodules, modes and binary files, which cannot be reviewed in a patch."""
    path, old, new = change.path, change.old, change.new
    modes = {entry.mode for entry in (old, new) if entry is not None}
    if SUBMODULE in modes:
        yield _finding("submodule", path, f"{_done(change)} a submodule", change)
    elif new is not None and new.mode == LINK:
        target = printable(change.after[:200].decode("utf-8", "replace"))
        yield _finding("link", path, f"{_done(change)} a symbolic link to {target}", change)
    elif old is not None and old.mode == LINK:
        yield _finding("link", path, f"{_done(change)} a symbolic link", change)
    elif new is not None and old is not None and old.mode != new.mode:
        yield _finding("mode", path, f"changes its mode from {old.mode} to {new.mode}", change)
    elif new is not None and b"\0" in change.after[:_BINARY_PROBE]:
        yield _finding("binary", path, f"{_done(change)} a binary file", change)


def _new_silencers(change: ChangedFile, protection: Protection) -> Iterator[Finding]:
    """What silences a tool of the validator."""
    if change.new is None or change.new.mode == LINK or any(change.large):
        return
    path, kind = change.path, protection.kind_of(change.path)
    if protection.heeded and kind in ("", by_name.TESTS, by_name.HOOKS):
        before, after = _text(change.before), _text(change.after)
        for line, what in islice(
            lint_silencing.added(path, before, after, protection.heeded), _MOST_OF_FILE
        ):
            message = f"silences a tool of the validator: {what}"
            yield _finding(
                "check-silenced", path, message, change, line=line, text=after, subject=what
            )


def shrunk(
    before: Mapping[str, CollectedTests], after: Mapping[str, CollectedTests]
) -> Iterator[Finding]:
    """Runners that ran fewer tests than at first."""
    for runner, now in after.items():
        if now.early:
            yield _of_tests(f"{runner} ended before all of its tests ran")
    for runner, first in before.items():
        expected = first.total if first.early else first.judged
        last = after.get(runner)
        if last is None and expected:
            tests = count(expected, "test")
            yield _of_tests(f"{runner} reported {tests} before, and none now")
        elif last is not None and last.judged < first.judged:
            yield _of_tests(f"{runner} ran {last.judged:,} of {first.judged:,} tests")
        elif last is not None and first.early and last.total < expected:
            yield _of_tests(f"{runner} found {last.total:,} of {expected:,} tests")


def _of_tests(message: str) -> Finding:
    return _of_all("tests-shrunk", message)


def _of_all(rule: str, message: str) -> Finding:
    rule = f"{rules.PREFIX}{rule}"
    return Finding(rule, Severity.HIGH, message, hint=rules.hint(rule), domain="tamper")


def _first_line(change: ChangedFile) -> int | None:
    """The first line that differs; None for a whole file."""
    lines = enumerate(
        zip_longest(*(_text(side).split("\n") for side in (change.before, change.after)))
    )
    if change.new is None:
        return None
    return next((at for at, (before, after) in lines if before != after), 0) + 1


def _done(change: ChangedFile) -> str:
    if change.old is None:
        return "adds"
    return "changes" if change.new is not None else "deletes"


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def _finding(
    rule: str,
    path: str,
    message: str,
    change: ChangedFile | None = None,
    *,
    line: int | None = None,
    text: str = "",
    subject: str = "",
) -> Finding:
    severity = rules.RULES[rule]
    rule = f"tamper/{rule}"
    side = "old" if change is not None and change.new is None else "new"
    entry = None if change is None else (change.old if side == "old" else change.new)
    lines = text.split("\n")
    quote = lines[line - 1] if line and line <= len(lines) else None
    quote = None if quote is None or len(quote) > _LONGEST_QUOTE else quote
    location = Location(path, line, line, side, entry.oid if entry else None, quote)
    return Finding(
        rule,
        severity,
        f"{printable(path)}: {printable(message)}",
        hint=rules.hint(rule),
        evidence=(location,),
        domain="tamper",
        subject=printable(subject)[:200] or None,
    )
