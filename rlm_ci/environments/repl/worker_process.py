"""A worker in its sandbox: process, output, calls to answer, and the frames of its channel.

A frame is the sizes of its two parts, JSON, and a payload of bytes.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import suppress
from importlib.util import find_spec
from socket import socketpair

from rlm_ci.environments.repl.inside import worker
from rlm_ci.errors import ConfigError, RlmCiError, UnavailableError
from rlm_ci.sandbox.job import HOME, JobLimits, Mount, SandboxJob
from rlm_ci.sandbox.self_test import interpreter
from rlm_ci.system import installation
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from socket import socket
    from typing import Any

    from rlm_ci.environments.repl.session import HostFunction, SessionLimits
    from rlm_ci.sandbox.job import Sandbox
    from rlm_ci.system.process import StreamResult


_SIZES = 8
_CHUNK = 1 << 20
#: The fields of each kind of frame, with their types.
_FIELDS: dict[str, dict[str, tuple[type, ...]]] = {
    "ready": {},
    "call": {"id": (int,), "name": (str,), "args": (list,), "kwargs": (dict,)},
    "done": {"error": (str,), "answer": (str, type(None)), "variables": (list,)},
    "state": {"parts": (list,), "removed": (list,), "problem": (str,)},
}
#: JSON of one frame, but for calls, which may have more.
_MOST_JSON = 16 << 20
_HIGHEST = 1 << 53


class BrokenFrameError(Exception):
    """What came from the worker is no frame, or none that it may send now."""


class Frame(Value):
    kind: str
    fields: dict[str, Any]
    payload: bytes = b""


class Channel:
    """The host's end of a socket, which never waits."""

    def __init__(self, end: socket, *, most_json: int, most_payload: int) -> None:
        end.setblocking(False)  # noqa: FBT003 - it has no name
        self._end = end
        self._most_json = max(most_json, _MOST_JSON)
        self._most_payload = most_payload
        self._taken = bytearray()
        self._waiting: list[memoryview] = []

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, header: dict[str, Any], *payload: bytes) -> None:
        """Send a frame, as far as the other side takes it; the rest by ``flush``."""
        data = json.dumps(header).encode("ascii")
        sizes = len(data).to_bytes(4, "big") + sum(map(len, payload)).to_bytes(4, "big")
        self._waiting += map(memoryview, (sizes + data, *payload))
        self.flush()

    def flush(self) -> bool:
        """Send more of what waits; whether some still does."""
        try:
            while self._waiting:
                left = self._waiting[0][self._end.send(self._waiting[0][:_CHUNK]) :]
                self._waiting[:1] = [left] if left else []
        except BlockingIOError:
            return True
        except OSError:  # it is gone: what is to be read says so
            self._waiting.clear()
        return False

    def receive(self) -> Iterator[Frame]:
        """The next of the frames that have come: only so many, since there is no end to them.

        Raises BrokenFrameError, and EOFError when it is closed.
        """
        try:
            chunk = self._end.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            raise EOFError from None
        if not chunk:
            raise EOFError
        self._taken += chunk
        yield from self._frames()

    def _frames(self) -> Iterator[Frame]:
        while len(self._taken) >= _SIZES:
            length = int.from_bytes(self._taken[:4], "big")
            size = int.from_bytes(self._taken[4:_SIZES], "big")
            if length > self._most_json or size > self._most_payload:
                raise BrokenFrameError("a frame is too large")
            if len(self._taken) < _SIZES + length + size:
                return
            data = bytes(self._taken[_SIZES : _SIZES + length])
            payload = bytes(memoryview(self._taken)[_SIZES + length : _SIZES + length + size])
            del self._taken[: _SIZES + length + size]
            yield _parsed(data, payload)


