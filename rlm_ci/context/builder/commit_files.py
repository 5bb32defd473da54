"""The files of a context that is a commit: read from git's objects, never checked out."""

from __future__ import annotations

from rlm_ci.context.builder.sources import MAX_FILES
from rlm_ci.errors import ConfigError
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.git.repository import Repository

#: Bytes of a file that is read, of all of them, and of those that one git reads at once.
_FILE = 4 << 20
_ALL = 512 << 20
_AT_ONCE = 8 << 20


class CommitFiles(Value):
    """The files of ``commit``, an object id, in the ``repository``."""

    repository: Repository
    commit: str

    @property
    def blob_digits(self) -> int:
        """Hex digits of an object id in the repository."""
        return len(self.commit)

    def files(self) -> Iterator[tuple[str, bytes | str]]:
        """For each file its path, and what it holds, or in a word why it is left out.

        Raises ConfigError if there are too many, or too much in them, and what git raises.
        """
        tree = sorted(self.repository.tree(self.commit, sizes=True).items())
        size = sum(entry.size for _, entry in tree if _is_read(entry))
        if len(tree) > MAX_FILES or size > _ALL:
            raise ConfigError(
                f"the commit has {count(len(tree), 'file')} of {count(size, 'byte')}, more than "
                f"{MAX_FILES:,} or {_ALL:,}",
                where=self.commit[:12],
                hint="ask on your machine, with --context and a folder of it",
            )
        batch: list[tuple[str, TreeEntry]] = []
        batch_size = 0
        for path, entry in tree:
            if not _is_read(entry):
                yield path, _reason(entry)
                continue
            batch.append((path, entry))
            batch_size += entry.size
            if batch_size >= _AT_ONCE:
                yield from self._read(batch)
                batch, batch_size = [], 0
        yield from self._read(batch)

    def _read(self, batch: Sequence[tuple[str, TreeEntry]]) -> Iterator[tuple[str, bytes | str]]:
        if not batch:
            return
        contents = self.repository.read(*(entry.oid for _, entry in batch))
        for (path, _), data in zip(batch, contents, strict=True):
            yield path, "missing" if data is None else data


def _is_read(entry: TreeEntry) -> bool:
    return entry.is_file and entry.size <= _FILE


def _reason(entry: TreeEntry) -> str:
    if entry.is_file:
        return "large"
    return "link" if entry.mode == "120000" else "submodule"
