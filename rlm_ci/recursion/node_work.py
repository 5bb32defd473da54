"""A node while it is at work, and what can go wrong with an attempt at it."""

from __future__ import annotations

import time

from rlm_ci import errors
from rlm_ci.recursion.nodes import SPLIT
from rlm_ci.recursion.split import tree
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.recursion.journal.journal import Journals
    from rlm_ci.recursion.nodes import LeafText, Node
    from rlm_ci.recursion.split.tree import Part

#: What no other attempt fixes: it ends the run.
_FATAL = (
    errors.UsageError, errors.ConfigError, errors.UnavailableError, errors.DamagedError,
    errors.LockedError, errors.StorageError,
)  # fmt: skip


class SolveContext(Value):
    """What a run works with."""

    corpus: Corpus
    store: Journals
    executor: Executor | None
    ask: Callable[[Node], Ask] | None


class NodeWork:
    """A node at work: a leaf until it is split, and then what its children came to."""

    __slots__ = (
        "attempt", "decision", "depth", "ends", "errors", "id", "kept", "parent", "part", "place",
        "sizes", "texts", "waiting",
    )  # fmt: skip

    def __init__(
        self, identifier: str, parent: NodeWork | None, place: int, depth: int, part: Part
    ) -> None:
        self.id = identifier
        self.parent = parent
        self.place = place
        self.depth = depth
        self.part = part
        self.attempt = 1
        #: The number of a result from before, which is taken instead of a new one.
        self.kept: int | None = None
        self.decision: tuple[str, str, float] | None = None
        self.texts: tuple[LeafText, ...] = ()
        self.errors: tuple[tuple[int, str, bool], ...] = ()

    def split(self, parts: Sequence[Part]) -> None:
        self.waiting = len(parts)
        self.ends = [0] * len(parts)
        self.sizes = [part[6] for part in parts]

    @property
    def children(self) -> Sequence[int]:
        """The numbers of its children's results, once there are some."""
        return self.ends if self.decision is not None and self.decision[0] == SPLIT else ()

    def node(self) -> Node:
        above = None if self.parent is None else self.parent.id
        return tree.node_of(self.id, above, self.depth, self.part)


def is_fatal(error: BaseException) -> bool:
    """Whether it ends the run, and not only an attempt."""
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


def told(error: BaseException) -> tuple[int, str, bool]:
    """An error as it is journalled: code, message, whether another attempt may fix it."""
    code = error.code if isinstance(error, errors.RlmCiError) else errors.INTERNAL
    message = str(error) or type(error).__name__
    return code, message, isinstance(error, (errors.LimitError, errors.RemoteError))
