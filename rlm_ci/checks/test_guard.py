"""test-guard: does the change make less sure what the tests, and what judges them, say?

Base and head are compared; nothing is run. A finding is reported and fails no run, but for changes
of bots and coding agents, of the authors that a setting names, or where a setting asks for it.
"""

from __future__ import annotations

from rlm_ci.change.change_set import NOTHING
from rlm_ci.checks._override import OverrideWords, accept, stated
from rlm_ci.config.settings import Setting
from rlm_ci.report.findings import Evidence, Finding, Location, Part, Severity
from rlm_ci.text import dates
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.settings import Settings
    from rlm_ci.guard.weakened_tests.compare import ComparedTests
    from rlm_ci.guard.weakening import TextChange, Weakening
    from rlm_ci.runs.store import RunStore

ID = "test-guard"
SUMMARY = "no test, and nothing that judges it, is weakened in silence"
RULES = {
    **dict.fromkeys(
        (
            "test-removed", "test-skipped", "test-focused", "assertion-weakened",
            "snapshot-replaced", "coverage-lowered", "check-silenced", "run-loosened",
            "ci-weakened", "override-incomplete",
        ),
        Severity.MEDIUM,
    ),
    "told": Severity.INFO,
    "not-read": Severity.INFO,
}  # fmt: skip
OPTIONS = (
    Setting("test_guard.fail", "let weakened tests fail the run: their severity is high",
            default=False, kind="boolean", flag="--strict"),
    Setting("test_guard.strict_authors", "logins of authors whose weakened tests have severity "
            "high, as those of bots and coding agents always have", (), "list", metavar="LOGIN"),
    Setting("test_guard.override_reason", "why tests may be weakened; '(until YYYY-MM-DD)' in it "
            "ends the override", env=("TEST_GUARD_OVERRIDE_REASON",), own_env=False, file=False),
)  # fmt: skip
HOOKS = {
    "test-guard": {"args": (), "stages": ("pre-push",)},
    "test-guard-staged": {"args": ("--staged",), "stages": ("pre-commit",)},
}

LABEL = "test-guard-override"
_OVERRIDE = OverrideWords("TEST_GUARD_OVERRIDE_REASON", LABEL, "Test guard override")
#: Bytes of a file that is read.
_LIMIT = 2 << 20
#: Findings of one rule that are told one by one; the rest is one more.
_MOST = 50
#: Paths that one finding points to, and names of a kind that a message says.
_PLACES, _NAMED = 20, 3
_LONGEST_QUOTE = 1000
#: The kind of a note: what a revert takes back.
_REVERTED = "reverted"
#: What is counted, and told in one line.
_TOLD = {
    "merged": ("test", "now part of another"),
    "copied": ("test", "gone from one file, and the same in another"),
    "rewritten": ("test", "written anew, so that only a reader can compare them"),
    "obsolete": ("test", "changed or gone with the code that it names"),
    "uncollected": ("test", "gone from a file that no runner collected"),
    "expected": ("test", "with an expected value that changed together with the code"),
    "reasoned": ("test", "skipped with a reason"),
    "explained": ("suppression", "of a tool, with a reason"),
    "replaced": ("suppression", "that came with what it silences, or in place of another"),
    _REVERTED: ("change", "of what a revert takes back"),
    "renamed-job": ("job of CI", "with another name, for which a required check may stand"),
}
_COUNTED = ("moved", "renamed", *_TOLD)
#: The hint for a file of tests that cannot be read any more.
_BROKEN = "make the file valid again"
_HINTS = {
    "test-removed": "bring the test back, or say in the pull request why it is not needed",
    "test-skipped": "give the skip a reason, or let the test run",
    "test-focused": "remove the focus, so that the other tests run again",
    "assertion-weakened": "bring the assertion back, or say in the pull request why it may go",
    "snapshot-replaced": "look at the snapshot line by line; nothing else says what is right",
    "coverage-lowered": "bring the number back, and test what is not covered",
    "check-silenced": "fix what the tool reports, or name its rule and the reason beside it",
    "run-loosened": "find out why it fails or takes long, before it may",
    "ci-weakened": "bring it back, or have it changed by who requires the check",
}


