"""The guard beside the validator: green counts only if nothing was bent to get there.

Two trees are compared by git's objects; nothing of either is executed. What is held against a
result is a finding like any other, of severity high. Changes that make tests stronger are
welcome; of those that make them weaker, and of what decides how they run, none is.
"""

from __future__ import annotations

from itertools import islice

from rlm_ci.findings import Finding, Location, Severity
from rlm_ci.loop import escapes, grading, protected, sections
from rlm_ci.loop.protected import PATTERNS, is_protected
from rlm_ci.texts import count, printable
from rlm_ci.values import Value

__all__ = ("PATTERNS", "compared", "findings", "is_protected")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rlm_ci.loop.collected import Collected
    from rlm_ci.loop.workspace import Workspace
    from rlm_ci.objects import Entry

    Read = Callable[[Iterable[str]], list[bytes | None]]

_LINK, _SUBMODULE = "120000", "160000"
#: A file of source is smaller; a larger one is not read line by line.
_LIMIT = 2 << 20
_BINARY_PROBE = 8000
_BATCH = 256
_LONGEST_QUOTE = 1000
#: More than a person, or a prompt, has use for: of one file, and in all.
_MOST_OF_FILE, _MOST = 20, 200
_HINT = "undo it; what the goal needs in tests is allowed by --allow-test-edits"
_FIRM_HINT = "undo it: no option allows this in a fix"
#: What ``--allow-test-edits`` lifts.
_OF_TESTS = (
    f"tamper/{grading.REMOVED}", f"tamper/{grading.SKIPPED}", f"tamper/{grading.WEAKENED}",
    "tamper/tests-shrunk", "tamper/protected-test",
)  # fmt: skip


class _Changed(Value):
    """A path that differs, with the contents on both sides; b"" where there is none."""

    path: str
    old: Entry | None
    new: Entry | None
    before: bytes = b""
    after: bytes = b""


def findings(
    workspace: Workspace,
    tree: str,
    before: Collected | None = None,
    after: Collected | None = None,
    *,
    allow_test_edits: bool = False,
) -> tuple[Finding, ...]:
    """What is held against ``tree`` as the result of ``workspace``; nothing if it is sound.

    ``before`` and ``after`` tell how many tests were run, where the validator told that.
    """
    found = list(
        compared(
            workspace.entries(workspace.snapshot.tree), workspace.entries(tree), workspace.contents
        )
    )
    found += _shrunk(before, after)
    found += [
        _finding("embedded-repository", one.path, f"removed from the copy: {one.reason}")
        for one in workspace.removed_at(tree)
    ]
    if allow_test_edits:
        found = [finding for finding in found if finding.rule not in _OF_TESTS]
    found = list(dict.fromkeys(found))
    if len(found) > _MOST:
        more = f"and {count(len(found) - _MOST, 'more finding')}"
        found[_MOST:] = [Finding("tamper/more", Severity.HIGH, more, hint=_FIRM_HINT)]
    return tuple(found)


def compared(base: Mapping[str, Entry], now: Mapping[str, Entry], read: Read) -> Iterator[Finding]:
    """What was bent on the way from the files of ``base`` to those of ``now``, by path.

    ``read`` gives the contents of objects.
    """
    for change in _changes(base, now, read):
        judged = _judge(change, is_new_name=_is_new_name(change.path, base))
        yield from islice(judged, _MOST_OF_FILE)


def _changes(base: Mapping[str, Entry], now: Mapping[str, Entry], read: Read) -> Iterator[_Changed]:
    paths = sorted(path for path in base.keys() | now.keys() if base.get(path) != now.get(path))
    for start in range(0, len(paths), _BATCH):
        batch = paths[start : start + _BATCH]
        sides = [(base.get(path), now.get(path)) for path in batch]
        wanted = sorted(
            {one.oid for pair in sides for one in pair if one and one.mode != _SUBMODULE}
        )
        contents = dict(zip(wanted, read(wanted), strict=True))
        for path, (old, new) in zip(batch, sides, strict=True):
            yield _Changed(
                path,
                old,
                new,
                (contents.get(old.oid) or b"") if old else b"",
                (contents.get(new.oid) or b"") if new else b"",
            )


def _judge(change: _Changed, *, is_new_name: bool) -> Iterator[Finding]:
    path, old, new = change.path, change.old, change.new
    kind = protected.kind_of(path)
    yield from _shape(change)
    if new is not None and old is None and is_new_name:
        module = protected.shadowed(path)
        if module:
            yield _finding(
                "shadowed-module", path, f"would be imported in place of {module}", change
            )
    if kind == protected.STARTUP:
        yield _finding("startup-file", path, f"{_done(change)} {protected.NAMES[kind]}", change)
    elif kind in (protected.CI, protected.GIT, protected.AGENT, protected.LOCK):
        yield _finding("protected-path", path, f"{_done(change)} {protected.NAMES[kind]}", change)
    elif kind == protected.VALIDATOR:
        yield _finding("config-weakened", path, f"{_done(change)} {protected.NAMES[kind]}", change)
    elif kind == protected.HOOKS:
        yield _finding("protected-test", path, f"{_done(change)} {protected.NAMES[kind]}", change)
    elif kind == protected.TESTS:
        yield from _test(change)
    elif sections.is_sectioned(path):
        for section in sections.changed(path, change.before, change.after):
            what = f"the setting {printable(section)}" if section else "what cannot be read"
            yield _finding("config-weakened", path, f"changes {what}", change, subject=section)
    elif new is not None:
        yield from _source(change)


