"""How a README introduces its project: the first paragraph that is prose."""

from __future__ import annotations

import re
from html import unescape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.wiki.facts.statement import Saying

_NAME = re.compile(r"(?i)readme(?:\.(?:md|markdown|rst|txt))?")
_IMAGE = re.compile(r"!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])|\|[\w .-]+\|_?")
_LINK = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])|`([^`<]+) <[^>]*>`__?")
_TAG = re.compile(r"<[^>]*>")
_ROLE = re.compile(r":[\w:+-]+:`([^`]+)`|``([^`]+)``")
_SPAN = re.compile(r"(`[^`]*`)")
#: Emphasis. Underscores are that around several words alone: ``__init__`` is a name.
_STRONG = re.compile(
    r"\*\*([^*]+)\*\*|__([^_\s][^_]*\s[^_]*)__|(?<![\w*\\])\*(?![\s*])([^*]+?)(?<![\s*])\*(?![\w*])"
)
_SLANTED = re.compile(r"(?<![\w`/.])_(?![\s_])([^_`]+)(?<!\s)_(?![\w`])")
#: A line that is no prose: headings, underlines, tables, fences, directives, images, tags, notes.
_OTHER = re.compile(
    r"\s*(?:#|>|=+\s*$|-{3,}|~{3,}|\^{3,}|\*{3,}|`{3}|\.\. |<|\[!?\[|!\["
    r"|\[[^\]]+\]:\s|:\w+:|\||\+[-=])"
)
#: In Markdown, no field: a small picture.
_EMOJI = re.compile(r":[a-z0-9_+-]+:(?=\s|$)")
_HARD_BREAK = re.compile(r"\\$")
#: Under which terms something may be used does not tell what it is.
_TERMS = re.compile(
    r"(?i)\blicen[cs]ed\b.{0,20}\bunder\b|\b(?:MIT|BSD|Apache)[\w. -]{0,20} licen[cs]e"
)
#: What is written without spaces: a character counts as a word.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
#: Lines that are looked at, and characters of what is quoted.
_FAR = 200
_LONGEST = 700
#: Characters of a heading that is a name.
_NAMED = 60


def is_readme(path: str) -> bool:
    return bool(_NAME.fullmatch(path.rpartition("/")[2]))


def introduction(content: bytes, path: str = "") -> Saying | None:
    """The first paragraph of at least four words, as plain text.

    That may be a quote, where nothing but headings and images stand before it.
    """
    from rlm_ci.wiki.facts.statement import Saying

    lines = content.decode("utf-8", "surrogateescape").split("\n")[:_FAR]
    lines = _prepared(lines, is_markdown=path.lower().endswith((".md", ".markdown")))
    start: int | None = None
    fenced = False
    for number, line in enumerate([*lines, ""]):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        blank = not line.strip()
        if start is None:
            if not (blank or fenced or _OTHER.match(line) or line.startswith(("    ", "\t"))):
                start = number
            continue
        if not blank and not _OTHER.match(line):
            continue
        underlined = bool(re.match(r"\s*([=~^*+#-])\1{2,}\s*$", line))
        written = " ".join(lines[start:number])
        text = plain(written if "`" in written else _SLANTED.sub(r"\1", written))
        is_told = _words(text) >= 4 and not _is_bar(written) and not _is_of_terms(text)
        if not underlined and is_told:
            shown = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
            return Saying(shown, start + 1, number)
        start = None
    return None


def heading(content: bytes, path: str) -> str:
    """What a README at the top calls the project by its first heading, "" where it has none."""
    if "/" in path or not is_readme(path):
        return ""
    lines = content.decode("utf-8", "replace").split("\n")[:_FAR]
    lines = [row.rstrip() for row in _prepared(lines, is_markdown=True)]
    for row, below in zip(lines, [*lines[1:], ""], strict=True):
        underlined = re.fullmatch(r"={3,}", below)
        found = re.match(r"#\s+(.+?)[\s#]*$", row)
        if found or (underlined and row.strip("= ")):
            name = plain(found[1] if found else row).strip()
            return name if len(name) <= _NAMED and len(name.split()) <= 5 else ""
        if not _is_before(row) or row.startswith(("#", ">")):
            return ""
    return ""


def _prepared(lines: list[str], *, is_markdown: bool) -> list[str]:
    """The same lines, without front matter, and with the first quote as a paragraph."""
    if lines and lines[0].rstrip() == "---" and "---" in map(str.rstrip, lines[1:]):
        end = [row.rstrip() for row in lines].index("---", 1)
        lines = [""] * (end + 1) + lines[end + 1 :]
    if is_markdown:
        lines = [_HARD_BREAK.sub("", _EMOJI.sub("", row)) for row in lines]
    first = next(
        (n for n, row in enumerate(lines) if row.startswith(">") or not _is_before(row)), 0
    )
    last = first
    while last < len(lines) and lines[last].startswith(">"):
        last += 1
    quote = lines[first:last]
    if any(_LINK.search(row) or row.startswith("> [!") for row in quote):
        return lines
    return [*lines[:first], *(row[1:].strip() for row in quote), *lines[last:]]


def _is_before(row: str) -> bool:
    return not row.strip() or bool(_OTHER.match(row))


def _words(text: str) -> int:
    return len(text.split()) + len(_UNSPACED.findall(text))


def _is_of_terms(text: str) -> bool:
    return len(text.split()) < 20 and bool(_TERMS.search(text))


def _is_bar(text: str) -> bool:
    """Whether it is a row of links, to other languages for instance."""
    links = len(_LINK.findall(text))
    return links > 1 and len(re.findall(r"\w+", _TAG.sub("", _LINK.sub("", text)))) < 2 * links


def plain(text: str) -> str:
    """Markdown or reStructuredText without its marks, on one line."""
    text = _ROLE.sub(_role, _IMAGE.sub(" ", text))
    text = _LINK.sub(lambda found: found[1] or found[2] or "", text)
    text = unescape(_TAG.sub("", text))
    parts = _SPAN.split(text)
    parts[::2] = (
        _STRONG.sub(lambda found: found[1] or found[2] or found[3], one) for one in parts[::2]
    )
    return " ".join("".join(parts).split())


def _role(found: re.Match[str]) -> str:
    """What a role of reStructuredText shows: ``:class:`~a.B``` a B, ``:class:`B <a.B>``` too."""
    text = found[1] or found[2]
    if found[1]:
        text = re.sub(r"\s*<[^<>]*>$", "", text)
        text = text.rpartition(".")[2] if text.startswith("~") else text.lstrip("!")
    return f"`{text}`"
