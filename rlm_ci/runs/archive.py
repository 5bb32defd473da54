"""A run as a reproducible tar.gz."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import stat
import tarfile
import zlib
from contextlib import suppress

from rlm_ci.errors import ConfigError
from rlm_ci.runs import delegated
from rlm_ci.system import files
from rlm_ci.system.lock import NAME as LOCK
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import IO

#: Bytes of all files of a run that is exported.
_LARGEST = 2 << 30
#: The last member: a line for each of the others, as ``sha256sum --check`` reads it.
SUMS = "SHA256SUMS"
#: Copies of the work tree that lie beside the private git folder of a run.
_COPIES = ("work", "verdict")
#: What of a private git folder makes the trees of a run, and no configuration: what the first one
#: ignores, which one is the result, and their objects.
_OF_TREES = re.compile(
    r"excludes|result|objects/objects/(?:[0-9a-f]{2}/[0-9a-f]{38,62}|pack/[^/]+)"
)
#: Bytes of these files in an export, and of one object: all are looked through for secrets.
_TREES, _UNPACKED = 4 << 20, 16 << 20
#: The locks, and a secret of the run.
_LEFT_OUT = (LOCK, delegated.LOCK, delegated.TOKEN)


class ExportedRun(Value):
    """What was written: number and bytes of the files of the run, sha256 of the archive.

    ``objects`` are those among them that make the trees of a fix; ``lacking`` says why there are
    none where the run has some.
    """

    files: int
    size: int
    sha256: str
    objects: int = 0
    lacking: str = ""

    @property
    def note(self) -> str:
        """What ``verify`` can do with the archive, "" where there is nothing to say."""
        if self.lacking:
            return f"without its git objects ({self.lacking}): verify cannot make its report again"
        return f"with {count(self.objects, 'git object')}, for verify" if self.objects else ""


def export(folder: str, run_id: str, target: str, clean: Callable[[str], str]) -> ExportedRun:
    """Write the run in ``folder`` to the archive ``target``, as ``files.write`` does.

    Links, copies of the work tree and git folders stay out, but for the objects of a fix, with
    which its report can be made again: these stay out if they have more than 4 MiB, or a secret
    that ``clean`` would mask. A run in progress is exported as it is now. Raises StorageError,
    ConfigError for one of more than 2 GiB.
    """
    is_channel = files.is_channel(target)
    try:
        with open(target, "wb") if is_channel else files.replacing(target, 0o600) as stream:
            return write(stream, folder, run_id, clean)
    except OSError as error:
        raise files.storage_error(error, target) from None


def write(stream: IO[bytes], folder: str, run_id: str, clean: Callable[[str], str]) -> ExportedRun:
    """As ``export``, to an open file or a pipe. Raises OSError, ConfigError."""
    inside = list(names(folder))
    of_trees, lacking = _objects(folder, frozenset(inside), clean)
    inside = sorted((*inside, *of_trees), key=lambda name: name.split("/"))
    _require_size(folder, inside)
    sums = []
    size = 0
    hashed = _HashedOutput(stream)
    # No time and no name in the gzip header, so that equal runs give equal archives.
    with (
        gzip.GzipFile("", "wb", 6, hashed, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in inside:
            try:
                descriptor = files.open_regular(os.path.join(folder, name), os.O_RDONLY)
            except OSError:  # a link, or gone meanwhile
                continue
            with os.fdopen(descriptor, "rb") as source:
                # A run in progress may append meanwhile.
                length = os.fstat(descriptor).st_size
                read = _HashedInput(source, length)
                archive.addfile(_member(f"{run_id}/{name}", length), read)
            sums.append(sum_line(read.digest.hexdigest(), name))
            size += length
        listed = "".join(sums).encode("utf-8", "surrogateescape")
        archive.addfile(_member(f"{run_id}/{SUMS}", len(listed)), io.BytesIO(listed))
    objects = sum("/objects/" in name for name in of_trees)
    return ExportedRun(len(sums), size, hashed.digest.hexdigest(), objects, lacking)


def _objects(
    folder: str, others: frozenset[str], clean: Callable[[str], str]
) -> tuple[list[str], str]:
    """The files that make the trees of a run, or why they stay out: all or none of them."""
    tree_files = [name for name in names(folder, with_trees=True) if name not in others]
    size = 0
    for name in tree_files:
        path = os.path.join(folder, name)
        size += os.lstat(path).st_size
        if size > _TREES:
            return [], f"they have more than {_TREES >> 20} MiB"
        if "/objects/" in name and (why := _flaw(path, clean)):
            return [], why
    return tree_files, ""


def _flaw(path: str, clean: Callable[[str], str]) -> str:
    """Why an object is not to be given away; "" for nothing."""
    if "/pack/" in path:
        return "they are packed"
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(files.read(path, _TREES), _UNPACKED)
    except (zlib.error, files.UnreadableError):
        return "one is damaged"
    if unpacking.unconsumed_tail:
        return f"one has more than {_UNPACKED >> 20} MiB"
    text = data.decode("utf-8", "surrogateescape")
    return "" if clean(text) == text else "one has what looks like a secret"


def _require_size(folder: str, inside: Sequence[str]) -> None:
    sizes = {}
    for name in inside:
        with suppress(OSError):
            sizes[name] = os.lstat(os.path.join(folder, name)).st_size
    if (total := sum(sizes.values())) > _LARGEST:
        largest = printable(max(sizes, key=lambda name: sizes[name]))
        raise ConfigError(
            f"the run has {total / (1 << 30):,.1f} GiB of files, and an export takes "
            f"{_LARGEST >> 30} GiB at most",
            where=folder,
            hint=f"remove what you do not need; the largest file is {largest}",
        )


def sum_line(digest: str, name: str) -> str:
    """A line of the sums; a name with a line break is marked and escaped, as sha256sum does it."""
    escaped = name.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{'' if escaped == name else chr(92)}{digest}  {escaped}\n"


def _member(name: str, length: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size = length
    member.mode = 0o600
    return member


class _HashedOutput:
    """Passes on what is written, and hashes it: a pipe cannot be read again."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> None:
        self.digest.update(data)
        self._stream.write(data)

    def flush(self) -> None:
        self._stream.flush()


