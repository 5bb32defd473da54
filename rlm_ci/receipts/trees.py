"""The trees that a receipt may name: those of a change's commits, without the receipts in them.

A receipt cannot name the tree that holds it. Without ``.delegation/``, a commit that only adds a
receipt has the tree of the commit before, also after both were made one.
"""

from __future__ import annotations

import hashlib

from rlm_ci.git.objects import batches
from rlm_ci.receipts.receipt import FOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.repository import Repository

#: Of a longer change, the newest commits.
MOST_COMMITS = 1000
#: Bytes of one top level, and of those that are read at once.
_LARGEST = 1 << 20
_AT_ONCE = 32 << 20


def own_commits(changes: ChangeSet) -> list[str]:
    """The commits that the change brings, the newest first."""
    if changes.head is None:
        return []
    bases = [f"^{oid}" for oid in dict.fromkeys((changes.base, changes.merge_base)) if oid]
    limit = f"--max-count={MOST_COMMITS}"
    return changes.repository.run("rev-list", limit, changes.head, *bases).decode().split()


def bare_trees(repository: Repository, commits: Sequence[str]) -> dict[str, str]:
    """The tree of each commit, without receipts; none for a top level of too many files."""
    specs = [f"{commit}^{{tree}}" for commit in commits]
    sizes = repository.sizes(specs)
    sized = [
        ((commit, spec), size)
        for commit, spec, size in zip(commits, specs, sizes, strict=True)
        if 0 <= size <= _LARGEST
    ]
    trees = {}
    for batch in batches(sized, _AT_ONCE):
        queries = "".join(f"{spec}\n" for _, spec in batch).encode()
        output = repository.run("cat-file", "--batch", "--buffer", stdin=queries)
        position = 0
        for commit, _ in batch:
            end = output.index(b"\n", position)
            size = int(output[position:end].rsplit(b" ", 1)[1])
            content = output[end + 1 : end + 1 + size]
            position = end + size + 2
            trees[commit] = _without_receipts(content, len(commit))
    return trees


def _without_receipts(content: bytes, digits: int) -> str:
    """The object id of a tree without its entry ``.delegation``."""
    entries = b"".join(
        entry
        for entry in _entries(content, digits // 2)
        if not entry.partition(b" ")[2].startswith(f"{FOLDER}\0".encode())
    )
    return object_id("tree", entries, digits)


def object_id(kind: str, content: bytes, digits: int) -> str:
    """The id that git gives to an object, in the hash with as many ``digits``."""
    make = hashlib.sha256 if digits == 64 else hashlib.sha1
    head = f"{kind} {len(content)}\0".encode()
    return make(head + content, usedforsecurity=False).hexdigest()


def _entries(content: bytes, length: int) -> Iterator[bytes]:
    """The entries of a tree object: mode, space, name, NUL and ``length`` bytes of an id."""
    start = 0
    while start < len(content):
        end = content.index(b"\0", start) + 1 + length
        yield content[start:end]
        start = end
