"""test-bite: would the tests of this change notice if it were wrong?

The tests that the change adds or changes run in the sandbox: at head, on the base's code, on broken
code, and with claims that fail. It runs only where it is named.
"""

from __future__ import annotations

from rlm_ci.change.change_set import NOTHING
from rlm_ci.checks._override import OverrideWords, accept, stated
from rlm_ci.config.settings import Setting
from rlm_ci.report.findings import INCOMPLETE, Finding, Location, Part, Severity
from rlm_ci.text import dates
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.settings import Settings
    from rlm_ci.runs.store import RunStore
    from rlm_ci.trials.bite import BiteResult, ChangedCode
    from rlm_ci.trials.touched_tests import TouchedTest, TouchedTests

    #: The bytes of a file before and after the change.
    Sides = tuple[bytes | None, bytes | None]

ID = "test-bite"
SUMMARY = "tests of the change fail without it, and where its code is broken"
RULES = {
    **dict.fromkeys(
        ("hollow-test", "passes-without-change", "unnoticed-line", "override-incomplete"),
        Severity.MEDIUM,
    ),
    "not-judged": Severity.INFO,
}
_VARIABLE = "TEST_BITE_OVERRIDE_REASON"
_OVERRIDE = OverrideWords(_VARIABLE, "test-bite-override", "Test bite override")
OPTIONS = (
    Setting("test_bite.fail", "let tests that do not bite fail the run: their severity is high",
            default=False, kind="boolean"),
    Setting("test_bite.minutes", "maximum minutes of all runs together; raise it for slow tests",
            10, "number", minimum=0),
    Setting("test_bite.validator", "command that runs tests, from which one for single tests is "
            "made: auto finds one for each language", "auto", metavar="CMD|auto"),
    Setting("test_bite.override_reason", "why tests may not bite; '(until YYYY-MM-DD)' in it ends "
            "the override", env=(_VARIABLE,), own_env=False, file=False),
)  # fmt: skip
HOOKS: dict[str, dict[str, tuple[str, ...]]] = {}

#: Bytes of a file that is read; findings of one rule; characters of a test's name.
_LIMIT, _MOST, _NAME = 2 << 20, 10, 120
#: Touched tests that are run.
_MOST_TESTS = 200
#: Broken lines of code that was written anew, for which tests bite that pass without it: they
#: notice four of five.
_REWRITTEN = 8
#: Hollow tests that are named one by one.
_MOST_HOLLOW = 50
#: Files of the head's code in Python that are read, and bytes of all.
_MOST_FILES, _MOST_BYTES = 1_500, 24 << 20
#: Folders with code beside the product, and files that build it.
_BESIDE = frozenset(("doc", "docs", "example", "examples", "benchmark", "benchmarks", "scripts"))
_TOOLS = frozenset(("setup.py", "conf.py", "noxfile.py", "tasks.py", "versioneer.py"))
#: Files of types alone, which nothing runs.
_OF_TYPES = (".pyi", ".d.ts", ".d.mts", ".d.cts")
_NO_TEST = "no test is added or changed"
_HINTS = {
    "hollow-test": "claim what the code must give, by a value that the code does not make",
    "passes-without-change": "claim what the change adds or mends, so that the test fails without",
    "unnoticed-line": "add a test that fails when this line is wrong",
}


def applies(_changes: ChangeSet, _options: Settings) -> str | None:
    """Why the check is off: it runs code, and so only where somebody names it."""
    return "it runs tests, and only where it is named"


