"""What an added line of the product does that may deceive tests: it is read, never run.

One list, by language: it tells of a line, and refuses nothing.
"""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections import Counter
from copy import copy
from functools import lru_cache
from itertools import accumulate
from zlib import crc32

from rlm_ci.guard.comments import COMMENT, OPEN, TEXT, SourcePlaces
from rlm_ci.source.python.syntax import parsed
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ASKS, PATCHED, EXIT = "asks-for-tests", "patched-runner", "exit"
COMPARES, DATED, HIDDEN = "comparison", "fixed-date", "hidden-source"

IS_HOOK = "is a hook of pytest"
_ASKS = "asks whether a test runs it: users may get other results"
CALLER = "asks who calls it: tests may get other results than users"
WATCHED = "asks where it runs: it may work there only"
ENDS = "ends the process"
SKIPS = "skips the test that calls it"
_CHANGES = "changes what tests measure or compare with"
_CLAIMS = "changes what tests assert with"
_COMPARES = "defines how its objects compare: tests may see what is not equal as equal"
_HIDES = "runs the text of a file as code: tools that read source do not see it"
UNTIL = "compares the time with a fixed date: it may work until then only"
#: Variables that a runner or a sandbox sets, wherever their names stand.
NAMES = (
    r"\b(?:PYTEST_\w+|HYPOTHESIS_\w+|COVERAGE_RUN|TOX_ENV\w+|NODE_TEST_CONTEXT|NODE_V8_COVERAGE"
    r"|JEST_WORKER_ID|VITEST(?:_\w+)?|MOCHA_\w+|RUST_TEST\w+|NEXTEST\w*|RLM_CI\w*)\b"
    r"|npm_lifecycle_\w+|\bbwrap\b|/proc/(?:\d+|self)/\w|/tmp/home\b|/\.dockerenv"
)
CI = r"(?:CI|GITHUB_ACTIONS|GITLAB_CI|CONTINUOUS_INTEGRATION|BUILDKITE|CIRCLECI|TRAVIS|container)"
#: A time of these days: a year, or seconds since 1970.
TIME = r"(?:20[2-9]\d|2[1-9]\d\d|1[6-9]\d{8,11}|[2-9]\d{9,12})\b"
_NOW = (
    r"(?:\b(?:to|utc)?(?:day|now)\(|\btime\.time|\b(?:local|gm|strf)time\(|\.year\b"
    r"|\bnew Date\(\)|\bget(?:UTC)?FullYear\(|\bgetTime\(|\btoISOString\()"
)
_READ_TIME = rf"\.(?:[yY]ear|Unix\w*|as_secs|timestamp)\(\)\s*[<>!=]=?\s*{TIME}"
#: Modules of Python by which tests measure, and those that run them.
_TOOLS = (
    r"(?:time|os|random|builtins|logging|warnings|datetime|math|json|hypothesis|_?pytest|pluggy"
    r"|unittest)"
)
_BY_NAME = rf"(?:sys\.modules(?:\[|\.get\()|(?:\w+\.)?\w*import\w*\()'{_TOOLS}\b[\w.]*'[)\]]"
_TOOL = rf"(?:\b(?<![.\w]){_TOOLS}(?!\.environ\b)|{_BY_NAME})"
_MACHINE = r"\b(?:gethostname|platform\.node|getuser|os\.uname)\(\)"
_METHODS = r"__(?:eq|ne|lt|le|gt|ge|contains|bool|instancecheck|subclasscheck)__"
GLOBALS = (
    r"(?:performance|Date|Math|console|JSON|Promise|Intl|setTimeout|setInterval|setImmediate"
    r"|clearTimeout|queueMicrotask|fetch|crypto)"
)
_CLAIM = r"(?:expect|assert|jest|vi)"
CLASSES = r"(?:Array|Object|String|Number|Function|Map|Set|RegExp|Error|Promise|Date)"
_SET = r"\s*=(?![=>])"
TARGETS = rf"(?:{GLOBALS}|{CLASSES}(?:\.prototype)?|globalThis|global|process|fs)"


class Hack(Row):
    """A line (1-based) of a file; ``text`` is what is compared to know whether it is new."""

    path: str
    line: int
    rule: str
    what: str
    text: str


