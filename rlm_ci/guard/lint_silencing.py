"""Comments that a linter, a type checker or coverage obeys, and so reports less.

They count if the validator is known to run the tool.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: The rule that this breaks.
SILENCED = "check-silenced"
#: By tool: the comments that it obeys. A blank matches any white space; LIST names of rules.
_WORDS = {
    "ruff flake8 pylint pycodestyle pyflakes prospector sqlfluff":
        r"# (?:(?:ruff|flake8) : )?noqa\b(?: : LIST)?",
    "ruff black yapf": r"# (?:fmt|yapf) : (?:off|skip|disable)\b",
    "pylint prospector": r"# pylint : (?:disable[\w-]{0,20}|skip-file)(?: = LIST)?",
    "mypy dmypy pyright basedpyright ty pyre pytype":
        r"# (?:(?:type|pyright|ty) : ignore|pyre-(?:ignore|fixme|unsafe))\b(?: \[ LIST)?"
        r"|# (?:mypy|pyright) : (?!strict\b)[\w=-]{1,60}|@(?:typing\.)?no_type_check\b",
    "bandit": r"# nosec\b",
    "isort": r"#? isort : (?:skip|skip_file|off)\b",
    "eslint oxlint xo standard": r"\b(?:eslint|oxlint)-disable(?:-next-line|-line)?\b(?:\s LIST)?",
    "biome": r"\bbiome-ignore(?:-all)?\b",
    "prettier": r"\bprettier-ignore\b",
    "stylelint": r"\bstylelint-disable(?:-next-line|-line)?\b",
    "tsc vue-tsc tsd": r"@ts-(?:nocheck|ignore|expect-error)\b",
    "clippy rustc": r"#!?\[ (?:allow|expect)\( LIST",
    "golangci-lint staticcheck revive": r"// (?:nolint\b(?::LIST)?|lint:(?:file-)?ignore\b)",
    "shellcheck": r"# shellcheck\s disable=LIST",
    "rubocop standardrb": r"# rubocop : (?:disable|todo)\b",
    "phpstan psalm phpcs":
        r"@phpstan-ignore[\w-]{0,20}|@psalm-suppress\b|\bphpcs:(?:ignore|disable)\b",
    "swiftlint": r"\bswiftlint:disable\b",
    "codespell": r"\bcodespell:ignore\b",
    "yamllint": r"# yamllint\s disable\b",
    "hadolint": r"# hadolint\s (?:global\s )?ignore=",
    "markdownlint markdownlint-cli2": r"\bmarkdownlint-disable\b",
    "coverage": r"# pragma : no (?:cover|branch)\b|\b(?:istanbul|c8|v8)\s ignore\b",
}  # fmt: skip
_LIST = r"(?P<names>[\w.@:/-]{1,80}(?:\s{0,9},\s{0,9}[\w.@:/-]{1,80}){0,40})"
#: All the tools that are known.
TOOLS = frozenset(name for names in _WORDS for name in names.split())
#: Those that are not known by a word of a command.
_TOLD = frozenset(("coverage", "rustc"))
#: Those that run code from a file that nobody has read.
_EVERY = frozenset(("pre-commit", "prek", "lefthook", "trunk"))
#: What counts coverage, what makes a test of it, and of the warnings of Rust's compiler.
_COUNTS = r"--cov\b|\bcoverage\b|\bnyc\b|\bc8\b"
_FLOOR = r"fail[-_]under|check-coverage|coverageThreshold|\bthresholds?\b"
_WARNINGS = r"-D ?warnings|deny\(warnings"


def tools(words: Iterable[str], texts: Iterable[str]) -> frozenset[str]:
    """The tools that a validator runs, by the words of its commands and the texts it reads."""
    known, told = frozenset(words), "\n".join(texts)
    if not _EVERY.isdisjoint(known):
        return TOOLS
    found = set(known & TOOLS - _TOLD)
    if re.search(_WARNINGS, told):
        found.add("rustc")
    if re.search(_COUNTS, told) and re.search(_FLOOR, told):
        found.add("coverage")
    return frozenset(found)


class Silencer(Row):
    """A comment for one rule: its line (1-based), its words, and those without the rule."""

    line: int
    what: str
    kind: str


def added(before: str, after: str, heeded: frozenset[str]) -> Iterator[tuple[int, str]]:
    """What silences the tools ``heeded`` in ``after``, and is not in ``before``."""
    known = Counter(one.what for one in silencers(before, heeded))
    for line, what, _ in silencers(after, heeded):
        known[what] -= 1
        if known[what] < 0:
            yield line, what


def silencers(text: str, heeded: frozenset[str]) -> Iterator[Silencer]:
    """What silences the tools ``heeded`` in a text."""
    patterns = _patterns(heeded)
    for number, line in enumerate(text.split("\n"), 1):
        for pattern in patterns:
            for one in pattern.finditer(line):
                rules = one.groupdict().get("names") or ""
                head = one[0].removesuffix(rules)
                kind = "".join(head.split()).rstrip("[(:=")
                for rule in rules.split(","):
                    yield Silencer(number, "".join(f"{head}{rule}".split()), kind)


def stripped(text: str) -> str:
    """A text without what silences a tool."""
    for pattern in _patterns(TOOLS):
        text = pattern.sub("", text)
    return text


@cache
def _patterns(heeded: frozenset[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(
        re.compile(words.replace(" ", r"\s{0,9}").replace("LIST", _LIST))
        for names, words in _WORDS.items()
        if not heeded.isdisjoint(names.split())
    )