def run(
    changes: ChangeSet,
    options: Settings,
    _runs: RunStore,
    today: Callable[[], str] = dates.today,
) -> Part:
    """One part. Files that cannot be compared are listed, and change no verdict."""
    from rlm_ci.checks._test_guard import UnchangedFiles
    from rlm_ci.guard import weaker

    paths = changes.all_names()
    sides = _Sides(changes, [path for path in paths if weaker.kind_of(path)])
    result = weaker.compared(
        sides.changes,
        code_changed=any(map(weaker.is_product, paths)),
        tree=UnchangedFiles(changes, _LIMIT),
    )
    if result.weakenings:
        result = _without_reverts(result, changes, sides)
    unread = (*result.not_read, *sides.unread)
    is_strict, authorship = False, ""
    if result.weakenings:
        from rlm_ci.checks._authorship import authorship_of

        is_strict = options.test_guard.fail
        if not is_strict:
            wrote = authorship_of(changes, options.environ, options.test_guard.strict_authors)
            is_strict, authorship = wrote.is_by_agent, wrote.reason
    if not (is_strict or authorship):
        result = _without_doubtful(result)
    findings = _findings(result, sides, is_strict=is_strict)
    summary = "; ".join(filter(None, (_summary(len(findings), len(unread), result), authorship)))
    if not paths:
        summary = NOTHING.get(changes.trigger, summary)
    if findings:
        reason = options.test_guard.override_reason
        override = stated(_OVERRIDE, reason, changes.pull_request, today())
        incomplete = Finding(f"{ID}/override-incomplete", findings[0].severity, "")
        findings, accepted = accept(findings, override, incomplete)
        summary += accepted
    if weakenings := [note for note in result.notes if note.rule in _TOLD]:
        findings.append(_notes_finding(weakenings, sides))
    if unread:
        findings.append(_not_read(unread))
    if changes.label:  # of several refs that are pushed at once, which
        label = f"{printable(changes.label)}: "
        summary = f"{label}{summary}"
        findings = [finding.replace(message=f"{label}{finding.message}") for finding in findings]
    metrics = {
        "files": len(sides.changes),
        "weakened": len(result.weakenings),
        **{name: result.counted[name] for name in _COUNTED},
        "not_read": len(unread),
    }
    pointers = sum(len(finding.evidence) for finding in findings)
    return Part(ID, summary, metrics, tuple(findings), evidence=Evidence(pointers, pointers))


def _without_reverts(result: ComparedTests, changes: ChangeSet, sides: _Sides) -> ComparedTests:
    """Tests that a revert takes back with the code are no weakening; more of it is doubtful."""
    from rlm_ci.checks._test_guard import taken_back
    from rlm_ci.guard import weaker
    from rlm_ci.guard.collected.not_run import REMOVED
    from rlm_ci.guard.weakened_tests.compare import WEAKENED
    from rlm_ci.guard.weakened_tests.subjects import OBSOLETE

    product = [path for path in sides.contents if weaker.is_product(path)]
    lost = {weakening.path for weakening in result.weakenings}
    reverted = taken_back(changes, sides.both, product, lost, _LIMIT)
    gone = [weakening for weakening in result.weakenings if weakening.path in reverted.restored]
    gone = [weakening for weakening in gone if weakening.rule in (REMOVED, WEAKENED)]
    notes = [weakening.replace(rule=OBSOLETE) for weakening in gone]
    left = tuple(
        weakening.replace(doubt=weakening.doubt or _REVERTED)
        if weakening.path in reverted.mostly
        else weakening
        for weakening in result.weakenings
        if weakening not in gone
    )
    return result.replace(weakenings=left, notes=(*result.notes, *notes))


def _without_doubtful(result: ComparedTests) -> ComparedTests:
    """What a person wrote is told, and is no weakening, where a sign speaks for it."""
    doubtful = [weakening for weakening in result.weakenings if weakening.doubt]
    notes = [
        weakening.replace(rule=weakening.doubt, message=weakening.message.removesuffix(" is gone"))
        for weakening in doubtful
    ]
    left = tuple(weakening for weakening in result.weakenings if not weakening.doubt)
    return result.replace(weakenings=left, notes=(*result.notes, *notes))


# ── what changed ──