def run(
    changes: ChangeSet,
    options: Settings,
    _runs: RunStore,
    today: Callable[[], str] = dates.today,
) -> Part:
    """One part. Raises ConfigError where code must not run, or no sandbox holds."""
    from rlm_ci.trials.touched_tests import changes_shared, touched

    _refuse(changes, options)
    code = _changed_code(changes)
    tests = touched({**code.tests, **_with_tests(code.product)})
    if not tests.tests:
        summary = NOTHING.get(changes.trigger, _NO_TEST)
        if not changes.all_names():
            return Part(ID, summary)
        shared = changes_shared(code.tests, ()) or _changes_data_of_tests(changes)
        summary = (
            f"{_NO_TEST}, but what tests read is, and they were not run" if shared else _NO_TEST
        )
        return Part(ID, summary + _unread(len(tests.unread)))
    result = _result(changes, options, code, tests.tests[:_MOST_TESTS])
    left = max(0, len(tests.tests) - _MOST_TESTS)
    is_unseen = left or tests.unread or _changes_data_of_tests(changes) or _are_shared(tests)
    is_unseen = is_unseen or changes_shared(code.tests, tests.tests)
    is_as_before = all(test.is_marked_anew for test in tests.tests)
    is_claimed = not is_unseen and not is_as_before and _claims_behaviour(changes)
    findings = list(_findings(result, is_claimed=is_claimed))
    summary = _summary(result, len(tests.tests)) + _unread(len(tests.unread))
    summary += f"; at most {_MOST_TESTS} tests are run" if left else ""
    is_strict = options.test_bite.fail
    if findings and not is_strict:
        from rlm_ci.checks._authorship import authorship_of

        logins = options.values.get("test_guard.strict_authors", ())
        wrote = authorship_of(changes, options.environ, logins)
        is_strict = wrote.is_by_agent
        summary = "; ".join(filter(None, (summary, wrote.reason)))
    if is_strict:
        findings = [
            finding.replace(severity=Severity.HIGH)
            if finding.severity == Severity.MEDIUM
            else finding
            for finding in findings
        ]
    if findings:
        reason = options.test_bite.override_reason
        override = stated(_OVERRIDE, reason, changes.pull_request, today())
        incomplete = Finding(f"{ID}/override-incomplete", findings[0].severity, "")
        findings, accepted = accept(findings, override, incomplete)
        summary += accepted
    lost = list(_not_judged(result))
    if changes.label:
        summary = f"{printable(changes.label)}: {summary}"
    metrics = {
        "tests": len(tests.tests),
        "judged": len(result.judged),
        "hollow": len(result.hollow),
        "same": len(result.same),
        "noticed": result.noticed,
        "unnoticed": len(result.unnoticed),
        "untried": result.untried,
        "runs": result.runs,
    }
    state = None if result.judged and not (result.is_cut or left) else INCOMPLETE
    return Part(ID, summary, metrics, (*findings, *lost), state=state)


def _refuse(changes: ChangeSet, options: Settings) -> None:
    """Raise ConfigError for a job with rights, and for a change that is no tree."""
    from rlm_ci.change import privileged_events
    from rlm_ci.errors import ConfigError

    environ = options.environ
    name = environ.get("GITHUB_EVENT_NAME") if environ.get("GITHUB_ACTIONS") else None
    if event := privileged_events.event_of(name):
        privileged_events.refuse_execution(changes, event, what=ID)
    if changes.trigger == "index" or changes.also:
        what = "what is staged is no tree" if changes.trigger == "index" else "a merge has no base"
        raise ConfigError(
            f"{what} that tests could run on",
            where=ID,
            hint="check the work tree, a commit, or a range with --base",
        )


# ── the change ──


def _changed_code(changes: ChangeSet) -> ChangedCode:
    """The changed files of tests and of code."""
    from rlm_ci.guard import weaker
    from rlm_ci.trials.bite import ChangedCode

    tests: dict[str, Sides] = {}
    product: dict[str, Sides] = {}
    for path in changes.all_names():
        kind = weaker.kind_of(path)
        if kind not in (weaker.TEST, weaker.CODE) or _is_beside(path):
            continue
        is_new = changes.kinds.get(path, "A") == "A"
        before = None if is_new else changes.read(path, _LIMIT, old=True)
        (tests if kind == weaker.TEST else product)[path] = before, changes.read(path, _LIMIT)
    hunks = changes.hunks()[0] if product else {}
    lines = {
        path: {line.new for hunk in some for line in hunk.lines if line.kind == "+" and line.new}
        for path, some in hunks.items()
    }
    for path, (before, after) in product.items():
        if before is None and after is not None:
            lines.setdefault(path, set(range(1, after.count(b"\n") + 2)))
    return ChangedCode(product, tests, lines, _is_of_tests, lambda: _python_of(changes))


