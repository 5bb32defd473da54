"""pydantic-monty: an interpreter of a part of Python, made to run what a model wrote.

It runs no commands, and nothing protects the machine from a fault of the interpreter.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress

from rlm_ci.errors import UnavailableError
from rlm_ci.sandbox.job import Probe
from rlm_ci.system import installation
from rlm_ci.text.printable import printable
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_MOST_SAID = 120
LEVEL = "language-level only"
#: Source, and whether it must work: without the first, the refusal of the others says nothing.
_ATTEMPTS = (
    ("start", "Python runs", "sum(range(10)) - 45", True),
    ("files", "no file can be read", "open('/etc/passwd').read()", False),
    ("import", "no module reaches the system", "import os\nos.system('true')", False),
    ("socket", "there are no sockets", "import socket\nsocket.socket()", False),
    ("classes", "no way through the classes", "().__class__.__base__.__subclasses__()", False),
    ("time", "a limit on time holds", "while True:\n    pass", False),
    ("memory", "a limit on memory holds", "x = 'x' * (1 << 30)", False),
)
#: Processes at once.
_MOST = 1024
#: Calls of functions of the host in one block; without a number it would be a thousand.
_CALLS = 1 << 30


class CodeError(Exception):
    """What the code has raised, as a traceback."""


class LostInterpreterError(Exception):
    """The process of the interpreter has ended."""


def is_installed() -> bool:
    try:
        _library()
    except UnavailableError:
        return False
    return True


def version() -> str:
    """The version installed: no other need read its dumps."""
    return str(_library().__version__)


def _library() -> Any:
    try:
        import pydantic_monty
    except ImportError:
        raise UnavailableError(
            "pydantic-monty is not installed", hint=installation.command("monty")
        ) from None
    return pydantic_monty


class MontyInterpreters(Closing):
    """Starts processes of the interpreter; the next one waits ready."""

    def __init__(self) -> None:
        self._pool = _library().Monty(max_processes=_MOST)
        self._pool.__enter__()

    def start(self, memory: int) -> MontyInterpreter:
        return MontyInterpreter(self._pool, memory)

    def close(self) -> None:
        self._pool.__exit__(None, None, None)


class MontyInterpreter(Closing):
    """One process: runs pieces of code on the same variables."""

    def __init__(self, pool: Any, memory: int) -> None:
        self._session = pool.checkout(
            limits={"max_memory": memory, "max_suspensions": _CALLS},
            os_policy={"sleep": "zero"},  # else it is we who sleep, whatever ``kill`` does
        )
        self._session.__enter__()
        self._pid: int = self._session.worker_pid or 0
        with suppress(AttributeError, OSError):  # not Linux: the number must do
            self._handle = os.pidfd_open(self._pid)

    _handle = -1

    def run(
        self,
        code: str,
        *,
        values: Mapping[str, Any] | None = None,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        on_output: Callable[[str], object] | None = None,
    ) -> Any:
        """The value of the last expression. Raises CodeError, LostInterpreterError.

        ``values`` become variables. A function is found by its ``__name__``.
        """
        library = _library()
        lookup = dict(functions or {})
        try:
            return self._session.feed_run(
                code,
                inputs={**lookup, **(values or {})},
                external_lookup=lookup,
                print_callback=lambda _stream, text: on_output and on_output(text),
            )
        except (library.MontyRuntimeError, library.MontySyntaxError) as error:
            raise CodeError(error.display()) from None
        except (library.MontyConversionError, RecursionError) as error:
            raise CodeError(f"{type(error).__name__}: {error}") from None
        except (library.MontyError, RuntimeError) as error:  # killed, or closed meanwhile
            raise LostInterpreterError(str(error)) from None

    def dump(self) -> bytes:
        """All variables. Raises LostInterpreterError."""
        try:
            return bytes(self._session.dump())
        except (_library().MontyError, RuntimeError) as error:
            raise LostInterpreterError(str(error)) from None

    def load(self, state: bytes) -> None:
        """Go on from a dump. Raises LostInterpreterError."""
        try:
            self._session.load_session(state)
        except (_library().MontyError, RuntimeError) as error:
            raise LostInterpreterError(str(error)) from None

    def kill(self) -> None:
        """End its process, from any thread: what runs raises LostInterpreterError."""
        with suppress(OSError):  # ended already
            if self._handle >= 0:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            else:
                os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        with suppress(Exception):  # it may have been lost
            self._session.__exit__(None, None, None)
        handle, self._handle = self._handle, -1
        if handle >= 0:
            os.close(handle)


def probe() -> tuple[Probe, ...]:
    """Each attempt in a session of its own; one that says what is missing, if it is."""
    try:
        import pydantic_monty
    except ImportError:
        detail = f"not installed: {installation.command('monty')}"
        return (Probe("start", "Python runs", passed=False, detail=detail),)
    probes: list[Probe] = []
    for name, title, source, works in _ATTEMPTS:
        passed, detail = False, "works"
        try:
            with (
                pydantic_monty.Monty(request_timeout=10) as pool,
                pool.checkout(
                    limits={"max_feed_duration_secs": 0.5, "max_memory": 64 << 20}
                ) as session,
            ):
                session.feed_run(source)
        except Exception as error:  # noqa: BLE001 - whatever it raises is its answer
            # A refusal is an error of its own; any other says that it could not even be asked.
            refused = type(error).__module__.partition(".")[0] == "pydantic_monty"
            passed, detail = refused and not works, f"{type(error).__name__}: {error}"
        else:
            passed = works
        probes.append(Probe(name, title, passed, printable(detail)[:_MOST_SAID]))
        if works and not passed:
            break  # the rest would prove nothing
    return tuple(probes)
