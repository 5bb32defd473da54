"""Comments by which a change silences a tool, and that were not there before."""

from __future__ import annotations

import re
from collections import Counter
from itertools import groupby
from operator import attrgetter

from rlm_ci.guard import lint_silencing
from rlm_ci.guard.weakening import REPLACED, Weakening
from rlm_ci.validators import test_file_names
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rlm_ci.guard.lint_silencing import Silencer
    from rlm_ci.guard.weakening import TextChange

#: The kind of a note: a comment that says why.
EXPLAINED = "explained"
#: A comment that tools obey has one of these.
_MAY_SILENCE = (
    "noqa", "ignore", "disable", "nosec", "skip", "off", "pragma", "istanbul", "c8", "v8", "allow",
    "expect", "nolint", "type_check", "todo", "nocheck", "suppress", "pyre-", "mypy", "pyright",
    "ansible",
)  # fmt: skip
#: Where a comment begins, and a line that is nothing else.
_COMMENT = r"(?:^|(?<=\s))(?:#(?!!?\[)|//|/\*)|#!?\["
_ONLY_COMMENT = r"\s*(?:#(?!!?\[)|//|/\*|\*)"
#: What a test of types says of a line that must not pass, and where such tests are.
_EXPECTED = "@ts-expect-error"
_OF_TYPES = re.compile(
    r"\.(?:test|spec)-d\.|(?:^|/)(?:dts?-tests?|type-?tests?|test-d)/|\btypes?[.-]?(?:test|spec)\."
    r"|(?:^|/)(?:tests?|__tests__)/(?:.*/)?(?:typings?|types?|typescript)(?:[.-]\w+)?[/.]"
)
#: A comment that has a type checker look at more of one file, and how those begin that silence it.
_STRICTER = re.compile(
    r"(?m)^[ \t]*(?:#|//) ?(?=(?:pyright|mypy): ?strict|@ts-check)(pyright|mypy|@ts)"
)
#: Files of tests that are read as text.
_DATA = re.compile(
    r"(?:^|/)(?:testdata|__fixtures__|tests?/(?:.*/)?(?:data|fixtures|sources?|samples?))/"
)
#: Words that say why, set off by a sign.
_REASON = (
    r"(?:#|//|/\*|--|\s[-–—:]|\(|=\s*\")\s*[\"'`({<]?(?=\w)"
    r".{0,80}?\w\w.{0,200}\s.{0,200}(?:\w\w|\d\.\d)"
)
#: A comment that its tool obeys only with a reason behind it.
_WITH_REASON = r"\blint:(?:file-)?ignore\s+\S+"
#: Lines above the code that are looked at, and characters of a line.
_MOST_ABOVE, _LONGEST = 20, 500
#: Comments of a file that are compared by code that is much the same.
_MOST_NEAR = 50


class Tightened(Value):
    """What tools did not report anywhere before: how comments, or rules, begin.

    ``all_but``: where ruff looks for all rules by now, those that it looked for before.
    """

    begins: tuple[str, ...] = ()
    all_but: tuple[str, ...] | None = None


class _Side(Row):
    """One side of a file: all its lines, and those that the other side has not, else empty."""

    path: str
    lines: Sequence[str]
    unmatched: Sequence[str]

    def silencers(self) -> Iterator[_Line]:
        text = "\n".join(self.unmatched)
        if any(word in text for word in _MAY_SILENCE):
            silencers = lint_silencing.silencers(
                self.path, "\n".join(self.lines), lint_silencing.TOOLS, self.unmatched
            )
            for line, some in groupby(silencers, key=attrgetter("line")):
                yield _Line(line, self._code(line), tuple(some))

    def _code(self, line: int) -> frozenset[str]:
        """The words of the code that a comment is about: in front of it, or below."""
        code = _code(self.lines[line - 1])
        following = (_code(text) for text in self.lines[line : line + _MOST_ABOVE])
        return _words(code or next(filter(None, following), ""))

    def above(self, line: int) -> str:
        """The comment that ends above a line."""
        comments = list[str]()
        for text in reversed(self.lines[max(0, line - 1 - _MOST_ABOVE) : line - 1]):
            if not re.match(_ONLY_COMMENT, text):
                break
            is_of_code = text.lstrip().startswith("///")  # what Rust documents is the code
            if not (is_of_code or _STRICTER.match(text)):
                comments.append(text.strip())
        return " ".join(reversed(comments))


