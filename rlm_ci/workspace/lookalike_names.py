r"""Names that another file system takes for others: ``.g\u200cit`` is ``.git`` to HFS+.

These are git's own rules (``core.protectHFS``, ``core.protectNTFS``), for paths that git does not
see, and to report such a path instead of failing on it.
"""

from __future__ import annotations

import re

#: Characters that HFS+ does not see.
_UNSEEN = dict.fromkeys(
    (*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF)
)
#: NTFS leaves out dots and spaces at the end, and takes what follows a colon for a stream.
_END = re.compile(r"[. ]*(?::.*)?\Z", re.DOTALL)
_GIT, _SHORT = ".git", "git~1"


def plain(path: str) -> str:
    """``path`` as the file systems would read it together; letters keep their case."""
    if path.isascii() and not any(sign in path for sign in ("\\", ":", "./", " /", "~")):
        return path.rstrip(". ") or path
    parts = path.translate(_UNSEEN).replace("\\", "/").split("/")
    return "/".join(_END.sub("", part) or part for part in parts)


def place_of_git(path: str) -> int | None:
    """Which of the names in ``path`` is git's own folder to some file system, if one is."""
    if path.isascii():  # asked for every file, again and again
        lowered = path.lower()
        if _GIT not in lowered and _SHORT not in lowered:
            return None
    for at, part in enumerate(path.split("/")):
        if any(name.casefold() in (_GIT, _SHORT) for name in plain(part).split("/")):
            return at
    return None
