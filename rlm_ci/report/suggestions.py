"""Fixes that a reader can apply with one click.

``suggested_fix`` is a replacement only when all of it is one fenced block with the word
``suggestion``, as GitHub writes it::

    ```suggestion
    the new lines
    ```

Its lines replace the lines of ``evidence[0]``; a block without lines deletes them. Any other
text is advice in prose.
"""

from __future__ import annotations

from itertools import groupby

from rlm_ci.text import neutralise
from rlm_ci.text.printable import printable

WORD = "suggestion"

#: A longer one might not fit into a comment.
_LONGEST = 20_000


def replacement(fix: str | None) -> str | None:
    r"""The new lines, each ended by ``\n``, that ``fix`` puts in place; None if it is prose."""
    lines = (fix or "").replace("\r\n", "\n").strip("\n").split("\n")
    fence = lines[0].rstrip(" ").removesuffix(WORD)
    opened = len(fence) >= 3 and set(fence) in ({"`"}, {"~"}) and lines[0].startswith(fence + WORD)
    inner = lines[1:-1]
    if not opened or len(lines) < 2 or lines[-1].rstrip(" ") != fence:
        return None
    if any(_closes(line, fence) for line in inner):
        return None  # what a fence within it ends is unclear
    return "".join(f"{line}\n" for line in inner)


def is_plain(text: str) -> bool:
    """Whether ``text`` can be offered verbatim.

    Not with invisible characters, a marker of ours or a workflow command in it.
    """
    seen = text.replace("\n", "").replace("\t", "")
    return (
        len(text) <= _LONGEST
        and printable(seen) == seen
        and "<!-- rlm-ci:" not in text
        and neutralise.document(text) == text
    )


def block(text: str) -> str:
    """``text`` as a suggestion block, its fence longer than any run of backticks inside."""
    longest = max((len(list(run)) for char, run in groupby(text) if char == "`"), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{WORD}\n{text}{fence}"


def _closes(line: str, fence: str) -> bool:
    """Whether a parser may take ``line`` for the end of the block that ``fence`` opened."""
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}