class _Line(Row):
    """The silencers of a line (1-based), with the words of the code that they are about."""

    number: int
    code: frozenset[str]
    silencers: Sequence[Silencer]


def new_silencers(
    changes: Iterable[TextChange],
    tightened: Tightened | None = None,
    arrived: frozenset[str] = frozenset(),
) -> tuple[list[Weakening], list[Weakening]]:
    """One weakening for each file and comment; and notes of the comments that say why.

    One that moved is not new, nor is one that names another rule at the same code, or one rule
    where all were silenced. What is left out of that which is ``tightened`` has a reason. What
    silences a tool that ``arrived`` is doubtful.
    """
    sides = [
        (change.path, *_sides(change))
        for change in dict.fromkeys(changes)
        if not _DATA.search(change.path)
    ]
    gone = _Gone()
    for path, before, _ in sides:
        for line in before.silencers():
            gone.add(path, line)
    new = [
        (path, before, after, line) for path, before, after in sides for line in after.silencers()
    ]
    for left in (gone.in_file, gone.at_code, gone.at_like_code, gone.anywhere):
        new = [
            (path, before, after, line.replace(silencers=left(path, line)))
            for path, before, after, line in new
        ]
    explained = list[Weakening]()
    stricter: dict[str, tuple[str, ...]] = {}
    lines_by_what: dict[tuple[str, str, str], list[int]] = {}
    for path, before, after, line in new:
        if line.silencers and path not in stricter:
            stricter[path] = _stricter(before, after)
        has_reason = bool(line.silencers) and _is_explained(after, line)
        for silencer in line.silencers:
            if (
                has_reason
                or (tightened and _is_new_to_tool(silencer, tightened))
                or silencer.kind.startswith(stricter[path])
            ):
                explained.append(Weakening(EXPLAINED, silencer.what[:100], path, silencer.line))
            elif not (silencer.what == _EXPECTED and _is_of_types(after, line)):
                doubt = REPLACED if lint_silencing.is_obeyed(silencer.what, arrived) else ""
                lines_by_what.setdefault((path, silencer.what, doubt), []).append(silencer.line)
    return [
        Weakening(
            lint_silencing.SILENCED,
            f"silences a tool{f' {len(lines):,} times' if len(lines) > 1 else ''}: {what[:100]}",
            path, lines[0], doubt=doubt,
        )
        for (path, what, doubt), lines in lines_by_what.items()
    ], explained  # fmt: skip


def _is_new_to_tool(silencer: Silencer, tightened: Tightened) -> bool:
    """Whether nothing had to be silenced before: its tool, or its rule, was off for all."""
    rule = silencer.what.removeprefix(silencer.kind).strip(" :=[]()")
    if rule and tightened.all_but is not None and silencer.kind.endswith("noqa"):
        return not any(selects(code, rule) for code in tightened.all_but)
    return any(silencer.kind == new or (rule and rule.startswith(new)) for new in tightened.begins)


def selects(code: str, rule: str) -> bool:
    """Whether a code of ruff chooses a rule: ``I`` does not choose ``INP001``, which is another
    linter's.
    """
    return rule.startswith(code) and (code == "PL" or not rule[len(code) :][:1].isalpha())


def _is_of_types(after: _Side, line: _Line) -> bool:
    """Whether a test says that its own new line must not pass the type checker."""
    if _OF_TYPES.search(after.path):
        return True
    below = zip(after.lines[line.number :], after.unmatched[line.number :], strict=True)
    added = next((added for text, added in below if _code(text)), "")
    folders = after.path.split("/")[:-1]
    is_inside = "__tests__" in folders or any(map(test_file_names.is_folder, folders))
    return added != "" and (is_inside or test_file_names.is_file(after.path))


def _stricter(before: _Side, after: _Side) -> tuple[str, ...]:
    """How comments begin that silence a checker which looks at more of this file by now."""
    text = "\n".join(after.unmatched) if any(before.lines) else ""
    checkers = {match[1] for match in _STRICTER.finditer(text)}
    begins = [begin for checker in checkers for begin in (f"# {checker}", "# type", checker)]
    return tuple(begins)


