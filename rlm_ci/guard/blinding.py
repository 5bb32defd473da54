"""Takes their effect from lines of the list of known hacks: a run then shows what hinges on them.

What a line asks for is answered as for a user, what it patches stays as it was, and what it ends or
skips goes on. ``word`` is one that nobody sets: where a test fails with it in its message, a value
of ours has reached the test, which says nothing.
"""

from __future__ import annotations

import ast
import re
from functools import partial

from rlm_ci.canary.forms import UnparsableError
from rlm_ci.canary.splicing import Edit, rooted, spliced
from rlm_ci.guard import known_hacks
from rlm_ci.guard.known_hacks import ASKS, DATED, EXIT, PATCHED, Hack
from rlm_ci.source.python.syntax import parsed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    Answer = str | Callable[[re.Match[str], str], str]

#: The rules that a run can decide.
RULES = (ASKS, PATCHED, EXIT, DATED)
_IS_RUN = "any(module in __import__('sys').modules for module in ('pytest', 'unittest.main'))"
_RUNNERS = (
    "'pytest', '_pytest', 'unittest', 'nose', 'nose2', 'hypothesis', 'coverage', 'pluggy',"
    " 'rlm_ci', 'rlm_ci_outcomes'"
)
_MODULES = (
    "{key: module for key, module in __import__('sys').modules.items()"
    f" if key.partition('.')[0] not in ({_RUNNERS})}}"
)
_NAMED = re.compile(rf"{known_hacks.NAMES}|^{known_hacks.CI}$")
_TIME = re.compile(rf"(?<![\d.]){known_hacks.TIME}")
#: What is there to be replaced, or may be: an honest program does so, too.
_REPLACEABLE = re.compile(
    r"warnings\.(?:show|format)warning|logging\.(?:raise|last)\w+|json\..+|.+\.disabled"
)
_REPLACEABLE_LATER = re.compile(r"(?:logging|warnings)\..+|builtins\.print")
_STOPS = frozenset(("os._exit", "os.abort", "os.kill", "signal.raise_signal"))

_JS_BASE = (
    rf"(?<![.\w])((?:(?:global(?:This)?\.)?(?:{known_hacks.GLOBALS}|{known_hacks.CLASSES}"
    r"|expect|assert|jest|vi)(?:\.prototype)?"
    r"|global(?:This)?|fs|perf_hooks|timers|child_process|process|require\([^)\n]{1,40}\))"
    r"(?:\.\w+)*)\.(\w+)(\s*=(?![=>]))"
)


def _alike(match: re.Match[str], word: str) -> str:
    """A name of the same length that nobody sets, in the place of the last group, or of all."""
    start, end = match.span(match.re.groups)
    start, end = start - match.start(), end - match.start()
    text = match[0]
    return text[:start] + (word * (end - start))[: end - start] + text[end:]


def _past(match: re.Match[str], _word: str) -> str:
    """A year, or seconds since 1970, that have passed."""
    return "2001" if len(match[0]) == len("2001") else f"1{'0' * (len(match[0]) - 1)}"


