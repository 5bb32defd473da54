"""``wiki.json``: what each page was made of, so that only what says something else is rewritten.

From the states before and after follows what is new in a wiki, page by page, and why.
"""

from __future__ import annotations

import json
import os
import re
import sys
from functools import cache
from hashlib import sha256

from rlm_ci import __version__, decoding
from rlm_ci.decoding import DecodeError
from rlm_ci.errors import DamagedError
from rlm_ci.source.grammars import LANGUAGES, is_known
from rlm_ci.system import files
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Row, Value
from rlm_ci.wiki import FACTS, VERSION
from rlm_ci.wiki.pages.citations import HashedPlace, claim_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Any

    from rlm_ci.decoding import ObjectId
    from rlm_ci.report.findings import Location

    LineNumber = int
    MaybeCommit = str
else:
    LineNumber, MaybeCommit = decoding.number(1, 1 << 53), decoding.hex_digits(0, 40, 64)

NAME = "wiki.json"
_SCHEMA = "schemas/wiki.schema.json"
_PAGE = re.compile(r"(?:index|flows|facts)\.md|modules/[A-Za-z0-9_][A-Za-z0-9._-]*\.md")
#: In the folder that is kept between runs: a hash of the last state that was made here.
_MADE = "made.txt"
_LIMIT = 256 << 20
#: Packages of grammars that are not called as their language.
_PACKAGES = {"C#": "c-sharp", "C++": "cpp", "TSX": "typescript"}
#: The key of what was said of the whole: no folder has that path.
WHOLE = "/"
#: What the key of a flow of calls begins with: as little a path.
FLOW = "/flows/"


def is_apart(key: str) -> bool:
    """Whether prose with that key is about no file: it is about the whole, or a flow of calls."""
    return key == WHOLE or key.startswith(FLOW)


def place_of(folder: str, name: str) -> str:
    """Where the page ``name`` is in ``folder``."""
    return os.path.join(folder, *name.split("/"))


def is_page(name: str) -> bool:
    return bool(_PAGE.fullmatch(name))


def _upgraded(row: Any, model: str) -> Any:
    """A sentence, also of before version 4, which had one quote, and was of the one ``model``."""
    if type(row) is list and len(row) > 1 and type(row[1]) is str:
        text, *quote = row
        return [text, [quote], [], model]
    return row


class QuotedLines(Row):
    """Lines that a sentence quotes, and a hash of them.

    ``within`` is the definition around them, if the lines occur more than once.
    """

    _is_row = True
    _optional = ("within",)

    path: str
    line_start: LineNumber
    line_end: LineNumber
    quote: str
    within: str = ""

    def _require(self) -> None:
        if self.line_start > self.line_end:
            raise ValueError(f"{self.line_start} to {self.line_end} are not lines")


class NamedDefinition(Row):
    """A function that a sentence names, and a hash of its lines."""

    _is_row = True

    path: str
    name: str
    quote: str


class ProseSentence(Row):
    """A sentence of a model, and what it rests on: quotes, at least one, and functions it names.

    ``commit`` is the one that the model was shown, "" for none; ``is_supported`` says whether a
    second question had the answer that the quotes support it, when the functions that the quoted
    lines call were ``called``.
    """

    _is_row = True
    _items = (("quotes", 1, 1 << 20),)
    _optional = ("called",)
    _recent = ("named_definitions", "model", "commit", "is_supported")

    text: str
    quotes: tuple[QuotedLines, ...]
    named_definitions: tuple[NamedDefinition, ...] = ()
    model: str = ""
    commit: MaybeCommit = ""
    is_supported: bool = False
    called: tuple[NamedDefinition, ...] = ()

    @property
    def path(self) -> str:
        return self.quotes[0].path

    @property
    def line_start(self) -> int:
        return self.quotes[0].line_start

    @property
    def line_end(self) -> int:
        return self.quotes[0].line_end

    @property
    def key(self) -> tuple[str, tuple[QuotedLines, ...]]:
        """What it says, and by which lines: who said it does not matter."""
        return self.text, self.quotes


class Prose(Value):
    """What a model said of one file, of a flow of calls, or of the whole.

    ``digest`` is a hash of the file or of the flow, "" if not all was asked; ``shown`` are hashes
    of the pieces that were asked about, and of the whole those of the sentences.
    """

    _optional = ("shown",)

    digest: str
    model: str
    said: tuple[ProseSentence, ...]
    shown: tuple[str, ...] = ()

    @staticmethod
    def _upgraded(record: Any) -> Any:
        rows = [_upgraded(row, record["model"]) for row in record["said"]]
        return {**record, "said": rows}