class _Gone:
    """Silencers that are no longer where they were: each may have become one other.

    Every method returns those of a line that none became.
    """

    def __init__(self) -> None:
        self._left: Counter[tuple[str, str]] = Counter()
        self._files: dict[str, dict[str, None]] = {}
        self._at: dict[tuple[str, frozenset[str]], dict[tuple[str, str], None]] = {}
        self._near: dict[tuple[str, str], list[tuple[str, frozenset[str]]]] = {}

    def add(self, path: str, line: _Line) -> None:
        # In Rust, an expectation tells more than what it allows instead.
        expected = (
            silencer.replace(what=silencer.what.replace("allow(", "expect("), kind=silencer.kind)
            for silencer in line.silencers
            if "[allow(" in silencer.what
        )
        for silencer in (*line.silencers, *expected):
            self._left[path, silencer.what] += 1
            self._files.setdefault(silencer.what, {})[path] = None
            self._at.setdefault((silencer.kind, line.code), {})[path, silencer.what] = None
            self._near.setdefault((path, silencer.kind), []).append((silencer.what, line.code))

    def in_file(self, path: str, line: _Line) -> tuple[Silencer, ...]:
        """Those that moved within the file are known."""
        return tuple(silencer for silencer in line.silencers if not self._take(path, silencer.what))

    def anywhere(self, _path: str, line: _Line) -> tuple[Silencer, ...]:
        """Those that moved from another file are known."""
        return tuple(
            silencer
            for silencer in line.silencers
            if not any(
                self._take(path, silencer.what) for path in self._files.get(silencer.what, ())
            )
        )

    def at_code(self, _path: str, line: _Line) -> tuple[Silencer, ...]:
        """Those of another rule at the same code are known."""
        return self._but_narrower(line, lambda kind: self._at.get((kind, line.code), ()))

    def at_like_code(self, path: str, line: _Line) -> tuple[Silencer, ...]:
        """Those of another rule at code that is much the same are known."""
        return self._but_narrower(
            line,
            lambda kind: [
                (path, what)
                for what, code in self._near.get((path, kind), ())[:_MOST_NEAR]
                if 2 * len(code & line.code) > len(code | line.code)
            ],
        )

    def _but_narrower(
        self, line: _Line, others: Callable[[str], Iterable[tuple[str, str]]]
    ) -> tuple[Silencer, ...]:
        """Those that no other became: one without rules is wider, and may become several."""
        silencers, narrowed = [], set[str]()
        for silencer in line.silencers:
            if silencer.what == silencer.kind:
                silencers.append(silencer)
            elif silencer.kind not in narrowed:
                became = next((it for it in others(silencer.kind) if self._take(*it)), None)
                if became is None:
                    silencers.append(silencer)
                elif became[1] == silencer.kind:
                    narrowed.add(silencer.kind)
        return tuple(silencers)

    def _take(self, path: str, what: str) -> bool:
        if self._left[path, what] <= 0:
            return False
        self._left[path, what] -= 1
        return True


def _sides(change: TextChange) -> tuple[_Side, _Side]:
    """Both sides; of lines that stand on both, each as often as on the other is left out."""
    old, new = ((text or "").split("\n") for text in (change.before, change.after))
    path = change.path
    return _Side(path, old, _new_lines(old, Counter(new))), _Side(
        path, new, _new_lines(new, Counter(old))
    )


def _new_lines(lines: Iterable[str], others: Counter[str]) -> list[str]:
    added = []
    for line in lines:
        others[line] -= 1
        added.append("" if others[line] >= 0 else line)
    return added


def _code(line: str) -> str:
    """The code in front of a comment."""
    return re.split(_COMMENT, line[:_LONGEST], maxsplit=1)[0].strip()


def _words(code: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", code))


def _is_explained(after: _Side, line: _Line) -> bool:
    """Whether the comment says why, or one beside or above it."""
    text = after.lines[line.number - 1][:_LONGEST]
    start = re.search(_COMMENT, text)
    if says_why(text[start.start() :] if start else text):
        return True
    rules = {silencer.what for silencer in line.silencers}
    beside = (
        after.unmatched[at]
        for at in (line.number - 2, line.number)
        if 0 <= at < len(after.unmatched)
    )
    if any(says_why(comment) and any(rule in comment for rule in rules) for comment in beside):
        return True  # the next line has the same comment, with its reason
    # Whether a comment above is about the code or about the tool, only a reader can tell. The same
    # holds for one that opens the block of Python below.
    is_block = line.number < len(after.lines) and _code(text).endswith(":")
    below = after.lines[line.number].lstrip() if is_block else ""
    return says_why(after.above(line.number)) or (below.startswith("# ") and says_why(below))


def says_why(comment: str) -> bool:
    """Whether a comment has words beside what silences a tool."""
    comment = re.sub(_WITH_REASON, "//", comment[:_LONGEST])
    return re.search(_REASON, lint_silencing.stripped(comment)) is not None
