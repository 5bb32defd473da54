"""Folders in which a repository keeps code of others: what its tests claim by is among it."""

from __future__ import annotations

import re

from rlm_ci.guard.protected import by_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: Names that a folder of the repository's own may have, too: a shop has vendors.
_NAMES = frozenset(("vendor", "third_party", "third-party", "thirdparty"))
#: What comes along with the code of somebody else.
_SIGN = re.compile(
    r"(un)?licen[cs]e([.-].*)?|copying([.-].*)?|\.cargo-checksum\.json|.*\.gem", re.IGNORECASE
)


def folders(paths: Iterable[str]) -> tuple[str, ...]:
    """Those that hold code of others by what lies in them; each ends with a slash."""
    found: dict[str, None] = {}
    for path in paths:
        *outer, name = path.split("/")
        at = next((number for number, one in enumerate(outer) if one in _NAMES), None)
        if at is None:
            continue
        if at + 1 < len(outer):
            is_kept = _SIGN.fullmatch(name) is not None
        else:
            is_kept = by_name.kind_of(path) == by_name.DEPENDENCY
        if is_kept:
            found["/".join((*outer[: at + 1], ""))] = None
    return tuple(found)
