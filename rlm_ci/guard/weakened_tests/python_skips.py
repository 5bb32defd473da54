"""What leaves tests of Python out: marks, calls, assignments, and hooks of pytest and unittest."""

from __future__ import annotations

import ast
import re
from itertools import chain

from rlm_ci.guard.weakened_tests.cases import Skip, has_reason
from rlm_ci.source.python.claims import is_never, text_of
from rlm_ci.source.python.names import Function, callee
from rlm_ci.source.python.statements import BRANCHING, blocks
from rlm_ci.validators import test_file_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SKIPS = ("skip", "xfail", "expectedfailure")
_IGNORED = ("collect_ignore", "collect_ignore_glob")
_HOOK = "pytest_"
#: What a file must say somewhere, to leave a test out.
_MAY_SKIP = (*_SKIPS, *_IGNORED, _HOOK, "__test__", "load_tests", "exit", "quit")
_EXITS = ("pytest.exit", "os._exit", "sys.exit", "exit", "quit", "_exit")
#: Conditions under which a hook does not leave a test out by itself.
_CHOSEN = re.compile(r"^(?!not\b).*(?:option|getvalue)|\bsys\.|\bos\.name\b|platform|version")
#: What says of a test, or of all, that it passed.
_PASSES = {"outcome": ("'passed'", "'skipped'"), "exitstatus": ("0", "ExitCode.OK")}
#: The definition of a mark of this name.
_MARK = r"^[ \t]*{} = pytest\.mark\.\w+\((?:[^()]|\([^()]*\))*\)"
#: Options of pytest that a hook may set, and run fewer tests.
_OPTIONS = re.compile(
    r"\.option\.(?:keyword|markexpr|collectonly|deselect|ignore|ignore_glob|lf|file_or_dir)$"
    r"|\.args(?:\[.*\])?$"
)


def skips(text: str, module: ast.Module) -> Iterator[Skip]:
    if _has(text, _MAY_SKIP):
        for skip in _skips(module.body, ""):
            names = re.findall(r"\w*(?:skip|xfail)\w*", skip.text, re.IGNORECASE)
            marks = (re.search(_MARK.format(name), text, re.MULTILINE) for name in names)
            is_explained = any(has_reason(mark[0]) for mark in marks if mark)
            yield skip.replace(has_reason=True) if is_explained else skip


def _skips(body: Iterable[ast.stmt], owner: str, *, in_test: bool = False) -> Iterator[Skip]:
    """Of functions in a test only what is written for the test counts."""
    for node in body:
        if isinstance(node, Function | ast.ClassDef):
            name = node.name
            for decorator in node.decorator_list:
                if _has(text := text_of(decorator), _SKIPS):
                    yield _skip(decorator, text, name)
            if not owner and isinstance(node, Function):
                yield from _of_hook(node)
                name = "" if _is_for_all(node) else name
            if not in_test:
                yield from _skips(node.body, name, in_test=isinstance(node, Function))
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            yield from _assigned(node, owner)
        elif isinstance(node, ast.Expr | ast.Raise):
            yield from _called(node, owner)
        elif isinstance(node, BRANCHING) and not _is_main(node) and not is_never(node):
            last = getattr(node, "finalbody", None)  # how a forked process ends
            inside = chain.from_iterable(block for block in blocks(node) if block is not last)
            for skip in _skips(inside, owner, in_test=in_test):
                is_ignored = skip.text.startswith(_IGNORED) and isinstance(node, ast.If)
                yield skip.replace(has_reason=True) if is_ignored else skip


def _has(text: str, words: Iterable[str]) -> bool:
    """Whether one of the words is in the text, in letters of any case."""
    text = text.lower()
    return any(word in text for word in words)


def _assigned(node: ast.Assign | ast.AnnAssign | ast.AugAssign, owner: str) -> Iterator[Skip]:
    target = text_of(node.targets[0] if isinstance(node, ast.Assign) else node.target)
    if target in _IGNORED and node.value:
        yield from _ignored(target, node.value, owner)
        return
    text = text_of(node)
    is_off = isinstance(node.value, ast.Constant) and not node.value.value
    if target == "pytestmark" and _has(text, _SKIPS):
        yield _skip(node, text, owner)
    elif (target == "__test__" and is_off) or target == "load_tests":
        yield Skip(node.lineno, text, owner)


def _ignored(name: str, value: ast.expr, owner: str) -> Iterator[Skip]:
    """Each path by itself; of a file that is no test by its name nothing is told."""
    values = value.elts if isinstance(value, ast.List | ast.Tuple | ast.Set) else [value]
    for node in values:
        path = node.value if isinstance(node, ast.Constant) else None
        is_file = isinstance(path, str) and path.endswith(".py") and "*" not in path
        if not is_file or test_file_names.is_file(str(path)):
            yield Skip(node.lineno, f"{name}: {text_of(node)}", owner)


