"""An episode in the tree of a run: where it is, what it works in, and its end."""

from __future__ import annotations

from rlm_ci.runs.state import BLOCKED, FAILED, PASSED
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from rlm_ci.environments.answer_formats import AnswerFormat
    from rlm_ci.environments.delegation import ChildTask, Delegation
    from rlm_ci.environments.turn_loop import Environment, Translate
    from rlm_ci.errors import LimitError


class EpisodeNode(Value):
    """One episode of a run; ``parent`` is the id of the one that delegated it, None for the root.

    ``position`` is the beginning of its places in the record. Its own children go through
    ``delegation``, which has its depth.
    """

    run_id: str
    parent: str | None
    task: ChildTask
    delegation: Delegation
    environment: str
    model: str
    max_steps: int
    position: str

    @property
    def depth(self) -> int:
        return self.delegation.depth


class EpisodeSetup(Value):
    """An environment and its model's first messages, by role.

    ``scratch(place)`` is a copy of the environment, to try a branch in. ``close`` is called at the
    end of the episode; before it, ``partial`` for the answer so far of one that has none.
    """

    environment: Environment
    answers: AnswerFormat
    prompts: tuple[tuple[str, str], ...]
    scratch: Callable[[str], AbstractContextManager[Environment]]
    translate: Translate | None = None
    close: Callable[..., None] | None = None
    partial: Callable[[], str] | None = None


class EpisodeEnd(Value):
    """The end of an episode: ``reason`` is empty where it is ``completed``.

    ``limit`` ended it, or its steps were ``exhausted``; ``blocked``: the model said that it cannot
    be done. ``cut_off``: the answer is the longest of those that had no end.
    """

    answer: str
    completed: bool
    steps: int
    reward: float
    reason: str = ""
    limit: LimitError | None = None
    exhausted: bool = False
    blocked: bool = False
    cut_off: bool = False

    @property
    def budget(self) -> str:
        """The budget that ended it, "" for none."""
        if self.exhausted:
            return "max_iterations"
        return "" if self.limit is None else self.limit.budget

    @property
    def status(self) -> str:
        """The word for it in reports and manifests."""
        if self.completed:
            return PASSED
        return self.budget or (BLOCKED if self.blocked else FAILED)
