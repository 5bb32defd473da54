"""Build a context object: gather the source, hash it, and move it into its place in one step.

All is written into a folder beside the final one, and renamed at the end: a killed build, or a
full disk, leaves no half object.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from rlm_ci.context import index_reader
from rlm_ci.context.builder import digests, gather, sources
from rlm_ci.context.builder.sources import CommitFiles
from rlm_ci.context.context import Context
from rlm_ci.context.index_reader import ContextIndex, IndexHeader
from rlm_ci.context.own_files import is_object
from rlm_ci.context.pointers import MAX_CHUNKS, ChunkLayout, Pointers, chunk_id
from rlm_ci.errors import ConfigError
from rlm_ci.system import files
from rlm_ci.system.atomic_folder import beside
from rlm_ci.text.encodings import AUTO, BYTES, is_encoding
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import BinaryIO

    from rlm_ci.context.builder.file_table import SourceFile
    from rlm_ci.context.builder.gather import Gathered
    from rlm_ci.context.builder.sources import SourceListing

POINTERS = "pointers.md"
#: Files that it lists.
_LISTED = 2000
#: More than any source has.
_ANY = 1 << 62


class EmptyError(ConfigError):
    """A source that must not be empty is."""


def build(
    source: str | BinaryIO | SourceListing | CommitFiles,
    folder: str,
    *,
    target_bytes: int = 65536,
    overlap_bytes: int = 4096,
    link: bool = False,
    root: str | None = None,
    without: Sequence[str] = (),
    required: bool = False,
    adopt: bool = False,
    encoding: str = AUTO,
    environ: Mapping[str, str] | None = None,
    clock: Callable[[], float] = time.time,
) -> Context:
    """Build a context object of ``source`` in ``folder``, which must be missing or empty.

    ``source`` is a file, a folder, a glob, an open binary stream, a listing of files, or a
    commit. With ``adopt``, a source that is an object is verified, and shared or copied. With
    ``link`` the object shares the file if possible: a later change of it damages the object. Names
    of files are relative to ``root``, if they are in it. The folders ``without``, and objects, are
    left out; ``environ`` is for git. ``required`` refuses an empty source. With ``encoding`` AUTO,
    texts are unpacked and decoded by what their bytes show; with BYTES they stay as they are.

    Raises ConfigError (EmptyError for an empty source), UnavailableError, DamagedError,
    StorageError, and what git raises.
    """
    if adopt and isinstance(source, str) and "\0" not in source and is_object(source):
        return _adopt(source, folder, required=required)
    cut = ChunkLayout(0, target_bytes, overlap_bytes)
    _require_possible(cut)
    max_bytes = cut.target + cut.step * (MAX_CHUNKS - 1)
    _require_encoding(encoding)
    bring, digits = _plan(
        source, root, environ or {}, max_bytes, without=without, link=link, encoding=encoding
    )
    with beside(folder) as temporary:
        path = os.path.join(temporary, index_reader.SOURCE)
        gathered = bring(path)
        del bring  # the list of many files takes as much memory as their table
        if required:
            _require_bytes(gathered.size, gathered.omitted)
        created_at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(clock()))
        context_index = _hashed(path, gathered, cut, digits, created_at)
        _finish(temporary, context_index)
        del gathered, context_index  # before the object is opened, to see that it can be
    return Context.open(folder)


def _adopt(source: str, folder: str, *, required: bool) -> Context:
    with Context.open(source) as context, beside(folder) as temporary:
        if required:
            _require_bytes(context.byte_length, context.omitted)
        verified = context.verify()
        path = os.path.join(temporary, index_reader.SOURCE)
        descriptor = files.open_regular(context.source_path, os.O_RDONLY)
        try:
            gather.share_or_copy(descriptor, context.source_path, path, _ANY, link=True)
            now = gather.looks(descriptor)
        finally:
            os.close(descriptor)
        if now != (verified["inode"], verified["size"], verified["mtime_ns"]):
            raise gather.changed(context.source_path)
        _finish(temporary, context.full_index())
    return Context.open(folder)


def _plan(
    source: str | BinaryIO | SourceListing | CommitFiles,
    root: str | None,
    environ: Mapping[str, str],
    limit: int,
    *,
    without: Sequence[str],
    link: bool,
    encoding: str,
) -> tuple[Callable[[str], Gathered], int]:
    """A function that writes the source to a path, and the digits of blob ids."""
    if isinstance(source, sources.SourceListing):
        return lambda path: gather.from_listing(source, path, limit, encoding), source.blob_digits
    if isinstance(source, CommitFiles):
        return lambda path: gather.from_commit(source, path, limit, encoding), source.blob_digits
    if not isinstance(source, str):
        return lambda path: gather.from_stream(source, path, limit, encoding), 40
    if "\0" in source:
        raise ConfigError("a path has no NUL", where="source", hint="name a file or a folder")
    if sources.is_glob(source):
        listing = sources.list_glob(source, root, environ, without)
    elif os.path.isdir(source):
        listing = sources.list_folder(source, root, environ, without)
    else:
        digits = sources.blob_digits(os.path.dirname(os.path.realpath(source)), environ)
        name = sources.name_of(source, root)
        return lambda path: gather.from_file(
            source, name, path, limit, link=link, encoding=encoding, blob_digits=digits
        ), digits
    return lambda path: gather.from_listing(listing, path, limit, encoding), listing.blob_digits


def _require_encoding(name: str) -> None:
    if not is_encoding(name):
        raise ConfigError(
            f"Python has no encoding {name[:80]!r}",
            where="context.encoding",
            hint=f"take {AUTO}, {BYTES}, or a name such as utf-16, latin-1, shift_jis",
        )


def _require_possible(layout: ChunkLayout) -> None:
    flaw = layout.flaw()
    if flaw is not None:
        raise ConfigError(
            flaw,
            where="RLM_CHUNK_TARGET_BYTES, RLM_CHUNK_OVERLAP_BYTES",
            hint="chunks have at least one byte and overlap by less; 65536 and 4096 fit most texts",
        )


def _require_bytes(size: int, omitted: Mapping[str, int]) -> None:
    if size:
        return
    left_out = ", ".join(f"{number:,} {printable(why)}" for why, number in omitted.items())
    raise EmptyError(
        "the context is empty" + (f"; left out: {left_out}" if left_out else ""),
        where="source",
        hint="name a text that is not empty",
    )


def _hashed(
    path: str, gathered: Gathered, cut: ChunkLayout, blob_digits: int, created_at: str
) -> ContextIndex:
    """The index of the source at ``path``. Raises ConfigError if the source changes."""
    context_digests = None
    try:
        descriptor = files.open_regular(path, os.O_RDONLY)
        try:
            before = gather.looks(descriptor)
            layout = cut.replace(size=before[1])
            _require_possible(layout)
            with suppress(digests.ShrunkError):
                context_digests = digests.digest(descriptor, layout, gathered.files, blob_digits)
            is_same = gather.looks(descriptor) == before and gathered.size == layout.size
        finally:
            os.close(descriptor)
    except OSError as error:
        raise sources.unreadable(error, path) from None
    if context_digests is None or not is_same:
        raise gather.changed(gathered.files[0].path if gathered.files else path)
    pieces = gathered.files.known_by(context_digests.blobs)
    object_id = f"sha256:{context_digests.source}"
    head = IndexHeader(object_id, created_at, layout, pieces, gathered.omitted, gathered.decoded)
    return ContextIndex(head, context_digests.chunks)


def _within(parts: Iterable[bytes]) -> Iterator[bytes]:
    """The parts of an index, up to the limit of the reader."""
    size = 0
    for part in parts:
        size += len(part)
        if size > index_reader.LIMIT:
            raise ConfigError(
                f"the index would have more than {index_reader.LIMIT:,} bytes",
                where="source",
                hint="choose larger chunks (RLM_CHUNK_TARGET_BYTES) or fewer files",
            )
        yield part


def _finish(folder: str, context_index: ContextIndex) -> None:
    """Write the files beside a source. Raises ConfigError for an index that is too large."""
    files.write(
        os.path.join(folder, index_reader.NAME),
        _within(map(str.encode, context_index.to_json())),
        0o600,
    )
    files.write(os.path.join(folder, POINTERS), _pointer_map(context_index.head).encode(), 0o600)


def _pointer_map(header: IndexHeader) -> str:
    """``pointers.md``, for people: the pointers, and where each file is."""
    layout = header.layout
    pointers = Pointers(header.object_id, layout)
    cut = f"{count(layout.count, 'chunk')} of {count(layout.target, 'byte')}"
    lines = [
        "# Context",
        "",
        f"Object `{header.object_id}`: {count(layout.size, 'byte')}, in {cut}.",
        f"A chunk repeats the last {count(layout.overlap, 'byte')} of the one before.",
        "",
    ]
    if layout.count:
        lines += [
            f"- the first chunk: `{pointers.to_chunk(0)}`",
            f"- the last chunk: `{pointers.to_chunk(layout.count - 1)}`",
            f"- bytes of one's own choice: `{pointers.to_bytes(0, min(layout.size, 100))}`",
            "",
        ]
    if header.files:
        lines += ["| file | bytes | chunks |", "|---|---|---|"]
        lines += [_row(piece, layout) for piece in header.files[:_LISTED]]
        if len(header.files) > _LISTED:
            lines += [
                "",
                f"{count(len(header.files) - _LISTED, 'more file')}: see {index_reader.NAME}.",
            ]
        lines.append("")
    return "\n".join(lines)


def _row(piece: SourceFile, layout: ChunkLayout) -> str:
    name = printable(piece.path).replace("`", "'").replace("|", "\\|")
    span = f"{piece.start}-{piece.end}"
    if piece.start == piece.end:
        return f"| `{name}` | {span} | |"
    numbers = layout.at(piece.start), layout.at(piece.end - 1)
    first, last = (chunk_id(number) for number in numbers)
    return f"| `{name}` | {span} | {first if first == last else f'{first} to {last}'} |"
