"""What surrounds the copy in the sandbox: a ``.git`` to look at, dependencies, compilers' caches.

The copy is mounted at the repository's own place, so that absolute paths hold. The ``.git`` has
HEAD, branches, tags and objects, no remotes, credentials or anything that git would execute.

Each command has another HOME, but ``~/.cache`` stays for the run. An agent may have made up what is
in there. So the last verdict gets a copy of what the validator's first run left, such as Go's
standard library.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import time
from contextlib import suppress

from rlm_ci.sandbox import HOME, Mount
from rlm_ci.system import files
from rlm_ci.workspace.dependencies.editable_installs import own_packages
from rlm_ci.workspace.snapshot import (
    PathInspector,
    PrivateGit,
    encode,
    is_sha256,
    is_whole_repository,
    lay_out,
    object_folders,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rlm_ci.git.repository import Repository
    from rlm_ci.workspace.snapshot import Snapshot


#: An object folder may borrow from another one, and so on: git goes as far.
_DEPTH = 5
_LIMIT = 1 << 20


def make_shown_git(
    folder: str, private: PrivateGit, repository: Repository, snapshot: Snapshot, copy: str
) -> None:
    """Make ``folder`` the git folder that the agent and the validator see."""
    files.clear(folder)
    lay_out(folder, object_folders(repository), sha256=is_sha256(snapshot.commit))
    # Here the attributes of the tree count again: git shall say what the user's git would.
    os.unlink(os.path.join(folder, "info", "attributes"))
    branch = repository.head_ref()
    head = f"ref: {branch}\n" if branch else f"{snapshot.head}\n"
    refs = repository.refs("refs/heads", "refs/tags")
    packed = "".join(f"{oid} {name}\n" for name, (oid, link) in sorted(refs.items()) if not link)
    files.write(os.path.join(folder, "HEAD"), encode(head), 0o600)
    files.write(os.path.join(folder, "packed-refs"), encode(packed), 0o600)
    if repository.is_shallow():
        graft = files.read(os.path.join(repository.common_dir, "shallow"), _LIMIT)
        files.write(os.path.join(folder, "shallow"), graft, 0o600)
    shown = private.repository(folder, copy, os.path.join(folder, "index"))
    staged = repository.run("ls-files", "-z", "--full-name", "--stage")
    shown.run("update-index", "-z", "--index-info", stdin=staged)
    shown.run("update-index", "-q", "--refresh", ok=(0, 1))


def on_top(shown_git: str, repository: Repository, snapshot: Snapshot) -> tuple[Mount, ...]:
    """What is read-only on top of the copy at the repository's own place."""
    root, mounts = repository.root, []
    if repository.git_dir:
        git_dir = os.path.join(root, ".git")
        mounts.append(Mount(shown_git, git_dir))
        for objects in object_folders(repository):
            mounts += _object_mounts(objects, os.path.join(git_dir, "objects"), _DEPTH)
    for name in shared(root, snapshot):
        mounts.append(Mount(os.path.join(root, name), os.path.join(root, name)))
    return tuple(mounts)


def shared(root: str, snapshot: Snapshot) -> Iterator[str]:
    """What of the work tree is used where it is: dependencies, but for links, and submodules.

    A submodule that is empty, or has a git folder of its own, is left out.
    """
    places = PathInspector(root)
    for name in snapshot.dependencies:
        if _is_there(places, name, stat.S_ISDIR, stat.S_ISREG):
            yield name
    for path, _ in snapshot.submodules:
        is_filled = _is_there(places, path, stat.S_ISDIR) and os.listdir(os.path.join(root, path))
        if is_filled and not is_whole_repository(root, path):
            yield path


def guests(root: str, snapshot: Snapshot, *, isolated: bool) -> dict[str, str | None]:
    """What a copy has for its dependencies: a folder to mount on (None), or a link to a target."""
    targets: dict[str, str | None] = {}
    for name in snapshot.dependencies:
        path = os.path.join(root, name)
        if os.path.islink(path) and isolated:
            target = os.path.realpath(path)
            is_inside = files.below(os.path.realpath(root), target) is not None
            targets[name] = os.readlink(path) if is_inside else target
        elif not isolated:
            targets[name] = path
        elif not os.path.isfile(path):  # the sandbox makes a file to mount on by itself
            targets[name] = None
    if isolated:
        return targets
    for name in shared(root, snapshot):
        packages = own_packages(root, name)
        if packages:
            del targets[name]
        targets |= packages or {name: os.path.join(root, name)}
    return targets


