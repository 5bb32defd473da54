"""Notes about Python code, from its syntax tree."""

from __future__ import annotations

import ast
import re

from rlm_ci.source.python.statements import every, is_guard
from rlm_ci.wiki.facts import note as kinds
from rlm_ci.wiki.facts.note import LONGEST, CodeNote, bounded, folded
from rlm_ci.wiki.facts.python_calls import CALLS, SILENT, SPEAKERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Bases, and decorators, that say what instances are.
_ENUMS = {"enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag"}
_FINALS = {"typing.Final", "typing_extensions.Final"}
_LITERALS = {"typing.Literal", "typing_extensions.Literal"}
_ABSTRACT = {"abc.abstractmethod", "abc.abstractproperty"}
#: Nodes below which there is nothing.
_EMPTY = {ast.Load, ast.Store, ast.Del, ast.Name, ast.Constant}
#: Folders that packages lie in.
_ROOTS = frozenset(("lib", "python", "src"))
_MARK = re.compile(r"#.*?\b(TODO|FIXME|XXX|HACK)\b(.*)")


def python_notes(source: bytes, path: str = "") -> list[CodeNote]:
    """What the code demands and dares; nothing for what does not parse.

    What it imports of the package that ``path`` lies in is the package's own.
    """
    from rlm_ci.source.python.outline import parsed, utf8

    text = utf8(source)
    tree = None if text is None else parsed(text)
    if text is None or tree is None:
        return []
    reader = _Reader(tree, text, path)
    try:
        reader.statements(tree.body, "", public=True)
    except RecursionError:
        return bounded(reader.notes)
    return bounded(reader.notes)


