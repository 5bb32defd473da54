"""The files of a commit, or of the work tree: listed, read, written to a folder of ours, run on.

The contents are git's own, without filters and attributes, so that line numbers hold. Whatever is
run on files of a repository or of a model runs by ``ShownTree.run``: in fixes, reviews, proofs and
benchmarks. Whoever needs to know what a command has done to the files takes a ``workspace`` in the
place of such a folder.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from operator import attrgetter

from rlm_ci.git.objects import batches
from rlm_ci.sandbox import Mount
from rlm_ci.system import files
from rlm_ci.values import Value
from rlm_ci.workspace.lookalike_names import place_of_git
from rlm_ci.workspace.snapshot import PrivateGit, folders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from rlm_ci.git.repository import Repository
    from rlm_ci.sandbox import SandboxJob
    from rlm_ci.sandbox.job import Sandbox
    from rlm_ci.system.process import StreamResult


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


#: The shell's way to send standard output to a file, which is the first word.
_REDIRECTED = 'exec "$@" >"$0"'


class ShownTree(Value):
    """The files below ``folder``, which a command sees at ``root`` and starts in.

    ``tools`` are mounts of what the machine has. ``on_top`` are mounts over the tree, beside its
    own files. A command may change the files if they are ``writable``.
    """

    folder: str
    root: str
    tools: tuple[Mount, ...] = ()
    on_top: tuple[Mount, ...] = ()
    writable: bool = False

    def with_beside(self, beside: Mapping[str, str]) -> ShownTree:
        """The tree with what is ``beside`` its files: the source of each, by relative path.

        That is read-only. What has no room, and what a link would lead elsewhere, is left out:
        see ``make_room``. The folder is a real path.
        """
        on_top = list(self.on_top)
        for path, source in beside.items():
            inner = os.path.join(self.folder, path)
            is_room = os.path.lexists(inner) and os.path.realpath(inner) == inner
            if is_room and not os.path.islink(source):
                on_top.append(Mount(source, os.path.join(self.root, path)))
        return self.replace(on_top=tuple(on_top))

    def mounts(self) -> tuple[Mount, ...]:
        """All that a command sees, each over those before it."""
        return (*self.tools, Mount(self.folder, self.root, self.writable), *self.on_top)

    def run(
        self,
        sandbox: Sandbox,
        job: SandboxJob,
        *,
        on_output: Callable[[bytes], object] | None = None,
        stop: int = -1,
    ) -> StreamResult:
        """Run a job at the root of the tree, with its own mounts on top. Raises as the sandbox."""
        shown = job.replace(cwd=self.root, mounts=(*self.mounts(), *job.mounts))
        return sandbox.run(shown, on_output=on_output, stop=stop)

    def added(self, listed: Collection[str]) -> Iterator[str]:
        """The files and folders that no file of ``listed`` lies in, topmost ones alone."""
        within = folders(listed)
        waiting = [""]
        while waiting:
            inner = waiting.pop()
            with os.scandir(os.path.join(self.folder, inner)) as entries:
                for entry in sorted(entries, key=attrgetter("name")):
                    path = f"{inner}/{entry.name}" if inner else entry.name
                    if path in within and entry.is_dir(follow_symlinks=False):
                        waiting.append(path)
                    elif path not in listed and entry.name not in {"__pycache__", ".git"}:
                        yield path


def make_room(folder: str, beside: Mapping[str, str], *, isolated: bool = True) -> None:
    """Make what is mounted over, for a mount makes nothing in a read-only tree.

    Not ``isolated``, where nothing is mounted, it is a link to the source.
    """
    for path, source in beside.items():
        inner = os.path.join(folder, path)
        with suppress(OSError):
            if os.path.lexists(inner) or not make_folder(folder, os.path.dirname(path)):
                continue
            if not isolated:
                os.symlink(source, inner)
            elif os.path.islink(source):
                os.symlink(os.readlink(source), inner)
            elif os.path.isdir(source):
                os.mkdir(inner, 0o700)
            else:
                files.write(inner, b"", 0o600)


def redirected(argv: tuple[str, ...], path: str) -> tuple[str, ...]:
    """``argv`` with its standard output in the file ``path``: a sandbox joins both streams."""
    return ("/bin/sh", "-c", _REDIRECTED, path, *argv)