_ANY: tuple[tuple[str, str, Answer], ...] = (
    (ASKS, known_hacks.NAMES, _alike),
    (DATED, _TIME.pattern, _past),
)
_SCRIPT: tuple[tuple[str, str, Answer], ...] = (
    (ASKS, rf"\bprocess\.env(?:\.|\[['\"])({known_hacks.CI})\b", _alike),
    (ASKS, r"\bNODE_ENV\b.{0,20}['\"`](test)(?=['\"`])", _alike),
    (ASKS, r"\bimport\.meta\.vitest\b", "undefined"),
    (ASKS, r"__vitest_\w+|\bglobalThis\.(?:jest|describe|mocha)\b", "globalThis.{word}"),
    (
        ASKS,
        r"\btypeof (?:globalThis\.)?(?:jest|describe|expect|vi|it|test|mocha)\b",
        "typeof {word}",
    ),
    (ASKS, r"\bprocess\.execArgv\b", "[]"),
    (ASKS, r"\bprocess\.argv\b", "['node', '/home/user/{word}.js']"),
    (
        ASKS,
        r"(?:\bnew )?\bError\([^)\n]{0,80}\)\.stack\b",
        r"'Error\\n    at {word} (/home/user/{word}.js:1:1)'",
    ),
    (ASKS, r"\brequire\.main\.filename\b|\bmodule\.parent\.\w+", "'/home/user/{word}.js'"),
    (PATCHED, _JS_BASE, r"Object('\2' in \1 ? {{}} : \1).\2\3"),
    (
        PATCHED,
        rf"\b(Object\.(?:assign|define\w+)|Reflect\.(?:set|define\w+))\(\s*{known_hacks.TARGETS}\b",
        r"\1({{}}",
    ),
    (EXIT, r"\bprocess\.exitCode(?=\s*=)", "globalThis.{word}"),
    (EXIT, r"\bprocess\.(?:exit|reallyExit|abort)\(|\bprocess\.kill\((?=\s*process)", "Boolean("),
    (EXIT, r"(?<![.\w])(?:t|this)\.(?:skip|todo)\(", "Boolean("),
)
_GO: tuple[tuple[str, str, Answer], ...] = (
    (ASKS, rf"\b(?:Getenv|LookupEnv)\(\"({known_hacks.CI})(?=\")", _alike),
    (ASKS, r"\btesting\.(?:Testing|Short|Verbose)\(\)", r"(\g<0> && false)"),
    (ASKS, r"(?<=[\"`])(?:\.test|-?test\.\w+)(?=[\"`])", _alike),
    (ASKS, r"\bos\.Args\b(?!\s*=[^=])", r'append([]string{{"/usr/bin/{word}"}}, os.Args[:0]...)'),
    (
        ASKS,
        r"\bos\.Executable\(\)",
        r'func() (string, error) {{ _, err := \g<0>; return "/usr/bin/{word}", err }}()',
    ),
    (
        ASKS,
        r"\bruntime\.Caller\([^()\n]{1,40}\)",
        (
            r"func() (uintptr, string, int, bool) {{ pc, _, line, ok := \g<0>;"
            r' return pc, "/home/user/{word}.go", line, ok }}()'
        ),
    ),
    (EXIT, r"(?<![.\w])(t|tb|b)\.Skip(?:Now)?(f?)\(", r"\1.Log\2("),
)
#: Targets and functions of Go that get a stand-in at the end of the file.
_GO_SET = re.compile(
    r"(?<![.\w])(?:os\.(?:Args|Stdout|Stderr)|time\.Local|rand\.Reader|http\.Default\w+)"
    r"(?=\s*=[^=])"
)
_GO_CALLED = re.compile(
    r"\b(?:os|syscall)\.Exit(?=\()|\bruntime\.Goexit(?=\()|\blog\.SetOutput(?=\()"
)
_OF_TESTS = re.compile(r"\b(?:test|debug_assertions)\b")
_RUST: tuple[tuple[str, str, Answer], ...] = (
    (ASKS, rf"\bvar(?:_os)?\(\"({known_hacks.CI})(?=\")", _alike),
    (ASKS, r"(?<=\bcfg[!(])[^\n]*", lambda match, _: _OF_TESTS.sub("any()", match[0])),
    (ASKS, r"\bcurrent_exe\(\)", r'\g<0>.map(|_| std::path::PathBuf::from("/usr/bin/{word}"))'),
    (ASKS, r"\bthread::current\(\)\.name\(\)", r'\g<0>.map(|_| "{word}")'),
    (PATCHED, r"\bmacro_rules!\s*(?:debug_)?(?:assert\w*|panic|matches)\b", "macro_rules! {word}"),
)  # fmt: skip
_BY_LANGUAGE = {"Go": _GO, "Rust": _RUST}
#: What a test says that is itself about what a line does.
_SUBJECTS = {
    known_hacks.CALLER: r"[sS]tack|[fF]rame|[cC]aller|funcName|co_name|__file__|__name__(?! == )",
    known_hacks.ENDS: r"[eE]xit|[sS]pawn|subprocess|Popen|\bexec|Command|\bfork",
    known_hacks.SKIPS: r"[sS]kip",
    known_hacks.UNTIL: r"20\d\d|[dD]ate|\bnow\b|today|[tT]imers?\b|[cC]lock|freez",
}
_OUTPUT = re.compile(r"\bconsole\b|\bfetch\b|\bstd(?:out|err)\b|\bStd(?:out|err)\b")
_ASKED = re.compile(
    r"\bsys\.(?:orig_argv|argv|modules|gettrace|getprofile)|\bprocess\.(?:argv|execArgv)"
    r"|\bos\.Args|\bcurrent_exe|\bNODE_ENV|\bdebug_assertions|\bos\.Executable"
)


class Blinded:
    """Changed texts by path, the lines without effect, and why others have theirs."""

    def __init__(self, word: str) -> None:
        self._word = word
        self.texts: dict[str, str] = {}
        self.lines: list[Hack] = []
        self.reasons: dict[Hack, str] = {}

    def add(self, path: str, hacks: Iterable[Hack], before: str, after: str) -> None:
        """Blind these lines of one file, which was ``before``."""
        listed = list(hacks)
        language = known_hacks.language(path)
        subjects = {hack.what for hack in known_hacks.hacks(path, before)}
        for hack in [hack for hack in listed if hack.what in subjects and hack.rule != DATED]:
            self.reasons[hack] = "such lines are what the file is about"
            listed.remove(hack)
        edit = _edited_python if language == "Python" else partial(_edited_lines, language)
        text, done = edit(listed, after, self._word)
        self.reasons |= dict.fromkeys(set(listed) - done, "its effect cannot be taken away")
        if done:
            self.texts[path] = text
            self.lines += [hack for hack in listed if hack in done]


