"""The grammar of an archive stub: a heading, the marker, and three lines with the link.

# Title

<!-- docs-archive:stub -->
> Archived on 2026-05-18. Full content: https://HOST/OWNER/NAME/blob/BRANCH/PATH

- Archive branch: BRANCH
- Archive path: PATH
"""

from __future__ import annotations

import re

from rlm_ci.report.findings import Severity
from rlm_ci.text.dates import is_day
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False


MARKER = b"<!-- docs-archive:stub -->"
_BYTES = ("utf-8", "surrogateescape")
_QUOTE = "> Archived on "
_LINK = ". Full content: "
_FIRST = "'> Archived on … Full content: …'"
#: What must be escaped in a link.
_ODD = " \t<>[]()"
_AS_CODES = "a blank as %20, ( and ) as %28 and %29, [ and ] as %5B and %5D, < and > as %3C and %3E"
#: The target of a Markdown link, and the title after it; few stubs have one.
_TITLED = r"""(\S+)[ \t]+(?:"[^"]*"|'[^']*')"""
_BRANCH = "Archive branch:"
_PATH = "Archive path:"
#: What needs no escape in a link or a line.
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/._-")

#: The heading of a stub whose document has none; characters of a heading that is copied.
_TITLE = "# Archived document"
_TITLE_LIMIT = 300
#: Documents whose stubs say when they were reviewed, as the full texts do.
_REVIEWED = "tasks/specs/"


_OLDER = "Severity `info` for a stub that the change does not touch."
RULES = {
    "malformed": Severity.HIGH,
    "path-mismatch": Severity.HIGH,
    "wrong-target": Severity.HIGH,
    "dangling": Severity.HIGH,
    "payload-is-stub": Severity.HIGH,
    "open-items": Severity.MEDIUM,
    "old-anchor": Severity.INFO,
    "archive-link": Severity.INFO,
}


class LinkTarget(Value):
    """The repository that links must lead to, in small letters; empty if unknown."""

    host: str = ""
    slug: str = ""

    @classmethod
    def from_url(cls, url: str) -> LinkTarget | None:
        """From ``https://host/owner/name``, ``git@host:owner/name.git``, ``ssh://…``."""
        parts = _split_address(url)
        return cls(*(part.lower() for part in parts)) if parts else None


def _split_address(url: str) -> tuple[str, str] | None:
    """Host and ``owner/name`` of the address of a repository; None for a path on this machine."""
    address = url.strip().rstrip("/").removesuffix(".git")
    scheme, separator, after = address.partition("://")
    if not separator:
        host, colon, path = address.partition(":")
        if not colon or "/" in host or "@" not in host:
            return None
    elif scheme in ("http", "https", "ssh", "git"):
        host, _, path = after.partition("/")
        host = host.partition(":")[0] if scheme in ("ssh", "git") else host
        if "@" in host and ":" in host:
            host = host.rpartition("@")[2]
    else:
        return None
    host = host.rpartition("@")[2].lower()
    owner, _, name = path.strip("/").partition("/")
    return (host, f"{owner}/{name}") if host and owner and name else None


class StubFlaw(Value):
    """Why a stub is not valid; ``condition`` is the rule's, ``line`` is 1-based."""

    condition: str
    message: str
    hint: str
    line: int = 1


class Stub(Value):
    """What a stub says, with line numbers."""

    url: str
    branch: str
    path: str
    url_line: int
    branch_line: int
    path_line: int

    def flaw_at(self, path: str, branch: str, target: LinkTarget) -> StubFlaw | None:
        """What is wrong with this stub at ``path``, without a look at the archive."""
        if self.path != path:
            what = f"the stub names the path {self.path}, not its own"
            hint = f"write: `- Archive path: {path}`"
            return StubFlaw("path-mismatch", what, hint, self.path_line)
        if self.branch != branch:
            what = f"the stub names the branch {self.branch}, the archive is {branch}"
            hint = f"write: `- Archive branch: {branch}`"
            return StubFlaw("wrong-target", what, hint, self.branch_line)
        wrong = _wrong_part(self.url, branch, path, target)
        if wrong:
            from urllib.parse import quote

            where = f"https://{target.host}/{target.slug}" if target.slug else "…"
            within = quote(f"{branch}/{path}", errors="surrogateescape")
            what = f"the link leads to another {wrong}: {self.url}"
            return StubFlaw("wrong-target", what, f"link to `{where}/blob/{within}`", self.url_line)
        return None

    def dangling(self, why: str) -> StubFlaw:
        return StubFlaw(
            "dangling",
            f"the full text is not in the archive: {why}",
            f"commit the full text to {self.branch} at the same path and push it, "
            "or restore the document",
            self.url_line,
        )

    def payload_is_stub(self, why: str) -> StubFlaw:
        return StubFlaw(
            "payload-is-stub",
            f"the full text was overwritten: {why}",
            f"restore the full text on {self.branch} from its history",
            self.url_line,
        )