def altered(
    prose: Mapping[str, Prose], change: Callable[[ProseSentence], ProseSentence]
) -> dict[str, Prose]:
    """The same with ``change`` made to each sentence."""
    return {key: entry.replace(said=tuple(map(change, entry.said))) for key, entry in prose.items()}


class StoredPage(Value):
    """A page as the file has it."""

    _ignores = True

    digest: str
    sha256: str
    commit: ObjectId | None
    claims: tuple[HashedPlace, ...]


class PageState(Value):
    """One page: hashes of its claims and of its bytes, the commit it was made at, its claims."""

    digest: str
    sha256: str
    commit: str | None
    cited: tuple[HashedPlace, ...] | tuple[Location, ...]

    @classmethod
    def from_dict(cls, record: Any) -> PageState:
        """Raises DecodeError for what is none."""
        page = StoredPage.from_dict(record)
        return cls(page.digest, page.sha256, page.commit, page.claims)

    @property
    def claims(self) -> Iterator[HashedPlace]:
        return (row if isinstance(row, HashedPlace) else claim_of(row) for row in self.cited)

    def is_in(self, path: str) -> bool:
        """Whether the file at ``path`` has the bytes of this page."""
        data = files.read_or_none(path, _LIMIT)
        return data is not None and sha256(data).hexdigest() == self.sha256

    def to_dict(self) -> dict[str, Any]:
        return {
            "digest": self.digest,
            "sha256": self.sha256,
            "commit": self.commit,
            "claims": [[*claim.cited_place, claim.quote] for claim in self.claims],
        }


class WikiState(Value):
    """``tree`` is the corpus' digest, ``options`` a hash of all else that the pages depend on."""

    _ignores = True
    _optional = ()

    tree: str = ""
    options: str = ""
    commit: ObjectId | None = None
    pages: Mapping[str, PageState] = {}
    blobs: Mapping[str, str] = {}
    prose: Mapping[str, Prose] = {}

    def _require(self) -> None:
        for name in self.pages:
            if not is_page(name):
                raise ValueError(f"pages: {printable(name[:80])} is not a page")

    @classmethod
    def read(cls, folder: str) -> WikiState | None:
        """The folder's ``wiki.json``; None without one, or for an unreadable other version.

        Raises DamagedError for an invalid file.
        """
        path = os.path.join(folder, NAME)
        try:
            data = files.read(path, _LIMIT)
        except files.UnreadableError:
            if os.path.lexists(path):
                raise _damaged(path, "it cannot be read") from None
            return None
        return cls.from_bytes(data, path)

    @classmethod
    def from_bytes(cls, data: bytes, where: str = NAME) -> WikiState | None:
        try:
            record = json.loads(data)
        except (ValueError, RecursionError):
            raise _damaged(where, "it is not JSON") from None
        is_other = isinstance(record, dict) and record.get("version") not in (VERSION, None)
        try:  # a schema takes seconds for what a large repository's pages claim
            return cls.from_dict(record)
        except DecodeError as error:
            if is_other:
                return None
            raise _damaged(where, f"it does not follow {_SCHEMA} ({error})") from None

    def pieces(self) -> Iterator[bytes]:
        """As JSON, line by line; a page, and the prose about a file, is a line."""
        head = {
            "version": VERSION,
            "tree": self.tree,
            "options": self.options,
            "commit": self.commit,
        }
        lines = [f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items()]
        yield "".join(("{\n", *lines)).encode("ascii")
        yield from _object("pages", self.pages, PageState.to_dict, ",")
        yield from _object("blobs", self.blobs, str, ",")
        yield from _object("prose", self.prose, Prose.to_dict, "")
        yield b"}\n"

    def covers(self, tree: str, options: str, folder: str, *, cache: str) -> bool:
        """Whether ``folder`` has the unedited pages of this tree and these options.

        A change may bring any state: only the one that ``cache`` remembers is believed.
        """
        is_ours = files.read_or_none(os.path.join(cache, _MADE), 1 << 10) == self._mark()
        return (
            is_ours
            and (self.tree, self.options) == (tree, options)
            and all(page.is_in(place_of(folder, name)) for name, page in self.pages.items())
        )

    def summed_up(self, commits: Collection[str]) -> WikiState:
        """What pages are compared by, without other commits and, to free memory, without claims."""
        return self.replace(
            pages={
                name: page.replace(commit=page.commit if page.commit in commits else None, cited=())
                for name, page in self.pages.items()
            }
        )

    def remember(self, cache: str) -> None:
        """Let ``cache`` know that this state was made here. Raises StorageError."""
        files.write(os.path.join(cache, _MADE), self._mark())

    def _mark(self) -> bytes:
        return f"{hashed(self.pieces())} {readers()}".encode()


