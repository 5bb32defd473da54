"""Where a file calls and raises: by its syntax, without running it."""

from __future__ import annotations

import ast
import re

from rlm_ci.source import grammars
from rlm_ci.source.outline import language_of
from rlm_ci.source.python import syntax
from rlm_ci.source.python.names import dotted, is_class
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tree_sitter import Node

#: The base of a call on the result of an expression.
EXPRESSION = "?"
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_LITERALS = (ast.Constant, ast.JoinedStr, ast.List, ast.Dict, ast.Set, ast.Tuple, ast.ListComp)
#: Characters of a callee, and of what is raised, that are read.
_LONGEST = 200
_NAME = re.compile(r"[A-Za-z_][\w.]{0,119}")
#: Kinds of nodes that call, and the fields with what they call and what that belongs to.
_CALLS = frozenset((
    "call", "call_expression", "function_call_expression", "invocation_expression",
    "macro_invocation", "member_call_expression", "method_invocation", "new_expression",
    "nullsafe_member_call_expression", "object_creation_expression", "scoped_call_expression",
))  # fmt: skip
_CALLED = ("function", "method", "name", "macro", "constructor", "type")
_BASES = ("object", "receiver", "scope")
_THROWS = frozenset(("throw_statement", "throw_expression"))
#: Calls that end a function as an exception does.
_RAISING = {
    "Go": frozenset(("panic",)),
    "Ruby": frozenset(("raise",)),
    "Rust": frozenset(("panic", "bail", "unreachable", "todo", "unimplemented")),
}
_GENERIC = re.compile(r"<[^<>]*>")
_SIGN = re.compile(r"\?\.|::|->|!\.")
_CALLEE = re.compile(r"(?:(.+)\.)?\s*(#?[^\W\d][\w$]*|\$\w+)[!?]?")
_CHAIN = re.compile(r"[\w$]+(?:\.[\w$]+)*")
_THROWN = re.compile(r"(?:throw\s+|raise[\s(]+)?(?:new\s+)?([A-Za-z_][\w.:\\]{0,119})")


class CallSite(Row):
    """A call of ``name`` at a 1-based ``line``.

    ``base`` is what stands before the last dot, dotted: "" for a bare call, EXPRESSION for more
    than names. A variable of Python whose class is written beside it has the class as base.
    """

    line: int
    base: str
    name: str


class RaiseSite(Row):
    """An error that is raised at a ``line``; ``name`` is its type, as it is written."""

    line: int
    name: str


class FileCalls(Value):
    """The calls and raises of one file, in the order of its lines."""

    calls: tuple[CallSite, ...] = ()
    raises: tuple[RaiseSite, ...] = ()


def file_calls(path: str, content: bytes) -> FileCalls:
    """What a file calls and raises; nothing of a file that cannot be parsed. Never raises."""
    language = language_of(path, content)
    if language == "Python":
        file = syntax.read(content)
        found = _in_python(file.module) if file is not None else []
    else:
        root = grammars.parse(language, content)
        found = list(_in_tree(root, language)) if root is not None else []
    return FileCalls(
        tuple(one for one in found if isinstance(one, CallSite)),
        tuple(one for one in found if isinstance(one, RaiseSite)),
    )


# ── Python ──


def _in_python(module: ast.Module) -> list[CallSite | RaiseSite]:
    found: list[CallSite | RaiseSite] = []
    scopes: list[tuple[list[ast.stmt], Mapping[str, str]]] = [(module.body, {})]
    while scopes:
        body, outer = scopes.pop()
        nodes = list(_inside(body))
        known = {**outer, **_classes(nodes)}
        raised = {node.exc: None for node in nodes if isinstance(node, ast.Raise)}
        for node in nodes:
            if isinstance(node, _DEFINITIONS):
                scopes.append((node.body, {**known, **_parameters(node)}))
            elif isinstance(node, ast.Call) and node not in raised and (site := _site(node, known)):
                found.append(site)
        for error in raised:
            made = error.func if isinstance(error, ast.Call) else error
            if made is not None and (name := dotted(made)):
                found.append(RaiseSite.of((made.lineno, name)))
    return sorted(found, key=lambda one: one.line)


