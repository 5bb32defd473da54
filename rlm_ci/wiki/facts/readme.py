"""Texts of a repository for a page: how a README introduces it, chapters of guides, sentences."""

from __future__ import annotations

import re
from functools import cache
from html import unescape
from itertools import islice, pairwise

from rlm_ci.text.neutralise import clip, code, prose
from rlm_ci.wiki.facts.note import Chapter, Statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from markdown_it import MarkdownIt
    from markdown_it.token import Token


_NAME = re.compile(r"(?i)readme(?:\.(?:md|markdown|rst|txt|adoc|rdoc))?")
_IMAGE = re.compile(r"!\[[^\]]*\](?:\([^)]*\)|\[[^\]]*\])|\|[\w .-]+\|_?")
_LINK = re.compile(r"\[([^\]]*)\](?:\([^)]*\)|\[[^\]]*\])|`([^`<]+) <[^>]*>`__?")
_TAG = re.compile(r"<[^>]*>")
_ROLE = re.compile(r":[\w:+-]{1,60}:`([^`]+)`|``([^`]+)``")
_SPAN = re.compile(r"(`[^`]*`)")
#: Emphasis. Underscores are that around several words alone: ``__init__`` is a name.
_STRONG = re.compile(
    r"\*\*([^*]+)\*\*|__([^_\s][^_]*\s[^_]*)__|(?<![\w*\\])\*(?![\s*])([^*]+?)(?<![\s*])\*(?![\w*])"
)
#: What Markdown takes for a paragraph: of reStructuredText a directive, a field or a table; a note
#: of GitHub; a tag of a component.
_OTHER = re.compile(r"\.\. |:\w+:\s|\+[-=]|=+\s|\||\[!|<")
#: A line below a title in reStructuredText, but not in Markdown.
_UNDERLINE = re.compile(r"([~^*+#\"'])\1{2,}\s*")
#: What leads somewhere in reStructuredText, with or without quotes.
_REFERENCE = re.compile(r"`([^`<\n]+)`__?(?!\w)|(?<![\w`.-])(\w[\w.-]*?)__?(?=[\s.,;:!?)]|$)")
#: A comment of reStructuredText: no directive, target, footnote or substitution.
_COMMENT = re.compile(r"\.\.(?:\s*$|\s+(?![\w:+.-]+::|[_\[|]))")
#: What begins a heading in AsciiDoc and in the documents of Ruby.
_MARKED = re.compile(r"^(={1,6})(?= )")
_EMOJI = re.compile(r":[a-z0-9_+-]{1,60}:(?=\s|$)")
_DEFINITION = re.compile(rb"^\[[^\]\n]{1,99}\]: .{1,300}$", re.MULTILINE)
#: In blocks of HTML.
_NO_TEXT = re.compile(r"<(?:h\d|details|table|pre|script|style|!)")
#: The licence, which does not say what a project is.
_TERMS = re.compile(
    r"(?i)\blicen[cs]ed\b.{0,20}\bunder\b|\b(?:MIT|BSD|Apache)[\w. -]{0,20} licen[cs]e"
)
#: What is written without spaces: a character counts as a word.
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
#: Lines and bytes that are looked at, and characters of what is quoted.
_FAR, _WIDE, _LONGEST = 120, 1 << 14, 700
#: Characters of a heading that is a name.
_NAMED = 60
#: Characters of a heading of a guide, and headings of one.
_CHAPTER, _CHAPTERS = 90, 60
#: Such a heading on how something is added.
ADDS = re.compile(
    r"(?i)\b(?:add(?:ing|ition)?s?|new|creat\w+|writ(?:e|ing)|implement\w*|extend\w*)\b"
)
#: What leads to a file of a repository, and what looks like the path of one; paths of a chapter.
_BLOB = re.compile(r"https?://[^/\s]+/[^/\s]+/[^/\s]+/(?:-/)?(?:blob|tree)/[^/\s]+/")
_PATH = re.compile(r"(?:[\w.@-]+/)*[\w@-][\w.@-]*\.\w{1,8}|(?:[\w.@-]+/)+[\w.@-]+")
_PATHS = 8


def is_readme(path: str) -> bool:
    return bool(_NAME.fullmatch(path.rpartition("/")[2]))


