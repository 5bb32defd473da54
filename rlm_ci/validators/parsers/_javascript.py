"""Runners of JavaScript that print for people: bun, jest, mocha, node --test and vitest."""

from __future__ import annotations

import re
from itertools import dropwhile, pairwise, takewhile

from rlm_ci.validators.outcomes import FAILED, PASSED, SKIPPED, TestOutcome
from rlm_ci.validators.parsers._output import (
    NEVER,
    TestTally,
    TitleOutline,
    blocks,
    finding,
    message,
    numbers,
    sentence,
    summed,
)
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rlm_ci.report.findings import Finding
    from rlm_ci.validators.parsers._output import Printout

#: A frame of a stack.
_FRAME = re.compile(r" +at | ❯ ")
_PATH = r"\S+\.[cm]?[jt]sx?"
_STATES = dict.fromkeys("✓✔√", PASSED) | dict.fromkeys("✕✖×", FAILED)


class Failure(Value):
    """A test that failed, or a file: what it ``message``, and all ``lines`` below its title.

    ``location`` is where it begins, a path or ``path:line``; its frames may name a better one.
    """

    title: str
    location: str
    message: str
    lines: list[str]
    rule: str
    subject: str = ""


class JavaScriptRunner(Value):
    """A runner: what failed, how each test that it names ended, how many it counts."""

    TOOL: str
    failures: Callable[[Printout], Iterator[Failure]]
    outcomes: Callable[[Printout], Iterator[TestOutcome]]
    tally: Callable[[Printout], TestTally | None]

    def parse(self, printout: Printout) -> Iterator[Finding]:
        """One finding a failed test, or a file that could not be run."""
        for failure in self.failures(printout):
            location = printout.broken(failure.lines) or printout.spot(failure.location)
            yield finding(
                self.TOOL,
                failure.rule,
                f"{failure.title}: {failure.message}",
                location or printout.location_of(failure.location),
                subject=failure.subject or failure.title,
            )


def _words(lines: list[str]) -> list[str]:
    return [line for line in lines if line and not _FRAME.match(line)]


def _counted(
    printout: Printout, count: re.Pattern[str], none: re.Pattern[str] = NEVER
) -> TestTally | None:
    """The tally of a runner with a line for each count; ``none`` says that there are no tests."""
    pairs = [
        (int(match["number"]), match["word"])
        for line in printout.lines
        if (match := count.match(line))
    ]
    if not pairs and not any(map(none.match, printout.lines)):
        return None
    return summed(pairs, {"pass", "passing"}, {"fail", "failing"})


def _of_suites(printout: Printout, label: re.Pattern[str], none: str) -> TestTally | None:
    """The tally of a runner that counts suites as well: one may fail without a test of its own.

    ``label`` is how a line with counts begins, ``none`` one that says that there are no tests.
    """
    tallies = []
    for line in printout.lines:
        if match := label.match(line):
            tally = summed(numbers(line[match.end() :]), {"passed"}, {"failed"})
            tallies.append(tally if match[1] == "Tests" else TestTally(0, tally.failed))
        elif line.startswith(none):
            tallies.append(TestTally(0))
    if not tallies:
        return None
    return TestTally(
        sum(tally.passed for tally in tallies), max(test_tally.failed for test_tally in tallies)
    )


# -- bun: a test's output, its error, and then its name -------------------------------------------

_BUN_HEAD = re.compile(r"bun test v\d")
_BUN_FILE = re.compile(rf"({_PATH}):$")
_BUN_LINE = re.compile(r"\((pass|fail|skip|todo)\) (\S.*?)(?: \[[\d.]+m?s\])?$")
_BUN_UNHANDLED = "# Unhandled error between tests"
_BUN_ERROR = re.compile(r"(?:error|[A-Z]\w{0,80}): (.*)$")
_BUN_COUNT = re.compile(r" (?P<number>\d{1,8}) (?P<word>pass|fail)$")
#: Where it lists them once more.
_BUN_AGAIN = re.compile(r"\d{1,8} tests? (?:failed|skipped|todo):$")
_BUN_NONE = re.compile(r"No tests found!$|The following filters did not match any test files:$")
_BUN_STATES = {"pass": PASSED, "fail": FAILED}


