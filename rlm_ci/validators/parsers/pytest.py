"""pytest: its short summary, joined with the tracebacks; collection errors; the last line."""

from __future__ import annotations

import re

from rlm_ci.validators.outcomes import FAILED, PASSED, SKIPPED, TestOutcome
from rlm_ci.validators.parsers._output import TestTally, finding, numbers, summed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.report.findings import Finding, Location
    from rlm_ci.validators.parsers._output import Printout

TOOL = "pytest"

_RULE = re.compile(r"={3,} (FAILURES|ERRORS|[a-zA-Z][^=]*) ={3,}$")
_TITLE = re.compile(r"_{3,} ([^_].*[^_ ]|[^_ ]) _{3,}$|_{1,2} (\S.*\S) _{1,2}$")
_ROW = re.compile(r"(FAILED|ERROR) (\S.*)$")
_FRAME = re.compile(r"([^\s:][^:]*):(\d+):(?: (.*))?$")
_SYNTAX = re.compile(r'E +File "([^"]+)", line (\d+)')
_COUNT = r"\d+ (?:subtests )?[a-z]+"
_END = re.compile(rf"(?:=+ )?({_COUNT}(?:, {_COUNT})*|no tests ran) in \d+(?:\.\d+)?s\b")
_CONFTEST = re.compile(r"ImportError while loading conftest '(.*)'\.$")
_FAILURES = re.compile(r"=+ (?:FAILURES|ERRORS|PASSES) =+$")
_STATE = r"(?P<state>PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)"
_NAMED = re.compile(rf"(?:\[gw\d+\] \[ *\d+%\] )?{_STATE} (?P<node>\S+\.\w+::.*)$")
_VERBOSE = re.compile(rf"(?P<node>\S+\.\w+::.*?) {_STATE}(?: .*)?$")
#: An expected failure decides nothing.
_STATES = {
    "PASSED": PASSED, "FAILED": FAILED, "ERROR": FAILED, "SKIPPED": SKIPPED, "XFAIL": SKIPPED,
    "XPASS": SKIPPED,
}  # fmt: skip
#: What ``tally`` counts as passed.
COUNTED = (PASSED, SKIPPED)
_SAID = 40
_CONDITIONS = {"FAILED": "pytest-failure", "ERROR": "pytest-error"}
#: Tracebacks of one name that are compared with a row of the summary.
_SAME = 50
_DONE = {"passed", "xfailed", "xpassed"}
_BAD = {"failed", "error", "errors"}


class _Block:
    """One traceback: its title, the places in it, the first line of its error."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.places: list[Location] = []
        self.error = ""
        self.error_lines: list[str] = []
        self.used = False

    @property
    def is_error(self) -> bool:
        """Whether a fixture or the collection failed, not the test."""
        return self.title.startswith("ERROR ")

    def answers(self, node: str) -> bool:
        """Whether this is the traceback of a row of the summary."""
        path, _, test = node.partition("::")
        if not test:
            return self.title == f"ERROR collecting {path}"
        name = test.replace("::", ".")
        title = self.title.partition(" of ")[2] if self.is_error else self.title
        return not self.used and title == name

    @property
    def ends(self) -> tuple[Location, ...]:
        """Where it broke, and what called it."""
        return (self.places[-1], self.places[0]) if self.places else ()

    def passes(self, path: str) -> bool:
        """Whether one of its frames is in that file: tests may have the same name."""
        return any(location.path == path for location in self.places)


class _Session:
    """Tracebacks, places without one (``--tb=line``), and rows of the summary."""

    def __init__(self, printout: Printout) -> None:
        self.blocks: list[_Block] = []
        self.loose: list[tuple[Location | None, str]] = []
        self.rows: list[tuple[str, str, str]] = []
        section = ""
        block: _Block | None = None
        for line in printout.lines:
            first = line[:1]
            if first == "=" and (rule := _RULE.match(line)):
                section, block = rule[1].split()[0], None
            elif started := _not_started(line):
                block = started
                self.blocks.append(block)
            elif first == "_" and section in ("FAILURES", "ERRORS"):
                if not line.startswith("_ _ _") and (title := _TITLE.match(line)):
                    block = _Block(title[1] or title[2])
                    self.blocks.append(block)
            elif first in ("F", "E") and section == "short" and (row := _ROW.match(line)):
                self.rows.append((_CONDITIONS[row[1]], *_node(row[2])))
            elif block is not None:
                _take(printout, block, line)
            elif section == "FAILURES" and (match := _FRAME.match(line)):
                self.loose.append((printout.location_of(match[1], match[2]), match[3] or ""))

    def spots(self) -> dict[str, tuple[Location | None, str]]:
        """The places without a traceback, by test: the summary has the same order."""
        failed = [node for condition, node, _ in self.rows if condition == "pytest-failure"]
        if len(failed) != len(self.loose):
            return {}
        return dict(zip(failed, self.loose, strict=True))

    def joined(self) -> Iterator[tuple[str, str, str, _Block | None]]:
        """Each row of the summary with its traceback, if there is one."""
        by_name: dict[str, list[_Block]] = {}
        for block in self.blocks:
            by_name.setdefault(block.title.rpartition(" ")[2], []).append(block)
        for condition, node, text in self.rows:
            path, _, test = node.partition("::")
            name = (test.replace("::", ".") or path).rpartition(" ")[2]
            fit = [block for block in by_name.get(name, ())[:_SAME] if block.answers(node)]
            trace = next((block for block in fit if block.passes(path)), fit[0] if fit else None)
            if trace:
                trace.used = True
            yield condition, node, text, trace


def outcomes(printout: Printout) -> Iterator[TestOutcome]:
    """Tests of its short summary, and of its lines with -v."""
    session = _Session(printout)
    spots = session.spots()
    for _, node, text, block in session.joined():
        error = "\n".join(block.error_lines) if block else ""
        yield _outcome(node, FAILED, error or (spots[node][1] if node in spots else "") or text)
    for block in session.blocks:
        if not block.used and block.error_lines:
            *_, name = block.title.split(" ")
            path = next((location.path for location in block.places), "")
            parts = [] if block.title.startswith("ERROR collecting ") else name.split(".")
            yield _outcome("::".join([path, *parts]), FAILED, "\n".join(block.error_lines))
    node_states: dict[tuple[str, str], None] = {}  # with -v and -rA twice
    for line in printout.lines:
        if (row := _NAMED.match(line)) or (row := _VERBOSE.match(line)):
            node_states[_node(row["node"])[0], _STATES[row["state"]]] = None
    for node, state in node_states:
        yield _outcome(node, state)


def _outcome(node: str, state: str, message: str = "") -> TestOutcome:
    path, _, test = node.partition("::")
    name, _, case = test.partition("[")
    return TestOutcome(path, name, state, case.removesuffix("]"), message)


def without_failures(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The lines without the output of failing tests."""
    begin = next((at for at, line in enumerate(lines) if _FAILURES.match(line)), None)
    ends = (at for at in range(len(lines) - 1, -1, -1) if _END.match(lines[at]))
    end = next(ends, None) if begin is not None else None
    return lines[:begin] + lines[end:] if begin is not None and end and begin < end else lines


