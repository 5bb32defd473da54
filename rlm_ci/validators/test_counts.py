"""How many tests a validator ran, read from the summary that its runner prints.

What a command prints can be forged by the code that it runs, so this is one guard among
others: the last verdict, with the old tests in a fresh folder, is the one that counts.

These are neither the named outcomes nor the tallies of the parsers. Few runners name the tests
that pass, unless asked to. A tally answers whether exit code 0 can be believed: it counts an
error as a failure and an expected failure as passed, and is none where a runner died. A count
answers how many tests were judged: it leaves both out, and says that the runner ended early.
"""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.system.transcript import plain
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_LIMIT = 4 << 20
_COUNT = re.compile(
    r"(\d{1,9}) (?:subtests )?"
    r"(failed|passed|skipped|deselected|xfailed|xpassed|todo|pending)\b"
)
_PYTEST = re.compile(
    r"^(?:=+ )?(?:(?:\d{1,9} [a-z]+(?: [a-z]+)?(?:, )?)+|no tests ran) in [0-9.]+s\b.*$",
    re.MULTILINE,
)
_PYTEST_START = re.compile(r"^=+ test session starts(?: \([^)\n]*\))? =+$", re.MULTILINE)
#: Below it stands what failing tests printed, whole test runs of their own included.
_PYTEST_FAILURES = re.compile(r"^=+ (?:FAILURES|ERRORS) =+$", re.MULTILINE)
_PYTEST_EARLY = re.compile(r"^!{3,} .+ !{3,}$", re.MULTILINE)
#: Ended by a file that could not be read. With -q, pytest does not tell what it found besides.
_PYTEST_FOUND = re.compile(
    r"^(?:collecting \.\.\. )?collected (\d{1,9}) items? / \d{1,9} errors?\b", re.MULTILINE
)
_UNITTEST = re.compile(r"^Ran (\d{1,9}) tests? in ", re.MULTILINE)
_UNITTEST_END = re.compile(r"^(?:OK|FAILED) \(([^)\n]{0,200})\)", re.MULTILINE)
_UNITTEST_SKIPS = re.compile(r"\b(?:skipped|expected failures)=(\d{1,9})")
_JEST = re.compile(r"^Tests: {1,12}[^\n]{1,200}? total$", re.MULTILINE)
_VITEST = re.compile(r"^ {1,8}Tests {1,8}(?:no tests|[^\n]{1,200}?\(\d{1,9}\))$", re.MULTILINE)
_MOCHA = re.compile(r"^ {1,4}(\d{1,9}) (passing|failing|pending)\b", re.MULTILINE)
_NODE = re.compile(r"^(?:#|ℹ) (tests|skipped|todo) {1,4}(\d{1,9})$", re.MULTILINE)
_TAP = re.compile(r"^(?:not )?ok \d{1,9}\b(.*)$", re.MULTILINE)
_TAP_WAIVED = re.compile(r"# *(?:TODO|SKIP)\b", re.IGNORECASE)
_CARGO_START = re.compile(r"^running \d{1,9} tests?$", re.MULTILINE)
_CARGO = re.compile(
    r"^test result: \w{1,10}\. (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored;"
    r" \d{1,9} measured; (\d{1,9}) filtered out",
    re.MULTILINE,
)
_GO_TEST = re.compile(r"^ {0,64}--- (PASS|FAIL|SKIP): ", re.MULTILINE)
_GO_RUN = re.compile(r"^(?:=== RUN  | {0,64}--- (?:PASS|SKIP): )", re.MULTILINE)
_GO_PACKAGE = re.compile(
    r"^(?:ok  |FAIL)\t\S{1,300}[\t ](?:[\d.]{1,12}s|\(cached\)|\[)(.*)$", re.MULTILINE
)


class CollectedTests(Value):
    """``runner`` printed that it knew ``total`` tests, ``skipped`` of which it did not judge.

    Skipped are those left out for any reason: skipped, expected to fail, deselected. ``early``
    says that the runner was ended before it was done.
    """

    runner: str
    total: int
    skipped: int = 0
    early: bool = False

    @property
    def judged(self) -> int:
        return self.total - self.skipped


