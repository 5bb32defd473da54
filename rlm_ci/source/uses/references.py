"""Finds where the names of a repository are defined, called and used, by the syntax of its files.

Names are matched, not types: ``a.close()`` is a use of every ``close``. Uses that imports connect
to a definition come first, and are marked. No file content raises an error.
"""

from __future__ import annotations

import ast
import re
from collections import deque

from rlm_ci.source import UNPARSED, Import, Symbol, grammars
from rlm_ci.source.import_graph import ImportGraph
from rlm_ci.source.imports.file_lookup import ancestors, folder_of, joined
from rlm_ci.source.languages import language
from rlm_ci.source.outline import outline
from rlm_ci.source.python import syntax
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from tree_sitter import Node

    from rlm_ci.source import Outline

#: Kinds of a reference. TEXT is a whole word in a file that no grammar reads.
CALL, IMPORT, USE, TEXT = "call", "import", "use", "text"
_RANK = (CALL, USE, IMPORT, TEXT)
#: Kinds of nodes, and their fields with the name that they call, or define.
_CALLS = re.compile(r"call|invocation|creation|^(new_expression|composite_literal|jsx_\w+element)$")
_CALLED = frozenset(("function", "method", "name", "macro", "constructor", "type"))
_DEFINES = re.compile(
    r"(definition|declaration|declarator|_item|_spec|_signature|parameter)$|"
    r"^(class|module|method|singleton_method)$"
)
#: Nodes with a name and its type arguments: ``make<int>()``.
_GENERIC = re.compile(r"generic|^template_")
_DEFINED = frozenset(("name", "declarator"))
_IMPORTS = re.compile(r"import|include|use_declaration|namespace_use|using_directive|extern_crate")
#: Languages whose files see one another's names if they are in one folder.
BY_FOLDER = frozenset(("C#", "Go", "Java"))
#: Files that say how the names of a package or a folder are imported.
MANIFESTS = frozenset(("package.json", "tsconfig.json", "go.mod", "Cargo.toml"))
#: A path of Rust from the root of its crate, as macros write it, too.
_CRATE_PATH = re.compile(rb"(?<![\w:])(crate(?:::[A-Za-z_]\w*)+)")
_PACKAGE_FILES = ("__init__.py", "index.js", "index.ts", "mod.rs", "lib.rs")
_PACKAGE_STEMS = ("__init__", "index", "mod")
#: What a method of the same class is called on.
_OWN = frozenset(("self", "cls", "this", "super"))
#: Methods that many types have: a lone definition says nothing of what is called on a variable.
_COMMON = frozenset((
    "close", "flush", "open", "read", "reset", "run", "send", "set", "start", "stop", "write",
    *(name for kind in (bytes, dict, list, set, str) for name in dir(kind)),
))  # fmt: skip
#: What stands before a name that is called on something, backwards; characters that are looked at.
_CALLED_ON = re.compile(r"\s*(?:\.|::|>-)\s*(?:\)\()?([\w$]*)")
_LINE = 1_000
_SEPARATORS = re.compile(r"\.|::|#|/|->")


class Definition(Row):
    """A definition of a name, in the file ``path``."""

    path: str
    symbol: Symbol


class Reference(Row):
    """A use of a name, at a 1-based ``line`` whose text is ``text``.

    ``within`` is the innermost definition around it, "" at the top of the file. ``connected``: the
    file defines the name, or imports lead from it to one that does.
    """

    path: str
    line: int
    kind: str
    within: str
    text: str
    connected: bool


