"""The built-in analyzer: the rules of ruff that a review reports, and their severities.

The default fail level is high, so only what raises whenever it runs, and an obvious security hole,
has that severity. Rules of taste and documentation run only if the settings name them.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import lru_cache
from itertools import accumulate

from rlm_ci.report.findings import Severity
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Final

NAME: Final = "ruff"
FILES: Final = ("*.py", "*.pyi", "*.pyw")
#: What its SARIF calls a file that cannot be parsed.
SYNTAX: Final = "invalid-syntax"

#: Rules by domain and severity.
_TABLE: Final[Mapping[tuple[str, str], str]] = {
    ("security", "high"): "PLE2502 S501 S502",
    ("security", "medium"): (
        "S102 S103 S105 S106 S107 S201 S304 S305 S306 S307 S308 S323 S503 S505 S506 S507 S508 "
        "S509 S602 S605 S608 S609 S611 S612 S702"
    ),
    ("security", "low"): (
        "PLE2510 PLE2512 PLE2513 PLE2514 PLE2515 S104 S108 S202 S301 S302 S303 S312 S314 S315 "
        "S316 S317 S318 S319 S321 S324 S504 S601 S604 S610 S701"
    ),
    ("security", "info"): "S704",
    ("quality", "high"): (
        "B016 F404 F406 F407 F501 F502 F503 F505 F506 F507 F508 F509 F521 F524 F525 F621 F622 "
        "F633 F701 F702 F704 F706 F707 F821 F823 F901 PLE0100 PLE0115 PLE0117 PLE0118 PLE0241 "
        "PLE0303 PLE0304 PLE0305 PLE0307 PLE0308 PLE0309 PLE1132 PLE1142 PLE1300 PLE1307 PLE1507 "
        "PLE1700"
    ),
    ("quality", "medium"): (
        "ASYNC100 ASYNC105 B002 B003 B005 B012 B025 B029 B030 B032 B035 B039 F601 F602 F631 F632 "
        "F634 PIE794 PLE0116 PLE0237 PLE0643 PLE1205 PLE1206 PLE1519 PLE1520 PLW0133 PLW0177 "
        "PLW0245 PLW0711 PLW1501 RUF006 RUF008 RUF016 RUF040 RUF064 S113"
    ),
    ("quality", "low"): (
        "B004 B006 B011 B013 B014 B015 B020 B021 B022 B023 B031 B033 B034 DTZ003 DTZ004 E721 E722 "
        "F402 F504 F522 F523 F722 F811 F822 LOG002 LOG004 LOG007 LOG014 PLE0101 PLE0302 PLE0604 "
        "PLE0605 PLE0704 PLE1310 PLW0127 PLW0128 PLW0129 PLW0131 PLW0211 PLW0406 PLW1507 PLW1508 "
        "PLW1509 RUF009 RUF018 RUF024 RUF030 RUF032 RUF033 RUF034 RUF060 RUF071 S110 S112 T100"
    ),
    ("quality", "info"): "B018 B026 F401 F841 F842",
    ("performance", "medium"): "ASYNC210 ASYNC212 ASYNC220 ASYNC221 ASYNC222 ASYNC250 ASYNC251",
    ("performance", "low"): "ASYNC110 ASYNC116 ASYNC230 ASYNC240 B019 PLW2101 RUF017",
}
#: How often a rule is right, which is why it has its severity.
_SURE: Final = {
    Severity.HIGH: 0.9, Severity.MEDIUM: 0.7, Severity.LOW: 0.6, Severity.INFO: 0.5,
}  # fmt: skip

#: Security rules that hold in tests too: text that hides from readers.
_EVERYWHERE: Final = frozenset(("PLE2502", "PLE2510", "PLE2512", "PLE2513", "PLE2514", "PLE2515"))
#: What tests do on purpose.
_NOT_IN_TESTS: Final = frozenset(
    ("B011", "B015", "B018", "F811", "PLW0129", "RUF018", "S110", "S112", "S113")
)
_COOKIE = re.compile(rb"[ \t\f]*#.*?coding[:=]")
#: What a text that is SQL begins with.
_SQL = re.compile(
    r"[^\"']*[\"']{1,3}[\s(\\n]*(?:select|insert|replace|update|delete|with|merge|explain|create)\b",
    re.IGNORECASE,
)
_RAISED = re.compile(r"\braise\b|\bwarn(?:ing)?\(|Error\(")
_LONE_RETURN = re.compile(rb"\r(?!\n)")
_TEST = re.compile(r"(?:^|/)(?:tests?|testing)/|(?:^|/)(?:test_[^/]*|[^/]*_tests?|conftest)\.pyi?$")
#: Modules that exist to import for others.
_FORWARDING = re.compile(r"(?:^|/)(?:__init__|_?compat)\.pyi?$|\.pyi$")
_OF_FORWARDERS: Final = frozenset(("F401", "PLW0127"))
#: A text that may be a secret: long, without a space, letters and digits mixed.
_SECRET = re.compile(
    r"""["'](?=[^"'\s]*[A-Za-z])(?=[^"'\s]*[0-9])[A-Za-z0-9+/=_.!@#$%^&*-]{12,}["']"""
)
_PASSWORDS: Final = frozenset(("S105", "S106", "S107"))
#: Names that IPython, gettext and type checkers add to the built-in ones.
_INJECTED: Final = ("__IPYTHON__", "_", "get_ipython", "ngettext", "reveal_locals", "reveal_type")
_SHELLS: Final = frozenset(("S602", "S605"))
#: Characters that reorder text; a single direction mark does not.
_REORDERING = re.compile("[\u202a-\u202e\u2066-\u2069]")
#: Where a quoted text is a value, from wherever ``Literal`` was imported.
_LITERAL = re.compile(
    r"""\bLiteral\[(?:[^\[\]"']{1,1000}+|"[^"\n]{0,1000}+"|'[^'\n]{0,1000}+'){0,400}\]"""
)
_QUOTED = re.compile(r""""[^"\n]*+"|'[^'\n]*+'""")
_OF_NAMES: Final = frozenset(("F722", "F821"))
#: Unbound names, by which a collected test fails too.
_UNBOUND: Final = frozenset(("F821", "F823"))
#: The domain of a rule that is not in the table, by the letters of its code.
_DOMAINS: Final = {"S": "security", "PERF": "performance", "D": "docs", "DOC": "docs"}
_LETTERS = re.compile(r"[A-Z]+")
#: A letter, or more of them, that several linters begin with.
_FAMILIES: Final = frozenset(("PL",))
_CONFLICT = (re.compile(rb"(?m)^<{7} "), re.compile(rb"(?m)^>{7} "))
#: Python 2, templates and notebook cells.
_FOREIGN = re.compile(
    rb"(?m)\{%|<%|\{\{ *+cookiecutter"
    rb"|^[ \t]*+(?:[%!][a-z]|raise[ \t]++[\w.]++[ \t]*+,[ \t]"
    rb"|(?:print|exec)(?:[ \t]++\w|[ \t]*+(?:[\"']|>>)))"
)
_IN_BRACES = re.compile(r"\{\{|\$\{")
_TEMPLATES = re.compile(r"(?i)(?:^|/)[^/]*(?:templates?|cookiecutter|skeleton|\{\{)[^/]*")
#: Tests that a runner imports by their names.
_COLLECTED = re.compile(r"(?:^|/)(?:test_[^/]*|[^/]*_test|conftest)\.py$")
_DATA = re.compile(r"(?i)(?:^|/)[^/]*(?:data|fixture|sample|snapshot|resource|cases)[^/]*/")


