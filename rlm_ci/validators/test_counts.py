"""How many tests a validator ran, from the summary that its runner prints.

Code under test can forge this output, so it is one guard among others: the last verdict, with the
old tests in a fresh folder, decides.

Unlike named outcomes, counts need no option of the runner. A parser's tally shows whether exit code
0 is right: it counts an error as a failure and an expected failure as passed. A count is of the
tests that were judged: it leaves both out, and shows that a runner ended early.
"""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.system.transcript import plain
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_LIMIT = 4 << 20
_COUNT = re.compile(
    r"(\d{1,9}) (?:subtests )?"
    r"(failed|passed|skipped|deselected|xfailed|xpassed|todo|pending|passing|failing|ignored|filtered"
    r"|pass|fail|skip)\b"
)
#: What a runner counts, and did not judge.
_LEFT_OUT = (
    "skipped", "skip", "deselected", "xfailed", "todo", "pending", "ignored", "filtered",
)  # fmt: skip
_PYTEST = re.compile(
    r"^(?:=+ )?(?:(?:\d{1,9} [a-z]+(?: [a-z]+)?(?:, )?)+|no tests ran) in [0-9.]+s\b.*$",
    re.MULTILINE,
)
_PYTEST_START = re.compile(r"^=+ test session starts(?: \([^)\n]*\))? =+$", re.MULTILINE)
#: The output of failing tests follows, which may contain whole test runs.
_PYTEST_FAILURES = re.compile(r"^=+ (?:FAILURES|ERRORS) =+$", re.MULTILINE)
_PYTEST_EARLY = re.compile(r"^!{3,} .+ !{3,}$", re.MULTILINE)
#: Collection ended by a broken file; with -q, pytest does not print this.
_PYTEST_FOUND = re.compile(
    r"^(?:collecting \.\.\. )?collected (\d{1,9}) items? / \d{1,9} errors?\b", re.MULTILINE
)
_UNITTEST = re.compile(r"^Ran (\d{1,9}) tests? in ", re.MULTILINE)
_UNITTEST_END = re.compile(r"^(?:OK|FAILED) \(([^)\n]{0,200})\)", re.MULTILINE)
_UNITTEST_SKIPS = re.compile(r"\b(?:skipped|expected failures)=(\d{1,9})")
#: Runners whose last lines have all the counts.
_SUMMARIES = {
    "bun": re.compile(r"^ \d{1,9} (?:pass|fail|skip|todo)$", re.MULTILINE),
    "jest": re.compile(r"^Tests: {1,12}[^\n]{1,200}? total$", re.MULTILINE),
    "vitest": re.compile(r"^ {1,8}Tests {1,8}(?:no tests|[^\n]{1,200}?\(\d{1,9}\))$", re.MULTILINE),
    "mocha": re.compile(r"^ {1,4}\d{1,9} (?:passing|failing|pending)\b", re.MULTILINE),
    "cargo": re.compile(
        r"^test result: \w{1,10}\.(?: \d{1,9} (?:passed|failed|ignored|measured);){4}"
        r" \d{1,9} filtered out",
        re.MULTILINE,
    ),
}
_PHPUNIT = re.compile(
    r"^(?:OK \((?P<all>\d{1,9}) tests?, |Tests: (?P<total>\d{1,9}), Assertions: (?P<rest>.*)\.$)",
    re.MULTILINE,
)
_PHPUNIT_SKIPS = re.compile(r", (?:Skipped|Incomplete): (\d{1,9})")
_NODE = re.compile(r"^(?:#|ℹ) (tests|skipped|todo) {1,4}(\d{1,9})$", re.MULTILINE)
_CARGO_START = re.compile(r"^running \d{1,9} tests?$", re.MULTILINE)
#: Without -v, a run of Go names only failures.
_GO_RUN = re.compile(r"^(?:=== RUN  | {0,64}--- (?:PASS|SKIP): )", re.MULTILINE)
#: Runners that print a line for each test or package, and what it says of one that did not run.
_LINES = {
    "TAP": (r"^(?:not )?ok \d{1,9}\b(.*)$", r"(?i)# *(?:TODO|SKIP)\b"),
    "go": (
        r"^(?:ok  |FAIL)\t\S{1,300}[\t ](?:[\d.]{1,12}s|\(cached\)|\[)(.*)$",
        r"no tests to run\]$",
    ),
    "go -v": (r"^ {0,64}--- (PASS|FAIL|SKIP): ", "SKIP"),
}


