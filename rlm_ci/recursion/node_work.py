"""A node at work, and the errors of its attempts."""

from __future__ import annotations

import time

from rlm_ci import errors
from rlm_ci.recursion import tree_split
from rlm_ci.recursion.nodes import FAILED, SPLIT, NodeResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.recursion.nodes import LeafText, Node
    from rlm_ci.recursion.tree_split import Part

#: Errors that no other attempt fixes: they end the run.
_FATAL = (
    errors.UsageError, errors.ConfigError, errors.UnavailableError, errors.DamagedError,
    errors.LockedError, errors.StorageError,
)  # fmt: skip


_NONE = NodeResult("", FAILED, "", 0.0)


class NodeWork:
    """A node at work. Once it is split, it has ``sizes`` and ``results`` of its children."""

    __slots__ = (
        "attempt",
        "decision",
        "depth",
        "earlier_result",
        "errors",
        "id",
        "parent",
        "part",
        "position",
        "results",
        "sizes",
        "texts",
        "waiting",
    )  # fmt: skip

    def __init__(
        self, identifier: str, parent: NodeWork | None, position: int, depth: int, part: Part
    ) -> None:
        self.id = identifier
        self.parent = parent
        self.position = position
        self.depth = depth
        self.part = part
        self.attempt = 1
        #: The result of an earlier session, taken instead of a new one.
        self.earlier_result: NodeResult | None = None
        self.decision: tuple[str, str, float] | None = None
        self.texts: tuple[LeafText, ...] = ()
        self.errors: tuple[tuple[int, str, bool], ...] = ()

    def split(self, parts: Sequence[Part]) -> None:
        self.waiting = len(parts)
        self.results: list[NodeResult] = [_NONE] * len(parts)
        self.sizes = [part[6] for part in parts]

    @property
    def is_split(self) -> bool:
        return self.decision is not None and self.decision[0] == SPLIT

    def node(self) -> Node:
        above = None if self.parent is None else self.parent.id
        return tree_split.node_of(self.id, above, self.depth, self.part)


def is_fatal(error: BaseException) -> bool:
    """Whether it ends the run, not only an attempt."""
    return not isinstance(error, Exception) or isinstance(error, _FATAL)


def raise_fatal(error: BaseException) -> None:
    if is_fatal(error):
        raise error


def require_time(deadline: float | None) -> None:
    """Raise LimitError after the deadline."""
    if deadline is not None and time.monotonic() > deadline:
        raise errors.LimitError(
            "the minutes are over",
            budget="max_minutes",
            where="max_minutes",
            hint="raise --max-minutes, and resume the run",
        )


def as_recorded(error: BaseException) -> tuple[int, str, bool]:
    """An error for the journal: code, message, whether another attempt may fix it."""
    code = error.code if isinstance(error, errors.RlmCiError) else errors.INTERNAL
    message = str(error) or type(error).__name__
    return code, message, isinstance(error, (errors.LimitError, errors.RemoteError))
