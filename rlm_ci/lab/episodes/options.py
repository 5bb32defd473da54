"""The options of an episode, the same whenever it is resumed."""

from __future__ import annotations

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


class EpisodeOptions(Value):
    """``environment`` is the name that was asked for. ``sub_model`` answers children and sub-calls.

    ``engine``: code runs in the caller's own. ``max_minutes`` is the time budget, ``rewards`` the
    profile, ``session`` the chat session that the episode is a turn of, with what was said before.
    ``mcp`` are the tools of MCP servers; ``context_tokens`` is what the model reads.
    """

    task: str
    environment: str
    model: str
    provider: str
    head: str | None
    max_steps: int
    exec_timeout: float
    branch_width: int
    framework: str | None
    max_depth: int
    max_children: int
    parallelism: int
    max_minutes: float | None
    max_completion_tokens: int
    sandbox: str
    isolated: bool
    rewards: Mapping[str, float]
    sub_model: str | None = None
    engine: bool = False
    validator: str | None = None
    mark: str = ""
    session: Mapping[str, Any] | None = None
    mcp: Sequence[Mapping[str, Any]] = ()
    context_tokens: int | None = None
