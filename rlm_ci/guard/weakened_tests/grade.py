"""What was done to a test: nothing, more of it, or less. Read, never run.

Python is judged by its syntax tree, JavaScript, TypeScript, Go and Rust by their statements. Only
what makes tests weaker is told: a new test, a new assertion, a new file are welcome.
"""

from __future__ import annotations

import ast
import re
from collections import Counter

from rlm_ci.canary.forms import UnparsableError
from rlm_ci.canary.rust import reader
from rlm_ci.guard.weakened_tests import statements
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    Function = ast.FunctionDef | ast.AsyncFunctionDef

REMOVED = "test-removed"
SKIPPED = "test-skipped"
WEAKENED = "assertion-weakened"
PROTECTED = "protected-test"

_SKIPS = re.compile(r"(?i)(?:skip|xfail|expectedfailure|flaky)")
_BROAD = frozenset({"", "Exception", "BaseException", "AssertionError"})
_SHOWN = 120


class Weakening(Value):
    """One way in which a test file got weaker; ``line`` is 1-based in the file on ``side``."""

    rule: str
    message: str
    line: int | None = None
    side: str = "new"


def grade(path: str, old: str, new: str) -> Iterable[Weakening]:
    """How ``new`` is weaker than ``old``, as the content of the test file at ``path``.

    Of a source of Rust, only the tests in it count.
    """
    ending = path.rpartition(".")[2].lower()
    if ending == "rs" and "/tests/" not in f"/{path}":
        old, new = _inline(path, old), _inline(path, new)
    if ending == "py":
        return _python(old, new)
    for endings, language in _LANGUAGES:
        if ending in endings:
            return language.grade(old, new)
    return []


def _inline(path: str, text: str) -> str:
    """A source of Rust with nothing but its tests in it, each in its line."""
    try:
        tests = reader.tests(path, text)
    except UnparsableError:
        return ""
    kept = {line for one in tests for line in range(one.line, one.end + 1)}
    lines = enumerate(text.split("\n"), 1)
    return "\n".join(line if number in kept else "" for number, line in lines)


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
    yield from _skipped(before, after)


def _tests(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Function]]:
    """The test functions that are left when the module has run: of two, the later one."""
    found: dict[str, tuple[str, Function]] = {}
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
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
    before, after = _assertions(old), _assertions(new)
    gone = Counter(text for text, _ in before) - Counter(text for text, _ in after)
    for text in gone:
        line = next(line for known, line in before if known == text)
        yield Weakening(WEAKENED, f"{name} no longer says: {text[:_SHOWN]}", line, "old")
    for what, lines in _escapes(new).items():
        if len(lines) > len(_escapes(old).get(what, ())):
            yield Weakening(WEAKENED, f"{name} has a new {what}", lines[-1])
    if _cases(new) < _cases(old):
        yield Weakening(REMOVED, f"{name} has fewer cases than before", new.lineno)


def _assertions(function: Function) -> list[tuple[str, int]]:
    """What a test claims, and where: statements, assert methods, expected errors."""
    found = []
    for node in ast.walk(function):
        if isinstance(node, ast.Assert):
            found.append((f"assert {ast.unparse(node.test)}", node.lineno))
        elif isinstance(node, ast.Call):
            called = node.func
            name = called.attr if isinstance(called, ast.Attribute) else ""
            name = called.id if isinstance(called, ast.Name) else name
            if name.lower().startswith("assert") or name in ("raises", "warns", "fail"):
                found.append((ast.unparse(node), node.lineno))
    return found


def _escapes(function: Function) -> dict[str, list[int]]:
    """Ways out of a test that let it pass, each with its lines."""
    found: dict[str, list[int]] = {}
    for node in ast.walk(function):
        what = ""
        if isinstance(node, ast.Return):
            what = "return"
        elif isinstance(node, ast.Assert) and _is_always_true(node.test):
            what = "assertion that always holds"
        elif isinstance(node, ast.ExceptHandler):
            broad = [part for part in _names(node.type) if part in _BROAD]
            what = "handler that catches the failure" if broad else ""
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("suppress"):
            broad = [part for one in node.args for part in _names(one) if part in _BROAD]
            what = "suppress() around the failure" if broad else ""
        if what:
            found.setdefault(what, []).append(node.lineno)  # type: ignore[attr-defined]
    return found


def _names(expression: ast.expr | None) -> list[str]:
    if isinstance(expression, ast.Tuple):
        return [ast.unparse(one).rpartition(".")[2] for one in expression.elts]
    return ["" if expression is None else ast.unparse(expression).rpartition(".")[2]]


def _is_always_true(test: ast.expr) -> bool:
    if isinstance(test, ast.Constant):
        return bool(test.value)
    if isinstance(test, ast.Tuple):
        return bool(test.elts)
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        return any(_is_always_true(one) for one in test.values)
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq | ast.Is):
        return ast.unparse(test.left) == ast.unparse(test.comparators[0])
    return False


def _cases(function: Function) -> int:
    """How many cases the decorators list."""
    lists = [
        one
        for decorator in function.decorator_list
        if "parametrize" in ast.unparse(decorator) and isinstance(decorator, ast.Call)
        for one in decorator.args[1:]
        if isinstance(one, ast.List | ast.Tuple)
    ]
    return sum(len(one.elts) for one in lists)


def _skipped(before: ast.Module, after: ast.Module) -> Iterator[Weakening]:
    old, new = Counter(text for text, _ in _skips(before)), list(_skips(after))
    more = Counter(text for text, _ in new) - old
    for text in more:
        line = next(line for known, line in reversed(new) if known == text)
        yield Weakening(SKIPPED, f"a test is left out: {text[:_SHOWN]}", line)


