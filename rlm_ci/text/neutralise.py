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
        if is_code and not (cell and "|" in piece):
            written.append(code(piece))
        else:
            written.append(_plain(f"`{piece}`" if is_code else piece))
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

    A pipe cannot be written in the code of a table ``cell`` after a backslash; there such
    a text is shown as running text.
    """
    shown = _no_marker(printable(text))
    if not shown.strip(" "):
        return "(empty)" if not shown else "(blank)"
    if cell and "|" in shown:
        # What follows may be a colon of ours, and with it the name of an emoji.
        return _not_a_block(_plain(shown)) + (GAP if ":" in shown else "")
    fence = "`" * (longest_run(shown) + 1)
    pad = " " if shown[0] in "` " or shown[-1] in "` " else ""
    return f"{fence}{pad}{shown}{pad}{fence}"


def fence(text: str, language: str = "") -> str:
    """``text`` as a fenced block; its lines stay lines, tabs become spaces.

    ``language`` must be a word of ours: some languages make GitHub draw or embed.
    """
    lines = [_no_marker(printable(line.expandtabs(4))) for line in text.split("\n")]
    marks = "`" * max(3, *(longest_run(line) + 1 for line in lines))
    return "\n".join([f"{marks}{language}", *lines, marks])


def _no_marker(text: str) -> str:
    return text.replace("<!--", f"<!{GAP}--")


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
