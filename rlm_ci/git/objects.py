"""What git prints of its objects: trees, the index, contents. Paths carry surrogateescape."""

from __future__ import annotations

from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeVar

    Item = TypeVar("Item")


class TreeEntry(Row):
    """One entry of a tree: git's ``mode`` (``100644``), and ``size`` in bytes, -1 if unknown.

    ``kind`` is that of the object, or ``conflict`` for one side of an unmerged path.
    """

    mode: str
    kind: str
    oid: str
    size: int = -1

    @property
    def is_file(self) -> bool:
        """A regular file: neither link nor submodule nor folder."""
        return self.mode in ("100644", "100755", "100664")


def parse_tree(rows: bytes) -> dict[str, TreeEntry]:
    """The files of a tree that ``ls-tree -z`` lists, by path."""
    entries = {}
    for row in rows.decode("utf-8", "surrogateescape").split("\0"):
        head, _, path = row.partition("\t")
        if head:
            mode, kind, oid, *sizes = head.split()
            # Of a submodule there is no size, and none of an object that the clone lacks.
            size = int(sizes[0]) if sizes and sizes[0].isdigit() else -1
            entries[path] = TreeEntry.of((mode, kind, oid, size))
    return entries


def batches(
    sized: Iterable[tuple[Item, int]], room: int, limit: int = 1 << 30
) -> Iterator[list[Item]]:
    """What is given with its sizes, in lists of at most ``room`` in sum and ``limit`` items."""
    batch: list[Item] = []
    left = room
    for item, size in sized:
        if batch and (size > left or len(batch) == limit):
            yield batch
            batch, left = [], room
        batch.append(item)
        left -= size
    if batch:
        yield batch


def parse_contents(output: bytes, count: int) -> list[bytes | None]:
    """The ``count`` blobs that ``cat-file --batch`` printed; None for what is none."""
    contents: list[bytes | None] = []
    position = 0
    for _ in range(count):
        end = output.index(b"\n", position)
        words = output[position:end].rsplit(b" ", 2)
        position = end + 1
        if not words[-1].isdigit():
            contents.append(None)
            continue
        size = int(words[2])
        is_blob = words[1] == b"blob"
        contents.append(output[position : position + size] if is_blob else None)
        position += size + 1
    return contents


def parse_index(rows: bytes) -> dict[str, TreeEntry]:
    """The files that ``ls-files --stage -z`` lists, by path."""
    entries = {}
    for row in rows.decode("utf-8", "surrogateescape").split("\0"):
        if row:
            mode, oid, stage_and_path = row.split(" ", 2)
            stage, _, path = stage_and_path.partition("\t")
            kind = "blob" if stage == "0" else "conflict"
            entries[path] = TreeEntry.of((mode, kind, oid, -1))
    return entries


def parse_refs(rows: bytes) -> dict[str, tuple[str, str]]:
    """Object id and symbolic target (or "") of each ref that ``Repository.start_refs`` lists."""
    refs = {}
    for row in rows.decode("utf-8", "surrogateescape").split("\n"):
        if row:
            name, oid, target = row.split("\0")
            refs[name] = (oid, target)
    return refs


def parse_closed(warned: bytes) -> list[str]:
    """The folders, each with a slash behind it, that git could not open and has passed over."""
    rows = warned.decode("utf-8", "surrogateescape").split("\n")
    parts = [row.partition("warning: could not open directory '") for row in rows]
    return [tail.rpartition("':")[0] for before, _, tail in parts if tail and not before]


def parse_rows(raw: bytes) -> dict[str, str]:
    """The rows of ``git diff --raw --no-renames -z``, by path."""
    fields = raw.decode("utf-8", "surrogateescape").split("\0")
    return dict(zip(fields[1::2], fields[::2], strict=False))


def blobs_of(row: str) -> tuple[str, str]:
    """The object ids of both sides of such a row; "" for what is no regular file, or not stored."""
    old_mode, new_mode, old, new, _ = row[1:].split(" ")
    return _blob(old_mode, old), _blob(new_mode, new)


def _blob(mode: str, oid: str) -> str:
    return oid if mode.startswith("100") and oid.strip("0") else ""


def is_branch(name: str) -> bool:
    """Whether git takes ``name`` for that of a branch."""
    parts = name.split("/")
    return (
        bool(name)
        and name.isprintable()
        and not set(name) & set(" ~^:?*[\\")
        and ".." not in name
        and not name.startswith("-")
        and all(part and part[0] != "." and not part.endswith((".", ".lock")) for part in parts)
    )
