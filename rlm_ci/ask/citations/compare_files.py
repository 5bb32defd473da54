"""Compares the file table of a context object from elsewhere with the repository.

Such a table may name any file for any bytes. If the file is in the work tree or in git, its lines
are compared before an answer cites them.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from rlm_ci.ask.citations.citations import LineOffsets
from rlm_ci.context.builder.file_table import Pieces
from rlm_ci.context.context import READ_LIMIT
from rlm_ci.context.line_numbers import LineCounter
from rlm_ci.errors import RlmCiError, StorageError
from rlm_ci.system import files
from rlm_ci.text.unpacking import decoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rlm_ci.ask.citations.citations import Refute
    from rlm_ci.context.context import Context, FileLines, SourceFile
    from rlm_ci.git.repository import Repository

    Read = Callable[[int, int], bytes]

OTHER = "the file of the repository has something else in these lines"
#: Bytes of a blob of git that are read.
_BLOB = 64 << 20


def name_of(piece: SourceFile, lines: FileLines) -> str:
    """The name of a place in the record of a run, which has no paths."""
    return f"{piece.start}:{lines.line_start}-{lines.line_end}"


def refuted_by(results: Mapping[str, str]) -> Refute:
    """The results of an earlier comparison, by ``name_of``."""
    return lambda piece, lines: results.get(name_of(piece, lines))


class FileComparison:
    """Compares ``context`` with the work tree, the index and ``commit`` of ``repository``.

    ``refuted`` are the places that differ, by ``name_of``.
    """

    def __init__(self, context: Context, repository: Repository, commit: str | None) -> None:
        self._context = context
        self._repository = repository
        self._commit = commit
        self._known: dict[str, str | None] = {}

    @property
    def refuted(self) -> dict[str, str]:
        return {name: flaw for name, flaw in self._known.items() if flaw is not None}

    def __call__(self, piece: SourceFile, lines: FileLines) -> str | None:
        name = name_of(piece, lines)
        if name not in self._known:
            self._known[name] = self._flaw(piece, lines.line_start, lines.line_end)
        return self._known[name]

    def _flaw(self, piece: SourceFile, first: int, last: int) -> str | None:
        """Why lines of a file do not hold; None if they do, or the repository has no such file."""
        if os.path.isabs(piece.path) or {"", ".", ".."} & set(piece.path.split("/")):
            return None
        lines = LineOffsets.of(self._context, piece)
        expected = _content(lines, self._context.raw, first, last)
        is_there = False
        for numbering, read in self._copies(piece):
            is_there = True
            if _content(numbering, read, first, last) == expected:
                return None
        return OTHER if is_there else None

    def _copies(self, piece: SourceFile) -> Iterator[tuple[LineOffsets, Read]]:
        """The copies of a file in the repository, read as that of the context was."""
        for size, read in self._stored(piece.path):
            if not piece.read_as:
                yield _numbered(size, read)
            elif (text := decoded(read(0, min(size, _BLOB)), _BLOB)) is not None:
                yield _numbered(len(text), _reader(text))

    def _stored(self, path: str) -> Iterator[tuple[int, Read]]:
        with _worktree(os.path.join(self._repository.root, path), self._repository.root) as opened:
            if opened is not None:
                yield opened
        if self._repository.git_dir is None or "\n" in path:
            return
        specs = [f":0:{path}", *([f"{self._commit}:{path}"] if self._commit else [])]
        for content in map(self._blob, specs):
            if content is not None:
                yield len(content), _reader(content)

    def _blob(self, spec: str) -> bytes | None:
        """The content in git; None if there is none, or too much, or git fails."""
        try:
            return self._repository.read_small([spec], _BLOB)[0]
        except RlmCiError:
            return None


@contextmanager
def _worktree(path: str, root: str) -> Iterator[tuple[int, Read] | None]:
    """The size and a reader of a regular file; None if there is none inside ``root``."""
    try:
        files.require_inside(root, path)
        descriptor = files.open_regular(path, os.O_RDONLY)
    except (OSError, StorageError):
        yield None
        return
    try:
        yield os.fstat(descriptor).st_size, lambda start, end: _pread(descriptor, start, end)
    finally:
        os.close(descriptor)


def _pread(descriptor: int, start: int, end: int) -> bytes:
    """Bytes of a file; fewer if it has become shorter or unreadable."""
    try:
        return os.pread(descriptor, end - start, start)
    except OSError:
        return b""


def _reader(content: bytes) -> Read:
    return lambda start, end: content[start:end]


def _numbered(size: int, read: Read) -> tuple[LineOffsets, Read]:
    pieces = Pieces()
    pieces.add("", 0, size)
    lines = LineCounter(pieces, read)
    return LineOffsets(0, size, lambda byte: lines.places(byte, byte + 1)[0].line_start), read


def _content(numbering: LineOffsets, read: Read, first: int, last: int) -> bytes | None:
    """The bytes of lines without their last end; None if there are no such lines."""
    span = numbering.span(first, last)
    if span is None:
        return None
    start, end = span
    return read(start, min(end, start + READ_LIMIT)).removesuffix(b"\n")