def parse(printout: Printout) -> Iterator[Finding]:
    """The failures of the summary; without one, those of the tracebacks."""
    session = _Session(printout)
    spots = session.spots()
    for condition, node, text, trace in session.joined():
        path = node.partition("::")[0]
        if trace:
            yield _finding(
                condition, node, trace.error or text, *trace.ends, printout.location_of(path)
            )
        elif node in spots:
            yield _finding(condition, node, spots[node][1], spots[node][0])
        else:
            yield _finding(condition, node, text, printout.location_of(path))
    for block in session.blocks:
        if not block.used and (block.error or block.places):
            condition = "pytest-error" if block.is_error else "pytest-failure"
            yield _finding(condition, block.title, block.error, *block.ends)


def _finding(condition: str, node: str, text: str, *places: Location | None) -> Finding:
    message = f"{node}: {text}" if text else node
    locations = [location for location in places if location][:2]
    if (
        len(locations) > 1 and locations[1].line_start is None
    ):  # the file alone adds nothing to a line
        locations = locations[:1]
    return finding(TOOL, condition, message, *locations, subject=node)


def _not_started(line: str) -> _Block | None:
    """The message of a pytest that could not begin."""
    if conftest := _CONFTEST.match(line):
        return _Block(f"ERROR loading {conftest[1]}")
    if not line.startswith("ERROR: file or directory not found: "):
        return None
    block = _Block("ERROR starting")
    block.error = line[7:]
    return block


def _node(row: str) -> tuple[str, str]:
    """The test of a row, and its message; parameters may contain a dash too."""
    node, _, text = row.partition(" - ")
    if "[" in node and not node.endswith("]") and "] - " in row:
        node, _, text = row.partition("] - ")
        return f"{node}]", text
    return node, text


def _take(printout: Printout, block: _Block, line: str) -> None:
    if line.startswith("E "):
        text = line[1:].strip()
        if len(block.error_lines) < _SAID:
            block.error_lines.append(text)
        syntax = _SYNTAX.match(line)
        location = printout.location_of(syntax[1], syntax[2]) if syntax else None
        if location is not None:
            block.places.append(location)
        elif "Error: " in text and block.error.startswith("File "):
            block.error = text
        block.error = block.error or text
    elif match := _FRAME.match(line):
        location = printout.location_of(match[1], match[2])
        if location is not None:
            block.places.append(location)


def tally(printout: Printout) -> TestTally | None:
    """The sum of its last lines; None when there is none."""
    results = [end[1] for line in printout.lines if (end := _END.match(line))]
    pairs = [pair for counts in results for pair in numbers(counts)]
    return summed(pairs, _DONE, _BAD) if results else None
