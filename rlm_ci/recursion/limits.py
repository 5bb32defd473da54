"""The limits of a recursion, and how it proceeds."""

from __future__ import annotations

from rlm_ci.recursion import scheduler
from rlm_ci.recursion.split import tree
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Budget(Value):
    """The limits of a run besides its ledger's; None is no limit.

    ``calls_left`` gives the calls that the ledger has left; below ``reserve`` no node is split.
    """

    max_depth: int = 12
    minutes: float | None = None
    reserve: int = 0
    calls_left: Callable[[], int | None] | None = None


class Constraints(Value):
    """How a run proceeds. The results depend on ``shape`` and ``min_confidence`` alone."""

    order: str = scheduler.BFS
    concurrency: int = 8
    attempts: int = 2
    min_confidence: float = 0.25
    shape: tree.TreeShape = tree.TreeShape()
