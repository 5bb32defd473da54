"""What compilers keep from one run of the validator to the next, such as Go's standard library.

Each command has another HOME, but ``~/.cache`` stays for the run. An agent may have made up what is
in there. So the last verdict gets a copy of what the validator's first run left.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from contextlib import suppress

from rlm_ci.sandbox import HOME, Mount
from rlm_ci.system import files

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