def curtains(copy: str, root: str, names: tuple[str, ...], nothing: str) -> tuple[Mount, ...]:
    """Mounts of empty files and folders from ``nothing`` over ``names`` at the top of the copy.

    The copy is seen at ``root``. A link is followed as in the sandbox, but not out of the tree.
    """
    covers: dict[str, Mount] = {}
    for name in names:
        path = os.path.realpath(os.path.join(copy, name))
        tops = map(os.path.realpath, (copy, root))
        inside = next(filter(None, (files.below(top, path) for top in tops)), None)
        if inside is None or not os.path.exists(path):
            continue
        if os.path.isdir(path):
            empty = os.path.join(nothing, "folder")
            os.makedirs(empty, exist_ok=True)
        else:
            # Readers of YAML or JSON expect an object, an empty one will do.
            content = b"{}\n" if name.endswith((".yml", ".json")) else b""
            empty = os.path.join(nothing, f"file{len(content)}")
            files.write(empty, content, 0o600)
        covers[inside] = Mount(empty, os.path.join(root, inside))
    return tuple(covers.values())


def _object_mounts(folder: str, target: str, depth: int) -> Iterator[Mount]:
    yield Mount(folder, target)
    try:
        lines = files.read(os.path.join(folder, "info", "alternates"), _LIMIT).split(b"\n")
    except files.UnreadableError:
        return
    for line in lines:
        name = os.fsdecode(line)
        if not name or name.startswith(("#", '"')) or not depth:
            continue
        other = os.path.normpath(os.path.join(folder, name))
        # A git folder that somebody else has made shall not open any other folder to an agent.
        is_store = os.path.isdir(os.path.join(other, "pack")) and other.endswith("objects")
        if is_store:
            yield from _object_mounts(
                other, os.path.normpath(os.path.join(target, name)), depth - 1
            )


def _is_there(places: PathInspector, path: str, *kinds: Callable[[int], bool]) -> bool:
    """Whether one of ``kinds`` is at ``path``, behind no link: a record may lie."""
    try:
        status = places.look(path)
    except OSError:
        return False
    return status is not None and any(is_kind(status.st_mode) for is_kind in kinds)


#: Below HOME; the second is where programs of macOS look.
_PLACES = (".cache", *(("Library/Caches",) if sys.platform == "darwin" else ()))
_WORK, _FIRST, _VERDICT = "work", "first", "verdict"
#: Go keeps results of tests too, but none that is older than this file says.
_GO, _GO_EXPIRY = "go-build", "testexpire.txt"


class CompilerCaches:
    """The caches of a run, below ``folder``. Each method raises StorageError."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def mounts(self, *, last_verdict: bool) -> tuple[Mount, ...]:
        """The cache for a command; that of the last verdict is another one."""
        folder = self._path(_VERDICT if last_verdict else _WORK)
        if os.path.islink(folder) or not os.path.isdir(folder):
            _clear(folder)
            files.make_folder(folder, 0o700)
        return tuple(Mount(folder, f"{HOME}/{name}", writable=True) for name in _PLACES)

    def begin(self) -> None:
        """Forget all: the validator is about to run for the first time."""
        _clear(self._folder)

    def keep_first(self) -> None:
        """Keep what the first run has left, out of the reach of all that run later."""
        self._copy(_WORK, _FIRST)

    def renew(self) -> None:
        """Give the last verdict what the first run left, and no results of tests."""
        self._copy(_FIRST, _VERDICT)
        self.forget_results(last_verdict=True)

    def forget_results(self, *, last_verdict: bool = False) -> None:
        """Have tests run again that have passed before; what was compiled stays."""
        folder = os.path.join(self._path(_VERDICT if last_verdict else _WORK), _GO)
        if os.path.isdir(folder) and not os.path.islink(folder):
            files.write(os.path.join(folder, _GO_EXPIRY), b"%d\n" % time.time_ns())

    def _copy(self, source: str, target: str) -> None:
        _clear(self._path(target))
        # A cache that cannot be read is none; of one that is torn, tools take what is whole.
        with suppress(OSError, RecursionError):
            shutil.copytree(self._path(source), self._path(target), symlinks=True)

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)


def _clear(folder: str) -> None:
    try:
        files.clear(folder)
    except OSError as error:
        raise files.storage_error(error, folder) from None
