"""What a test of Python claims, and its ways out."""

from __future__ import annotations

import ast
from collections import deque

from rlm_ci.source.python.calls import Function, callee, catches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: What a number of thousands of digits, and the like, raise.
BROKEN = (SyntaxError, ValueError, RecursionError, MemoryError)
COMPOUND = (ast.If, ast.Try, ast.With, ast.For, ast.While, ast.AsyncWith, ast.AsyncFor)
_ALWAYS = "assert True"
#: What runs behind these never does; a way out of the whole test is an escape by itself.
_ENDS = (ast.Continue, ast.Break)
_EMPTY = frozenset(("[]", "()", "{}", "''", "set()", "range(0)", "iter([])", "iter(())"))


def text_of(node: ast.AST) -> str:
    try:
        return ast.unparse(node)
    except BROKEN:
        return f"a {type(node).__name__.lower()} that is too large"


def claims(function: ast.AST) -> Iterator[tuple[int, str]]:
    """The claims that run, each with its line."""
    seen = set[int]()
    for node in reached(function):
        name = callee(node)
        if id(node) in seen or name == "AssertionError":
            continue
        if isinstance(node, ast.Try) and (failing := _expected(node)):
            seen.update(id(child) for child in ast.walk(failing))
            yield node.lineno, f"raises({text_of(node.handlers[0].type or node)})"
        elif isinstance(node, ast.Assert):
            is_vain = always_true(node.test)
            yield node.lineno, _ALWAYS if is_vain else f"assert {text_of(node.test)}"
        elif (
            isinstance(node, ast.Raise) and node.exc and "AssertionError" in text_of(node.exc)[:40]
        ):
            yield node.lineno, text_of(node)
        elif not isinstance(node, ast.Call):
            continue
        elif name == "fail":  # its message claims nothing
            yield node.lineno, f"{text_of(node.func)}()"
        elif name in ("assertTrue", "assert_") and node.args and always_true(node.args[0]):
            yield node.lineno, _ALWAYS
        elif name.lower().startswith("assert") or name in ("raises", "warns"):
            yield node.lineno, text_of(node)


def reached(function: ast.AST) -> Iterable[ast.AST]:
    """The nodes in it without those that can never run."""
    nodes = list(ast.walk(function))
    inner = [node for node in nodes if isinstance(node, Function) and node is not function]
    names = {node.id for node in nodes if inner and isinstance(node, ast.Name)}
    uncalled = {id(node) for node in inner if node.name not in names and not node.decorator_list}
    if not uncalled and not any(
        isinstance(node, _ENDS) or is_never(node) or _is_always(node) for node in nodes
    ):
        return nodes
    live, waiting = list[ast.AST](), deque([function])
    while waiting:
        node = waiting.popleft()
        if id(node) not in uncalled:
            live.append(node)
            waiting.extend(_inside(node))
    return live


