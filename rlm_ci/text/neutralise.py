"""Texts from outside, made harmless for each surface.

A pull request, a repository or a model may have written messages, paths, quotes, summaries. What a
surface prints and is not our own word passes through here, or through HTML autoescaping.
"""

from __future__ import annotations

from rlm_ci.text.printable import longest_run, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

#: A space of no width: shown as nothing, and enough to part what a platform would link.
GAP = "\u200b"

_MARKDOWN = str.maketrans({
    **{char: f"\\{char}" for char in "\\`*_[]<>|~&"},
    "@": f"@{GAP}",
    "#": f"\\#{GAP}",
    "$": "<span>$</span>",  # GitHub's documented way to have a dollar that opens no formula
})  # fmt: skip

#: What GitHub links besides mentions and ``#1`` (a scheme, ``www.``, ``GH-1``, a commit's first
#: seven digits), and the name of an emoji between colons.
_LINKED = (
    r"(?i):(?=//|(?:[0-9]*[a-z_+-][a-z0-9_+-]*|100|1234):)|www(?=\.)|(?<=[a-z])-(?=\d)"
    r"|[0-9a-f]{6}(?=[0-9a-f])"
)
#: The first line of every comment of ours, by which it is found again.
MARKER = "<!-- rlm-ci:report -->"


def one_line(text: str) -> str:
    """Running text on one line: line breaks are folded, what is invisible is written out."""
    return printable(" ".join(text.split("\n")) if "\n" in text else text)


def clip(text: str, limit: int) -> str:
    """``text``, of at most ``limit`` characters, and the sign that it was longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def segments(text: str) -> list[tuple[bool, str]]:
    """Running text in pieces, each with whether it is between single backticks."""
    if "`" not in text:
        return [(False, text)]
    import re

    pieces = re.split(r"(?<!`)`([^`]+)`(?!`)", text)
    return [(index % 2 == 1, piece) for index, piece in enumerate(pieces) if piece]


def prose(text: str, *, cell: bool = False) -> str:
    """Running text for Markdown, also at the start of a line or, as a ``cell``, in a table.

    Text between single backticks stays code; all else is shown as it is written.
    """
    written = []
    for is_code, piece in segments(one_line(text).strip()):
        written.append(code(piece, cell=cell) if is_code else _plain(piece))
    return _not_a_block("".join(written))


def _plain(text: str) -> str:
    import re

    return re.sub(_LINKED, rf"\g<0>{GAP}", text).translate(_MARKDOWN)


def _not_a_block(text: str) -> str:
    """``text`` that opens no list, no underlined heading and no rule at the start of a line."""
    if text[:1] in ("-", "+", "="):
        return f"\\{text}"
    digits = len(text) - len(text.lstrip("0123456789"))
    if digits and text[digits : digits + 1] in (".", ")"):
        return f"{text[:digits]}\\{text[digits:]}"
    return text


def code(text: str, *, cell: bool = False) -> str:
    """``text`` as a code span, on one line, whatever backticks it has itself.

    A span cannot hold all in the ``cell`` of a table, nor what others obey: that is HTML.
    """
    shown = printable(text)
    if not shown.strip(" "):
        return "(empty)" if not shown else "(blank)"
    if (cell and "|" in shown) or is_obeyed(shown):
        return f"<code>{''.join(map(_entity, shown))}</code>"
    fence = "`" * (longest_run(shown) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def _entity(char: str) -> str:
    """A character of inline HTML, in which Markdown and the marks of links still hold."""
    if char == "@":
        return "<span>&#64;</span>"
    return char if char.isalnum() or char == " " else f"&#{ord(char)};"


def fence(text: str, language: str = "") -> str:
    """``text`` as a block of code, to the letter: what is copied from it is what was given.

    What others obey is written in entities, for no mark may be put into it. ``language`` must be
    a word of ours: some languages make GitHub draw or embed.
    """
    shown = code_lines(text)
    if is_obeyed(shown):
        named = f' lang="{language}"' if language else ""
        for char, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
            shown = shown.replace(char, entity)
        return f"<pre{named}><code>{without_commands(shown)}\n</code></pre>"
    marks = "`" * max(3, longest_run(shown) + 1)
    return "\n".join([f"{marks}{language}", shown, marks])


def code_lines(text: str) -> str:
    """Lines of code as they are; only what cannot be seen is written out."""
    lines = (line.removesuffix("\r").split("\t") for line in text.split("\n"))
    return "\n".join("\t".join(map(printable, pieces)) for pieces in lines)


def is_obeyed(text: str) -> bool:
    """Whether a step that prints ``text`` runs a command, or a reader finds a marker of ours."""
    return "<!-- rlm-ci:" in text or document(text) != text


def without_commands(text: str) -> str:
    """HTML that a browser shows as ``text``, without a workflow command."""
    lines = text.replace("##[", "#&#35;[").split("\n")
    return "\n".join(
        line.replace("::", "&#58;:", 1) if line.lstrip().startswith("::") else line
        for line in lines
    )


def log(line: str) -> str:
    """A line that the Actions runner cannot take for a workflow command.

    It obeys ``::`` at the start of a line, after blanks too, and ``##[`` anywhere in it.
    """
    if "##[" in line:
        line = line.replace("##[", "#\\#[")
    bare = line.lstrip()
    return f"{line[: len(line) - len(bare)]}\\{bare}" if bare.startswith("::") else line


def document(text: str) -> str:
    """A whole text that a step may print: no line of it is a workflow command."""
    if "##[" in text:
        text = text.replace("##[", f"##{GAP}[")
    if "::" not in text:
        return text
    lines = text.split("\n")
    for number, line in enumerate(lines):
        if line.lstrip().startswith("::"):
            lines[number] = line.replace("::", f":{GAP}:", 1)
    return "\n".join(lines)


def command(name: str, properties: Mapping[str, object], *message: str) -> str:
    """A workflow command, each value escaped; every text of ``message`` becomes a line."""
    pairs = ",".join(
        f"{key}={_data(value).replace(':', '%3A').replace(',', '%2C')}"
        for key, value in properties.items()
        if value is not None
    )
    return f"::{name}{f' {pairs}' if pairs else ''}::{'%0A'.join(map(_data, message))}"


def _data(value: object) -> str:
    text = one_line(str(value)).replace("##[", "#\\#[")
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def record(value: object, depth: int = 2) -> str:
    """``value`` as JSON in ASCII, what lies deeper than ``depth`` on one line, ``##[`` escaped."""
    return "".join(record_pieces(value, depth))


def record_pieces(value: object, depth: int = 2) -> Iterator[str]:
    """The same piece by piece, made when its turn comes."""
    import json

    encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False).encode
    for piece in _pieces(value, depth, "\n", encode):  # no text goes on in another piece
        yield piece.replace("##[", "#\\u0023[").replace("\x7f", "\\u007f")
    yield "\n"


def _pieces(value: Any, depth: int, line: str, encode: Callable[[object], str]) -> Iterator[str]:
    """``value`` with its containers opened down to ``depth``; ``line`` begins a line of it."""
    if not depth or not value or not isinstance(value, (dict, list, tuple, map)):
        yield encode(value)
        return
    inner = f"{line}  "
    begin = between = "{" if isinstance(value, dict) else "["
    for one in value:
        yield f"{between}{inner}"
        between = ","
        if isinstance(value, dict):
            yield f"{encode(one)}: "
            yield from _pieces(value[one], depth - 1, inner, encode)
        else:
            yield from _pieces(one, depth - 1, inner, encode)
    end = "}" if begin == "{" else "]"
    yield f"{begin}{end}" if between == begin else f"{line}{end}"
