"""Read tracked files, also those that git leaves out of the work tree.

A sparse checkout and the bits ``skip-worktree`` and ``assume-unchanged`` leave files out, which
count as unchanged. Other missing files are deleted.
"""

from __future__ import annotations

from rlm_ci.errors import ConfigError
from rlm_ci.git.objects import parse_index
from rlm_ci.system import files
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.git.repository import Repository

#: For more paths than this, git lists the whole index.
_FEW = 100
#: The versions of an index with plain paths; the fourth compresses them.
_PLAIN_VERSIONS = (b"DIRC\0\0\0\2", b"DIRC\0\0\0\3")
#: The extension by which an index is split into two files.
_SPLIT = b"\0link\0"


def read(repository: Repository, path: str, limit: int) -> bytes:
    """The content of a file of at most ``limit`` bytes, as ``files.read_inside`` reads it.

    Raises UnreadableError, and ConfigError where a partial clone lacks the content.
    """
    try:
        return files.read_inside(repository.root, path, limit)
    except files.UnreadableError as error:
        entry = left_out(repository, (path,)).get(path) if error.missing else None
        if entry is None:
            raise
    if not entry.is_file:
        raise files.UnreadableError("it is a link, not a regular file")
    try:
        size = repository.sizes([entry.oid])[0]
        content = repository.read(entry.oid)[0] if size <= limit else None
    except ConfigError:  # git would have to fetch it
        size, content = -1, None
    if size > limit:
        raise files.UnreadableError(f"it has {size:,} bytes, more than {limit:,}")
    if content is None:
        from shlex import quote

        raise ConfigError(
            "this partial clone does not have a file that its sparse checkout leaves out",
            where=printable(path),
            hint=f"fetch it: git cat-file -p {quote(':' + printable(path))}",
        )
    return content


def left_out(repository: Repository, paths: Collection[str]) -> dict[str, TreeEntry]:
    """What git tracks at and below ``paths``, which are missing in the work tree."""
    if repository.git_dir is None or not paths or not _may_hold(repository, paths):
        return {}
    within = ("--", *paths) if len(paths) <= _FEW else ()
    listed = repository.run("ls-files", "-v", "--stage", "-z", "--full-name", *within)
    # Each row begins with a sign: S for skip-worktree, a small letter for assume-unchanged.
    rows = [row[2:] for row in listed.split(b"\0") if row[:1] == b"S" or row[:1].islower()]
    entries = parse_index(b"\0".join(rows))
    if within:
        return entries
    path_set = frozenset(paths)
    return {path: entry for path, entry in entries.items() if path in path_set}


def _may_hold(repository: Repository, paths: Collection[str]) -> bool:
    """Whether the index may hold one of ``paths``, by its bytes, without a process."""
    if len(paths) > _FEW:
        return True
    try:
        with open(repository.index_file, "rb") as stream:
            index = stream.read()
    except FileNotFoundError:  # nothing is tracked yet
        return False
    except OSError:
        return True
    if not index.startswith(_PLAIN_VERSIONS) or _SPLIT in index:
        return True
    return any(name in index for path in paths for name in _names(path))


def _names(path: str) -> Iterator[bytes]:
    """A path in the bytes of an index: a file, files below it, or a folder left out whole."""
    name = path.encode("utf-8", "surrogateescape")
    yield name + b"\0"
    yield name + b"/"
    while name := name.rpartition(b"/")[0]:
        yield name + b"/\0"
