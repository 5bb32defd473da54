"""Opens sessions in the sandbox that a user has chosen."""

from __future__ import annotations

from rlm_ci.environments.repl.cpython import CPythonSession, CPythonWorkers
from rlm_ci.environments.repl.session import RESERVED, SessionLimits
from rlm_ci.sandbox import choose
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rlm_ci.environments.repl.session import HostFunction, ReplSession


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
        chosen = choose("none" if sandbox == "none" else "bubblewrap", environ)
        self._workers = CPythonWorkers(chosen, limits, ahead=ahead)
        self.name, self.isolated = chosen.name, chosen.isolated

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
        return CPythonSession(
            self._workers,
            context=context,
            context_name=context_name,
            functions=functions,
            before=states,
            submit=submit,
        )

    def close(self) -> None:
        """End the worker that waits; sessions end by their own ``close``."""
        self._workers.close()
