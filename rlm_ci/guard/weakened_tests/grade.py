"""How a change makes the tests of a file weaker. They are read, never run.

Python is compared by its syntax tree, JavaScript, TypeScript, Go and Rust by their statements. A
new test, a new assertion and a new file are no weakening.
"""

from __future__ import annotations

import ast
import re
from collections import Counter

from rlm_ci.canary.forms import UnparsableError
from rlm_ci.canary.javascript.syntax import DIALECTS
from rlm_ci.canary.python.claims import catches
from rlm_ci.canary.python.source import Function, callee
from rlm_ci.canary.rust import reader
from rlm_ci.canary.splicing import encoded
from rlm_ci.source.grammars import parse, parts
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tree_sitter import Node

REMOVED = "test-removed"
SKIPPED = "test-skipped"
WEAKENED = "assertion-weakened"
PROTECTED = "protected-test"

_SKIPS = re.compile(r"(?i)(?:skip|xfail|expectedfailure|flaky)")
_SHOWN = 120


class Weakening(Value):
    """One way in which a test file got weaker; ``line`` is 1-based in the file on ``side``."""

    rule: str
    message: str
    line: int | None = None
    side: str = "new"


def grade(path: str, old: str, new: str) -> Iterable[Weakening]:
    """How ``new`` is weaker than ``old``, as the content of the test file at ``path``."""
    if path.endswith(".py"):
        return _python(old, new)
    for endings, language in _LANGUAGES:
        if path.endswith(endings):
            return _by_statements(language, path, old, new)
    return []