class _Sides:
    """The texts of these paths on both sides of a change."""

    def __init__(self, changes: ChangeSet, paths: Sequence[str]) -> None:
        self._repository = changes.repository
        self._blobs = {
            side: {path: changes.blobs(path)[at] for path in paths}
            for at, side in enumerate(("old", "new"))
        }
        self._contents = _contents(changes, self._blobs)
        self.changes: list[TextChange] = []
        self.unread: list[tuple[str, str]] = []
        from rlm_ci.checks._test_guard import text_of
        from rlm_ci.guard.weakening import TextChange

        for path in paths:
            old, new = (content[path] for content in self._contents.values())
            is_lost = old is None and changes.kinds.get(path, "A") != "A"
            is_lost = is_lost or (new is None and changes.kinds.get(path, "A") != "D")
            if is_lost or any(data is not None and b"\0" in data for data in (old, new)):
                self.unread.append((path, "it is large, binary or no regular file"))
            else:
                self.changes.append(TextChange(path, text_of(old), text_of(new)))

    @property
    def contents(self) -> Mapping[str, bytes | None]:
        """The bytes of each file after the change."""
        return self._contents["new"]

    @property
    def both(self) -> Mapping[str, tuple[bytes | None, bytes | None]]:
        """The bytes of each file before and after the change."""
        return {path: (self._contents["old"][path], new) for path, new in self.contents.items()}

    def location(self, weakening: Weakening) -> Location:
        """Where a weakening is, with its line as it stands there."""
        content = self._contents[weakening.side][weakening.path]
        if content is None:
            return Location(weakening.path, side="old" if weakening.side == "new" else "new")
        blob = self._blobs[weakening.side][weakening.path] or self._repository.blob_id(content)
        if not weakening.line:
            return Location(weakening.path, side=weakening.side, blob=blob)
        lines = content.decode("utf-8", "surrogateescape").split("\n")
        quote = lines[weakening.line - 1].rstrip("\r") if weakening.line <= len(lines) else None
        quote = quote if quote is not None and len(quote) <= _LONGEST_QUOTE else None
        return Location(weakening.path, weakening.line, weakening.line, weakening.side, blob, quote)


def _contents(
    changes: ChangeSet, blobs: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, bytes | None]]:
    """The bytes of each path by its side; None for those not there, and for too large ones."""
    oids = sorted({oid for side in blobs.values() for oid in side.values() if oid})
    read = changes.repository.read_small(oids, _LIMIT) if oids else []
    by_oid = dict(zip(oids, read, strict=True))
    contents = {
        side: {path: by_oid.get(oid) for path, oid in of_side.items()}
        for side, of_side in blobs.items()
    }
    if changes.trigger == "worktree":
        contents["new"] = {path: changes.read(path, _LIMIT) for path in contents["new"]}
    return contents


# ── what is told of it ──


def _findings(result: ComparedTests, sides: _Sides, *, is_strict: bool) -> list[Finding]:
    findings, left = [], dict[str, int]()
    for weakening in result.weakenings:
        left[weakening.rule] = left.get(weakening.rule, _MOST) - 1
        if left[weakening.rule] >= 0:
            findings.append(
                Finding(
                    f"{ID}/{weakening.rule}",
                    Severity.HIGH if is_strict else RULES[weakening.rule],
                    printable(weakening.message),
                    hint=_HINTS[weakening.rule]
                    if weakening.line or weakening.rule != "test-removed"
                    else _BROKEN,
                    evidence=(sides.location(weakening),),
                    subject=printable(weakening.message)[:200],
                )
            )
    findings += [
        Finding(
            f"{ID}/{rule}",
            Severity.HIGH if is_strict else RULES[rule],
            f"and {-number:,} more like these",
            hint=_HINTS[rule],
        )
        for rule, number in left.items()
        if number < 0
    ]
    return findings


def _notes_finding(notes: Sequence[Weakening], sides: _Sides) -> Finding:
    """What is no weakening, and worth a look: each kind with its number and what it is about."""
    parts = []
    for kind, (noun, what) in _TOLD.items():
        names = [printable(note.message) for note in notes if note.rule == kind]
        if names:
            more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
            shown = f"{', '.join(names[:_NAMED])}{more}"
            parts.append(f"{count(len(names), noun)} {what}: {shown}")
    places = tuple(sides.location(note) for note in notes[:_PLACES])
    return Finding(f"{ID}/told", RULES["told"], "; ".join(parts), evidence=places)


def _not_read(unread: Sequence[tuple[str, str]]) -> Finding:
    reasons = sorted({reason for _, reason in unread})
    shown = "; ".join(reasons[:3])
    return Finding(
        f"{ID}/not-read",
        RULES["not-read"],
        f"{count(len(unread), 'file')} not compared: {shown}",
        hint="look at them yourself"
        + ("; rlm-ci[syntax] has the grammars" if "grammar" in shown else ""),
        evidence=tuple(Location(path) for path, _ in unread[:_PLACES]),
    )


def _summary(weakened: int, unread: int, result: ComparedTests) -> str:
    summary = count(weakened, "weakening") if weakened else "no test is weakened"
    moved = result.counted["moved"] + result.counted["renamed"]
    summary += f"; {count(moved, 'test')} moved or renamed" if moved else ""
    return summary + (f"; {count(unread, 'file')} not read" if unread else "")
