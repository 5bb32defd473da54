"""Context objects for tests, and a slow, obvious reference for what they should say."""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from rlm_ci.context.builder import build
from rlm_ci.text.encodings import BYTES

if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.context.context import Context

#: Texts with characters of every length, and bytes that are no text at all.
PIECES = st.one_of(
    st.sampled_from(["a", "A", "\n", "é", "漢", "😀", "needle", "NEEDLE", " "]).map(str.encode),
    st.binary(max_size=4),
)
SOURCES = st.lists(PIECES, max_size=60).map(b"".join)


@st.composite
def cuts(draw: Callable[[Any], Any]) -> tuple[int, int]:
    """Sizes of chunks and of their overlap."""
    target = draw(st.integers(1, 40))
    return target, draw(st.integers(0, target - 1))


def scratch() -> TemporaryDirectory[str]:
    """A folder for one example, in memory where it may: objects are written durably."""
    memory = "/dev/shm"
    return TemporaryDirectory(dir=memory if os.path.isdir(memory) else None)


def made(folder: Path, source: bytes, target: int = 65536, overlap: int = 4096) -> Context:
    """The object of some bytes, as they are, in a new folder below ``folder``."""
    number = len(list(folder.iterdir()))
    path = folder / f"{number}.txt"
    path.write_bytes(source)
    return build.build(
        str(path), str(folder / f"{number}.context"), target_bytes=target, overlap_bytes=overlap,
        encoding=BYTES,
    )  # fmt: skip


def names(context: Context) -> list[str]:
    """The paths of the files that a context was made of."""
    return [piece.path for piece in context.files]


def built(top: Path, out: str, source: str = "", **more: object) -> Context:
    """The object of something in ``top``, or of all of it, as the command makes it."""
    return build.build(
        os.path.join(top, source) if source else str(top), out, root=str(top), environ=os.environ,
        **more,  # type: ignore[arg-type]
    )  # fmt: skip


def nothing_left(out: str) -> bool:
    """Is there neither an object nor anything half-written beside its place?"""
    parent = Path(out).parent
    return not parent.exists() or list(parent.iterdir()) == []


def slow_chunks(size: int, target: int, overlap: int) -> list[tuple[int, int]]:
    """The next chunk begins ``overlap`` before the end of the one before, until the source ends."""
    found: list[tuple[int, int]] = []
    start = 0
    while size and (not found or found[-1][1] < size):
        found.append((start, min(start + target, size)))
        start = found[-1][1] - overlap
    return found


def slow_search(source: bytes, needle: bytes, chunks: list[tuple[int, int]]) -> list[list[int]]:
    """For each chunk the offsets of its hits, each in the earliest chunk that holds its start."""
    hits: list[list[int]] = [[] for _ in chunks]
    folded, needle = source.lower(), needle.lower()
    at = folded.find(needle)
    while at >= 0:
        first = next(n for n, (start, end) in enumerate(chunks) if start <= at < end)
        hits[first].append(at)
        at = folded.find(needle, at + len(needle))
    return hits


def change_index(folder: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Rewrite the index of an object as ``change`` leaves it."""
    path = Path(folder) / "index.json"
    record = json.loads(path.read_text())
    change(record)
    path.write_text(json.dumps(record))
