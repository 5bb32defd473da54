"""cargo test and rustc: panics, tests that returned an error, and what the compiler says."""

from __future__ import annotations

import re

from rlm_ci.validators.outcomes import FAILED, PASSED, SKIPPED, TestOutcome
from rlm_ci.validators.parsers._output import (
    TestTally,
    blocks,
    cut,
    finding,
    message,
    numbers,
    summed,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.report.findings import Finding, Location
    from rlm_ci.validators.parsers._output import Printout

TOOL = "cargo"

_BLOCK = re.compile(r"---- (\S.*) stdout ----$")
_DOC = re.compile(r"(\S+\.rs) - .*\(line (\d+)\)$")
_ERROR = re.compile(r"error(?:\[(E\d+)\])?: (.*)$")
#: How cargo's last errors begin.
_AFTERWARDS = (
    "aborting due to", "could not compile", "doctest failed", "test failed", "build failed",
)  # fmt: skip
#: A line that cargo or rustc alone prints: many tools have lines that begin with ``error: ``.
_OWN = re.compile(
    r" +(?:Compiling|Checking|Finished|Running) |error(?:\[E\d+\]: |: could not compile )"
    r"|Caused by:$| *--> \S+\.rs:\d"
)
_TARGETS = re.compile(r"\d+ targets? failed")
_NOISE = ("note: run with ", "stderr:", "Test executable failed")
_RESULT = re.compile(r"test result: (?:ok|FAILED)\. (.*)$")

_TARGET = re.compile(r" +Running (?:(?:unittests )?(\S+\.rs) |unittests )?\(|   Doc-tests ")
_TEST = re.compile(
    r"test (\S+?(?: - .+?)??)(?: - should panic)? \.\.\. (ok|FAILED|ignored)(?:,.*)?$"
)
_ENDED = {"ok": PASSED, "FAILED": FAILED, "ignored": SKIPPED}
_SAID = re.compile(r"(?:---- (\S.*) stdout ----| +Running (?:unittests )?(\S+\.rs) \(.*)$")
_LISTED = re.compile(r"failures:$|test result: ")


def outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """All tests of all targets; messages of failing ones follow the list of their target."""
    place = ""
    for line in printout.lines:
        if target := _TARGET.match(line):
            place = _target_path(target[1])
        elif test := _TEST.match(line):
            yield _outcome(place, test[1], _ENDED[test[2]])
    place = ""
    for block, below in blocks(printout.lines, _SAID, _LISTED):
        if block[1] is None:
            place = _target_path(block[2])
        else:
            yield _outcome(place, block[1], FAILED, message(below))


def _target_path(target: str | None) -> str:
    """The first file of a target, or the folder of all its modules."""
    folder, _, name = (target or "").rpartition("/")
    return folder if name in ("lib.rs", "main.rs") else target or ""


def _outcome(binary: str, name: str, state: str, text: str = "") -> TestOutcome:
    path, parting, tail = name.partition(" - ")
    if not parting:
        return TestOutcome(binary, name, state, message=text)
    item, _, line = tail.rpartition("(line ")  # an example in documentation
    return TestOutcome(path, item.strip(), state, f"line {line.rstrip(')')}", text)


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding a failed test, and one an error of the compiler."""
    compiler = []
    is_output = False
    for line in printout.lines:
        is_output = bool(_BLOCK.match(line)) or (is_output and not _LISTED.match(line))
        if not is_output:
            compiler.append(line)
    is_cargo = any(map(_OWN.match, compiler))
    for error, below in blocks(compiler if is_cargo else (), _ERROR):
        if not error[2].startswith(_AFTERWARDS) and not _TARGETS.match(error[2]):
            arrows = (line.lstrip() for line in below if line.lstrip().startswith("--> "))
            location = printout.spot(next(arrows, "")[4:])
            yield finding("rustc", "rustc-error", error[2], location, subject=error[1])
    for test, below in blocks(printout.lines, _BLOCK, _LISTED):
        yield _failed(printout, test[1], below)


def _failed(printout: Printout, test: str, lines: list[str]) -> Finding:
    """Where a test panicked, and the first lines of why."""
    reasons: list[str] = []
    location: Location | None = None
    for line in lines:
        if " panicked at " in line and line.startswith("thread '"):
            panic = line.partition(" panicked at ")[2]
            why, comma, after = panic.rpartition(", ")  # until Rust 1.72: 'message', place
            is_old = comma and cut(after.rstrip(":"))
            reasons = [why] if is_old else []
            location = printout.spot((after if is_old else panic).rstrip(":"))
        elif line.strip() and len(reasons) < 3 and not line.startswith(_NOISE):
            reasons.append(line.strip())
    if doc := _DOC.match(test):  # it panics in a file that only its line number tells apart
        location = printout.location_of(doc[1], doc[2])
    return finding(
        "cargo", "cargo-test-failure", f"{test}: {'; '.join(reasons)}", location, subject=test
    )


def tally(printout: Printout) -> TestTally | None:
    """The sum over all targets; None when there is no result."""
    results = [result[1] for line in printout.lines if (result := _RESULT.match(line))]
    pairs = [pair for counts in results for pair in numbers(counts)]
    return summed(pairs, {"passed"}, {"failed"}) if results else None
