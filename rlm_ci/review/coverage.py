"""How much of what is reviewed was looked at: the figures behind the words of every surface."""

from __future__ import annotations

from rlm_ci.source.languages import language

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet

#: The mode of a submodule: what it holds is another repository's.
_SUBMODULE = "160000"


def files_of(change: ChangeSet) -> list[str]:
    """The files of a change that are there at its head."""
    return [
        one.path for one in change.files() if one.status[:1] != "D" and one.new_mode != _SUBMODULE
    ]


def reach(paths: Sequence[str], seen: Container[str], *, is_change: bool) -> dict[str, Any]:
    """How many of ``paths`` were ``seen``, and the others by language, the most frequent first."""
    others: dict[str, int] = {}
    for path in paths:
        if path not in seen:
            name = language(path)
            others[name] = others.get(name, 0) + 1
    return {
        "change": is_change,
        "files": len(paths),
        "looked": len(paths) - sum(others.values()),
        "others": dict(sorted(others.items(), key=lambda pair: (-pair[1], pair[0]))),
    }