def _shape(change: _Changed) -> Iterator[Finding]:
    """Links, submodules, mode bits and binary files: what nobody can review in a patch."""
    path, old, new = change.path, change.old, change.new
    modes = {one.mode for one in (old, new) if one is not None}
    if _SUBMODULE in modes:
        yield _finding("submodule", path, f"{_done(change)} a submodule", change)
    elif new is not None and new.mode == _LINK:
        target = printable(change.after[:200].decode("utf-8", "replace"))
        yield _finding("link", path, f"{_done(change)} a symbolic link to {target}", change)
    elif old is not None and old.mode == _LINK:
        yield _finding("link", path, f"{_done(change)} a symbolic link", change)
    elif new is not None and old is not None and old.mode != new.mode:
        yield _finding("mode", path, f"changes its mode from {old.mode} to {new.mode}", change)
    elif new is not None and b"\0" in change.after[:_BINARY_PROBE]:
        yield _finding("binary", path, f"{_done(change)} a binary file", change)


def _test(change: _Changed) -> Iterator[Finding]:
    """A test that is new is welcome; one that was there is graded."""
    path, old, new = change.path, change.old, change.new
    if old is None or _LINK in (old.mode, new.mode if new else ""):
        return
    if new is None:
        yield _finding(grading.REMOVED, path, "deletes a file of tests", change)
        return
    if max(len(change.before), len(change.after)) > _LIMIT:
        yield _finding("protected-test", path, "changes a test too large to be judged", change)
        return
    if not _is_graded(path):
        # Data, snapshots, helpers: whether they still ask as much, nobody can tell.
        yield _finding("protected-test", path, "changes what a test compares with or uses", change)
        return
    yield from _graded(change, _text(change.before), _text(change.after))


def _graded(change: _Changed, before: str, after: str) -> Iterator[Finding]:
    for weakening in grading.grade(change.path, before, after):
        text = before if weakening.side == "old" else after
        yield _finding(
            weakening.rule,
            change.path,
            weakening.message,
            change,
            line=weakening.line,
            side=weakening.side,
            text=text,
            subject=weakening.message,
        )


def _is_graded(path: str) -> bool:
    """Whether the name is that of a test whose language we read."""
    name = path.lower().rpartition("/")[2]
    ending = name.rpartition(".")[2]
    if ending == "py":
        return name.startswith("test") or name.endswith("_test.py")
    return ending in ("go", "rs") or any(sign in name for sign in (".test.", ".spec."))


def _source(change: _Changed) -> Iterator[Finding]:
    if len(change.after) > _LIMIT or (change.new is not None and change.new.mode == _LINK):
        return
    before, after = _text(change.before), _text(change.after)
    for line, what in escapes.added(change.path, before, after):
        message = f"ends or reaches into a test run: {printable(what)}"
        yield _finding("exit", change.path, message, change, line=line, text=after, subject=what)
    if change.path.endswith(".rs") and "#[cfg(test)]" in before:
        # In Rust, tests live at the end of what they test.
        inner = before.partition("#[cfg(test)]")
        start = inner[0].count("\n")
        kept = after.partition("#[cfg(test)]")[2]
        yield from _graded(change, "\n" * start + inner[2], kept)


def _shrunk(before: Collected | None, after: Collected | None) -> Iterator[Finding]:
    if before is None or not before.total:
        return
    if after is None or after.runner != before.runner:
        message = f"{before.runner} told of {count(before.total, 'test')} before, and of none now"
    elif after.total < before.total:
        message = f"{after.total:,} of {before.total:,} tests are left"
    elif after.skipped > before.skipped:
        message = f"{count(after.skipped, 'test')} left out, {before.skipped:,} before"
    else:
        return
    yield Finding("tamper/tests-shrunk", Severity.HIGH, message, hint=_HINT)


def _is_new_name(path: str, base: Mapping[str, Entry]) -> bool:
    """Whether the snapshot had no module or package of that name at that place."""
    module = protected.shadowed(path)
    if not module:
        return False
    at = path[: path.rfind(module)] if "/" not in path else path.partition(module)[0]
    stem = f"{at}{module}"
    return not any(known.startswith((f"{stem}/", f"{stem}.py")) for known in base)


def _done(change: _Changed) -> str:
    if change.old is None:
        return "adds"
    return "changes" if change.new is not None else "deletes"


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def _finding(
    rule: str,
    path: str,
    message: str,
    change: _Changed | None = None,
    *,
    line: int | None = None,
    side: str = "new",
    text: str = "",
    subject: str = "",
) -> Finding:
    rule = f"tamper/{rule}"
    if change is not None and change.new is None:
        side = "old"
    entry = None if change is None else (change.old if side == "old" else change.new)
    lines = text.split("\n")
    quote = lines[line - 1] if line and line <= len(lines) else None
    quote = None if quote is None or len(quote) > _LONGEST_QUOTE else quote
    place = Location(path, line, line, side, entry.oid if entry else None, quote)
    return Finding(
        rule,
        Severity.HIGH,
        f"{printable(path)}: {printable(message)}",
        hint=_HINT if rule in _OF_TESTS else _FIRM_HINT,
        evidence=(place,),
        domain="tamper",
        subject=printable(subject)[:200] or None,
    )