def _is_beside(path: str) -> bool:
    """Whether a file is code, and none of the product that tests could be about."""
    *folders, name = path.split("/")
    return not _BESIDE.isdisjoint(folders) or name in _TOOLS or name.endswith(_OF_TYPES)


def _is_of_tests(path: str) -> bool:
    """Whether a file belongs to the tests, with what they are run with."""
    from rlm_ci.guard import weaker
    from rlm_ci.validators import test_file_names

    is_inside = any(map(test_file_names.is_folder, path.split("/")[:-1]))
    return is_inside or weaker.kind_of(path) in (weaker.TEST, weaker.SNAPSHOT)


def _with_tests(product: Mapping[str, Sides]) -> dict[str, Sides]:
    """The files of code that hold tests, too, as in Rust."""
    return {path: sides for path, sides in product.items() if path.endswith(".rs")}


def _changes_data_of_tests(changes: ChangeSet) -> bool:
    """Whether files that tests read are others: a test whose own text is as before may read them.

    Such a test is not run, and may be the one that needs the change.
    """
    from rlm_ci.guard import weaker

    code = (weaker.TEST, weaker.CODE)
    return any(
        _is_of_tests(path) and weaker.kind_of(path) not in code for path in changes.all_names()
    )


def _are_shared(touched: TouchedTests) -> bool:
    """Whether tests are in a file of Python that no runner collects: classes elsewhere have them.

    Not all of these classes may have been run, so that some of them may need the change.
    """
    from rlm_ci.validators import test_file_names

    paths = {test.path for test in touched.tests if test.path.endswith(".py")}
    return not all(map(test_file_names.is_file, paths))


def _python_of(changes: ChangeSet) -> dict[str, bytes]:
    """The code of the head in Python, without its tests."""
    from rlm_ci.guard import weaker
    from rlm_ci.workspace.tree import Tree

    commit = None if changes.worktree else changes.head
    tree = Tree.at(changes.repository, commit)
    paths = [
        path
        for path in sorted(tree.modes)
        if path.endswith(".py") and weaker.kind_of(path) == weaker.CODE and not _is_of_tests(path)
    ]
    contents, size = {}, 0
    for path, data in tree.read(paths[:_MOST_FILES]).items():
        size += len(data)
        if size > _MOST_BYTES:
            break
        contents[path] = data
    return contents


def _claims_behaviour(changes: ChangeSet) -> bool:
    """Whether a title says that the change adds or mends what the program does."""
    from rlm_ci.checks._description.claims import claims_behaviour

    titles = [message.text.partition("\n")[0] for message in changes.messages]
    if changes.pull_request:
        titles.append(changes.pull_request.title)
    return any(map(claims_behaviour, titles))


def _result(
    changes: ChangeSet, options: Settings, code: ChangedCode, tests: tuple[TouchedTest, ...]
) -> BiteResult:
    """What the runs show. Raises RlmCiError where nothing can be run."""
    from rlm_ci.console.messages import say
    from rlm_ci.errors import ConfigError
    from rlm_ci.trials.bite import Bite
    from rlm_ci.trials.test_runs import TestRuns
    from rlm_ci.trials.trees import ProofPlace, ProofTrees

    chosen = options.test_bite
    base = changes.merge_base or changes.head or changes.repository.empty_tree()
    compared = ProofPlace.of(
        changes.repository,
        base,
        None if changes.worktree else changes.head,
        options.environ,
        setup=options.loop.setup,
        validator=chosen.validator,
    )
    if not compared.sandbox().isolated:
        raise ConfigError("there is no sandbox", where=ID, hint="see rlm-ci doctor")
    with ProofTrees(compared) as trees:
        runs = TestRuns(trees, chosen.minutes * 60, chosen.validator)
        return Bite(trees, runs, code, tests, lambda text: say(f"{ID}: {text}")).result()


# ── words ──


