"""Run a command: its own process group, bounded output, a deadline, no ambient environment.

On POSIX this spawns directly (``subprocess`` alone would double the start-up of a hook);
elsewhere it goes through ``subprocess``. Nothing ever passes through a shell.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from time import monotonic

from rlm_ci.errors import UnavailableError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DEFAULT_TIMEOUT = 600.0
#: Bytes of one stream that are kept; a command that prints more is stopped.
DEFAULT_LIMIT = 1 << 30
_CHUNK = 1 << 18


class Result(Value):
    """How a command ended. ``returncode`` is negative for a signal, as in ``subprocess``."""

    returncode: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    truncated: bool = False


def run(
    argv: Sequence[str | bytes],
    *,
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout: float = DEFAULT_TIMEOUT,
    limit: int = DEFAULT_LIMIT,
) -> Result:
    """Run ``argv`` to its end and return what it said.

    ``timeout`` is in seconds; past it, or past ``limit`` bytes on one stream, the whole
    process group is killed. Raises UnavailableError when the program cannot be started.
    """
    if sys.platform == "win32":
        return _run_windows(argv, env, stdin, timeout, limit)
    return _Child(argv, env).communicate(stdin, timeout, limit)


def _unavailable(program: str | bytes, error: OSError) -> UnavailableError:
    name = os.fsdecode(program)
    return UnavailableError(
        f"{name} could not be started: {error.strerror}",
        hint=f"install {name}, or put the folder that holds it on PATH",
    )


if sys.platform != "win32":
    import select
    import signal

    class _Child:
        """A running command, leader of its own process group."""

        def __init__(self, argv: Sequence[str | bytes], env: Mapping[str, str]) -> None:
            child_in, self._stdin = os.pipe()
            self._stdout, child_out = os.pipe()
            self._stderr, child_err = os.pipe()
            actions = [
                (os.POSIX_SPAWN_DUP2, child_in, 0),
                (os.POSIX_SPAWN_DUP2, child_out, 1),
                (os.POSIX_SPAWN_DUP2, child_err, 2),
            ]
            try:
                self._pid = os.posix_spawnp(
                    argv[0],
                    list(argv),
                    dict(env),
                    file_actions=actions,
                    setpgroup=0,
                    # Python ignores SIGPIPE, and a child would inherit that.
                    setsigdef=[signal.SIGPIPE],
                )
            except OSError as error:
                for descriptor in (self._stdin, self._stdout, self._stderr):
                    os.close(descriptor)
                raise _unavailable(argv[0], error) from error
            finally:
                for descriptor in (child_in, child_out, child_err):
                    os.close(descriptor)

        def communicate(self, stdin: bytes, timeout: float, limit: int) -> Result:
            output = {self._stdout: bytearray(), self._stderr: bytearray()}
            try:
                reason = self._pump(memoryview(stdin), output, monotonic() + timeout, limit)
                if reason:
                    self._kill()
                _, status = os.waitpid(self._pid, 0)
            except BaseException:
                # An interrupt must not leave a child behind: it is in a group of its own.
                self._kill()
                os.waitpid(self._pid, 0)
                raise
            finally:
                for descriptor in (self._stdin, *output):
                    if descriptor >= 0:
                        os.close(descriptor)
            return Result(
                os.waitstatus_to_exitcode(status),
                bytes(output[self._stdout]),
                bytes(output[self._stderr]),
                timed_out=reason == "timeout",
                truncated=reason == "limit",
            )

        def _pump(
            self, stdin: memoryview, output: dict[int, bytearray], deadline: float, limit: int
        ) -> str:
            """Move bytes until both outputs end; the reason to stop early, or nothing."""
            poll = select.poll()
            open_outputs = set(output)
            for descriptor in open_outputs:
                poll.register(descriptor, select.POLLIN)
            if stdin:
                os.set_blocking(self._stdin, False)
                poll.register(self._stdin, select.POLLOUT)
            else:
                self._close_stdin()
            while open_outputs:
                remaining = deadline - monotonic()
                if remaining <= 0:
                    return "timeout"
                for descriptor, _ in poll.poll(remaining * 1000):
                    if descriptor == self._stdin:
                        stdin = self._feed(stdin)
                        if not stdin:
                            poll.unregister(descriptor)
                            self._close_stdin()
                        continue
                    chunk = os.read(descriptor, _CHUNK)
                    if not chunk:
                        poll.unregister(descriptor)
                        open_outputs.discard(descriptor)
                    output[descriptor] += chunk
                    if len(output[descriptor]) > limit:
                        return "limit"
            return ""

        def _feed(self, stdin: memoryview) -> memoryview:
            try:
                return stdin[os.write(self._stdin, stdin[:_CHUNK]) :]
            except BlockingIOError:
                return stdin
            except BrokenPipeError:  # it ended without reading everything: its own affair
                return memoryview(b"")

        def _close_stdin(self) -> None:
            os.close(self._stdin)
            self._stdin = -1

        def _kill(self) -> None:
            with suppress(ProcessLookupError):
                os.killpg(self._pid, signal.SIGKILL)


def _run_windows(
    argv: Sequence[str | bytes], env: Mapping[str, str], stdin: bytes, timeout: float, limit: int
) -> Result:
    import subprocess

    try:
        child = subprocess.Popen(
            [os.fsdecode(word) for word in argv],
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise _unavailable(argv[0], error) from error
    with child:
        try:
            stdout, stderr = child.communicate(stdin, timeout)
            timed_out = False
        except subprocess.TimeoutExpired:
            child.kill()
            stdout, stderr = child.communicate()
            timed_out = True
        except BaseException:
            child.kill()
            raise
    truncated = max(len(stdout), len(stderr)) > limit
    return Result(child.returncode, stdout[:limit], stderr[:limit], timed_out, truncated)