class RuleWeight(Row):
    """What a rule's finding is worth."""

    domain: str
    severity: Severity
    confidence: float


def readable(content: bytes) -> bytes:
    """A file in UTF-8, which ruff needs, from the encoding that it declares.

    Raises ValueError with the reason if line numbers would change.
    """
    from io import BytesIO
    from tokenize import detect_encoding

    if _LONE_RETURN.search(content):
        raise ValueError("its lines end with carriage returns alone")
    try:
        encoding = detect_encoding(BytesIO(content).readline)[0]
        if encoding not in ("utf-8", "utf-8-sig"):
            decoded = content.decode(encoding)
            if decoded.count("\n") != content.count(b"\n"):
                raise ValueError(f"in its encoding, {encoding}, it has other lines")
            return decoded.encode("utf-8", "replace")
    except (SyntaxError, LookupError, UnicodeError):  # Python would not run it either
        pass
    return content.decode("utf-8", "replace").encode()


def undecodable(content: bytes) -> tuple[int, str] | None:
    """The line at which Python cannot decode a file, and why; None if it can."""
    from io import BytesIO
    from tokenize import detect_encoding

    head = content.split(b"\n", 2)[:2]
    cookie = next((n for n, row in enumerate(head, 1) if _COOKIE.match(row)), 0)
    what = "in the encoding that it names" if cookie else "UTF-8, and names no other encoding"
    try:
        content.decode(detect_encoding(BytesIO(content).readline)[0] if cookie else "utf-8")
    except UnicodeError as error:
        line = content.count(b"\n", 0, getattr(error, "start", 0)) + 1
        return line, f"SyntaxError: it is not {what}"
    except (SyntaxError, LookupError):
        return cookie, "SyntaxError: the encoding that it names is not known, or not its own"
    return None


