"""Make a folder whole or not at all."""

from __future__ import annotations

import errno
import os
import re
from contextlib import ExitStack, contextmanager, suppress

from rlm_ci.errors import ConfigError
from rlm_ci.system import files
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: How the name of an unfinished folder ends.
_UNFINISHED = ".building"
#: Bytes of the final folder's name in it, and random ones; how often a new one is made.
_NAME = 100
_RANDOM = 6
_TRIES = 8


@contextmanager
def beside(folder: str) -> Iterator[str]:
    """A new folder, renamed to ``folder`` after success and removed after an error."""
    _require_free(folder)
    parent, name = os.path.split(os.path.abspath(folder))
    files.make_folder(parent)
    begin = f".{os.fsdecode(os.fsencode(name)[:_NAME])}."
    try:
        _clear(parent, begin)
        with ExitStack() as stack:
            temporary = _new_folder(parent, begin, stack)
            try:
                yield temporary
                files.sync_folder(temporary)
                os.rename(temporary, folder)
            finally:
                _remove(temporary)
        files.sync_folder(parent)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            _require_free(folder)  # another process was faster
        raise files.storage_error(error, folder) from None


def _new_folder(parent: str, begin: str, stack: ExitStack) -> str:
    """A new folder, locked; ``_clear`` may have removed the first before it was locked."""
    for left in reversed(range(_TRIES)):
        path = os.path.join(parent, f"{begin}{os.urandom(_RANDOM).hex()}{_UNFINISHED}")
        os.mkdir(path, 0o700)
        try:
            stack.enter_context(_locked(path))
            os.stat(path)  # the lock of a removed folder protects nothing
            return path
        except OSError as error:
            stack.close()
            _remove(path)
            if not (left and isinstance(error, FileNotFoundError | BlockingIOError)):
                raise
    raise AssertionError("the last try returns or raises")


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Hold the lock of a folder. Raises BlockingIOError when another process has it."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _clear(parent: str, begin: str) -> None:
    """Remove what killed builds of the same folder have left; a running one holds its lock."""
    left = re.compile(f"{re.escape(begin)}[0-9a-f]{{{2 * _RANDOM}}}{re.escape(_UNFINISHED)}")
    for name in os.listdir(parent):
        if left.fullmatch(name):
            path = os.path.join(parent, name)
            with suppress(OSError), _locked(path):
                _remove(path)


def _require_free(folder: str) -> None:
    """Raise ConfigError for anything that a rename would not replace."""
    try:
        with os.scandir(folder) as entries:
            is_free = next(entries, None) is None
    except (FileNotFoundError, NotADirectoryError):
        is_free = not os.path.lexists(folder)
    except OSError:
        is_free = False
    if not is_free:
        raise ConfigError(
            "there is something already",
            where=printable(folder),
            hint="name a folder that is not there yet, or remove this one",
        )


def _remove(folder: str) -> None:
    with suppress(OSError):
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
