"""go test, build and vet: messages of failed tests, panics, errors of the compiler."""

from __future__ import annotations

import re

from rlm_ci.validators.outcomes import FAILED, PASSED, SKIPPED, TestOutcome
from rlm_ci.validators.parsers._output import LONGEST_SAID, TestTally, finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.report.findings import Finding, Location
    from rlm_ci.validators.parsers._output import Printout

TOOL = "go"

_TEST = re.compile(r" *(?:=== (?:RUN|CONT|NAME) +|--- (FAIL|PASS|SKIP): )(\S+)")
_LOG = re.compile(r" +(\S+\.go):(\d+): (.*)$")
_FRAME = re.compile(r"\t(/[^\t]*\.go):(\d+)")
_BUILD = re.compile(r"(?:vet: )?([^\s:]+\.go):(\d+)(?::\d+)?: (.*)$")
_PACKAGE = re.compile(r"(FAIL|ok  )\t(\S+)")

_ENDED = {"FAIL": FAILED, "PASS": PASSED, "SKIP": SKIPPED}
_FAILED_PACKAGE = re.compile(r"FAIL\t(\S+) \[.* failed\]$")


def outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """The failing tests of each package, and with -v all; a package that cannot be built."""
    states: dict[str, str] = {}
    messages: dict[str, list[str]] = {}
    current = ""
    for line in printout.lines:
        if package := _PACKAGE.match(line):
            if _FAILED_PACKAGE.match(line):
                yield TestOutcome(package[2], "", FAILED)
            for name, state in states.items():
                text = "\n".join(messages.get(name, ()))[:LONGEST_SAID] if state == FAILED else ""
                yield TestOutcome(package[2], name.replace("/", "::"), state, message=text)
            states, messages, current = {}, {}, ""
        elif test := _TEST.match(line):
            current = test[2]
            if test[1]:
                states[current] = _ENDED[test[1]]
        elif current and line.strip():
            messages.setdefault(current, []).append(line.strip())


class _Tests:
    """What the tests of one package said; Go names files there without their folder."""

    def __init__(self) -> None:
        self.current = ""
        self.failed: dict[str, None] = {}
        self.logs: dict[str, list[tuple[str, str, str]]] = {}
        self.panic = ""
        self.location: Location | None = None

    def findings(self, printout: Printout, package: str) -> Iterator[Finding]:
        """The failures, once the package that they belong to is known."""
        parents = {name.rpartition("/")[0] for name in self.failed}
        for test in self.failed:
            logs = self.logs.get(test, [])
            for file, line, text in logs:
                location = _in_package(printout, package, file, line)
                yield finding(TOOL, "go-test-failure", f"{test}: {text}", location, subject=test)
            if not logs and test not in parents and not (self.panic and test == self.current):
                yield finding(TOOL, "go-test-failure", f"{test} of {package}", subject=test)
        if self.panic:
            test = self.current
            text = f"{test}: {self.panic}" if test else self.panic
            yield finding(TOOL, "go-test-failure", text, self.location, subject=test)


def parse(printout: Printout) -> Iterator[Finding]:
    """Failures package by package, and build errors at their lines."""
    tests = _Tests()
    for line in printout.lines:
        if package := _PACKAGE.match(line):
            if package[1] == "FAIL":
                yield from tests.findings(printout, package[2])
            tests = _Tests()
        elif test := _TEST.match(line):
            tests.current = test[2]
            if test[1] == "FAIL":
                tests.failed[test[2]] = None
        elif log := _LOG.match(line):
            tests.logs.setdefault(tests.current, []).append((log[1], log[2], log[3]))
        elif line.startswith(("panic: ", "fatal error: ")):
            tests.panic = tests.panic or line.removesuffix(" [recovered]")
        elif tests.panic and tests.location is None and (frame := _FRAME.match(line)):
            tests.location = printout.location_of(frame[1], frame[2])
        elif build := _BUILD.match(line):
            yield finding(
                TOOL, "go-build-error", build[3], printout.location_of(build[1], build[2])
            )
    yield from tests.findings(printout, "")


def _in_package(printout: Printout, package: str, file: str, line: str) -> Location | None:
    """The place of a file of ``package``, whose first parts are the module's name."""
    parts = [*package.split("/")[-20:], file] if package else [file]
    places = (printout.location_of("/".join(parts[skip:]), line) for skip in range(len(parts)))
    return next((location for location in places if location), None)


def names_all(printout: Printout) -> bool:
    """Whether tests that pass are named: with -v each one is when it begins."""
    has_results = any(_PACKAGE.match(line) and "[" not in line for line in printout.lines)
    return not has_results or any(line.startswith("=== RUN ") for line in printout.lines)


def tally(printout: Printout) -> TestTally | None:
    """Packages whose tests passed and failed; None where no package is named."""
    passed = failed = 0
    seen = False
    for line in printout.lines:
        if package := _PACKAGE.match(line):
            seen = True
            failed += package[1] == "FAIL"
            passed += package[1] == "ok  " and not line.endswith("[no tests to run]")
        elif line.startswith("?   \t") and line.endswith("[no test files]"):
            seen = True
    return TestTally(passed, failed) if seen else None
