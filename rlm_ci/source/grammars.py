"""Parses files by the grammars of tree-sitter, within limits.

Its parsers have no limit of their own: a few hundred kilobytes of ``a<a<a<`` cost gigabytes, and an
allocation that fails ends the process. So the steps of a parser are limited by the bytes it has
read, with the same result on every machine. Trees are walked by cursors, which do not recurse.
"""

from __future__ import annotations

import sys
from functools import cache, lru_cache
from time import thread_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tree_sitter import Language, Node, Point

#: The package with the grammar of each language, and its function that returns the grammar.
_GRAMMARS = {
    "C": ("tree_sitter_c", "language"),
    "C#": ("tree_sitter_c_sharp", "language"),
    "C++": ("tree_sitter_cpp", "language"),
    "Go": ("tree_sitter_go", "language"),
    "Java": ("tree_sitter_java", "language"),
    "JavaScript": ("tree_sitter_javascript", "language"),
    "PHP": ("tree_sitter_php", "language_php"),
    "Python": ("tree_sitter_python", "language"),
    "Ruby": ("tree_sitter_ruby", "language"),
    "Rust": ("tree_sitter_rust", "language"),
    "TSX": ("tree_sitter_typescript", "language_tsx"),
    "TypeScript": ("tree_sitter_typescript", "language_typescript"),
}
LANGUAGES = tuple(_GRAMMARS)
#: A file that is longer is not parsed: from some 600 KB on, nesting alone can end the process.
MAX_BYTES = 512 << 10
#: Trees that are remembered: a file is parsed once for all its readers, by its dialects.
TREES = 4
#: Real source code takes up to 19 steps of a parser for 1,024 bytes; hostile text takes more.
_ALLOWED = 1000
_PER_BYTE = 25 / 1024
#: Limits for hostile text, of which a single step may take long, or much memory.
_SECONDS = 20.0
_MEMORY = 400 << 20
#: Bytes of a piece; small, because the text of a node is read in pieces, too.
_CHUNK = 1 << 12
_DEEPEST = 500
_NO_BRACKETS = bytes(set(range(256)) - set(b"()[]{}<>;"))


@cache
def _language(name: str) -> Language | None:
    """The grammar of a language; None if its package, or the library, is not installed."""
    from importlib import import_module

    if name not in _GRAMMARS:
        return None
    package, function = _GRAMMARS[name]
    try:
        from tree_sitter import Language

        return Language(getattr(import_module(package), function)())
    except (ImportError, AttributeError, ValueError, TypeError):  # or too old for the other
        return None


def _most_memory() -> int:
    """The peak memory of this process in bytes; 0 if the system does not report it."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # not POSIX
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return getrusage(RUSAGE_SELF).ru_maxrss * unit


def _is_too_deep(content: bytes) -> bool:
    """Whether more brackets are open at once than any source code needs.

    In one step, a parser tries each open bracket as the error: memory grows with the square.
    """
    depth = angles = 0
    for byte in content.translate(None, _NO_BRACKETS):
        if byte in b"([{":
            depth += 1
        elif byte == 0x3C:  # <, which may also compare two numbers
            angles += 1
        elif byte == 0x3E:
            angles -= angles > 0
        else:  # the end of a statement, or of brackets
            angles = 0
            depth -= depth > 0 and byte != 0x3B
        if depth > _DEEPEST or angles > _DEEPEST:
            return True
    return False


def is_known(name: str) -> bool:
    """Whether a grammar of the language is installed."""
    return _language(name) is not None


def lacking(languages: Iterable[str]) -> tuple[str, ...]:
    """Those of ``languages`` whose grammar is not installed."""
    parsed = {*LANGUAGES} - {"Python"}  # it has a parser of its own
    return tuple(sorted(name for name in {*languages} & parsed if not is_known(name)))


@lru_cache(maxsize=TREES)
def parse(name: str, content: bytes) -> Node | None:
    """The root of the tree of ``content``; None without a grammar, or if it gives up.

    The last TREES are the same for all who read them.
    """
    grammar = _language(name)
    if grammar is None or len(content) > MAX_BYTES or b"\0" in content or _is_too_deep(content):
        return None
    from tree_sitter import Parser

    steps, began, before = 0, thread_time(), _most_memory()

    def read(offset: int, _point: Point) -> bytes:
        return content[offset : offset + _CHUNK]

    def is_enough(offset: int, _has_error: bool) -> bool:  # noqa: FBT001 - the library calls it
        nonlocal steps
        steps += 1
        if steps > _ALLOWED + offset * _PER_BYTE:
            return True
        return steps % 8 == 0 and (
            thread_time() - began > _SECONDS or _most_memory() - before > _MEMORY
        )

    try:
        tree = Parser(grammar).parse(read, progress_callback=is_enough)
    except ValueError:  # the library stopped the parser
        return None
    return tree.root_node


def kinds_at(root: Node, offset: int) -> list[str]:
    """The kinds of all nodes around the byte ``offset``, the root's first."""
    cursor = root.walk()
    kinds = [root.type]
    while cursor.goto_first_child_for_byte(offset) is not None:
        node = cursor.node
        if node is None or node.start_byte > offset:
            break
        kinds.append(node.type)
    return kinds


def paths(root: Node) -> Iterator[list[tuple[Node, str]]]:
    """Each node in the order of the text, at the end of its path from the root.

    A path has nodes with the names of their fields. It is one list, which the next step changes.
    """
    cursor = root.walk()
    path: list[tuple[Node, str]] = []
    while (node := cursor.node) is not None:
        path.append((node, cursor.field_name or ""))
        yield path
        if cursor.goto_first_child():
            continue
        path.pop()
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            path.pop()


def parts(node: Node) -> list[tuple[str, Node]]:
    """The children of a node, each with the name of its field, ``""`` for one without."""
    cursor = node.walk()
    if not cursor.goto_first_child():
        return []
    children = []
    while True:
        child = cursor.node
        if child is not None:
            children.append((cursor.field_name or "", child))
        if not cursor.goto_next_sibling():
            return children


def field(node: Node, name: str) -> Node:
    """The child of that field; the node itself without one, which has another kind."""
    return next((child for label, child in parts(node) if label == name), node)


def text_of(node: Node) -> str:
    return (node.text or b"").decode("utf-8", "surrogateescape")


def below(root: Node) -> Iterator[Node]:
    """The nodes of a tree in the order of the text, signs and keywords too, the root first."""
    cursor = root.walk()
    while (node := cursor.node) is not None:
        yield node
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def named_children(node: Node) -> list[Node]:
    """The children of a node that are neither signs, keywords nor comments."""
    return [child for _, child in parts(node) if child.is_named and "comment" not in child.type]