def parse(output: str) -> dict[str, CollectedTests]:
    """What each runner tells in the output of a validator, all its runs summed, by its name."""
    text = plain(output[-_LIMIT:]).replace("\r\n", "\n")
    failures, ends = _PYTEST_FAILURES.search(text), list(_PYTEST.finditer(text))
    if failures and ends and failures.end() < ends[-1].start():
        text = text[: failures.start()] + text[ends[-1].start() :]
    found = (read(text) for read in _READERS)
    return {one.runner: one for one in found if one is not None}


def _tally(lines: Iterable[str]) -> Counter[str]:
    """How often each word is counted, summed over the lines."""
    counts: Counter[str] = Counter()
    for line in lines:
        for number, what in _COUNT.findall(line):
            counts[what] += int(number)
    return counts


def _pytest(text: str) -> CollectedTests | None:
    lines = [match[0] for match in _PYTEST.finditer(text)]
    begun = len(_PYTEST_START.findall(text))
    if not lines and not begun:
        return None
    # An error may come on top of a test that passed: it does not count as one more.
    counts = _tally(lines)
    left_out = sum(counts[what] for what in ("skipped", "deselected", "xfailed"))
    total = counts.total()
    unjudged = max(0, sum(map(int, _PYTEST_FOUND.findall(text))) - total)
    early = begun > len(lines) or bool(_PYTEST_EARLY.search(text) or unjudged)
    return CollectedTests("pytest", total + unjudged, left_out + unjudged, early)


def _unittest(text: str) -> CollectedTests | None:
    runs = _UNITTEST.findall(text)
    if not runs:
        return None
    skips = (
        int(one) for end in _UNITTEST_END.findall(text) for one in _UNITTEST_SKIPS.findall(end)
    )
    return CollectedTests("unittest", sum(map(int, runs)), sum(skips))


def _javascript(runner: str, lines: list[str]) -> CollectedTests | None:
    if not lines:
        return None
    counts = _tally(lines)
    left_out = sum(counts[what] for what in ("skipped", "todo", "pending"))
    return CollectedTests(runner, counts.total(), left_out)


def _jest(text: str) -> CollectedTests | None:
    return _javascript("jest", _JEST.findall(text))


def _vitest(text: str) -> CollectedTests | None:
    return _javascript("vitest", _VITEST.findall(text))


def _mocha(text: str) -> CollectedTests | None:
    counts = _summed((what, number) for number, what in _MOCHA.findall(text))
    return CollectedTests("mocha", counts.total(), counts["pending"]) if counts else None


def _node(text: str) -> CollectedTests | None:
    counts = _summed(_NODE.findall(text))
    if "tests" not in counts:
        return None
    return CollectedTests("node", counts["tests"], counts["skipped"] + counts["todo"])


def _tap(text: str) -> CollectedTests | None:
    """The points at the left margin; node tells of them, too, and of what is in them besides."""
    points = _TAP.findall(text)
    waived = sum(1 for point in points if _TAP_WAIVED.search(point))
    return CollectedTests("TAP", len(points), waived) if points else None


def _cargo(text: str) -> CollectedTests | None:
    rows = [tuple(map(int, row)) for row in _CARGO.findall(text)]
    begun = len(_CARGO_START.findall(text))
    if not rows and not begun:
        return None
    left_out = sum(row[2] + row[3] for row in rows)
    return CollectedTests("cargo", sum(map(sum, rows)), left_out, early=begun > len(rows))


def _go(text: str) -> CollectedTests | None:
    packages = _GO_PACKAGE.findall(text)
    idle = sum(1 for rest in packages if rest.endswith("no tests to run]"))
    return CollectedTests("go", len(packages), idle) if packages else None


def _go_verbose(text: str) -> CollectedTests | None:
    """With -v every test is told, and not only what failed."""
    if not _GO_RUN.search(text):
        return None
    tests = _GO_TEST.findall(text)
    return CollectedTests("go -v", len(tests), tests.count("SKIP"))


def _summed(pairs: Iterable[tuple[str, str]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for what, number in pairs:
        counts[what] += int(number)
    return counts


_READERS: tuple[Callable[[str], CollectedTests | None], ...] = (
    _pytest, _unittest, _jest, _vitest, _mocha, _node, _tap, _cargo, _go, _go_verbose,
)  # fmt: skip
