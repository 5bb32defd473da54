"""Tools that print each problem as a line of one pattern: the rows of one table."""

from __future__ import annotations

import re

from rlm_ci.report.findings import Severity
from rlm_ci.validators.parsers._output import TestTally, finding
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from rlm_ci.report.findings import Finding
    from rlm_ci.validators.parsers._output import Printout

_MYPY = r"(?P<path>[^\s:][^:]*\.(?:py|pyi|ipynb)):(?P<line>\d+)(?::\d+)*: error: "
_MYPY_CODE = r"\[(?P<code>[a-z][a-z-]{1,40})\]"
#: So many lines a pretty message of mypy may be folded into.
_FOLDS = 6
_RUFF = r"(?P<code>[A-Z]{1,6}\d{1,4}|invalid-syntax|%s):? (?:\[\*\] )?"
_LEVELS = {"warning": Severity.MEDIUM, "Warning": Severity.MEDIUM}
_AT = r"(?P<path>[^\s:][^:]*):(?P<line>\d+)"
_TSC = r"error (?P<code>TS\d{1,6}): (?P<said>.*)$"
_MAKE = r"g?make(?:\[\d+\])?: "


class Form(Value):
    """One pattern; its groups are ``path``, ``line``, ``spot``, ``code``, ``said`` and ``level``.

    A form without a path takes missing groups from the line above that ``opens``; one that
    ``closes`` needs such a line, and ends it. ``tool`` prints the form too.
    """

    pattern: str
    opens: bool = False
    closes: bool = False
    tool: str = ""
    path: str = ""
    subject: str = ""


class LinePatterns(Value):
    """One tool; the first form that a line matches counts.

    ``message`` is for problems with a code. A form of another tool is its own problem, unless a
    line matches ``summary``. ``folded`` joins lines. Nothing ran if any, or all, lines match
    ``idle``.
    """

    TOOL: str
    rule: str
    forms: tuple[Form, ...]
    message: str = "{said}"
    summary: str = "$."
    folded: Callable[[tuple[str, ...]], Iterable[str]] = iter
    idle: tuple[Callable[[Iterable[object]], bool], str] = (any, "$.")

    def parse(self, printout: Printout) -> Iterator[Finding]:
        """One finding a problem; warnings are of medium severity."""
        forms = [(form, re.compile(form.pattern)) for form in self.forms]
        is_own = any(map(re.compile(self.summary).match, printout.lines))
        opened: dict[str, str] = {}
        for line in self.folded(printout.lines):
            for form, pattern in forms:
                if (form.closes and not opened) or not (match := pattern.match(line)):
                    continue
                groups = {name: text for name, text in match.groupdict().items() if text}
                if form.opens:
                    opened = groups
                    break
                if "path" not in pattern.groupindex:
                    groups = opened | groups
                opened = {} if form.closes else opened
                yield self._finding(printout, form, groups, "" if is_own else form.tool)
                break

    def _finding(
        self, printout: Printout, form: Form, groups: dict[str, str], other: str
    ) -> Finding:
        text, code = groups.get("said", ""), groups.get("code")
        path = form.path or groups.get("path")
        location = printout.location_of(path, groups.get("line")) if path else None
        return finding(
            other or self.TOOL,
            other or self.rule,
            self.message.format(said=text, code=code) if code else text,
            location or printout.spot(groups.get("spot", "")),
            subject=form.subject or code,
            severity=_LEVELS.get(groups.get("level", "")),
        )

    def tally(self, printout: Printout) -> TestTally | None:
        """Nothing ran, if the tool says so."""
        quantifier, pattern = self.idle
        lines = [line for line in printout.lines if line]
        return TestTally(0) if lines and quantifier(map(re.compile(pattern).match, lines)) else None


def _unfolded(lines: tuple[str, ...]) -> Iterator[str]:
    """The lines of mypy, whose pretty messages go on in the lines below."""
    begin, end = re.compile(_MYPY), re.compile(f"{_MYPY_CODE}$")
    is_pretty = any(line.strip(" ^~") == "" and "^" in line for line in lines)
    for index, line in enumerate(lines):
        joined = line
        for more in lines[index + 1 : index + _FOLDS] if is_pretty and begin.match(line) else ():
            if end.search(joined) or more.startswith("    ") or begin.match(more):
                break
            joined = f"{joined} {more}"
        yield joined


TABLE = {row.TOOL: row for row in (
    LinePatterns("eslint", "eslint", (
        Form(r" +(?P<line>\d+):\d+ +(?P<level>error|warning) +"  # stylish, below a file's name
             r"(?P<said>\S.*?)(?:  (?P<code>[@a-z][\w@/-]{1,80}))?$"),
        Form(rf"{_AT}:\d+: (?P<said>.*) \[(?P<level>Error|Warning)(?:/(?P<code>[^\]]*))?\]$"),
        Form(r"(?P<path>\S.*)$", opens=True),
    ), message="{said} ({code})"),
    LinePatterns("make", "make-error", (
        Form(rf"{_MAKE}\*\*\* (?P<said>No rule to make target .*?)(?:  Stop\.)?$"),
        Form(rf"{_AT}: \*\*\* (?P<said>.*?)(?:  Stop\.)?$"),
        # below other lines it is one folder's say, and others may have been busy
    ), idle=(all, rf"{_MAKE}(?:Nothing to be done for|.* is up to date\.)")),
    LinePatterns("mypy", "mypy", (
        Form(rf"{_MYPY}(?P<said>.*?(?:{_MYPY_CODE})?)$"),
    ), folded=_unfolded),
    LinePatterns("npm", "npm-script", (
        Form(r"(?i:npm (?:error|ERR!) (?:code E)?(?P<said>Missing script: .*))$",
             path="package.json"),
    ), idle=(any, r'"?Error: no test specified"?$')),
    LinePatterns("ruff", "ruff", (
        Form(r"::error title=ruff \((?P<code>[^)]*)\),file=[^:]*::"
             r"(?P<path>[^:]*):(?P<line>\d+):\d+: \S+ (?P<said>.*?)(?:%0A.*)?$"),
        Form(rf"{_AT}:\d+: {_RUFF % 'SyntaxError'}(?P<said>.*)$", tool="flake8"),
        Form(r"\s*--> (?P<spot>.*)$", closes=True),
        Form(r"(?P<said>Would reformat: (?P<path>.*))$", subject="unformatted"),
        Form(rf"(?:{_RUFF % 'unformatted'}(?P<said>\S.*)$)?", opens=True),
    ), message="{code} {said}", summary=r"Found(?=.* error) "),
    LinePatterns("tsc", "tsc", (
        Form(rf"(?P<path>[^\s(][^(]*)\((?P<line>\d+),\d+\): {_TSC}"),
        Form(rf"{_AT}:\d+ - {_TSC}"),
        Form(_TSC),
    ), message="{code}: {said}"),
)}  # fmt: skip
