"""What git prints of its objects: trees, the index, contents. Paths carry surrogateescape."""

from __future__ import annotations

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container


class Entry(Value):
    """One entry of a tree: ``mode`` as git writes it (``100644``), ``oid`` of the object."""

    mode: str
    kind: str
    oid: str

    @property
    def is_file(self) -> bool:
        """A regular file: neither link nor submodule nor folder."""
        return self.mode in ("100644", "100755", "100664")


def parse_tree(rows: bytes, only: Container[str] | None = None) -> dict[str, Entry]:
    """The files of a listed tree by path, of these paths ``only`` if they are given."""
    entries = {}
    for row in rows.split(b"\0"):
        head, _, name = row.partition(b"\t")
        path = name.decode("utf-8", "surrogateescape")
        if head and (only is None or path in only):
            entries[path] = Entry(*head.decode().split(" "))
    return entries


def parse_contents(whole: bytes, count: int) -> list[bytes | None]:
    """The ``count`` blobs that ``cat-file --batch`` printed; None for what is none."""
    contents: list[bytes | None] = []
    position = 0
    for _ in range(count):
        end = whole.index(b"\n", position)
        words = whole[position:end].rsplit(b" ", 2)
        position = end + 1
        if not words[-1].isdigit():
            contents.append(None)
            continue
        size = int(words[2])
        is_blob = words[1] == b"blob"
        contents.append(whole[position : position + size] if is_blob else None)
        position += size + 1
    return contents


def parse_index(rows: bytes) -> dict[str, Entry]:
    """The files that ``ls-files --stage -z`` lists, by path."""
    entries = {}
    for row in rows.split(b"\0"):
        if row:
            head, _, path = row.partition(b"\t")
            mode, oid, _stage = head.decode().split(" ")
            entries[path.decode("utf-8", "surrogateescape")] = Entry(mode, "blob", oid)
    return entries
