"""Links of active documents to what archived ones no longer have, or into the archive itself."""

from __future__ import annotations

import os.path
import re
from html import unescape
from urllib.parse import quote, unquote

from rlm_ci.checks._doc_archive.stub import RULES
from rlm_ci.checks._shown_markdown import LEAD, shown_lines, without_code
from rlm_ci.report.findings import Finding, Location
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.checks._doc_archive.documents import LinkingTexts
    from rlm_ci.checks._doc_archive.stub import LinkTarget
    from rlm_ci.git.repository import Repository

#: A full text that is larger is not read for its anchors, nor are more than so many.
_TEXT_LIMIT, _TEXTS = 1 << 20, 200
#: Links that are reported.
_SHOWN = 50
#: Links of one document, and characters of a heading or an address, that are looked at.
_LINKS, _LONG = 2_000, 2_000

_NAMED = re.compile(rb"\.(?:md|markdown|mdx)#")
_BEFORE_NAME = re.compile(rb"[\s/()<>\"'\[\]]")
#: The address of a Markdown link, of a reference, of an HTML link, and one that stands alone.
_ADDRESS = re.compile(
    r"""\]\([ \t]*(?:<(?P<angled>[^<>]*)>|(?P<inline>[^\s<>]+))"""
    r"""|^[ \t>]{0,9}\[[^\]]+\]:[ \t]*<?(?P<reference>[^\s<>]+)"""
    r"""|<a\s[^<>]*?href\s*=\s*["']?(?P<html>[^\s"'<>]+)"""
    r"""|(?P<bare>https?://[^\s<>"']+)""",
    re.IGNORECASE,
)
_HEADING = re.compile(r"#{1,6}(?=[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_HTML_HEADING = re.compile(r"<h[1-6][^<>]*>([^<>]*)</h", re.IGNORECASE)
_HTML_ANCHOR = re.compile(r"""<[a-z][^<>]*?\s(?:id|name)\s*=\s*["']?([^\s"'<>]+)""", re.IGNORECASE)
_IMAGE, _LINK = re.compile(r"!\[[^\[\]]*\]\([^()]*\)"), re.compile(r"\[([^\[\]]*)\](?:\([^()]*\))?")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
#: Emphasis by underscores, which are letters to an anchor.
_EMPHASIS = re.compile(r"(?<![^\W_])(?<!\\)_+|(?<![_\\])_++(?![^\W_])")
_NO_ANCHOR = re.compile(r"[^\w\- ]")


class InboundLink(Value):
    """A link of the document at ``path`` in ``line``; ``anchor`` is "" for one into the archive."""

    path: str
    line: int
    quote: str
    address: str
    stub: str = ""
    anchor: str = ""

    @property
    def condition(self) -> str:
        return "old-anchor" if self.anchor else "archive-link"

    @property
    def message(self) -> str:
        if self.anchor:
            return f"the link leads to #{self.anchor}, which {self.stub} had before it was archived"
        return f"the link leads into the archive: {self.address}"

    @property
    def hint(self) -> str:
        if self.anchor:
            return "link to the full text (its address is in the stub), or to a document in use"
        return "link to a document in use: the archive is not kept up to date"


class LinkSearch:
    """Finds links in texts: to the ``stubs``, and into the archive."""

    def __init__(
        self, linking: LinkingTexts, target: LinkTarget, stubs: Mapping[str, bytes]
    ) -> None:
        self.stubs = stubs
        self.texts = linking.texts
        self._within = linking.within
        names = (path.rpartition(".")[0].encode("utf-8", "surrogateescape") for path in stubs)
        self._names = {_BEFORE_NAME.split(name)[-1] for name in names}
        site = r"[^/]+/[^/]+/[^/]+"
        if target.slug:
            slug = re.escape(target.slug)
            site = rf"(?:{re.escape(target.host)}|raw\.githubusercontent\.com)/{slug}"
        branch = re.escape(quote(linking.branch))
        kind = "(?:(?:blob|raw|tree|blame)/)?"
        self._into_archive = re.compile(rf"(?i:https?://{site})/{kind}{branch}/.")

    def find(self, path: str) -> Iterator[InboundLink]:
        """The links of a document, in order."""
        data = self.texts[path]
        if not self._may_link(data):
            return
        seen = set()
        text = data.decode("utf-8", "surrogateescape")
        lines = text.replace("\r\n", "\n").split("\n")
        for number, shown in shown_lines(text):
            if "://" not in shown and "#" not in shown:
                continue
            for match in _ADDRESS.finditer(without_code(shown)):
                address = _address(match)
                stub, anchor = self._target(path, address)
                if (number, address) in seen or not (anchor or self._into_archive.match(address)):
                    continue
                seen.add((number, address))
                quoted = lines[number - 1].rstrip("\r")
                yield InboundLink(path, number, quoted, address, stub, anchor)
                if len(seen) == _LINKS:
                    return

    def _may_link(self, data: bytes) -> bool:
        """Whether ``data`` names the archive's branch or a stub: most documents do not."""
        if self._within in data:
            return True
        for match in _NAMED.finditer(data):
            before = data[max(match.start() - 255, 0) : match.start()]
            name = _BEFORE_NAME.split(before)[-1]
            if name in self._names or b"%" in name:
                return True
        return False

    def _target(self, path: str, address: str) -> tuple[str, str]:
        """The stub that ``address`` leads to from ``path`` and the anchor; "" for none."""
        name, _, anchor = address.partition("#")
        name = unquote(name.removesuffix("?plain=1"), errors="surrogateescape")
        if not anchor or not name or "://" in name:
            return "", ""
        folder = "" if name.startswith("/") else os.path.dirname(path)
        stub = os.path.normpath(f"{folder}/{name}" if folder else name.lstrip("/"))
        if stub not in self.stubs:
            return "", ""
        return stub, unquote(anchor).lower()


def of_change(
    changes: ChangeSet, search: LinkSearch, touched: Collection[str] | None, archive: str | None
) -> Iterator[Finding]:
    """Links to anchors that stubs no longer have, and into the archive.

    Those in documents that are ``touched``, and those to stubs that are; None: all of them.
    """
    is_stub_touched = touched is None or any(path in touched for path in search.stubs)
    links = [
        link
        for path in sorted(search.texts)
        if is_stub_touched or (touched and path in touched)
        for link in search.find(path)
        if touched is None or path in touched or link.stub in touched
    ]
    gone = _lost_anchors(links, changes.repository, archive, search.stubs)
    left = [link for link in links if not link.anchor or link.anchor in gone.get(link.stub, ())]
    for link in left[:_SHOWN]:
        blob = changes.repository.blob_id(search.texts[link.path])
        yield Finding(
            f"doc-archive/{link.condition}",
            RULES[link.condition],
            printable(link.message),
            hint=printable(link.hint),
            evidence=(Location(link.path, link.line, link.line, blob=blob, quote=link.quote),),
        )


def _lost_anchors(
    links: Iterable[InboundLink],
    repository: Repository,
    archive: str | None,
    stubs: Mapping[str, bytes],
) -> dict[str, frozenset[str]]:
    """The anchors that full texts have, and their stubs have not."""
    paths = sorted({link.stub for link in links if link.anchor})[:_TEXTS] if archive else []
    texts = repository.read_small([f"{archive}:{path}" for path in paths], _TEXT_LIMIT)
    return {
        path: anchors(data) - anchors(stubs[path])
        for path, data in zip(paths, texts, strict=True)
        if data
    }


def _address(match: re.Match[str]) -> str:
    kind = match.lastgroup or ""
    address = match[kind][:_LONG]
    if kind == "inline":  # brackets in it are pairs
        depth = 0
        for position, sign in enumerate(address):
            depth += (sign == "(") - (sign == ")")
            if depth < 0:
                return address[:position]
    return address.rstrip("().,;:!?*_~]") if kind == "bare" else address


def anchors(data: bytes) -> frozenset[str]:
    """The anchors that GitHub gives the headings of a document, and those that it writes itself."""
    names: set[str] = set()
    repeats: dict[str, int] = {}
    before = ""
    for _, line in shown_lines(data.decode("utf-8", "replace")):
        shown = line[:_LONG]
        lead = LEAD.match(shown)
        text = shown[lead.end() :] if lead else shown
        names.update(anchor.lower() for anchor in _HTML_ANCHOR.findall(shown))
        headings = _HTML_HEADING.findall(shown)
        if heading := _HEADING.match(text):
            title = text[heading.end() :].strip()
            bare = title.rstrip("#")
            headings.append(title if bare[-1:].strip() else bare)
        elif before and _UNDERLINE.match(shown):
            headings.append(before)
        before = "" if heading or headings else text.strip()
        for title in headings:
            name = _slug(title)
            repeats[name] = repeats.get(name, -1) + 1
            names.add(f"{name}-{repeats[name]}" if repeats[name] else name)
    return frozenset(names - {""})


def _slug(title: str) -> str:
    pieces = title.split("`")  # what is in code stays as it is
    pieces[::2] = [
        unescape(_EMPHASIS.sub("", _TAG.sub("", _LINK.sub(r"\1", _IMAGE.sub("", piece)))))
        for piece in pieces[::2]
    ]
    return _NO_ANCHOR.sub("", "".join(pieces).strip().lower()).replace(" ", "-")