def _more(one: list[tuple[int, str]], other: list[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """The texts that ``one`` has more often than ``other``, with their lines, the last first."""
    surplus = Counter(text for _, text in one)
    surplus.subtract(text for _, text in other)
    for line, text in reversed(one):
        if surplus[text] > 0:
            surplus[text] -= 1
            yield line, text


# ── Python ──


def _python(old: str, new: str) -> list[Weakening]:
    try:
        before = ast.parse(old)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [] if old == new else [Weakening(PROTECTED, "changes a test that cannot be read")]
    try:
        after = ast.parse(new)
        return list(_compared(before, after))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [Weakening(REMOVED, "the file is no longer valid Python, so none of it runs")]


def _compared(before: ast.Module, after: ast.Module) -> Iterator[Weakening]:
    old_tests, new_tests = dict(_tests(before.body)), dict(_tests(after.body))
    for name, test in old_tests.items():
        kept = new_tests.get(name)
        if kept is None:
            yield Weakening(REMOVED, f"{name} is gone", test.lineno, "old")
        else:
            yield from _weaker(name, test, kept)
    for line, text in _more(list(_skips(after)), list(_skips(before))):
        yield Weakening(SKIPPED, f"a test is left out: {text[:_SHOWN]}", line)


def _tests(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Function]]:
    """The test functions that are left when the module has run."""
    found: dict[str, tuple[str, Function]] = {}
    for node in body:
        if isinstance(node, Function):
            if node.name.startswith("test"):
                found[node.name] = (prefix + node.name, node)
        elif isinstance(node, ast.ClassDef):
            own = f"{prefix}{node.name}."
            found = {key: one for key, one in found.items() if not key.startswith(own)}
            found.update((name, (name, test)) for name, test in _tests(node.body, own))
        elif isinstance(node, ast.Assign | ast.Delete):
            for target in node.targets:
                found.pop(ast.unparse(target), None)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            found.update((test.name, (name, test)) for name, test in _tests(node.body, prefix))
    yield from found.values()


def _weaker(name: str, old: Function, new: Function) -> Iterator[Weakening]:
    for line, text in _more(_assertions(old), _assertions(new)):
        yield Weakening(WEAKENED, f"{name} no longer says: {text[:_SHOWN]}", line, "old")
    for line, what in _more(_escapes(new), _escapes(old)):
        yield Weakening(WEAKENED, f"{name} has a new {what}", line)
    if _cases(new) < _cases(old):
        yield Weakening(REMOVED, f"{name} has fewer cases than before", new.lineno)


def _assertions(function: Function) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(function):
        name = callee(node)
        if isinstance(node, ast.Assert):
            found.append((node.lineno, f"assert {ast.unparse(node.test)}"))
        elif name.lower().startswith("assert") or name in ("raises", "warns", "fail"):
            found.append((getattr(node, "lineno", 1), ast.unparse(node)))
    return found


def _escapes(function: Function) -> list[tuple[int, str]]:
    """Ways out of a test that let it pass."""
    found = []
    for node in ast.walk(function):
        if isinstance(node, ast.Return):
            found.append((node.lineno, "return"))
        elif isinstance(node, ast.ExceptHandler) and catches(node.type):
            found.append((node.lineno, "handler that catches the failure"))
        elif callee(node) == "suppress" and any(map(catches, getattr(node, "args", ()))):
            found.append((getattr(node, "lineno", 1), "suppress() around the failure"))
    return found


def _cases(function: Function) -> int:
    """How many cases the decorators list."""
    return sum(
        len(one.elts)
        for decorator in function.decorator_list
        if callee(decorator) == "parametrize" and isinstance(decorator, ast.Call)
        for one in decorator.args[1:]
        if isinstance(one, ast.List | ast.Tuple)
    )


def _skips(module: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(module):
        if isinstance(node, Function | ast.ClassDef):
            for decorator in node.decorator_list:
                if _SKIPS.search(text := ast.unparse(decorator)):
                    yield decorator.lineno, f"{node.name}: {text}"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            text = ast.unparse(node)
            if text.startswith(("__test__", "collect_ignore", "pytestmark", "load_tests")):
                yield node.lineno, text
        elif isinstance(node, ast.Expr | ast.Raise):
            called = node.exc if isinstance(node, ast.Raise) else node.value
            called = called.func if isinstance(called, ast.Call) else called
            last = getattr(called, "attr", getattr(called, "id", ""))
            if _SKIPS.search(last) or last in ("exit", "_exit", "Exit"):
                yield node.lineno, ast.unparse(node)


# ── languages that are read by their statements ──


class _Language(Value):
    """Patterns for the head of a test (its name is a group), for what skips it, for a claim."""

    head: re.Pattern[str]
    skip: re.Pattern[str]
    claim: re.Pattern[str]


def _by_statements(language: _Language, path: str, old: str, new: str) -> Iterator[Weakening]:
    before, after = _statements(path, old), _statements(path, new)
    if before is None or after is None:
        if old != new:
            yield Weakening(PROTECTED, "changes a test that cannot be read")
        return
    for line, name in _more(_heads(language, before), _heads(language, after)):
        yield Weakening(REMOVED, f"a test is gone: {name[:_SHOWN]}", line, "old")
    for line, text in _more(after, before):
        if language.skip.search(text):
            yield Weakening(SKIPPED, f"a test is left out: {text[:_SHOWN]}", line)
    for line, text in _more(before, after):
        if language.claim.search(text):
            yield Weakening(WEAKENED, f"an assertion is gone: {text[:_SHOWN]}", line, "old")


def _heads(language: _Language, statements: list[tuple[int, str]]) -> list[tuple[int, str]]:
    return [
        (line, one[one.lastindex or 0])
        for line, text in statements
        for one in language.head.finditer(text)
    ]


def _statements(path: str, text: str) -> list[tuple[int, str]] | None:
    """The statements of a file with their lines, however they are laid out; None: unreadable.

    A block is no part of its statement; what stands in it has the ``if`` around it in front. Of a
    source of Rust, only what stands in tests counts.
    """
    content = encoded(text)
    ending = path[path.rfind(".") :]
    trees = [parse(one, content) for one in _GRAMMARS[ending]]
    readable = [one for one in trees if one is not None]
    if not readable:
        return None
    root = min(readable, key=lambda one: one.has_error)
    found = list(_walked(root, content))
    if ending == ".rs" and "/tests/" not in f"/{path}":
        try:
            tests = reader.tests(path, text)
        except UnparsableError:
            return []
        kept = {line for one in tests for line in range(one.line, one.end + 1)}
        found = [one for one in found if one[0] in kept]
    return found


def _walked(root: Node, content: bytes) -> Iterator[tuple[int, str]]:
    found: list[tuple[int, list[str], list[str]]] = []
    waiting: list[tuple[Node, bool, list[str]]] = [(root, False, [])]
    while waiting:
        node, is_statement, words = waiting.pop()
        if is_statement:
            around, words = words, []
            found.append((node.start_point.row + 1, around, words))
        inside = [child for _, child in parts(node)]
        is_block = node.type in _BLOCKS
        if not inside or "comment" in node.type:
            word = content[node.start_byte : node.end_byte].decode("utf-8", "surrogateescape")
            if "comment" not in node.type or _PRAGMA.match(word):
                words.append(_WORDS.get(word, word))
            continue
        waiting += [
            (child, is_block and child.type not in _BLOCKS, words)
            for child in reversed(inside)
            if child.is_named or not is_block
        ]
    for line, around, words in found:
        if text := _joined(words):
            yield line, _joined([*around, *words]) if around[:1] == ["if"] else text


def _joined(words: list[str]) -> str:
    """Words without needless space, and without commas and semicolons that a formatter moves."""
    text = ""
    for word, following in zip(words, (*words[1:], ""), strict=False):
        if word == ";" or (word == "," and following in (")", "]", "}")):
            continue
        needs = text and (text[-1].isalnum() or text[-1] in "_$") and word[:1].isalnum()
        text += f" {word}" if needs else word
    return text


#: Comments that the Go compiler reads.
_PRAGMA = re.compile(r"//go:|// ?\+build")
#: Nodes that hold statements.
_BLOCKS = frozenset((
    "program", "source_file", "statement_block", "statement_list", "class_body", "block",
    "declaration_list",
))  # fmt: skip
#: What formatters and linters of JavaScript replace.
_WORDS = {"'": '"', "\\'": "'", "var": "let", "const": "let"}
_GRAMMARS = {**DIALECTS, ".go": ("Go",), ".rs": ("Rust",)}
_LANGUAGES = (
    (tuple(DIALECTS), _Language(
        re.compile(r"\b(?:it|test|specify)(?:\.\w{1,20}){0,3}\([\"`]([^\"`]{1,200})"),
        re.compile(r"\.(?:skip|only|todo|failing|fixme)\b|\b(?:x|f)(?:it|test|describe|context)\("
                   r"|\bpending\(|\.skipIf\(|\bprocess\.exit\("),
        re.compile(r"\bexpect\(|\bassert\b|\.should\b"
                   r"|\bt\.(?:is|deepEqual|throws|true|false|equal)\("),
    )),
    ((".go",), _Language(
        re.compile(r"^func ?(?:\([^)]{1,80}\))?((?:Test|Fuzz|Example)\w{0,200})\("),
        re.compile(r"\.Skip(?:Now|f)?\(|^//go:build|^// \+build|\btesting\.Short\(|\bos\.Exit\("),
        re.compile(r"\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(|\b(?:assert|require|is)\."),
    )),
    ((".rs",), _Language(
        re.compile(r"\bfn (\w{1,200})[(<]|\bmod (\w{1,200})"),
        re.compile(r"#\[(?:ignore|cfg\b(?!\(test\)))|#!\[cfg|process::exit\(|#\[cfg_attr"),
        re.compile(r"\b(?:debug_)?assert(?:_eq|_ne|_matches)?!|#\[should_panic|\bpanic!|unwrap_err\("),
    )),
)  # fmt: skip
