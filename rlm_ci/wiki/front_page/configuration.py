"""What configures a program from outside: environment variables, settings, files, options."""

from __future__ import annotations

from collections import Counter

from rlm_ci.text.neutralise import clip, code, prose
from rlm_ci.text.printable import count
from rlm_ci.wiki.facts.note import CONFIG_FILE, CONFIG_KEYS, OPTION, SETTINGS
from rlm_ci.wiki.facts.readme import listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

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
#: Files of one function, and keys of one configuration, that are named.
_TOGETHER = 8
#: Variables of the system, which many programs read.
_COMMON = frozenset((
    "APPDATA", "CI", "COLUMNS", "EDITOR", "HOME", "LANG", "LC_ALL", "LINES", "LOCALAPPDATA",
    "PAGER", "PATH", "PWD", "PYTHONPATH", "SHELL", "TERM", "TMPDIR", "USER", "USERPROFILE",
    "VISUAL", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "NODE_ENV", "SYSTEMROOT",
))  # fmt: skip


def brief(world: PageSources) -> list[str]:
    """Ten lines of what configures the program, its own variables first."""
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
    rows += [_keys(*reading, world) for reading in keys[:1]]
    options = world.noted(OPTION)
    if options:
        places = Counter(file_facts.path for file_facts, _ in options)
        path, number = min(places.items(), key=lambda pair: (-pair[1], pair[0]))
        note = next(note for file_facts, note in options if file_facts.path == path)
        where = world.register.link(path, note.line_start, note.line_end)
        what = count(len(options), "option")
        rows.append(f"[{what} of the command line]({_FACTS}#options-of-the-command-line), "
                    f"{number} of them from {where} on")  # fmt: skip
    return rows


def _files(world: PageSources) -> list[str]:
    """The configuration files that the most code names: those that one function reads together."""
    groups: dict[tuple[str, str], dict[str, PlacedNote]] = {}
    for facts, note in world.noted(CONFIG_FILE):
        groups.setdefault((facts.path, note.within), {}).setdefault(note.text, (facts, note))
    counts = Counter(name for group in groups.values() for name in group)

    def rank(group: Mapping[str, PlacedNote]) -> tuple[bool, int, str]:
        has_dot = any(name.rpartition("/")[2].startswith(".") for name in group)
        return not has_dot, -max(counts[name] for name in group), min(group)

    rows: list[str] = []
    seen: set[str] = set()
    for group in sorted(groups.values(), key=rank):
        names = [name for name in group if name not in seen]
        seen.update(group)
        if names and len(rows) < _FILES:
            shown = [code(name) for name in names]
            last = _brief(names[-1], [group[names[-1]]], world)
            others = f"{listed(shown[:-1], _TOGETHER, len(shown) - 1)} and " if shown[1:] else ""
            rows.append(f"{'files' if others else 'file'} {others}{last}")
    return rows


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
    names = sorted(readings)
    return {
        "variables": [_variable(name, readings[name], world) for name in names[:_MOST]],
        "variables_more": max(0, len(names) - _MOST),
        "computed": [_link(reading, world) for reading in computed[:_COMPUTED]],
        "computed_more": max(0, len(computed) - _COMPUTED),
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
    options = world.noted(OPTION)
    return {
        "settings": rows[:_SETTINGS],
        "settings_more": max(0, len(rows) - _SETTINGS),
        "options": [
            _row([option], prose(option[1].detail, cell=True), world)
            for option in options[:_OPTIONS]
        ],
        "options_more": max(0, len(options) - _OPTIONS),
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
