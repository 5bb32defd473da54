"""Code outside of the tests that ends or reaches into whoever runs them. Read, never run."""

from __future__ import annotations

import ast
import re
from collections import Counter

from rlm_ci.loop import statements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    #: Lines, each with what it does.
    Found = list[tuple[int, str]]

#: Stands for what a file does where nobody can tell.
UNREADABLE = "code that cannot be read"
_RUNNERS = ("pytest", "_pytest", "pluggy", "unittest", "nose", "hypothesis")
#: What pytest calls by its name wherever it finds it, and how it is told of more of that.
_HOOK = re.compile(
    r"pytest_(?:add|assert|cmdline|collect|configure|deselected|exception|fixture|generate|ignore"
    r"|internal|item|keyboard|load|make|markeval|plugin|pycollect|pyfunc|report|runtest|session"
    r"|terminal|unconfigure|warning)"
)
#: How every test of pytest is run, whatever collects it.
_RUN = "runtest"
#: How one entry of ``sys.modules`` is asked for; what else is done with it looks at all of them.
_LOOK_UPS = ("get", "pop", "setdefault")
#: Where pytest tells the code that it runs that it does.
_TOLD = "PYTEST_CURRENT_TEST"
#: How a process becomes another one.
_EXECS = frozenset(f"exec{ending}" for ending in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe"))
#: Ways to what nobody has given one: all classes, all objects, who holds one.
_WALKS = frozenset(("__subclasses__", "get_objects", "get_referrers", "get_referents"))
#: Attributes that nobody asks for who does not mean to end a process, or to get at its tests.
_ENDS = frozenset(("_exit", "_Exit", "pythonapi", _RUN)) | _EXECS | _WALKS
#: The one that others have as well: it ends the process where it is that of these modules.
_ABORT = "abort"
_SYSTEM = frozenset(("os", "posix", "nt"))
_BY_NAME = ("attrgetter", "methodcaller")
#: The same as texts, of those that are no words of a language.
_TEXTS = frozenset(("_exit", _TOLD, _RUN)) | _WALKS | (_EXECS - {"execl"})
#: What opens the library of C, in which there is another ``exit``.
_LIBRARIES = ("CDLL", "PyDLL", "LoadLibrary")
#: The calls that run a text as code.
_RUN_TEXTS = frozenset(("exec", "eval", "compile"))
_UNSEEN = "a text that cannot be seen here, run as code"
#: The calls that import by a name given as text.
_IMPORTERS = ("__import__", "import_module", "find_spec")
_LINES = {
    # For Python of another version than ours.
    "py": re.compile(
        r"\b_exit\b|\bos\.(?:abort|kill|killpg)\b|^(?:sys\.exit|exit|quit|raise SystemExit)\b"
        r"|^\s{0,200}(?:import|from)\s{1,20}_?(?:pytest|pluggy|unittest|nose|hypothesis)\b"
        r"|\bdef pytest_|PYTEST_CURRENT_TEST|\.runtest\b|\bos\.exec[lv]p?e?\b"
        r"|\b(?:get_objects|get_referrers|get_referents|__subclasses__|pythonapi)\b"
        r"|\b(?:CDLL|PyDLL)\(\s{0,4}(?:None)?\s{0,4}\)"
        r"|\bmodules\b.{0,20}['\"]_?(?:pytest|pluggy|unittest)"
    ),
    # A number other than 0 that stands there fails the run, and may well be meant.
    "js": re.compile(
        r"\bprocess\s{0,4}(?:\?\.|\.)\s{0,4}(?:reallyExit|abort|setUncaughtException\w{0,40}"
        r"|exit\s{0,4}\((?!\s{0,4}[1-9]\d{0,2}\s{0,4}\))"
        r"|exitCode\s{0,4}=(?![=>]|\s{0,4}[1-9]\d{0,2}\s{0,4}(?:[;}),]|$))"
        r"|(?:on|once|addListener|prependListener)\s{0,4}\(\s{0,4}['\"`]"
        r"(?:exit|beforeExit|uncaughtException|unhandledRejection))"
        r"|\bprocess\s{0,4}(?:\?\.)?\[|\{[^{}]{0,200}\bexit\b[^{}]{0,200}\}\s{0,4}"
        r"(?:=\s{0,4}process\b|from\s{0,4}['\"](?:node:)?process['\"])"
        # What tests claim by, and who runs them; and how code sees that it is tested.
        r"|(?:\brequire\s{0,4}\(|\bimport\s{0,4}\(?|\bfrom)\s{0,4}['\"`](?:(?:node:)?(?:assert(?:/strict)?"
        r"|module|test)|chai|mocha|jest|vitest|@jest/[\w-]{1,40})['\"`]"
        r"|\b(?:JEST_WORKER_ID|NODE_TEST_CONTEXT|VITEST)\b"
    ),
    "go": re.compile(r"\bos\.Exit\(\s{0,4}0\s{0,4}\)"),
    "rs": re.compile(
        r"\bprocess::exit\(\s{0,4}0\s{0,4}\)|\bmacro_rules!\s{0,4}(?:debug_)?(?:assert|panic)"
        r"|\bcfg!\s{0,4}\([^)]{0,80}\btest\b|\bcfg(?:_attr)?\(\s{0,4}not\(\s{0,4}test\b"
    ),
}
#: Characters of what an exit is given that are looked at.
_GIVEN_AT_MOST = 400
#: What a code of an exit is set to, where it stands for what is not there, and that it is 0.
_GIVEN = re.compile(r"[;})]")
_DEFAULT = re.compile(r"(?:\?\?|\|\|)\s{0,9}0\b")
_ZERO = re.compile(r"(?<![\w.])0(?![\w.])")
_ENDINGS = {"jsx": "js", "ts": "js", "tsx": "js", "mjs": "js", "cjs": "js", "go": "go", "rs": "rs"}


def added(path: str, old: str, new: str) -> Found:
    """The lines of ``new``, with what they do, that end a test run or hook into its runner.

    Only what ``old``, the content before ("" for a new file), did not do as often. Python that
    is too deep to be looked at, or no Python of ours, is read by its lines; the first of these
    is told as UNREADABLE, too.
    """
    ending = path.rpartition(".")[2].lower()
    if ending == "py":
        before, after = _python(old), _python(new)
        if before is None or after is None:
            before, after = _by_line("py", old), _by_line("py", new)
            if _is_too_deep(new):
                after.insert(0, (1, UNREADABLE))
    else:
        language = _ENDINGS.get(ending, ending)
        if language not in _LINES:
            return []
        before, after = _by_line(language, old), _by_line(language, new)
    surplus = Counter(what for _, what in after)
    surplus.subtract(what for _, what in before)
    found = []
    for line, what in reversed(after):
        if surplus[what] > 0:
            surplus[what] -= 1
            found.append((line, what))
    return found[::-1]


def _by_line(language: str, text: str) -> Found:
    pattern = _LINES[language]
    if language == "py":
        lines = enumerate(text.split("\n"), 1)
        return [(number, line.strip()) for number, line in lines if pattern.search(line)]
    return [
        (number, _kind(one))
        for number, line in statements.statements(language, text)  # whatever the layout
        for one in pattern.finditer(line)
    ]


def _kind(found: re.Match[str]) -> str:
    """What is counted of a statement: what ends a run in it, and whether it is said to be well.

    Around it, and in what it is given, there may be other code than before.
    """
    text, rest = found[0], found.string[found.end() : found.end() + _GIVEN_AT_MOST]
    head = "" if not found.start() else "… "
    if not text.endswith(("(", "=")):
        return f"{head}{text}"
    given = _GIVEN.split(rest)[0] if text.endswith("=") else _inner(rest)
    without = _DEFAULT.sub("", given)
    if not given.strip() or given.strip() == "0":
        return f"{head}{text}{given})" if text.endswith("(") else f"{head}{text}{given}"
    # What nobody can look through may say anything.
    told = "… 0 …" if _ZERO.search(without) or len(given) == _GIVEN_AT_MOST else "…"
    return f"{head}{text}{told})" if text.endswith("(") else f"{head}{text} {told}"


def _inner(rest: str) -> str:
    """What stands before the bracket that ends a call."""
    depth = 0
    for at, char in enumerate(rest):
        depth += (char in "([{") - (char in ")]}")
        if depth < 0:
            return rest[:at]
    return rest


def _python(text: str) -> Found | None:
    """What a module of Python does; None where that cannot be told."""
    try:
        module = ast.parse(text)
        return [*_anywhere(module), *_at_import(module.body)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _is_too_deep(text: str) -> bool:
    """Whether it is Python, and more than we can take: nobody writes that to mend something."""
    try:
        compile(text, "source", "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    except SyntaxError:
        return False
    except (ValueError, RecursionError, MemoryError):
        return True
    return _python(text) is None


def _anywhere(module: ast.Module) -> Iterator[tuple[int, str]]:
    yield from _walked(module)
    yield from _aborted(module)
    yield from _run(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imported(node)
        elif isinstance(node, ast.Attribute) and node.attr in _ENDS:
            yield node.lineno, ast.unparse(node)[:80]
        elif isinstance(node, ast.Constant | ast.BinOp | ast.JoinedStr):
            text = _constant(node)
            if text in _TEXTS or (_HOOK.match(text) and text.isidentifier()):
                yield node.lineno, repr(text)
        elif isinstance(node, ast.Call | ast.Subscript | ast.Compare):
            yield from _reached(node)
        for name in _bound(node):
            if _HOOK.match(name):
                yield getattr(node, "lineno", 1), f"defines {name}"


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[int, str]]:
    names = [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        for name in names:
            is_end = node.module in _SYSTEM and name in (_ABORT, "*")
            if name in _TEXTS or name in _EXECS or is_end:
                yield node.lineno, f"from {node.module} import {name}" if is_end else name
        names = [] if node.level else [node.module or ""]
    for name in names:
        if _is_runner(name):
            yield node.lineno, f"import {name}"


def _reached(node: ast.Call | ast.Subscript | ast.Compare) -> Iterator[tuple[int, str]]:
    """A test runner that is got hold of by its name as a text."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        where = getattr(node.func, "value", None)
        if name in _LIBRARIES and _is_c(node.args[0] if node.args else None):
            yield node.lineno, "the library of C"
        if name not in _IMPORTERS and not _is_modules(where):
            return
        texts = node.args[:1] + [one.value for one in node.keywords if one.arg == "name"]
    elif isinstance(node, ast.Subscript):
        texts = [node.slice] if _is_modules(node.value) else []
    else:
        texts = [node.left] if any(map(_is_modules, node.comparators)) else []
    for text in texts:
        name = _constant(text)
        if _is_runner(name):
            yield node.lineno, f"{name}, by its name"


def _run(module: ast.Module) -> Iterator[tuple[int, str]]:
    """What texts do that are run as code; that they are, where nobody can see them."""
    nodes = list(ast.walk(module))
    own = {name for node in nodes for name in _bound(node)}  # another thing of that name
    own |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    called: set[ast.AST] = set()
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        called.add(node.func)
        inner = _code_in(node, own)
        if isinstance(inner, ast.Module):
            yield from ((node.lineno, f"{what}, in a text") for _, what in _anywhere(inner))
        elif inner:
            yield node.lineno, _UNSEEN
    names = (node for node in nodes if isinstance(node, ast.Name) and node not in called)
    for name in names:
        if name.id in ("exec", "eval") and name.id not in own:
            yield name.lineno, _UNSEEN


def _code_in(node: ast.Call, own: Container[str] = ()) -> ast.Module | bool:
    """The code that a call is given as a text; whether it is given any that cannot be seen."""
    func, owner = node.func, getattr(node.func, "value", None)
    is_builtin = isinstance(func, ast.Name) and func.id not in own
    is_builtin |= isinstance(owner, ast.Name) and owner.id in ("builtins", "__builtins__")
    if not is_builtin or getattr(func, "attr", getattr(func, "id", "")) not in _RUN_TEXTS:
        return False
    given = node.args[0] if node.args else None
    if isinstance(given, ast.Call) and getattr(given.func, "id", "") == "compile":
        return False  # that one is looked at itself
    text = _constant(given)
    if isinstance(given, ast.Constant) and isinstance(given.value, bytes):
        text = given.value.decode("utf-8", "replace")
    try:
        return ast.parse(text.strip()) if text else given is not None
    except (SyntaxError, ValueError):
        return False


def _walked(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Uses of ``sys.modules`` that look for a module without saying which."""
    nodes = list(ast.walk(module))
    ways = {"sys"}  # what ``sys`` is called here
    names = set()  # and its ``modules``
    for node in nodes:
        if isinstance(node, ast.Import):
            ways |= {one.asname or "sys" for one in node.names if one.name == "sys"}
        elif isinstance(node, ast.ImportFrom) and node.module == "sys":
            names |= {one.asname or one.name for one in node.names if one.name == "modules"}
    allowed: set[ast.AST] = set()
    for node in nodes:
        if isinstance(node, ast.Subscript) or (
            isinstance(node, ast.Attribute) and node.attr in _LOOK_UPS
        ):
            allowed.add(node.value)
        elif isinstance(node, ast.Compare):
            allowed.update(node.comparators)
    for node in nodes:
        if node in allowed:
            continue
        owner = getattr(node, "value", None)
        is_all = isinstance(node, ast.Name) and node.id in names
        is_all |= (
            isinstance(node, ast.Attribute)
            and node.attr == "modules"
            and isinstance(owner, ast.Name)
            and owner.id in ways
        )
        if is_all:
            yield getattr(node, "lineno", 1), "sys.modules, all of it"


def _aborted(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Uses of the ``abort`` of the system, by whatever names it goes; others have one, too."""
    nodes = list(ast.walk(module))
    names = _of_system(nodes)
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr == _ABORT:
            if _is_system(node.value, names):
                yield node.lineno, ast.unparse(node)[:80]
            continue
        is_one = False
        if isinstance(node, ast.Call) and _ABORT in map(_constant, node.args):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            owners = [*node.args, getattr(node.func, "value", None)]
            asks = called in ("getattr", "__getattribute__")
            is_one = called in _BY_NAME or (asks and any(_is_system(one, names) for one in owners))
        elif isinstance(node, ast.Subscript) and _constant(node.slice) == _ABORT:
            is_one = any(_is_system(one, names) for one in ast.walk(node.value))
        if is_one:
            yield getattr(node, "lineno", 1), f"{_ABORT}, by its name"


def _of_system(nodes: list[ast.AST]) -> set[str]:
    """What the modules of the system are called in a module."""
    names = set(_SYSTEM)
    given: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {one.asname or one.name for one in node.names if one.name in _SYSTEM}
        elif isinstance(node, ast.Assign | ast.NamedExpr):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            called = {one.id for one in targets if isinstance(one, ast.Name)}
            if _is_system(node.value, names):
                names |= called
            for one in _alternatives(node.value):
                if isinstance(one, ast.Name):
                    given.setdefault(one.id, set()).update(called)
    # Each name passes on what it is once, so that a long chain of them ends soon.
    waiting = list(names)
    while waiting:
        new = given.pop(waiting.pop(), set()) - names
        names |= new
        waiting += new
    return names


def _alternatives(node: ast.AST | None) -> Iterator[ast.AST]:
    """The expressions of which one is what an expression comes to."""
    waiting = [] if node is None else [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.BoolOp):
            waiting += one.values
        elif isinstance(one, ast.IfExp):
            waiting += (one.body, one.orelse)
        elif isinstance(one, ast.NamedExpr):
            waiting.append(one.value)
        else:
            yield one


def _is_system(node: ast.AST | None, names: Container[str]) -> bool:
    """Whether an expression is one of the modules of the system, which go by ``names``, too."""
    return any(_is_one(one, names) for one in _alternatives(node))


def _is_one(node: ast.AST, names: Container[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Attribute):
        return node.attr in _SYSTEM
    texts = node.args if isinstance(node, ast.Call) else []
    texts = [node.slice] if isinstance(node, ast.Subscript) else texts
    return any(_constant(one) in _SYSTEM for one in texts)


def _is_modules(node: ast.AST | None) -> bool:
    """Whether it is ``sys.modules``, by whatever name ``sys`` goes."""
    return getattr(node, "attr", getattr(node, "id", "")) == "modules"


def _is_c(library: ast.expr | None) -> bool:
    """Whether a library that is opened is the process itself, or that of C."""
    if library is None or (isinstance(library, ast.Constant) and library.value is None):
        return True
    text = _constant(library) or ast.unparse(library)
    return "libc." in text or text.endswith("libc") or "find_library('c')" in text


def _is_runner(module: str) -> bool:
    return module.partition(".")[0] in _RUNNERS


def _constant(node: ast.expr | None) -> str:
    """The text that an expression is, if that can be seen; "" else."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _constant(node.left) + _constant(node.right)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(_constant, node.values))
    if isinstance(node, ast.FormattedValue):
        return _constant(node.value)
    return ""


def _bound(node: ast.AST) -> Iterator[str]:
    """The names that a statement gives to something, those of variables as they are assigned."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.name
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.alias):
        yield node.asname or ""


def _at_import(body: list[ast.stmt]) -> Iterator[tuple[int, str]]:
    """Exits that happen as soon as the module is imported."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            continue
        inner: list[ast.stmt] = []
        for name in ("body", "orelse", "finalbody"):
            inner += getattr(node, name, [])
        for handler in getattr(node, "handlers", []):
            inner += handler.body
        if inner:
            yield from _at_import(inner)
            continue
        for one in ast.walk(node):
            if isinstance(one, ast.Call | ast.Raise):
                called = one.func if isinstance(one, ast.Call) else one.exc
                what = "" if called is None else ast.unparse(called).partition("(")[0]
                if what in ("sys.exit", "exit", "quit", "SystemExit", "os.kill", "os.killpg"):
                    yield node.lineno, f"{what} while it is imported"
                    break
                code = _code_in(one) if isinstance(one, ast.Call) else False
                if isinstance(code, ast.Module):
                    yield from ((node.lineno, what) for _, what in _at_import(code.body))
