"""How Python code fails, as it is seen from outside: the messages that it gives, its exit codes.

A note of the kind ``MESSAGE`` has the message as ``detail``, and what carries it as ``text``; one
of ``EXIT`` a code, and its name or the code that ends the process; one of ``CAUGHT`` a code ("" if
it is computed), and the error that is caught; one of ``CODE_OF`` the code of the class ``within``.
"""

from __future__ import annotations

import ast
import re
from contextlib import suppress

from rlm_ci.source.python.calls import callee
from rlm_ci.source.python.names import name_of
from rlm_ci.wiki.facts.note import CAUGHT, CODE_OF, EXIT, LONGEST, MESSAGE, CodeNote, folded

#: Characters of a message, and of code.
_MESSAGE, _CODE = 200, 60
#: Names of constants and of enumerations that are exit codes.
_CONSTANT = re.compile(r"EXIT_[A-Z0-9_]+|[A-Z0-9_]+_EXIT(?:_CODE)?")
_ENUM = re.compile(r"\w*Exit(?:Code|Status)(?:s|es)?")
_ATTRIBUTES = frozenset(("exit_code", "exit_status", "EXIT_CODE"))
_ENDS = frozenset(("exit", "_exit"))


def python_failures(tree: ast.Module) -> list[CodeNote]:
    """The messages and exit codes of a file of Python."""
    reader = _PythonFailures()
    with suppress(RecursionError):
        reader.statements(tree.body, "", ())
    return reader.notes


class _PythonFailures:
    def __init__(self) -> None:
        self.notes: list[CodeNote] = []

    def statements(self, body: list[ast.stmt], within: str, caught: tuple[str, ...]) -> None:
        """Notes about these statements and all below them; expressions would take twice as long."""
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{within}.{node.name}" if within else node.name
                if isinstance(node, ast.ClassDef):
                    self._class(node, inner)
                self.statements(node.body, inner, ())
                continue
            if isinstance(node, ast.Raise):
                self._raise(node, within, caught)
            elif isinstance(node, ast.Expr | ast.Return):
                if isinstance(node.value, ast.Call) and _ends(node.value.func):
                    self._end(node.value, node.value.args, within, caught)
            elif isinstance(node, ast.Assign):
                if not within:
                    self._constants(node)
            else:
                self._below(node, within, caught)

    def _below(self, node: ast.stmt, within: str, caught: tuple[str, ...]) -> None:
        for name in ("body", "orelse", "finalbody"):
            self.statements(getattr(node, name, []), within, caught)
        for handler in getattr(node, "handlers", ()):
            self.statements(handler.body, within, _caught(handler))
        for case in getattr(node, "cases", ()):
            self.statements(case.body, within, caught)

    def _note(self, kind: str, node: ast.stmt | ast.expr, within: str, *texts: str) -> None:
        last = min(node.end_lineno or node.lineno, node.lineno + LONGEST - 1)
        self.notes.append(CodeNote(kind, node.lineno, last, within, *texts))

    def _class(self, node: ast.ClassDef, name: str) -> None:
        is_list = bool(_ENUM.fullmatch(node.name))
        for one in node.body:
            target = one.targets[0] if isinstance(one, ast.Assign) else None
            target = one.target if isinstance(one, ast.AnnAssign) else target
            code = _number(one.value) if isinstance(one, ast.Assign | ast.AnnAssign) else None
            if not isinstance(target, ast.Name) or code is None:
                continue
            if is_list:
                self._note(EXIT, one, "", f"{node.name}.{target.id}", code)
            elif target.id in _ATTRIBUTES:
                self._note(CODE_OF, one, name, target.id, code)

    def _constants(self, node: ast.Assign) -> None:
        code = _number(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name) and code and _CONSTANT.fullmatch(target.id):
                self._note(EXIT, node, "", target.id, code)

    def _raise(self, node: ast.Raise, within: str, caught: tuple[str, ...]) -> None:
        raised = node.exc
        if not isinstance(raised, ast.Call):
            return
        name = callee(raised)
        if name == "SystemExit":
            self._end(node, raised.args, within, caught)
            return
        message = next((text for one in raised.args if (text := _text(one))), "")
        if name and " " in message:
            self._note(MESSAGE, node, within, name, folded(message, _MESSAGE))

    def _end(
        self, node: ast.stmt | ast.expr, args: list[ast.expr], within: str, caught: tuple[str, ...]
    ) -> None:
        if args and _text(args[0]):
            code: str | None = "1"  # a text is printed, and is a failure
        else:
            code = _number(args[0]) if args else "0"
        for name in caught:
            self._note(CAUGHT, node, within, name, code or "")
        if not caught and code is not None:
            self._note(EXIT, node, within, folded(ast.unparse(node), _CODE), code)


def _ends(called: ast.expr) -> bool:
    return (
        isinstance(called, ast.Attribute)
        and called.attr in _ENDS
        and isinstance(called.value, ast.Name)
        and called.value.id in ("sys", "os")
    )


def _caught(node: ast.ExceptHandler) -> tuple[str, ...]:
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return tuple(filter(None, map(name_of, kinds)))


def _number(node: ast.expr | None) -> str | None:
    value = node.value if isinstance(node, ast.Constant) else node
    if value is None:
        return "0" if isinstance(node, ast.Constant) else None
    return str(int(value)) if isinstance(value, int) else None


def _text(node: ast.expr) -> str:
    """The text of a literal, with … for what is put in; also as the argument of ``_("…")``."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(one) or "…" for one in node.values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
        is_format = isinstance(node.func, ast.Attribute) and node.func.attr == "format"
        first = node.func.value if is_format else next(iter(node.args), None)  # type: ignore[union-attr]  # of an attribute
        is_short = isinstance(node.func, ast.Name) and len(node.func.id) <= 2
        return _text(first) if first is not None and (is_format or is_short) else ""
    return ""
