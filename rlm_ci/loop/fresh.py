"""How the fresh tree of the last verdict differs from the working copy, in words."""

from __future__ import annotations

from rlm_ci.loop import protected
from rlm_ci.texts import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rlm_ci.loop.protection import Protection
    from rlm_ci.objects import Entry

_FAILS = "passes in the working copy and fails in a fresh one, which has no files that git ignores"
_NAME = 200


def put_back(
    before: Mapping[str, Entry],
    after: Mapping[str, Entry],
    protection: Protection,
    *,
    allow_test_edits: bool,
) -> str:
    """What the fresh tree has as it was before, though the agent has edited it; or ""."""
    paths = sorted(
        path
        for path in before.keys() | after.keys()
        if before.get(path) != after.get(path)
        and protection.is_protected(path, allow_test_edits=allow_test_edits)
    )
    if not paths:
        return ""
    more = f" and {count(len(paths) - 1, 'more file')}" if len(paths) > 1 else ""
    kind = protection.kind_of(paths[0])
    way = "; --allow-test-edits keeps the edit" if kind in protected.OF_TESTS else ""
    return f"{printable(paths[0])[:_NAME]}{more} as before (protected: {kind}{way})"


def manner(undone: str, prepared: str, clean: Callable[[str], str]) -> str:
    """How a validator fails there alone, and what could help.

    ``undone`` see ``put_back``, ``prepared`` what became of the setup.
    """
    if undone:
        return f"{_FAILS}, and {clean(undone)}"
    return f"{_FAILS} ({prepared or 'loop.setup can install what it needs there'})"
