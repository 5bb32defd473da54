"""The outline of a Python file, by the language's own parser."""

from __future__ import annotations

import ast
import re

from rlm_ci.source import PARSED, Import, Outline, Symbol
from rlm_ci.source.python import syntax
from rlm_ci.source.python.entry_points import entries
from rlm_ci.source.python.names import last_name
from rlm_ci.source.python.statements import DEFINITIONS, PublicNames, every, exported, ranked
from rlm_ci.source.signatures import clipped, folded, line_count, paragraph

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_STRING_OR_COMMENT = re.compile(
    rb"""("{3}|'{3})(?:\\.|(?!\1).)*\1|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|#[^\n]*""", re.DOTALL
)
_TYPE_MAKERS = {"TypeVar", "NewType", "ParamSpec", "TypeVarTuple", "TypeAliasType"}


def outline(path: str, content: bytes) -> Outline | None:
    """The outline; None if the file is not Python of this interpreter's version."""
    python_syntax = syntax.read(content)
    return (
        None
        if python_syntax is None
        else _Reader(path, python_syntax.source).read(python_syntax.module)
    )


class _Reader:
    def __init__(self, path: str, source: bytes) -> None:
        self._path = path
        self._lines = source.split(b"\n")
        self._last = line_count(source)
        self._symbols: dict[str, Symbol] = {}
        self._overloaded: set[str] = set()

    def read(self, module: ast.Module) -> Outline:
        listed = exported(module)
        self._scope(module.body, "", listed, is_public=True)
        doc, doc_start, doc_end = self._doc(module.body)
        statements = list(every(module))
        return Outline(
            self._path,
            "Python",
            PARSED,
            self._last,
            doc,
            doc_start,
            doc_end,
            tuple(
                sorted(self._symbols.values(), key=lambda symbol: (symbol.line_start, symbol.name))
            ),
            tuple(_imports(statements)),
            tuple(entries(self._path, module, self._last, statements)),
            tuple(sorted(clipped(name, 300) for name in listed or ())),
        )

    # ── definitions ──

    def _scope(
        self, body: Sequence[ast.stmt], prefix: str, exported: set[str] | None, *, is_public: bool
    ) -> None:
        members = bool(prefix)
        names = PublicNames(body, exported, members=members)
        for node, stays, above in ranked(body):
            if isinstance(node, DEFINITIONS):
                shown = is_public and names.public(node.name, stays=stays, above=above)
                self._define(node, f"{prefix}{node.name}", members=members, is_public=shown)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                for name in _bound(node.targets if isinstance(node, ast.Assign) else [node.target]):
                    shown = is_public and names.public(name, stays=stays, above=above)
                    self._assign(node, prefix, name, is_public=shown)
            elif node.__class__.__name__ == "TypeAlias":  # from 3.12 on
                target_name: str = node.name.id  # type: ignore[attr-defined]  # as above
                shown = is_public and names.public(target_name, stays=stays, above=above)
                self._add(node, "type", f"{prefix}{target_name}", self._head(node), shown)

    def _define(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef,
        name: str,
        *,
        members: bool,
        is_public: bool,
    ) -> None:
        marks = {last_name(decorator) for decorator in node.decorator_list}
        if marks & {"setter", "deleter"} or not self._is_new(name, overload="overload" in marks):
            return
        start = syntax.first_line(node)
        head = self._signature(node)
        is_class = isinstance(node, ast.ClassDef)
        kind = _class_kind(node) if is_class else "method" if members else "function"
        doc, doc_start, doc_end = self._doc(node.body)
        end = node.end_lineno or node.lineno
        self._symbols[name] = Symbol.of(
            (kind, name, start, end, is_public, head, doc, doc_start, doc_end)
        )
        if isinstance(node, ast.ClassDef):
            self._scope(node.body, f"{name}.", None, is_public=is_public)

    def _is_new(self, name: str, *, overload: bool) -> bool:
        """The first definition counts; after overloads, the implementation does."""
        if overload:
            fresh = name not in self._symbols
            self._overloaded.add(name)
            return fresh
        if name in self._overloaded:
            self._overloaded.discard(name)
            return True
        return name not in self._symbols

    def _assign(
        self, node: ast.Assign | ast.AnnAssign, prefix: str, name: str, *, is_public: bool
    ) -> None:
        if name in ("_", "__all__", "__slots__") or f"{prefix}{name}" in self._symbols:
            return
        owner = self._symbols.get(prefix[:-1]) if prefix else None
        if owner is not None and isinstance(node, ast.Assign):
            if owner.kind != "enum" and not _is_constant(name):
                return  # a class's declarations count, its mere initial values do not
            kind = "constant"
        else:
            kind = _assigned_kind(node, name)
        self._add(node, kind, f"{prefix}{name}", self._head(node), is_public)

    def _add(self, node: ast.stmt, kind: str, name: str, head: str, is_public: bool) -> None:  # noqa: FBT001 - it is one of the fields
        doc, doc_start, doc_end = self._remark(node.lineno)
        end = node.end_lineno or node.lineno
        self._symbols.setdefault(
            name,
            Symbol.of((kind, name, node.lineno, end, is_public, head, doc, doc_start, doc_end)),
        )

    # ── texts ──

    def _between(self, line: int, column: int, to_line: int, to_column: int) -> bytes:
        if line == to_line:
            return self._lines[line - 1][column:to_column]
        rows = self._lines[line - 1 : to_line]
        rows[0] = rows[0][column:]
        rows[-1] = rows[-1][:to_column]
        return b"\n".join(rows)

    def _signature(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> str:
        """The text from ``def`` or ``class`` to the colon, without comments."""
        inner = node.body[0]
        line, column = inner.lineno, inner.col_offset
        for decorator in getattr(inner, "decorator_list", []):
            line, column = min((line, column), (decorator.lineno, max(decorator.col_offset - 1, 0)))
        text = self._between(node.lineno, node.col_offset, line, column)
        if b"#" in text:
            text = _STRING_OR_COMMENT.sub(lambda m: b"" if m[0][:1] == b"#" else m[0], text)
        text = text.replace(b"\\\n", b" ").rstrip(b" \t\n\f@")
        return folded(text.removesuffix(b":").decode("utf-8", "replace"))

    def _head(self, node: ast.stmt) -> str:
        """An assignment as it is written, of a long one the first line."""
        end = self._lines[node.lineno - 1]
        last = node.end_col_offset if node.end_lineno == node.lineno else len(end)
        text = end[node.col_offset : last].rstrip().decode("utf-8", "replace")
        return clipped(text if node.end_lineno == node.lineno else f"{text} …", 160)

    def _doc(self, body: Sequence[ast.stmt]) -> tuple[str, int, int]:
        first = body[0] if body else None
        if not (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            return "", 0, 0
        rows = first.value.value.split("\n")
        text, start, end = paragraph(rows)
        if not text:
            return "", 0, 0
        last = first.end_lineno or first.lineno
        if len(rows) != last - first.lineno + 1:  # escapes: lines of the value are not the file's
            return text, first.lineno, last
        return text, first.lineno + start, first.lineno + end - 1

    def _remark(self, line: int) -> tuple[str, int, int]:
        """Comments that begin with ``#:`` right above."""
        first = line - 1
        while first and self._lines[first - 1].lstrip().startswith(b"#:"):
            first -= 1
        if first == line - 1:
            return "", 0, 0
        rows = [
            row.strip().removeprefix(b"#:").decode("utf-8", "replace")
            for row in self._lines[first : line - 1]
        ]
        text, start, end = paragraph(rows)
        return (text, first + start + 1, first + end) if text else ("", 0, 0)


def _imports(statements: Iterable[ast.stmt]) -> list[Import]:
    imports = []
    for node in statements:
        if isinstance(node, ast.Import):
            imports += [Import.of((name.name, (), node.lineno, 0, ())) for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = tuple(name.name for name in node.names)
            aliases = tuple(name.asname or name.name for name in node.names)
            called = aliases if aliases != names else ()
            imports.append(Import.of((node.module or "", names, node.lineno, node.level, called)))
    return sorted(imports, key=lambda imported: (imported.line, imported.module))


def _bound(targets: Sequence[ast.expr]) -> Iterator[str]:
    waiting = list(reversed(targets))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Tuple | ast.List):
            waiting += reversed(node.elts)
        elif isinstance(node, ast.Starred):
            waiting.append(node.value)


def _is_constant(name: str) -> bool:
    return name.isupper() and not name.startswith("__")


def _assigned_kind(node: ast.Assign | ast.AnnAssign, name: str) -> str:
    value = node.value
    if isinstance(node, ast.AnnAssign):
        hint = ast.dump(node.annotation) if not isinstance(node.annotation, ast.Constant) else ""
        if "'TypeAlias'" in hint:
            return "type"
        if "'Final'" in hint:
            return "constant"
    if isinstance(value, ast.Call) and last_name(value) in _TYPE_MAKERS:
        return "type"
    if isinstance(value, ast.Lambda):
        return "function"
    if _is_constant(name):
        return "constant"
    is_type = isinstance(value, ast.Subscript | ast.BinOp) and isinstance(node, ast.Assign)
    return "type" if is_type and name.lstrip("_")[:1].isupper() else "variable"


def _class_kind(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    names = {last_name(base) for base in getattr(node, "bases", [])}
    if "Protocol" in names:
        return "interface"
    return "enum" if any(name.endswith(("Enum", "Flag")) for name in names) else "class"