def chapters(content: bytes, path: str) -> tuple[Chapter, ...]:
    """The headings of a document below its title, in order, each with the paths that it names.

    A document whose chapters are all of the first order has no title.
    """
    tokens = _parsed(content, path, is_whole=True)
    headings = [
        (number, token) for number, token in enumerate(tokens) if token.type == "heading_open"
    ]
    is_flat = sum(token.tag == "h1" for _, token in headings) > 1
    tags = ("h1", "h2", "h3") if is_flat else ("h2", "h3")
    statements = []
    for at, (number, token) in enumerate(headings):
        text = _shown(tokens[number + 1], path)
        start, _ = token.map or (0, 0)
        if token.tag in tags and text and len(text) <= _CHAPTER:
            later = (after for after, other in headings[at + 1 :] if other.tag <= token.tag)
            inside = tokens[number : next(later, len(tokens))]
            paths = "\n".join(islice(_paths(inside), _PATHS))
            statements.append(Chapter(text, start + 1, start + 1, paths))
    return tuple(statements[:_CHAPTERS])


def _paths(tokens: Sequence[Token]) -> Iterator[str]:
    """What looks like a path in links and code of some paragraphs, each once."""
    seen: set[str] = set()
    for child in (child for token in tokens for child in token.children or ()):
        target = str(child.attrGet("href") or "") if child.type == "link_open" else ""
        text = target or (child.content if child.type == "code_inline" else "")
        text = _BLOB.sub("", text).partition("#")[0].removeprefix("./").strip("/")
        if _PATH.fullmatch(text) and text not in seen:
            seen.add(text)
            yield text


def paragraphs(content: bytes, path: str) -> tuple[Statement, ...]:
    """The paragraphs and entries of lists of a document that say something, in order."""
    tokens = _parsed(content, path, is_whole=True)
    statements = []
    for before, token in pairwise(tokens):
        if token.type == "inline" and before.type == "paragraph_open" and not _is_bar(token):
            text = _shown(token, path)
            start, end = token.map or (0, 0)
            if _words(text) >= 4:
                statements.append(Statement(clip(text, _LONGEST), start + 1, end))
    return tuple(statements)


def introduction(content: bytes, path: str = "") -> Statement | None:
    """The first paragraph of at least four words, as plain text; a quote may be that, too."""
    tokens = _parsed(content, path)
    for number, token in enumerate(tokens):
        text = ""
        if token.type == "html_block" and not _NO_TEXT.search(token.content):
            text = plain(token.content) if token.content.count("<a ") < 2 else ""
        elif token.type == "inline" and tokens[number - 1].type == "paragraph_open":
            is_quoted = token.level == 2 and tokens[number - 2].type == "blockquote_open"
            if token.level == 1 or (is_quoted and "](" not in token.content):
                text = "" if _is_bar(token) else _shown(token, path)
        is_struck = text.startswith("~~") and text.endswith("~~")
        if (
            _words(text) >= 4
            and not is_struck
            and not (len(text.split()) < 20 and _TERMS.search(text))
        ):
            start, end = token.map or (0, 0)
            return Statement(clip(text, _LONGEST), start + 1, end)
    return None


def heading(content: bytes, path: str) -> str:
    """What a README at the top calls the project by its first heading, "" where it has none."""
    if "/" in path or not is_readme(path):
        return ""
    tokens = _parsed(content, path)
    for number, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag == "h1":
            name = _shown(tokens[number + 1], path)
            return name if len(name) <= _NAMED and len(name.split()) <= 5 else ""
        is_text = token.type == "inline" and _shown(token, path)
        if is_text or token.type in ("heading_open", "blockquote_open"):
            return ""
    return ""


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table")


