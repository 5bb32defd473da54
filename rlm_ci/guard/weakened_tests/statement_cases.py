"""The tests of a file of JavaScript, TypeScript, Go, Rust or Java, by its statements.

They are the same however a formatter lays them out.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import pairwise

from rlm_ci.canary.javascript.syntax import DIALECTS
from rlm_ci.canary.splicing import encoded
from rlm_ci.guard.weakened_tests.cases import Case, CaseFile, Facts, Skip, has_reason, is_reason
from rlm_ci.source.grammars import is_known, parse, parts
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tree_sitter import Node


class CodeStatement(Row):
    """A statement: its line (1-based), its bytes, the block that holds it, and its text."""

    line: int
    start: int
    end: int
    block: int
    text: str


class _Language(Value):
    """Patterns for the head of a test (its name is a group), for what skips it, for a claim."""

    head: re.Pattern[str]
    skip: re.Pattern[str]
    claim: re.Pattern[str]
    #: The head of a function that may be no test; its name is a group.
    function: re.Pattern[str]
    focus: re.Pattern[str] | None = None
    #: What belongs to the statement that follows.
    attribute: str = "\0"
    #: What makes a test of the statement that follows.
    marks: re.Pattern[str] | None = None


def read(path: str, text: str) -> CaseFile:
    """The tests of a file; with a flaw, if there is no grammar or its parser gives up."""
    language = _LANGUAGES[_ending(path)]
    content = encoded(text)
    grammars = _GRAMMARS[_ending(path)]
    if not any(map(is_known, grammars)):
        return CaseFile(flaw=f"the grammar of {grammars[0]} is not installed")
    trees = [tree for one in grammars if (tree := parse(one, content)) is not None]
    if not trees:
        return CaseFile(flaw="cannot be parsed")
    root = min(trees, key=lambda one: one.has_error)
    found = list(_statements(root, content))
    cases = list(_cases(language, found, content))
    spans = [(start, end, case) for start, end, case in cases]
    is_source = _ending(path) == ".rs" and "/tests/" not in f"/{path}"
    skips, focused = [], []
    lines = text.split("\n")
    for one in found:
        owner = _owner(spans, one)
        if is_source and owner is None and not one.text.startswith("#!["):
            continue
        if language.skip.search(one.text):
            near = lines[max(0, one.line - 2) : one.line]
            head = language.head.search(one.text)
            said = one.text.replace(head[head.lastindex or 0], "") if head else one.text
            told = has_reason(said) or any(is_reason(_comment(line)) for line in near)
            name = owner.last_name if owner else ""
            skips.append(Skip(one.line, one.text, name, told))
        if language.focus and language.focus.search(one.text):
            focused.append((one.line, one.text))
    helpers = () if is_source else tuple(_helpers(language, found, spans, content))
    return CaseFile(tuple(case for *_, case in cases), tuple(skips), tuple(focused), helpers)


def _ending(path: str) -> str:
    return path[path.rfind(".") :]


def _comment(line: str) -> str:
    at = line.find("//")
    return "" if at < 0 or _PRAGMA.match(line, at) else line[at:]


def _owner(spans: Iterable[tuple[int, int, Case]], one: CodeStatement) -> Case | None:
    """The innermost test that a statement stands in."""
    around = [span for span in spans if span[0] <= one.start < span[1]]
    return min(around, key=lambda span: span[1] - span[0])[2] if around else None


def _cases(
    language: _Language, found: Sequence[CodeStatement], content: bytes
) -> Iterator[tuple[int, int, Case]]:
    """The tests, each with its first and last byte."""
    heads = []
    for at, one in enumerate(found):
        first = at
        while first and found[first - 1].text.startswith(language.attribute):
            first -= 1
        if language.marks and not any(language.marks.search(x.text) for x in found[first : at + 1]):
            continue
        heads += [
            (found[first].start, one.end, head[head.lastindex or 0], one.line)
            for head in language.head.finditer(one.text)
        ]
    for start, end, name, line in heads:
        inner = [(a, b) for a, b, *_ in heads if start <= a and b <= end and (a, b) != (start, end)]
        own = [
            one
            for one in found
            if start <= one.start < end and not any(a <= one.start < b for a, b in inner)
        ]
        text = content[start:end].decode("utf-8", "replace")
        yield start, end, Case(name, line, text, partial(_facts, language, own))


def _helpers(
    language: _Language,
    found: Sequence[CodeStatement],
    tests: Sequence[tuple[int, int, Case]],
    content: bytes,
) -> Iterator[Case]:
    """The functions that are no tests, nor in one, nor in another."""
    end = 0
    for one in found:
        head = language.function.search(one.text) if one.start >= end else None
        if not head or _owner(tests, one):
            continue
        end = one.end
        own = [inner for inner in found if one.start <= inner.start < end]
        text = content[one.start : end].decode("utf-8", "replace")
        yield Case(head[head.lastindex or 0], one.line, text, partial(_facts, language, own))


def _facts(language: _Language, statements: Sequence[CodeStatement]) -> Facts:
    escapes = []
    for one, following in pairwise(statements):
        if one.text == "return" and one.block == following.block:
            escapes.append((one.line, "return"))
    claims = [
        (one.line, _MESSAGE.sub(r"\1()", one.text))
        for one in statements
        if language.claim.search(one.text)
    ]
    return Facts(tuple(claims), tuple(escapes))


def _statements(root: Node, content: bytes) -> Iterator[CodeStatement]:
    """The statements, in the order of the text.

    A block is no part of its statement; what stands in it has the ``if`` around it in front.
    """
    found: list[tuple[Node, int, list[str], list[str]]] = []
    waiting: list[tuple[Node, int, list[str]]] = [(root, 0, [])]
    while waiting:
        node, block, words = waiting.pop()
        if block:
            around, words = words, []
            found.append((node, block, around, words))
        inside = [child for _, child in parts(node)]
        is_block = node.type in _BLOCKS
        if not inside or "comment" in node.type:
            word = content[node.start_byte : node.end_byte].decode("utf-8", "surrogateescape")
            if "comment" not in node.type or _PRAGMA.match(word):
                words.append(_WORDS.get(word, word))
            continue
        waiting += [
            (child, node.id if is_block and child.type not in _BLOCKS else 0, words)
            for child in reversed(inside)
            if child.is_named or not is_block
        ]
    for node, block, around, words in found:
        if text := _joined(words):
            text = _joined([*around, *words]) if around[:1] == ["if"] else text
            yield CodeStatement(
                node.start_point.row + 1, node.start_byte, node.end_byte, block, text
            )


def _joined(words: list[str]) -> str:
    """Words without needless space, and without commas and semicolons that a formatter moves."""
    text = ""
    for word, following in zip(words, (*words[1:], ""), strict=False):
        if word == ";" or (word == "," and following in (")", "]", "}")):
            continue
        needs = text and (text[-1].isalnum() or text[-1] in "_$") and word[:1].isalnum()
        text += f" {word}" if needs else word
    return text


#: What Go says of a failure.
_MESSAGE = re.compile(r"(\bt\.(?:Error|Fatal)f?)\(.*\)$", re.DOTALL)
#: Comments that the Go compiler reads.
_PRAGMA = re.compile(r"//go:|// ?\+build")
#: Nodes that hold statements.
_BLOCKS = frozenset((
    "program", "source_file", "statement_block", "statement_list", "class_body", "block",
    "declaration_list",
))  # fmt: skip
#: What formatters and linters of JavaScript replace.
_WORDS = {"'": '"', "\\'": "'", "var": "let", "const": "let"}
_GRAMMARS = {**DIALECTS, ".go": ("Go",), ".rs": ("Rust",), ".java": ("Java",)}
_CALLED = r"(?:it|test|specify)(?:\.\w{1,20}){0,3}(?:\((?:[^()]|\([^()]*\))*\))?"
_NAMED = r"\((?:\"([^\"]{1,200})|'([^']{1,200})|`([^`]{1,200}))"
#: Functions of one's own that make tests are given another function.
_OWN = rf"\b[a-z]\w{{0,60}}Tests?{_NAMED}(?=[^;]{{0,2000}}(?:=>|\bfunction\b))"
_SCRIPT = _Language(
    re.compile(rf"\b(?:x|f)?{_CALLED}{_NAMED}|{_OWN}"),
    re.compile(r"\.(?:skip|todo|failing|fixme)\b|\bx(?:it|test|describe|context)\("
               r"|\bpending\(|\.skipIf\(|\bprocess\.exit\("),
    re.compile(r"\bexpect\w{0,20}\(|\bassert\b|\.should\b|\bt\.(?:is|not|like|unlike|true|false|truthy"
               r"|falsy|ok|notOk|equals?|same|match|regex|notRegex|snapshot|fail"
               r"|(?:not)?(?:[dD]eepEqual|[tT]hrows(?:Async)?)|rejects|resolves)\("),
    re.compile(r"\bfunction\*? ?(\w{1,200})\(|^(?:export )?let (\w{1,200})(?::[^=]{1,200})?="
               r"(?=.{0,2000}(?:=>|\bfunction\b))"),
    re.compile(r"\b(?:it|test|describe|context|suite|specify)\.only\b|\bf(?:it|describe)\("),
)  # fmt: skip
_LANGUAGES = dict.fromkeys(DIALECTS, _SCRIPT) | {
    ".go": _Language(
        re.compile(r"^func ?(?:\([^)]{1,80}\))?((?:Test|Fuzz|Example)\w{0,200})\("),
        re.compile(r"\.Skip(?:Now|f)?\(|^//go:build|^// \+build|\btesting\.Short\(|\bos\.Exit\("),
        re.compile(r"\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(|\b(?:assert|require|is)\."),
        re.compile(r"^func ?(?:\([^)]{1,80}\))?(\w{1,200})[(\[]"),
        re.compile(r"\bF(?:It|Describe|Context)\("),
    ),
    ".rs": _Language(
        re.compile(r"\bfn (\w{1,200})[(<]"),
        re.compile(r"#\[(?:ignore|cfg\b(?!\(test\)))|#!\[cfg\b(?!\(test\))|process::exit\("
                   r"|#\[cfg_attr"),
        re.compile(r"\b(?:debug_)?assert(?:_eq|_ne|_matches)?!|#\[should_panic|\bpanic!"
                   r"|unwrap_err\("),
        re.compile(r"\bfn (\w{1,200})[(<]"),
        attribute="#[",
        marks=re.compile(r"^#\[(?:\w+::){0,3}(?:test|rstest|test_case)\b|#\[test\]"),
    ),
    ".java": _Language(
        re.compile(r"@(?:\w+\.)*(?:\w*Test|TestFactory|TestTemplate)\b.{0,400}?\b(\w{1,200})\("
                   r"(?!.{0,400}@\w*Test)|^public void (test\w{0,200})\("),
        re.compile(r"@(?:Disabled\w*|Ignore|EnabledIf\w*)\b|\bassume(?:True|False|That)\("
                   r"|\bSystem\.exit\("),
        re.compile(r"\bassert\w{0,40}\(|\bverify\w{0,40}\(|\bfail\(|\bexpected ?=|\bassert "),
        re.compile(r"^(?:(?:public|private|protected|static|final) ){0,4}[\w<>\[\]]{1,80} "
                   r"(\w{1,200})\("),
    ),
}  # fmt: skip
