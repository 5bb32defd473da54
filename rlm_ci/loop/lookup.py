"""Which files of a tree a word of shell may stand for: a path, seen from somewhere, or a form."""

from __future__ import annotations

import re
from functools import cache

from rlm_ci.loop.shell import LEADING, SOME, joined, last

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: What a shell would fill in somewhere in a path.
_OPEN = re.compile(rf"{SOME}|\*\*/?|\*|\?|\[[^\]/]{{1,50}}\]|\{{[^{{}}]{{1,200}}\}}")
#: Open places of a word, and characters of it, beyond which it is not looked for.
_MOST_OPEN, _LONGEST = 5, 300
#: Files that one word may stand for, and words for which every path is looked at.
_MOST, _SEARCHES = 50, 200


class Lookup:
    """The paths of a tree, to be found by words."""

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._named: dict[str, list[str]] | None = None
        self._searches = 0
        self.meant = cache(self._meant)

    def _meant(self, word: str, folders: tuple[str, ...]) -> tuple[str, ...]:
        """The files that a shell in one of ``folders`` may mean, so many as are looked at.

        A folder that only the shell knows may be any.
        """
        if not 0 < len(word) <= _LONGEST:
            return ()
        anywhere = LEADING.match(word)
        rest = word[anywhere.end() :] if anywhere else word
        if not re.search(r"\w", _OPEN.sub("", last(rest))):
            return ()
        if not _OPEN.search(rest):
            near = [one for one in (joined(folder, rest) for folder in folders)
                    if one in self._paths]  # fmt: skip
            if not near and anywhere:
                tail = "/" + joined("", rest)
                near = [one for one in self._of_name(last(tail)) if f"/{one}".endswith(tail)]
            return tuple(dict.fromkeys(near))[:_MOST]
        if len(_OPEN.findall(rest)) > _MOST_OPEN:
            return ()
        forms = [_form(joined(folder, rest)) for folder in folders]
        if anywhere:
            forms.append(rf"(?:.*/)?{_form(joined('', rest))}")
        wanted = re.compile("|".join(dict.fromkeys(forms)))
        name = last(rest)
        found = sorted(filter(wanted.fullmatch, self._all() if _OPEN.search(name) else
                              self._of_name(name)))  # fmt: skip
        return tuple(found[:_MOST])

    def _all(self) -> Iterable[str]:
        self._searches += 1
        return self._paths if self._searches <= _SEARCHES else ()

    def _of_name(self, name: str) -> list[str]:
        if self._named is None:
            self._named = {}
            for path in self._paths:
                self._named.setdefault(last(path), []).append(path)
        return self._named.get(name, [])


def _form(word: str) -> str:
    """An expression for the paths that a shell could make of ``word``."""
    pieces, at = [], 0
    for one in _OPEN.finditer(word):
        pieces.append(re.escape(word[at : one.start()]))
        within = "[^/]*" if one[0] == "*" else "[^/]" if one[0][0] in "?[" else ".*"
        pieces.append(within)
        at = one.end()
    return "".join((*pieces, re.escape(word[at:])))
