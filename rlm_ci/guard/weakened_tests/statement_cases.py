"""The tests of a file of JavaScript, TypeScript, Go, Rust or Java, by its statements.

They are the same however a formatter lays them out.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property, partial
from itertools import pairwise, takewhile

from rlm_ci.canary.javascript.syntax import DIALECTS
from rlm_ci.canary.splicing import encoded
from rlm_ci.guard.weakened_tests import listed_cases
from rlm_ci.guard.weakened_tests.cases import (
    UNSET_TAG,
    Case,
    CaseFile,
    Facts,
    Skip,
    has_reason,
    is_reason,
)
from rlm_ci.source.go.tests import GoTests
from rlm_ci.source.grammars import is_known, parse, parts
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tree_sitter import Node


#: A pattern that is nowhere.
_NOTHING = re.compile(r"(?!)")


class CodeStatement(Row):
    """A statement: its line (1-based), its bytes, the block that holds it, and its text."""

    line: int
    start: int
    end: int
    block: int
    text: str


class _Language(Value):
    """Patterns for what skips a test, and for the head of a function; its name is a group.

    ``head`` and ``claim`` are those of a test and of a claim, where ``source`` does not read them.
    """

    skip: re.Pattern[str]
    function: re.Pattern[str]
    head: re.Pattern[str] = _NOTHING
    claim: re.Pattern[str] = _NOTHING
    focus: re.Pattern[str] | None = None
    #: What belongs to the statement that follows.
    attribute: str = "\0"
    #: What makes a test of the statement that follows.
    marks: re.Pattern[str] | None = None
    #: The parameter of a handler that catches a failed assertion.
    caught: re.Pattern[str] | None = None


class _Head(Row):
    """A test: its first and last byte, its name, and the line of that."""

    start: int
    end: int
    name: str
    line: int


class _Source:
    """A file, as its text and as its bytes, with its statements."""

    def __init__(self, path: str, text: str, content: bytes, root: Node) -> None:
        self.path, self.text, self.content = path, text, content
        self.ending = _ending(path)
        self.language = _LANGUAGES[self.ending]
        self.statements = list(_statements(root, content))
        self._tests = GoTests(content, root) if self.ending == ".go" else None

    def heads(self) -> list[_Head]:
        """The tests; not those in a function that nobody calls."""
        if self._tests is None:
            return list(_heads(self))
        return [
            _Head(
                test.node.start_byte, test.node.end_byte, test.name.rpartition("::")[2],
                test.node.start_point.row + 1,
            )
            for test in self._tests.functions
        ]  # fmt: skip

    @cached_property
    def mocks(self) -> list[re.Match[str]]:
        """The modules that stand-ins replace."""
        return list(_MOCKED.finditer(self.text))

    @cached_property
    def claims(self) -> frozenset[int]:
        """The first bytes of the statements that assert something."""
        if self._tests is None:
            return frozenset(
                statement.start
                for statement in self.statements
                if self.language.claim.search(statement.text)
            )
        starts = [statement.start for statement in self.statements]
        claims = set[int]()
        for call, _ in self._tests.assertions():
            at = bisect_right(starts, call.start_byte) - 1
            while at >= 0 and self.statements[at].end <= call.start_byte:
                at -= 1
            claims.update(starts[at : at + 1] if at >= 0 else ())
        return frozenset(claims)


def read(path: str, text: str) -> CaseFile:
    """The tests of a file; with a flaw, if there is no grammar or its parser gives up."""
    content = encoded(text)
    grammars = _GRAMMARS[_ending(path)]
    if not any(map(is_known, grammars)):
        return CaseFile(flaw=f"the grammar of {grammars[0]} is not installed")
    trees = [tree for grammar in grammars if (tree := parse(grammar, content)) is not None]
    if not trees:
        return CaseFile(flaw="cannot be parsed")
    root = min(trees, key=lambda node: node.has_error)
    source = _Source(path, text, content, root)
    statements, language = source.statements, source.language
    cases = list(_cases(source))
    is_source = _ending(path) == ".rs" and "/tests/" not in f"/{path}"
    skips, focused = list(_passing(statements)), []
    lines = text.split("\n")
    for statement, following in zip(statements, (*statements[1:], None), strict=False):
        owner = _owner(cases, statement)
        if owner is None and statement.text.startswith("#[") and not _is_group(following):
            continue
        if is_source and owner is None and not _GATE.match(statement.text):
            continue
        if language.skip.search(statement.text):
            nearby = [
                *lines[max(0, statement.line - 2) : statement.line],
                *_above(lines, statement.line),
            ]
            head = language.head.search(statement.text)
            tail = statement.text.replace(head[head.lastindex or 0], "") if head else statement.text
            tail = re.sub(r"#\[should_panic.*", "", tail)  # what it expects is no reason
            excused = has_reason(tail) or any(is_reason(_comment(line)) for line in nearby)
            name = owner.last_name if owner else ""
            excused = excused or (
                owner is None and _GIVEN_REASON.search(statement.text) is not None
            )
            text_of_skip = _BRACKETS.sub(r"\1?", _ASSIGNED.sub("", statement.text))
            skips.append(Skip(statement.line, text_of_skip, name, excused))
        if language.focus and language.focus.search(statement.text):
            focused.append((statement.line, statement.text))
    helpers = () if is_source else tuple(_helpers(source, cases))
    outside = (
        code_statement.text
        for code_statement in statements
        if _TABLE.search(code_statement.text) and not _owner(cases, code_statement)
    )
    return CaseFile(
        tuple(case for *_, case in cases), tuple(skips), tuple(focused), helpers,
        tables="\n".join(outside),
    )  # fmt: skip


def _is_group(following: CodeStatement | None) -> bool:
    """Whether an attribute of Rust is about a module, or something that another attribute has."""
    return following is not None and re.match(r"#\[|(?:pub )?mod\b", following.text) is not None


def _passing(statements: Sequence[CodeStatement]) -> Iterator[Skip]:
    """What lets all tests of a package of Go pass: a ``TestMain`` that ends with 0 or runs none."""
    for main in statements:
        head = re.match(r"func TestMain\((\w+)\*testing\.M", main.text)
        if not head:
            continue
        inner = [statement for statement in statements if main.start < statement.start < main.end]
        if not any(re.search(rf"\b{head[1]}\b", statement.text) for statement in inner):
            yield Skip(main.line, "TestMain runs no test", is_global=True)
        for statement in inner:
            if statement.block == inner[0].block and re.fullmatch(
                r"(?:defer )?os\.Exit\(0\)", statement.text
            ):
                yield Skip(statement.line, f"TestMain: {statement.text}", is_global=True)


def _ending(path: str) -> str:
    return path[path.rfind(".") :]


def _comment(line: str) -> str:
    at = line.find("//")
    return "" if at < 0 or _PRAGMA.match(line, at) else line[at:]


def _above(lines: Sequence[str], number: int) -> Iterator[str]:
    """The lines of the comment above a line (1-based), above the ``if`` that opens its block, or
    above other attributes of Rust.
    """
    at = number - 1
    while at and re.match(r"\s*(?:if\b.*\{$|#\[)", lines[at - 1]):
        at -= 1
    return takewhile(lambda line: line.lstrip().startswith("//"), reversed(lines[:at]))


def _owner(spans: Iterable[tuple[int, int, Case]], statement: CodeStatement) -> Case | None:
    """The innermost test that a statement stands in."""
    around = [span for span in spans if span[0] <= statement.start < span[1]]
    return min(around, key=lambda span: span[1] - span[0])[2] if around else None


def _heads(source: _Source) -> Iterator[_Head]:
    """The tests by patterns, without those in a function that nobody calls."""
    language, statements = source.language, source.statements
    uncalled = list(_uncalled(source))
    for at, statement in enumerate(statements):
        first = at
        while first and statements[first - 1].text.startswith(language.attribute):
            first -= 1
        if language.marks and not any(
            language.marks.search(x.text) for x in statements[first : at + 1]
        ):
            continue
        for head in language.head.finditer(statement.text):
            if not any(start < statement.start < end for start, end in uncalled):
                name = head[head.lastindex or 0]
                yield _Head(statements[first].start, statement.end, name, statement.line)


def _cases(source: _Source) -> Iterator[tuple[int, int, Case]]:
    """The tests, each with its first and last byte."""
    heads = source.heads()
    spans = [(head.start, head.end) for head in heads]
    for head in heads:
        start, end = head.start, head.end
        inner = [(a, b) for a, b in spans if start <= a and b <= end and (a, b) != (start, end)]
        code_statements = [
            code_statement
            for code_statement in source.statements
            if start <= code_statement.start < end
            and not any(a <= code_statement.start < b for a, b in inner)
        ]
        text = source.content[start:end].decode("utf-8", "replace")
        facts = partial(_facts, source, code_statements, text)
        yield start, end, Case(head.name, head.line, text, facts)


def _uncalled(source: _Source) -> Iterator[tuple[int, int]]:
    """The functions of a script that no other line of it names."""
    if source.language is _SCRIPT:
        for statement in source.statements:
            head = re.match(r"(?:async )?function\*? ?(\w{1,200})\(", statement.text)
            if head and len(re.findall(rf"(?<![\w/\"'`-]){head[1]}\b", source.text)) == 1:
                yield statement.start, statement.end


def _helpers(source: _Source, tests: Sequence[tuple[int, int, Case]]) -> Iterator[Case]:
    """The functions that are no tests, nor in one, nor in another."""
    language, statements, end = source.language, source.statements, 0
    for statement in statements:
        head = language.function.search(statement.text) if statement.start >= end else None
        if not head or _owner(tests, statement):
            continue
        end = statement.end
        code_statements = [inner for inner in statements if statement.start <= inner.start < end]
        text = source.content[statement.start : end].decode("utf-8", "replace")
        name = head[head.lastindex or 0]
        yield Case(name, statement.line, text, partial(_facts, source, code_statements, text))


def _facts(source: _Source, statements: Sequence[CodeStatement], text: str) -> Facts:
    escapes = list(_caught(source.language, statements[0].line, text))
    for statement, following in pairwise(statements):
        if statement.text == "return" and statement.block == following.block:
            escapes.append((statement.line, "return"))
    claims = [
        (
            code_statement.line,
            _POLL.sub(
                r"expect(await \1)",
                _PROPERTY.sub(r"\1.\2).toBe(\3)", _MESSAGE.sub(r"\1()", code_statement.text)),
            ),
        )
        for code_statement in statements
        if code_statement.start in source.claims
    ]
    ending, line = source.ending, statements[0].line
    inputs, filters = listed_cases.sources(ending, text)
    return Facts(
        tuple(claims), tuple(escapes), listed_cases.count(ending, text, source.text),
        filters=tuple((line + at, what) for at, what in filters), inputs=tuple(inputs),
        replaced=tuple(_replaced(source, statements, claims)),
    )  # fmt: skip


def _replaced(
    source: _Source, statements: Sequence[CodeStatement], claims: Sequence[tuple[int, str]]
) -> Iterator[tuple[int, str]]:
    """What stands in for the functions that the claims call: in the test, or for all the file."""
    claimed = "\n".join(text for _, text in claims)
    for statement in statements:
        for match in _STAND_IN.finditer(statement.text):
            yield statement.line, f"{match[1] or ''}.{match[2] or match[3]}"
    for match in source.mocks:
        module = re.escape(match[2])
        if _ACTUAL.search(source.text[match.end() : listed_cases.end(source.text, match.start(1))]):
            continue
        for names in re.findall(_IMPORTED.format(module), source.text):
            for name in re.findall(r"\w+", names):
                called = re.search(rf"\b{name}(?:\.(\w+))?\(", claimed)
                if called:
                    line = source.text.count("\n", 0, match.start()) + 1
                    yield line, f"a mock of {match[2]}.{called[1] or name}"
                    return


def _caught(language: _Language, line: int, text: str) -> Iterator[tuple[int, str]]:
    """The handlers that catch a failed assertion, and neither fail nor assert themselves."""
    for match in _TRY.finditer(text) if language.caught else ():
        end = listed_cases.end(text, match.end() - 1)
        handler = re.match(r"\s*catch\s*(\([^)]*\))?\s*(?=\{)", text[end:])
        if not handler or not language.claim.search(text[match.end() : end]):
            continue
        if language.caught and not language.caught.search(handler[1] or ""):
            continue
        start = end + handler.end()
        body = text[start : listed_cases.end(text, start)]
        if not language.claim.search(body) and not _FAILS.search(body):
            where = line + text.count("\n", 0, start)
            yield where, "handler that catches the failure"


def _statements(root: Node, content: bytes) -> Iterator[CodeStatement]:
    """The statements, in the order of the text.

    A block is no part of its statement; what stands in it has the ``if`` around it in front.
    """
    rows: list[tuple[Node, int, list[str], list[str]]] = []
    waiting: list[tuple[Node, int, list[str]]] = [(root, 0, [])]
    while waiting:
        node, block, words = waiting.pop()
        if block:
            around, words = words, []
            rows.append((node, block, around, words))
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
    for node, block, around, words in rows:
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


#: What replaces one function, and all of a module; and what keeps the rest of it.
_STAND_IN = re.compile(
    r"\bspyOn\((\w+),\"(\w+)\"\)\.mock(?:Return|Resolved|Implementation)|\bwhen\(\w+\.(\w+)\("
)
_MOCKED = re.compile(
    r"\b(?:jest|vi|mock)\.(?:mock|doMock|module|unstable_mockModule)(\()\s*[\"'`](\.[^\"'`\n]*)[\"'`]"
)
_ACTUAL = re.compile(r"Actual\b|importOriginal|spy:\s*true")
_IMPORTED = (
    r"\b(?:import|const|let|var)\s+([^;\"'`=]*?)\s*(?:\bfrom|=\s*(?:await\s+)?(?:require|import)\s*\()"
    r"\s*[\"'`]{}[\"'`]"
)
#: What cases may be taken from, and modules that are replaced.
_TABLE = re.compile(r"=\s*(?:\[|map\[)|\b(?:jest|vi|mock)\.\w*(?:[mM]ock|module)\w*\(")
_TRY = re.compile(r"\btry\s*(?:\([^{}]*\)\s*)?\{")
#: What fails in a handler.
_FAILS = re.compile(r"\bthrow\b|\b(?:fail|done|reject|next|unreachable)\(")
#: An attribute in front of all tests of a source of Rust.
_GATE = re.compile(r"#!\[|#\[cfg\(all\((?=.*\btest\b)")
#: What Go says of a failure.
_MESSAGE = re.compile(r"(\bt\.(?:Error|Fatal))f?\(.*\)$", re.DOTALL)
#: Comments that the Go compiler reads.
_PRAGMA = re.compile(r"//go:|// ?\+build")
#: What a chosen function is called in JavaScript.
_ASSIGNED = re.compile(r"^let \w+=(?=.*\?.*:)")
#: Brackets around a condition, and a helper that is given the reason.
_BRACKETS = re.compile(r"^\(([^()]*)\)\?")
_GIVEN_REASON = re.compile(r"\.Skipf?\((?:msg|message|reason|why)\b")
#: Nodes that hold statements.
_BLOCKS = frozenset((
    "program", "source_file", "statement_block", "statement_list", "class_body", "block",
    "declaration_list",
))  # fmt: skip
#: What formatters and linters of JavaScript replace, and other names of a matcher.
_WORDS = {
    "'": '"', "\\'": "'", "var": "let", "const": "let",
    "toBeCalled": "toHaveBeenCalled", "toBeCalledTimes": "toHaveBeenCalledTimes",
    "toBeCalledWith": "toHaveBeenCalledWith", "lastCalledWith": "toHaveBeenLastCalledWith",
    "nthCalledWith": "toHaveBeenNthCalledWith", "toThrowError": "toThrow",
}  # fmt: skip
#: A claim on one property of an object.
_PROPERTY = re.compile(r"^(.*expect\(\w[\w.]{0,99})\)\.toMatchObject\(\{(\w+):([^{},]+)\}\)$")
#: A claim that is tried until it holds.
_POLL = re.compile(
    r"\bawait expect\.poll\((?:async ?)?\(\)=>(?:await )?(.*)\)(?=\.(?:not\.)?to[A-Z])"
)
_GRAMMARS = {**DIALECTS, ".go": ("Go",), ".rs": ("Rust",), ".java": ("Java",)}
_CALLED = r"(?:it|test|specify)(?:\.\w{1,20}){0,3}(?:\((?:[^()]|\([^()]*\))*\))?"
_NAMED = r"\((?:\"([^\"]{1,200})|'([^']{1,200})|`([^`]{1,200}))"
#: Functions of one's own that make tests are given another function.
_OWN = rf"\b[a-z]\w{{0,60}}Tests?{_NAMED}(?=[^;]{{0,2000}}(?:=>|\bfunction\b))"
_SCRIPT = _Language(
    re.compile(r"\.(?:skip|todo|failing|fixme)\b|\bx(?:it|test|describe|context)\("
               r"|(?<![.\w{,])pending\((?:\"|\))(?!.*=>)|\.(?:skip|run)If\(|\bprocess\.exit\("
               r"|^if ?\((?:false|0|!1|!true|process\.env|import\.meta\.env)"
               r"(?:(?!\b(?:it|test|describe)\b).){0,300}\b(?:it|test|describe)\b"
               r"(?!.*\b(?:it|test|describe)\b)"),
    re.compile(r"\bfunction\*? ?(\w{1,200})\(|^(?:export )?let (\w{1,200})(?::[^=]{1,200})?="
               r"(?=.{0,2000}(?:=>|\bfunction\b))"),
    re.compile(rf"\b(?:x|f)?{_CALLED}\)?{_NAMED}|{_OWN}"),
    re.compile(r"\bexpect(?:\.poll|\w{0,20})[(<]|\bassert(?:Type)?\b|\.should\b|\bt\.(?:is|not|like|unlike|true|false|truthy"
               r"|falsy|ok|notOk|equals?|same|match|regex|notRegex|snapshot|fail"
               r"|(?:not)?(?:[dD]eepEqual|[tT]hrows(?:Async)?)|rejects|resolves)\("),
    re.compile(r"\b(?:it|test|describe|context|suite|specify)\.only\b(?=[(.`])|\bf(?:it|describe)\("
               r"|\{only:true"),
    caught=re.compile(""),
)  # fmt: skip
_LANGUAGES = dict.fromkeys(DIALECTS, _SCRIPT) | {
    ".go": _Language(
        re.compile(r"\.Skip(?:Now|f)?\(|^//(?:go:build| ?\+build)\b"
                   rf"(?!(?:[\s,]|&&|go1\.\d+|{UNSET_TAG})+$)|\btesting\.Short\("),
        re.compile(r"^func ?(?:\([^)]{1,80}\))?(\w{1,200})[(\[]"),
        focus=re.compile(r"\bF(?:It|Describe|Context)\("),
    ),
    ".rs": _Language(
        re.compile(r"^#\[(?:ignore|should_panic)\b|process::exit\("
                   r"|^#!?\[cfg\((?!test\)|(?:not\()?miri\b)"
                   r"|^#!?\[cfg_attr\((?!(?:not\()?(?:miri\b|panic=)).*\bignore\b"),
        re.compile(r"\bfn (\w{1,200})[(<]"),
        re.compile(r"\bfn (\w{1,200})[(<]"),
        re.compile(r"\b(?:debug_)?assert(?:_eq|_ne|_matches)?!|#\[should_panic|\bpanic!"
                   r"|unwrap_err\("),
        attribute="#[",
        marks=re.compile(r"^#\[(?:\w+::){0,3}(?:test|rstest|test_case)\b|#\[test\]"),
    ),
    ".java": _Language(
        re.compile(r"@(?:\w+\.)*(?:Disabled\w*|Ignore|EnabledIf\w*)\b|\benabled=false"
                   r"|\bassume(?:True|False|That)\(|\bSystem\.exit\("),
        re.compile(r"^(?:(?:public|private|protected|static|final) ){0,4}[\w<>\[\]]{1,80} "
                   r"(\w{1,200})\("),
        re.compile(r"@(?:\w+\.)*(?:\w*Test|TestFactory|TestTemplate)\b.{0,400}?\b(\w{1,200})\("
                   r"(?!.{0,400}@\w*Test)|^public void (test\w{0,200})\("),
        re.compile(r"\bassert\w{0,40}\(|\bverify\w{0,40}\(|\bfail\(|\bexpected ?=|\bassert "),
        caught=re.compile(r"\b(?:Throwable|AssertionError|AssertionFailedError|Error)\b"),
    ),
}  # fmt: skip