class ReferenceIndex:
    """The names in ``paths``; ``read`` returns the content of a file, None if it cannot be read.

    Each lookup reads all files, but outlines a file only once, and only if the name is in it. For
    names of ``words``, it is walked once, too.
    """

    def __init__(
        self,
        paths: Iterable[str],
        read: Callable[[str], bytes | None],
        words: Iterable[str] = (),
    ) -> None:
        self._words = frozenset(words)
        self._paths = tuple(sorted(paths))
        self._read = read
        self._outlines: dict[str, Outline] = {}
        self._uses: dict[str, dict[str, set[tuple[int, str]]]] = {}

    def definitions(self, name: str) -> list[Definition]:
        """The definitions of ``name``: ``method``, ``Class.method`` or ``module.Class.method``."""
        parts = _parts(name)
        files = self._containing(parts[-1]) if parts else {}
        return [
            Definition.of((path, symbol))
            for path, content in files.items()
            for symbol in self._outline(path, content).symbols
            if _qualified(path, symbol)[-len(parts) :] == parts
        ]

    def references(self, name: str, definers: Iterable[str] = ()) -> list[Reference]:
        """The uses of the last part of ``name``, those that imports connect to a definition first.

        The definitions are those of ``name``, or in the files ``definers``, if given. They
        themselves do not count as uses.
        """
        parts = _parts(name)
        if not parts:
            return []
        files = self._containing(parts[-1])
        connected = self._connected(
            files, {*definers} or {definition.path for definition in self.definitions(name)}
        )
        references = []
        for path, content in files.items():
            outline, lines = self._outline(path, content), content.split(b"\n")
            starts = {symbol.line_start for symbol in outline.symbols if _last(symbol) == parts[-1]}
            for line, kind in self._uses_of(parts[-1], outline, content):
                if line in starts and kind == USE:
                    continue
                within = _within(outline.symbols, line)
                # A lone carriage return ends a line for a parser, and none for git.
                text = b"".join(lines[line - 1 : line]).decode("utf-8", "replace").strip()
                references.append(Reference.of((path, line, kind, within, text, path in connected)))
        return sorted(
            references, key=lambda reference: (not reference.connected, _RANK.index(reference.kind))
        )

    def callees(self, definition: Definition) -> list[Definition]:
        """The definitions that a definition calls, in order of their first calls.

        What a name is called on decides: one that may well be of another type is left out.
        """
        content = self._read(definition.path) or b""
        lines = content.decode("utf-8", "replace").split("\n")
        first, last = definition.symbol.line_start, definition.symbol.line_end
        receivers: dict[str, dict[str | None, None]] = {}
        for line, name, kind in sorted(set(uses(self._outline(definition.path, content), content))):
            if kind == CALL and first <= line <= min(last, len(lines)):
                called_on = receivers_of(name, lines[line - 1])
                receivers.setdefault(name, {}).update(dict.fromkeys(called_on))
        definitions = [
            callee
            for name, called_on in receivers.items()
            for callee in called_definitions(definition, name, called_on, self.definitions(name))
        ]
        return [callee for callee in dict.fromkeys(definitions) if callee != definition]

    def _containing(self, word: str) -> dict[str, bytes]:
        """The files that have ``word`` in them as a whole word."""
        pattern = re.compile(
            rb"(?<![\w$])" + re.escape(word.encode("utf-8", "surrogatepass")) + rb"(?![\w$])"
        )
        read = ((path, self._read(path)) for path in self._paths)
        return {
            path: content
            for path, content in read
            if content and b"\0" not in content and pattern.search(content)
        }

    def _uses_of(self, name: str, outline: Outline, content: bytes) -> list[tuple[int, str]]:
        """The uses of a name in a file, each once, in order."""
        if outline.state == UNPARSED:
            return list(_in_text(name, content))
        if name not in self._words:
            mentions = uses(outline, content)
            return sorted({(line, kind) for line, word, kind in mentions if word == name})
        if outline.path not in self._uses:
            by_word: dict[str, set[tuple[int, str]]] = {}
            for line, word, kind in uses(outline, content):
                if word in self._words:
                    by_word.setdefault(word, set()).add((line, kind))
            self._uses[outline.path] = by_word
        return sorted(self._uses[outline.path].get(name, ()))

    def _outline(self, path: str, content: bytes) -> Outline:
        if path not in self._outlines:
            self._outlines[path] = outline(path, content)
        return self._outlines[path]

    def _connected(self, files: dict[str, bytes], definers: set[str]) -> set[str]:
        """The files of ``definers``, and those that import them, directly or indirectly."""
        if not definers:
            return set()
        above = {
            joined(folder, name)
            for path in definers
            for folder in ancestors(folder_of(path))
            for name in _PACKAGE_FILES
        }
        more = [
            path for path in self._paths if path in above or path.rpartition("/")[2] in MANIFESTS
        ]
        contents = {path: self._read(path) or b"" for path in more if path not in files} | files
        outlines = [
            _with_paths(self._outline(path, content), content)
            for path, content in sorted(contents.items())
        ]
        graph = ImportGraph.of(outlines, self._paths)
        folders = {(folder_of(path), language(path)) for path in definers}
        connected = {outline.path for outline in outlines if outline.language in BY_FOLDER
                 and (folder_of(outline.path), outline.language) in folders} | definers  # fmt: skip
        waiting = deque(sorted(connected))
        while waiting:
            for edge in graph.importers(waiting.popleft()):
                if edge.target not in connected:
                    connected.add(edge.target)
                    waiting.append(edge.target)
        return connected


def _with_paths(outline: Outline, content: bytes) -> Outline:
    """The outline with what paths through a crate of Rust lead to, which needs no import."""
    if outline.language != "Rust":
        return outline
    paths = {match[1].decode() for match in _CRATE_PATH.finditer(content)}
    imports = [
        Import.of((module, (name,), 0, 0, ()))
        for module, _, name in (path.rpartition("::") for path in sorted(paths))
    ]
    return outline.replace(imports=(*outline.imports, *imports))


def _parts(name: str) -> list[str]:
    return [part for part in _SEPARATORS.split(name.strip().removesuffix("()")) if part]


def _last(symbol: Symbol) -> str:
    return symbol.name.rpartition(".")[2]