class _Reader:
    """One walk over a tree; notes are in order of their kinds' discovery."""

    def __init__(self, tree: ast.Module, source: bytes, path: str) -> None:
        self.notes: list[CodeNote] = []
        self._lines = source.split(b"\n")
        self._names = _aliases(tree)
        self._speakers: set[str] = set()
        folders = path.split("/")[:-1]
        self._package = next((one for one in folders if one not in _ROOTS), "")
        if any(mark in source for mark in (b"TODO", b"FIXME", b"XXX", b"HACK")):
            self._marks()

    # ── texts and names ──

    def _segment(self, node: ast.AST) -> str:
        """The source of a node, on one line."""
        start, end = node.lineno - 1, (node.end_lineno or node.lineno)  # type: ignore[attr-defined]  # the nodes asked for have lines
        first, last = node.col_offset, node.end_col_offset  # type: ignore[attr-defined]  # see above
        rows = self._lines[start:end]
        if len(rows) == 1:
            text = rows[0][first:last]
        else:
            text = b" ".join([rows[0][first:], *rows[1:-1], rows[-1][:last]])
        return folded(text.decode("utf-8", "surrogateescape"))

    def _dotted(self, node: ast.AST) -> str:
        """The full name that an expression stands for, "" where imports do not tell."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        known = self._names.get(node.id)
        if known is None:
            return node.id if not parts and node.id in ("eval", "exec") else ""
        return ".".join([known, *reversed(parts)])

    def _note(self, kind: str, node: ast.AST, within: str, text: str, detail: str = "") -> None:
        start: int = node.lineno  # type: ignore[attr-defined]  # statements and expressions have lines
        end: int = node.end_lineno or start  # type: ignore[attr-defined]  # see above
        end = min(end, start + LONGEST - 1)
        self.notes.append(CodeNote(kind, start, end, within, text, detail))

    def _marks(self) -> None:
        for number, row in enumerate(self._lines, 1):
            if b"#" in row:
                found = _MARK.search(row.decode("utf-8", "surrogateescape"))
                if found and found[0].count('"') % 2 == 0 and found[0].count("'") % 2 == 0:
                    text = folded(found[0].lstrip("# "))
                    self.notes.append(CodeNote(kinds.MARKER, number, number, "", text))

    # ── statements ──

    def statements(self, body: Iterable[ast.AST], within: str, *, public: bool) -> None:
        """Notes about statements at the top of a module or a class, and all below them."""
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._function(node, within, public=public)
            elif isinstance(node, ast.ClassDef):
                self._class(node, within, public=public)
            elif isinstance(node, ast.Assert):
                self._note(kinds.ASSERTS, node, within, self._segment(node.test))
                self._expressions(node, within)
            elif isinstance(node, ast.If | ast.Try | ast.With):
                self._below(node, within, public=public)
            else:
                if isinstance(node, ast.AnnAssign):
                    self._annotated(node, within)
                self._expressions(node, within)

    def _below(self, node: ast.AST, within: str, *, public: bool) -> None:
        """A compound statement at the top: what is defined in it is defined there too."""
        if isinstance(node, ast.If) and is_guard(node.test):
            return  # what a script does when it is run is told as its entry
        if isinstance(node, ast.If) and _is_for_types(node.test):
            self.statements(node.orelse, within, public=public)
            return
        inner: list[ast.AST] = []
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ExceptHandler):
                self._handler(child, within)
                inner += child.body
            elif isinstance(child, ast.stmt):
                inner.append(child)
            else:
                self._expressions(child, within)
        self.statements(inner, within, public=public)

    def _class(self, node: ast.ClassDef, within: str, *, public: bool) -> None:
        name = f"{within}.{node.name}" if within else node.name
        shown = public and not node.name.startswith("_")
        head = _head(node)
        bases = {self._dotted(base) for base in node.bases}
        if shown and bases & _ENUMS:
            members = [
                target.id
                for statement in node.body
                if isinstance(statement, ast.Assign)
                for target in statement.targets
                if isinstance(target, ast.Name) and not target.id.startswith("_")
            ]
            if members:
                more = f" and {len(members) - 12} more" if len(members) > 12 else ""
                text = ", ".join(members[:12]) + more
                self._note(kinds.CHOICES, head, within, name, text)
        if shown and (any(map(self._freezes, node.decorator_list)) or "typing.NamedTuple" in bases):
            self._note(kinds.FROZEN, head, within, name)
        for one in (*node.decorator_list, *node.bases):
            self._expressions(one, within)
        self.statements(node.body, name, public=shown)

    def _freezes(self, decorator: ast.expr) -> bool:
        if not isinstance(decorator, ast.Call):
            return False
        name = self._dotted(decorator.func)
        if name in ("attrs.frozen", "attr.frozen"):
            return True
        return name in ("dataclasses.dataclass", "attrs.define", "attr.s") and any(
            keyword.arg == "frozen"
            and isinstance(keyword.value, ast.Constant)
            and keyword.value.value is True
            for keyword in decorator.keywords
        )

    def _annotated(self, node: ast.AnnAssign, within: str) -> None:
        if not isinstance(node.target, ast.Name) or node.target.id.startswith("_"):
            return
        bare = node.annotation.value if isinstance(node.annotation, ast.Subscript) else (
            node.annotation
        )  # fmt: skip
        if self._dotted(bare) in _FINALS:
            name = f"{within}.{node.target.id}" if within else node.target.id
            self._note(kinds.FINAL, node, within, name)

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, within: str, *, public: bool
    ) -> None:
        name = f"{within}.{node.name}" if within else node.name
        dunder = node.name.startswith("__") and node.name.endswith("__")
        if public and (dunder or not node.name.startswith("_")):
            if any(self._dotted(one) in _ABSTRACT for one in node.decorator_list):
                self._note(kinds.ABSTRACT, _head(node), within, name)
            self._choices(node, name)
            for statement in node.body:
                if isinstance(statement, ast.If):
                    self._refusal(statement, name)
        self._expressions(node, name)

    def _choices(self, node: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> None:
        arguments = node.args
        for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if one.annotation is not None and any(
                isinstance(part, ast.Subscript) and self._dotted(part.value) in _LITERALS
                for part in ast.walk(one.annotation)
            ):
                text = self._segment(one.annotation)
                if re.search(r"Literal\[(?:True|False)\]", text):  # tells overloads apart
                    continue
                self._note(kinds.CHOICES, one, name, f"{name}: {one.arg}", text)

    def _refusal(self, node: ast.If, name: str) -> None:
        """``if …: raise …`` in the body of a function is what it demands of its callers."""
        last = node.body[-1]
        if not isinstance(last, ast.Raise) or last.exc is None or len(node.body) > 3:
            return
        called = last.exc.func if isinstance(last.exc, ast.Call) else last.exc
        kind = self._segment(called)
        if kind == "NotImplementedError" or (called is last.exc and not _is_class(kind)):
            return  # what was caught, or kept, is raised again
        start = node.lineno
        end = min(last.end_lineno or start, start + LONGEST - 1)
        text, message = self._segment(node.test), _message(last.exc)
        self.notes.append(CodeNote(kinds.RAISES, start, end, name, f"{kind}: {text}", message))

    # ── expressions ──

    def _expressions(self, top: ast.AST, within: str) -> None:
        """Notes about calls and handlers anywhere below ``top``."""
        stack: list[ast.AST] = [top]
        while stack:
            node = stack.pop()
            kind = type(node)
            if kind is ast.Call:
                self._call(node, within)  # type: ignore[arg-type]  # its type was just looked at
            elif kind is ast.Import or kind is ast.ImportFrom:
                self._imported(node, within)  # type: ignore[arg-type]  # see above
            elif kind is ast.Raise and _raised(node) == "SystemExit":  # type: ignore[arg-type]  # see above
                self._note(kinds.ENDS, node, within, folded(self._segment(node), 110))
            elif kind is ast.ExceptHandler:
                self._handler(node, within)  # type: ignore[arg-type]  # see above
            elif kind is ast.Subscript and self._dotted(node.value) == "os.environ":  # type: ignore[attr-defined]  # see above
                name = _constant(node.slice)  # type: ignore[attr-defined]  # see above
                self._note(kinds.ENVIRONMENT, node, within, self._segment(node), name)
            stack += _children(node)

    def _imported(self, node: ast.Import | ast.ImportFrom, within: str) -> None:
        """The first import of a package that speaks to a network."""
        if isinstance(node, ast.Import):
            names = [one.name for one in node.names]
        elif node.module and not node.level:
            names = [f"{node.module}.{one.name}" for one in node.names]
        else:
            return
        for name in names:
            parts = name.split(".")
            if parts[0] == self._package:
                continue
            heads = {".".join(parts[:size]) for size in (1, 2, 3)} & SPEAKERS
            if heads - self._speakers and not SILENT.intersection(parts):
                self._speakers |= heads
                self._note(kinds.NETWORK, node, within, folded(self._segment(node), 110))
                return

    def _line(self, node: ast.AST) -> str:
        row = self._lines[node.lineno - 1]  # type: ignore[attr-defined]  # expressions have lines
        return folded(row.decode("utf-8", "surrogateescape"), 110)

    def _call(self, node: ast.Call, within: str) -> None:
        name = self._dotted(node.func)
        kind = CALLS.get(name)
        if kind is None and self._is_of_path(node.func):
            kind = kinds.DELETES
        if kind is None:
            return
        if kind == kinds.PROGRAM and any(
            one.arg == "shell"
            and not (isinstance(one.value, ast.Constant) and one.value.value is False)
            for one in node.keywords
        ):
            kind = kinds.SHELL
        more = [*node.args[1:], *(one.value for one in node.keywords)]
        if name == "yaml.load" and any("Safe" in self._segment(one) for one in more):
            return
        detail = _constant(node.args[0]) if kind == kinds.ENVIRONMENT and node.args else ""
        self._note(kind, node, within, folded(self._segment(node), 110), detail)

    def _is_of_path(self, called: ast.expr) -> bool:
        """``Path(…).unlink``: of a name nobody knows whether it is a path."""
        return (
            isinstance(called, ast.Attribute)
            and called.attr in ("rmdir", "unlink")
            and isinstance(called.value, ast.Call)
            and self._dotted(called.value.func) in ("pathlib.Path", "pathlib.PosixPath")
        )

    def _handler(self, node: ast.ExceptHandler, within: str) -> None:
        """A handler of everything that does nothing about it."""
        broad = node.type is None or (
            isinstance(node.type, ast.Name) and node.type.id in ("Exception", "BaseException")
        )
        idle = all(
            isinstance(one, ast.Pass | ast.Continue)
            or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
            for one in node.body
        )
        if broad and (idle or (node.type is None and not _raises(node.body))):
            self._note(kinds.SWALLOWS, node, within, self._line(node))


def _is_class(name: str) -> bool:
    return name.rpartition(".")[2].lstrip("_")[:1].isupper()


def _raised(node: ast.Raise) -> str:
    raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    return raised.id if isinstance(raised, ast.Name) else ""


def _raises(body: list[ast.stmt]) -> bool:
    return any(isinstance(one, ast.Raise) for statement in body for one in ast.walk(statement))


def _head(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
    """The first line of a definition, as a place: its decorators are told on their own."""
    return ast.Pass(lineno=node.lineno, end_lineno=node.lineno, col_offset=0, end_col_offset=0)


def _is_for_types(test: ast.expr) -> bool:
    """``TYPE_CHECKING``: what stands below is never run."""
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def _constant(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _message(raised: ast.expr) -> str:
    """The words of an exception, with what is put into them as ``…``."""
    for one in raised.args if isinstance(raised, ast.Call) else ():
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            return folded(one.value, 200)
        if isinstance(one, ast.JoinedStr):
            pieces = (_constant(piece) or "…" for piece in one.values)
            return folded("".join(pieces), 200)
    return ""


def _aliases(tree: ast.Module) -> dict[str, str]:
    """What the names that imports bind stand for."""
    names: dict[str, str] = {}
    for node in every(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                names[one.asname or one.name.partition(".")[0]] = (
                    one.name if one.asname else one.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for one in node.names:
                names[one.asname or one.name] = f"{node.module}.{one.name}"
    return names


def _children(node: ast.AST) -> list[ast.AST]:
    """As ``ast.iter_child_nodes``, which takes most of the time otherwise."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += [one for one in value if isinstance(one, ast.AST)]
        elif isinstance(value, ast.AST) and type(value) not in _EMPTY:
            found.append(value)
    return found
