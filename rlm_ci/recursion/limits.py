"""What a recursion may use, and how it goes about it."""

from __future__ import annotations

from rlm_ci.recursion import scheduler
from rlm_ci.recursion.split import tree
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Budget(Value):
    """What a run may use besides what its ledger allows; None is no limit.

    ``calls_left`` tells how many calls a model can still be asked: a node is not split any more
    where they are fewer than ``reserve``.
    """

    max_depth: int = 12
    minutes: float | None = None
    reserve: int = 0
    calls_left: Callable[[], int | None] | None = None


class Constraints(Value):
    """How a run goes about it. The results depend on the shape and on ``min_confidence`` alone."""

    order: str = scheduler.BFS
    concurrency: int = 8
    attempts: int = 2
    min_confidence: float = 0.25
    shape: tree.TreeShape = tree.TreeShape()
