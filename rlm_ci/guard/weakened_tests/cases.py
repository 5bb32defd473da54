"""What a file of tests holds: its cases, and what leaves some of them out."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Files of languages that are read by their statements, with a grammar.
READ_BY_STATEMENTS = (
    ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx", ".go", ".rs", ".java",
)  # fmt: skip
#: Names, numbers and texts; signs, blanks and the kind of quotes do not count.
_WORDS = (
    r"[A-Za-z_$]\w{0,200}|\d[\w.]{0,60}|\"((?:[^\"\\\n]|\\.){0,400})\"|'((?:[^'\\\n]|\\.){0,400})'"
)
_NUMBERS = r"\b\d[\d.]{0,60}"
#: A tag of Go that a build has unless somebody sets it: it is none of a system or a processor.
UNSET_TAG = r"!(?!(?:unix|race|cgo|linux|darwin|windows|\w*bsd|amd64|386|arm\w*)\b)\w+"
_COMMENT = r"(?m)^[ \t]*(?:#(?!\[)|//).*$"
#: Words that stand in most tests.
_COMMON = frozenset(
    (
        "self", "assert", "def", "async", "await", "return", "for", "in", "is", "not", "and", "or",
        "with", "as", "if", "else", "import", "from", "None", "True", "False", "pytest", "mark",
        "parametrize", "raises", "const", "let", "var", "expect", "test", "it", "func", "fn", "t",
        "testing", "T", "assert_eq", "void", "public", "null", "true", "false", "nil", "lambda",
        "assertEqual", "assertTrue", "assertEquals", "toBe", "toEqual",
    )
)  # fmt: skip


class Facts(Value):
    """What a case claims, its ways out, both with their lines, and its cases if it lists them."""

    claims: tuple[tuple[int, str], ...] = ()
    escapes: tuple[tuple[int, str], ...] = ()
    cases: int | None = None
    #: How often each loop around claims goes round, and what leaves out some of its cases.
    rounds: tuple[int | None, ...] = ()
    filters: tuple[tuple[int, str], ...] = ()
    #: What it takes its cases from, and what it calls and replaces itself.
    inputs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    replaced: tuple[tuple[int, str], ...] = ()


class Case(Value):
    """One test, or a function beside: its name with what is around it, its first line, its source.

    ``read`` gives its facts: of most tests of a file nobody asks for them.
    """

    name: str
    line: int
    text: str
    read: Callable[[], Facts]

    @cached_property
    def facts(self) -> Facts:
        return self.read()

    @property
    def last_name(self) -> str:
        return self.name.rpartition(".")[2]

    @cached_property
    def code(self) -> str:
        """Its source without lines that are comments."""
        return re.sub(_COMMENT, "", self.text)

    @cached_property
    def words(self) -> Mapping[str, int]:
        """The words of its source, each with how often it is there."""
        return words_of(self.code)

    @cached_property
    def size(self) -> int:
        return sum(self.words.values())

    @cached_property
    def body(self) -> str:
        """Its source without comments, blanks and its own name."""
        text = "".join(self.code.split())
        return text.replace(self.last_name, "", 1)


class Skip(Value):
    """What leaves a test out: on a line, of a test or class ("": the whole file)."""

    line: int
    text: str
    owner: str = ""
    has_reason: bool = False
    #: Whether it is about tests of other files.
    is_global: bool = False


class TestClass(Value):
    """A class in a file of tests."""

    __test__ = False

    bases: tuple[str, ...] = ()
    has_init: bool = False


class CaseFile(Value):
    """The tests of one file; ``flaw``: why it cannot be read."""

    cases: tuple[Case, ...] = ()
    skips: tuple[Skip, ...] = ()
    focused: tuple[tuple[int, str], ...] = ()
    #: Functions that are no tests.
    helpers: tuple[Case, ...] = ()
    flaw: str = ""
    classes: Mapping[str, TestClass] = {}
    #: The tables that cases are taken from.
    tables: str = ""


def words_of(text: str) -> Counter[str]:
    """The words of a text; literals begin with a digit or a quote."""
    counts: Counter[str] = Counter()
    for match in re.finditer(_WORDS, text):
        if match[0][0] in "\"'":
            literal = match[1] if match[1] is not None else match[2]
            counts[f'"{literal}'] += 1
            counts.update(re.findall(_NUMBERS, literal))  # as in the rows of a table
        else:
            counts[match[0]] += 1
    return counts


def is_literal(word: str) -> bool:
    return word[0] == '"' or word[0].isdigit()


def telling(words: Mapping[str, int]) -> frozenset[str]:
    """The words that tell one test from another."""
    return frozenset(word for word in words if word not in _COMMON)


def has_reason(text: str) -> bool:
    """Whether some text in quotes says why."""
    matches = re.finditer(r"\"([^\"]*)\"|'([^']*)'", text)
    return any(is_reason(match[1] or match[2] or "") for match in matches)


def is_reason(text: str) -> bool:
    """Whether these words say why: one word alone does not, nor the name of a file or a test, but
    the number of an issue does.
    """
    if re.fullmatch(r"[\w./:*-]*[./:*][\w./:*-]*", text) and "://" not in text:
        return False
    return len(re.findall(r"\w{2,}", text)) >= 2 or re.search(r"\w://|#\d", text) is not None