def _called(node: ast.Expr | ast.Raise, owner: str) -> Iterator[Skip]:
    call = node.exc if isinstance(node, ast.Raise) else node.value
    called = call.func if isinstance(call, ast.Call) else call
    last = getattr(called, "attr", getattr(called, "id", ""))
    if last == "importorskip":
        return
    target = text_of(called.value) if isinstance(called, ast.Attribute) else ""
    if target in _IGNORED and isinstance(call, ast.Call) and call.args:
        yield from _ignored(target, call.args[0], owner)
    elif _has(last, _SKIPS) or (called is not None and text_of(called) in _EXITS):
        yield _skip(node, text_of(node), owner)


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__main__" in text_of(node.test)


def _skip(node: ast.stmt | ast.expr, text: str, owner: str) -> Skip:
    return Skip(node.lineno, text, owner, has_reason(text))


# ── hooks ──


def _is_for_all(function: Function) -> bool:
    """Whether what it leaves out are other tests: a hook, or a fixture of all."""
    fixtures = (text_of(node) for node in function.decorator_list)
    return function.name.startswith(_HOOK) or any(
        "fixture" in fixture and "autouse=True" in fixture for fixture in fixtures
    )


def _of_hook(function: Function) -> Iterator[Skip]:
    if function.name == "load_tests":
        rows = _loads_nothing(function)
    elif function.name.startswith(_HOOK):
        rows = chain(
            _dropped(function, "items") if "modifyitems" in function.name else (),
            _verdicts(function) if "ignore_collect" in function.name else (),
            _stopped(function),
        )
    else:
        return
    for line, text in rows:
        yield Skip(line, f"{function.name}: {text}", is_global=True)


def _loads_nothing(function: Function) -> Iterator[tuple[int, str]]:
    """That ``load_tests`` looks at no test, or at some of them alone."""
    names = [arg.arg for arg in function.args.args[:2]]
    used = {
        node.id for node in ast.walk(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }  # fmt: skip
    if len(names) > 1 and used.isdisjoint(names):
        yield function.lineno, "loads no test"
    elif len(names) > 1:
        yield from _dropped(function, names[1])


def _dropped(function: Function, items: str) -> Iterator[tuple[int, str]]:
    """Statements by which a list of tests becomes shorter, but for those that a person chooses."""
    for node, conditions in _conditional(function.body):
        text = text_of(node)
        is_whole = isinstance(node, ast.Assign) and text_of(node.targets[0]) in (
            items,
            f"{items}[:]",
        )
        value = getattr(node, "value", None)
        is_shorter = (
            (is_whole and (_is_filtered(value) or text_of(value or node) in ("[]", "()")))
            or (callee(value) in ("remove", "clear") and text.startswith(f"{items}."))
            or (isinstance(node, ast.Delete) and text.startswith(f"del {items}["))
            or callee(value) == "pytest_deselected"
            or (isinstance(node, ast.Return) and value is not None and _filters(value, items))
        )
        if is_shorter and not any(_CHOSEN.search(condition) for condition in conditions):
            yield node.lineno, text


def _is_filtered(node: ast.AST | None) -> bool:
    is_listed = isinstance(node, ast.ListComp | ast.GeneratorExp)
    if is_listed and isinstance(node, ast.ListComp | ast.GeneratorExp):
        return any(generator.ifs for generator in node.generators)
    inner = node.args if isinstance(node, ast.Call) else []
    is_copy = callee(node) in ("list", "tuple")
    return callee(node) == "filter" or (is_copy and any(map(_is_filtered, inner)))


def _filters(value: ast.expr, items: str) -> bool:
    inner = [node for node in ast.walk(value) if _is_filtered(node)]
    return any(items in text_of(node) for node in inner)


def _verdicts(function: Function) -> Iterator[tuple[int, str]]:
    """That ``pytest_ignore_collect`` says yes, but where the system or a person decides."""
    for node, conditions in _conditional(function.body):
        if isinstance(node, ast.Return) and node.value is not None:
            is_no = isinstance(node.value, ast.Constant) and not node.value.value
            texts = [*conditions, text_of(node.value)]
            if not is_no and not any(_CHOSEN.search(text) for text in texts):
                yield node.lineno, " and ".join([*conditions, text_of(node)])


def _stopped(function: Function) -> Iterator[tuple[int, str]]:
    """That a hook makes a run, or a test, pass."""
    for node, _ in _conditional(function.body):
        if isinstance(node, ast.Assign):
            target, value = text_of(node.targets[0]), text_of(node.value)
            is_set = _OPTIONS.search(target) and function.name.startswith("pytest_c")
            if is_set or value in _PASSES.get(target.rpartition(".")[2], ()):
                yield node.lineno, text_of(node)
    last = function.body[-1]
    is_done = isinstance(last, ast.Return) and text_of(last) == "return True"
    is_short = not any(isinstance(child, ast.Call) for child in ast.walk(function))
    if is_done and is_short and ("pyfunc_call" in function.name or "protocol" in function.name):
        yield last.lineno, "runs no test"


def _conditional(body: Iterable[ast.stmt]) -> Iterator[tuple[ast.stmt, list[str]]]:
    """The statements that may run, each with the conditions that it stands under."""
    for node in body:
        yield node, []
        if isinstance(node, BRANCHING) and not is_never(node):
            for block in blocks(node):
                outer = list[str]()
                if isinstance(node, ast.If) and block is node.body:
                    outer = [text_of(node.test)]
                for child, conditions in _conditional(block):
                    yield child, [*outer, *conditions]
