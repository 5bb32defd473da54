"""How a report writes what comes from outside: texts of a surface, and addresses on GitHub."""

from __future__ import annotations

import re
from urllib.parse import quote

from rlm_ci import errors
from rlm_ci.report.rules import address
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from rlm_ci.report.findings import Finding, Location, Subject
    from rlm_ci.report.render import RenderOptions

    class Surface(Protocol):
        """One surface; its texts are neutral there."""

        def text(self, text: str) -> Any: ...

        def hint(self, text: str) -> Any: ...

        def cell(self, text: str) -> Any: ...

        def code(self, text: str) -> Any: ...

        def link(self, text: str, url: str | None) -> Any: ...

        def quote(self, location: Location, lines: int) -> Any: ...

        def block(self, text: str, language: str = "") -> Any: ...


_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._")

#: Characters of a path that gets a link.
_LONGEST = 1000

#: GitHub shows these rendered; only their plain form has lines to point to.
RENDERED = (".md", ".markdown", ".mdx", ".rst", ".adoc", ".ipynb", ".svg", ".csv", ".geojson")


#: How the hint of an analyzer's finding begins: the rule, and the address of its page.
HINT = re.compile(r"([^:]{1,200}): (https://[A-Za-z0-9._~/#?=&%+-]{1,200})(?=;|$)")
#: The manuals to which a hint may lead from a comment: a rule's address may be the change's own.
_MANUALS = (
    "https://docs.astral.sh/",
    "https://eslint.org/",
    "https://github.com/hadolint/hadolint/wiki/",
    "https://golangci-lint.run/",
    "https://microsoft.github.io/pyright/",
    "https://mypy.readthedocs.io/",
    "https://rust-lang.github.io/rust-clippy/",
    "https://staticcheck.dev/",
    "https://typescript-eslint.io/",
    "https://www.shellcheck.net/",
)


def in_manual(hint: str) -> tuple[str, str, str] | None:
    """An analyzer's hint as its rule, the rule's page, and the rest; None without a known page."""
    match = HINT.match(hint)
    if match is None or not match[2].startswith(_MANUALS):
        return None
    return match[1], match[2], hint[match.end() :]


def quote_path(path: str) -> str:
    """``path`` as a relative URI reference: its bytes, percent-encoded but for ``/``."""
    quoted = quote(path, errors="surrogateescape" if _is_bytes(path) else "replace")
    return f"%2F{quoted[1:]}" if quoted.startswith("/") else quoted


def _is_bytes(path: str) -> bool:
    """Whether every surrogate in ``path`` encodes a byte that was not UTF-8."""
    return all(0xDC80 <= ord(char) <= 0xDCFF for char in path if 0xD800 <= ord(char) <= 0xDFFF)


def check_server_url(url: str) -> str:
    """``url`` without a slash at its end. Raises ConfigError if it is not a plain address."""
    scheme, colon, address = url.partition("://")
    host, _, folder = address.rstrip("/").partition("/")
    name, _, port = host.partition(":")
    parts = [name, *(folder.split("/") if folder else ())]
    plain = all(part and not part.startswith(".") and set(part) <= _NAME for part in parts)
    if not colon or scheme not in ("https", "http") or not plain or not (port or "0").isdecimal():
        raise errors.ConfigError(
            f"{printable(url[:200])!r} is not the address of a GitHub server",
            where="server_url",
            hint="give it as https://HOST; GITHUB_SERVER_URL sets it",
        )
    return url.rstrip("/")


class Links:
    """Permalinks for one subject, and pages of rules. What cannot be linked safely is None."""

    def __init__(self, subject: Subject, options: RenderOptions) -> None:
        server = check_server_url(options.server_url)
        self._rule_pages = options.rule_pages
        names = (subject.repository or "").split("/")
        is_repository = len(names) == 2 and all(
            name and set(name) <= _NAME and name.strip(".") for name in names
        )
        self.repository = f"{server}/{names[0]}/{names[1]}" if is_repository else None
        self._new = None if subject.worktree else _commit(subject.head)
        self._old = _commit(subject.merge_base) or _commit(subject.base)

    def rule(self, finding: Finding) -> str | None:
        """The page that explains the rule of ``finding``."""
        return address(finding.rule, finding.source) if self._rule_pages else None

    def commit(self, sha: str | None) -> str | None:
        commit = _commit(sha)
        return f"{self.repository}/commit/{commit}" if self.repository and commit else None

    def pull_request(self, number: int | None) -> str | None:
        return f"{self.repository}/pull/{number}" if self.repository and number else None

    def file(self, location: Location) -> str | None:
        """The file of ``location``, without lines."""
        sha = self._old if location.side == "old" else self._new
        if self.repository is None or sha is None or len(location.path) > _LONGEST:
            return None
        # A browser resolves "a/../b", which may lead anywhere on the server.
        odd = not {"", ".", ".."}.isdisjoint(location.path.split("/"))
        return None if odd else f"{self.repository}/blob/{sha}/{quote_path(location.path)}"

    def address_of(self, location: Location) -> str | None:
        """The lines of ``location`` in its file."""
        url = self.file(location)
        if url is None or location.line_start is None:
            return url
        plain = "?plain=1" if location.path.lower().endswith(RENDERED) else ""
        end = location.line_end or location.line_start
        last = f"-L{end}" if end != location.line_start else ""
        return f"{url}{plain}#L{location.line_start}{last}"


def _commit(sha: str | None) -> str | None:
    return sha if is_object_id(sha) else None
