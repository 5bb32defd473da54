"""The outcome of each test of a validator: from a plugin inside of pytest, else from its output.

For a run: make an empty folder, add ``environment(folder, root, base)`` to the job's variables and
``mounts(folder)`` to its mounts, and keep ``collect(folder)`` with the record of the run.
``read(printed, lines, root)`` turns these lines and the output into outcomes. If
``refused(output)``, the plugin could not be imported (a Makefile that sets PYTHONPATH, ``python
-I``) and nothing ran: run again with ``plugin=False``, and pytest prints each test in its summary.

How many tests a validator ran comes from the summary that its runner prints. Code under test can
forge this output, so it is one guard among others: the last verdict, with the old tests in a fresh
folder, decides.

Unlike named outcomes, counts need no option of the runner. A parser's tally shows whether exit code
0 is right: it counts an error as a failure and an expected failure as passed. A count is of the
tests that were judged: it leaves both out, and shows that a runner ended early.
"""

from __future__ import annotations

import json
import os
import posixpath
import re
from collections import Counter

from rlm_ci.sandbox import Mount
from rlm_ci.system import files
from rlm_ci.system.transcript import plain
from rlm_ci.text.printable import printable
from rlm_ci.validators import outcomes, parsers
from rlm_ci.validators.outcomes import TestOutcome, TestOutcomes
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


#: The folder that the plugin lies in, alone.
PLUGIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pytest_plugin")
_NAME = "rlm_ci_outcomes"
_VARIABLE = "RLM_CI_OUTCOMES"
#: Bounds of what is read back: files, bytes of one, lines of all, characters of one.
_FILES = 256
_SIZE = 32 << 20
_LINES = 60_000
_LINE = 20_000
_TEXT = 4_000
#: Texts in a row of each kind.
_LENGTHS = {"begun": 1, "test": 6, "held": 2, "conftest": 2, "full": 2}
#: It is not on the path, or this Python is too old to read it.
_REFUSED = re.compile(
    rf"^(?:E +|ERROR: )?(?:[\w.]*ImportError: )?Error importing plugin \"{_NAME}\": "
    rf"|^ *File \"[^\"\n]{{1,4096}}/{_NAME}\.py\", line \d",
    re.MULTILINE,
)


def environment(
    folder: str,
    root: str,
    base: Mapping[str, str],
    *,
    plugin: bool = True,
    short: bool = False,
    hide: bool = False,
) -> dict[str, str]:
    """Variables of a job that reports its outcomes, over ``base``, its own.

    ``folder`` is where the plugin writes, ``root`` the repository, both as the job sees them.
    ``short`` keeps tracebacks to a line, has hypothesis take the first example of a failure, and
    runs every test, despite ``-x`` or ``--lf``; ``hide`` removes the variables by which code can
    see that pytest runs it.
    """
    if not plugin:
        more = ["-rap", *(["--tb=line", "--maxfail=0"] if short else [])]
        return {"PYTEST_ADDOPTS": " ".join([base.get("PYTEST_ADDOPTS", ""), *more]).strip()}
    own = {"PYTHONPATH": (PLUGIN, os.pathsep), "PYTEST_PLUGINS": (_NAME, ",")}
    before = {name: base.get(name) for name in own}
    settings = {"folder": folder, "root": root, "short": short, "hide": hide, "before": before}
    variables = {_VARIABLE: json.dumps(settings)}
    for name, (value, parting) in own.items():
        old = before[name]
        variables[name] = value if old is None else f"{value}{parting}{old}"
    return variables


def mounts(folder: str) -> tuple[Mount, ...]:
    """What the job must see for it, each in its own place."""
    return Mount(PLUGIN, PLUGIN), Mount(folder, folder, writable=True)


def collect(folder: str) -> list[str]:
    """The lines that the plugin wrote into ``folder``. Never raises."""
    lines: dict[str, None] = {}
    for name in files.names_in(folder)[:_FILES]:
        try:
            data = files.read(os.path.join(folder, name), _SIZE)
        except files.UnreadableError:
            continue
        for line in data.decode("ascii", "replace").split("\n"):
            if line and len(line) <= _LINE and len(lines) < _LINES:
                lines[line] = None
    return list(lines)


def refused(output: str) -> bool:
    """Whether pytest says that it could not load the plugin."""
    return _REFUSED.search(plain(output)) is not None


def read(printed: Iterable[str], lines: Iterable[str], root: str) -> TestOutcomes:
    """The outcomes: from the plugin's ``lines``, and from what other runners printed.

    ``printed`` are the lines of a transcript, ``root`` is the repository as the job saw it.
    """
    rows = [row for line in lines if (row := _row(line))]
    test_outcomes = outcomes.merged(
        _outcome(*row[1:]) for row in rows if row[0] == "test" and row[4] in outcomes.STATES
    )
    if not rows:
        return parsers.outcomes(printed, root)
    others = parsers.outcomes(printed, root, without=("pytest",) if test_outcomes else ())
    held = {row[1] for row in rows if row[0] == "held"}
    conftests = {row[1] for row in rows if row[0] == "conftest"}
    is_full = any(row[0] == "full" and row[1] == "test" for row in rows)
    return TestOutcomes(
        tests=(*test_outcomes, *others.tests),
        complete=not is_full and others.complete,
        test_files=frozenset(filter(_is_path, held | conftests)),
    )


def _row(line: str) -> list[str]:
    """One line of the plugin; empty for anything else."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return []
    if not isinstance(row, list) or not row or not all(isinstance(field, str) for field in row):
        return []
    if len(row) != _LENGTHS.get(row[0]):
        return []
    return [field[:_TEXT].encode("utf-8", "replace").decode() for field in row]


def _outcome(path: str, name: str, case: str, state: str, message: str) -> TestOutcome:
    message = "\n".join(map(printable, message.split("\n")))
    return TestOutcome(path if _is_path(path) else "", name, state, case, message)


def _is_path(path: str) -> bool:
    """Whether a text is a normal relative path."""
    parts = path.split("/")
    return "\0" not in path and posixpath.normpath(path) == path and parts[0] not in ("", ".", "..")


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
_SUMMARY_LINES = {
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
    tests += [_listed(runner, text) for runner in _SUMMARY_LINES]
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
    line, not_run = _SUMMARY_LINES[runner]
    ends = re.findall(line, text, re.MULTILINE)
    skipped = sum(1 for end in ends if re.search(not_run, end))
    return CollectedTests(runner, len(ends), skipped) if ends else None
