"""The syntax tree of Python code: each text is parsed once for all who read it."""

from __future__ import annotations

import ast
import gc
import re
import warnings
from threading import Lock

from rlm_ci.values import Row

#: A longer file may need too much memory: some 60 bytes for each of its own.
MAX_BYTES = 4 << 20
#: Characters of the texts whose trees are kept: a tree has some 30 bytes for each.
CACHE_SIZE = 128 << 10
#: The errors of the parser for a text that is no Python, or too large.
_REFUSED = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError, SystemError)
#: The encodings that a file may name (PEP 263); of others, some take a time that grows squared.
_ENCODINGS = re.compile(
    r"(utf|iso|latin|cp|windows|koi8|mac|euc|shift|big5|gb|hz|tis|johab|ptcp)[\w-]*", re.IGNORECASE
)
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_CHAIN = re.compile(rb"\b\w++(?:[\s\\]*\.[\s\\]*\w+)+")
_CHAIN_LIMIT = 2000


class PythonSyntax(Row):
    r"""A file: its ``source`` in UTF-8, with lines that end in ``\n``, and the tree of that.

    The tree is shared: nobody changes it.
    """

    source: bytes
    module: ast.Module


class _TreeCache:
    """The trees that were asked for last; None for a text that is no Python."""

    def __init__(self) -> None:
        self._trees: dict[str, ast.Module | None] = {}
        self._size = 0
        self._lock = Lock()

    def of(self, text: str) -> ast.Module | None:
        with self._lock:
            if text in self._trees:
                self._trees[text] = self._trees.pop(text)  # the last to go
                return self._trees[text]
        module = _parsed(text)
        if len(text) <= CACHE_SIZE:
            with self._lock:
                self._remember(text, module)
        return module

    def _remember(self, text: str, module: ast.Module | None) -> None:
        if text not in self._trees:
            self._trees[text] = module
            self._size += len(text)
        while self._size > CACHE_SIZE:
            oldest = next(iter(self._trees))
            del self._trees[oldest]
            self._size -= len(oldest)


def read(content: bytes) -> PythonSyntax | None:
    """The syntax of a file; None if it is not Python of this interpreter's version."""
    source = _utf8(content)
    try:
        module = None if source is None else parsed(source.decode())
    except UnicodeDecodeError:
        return None
    return None if source is None or module is None else PythonSyntax.of((source, module))


def parsed(text: str) -> ast.Module | None:
    """The tree of a text, which others have, too; None if it is not Python. Never raises."""
    return _CACHE.of(text)


_CACHE = _TreeCache()


def _parsed(text: str) -> ast.Module | None:
    collecting = gc.isenabled()
    try:
        # The tree has no garbage: collecting it would take a third of the time.
        gc.disable()
        with warnings.catch_warnings():  # its warnings are for its owner
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except _REFUSED:
        return None
    finally:
        if collecting:
            gc.enable()


def _utf8(content: bytes) -> bytes | None:
    r"""The source for the parser, in UTF-8 with lines that end in ``\n``; None if refused.

    A carriage return that ends a line for Python, but not for git, is refused, too.
    """
    if len(content) > MAX_BYTES or b"\0" in content:
        return None
    source = content.removeprefix(b"\xef\xbb\xbf")
    if not source.isascii():
        for line in source.split(b"\n", 2)[:2]:
            cookie = _COOKIE.match(line)
            if cookie:
                encoding = cookie[1].decode()
                if not _ENCODINGS.fullmatch(encoding):
                    return None
                try:
                    source = source.decode(encoding).encode()
                except (ValueError, LookupError):
                    return None
                break
    if b"\r" in source:
        source = source.replace(b"\r\n", b"\n")
        if b"\r" in source:
            return None
    if source.count(b".") > _CHAIN_LIMIT:
        # The name of a module is put together part by part, each time as a whole.
        for chain in _CHAIN.finditer(source):
            if chain[0].count(b".") > _CHAIN_LIMIT:
                return None
    return source


def first_line(node: ast.stmt) -> int:
    """The first line of a statement, its decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
