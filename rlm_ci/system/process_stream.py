"""Run an untrusted command: the head and the tail of its output are kept.

Both outputs are merged as they come, unless asked for apart. Memory stays flat, and the process
group is dead when ``stream`` returns, with any grandchild that holds the output open.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from time import monotonic

from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.system import process
from rlm_ci.system.process import Clipped, StreamResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Bytes kept of the beginning and of the end of an output.
HEAD = 1 << 20
TAIL = 4 << 20
#: Seconds that the output may stay open after the command has ended.
DRAIN = 2.0
#: Seconds between two looks at what a command is doing.
WATCH = 0.1
_CHUNK = 1 << 18
#: Seconds between two looks where the system does not report the end of a child.
_LOOK = 0.02
#: Open files without which no command can be started and looked after.
LEAST_OPEN = 64


class Clip:
    """Takes in a stream of any length and keeps its beginning and its end."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._head_limit = head
        self._tail_limit = tail
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def add(self, chunk: bytes) -> None:
        room = self._head_limit - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        self._tail += chunk
        if len(self._tail) > 2 * self._tail_limit + _CHUNK:
            self._trim()

    def _trim(self) -> None:
        surplus = len(self._tail) - self._tail_limit
        if surplus > 0:
            del self._tail[:surplus]
            self._dropped += surplus

    def clipped(self) -> Clipped:
        """What is kept so far."""
        self._trim()
        return Clipped(bytes(self._head), bytes(self._tail), self._dropped)


def find(program: str, path: str, folder: str) -> str:
    """The file of ``program`` by ``path`` (a PATH); relative to ``folder`` where it has a ``/``.

    Relative folders of the PATH do not count: a change could bring one. Raises UnavailableError.
    """
    if "/" in program:
        places = [os.path.join(folder, program)]
    else:
        folders = [entry for entry in path.split(os.pathsep) if os.path.isabs(entry)]
        places = [os.path.join(entry, program) for entry in folders]
    for candidate in places:
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    missing = FileNotFoundError(0, "there is no such executable program")
    raise process.unavailable(program, missing)


def require_open_files() -> None:
    """Raise ConfigError where this process may open too few files."""
    limit = LEAST_OPEN if sys.platform == "win32" else os.sysconf("SC_OPEN_MAX")
    if 0 <= limit < LEAST_OPEN:
        raise ConfigError(
            f"no more than {limit} files may be open at once: commands cannot be run",
            where="ulimit -n",
            hint=f"set it to {LEAST_OPEN} or more, 1024 for example",
        )


if sys.platform == "win32":

    def stream(argv: Sequence[str], **_options: object) -> StreamResult:
        """Not on Windows, where no process group can be ended as a whole."""
        raise UnavailableError(
            f"{argv[0]} cannot be run on Windows with all that it starts under control",
            hint="use Linux, macOS, or WSL",
        )

