"""The outline of a file by its grammar: the walk that all languages share.

The modules of ``definitions`` say what a definition is in each language, and whether it is public.
Bodies of functions are skipped.
"""

from __future__ import annotations

import re
from importlib import import_module

from rlm_ci.source import PARSED, PARTLY, EntryPoint, Import, Outline, Symbol, grammars
from rlm_ci.source.signatures import clipped, folded, line_count, paragraph
from rlm_ci.source.test_files import is_trial
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tree_sitter import Node

    #: Looks at a node of its kind, at the top level or in the body of a definition.
    Handler = Callable[["Walk", "DefinitionScope", Node, "LeadingComment"], None]

_DIALECTS = {
    "C": "c", "C++": "c", "C#": "csharp", "Go": "go", "Java": "java",
    "JavaScript": "javascript", "TypeScript": "javascript", "TSX": "javascript", "PHP": "php",
    "Python": "python", "Ruby": "ruby", "Rust": "rust",
}  # fmt: skip
#: The kinds of definitions that may contain others.
_HOLDERS = frozenset({"class", "interface", "enum", "struct", "trait", "module"})
_ANNOTATIONS = ("annotation", "marker_annotation", "attribute_list")
_MODIFIERS = ("modifiers", "modifier", "visibility_modifier", "attribute_list")
#: Levels of nested definitions that are read.
_DEEPEST = 40
_MARK = re.compile(r"^\s*(?:/\*+!?|//[/!]*|\*+/|\*(?!\*)|#+|--+)?\s?")
_END = re.compile(r"\s*\*+/\s*$")
_REMARK = re.compile(r"/\*.*?\*/|(?<![:\"'\w])//[^\n]*(?=\n|$)", re.DOTALL)
_TAG = re.compile(r"</?[A-Za-z][^<>]{0,80}>|\{@\w+\}|\{@\w+ ([^{}]{0,200})\}")
#: What a comment of Go tells a program: ``//go:generate mockgen``.
_DIRECTIVE = re.compile(r"//(?:[a-z0-9]+:[a-z0-9]|(?:line|extern|export) )")
#: The signs of a Rust comment that is about the code around it.
_INNER = ("//!", "/*!")
_HEADING = re.compile(r"^(?:#{1,6}|>)\s+")
#: Code that somebody has put into a comment: an attribute, or a line of statements.
_CODE = re.compile(r"#!?\[|[^\n]*[;{}]$")
_NO_WORDS = re.compile(
    r"copyright|\blicen[cs]e[ds]?\b|this file is part of|^\W*authors?\s*:|"
    r"SPDX-|frozen_string_literal|@ts-|eslint|tslint|prettier|rubocop|"
    r"-\*-|^\W*(?:vim?|encoding|coding|typed|go:build|\+build|jshint|global|nolint)\b",
    re.IGNORECASE,
)


class DefinitionScope(Value):
    """A scope of definitions: their names begin with ``prefix``; each language sets ``state``."""

    prefix: str = ""
    kind: str = ""
    state: str = ""


class LeadingComment(Value):
    """The comments before a node, and the attributes between them."""

    comments: tuple[Node, ...] = ()
    leads: tuple[Node, ...] = ()


class Dialect(Value):
    """The handlers of a language, by kind of node.

    Nodes in ``through`` hold definitions, those in ``leads`` belong to the definition after them,
    and those in ``opening`` may follow the comment on the whole file.
    """

    handlers: Mapping[str, Handler]
    through: frozenset[str] = frozenset()
    comments: frozenset[str] = frozenset({"comment"})
    leads: frozenset[str] = frozenset()
    opening: frozenset[str] = frozenset()
    finish: Callable[[Walk], None] | None = None


