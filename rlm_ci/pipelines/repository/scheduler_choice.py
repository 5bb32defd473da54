"""Who does the leaves of a recursion, and in which order: what ``--scheduler`` says."""

from __future__ import annotations

from rlm_ci.errors import ConfigError
from rlm_ci.recursion.scheduler import BFS, ORDERS
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.settings import Settings


class SchedulerAddress(Value):
    """What ``--scheduler`` says: the order of the work, and HOST:PORT of a cluster, if any."""

    order: str
    cluster: str | None = None


def address(settings: Settings) -> SchedulerAddress:
    """Raises ConfigError for what is neither an order nor a cluster."""
    text: str = settings.recursion.scheduler
    if text in ORDERS:
        return SchedulerAddress(text)
    scheme = "dask://"
    place, _, query = text.removeprefix(scheme).partition("?")
    host, _, port = place.rstrip("/").rpartition(":")
    order = query.removeprefix("order=") if query else BFS
    is_place = text.startswith(scheme) and host and port.isascii() and port.isdigit()
    if not is_place or order not in ORDERS or not 0 < int(port) < 1 << 16:
        raise ConfigError(
            f"there is no scheduler {text[:80]!r}",
            where=settings.sources["recursion.scheduler"],
            hint=f"one of {', '.join(ORDERS)}; or dask://HOST:PORT, also with ?order=dfs",
        )
    return SchedulerAddress(order, f"{host}:{port}")
