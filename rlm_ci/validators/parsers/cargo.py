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
#: What cargo says after all has been said.
_AFTERWARDS = (
    "aborting due to", "could not compile", "doctest failed", "test failed", "build failed",
)  # fmt: skip
_TARGETS = re.compile(r"\d+ targets? failed")
_RESULT = re.compile(r"test result: (?:ok|FAILED)\. (.*)$")

_TARGET = re.compile(r" +Running (?:(?:unittests )?(\S+\.rs) |unittests )?\(|   Doc-tests ")
_TEST = re.compile(
    r"test (\S+?(?: - .+?)??)(?: - should panic)? \.\.\. (ok|FAILED|ignored)(?:,.*)?$"
)
_ENDED = {"ok": PASSED, "FAILED": FAILED, "ignored": SKIPPED}
_SAID = re.compile(r"(?:---- (\S.*) stdout ----| +Running (?:unittests )?(\S+\.rs) \(.*)$")
_LISTED = re.compile(r"failures:$|test result: ")


def outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """All tests of all targets; what a failing one said stands below the list of its target."""
    place = ""
    for line in printout.lines:
        if target := _TARGET.match(line):
            place = _place(target[1])
        elif test := _TEST.match(line):
            yield _outcome(place, test[1], _ENDED[test[2]])
    place = ""
    for block, below in blocks(printout.lines, _SAID, _LISTED):
        if block[1] is None:
            place = _place(block[2])
        else:
            yield _outcome(place, block[1], FAILED, message(below))


def _place(target: str | None) -> str:
    """The file that a target begins with, or the folder that all its modules lie in."""
    folder, _, name = (target or "").rpartition("/")
    return folder if name in ("lib.rs", "main.rs") else target or ""


def _outcome(place: str, name: str, state: str, said: str = "") -> TestOutcome:
    path, parting, rest = name.partition(" - ")
    if not parting:
        return TestOutcome(place, name, state, message=said)
    item, _, line = rest.rpartition("(line ")  # an example in documentation
    return TestOutcome(path, item.strip(), state, f"line {line.rstrip(')')}", said)


def parse(printout: Printout) -> Iterator[Finding]:
    """One finding a failed test, and one an error of the compiler."""
    test = ""
    said: list[str] = []
    place: Location | None = None
    code = error = ""
    for line in (*printout.lines, "failures:"):
        block = _BLOCK.match(line)
        if test and (block or line == "failures:" or line.startswith("test result: ")):
            yield _failed(printout, test, said, place)
            test = ""
        if block:
            test, said, place = block[1], [], None
        elif test:
            said, place = _take(printout, line, said, place)
        elif error and line.lstrip().startswith("--> "):
            where = printout.spot(line.lstrip()[4:])
            yield finding("rustc", "rustc-error", error, where, subject=code or None)
            error = ""
        elif told := _ERROR.match(line):
            is_last = told[2].startswith(_AFTERWARDS) or _TARGETS.match(told[2])
            if error:
                yield finding("rustc", "rustc-error", error, subject=code or None)
            code, error = (told[1] or "", told[2]) if not is_last else ("", "")
    if error:
        yield finding("rustc", "rustc-error", error, subject=code or None)


def _take(
    printout: Printout, line: str, said: list[str], place: Location | None
) -> tuple[list[str], Location | None]:
    """What a line of a test's output adds: where it panicked, and the first lines of why."""
    if " panicked at " in line and line.startswith("thread '"):
        told = line.partition(" panicked at ")[2]
        before, comma, after = told.rpartition(", ")  # until Rust 1.72: 'message', place
        where, why = (after, [before]) if comma and cut(after.rstrip(":")) else (told, [])
        return why, printout.spot(where.rstrip(":"))
    is_noise = line.startswith(("note: run with ", "stderr:", "Test executable failed"))
    if line.strip() and not is_noise and len(said) < 3:
        return [*said, line.strip()], place
    return said, place


def _failed(printout: Printout, test: str, said: list[str], place: Location | None) -> Finding:
    if doc := _DOC.match(test):  # it panics in a file that only its line number tells apart
        place = printout.place(doc[1], doc[2])
    return finding("cargo", "cargo-test-failure", f"{test}: {'; '.join(said)}", place, subject=test)


def tally(printout: Printout) -> TestTally | None:
    """The sum over all targets; None when there is no result."""
    found = [result[1] for line in printout.lines if (result := _RESULT.match(line))]
    pairs = [pair for told in found for pair in numbers(told)]
    return summed(pairs, {"passed"}, {"failed"}) if found else None