def _bun_tests(printout: Printout) -> Iterator[tuple[str, str, str, list[str]]]:
    """The file, the state and the name of each test, and the lines above; "" for a file."""
    lines = dropwhile(lambda line: not _BUN_HEAD.match(line), printout.lines)
    path, above = "", list[str]()
    for line in takewhile(lambda line: not _BUN_AGAIN.match(line), lines):
        if file := _BUN_FILE.match(line):
            path, above = file[1], []
        elif match := _BUN_LINE.match(line):
            yield path, _BUN_STATES.get(match[1], SKIPPED), match[2].replace(" > ", "::"), above
            above = []
        elif line.startswith("-----") and _BUN_UNHANDLED in above and len(above) > 3:
            yield path, FAILED, "", above[above.index(_BUN_UNHANDLED) + 2 :]
            above = []
        else:
            above.append(line)


def _bun_failures(printout: Printout) -> Iterator[Failure]:
    for path, state, name, above in _bun_tests(printout):
        if state == FAILED:
            text = next(
                (match[1] for line in above if (match := _BUN_ERROR.match(line))), "it failed"
            )
            title, rule = name.replace("::", " > ") or path, "bun-failure" if name else "bun-error"
            yield Failure(title, path, text, above, rule)


def _bun_outcomes(printout: Printout) -> Iterator[TestOutcome]:
    for path, state, name, above in _bun_tests(printout):
        lines = list(dropwhile(lambda line: not _BUN_ERROR.match(line), above))
        yield TestOutcome(
            path, name, state, message=message(lines if state == FAILED else (), _FRAME)
        )


# -- jest: blocks that begin with a bullet, below the file that failed ----------------------------

_JEST_RAN = re.compile(rf"(?:PASS|FAIL) (?:.* )?({_PATH})(?: \([\d.]+ m?s\))?$")
_JEST_HEAD = re.compile(rf"{_JEST_RAN.pattern}|  ● (\S.*)$")
_JEST_END = re.compile(r"Test Suites:|Summary of all")
_JEST_TOLD = re.compile(r"    (?:Expected|Received)\b.*: ")
_JEST_LINE = re.compile(r"( +)(?:([✓✕○✎√×]) (?:skipped |todo )?)?(\S.*?)(?: \([\d.]+ m?s\))?$")
_JEST_NOT_RUN = "Test suite failed to run"
#: Other tools have such a line as well, without the total.
_JEST_COUNTS = re.compile(r"(Tests|Test Suites): (?=.*\d total$)")


def _jest_failures(printout: Printout) -> Iterator[Failure]:
    path = ""
    for head, below in blocks(printout.lines, _JEST_HEAD, _JEST_END):
        if head[1]:
            path = head[1] if head[0].startswith("FAIL") else ""
        elif path and head[2] != "Console":  # its logs have a bullet as well
            words = _words(below)
            texts = [line.strip() for line in (*words[:1], *filter(_JEST_TOLD.match, words[1:]))]
            rule = "jest-error" if head[2] == _JEST_NOT_RUN else "jest-failure"
            yield Failure(head[2], path, "; ".join(texts[:4]), below, rule)


def _jest_outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """The tests that failed, and with --verbose, or of a single file, all."""
    for jest_failure in _jest_failures(printout):
        name = (
            "" if jest_failure.title == _JEST_NOT_RUN else jest_failure.title.replace(" › ", "::")
        )
        yield TestOutcome(
            jest_failure.location, name, FAILED, message=message(jest_failure.lines, _FRAME)
        )
    path, outline = "", TitleOutline()
    for line in printout.lines:
        if ran := _JEST_RAN.match(line):
            path, outline = ran[1], TitleOutline()
        elif not line or line.startswith("  ● "):
            path = ""  # what failed, and what was printed
        elif path and (match := _JEST_LINE.match(line)):
            if match[2]:
                name = outline.name(len(match[1]), match[3])
                yield TestOutcome(path, name, _STATES.get(match[2], SKIPPED))
            else:
                outline.enter(len(match[1]), match[3])