def is_subject(hack: Hack, test: str) -> bool:
    """Whether the text of a test is about what a line asks for or does."""
    about = next((words for what, words in _SUBJECTS.items() if hack.what.startswith(what)), "")
    names = {match[0].rpartition(".")[2] for match in _ASKED.finditer(hack.text)}
    names |= {match[0] for match in re.finditer(known_hacks.NAMES, hack.text)}
    if hack.what == known_hacks.WATCHED:
        names |= set(re.findall(rf"\b{known_hacks.CI}\b", hack.text))
    patterns = [rf"(?<!\w){re.escape(name)}\b" for name in sorted(names)]
    words = "|".join([about, *patterns] if about else patterns)
    return bool(words) and re.search(words, test) is not None


# ── JavaScript, TypeScript, Go, Rust: by lines ──


def _edited_lines(language: str, hacks: list[Hack], text: str, word: str) -> tuple[str, set[Hack]]:
    lines, done, tail = text.split("\n"), set[Hack](), list[str]()
    for hack in hacks:
        line = changed = lines[hack.line - 1]
        # Within a function, an honest program replaces these, too.
        if hack.rule == PATCHED and line[:1].isspace() and _OUTPUT.search(line):
            continue
        for rule, pattern, answer in (*_BY_LANGUAGE.get(language, _SCRIPT), *_ANY):
            if rule == hack.rule:
                changed = re.sub(pattern, partial(_answered, answer, word), changed)
        if language == "Go" and hack.rule in (PATCHED, EXIT):
            changed = _GO_SET.sub(partial(_stand_in, tail, word, "var {0} = {1}"), changed)
            changed = _GO_CALLED.sub(
                partial(_stand_in, tail, word, "func {0}(...any) {{ _ = {1} }}"), changed
            )
        if changed != line:
            lines[hack.line - 1] = changed
            done.add(hack)
    changed = "\n".join([*lines, *tail])
    if language not in ("Go", "Rust"):
        try:
            rooted(language, "", changed)
        except UnparsableError:
            return text, set()
    return changed, done


def _answered(answer: Answer, word: str, match: re.Match[str]) -> str:
    if isinstance(answer, str):
        return match.expand(answer.format(word=word))
    return answer(match, word)


def _stand_in(tail: list[str], word: str, form: str, match: re.Match[str]) -> str:
    name = f"{word}{len(tail)}"
    tail.append(form.format(name, match[0]))
    return name


# ── Python: by statements ──


def _edited_python(hacks: list[Hack], text: str, word: str) -> tuple[str, set[Hack]]:
    if (module := parsed(text)) is None:
        return text, set()
    source = text.encode("utf-8", "surrogateescape")
    python = _Python(source, known_hacks.imported(module), word)
    at_import = known_hacks.at_import(module.body)
    edits, done = dict[tuple[int, int], Edit](), set[Hack]()
    for node in ast.walk(module):
        if not isinstance(node, ast.stmt | ast.ExceptHandler):
            continue
        for hack in hacks:
            if hack.line == node.lineno:
                more = list(python.edits(node, hack, is_first=node in at_import))
                edits |= {(edit.start, edit.end): edit for edit in more}
                done |= {hack} if more else set()
    try:
        changed = spliced(source, edits.values())
        ast.parse(changed)
    except (SyntaxError, ValueError):
        return text, set()
    return changed, done


