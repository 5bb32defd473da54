"""One command over a tree: the files of a folder as a sandbox shows them, and what it left there.

Whatever is run on files of a repository or of a model runs by ``ShownTree.run``: in fixes, reviews,
proofs and benchmarks.
"""

from __future__ import annotations

import os
from contextlib import suppress
from operator import attrgetter

from rlm_ci.sandbox import Mount
from rlm_ci.system import files
from rlm_ci.values import Value
from rlm_ci.workspace.snapshot import folders
from rlm_ci.workspace.trees.tree import make_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from rlm_ci.sandbox import SandboxJob
    from rlm_ci.sandbox.job import Sandbox
    from rlm_ci.system.process import StreamResult

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
