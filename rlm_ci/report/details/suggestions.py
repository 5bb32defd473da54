"""Fixes that a reader can apply with one click.

``suggested_fix`` is a replacement only when all of it is one fenced block with the word
``suggestion``, as GitHub writes it::

    ```suggestion
    the new lines
    ```

Its lines replace the lines of ``evidence[0]``; a block without lines deletes them. Any other
text is advice: prose, code in fences of its own, or code without any.
"""

from __future__ import annotations

import re
from itertools import groupby

from rlm_ci.text import neutralise
from rlm_ci.text.printable import printable

WORD = "suggestion"

#: A longer one might not fit into a comment.
_LONGEST = 20_000
#: How a sentence begins, and how code ends that may begin so too.
_SENTENCE = re.compile(r"[A-Z][a-z]*,? +[A-Za-z`][\w'’-]*[` ,]")
_CODE_ENDS = (";", "{", "}", "(", ",", "[", "=", "\\", ":")


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


def pieces(fix: str) -> list[tuple[bool, str]]:
    """A fix in order, piece by piece, each with whether it is code.

    Code is what stands in a fence. Without any, a text is prose if it reads like a sentence, and
    else code, which loses nothing in a fence.
    """
    content = replacement(fix)
    if content is not None:
        return [(True, content.removesuffix("\n"))] if content else [(False, "Delete these lines.")]
    parts: list[tuple[bool, str]] = []
    lines: list[str] = []
    fence = ""
    for line in fix.replace("\r\n", "\n").strip("\n").split("\n"):
        opened = _opens(line)
        if fence and _closes(line, fence):
            parts.append((True, "\n".join(lines)))
            fence, lines = "", []
        elif opened and not fence:
            parts += _paragraphs(lines)
            fence, lines = opened, []
        else:
            lines.append(line)
    if fence:  # its end was cut off
        return [*parts, (True, "\n".join(lines))]
    text = "\n".join(lines)
    return [*parts, *_paragraphs(lines)] if parts or _is_prose(text) else [(True, text)]


def _paragraphs(lines: list[str]) -> list[tuple[bool, str]]:
    split = (part.strip() for part in "\n".join(line.rstrip() for line in lines).split("\n\n"))
    return [(False, part) for part in split if part]


def _is_prose(text: str) -> bool:
    text = text.strip()
    if text.endswith((".", "!", "?")):
        return True
    return bool(_SENTENCE.match(text)) and not text.endswith(_CODE_ENDS)


def is_plain(text: str) -> bool:
    """Whether ``text`` can be offered verbatim.

    Not with invisible characters, a marker of ours or a workflow command in it.
    """
    seen = text.replace("\n", "").replace("\t", "")
    return len(text) <= _LONGEST and printable(seen) == seen and not neutralise.is_obeyed(text)


def block(text: str) -> str:
    """``text`` as a suggestion block, its fence longer than any run of backticks inside."""
    longest = max((len(list(run)) for char, run in groupby(text) if char == "`"), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{WORD}\n{text}{fence}"


def _opens(line: str) -> str:
    """The marks with which ``line`` opens a block of code; "" if it opens none."""
    bare = line.strip()
    marks = bare[: len(bare) - len(bare.lstrip(bare[:1]))] if bare[:1] in ("`", "~") else ""
    return marks if len(marks) >= 3 and "`" not in bare[len(marks) :] else ""


def _closes(line: str, fence: str) -> bool:
    """Whether a parser may take ``line`` for the end of the block that ``fence`` opened."""
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}