class CollectedTests(Value):
    """``runner`` knew ``total`` tests; ``skipped`` of them were not judged, for any reason.

    ``early`` if the runner ended before it was done.
    """

    runner: str
    total: int
    skipped: int = 0
    early: bool = False

    @property
    def judged(self) -> int:
        return self.total - self.skipped


def parse(output: str) -> dict[str, CollectedTests]:
    """The counts by runner, summed over its runs."""
    text = plain(output[-_LIMIT:]).replace("\r\n", "\n")
    failures, ends = _PYTEST_FAILURES.search(text), list(_PYTEST.finditer(text))
    if failures and ends and failures.end() < ends[-1].start():
        text = text[: failures.start()] + text[ends[-1].start() :]
    tests = [read(text) for read in (_pytest, _unittest, _phpunit, _node)]
    tests += [_summary(runner, text) for runner in _SUMMARIES]
    tests += [_listed(runner, text) for runner in _LINES]
    return {
        collected_tests.runner: collected_tests
        for collected_tests in tests
        if collected_tests is not None
    }


def _counted(runner: str, lines: Iterable[str]) -> CollectedTests:
    counts: Counter[str] = Counter()
    for line in lines:
        for number, what in _COUNT.findall(line):
            counts[what] += int(number)
    return CollectedTests(runner, counts.total(), sum(counts[what] for what in _LEFT_OUT))


def _summary(runner: str, text: str) -> CollectedTests | None:
    lines = _SUMMARIES[runner].findall(text)
    begun = len(_CARGO_START.findall(text)) if runner == "cargo" else 0
    if not lines and not begun:
        return None
    return _counted(runner, lines).replace(early=begun > len(lines))


def _pytest(text: str) -> CollectedTests | None:
    lines = [match[0] for match in _PYTEST.finditer(text)]
    begun = len(_PYTEST_START.findall(text))
    if not lines and not begun:
        return None
    # An error may come on top of a test that passed: it does not count as one more.
    counted = _counted("pytest", lines)
    unjudged = max(0, sum(map(int, _PYTEST_FOUND.findall(text))) - counted.total)
    early = begun > len(lines) or bool(_PYTEST_EARLY.search(text) or unjudged)
    total, skipped = counted.total + unjudged, counted.skipped + unjudged
    return CollectedTests("pytest", total, skipped, early)


def _unittest(text: str) -> CollectedTests | None:
    runs = _UNITTEST.findall(text)
    if not runs:
        return None
    ends = " ".join(_UNITTEST_END.findall(text))
    skips = map(int, _UNITTEST_SKIPS.findall(ends))
    return CollectedTests("unittest", sum(map(int, runs)), sum(skips))


def _phpunit(text: str) -> CollectedTests | None:
    runs = list(_PHPUNIT.finditer(text))
    if not runs:
        return None
    skips = (int(number) for run in runs for number in _PHPUNIT_SKIPS.findall(run["rest"] or ""))
    return CollectedTests(
        "phpunit", sum(int(run["all"] or run["total"]) for run in runs), sum(skips)
    )


def _node(text: str) -> CollectedTests | None:
    counts: Counter[str] = Counter()
    for what, number in _NODE.findall(text):
        counts[what] += int(number)
    if "tests" not in counts:
        return None
    return CollectedTests("node", counts["tests"], counts["skipped"] + counts["todo"])


def _listed(runner: str, text: str) -> CollectedTests | None:
    if runner == "go -v" and not _GO_RUN.search(text):
        return None
    line, not_run = _LINES[runner]
    rests = re.findall(line, text, re.MULTILINE)
    skipped = sum(1 for rest in rests if re.search(not_run, rest))
    return CollectedTests(runner, len(rests), skipped) if rests else None
