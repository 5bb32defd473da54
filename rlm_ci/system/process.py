"""Run a command: its own process group, bounded output, a deadline, no inherited environment.

On POSIX this spawns directly, since ``subprocess`` would double the start-up of a hook. Nothing
passes through a shell.
"""

from __future__ import annotations

import os
import sys
from codecs import utf_8_decode
from contextlib import suppress
from time import monotonic

from rlm_ci.errors import UnavailableError
from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Self

DEFAULT_TIMEOUT = 600.0
#: Bytes of one stream that are kept; a command that prints more is stopped.
DEFAULT_LIMIT = 1 << 30
#: The longest secret in bytes, in the longest way of writing it (hex doubles it).
SEAM = 16 << 10
_CHUNK = 1 << 18
_PIPE = 1 << 20
#: Bytes of a UTF-8 character behind its first.
_CONTINUATION = bytes(range(0x80, 0xC0))


class ProcessResult(Value):
    """How a command ended. ``returncode`` is negative for a signal, as in ``subprocess``.

    A stream that was ``truncated`` holds as many bytes as the limit allows.
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    truncated: bool = False


class Clipped(Value):
    """A stream of any length, kept as its beginning and its end; ``omitted`` bytes lie between.

    While nothing is omitted, ``head + tail`` is all of it.
    """

    head: bytes = b""
    tail: bytes = b""
    omitted: int = 0

    def without_seam(self) -> Clipped:
        """The same without the bytes next to the gap, where half a secret may be."""
        if not self.omitted:
            return self
        head, tail = self.head[:-SEAM], self.tail[SEAM:]
        return Clipped(head, tail, self.size - len(head) - len(tail))

    @property
    def size(self) -> int:
        """How many bytes there were."""
        return len(self.head) + self.omitted + len(self.tail)

    def text(self) -> str:
        """What was kept, as untrusted text; a line in the middle tells how much is missing.

        Invalid UTF-8 becomes U+FFFD; a character that the gap cut is left out.
        """
        if not self.omitted:
            return (self.head + self.tail).decode("utf-8", "replace")
        before, used = utf_8_decode(self.head, "replace", False)  # noqa: FBT003 - it has no name
        tail = self.tail[:3].lstrip(_CONTINUATION) + self.tail[3:]
        line = f"[... {self.size - used - len(tail):,} bytes left out ...]"
        after = tail.decode("utf-8", "replace")
        return f"{before}{'' if before.endswith(chr(10)) else chr(10)}{line}\n{after}"


class StreamResult(Value):
    """How a streamed command ended: its output, both streams merged, and its seconds.

    ``returncode`` is negative for a signal; ``reason`` says why it was stopped: ``timeout``, or
    the answer of its watch; empty when it ended by itself. ``errors`` is its standard error, where
    that was asked for apart.
    """

    returncode: int
    reason: str
    output: Clipped
    seconds: float
    errors: Clipped = Clipped(b"")


def run(
    argv: Sequence[str | bytes],
    *,
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout: float = DEFAULT_TIMEOUT,
    limit: int = DEFAULT_LIMIT,
    cwd: str | None = None,
) -> ProcessResult:
    """Run ``argv`` to its end, in the folder ``cwd`` or in ours.

    After ``timeout`` seconds, or ``limit`` bytes on one stream, its process group is killed.
    Raises UnavailableError when the program cannot be started.
    """
    if cwd is not None:  # ``posix_spawn`` cannot change it
        with PortableChild(argv, env, stdin, timeout, limit, cwd=cwd) as child:
            return child.finish()
    with Child(argv, env, stdin, timeout, limit) as child:
        return child.finish()


def unavailable(program: str | bytes, error: OSError) -> UnavailableError:
    """The error of a program that could not be started."""
    name = os.fsdecode(program)
    hint = f"install {name}, or put its folder on PATH"
    return UnavailableError(f"{name} could not be started: {error.strerror}", hint=hint)


def locate(program: str, path: str, endings: str) -> str | None:
    """The file of a program of Windows, by its PATH and PATHEXT; None when there is none.

    Windows itself would search the current folder first, which belongs to the change.
    """
    if os.path.isabs(program):
        return program
    folders = [folder for folder in path.split(os.pathsep) if os.path.isabs(folder)]
    names = [program + ending.lower() for ending in ("", *endings.split(";"))]
    places = (os.path.join(folder, name) for folder in folders for name in names)
    return next((candidate for candidate in places if os.path.isfile(candidate)), None)


def harden() -> bool:
    """Keep other processes of this user from reading our memory and environment in /proc.

    It does not hold for children. Returns whether it worked: only Linux has it.
    """
    if sys.platform != "linux":
        return False
    from ctypes import CDLL

    dumpable = 4  # PR_SET_DUMPABLE
    return int(CDLL(None).prctl(dumpable, 0, 0, 0, 0)) == 0


class PortableChild(Closing):
    """``Child`` by ``subprocess``: for platforms without ``posix_spawn``, or in another folder."""

    def __init__(
        self,
        argv: Sequence[str | bytes],
        env: Mapping[str, str],
        stdin: bytes = b"",
        timeout: float = DEFAULT_TIMEOUT,
        limit: int = DEFAULT_LIMIT,
        *,
        cwd: str | None = None,
    ) -> None:
        import subprocess

        name = os.fsdecode(argv[0])
        program = locate(name, env.get("PATH", ""), ".COM;.EXE")
        if program is None:
            raise unavailable(name, FileNotFoundError(0, "it is not on PATH"))
        self._deadline = monotonic() + timeout
        self._input = stdin
        self._limit = limit
        try:
            self._child = subprocess.Popen(
                [program, *(os.fsdecode(word) for word in argv[1:])],
                env=dict(env),
                cwd=cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise unavailable(name, error) from error

    def close(self) -> None:
        if self._child.poll() is None:
            self._child.kill()
        self._child.__exit__(None, None, None)

    def finish(self) -> ProcessResult:
        """Wait for its end or its deadline; its output, up to the limit."""
        import subprocess

        timed_out = False
        try:
            remaining = max(0.0, self._deadline - monotonic())
            stdout, stderr = self._child.communicate(self._input, remaining)
        except subprocess.TimeoutExpired:
            timed_out = True
            self._child.kill()
            stdout, stderr = self._child.communicate()
        truncated = max(len(stdout), len(stderr)) > self._limit
        outputs = stdout[: self._limit], stderr[: self._limit]
        return ProcessResult(self._child.returncode, *outputs, timed_out, truncated)


if sys.platform != "win32":
    import select
    import signal

    #: Signals that wait while a child is being started.
    INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def defer() -> set[int]:
        """Block the signals that would end us, until ``undefer`` gets what this returns."""
        return {int(one) for one in signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)}

    def undefer(before: set[int]) -> None:
        """Take signals again, at once if one has come meanwhile."""
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def keep_back(descriptors: Sequence[int] = ()) -> None:
        """Let no child inherit open files of our parent, but the three and ``descriptors``.

        An open folder would be a way out of any sandbox. To close them in the child would fail
        above a limit that was lowered since.
        """
        try:
            numbers = [int(name) for name in os.listdir("/dev/fd")]
        except OSError:  # a machine without it
            most = os.sysconf("SC_OPEN_MAX")
            numbers = list(range(most if most > 0 else 1 << 16))
        for number in numbers:
            with suppress(OSError):  # closed, or that of the listing itself
                if number > 2 and number not in descriptors and os.get_inheritable(number):
                    os.set_inheritable(number, False)  # noqa: FBT003 - it has no name for that

    def spawn(
        argv: Sequence[str | bytes],
        env: Mapping[str, str],
        descriptors: Sequence[int],
        mask: Iterable[signal.Signals | int] = (),
        *,
        session: bool = False,
    ) -> int:
        """Start ``argv`` as leader of a group, with ``descriptors`` as its only 0, 1, 2 and so on.

        ``mask`` are the signals blocked in it. In a ``session`` of its own it takes interrupts
        even where we ignore them. Returns the process id; raises OSError.
        """
        own: dict[str, Any] = {"setsid": True} if session else {"setpgroup": 0}
        given = [
            (os.POSIX_SPAWN_DUP2, descriptor, its) for its, descriptor in enumerate(descriptors)
        ]
        keep_back(descriptors)
        return os.posix_spawnp(
            argv[0],
            list(argv),
            dict(env),
            file_actions=given,
            setsigmask=mask,
            # Python ignores SIGPIPE, and a child would inherit that.
            setsigdef=[signal.SIGPIPE, *(INTERRUPTS if session else ())],
            **own,
        )

    def _kill_at_end(descriptor: int, group: int) -> None:
        """Let the kernel kill a process group when we end, however that is, by a signal too.

        Then the other end of the pipe is closed. ``PR_SET_PDEATHSIG`` would kill it with the
        thread that started it. Only Linux has it, and not before this is called: the group has no
        number until it runs.
        """
        if sys.platform == "linux":
            import fcntl

            set_signal = 10  # F_SETSIG, which Python does not name
            with suppress(OSError):
                fcntl.fcntl(descriptor, fcntl.F_SETOWN, -group)
                fcntl.fcntl(descriptor, set_signal, signal.SIGKILL)
                fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_ASYNC)

    class Started:
        """A running command, leader of its own process group; leaving the context kills it."""

        def __init__(
            self,
            argv: Sequence[str | bytes],
            env: Mapping[str, str],
            stdin: bytes,
            outputs: int,
            descriptors: Sequence[int] = (),
        ) -> None:
            """``outputs``: one pipe or two; ``descriptors`` become its 3, 4 and so on.

            Raises UnavailableError when it cannot be started.
            """
            self._input = memoryview(stdin)
            self._status: int | None = None
            self._handle = -1
            child_in, self._stdin = os.pipe()
            pipes = [os.pipe() for _ in range(outputs)]
            self._outputs = [ours for ours, _ in pipes]
            given = [child_in, pipes[0][1], pipes[-1][1]]
            self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
            try:
                self._pid = spawn(argv, env, [*given, *descriptors], self._mask)
            except BaseException as error:
                signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
                self._close()
                if isinstance(error, OSError):
                    raise unavailable(argv[0], error) from error
                raise
            finally:
                for descriptor in set(given):
                    os.close(descriptor)

        def __enter__(self) -> Self:
            try:
                signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
                if sys.platform == "linux":  # fewer waits for the other side
                    import fcntl

                    for descriptor in (self._stdin, self._outputs[0]):
                        with suppress(OSError):  # the user's share of pipe memory is used up
                            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE)
                os.set_blocking(self._stdin, False)
                self._feed()
            except BaseException:
                self.__exit__()
                raise
            return self

        def __exit__(self, *_error: object) -> None:
            self._end()
            self._close()

        def _close(self) -> None:
            for descriptor in (self._stdin, self._handle, *self._outputs):
                if descriptor >= 0:
                    os.close(descriptor)

        def _feed(self) -> None:
            """Write what the pipe takes; close it after the last byte."""
            try:
                while self._input:
                    self._input = self._input[os.write(self._stdin, self._input[:_CHUNK]) :]
            except BlockingIOError:
                return
            except BrokenPipeError:  # it need not read everything
                pass
            os.close(self._stdin)
            self._stdin = -1

        def _end(self) -> int:
            """Kill the whole group; the status of the command."""
            if self._pid >= 0:
                # macOS refuses to signal a group of which only the zombie is left.
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(self._pid, signal.SIGKILL)
                if self._status is None:
                    with suppress(ChildProcessError):  # interrupted when it had just been awaited
                        self._status = os.waitpid(self._pid, 0)[1]
                self._pid = -1
            return self._status or 0

    class Child(Started):
        """A trusted command: ``finish`` waits for it and returns all its output.

        It does not outlive us.
        """

        def __init__(
            self,
            argv: Sequence[str | bytes],
            env: Mapping[str, str],
            stdin: bytes = b"",
            timeout: float = DEFAULT_TIMEOUT,
            limit: int = DEFAULT_LIMIT,
        ) -> None:
            self._deadline = monotonic() + timeout
            self._limit = limit
            its, self._lifeline = os.pipe()
            try:
                super().__init__(argv, env, stdin, 2, [its])
                _kill_at_end(its, self._pid)
            finally:
                os.close(its)

        def _close(self) -> None:
            os.close(self._lifeline)
            super()._close()

        def finish(self) -> ProcessResult:
            """Wait for its end, its deadline or its limit."""
            output = {descriptor: bytearray() for descriptor in self._outputs}
            reason = self._pump(output) or self._wait()
            code = os.waitstatus_to_exitcode(self._end())
            stdout, stderr = map(bytes, output.values())
            return ProcessResult(code, stdout, stderr, reason == "timeout", reason == "limit")

        def _pump(self, output: dict[int, bytearray]) -> str:
            """Move bytes until both outputs end; the reason to stop early, or ""."""
            poll = select.poll()
            open_outputs = set(output)
            for descriptor in open_outputs:
                poll.register(descriptor, select.POLLIN)
            if self._stdin >= 0:
                poll.register(self._stdin, select.POLLOUT)
            while open_outputs:
                remaining = self._deadline - monotonic()
                if remaining <= 0:
                    return "timeout"
                for descriptor, _ in poll.poll(remaining * 1000):
                    if descriptor == self._stdin:
                        self._feed()
                        if self._stdin < 0:
                            poll.unregister(descriptor)
                        continue
                    chunk = os.read(descriptor, _CHUNK)
                    if not chunk:
                        poll.unregister(descriptor)
                        open_outputs.discard(descriptor)
                    output[descriptor] += chunk
                    if len(output[descriptor]) > self._limit:
                        del output[descriptor][self._limit :]
                        return "limit"
            return ""

        def _wait(self) -> str:
            """Wait for the end of a command that has closed its outputs; "timeout", or ""."""
            if self._stdin >= 0:
                os.close(self._stdin)
                self._stdin = -1
            poll = select.poll()
            with suppress(AttributeError, OSError):  # not Linux, or not allowed
                self._handle = os.pidfd_open(self._pid)
                poll.register(self._handle, select.POLLIN)
            while True:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
                if pid:
                    self._pid, self._status = -1, status
                    return ""
                remaining = self._deadline - monotonic()
                if remaining <= 0:
                    return "timeout"
                poll.poll(remaining * 1000 if self._handle >= 0 else 1)

else:
    Child = PortableChild

    def defer() -> set[int]:
        """Windows cannot block signals."""
        return set()

    def undefer(before: set[int]) -> None:
        """See ``defer``."""
