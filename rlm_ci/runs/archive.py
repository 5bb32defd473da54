"""A run as a reproducible tar.gz."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import tarfile
from contextlib import suppress

from rlm_ci.errors import ConfigError
from rlm_ci.runs import delegated
from rlm_ci.system import files
from rlm_ci.system.lock import NAME as LOCK
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

#: Bytes of all files of a run that is exported.
_LARGEST = 2 << 30
#: The last member: a line for each of the others, as ``sha256sum --check`` reads it.
SUMS = "SHA256SUMS"
#: Copies of the work tree that lie beside the private git folder of a run.
_COPIES = ("work", "verdict")
#: The locks, and a secret of the run.
_LEFT_OUT = (LOCK, delegated.LOCK, delegated.TOKEN)


class ExportedRun(Value):
    """What was written: number and bytes of the files of the run, sha256 of the archive."""

    files: int
    size: int
    sha256: str


def export(folder: str, run_id: str, target: str) -> ExportedRun:
    """Write the run in ``folder`` to the archive ``target``, as ``files.write`` does.

    Links, copies of the work tree and git folders stay out. A run in progress is exported as it
    is now. Raises StorageError, ConfigError for one of more than 2 GiB.
    """
    is_channel = files.is_channel(target)
    try:
        with open(target, "wb") if is_channel else files.replacing(target, 0o600) as stream:
            return write(stream, folder, run_id)
    except OSError as error:
        raise files.storage_error(error, target) from None


def write(stream: IO[bytes], folder: str, run_id: str) -> ExportedRun:
    """As ``export``, to an open file or a pipe. Raises OSError, ConfigError."""
    inside = list(names(folder))
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
    return ExportedRun(len(sums), size, hashed.digest.hexdigest())


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
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._source.read(wanted)
        self._left -= len(data)
        self.digest.update(data)
        return data


def names(folder: str, inside: str = "") -> Iterator[str]:
    """The regular files below ``folder``, relative to it, in the order of their names."""
    with os.scandir(os.path.join(folder, inside)) as found:
        inner = sorted(one.name for one in found)
    for name in inner:
        path = os.path.join(folder, inside, name)
        shown = f"{inside}{name}"
        try:
            mode = os.lstat(path).st_mode
        except FileNotFoundError:
            continue
        if stat.S_ISDIR(mode):
            if not _is_working_copy(os.path.join(folder, inside), name):
                yield from names(folder, f"{shown}/")
        elif stat.S_ISREG(mode) and name not in _LEFT_OUT and not name.endswith(".tmp"):
            yield shown


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
