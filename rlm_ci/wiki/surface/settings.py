"""What sets a program from outside, besides environment variables, as its sources name it.

A note of the kind ``OPTION`` has an option of the command line as ``text``, its help as ``detail``;
one of ``SETTINGS`` a table of defaults and its keys; one of ``CONFIG_KEYS`` the class or struct
that a configuration is read into, and its keys; one of ``CONFIG_FILE`` the name of a file.

One of ``TESTS`` says where runners take tests from: its ``text`` is a regular expression of paths,
its ``detail`` ``FOLDERS`` where the setting names folders, which may hold other files, too.
"""

from __future__ import annotations

import ast
import json
import re
from contextlib import suppress

from rlm_ci.guard.collected import pytest_tests, script_runners
from rlm_ci.source.python.names import callee, last_name, name_of, text_of
from rlm_ci.source.python.statements import blocks
from rlm_ci.wiki.facts.note import (
    CONFIG_FILE,
    CONFIG_KEYS,
    OPTION,
    SETTINGS,
    TESTS,
    CodeNote,
    ProgramText,
    folded,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


#: Characters of a help and of a name; keys of a table, and how few make none.
_HELP, _NAME, _KEYS, _FEW, _PAIR = 160, 80, 80, 3, 2
_FILE = (
    r"(?!path/to/)(?:[\w.~-]+/){0,6}(?:\.[\w-]*(?:rc|ignore|env)|\.[\w-]+config|\.env\.\w+"
    r"|\.?[\w-][\w.-]*\.(?:toml|ini|cfg|conf|ya?ml|properties)|\.[\w-]+\.(?:json|[cm]?js|py)"
    r"|[\w.-]*(?:config|settings)[\w.-]*\.json|(?<!/)[\w-]+\.config\.[cm]?[jt]s)"
)
_IS_FILE = re.compile(_FILE)
_DEFAULTS = re.compile(r"(?i)\w*(?:default|config|setting|option)\w*")
#: The name of a class that a configuration is read into.
_MODEL = re.compile(r"(?i)\w*(?:defaults|config|settings|options)\w*")
#: What puts dashes before the name of an option, so that a call of ``option`` has it without them.
_DASHES = re.compile(rb"[\"']--[\"']\s*\+|\bf[\"']--\{")
#: A text that may be such a name: only then all expressions are looked at.
_MAYBE_FILE = re.compile(
    rb"[\w-](?:rc|ignore|env|config|\.(?:toml|ini|cfg|conf|ya?ml|properties|json|env\.\w+))[\"']"
    rb"|[\"']\.(?:env|[\w-]+\.(?:[cm]?js|py))[\"']"
)
#: Methods whose argument is how a name ends.
_ENDS = frozenset(("endswith", "removesuffix"))
_OPTIONS = frozenset(("add_argument", "option"))
#: Bases and decorators of classes that a configuration is read into.
_MODELS = frozenset(("BaseModel", "BaseSettings", "TypedDict", "dataclass", "define", "frozen"))


# ── Python ──


def python_settings(tree: ast.Module, source: bytes) -> list[CodeNote]:
    """The options, tables of defaults and files of a file of Python."""
    reader = _PythonSettings(puts_dashes=_DASHES.search(source) is not None)
    with suppress(RecursionError):
        reader.statements(tree.body, "")
        if _MAYBE_FILE.search(source):
            reader.files(tree, "")
    return reader.notes


class _PythonSettings:
    def __init__(self, *, puts_dashes: bool) -> None:
        self.notes: list[CodeNote] = []
        self._puts_dashes = puts_dashes

    def statements(self, body: list[ast.stmt], within: str) -> None:
        """The options and tables of these statements, and of all below them."""
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                inner = f"{within}.{node.name}" if within else node.name
                for decorator in node.decorator_list:
                    self._option(decorator, inner)
                if isinstance(node, ast.ClassDef):
                    self._model(node, inner)
                else:
                    self._parameters(node.args, inner)
                self.statements(node.body, inner)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                self._option(node.value, within)
                self._table(node, within)
            elif isinstance(node, ast.Expr):
                self._option(node.value, within)
            elif isinstance(node, ast.Return):
                for part in getattr(node.value, "elts", [node.value]):
                    self._option(part, within)
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
            elif isinstance(node, ast.Name | ast.expr_context) or callee(node) in _ENDS:
                continue
            self.files(node, inner)

    def _option(
        self,
        node: ast.expr | None,
        within: str,
        *,
        name: str = "",
        default: ast.expr | None = None,
    ) -> None:
        """The option that a call declares; ``name`` is that of the parameter that it fills."""
        if not isinstance(node, ast.Call) or (callee(node) not in _OPTIONS and not name):
            return
        flags = [flag for flag in map(text_of, node.args) if re.fullmatch(r"-\S+", flag)]
        if not flags and node.args and not name and self._puts_dashes:
            words = getattr(node.args[0], "elts", node.args[:1])
            name = text_of(words[-1]) if words else ""
        if not flags and name:
            flags = [f"--{name.strip('_').replace('_', '-')}"]
        if flags:
            words = {keyword.arg: keyword.value for keyword in node.keywords}
            help_text = _with_default(text_of(words.get("help")), words.get("default", default))
            text = folded(", ".join(flags), _NAME)
            self.notes.append(_note(OPTION, node.lineno, within, text, help_text))
            for variable in _variables(words.get("envvar")):
                read = f"{flags[-1]}, envvar"
                self.notes.append(_note("environment", node.lineno, within, read, variable))

    def _parameters(self, arguments: ast.arguments, within: str) -> None:
        """The options of typer: ``x: int = Option(3)``, ``x: Annotated[int, Option()] = 3``."""
        every = [*arguments.posonlyargs, *arguments.args]
        nodes = [None] * (len(every) - len(arguments.defaults)) + list(arguments.defaults)
        pairs = [*zip(every, nodes, strict=True)]
        pairs += zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        for node, value in pairs:
            if isinstance(value, ast.Call) and callee(value) == "Option":
                first = next(iter(value.args), None)
                self._option(value, within, name=node.arg, default=first)
            noted = node.annotation.slice if isinstance(node.annotation, ast.Subscript) else None
            for part in noted.elts if isinstance(noted, ast.Tuple) else ():
                if callee(part) == "Option":
                    self._option(part, within, name=node.arg, default=value)

    def _model(self, node: ast.ClassDef, within: str) -> None:
        """The keys of a configuration that is read into a class."""
        bases = {name_of(base) for base in node.bases}
        bases |= {last_name(decorator) for decorator in node.decorator_list}
        if not bases & _MODELS or not (_MODEL.fullmatch(node.name) or "BaseSettings" in bases):
            return
        keys = [
            statement.target.id
            for statement in node.body
            if isinstance(statement, ast.AnnAssign)
            and isinstance(statement.target, ast.Name)
            and statement.target.id != "model_config"
            and not statement.target.id.startswith("_")
        ]
        if keys:
            self.notes.append(_note(CONFIG_KEYS, node.lineno, "", within, ", ".join(keys[:_KEYS])))

    def _table(self, node: ast.Assign | ast.AnnAssign, within: str) -> None:
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        value = node.value
        if isinstance(value, ast.Call) and len(value.args) == 1:
            value = value.args[0]
        name = getattr(target, "id", "")
        if not _DEFAULTS.fullmatch(name):
            return
        if isinstance(value, ast.Dict):
            items = [item for item in value.keys if item is not None]
        else:  # pairs
            rows = getattr(value, "elts", ())
            items = [row.elts[0] for row in rows if len(getattr(row, "elts", ())) == _PAIR]
        keys = [key for item in items if (key := text_of(item))]
        keys = [key for key in keys if re.fullmatch(r"[A-Za-z_][\w.-]*", key)][:_KEYS]
        if len(keys) >= _FEW:
            self.notes.append(_note(SETTINGS, node.lineno, within, name, ", ".join(keys)))


def _note(kind: str, line: int, within: str, text: str, detail: str = "") -> CodeNote:
    return CodeNote(kind, line, line, within, text, detail)


def _with_default(text: str, value: ast.expr | None) -> str:
    """The help of an option, with its default if that is written beside it."""
    is_simple = isinstance(value, ast.Constant) and isinstance(value.value, str | int | float)
    shown = f"default {ast.unparse(value)}" if is_simple and value is not None else ""
    parts = [folded(text, _HELP), folded(f"({shown})", _NAME) if shown else ""]
    return " ".join(filter(None, parts))


def _variables(node: ast.expr | None) -> list[str]:
    """The names in ``envvar="A"`` and ``envvar=["A", "B"]``."""
    every = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    return [name for element in every if (name := text_of(element))]


# ── other languages ──

_TEXT = r"(?P<{0}>[\"'`])(?P<{1}>(?:(?!(?P={0}))[^\\\n]|\\.){{0,200}})(?P={0})"
_HELD = r"[\"'](?P<text>--?[^\"'\n]{1,60})[\"']\s*(?:,\s*[\"'](?P<help>[^\"'\n]{0,200}))?"
#: Where an option of the command line is declared.
_DECLARED: Mapping[str, str] = {
    **dict.fromkeys(
        ("JavaScript", "TypeScript", "TSX"),
        # by a call, or as an object in a table of options
        rf"\.(?:option|requiredOption)\(\s*{_HELD}"
        r"|\.option\(\s*[\"'](?P<key>[\w-]{2,40})[\"']\s*,\s*\{[^{}]{0,300}?\b(?:desc\w*):\s*"
        + _TEXT.format("quote", "meaning")
        # of yargs, where comments may part them
        + r"|(?:\(\{|,)\s*(?://[^\n]*\s*)*[\"']?(?P<yargs>[A-Za-z][\w-]{1,60})[\"']?:\s*\{"
        r"[^{}]{0,200}?\bdescribe:\s*"
        + _TEXT.format("mark", "described")
        + r"|\{[^{}]{0,200}?\b(?:flag|long):\s*[\"'](?P<word>[\w-]{1,60})[\"'][^{}]{0,300}?"
        r"\b(?:desc\w*|help):\s*" + _TEXT.format("sign", "words"),
    ),
    "Go": r"(?P<set>\bflag|\b(?:fs|\w*[Ff]lags|[Ff]lagSet)(?:\(\))?)\."
    r"(?:(?:[A-Z][a-z0-9]+)*Var\w*\(\s*&?[\w.()]+,\s*"
    r"|(?:String|Bool|Int|Uint|Float|Duration|Count|Func)\w*\(\s*)\"(?P<text>[\w-]+)\""
    r"(?:(?:[^\n]|,\n){0,300}?(?:\"(?P<help>[^\"\n]{4,200})\"|,\s*(?P<constant>[A-Za-z_]\w*)),?\s*\)"
    r"(?=\s*(?://|\n|$)))?"
    r"|Flag\{\s*Name:\s*\"(?P<word>[\w-]+)[^{}]{0,400}?\bUsage:\s*\"(?P<words>[^\"\n]{1,200})\"",
    "Rust": r"#\[(?:arg|clap)\((?P<clap>[^\]]{0,600}?)\)\]"
    r"(?:\s*(?:#\[[^\]]*\]|///[^\n]*))*\s*(?:pub(?:\([^)]*\))?\s+)?(?P<field>(?:r#)?\w+)\s*:"
    r"|\barg!\([^()\"]{0,80}--(?P<written>[\w-]+)[^()\"]{0,80}(?:\"(?P<meant>[^\"]{1,300})\")?"
    r"|\bArg::(?:new|with_name)\((?P<chain>(?:(?!\bArg::)[\s\S]){0,900})",
    "Ruby": r"\b(?:opts?|parser)\.on(?:_tail|_head)?\(\s*"
    r"(?P<flags>[\"']--?[^\"'\n]{1,60}[\"'](?:,\s*[\"']--?[^\"'\n]{1,60}[\"'])*)"
    r"(?:,\s*[A-Z]\w*)?(?:\s*,\s*(?P<sign>[\"'])(?P<meant>(?:(?!(?P=sign))[^\n]){0,200}))?",
    "Java": r"@(?:Option|Parameter)\("
    r"(?P<annotation>(?:[^()\"]|\"(?:[^\"\\\n]|\\.)*\"|\([^()]*\)){1,900})\)",
}
#: How Go imports flags that begin with two dashes under the name of those with one; a default as it
#: is written, but for one that says nothing, and where help begins that is put together.
_PFLAG = re.compile(r"\bflag\s+\"[\w./-]*\bpflag\"")
_LETTER = re.compile(r",\s*\"\w?\"")
_GO_VALUE = re.compile(
    r",\s*(?:(?P<value>(?!\"\"|0,)(?:\"[^\"\n]{1,60}\"|-?\d[\w.]*|true))|[^\"\n,]*|\"\")"
    r",\s*(?:\"(?P<help>[^\"\n]{4,200})\"\s*\+)?"
)
_CHAINED = re.compile(r"\.(long|help|env|default_value)\(\s*\"((?:[^\"\\]|\\.|\\\n)*)\"")
_NAMES = re.compile(r"\bnames?\s*=\s*(\{[^{}]*\}|\"[^\"]*\")")
_MEANT = re.compile(
    r"\b(?:description|usage|descriptionKey)\s*=\s*(?:\{\s*)?\"((?:[^\"\\]|\\.)*)\""
)
_LONG = re.compile(r"\blong(?:\s*=\s*\"(?P<name>[\w-]+)\")?\s*(?:,|$)")
_TOLD = re.compile(r"\bhelp\s*=\s*\"(?P<help>[^\"]{0,200})")
_DEFAULT = re.compile(r"\bdefault_value(?:_t)?\s*=\s*(?:\"([^\"]*)\"|([\w:.-]+))")
_ENV = re.compile(r"\benv\s*=\s*\"(\w+)\"|\benv\s*(?=,|$)")
_OPEN = r"(?:pub(?:\([^)]*\))?\s+)?"
_STRUCT = r"struct\s+(?P<name>\w+)\s*\{(?P<body>[^}]{0,6000})\}"
_CONFIG = re.compile(r"[Cc]onfig|[Ss]ettings")
#: What a configuration, or a part of it, is read into, and a key of it.
_STRUCTS: Mapping[str, tuple[str, str]] = {
    "Go": (
        r"\btype\s+(?P<name>\w+)\s+struct\s*\{(?P<body>[^}]{0,6000})\}",
        r"`[^`]*\b(?:yaml|toml|mapstructure|hcl):\"([\w.-]+)",
    ),
    "Rust": (
        rf"#\[derive\([^)]*\bDeserialize\b[^)]*\)\](?:\s*#\[[^\]]*\])*\s*{_OPEN}{_STRUCT}",
        rf"(?m)^\s*{_OPEN}(\w+)\s*:(?!:)",
    ),
}
#: What is before a text with which names end: that is no name of a file.
_ENDING = re.compile(r"(?i)(?:\bext(?:ension|name)?\b|suffix|ends_?with|end_with\?)[^\"'`]*$")
#: The name of a file as a whole text.
_QUOTED = {
    language: re.compile(rf"(?P<quote>[{signs}])(?P<text>{_FILE})(?P=quote)")
    for language, signs in (
        ("JavaScript", "\"'`"), ("TypeScript", "\"'`"), ("TSX", "\"'`"), ("Go", "\"`"),
        ("Rust", '"'), ("Ruby", "\"'"), ("Java", '"'),
    )
}  # fmt: skip


def other_settings(language: str, source: bytes) -> list[CodeNote]:
    """The options and files of a file in another language; nothing in one not known."""
    if language not in _DECLARED:
        return []
    code = ProgramText(language, source)
    declared = _DECLARED[language]
    if "yargs" in code.text:
        declared = declared.replace(r"\bdescribe:", r"\bdesc(?:ribe|ription)?:")
    notes = [
        note for match, line in code.program(declared) for note in _declared(match, line, code.text)
    ]
    structs = list(code.matches(_STRUCTS.get(language, ("", ""))[0]))
    within = " ".join(match["body"] for match, _ in structs if _CONFIG.search(match["name"]))
    for match, line in structs:
        is_part = re.search(rf"\b{match['name']}\b", within)
        keys = re.findall(_STRUCTS[language][1], match["body"])[:_KEYS]
        is_read = line not in code.tests and "rename" not in match[0]
        if keys and is_read and (is_part or _CONFIG.search(match["name"])):
            notes.append(_note(CONFIG_KEYS, line, "", match["name"], ", ".join(keys)))
    for number, row in enumerate(code.text.split("\n"), 1):
        notes += (
            _note(CONFIG_FILE, number, "", match["text"])
            for match in _QUOTED[language].finditer(row[:1000])
            if not _ENDING.search(row, 0, match.start())
            and number not in code.tests
            and code.is_text(number, row, match.start())
        )
    return notes


def _declared(match: re.Match[str], line: int, text: str) -> Iterator[CodeNote]:
    """The option that a match declares, and the variable that stands for it."""
    groups = match.groupdict()
    if groups.get("flags"):
        name = ", ".join(re.findall(r"[\"']([^\"']+)[\"']", groups["flags"]))
        yield _note(OPTION, line, "", folded(name, _NAME), folded(groups["meant"] or "", _HELP))
    elif groups.get("set"):
        yield _go_flag(match, line, text)
    elif groups.get("text"):
        yield _note(OPTION, line, "", groups["text"], folded(groups.get("help") or "", _HELP))
    elif groups.get("word") or groups.get("key") or groups.get("yargs"):
        yield _worded(match, line)
    elif groups.get("annotation"):
        names, hint = _NAMES.search(groups["annotation"]), _MEANT.search(groups["annotation"])
        flags = [
            flag
            for flag in re.findall(r"\"([^\"]+)\"", names[1] if names else "")
            if flag[0] == "-"
        ]
        if flags:
            meaning = folded(hint[1] if hint else "", _HELP)
            yield _note(OPTION, line, "", folded(", ".join(flags), _NAME), meaning)
    else:
        yield from _of_clap(match, line, text)


def _go_flag(match: re.Match[str], line: int, text: str) -> CodeNote:
    """A flag of Go, with its help and its default as far as they are written there."""
    groups = match.groupdict()
    is_short = groups["set"] == "flag" and not _PFLAG.search(text)
    start = match.end("text") + 1
    letter = _LETTER.match(match.string, start) if "P(" in match[0] else None
    behind = _GO_VALUE.match(match.string, letter.end() if letter else start)
    value, begins = behind.group("value", "help") if behind else ("", "")
    value = "" if value is None or "Func(" in match[0] else value.strip('"')
    hint = groups["help"] or (begins or "").replace("\\n", " ")
    hint = hint or _constant(text, groups["constant"] or "")
    name = f"{'-' if is_short else '--'}{groups['text']}"
    return _note(OPTION, line, "", name, _described(hint, value))


def _of_clap(match: re.Match[str], line: int, text: str) -> Iterator[CodeNote]:
    """An option of clap: a field with an attribute, a chain of calls, or a macro."""
    groups = match.groupdict()
    if groups.get("written"):
        help_text = (groups["meant"] or "").replace("\\n", " ")
        yield _note(OPTION, line, "", f"--{groups['written']}", folded(help_text, _HELP))
    elif groups.get("chain"):
        calls = dict(reversed(_CHAINED.findall(groups["chain"])))
        if "long" in calls:
            hint = re.sub(r"\\\s*\n\s*", "", calls.get("help", "")).replace("\\n", " ")
            value = calls.get("default_value", "")
            yield _note(OPTION, line, "", f"--{calls['long']}", _described(hint, value))
        if "env" in calls:
            yield _note("environment", line, "", "Arg.env", calls["env"])
    elif groups.get("clap"):
        written, field = groups["clap"], groups["field"].removeprefix("r#")
        long, help_match, default = (
            _LONG.search(written),
            _TOLD.search(written),
            _DEFAULT.search(written),
        )
        value = (default[1] or default[2]) if default else ""
        if long:
            name = f"--{long['name'] or field.replace('_', '-')}"
            help_text = help_match["help"] if help_match else _documented(text, match, line)
            yield _note(OPTION, line, "", name, _described(help_text, value))
        env = _ENV.search(written)
        if env:
            read = f"option {field}, env" + (f", default {value}" if default else "")
            yield _note("environment", line, "", folded(read, _NAME), env[1] or field.upper())


def _described(text: str, value: str) -> str:
    """The help of an option, with its default if it has one."""
    parts = (folded(text, _HELP), f"(default {folded(value, _NAME)})" if value else "")
    return " ".join(filter(None, parts))


def _worded(match: re.Match[str], line: int) -> CodeNote:
    """An option whose name is a word, in a table or a call."""
    groups = match.groupdict()
    name = next(filter(None, map(groups.get, ("word", "key", "yargs"))), "")
    hint = next(filter(None, map(groups.get, ("words", "meaning", "described"))), "")
    if groups.get("yargs"):  # the match begins behind what is before
        line += match[0][: match.start("yargs") - match.start()].lstrip().count("\n")
    return _note(OPTION, line, "", f"--{name}", folded(re.sub(r"\\[nt]", " ", hint), _HELP))


def _constant(text: str, name: str) -> str:
    """The text of a constant of the same file, its first sentence or line."""
    match = name and re.search(
        rf"\b{name}\s*(?:string\s*)?=\s*(?:\"([^\"\n]{{1,400}})\"|`([^`]{{1,4000}})`)", text
    )
    return (match[1] or match[2].strip().partition("\n")[0]) if match else ""


def _documented(text: str, match: re.Match[str], line: int) -> str:
    """The first paragraph of the comment above an attribute of Rust, or below it."""
    below = re.findall(r"(?m)^\s*///(.*)$", match[0])
    if below:
        return " ".join("\n".join(map(str.strip, below)).partition("\n\n")[0].split())
    rows = text.split("\n")
    at = line - 1
    while at and rows[at - 1].strip().startswith("#["):
        at -= 1
    comment: list[str] = []
    while at and (row := rows[at - 1].strip()).startswith("///"):
        comment.insert(0, row.removeprefix("///").strip())
        at -= 1
    return " ".join("\n".join(comment).partition("\n\n")[0].split())


FOLDERS = "folders"
_JEST = re.compile(r"jest\.config\.(?:[cm]?[jt]s|json)")
_VITEST = re.compile(r"vitest\.(?:config|workspace)(?:\.\w+)?\.[cm]?[jt]s")
_STRING = re.compile(r"\"([^\"\\\n]*)\"|'([^'\\\n]*)'|`([^`\\$]*)`")
#: Characters of a setting, and settings of a file, that are read.
_LONGEST, _MOST = 200, 40


def tested_paths(path: str, content: bytes) -> list[CodeNote]:
    """What a file of settings says; nothing for any other file."""
    folder, _, name = path.rpartition("/")
    text = content.decode("utf-8", "replace")
    prefix = f"{re.escape(folder)}/" if folder else ""
    notes: list[CodeNote] = []
    if name.endswith((".toml", ".ini", ".cfg")) and "testpaths" in text:
        options = pytest_tests.options(path, text) or {}
        for word in options.get("testpaths", ()):
            inside = _inside(word)
            line = text.count("\n", 0, max(0, text.find("testpaths"))) + 1
            notes += _pattern_note(line, f"{prefix}{inside}/.+\\.py", FOLDERS) if inside else ()
    elif name == "package.json" and '"jest"' in text:
        notes = list(_jest(_section(text), text, prefix))
    elif _JEST.fullmatch(name):
        notes = list(_jest(text, text, prefix))
    elif _VITEST.fullmatch(name):
        bare = script_runners.without_blocks(script_runners.without_comments(text))
        notes = list(_globs("include", bare, text, prefix))
    return notes[:_MOST]


def _jest(settings: str, text: str, prefix: str) -> Iterator[CodeNote]:
    bare = script_runners.without_comments(settings)
    yield from _globs("testMatch", bare, text, prefix)
    for word, line in _words("roots", bare, text):
        inside = _inside(word.removeprefix("<rootDir>"))
        if inside:
            yield from _pattern_note(line, f"{prefix}{inside}/.+\\.[cm]?[jt]sx?", FOLDERS)


def _globs(key: str, bare: str, text: str, prefix: str) -> Iterator[CodeNote]:
    for word, line in _words(key, bare, text):
        if word.startswith("!"):
            continue
        try:
            pattern = script_runners.glob_regex(word).removeprefix("^/").removesuffix("$")
        except ValueError:
            continue
        yield from _pattern_note(line, f"{prefix}{pattern}", "")


def _words(key: str, bare: str, text: str) -> Iterator[tuple[str, int]]:
    """The strings of a setting, and a line of the file that has it."""
    line = text.count("\n", 0, max(0, text.find(key))) + 1
    for match in re.finditer(rf"(?<![\w.])[\"']?{key}[\"']?\s*:\s*\[([^\[\]]{{0,2000}})\]", bare):
        for literal in _STRING.finditer(match[1]):
            yield next(filter(None, literal.groups()), ""), line


def _inside(word: str) -> str:
    """A folder of a setting as a part of an expression; "" for all, and for what is elsewhere."""
    bare = word.strip().removeprefix("./").strip("/")
    if bare in ("", ".") or ".." in bare.split("/") or bare.endswith((".py", ".js", ".ts")):
        return ""
    return "".join({"*": "[^/]*", "?": "[^/]"}.get(sign) or re.escape(sign) for sign in bare)


def _section(text: str) -> str:
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return json.dumps(manifest.get("jest")) if isinstance(manifest, dict) else ""


def _pattern_note(line: int, pattern: str, detail: str) -> list[CodeNote]:
    try:
        re.compile(pattern)
    except re.error:
        return []
    is_short = len(pattern) <= _LONGEST
    return [CodeNote(TESTS, line, line, "", pattern, detail)] if is_short else []
