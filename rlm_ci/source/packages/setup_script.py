"""What a ``setup.py`` gives to ``setup``, as far as it stands there: it is read, and not run."""

from __future__ import annotations

import ast

from rlm_ci.source.python import syntax
from rlm_ci.source.python.calls import callee
from rlm_ci.source.python.names import text_of
from rlm_ci.source.python.statements import every

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Pieces of a literal: a name may be a list that holds that name.
_PIECES = 2000


class SetupScript:
    """The arguments of ``setup``, by name. Raises ValueError for what is not Python."""

    def __init__(self, content: bytes) -> None:
        file = syntax.read(content)
        if file is None:
            raise ValueError("not Python")
        self._values: dict[str, ast.expr] = {}
        self._arguments: dict[str, ast.expr] = {}
        for node in sorted(every(file.module), key=lambda node: node.lineno):
            if isinstance(node, ast.Assign):
                names = (target.id for target in node.targets if isinstance(target, ast.Name))
                self._values |= dict.fromkeys(names, node.value)
            elif isinstance(node, ast.Expr) and callee(node.value) == "setup":
                keywords: list[ast.keyword] = getattr(node.value, "keywords", [])
                self._arguments |= {word.arg: word.value for word in keywords if word.arg}

    def texts(self, argument: str) -> Iterator[tuple[str, int]]:
        """The texts of an argument that is one, a list of them, or the sum of such; their lines."""
        return self._texts(self._arguments.get(argument))

    def tables(self, argument: str) -> Iterator[tuple[str, Iterator[tuple[str, int]]]]:
        """The keys of an argument that is a table, each with the texts of its value."""
        table = self._resolved(self._arguments.get(argument))
        if isinstance(table, ast.Dict):
            for key, value in zip(table.keys, table.values, strict=True):
                yield text_of(key), self._texts(value)

    def _resolved(self, node: ast.expr | None) -> ast.expr | None:
        return self._values.get(node.id) if isinstance(node, ast.Name) else node

    def _texts(self, node: ast.expr | None) -> Iterator[tuple[str, int]]:
        stack = [node]
        for _ in range(_PIECES):
            if not stack:
                return
            part = self._resolved(stack.pop())
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
                stack += [part.right, part.left]
            elif isinstance(part, ast.List | ast.Tuple | ast.Set):
                stack += reversed(part.elts)
            elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                lines = part.value.split("\n")
                # Lines of the value are not the file's where it is put together or escaped.
                runs = len(lines) - 1 == (part.end_lineno or part.lineno) - part.lineno
                for number, text in enumerate(lines):
                    if text.strip():
                        yield text.strip(), part.lineno + (number if runs else 0)
