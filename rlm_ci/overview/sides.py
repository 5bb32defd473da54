"""The two sides of a change, read within limits: all of it comes from outside."""

from __future__ import annotations

from rlm_ci.git.objects import batches
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.objects import TreeEntry

#: Bytes of a file that is read, and of all files of one side.
MAX_BYTES = 1 << 20
MAX_TOTAL = 24 << 20
#: Bytes that one git reads at once.
_ROOM = 8 << 20


class ChangeSides:
    """The trees at the merge base and at the head, and what of them is not read.

    ``change`` must be between two commits.
    """

    def __init__(self, change: ChangeSet) -> None:
        if change.merge_base is None or change.head is None or change.worktree:
            raise ValueError(f"a change of the {change.trigger} has no two trees")
        self.change = change
        self._repository = change.repository
        self.files = change.files()
        self.old_tree = self._tree(change.merge_base)
        self.new_tree = self._tree(change.head)
        self._known: dict[str, bytes] = {}
        self._left = {True: MAX_TOTAL, False: MAX_TOTAL}
        self.limits: dict[str, None] = {}

    def _tree(self, commit: str) -> Mapping[str, TreeEntry]:
        return {
            path: entry
            for path, entry in self._repository.tree(commit, sizes=True).items()
            if entry.is_file
        }

    def load(self, paths: Iterable[str], *, old: bool, limit: int = MAX_BYTES) -> None:
        """Read files of a side at once; what is too large is told in ``limits``."""
        tree = self.old_tree if old else self.new_tree
        sizes: dict[str, int] = {}
        for path in paths:
            entry = tree.get(path)
            if entry is None or entry.oid in self._known or entry.oid in sizes:
                continue
            if entry.size > limit:
                self.limit(f"{path} has {_size(entry.size)} (limit {_size(limit)})")
            elif entry.size <= self._left[old]:
                self._left[old] -= entry.size
                sizes[entry.oid] = entry.size
            else:
                self.limit(f"some files: {_size(MAX_TOTAL)} were read before them")
        for oids in batches(sizes.items(), _ROOM):
            blobs = self._repository.read(*oids)
            self._known.update((oid, data) for oid, data in zip(oids, blobs, strict=True) if data)

    def read(self, path: str, *, old: bool) -> bytes | None:
        """A file of a side, which ``load`` has read; else None."""
        entry = (self.old_tree if old else self.new_tree).get(path)
        return None if entry is None else self._known.get(entry.oid)

    def fetch(self, path: str, *, old: bool, limit: int = MAX_BYTES) -> bytes | None:
        """``load`` and ``read``."""
        self.load([path], old=old, limit=limit)
        return self.read(path, old=old)

    def size(self, path: str, *, old: bool) -> int:
        """The bytes of a file of a side, 0 where there is none."""
        entry = (self.old_tree if old else self.new_tree).get(path)
        return 0 if entry is None else max(0, entry.size)

    def search(self, words: Sequence[str]) -> list[str]:
        """The files of the base that have one of ``words`` as a whole word, in order."""
        commit = self.change.merge_base or ""
        texts = [word.encode("utf-8", "replace") for word in words if word and "\n" not in word]
        if not texts:
            return []
        with self._repository.start_search(texts, commit, (), "-w") as pending:
            rows = pending.finish().decode("utf-8", "surrogateescape").split("\0")
        return [row.removeprefix(f"{commit}:") for row in rows if row]

    def diff(self, options: Sequence[str], within: Sequence[str]) -> bytes:
        """``git diff`` of both sides, in the pathspecs ``within``."""
        sides = self.change.merge_base or "", self.change.head or ""
        with self._repository.start_diff(*sides, *options, within=within) as pending:
            return pending.finish()

    def limit(self, text: str) -> None:
        """Note what is not read, and why."""
        if len(self.limits) < 20:
            self.limits[printable(text)[:300]] = None


def _size(number: int) -> str:
    if number >= 1 << 20:
        return f"{number / (1 << 20):,.0f} MB"
    return f"{number / (1 << 10):,.0f} KB" if number >= 1 << 10 else count(number, "byte")