def _inside(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes below ``body``, of a definition only itself: the rest of it runs elsewhere."""
    waiting = list(body)[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _DEFINITIONS):
            waiting += list(ast.iter_child_nodes(node))[::-1]


def _site(node: ast.Call, known: Mapping[str, str]) -> CallSite | None:
    called = node.func
    if isinstance(called, ast.Name):
        return CallSite.of((node.lineno, "", called.id))
    if not isinstance(called, ast.Attribute) or isinstance(called.value, _LITERALS):
        return None
    base = dotted(called.value)
    if not base and isinstance(called.value, ast.Call):
        made = dotted(called.value.func)
        base = made if made == "super" or is_class(made) else ""
    line = called.end_lineno or node.lineno
    return CallSite.of((line, known.get(base, base) or EXPRESSION, called.attr))


def _classes(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Variables whose class is written where they get their value."""
    found: dict[str, str] = {}
    for node in nodes:
        target: ast.expr | None = None
        value: ast.expr | None = None
        if isinstance(node, ast.AnnAssign):
            target = node.target
            name = _annotated(node.annotation)
        else:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target, value = node.targets[0], node.value
            elif isinstance(node, ast.withitem):
                target, value = node.optional_vars, node.context_expr
            name = dotted(value.func) if isinstance(value, ast.Call) else ""
            name = name if is_class(name) else ""
        if name and isinstance(target, ast.Name):
            found[target.id] = name
    return found


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> dict[str, str]:
    if isinstance(node, ast.ClassDef):
        return {}
    every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    pairs = ((one.arg, _annotated(one.annotation)) for one in every if one.annotation is not None)
    return {name: kind for name, kind in pairs if kind}


def _annotated(node: ast.expr) -> str:
    """The class in ``C``, ``"C"``, ``C | None`` and ``Optional[C]``; "" for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value.replace("None", "").strip(" |")
        return text if _NAME.fullmatch(text) else ""
    if isinstance(node, ast.BinOp):
        sides = [_annotated(one) for one in (node.left, node.right) if not _is_none(one)]
        return sides[0] if len(sides) == 1 else ""
    if isinstance(node, ast.Subscript):
        outer = dotted(node.value)
        return _annotated(node.slice) if outer.rpartition(".")[2] == "Optional" else outer
    return dotted(node)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


# ── other languages ──


def _in_tree(root: Node, language: str) -> list[CallSite | RaiseSite]:
    raising = _RAISING.get(language, frozenset())
    found: list[CallSite | RaiseSite] = []
    for path in grammars.paths(root):
        node, _ = path[-1]
        if node.type in _CALLS and not (path[1:] and path[-2][0].type in _THROWS):
            site = _called(node)
            if site is not None and site.name in raising and not site.base:
                is_typed = language == "Ruby"
                name = _thrown(node) if is_typed else site.name
                found.append(RaiseSite.of((site.line, name or site.name)))
            elif site is not None:
                found.append(site)
        elif node.type in _THROWS and (name := _thrown(node)):
            found.append(RaiseSite.of((node.start_point.row + 1, name)))
    return sorted(found, key=lambda one: one.line)


def _called(node: Node) -> CallSite | None:
    fields: dict[str, Node] = {}
    for field, child in grammars.parts(node):
        fields.setdefault(field or child.type, child)
    callee = next((fields[name] for name in _CALLED if name in fields), None)
    if callee is None:  # of PHP, where a class that is made has no field
        callee = fields.get("name")
    if callee is None:
        return None
    match = _CALLEE.fullmatch(_text(callee))
    if match is None:
        return None
    base = (match[1] or "").strip()
    outer = next((fields[name] for name in _BASES if name in fields), None)
    if outer is not None:
        base = _text(outer)
    if base and not _CHAIN.fullmatch(base):
        base = EXPRESSION
    return CallSite.of((callee.end_point.row + 1, base.replace("$", ""), match[2].lstrip("$")))


def _text(node: Node) -> str:
    """A callee with its separators as dots, and without type arguments."""
    if node.end_byte - node.start_byte > _LONGEST:
        return EXPRESSION
    text = (node.text or b"").decode("utf-8", "replace")
    bare = _SIGN.sub(".", _GENERIC.sub("", text))
    return "".join(bare.split()).replace("..", ".")


def _thrown(node: Node) -> str:
    text = (node.text or b"")[:_LONGEST].decode("utf-8", "replace")
    match = _THROWN.match(text)
    return match[1].replace("\\", ".") if match and match[1] != "throw" else ""
