"""The tests of a file of Python, by its syntax tree."""

from __future__ import annotations

import ast
import warnings
from functools import partial

from rlm_ci.guard.weakened_tests.cases import Case, CaseFile, Facts, Skip, has_reason
from rlm_ci.source.python.calls import Function, callee, catches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BROKEN = (SyntaxError, ValueError, RecursionError, MemoryError)
_SKIPS = ("skip", "xfail", "expectedfailure")
#: Assignments by which a module, a class or a conftest leaves tests out.
_LEAVES_OUT = ("__test__", "collect_ignore", "load_tests")
#: What a file must say somewhere, to leave a test out.
_MAY_SKIP = (*_SKIPS, *_LEAVES_OUT, "exit", "quit")
_EXITS = ("pytest.exit", "os._exit", "sys.exit", "exit", "quit", "_exit")
_COMPOUND = (ast.If, ast.Try, ast.With, ast.For, ast.While, ast.AsyncWith, ast.AsyncFor)


def read(text: str) -> CaseFile:
    """The tests of a file; with a flaw, if it is no Python of this version."""
    try:
        with warnings.catch_warnings():  # its warnings are for its owner
            warnings.simplefilter("ignore")
            module = ast.parse(text)
        lines = text.split("\n")
        tests, helpers = (
            tuple(
                Case(name, node.lineno, _source(lines, node), partial(_facts, node))
                for name, node in functions
            )
            for functions in (_tests(module.body), _helpers(module.body))
        )
        skips = tuple(_skips(module.body, "")) if _has(text, _MAY_SKIP) else ()
        return CaseFile(tests, skips, helpers=helpers)
    except _BROKEN:
        return CaseFile(flaw="is no valid Python")


def _source(lines: list[str], node: Function) -> str:
    first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
    return "\n".join(lines[first - 1 : node.end_lineno])


def _tests(body: Iterable[ast.stmt], prefix: str = "") -> Iterator[tuple[str, Function]]:
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
                found.pop(_text(target), None)
        elif isinstance(node, ast.If | ast.Try | ast.With):
            inside = [*node.body, *getattr(node, "orelse", ())]
            found.update((test.name, (name, test)) for name, test in _tests(inside, prefix))
    yield from found.values()


def _helpers(body: Iterable[ast.stmt]) -> Iterator[tuple[str, Function]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _helpers(node.body)
        elif isinstance(node, Function) and not node.name.startswith("test"):
            yield node.name, node


# ── a test ──


def _facts(function: Function) -> Facts:
    return Facts(tuple(_claims(function)), tuple(_escapes(function)), _cases(function))


def _claims(function: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(function):
        name = callee(node)
        if isinstance(node, ast.Assert):
            yield node.lineno, f"assert {_text(node.test)}"
        elif isinstance(node, ast.Raise) and node.exc and "AssertionError" in _text(node.exc)[:40]:
            yield node.lineno, _text(node)
        elif name == "AssertionError":
            continue
        elif name == "fail" and isinstance(node, ast.Call):  # its message claims nothing
            yield node.lineno, f"{_text(node.func)}()"
        elif name.lower().startswith("assert") or name in ("raises", "warns", "fail"):
            yield getattr(node, "lineno", 1), _text(node)


def _escapes(function: Function) -> Iterator[tuple[int, str]]:
    """Ways out of a test that let it pass: those of functions in it are their own."""
    waiting: list[tuple[list[ast.stmt], bool]] = [(function.body, True)]
    while waiting:
        body, is_last = waiting.pop()
        for at, node in enumerate(body):
            ends = is_last and at == len(body) - 1
            if isinstance(node, ast.Return) and not ends:
                yield node.lineno, "return"
            if isinstance(node, ast.Try) and any(map(_has_claims, node.body)):
                for handler in node.handlers:
                    if catches(handler.type) and not any(map(_fails, handler.body)):
                        yield handler.lineno, "handler that catches the failure"
            if isinstance(node, ast.With) and any(map(_has_claims, node.body)):
                calls = [one.context_expr for one in node.items]
                for call in calls:
                    if callee(call) == "suppress" and any(map(catches, getattr(call, "args", ()))):
                        yield call.lineno, "suppress() around the failure"
            if isinstance(node, _COMPOUND):
                waiting.append((node.body, ends and not isinstance(node, ast.If)))
                waiting.append((getattr(node, "orelse", []), ends))
                waiting += [(one.body, ends) for one in getattr(node, "handlers", ())]
                waiting.append((getattr(node, "finalbody", []), ends))


def _has_claims(node: ast.AST) -> bool:
    return next(_claims(node), None) is not None


def _fails(node: ast.AST) -> bool:
    return any(isinstance(one, ast.Raise) or callee(one) == "fail" for one in ast.walk(node))


def _cases(function: Function) -> int | None:
    """How many cases the decorators list; None if one of them is computed."""
    found = 0
    for decorator in function.decorator_list:
        if callee(decorator) == "parametrize" and isinstance(decorator, ast.Call):
            given = decorator.args[1:] or [
                one.value for one in decorator.keywords if one.arg == "argvalues"
            ]
            for one in given[:1]:
                if not isinstance(one, ast.List | ast.Tuple | ast.Set):
                    return None
                found += len(one.elts)
    return found


def _text(node: ast.AST) -> str:
    try:
        return ast.unparse(node)
    except _BROKEN:  # a number of thousands of digits
        return f"a {type(node).__name__.lower()} that is too large"


# ── what leaves tests out ──


def _skips(body: Iterable[ast.stmt], owner: str, *, in_test: bool = False) -> Iterator[Skip]:
    """Of functions in a test only what is written for the test counts."""
    for node in body:
        if isinstance(node, Function | ast.ClassDef):
            name = node.name
            for decorator in node.decorator_list:
                if _has(text := _text(decorator), _SKIPS):
                    yield _skip(decorator.lineno, text, name)
            if not in_test:
                yield from _skips(node.body, name, in_test=isinstance(node, Function))
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            text = _text(node)
            marks = text.startswith("pytestmark") and _has(text, _SKIPS)
            if marks or text.startswith(_LEAVES_OUT):
                yield _skip(node.lineno, text, owner)
        elif isinstance(node, ast.Expr | ast.Raise):
            yield from _called(node, owner)
        elif isinstance(node, _COMPOUND) and not _is_main(node):
            inside = [*node.body, *getattr(node, "orelse", ())]
            inside += [one for part in getattr(node, "handlers", ()) for one in part.body]
            yield from _skips(inside, owner, in_test=in_test)


def _has(text: str, words: Iterable[str]) -> bool:
    """Whether one of the words is in the text, in letters of any case."""
    text = text.lower()
    return any(word in text for word in words)


def _called(node: ast.Expr | ast.Raise, owner: str) -> Iterator[Skip]:
    called = node.exc if isinstance(node, ast.Raise) else node.value
    called = called.func if isinstance(called, ast.Call) else called
    last = getattr(called, "attr", getattr(called, "id", ""))
    if last == "importorskip":
        return
    if _has(last, _SKIPS) or (called is not None and _text(called) in _EXITS):
        yield _skip(node.lineno, _text(node), owner)


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__main__" in _text(node.test)


def _skip(line: int, text: str, owner: str) -> Skip:
    return Skip(line, text, owner, has_reason(text))
