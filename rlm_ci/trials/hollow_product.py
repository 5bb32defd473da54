"""The project's Python with functions that do nothing while a touched test calls them.

A test that passes on it looks at nothing that the project does, or compares that with itself.
"""

from __future__ import annotations

import ast
import os
import secrets

from rlm_ci.canary import readers
from rlm_ci.canary.forms import UnparsableError
from rlm_ci.canary.python.source import PythonSource
from rlm_ci.canary.splicing import Edit
from rlm_ci.source.python.names import Function
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlm_ci.trials.touched_tests import TouchedTest

#: What is put into the tree.
_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inside", "hollow.py")
#: What Python itself calls, and what makes or ends an object.
_LEFT = frozenset((
    "__init_subclass__", "__set_name__", "__class_getitem__", "__getattribute__", "__setattr__",
    "__delattr__", "__del__", "__exit__", "__aexit__", "__hash__", "__prepare__", "__getattr__",
    "__new__", "__post_init__", "__repr__",
))  # fmt: skip
#: Files that are changed, and bytes of what the tests report.
_MOST, _REPORT = 1_500, 1 << 20
CALLED, SAME = "called", "same"


class HollowProduct(Value):
    """The ``texts`` of the changed files, and ``report``, the path of what tests did."""

    texts: Mapping[str, bytes]
    report: str
    order: tuple[TouchedTest, ...]

    def events(self, folder: str) -> dict[tuple[str, str], set[str]]:
        """What each touched test did, by its path and name: called the project, compared alike."""
        try:
            data = files.read_inside(folder, self.report, _REPORT).decode("ascii", "replace")
        except files.UnreadableError:
            return {}
        events: dict[tuple[str, str], set[str]] = {}
        for line in data.split("\n"):
            number, _, what = line.partition(" ")
            if number.isdecimal() and int(number) < len(self.order):
                events.setdefault(self.order[int(number)].key, set()).add(what)
        return events


def hollow(
    product: Mapping[str, bytes], tests: Sequence[TouchedTest], root: str, python_path: str
) -> HollowProduct:
    """The files of ``product``, which a sandbox shows below ``root``, for a run of ``tests``.

    ``python_path`` is a folder of the tree that Python looks for modules in.
    """
    word = f"rlm_{secrets.token_hex(6)}"
    report = f"{python_path}{word}.txt"
    texts: dict[str, bytes] = {}
    for path in sorted(product)[:_MOST]:
        try:
            text = readers.decoded(path, product[path])
            edited = _emptied(PythonSource(text), word)
        except (UnparsableError, RecursionError):
            continue
        if edited is not None:
            texts[path] = edited.encode(readers.encoding(path, product[path]), "surrogateescape")
    spans: dict[str, list[tuple[int, int, int]]] = {}
    for number, test in enumerate(tests):
        spans.setdefault(f"{root}/{test.path}", []).append((test.line, test.end, number))
    program = files.read(_PROGRAM, _REPORT).decode()
    program = program.replace("]]] = {}", f"]]] = {spans!r}")
    program = program.replace('REPORT = ""', f"REPORT = {f'{root}/{report}'!r}")
    texts[f"{python_path}{word}.py"] = program.encode("utf-8", "surrogateescape")
    return HollowProduct(texts, report, tuple(tests))


def _emptied(source: PythonSource, word: str) -> str | None:
    """The text whose functions ask first; None where there is none, or it would be no Python."""
    edits = [
        edit
        for name, node, is_usual in source.tests.definitions()
        if is_usual and isinstance(node, Function)
        for edit in _asking(source, node, name.replace("::", "."), word)
    ]
    if not edits:
        return None
    first = next(
        (
            node
            for at, node in enumerate(source.tree.body)
            if not (isinstance(node, ast.ImportFrom) and node.module == "__future__")
            and not (at == 0 and ast.get_docstring(source.tree, clean=False) is not None)
        ),
        None,
    )
    if first is None:
        return None
    start = source.span(first)[0]
    imports = f"import {word} as _{word}{source.newline}"
    edits.append(Edit(start, start, imports))
    return source.edited(edits)


def _asking(source: PythonSource, node: Function, name: str, word: str) -> Iterator[Edit]:
    """A statement before the first of a function."""
    body = node.body
    if ast.get_docstring(node, clean=False) is not None:
        body = body[1:]
    if node.name in _LEFT or not body:
        return
    start = source.span(body[0])[0]
    before = source.raw[source.raw.rfind(b"\n", 0, start) + 1 : start]
    if before.strip():  # it stands in the line of its head
        return
    indent, value = before.decode(), f"_rlm({name!r}, locals())"
    asks = "hollow_object" if node.name == "__init__" else "hollow"
    is_generator = any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in _own_nodes(node))
    answer = f"return {value}"
    if is_generator:
        answer = f"yield {value}{source.newline}{indent}    return"
    text = (
        f"_rlm = _{word}.{asks}(){source.newline}{indent}if _rlm is not None:{source.newline}"
        f"{indent}    {answer}{source.newline}{indent}"
    )
    yield Edit(start, start, text)


def _own_nodes(function: Function) -> Iterator[ast.AST]:
    """The nodes of a function without those of functions in it."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, Function | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
