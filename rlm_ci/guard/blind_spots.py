"""What satisfies the tests and may be no fix: answers for their inputs, and checks that ask less.

Running tests cannot tell such a line from a fix. It is read, with what the tests say; each finding
tells of one line, and refuses nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from rlm_ci.guard.known_hacks import Hack
from rlm_ci.guard.weakened_tests import compare
from rlm_ci.guard.weakened_tests.cases import is_literal, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rlm_ci.guard.weakened_tests.cases import Case

SPECIAL, WEAKER = "special-case", "weakened-check"

_ANSWERS = "has the inputs of tests and their expected answers: it may know no others"
_SWALLOWS = "swallows every error: {} asks only that none is raised"
_RAISES_LESS = "raises less: {} asks only that nothing is raised"
_PREDICATE = "changes {}, which tests only ask to be true of what the code makes"
#: A line of a test that claims something.
_CLAIM = re.compile(r"\bassert\w*\b|\bexpect\b|\.should\b|\bt\.\w+\(|\b(?:assert|require)\.|[!=]=")
#: A comparison or a branch with a literal, and what gives an answer.
_CASE = re.compile(r"[!=]==?|\bcase\b|\bin\b|=>|\bmatch\b")
_GIVES = re.compile(r"\breturn\b|=>|\?|\belse\b|:\s*$")
_COMMENT = re.compile(r"^\s*(?:#(?!\[)|//|/?\*)")
#: The head of a function; its name is a group.
_HEAD = re.compile(
    r"^([ \t]*)(?:(?:export|default|pub(?:\([\w: ]{1,40}\))?|public|private|protected|static|async"
    r"|unsafe|const) +){0,5}(?:(?:def|fn|function\*?) +(\w{2,80})|func +(?:\([^)]{1,80}\) *)?"
    r"(\w{2,80})|(\w{2,80})(?=\([^()]{0,200}\)(?: *: *[^{;]{1,80})? *\{))"
)
_RAISES = re.compile(r"\b(?:raise|throw|panic|assert\w*|bail|Errorf?|Err|unwrap|expect|fail)\b")
#: A handler of everything, and the answer that it gives in place of an error.
_BROAD = re.compile(
    r"^\s*(?:except(?:\s+\(?(?:Base)?Exception\b[^:]{0,40})?\s*:|\}?\s*catch\b\s*(?:\([^)]{0,80}\))?\s*\{"
    r"|(?:defer\b.{0,80})?\brecover\(\)|.{0,120}\bcatch_unwind\()"
)
_SILENT = re.compile(
    r"^\s*(?:pass|continue|\}|(?:return\b(?: (?:None|null|undefined|True|False|nil|true|false|0|''"
    r"|\"\"|\[\]|\{\}))?;?))\s*$"
)
#: A claim that a method without arguments gives something true, and nothing else.
_BARE = (
    r"(?:^assert |\bassert!\(|(?i:\btrue\()|\bexpect\()(?!.* (?:is|in) )[^=]*\.{name}\(\)\)*"
    r"(?:\.toBe(?:\(true|Truthy\()\))?(?:,.*)?$"
)
_NEGATIVE = re.compile(r"!(?!=)|\bnot\b|\b(?:False|false)\b|assert_?False|refute|\bFalse\(")
#: Literals that stand anywhere, and cases that lines must have for a table to be told.
_TRIVIAL = re.compile(r"\"?.?|\d|\"\W*")
_MOST_TEXT, _LEAST_CASES = 1 << 20, 2


def findings(product: Iterable[tuple[str, str, str]], tests: Mapping[str, str]) -> Iterator[Hack]:
    """The lines of changed files of the product, each with its text before and after.

    ``tests`` are the texts of the files of tests by path.
    """
    files = [file for file in product if max(map(len, file)) < _MOST_TEXT]
    lines = {path: list(_added(before, after)) for path, before, after in files}
    if any(lines.values()):
        claims = _claims(tests.values())
        for path, before, _ in files:
            yield from _answers(path, before, lines[path], claims)
    for path, before, after in files:
        yield from _weaker_checks(path, before, after, lines[path], tests)


def _added(before: str, after: str) -> Iterator[tuple[int, str]]:
    """The lines of ``after`` alone that are no comments, numbered from 1."""
    left = Counter(before.split("\n"))
    for number, line in enumerate(after.split("\n"), 1):
        left[line] -= 1
        if left[line] < 0 and line.strip() and not _COMMENT.match(line):
            yield number, line


# ── answers for the inputs of tests ──


def _claims(texts: Iterable[str]) -> list[frozenset[str]]:
    """The literals of each line of tests that claims something of some."""
    claims = set[frozenset[str]]()
    for text in texts:
        for line in text[:_MOST_TEXT].split("\n"):
            if _CLAIM.search(line):
                claims.add(_literals(line))
    return [claim for claim in claims if len(claim) > 1]


def _literals(line: str) -> frozenset[str]:
    """The numbers and texts of a line; of a text also the numbers in it."""
    return frozenset(word for word in words_of(line) if is_literal(word))


def _is_telling(literal: str) -> bool:
    return _TRIVIAL.fullmatch(literal) is None


def _answers(
    path: str, before: str, lines: Sequence[tuple[int, str]], claims: Iterable[frozenset[str]]
) -> Iterator[Hack]:
    """The first line of a table with cases of tests, and each branch for one of them."""
    old = _literals(before)
    fresh = [claim for claim in claims if not claim <= old]
    covered, first = set[frozenset[str]](), None
    for number, line in lines:
        cases = {claim for claim in fresh if claim <= _literals(line)}
        first = first or (cases and (number, line)) or None
        covered |= cases
    is_telling = any(map(_is_telling, frozenset().union(*covered)))
    if first and is_telling and len(covered) >= _LEAST_CASES:
        yield Hack(path, first[0], SPECIAL, _ANSWERS, first[1].strip())
        return
    for (number, line), (following, answer) in pairwise([*lines, (0, "")]):
        text = f"{line}\n{answer}" if following == number + 1 else line
        literals = _literals(text)
        is_case = _CASE.search(line) and _GIVES.search(text) and _literals(line)
        if is_case and any(claim <= literals and _is_pair(claim) for claim in fresh):
            yield Hack(path, number, SPECIAL, _ANSWERS, line.strip())


def _is_pair(claim: frozenset[str]) -> bool:
    return sum(map(_is_telling, claim)) > 1


# ── checks that ask for less ──


def _weaker_checks(
    path: str,
    before: str,
    after: str,
    lines: Sequence[tuple[int, str]],
    tests: Mapping[str, str],
) -> Iterator[Hack]:
    """Changed functions by which alone some tests judge, and that refuse less than before."""
    old, new = _functions(before), _functions(after)
    changed = {
        name for name in old.keys() & new.keys() if _code(old[name][1]) != _code(new[name][1])
    }
    added = dict(lines)
    for name in sorted(changed):
        start, body = new[name]
        inner = range(start, start + body.count("\n") + 1)
        number = next((at for at in inner if at in added), start)
        if what := _weakness(name, old[name][1], body, tests):
            broad = [at for at in inner if at in added and _BROAD.match(added[at])]
            number = broad[0] if broad else number
            text = after.split("\n")[number - 1].strip()
            yield Hack(path, number, WEAKER, what, text)


def _code(body: str) -> str:
    """A function without its documentation and comments."""
    plain = re.sub(r"(\"{3}|'{3}).*?\1", "", body, flags=re.DOTALL)
    return "".join(line for line in plain.split("\n") if not _COMMENT.match(line))


def _functions(text: str) -> dict[str, tuple[int, str]]:
    """The functions of a file by name, each with its first line and its source, by indentation."""
    lines = text.split("\n")
    functions = dict[str, tuple[int, str]]()
    for number, line in enumerate(lines, 1):
        if head := _HEAD.match(line):
            body = [line]
            for inner in lines[number:]:
                if inner.strip() and len(inner) - len(inner.lstrip()) <= len(head[1]):
                    break
                body.append(inner)
            name = head[2] or head[3] or head[4]
            functions[name] = number, "\n".join(body).rstrip()
    return functions


def _weakness(name: str, before: str, after: str, tests: Mapping[str, str]) -> str:
    """What a changed function no longer refuses, in words; "" if nothing says so."""
    swallows = _swallows(after) > _swallows(before)
    raises_less = len(_RAISES.findall(after)) < len(_RAISES.findall(before))
    cases = [case for case in _cases(name, tests) if name in case.words]
    if swallows or raises_less:
        form = _SWALLOWS if swallows else _RAISES_LESS
        silent = [case for case in cases if not case.facts.claims]
        return form.format(silent[0].name[:100]) if silent else ""
    claims = [claim for case in cases for _, claim in case.facts.claims]
    bare = re.compile(_BARE.format(name=name))
    asked_for = [claim for claim in claims if bare.search(claim)]
    others = (claim for claim in claims if re.search(rf"\b{name}\(", claim))
    is_positive = not any(_NEGATIVE.search(_without_macros(claim)) for claim in others)
    return _PREDICATE.format(name) if asked_for and is_positive else ""


def _without_macros(claim: str) -> str:
    return claim.replace("assert!", "assert")


def _swallows(body: str) -> int:
    """How many handlers of everything give nothing, or a constant, in place of the error."""
    lines = [line for line in body.split("\n") if line.strip()]
    return sum(
        _BROAD.match(line) is not None and _SILENT.match(inner) is not None
        for line, inner in pairwise([*lines, ""])
    )


def _cases(name: str, tests: Mapping[str, str]) -> Iterator[Case]:
    for path, text in tests.items():
        if name in text and compare.can_read(path):
            yield from compare.read(path, text).cases
