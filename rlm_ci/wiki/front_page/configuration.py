"""What configures a program from outside, and how it fails: variables, options, errors, codes."""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.source.packages.declared import ecosystem_of
from rlm_ci.source.uses.call_targets import base_names
from rlm_ci.text.neutralise import clip, code, prose
from rlm_ci.text.printable import count
from rlm_ci.wiki.facts.note import (
    CAUGHT,
    CODE_OF,
    CONFIG_FILE,
    CONFIG_KEYS,
    EXIT,
    MESSAGE,
    OPTION,
    SETTINGS,
    THROWS,
)
from rlm_ci.wiki.facts.readme import listed, sentence
from rlm_ci.wiki.pages.layout import CONTAINERS, shown_name
from rlm_ci.wiki.pages.module_page import first_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.source import Symbol
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.facts.note import CodeNote
    from rlm_ci.wiki.pages.module_page import PageSources, PlacedNote


#: Variables that are listed, and places that read a name that is not written there.
_MOST, _COMPUTED = 40, 6
_LONGEST = 110
#: Options of the command line, and tables of settings and files, that are listed.
_OPTIONS, _SETTINGS = 60, 24
#: Variables and files of the first page; the page with all of them.
_BRIEF, _FILES, _FACTS = 6, 2, "facts.md"
_ALL = "settings-and-configuration-files"
#: Files of one function, and keys of one configuration, that are named.
_TOGETHER = 8
#: Variables of the system, which many programs read.
_COMMON = frozenset((
    "APPDATA", "CI", "COLUMNS", "EDITOR", "HOME", "LANG", "LC_ALL", "LINES", "LOCALAPPDATA",
    "PAGER", "PATH", "PWD", "PYTHONPATH", "SHELL", "TERM", "TMPDIR", "USER", "USERPROFILE",
    "VISUAL", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "NODE_ENV", "SYSTEMROOT",
))  # fmt: skip


def brief(world: PageSources) -> list[str]:
    """At most eleven lines of what configures the program, its own variables first."""
    readings = _readings(world)
    readings.pop("", None)
    prefixes = Counter(name.lstrip("_").partition("_")[0] for name in readings if "_" in name)

    def rank(name: str) -> tuple[bool, int, str]:
        return name in _COMMON, -prefixes[name.lstrip("_").partition("_")[0]], name

    names = sorted(readings, key=rank)
    rows = [f"variable {_brief(name, readings[name], world)}" for name in names[:_BRIEF]]
    rows += _more(len(names) - _BRIEF, "variable", "environment-variables")
    rows += _files(world)
    keys = sorted(world.noted(CONFIG_KEYS), key=lambda reading: -len(reading[1].detail))
    if keys:
        rows.append(
            ", and ".join((_keys(*keys[0], world), *_more(len(keys) - 1, "key list", _ALL)))
        )
    options = world.noted(OPTION)
    if options:
        places = Counter(file_facts.path for file_facts, _ in options)
        path, number = min(places.items(), key=lambda pair: (-pair[1], pair[0]))
        note = next(note for file_facts, note in options if file_facts.path == path)
        where = world.register.link(path, note.line_start, note.line_end)
        what = count(len(options), "option")
        share = number if len(places) > 1 else "all"
        rows.append(f"[{what} of the command line]({_FACTS}#options-of-the-command-line), "
                    f"{share} of them from {where} on")  # fmt: skip
    return rows


def _files(world: PageSources) -> list[str]:
    """The configuration files that the most code names: those that one function reads together."""
    groups: dict[tuple[str, str], dict[str, PlacedNote]] = {}
    for facts, note in world.noted(CONFIG_FILE):
        groups.setdefault((facts.path, note.within), {}).setdefault(note.text, (facts, note))
    counts = Counter(name for group in groups.values() for name in group)

    def rank(group: Mapping[str, PlacedNote]) -> tuple[bool, bool, int, str]:
        has_dot = any(name.rpartition("/")[2].startswith(".") for name in group)
        is_manifest = all(map(ecosystem_of, group))  # in which other programs are configured, too
        return not has_dot, is_manifest, -max(counts[name] for name in group), min(group)

    rows: list[str] = []
    seen: set[str] = set()
    for group in sorted(groups.values(), key=rank):
        names = [name for name in group if name not in seen]
        if names and len(rows) < _FILES:
            seen.update(names)
            shown = [code(name) for name in names]
            last = _brief(names[-1], [group[names[-1]]], world)
            others = f"{listed(shown[:-1], _TOGETHER, len(shown) - 1)} and " if shown[1:] else ""
            rows.append(f"{'files' if others else 'file'} {others}{last}")
    more = _more(len(counts) - len(seen), "file", _ALL)
    return [*rows[:-1], ", and ".join((*rows[-1:], *more))] if rows else []


def _keys(facts: FileFacts, note: CodeNote, world: PageSources) -> str:
    names = [code(key) for key in note.detail.split(", ")]
    link = world.position(facts, note)["link"]
    return f"keys of {code(note.text)}: {listed(names, _TOGETHER)} {link}"


def _brief(name: str, readings: list[PlacedNote], world: PageSources) -> str:
    facts, note = readings[0]
    within, link = world.position(facts, note).values()
    return f"{code(name)}{within and f' in {within}'} {link}"


def _more(number: int, what: str, anchor: str) -> list[str]:
    return [f"[{count(number, f'more {what}')}]({_FACTS}#{anchor})"] if number > 0 else []


def _readings(world: PageSources) -> dict[str, list[PlacedNote]]:
    """Where variables are read, by their names; "" for names that are computed."""
    return world.grouped(lambda note: note.detail, "environment")