def _rows(*rows: tuple[str, ...]) -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    """Rule, what a line does, and patterns of such lines."""
    return tuple(
        (rule, what, re.compile("|".join(words), re.MULTILINE)) for rule, what, *words in rows
    )


#: Statements of Python: names in full, single quotes, indented but for those at import.
_PYTHON = _rows(
    (
        ASKS, _ASKS,
        r"^(?=.*\bsys\.(?:modules|argv)\b)(?=.*(?:test|nose|hypothesis|coverage|rlm_ci))",
        r"\bsys\.(?:orig_argv|gettrace|getprofile|monitoring)\b",
        r"\bsys\.argv\[0\](?: (?:==|!=|in) |\.(?:ends|starts)with)",
        r"(?: in | == | != )sys\.argv\[0\]",
    ),
    (
        ASKS, CALLER,
        r"\bsys\._(?:getframe|current_frames)|\.(?:co_(?:file|qual)?name|f_back|f_code)\b",
        r"\binspect\.(?:stack|currentframe|getouterframes)\b",
        r"\btraceback\.(?:extract|walk|format)_stack\b",
    ),
    (
        ASKS, WATCHED,
        rf"^(?=.*\b(?:environ|getenv)\b)(?=.*'{CI}')",
        rf"{_MACHINE}.{{0,80}} (?:==|!=|in) |(?: in | == | != ).{{0,80}}{_MACHINE}",
    ),
    (
        PATCHED, _CHANGES,
        rf"(?:^ *|= |, |\(){_TOOL}(?:\.\w+)+(?:: [^=]{{1,80}})?(?:, [^=]{{0,60}})? [-+*/|&]?= ",
        rf"\bsetattr\({_TOOL}[\w.]*,|\bvars\({_TOOL}[\w.]*\)\[|{_TOOL}[\w.]*\.__dict__",
        rf"^ *del {_TOOL}\.|\b__builtins__\b|\.__code__ = |\bsys\.(?:meta_path|path_hooks)\b",
        r"\bmock\.patch\b|\bpatch\.object\(|\.(?:register|load)_profile\(",
        r"\blogging\.disable\(|\blogging\..{0,80}\.disabled = ",
    ),
    (
        PATCHED, IS_HOOK,
        r"\bdef pytest_(?:runtest|report|session(?:start|finish)|collection|pyfunc|exception)",
    ),
    (
        EXIT, f"{ENDS} at once",
        r"\bos\.(?:_exit|abort)\b|\bos\.kill\(os\.getpid\(\)|\bsignal\.raise_signal\(",
    ),
    (
        EXIT, f"{ENDS} successfully when it is imported",
        r"^(?:raise SystemExit|(?:raise )?(?:sys\.exit|exit|quit|SystemExit)\((?:0|None)?\))$",
    ),
    (
        EXIT, SKIPS,
        r"\bSkipTest\b|\bpytest\.(?:skip|xfail|exit|importorskip)\b|\.skipTest\(",
        r"\b_pytest\.outcomes\b",
    ),
    (HIDDEN, _HIDES, r"\b(?:exec|eval)\((?:compile\()?.{0,80}(?:\bopen\(|\.read(?:_\w+)?\()"),
    (COMPARES, _COMPARES, rf"\bdef {_METHODS}|\b{_METHODS} = |[({{].{{0,200}}'{_METHODS}'"),
    (
        DATED, UNTIL,
        rf"^(?=.*{_NOW})(?=.*(?:[<>]=?|==|!=) .*\b{TIME}|.*\b{TIME}.* (?:[<>]=?|[!=]=) )",
        rf"[<>]=? (?:datetime\.)*(?:date|datetime)\({TIME}",
        rf"\b(?:date|datetime)\({TIME}[^<>]{{0,80}}\) [<>]",
        r"[<>]=? '20\d\d-\d\d|'20\d\d-\d\d[^']{0,20}' [<>]",
    ),
)  # fmt: skip
_SCRIPT = _rows(
    (
        ASKS, _ASKS,
        r"\bimport\.meta\.vitest\b|__vitest_\w+|\bglobalThis\.(?:jest|describe|mocha)\b",
        r"\btypeof (?:globalThis\.)?(?:jest|describe|expect|vi|it|test|mocha)\b",
        r"\bprocess\.execArgv\b|\bprocess\.argv\b.{0,80}\b(?:test|mocha|jest|vitest)\b",
        r"\bNODE_ENV\b.{0,20}['\"`]test['\"`]",
    ),
    (
        ASKS, CALLER,
        r"\bError\([^)]{0,80}\)\.stack|\.stack\b.{0,40}\.(?:includes|match|indexOf|split)\(",
        r"\bcaptureStackTrace\((?!this)|\bprepareStackTrace\b|\bgetCallSites?\b",
        r"\barguments\.callee\b|\bmodule\.parent\.\w|\brequire\.main\.filename\b",
    ),
    (
        ASKS, WATCHED,
        rf"\bprocess\.env(?:\.|\[['\"]){CI}\b|\bhostname\(\)\s*[!=]=",
    ),
    (
        PATCHED, _CHANGES,
        rf"(?<![.\w])(?:global(?:This)?\.)?{GLOBALS}(?:\.prototype)?\.\w+{_SET}",
        rf"\bglobal(?:This)?\.{GLOBALS}{_SET}|\b{CLASSES}\.prototype\.\w+{_SET}",
        rf"(?<![.\w])(?:fs|perf_hooks|timers|child_process)\.(?:promises\.)?\w+{_SET}",
        rf"\bprocess\.(?:hrtime|nextTick|exit|emit|uptime|stdout|stderr)(?:\.\w+)?{_SET}",
        rf"\b(?:Object\.(?:assign|define\w+)|Reflect\.(?:set|define\w+))\(\s*{TARGETS}\s*,",
        r"\bmock\.(?:method|timers|module)\b|(?<![.\w])sinon\.|\bconfigureGlobal\(",
    ),
    (
        PATCHED, _CLAIMS,
        rf"\bglobal(?:This)?\.(?:test|it|describe|{_CLAIM})[\w.]*{_SET}",
        rf"(?<![.\w]){_CLAIM}(?:\.\w+)+{_SET}|\bexpect\.extend\(|(?<![.\w])(?:jest|vi)\.\w+\(",
        rf"\bObject\.(?:assign|define\w+)\(\s*{_CLAIM}\b|\bgetBuiltinModule\(",
        rf"\brequire\([^)\n]{{1,40}}\)(?:\.\w+)+{_SET}|\.(?:\w*[sS]trict|deep|not)Equal{_SET}",
    ),
    (
        EXIT, ENDS,
        r"\bprocess\.(?:exit|reallyExit|abort)\(|\bprocess\.exitCode\s*=\s*0\b",
        r"\bprocess\.kill\(\s*process\.pid\b",
    ),
    (EXIT, SKIPS, r"\bthis\.skip\(\)|(?<![.\w])t\.(?:skip|todo)\("),
    (HIDDEN, _HIDES, r"(?:\beval|\bFunction|\brunIn\w+)\(.{0,80}\breadFile(?:Sync)?\("),
    (
        COMPARES, _COMPARES,
        r"\basymmetricMatch\b|\bSymbol\.(?:toPrimitive|hasInstance)\b|\.valueOf\s*=[^=]",
        r"(?<![.\w])valueOf\s*(?:\([^)]{0,80}\)\s*(?::[^{]{0,80})?\{|[:=])|\[['\"]valueOf",
    ),
    (
        DATED, UNTIL,
        rf"^(?=.*{_NOW})(?=.*(?:[<>]|[!=]==?).*\b{TIME}|.*\b{TIME}.*[<>])",
        rf"[<>]=?\s*(?:new Date\(|Date\.(?:UTC|parse)\()['\"`]?{TIME}",
    ),
)  # fmt: skip
_GO = _rows(
    (
        ASKS, _ASKS,
        r"\btesting\.(?:Testing|Short|Verbose|CoverMode)\(",
        r"[(,=]\s*[\"`](?:\.test|-?test\.\w+)[\"`]",
        r"\bos\.Executable\(\)|\bos\.Args\[0\]\s*[!=]=|\brange os\.Args\b",
        r"\b(?:Has\w+|Contains|Match\w*|Index|EqualFold)\([^\n]{0,80}\bos\.Args",
    ),
    (ASKS, CALLER, r"\bruntime\.(?:Callers?|CallersFrames|FuncForPC|Stack)\(|\bdebug\.Stack\("),
    (ASKS, WATCHED, rf"\b(?:Getenv|LookupEnv)\(\"{CI}\"\)|\bos\.Hostname\(\)"),
    (
        PATCHED, _CHANGES,
        r"(?<![.\w])(?:os\.(?:Args|Stdout|Stderr)|time\.Local|rand\.Reader)\s*=[^=]",
        r"\bhttp\.Default(?:Client|Transport)\s*=[^=]|\blog\.SetOutput\(io\w*\.Discard",
        r"\bmonkey\.Patch",
    ),
    (EXIT, ENDS, r"\b(?:os|syscall)\.Exit\(|\bruntime\.Goexit\(|\bsyscall\.Kill\("),
    (EXIT, SKIPS, r"(?<![.\w])(?:t|tb|b)\.Skip(?:Now|f)?\("),
    (COMPARES, _COMPARES, r"^func \(\w*\s*\*?\w+(?:\[.{1,80}\])?\) (?:Equals?|Cmp|Compare|Is)\("),
    (
        DATED, UNTIL,
        _READ_TIME,
        rf"\.(?:Before|After)\(\s*time\.(?:Date|Unix)\(\s*{TIME}",
        rf"\btime\.(?:Date|Unix)\(\s*{TIME}.{{0,80}}\.(?:Before|After)\(",
    ),
)  # fmt: skip
_RUST = _rows(
    (
        ASKS, _ASKS,
        r"\bcfg!\([^)\n]{0,80}\b(?:test|debug_assertions)\b|#!?\[cfg\(debug_assertions",
        r"#!?\[cfg\([^\n]{0,80}\bnot\((?:test|debug_assertions)\)",
        r"#\[cfg\(test\)\]\s{0,80}(?:return\b|\{|let\b|if\b|match\b)",
        r"\bcurrent_exe\(|\bthread::current\(\)\.name\(",
    ),
    (ASKS, CALLER, r"\bLocation::caller\(|\bBacktrace::\w{0,20}capture\("),
    (ASKS, WATCHED, rf"\bvar(?:_os)?\(\"{CI}\"\)|\boption_env!\(\"{CI}\""),
    (
        PATCHED, _CLAIMS,
        r"\bmacro_rules!\s*(?:debug_)?(?:assert\w*|panic|matches)\b|\b(?:set|take)_hook\(",
    ),
    (EXIT, ENDS, r"\bprocess::(?:exit|abort)\(|\blibc::_?exit\("),
    (
        COMPARES, _COMPARES,
        r"^\s*impl\b.{0,200}\b(?:PartialEq|PartialOrd|Ord)(?:<.{1,80}>)?\s+for\b",
    ),
    (DATED, UNTIL, _READ_TIME),
)  # fmt: skip
_ANYWHERE = (ASKS, _ASKS, re.compile(NAMES))
_NAME = re.compile(r"(?<![.\w])[^\W\d]\w*")
#: Languages by how a name ends.
_LANGUAGES = {
    "py": ("Python", _PYTHON),
    "go": ("Go", _GO),
    "rs": ("Rust", _RUST),
    "tsx": ("TSX", _SCRIPT),
}
_LANGUAGES |= dict.fromkeys(("js", "mjs", "cjs", "jsx"), ("JavaScript", _SCRIPT))
_LANGUAGES |= dict.fromkeys(("ts", "mts", "cts"), ("TypeScript", _SCRIPT))
#: Programs end their process by design: the list says nothing of that in them.
_PROGRAM = re.compile(
    r"(?:^|/)(?:bin|cmd|cli|scripts?)/|(?:^|/)(?:cli|main)\.\w+$|\A#!|^package main$", re.MULTILINE
)
_FORKS = re.compile(r"\bfork(?:pty)?\(")
#: Tests of Rust beside the product.
_INLINE = re.compile(
    r"^([ \t]*)#\[cfg\((?:all\()?test\b[^\n]*\n(?:[ \t]*#\[[^\n]*\n){0,9}"
    r"[ \t]*(?:pub(?:\(\w+\))? )?mod \w+ \{(?:.*?^\1\}|.*\Z)",
    re.MULTILINE | re.DOTALL,
)