def _qualified(path: str, symbol: Symbol) -> list[str]:
    """The parts of the path, without the suffix, then those of the name."""
    *folders, file = path.split("/")
    stem = file.partition(".")[0]
    names = symbol.name.split(".")
    return [*folders, *names] if stem in _PACKAGE_STEMS else [*folders, stem, *names]


def receivers_of(name: str, line: str) -> Iterator[str | None]:
    """What ``name`` is called on in a line: "" for nothing, None for what has no name."""
    line = line[:_LINE]
    for match in re.finditer(rf"(?<![\w$]){re.escape(name)}(?![\w$])", line):
        before = _CALLED_ON.match(line[: match.start()][::-1][:_LINE])
        yield (before[1][::-1] or None) if before else ""


def called_definitions(
    caller: Definition, name: str, receivers: Iterable[str | None], some: Sequence[Definition]
) -> Iterator[Definition]:
    """Those of ``some`` that ``caller`` calls by ``name`` on ``receivers``."""
    outer = caller.symbol.name.rpartition(".")[0]
    owners = {definition: definition.symbol.name.rpartition(".")[0] for definition in some}
    methods = [definition for definition, owner in owners.items() if owner]
    for receiver in receivers:
        holder = (receiver or "").lower().strip("_")
        if receiver == "":
            is_bare = language(caller.path) != "Python"  # there, a method needs an object
            yield from (
                definition for definition, owner in owners.items()
                if owner in ("", caller.symbol.name) or (is_bare and owner == outer)
            )  # fmt: skip
        elif holder in _OWN:
            mine = [
                method
                for method in methods
                if method.path == caller.path and owners[method] == outer
            ]
            inherited = [method for method in methods if method not in mine]
            is_own = bool(mine) and holder != "super"
            yield from mine if is_own else inherited if len(inherited) == 1 else ()
        elif definitions := [
            definition
            for definition, owner in owners.items()
            if holder == _known_as(definition, owner)
        ]:
            yield from definitions
        elif len(methods) == 1 and name not in _COMMON:
            yield from methods


def _known_as(definition: Definition, owner: str) -> str:
    """What a definition is called on if it says so itself: its class, or its module."""
    folder, _, file = definition.path.rpartition("/")
    stem = file.partition(".")[0]
    module = folder.rpartition("/")[2] if stem in _PACKAGE_STEMS else stem
    return (owner.rpartition(".")[2] or module).lower().strip("_")


def _within(symbols: Sequence[Symbol], line: int) -> str:
    around = [symbol for symbol in symbols if symbol.line_start <= line <= symbol.line_end]
    return (
        min(around, key=lambda symbol: symbol.line_end - symbol.line_start).name if around else ""
    )


def _in_text(name: str, content: bytes) -> Iterator[tuple[int, str]]:
    pattern = re.compile(
        rb"(?<![\w$])" + re.escape(name.encode("utf-8", "surrogatepass")) + rb"(?![\w$])"
    )
    for line, text in enumerate(content.split(b"\n"), 1):
        if pattern.search(text):
            yield line, TEXT


def uses(outline: Outline, content: bytes) -> Iterator[tuple[int, str, str]]:
    """The names that a file uses, each with its line and the kind of its use."""
    if outline.language == "Python":
        python_syntax = syntax.read(content)
        return _in_python(python_syntax.module) if python_syntax is not None else iter(())
    root = grammars.parse(outline.language, content)
    return _in_tree(root) if root is not None else iter(())


def _in_python(module: ast.Module) -> Iterator[tuple[int, str, str]]:
    called = set()
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            called.add(node.func)
        elif isinstance(node, ast.alias):
            for name in {node.name.rpartition(".")[2], node.asname or "*"} - {"*"}:
                yield node.lineno, name, IMPORT
    for node in ast.walk(module):
        if isinstance(node, ast.Name):
            yield node.lineno, node.id, CALL if node in called else USE
        elif isinstance(node, ast.Attribute):
            line = node.end_lineno or node.lineno
            yield line, node.attr, CALL if node in called else USE


def _in_tree(root: Node) -> Iterator[tuple[int, str, str]]:
    for path in grammars.paths(root):
        node, _ = path[-1]
        grammar_kind = node.type
        is_name = grammar_kind.endswith("identifier") or grammar_kind in ("constant", "name")
        if is_name and not node.child_count and node.text and (kind := _kind(path)):
            yield node.start_point.row + 1, node.text.decode("utf-8", "replace"), kind


def _kind(above: Sequence[tuple[Node, str]]) -> str:
    """The kind of use of the last node on a path from the root; "" for a definition."""
    *outer, (node, field) = above
    if any(_IMPORTS.search(node.type) for node, _ in outer):
        return IMPORT
    is_name = True
    for parent, its_field in reversed(outer):
        if _CALLS.search(parent.type):
            return CALL if field in _CALLED else USE
        is_name = is_name and field in _DEFINED
        if is_name and _DEFINES.search(parent.type):
            return ""
        if _GENERIC.search(parent.type):
            node = parent
        elif parent.end_byte != node.end_byte:
            return USE
        field = its_field
    return USE