# -- mocha: the numbered list below ``N failing`` -------------------------------------------------

_MOCHA_COUNT = re.compile(r" +(?P<number>\d{1,8}) (?P<word>passing|failing)\b")
_MOCHA_FAILING = re.compile(r" +\d{1,8} failing\b")
_MOCHA_TITLE = re.compile(r"  \d+\) (\S.*)$")
_MOCHA_LINE = re.compile(r"(  +)(?:([✓✔-]|\d+\)) )?(\S.*?)(?: \(\d+ms\))?$")


def _mocha_failed(printout: Printout) -> Iterator[tuple[list[str], list[str]]]:
    """The titles of each test that failed, and the lines below them."""
    lines = iter(printout.lines)
    for line in lines:
        if _MOCHA_FAILING.match(line):
            break
    for head, below in blocks(lines, _MOCHA_TITLE):
        more = list(takewhile(str, below))  # the path of the test, deeper line by line
        yield [title.strip().rstrip(":") for title in (head[1], *more)], below[len(more) :]


def _mocha_failures(printout: Printout) -> Iterator[Failure]:
    for titles, below in _mocha_failed(printout):
        title = " > ".join(titles[:20])
        yield Failure(title, "", sentence(_words(below)), below, "mocha-failure")


def _mocha_outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """All tests of its reporter ``spec``, of others those that failed."""
    outline = TitleOutline()
    for line in printout.lines:
        if _MOCHA_FAILING.match(line):
            break
        if _MOCHA_COUNT.match(line):
            outline = TitleOutline()
        elif (match := _MOCHA_LINE.match(line)) and match[2]:
            state = SKIPPED if match[2] == "-" else _STATES.get(match[2], FAILED)
            yield TestOutcome("", outline.name(len(match[1]), match[3]), state)
        elif match:
            outline.enter(len(match[1]), match[3])
    for titles, below in _mocha_failed(printout):
        yield TestOutcome("", "::".join(titles), FAILED, message=message(below, _FRAME))


# -- node: the list of failing tests at its end ---------------------------------------------------

_NODE_PLACE = re.compile(r"test at (\S.*)$")
_NODE_NAME = re.compile(r"✖ (.*?)(?: \([\d.]+ms\))?( # .*)?$")
_NODE_LINE = re.compile(r"( *)([▶✔✖﹣⚠]) (.*?)( \([\d.]+ms\))?( # .*)?$")
_NODE_COUNT = re.compile(r"ℹ (?P<word>pass|fail) (?P<number>\d{1,8})$")
_SCRIPT = re.compile(f"{_PATH}$")


def _node_failures(printout: Printout) -> Iterator[Failure]:
    """What is marked as a todo does not fail."""
    for at, below in blocks(printout.lines, _NODE_PLACE):
        match = _NODE_NAME.match("".join(below[:1]))
        if match and not match[2]:
            text = sentence(_words(below[1:]))
            yield Failure(match[1], at[1], text, below[1:], "node-test-failure", match[1])


def _node_outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """All tests, a suite as well; the place of a failing one comes below, by name and time."""
    failures: dict[str, tuple[str, str]] = {}
    for at, below in blocks(printout.lines, _NODE_PLACE):
        where = printout.spot(at[1])
        failures["".join(below[:1])] = where.path if where else "", message(below[1:], _FRAME)
    outline = TitleOutline()
    for before, line in pairwise(("", *printout.lines)):
        is_listed = line == "✖ failing tests:" or before.startswith("test at ")
        if is_listed or (match := _NODE_LINE.match(line)) is None:
            continue
        depth, title = len(match[1]), match[3]
        if match[2] == "▶":
            if not match[4]:
                outline.enter(depth, title)
            continue
        name = outline.name(depth, title)
        state = SKIPPED if match[5] else _STATES.get(match[2], SKIPPED)
        place, text = failures.get(line.strip(), ("", "")) if state == FAILED else ("", "")
        if _SCRIPT.fullmatch(title) and not match[1]:  # a file that could not be run
            place, name = title, ""
        yield TestOutcome(place, name, state, message=text)


