"""What a parser reads and what it makes: lines, places in the repository, findings, a tally."""

from __future__ import annotations

import posixpath
import re
from itertools import pairwise

from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

#: Characters of a line, findings of one parser, characters of one message.
LONGEST_LINE = 2000
MOST_FINDINGS = 200
LONGEST_MESSAGE = 500
#: Characters of what one test failed with.
LONGEST_SAID = 4000
#: Matches no line.
NEVER = re.compile(r"$.")
#: Lines of source as jest and vitest show them around a failure.
_SOURCE = re.compile(r" *(?:> *)?\d* ?\|")
_DEEPEST = 50
#: Different paths that are looked up on disk.
_MOST_LOOKUPS = 5000
#: Folders with code of others.
_FOREIGN = frozenset(
    (".git", ".nox", ".tox", ".venv", "__pypackages__", "node_modules", "site-packages", "venv")
)


RULES = dict.fromkeys(
    (
        "pytest-failure", "pytest-error", "unittest-failure", "unittest-error", "phpunit-failure",
        "bun-failure", "bun-error", "jest-failure", "jest-error", "vitest-failure",
        "vitest-error", "mocha-failure", "node-test-failure", "tap-failure", "go-test-failure",
        "go-build-error", "cargo-test-failure", "rustc-error",
        "eslint", "ruff", "flake8", "mypy", "tsc", "make-error", "npm-script",
    ),
    Severity.HIGH,
)  # fmt: skip


class TestTally(Value):
    """How many tests a tool says that it ran to a good or a bad end (packages, for Go)."""

    passed: int
    failed: int = 0


class TitleOutline:
    """Titles that enclose all that is indented deeper."""

    def __init__(self) -> None:
        self._open: list[tuple[int, str]] = []

    def enter(self, depth: int, title: str) -> None:
        self._leave(depth)
        self._open.append((depth, title))

    def _leave(self, depth: int) -> None:
        while self._open and self._open[-1][0] >= depth:
            self._open.pop()

    def name(self, depth: int, title: str) -> str:
        """The name of a test, with the titles that enclose it."""
        self._leave(depth)
        return "::".join([*(above for _, above in self._open[-_DEEPEST:]), title])


class Printout:
    """The lines of one run.

    ``root`` is the path of the repository as the command saw it; ``exists`` says whether a
    relative path is a file in it.
    """

    def __init__(self, lines: Iterable[str], root: str, exists: Callable[[str], bool]) -> None:
        self.lines = tuple(line[:LONGEST_LINE].rstrip() for line in lines)
        self._root = f"{posixpath.normpath(root)}/".replace("//", "/")
        self._exists = exists
        self._known: dict[str, bool] = {}

    def location_of(self, path: str, line: str | None = None) -> Location | None:
        """The place that an output names; None if it is not a file of the repository."""
        if path.startswith("file://"):
            from urllib.parse import unquote

            path = unquote(path[7:])
        if path.startswith("/"):
            path = posixpath.normpath(path)
            if not path.startswith(self._root):
                return None
            path = path[len(self._root) :]
        path = posixpath.normpath(path)
        parts = path.split("/")
        if path in (".", "") or path.startswith("/") or parts[0] == ".." or "\0" in path:
            return None
        if not _FOREIGN.isdisjoint(parts) or not self._is_there(path):
            return None
        is_number = line and line.isdecimal() and line.isascii() and len(line) < 9
        number = (int(line) or None) if line and is_number else None
        return Location(path, number, number)

    def spot(self, text: str) -> Location | None:
        """The place of ``path:line`` or ``path:line:column``; None if it is none of ours."""
        parts = cut(text)
        return self.location_of(*parts) if parts else None

    def broken(self, lines: Iterable[str]) -> Location | None:
        """The first place of ours in the frames of a JavaScript stack."""
        frames = (line for line in lines if line.lstrip().startswith(("at ", "❯ ")))
        return next(filter(None, map(self.spot, map(frame, frames))), None)

    def _is_there(self, path: str) -> bool:
        if path not in self._known:
            if len(self._known) >= _MOST_LOOKUPS or len(path) > LONGEST_LINE:
                return False
            self._known[path] = self._exists(path)
        return self._known[path]


def cut(text: str) -> tuple[str, str] | None:
    """Path and line of ``path:line`` or ``path:line:column``; None if it is neither."""
    parts = text.rsplit(":", 2)
    if len(parts) == 3 and parts[0] and parts[1].isdecimal() and parts[2].isdecimal():
        return parts[0], parts[1]
    path, _, line = text.rpartition(":")
    return (path, line) if path and line.isdecimal() else None


def frame(line: str) -> str:
    """The place in a frame of a JavaScript stack: ``at f (path:1:2)``, ``at path:1:2``."""
    text = line.strip()
    if text.endswith(")"):
        return text[text.rfind("(") + 1 : -1]
    return text.rpartition(" ")[2]


def sentence(lines: Iterable[str]) -> str:
    """The first line of a message, and the next one where the first ends in a colon."""
    text = ""
    for line in lines:
        if text and not text.endswith(":"):
            break
        text = f"{text} {line.strip()}".strip()
    return text


def blocks(
    lines: Iterable[str], begin: re.Pattern[str], end: re.Pattern[str] = NEVER
) -> Iterator[tuple[re.Match[str], list[str]]]:
    """The lines below each line that ``begin`` matches, to the next one or one of ``end``."""
    head: re.Match[str] | None = None
    below: list[str] = []
    for line in lines:
        first = begin.match(line)
        if head and (first or end.match(line)):
            yield head, below
            head = None
        if first:
            head, below = first, []
        elif head:
            below.append(line)
    if head:
        yield head, below


def message(below: Iterable[str], stop: re.Pattern[str] = NEVER) -> str:
    """What a failure says, up to a line that ``stop`` matches, without the source it quotes."""
    texts: list[str] = []
    size = 0
    for line in below:
        if stop.match(line) or size >= LONGEST_SAID:
            break
        if not _SOURCE.match(line):
            texts.append(line)
            size += len(line)
    return "\n".join(texts).strip()


def finding(
    tool: str,
    condition: str,
    message: str,
    *places: Location | None,
    subject: str | None = None,
    severity: Severity | None = None,
) -> Finding:
    """A finding of the validator, with the known places as evidence."""
    text = printable(" ".join(message.split()))
    if len(text) > LONGEST_MESSAGE:
        text = f"{text[: LONGEST_MESSAGE - 1]}…"
    return Finding(
        rule=f"validator/{condition}",
        severity=RULES[condition] if severity is None else severity,
        message=text or condition,
        evidence=tuple(dict.fromkeys(location for location in places if location is not None)),
        subject=printable(subject[:LONGEST_MESSAGE]) if subject else None,
        source=f"analyzer:{tool}",
    )


def numbers(text: str) -> Iterator[tuple[int, str]]:
    """The counts and words of a summary such as ``2 failed, 1 passed | 3 skipped (6)``."""
    words = text.replace(",", " ").replace(";", " ").replace("|", " ").split()
    for number, word in pairwise(words):
        if number.isdecimal() and number.isascii() and len(number) < 9:
            yield int(number), word


def summed(
    counts: Iterable[tuple[int, str]], passed: Collection[str], failed: Collection[str]
) -> TestTally:
    """The tally of counts, by the words for a good and a bad end."""
    pairs = list(counts)
    return TestTally(
        sum(number for number, word in pairs if word in passed),
        sum(number for number, word in pairs if word in failed),
    )
