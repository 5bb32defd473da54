"""``rlm-ci`` in a process of its own, forked from one that has read all of its code already.

To start Python and to read a client for models takes up to a second, and thousands of tests call
the program. So each worker of the tests has a nursery: a process that has imported what there is,
has compiled the templates, and has run nothing. A call forks it; the child has its own folder,
environment and standard streams, runs ``rlm_ci.__main__.main`` and ends as every process of ours
does. What a fresh interpreter decides at its start (encodings, isolation, loaded libraries) is the
nursery's: a call that asks for others is started afresh, and so are all with which a test wants to
be alone with a process: those are its own affair (``subprocess``).
"""

from __future__ import annotations

import atexit
import os
import pickle
import re
import select
import selectors
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _typeshed import FileDescriptorLike

#: What is decided when an interpreter starts: another value needs another interpreter.
_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "TZ", "MALLOC_", "GCONV", "GLIBC_")
_STATUS = 8
#: What fits into a pipe that nobody reads yet.
_ROOM = 32 << 10


_FSYNC = os.fsync  # a pipe still says that it cannot be synced


def wait_for_no_disk() -> None:
    """From now on this process, and what it forks, waits for no disk: no test cuts the power, and
    what is written, every process reads. What a disk that fails does is shown by strace, on
    processes that are started afresh.
    """
    os.fsync = os.fdatasync = _sync


def _sync(fd: FileDescriptorLike) -> None:
    mode = os.stat(fd if isinstance(fd, int) else fd.fileno()).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        _FSYNC(fd)


