"""What sets a program from outside, besides environment variables, as its sources name it.

A note of the kind ``OPTION`` has an option of the command line as ``text``, its help as ``detail``;
one of ``SETTINGS`` a table of defaults and its keys; one of ``CONFIG_FILE`` the name of a file.
"""

from __future__ import annotations

import ast
import re
from contextlib import suppress

from rlm_ci.source.code_places import CodePlaces
from rlm_ci.source.python.calls import callee
from rlm_ci.source.python.names import text_of
from rlm_ci.source.python.statements import blocks
from rlm_ci.wiki.facts.note import CONFIG_FILE, OPTION, SETTINGS, CodeNote, folded
from rlm_ci.wiki.facts.other_notes import lines_of_tests

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Characters of a help and of a name; keys of a table, and how few make none.
_HELP, _NAME, _KEYS, _FEW = 160, 80, 80, 3
_FILE = (
    r"(?:[\w.~-]+/){0,6}(?:\.[\w-]*(?:rc|ignore|env)|\.[\w-]+config|\.env\.\w+"
    r"|[\w-][\w.-]*\.(?:toml|ini|cfg|conf|ya?ml|properties)"
    r"|[\w.-]*(?:config|settings)[\w.-]*\.json)"
)
_IS_FILE = re.compile(_FILE)
_DEFAULTS = re.compile(r"(?i)\w*(?:default|config|setting|option)\w*")
#: A text that may be such a name: only then all expressions are looked at.
_MAYBE_FILE = re.compile(
    rb"[\w-](?:rc|ignore|env|config|toml|ini|cfg|conf|ya?ml|properties|\.env\.\w+|\.json)[\"']"
    rb"|[\"']\.env[\"']"
)
_OPTIONS = frozenset(("add_argument", "option"))


# ── Python ──


def python_settings(tree: ast.Module, source: bytes) -> list[CodeNote]:
    """The options, tables of defaults and files of a file of Python."""
    reader = _PythonSettings()
    with suppress(RecursionError):
        reader.statements(tree.body, "")
        if _MAYBE_FILE.search(source):
            reader.files(tree, "")
    return reader.notes


class _PythonSettings:
    def __init__(self) -> None:
        self.notes: list[CodeNote] = []

    def statements(self, body: list[ast.stmt], within: str) -> None:
        """The options and tables of these statements, and of all below them."""
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{within}.{node.name}" if within else node.name
                for one in node.decorator_list:
                    self._option(one, inner)
                self.statements(node.body, inner)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                self._option(node.value, within)
                self._table(node, within)
            elif isinstance(node, ast.Expr):
                self._option(node.value, within)
            else:
                for inner_body in blocks(node):
                    self.statements(inner_body, within)

    def files(self, top: ast.AST, within: str) -> None:
        """The names of files, in whatever expression below ``top``."""
        for node in ast.iter_child_nodes(top):
            inner = within
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{within}.{node.name}" if within else node.name
            elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                continue  # documentation
            elif isinstance(node, ast.Constant):
                name = text_of(node)
                if name and len(name) < _NAME and _IS_FILE.fullmatch(name):
                    self.notes.append(_note(CONFIG_FILE, node.lineno, within, name))
            elif isinstance(node, ast.Name | ast.expr_context):
                continue
            self.files(node, inner)

    def _option(self, node: ast.expr | None, within: str) -> None:
        if not isinstance(node, ast.Call):
            return
        flags = [text_of(one) for one in node.args] if callee(node) in _OPTIONS else []
        flags = [one for one in flags if re.fullmatch(r"-\S+", one)]
        if flags:
            told = next((text_of(one.value) for one in node.keywords if one.arg == "help"), "")
            text = folded(", ".join(flags), _NAME)
            self.notes.append(_note(OPTION, node.lineno, within, text, folded(told, _HELP)))

    def _table(self, node: ast.Assign | ast.AnnAssign, within: str) -> None:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        value = node.value
        if isinstance(value, ast.Call) and len(value.args) == 1:
            value = value.args[0]
        name = getattr(target, "id", "")
        if not isinstance(value, ast.Dict) or not _DEFAULTS.fullmatch(name):
            return
        keys = [key for one in value.keys if one is not None and (key := text_of(one))]
        keys = [key for key in keys if re.fullmatch(r"[A-Za-z_][\w.-]*", key)][:_KEYS]
        if len(keys) >= _FEW:
            self.notes.append(_note(SETTINGS, node.lineno, within, name, ", ".join(keys)))


def _note(kind: str, line: int, within: str, text: str, detail: str = "") -> CodeNote:
    return CodeNote(kind, line, line, within, text, detail)


# ── other languages ──

_HELD = r"[\"'](?P<text>--?[^\"'\n]{1,60})[\"']\s*(?:,\s*[\"'](?P<help>[^\"'\n]{0,200}))?"
#: Where an option of the command line is declared.
_DECLARED: Mapping[str, str] = {
    **dict.fromkeys(
        ("JavaScript", "TypeScript", "TSX"), rf"\.(?:option|requiredOption)\(\s*{_HELD}"
    ),
    "Go": r"(?:\bflag|[Ff]lags\(\))\.(?:String|Bool|Int|Uint|Float|Duration|Count)\w*\(\s*"
    r"(?:&[\w.]+,\s*)?\"(?P<text>[\w-]+)\"(?:[^\n]*\"(?P<help>[^\"\n]{4,200})\"\s*\))?",
    "Rust": r"#\[(?:arg|clap)\((?P<clap>[^\]]{0,600}?)\)\]\s*(?:pub )?(?P<field>\w+):",
    "Ruby": rf"\b(?:opts?|parser)\.on\(\s*{_HELD}",
}
_LONG = re.compile(r"\blong(?:\s*=\s*\"(?P<name>[\w-]+)\")?\s*(?:,|$)")
_TOLD = re.compile(r"\bhelp\s*=\s*\"(?P<help>[^\"]{0,200})")
#: The name of a file as a whole text.
_QUOTED = {
    language: re.compile(rf"(?P<quote>[{signs}])(?P<text>{_FILE})(?P=quote)")
    for language, signs in (
        ("JavaScript", "\"'`"), ("TypeScript", "\"'`"), ("TSX", "\"'`"), ("Go", "\"`"),
        ("Rust", '"'), ("Ruby", "\"'"),
    )
}  # fmt: skip


def other_settings(language: str, source: bytes) -> list[CodeNote]:
    """The options and files of a file in another language; nothing in one not known."""
    if language not in _DECLARED:
        return []
    places = CodePlaces(language, source)
    text = source.decode("utf-8", "surrogateescape")
    aside = lines_of_tests(text) if language == "Rust" else frozenset()
    found = [
        _note(OPTION, line, "", name, folded(told, _HELP))
        for match, line in places.matches(_DECLARED[language])
        for name, told in _declared(match)
        if line not in aside
    ]
    for number, row in enumerate(text.split("\n"), 1):
        found += (
            _note(CONFIG_FILE, number, "", match["text"])
            for match in _QUOTED[language].finditer(row[:1000])
            if number not in aside and places.is_text(number, row, match.start())
        )
    return found


def _declared(match: re.Match[str]) -> Iterator[tuple[str, str]]:
    held = match.groupdict()
    if held.get("text"):
        yield held["text"], held.get("help") or ""
    elif held.get("clap"):
        long, told = _LONG.search(held["clap"]), _TOLD.search(held["clap"])
        if long:
            name = long["name"] or held["field"].replace("_", "-")
            yield f"--{name}", told["help"] if told else ""