def _findings(result: BiteResult, *, is_claimed: bool) -> Iterator[Finding]:
    """What does not bite. Where nothing of a claimed behaviour is noticed, it is no information."""
    for item in result.hollow[:_MOST_HOLLOW]:
        yield _finding("hollow-test", f"{_name(item.test)} {item.why}", item.test)
    left = len(result.hollow) - _MOST_HOLLOW
    yield from _more("hollow-test", left, "test", Severity.MEDIUM)
    hollow = {item.test.key for item in result.hollow}
    same = [test for test in result.same if test.key not in hollow]
    has_code = bool(result.noticed or result.unnoticed or result.untried)  # and no comments alone
    is_whole = not result.failing and len(result.same) == len(result.judged)  # no unknown test
    is_blunt = is_claimed and has_code and is_whole
    tried = result.noticed + len(result.unnoticed)  # of code that was written anew to do the same
    is_rewritten = tried >= _REWRITTEN and result.noticed * 5 >= tried * 4
    weight = Severity.MEDIUM if is_blunt and not is_rewritten else Severity.INFO
    for test in same[:_MOST]:
        message = f"{_name(test)} passes without the change"
        yield _finding("passes-without-change", message, test).replace(severity=weight)
    yield from _more("passes-without-change", len(same) - _MOST, "test", weight)
    weight = Severity.MEDIUM if is_blunt and not result.noticed else Severity.INFO
    for edit in result.unnoticed[:_MOST]:
        within = f" of {printable(edit.within)[:_NAME]}" if edit.within else ""
        message = f"no added or changed test notices this line{within} {edit.kind}"
        line = Location(edit.path, edit.line, edit.line)
        yield Finding(
            f"{ID}/unnoticed-line", weight, message, hint=_HINTS["unnoticed-line"],
            evidence=(line,), subject=f"{edit.within}:{edit.kind}"[:200],
        )  # fmt: skip
    yield from _more("unnoticed-line", len(result.unnoticed) - _MOST, "line", weight)


def _more(condition: str, left: int, noun: str, weight: Severity) -> Iterator[Finding]:
    if left > 0:
        message = f"and {count(left, f'more {noun}')}"
        more = Finding(f"{ID}/{condition}", RULES[condition], message)
        yield more.replace(severity=weight)


def _finding(condition: str, message: str, test: TouchedTest) -> Finding:
    return Finding(
        f"{ID}/{condition}", RULES[condition], message, hint=_HINTS[condition],
        evidence=(Location(test.path, test.line, test.end),), subject=test.name[:200],
    )  # fmt: skip


def _not_judged(result: BiteResult) -> Iterator[Finding]:
    """One finding about the tests that were not judged."""
    if result.failing:
        from rlm_ci.system.transcript import plain
        from rlm_ci.validators.start_failures import telling_line

        names = ", ".join(_name(test) for test in result.failing[:3])
        more = len(result.failing) - 3
        what = f"{names} and {count(more, 'more test')}" if more > 0 else names
        line = telling_line(plain(result.output).split("\n"))
        why = f"; the runner says: {printable(line)[:200]}" if line else ""
        yield Finding(
            f"{ID}/not-judged", Severity.INFO, f"not judged, as it does not pass here: {what}{why}",
            hint="loop.setup installs what tests need; they run without network",
            evidence=tuple(Location(each.path, each.line) for each in result.failing[:20]),
        )  # fmt: skip


def _summary(result: BiteResult, tests: int) -> str:
    parts = [f"{len(result.judged):,} of {count(tests, 'touched test')} judged"]
    if result.hollow:
        parts.append(f"{len(result.hollow):,} hollow")
    if result.same:
        parts.append(f"{len(result.same):,} pass without the change")
    if result.noticed or result.unnoticed:
        tried = result.noticed + len(result.unnoticed)
        parts.append(f"{result.noticed:,} of {count(tried, 'broken line')} noticed")
    if result.untried:
        parts.append(f"{count(result.untried, 'line')} not tried")
    if result.cut:
        parts.append(result.cut)
    return f"{', '.join(parts)}, in {count(result.runs, 'run')}"


def _unread(number: int) -> str:
    return f"; {count(number, 'file')} of tests cannot be read" if number else ""


def _name(test: TouchedTest) -> str:
    return printable(test.name)[:_NAME]