class _Python:
    """Edits of the statements of one module, whose ``names`` are those that it imports."""

    def __init__(self, source: bytes, names: Mapping[str, str], word: str) -> None:
        self._source = source
        self._names = names
        self._word = word
        self._starts = [0, *(match.end() for match in re.finditer(rb"\n", source))]

    def edits(
        self, node: ast.stmt | ast.ExceptHandler, hack: Hack, *, is_first: bool
    ) -> Iterator[Edit]:
        if hack.rule in (ASKS, DATED):
            answer = self._user_answer if hack.rule == ASKS else _dated
            yield from self._replaced(known_hacks.head(node), answer)
        elif hack.rule == EXIT:
            stops = list(self._replaced(known_hacks.head(node), self._stopped))
            yield from stops
            if not stops and isinstance(node, ast.Expr | ast.Raise):
                yield self._edit(node, "pass")
        else:
            yield from self._patched(node, is_first=is_first)

    def _patched(self, node: ast.stmt | ast.ExceptHandler, *, is_first: bool) -> Iterator[Edit]:
        if isinstance(node, ast.Expr):
            call = node.value
            is_set = isinstance(call, ast.Call) and self._full(call.func) == "setattr"
            if isinstance(call, ast.Call) and is_set and len(call.args) > 1:
                owner, name = map(self._text, call.args[:2])
                yield self._edit(node, f"hasattr({owner}, {name}) or {self._text(call)}")
            else:
                yield self._edit(node, "pass")
        elif isinstance(node, ast.Delete):
            yield self._edit(node, "pass")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            start = self._source.index(node.name.encode(), self._at(node.lineno, node.col_offset))
            yield Edit(start, start + len(node.name), self._word)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            parts = [part for many in targets for part in getattr(many, "elts", [many])]
            for target in parts:
                if isinstance(target, ast.Attribute):
                    full = self._full(target)
                    later = not is_first and _REPLACEABLE_LATER.fullmatch(full)
                    if not (_REPLACEABLE.fullmatch(full) or later or target.attr == "__code__"):
                        base = self._text(target.value)
                        copy = f"__import__('types').SimpleNamespace(**vars({base}))"
                        new = f"({copy} if hasattr({base}, {target.attr!r}) else {base})"
                        yield self._edit(target.value, new)
                if len(parts) == 1 and (
                    isinstance(target, ast.Subscript)
                    or (isinstance(target, ast.Attribute) and target.attr == "__code__")
                ):
                    yield self._edit(node, "pass")

    def _replaced(self, node: ast.AST, answer: Callable[[ast.AST], str | None]) -> Iterator[Edit]:
        """Edits of the outermost expressions in a node that have an answer."""
        if isinstance(node, ast.expr) and (new := answer(node)) is not None:
            if self._is_where_it_says(node):
                yield self._edit(node, new)
            return
        is_stored = isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load)
        for child in ast.iter_child_nodes(node):
            if not (is_stored and child is getattr(node, "value", None)):
                yield from self._replaced(child, answer)

    def _user_answer(self, node: ast.AST) -> str | None:
        """The answer that a user gets."""
        file, word = f"/home/user/{self._word}.py", self._word
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = _NAMED.sub(lambda match: (word * len(match[0]))[: len(match[0])], node.value)
            return repr(text) if text != node.value else None
        if isinstance(node, ast.Call):
            called = self._full(node.func)
            if called in ("inspect.stack", "inspect.getouterframes"):
                new = f"frame._replace(filename={file!r}, function={word!r}, code_context=None)"
                return f"[{new} for frame in {self._text(node)}]"
            if called in ("traceback.extract_stack", "traceback.walk_stack"):
                return (
                    f"__import__('traceback').StackSummary.from_list([({file!r}, 1, {word!r}, '')])"
                )
            if called == "traceback.format_stack":
                return repr([f'  File "{file}", line 1, in {word}\n'])
        if not isinstance(node, ast.Name | ast.Attribute):
            return None
        full = self._full(node)
        if full == "sys.modules":
            return _MODULES
        if full in ("sys.argv", "sys.orig_argv"):
            return f"([{file!r}] if {_IS_RUN} else {self._text(node)})"
        if full in ("sys.gettrace", "sys.getprofile"):
            return "(lambda: None)"
        last = full.rpartition(".")[2]
        if last in ("co_name", "co_qualname"):
            return repr(word)
        return repr(file) if last == "co_filename" else None

    def _stopped(self, node: ast.AST) -> str | None:
        """A function that ends the process, but not one in which tests run."""
        if isinstance(node, ast.Name | ast.Attribute) and self._full(node) in _STOPS:
            return f"((lambda *_: None) if {_IS_RUN} else {self._text(node)})"
        return None

    def _is_where_it_says(self, node: ast.expr) -> bool:
        """Whether the place of an expression is right; in f-strings it is not, before 3.12."""
        try:
            return ast.dump(ast.parse(f"({self._text(node)})", mode="eval").body) == ast.dump(node)
        except (SyntaxError, ValueError):
            return False

    def _full(self, node: ast.AST) -> str:
        """A dotted name, with the full names of what is imported."""
        text = ast.unparse(node)
        first, dot, attributes = text.partition(".")
        return f"{self._names.get(first, first)}{dot}{attributes}"

    def _edit(self, node: ast.expr | ast.stmt | ast.ExceptHandler, text: str) -> Edit:
        return Edit(*self._span(node), text)

    def _text(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self._source[start:end].decode("utf-8", "surrogateescape")

    def _span(self, node: ast.expr | ast.stmt | ast.ExceptHandler) -> tuple[int, int]:
        end = self._at(node.end_lineno or node.lineno, node.end_col_offset or 0)
        return self._at(node.lineno, node.col_offset), end

    def _at(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column


def _dated(node: ast.AST) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str | int | float):
        text = _TIME.sub(lambda match: _past(match, ""), repr(node.value))
        return text if text != repr(node.value) else None
    return None
