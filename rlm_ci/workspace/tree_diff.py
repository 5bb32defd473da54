"""What differs between two trees: paths, objects, and contents that are not too large."""

from __future__ import annotations

from rlm_ci.errors import LimitError
from rlm_ci.git.objects import TreeEntry
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Protocol

    class Store(Protocol):
        """Where the objects of a tree are."""

        def contents(self, oids: Iterable[str]) -> list[bytes | None]: ...
        def sizes(self, oids: Iterable[str]) -> Mapping[str, int]: ...


LINK, SUBMODULE = "120000", "160000"
#: A file of source is smaller; a larger one is not read at all.
LIMIT = 2 << 20
#: Bytes that are read at once.
_BATCH = 32 << 20
#: More unread files are no fix any more.
_MOST_LARGE = 100


class ChangedFile(Value):
    """A path that differs, with the contents on both sides, which are not read where ``large``."""

    path: str
    old: TreeEntry | None
    new: TreeEntry | None
    before: bytes = b""
    after: bytes = b""
    large: tuple[bool, bool] = (False, False)


def changes(
    base: Mapping[str, TreeEntry], now: Mapping[str, TreeEntry], store: Store
) -> Iterator[ChangedFile]:
    """What differs from the files of ``base`` to those of ``now``, by path."""
    sides = differing(base, now)
    sizes = _sizes(sides, store)
    for batch in _batches(sides, sizes):
        wanted = sorted(
            {
                side.oid
                for path in batch
                for side in sides[path]
                if side and sizes.get(side.oid, LIMIT + 1) <= LIMIT
            }
        )
        contents = dict(zip(wanted, store.contents(wanted), strict=True))
        for path in batch:
            old, new = sides[path]
            yield ChangedFile(
                path,
                old,
                new,
                (contents.get(old.oid) or b"") if old else b"",
                (contents.get(new.oid) or b"") if new else b"",
                (_is_large(old, sizes), _is_large(new, sizes)),
            )


def large(
    base: Mapping[str, TreeEntry], now: Mapping[str, TreeEntry], store: Store
) -> tuple[str, ...]:
    """The files new in ``now`` that are too large to be read. Raises LimitError for too many."""
    sides = differing(base, now)
    sizes = _sizes(sides, store)
    found = tuple(path for path, (_, new) in sides.items() if _is_large(new, sizes))
    if len(found) > _MOST_LARGE:
        raise LimitError(
            f"the agent made {len(found):,} files of more than {LIMIT >> 20} MiB,"
            f" {printable(found[0][:200])} among them",
            budget="workspace",
            hint="have what it makes ignored by .gitignore",
        )
    return found


Sides = dict[str, tuple[TreeEntry | None, TreeEntry | None]]


def differing(base: Mapping[str, TreeEntry], now: Mapping[str, TreeEntry]) -> Sides:
    """What differs from the files of ``base`` to those of ``now``: both entries, by path."""
    paths = sorted(path for path in base.keys() | now.keys() if base.get(path) != now.get(path))
    return {path: (base.get(path), now.get(path)) for path in paths}


def _sizes(sides: Sides, store: Store) -> Mapping[str, int]:
    blobs = {
        entry.oid for pair in sides.values() for entry in pair if entry and entry.mode != SUBMODULE
    }
    return store.sizes(sorted(blobs))


def _is_large(entry: TreeEntry | None, sizes: Mapping[str, int]) -> bool:
    return entry is not None and sizes.get(entry.oid, 0) > LIMIT


def _batches(sides: Sides, sizes: Mapping[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    total = 0
    for path, pair in sides.items():
        size = sum(min(sizes.get(entry.oid, 0), LIMIT) for entry in pair if entry)
        if batch and total + size > _BATCH:
            yield batch
            batch, total = [], 0
        batch.append(path)
        total += size
    if batch:
        yield batch
