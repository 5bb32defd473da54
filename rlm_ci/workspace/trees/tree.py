"""The files of a commit, or of the work tree: listed, read, and written to a folder of ours.

The contents are git's own, without filters and attributes, so that line numbers hold. Whoever needs
to know what a command has done to the files takes a ``workspace`` in the place of such a folder.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress

from rlm_ci.git.objects import batches
from rlm_ci.system import files
from rlm_ci.values import Value
from rlm_ci.workspace.lookalike_names import place_of_git
from rlm_ci.workspace.private_git import PrivateGit

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from rlm_ci.git.repository import Repository

#: Bytes of a file that is taken, and of those that are read at once.
_LARGEST = 16 << 20
_BATCH = 32 << 20
LINK, _SCRIPT = "120000", "100755"
#: Why a file system takes no file of a name: it cannot hold it, or takes two names for one.
_NO_NAME = (
    errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.EILSEQ, errno.EINVAL,
)  # fmt: skip


class Tree(Value):
    """The files of a commit, or of the work tree where ``commit`` is None; modes by path."""

    repository: Repository
    commit: str | None
    modes: Mapping[str, str]

    @classmethod
    def at(cls, repository: Repository, commit: str | None) -> Tree:
        """List one. The ``repository`` is one of git."""
        if commit is not None:
            entries = repository.tree(commit)
            modes = {path: entry.mode for path, entry in entries.items() if entry.kind == "blob"}
            return cls(repository, commit, modes)
        with repository.start_listing() as listing:
            listed = os.fsdecode(listing.finish()).split("\0")
        return cls(repository, None, dict.fromkeys(filter(None, listed), "100644"))

    def only(self, is_taken: Callable[[str], bool]) -> Tree:
        """The same with the paths alone that ``is_taken`` is true of."""
        modes = {path: mode for path, mode in self.modes.items() if is_taken(path)}
        return self.replace(modes=modes)

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The contents of those that are there, and not too large."""
        listed = (path for path in paths if path in self.modes)
        read = contents(self.repository, self.commit, listed)
        return {path: content for batch in read for path, content in batch.items()}


def contents(
    repository: Repository, commit: str | None, paths: Iterable[str], largest: int = _LARGEST
) -> Iterator[dict[str, bytes]]:
    """Batches of files of at most ``largest`` bytes each, at a commit or in the work tree."""
    if commit is None:
        for path in paths:
            with suppress(files.UnreadableError):
                yield {path: files.read_inside(repository.root, path, largest)}
        return

    specs = [f"{commit}:{path}" for path in paths if "\n" not in path]
    sizes = zip(specs, repository.sizes(specs) if specs else (), strict=True)
    for batch in batches(((spec, size) for spec, size in sizes if 0 <= size <= largest), _BATCH):
        pairs = zip(batch, repository.read(*batch), strict=True)
        yield {spec.partition(":")[2]: data for spec, data in pairs if data is not None}


def lay(folder: str, *layers: Tree) -> None:
    """Write trees below ``folder``, a new one: of two files at a path the first holds.

    Only the last layer has its links. They come when all files are there, so that nothing is
    written through one. ``folder`` is a real path. Raises StorageError.
    """
    links: dict[str, bytes] = {}
    for layer in layers:
        has_links = layer is layers[-1]
        paths = (
            path
            for path, mode in layer.modes.items()
            if _is_safe(path) and (has_links or mode != LINK)
        )
        for batch in contents(layer.repository, layer.commit, paths):
            for path, content in batch.items():
                if layer.modes[path] == LINK:
                    links[path] = content
                else:
                    is_script = layer.modes[path] == _SCRIPT
                    write_new(os.path.join(folder, path), content, executable=is_script)
    for path, target in links.items():
        with suppress(OSError, ValueError):
            if make_folder(folder, os.path.dirname(path)):
                os.symlink(os.fsdecode(target), os.path.join(folder, path))


def make_folder(folder: str, path: str) -> bool:
    """Make ``path`` below ``folder``; False where a link of the tree would lead it elsewhere."""
    inner = os.path.join(folder, path) if path else folder
    if os.path.realpath(inner) != inner:
        return False
    os.makedirs(inner, 0o700, exist_ok=True)
    return True


def write_new(path: str, content: bytes, *, executable: bool = False) -> bool:
    """Write a new file; False if its path is taken, or no file can have it. Raises StorageError."""
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        with open(path, "xb") as file:
            file.write(content)
        if executable:
            os.chmod(path, 0o700)
    except OSError as error:
        if error.errno not in _NO_NAME:
            raise files.storage_error(error, path) from None
        return False
    return True


def apply_patch(patch: bytes, folder: str, environ: Mapping[str, str]) -> None:
    """Apply a patch to the files below ``folder``. Raises what git refuses."""
    with files.scratch("rlm-ci-") as scratch:
        git = PrivateGit(scratch, environ)
        git.make(())
        git.read(folder, "index", "apply", "--whitespace=nowarn", "-", stdin=patch)


def _is_safe(path: str) -> bool:
    return {"", ".", ".."}.isdisjoint(path.split("/")) and place_of_git(path) is None
