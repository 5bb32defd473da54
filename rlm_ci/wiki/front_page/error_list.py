"""How a program fails: the errors that it defines and raises, and the codes with which it ends."""

from __future__ import annotations

import re

from rlm_ci.text.neutralise import code
from rlm_ci.wiki.facts.note import CAUGHT, CODE_OF, EXIT, MESSAGE, THROWS
from rlm_ci.wiki.facts.readme import listed, sentence
from rlm_ci.wiki.pages.layout import CONTAINERS, shown_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.module_page import PageSources, PlacedNote


#: Rows of the table.
_MOST = 30


def exit_codes(world: PageSources) -> dict[str, Any]:
    """The codes with what they stand for, each pair once, in the order of the codes."""
    sites = world.grouped(lambda note: (note.detail, note.text, note.within), EXIT, CAUGHT)
    keys = [key for key in sites if key[0]]
    keys.sort(key=lambda key: (int(key[0]), sites[key][0][0].path, key))
    return {
        "exits": [_exit_row(sites[key], world) for key in keys[:_MOST]],
        "exits_more": max(0, len(keys) - _MOST),
    }


def _exit_row(places: Sequence[PlacedNote], world: PageSources) -> dict[str, Any]:
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


#: Errors of the program, others, and places of one that are shown.
_OWN, _OTHERS, _PLACES = 30, 16, 3
_NAME = re.compile(r"\w*(?:Error|Exception|Warning|Failure)")
#: The bases of a class of Python, and how far errors are followed from class to class.
_BASES, _DEEP = re.compile(r"\(([^()]*)\)"), 8
#: A value that a function of Go returns as its error.
_VALUE = re.compile(r"[Ee]rr[A-Z]\w*")


def error_list(world: PageSources) -> dict[str, Any]:
    """The program's own errors, those most raised first, and the others that it raises."""
    raised = world.grouped(lambda note: note.detail, THROWS)
    definitions: dict[str, tuple[FileFacts, int]] = {}
    for facts, number in _defined(world, raised):
        definitions.setdefault(_last(facts.outline.symbols[number].name), (facts, number))
    names = sorted(definitions, key=lambda name: (-len(raised.get(name, ())), name))
    codes = ErrorCodes(world, {name: _bases(*definitions[name]) for name in definitions})
    others = sorted(raised.keys() - definitions.keys(), key=lambda name: (-len(raised[name]), name))
    rows = [
        {**_row(*definitions[name], raised.get(name, ()), world), "ends": codes.of(name)}
        for name in names[:_OWN]
    ]
    return {
        "errors": rows,
        "has_ends": any(row["ends"] for row in rows),
        "errors_more": max(0, len(names) - _OWN),
        "other_errors": [_other(name, raised[name], world) for name in others[:_OTHERS]],
        "other_errors_more": max(0, len(others) - _OTHERS),
        "has_messages": bool(world.noted(MESSAGE)),
    }


def _defined(world: PageSources, raised: Collection[str]) -> Iterator[tuple[FileFacts, int]]:
    """The definitions of errors: files, and numbers of their symbols."""
    every = [
        (file, number)
        for file in world.program
        for number in range(len(file.outline.symbols))
        if not file.is_generated
    ]
    errors = set(raised)
    for _ in range(_DEEP):
        derived = {
            _last(facts.outline.symbols[number].name)
            for facts, number in every
            if _is_error(facts, number, errors)
        }
        if derived <= errors:
            break
        errors |= derived
    for facts, number in every:
        if _is_error(facts, number, errors):
            yield facts, number


def _is_error(facts: FileFacts, number: int, errors: Collection[str]) -> bool:
    """Whether a definition is an error, by its name, or as one of the ``errors`` is its base."""
    symbol = facts.outline.symbols[number]
    name = _last(symbol.name)
    if symbol.kind in CONTAINERS and symbol.kind not in ("module", "interface", "trait"):
        if name in errors or _NAME.fullmatch(name):
            return True
        names = _bases(facts, number)
        return any(base in errors or _NAME.fullmatch(base) for base in names)
    is_value = symbol.kind in ("variable", "constant") and facts.outline.language == "Go"
    return is_value and bool(_VALUE.fullmatch(name))


def _bases(facts: FileFacts, number: int) -> list[str]:
    """The names of the bases of a class of Python."""
    signature = facts.outline.symbols[number].signature
    bases = _BASES.search(signature) if facts.outline.language == "Python" else None
    return [_last(base.strip()) for base in bases[1].split(",")] if bases else []


def _row(
    facts: FileFacts, number: int, places: Sequence[PlacedNote], world: PageSources
) -> dict[str, str]:
    symbol = facts.outline.symbols[number]
    return {
        "name": code(shown_name(facts, symbol.name), cell=True),
        "doc": sentence(symbol.doc, cell=True) if symbol.doc else "",
        "link": world.register.link(facts.path, *facts.heads[number], cell=True),
        "raised": _places(places, world),
    }


def _other(name: str, places: Sequence[PlacedNote], world: PageSources) -> dict[str, str]:
    return {
        "name": code(name, cell=True),
        "count": f"{len(places):,}",
        "raised": _places(places, world),
    }


def _places(places: Sequence[PlacedNote], world: PageSources) -> str:
    """The first place in each of a few definitions, and how many more there are."""
    first: dict[tuple[str, str], str] = {}
    for facts, note in places:
        key = facts.path, note.within
        if len(first) < _PLACES and key not in first:
            first[key] = " ".join(filter(None, world.position(facts, note, cell=True).values()))
    return listed([*first.values()], len(first), len(places)) if first else ""


def _last(name: str) -> str:
    return re.split(r"\.|::|#", name)[-1]
