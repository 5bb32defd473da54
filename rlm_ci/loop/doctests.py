"""Examples in docstrings and documents, which are tests where a validator runs them."""

from __future__ import annotations

import ast
import re
from collections import Counter

from rlm_ci.loop.grading import REMOVED, SKIPPED, WEAKENED, Weakening

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_DOCUMENTS = (".md", ".rst", ".txt")
_OPTIONS = re.compile(r"#\s*doctest:.*$", re.MULTILINE)
_SHOWN = 80


def holds(path: str) -> bool:
    """Whether a file of this name may hold examples that are run."""
    return path.endswith((".py", *_DOCUMENTS))


def grade(path: str, old: str, new: str) -> Iterator[Weakening]:
    """How the examples of ``new`` ask for less than those of ``old``."""
    if ">>>" not in old:
        return
    from doctest import SKIP

    before = _examples(path, old)
    after = _examples(path, new)
    if before is None:
        return
    if after is None:
        yield Weakening(REMOVED, "its examples can no longer be read, so none of them runs")
        return
    kept = Counter((code, want, options) for code, want, options, _ in after)
    known = {code: options for code, _, options, _ in after}
    for code, want, options, line in before:
        if kept[code, want, options] > 0:
            kept[code, want, options] -= 1
            continue
        told = f"the example '{code[:_SHOWN]}'"
        if code not in known:
            yield Weakening(REMOVED, f"{told} is gone", line, "old")
        elif SKIP in known[code] and SKIP not in options:
            yield Weakening(SKIPPED, f"{told} is skipped", line, "old")
        else:
            yield Weakening(WEAKENED, f"{told} wants something else", line, "old")


def _examples(path: str, text: str) -> list[tuple[str, str, tuple[int, ...], int]] | None:
    """The code, the output, the options and the line of each; None where they cannot be read."""
    from doctest import DocTestParser  # it brings the debugger along

    found = []
    try:
        for first, part in _parts(path, text):
            for one in DocTestParser().get_examples(part):
                options = tuple(sorted(name for name, is_on in one.options.items() if is_on))
                code = _OPTIONS.sub("", one.source).strip()
                found.append((code, one.want.rstrip(), options, first + one.lineno))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return found


def _parts(path: str, text: str) -> Iterator[tuple[int, str]]:
    """The texts that are looked through for examples, each with its first line."""
    if path.endswith(_DOCUMENTS):
        yield 1, text
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                value = first.value.value
                if isinstance(value, str):
                    yield first.lineno, value