class StubFormat:
    """Judges stubs, by how the archiver writes them."""

    def __init__(self, branch: str, target: LinkTarget) -> None:
        self._branch = branch
        self._target = target
        self._plain = _plain(branch, target)

    def judge(self, path: str, data: bytes) -> tuple[bool, StubFlaw | None]:
        """Whether ``data`` at ``path`` is a stub, and what is wrong with it by itself."""
        plain = self._plain.fullmatch(data) if self._plain else None
        if plain:  # nearly all are; the others are parsed
            day, name = plain.group("day", "name")
            if name.decode() == path and b".." not in name and is_day(day.decode()):
                return True, None
        parsed = parse(data)
        if isinstance(parsed, Stub):
            return True, parsed.flaw_at(path, self._branch, self._target)
        return parsed is not None, parsed


def write(path: str, day: str, branch: str, address: str, heading: str = "") -> bytes | None:
    """The stub for ``path``, whose full text is on ``branch`` of the repository at ``address``.

    None where no stub can say so: for a path with a line break, or an address without a site.
    """
    link = link_to(address, branch, path)
    if not link:
        return None
    review = f"last_review: {day}\n\n" if path.startswith(_REVIEWED) else ""
    form = StubFormat(branch, LinkTarget.from_url(address) or LinkTarget())
    for title in (heading, _TITLE):
        data = (
            f"{title}\n\n{review}{MARKER.decode()}\n{_QUOTE}{day}{_LINK}{link}\n\n"
            f"- {_BRANCH} {branch}\n- {_PATH} {path}\n"
        ).encode(*_BYTES)
        # What the check does not take is not written.
        if len(title) <= _TITLE_LIMIT and form.judge(path, data) == (True, None):
            return data
    return None


def link_to(address: str, branch: str, path: str) -> str:
    """The page of a file on a branch of the repository at ``address``; "" without a site."""
    from urllib.parse import quote

    parts = _split_address(address)
    within = quote(f"{branch}/{path}", errors="surrogateescape")
    return f"https://{'/'.join(parts)}/blob/{within}" if parts else ""


def _plain(branch: str, target: LinkTarget) -> re.Pattern[bytes] | None:
    """A stub exactly as the archiver writes it; None if its link has no single form."""
    if target.slug.count("/") != 1 or not _PLAIN.issuperset(target.host + target.slug + branch):
        return None
    site = re.escape(f"https://{target.host}/{target.slug}/")
    within = re.escape(f"blob/{branch}/")
    # The link is bare, or has one of Markdown's two forms.
    pattern = (
        r"# [^\r\n<]*\n\n(?:last_review: [^\r\n<]*\n\n)?"
        rf"{re.escape(MARKER.decode())}\n{_QUOTE}(?P<day>[0-9-]{{10}}){re.escape(_LINK)}"
        r"(?:(?P<angle><)|(?P<text>\[[^\]\n]*\]\())?"
        rf"(?i:{site}){within}(?P<name>[A-Za-z0-9/._-]+)(?(angle)>)(?(text)\))\n\n"
        rf"- {_BRANCH} {re.escape(branch)}\n- {_PATH} (?P=name)\n"
    )
    return re.compile(pattern.encode())


def _wrong_part(url: str, branch: str, path: str, target: LinkTarget) -> str:
    """Which part of the link differs, or nothing."""
    scheme, _, address = url.partition("://")
    host, _, after = address.partition("/")
    if "%" in after:
        from urllib.parse import unquote

        after = unquote(after, errors="surrogateescape")
    if (
        scheme not in ("https", "http")
        or "@" in host
        or (target.host and host.lower() != target.host)
    ):
        return "host"
    names = target.slug.count("/") + 1 if target.slug else 2
    *slug, after = after.split("/", names)
    if len(slug) != names or (target.slug and "/".join(slug).lower() != target.slug):
        return "repository"
    if after == f"blob/{branch}/{path}":
        return ""
    return "path" if after.startswith(f"blob/{branch}/") else "branch"


