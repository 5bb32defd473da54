"""Where a file of Python calls and raises, and what it says of the types of its names."""

from __future__ import annotations

import ast
import re

from rlm_ci.source.python.names import dotted, is_class
from rlm_ci.source.uses.file_calls import (
    CallSite,
    FileCalls,
    RaiseSite,
    agreed,
    called,
    grown,
    shown,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rlm_ci.source.uses.file_calls import Chain

    Names = Mapping[str, Chain]
    Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef

_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_LITERALS = (ast.Constant, ast.JoinedStr, ast.List, ast.Dict, ast.Set, ast.Tuple, ast.ListComp)
_NAME = re.compile(r"[A-Za-z_][\w.]{0,119}")


def python_calls(module: ast.Module) -> FileCalls:
    """The calls of a file, in the order of its lines."""
    calls: list[CallSite] = []
    raises: list[RaiseSite] = []
    fields: dict[str, Chain] = {}
    #: Bodies with the names around them, the class that they are in, and their definition.
    scopes: list[tuple[list[ast.stmt], Names, str, Definition | None]]
    scopes = [(module.body, {}, "", None)]
    while scopes:
        body, outer, owner, definition = scopes.pop()
        nodes = list(_inside(body))
        bound = _bound(nodes, outer, definition)
        names = {**outer, **bound}
        if isinstance(definition, ast.ClassDef):
            for name, chain in bound.items():
                agreed(fields, f"{owner}.{name}", chain)
        elif owner and definition is not None:
            _assigned(nodes, names, owner, fields)
        raised = {node.exc: None for node in nodes if isinstance(node, ast.Raise)}
        for node in nodes:
            if isinstance(node, _DEFINITIONS):
                is_class_body = isinstance(definition, ast.ClassDef)
                inner = f"{owner}.{node.name}".strip(".")
                within = inner if isinstance(node, ast.ClassDef) else owner if is_class_body else ""
                scopes.append((node.body, outer if is_class_body else names, within, node))
            elif isinstance(node, ast.Call) and node not in raised and (site := _site(node, names)):
                calls.append(site)
        for error in raised:
            thrown = error.func if isinstance(error, ast.Call) else error
            if thrown is not None and (name := dotted(thrown)):
                raises.append(RaiseSite.of((thrown.lineno, name)))
    return FileCalls(
        tuple(sorted(calls, key=lambda call_site: call_site.line)),
        tuple(sorted(raises, key=lambda raise_site: raise_site.line)),
        fields,
    )


def _inside(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes below ``body``, of a definition only itself: the rest of it runs elsewhere."""
    waiting = list(body)[::-1]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _DEFINITIONS):
            waiting += list(ast.iter_child_nodes(node))[::-1]


def _site(node: ast.Call, names: Names) -> CallSite | None:
    function = node.func
    if isinstance(function, ast.Name):
        chain: Chain = None if function.id in names else ()
        return CallSite.of((node.lineno, "", function.id, chain, -1))
    if not isinstance(function, ast.Attribute) or isinstance(function.value, _LITERALS):
        return None
    chain = _chain(function.value, names)
    line = function.end_lineno or node.lineno
    written = "super" if chain == ("super",) else dotted(function.value)
    base = shown(written, chain)
    return CallSite.of((line, base, function.attr, chain, -1))


def _chain(node: ast.expr, names: Names) -> Chain:
    if isinstance(node, ast.Await):
        return _chain(node.value, names)
    if isinstance(node, ast.Name):
        return names.get(node.id, (node.id,))
    if isinstance(node, ast.Attribute):
        return grown(_chain(node.value, names), node.attr)
    if isinstance(node, ast.Call):
        chain = _chain(node.func, names)
        return chain if chain == ("super",) else called(chain)
    return None


# ── what names are bound to ──


def _bound(
    nodes: Iterable[ast.AST], outer: Names, definition: Definition | None
) -> dict[str, Chain]:
    """The names that a body binds, each with what its text says of them."""
    is_function = isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    bound = _parameters(definition.args) if is_function else {}  # type: ignore[union-attr]  # of a function
    names = {**outer, **bound}
    #: How often a name is bound, and how often its text says to what.
    stores: list[str] = []
    pairs: list[tuple[str, Chain]] = []
    imported: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.alias):
            imported.add(node.asname or node.name.partition(".")[0])
        elif name := _stored(node, is_function=is_function):
            stores.append(name)
        else:
            pairs += _bound_names(node, names)
    for name, chain in pairs:
        agreed(bound, name, chain)
    for name in {*stores} - imported:
        if sum(other == name for other, _ in pairs) != stores.count(name):
            bound[name] = None
    return {name: chain for name, chain in bound.items() if name not in imported}


def _parameters(arguments: ast.arguments) -> dict[str, Chain]:
    chains: dict[str, Chain] = {
        node.arg: _typed(node.annotation)
        for node in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        if node.annotation is not None or node.arg not in ("self", "cls")
    }
    chains.update((node.arg, None) for node in (arguments.vararg, arguments.kwarg) if node)
    return chains


def _stored(node: ast.AST, *, is_function: bool) -> str:
    """The name that a node binds, whatever to; a function is a name of another function."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else ""
    if isinstance(node, ast.arg):  # of a lambda
        return node.arg
    if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
        return node.name or ""
    return node.name if is_function and isinstance(node, _DEFINITIONS) else ""


def _bound_names(node: ast.AST, names: Names) -> Iterator[tuple[str, Chain]]:
    """The names that a statement binds to what is called, or annotated, beside them."""
    target: ast.expr | None = None
    chain: Chain = None
    if isinstance(node, ast.AnnAssign):
        target, chain = node.target, _typed(node.annotation)
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, chain = node.targets[0], _bound_chain(node.value, names)
    elif isinstance(node, ast.withitem):
        target, chain = node.optional_vars, _bound_chain(node.context_expr, names)
        # What another function gives may enter as anything.
        chain = chain if chain and is_class(chain[-1]) else None
    if isinstance(target, ast.Name):
        yield target.id, chain


def _bound_chain(node: ast.expr, names: Names) -> Chain:
    """What a variable is bound to by ``node``: that of a name alone may be anything."""
    node = node.value if isinstance(node, ast.Await) else node
    if isinstance(node, ast.Name):
        return names.get(node.id)
    return _chain(node, names) if isinstance(node, ast.Call | ast.Attribute) else None


def _assigned(nodes: Iterable[ast.AST], names: Names, owner: str, fields: dict[str, Chain]) -> None:
    """Note what a method binds the fields of its class to; None says nothing."""
    for node in nodes:
        if isinstance(node, ast.AnnAssign):
            targets: list[ast.expr] = [node.target]
            chain = _typed(node.annotation)
        elif isinstance(node, ast.Assign):
            if isinstance(node.value, ast.Constant) and node.value.value is None:
                continue
            targets, chain = node.targets, _bound_chain(node.value, names)
        else:
            continue
        for target in targets:
            if isinstance(target, ast.Attribute) and dotted(target.value) == "self":
                agreed(fields, f"{owner}.{target.attr}", chain)


def _typed(node: ast.expr | None) -> Chain:
    name = annotated(node) if node is not None else ""
    return (f":{name}",) if name else None


def annotated(node: ast.expr) -> str:
    """The class in ``C``, ``"C"``, ``C | None`` and ``Optional[C]``; "" for anything else."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = node.value.replace("None", "").strip(" |")
        return text if _NAME.fullmatch(text) else ""
    if isinstance(node, ast.BinOp):
        sides = [annotated(side) for side in (node.left, node.right) if not _is_none(side)]
        return sides[0] if len(sides) == 1 else ""
    if isinstance(node, ast.Subscript):
        outer = dotted(node.value)
        return annotated(node.slice) if outer.rpartition(".")[2] == "Optional" else outer
    return dotted(node)


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
