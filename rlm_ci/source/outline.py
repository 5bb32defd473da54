"""The outline of one file. It never raises, and its time and memory are bounded."""

from __future__ import annotations

import re
from contextlib import suppress

from rlm_ci.source import UNPARSED, EntryPoint, Outline, manifests
from rlm_ci.source.languages import language
from rlm_ci.source.python import outline as python_outline
from rlm_ci.source.signatures import clipped, line_count, paragraph
from rlm_ci.source.test_files import is_trial

#: Syntax of C++ that no header of C has.
_CPP = re.compile(
    rb"^[ \t]*(?:class\s+\w+(?:\s+final)?\s*[:{;]|namespace\s+[\w:]+\s*\{|template\s*<|"
    rb"using\s+(?:namespace\b|\w+\s*=))",
    re.MULTILINE,
)
#: Languages without a grammar here, whose comments begin with a hash sign.
_SCRIPTS = frozenset((
    "Awk", "Crystal", "Elixir", "Julia", "Nim", "Nix", "Perl", "PowerShell", "R", "Shell",
    "Starlark", "Tcl",
))  # fmt: skip
#: Bytes of a script that are searched for its comment.
_FAR = 8192


def outline(path: str, content: bytes) -> Outline:
    """The definitions, imports and entry points of the file at ``path``.

    Its state is UNPARSED if the language has no grammar here, or if the file is too long or too
    deeply nested for it.
    """
    name = language_of(path, content)
    result = python_outline.outline(path, content) if name == "Python" else None
    result = result or manifests.outline(path, name, content)
    if result is None:
        from rlm_ci.source import grammar_walk

        with suppress(RecursionError):
            result = grammar_walk.outline(path, name, content)
    result = result or Outline(path, name, UNPARSED, line_count(content), *_remark(name, content))
    return result if result.entries else result.replace(entries=_command(path, content))


def _command(path: str, content: bytes) -> tuple[EntryPoint, ...]:
    """An executable script: no suffix, and a line that names its interpreter."""
    is_bare = "." not in path.rpartition("/")[2]
    if not is_bare or not content.startswith(b"#!") or is_trial(path):
        return ()
    return (EntryPoint.of(("script", clipped(path, 300), 1, 1, "")),)


def _remark(name: str, content: bytes) -> tuple[str, int, int]:
    """The first paragraph of the comment at the top of a script, and its lines."""
    if name not in _SCRIPTS:
        return "", 0, 0
    rows = content[:_FAR].split(b"\n")
    first = next((n for n, row in enumerate(rows) if row.strip() and row[:2] != b"#!"), len(rows))
    last = first
    while last < len(rows) and rows[last].startswith(b"#"):
        last += 1
    bare = [row.strip(b"# \t\r").decode("utf-8", "replace") for row in rows[first:last]]
    text, start, end = paragraph(bare)
    return (text, first + start + 1, first + end) if text else ("", 0, 0)


def language_of(path: str, content: bytes) -> str:
    """The language of a file, by its name and its content."""
    name = language(path, content[:256].partition(b"\n")[0])
    return "C++" if name == "C" and path.endswith(".h") and _CPP.search(content) else name
