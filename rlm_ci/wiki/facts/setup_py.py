"""What a ``setup.py`` says in so many words; it is read, and not run."""

from __future__ import annotations

import ast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Known = Mapping[str, ast.expr]


def requirements(content: bytes) -> list[tuple[str, int]]:
    """The packages that it needs, extras last, each with its line."""
    known, told = _read(content)
    found = list(_texts(told.get("install_requires"), known))
    extras = _resolved(told.get("extras_require"), known)
    for inner in extras.values if isinstance(extras, ast.Dict) else ():
        found += _texts(inner, known)
    return found


def named(content: bytes) -> str:
    """The name of the project, "" where it is not written out."""
    known, told = _read(content)
    return next((text for text, _ in _texts(told.get("name"), known)), "")


def _read(content: bytes) -> tuple[Known, Known]:
    """What names stand for, and what ``setup`` is called with."""
    from rlm_ci.source.python.outline import parsed, utf8
    from rlm_ci.source.python.statements import every

    source = utf8(content)
    module = parsed(source) if source is not None and b"setup" in source else None
    known: dict[str, ast.expr] = {}
    told: dict[str, ast.expr] = {}
    for node in sorted(every(module), key=lambda one: one.lineno) if module is not None else ():
        if isinstance(node, ast.Assign):
            known |= {one.id: node.value for one in node.targets if isinstance(one, ast.Name)}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            called = node.value.func
            name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
            if name == "setup":
                told |= {one.arg: one.value for one in node.value.keywords if one.arg}
    return known, told


def _resolved(node: ast.expr | None, known: Known) -> ast.expr | None:
    return known.get(node.id) if isinstance(node, ast.Name) else node


def _texts(node: ast.expr | None, known: Known) -> Iterator[tuple[str, int]]:
    """The texts of a text, a list of texts, or the sum of such, line by line."""
    stack = [node]
    for _ in range(_MOST):
        if not stack:
            return
        one = _resolved(stack.pop(), known)
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add):
            stack += [one.right, one.left]
        elif isinstance(one, ast.List | ast.Tuple | ast.Set):
            stack += reversed(one.elts)
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            lines = one.value.split("\n")
            # Lines of the value are not the file's where it is put together or escaped.
            runs = len(lines) - 1 == (one.end_lineno or one.lineno) - one.lineno
            for number, text in enumerate(lines):
                if text.strip():
                    yield text.strip(), one.lineno + (number if runs else 0)


#: Pieces that are looked at: a name may stand for a list that holds that name.
_MOST = 2000