else:
    import select
    import signal

    def stream(
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None = None,
        stdin: bytes = b"",
        timeout: float = process.DEFAULT_TIMEOUT,
        clip: Clip | None = None,
        errors: Clip | None = None,
        on_output: Callable[[bytes], object] | None = None,
        watch: Callable[[int], str] | None = None,
        descriptors: Sequence[int] = (),
        gate: tuple[int, Callable[[], object]] | None = None,
        grace: float = 0.0,
        stop: int = -1,
    ) -> StreamResult:
        """Run ``argv``, found on the PATH of ``env``, for at most ``timeout`` seconds.

        ``errors`` takes in standard error, which is part of the output otherwise. ``on_output``
        gets each piece of output; ``watch`` the process id every tenth of a second,
        and any text that it returns is the reason to stop. ``descriptors`` become the child's 3, 4
        and so on. ``gate``: a descriptor, and what to call once it can be read. A child that must
        stop gets SIGTERM, and ``grace`` seconds before its group is killed. Raises
        UnavailableError when it cannot be started.
        """
        folder = os.path.abspath(cwd or ".")
        words = [find(argv[0], env.get("PATH", ""), folder), *argv[1:]]
        if cwd is not None:
            if not os.path.isdir(folder):
                raise process.unavailable(
                    argv[0], NotADirectoryError(0, f"{folder} is not a folder to work in")
                )
            # posix_spawn knows no folder. The words pass through the shell as they are.
            words = ["/bin/sh", "-c", 'cd -- "$0" && exec "$@"', folder, *words]
        kept = clip or Clip()

        def take(chunk: bytes) -> None:
            kept.add(chunk)
            if on_output is not None:
                on_output(chunk)

        begun = monotonic()
        with _Stream(words, env, stdin, descriptors, errors) as running:
            running.take, running.watch, running.gate, running.grace = take, watch, gate, grace
            running.stop = stop
            code, reason = running.finish(monotonic() + timeout)
        apart = errors.clipped() if errors else Clipped(b"")
        return StreamResult(code, reason, kept.clipped(), monotonic() - begun, apart)

    class _Stream(process.Started):
        """The child of ``stream``, whose options are attributes."""

        take: Callable[[bytes], None]
        watch: Callable[[int], str] | None = None
        gate: tuple[int, Callable[[], object]] | None = None
        grace = 0.0
        stop = -1
        _is_stopped = False

        def __init__(
            self,
            argv: Sequence[str],
            env: Mapping[str, str],
            stdin: bytes,
            descriptors: Sequence[int],
            errors: Clip | None,
        ) -> None:
            self._errors = errors
            self._poll = select.poll()
            high = _lifted(descriptors)
            try:
                super().__init__(argv, env, stdin, 1 if errors is None else 2, high)
            finally:
                for descriptor in high:
                    os.close(descriptor)
            self._open = list(self._outputs)

        def finish(self, deadline: float) -> tuple[int, str]:
            """Wait for its end; its exit code, and the reason to stop it early, or ""."""
            for descriptor in self._outputs:
                os.set_blocking(descriptor, False)
            with suppress(AttributeError, OSError):  # not Linux, or not allowed
                self._handle = os.pidfd_open(self._pid)
            reason = self._pump(deadline)
            status = self._end()
            for descriptor in self._outputs:
                left = 4 << 20
                while left > 0 and (chunk := self._read(descriptor)):  # what is left in the pipe
                    left -= len(chunk)
                    self._add(descriptor, chunk)
            return os.waitstatus_to_exitcode(status), reason

        def _pump(self, deadline: float) -> str:
            """Move bytes until the command and its output end."""
            gate = self.gate[0] if self.gate else -1
            for descriptor in (*self._outputs, self._handle, gate, self.stop):
                if descriptor >= 0:
                    self._poll.register(descriptor, select.POLLIN)
            if self._stdin >= 0:
                self._poll.register(self._stdin, select.POLLOUT)
            look = monotonic() + WATCH if self.watch else deadline
            while (now := monotonic()) < deadline:
                if self._has_ended():
                    self._drain(min(now + DRAIN, deadline))
                    return ""
                if self.watch is not None and now >= look:
                    look = now + WATCH
                    if word := self.watch(self._pid):
                        return word
                self._move(min(deadline, look))
                if self._is_stopped:
                    return "stopped"
            return "timeout"

        def _drain(self, until: float) -> None:
            """Take what comes after the end, for a while: a grandchild may hold it open."""
            if self._handle >= 0:
                self._poll.unregister(self._handle)
            while self._open and monotonic() < until:
                self._move(until)

        def _move(self, until: float) -> None:
            wait = until - monotonic()
            if self._handle < 0:
                wait = min(wait, _LOOK)
            for descriptor, _ in self._poll.poll(max(0.0, wait) * 1000 + 1):
                if descriptor == self._stdin:
                    self._feed()
                    if self._stdin < 0:
                        self._poll.unregister(descriptor)
                elif descriptor == self.stop:
                    self._poll.unregister(descriptor)
                    self._is_stopped = True
                elif self.gate and descriptor == self.gate[0]:
                    self._poll.unregister(descriptor)
                    self.gate[1]()
                elif descriptor in self._open and (chunk := self._read(descriptor)) is not None:
                    if chunk:
                        self._add(descriptor, chunk)
                    else:
                        self._poll.unregister(descriptor)
                        self._open.remove(descriptor)

        def _add(self, descriptor: int, chunk: bytes) -> None:
            if self._errors is not None and descriptor == self._outputs[1]:
                self._errors.add(chunk)
            else:
                self.take(chunk)

        def _read(self, descriptor: int) -> bytes | None:
            """A piece of output; empty at its end, None if there is nothing yet."""
            try:
                return os.read(descriptor, _CHUNK)
            except BlockingIOError:
                return None

        def _has_ended(self) -> bool:
            """Whether the command has ended; it is not reaped, so its number stays its own."""
            if self._status is not None:
                return True
            if hasattr(os, "waitid"):
                options = os.WEXITED | os.WNOHANG | os.WNOWAIT
                return os.waitid(os.P_PID, self._pid, options) is not None
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            self._status = status if pid else None
            return pid != 0

        def _end(self) -> int:
            """Give it time to end by itself, then kill the whole group."""
            try:
                if self._pid >= 0 and self.grace and not self._has_ended():
                    with suppress(ProcessLookupError):
                        os.kill(self._pid, signal.SIGTERM)
                    end = monotonic() + self.grace
                    while not self._has_ended() and (left := end - monotonic()) > 0:
                        select.select([], [], [], min(left, _LOOK))
            finally:
                status = super()._end()
            return status

    def _lifted(descriptors: Sequence[int]) -> list[int]:
        """Copies of ``descriptors`` above the numbers that they get in the child."""
        import fcntl

        lowest = 3 + len(descriptors)
        return [
            fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, lowest) for descriptor in descriptors
        ]
