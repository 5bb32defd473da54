"""How the fresh tree of the last verdict differs from the working copy, in words."""

from __future__ import annotations

from rlm_ci.guard.protected import by_name
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.guard.protected.protection import Protection

_FAILS = "passes in the working copy and fails in a fresh one, which has no files that git ignores"
_NAME = 200


def put_back(
    result: Mapping[str, TreeEntry], fresh: Mapping[str, TreeEntry], protection: Protection
) -> str:
    """What the fresh tree has as it was before, though the agent has edited it; or "".

    A new test that it does not have is none of that.
    """
    paths = sorted(
        path
        for path in result.keys() | fresh.keys()
        if result.get(path) != fresh.get(path)
        and (path in fresh or protection.is_protected(path, allow_test_edits=False))
    )
    if not paths:
        return ""
    more = f" and {count(len(paths) - 1, 'more file')}" if len(paths) > 1 else ""
    kind = protection.kind_of(paths[0])
    if not kind:
        return f"the tests in {printable(paths[0])[:_NAME]}{more} as before"
    way = "; --allow-test-edits keeps the edit" if kind in by_name.OF_TESTS else ""
    return f"{printable(paths[0])[:_NAME]}{more} as before (protected: {kind}{way})"


def manner(undone: str, prepared: str, clean: Callable[[str], str]) -> str:
    """How a validator fails there alone, and what could help.

    ``undone`` see ``put_back``, ``prepared`` what became of the setup.
    """
    if undone:
        return f"{_FAILS}, and {clean(undone)}"
    return f"{_FAILS} ({prepared or 'loop.setup can install what it needs there'})"
