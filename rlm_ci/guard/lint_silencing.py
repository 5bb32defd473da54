"""Comments that a linter, a type checker or coverage obeys, and so reports less.

They count in a language that the tool reads, and if the validator is known to run it.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

from rlm_ci.guard.comments import CODE, COMMENT, OPEN, SourcePlaces
from rlm_ci.source.languages import language
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: The rule that this breaks.
SILENCED = "check-silenced"
_SCRIPTS = "JavaScript TypeScript TSX Vue Svelte Astro"
_STYLES = "CSS SCSS Less"
_PYTHON = "Python Cython"


class _Words(Value):
    """Tools, the languages that they read ("" for all), and the comments that they obey there.

    A blank matches any white space; LIST names of rules. ``is_code``: it is no comment.
    """

    tools: str
    languages: str
    pattern: str
    is_code: bool = False


_WORDS = (
    _Words("ruff flake8 pylint pycodestyle pyflakes prospector", _PYTHON,
           r"# (?:(?:ruff|flake8) : )?noqa\b(?: : LIST)?"),
    _Words("sqlfluff", "SQL", r"-- noqa\b(?: : LIST)?"),
    _Words("ruff black yapf", _PYTHON, r"# (?:fmt|yapf) : (?:off|skip|disable)\b"),
    _Words("pylint prospector", _PYTHON,
           r"# pylint : (?:disable[\w-]{0,20}|skip-file)(?: = LIST)?"),
    _Words("mypy dmypy pyright basedpyright ty pyre pytype", _PYTHON,
           r"# (?:(?:type|pyright|ty) : ignore|pyre-(?:ignore|fixme|unsafe))\b(?: \[ LIST)?"
           r"|# (?:mypy|pyright) : (?!strict\b)[\w=-]{1,60}"),
    _Words("mypy dmypy pyright basedpyright ty pyre pytype", _PYTHON,
           r"@(?:typing\.)?no_type_check\b", is_code=True),
    _Words("bandit", _PYTHON, r"# nosec\b"),
    _Words("isort", _PYTHON, r"#? isort : (?:skip|skip_file|off)\b"),
    _Words("eslint oxlint xo standard", f"{_SCRIPTS} {_STYLES} HTML JSON Markdown",
           r"\b(?:eslint|oxlint)-disable(?:-next-line|-line)?\b(?:\s LIST)?"),
    _Words("biome", f"{_SCRIPTS} {_STYLES} HTML JSON GraphQL", r"\bbiome-ignore(?:-all)?\b"),
    _Words("prettier", f"{_SCRIPTS} {_STYLES} HTML JSON Markdown YAML GraphQL",
           r"\bprettier-ignore\b"),
    _Words("stylelint", f"{_SCRIPTS} {_STYLES} HTML",
           r"\bstylelint-disable(?:-next-line|-line)?\b"),
    _Words("tsc vue-tsc tsd", _SCRIPTS, r"@ts-(?:nocheck|ignore|expect-error)\b"),
    _Words("clippy rustc", "Rust", r"#!?\[ (?:allow|expect)\( LIST", is_code=True),
    _Words("golangci-lint staticcheck revive", "Go",
           r"// (?:nolint\b(?::LIST)?|lint:(?:file-)?ignore\b)"),
    _Words("shellcheck", "Shell", r"# shellcheck\s disable=LIST"),
    _Words("rubocop standardrb", "Ruby", r"# rubocop : (?:disable|todo)\b"),
    _Words("phpstan psalm phpcs", "PHP",
           r"@phpstan-ignore[\w-]{0,20}|@psalm-suppress\b|\bphpcs:(?:ignore|disable)\b"),
    _Words("swiftlint", "Swift", r"\bswiftlint:disable\b"),
    _Words("codespell", "", r"\bcodespell:ignore\b"),
    _Words("yamllint", "YAML", r"# yamllint\s disable\b"),
    _Words("hadolint", "Dockerfile", r"# hadolint\s (?:global\s )?ignore="),
    _Words("markdownlint markdownlint-cli2", "Markdown", r"\bmarkdownlint-disable\b"),
    _Words("coverage", _PYTHON, r"# pragma : no (?:cover|branch)\b"),
    _Words("coverage", _SCRIPTS, r"\b(?:istanbul|c8|v8)\s ignore\b(?!\s (?:stop|end)\b)"),
)  # fmt: skip
_LIST = r"(?P<names>[\w.@:/-]{1,80}(?:\s{0,9},\s{0,9}[\w.@:/-]{1,80}){0,40})"
_CLOSING = {"[": "]", "(": ")"}
#: All the tools that are known.
TOOLS = frozenset(name for words in _WORDS for name in words.tools.split())
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
    names, text = frozenset(words), "\n".join(texts)
    if not _EVERY.isdisjoint(names):
        return TOOLS
    started = set(names & TOOLS - _TOLD)
    if re.search(_WARNINGS, text):
        started.add("rustc")
    if re.search(_COUNTS, text) and re.search(_FLOOR, text):
        started.add("coverage")
    return frozenset(started)


class Silencer(Row):
    """A comment for one rule: its line (1-based), its words, and those without the rule."""

    line: int
    what: str
    kind: str


def added(path: str, before: str, after: str, heeded: frozenset[str]) -> Iterator[tuple[int, str]]:
    """What silences the tools ``heeded`` in ``after``, and is not in ``before``."""
    counts = Counter(silencer.what for silencer in silencers(path, before, heeded))
    for line, what, _ in silencers(path, after, heeded):
        counts[what] -= 1
        if counts[what] < 0:
            yield line, what


def silencers(
    path: str, text: str, heeded: frozenset[str], lines: Sequence[str] = ()
) -> Iterator[Silencer]:
    """What silences the tools ``heeded`` in the lines of a text, or in some ``lines`` of it."""
    name = language(path, text[:256].partition("\n")[0])
    patterns = _patterns(heeded, name)
    places = SourcePlaces(name, text)
    for number, line in enumerate(lines or text.split("\n"), 1):
        for pattern, is_code in patterns:
            for match in pattern.finditer(line):
                kind = places.kind(number, match.start())
                if kind not in (OPEN, CODE if is_code else COMMENT):
                    continue
                rules = match.groupdict().get("names") or ""
                head = match[0].removesuffix(rules)
                what = _written(head).rstrip("[(:= ")
                closing = "".join(_CLOSING.get(sign, "") for sign in reversed(head))
                for rule in rules.split(","):
                    yield Silencer(number, _written(f"{head}{rule}{closing}"), what)


def _written(text: str) -> str:
    """``text`` with blanks as most people write them."""
    text = re.sub(r"(?<!\w) | (?![\w@])", "", " ".join(text.split()))
    text = re.sub(r"\bno(?=cover\b|branch\b)", "no ", text)
    if re.match(r"#\w", text):
        text = re.sub(":(?=.)", ": ", f"# {text[1:]}", count=1)
    return text


def stripped(text: str) -> str:
    """A text without what silences a tool."""
    for pattern, _ in _patterns(TOOLS, ""):
        text = pattern.sub("", text)
    return text


def is_obeyed(what: str, tools: frozenset[str]) -> bool:
    """Whether one of these tools obeys a comment, in any language."""
    return any(pattern.match(what) for pattern, _ in _patterns(tools, ""))


@cache
def _patterns(heeded: frozenset[str], name: str) -> tuple[tuple[re.Pattern[str], bool], ...]:
    """The comments that the tools ``heeded`` obey in a language, or in any."""
    return tuple(
        (re.compile(words.pattern.replace(" ", r"\s{0,9}").replace("LIST", _LIST)), words.is_code)
        for words in _WORDS
        if not heeded.isdisjoint(words.tools.split())
        and (not name or not words.languages or name in words.languages.split())
    )
