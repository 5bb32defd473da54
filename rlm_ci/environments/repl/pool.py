"""Opens sessions in the sandbox that a user has chosen."""

from __future__ import annotations

import os
from threading import Lock

from rlm_ci.environments.repl import context_file
from rlm_ci.environments.repl.cpython import CPythonSession, CPythonWorkers
from rlm_ci.environments.repl.monty import MontySession
from rlm_ci.environments.repl.session import RESERVED, SessionLimits
from rlm_ci.environments.repl.states import CPYTHON, merged
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.sandbox import choose, monty
from rlm_ci.system import installation
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from rlm_ci.environments.repl.session import HostFunction, ReplSession
    from rlm_ci.sandbox.job import Sandbox

#: What ``sandbox`` may be; ``none`` is never chosen for a user.
SANDBOXES = ("auto", "bubblewrap", "monty", "none")


class SessionPool(Closing):
    """Sessions in one sandbox, which is tried once; a worker for the next waits ready.

    ``sandbox`` is ``auto``, ``bubblewrap``, ``monty`` or ``none``. Raises ConfigError where it does
    not hold, UnavailableError for what is not installed.
    """

    def __init__(
        self,
        sandbox: str,
        *,
        environ: Mapping[str, str],
        limits: SessionLimits = SessionLimits(),  # noqa: B008 - immutable
        ahead: bool = True,
    ) -> None:
        self._limits = limits
        self._held: CPythonWorkers | monty.MontyInterpreters
        chosen = _sandbox(sandbox, environ)
        if chosen is None:
            self._held, self._maker = monty.MontyInterpreters(), f"monty-{monty.version()}"
        else:
            self._held, self._maker = CPythonWorkers(chosen, limits, ahead=ahead), CPYTHON
        self.name = "monty" if chosen is None else chosen.name
        self.isolated = chosen is None or chosen.isolated

    def open(
        self,
        *,
        context: str | None = None,
        context_name: str = "context",
        functions: Mapping[str, HostFunction] | None = None,
        states: Iterable[bytes] = (),
        submit: Callable[[Callable[[], None]], object] | None = None,
    ) -> ReplSession:
        """A session whose variable ``context_name`` is the text of the file ``context``.

        ``states`` are those of the blocks that it goes on from. ``submit`` runs what it is given,
        on another thread if it likes: so calls of ``functions`` are answered, by default one after
        the other by ``execute`` itself. Raises ConfigError for the context, DamagedError for the
        states.
        """
        functions = dict(functions or {})
        for name in (context_name, *functions):
            if not name.isidentifier() or name in RESERVED or name.startswith("__"):
                raise ValueError(f"{name!r} cannot be the name of a variable of a session")
        parts = merged(self._maker, states)
        limit = self._limits.context
        if isinstance(self._held, CPythonWorkers):
            pinned = None if context is None else context_file.pinned(context, limit)
            try:
                return CPythonSession(
                    self._held,
                    context=pinned,
                    context_name=context_name,
                    functions=functions,
                    parts=parts,
                    submit=submit,
                )
            except BaseException:
                if pinned is not None:
                    os.close(pinned)
                raise
        return MontySession(
            self._held,
            self._limits,
            maker=self._maker,
            values={} if context is None else {context_name: context_file.text(context, limit)},
            functions=functions,
            dump=b"".join(parts.values()),
        )

    def close(self) -> None:
        """End the worker that waits; sessions end by their own ``close``."""
        self._held.close()


def _sandbox(name: str, environ: Mapping[str, str]) -> Sandbox | None:
    """The sandbox for CPython, or None for monty. Raises ConfigError."""
    if name not in SANDBOXES:
        raise ConfigError(
            f"there is no sandbox {name!r}", hint=f"there are: {', '.join(SANDBOXES)}"
        )
    if name == "monty":
        return None
    try:
        return choose(name, environ)
    except ConfigError as error:
        if name != "auto":
            raise
        if monty.is_installed():
            return None
        hint = f"{error.hint}; or install pydantic-monty: {installation.command('monty')}"
        raise ConfigError(error.what, where=error.where, hint=hint) from None


class Sessions(Closing):
    """Opens sessions in ``sandbox``, which starts with the first; a replay opens none."""

    def __init__(self, sandbox: str, environ: Mapping[str, str], *, replay: bool) -> None:
        self.sandbox = sandbox
        self._environ = environ
        self._replay = replay
        self._pool: SessionPool | None = None
        self._lock = Lock()

    def keep_to(self, began: str, run_id: str) -> None:
        """Use the sandbox that a run began with, by its record, which may come from anywhere.

        Raises ConfigError for ``none``, unless that is asked for now.
        """
        if began == "none" and self.sandbox != "none" and not self._replay:
            raise ConfigError(
                "the run began without a sandbox",
                where=run_id,
                hint=f"if you want that, repeat it: rlm-ci resume {run_id} --sandbox none",
            )
        self.sandbox = began

    def pool(self) -> SessionPool:
        with self._lock:
            if self._replay:
                raise UnavailableError(
                    "a replay runs no code, but the record lacks a block",
                    hint="replay with the version and the settings that the run had",
                )
            if self._pool is None:
                self._pool = SessionPool(self.sandbox, environ=self._environ)
            return self._pool

    def open(self, **arguments: Any) -> ReplSession:
        return self.pool().open(**arguments)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.close()
