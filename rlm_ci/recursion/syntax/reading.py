"""The outline of one file, whatever it holds: nothing is raised, time and memory have bounds."""

from __future__ import annotations

import re

from rlm_ci.recursion.syntax import UNPARSED, Outline, manifests, python
from rlm_ci.recursion.syntax.languages import language
from rlm_ci.recursion.syntax.wording import line_count

#: What no header of C has.
_CPP = re.compile(
    rb"^[ \t]*(?:class\s+\w+(?:\s+final)?\s*[:{;]|namespace\s+[\w:]+\s*\{|template\s*<|"
    rb"using\s+(?:namespace\b|\w+\s*=))",
    re.MULTILINE,
)


def outline(path: str, content: bytes) -> Outline:
    """What the file at ``path`` defines, imports and runs.

    Its state is UNPARSED where the language has no grammar here, and where the file is too long or
    too deeply nested for one.
    """
    name = language_of(path, content)
    found = python.outline(path, content) if name == "Python" else None
    found = found or manifests.outline(path, name, content)
    if found is None:
        found = _by_grammar(path, name, content)
    return found or Outline(path, name, UNPARSED, line_count(content))


def language_of(path: str, content: bytes) -> str:
    """The language of a file, by its name and by what it holds."""
    name = language(path, content[:256].partition(b"\n")[0])
    return "C++" if name == "C" and path.endswith(".h") and _CPP.search(content) else name


def _by_grammar(path: str, name: str, content: bytes) -> Outline | None:
    from rlm_ci.recursion.syntax.walking import outline as walked

    try:
        return walked(path, name, content)
    except RecursionError:
        return None