def environment(world: PageSources) -> dict[str, Any]:
    """The variables by name with their first reading, and readings of a computed name."""
    readings = _readings(world)
    computed = readings.pop("", [])
    variables = [_variable(name, readings[name], world) for name in sorted(readings)[:_MOST]]
    return {
        "variables": variables,
        "variables_more": len(readings) - len(variables),
        **first_rows("computed", computed, _COMPUTED, lambda reading: _link(reading, world)),
    }


def settings(world: PageSources) -> dict[str, Any]:
    """Tables of defaults, names of configuration files, and options of the command line."""
    rows = [
        _row([placed_note], f"{what} {_key_list(placed_note[1])}", world)
        for kind, what in ((SETTINGS, "defaults of"), (CONFIG_KEYS, "keys"))
        for placed_note in world.noted(kind)
    ]
    files = world.grouped(lambda note: note.text, CONFIG_FILE)
    rows += [_row(files[name], "a file", world) for name in sorted(files)]

    def option_row(option: PlacedNote) -> dict[str, Any]:
        return _row([option], prose(option[1].detail, cell=True), world)

    return {
        **first_rows("settings", rows, _SETTINGS, lambda row: row),
        **first_rows("options", world.noted(OPTION), _OPTIONS, option_row),
    }


def _key_list(note: CodeNote) -> str:
    return ", ".join(code(key, cell=True) for key in note.detail.split(", "))


def _row(readings: list[PlacedNote], what: str, world: PageSources) -> dict[str, Any]:
    """A row for what the first place names, and how many more places there are."""
    facts, note = readings[0]
    return {
        "name": code(note.text, cell=True),
        "what": what,
        **world.position(facts, note, cell=True),
        "more": len(readings) - 1,
    }


def _variable(name: str, readings: list[PlacedNote], world: PageSources) -> dict[str, Any]:
    read = code(clip(readings[0][1].text, _LONGEST), cell=True)
    return {**_row(readings, "", world), "name": code(name, cell=True), "read": read}


def _link(reading: PlacedNote, world: PageSources) -> dict[str, str]:
    text = code(clip(reading[1].text, _LONGEST))
    return {"text": text, "link": world.position(*reading)["link"]}


#: Rows of the table.
_EXITS = 30


def exit_codes(world: PageSources) -> dict[str, Any]:
    """The codes with what they stand for, each pair once, in the order of the codes."""
    sites = world.grouped(lambda note: (note.detail, note.text, note.within), EXIT, CAUGHT)
    keys = [key for key in sites if key[0]]
    keys.sort(key=lambda key: (int(key[0]), sites[key][0][0].path, key))
    return first_rows("exits", keys, _EXITS, lambda key: _exit_row(sites[key], world))


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
#: How far errors are followed from class to class.
_DEEP = 8
#: A value that a function of Go returns as its error.
_VALUE = re.compile(r"[Ee]rr[A-Z]\w*")


def error_list(world: PageSources) -> dict[str, Any]:
    """The program's own errors, those most raised first, and the others that it raises."""
    raised = world.grouped(lambda note: note.detail, THROWS)
    definitions: dict[str, tuple[FileFacts, Symbol]] = {}
    for facts, symbol in _defined(world, raised):
        definitions.setdefault(_last(symbol.name), (facts, symbol))
    names = sorted(definitions, key=lambda name: (-len(raised.get(name, ())), name))
    codes = ErrorCodes(world, {name: _bases(symbol) for name, (_, symbol) in definitions.items()})
    others = sorted(raised.keys() - definitions.keys(), key=lambda name: (-len(raised[name]), name))

    def row(name: str) -> dict[str, str]:
        shown = _error_row(*definitions[name], raised.get(name, ()), world)
        return {**shown, "ends": codes.of(name)}

    errors = first_rows("errors", names, _OWN, row)
    return {
        **errors,
        "has_ends": any(row["ends"] for row in errors["errors"]),
        **first_rows(
            "other_errors", others, _OTHERS, lambda name: _other(name, raised[name], world)
        ),
        "has_messages": bool(world.noted(MESSAGE)),
    }


def _defined(world: PageSources, raised: Collection[str]) -> Iterator[tuple[FileFacts, Symbol]]:
    """The definitions of errors, with their files: by their names, or those of their bases."""
    every = [
        (file, symbol, names)
        for file in world.program
        for symbol in (() if file.is_generated else file.outline.symbols)
        if (names := _names(file, symbol))
    ]
    errors = {name for *_, names in every for name in names if _NAME.fullmatch(name)} | set(raised)
    for _ in range(_DEEP):
        derived = {names[0] for *_, names in every if not errors.isdisjoint(names)}
        if derived <= errors:
            break
        errors |= derived
    return ((file, symbol) for file, symbol, names in every if not errors.isdisjoint(names))


def _names(facts: FileFacts, symbol: Symbol) -> list[str]:
    """The name of what may be an error, and what it is made from; [] for anything else."""
    if symbol.kind in CONTAINERS and symbol.kind not in ("module", "interface", "trait"):
        return [_last(symbol.name), *_bases(symbol)]
    is_value = symbol.kind in ("variable", "constant") and facts.outline.language == "Go"
    name = _last(symbol.name)
    return [name, "Error"] if is_value and _VALUE.fullmatch(name) else []


def _bases(symbol: Symbol) -> list[str]:
    """The last names of the classes that a class says it is made from."""
    return [_last(base) for base in base_names(symbol.signature) if symbol.kind in CONTAINERS]


def _error_row(
    facts: FileFacts, symbol: Symbol, places: Sequence[PlacedNote], world: PageSources
) -> dict[str, str]:
    return {
        "name": code(shown_name(facts, symbol.name), cell=True),
        "doc": sentence(symbol.doc, cell=True) if symbol.doc else "",
        "link": world.register.link(facts.path, *facts.head_of(symbol), cell=True),
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