class Nursery:
    """One that is running; it ends with the process that made it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._way = ours
        self._lock = threading.Lock()
        self._began = _at_start(os.environ)
        with theirs:
            argv = [sys.executable, "-I", __file__, str(theirs.fileno())]
            # It forks, and is no child of ours: tests look at what they have left behind.
            subprocess.run(argv, pass_fds=[theirs.fileno()], cwd="/", check=True)
        atexit.register(ours.close)

    def fits(self, env: Mapping[str, str]) -> bool:
        """Whether a process with this environment may come from here."""
        return _at_start(env) == self._began

    def run(
        self,
        argv: list[str | bytes],
        *,
        cwd: os.PathLike[str] | str,
        env: Mapping[str, str],
        stdin: bytes,
        timeout: float,
    ) -> tuple[int, bytes, bytes]:
        """Exit code, standard output and error. Raises TimeoutExpired, as subprocess does."""
        forked = self.start(argv, cwd=cwd, env=env, stdin=stdin)
        out, err = forked.communicate(timeout)
        return forked.wait(), out, err

    def start(
        self,
        argv: list[str | bytes],
        *,
        cwd: os.PathLike[str] | str,
        env: Mapping[str, str],
        stdin: bytes = b"",
        start_new_session: bool = False,
    ) -> Forked:
        """A process that is under way."""
        folder = os.open(cwd, os.O_RDONLY | os.O_DIRECTORY)
        source, sink = os.pipe()
        out, theirs_out = os.pipe()
        err, theirs_err = os.pipe()
        ours, theirs = socket.socketpair()
        lent = [theirs.detach(), source, theirs_out, theirs_err, folder]
        try:
            with self._lock:
                socket.send_fds(self._way, [b"."], lent)
        finally:
            for one in lent:
                os.close(one)
        asked = pickle.dumps((argv, dict(env), start_new_session))
        ours.sendall(len(asked).to_bytes(_STATUS, "little") + asked)
        child = int.from_bytes(_exactly(ours, _STATUS), "little")
        _feed(sink, stdin)
        return Forked(argv, child, ours, out, err)


class Forked:
    """A process from the nursery: what tests use of ``subprocess.Popen``."""

    def __init__(
        self, argv: list[str | bytes], pid: int, way: socket.socket, out: int, err: int
    ) -> None:
        self.args = argv
        self.pid = pid
        self.returncode: int | None = None
        self._way = way
        self._pipes = out, err
        self._told: tuple[bytes, bytes] | None = None
        self._reading, self._ending = threading.Lock(), threading.Lock()

    def poll(self) -> int | None:
        """Its exit code, a negative signal for a death by one; None while it runs."""
        with self._ending:
            if self.returncode is None and self._has_status(0):
                status = int.from_bytes(_exactly(self._way, _STATUS), "little")
                self.returncode = os.waitstatus_to_exitcode(status)
                self._way.close()
        return self.returncode

    def wait(self) -> int:
        while (code := self.poll()) is None:
            self._has_status(100)
        return code

    def _has_status(self, milliseconds: int) -> bool:
        waiting = select.poll()
        with suppress(ValueError):  # somebody else has read it, and closed the way
            waiting.register(self._way, select.POLLIN)
        return bool(waiting.poll(milliseconds))

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float = float("inf")) -> tuple[bytes, bytes]:
        """Standard output and error, once it has ended. Raises TimeoutExpired, and kills it."""
        with self._reading:
            if self._told is None:
                try:
                    self._told = _read(*self._pipes, time.monotonic() + timeout)
                except TimeoutError:
                    self.kill()
                    raise subprocess.TimeoutExpired(self.args, timeout) from None
                finally:
                    for one in self._pipes:
                        os.close(one)
                    self.wait()
        return self._told


@cache
def nursery() -> Nursery:
    """The one of this process. Two would be made if a conftest.py kept it: that is imported as
    pytest's plugin, and once more by the tests that say ``from conftest import Cli``.
    """
    return Nursery()


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_AT_START)}


def _exactly(way: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = way.recv(size - len(data))
        if not more:
            raise EOFError("the nursery has ended")
        data += more
    return data


def _feed(sink: int, data: bytes) -> None:
    """Write all of ``data``, beside us where nobody may read it for now."""

    def write() -> None:
        try:
            with open(sink, "wb", buffering=0) as stream:
                rest = memoryview(data)
                while rest:
                    rest = rest[stream.write(rest) :]
        except BrokenPipeError:  # who ends early has not read it all
            pass

    if len(data) <= _ROOM:
        write()
    else:
        threading.Thread(target=write, daemon=True).start()


def _read(out: int, err: int, deadline: float) -> tuple[bytes, bytes]:
    """All that is written to both until nobody has them open. Raises TimeoutError."""
    told: dict[int, list[bytes]] = {out: [], err: []}
    with selectors.DefaultSelector() as waiting:
        for one in told:
            waiting.register(one, selectors.EVENT_READ)
        while waiting.get_map():
            left = max(0.0, deadline - time.monotonic())
            ready = waiting.select(None if left == float("inf") else left)
            if not ready:
                raise TimeoutError
            for key, _ in ready:
                block = os.read(key.fd, 1 << 16)
                if block:
                    told[key.fd].append(block)
                else:
                    waiting.unregister(key.fd)
    return b"".join(told[out]), b"".join(told[err])


# ── the nursery itself, and its children ──

#: Read ahead for none: who wants one of these reads it alone. What is mapped here is paid for by
#: each child, for to fork copies the table of all pages, and to end takes it apart.
_LEFT_OUT = {"rlm_ci.__main__", "rlm_ci.recursion.dask_pool"}


def _serve(way: socket.socket) -> None:
    """Fork for each call, until nobody is left who could make one."""
    _read_ahead()
    ended, wakes = socket.socketpair()
    ended.setblocking(False)
    wakes.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)  # heard, or nothing would be written
    signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    asking: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as waiting:
        waiting.register(way, selectors.EVENT_READ)
        waiting.register(ended, selectors.EVENT_READ)
        while True:
            ready = [key.fileobj for key, _ in waiting.select()]
            if ended in ready:
                ended.recv(1 << 12)
                _tell_ends(asking)
            if way in ready:
                _, lent, _, _ = socket.recv_fds(way, 1, 8)
                if not lent:
                    return
                child = os.fork()
                if child == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    _begin(*lent)
                asking[child] = socket.socket(fileno=lent[0])
                _say(asking[child], child)
                for one in lent[1:]:
                    os.close(one)


def _read_ahead() -> None:
    """Import what a call may need, and run none of it."""
    import gc
    import importlib
    import pkgutil

    import rlm_ci

    for found in pkgutil.walk_packages(rlm_ci.__path__, "rlm_ci."):
        if found.name not in _LEFT_OUT:
            # One that cannot be read is the affair of the test whose call needs it.
            with suppress(Exception):
                importlib.import_module(found.name)
    for name in (
        "github", "jinja2.sandbox", "jsonschema", "pathspec", "tomllib", "unidiff", "httpx2",
        "genai_prices", "stringzilla", "orjson", "tempfile", "difflib", "traceback", "subprocess",
        "concurrent.futures", "multiprocessing.context", "openai.resources.chat.completions",
        "decimal", "base64", "random", "http.client", "urllib.request", "email.parser",
        "markdown_it", "httpcore2", "anyio.streams.tls", "genai_prices.data",
        "genai_prices.validation", "genai_prices.decompose", "regex", "tree_sitter",
        "tree_sitter_c", "tree_sitter_go", "tree_sitter_javascript", "tree_sitter_python",
        "encodings.ascii", "encodings.utf_16_le", "encodings.utf_8_sig",
    ):  # fmt: skip
        importlib.import_module(name)
    _compile_templates()
    # What these compile at their first use, and keep.
    from rlm_ci.guard.protected import by_name
    from rlm_ci.redaction.redactor import Redactor

    by_name.kind_of("setup.cfg")
    by_name.is_run_by_name("conftest.py")
    Redactor({}).text("-----END\n" + "basic ghp_sk-AKIA")
    # GitHub wants a second between two writes; ours on loopback does not, and nothing else of a
    # call waits for so long. tests/github/api/test_client.py has the second.
    from rlm_ci.github.api.client import RequestLimits

    RequestLimits.pause = 0.0
    wait_for_no_disk()
    gc.collect()
    gc.freeze()


def _compile_templates() -> None:
    """Where the program keeps those that it has compiled: half of what it does in most calls."""
    from rlm_ci.resources import loader

    top = Path(__file__).parents[2] / "templates"
    own = {path.relative_to(top).as_posix(): path.read_text("utf-8") for path in top.rglob("*.j2")}
    # Under the name by which a template imports another: Jinja keeps them by name.
    imported = re.findall(rf'"({loader.SHIPPED}[^"]+)"', "".join(own.values()))
    for name in {*own, *imported}:
        # One that does not compile is the affair of the test whose call needs it.
        with suppress(Exception):
            loader.load_template(name, autoescape=name.endswith(".html.j2"))


def _tell_ends(asking: dict[int, socket.socket]) -> None:
    """How each child ended that has, told to who asked for it."""
    while asking:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child == 0:
            return
        with asking.pop(child) as told:
            _say(told, status)


def _say(way: socket.socket, number: int) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):  # who asked has given up
        way.sendall(number.to_bytes(_STATUS, "little"))


def _begin(way: int, stdin: int, stdout: int, stderr: int, folder: int) -> NoReturn:
    """In the child: be the program that was asked for."""
    asking = socket.socket(fileno=way)
    size = int.from_bytes(_exactly(asking, _STATUS), "little")
    argv, env, new_session = pickle.loads(_exactly(asking, size))
    os.fchdir(folder)
    if new_session:
        os.setsid()
    for number, one in enumerate((stdin, stdout, stderr)):
        os.dup2(one, number)
    os.closerange(3, 256)
    asking.detach()
    _become(argv, env)
    raise AssertionError("the program does not return")


def _become(argv: list[Any], env: dict[str, str]) -> None:
    """Be the program."""
    os.environ.clear()
    os.environ.update(env)
    sys.argv = [os.fsdecode(one) for one in argv]
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        old = getattr(sys, name)
        new = open(  # noqa: SIM115 - the streams of a process are closed with it
            ("stdin", "stdout", "stderr").index(name),
            mode,
            encoding=old.encoding,
            errors=old.errors,
            closefd=False,
            buffering=1 if name == "stderr" else -1,
        )
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    from rlm_ci.__main__ import main

    main()


if __name__ == "__main__":
    if os.fork():
        os._exit(0)
    _serve(socket.socket(fileno=int(sys.argv[1])))
    os._exit(0)