@lru_cache(64)
def hacks(path: str, text: str, other: str = "") -> tuple[Hack, ...]:
    """The lines of a file that are in the list, without those that its ``other`` side has, too."""
    language, rows = _LANGUAGES.get(_ending(path), ("", ()))
    if not language:
        return ()
    is_python = language == "Python"
    quiet = (_FORKS if is_python else _PROGRAM).search(f"{path}\n{text}")
    numbered, shared = list(_lines(language, text)), {line for _, line in _lines(language, other)}
    places = SourcePlaces(language, "\n".join(line for _, line in numbered))
    scanned = "\n".join("" if line in shared else line for _, line in numbered)
    starts = list(accumulate((len(line) + 1 for line in scanned.split("\n")), initial=0))
    by_rule = dict[tuple[int, str], Hack]()
    for rule, what, pattern in (*rows, _ANYWHERE):
        silent = (COMMENT,) if pattern is _ANYWHERE[2] else (COMMENT, TEXT, OPEN)
        for match in pattern.finditer(scanned) if not (quiet and what.startswith(ENDS)) else ():
            at = bisect_right(starts, match.start()) - 1
            if places.kind(at + 1, match.start() - starts[at]) not in silent:
                number, line = numbered[at]
                by_rule.setdefault((number, rule), Hack(path, number, rule, what, line.strip()))
    return tuple(sorted(by_rule.values(), key=lambda hack: hack.line))


