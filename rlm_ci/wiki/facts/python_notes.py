"""Notes about Python code, from its syntax tree."""

from __future__ import annotations

import ast
import re
from contextlib import suppress

from rlm_ci.source.python import syntax
from rlm_ci.source.python.names import dotted, is_class, name_of, text_of
from rlm_ci.source.python.statements import every, is_guard
from rlm_ci.wiki.facts.note import LONGEST, THROWS, CodeNote, bounded, folded
from rlm_ci.wiki.facts.readme import listed
from rlm_ci.wiki.surface.failures import python_failures
from rlm_ci.wiki.surface.registries import python_registries
from rlm_ci.wiki.surface.settings import python_settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Definition = ast.FunctionDef | ast.AsyncFunctionDef
    #: A node that has lines.
    Placed = ast.stmt | ast.expr | ast.excepthandler | ast.arg

#: Expressions and statements that a note may be about, and nodes below which there is nothing.
_NOTED = {
    ast.Call,
    ast.Compare,
    ast.Import,
    ast.ImportFrom,
    ast.Raise,
    ast.ExceptHandler,
    ast.Subscript,
}
_EMPTY = {ast.Load, ast.Store, ast.Del, ast.Name, ast.Constant}
#: Calls by their full names, by the kind of the note.
_CALLS = {
    name: kind
    for kind, names in {
        "shell": """os.system os.popen subprocess.getoutput subprocess.getstatusoutput
            asyncio.create_subprocess_shell""",
        "program": """subprocess.run subprocess.call subprocess.check_call subprocess.check_output
            subprocess.Popen os.execv os.execve os.execvp os.execvpe os.execl os.execlp
            os.posix_spawn os.posix_spawnp os.spawnv os.spawnl os.startfile pty.spawn
            asyncio.create_subprocess_exec""",
        "code": """eval exec builtins.eval builtins.exec runpy.run_path runpy.run_module
            code.interact""",
        "objects": """pickle.load pickle.loads pickle.Unpickler marshal.load marshal.loads
            shelve.open dill.load dill.loads joblib.load yaml.load yaml.unsafe_load yaml.full_load
            torch.load""",
        "deletes": "os.remove os.unlink os.rmdir os.removedirs shutil.rmtree",
        "network": """socket.socket socket.create_connection socket.create_server
            urllib.request.urlopen urllib.request.urlretrieve http.client.HTTPConnection
            http.client.HTTPSConnection smtplib.SMTP smtplib.SMTP_SSL ftplib.FTP ftplib.FTP_TLS
            imaplib.IMAP4 poplib.POP3 telnetlib.Telnet asyncio.open_connection
            asyncio.start_server requests.get requests.post requests.put requests.delete
            requests.request requests.Session httpx.get httpx.post httpx.request httpx.Client
            httpx.AsyncClient urllib3.PoolManager aiohttp.ClientSession""",
        "threads": """threading.Thread threading.Timer _thread.start_new_thread
            concurrent.futures.ThreadPoolExecutor concurrent.futures.ProcessPoolExecutor
            concurrent.futures.thread.ThreadPoolExecutor
            concurrent.futures.process.ProcessPoolExecutor multiprocessing.Process
            multiprocessing.Pool os.fork os.forkpty""",
        "environment": "os.getenv os.environ.get os.environ.pop os.environ.setdefault",
        "ends": "os._exit os.abort sys.exit",
    }.items()
    for name in names.split()
}
#: Packages whose import means a network; a name counts for all below it.
_SPEAKERS = frozenset((
    "aioboto3", "aiohttp", "aiokafka", "aiomysql", "anthropic", "asyncpg", "asyncssh", "azure",
    "boto3", "botocore", "elasticsearch", "fabric", "ftplib", "github", "gitlab", "google.cloud",
    "grpc", "gunicorn", "h2", "http.client", "http.server", "httpcore", "httplib2", "httpx",
    "httpx2", "hypercorn", "imaplib", "kafka", "ldap3", "mysql.connector", "nntplib", "openai",
    "paho", "paramiko", "pika", "poplib", "psycopg", "psycopg2", "pycurl", "pymongo", "pymysql",
    "redis", "requests", "smtplib", "socketserver", "telnetlib", "tornado", "treq",
    "twisted.internet", "urllib.request", "urllib3", "uvicorn", "waitress", "websocket",
    "websockets", "werkzeug.serving", "wsgiref.simple_server", "xmlrpc", "zmq",
))  # fmt: skip
#: What is taken from such a package without using a network.
_SILENT = frozenset((
    "_collections", "_types", "contrib", "errors", "exceptions", "fields", "filepost", "models",
    "status_codes", "structures", "types", "typing", "util", "utils",
))  # fmt: skip
#: Bases, and decorators, that say what instances are.
_ENUMS = {"enum.Enum", "enum.IntEnum", "enum.StrEnum", "enum.Flag", "enum.IntFlag"}
_FINALS = {"typing.Final", "typing_extensions.Final"}
_LITERALS = {"typing.Literal", "typing_extensions.Literal"}
_ABSTRACT = {"abc.abstractmethod", "abc.abstractproperty"}
#: Folders that packages lie in.
_ROOTS = frozenset(("lib", "python", "src"))
#: Statements of a function that does nothing but read a variable.
_SHORT = 4
_MARK = re.compile(r"#.*?\b(TODO|FIXME|XXX|HACK)\b(.*)")