def _parsed(data: bytes, payload: bytes) -> Frame:
    try:
        fields = json.loads(data.decode("utf-8"), parse_constant=_refuse)
        if b"\\u" in data:  # a lone half of a pair cannot be written anywhere
            json.dumps(fields, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError):
        raise BrokenFrameError("a frame is not JSON") from None
    kind = fields.pop("type", None) if isinstance(fields, dict) else None
    expected = _FIELDS.get(kind) if isinstance(kind, str) else None
    if expected is None or fields.keys() != expected.keys():
        raise BrokenFrameError("a frame is of no known kind")
    if not all(type(fields[name]) in kinds for name, kinds in expected.items()):
        raise BrokenFrameError("a field of a frame has another type")
    if payload and kind != "state":
        raise BrokenFrameError("a frame has a payload, which only a state may have")
    return Frame(str(kind), fields, payload)


def _refuse(name: str) -> None:
    raise ValueError(name)


def is_count(value: object) -> bool:
    """Whether a field is a number from 0 up, of a size that JSON readers agree on."""
    return type(value) is int and 0 <= value <= _HIGHEST


#: Where the sandbox shows this folder, and the library that pickles.
_SCRIPTS, _LIBRARY = "/repl/inside", "/repl/cloudpickle"
_START = (
    "import sys; ours, theirs = sys.argv[1:]; sys.path += ours, theirs; from inside import worker; "
    "sys.path.remove(ours); sys.argv = ['']; worker.main()"
)
_OPTIONS = ("-I", "-S", "-B", "-X", "utf8", "-c")
#: Seconds that all blocks of a session may take together.
_WALL = 7 * 24 * 3600.0
#: Seconds for a process that has closed its channel to end by itself.
_ENDING = 1.0
#: Calls that wait for an answer at once.
MOST_CALLS = 256
_REASONS = {
    "memory": "The processes of the block used more than {memory} MiB of memory and were stopped",
    "processes": "The block started more than {processes} processes and threads and was stopped",
    "disk": "The block wrote more than {scratch} MiB and was stopped",
}