def _parsed(content: bytes, path: str, *, is_whole: bool = False) -> Sequence[Token]:
    """The head of a README, read as Markdown: without front matter, with what links refer to.

    ``is_whole``: so many more bytes of it.
    """
    size = _WIDE << 4 if is_whole else _WIDE
    lines = content[:size].decode("utf-8", "surrogateescape").split("\n")
    lines = lines if is_whole else lines[:_FAR]
    lines = [_EMOJI.sub("", _ROLE.sub(_role, row.rstrip("\r"))) for row in lines]
    if lines[0] == "---" and "---" in lines[1:]:
        end = lines.index("---", 1) + 1
        lines[:end] = [""] * end
    if path.lower().endswith((".adoc", ".rdoc")):
        lines = [_MARKED.sub(lambda match: "#" * len(match[1]), row) for row in lines]
    elif not path.lower().endswith((".md", ".markdown")):
        if path.lower().endswith(".rst"):
            lines = [_REFERENCE.sub(lambda match: match[1] or match[2], row) for row in lines]
        lines = ["---" if _UNDERLINE.fullmatch(row) else row for row in _uncommented(lines)]
    definitions = (match[0] for match in islice(_DEFINITION.finditer(content, 0, _WIDE << 4), _FAR))
    environment: dict[str, object] = {}
    _parser().parse(b"\n".join(definitions).decode("utf-8", "replace"), environment)
    return _parser().parse("\n".join(lines), environment)


def _uncommented(lines: Sequence[str]) -> Iterator[str]:
    """The lines of reStructuredText, with empty ones for its comments."""
    is_comment = False
    for row in lines:
        if row.strip():
            is_comment = bool(_COMMENT.match(row)) or (is_comment and row[0] in " \t")
        yield "" if is_comment else row


def _shown(token: Token, path: str) -> str:
    """What a reader sees of a paragraph or a heading; "" where it is no prose."""
    written = token.content.lstrip("=").lstrip("\n")
    if _OTHER.match(written):
        return ""
    if path.lower().endswith(".rst"):
        return plain(" ".join(written.split()))
    return " ".join("".join(map(_seen, token.children or ())).split())


def _seen(part: Token) -> str:
    if part.type == "code_inline":
        return f"`{part.content}`"
    return " " if part.type.endswith("break") else part.content * (part.type == "text")


def _is_bar(token: Token) -> bool:
    """Whether it is a row of links, to other languages for instance."""
    links, depth, outside = 0, 0, ""
    for child in token.children or ():
        links += child.type == "link_open"
        depth += child.nesting if child.type.startswith("link") else 0
        outside += "" if depth else _seen(child)
    return links > 1 and len(re.findall(r"\w+", outside)) < 2 * links


def _words(text: str) -> int:
    return len(text.split()) + len(_UNSPACED.findall(text))


def plain(text: str) -> str:
    """Markdown or reStructuredText without its marks, on one line."""
    text = _ROLE.sub(_role, _IMAGE.sub(" ", text))
    text = _LINK.sub(lambda match: match[1] or match[2] or "", text)
    text = unescape(_TAG.sub("", text))
    parts = _SPAN.split(text)
    parts[::2] = (
        _STRONG.sub(lambda match: match[1] or match[2] or match[3], part) for part in parts[::2]
    )
    return " ".join("".join(parts).split())


def _role(match: re.Match[str]) -> str:
    """What a role of reStructuredText shows: ``:class:`~a.B``` a B, ``:class:`B <a.B>``` too."""
    text = match[1] or match[2]
    if match[1]:
        text = re.sub(r"\s*<[^<>]*>$", "", text)
        text = text.rpartition(".")[2] if text.startswith("~") else text.lstrip("!")
    return f"`{text}`"


#: Characters of a description in a list.
_SENTENCE = 180
_SIGNATURE = 160
_LEADING = re.compile(r"(.{12,}[.!?])\s+[^.!?]*:$")


def sentence(text: str, *, cell: bool = False) -> str:
    text = plain(text).rstrip(":")
    match = re.match(r"(.{12,}?[.!?])(?=\s+[^a-z\s]|\s*$)", text)
    if match and not re.search(r"(?:\be\.g|\bi\.e|\betc|\bvs)\.$", match[1]):
        text = match[1]
    return prose(clip(text, _SENTENCE), cell=cell)


def paragraph(text: str) -> str:
    """A whole paragraph of documentation, without a last sentence that leads to an example."""
    text = plain(text)
    if text.endswith(":"):
        text = _LEADING.sub(r"\1", text).rstrip(":")
    return prose(clip(text, 900))


def signature(text: str) -> str:
    return code(clip(" ".join(text.split()), _SIGNATURE))


def listed(items: list[str], limit: int, number: int | None = None) -> str:
    """``a, b, c and 4 more``; ``number`` of them are there, also where ``items`` ends early."""
    more = (len(items) if number is None else number) - limit
    text = ", ".join(items[:limit])
    return f"{text} and {more:,} more" if more > 0 else text