def _inside(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield value
        elif isinstance(value, list) and not (
            (name == "body" and is_never(node)) or (name == "orelse" and _is_always(node))
        ):
            for child in value:
                if isinstance(child, ast.AST):
                    yield child
                if isinstance(child, _ENDS):
                    break


def is_never(node: ast.AST) -> bool:
    """Whether the body of a statement never runs."""
    if isinstance(node, ast.If | ast.While):
        is_false = isinstance(node.test, ast.Constant) and not node.test.value
        last = getattr(node.test, "attr", getattr(node.test, "id", ""))
        return is_false or last == "TYPE_CHECKING"
    return (
        isinstance(node, ast.For | ast.AsyncFor)
        and not isinstance(node.iter, ast.Name | ast.Attribute)
        and text_of(node.iter) in _EMPTY
    )


def _is_always(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and always_true(node.test)


def always_true(node: ast.AST) -> bool:
    """Whether a condition holds whatever is tested."""
    if isinstance(node, ast.Constant):
        return bool(node.value)
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(not isinstance(element, ast.Starred) for element in node.elts)
    if isinstance(node, ast.BoolOp):
        every = map(always_true, node.values)
        return any(every) if isinstance(node.op, ast.Or) else all(every)
    if isinstance(node, ast.JoinedStr):
        return any(map(always_true, node.values))
    return isinstance(node, ast.Lambda | ast.GeneratorExp)


def _expected(node: ast.Try) -> ast.stmt | None:
    """What fails where ``try`` raises nothing: it stands for ``raises()``."""
    if len(node.handlers) != 1 or node.handlers[0].type is None:
        return None
    last = (node.orelse or node.body)[-1]
    if isinstance(last, ast.Raise):
        is_failing = "AssertionError" in text_of(last)[:40]
    else:
        is_failing = isinstance(last, ast.Expr) and callee(last.value) == "fail"
        is_failing = is_failing or (isinstance(last, ast.Assert) and text_of(last.test) == "False")
    return last if is_failing and (node.orelse or not catches(node.handlers[0].type)) else None


def escapes(function: Function) -> Iterator[tuple[int, str]]:
    """Ways out of a test that let it pass: those of functions in it are their own."""
    fails_at_last = _fails(function.body[-1]) and not isinstance(function.body[-1], COMPOUND)
    waiting: list[tuple[list[ast.stmt], bool]] = [(function.body, True)]
    while waiting:
        body, is_last = waiting.pop()
        for at, node in enumerate(body):
            ends = is_last and at == len(body) - 1
            if isinstance(node, ast.Return) and not ends and not fails_at_last:
                yield node.lineno, "return"
            if isinstance(node, ast.Try) and any(map(has_claims, node.body)):
                for handler in node.handlers:
                    if catches(handler.type) and not any(map(_fails, handler.body)):
                        yield handler.lineno, "handler that catches the failure"
            if isinstance(node, ast.With) and any(map(has_claims, node.body)):
                calls = [item.context_expr for item in node.items]
                for call in calls:
                    if callee(call) == "suppress" and any(map(catches, getattr(call, "args", ()))):
                        yield call.lineno, "suppress() around the failure"
            if isinstance(node, COMPOUND):
                waiting.append((node.body, ends and not isinstance(node, ast.If)))
                waiting.append((getattr(node, "orelse", []), ends))
                waiting += [(handler.body, ends) for handler in getattr(node, "handlers", ())]
                waiting.append((getattr(node, "finalbody", []), ends))


def has_claims(node: ast.AST) -> bool:
    return next(claims(node), None) is not None


def _fails(node: ast.AST) -> bool:
    return any(isinstance(child, ast.Raise) or callee(child) == "fail" for child in ast.walk(node))


def replaced(function: ast.AST) -> Iterator[tuple[int, str]]:
    """What a test calls for its claims, and replaces itself: with the line where it does."""
    patched = dict(_patched(function))
    if not patched:
        return
    nodes = reached(function)
    claimed = [
        node for node in nodes if isinstance(node, ast.Assert) or callee(node).startswith("assert")
    ]
    names = {part.id for node in claimed for part in ast.walk(node) if isinstance(part, ast.Name)}
    claimed += [
        node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
    ]
    called = {_last_two(text_of(call.func)) for node in claimed for call in _calls(node)}
    yield from ((line, name) for name, line in patched.items() if name in called)


def _patched(function: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            if isinstance(node.value, ast.Lambda) or callee(node.value).endswith("Mock"):
                yield _last_two(text_of(node.targets[0])), node.lineno
        elif isinstance(node, ast.Call) and not any(
            keyword.arg == "wraps" for keyword in node.keywords
        ):
            words = [arg.value if isinstance(arg, ast.Constant) else None for arg in node.args]
            text = text_of(node.func)
            is_of = text.endswith(("setattr", "patch.object")) and len(words) > 1
            if is_of and isinstance(words[1], str):
                yield _last_two(f"{text_of(node.args[0])}.{words[1]}"), node.lineno
            if text.endswith(("setattr", "patch")) and words and isinstance(words[0], str):
                yield _last_two(words[0]), node.lineno


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (child for child in ast.walk(node) if isinstance(child, ast.Call))


def _last_two(name: str) -> str:
    return ".".join(name.split(".")[-2:])
