"""A lock for one writer, released by the kernel however its process ends.

``flock`` and not ``lockf``, which is lost as soon as anything in the process closes the file. The
file names its holder for people and for ``cancel``; the lock itself is the kernel's.
"""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress

from rlm_ci.errors import LockedError, StorageError, UnavailableError
from rlm_ci.system import files
from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_LIMIT = 4096
_TRIES = 100
#: Seconds between two looks at a lock that another process holds.
_PAUSE = 0.02
#: Seconds to wait for who only posts an event, or looks.
_MOMENT = 2.0
#: Its file in the folder of a run.
NAME = ".lock"
#: Its file in a folder of the work tree; the fix loop leaves names like this out of its snapshots.
TREE_NAME = ".rlm-ci-lock.tmp"
#: Seconds to wait for a folder: writing to one takes a few, unless a process is stopped.
PATIENCE = 60.0


class LockHolder(Value):
    """The process that took a lock: ``since`` in seconds of the epoch, ``started`` in ticks.

    ``alive``: that very process still runs. If not, a child of it may have inherited the lock.
    """

    pid: int
    since: float
    started: str
    alive: bool


class Lock(Closing):
    """A lock that this process holds until ``release``."""

    def __init__(self, path: str, descriptor: int, *, signs: bool = True) -> None:
        self.path = path
        self._descriptor = descriptor
        self._signs = signs

    @classmethod
    def take(cls, path: str, now: Callable[[], float] = time.time, *, signs: bool = True) -> Lock:
        """The lock at ``path``, at once or not at all. Raises LockedError, StorageError.

        Without ``signs`` the content of the file stays: it names no holder, or is not for that.
        """
        try:
            import fcntl
        except ImportError:
            raise UnavailableError(
                "this system has no flock", where=path, hint="run on Linux or macOS"
            ) from None
        for _ in range(_TRIES):
            try:
                descriptor = files.open_regular(path, os.O_RDWR | os.O_CREAT)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    # Somebody may have put another file there in between; that one is the lock.
                    if _is_at(path, descriptor):
                        try:
                            if signs:
                                _sign(descriptor, now())
                        except OSError:
                            os.unlink(path)
                            raise
                        return cls(path, descriptor, signs=signs)
                except BaseException:
                    os.close(descriptor)
                    raise
                os.close(descriptor)
            except BlockingIOError:
                break
            except OSError as error:
                raise files.storage_error(error, path) from None
        raise _locked(path, now())

    @classmethod
    def wait(cls, path: str, seconds: float, *, signs: bool = True) -> Lock:
        """As ``take``, but wait for the holder for so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                return cls.take(path, signs=signs)
            except LockedError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)

    @classmethod
    def take_over(cls, path: str) -> Lock:
        """As ``take``, but wait a little for who has not signed it: such have it for a moment."""
        deadline = time.monotonic() + _MOMENT
        while True:
            try:
                return cls.take(path)
            except LockedError:
                by = holder(path)
                if time.monotonic() > deadline or (by is not None and by.alive):
                    raise
                time.sleep(_PAUSE)

    @classmethod
    def is_free(cls, path: str) -> bool:
        """Whether no process holds the lock at ``path``."""
        try:
            cls.take(path).release()
        except LockedError:
            return False
        return True

    def release(self) -> None:
        """Release the lock; the file stays, empty if it was signed."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        try:
            if self._signs:
                os.ftruncate(descriptor, 0)
        except OSError as error:
            raise files.storage_error(error, self.path) from None
        finally:
            os.close(descriptor)

    close = release


@contextmanager
def exclusive(folder: str, doing: str = "is writing to this folder") -> Iterator[None]:
    """Have a folder to which other processes of rlm-ci write, too; it is made where missing.

    The lock in it is removed at the end. Raises LockedError where another process, which is
    ``doing`` the same, keeps it; StorageError.
    """
    path = os.path.join(folder, TREE_NAME)
    lock = None
    while lock is None:  # the last holder may have removed the folder: make it again
        _make(folder)
        try:
            lock = Lock.wait(path, PATIENCE)
        except LockedError:
            by = holder(path)
            raise LockedError(
                f"{f'process {by.pid}' if by else 'another process'} {doing}",
                where=folder,
                hint="wait until it has ended, or end it",
            ) from None
        except StorageError as error:
            if not isinstance(error.__context__, FileNotFoundError):
                with suppress(OSError):  # others may be in it
                    os.rmdir(folder)
                raise
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(path)
        lock.release()


def _make(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        is_removed = isinstance(error, FileExistsError) and not os.path.lexists(folder)
        if not (is_removed or os.path.isdir(folder)):
            raise files.storage_error(error, folder) from None


def holder(path: str) -> LockHolder | None:
    """The process that the lock file at ``path`` names; None without a valid one."""
    import json

    try:
        record = json.loads(files.read(path, _LIMIT))
        pid, since, started = record["pid"], record["since"], record["started"]
    except (files.UnreadableError, ValueError, RecursionError, KeyError, TypeError):
        return None
    if type(pid) is not int or type(since) not in (int, float) or type(started) is not str:
        return None
    if not 0 < pid < 1 << 31 or not 0 <= since < 1 << 53:
        return None
    return LockHolder(pid, float(since), started, _runs(pid, started))


def _is_at(path: str, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _sign(descriptor: int, now: float) -> None:
    import json

    pid = os.getpid()
    record = {"pid": pid, "since": round(now, 3), "started": ProcessStatus.of(pid).started}
    os.ftruncate(descriptor, 0)
    os.write(descriptor, json.dumps(record).encode() + b"\n")


class ProcessStatus(Value):
    """The status of a process on Linux; ``started`` in ticks since the boot."""

    state: str = ""
    parent: int = 0
    session: int = 0
    started: str = ""

    @classmethod
    def of(cls, pid: int) -> ProcessStatus:
        """That of ``pid``; without values if no such process runs, and outside of Linux."""
        try:
            with open(f"/proc/{pid}/stat", "rb") as stream:
                # The name, in parentheses, may hold anything.
                fields = stream.read().rpartition(b")")[2].decode("ascii").split()
                return cls(fields[0], int(fields[1]), int(fields[3]), fields[19])
        except (OSError, IndexError):
            return cls()


def _runs(pid: int, started: str) -> bool:
    if started or ProcessStatus.of(os.getpid()).started:  # on Linux each holder has a start
        now = ProcessStatus.of(pid)
        # A zombie is dead: in many containers nothing ever reaps it.
        return now.started == started and now.state not in ("Z", "X")
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _locked(path: str, now: float) -> LockedError:
    by = holder(path)
    if by is None:
        return LockedError(
            "another process holds this run", where=path, hint="wait until it has ended"
        )
    age = max(0, round(now - by.since))
    if by.alive:
        return LockedError(
            f"process {by.pid} has held this run for {age:,} s",
            where=path,
            hint="wait until it has ended, or end it: `rlm-ci cancel`",
        )
    return LockedError(
        f"a process that {by.pid} started has held this run for {age:,} s",
        where=path,
        hint=f"find it with `fuser {path}`, and end it",
    )
