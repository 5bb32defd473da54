"""Hashes of a source: of the whole, of each chunk, of each file in it.

Two threads share the work, each with one buffer: memory does not grow with the source. The hash of
the whole is serial and bounds the time.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from functools import partial
from hashlib import sha1, sha256

from rlm_ci.context.builder.file_table import BlobIds
from rlm_ci.context.search.occurrences import hasher
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from rlm_ci.context.builder.file_table import Pieces
    from rlm_ci.context.pointers import ChunkLayout

#: Files above this have no blob id: evidence does not open them.
BLOB_LIMIT = 64 << 20
_BUFFER = 256 << 10
#: Bytes of the source that one job hashes.
_JOB = 32 << 20
#: Chunks that are hashed side by side, bytes that they have at least, and all of them at most.
_ABREAST = 16
_SMALL = 4 << 10
_LARGE = 2 << 20
#: Hex digits of a blob id, and what makes it: git knows two formats of objects.
_BLOB_HASHES = {40: sha1, 64: sha256}


def blob_hash(digits: int, size: int) -> Any:
    """The beginning of the hash of a blob of git with ``size`` bytes."""
    return _BLOB_HASHES[digits](b"blob %d\0" % size, usedforsecurity=False)


class ContextDigests(Value):
    """SHA-256 of the whole in hex; of each chunk, 32 bytes after the other; each file's blob."""

    source: str
    chunks: bytes
    blobs: BlobIds


class ShrunkError(Exception):
    """The source ended before it should have."""


def digest(
    descriptor: int, layout: ChunkLayout, pieces: Pieces, blob_digits: int = 40
) -> ContextDigests:
    """Hash ``layout.size`` bytes of ``descriptor``; blob ids have 40 digits (SHA-1) or 64.

    Raises OSError, and ShrunkError for a source that is shorter.
    """
    return _Work(descriptor, layout, pieces, blob_digits).carry_out()


class _Work:
    def __init__(
        self, descriptor: int, layout: ChunkLayout, pieces: Pieces, blob_digits: int
    ) -> None:
        self._descriptor = descriptor
        self._layout = layout
        self._pieces = pieces
        self._digits = blob_digits
        self._whole = sha256()
        self._chunks = bytearray(32 * layout.count)
        self._blobs = BlobIds(len(pieces))
        self._stopped = False
        self._error: BaseException | None = None
        # The hash of the whole cannot be divided: it is begun first.
        self._jobs: deque[Callable[[bytearray], None]] = deque([self._hash_whole])
        hashed = hasher() if layout.target >= _SMALL and self._abreast <= _LARGE else None
        job = self._chunk_job if hashed is None else partial(self._abreast_job, hashed)
        each = max(1, _JOB // layout.target)
        for first in range(0, layout.count, each):
            self._jobs.append(job(range(first, min(first + each, layout.count))))
        self._jobs.extend(self._blob_jobs())

    @property
    def _abreast(self) -> int:
        """Bytes of as many chunks as are hashed side by side."""
        return _ABREAST * self._layout.step + self._layout.overlap

    def carry_out(self) -> ContextDigests:
        other = threading.Thread(target=self._work, daemon=True)
        other.start()
        try:
            self._work()
            other.join()
        except BaseException:  # interrupted while waiting: the descriptor is about to be closed
            self._stopped = True
            other.join()
            raise
        if self._error is not None:
            raise self._error
        return ContextDigests(self._whole.hexdigest(), bytes(self._chunks), self._blobs)

    def _work(self) -> None:
        buffer = bytearray(_BUFFER)
        try:
            while self._jobs and not self._stopped:
                try:
                    job = self._jobs.popleft()
                except IndexError:  # the other took the last one meanwhile
                    return
                job(buffer)
        except BaseException as error:  # noqa: BLE001 - raised by the thread that waits
            self._stopped = True
            self._error = error

    def _feed(
        self, update: Callable[[memoryview], None], start: int, end: int, buffer: bytearray
    ) -> None:
        view = memoryview(buffer)
        while start < end and not self._stopped:
            room = view[: end - start]
            read = os.preadv(self._descriptor, [room], start)
            if not read:
                raise ShrunkError
            update(room[:read])
            start += read

    def _hash_whole(self, buffer: bytearray) -> None:
        self._feed(self._whole.update, 0, self._layout.size, buffer)

    def _chunk_job(self, chunks: range) -> Callable[[bytearray], None]:
        def job(buffer: bytearray) -> None:
            for index in chunks:
                hasher = sha256()
                self._feed(hasher.update, *self._layout.bounds(index), buffer)
                self._chunks[32 * index : 32 * index + 32] = hasher.digest()

        return job

    def _abreast_job(
        self, hashed: Callable[[Sequence[memoryview]], bytes], chunks: range
    ) -> Callable[[bytearray], None]:
        def job(_buffer: bytearray) -> None:
            room = memoryview(bytearray(self._abreast))
            for first in range(chunks.start, chunks.stop, _ABREAST):
                if self._stopped:
                    return
                last = min(first + _ABREAST, chunks.stop)
                spans = [self._layout.bounds(index) for index in range(first, last)]
                begin, end = spans[0][0], spans[-1][1]
                self._fill(room[: end - begin], begin)
                texts = [room[low - begin : high - begin] for low, high in spans]
                self._chunks[32 * first : 32 * last] = hashed(texts)

        return job

    def _fill(self, room: memoryview, start: int) -> None:
        while room:
            read = os.preadv(self._descriptor, [room], start)
            if not read:
                raise ShrunkError
            room, start = room[read:], start + read

    def _blob_jobs(self) -> list[Callable[[bytearray], None]]:
        jobs, first, size = [], 0, 0
        for index in range(len(self._pieces)):
            size += self._pieces.ends[index] - self._pieces.starts[index]
            if size >= _JOB:
                jobs.append(self._blob_job(range(first, index + 1)))
                first, size = index + 1, 0
        return [*jobs, self._blob_job(range(first, len(self._pieces)))]

    def _blob_job(self, indices: range) -> Callable[[bytearray], None]:
        def job(buffer: bytearray) -> None:
            for index in indices:
                start, end = self._pieces.starts[index], self._pieces.ends[index]
                if index in self._pieces.read_as:  # the blob is that of other bytes
                    self._blobs[index] = bytes.fromhex(self._pieces.blobs[index] or "")
                    continue
                if end - start > BLOB_LIMIT:
                    continue
                hasher = blob_hash(self._digits, end - start)
                self._feed(hasher.update, start, end, buffer)
                self._blobs[index] = hasher.digest()

        return job
