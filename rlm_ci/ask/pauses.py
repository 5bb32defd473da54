"""Places where a run stops until somebody lets it go on, as its record tells of them."""

from __future__ import annotations

from rlm_ci.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.runs import Fact


def is_lifted(fact: Fact, place: str) -> bool:
    """Whether the pause at ``place`` is over: a run that is resumed after it goes on.

    In a replay it is over where it was: what the run never came to is not in its record.
    """
    is_new = False

    def begin() -> Mapping[str, Any]:
        nonlocal is_new
        is_new = True
        return {}

    fact("paused", f"pause/{place}", {}, begin)
    if is_new:
        return False
    try:
        fact("resumed", f"resume/{place}", {}, dict)
    except ConfigError:
        return False
    return True