class WorkerProcess:
    """One worker, from its start to its end. It waits for a session at first."""

    def __init__(self, sandbox: Sandbox, limits: SessionLimits) -> None:
        self._sandbox = sandbox
        self._limits = limits
        job = _job(sandbox, limits)
        socket, self._its = socketpair()
        self.channel = Channel(socket, most_json=limits.request, most_payload=limits.state)
        self._end = socket
        self.output, self._its_output = os.pipe()
        self._stop, self._stopping = os.pipe()
        self.alarm, self._wake = os.pipe()
        for descriptor in (self.output, self.alarm, self._wake):
            os.set_blocking(descriptor, False)
        inherited = {worker.CHANNEL: self._its.fileno(), worker.OUTPUT: self._its_output}
        self._job = job.replace(inherited=inherited)
        self._ended: StreamResult | None = None
        self._failure: Exception | None = None
        self._lock = threading.Lock()
        self._is_closed = False
        self.is_ready = False
        self.calls: dict[int, str] = {}
        self._answers: list[dict[str, Any]] = []
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._ended = self._sandbox.run(self._job, stop=self._stop)
        except Exception as error:  # noqa: BLE001 - raised again by whoever waits
            self._failure = error
        finally:
            self._close_its()

    def _close_its(self) -> None:
        """Close the worker's ends, which it has of its own: so that we see when it closes them."""
        with self._lock:
            self._its.close()
            its, self._its_output = self._its_output, -1
        if its >= 0:
            os.close(its)

    def begin(
        self,
        functions: dict[str, HostFunction],
        submit: Callable[[Callable[[], None]], object],
        context: int | None,
    ) -> None:
        """Become the worker of a session with the file ``context``."""
        from socket import send_fds  # not on Windows

        self._functions = functions
        self._submit = submit
        with suppress(OSError):  # it has ended: its channel says so
            send_fds(self._end, [b"\0"], [] if context is None else [context])

    def ready(self) -> None:
        self.is_ready = True
        self._close_its()

    def call(self, frame: Frame) -> None:
        """Have a call answered. Raises BrokenFrameError."""
        number, name = frame.fields["id"], frame.fields["name"]
        if not is_count(number) or number in self.calls or len(self.calls) >= MOST_CALLS:
            raise BrokenFrameError("a call has a number that it cannot have")
        if name not in self._functions:
            raise BrokenFrameError("a call is of no known function")
        self.calls[number] = name
        self._submit(lambda: self._answer(number, name, frame.fields))

    def _answer(self, number: int, name: str, fields: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"type": "answer", "id": number}
        try:
            answer["value"] = self._functions[name](fields["args"], fields["kwargs"])
        except RlmCiError as error:
            answer.update(kind="RuntimeError", error=str(error))
        except ValueError as error:
            answer.update(kind="ValueError", error=str(error))
        except BaseException as error:  # noqa: BLE001 - raised where the block is run
            self._fault = error
        with self._lock:
            if not self._is_closed:
                self._answers.append(answer)
                with suppress(BlockingIOError):  # full of wakes
                    os.write(self._wake, b"\0")

    def send_answers(self) -> None:
        """Send what the functions have answered. Raises what one of them failed with."""
        with suppress(BlockingIOError):
            os.read(self.alarm, 1 << 12)
        if self._fault is not None:
            raise self._fault
        with self._lock:
            answers, self._answers = self._answers, []
        for answer in answers:
            del self.calls[answer["id"]]
            self.channel.send(answer)

    def stop(self) -> None:
        """Have it ended, from any thread: its channel closes."""
        with self._lock:
            if not self._is_closed:
                os.write(self._stopping, b"\0")

    def close(self, *, has_ended: bool = False) -> str:
        """End all that it has started; why the sandbox or its system ended it before.

        Raises what kept it from starting.
        """
        with self._lock:
            if self._is_closed:
                return ""
            self._is_closed = True
        if has_ended:
            self._thread.join(_ENDING)
        self._end.close()
        os.write(self._stopping, b"\0")
        self._thread.join()
        for descriptor in (self.output, self._stopping, self._stop, self.alarm, self._wake):
            os.close(descriptor)
        if not self.is_ready and has_ended:
            raise self._failure or self._unstarted()
        return self._why(by_itself=has_ended)

    def _unstarted(self) -> RlmCiError:
        output = printable(self._ended.output.text().strip())[-300:] if self._ended else ""
        return ConfigError(
            f"the Python of the session did not start: {output}",
            where=self._sandbox.name,
            hint="run rlm-ci doctor to see what is missing",
        )

    def _why(self, *, by_itself: bool) -> str:
        ended = self._ended
        if ended is None:
            return ""
        if ended.reason in _REASONS:
            return _REASONS[ended.reason].format(
                memory=self._limits.memory >> 20,
                processes=self._limits.processes,
                scratch=self._limits.scratch >> 20,
            )
        if ended.reason or not by_itself:
            return ""
        code = ended.returncode
        number = code - 128 if code > 128 else -code
        if number > 0:
            with suppress(ValueError):
                return f"The Python process was ended by {signal.Signals(number).name}"
        return f"The Python process ended with exit code {code}"


def _job(sandbox: Sandbox, limits: SessionLimits) -> SandboxJob:
    spec = find_spec("cloudpickle")
    if spec is None or spec.origin is None:
        raise UnavailableError("cloudpickle is not installed", hint=installation.command("repl"))
    script = os.path.dirname(os.path.realpath(worker.__file__))
    library = os.path.dirname(os.path.realpath(spec.origin))
    program, mounts = interpreter()
    seen = (_SCRIPTS, _LIBRARY) if sandbox.isolated else (script, library)
    return SandboxJob(
        (program, *_OPTIONS, _START, *map(os.path.dirname, seen)),
        cwd=HOME,
        mounts=(*mounts, Mount(script, _SCRIPTS), Mount(library, _LIBRARY)),
        limits=JobLimits(
            wall=_WALL,
            cpu=limits.seconds,
            memory=limits.memory,
            file_size=limits.scratch,
            processes=limits.processes,
            scratch=limits.scratch,
        ),
        keep=64 << 10,
    )
