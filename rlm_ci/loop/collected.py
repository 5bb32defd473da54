"""How many tests a validator ran, read from the summary that its runner prints.

What a command prints can be forged by the code that it runs, so this is one guard among
others: the last verdict, with the old tests in a fresh folder, is the one that counts.
"""

from __future__ import annotations

import re

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_LIMIT = 4 << 20
_ANSI = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")
_COUNT = re.compile(r"(\d{1,9}) (failed|passed|skipped|deselected|xfailed|xpassed|todo|pending)\b")
_PYTEST = re.compile(
    r"^(?:=+ )?(?:\d{1,9} [a-z]+(?:, )?)+ in [0-9.]+s\b|no tests ran in ", re.MULTILINE
)
_UNITTEST = re.compile(r"^Ran (\d{1,9}) tests? in ", re.MULTILINE)
_UNITTEST_SKIPS = re.compile(r"^(?:OK|FAILED) \([^)\n]{0,200}?skipped=(\d{1,9})", re.MULTILINE)
_JEST = re.compile(r"^Tests: {1,12}[^\n]{1,200}? total$", re.MULTILINE)
_VITEST = re.compile(r"^ {1,8}Tests {1,8}(?:no tests|[^\n]{1,200}?\((\d{1,9})\))$", re.MULTILINE)
_MOCHA = re.compile(r"^ {1,4}(\d{1,9}) (passing|failing|pending)\b", re.MULTILINE)
_NODE = re.compile(r"^(?:#|ℹ) (tests|skipped|todo) (\d{1,9})$", re.MULTILINE)
_CARGO = re.compile(
    r"^test result: \w{1,10}\. (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored;"
    r" \d{1,9} measured; (\d{1,9}) filtered out",
    re.MULTILINE,
)
_GO_TEST = re.compile(r"^ {0,64}--- (PASS|FAIL|SKIP): ", re.MULTILINE)
_GO_PACKAGE = re.compile(r"^(?:ok|FAIL)[ \t]{1,8}\S{1,300}[ \t]", re.MULTILINE)


class Collected(Value):
    """``runner`` printed that it knew ``total`` tests, ``skipped`` of which it did not judge.

    Skipped are those left out for any reason: skipped, expected to fail, deselected.
    """

    runner: str
    total: int
    skipped: int = 0


def parse(output: str) -> Collected | None:
    """The counts in the output of a validator; None where no runner tells any."""
    text = _ANSI.sub("", output[-_LIMIT:]).replace("\r\n", "\n")
    found = (read(text) for read in _READERS)
    return next((one for one in found if one is not None), None)


def _tally(line: str) -> dict[str, int]:
    return {what: int(number) for number, what in _COUNT.findall(line)}


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    line = None
    for match in pattern.finditer(text):
        end = text.find("\n", match.start())
        line = text[match.start() : end if end >= 0 else None]
    return line


def _pytest(text: str) -> Collected | None:
    line = _last(_PYTEST, text)
    if line is None:
        return None
    # An error may come on top of a test that passed: it does not count as one more.
    counts = _tally(line)
    left_out = sum(counts.get(what, 0) for what in ("skipped", "deselected", "xfailed"))
    return Collected("pytest", sum(counts.values()), left_out)


def _unittest(text: str) -> Collected | None:
    runs = _UNITTEST.findall(text)
    if not runs:
        return None
    return Collected("unittest", sum(map(int, runs)), sum(map(int, _UNITTEST_SKIPS.findall(text))))


def _jest(text: str) -> Collected | None:
    line = _last(_JEST, text)
    if line is None:
        return None
    counts = _tally(line)
    left_out = counts.get("skipped", 0) + counts.get("todo", 0) + counts.get("pending", 0)
    return Collected("jest", sum(counts.values()), left_out)


def _vitest(text: str) -> Collected | None:
    line = _last(_VITEST, text)
    if line is None:
        return None
    counts = _tally(line)
    return Collected(
        "vitest", sum(counts.values()), counts.get("skipped", 0) + counts.get("todo", 0)
    )


def _mocha(text: str) -> Collected | None:
    counts = {what: int(number) for number, what in _MOCHA.findall(text)}
    return Collected("mocha", sum(counts.values()), counts.get("pending", 0)) if counts else None


def _node(text: str) -> Collected | None:
    counts = {what: int(number) for what, number in _NODE.findall(text)}
    if "tests" not in counts:
        return None
    return Collected("node", counts["tests"], counts.get("skipped", 0) + counts.get("todo", 0))


def _cargo(text: str) -> Collected | None:
    rows = [tuple(map(int, row)) for row in _CARGO.findall(text)]
    if not rows:
        return None
    return Collected("cargo", sum(map(sum, rows)), sum(row[2] + row[3] for row in rows))


def _go(text: str) -> Collected | None:
    tests = _GO_TEST.findall(text)
    if "PASS" in tests or "SKIP" in tests:  # -v: every test is told, and not only what failed
        return Collected("go -v", len(tests), tests.count("SKIP"))
    packages = _GO_PACKAGE.findall(text)
    return Collected("go", len(packages)) if packages else None


_READERS: tuple[Callable[[str], Collected | None], ...] = (
    _pytest, _unittest, _jest, _vitest, _cargo, _go, _node, _mocha,
)  # fmt: skip
