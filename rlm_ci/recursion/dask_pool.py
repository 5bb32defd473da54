"""An executor on a Dask cluster.

The driver reads the files and keeps journals and budgets; a worker gets the text of a leaf, and
returns JSON. The leaves of a lost worker go to another one.
"""

from __future__ import annotations

import logging
from concurrent.futures import Executor, Future

from distributed import Client

from rlm_ci import __version__
from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: Seconds to find the cluster, and a first worker of it.
_PATIENCE = 30


class DaskPool(Executor):
    """The workers of the cluster at ``address``, HOST:PORT.

    Raises RemoteError if there is none, ConfigError if its workers have another version.
    """

    def __init__(self, address: str, *, patience: float = _PATIENCE) -> None:
        # It reports lost connections with tracebacks.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        self._at = f"tcp://{address}"
        self._client: Client | None = None
        try:
            self._client = Client(self._at, timeout=patience, set_as_default=False)
            self._client.wait_for_workers(1, timeout=patience)
            versions = self._client.run(version)
        except (OSError, ValueError, TimeoutError) as error:
            self.shutdown(wait=False)
            raise RemoteError(
                f"the cluster does not answer: {printable(str(error))[:200]}",
                where=self._at,
                hint="see that its scheduler and at least one worker run, and can be reached",
            ) from None
        except ModuleNotFoundError as error:
            self.shutdown(wait=False)
            raise _other(f"no {error.name}", self._at) from None
        others = {str(release) for release in versions.values()} - {__version__}
        if others:
            self.shutdown(wait=False)
            raise _other(f"version {min(others)}", self._at)
        #: Leaves at a time.
        self.count = max(1, sum(self._client.nthreads().values()))
        self._executor = self._client.get_executor(pure=False)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = self._executor.submit(fn, *args, **kwargs)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 - the signature of an Executor
        """Leave the cluster, which keeps running; work in progress there is given up."""
        if self._client is not None:
            self._client.close(timeout=2)
            self._client = None


def version() -> str:
    """The version of rlm-ci; called on each worker."""
    return __version__


def _other(what: str, where: str) -> ConfigError:
    return ConfigError(
        f"the workers of the cluster have {printable(what)[:80]}, and we {__version__}",
        where=where,
        hint="install the same version of rlm-ci, and the same analyzers, everywhere",
    )
