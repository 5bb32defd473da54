"""Judges of what we render that know nothing of how we render it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import cmarkgfm
from cmarkgfm.cmark import Options as Cmark

from rlm_ci.report.rules import PAGE

TOOLS = (
    Path(__file__).parents[1] / "tools" / "node_modules" / "@microsoft" / "sarif-multitool-linux"
)
VOID = {"br", "hr", "img", "input", "meta", "link", "col", "wbr", "source", "base"}


class Element:
    def __init__(self, tag: str, attributes: dict[str, str | None]) -> None:
        self.tag = tag
        self.attributes = attributes
        self.children: list[Element | str] = []

    def text(self) -> str:
        """All text below, without the marks of no width that we put in."""
        return "".join(child if isinstance(child, str) else child.text() for child in self.children)

    def all(self, *tags: str) -> list[Element]:
        found = []
        for child in self.children:
            if isinstance(child, Element):
                found += [child] if not tags or child.tag in tags else []
                found += child.all(*tags)
        return found

    def prose(self) -> list[str]:
        """The text nodes in which GitHub looks for what it links: none of those in code."""
        nodes: list[str] = []
        for child in self.children:
            if isinstance(child, str):
                nodes.append(child)
            elif child.tag not in ("code", "pre"):
                nodes += child.prose()
        return nodes


class Page(HTMLParser):
    """HTML as a tree, with its comments and whatever did not nest."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.root = Element("root", {})
        self.comments: list[str] = []
        self.stray: list[str] = []
        self._open = [self.root]
        self.feed(source)
        self.close()
        self.stray += [element.tag for element in self._open[1:]]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self._open[-1].children.append(element)
        if tag not in VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if self._open[-1].tag == tag:
            self._open.pop()
        else:
            self.stray.append(tag)

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)

    def handle_comment(self, data: str) -> None:
        self.comments.append(data)


def github_html(markdown: str) -> Page:
    """Markdown as GitHub's own parser has it, raw HTML let through so that it can be seen."""
    source = markdown.encode("utf-8", "replace").decode()
    return Page(cmarkgfm.github_flavored_markdown_to_html(source, Cmark.CMARK_OPT_UNSAFE))


#: What GitHub makes of a text node as its documentation has it: links, notifications, pictures.
LINKED = re.compile(
    r"(?<![\w])@[A-Za-z0-9]"  # a person or a team
    r"|(?<![A-Za-z0-9_])#\d"  # an issue
    r"|(?i:\bgh-\d)"
    r"|[\w.-]+/[\w.-]+#\d"
    r"|(?i:https?://|ftp://|(?:^|[\s*_~(])www\.)"
    r"|[\w.+-]+@[\w-]+\.\w"  # an address
    r"|\b[0-9a-f]{7,40}\b"  # a commit
    r"|\$[^$]+\$"  # a formula
    r"|:(?:[0-9]*[a-z_+-][a-z0-9_+-]*|100|1234):"  # an emoji
)


def is_ours(target: str | None, repository: str) -> bool:
    """Whether a link leads into the repository, or to the page that explains a rule."""
    return f"{target}/".startswith(f"https://github.com/{repository}/") or bool(
        re.fullmatch(re.escape(PAGE) + r"#[a-z0-9-]+", target or "")
    )


def github_commands(output: str) -> list[tuple[str, dict[str, str], str]]:
    """What the Actions runner would obey in this output: name, properties, message.

    It reads lines that end at CR, LF or both; obeys ``::name k=v::message`` at the start of
    one, after white space, and the older ``##[name k=v]message`` anywhere.
    """
    found = []
    for line in re.split(r"\r\n|\r|\n", output):
        bare = line.lstrip()
        if match := re.match(r"::([^ :]+)(?: ((?:(?!::).)*))?::(.*)", bare, re.DOTALL):
            name, pairs, message = match.groups()
            properties = {
                pair.split("=", 1)[0].strip(): _property(pair.split("=", 1)[1])
                for pair in (pairs or "").split(",")
                if "=" in pair
            }
            found.append((name, properties, _unescape(message)))
        elif match := re.search(r"##\[([^\]]*)\](.*)", line):
            found.append((match.group(1), {}, match.group(2)))
    return found


def _property(text: str) -> str:
    return _unescape(text.replace("%3A", ":").replace("%2C", ","))


def _unescape(text: str) -> str:
    return text.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def official_sarif_schema() -> dict[str, Any] | None:
    """The schema of SARIF 2.1.0 as its reference implementation ships it, if it is installed."""
    path = TOOLS / "sarif-2.1.0.json"
    if not path.is_file():
        return None
    schema: dict[str, Any] = json.loads(path.read_text("utf-8-sig"))
    return schema


#: The tags that the comment is made of; anything else came from outside.
OURS = {
    "h2", "h3", "h4", "p", "ul", "li", "strong", "a", "code", "pre", "table", "thead", "tbody",
    "tr", "th", "td", "details", "summary", "b", "sub", "span", "br", "blockquote",
}  # fmt: skip
