"""A Python session that outlives its blocks: what the environment uses of it.

A session runs blocks of code on the same variables, one after the other. Whatever the code does,
``execute`` returns. ``pool.SessionPool`` opens sessions.
"""

from __future__ import annotations

import threading

from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    #: A function of the host for the code inside: gets and returns what JSON can say. A ValueError
    #: or an RlmCiError that it raises is raised inside, as ValueError or RuntimeError.
    HostFunction = Callable[[list[Any], dict[str, Any]], Any]

    class ReplSession(Protocol):
        """Variables that blocks of code work on. Not for two threads at once, but for ``close``.

        ``name`` is that of the sandbox, as in the settings; ``isolated`` is false without one.
        """

        name: str
        isolated: bool

        def execute(self, code: str, *, seconds: float) -> BlockResult:
            """Run one block for at most ``seconds``, in which the host answers no call."""

        def close(self) -> None:
            """End all that the session has started. A running ``execute`` returns."""


class LockedSession(Closing):
    """What the sessions of both sandboxes share: a block at a time, and an end that waits for it.

    ``close`` may come from another thread, or from a function that the block calls.
    """

    def __init__(self) -> None:
        self._closed = False
        self._lock = threading.RLock()
        self._running = False

    def execute(self, code: str, *, seconds: float) -> BlockResult:
        with self._lock:
            self._running = True
            try:
                return self._execute(code, seconds)
            finally:
                self._running = False
                if self._closed:
                    self._end()

    def close(self) -> None:
        self._closed = True
        self._stop()
        with self._lock:
            if not self._running:  # else it is the end of it that does this
                self._end()

    def _execute(self, code: str, seconds: float) -> BlockResult:
        raise NotImplementedError

    def _stop(self) -> None:
        """Make a block that runs end."""
        raise NotImplementedError

    def _end(self) -> None:
        """End all that the session has started, once no block runs."""
        raise NotImplementedError


#: Names that every session has, beside its context and the functions of the host.
RESERVED = ("answer", "SHOW_VARS", "FINAL", "FINAL_VAR", "SUBMIT")


class SessionLimits(Value):
    """How much a session may use. ``seconds`` are its own processor time; the rest are bytes."""

    memory: int = 2 << 30
    scratch: int = 256 << 20
    processes: int = 64
    seconds: int = 3600
    #: The file of the context.
    context: int = 512 << 20
    #: What is kept of that which a block prints.
    output: int = 64 << 10
    error: int = 8 << 10
    answer: int = 1 << 20
    #: One call of a function of the host.
    request: int = 64 << 20
    #: All variables together, as they are kept.
    state: int = 256 << 20
    #: Seconds to keep them after a block.
    saving: float = 20.0


class BlockResult(Value):
    """What came of one block.

    ``output`` is what it printed, stdout and stderr in order, with a line in the place of what was
    left out. ``error`` is the end of a traceback, or why the block was stopped; "" if it came to
    its end. ``answer`` is set once the code says that it is ready. ``variables`` are those of the
    code: name, type, and length or else size.

    ``state`` is what this block has changed of the variables, b"" for nothing: all states of a
    session, in order, restore it. ``state_error`` says which variables are not kept any more,
    and why.
    ``restarted`` says why the worker was lost: then all variables are as before the block.
    """

    output: str
    error: str
    answer: str | None
    seconds: float
    variables: tuple[tuple[str, str, int], ...]
    state: bytes
    state_error: str = ""
    restarted: str = ""