@cache
def readers() -> str:
    """The versions of this program, of Python, and of the libraries that read for it."""
    from importlib.metadata import PackageNotFoundError, version

    versions = [__version__, f"{VERSION}.{FACTS}", ".".join(map(str, sys.version_info[:2]))]
    libraries = ["markdown-it-py"]
    if any(map(is_known, LANGUAGES)):
        names = {_PACKAGES.get(name, name.lower()) for name in LANGUAGES}
        libraries += ["tree-sitter", *(f"tree-sitter-{name}" for name in sorted(names))]
    for name in libraries:
        try:
            versions.append(version(name))
        except PackageNotFoundError:
            versions.append("none")
    return " ".join(versions)


def hashed(pieces: Iterable[bytes]) -> str:
    hasher = sha256()
    for piece in pieces:
        hasher.update(piece)
    return hasher.hexdigest()


def _object(
    name: str, rows: Mapping[str, Any], convert: Callable[[Any], object], end: str
) -> Iterator[bytes]:
    """An object with a line for each of ``rows``, converted by ``convert`` one at a time."""
    encode = json.JSONEncoder(separators=(",", ":")).encode
    before = f"{encode(name)}: {{"
    for key in sorted(rows):
        yield f"{before}\n{encode(key)}: {encode(convert(rows[key]))}".encode("ascii")
        before = ","
    yield f"{before if not rows else chr(10)}}}{end}\n".encode("ascii")


def _damaged(path: str, why: str) -> DamagedError:
    return DamagedError(
        f"the wiki's state cannot be used: {why}",
        where=printable(path),
        hint="restore it, as it keeps what a model said; or delete it to write everything again",
    )


NEW = "it is new"
GONE = "its sources are gone"
CITED = "lines that it cites changed"
MORE = "there are new lines to cite"
MOVED = "lines that it cites moved"
OTHER = "what it says of files, names or history changed"
COMMIT = "the commit that it names is not in the history"
EDITED = "it was edited by hand, or made by another version"
MISSING = "its file is missing"
OPTIONS = "it was made for another repository, title or folder"
#: Files that a reason names.
_NAMED = 3


class PageChange(Value):
    """A page, why its text is another, and the files that the reason is about."""

    name: str
    why: str
    paths: tuple[str, ...] = ()

    def reason(self, shown: Callable[[str], str]) -> str:
        """The reason, and the first files in the form that ``shown`` gives a path."""
        if not self.paths:
            return self.why
        listing = ", ".join(map(shown, self.paths[:_NAMED]))
        more = len(self.paths) - _NAMED
        return f"{self.why}: {listing}" + (f" and {count(more, 'other file')}" if more > 0 else "")


def page_changes(old: WikiState | None, new: WikiState) -> tuple[PageChange, ...]:
    """The pages whose bytes differ, also those that are gone, by name."""
    before = old.pages if old is not None else {}
    changes = []
    for name in sorted(before.keys() | new.pages.keys()):
        state, other = before.get(name), new.pages.get(name)
        if state is None:
            changes.append(PageChange(name, NEW))
        elif other is None:
            paths = {claim.cited_place.path for claim in state.claims} - new.blobs.keys()
            changes.append(PageChange(name, GONE, tuple(sorted(paths))))
        elif state.sha256 != other.sha256:
            changes.append(PageChange(name, *_why(state, other)))
    return tuple(changes)


def lost(old: WikiState | None, new: WikiState) -> tuple[ProseSentence, ...]:
    """The sentences of a model that ``old`` has and ``new`` lacks."""
    texts = {sentence.text for prose in new.prose.values() for sentence in prose.said}
    every = (sentence for prose in (old.prose.values() if old else ()) for sentence in prose.said)
    return tuple(sentence for sentence in every if sentence.text not in texts)


def _why(state: PageState, other: PageState) -> tuple[str, tuple[str, ...]]:
    if state.digest == other.digest:
        return COMMIT, ()
    places, now = set(state.claims), set(other.claims)
    quotes = {(claim.cited_place.path, claim.quote) for claim in places}
    present = {(claim.cited_place.path, claim.quote) for claim in now}
    moved = {claim.cited_place.path for claim in places ^ now}
    for why, paths in (
        (CITED, {path for path, _ in quotes - present}),
        (MORE, {path for path, _ in present - quotes}),
        (MOVED, moved),
    ):
        if paths:
            return why, tuple(sorted(paths))
    return OTHER, ()