class Walk:
    """A walk through one file, and what it has found so far."""

    def __init__(self, path: str, language: str, content: bytes, dialect: Dialect) -> None:
        self.path = path
        self.language = language
        self.content = content
        self.dialect = dialect
        self.symbols: list[Symbol] = []
        self.names: set[str] = set()
        self.imports: list[Import] = []
        self.entries: list[EntryPoint] = []
        #: Names that another statement makes public.
        self.exported: set[str] = set()
        #: Names that such a statement lists: own name, exported name, node.
        self.listed: list[tuple[str, str, Node]] = []
        #: Names of other modules that this file exports.
        self.passed: set[str] = set()
        #: Assignments to members of a name: owner, name, statement, value, comment.
        self.members: list[tuple[str, str, Node, Node, LeadingComment]] = []
        #: The access that a word alone, such as ``private``, gives to the rest of a body.
        self.access = ""
        #: The number of bodies around the current node.
        self.depth = 0
        self._tests: list[int] = []

    def text(self, node: Node) -> str:
        return self.content[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def fields(self, node: Node) -> Mapping[str, Node]:
        """The children with a field, the first of each; of the others, the first of each kind."""
        fields: dict[str, Node] = {}
        for field, child in grammars.parts(node):
            fields.setdefault(field or child.type, child)
        return fields

    def head(self, since: Node | int, until: Node | int) -> str:
        """The text from one place to another, on one line."""
        start = since if isinstance(since, int) else since.start_byte
        end = until if isinstance(until, int) else until.start_byte
        text = self.content[start : min(end, start + 4000)].decode("utf-8", "replace")
        if "/*" in text or "//" in text:
            text = _REMARK.sub(" ", text)
        return folded(text).rstrip(" ;{:=,")

    def line(self, node: Node, since: int | None = None) -> str:
        """The first line of a node's text, which begins at the byte ``since``, if given."""
        start = node.start_byte if since is None else since
        text = self.content[start : node.end_byte].decode("utf-8", "replace").strip()
        first, broken, _ = text.partition("\n")
        first = " ".join(first.split())
        return clipped(f"{first.rstrip()} …" if broken else first.rstrip(";, "), 160)

    def define(  # noqa: PLR0917 - all of a symbol's own
        self, kind: str, name: str, node: Node, scope: DefinitionScope,
        note: LeadingComment | None = None, head: str = "", *, is_public: bool,
    ) -> DefinitionScope:  # fmt: skip
        """Add a definition, with its first line as default head; returns the scope inside it."""
        note = note or LeadingComment()
        full = f"{scope.prefix}{clipped(name, 200)}"
        self.names.add(full)
        start = (note.leads[0] if note.leads else node).start_point.row + 1
        words = self._words(note.comments)
        row = (kind, full, start, _last_row(node) + 1, is_public, head or self.line(node), *words)
        self.symbols.append(Symbol.of(row))
        return DefinitionScope(f"{full}.", kind)

    def declare(
        self, kind: str, node: Node, scope: DefinitionScope, note: LeadingComment, since: int,
        *, is_public: bool,
    ) -> str:  # fmt: skip
        """Define what ``node`` names, and what its body contains; returns the name, or ``""``.

        The head begins at the byte ``since``.
        """
        fields = self.fields(node)
        if "name" not in fields:
            return ""
        body = fields.get("body")
        name, head = self.text(fields["name"]), self.head(since, body or node.end_byte)
        inner = self.define(kind, name, node, scope, note, head, is_public=is_public)
        if body is not None and kind in _HOLDERS:
            self.body(body, inner)
        return name

    def each(  # noqa: PLR0917 - as ``define``
        self, kind: str, node: Node, part: str, scope: DefinitionScope,
        note: LeadingComment | None = None, head: str = "", *, is_public: bool,
        within: Node | None = None,
    ) -> None:  # fmt: skip
        """Define what each ``part`` names (a field or kind ``within`` the node; ``""``: itself)."""
        for field, child in grammars.parts(within or node) if part else [("", node)]:
            name = self.fields(child).get("name") if part in ("", field, child.type) else None
            if name is not None:
                self.define(kind, self.text(name), node, scope, note, head, is_public=is_public)

    def modifiers(self, node: Node) -> tuple[set[str], int, str]:
        """The modifiers of a declaration, the byte after its annotations, and the annotations."""
        words, since, notes = set(), node.start_byte, ""
        for _, child in grammars.parts(node):
            inner = grammars.parts(child) if child.type == "modifiers" else [("", child)]
            for mark in (part for _, part in inner if child.type in _MODIFIERS):
                if mark.type in _ANNOTATIONS:
                    since = mark.end_byte
                    notes += self.text(mark)
                else:
                    words.add(self.text(mark))
        return words, since, notes

    def enter(self, kind: str, name: str, node: Node) -> None:
        """Add an entry point."""
        lines = node.start_point.row + 1, _last_row(node) + 1
        self.entries.append(EntryPoint.of((kind, clipped(name, 300), *lines, "")))

    def bring(
        self, module: str, names: tuple[str, ...], at: Node | int, level: int = 0,
        called: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """Add an import ``at`` a node or a line."""
        line = at if isinstance(at, int) else at.start_point.row + 1
        self.imports.append(Import.of((module.strip(), names, line, level, called)))

    def test(self, node: Node) -> None:
        """Add a test case; all test cases of a file are one entry point."""
        self._tests += [node.start_point.row + 1, _last_row(node) + 1]

    # ── the walk ──

    def visit(self, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
        """Look at one node at the top level, or in the body of a definition."""
        handler = self.dialect.handlers.get(node.type)
        if handler is not None:
            handler(self, scope, node, note)
        elif node.type in self.dialect.through:
            self.body(node, scope)

    def body(self, node: Node, scope: DefinitionScope, first: Sequence[Node] = ()) -> None:
        """Look at the children of ``node``, after the comments ``first``."""
        if self.depth > _DEEPEST:
            return
        self.depth += 1
        dialect = self.dialect
        comments: list[Node] = []
        leads: list[Node] = []
        code_row = -1  # the row in which the last node ended that is no comment
        for child in (*first, *(part for _, part in grammars.parts(node))):
            kind = child.type
            if kind in dialect.comments:
                if self._is_inner(child):
                    continue  # it is about the code around it
                row = child.start_point.row
                if row != code_row and not leads:
                    if comments and row > _last_row(comments[-1]) + 1:
                        comments = []
                    comments.append(child)
                continue
            if not child.is_named:
                code_row = child.end_point.row
                continue
            if kind in dialect.leads:
                leads.append(child)
                continue
            begins = (leads[0] if leads else child).start_point.row
            is_near = bool(comments) and begins <= _last_row(comments[-1]) + 1
            self.visit(
                scope, child, LeadingComment(tuple(comments) if is_near else (), tuple(leads))
            )
            code_row = _last_row(child)
            comments, leads = [], []
        self.depth -= 1

    def finished(self, root: Node) -> Outline:
        """The outline of what was found."""
        public = {symbol.name for symbol in self.symbols if symbol.is_public} | self.exported
        names = {symbol.name for symbol in self.symbols}
        doc, doc_start, doc_end = self._file_doc(root)
        if self._tests and is_trial(self.path):
            row = (min(self._tests), max(self._tests))
            self.entries.append(EntryPoint.of(("test", clipped(self.path, 300), *row, "")))
        symbols = [
            symbol.replace(is_public=shown)
            if (shown := _is_shown(symbol.name, public, names)) != symbol.is_public
            else symbol
            for symbol in self.symbols
        ]
        state = PARTLY if root.has_error else PARSED
        return Outline(
            self.path, self.language, state, line_count(self.content), doc, doc_start, doc_end,
            tuple(sorted(symbols, key=lambda symbol: (symbol.line_start, symbol.name))),
            tuple(sorted(set(self.imports), key=lambda item: (item.line, item.module, item.names))),
            tuple(sorted(self.entries, key=lambda use: (use.line_start, use.kind, use.name))),
            tuple(sorted(self.passed)),
        )  # fmt: skip

    # ── words ──

    def _words(self, comments: Sequence[Node]) -> tuple[str, int, int]:
        """The first paragraph of some comments, and its lines."""
        rows: list[str] = []
        if not comments:
            return "", 0, 0
        first = comments[0].start_point.row
        for comment in comments:
            # Empty rows for a gap between two comments.
            rows += [""] * (comment.start_point.row - first - len(rows))
            rows += self.text(comment).rstrip("\n").split("\n")
        if self.language == "Go":
            rows = ["" if _DIRECTIVE.match(row) else row for row in rows]
        bare = [_bare(row) for row in rows]
        if self.language == "Rust":  # whose documentation is Markdown
            bare = [_HEADING.sub("", row) for row in bare]
        text, start, end = paragraph(bare)
        if not text or _NO_WORDS.search(text) or _CODE.match(text):
            return "", 0, 0
        return text, first + start + 1, first + end

    def _is_inner(self, comment: Node) -> bool:
        """Whether it is about the code around it, and not about what follows."""
        return self.language == "Rust" and self.text(comment).startswith(_INNER)

    def _file_doc(self, root: Node) -> tuple[str, int, int]:
        """The documentation of the file: the last comment at its top without a definition."""
        groups: list[list[Node]] = []
        follows: Node | None = None
        for _, child in grammars.parts(root):
            if child.type in ("hash_bang_line", "php_tag"):
                continue
            if child.type not in self.dialect.comments:
                follows = child
                break
            is_near = bool(groups) and child.start_point.row <= _last_row(groups[-1][-1]) + 1
            if is_near and self._is_inner(child) == self._is_inner(groups[-1][-1]):
                groups[-1].append(child)
            else:
                groups.append([child])
        if groups and follows is not None and follows.type not in self.dialect.opening:
            inner = self._is_inner(groups[-1][0])
            if not inner and follows.start_point.row <= _last_row(groups[-1][-1]) + 1:
                groups.pop()
        for group in reversed(groups):
            remark = self._words(group)
            if remark[0]:
                return remark
        return "", 0, 0


def _last_row(node: Node) -> int:
    """The row in which a node ends; some comments include the end of their line."""
    end = node.end_point
    return end.row - 1 if end.column == 0 and end.row > node.start_point.row else end.row


def _bare(row: str) -> str:
    """A line of a comment without its signs; a line of tags becomes "", which ends a paragraph."""
    text = _END.sub("", _MARK.sub("", row, count=1))
    text = _TAG.sub(lambda match: match[1] or "", text) if "<" in text or "{@" in text else text
    text = text.strip()
    for word in ("@brief ", "\\brief ", "@file ", "\\file "):
        text = text.removeprefix(word)
    return "" if text.startswith(("@", "\\param", "\\return")) else text


def _is_shown(name: str, public: set[str], names: set[str]) -> bool:
    """Whether a name is public, and so is all around it."""
    while name:
        if name in names and name not in public:
            return False
        name = name.rpartition(".")[0]
    return True


def is_open(words: set[str], scope: DefinitionScope) -> bool:
    """Whether modifiers, or the interface around it, make a member public in Java and C#."""
    return "public" in words or (scope.kind == "interface" and "private" not in words)


def namespace(walk: Walk, scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    """Handle a namespace, with a body or for the rest of the file."""
    fields = walk.fields(node)
    if "name" in fields:
        name = "".join(walk.text(fields["name"]).split())  # of damaged code it may have lines
        walk.define("module", name, node, scope, head=folded(f"namespace {name}"), is_public=True)
    walk.body(fields.get("body", node), scope)


def outline(path: str, language: str, content: bytes) -> Outline | None:
    """The outline by the grammar of ``language``; None without a grammar, or if it gives up."""
    if language not in _DIALECTS:
        return None
    root = grammars.parse(language, content)
    if root is None:
        return None
    module = import_module(f"rlm_ci.source.definitions.{_DIALECTS[language]}")
    walk = Walk(path, language, content, module.DIALECT)
    walk.body(root, DefinitionScope())
    if walk.dialect.finish is not None:
        walk.dialect.finish(walk)
    return walk.finished(root)


def first_lines(language: str, content: bytes, large: int) -> list[int]:
    """The first lines of what is at the top level, and in definitions of ``large`` lines."""
    root = grammars.parse(language, content)
    return [] if root is None else list(_first_lines(root, large, 0))


def _first_lines(node: Node, large: int, depth: int) -> Iterator[int]:
    for _, child in grammars.parts(node):
        if not child.is_named or "comment" in child.type:
            continue
        row = child.start_point.row
        if depth == 0 or child.type not in ("identifier", "type_identifier"):
            yield row + 1
        if depth < 6 and child.end_point.row - row > large:
            yield from _first_lines(child, large, depth + 1)
