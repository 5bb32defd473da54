"""Texts from outside, made harmless for each surface: data in, data shown, nothing else.

Messages, hints, paths, quotes, summaries, reasons: a pull request or a model may have
written any of them. Everything that a surface prints and that is not our own word passes
through one of these functions, or through HTML autoescaping.
"""

from __future__ import annotations

from rlm_ci.text.markdown import GAP, clip, code, fence, one_line, prose, segments

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

__all__ = [
    "GAP",
    "MARKER",
    "clip",
    "code",
    "command",
    "document",
    "fence",
    "log",
    "one_line",
    "prose",
    "record",
    "segments",
]

#: The first line of every comment of ours, by which it is found again.
MARKER = "<!-- rlm-ci:report -->"


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
    """A workflow command, every value escaped as the runner decodes it.

    Of ``message`` each text becomes a line, and has no line break itself.
    """
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
    """``value`` as JSON in ASCII; ``##[`` is written with an escape.

    What lies deeper than ``depth`` stands on one line: a finding is a line that can be read,
    compared and searched, and of 20,000 of them the quick encoder writes each.
    """
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
