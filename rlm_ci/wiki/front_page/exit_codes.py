"""With which code a program ends: by the errors that it catches, and where its text names one."""

from __future__ import annotations

from rlm_ci.text.neutralise import code
from rlm_ci.wiki.facts.note import CAUGHT, CODE_OF, EXIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.wiki.pages.module_page import PageSources, PlacedNote

#: Rows of the table.
_MOST = 30


def exit_codes(world: PageSources) -> dict[str, Any]:
    """The codes with what they stand for, each pair once, in the order of the codes."""
    sites: dict[tuple[str, str, str], list[PlacedNote]] = {}
    for facts, note in world.noted(EXIT, CAUGHT):
        if note.detail:
            sites.setdefault((note.detail, note.text, note.within), []).append((facts, note))
    keys = sorted(sites, key=lambda key: (int(key[0]), sites[key][0][0].path, key))
    return {
        "exits": [_row(sites[key], world) for key in keys[:_MOST]],
        "exits_more": max(0, len(keys) - _MOST),
    }


def _row(places: Sequence[PlacedNote], world: PageSources) -> dict[str, Any]:
    facts, note = places[0]
    shown = code(note.text, cell=True)
    return {
        "code": f"code {note.detail}",
        "when": f"{shown} is caught" if note.kind == CAUGHT else shown,
        **world.position(facts, note, cell=True),
        "more": len(places) - 1,
    }


class ErrorCodes:
    """The codes with which a program ends for an error, as far as its text names them."""

    def __init__(self, world: PageSources, bases: Mapping[str, Sequence[str]]) -> None:
        """``bases`` are the names of the bases of each class of the program."""
        self._world, self._bases = world, bases
        self._of: dict[str, PlacedNote] = {}
        self._caught: dict[str, PlacedNote] = {}
        for facts, note in world.noted(CODE_OF):
            self._of.setdefault(note.within.rpartition(".")[2], (facts, note))
        for facts, note in world.noted(CAUGHT):
            if note.detail:
                self._caught.setdefault(note.text, (facts, note))

    def of(self, name: str) -> str:
        """How the program ends for the error ``name``; "" where that is not said."""
        for error in self._line(name):
            for how, places in (("has", self._of), ("catches", self._caught)):
                if error not in places:
                    continue
                facts, note = places[error]
                who = f"{note.within}.{note.text}" if how == "has" else note.within
                link = self._world.position(facts, note, cell=True)["link"]
                by = f", by {code(who, cell=True)}" if who else ""
                return f"code {note.detail}{by} {link}"
        return ""

    def _line(self, name: str) -> Iterator[str]:
        """The class and its bases, the nearest first, each once."""
        waiting, seen = [name], {name}
        for error in waiting:  # which grows
            yield error
            fresh = [base for base in self._bases.get(error, ()) if base not in seen]
            seen.update(fresh)
            waiting += fresh
