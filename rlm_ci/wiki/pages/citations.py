"""Places that a page's claims rest on: each is a link in the page, and can be opened again."""

from __future__ import annotations

import re
from hashlib import sha256
from urllib.parse import quote

from rlm_ci.change.evidence import lines_in
from rlm_ci.errors import DamagedError
from rlm_ci.git.objects import batches
from rlm_ci.report.findings import Location
from rlm_ci.report.links import RENDERED
from rlm_ci.text.neutralise import code
from rlm_ci.text.printable import printable
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.recursion.corpus.corpus import Corpus, CorpusFile

#: A placeholder for the commit of a page until it is known. No text of a repository can hold it:
#: characters that cannot be seen are written out.
COMMIT = "\0"
#: Lines of a place that are quoted; of a longer one only its path, lines and content are held.
QUOTED = 60
_BATCH = 16 << 20
_HOST = r"(?:[\w-]+\.)*gitlab(?:\.[\w-]+)+"
_GITLAB = re.compile(
    rf"(?:(?:https://|ssh://git@)(?={_HOST}/)|git@(?={_HOST}:))({_HOST})[/:]"
    r"((?:[\w-][\w.-]*/)+[\w-][\w.-]*)",
    re.ASCII,
)


class CitedPlace(Row):
    path: str
    line_start: int
    line_end: int


class HashedPlace(Row):
    """A place, and a hash of its lines."""

    @classmethod
    def from_json(cls, row: Any) -> HashedPlace:
        """From path, lines and hash: by hand, as the pages of a wiki have a hundred thousand."""
        path, start, end, quote = row
        is_sound = type(path) is type(quote) is str and type(start) is type(end) is int
        if not (is_sound and 1 <= start <= end):
            raise ValueError(f"a path, two lines and a hash are not {row}")
        return cls.of((CitedPlace.of((path, start, end)), quote))

    cited_place: CitedPlace
    quote: str


class LinkDestination(Value):
    """Where links lead: to a commit on a ``server``, else to files below ``base``.

    ``base`` is the path from ``index.md`` to the repository; without it, nothing is linked.
    ``is_gitlab`` says which form the server's addresses have.
    """

    server: str = ""
    repository: str = ""
    base: str = "."
    is_gitlab: bool = False

    def at(self, commit: str | None) -> LinkDestination:
        """The same for what is not committed: no server has that."""
        return self if commit else LinkDestination(base=self.base)

    def url(self, cited_place: CitedPlace, *, deep: bool) -> str:
        """Where the place can be read; "" for nowhere."""
        if not self.base and not (self.server and self.repository):
            return ""
        lines = lines_of(cited_place)
        path = quote(cited_place.path, errors="surrogateescape")
        if self.server and self.repository:
            within = "/-/blob" if self.is_gitlab else "/blob"
            start = f"{self.server.rstrip('/')}/{quote(self.repository)}{within}/{COMMIT}/"
            if path.lower().endswith(RENDERED):  # else there are no lines to lead to
                path += "?plain=1"
            if self.is_gitlab:
                lines = lines.replace("-L", "-")
        else:
            base = self.base.removeprefix("./").strip("/")
            start = f"{'../' if deep else ''}{'' if base in ('', '.') else f'{base}/'}"
        return f"{start}{path}#{lines}"


def lines_of(cited_place: CitedPlace) -> str:
    """``L3-L9``, or ``L3`` for one line, as GitHub's links have it."""
    last = f"-L{cited_place.line_end}" if cited_place.line_end > cited_place.line_start else ""
    return f"L{cited_place.line_start}{last}"


def gitlab_project(remote: str) -> tuple[str, str] | None:
    """The server and the project that a remote's address names; None where it is no GitLab.

    A host is one if its name says so. An address with a password or a port is left alone.
    """
    match = _GITLAB.fullmatch(remote.rstrip("/").removesuffix(".git"))
    return (f"https://{match[1]}", match[2]) if match else None


class CitationRegister:
    """The places of one page, collected while it is written."""

    def __init__(self, target: LinkDestination, *, deep: bool) -> None:
        self._target = target
        self._deep = deep
        self._places: dict[CitedPlace, None] = {}

    def link(self, path: str, line_start: int, line_end: int, *, cell: bool = False) -> str:
        """A link to these lines; the whole path is shown, as another file may end like it."""
        text, url = self._cite(path, line_start, line_end, cell=cell)
        return f"[{text}]({url})" if url else text

    def linked_name(self, name: str, path: str, line_start: int, line_end: int) -> str:
        """``name``, which is neutral already, as a link to these lines; beside them without one."""
        text, url = self._cite(path, line_start, line_end)
        return f"[{name}]({url})" if url else f"{name} {text}"

    def file(self, path: str, *, cell: bool = False) -> str:
        """A link to a file: its first line stands for all, else any edit made the page stale."""
        _, url = self._cite(path, 1, 1)
        text = code(path, cell=cell)
        return f"[{text}]({url})" if url else text

    def _cite(
        self, path: str, line_start: int, line_end: int, *, cell: bool = False
    ) -> tuple[str, str]:
        cited_place = CitedPlace(path, line_start, max(line_start, line_end))
        self._places[cited_place] = None
        text = code(f"{path}#{lines_of(cited_place)}", cell=cell)
        return text, self._target.url(cited_place, deep=self._deep)

    def cited(self) -> tuple[CitedPlace, ...]:
        """The places of all links, in order."""
        return tuple(sorted(self._places, key=tuple))


def opened(
    corpus: Corpus, places: Iterable[CitedPlace], files: Mapping[str, CorpusFile]
) -> dict[CitedPlace, Location]:
    """The current content of each place. Raises DamagedError for a missing one."""
    by_path: dict[str, list[CitedPlace]] = {}
    for cited_place in places:
        by_path.setdefault(cited_place.path, []).append(cited_place)
    locations: dict[CitedPlace, Location] = {}
    for file, content in contents(corpus, (files[key] for key in sorted(by_path) if key in files)):
        lines = lines_in(content)
        for cited_place in by_path.pop(file.path):
            locations[cited_place] = _location(cited_place, file.oid, lines)
    if by_path:
        raise _damaged(min(by_path))
    return locations


def _location(cited_place: CitedPlace, oid: str, lines: Sequence[str]) -> Location:
    if not 1 <= cited_place.line_start <= cited_place.line_end <= len(lines):
        raise _damaged(cited_place.path)
    quote = None
    if cited_place.line_end - cited_place.line_start < QUOTED:
        quote = "\n".join(lines[cited_place.line_start - 1 : cited_place.line_end])
    return Location(
        cited_place.path, cited_place.line_start, cited_place.line_end, "new", oid, quote
    )


def _damaged(path: str) -> DamagedError:
    return DamagedError(
        "what is kept of a file does not fit its content",
        where=printable(path),
        hint="delete the folder of what the wiki keeps, and run it again",
    )


def contents(corpus: Corpus, files: Iterable[CorpusFile]) -> Iterator[tuple[CorpusFile, bytes]]:
    """The files with their texts, of which as many are held as fit into memory together."""
    for group in batches(((file, file.size) for file in files), _BATCH):
        yield from zip(group, corpus.read(group), strict=True)


def claim_of(location: Location) -> HashedPlace:
    """The claim as the state keeps it; a place without a quote is known by its blob."""
    cited_place = CitedPlace(location.path, location.line_start or 1, location.line_end or 1)
    text = location.quote if location.quote is not None else f"\0{location.blob}"
    return HashedPlace(cited_place, quote_hash(text))


def quote_hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]