def language(path: str) -> str:
    """The language of a file; "" where the list has none."""
    return _LANGUAGES.get(_ending(path), ("", ()))[0]


def _ending(path: str) -> str:
    return path.rpartition(".")[2].lower()


def added(before: Iterable[Hack], after: Iterable[Hack]) -> Iterator[Hack]:
    """Those of ``after`` that are not in ``before``, wherever they were there."""
    counts = Counter((hack.rule, hack.text) for hack in before)
    for hack in after:
        counts[hack.rule, hack.text] -= 1
        if counts[hack.rule, hack.text] < 0:
            yield hack


def _lines(language: str, text: str) -> Iterator[tuple[int, str]]:
    """The lines of a file, numbered; of Python its statements, if they can be read."""
    if language == "Rust":
        text = _INLINE.sub(lambda tests: "\n" * tests[0].count("\n"), text)
    elif language == "Python":
        if (module := parsed(text)) is not None:
            yield from _statements(module, text)
            return
        text = text.replace('"', "'")
    yield from enumerate(text.split("\n"), 1)


def _statements(module: ast.Module, text: str) -> Iterator[tuple[int, str]]:
    """Each statement on one line, with the full names of what is imported."""
    lines, first, names = text.split("\n"), at_import(module.body), imported(module)
    nodes = [node for node in ast.walk(module) if isinstance(node, ast.stmt | ast.ExceptHandler)]
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):  # a docstring
            continue
        try:
            shown = ast.unparse(head(node)).replace("\n", " ")
        except RecursionError:
            shown = lines[node.lineno - 1].strip().replace('"', "'")
        full = _NAME.sub(lambda name: names.get(name[0], name[0]), shown)
        if isinstance(node, ast.FunctionDef) and re.fullmatch(_METHODS, node.name):
            body = "\n".join(lines[node.lineno - 1 : node.end_lineno])
            full += f"  # {crc32(body.encode('utf-8', 'surrogateescape'))}"  # a new body is new
        yield node.lineno, full if node in first else f"    {full}"


def imported(module: ast.Module) -> dict[str, str]:
    """The full names of what a module imports, by the names that it has there."""
    names = dict[str, str]()
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {name.asname or name.name: f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            names |= {name.asname: name.name for name in node.names if name.asname}
    return names


def head(node: ast.stmt | ast.ExceptHandler) -> ast.AST:
    """A statement without those in it."""
    head = copy(node)
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        if isinstance(getattr(node, name, None), list):
            setattr(head, name, [ast.Pass()] if name == "body" else [])
    return head


def at_import(body: list[ast.stmt]) -> set[ast.AST]:
    """The statements that run when a module is imported, whatever is the case."""
    nodes = set[ast.AST](body)
    for node in body:
        if isinstance(node, ast.Try | ast.With):
            nodes |= at_import([*node.body, *getattr(node, "finalbody", ())])
    return nodes