def rules() -> tuple[str, ...]:
    """The default rules, sorted."""
    return tuple(sorted(WEIGHTS))


def selected_rules(selectors: Iterable[str], names: Collection[str]) -> tuple[str, ...]:
    """Those of the rules ``names`` that ``selectors`` name: ``D103``, ``D1``, ``D`` or ``PL``.

    Raises ValueError with a selector that names none.
    """
    selected: set[str] = set()
    for selector in selectors:
        is_whole = selector.isalpha() and selector not in _FAMILIES  # D is neither DJ nor DTZ
        some = {
            rule
            for rule in names
            if rule.startswith(selector) and not (is_whole and _letters(rule) != selector)
        }
        if not selector or not some:
            raise ValueError(selector)
        selected |= some
    return tuple(sorted(selected))


def _letters(rule: str) -> str:
    letters = _LETTERS.match(rule)
    return letters[0] if letters else ""


def is_documentation(rule: str) -> bool:
    """Whether ``rule`` asks for documentation, or for another form of it."""
    return _DOMAINS.get(_letters(rule)) == "docs"


def is_universal(rule: str) -> bool:
    """Whether what ``rule`` finds is wrong in any code, so that no repository can deselect it."""
    weight = WEIGHTS.get(rule)
    is_high = weight is not None and weight.severity >= Severity.HIGH
    return is_high or rule == SYNTAX or rule in _EVERYWHERE


def command(program: str, chosen: Collection[str], *, heed_noqa: bool) -> tuple[str, ...]:
    """The command for the rules ``chosen``, without files and without a repository's settings.

    Unless ``heed_noqa``, it ignores ``noqa`` comments.
    """
    return (
        program, "check", "--isolated", "--no-cache", "--quiet", "--exit-zero",
        "--output-format", "sarif", "--target-version", "py314",
        "--select", ",".join(chosen), "--config", f"builtins = {list(_INJECTED)}",
        *(() if heed_noqa else ("--ignore-noqa",)), "--",
    )  # fmt: skip


def hint(rule: str, called: str) -> str:
    """The hint of a finding: the name of its rule."""
    if rule == SYNTAX:
        return "fix it; or exclude a file that is not Python with recursion.exclude"
    return f"{rule} {called}".strip()


def is_test(path: str) -> bool:
    """Whether a file is a test by its name."""
    return _TEST.search(path) is not None