def python_notes(source: bytes, path: str = "") -> list[CodeNote]:
    """The invariants and risks of the file ``path``; nothing if it does not parse."""
    python_syntax = syntax.read(source)
    if python_syntax is None:
        return []
    text, tree = python_syntax
    reader = _Reader(tree, text, path)
    with suppress(RecursionError):
        reader.statements(tree.body, "", public=True)
    return bounded(
        [
            *reader.notes,
            *python_failures(tree),
            *python_settings(tree, text),
            *python_registries(tree),
        ]
    )


class _Reader:
    """One walk over a tree."""

    def __init__(self, tree: ast.Module, source: bytes, path: str) -> None:
        self.notes: list[CodeNote] = []
        self._lines = source.split(b"\n")
        self._names = _aliases(tree)
        reads = b"environ" in source or b"getenv" in source
        self._wrappers = self._wrapping(tree) if reads else frozenset[str]()
        self._speakers: set[str] = set()
        folders = path.split("/")[:-1]
        self._package = next((folder for folder in folders if folder not in _ROOTS), "")
        self._marks()

    # ── texts and names ──

    def _segment(self, node: Placed, limit: int = 160) -> str:
        rows = self._lines[node.lineno - 1 : node.end_lineno or node.lineno]
        rows[-1] = rows[-1][: node.end_col_offset]
        rows[0] = rows[0][node.col_offset :]
        return folded(b" ".join(rows).decode("utf-8", "surrogateescape"), limit)

    def _dotted(self, node: ast.AST) -> str:
        """The full name of an expression by the imports, "" if they do not have it."""
        first, dot, attributes = dotted(node).partition(".")
        full_name = self._names.get(first)
        if full_name is None:
            return first if not attributes and first in ("eval", "exec") else ""
        return f"{full_name}{dot}{attributes}"

    def _note(
        self,
        kind: str,
        node: Placed,
        within: str,
        text: str,
        detail: str = "",
        *,
        end: int | None = None,
    ) -> None:
        end = min(end or node.end_lineno or node.lineno, node.lineno + LONGEST - 1)
        self.notes.append(CodeNote(kind, node.lineno, end, within, text, detail))

    def _marks(self) -> None:
        for number, row in enumerate(self._lines, 1):
            if b"#" in row:
                match = _MARK.search(row.decode("utf-8", "surrogateescape"))
                if match and match[0].count('"') % 2 == 0 and match[0].count("'") % 2 == 0:
                    text = folded(match[0].lstrip("# "))
                    self.notes.append(CodeNote("marker", number, number, "", text))

    # ── statements ──

    def statements(self, body: Iterable[ast.stmt], within: str, *, public: bool) -> None:
        """Notes about statements at the top of a module or a class, and all below them."""
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._function(node, within, public=public)
            elif isinstance(node, ast.ClassDef):
                self._class(node, within, public=public)
            elif isinstance(node, ast.If | ast.Try | ast.With):
                self._below(node, within, public=public)
            else:
                if isinstance(node, ast.Assert):
                    self._note("asserts", node, within, self._segment(node.test))
                elif isinstance(node, ast.AnnAssign):
                    self._annotated(node, within)
                self._expressions(node, within)

    def _below(self, node: ast.stmt, within: str, *, public: bool) -> None:
        """A compound statement at the top: what is defined in it is defined there too."""
        if isinstance(node, ast.If) and is_guard(node.test):
            return  # an entry point, which the outline has
        if isinstance(node, ast.If) and name_of(node.test) == "TYPE_CHECKING":  # it never runs
            self.statements(node.orelse, within, public=public)
            return
        inner: list[ast.stmt] = []
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
                self._note("choices", node, within, name, listed(members, 12), end=node.lineno)
        if shown and (any(map(self._freezes, node.decorator_list)) or "typing.NamedTuple" in bases):
            self._note("frozen", node, within, name, end=node.lineno)
        for expression in (*node.decorator_list, *node.bases):
            self._expressions(expression, within)
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
        bare = node.annotation
        if isinstance(bare, ast.Subscript):
            bare = bare.value
        if self._dotted(bare) in _FINALS:
            name = f"{within}.{node.target.id}" if within else node.target.id
            self._note("final", node, within, name)

    def _function(self, node: Definition, within: str, *, public: bool) -> None:
        name = f"{within}.{node.name}" if within else node.name
        dunder = node.name.startswith("__") and node.name.endswith("__")
        if public and (dunder or not node.name.startswith("_")):
            is_abstract = any(self._dotted(name) in _ABSTRACT for name in node.decorator_list)
            if is_abstract or (within and _is_left(node)):
                self._note("abstract", node, within, name, end=node.lineno)
            self._choices(node, name)
            for statement in node.body:
                if isinstance(statement, ast.If):
                    self._refusal(statement, name)
        self._expressions(node, name)

    def _choices(self, node: Definition, name: str) -> None:
        arguments = node.args
        for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
            if argument.annotation is not None and any(
                isinstance(part, ast.Subscript) and self._dotted(part.value) in _LITERALS
                for part in ast.walk(argument.annotation)
            ):
                text = self._segment(argument.annotation)
                if re.search(r"Literal\[(?:True|False)\]", text):  # an overload
                    continue
                self._note("choices", argument, name, f"{name}: {argument.arg}", text)

    def _refusal(self, node: ast.If, name: str) -> None:
        """``if …: raise …`` in the body of a function: an argument or a state that it refuses."""
        last = node.body[-1]
        if not isinstance(last, ast.Raise) or last.exc is None or len(node.body) > 3:
            return
        called = last.exc.func if isinstance(last.exc, ast.Call) else last.exc
        kind = self._segment(called)
        if kind == "NotImplementedError" or (called is last.exc and not is_class(kind)):
            return  # what was caught, or kept, is raised again
        text = f"{kind}: {self._segment(node.test)}"
        self._note("raises", node, name, text, _message(last.exc), end=last.end_lineno)

    # ── expressions ──

    def _expressions(self, top: ast.AST, within: str) -> None:
        nodes = [top]
        for node in nodes:  # which grow; ast.walk takes three times as long
            nodes += _children(node)
            if type(node) not in _NOTED:
                continue
            if isinstance(node, ast.Call):
                self._call(node, within)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self._imported(node, within)
            elif isinstance(node, ast.Raise) and _raised(node) == "SystemExit":
                self._note("ends", node, within, self._segment(node, 110))
            elif isinstance(node, ast.Raise):
                name = _raised(node)
                if is_class(name) and name != "NotImplementedError":
                    self._note(THROWS, node, within, self._segment(node, 110), name)
            elif isinstance(node, ast.ExceptHandler):
                self._handler(node, within)
            elif isinstance(node, ast.Subscript) and self._is_environment(node.value):
                self._looked_up(node, node.slice, within)
            elif isinstance(node, ast.Compare) and self._is_environment(node.comparators[0]):
                self._looked_up(node, node.left, within)

    def _looked_up(self, node: ast.Subscript | ast.Compare, name: ast.expr, within: str) -> None:
        """A variable that is read or looked for; what is set configures other programs."""
        is_read = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)
        is_asked = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn)
        if is_read or (is_asked and text_of(name)):
            self._note("environment", node, within, self._segment(node), text_of(name))

    def _imported(self, node: ast.Import | ast.ImportFrom, within: str) -> None:
        """The first import of a package that speaks to a network."""
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif node.module and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            return
        for name in names:
            parts = name.split(".")
            if parts[0] == self._package:
                continue
            heads = {".".join(parts[:size]) for size in (1, 2, 3)} & _SPEAKERS
            if heads - self._speakers and not _SILENT.intersection(parts):
                self._speakers |= heads
                self._note("network", node, within, self._segment(node, 110))
                return

    def _call(self, node: ast.Call, within: str) -> None:
        name = self._dotted(node.func)
        kind = _CALLS.get(name)
        if kind is None and isinstance(node.func, ast.Name) and node.func.id in self._wrappers:
            kind = "environment" if any(map(text_of, node.args[:1])) else None
        if kind is None and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            kind = "environment" if self._is_environment(node.func.value) else None
        if kind is None and self._is_of_path(node.func):
            kind = "deletes"
        if kind is None:
            return
        if kind == "program" and any(
            keyword.arg == "shell"
            and not (isinstance(keyword.value, ast.Constant) and keyword.value.value is False)
            for keyword in node.keywords
        ):
            kind = "shell"
        more = [*node.args[1:], *(keyword.value for keyword in node.keywords)]
        if name == "yaml.load" and any("Safe" in self._segment(argument) for argument in more):
            return
        detail = text_of(node.args[0]) if kind == "environment" and node.args else ""
        if kind == "environment" and not detail and within.rpartition(".")[2] in self._wrappers:
            return  # those who call it name the variable
        self._note(kind, node, within, self._segment(node, 110), detail)

    def _is_environment(self, node: ast.expr) -> bool:
        """Whether an expression is the environment, or a parameter that is called so."""
        return self._dotted(node) == "os.environ" or (
            isinstance(node, ast.Name) and node.id == "environ" and node.id not in self._names
        )

    def _wrapping(self, tree: ast.Module) -> frozenset[str]:
        """The functions of the file that read the variable that their first parameter names."""
        if "os" not in {name.partition(".")[0] for name in self._names.values()}:
            return frozenset()
        wrappers = set()
        for node in every(tree):
            if (
                not isinstance(node, ast.FunctionDef)
                or not node.args.args
                or len(node.body) > _SHORT
            ):
                continue
            first = node.args.args[0].arg
            for inner in ast.walk(node):
                read: ast.expr | None = None
                if isinstance(inner, ast.Call) and inner.args:
                    is_read = _CALLS.get(self._dotted(inner.func)) == "environment"
                    read = inner.args[0] if is_read else None
                elif isinstance(inner, ast.Subscript) and self._is_environment(inner.value):
                    read = inner.slice
                if isinstance(read, ast.Name) and read.id == first:
                    wrappers.add(node.name)
        return frozenset(wrappers)

    def _is_of_path(self, called: ast.expr) -> bool:
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
            isinstance(statement, ast.Pass | ast.Continue)
            or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
            for statement in node.body
        )
        if broad and (idle or (node.type is None and not _raises(node.body))):
            line = self._lines[node.lineno - 1].decode("utf-8", "surrogateescape")
            self._note("swallows", node, within, folded(line, 110))