def _skips(module: ast.Module) -> Iterator[tuple[str, int]]:
    """Markers and calls that leave tests out."""
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for decorator in node.decorator_list:
                if _SKIPS.search(ast.unparse(decorator)):
                    yield f"{node.name}: {ast.unparse(decorator)}", decorator.lineno
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            text = ast.unparse(node)
            if text.startswith(("__test__", "collect_ignore", "pytestmark", "load_tests")):
                yield text, node.lineno
        elif isinstance(node, ast.Expr | ast.Raise):
            text = ast.unparse(node)
            if _is_skip(node):
                yield text, node.lineno


def _is_skip(node: ast.Expr | ast.Raise) -> bool:
    called = node.exc if isinstance(node, ast.Raise) else node.value
    called = called.func if isinstance(called, ast.Call) else called
    if called is None or not isinstance(called, ast.Name | ast.Attribute):
        return False
    last = ast.unparse(called).rpartition(".")[2]
    return bool(_SKIPS.search(last)) or last in ("exit", "_exit", "Exit")


# ── languages that are read by their statements ──


class _Language:
    """Patterns for the heads of tests, for what leaves one out, and for assertions."""

    def __init__(self, name: str, head: str, skip: str, claim: str, empty: str = r"(?!)") -> None:
        self._name = name
        self._head = re.compile(head)
        self._skip = re.compile(skip)
        self._claim = re.compile(claim)
        self._empty = re.compile(empty)

    def grade(self, old: str, new: str) -> Iterator[Weakening]:
        before = statements.statements(self._name, old)
        after = statements.statements(self._name, new)
        if [text for _, text in before] == [text for _, text in after]:
            return  # another layout, and nothing else
        for line, text in _more(_code(old), _code(new), self._heads):
            yield Weakening(REMOVED, f"a test is gone: {text[:_SHOWN]}", line, "old")
        for line, text in _more(after, before, lambda text: self._hits(self._skip, text)):
            yield Weakening(SKIPPED, f"a test is left out: {text[:_SHOWN]}", line)
        for line, text in _more(before, after, lambda text: self._hits(self._claim, text)):
            yield Weakening(WEAKENED, f"an assertion is gone: {text[:_SHOWN]}", line, "old")
        for line, text in _more(after, before, lambda text: self._hits(self._empty, text)):
            yield Weakening(WEAKENED, f"it always holds: {text[:_SHOWN]}", line)

    def _heads(self, text: str) -> list[str]:
        return [match.group(match.lastindex or 0) for match in self._head.finditer(text)]

    def _hits(self, pattern: re.Pattern[str], text: str) -> list[str]:
        return [text] if pattern.search(text) else []


def _code(text: str) -> list[tuple[int, str]]:
    """The lines of a source file, what is commented out by whole lines made blank."""
    lines, inside = [], False
    for line in text.split("\n"):
        stripped = line.strip()
        inside = inside or stripped.startswith("/*")
        is_note = stripped.startswith("//") and not stripped.startswith(("//go:", "// +build"))
        lines.append("" if inside or is_note else line)
        inside = inside and "*/" not in stripped
    return list(enumerate(lines, 1))


def _more(
    one: list[tuple[int, str]], other: list[tuple[int, str]], read: Callable[[str], list[str]]
) -> Iterator[tuple[int, str]]:
    """What ``read`` finds in the lines of ``one`` more often than in ``other``, with its line."""
    found = [(number, text) for number, line in one for text in read(line)]
    surplus = Counter(text for _, text in found)
    surplus.subtract(text for _, line in other for text in read(line))
    for number, text in reversed(found):
        if surplus[text] > 0:
            surplus[text] -= 1
            yield number, text


_LANGUAGES = (
    (("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts"), _Language(
        "js",
        r"\b(?:it|test|specify)(?:\.\w{1,20}){0,3}\s{0,4}\(\s{0,4}['\"`]([^'\"`]{1,200})",
        r"\.(?:skip|only|todo|failing|fixme)\b|\b(?:x|f)(?:it|test|describe|context)\s{0,4}\("
        r"|\bpending\(|\.skipIf\(|\bprocess\.exit\(",
        r"\bexpect\s{0,4}\(|\bassert\b|\.should\b|\bt\.(?:is|deepEqual|throws|true|false|equal)\(",
        r"expect\(\s{0,4}true\s{0,4}\)|assert(?:\.ok)?\(\s{0,4}true\s{0,4}\)",
    )),
    (("go",), _Language(
        "go",
        r"^func (?:\([^)\n]{1,80}\) )?((?:Test|Fuzz|Example)\w{0,200})\(",
        r"\.Skip(?:Now|f)?\(|^//go:build|^// \+build|\btesting\.Short\(|\bos\.Exit\(",
        r"\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(|\b(?:assert|require|is)\.",
    )),
    (("rs",), _Language(
        "rs",
        r"\bfn (\w{1,200})\s{0,4}[(<]|\bmod (\w{1,200})\s{0,4}[;{]",
        r"#\[(?:ignore|cfg\b(?!\(test\)))|#!\[cfg|process::exit\(|#\[cfg_attr",
        r"\b(?:debug_)?assert(?:_eq|_ne|_matches)?!|#\[should_panic|\bpanic!|unwrap_err\(",
        r"\bassert!\(\s{0,4}true\s{0,4}\)",
    )),
)  # fmt: skip
