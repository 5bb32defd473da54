"""The statements of Python code, and the public names of a module."""

from __future__ import annotations

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
#: Statements around others that are no definitions, and with these.
BRANCHING = (
    ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar,
    ast.Match,
)  # fmt: skip
COMPOUND = (*DEFINITIONS, *BRANCHING)


def ranked(body: Sequence[ast.stmt]) -> Iterator[tuple[ast.stmt, bool, ast.stmt | None]]:
    """The statements of a body, and those under its ``if``, ``try`` and the like.

    Each with whether it stays (names that a loop or a main guard binds do not), and the outermost
    statement around it. Without recursion: ``elif`` chains are nested.
    """
    stack: list[tuple[ast.stmt, bool, ast.stmt | None]] = [
        (node, True, None) for node in reversed(body)
    ]
    while stack:
        node, stays, above = stack.pop()
        yield node, stays, above
        if not isinstance(node, DEFINITIONS):
            passing = not stays or isinstance(node, ast.For | ast.AsyncFor | ast.While)
            guard = isinstance(node, ast.If) and is_guard(node.test)
            for inner in reversed(blocks(node)):
                lasts = not (passing or (guard and inner[0] is node.body[0]))  # type: ignore[attr-defined]  # a guard is an if
                stack.extend((statement, lasts, above or node) for statement in reversed(inner))


def every(module: ast.Module) -> Iterator[ast.stmt]:
    """All statements of a file, at any depth, in no particular order."""
    stack: list[list[ast.stmt]] = [module.body]
    while stack:
        for node in stack.pop():
            yield node
            if hasattr(node, "body") or isinstance(node, ast.Match):
                stack += blocks(node)


def blocks(node: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of a statement that are not empty, in the order of the text."""
    bodies = []
    for name in ("body", "handlers", "cases", "orelse", "finalbody"):
        part = getattr(node, name, None)
        if part and isinstance(part, list):
            bodies += [branch.body for branch in part] if name in ("handlers", "cases") else [part]
    return bodies


def is_guard(test: ast.expr) -> bool:
    """Whether a condition has ``__name__ == "__main__"``, also the other way round."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return any(isinstance(value, ast.Compare) and is_guard(value) for value in test.values)
    if not isinstance(test, ast.Compare) or len(test.comparators) != 1:
        return False
    sides = [test.left, test.comparators[0]]
    names = [side.id for side in sides if isinstance(side, ast.Name)]
    texts = [side.value for side in sides if isinstance(side, ast.Constant)]
    return names == ["__name__"] and texts == ["__main__"] and isinstance(test.ops[0], ast.Eq)


class PublicNames:
    """Decides which names of a module or a class are public."""

    def __init__(self, body: Sequence[ast.stmt], exported: set[str] | None, *, members: bool):
        self._exported = exported
        self._members = members
        #: What an import binds, with the statement above it: a definition of the same name below
        #: that replaces a failed import.
        self._taken: set[tuple[ast.stmt, str]] = set()
        self._deleted: set[str] = set()
        for node, _, above in ranked(body):
            if isinstance(node, ast.Import | ast.ImportFrom) and above is not None:
                bound = (name.asname or name.name.partition(".")[0] for name in node.names)
                self._taken |= {(above, name) for name in bound}
            elif isinstance(node, ast.Delete):
                self._deleted |= {
                    target.id for target in node.targets if isinstance(target, ast.Name)
                }

    def public(self, name: str, *, stays: bool, above: ast.stmt | None) -> bool:
        """Whether a definition of ``name`` is public; ``ranked`` gives ``stays`` and ``above``."""
        if self._exported is not None:
            return name in self._exported
        if not stays or name in self._deleted:
            return False
        if above is not None and (above, name) in self._taken:
            return False
        special = self._members and name.startswith("__") and name.endswith("__")
        return special or not name.startswith("_")


def exported(module: ast.Module) -> set[str] | None:
    """The names in ``__all__``, as far as they are literals; None without it."""
    names: set[str] | None = None
    for node, _, _ in ranked(module.body):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            value = node.value
        elif isinstance(node, ast.AugAssign):
            targets, value = [node.target], node.value
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func  # __all__.extend([...]), __all__.append("...")
            targets = [called.value] if isinstance(called, ast.Attribute) else []
            value = node.value.args[0] if node.value.args else None
        else:
            continue
        if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
            names = (names or set()) | {
                node.value
                for node in (ast.walk(value) if value is not None else ())
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
    return names or None