def _raised(node: ast.Raise) -> str:
    """The name of what is raised, without its module; "" where it is no name."""
    return name_of(node.exc.func if isinstance(node.exc, ast.Call) else node.exc)


def _is_left(node: Definition) -> bool:
    """Whether a method says nothing but that it is left to subclasses."""
    last = node.body[-1]
    is_documented = isinstance(node.body[0], ast.Expr)
    is_lone = len(node.body) == 1 + is_documented and isinstance(last, ast.Raise)
    return is_lone and isinstance(last, ast.Raise) and _raised(last) == "NotImplementedError"


def _raises(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Raise) for statement in body for node in ast.walk(statement))


def _message(raised: ast.expr) -> str:
    for argument in raised.args if isinstance(raised, ast.Call) else ():
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            return folded(argument.value, 200)
        if isinstance(argument, ast.JoinedStr):
            pieces = (text_of(piece) or "…" for piece in argument.values)
            return folded("".join(pieces), 200)
    return ""


def _aliases(tree: ast.Module) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in every(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                top = name.name.partition(".")[0]
                names[name.asname or top] = name.name if name.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for name in node.names:
                names[name.asname or name.name] = f"{node.module}.{name.name}"
    return names


def _children(node: ast.AST) -> list[ast.AST]:
    """What stands directly below a node, but for what has nothing below it."""
    nodes: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            nodes += [child for child in value if isinstance(child, ast.AST)]
        elif isinstance(value, ast.AST) and type(value) not in _EMPTY:
            nodes.append(value)
    return nodes
