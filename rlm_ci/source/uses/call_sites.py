"""Where a file calls and raises: by its syntax, without running it."""

from __future__ import annotations

from rlm_ci.source import grammars
from rlm_ci.source.outline import language_of
from rlm_ci.source.python import syntax
from rlm_ci.source.uses.file_calls import FileCalls
from rlm_ci.source.uses.python_calls import python_calls
from rlm_ci.source.uses.tree_calls import tree_calls


def file_calls(path: str, content: bytes) -> FileCalls:
    """What a file calls and raises; nothing of a file that cannot be parsed. Never raises."""
    language = language_of(path, content)
    if language == "Python":
        file = syntax.read(content)
        return python_calls(file.module) if file is not None else FileCalls()
    root = grammars.parse(language, content)
    return tree_calls(root, language) if root is not None else FileCalls()
