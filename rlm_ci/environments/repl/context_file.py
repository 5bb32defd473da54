"""The text of a session's context: as it was when the session was opened."""

from __future__ import annotations

import os
from contextlib import contextmanager

from rlm_ci.errors import ConfigError
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 1 << 20


def text(path: str, limit: int) -> str:
    """All of it; bytes that are no UTF-8 become U+FFFD. Raises ConfigError."""
    with _opened(path, limit) as descriptor:
        return b"".join(iter(lambda: os.read(descriptor, _CHUNK), b"")).decode("utf-8", "replace")


def pinned(path: str, limit: int) -> int:
    """A copy in memory, which nothing can change any more. Raises ConfigError."""
    with _opened(path, limit) as descriptor:
        if not hasattr(os, "memfd_create"):  # not Linux: no sandbox that it could be changed from
            return os.dup(descriptor)
        copy = os.memfd_create("context", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            while chunk := os.read(descriptor, _CHUNK):
                data = memoryview(chunk)
                while data:
                    data = data[os.write(copy, data) :]
            _seal(copy)
        except BaseException:
            os.close(copy)
            raise
        return copy


def _seal(copy: int) -> None:
    import fcntl

    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(copy, fcntl.F_ADD_SEALS, seals)


@contextmanager
def _opened(path: str, limit: int) -> Iterator[int]:
    try:
        descriptor = files.open_regular(path, os.O_RDONLY)
        try:
            size = os.fstat(descriptor).st_size
            if size > limit:
                what = f"the context has {size:,} bytes, and may have {limit:,}"
                raise ConfigError(what, where=path, hint="split it, and ask about each part")
            yield descriptor
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ConfigError(
            f"the context cannot be read: {error.strerror}", where=path, hint="name a text file"
        ) from None
