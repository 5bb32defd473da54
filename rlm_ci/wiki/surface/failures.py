"""How code fails, as it is seen from outside: the messages that it gives, its exit codes.

A note of the kind ``MESSAGE`` has the message as ``detail``, and what carries it as ``text``; one
of ``EXIT`` a code, and its name or the code that ends the process; one of ``CAUGHT`` a code ("" if
it is computed), and the error that is caught; one of ``CODE_OF`` the code of the class ``within``.
"""

from __future__ import annotations

import ast
import re
from contextlib import suppress

from rlm_ci.source.python.names import callee, name_of
from rlm_ci.source.python.statements import DEFINITIONS, blocks
from rlm_ci.wiki.facts.note import (
    CAUGHT,
    CODE_OF,
    EXIT,
    LONGEST,
    MESSAGE,
    CodeNote,
    ProgramText,
    folded,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypeGuard


#: Characters of a message, and of code.
_MESSAGE, _CODE = 200, 60
#: Names of constants and of enumerations that are exit codes.
_CONSTANT = re.compile(r"EX(?:IT)?_[A-Z0-9_]+|[A-Z0-9_]+_EXIT(?:_CODE)?")
_ENUM = re.compile(r"\w*Exit(?:Code|Status)(?:s|es)?")
_ATTRIBUTES = frozenset(("exit_code", "exit_status", "EXIT_CODE"))
_ENDS = frozenset(("exit", "_exit"))
#: What has a method that ends the process: modules of the system, contexts and parsers of options.
_HAS_ENDS = frozenset(("app", "context", "ctx", "os", "parser", "sys"))
#: Functions that say what went wrong.
_SAYS = re.compile(r"\w*error|\w*fail|die|abort|fatal")


def python_failures(tree: ast.Module) -> list[CodeNote]:
    """The messages and exit codes of a file of Python."""
    reader = _PythonFailures(tree)
    with suppress(RecursionError):
        reader.statements(tree.body, "", ())
        reader.variables(tree)
    return reader.notes


class _PythonFailures:
    def __init__(self, tree: ast.Module) -> None:
        self.notes: list[CodeNote] = []
        #: The numbers that names at the top of the file stand for.
        self._numbers = {
            target.id: code
            for node in tree.body
            if isinstance(node, ast.Assign) and (code := _number(node.value))
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        #: Functions, by their names, that end the process with a variable of theirs.
        self._computed: dict[str, str] = {}
        #: The condition next around the statements that are read; None for none, and an ``else``.
        self._test: ast.expr | None = None

    def variables(self, tree: ast.Module) -> None:
        """The codes that variables have with which a function ends, or calls one that ends so."""
        for node, within in _functions(tree.body, "") if self._computed else ():
            variables = {self._computed[node.name]} if node.name in self._computed else set()
            for call in filter(_is_call, ast.walk(node)):
                name = name_of(call.func)
                if name in self._computed and name != node.name:
                    variables |= self._passed(tree, name, call, within)
            if variables:
                self._bound(node.body, variables, within, "")

    def _passed(self, tree: ast.Module, name: str, call: ast.Call, within: str) -> set[str]:
        """The variable that a call hands to a function as its code; a number is noted."""
        for node, _ in _functions(tree.body, ""):
            names = [parameter.arg for parameter in (*node.args.posonlyargs, *node.args.args)]
            if node.name == name and self._computed[name] in names:
                position = names.index(self._computed[name])
                argument = next(
                    (keyword.value for keyword in call.keywords if keyword.arg == names[position]),
                    None,
                )
                argument = call.args[position] if position < len(call.args) else argument
                code = _number(argument) if argument is not None else None
                if code is not None:
                    self._note(EXIT, call, within, folded(ast.unparse(call), _CODE), code)
                return {argument.id} if isinstance(argument, ast.Name) else set()
        return set()

    def _bound(self, body: list[ast.stmt], names: set[str], within: str, test: str) -> None:
        """Note the numbers that ``names`` are bound to, each with the condition around it."""
        for node in body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target, value = node.targets[0], node.value
                is_pair = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
                pairs = zip(target.elts, value.elts, strict=False) if is_pair else [(target, value)]  # type: ignore[attr-defined]  # of tuples
                for left, right in pairs:
                    if name_of(left) not in names:
                        continue
                    choices = [right]
                    if isinstance(right, ast.IfExp):
                        choices = [right.body, right.orelse]
                    for choice in choices:
                        code = _number(choice)
                        text = test if test and len(choices) == 1 else ast.unparse(node)
                        if code is not None:
                            self._note(EXIT, node, within, folded(text, _CODE), code)
            elif isinstance(node, ast.If):
                self._bound(node.body, names, within, ast.unparse(node.test))
                self._bound(node.orelse, names, within, "")
            else:
                for inner in blocks(node) if not isinstance(node, DEFINITIONS) else ():
                    self._bound(inner, names, within, test)

    def statements(self, body: list[ast.stmt], within: str, caught: tuple[str, ...]) -> None:
        """Notes about these statements and all below them; expressions would take twice as long."""
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{within}.{node.name}" if within else node.name
                if isinstance(node, ast.ClassDef):
                    self._class(node, inner)
                self._under(None, node.body, inner, ())
                continue
            if isinstance(node, ast.Raise):
                self._raise(node, within, caught)
            elif isinstance(node, ast.Expr | ast.Return):
                if isinstance(node.value, ast.Call) and _ends(node.value.func):
                    self._end(node.value, _codes(node.value), within, caught)
                elif isinstance(node.value, ast.Call):
                    self._said(node.value, within)
            elif isinstance(node, ast.Assign):
                if not within:
                    self._constants(node)
            else:
                self._below(node, within, caught)

    def _below(self, node: ast.stmt, within: str, caught: tuple[str, ...]) -> None:
        if isinstance(node, ast.If):
            self._under(node.test, node.body, within, caught)
            self._under(None, node.orelse, within, caught)
            return
        for name in ("body", "orelse", "finalbody"):
            self.statements(getattr(node, name, []), within, caught)
        for handler in getattr(node, "handlers", ()):
            self._under(None, handler.body, within, _caught(handler))
        for case in getattr(node, "cases", ()):
            self.statements(case.body, within, caught)

    def _under(
        self, test: ast.expr | None, body: list[ast.stmt], within: str, caught: tuple[str, ...]
    ) -> None:
        outer, self._test = self._test, test
        self.statements(body, within, caught)
        self._test = outer

    def _note(self, kind: str, node: ast.stmt | ast.expr, within: str, *texts: str) -> None:
        last = min(node.end_lineno or node.lineno, node.lineno + LONGEST - 1)
        self.notes.append(CodeNote(kind, node.lineno, last, within, *texts))

    def _class(self, node: ast.ClassDef, name: str) -> None:
        is_list = bool(_ENUM.fullmatch(node.name))
        for member in node.body:
            target = member.targets[0] if isinstance(member, ast.Assign) else None
            target = member.target if isinstance(member, ast.AnnAssign) else target
            code = _number(member.value) if isinstance(member, ast.Assign | ast.AnnAssign) else None
            if not isinstance(target, ast.Name) or code is None:
                continue
            if is_list:
                self._note(EXIT, member, "", f"{node.name}.{target.id}", code)
            elif target.id in _ATTRIBUTES:
                self._note(CODE_OF, member, name, target.id, code)

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
        if name == "SystemExit" or (name == "Exit" and not _text_of(raised)):  # of click and typer
            self._end(node, _codes(raised), within, caught)
            return
        message = _text_of(raised)
        if name and " " in message:
            self._note(MESSAGE, node, within, name, folded(message, _MESSAGE))

    def _said(self, node: ast.Call, within: str) -> None:
        """The message of a call of what is named after an error: ``parser.error("…")``."""
        if _SAYS.fullmatch(name_of(node.func)):
            message = _text_of(node)
            if " " in message:
                self._note(MESSAGE, node, within, callee(node), folded(message, _MESSAGE))

    def _end(
        self, node: ast.stmt | ast.expr, args: list[ast.expr], within: str, caught: tuple[str, ...]
    ) -> None:
        if args and _text(args[0]):
            code: str | None = "1"  # a text is printed, and is a failure
        else:
            code = _number(args[0]) if args else "0"
        if args and isinstance(args[0], ast.Name) and args[0].id in self._numbers:
            code = self._numbers[args[0].id]
        elif args and isinstance(args[0], ast.Name) and within:
            self._computed.setdefault(within.rpartition(".")[2], args[0].id)
        for name in caught:
            self._note(CAUGHT, node, within, name, code or "")
        if not caught and code is not None:
            text = folded(ast.unparse(node), _CODE)
            test = folded(ast.unparse(self._test), _CODE) if self._test is not None else ""
            self._note(EXIT, node, within, f"{text} if {test}" if test else text, code)


def _functions(
    body: list[ast.stmt], within: str
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    """The functions and methods at the top of a file, with their qualified names."""
    for node in body:
        if isinstance(node, DEFINITIONS):
            name = f"{within}.{node.name}".strip(".")
            if isinstance(node, ast.ClassDef):
                yield from _functions(node.body, name)
            else:
                yield node, name


def _is_call(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call)


def _ends(called: ast.expr) -> bool:
    return (
        isinstance(called, ast.Attribute)
        and called.attr in _ENDS
        and isinstance(called.value, ast.Name)
        and called.value.id in _HAS_ENDS
    )


def _text_of(call: ast.Call) -> str:
    """The first argument of a call that is a text, or ""."""
    return next((text for argument in call.args if (text := _text(argument))), "")


def _codes(call: ast.Call) -> list[ast.expr]:
    """The arguments of what ends the process, the code first, however it is handed over."""
    return [*call.args, *(word.value for word in call.keywords if word.arg in ("code", "status"))]


def _caught(node: ast.ExceptHandler) -> tuple[str, ...]:
    kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
    return tuple(filter(None, map(name_of, kinds)))


def _number(node: ast.expr | None) -> str | None:
    value = node.value if isinstance(node, ast.Constant) else None
    if value is None:
        return "0" if isinstance(node, ast.Constant) else None
    return str(int(value)) if isinstance(value, int) else None


def _text(node: ast.expr) -> str:
    """The text of a literal, with … for what is put in; also as the argument of ``_("…")``."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value) or "…" for value in node.values)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
        is_format = isinstance(node.func, ast.Attribute) and node.func.attr == "format"
        first = node.func.value if is_format else next(iter(node.args), None)  # type: ignore[union-attr]  # of an attribute
        is_short = isinstance(node.func, ast.Name) and len(node.func.id) <= 2
        return _text(first) if first is not None and (is_format or is_short) else ""
    return ""


_QUOTED = r"(?:[\"`](?P<text>(?:[^\"`\\\n]|\\.|\\\n){4,400})[\"`])"
_QUOTED_TOO = r"(?:(?P<q>[\"'`])(?P<text>(?:(?!(?P=q))[^\\\n]|\\.){4,400})(?P=q))"
#: What carries a message, before the text.
_MESSAGES: Mapping[str, str] = {
    **dict.fromkeys(
        ("JavaScript", "TypeScript", "TSX"),
        rf"\b(?:new )?(?P<name>\w*Error|(?:\w+\.)?(?:error|fatal|fail|die|abort))\((?:\w+,)?\s*"
        rf"{_QUOTED_TOO}",
    ),
    "Go": r"\b(?P<name>fmt\.Errorf|errors\.(?:New|Errorf|Wrapf?)|log\.(?:Fatal|Error)f?|panic"
    rf"|log(?:Error|Fatal))\((?:\w+,)?\s*{_QUOTED}",
    "Rust": r"(?:\b(?P<name>anyhow!|bail!|ensure!|panic!|print_error|eprintln!)\(\s*"
    r"(?:format!\(\s*)?|#\[(?P<word>error)\(\s*)\"(?P<text>(?:[^\"\\]|\\.|\\\n){4,400})\"",
    **dict.fromkeys(
        ("Java", "C#", "PHP"), rf"\bnew \\?(?P<name>\w+(?:Error|Exception))\(\s*{_QUOTED_TOO}"
    ),
    "Ruby": r"(?<![.\w])(?:(?:raise|fail)[ (]\s*(?P<name>[A-Z][\w:]*)\s*,"
    r"|(?P<word>raise|fail|abort)[ (])\s*"
    rf"{_QUOTED_TOO}",
}
_NAMED = (
    r"\b(?P<name>\w*Exit(?:Code|Status)(?:::|\.)\w+)\s*=>\s*(?P<code>\d{1,3})\b"
    r"|\b(?P<constant>EX(?:IT)?_[A-Z0-9_]+|[A-Z0-9_]+_EXIT(?:_CODE)?)\b[\w: ]{0,20}"
    r"=\s*(?P<value>\d{1,3})\b"
)
#: Exit codes of Go that count themselves, from the first on.
_IOTA = (
    r"\bconst \(\s*\w*[eE]xit\w*\s*(?:\w+\s*)?=\s*iota\n(?P<rest>(?:[ \t]*\w*[eE]xit\w*[ \t]*\n)+)"
)
#: Codes that an enumeration numbers, and one of them.
_NUMBERED = r"\benum\s+(?P<name>\w*Exit(?:Code|Status)\w*)[^{};]{0,80}\{(?P<rows>[^{}]{1,4000})\}"
_NUMBER = re.compile(r"(?m)^[ \t]*(?:case\s+)?(\w+)\s*=\s*(\d{1,3})\b")
#: What catches errors, and ends the process with a code before anything else is caught.
_CATCHES: Mapping[str, str] = {
    "Ruby": r"\brescue\s+(?P<errors>[A-Z][\w:]*(?:\s*,\s*[A-Z][\w:]*)*)(?:\s*=>\s*\w+)?[ \t]*\n"
    r"(?:(?![ \t]*(?:rescue|if|unless|case|end|ensure|else)\b)[^\n]*\n){0,8}?"
    r"[ \t]*(?P<end>(?:Kernel\.)?(?:exit!?|halt)[ (]\s*(?P<code>\d{1,3}))\b"
    r"(?![ \t]*(?:if|unless)\b)",
    **dict.fromkeys(
        ("Java", "C#", "PHP"),
        r"\bcatch\s*\(\s*(?:final\s+)?(?P<errors>\\?[A-Z][\w.\\]*(?:\s*\|\s*\\?[A-Z][\w.\\]*)*)"
        r"\s*\$?\w*\s*\)\s*\{[^{}]{0,800}?"
        r"(?P<end>\b(?:System\.exit|Environment\.Exit|exit)\(\s*(?P<code>\d{1,3})\s*\))",
    ),
}
_WORDS = {"SUCCESS": "0", "FAILURE": "1"}
#: What ends the process with a code.
_CALLS: Mapping[str, str] = {
    **dict.fromkeys(
        ("JavaScript", "TypeScript", "TSX"),
        r"\bprocess\.(?:exit\(\s*(?P<code>\d{1,3})\)|exitCode\s*=\s*(?P<digits>\d{1,3})\b)",
    ),
    **dict.fromkeys(("C", "C++"), r"(?<![.\w>])_?exit\s*\(\s*(?P<code>\d{1,3})\)"),
    "Go": r"\bos\.Exit\((?P<code>\d{1,3})\)",
    "Rust": r"\b(?:process::exit|ExitCode::from)\((?P<code>\d{1,3})\)"
    r"|\bExitCode::(?P<word>FAILURE|SUCCESS)\b",
    "Java": r"\bSystem\.exit\((?P<code>\d{1,3})\)",
    "C#": r"\bEnvironment\.Exit\((?P<code>\d{1,3})\)",
    "Ruby": r"(?<![.\w])exit[ (](?P<code>\d{1,3})\b",
    "PHP": r"(?<![>:\w$])exit\s*\(\s*(?P<code>\d{1,3})\)",
    "Shell": r"(?:^|[;&|{]\s*|\n\s*)exit\s+(?P<code>\d{1,3})\b",
}


def other_failures(language: str, source: bytes) -> list[CodeNote]:
    """The messages and exit codes of a file in another language; nothing in one not known."""
    if language not in _MESSAGES and language not in _CALLS:
        return []
    code = ProgramText(language, source)
    notes = []
    for match, line in code.program(_MESSAGES.get(language, "")):
        text = re.sub(r"\\\s*\n\s*|\\[nt]", " ", match["text"])
        message = folded(re.sub(r"\\([\"'`])", r"\1", text), _MESSAGE)
        if " " in message:
            last = min(line + match[0].count("\n"), line + LONGEST - 1)
            name = match["name"] or match["word"]
            notes.append(CodeNote(MESSAGE, line, last, "", name, message))
    caught: set[int] = set()
    for match, line in code.program(_CATCHES.get(language, "")):
        at = line + match.string.count("\n", match.start(), match.start("end"))
        caught.add(at)
        for name in re.split(r"\s*[,|]\s*", match["errors"]):
            error = re.split(r"::|[.\\]", name)[-1]
            notes.append(CodeNote(CAUGHT, at, at, "", error, match["code"]))
    for match, line in code.program(_CALLS.get(language, "")):
        if line in caught:
            continue
        written = folded(match[0].strip(";&|{ \n"), _CODE)
        groups = match.groupdict()
        ends = groups.get("code") or groups.get("digits")
        ends = ends or _WORDS[groups.get("word") or "SUCCESS"]
        notes.append(CodeNote(EXIT, line, line, "", written, ends))
    for match, line in code.program(_IOTA if language == "Go" else ""):
        names = re.findall(r"\w*[eE]xit\w*", match[0])
        first = line + match[0][: match[0].index(names[0])].count("\n")
        notes += [
            CodeNote(EXIT, first + number, first + number, "", name, str(number))
            for number, name in enumerate(names)
        ]
    for match, line in code.program(_NUMBERED):
        for row in _NUMBER.finditer(match["rows"]):
            at = line + match[0].count("\n", 0, match.start("rows") - match.start() + row.start(1))
            notes.append(CodeNote(EXIT, at, at, "", f"{match['name']}.{row[1]}", row[2]))
    for match, line in code.program(_NAMED):
        name, ends = match["name"] or match["constant"], match["code"] or match["value"]
        notes.append(CodeNote(EXIT, line, line, "", name, ends))
    return notes