class _HashedInput(io.RawIOBase):
    """A file up to a length, hashed as it is read."""

    def __init__(self, source: IO[bytes], length: int) -> None:
        self._source = source
        self._left = length
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        length = self._left if size < 0 else min(size, self._left)
        data = self._source.read(length)
        self._left -= len(data)
        self.digest.update(data)
        return data


def names(folder: str, inside: str = "", *, with_trees: bool = False) -> Iterator[str]:
    """The regular files below ``folder``, relative to it, in the order of their names.

    ``with_trees``: also those that make the trees of a fix.
    """
    with os.scandir(os.path.join(folder, inside)) as listing:
        inner = sorted(entry.name for entry in listing)
    for name in inner:
        path = os.path.join(folder, inside, name)
        shown = f"{inside}{name}"
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(mode):
            if not _is_working_copy(os.path.join(folder, inside), name):
                yield from names(folder, f"{shown}/", with_trees=with_trees)
            elif with_trees and name == "git":
                yield from (f"{shown}/{tree_file}" for tree_file in _tree_files(path))
        elif stat.S_ISREG(mode) and name not in _LEFT_OUT and not name.endswith(".tmp"):
            yield shown


def _tree_files(git: str) -> list[str]:
    """What of the private git folder ``git`` makes trees, relative to it."""
    names_inside = []
    for parent, _, file_names in os.walk(git):
        for name in file_names:
            path = os.path.join(parent, name)
            shown = os.path.relpath(path, git)
            if _OF_TREES.fullmatch(shown) and stat.S_ISREG(os.lstat(path).st_mode):
                names_inside.append(shown)
    return sorted(names_inside)


def _is_working_copy(parent: str, name: str) -> bool:
    """Whether a folder is a checkout, a git folder, or holds git folders."""
    path = os.path.join(parent, name)
    if os.path.lexists(os.path.join(path, ".git")):
        return True
    if os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(os.path.join(path, "objects")):
        return True
    if name == "git" and os.path.isdir(os.path.join(path, "objects", "objects")):
        return True
    return name in _COPIES and os.path.isfile(os.path.join(parent, "git", "HEAD"))