# -- vitest: blocks below `` FAIL  file > test`` --------------------------------------------------

#: The name of a project before what is of it: between bars, or in colour between spaces.
_VITEST_PROJECT = r"(?:\|[^|]*\| | \S[^>]{0,80}?  (?=\S))?"
_VITEST_TITLE = re.compile(rf" FAIL  {_VITEST_PROJECT}(\S.*)$")
_VITEST_RULE = re.compile(r"⎯")
_VITEST_SUITE = re.compile(r"^(\S+) \[ .* \]$")
_VITEST_COUNTS = re.compile(r" *(Test Files|Tests)  ")
_VITEST_LINE = re.compile(rf"( +)([✓×❯↓]) {_VITEST_PROJECT}(\S.*)$")
_VITEST_FILE = re.compile(rf"({_PATH}) +\(\d+ tests?\b|({_PATH}) > (.*)$")
_VITEST_AFTER = re.compile(
    r"(?: \[skipped\]| \d+(?:\.\d+)?m?s| \(retry x\d+\)| +\d+ MB heap used)+$"
)
_VITEST_SUITE_END = re.compile(r" \(\d+\)$")


def _vitest_failures(printout: Printout) -> Iterator[Failure]:
    """Titles that share an error share a block."""
    titles: list[str] = []
    for head, below in blocks(printout.lines, _VITEST_TITLE, _VITEST_RULE):
        titles = [*titles[-20:], head[1]]
        if not any(below):
            continue
        text = "".join(_words(below)[:1]).strip()
        for title in titles:
            name = _VITEST_SUITE.sub(r"\1", title)
            rule = "vitest-failure" if name == title else "vitest-error"
            yield Failure(name, name.partition(" > ")[0], text, below, rule, title)
        titles = []


def _vitest_outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """The tests that failed, and with the reporter ``verbose``, or of a single file, all."""
    failed: set[tuple[str, str]] = set()
    for vitest_failure in _vitest_failures(printout):
        path, _, test = vitest_failure.title.partition(" > ")
        failed.add((path, test.rpartition(" > ")[2]))
        text = message(vitest_failure.lines, _FRAME)
        yield TestOutcome(path, test.replace(" > ", "::"), FAILED, message=text)
    path, outline = "", TitleOutline()
    for line in printout.lines:
        if (match := _VITEST_LINE.match(line)) is None:
            continue
        depth, name = len(match[1]), _VITEST_AFTER.sub("", match[3])
        state = _STATES.get(match[2], SKIPPED)
        file = _VITEST_FILE.match(name) if depth == 1 else None
        if file and file[1]:
            path, outline = file[1], TitleOutline()
        elif file:
            yield TestOutcome(file[2], file[3].replace(" > ", "::"), state)
        elif _VITEST_SUITE_END.search(name) and state != FAILED:
            outline.enter(depth, _VITEST_SUITE_END.sub("", name))
        elif state == FAILED and (path, name.rpartition(" > ")[2]) in failed:
            continue  # named above in full, and here by its title alone
        elif path and depth > 1:
            yield TestOutcome(path, outline.name(depth, name.replace(" > ", "::")), state)


TABLE = {row.TOOL: row for row in (
    JavaScriptRunner("bun", _bun_failures, _bun_outcomes, lambda printout: _counted(
        printout, _BUN_COUNT, _BUN_NONE)),
    JavaScriptRunner("jest", _jest_failures, _jest_outcomes, lambda printout: _of_suites(
        printout, _JEST_COUNTS, "No tests found, exiting with code")),
    JavaScriptRunner("mocha", _mocha_failures, _mocha_outcomes, lambda printout: _counted(
        printout, _MOCHA_COUNT)),
    JavaScriptRunner("node", _node_failures, _node_outcomes, lambda printout: _counted(
        printout, _NODE_COUNT)),
    JavaScriptRunner("vitest", _vitest_failures, _vitest_outcomes, lambda printout: _of_suites(
        printout, _VITEST_COUNTS, "No test files found, exiting with code")),
)}  # fmt: skip