def weigh(
    rule: str,
    path: str,
    message: str,
    lines: str,
    content: bytes,
    *,
    at: tuple[int, int] = (0, 0),
) -> RuleWeight | None:
    """The weight of a finding of ``rule`` in ``path``; None for one that is not reported.

    ``lines`` are the lines of its place, ``content`` is the whole file; ``at`` are the line and
    column (1-based) where it begins.
    """
    tested = is_test(path)
    if rule == SYNTAX:
        return _unreadable(path, lines, content)
    if rule in _OF_NAMES and _is_value(content, *at):
        return None
    weight = _weigh(rule, path, message, lines)
    if (
        weight
        and rule == "S608"
        and (not _SQL.match(lines[max(0, at[1] - 1) :]) or _is_raised(content, at[0]))
    ):
        return None if tested else weight.replace(severity=Severity.INFO)
    if weight is None or not tested or rule in _EVERYWHERE:
        return weight
    if rule in _UNBOUND and _is_run(path):
        return weight
    if weight.domain in ("security", "docs") or rule in _NOT_IN_TESTS:
        return None
    return weight.replace(severity=min(weight.severity, Severity.LOW))


def _is_run(path: str) -> bool:
    """Whether a runner imports this test, and it is no data of other tests."""
    return bool(_COLLECTED.search(path) and not _DATA.search(path))


def _unreadable(path: str, lines: str, content: bytes) -> RuleWeight:
    if is_test(path) and not _is_run(path):
        return _weight("quality", Severity.LOW)
    is_conflict, is_foreign = _kind(content)
    foreign = is_foreign or _IN_BRACES.search(lines)
    if not is_conflict and (foreign or _TEMPLATES.search(path) or _DATA.search(path)):
        return _weight("quality", Severity.MEDIUM)
    return _weight("quality", Severity.HIGH)


@lru_cache(maxsize=4)
def _kind(content: bytes) -> tuple[bool, bool]:
    """Whether there are conflict markers, and whether it is something else than Python 3.

    Cached: a tool may report thousands of syntax errors in a file.
    """
    return all(mark.search(content) for mark in _CONFLICT), bool(_FOREIGN.search(content))


def _is_raised(content: bytes, line: int) -> bool:
    """Whether the line, or one just above, raises or warns."""
    rows = _rows(content)[max(0, line - 3) : line]
    return bool(_RAISED.search(b" ".join(rows).decode("utf-8", "replace")))


@lru_cache(maxsize=4)
def _rows(content: bytes) -> list[bytes]:
    return content.split(b"\n")


def _is_value(content: bytes, line: int, column: int) -> bool:
    """Whether the place is a string in a ``Literal[…]``."""
    starts, values = _values(content)
    if not 0 < line <= len(starts):
        return False
    at = starts[line - 1] + column - 1
    before = bisect_right(values, at, key=lambda span: span[0])
    return before > 0 and at < values[before - 1][1]


@lru_cache(maxsize=4)
def _values(content: bytes) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """The offsets of lines, and the spans of strings in a ``Literal[…]``, with their quotes."""
    text = readable(content).decode()
    lengths = (len(line) + 1 for line in text.split("\n"))
    quoted = (
        _QUOTED.finditer(text, match.start(), match.end()) for match in _LITERAL.finditer(text)
    )
    return (
        tuple(accumulate(lengths, initial=0)),
        tuple(match.span() for some in quoted for match in some),
    )


def _weigh(rule: str, path: str, message: str, lines: str) -> RuleWeight | None:
    """The weight, whether it is in a test or not."""
    weight = WEIGHTS.get(rule)
    if weight is None:  # the settings name it
        return _weight(_DOMAINS.get(_letters(rule), "quality"), Severity.LOW)
    if rule in _OF_FORWARDERS and _FORWARDING.search(path):
        return None
    if rule in _PASSWORDS and not _SECRET.search(lines):
        return None
    if rule == "PLE2502" and not _REORDERING.search(lines):
        return weight.replace(severity=Severity.LOW)
    if rule == "F507" and "has 0 placeholder" in message:  # of a mapping, that is no error
        return weight.replace(severity=Severity.MEDIUM)
    if rule in _SHELLS and "seems safe" in message:
        return weight.replace(severity=Severity.INFO)
    return weight


def _weight(domain: str, severity: Severity) -> RuleWeight:
    return RuleWeight(domain, severity, _SURE[severity])


WEIGHTS: Final[Mapping[str, RuleWeight]] = {
    code: _weight(domain, Severity.from_label(severity))
    for (domain, severity), codes in _TABLE.items()
    for code in codes.split()
}