def parse(data: bytes) -> Stub | StubFlaw | None:
    """The stub in ``data``, or why it is malformed; None for a document that is no stub.

    A stub has the marker at the beginning of a line outside of fenced code.
    """
    if MARKER not in data:
        return None
    if b"\r" in data.replace(b"\r\n", b""):
        return _carriage_returns(data)
    lines = [line.rstrip() for line in data.decode(*_BYTES).split("\n")]
    marked, heading = _scan(lines)
    if not marked:
        return None
    if lines[marked[0]].strip() != MARKER.decode():
        return _malformed("text follows the marker on its line", marked[0])
    at = marked[0]
    if len(marked) > 1:
        return _malformed("the marker is there more than once", marked[1])
    if not heading:
        return _malformed("it does not begin with a heading", 0)
    below = [
        (number, _without_comment(line))
        for number, line in enumerate(lines)
        if number > at and line
    ]
    if len(below) != 3:
        number = below[3][0] if len(below) > 3 else at
        follow = f"{count(len(below), 'line')} {'follows' if len(below) == 1 else 'follow'}"
        return _malformed(f"{follow} the marker, not 3", number)
    return _read(below)


def _read(link_lines: list[tuple[int, str]]) -> Stub | StubFlaw:
    (url_line, quote), (branch_line, second), (path_line, third) = link_lines
    url = _link(quote)
    if "://" not in url:
        return _malformed(f"the line after the marker is not {_FIRST}", url_line)
    if odd := "".join(sign for sign in _ODD if sign in url):
        what = f"the line after the marker is not {_FIRST}: {odd!r} in the link"
        return _malformed(what, url_line, f"write the link alone there, and in it {_AS_CODES}")
    branch, path = _bullet(second, _BRANCH), _bullet(third, _PATH)
    if not branch:
        return _malformed("the archive branch is missing", branch_line)
    if not path:
        return _malformed("the archive path is missing", path_line)
    if path.startswith("/") or ".." in path.split("/"):
        return _malformed("the archive path leaves the repository", path_line)
    return Stub(url, branch, path, url_line + 1, branch_line + 1, path_line + 1)


def _carriage_returns(data: bytes) -> StubFlaw | None:
    """Only to Markdown does a lone carriage return end a line."""
    if any(line.strip() == MARKER for line in data.splitlines()):
        return _malformed("its lines end in carriage returns alone", 0)
    return None


def _without_comment(line: str) -> str:
    """``line`` without the comment at its end, which may hold a suppression."""
    return (line.partition("<!--")[0] if line.endswith("-->") else line).strip()


def _scan(lines: list[str]) -> tuple[list[int], bool]:
    """The lines with the marker outside of fences, and whether a heading comes first."""
    from rlm_ci.checks._shown_markdown import fence_of  # most stubs need no look at their lines

    marker = MARKER.decode()
    marked = []
    fence = ""
    comment = False
    first = None
    for number, line in enumerate(lines):
        text = line.lstrip(" ")
        if first is None and text:
            first = text.removeprefix("\ufeff")
        if len(line) - len(text) > 3:
            continue  # indented code
        if comment:
            comment = "-->" not in text
        elif fence:
            if text.startswith(fence) and not text.strip(fence[0]):
                fence = ""
        elif opened := fence_of(text):
            fence = opened
        elif text.startswith(marker):
            marked.append(number)
        elif text.startswith("<!--"):
            comment = "-->" not in text  # in a comment nothing opens a fence
    hashes = len(first) - len(first.lstrip("#")) if first else 0
    return marked, 1 <= hashes <= 6 and (first or "")[hashes : hashes + 1] == " "


def _malformed(what: str, index: int, hint: str = "") -> StubFlaw:
    hint = hint or "see rlm-ci explain doc-archive/malformed for the form, or remove the marker"
    return StubFlaw("malformed", f"the stub is malformed: {what}", hint, index + 1)


def _link(quote: str) -> str:
    """The link of the quote line: bare, in ``<>`` or a Markdown link; "" without one."""
    if not quote.startswith(_QUOTE):
        return ""
    day, separator, link = quote[len(_QUOTE) :].partition(_LINK)
    if not separator or not is_day(day):
        return ""
    link = link.strip()
    if link.startswith("[") and link.endswith(")"):
        link = link.partition("](")[2][:-1].strip()
        titled = re.fullmatch(_TITLED, link)
        link = titled[1] if titled else link
    return link[1:-1] if link.startswith("<") and link.endswith(">") else link


def _bullet(line: str, label: str) -> str:
    if line[:2] not in ("- ", "* ", "+ ") or not line[2:].lstrip().startswith(label):
        return ""
    return line[2:].lstrip()[len(label) :].strip().strip("`")
