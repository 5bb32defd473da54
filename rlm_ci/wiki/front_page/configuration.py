"""What configures a program from outside: environment variables, settings, files, options."""

from __future__ import annotations

from rlm_ci.text.neutralise import clip, code, prose
from rlm_ci.text.printable import printable
from rlm_ci.wiki.facts.note import CONFIG_FILE, OPTION, SETTINGS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.facts.note import CodeNote
    from rlm_ci.wiki.pages.module_page import PageSources

    Reading = tuple[FileFacts, CodeNote]

#: Variables that are listed, and places that read a name that is not written there.
_MOST, _COMPUTED = 40, 6
_LONGEST = 110
#: Options of the command line, and tables of settings and files, that are listed.
_OPTIONS, _SETTINGS = 60, 24


def environment(world: PageSources) -> dict[str, Any]:
    """The variables by name with their first reading, and readings of a computed name."""
    named: dict[str, list[Reading]] = {}
    computed: list[Reading] = []
    for module in world.layout.modules:
        for one in module.files:
            for note in one.notes:
                if note.kind == "environment" and note.detail:
                    named.setdefault(note.detail, []).append((one, note))
                elif note.kind == "environment":
                    computed.append((one, note))
    names = sorted(named)
    return {
        "variables": [_row(name, named[name], world) for name in names[:_MOST]],
        "variables_more": max(0, len(names) - _MOST),
        "computed": [_link(reading, world) for reading in computed[:_COMPUTED]],
        "computed_more": max(0, len(computed) - _COMPUTED),
    }


def settings(world: PageSources) -> dict[str, Any]:
    """Tables of defaults, names of configuration files, and options of the command line."""
    tables = [_setting(one, note, world) for one, note in _noted(world, SETTINGS)]
    files: dict[str, list[Reading]] = {}
    for one, note in _noted(world, CONFIG_FILE):
        files.setdefault(note.text, []).append((one, note))
    rows = [*tables, *(_config_file(files[name], world) for name in sorted(files))]
    options = _noted(world, OPTION)
    return {
        "settings": rows[:_SETTINGS],
        "settings_more": max(0, len(rows) - _SETTINGS),
        "options": [_option(one, note, world) for one, note in options[:_OPTIONS]],
        "options_more": max(0, len(options) - _OPTIONS),
    }


def _noted(world: PageSources, kind: str) -> list[Reading]:
    return [
        (one, note)
        for module in world.layout.modules
        for one in module.files
        for note in one.notes
        if note.kind == kind
    ]


def _place(one: FileFacts, note: CodeNote, world: PageSources) -> dict[str, Any]:
    return {
        "name": code(printable(note.text), cell=True),
        "within": code(printable(note.within), cell=True) if note.within else "",
        "link": world.register.link(one.path, note.line_start, note.line_end, cell=True),
        "more": 0,
    }


def _setting(one: FileFacts, note: CodeNote, world: PageSources) -> dict[str, Any]:
    keys = ", ".join(code(printable(key), cell=True) for key in note.detail.split(", "))
    return {**_place(one, note, world), "what": f"defaults of {keys}"}


def _config_file(found: list[Reading], world: PageSources) -> dict[str, Any]:
    return {**_place(*found[0], world), "what": "a file", "more": len(found) - 1}


def _option(one: FileFacts, note: CodeNote, world: PageSources) -> dict[str, Any]:
    return {**_place(one, note, world), "what": prose(note.detail, cell=True)}


def _row(name: str, found: list[Reading], world: PageSources) -> dict[str, Any]:
    one, note = found[0]
    return {
        "name": code(printable(name), cell=True),
        "read": code(printable(clip(note.text, _LONGEST)), cell=True),
        "within": code(printable(note.within), cell=True) if note.within else "",
        "link": world.register.link(one.path, note.line_start, note.line_end, cell=True),
        "more": len(found) - 1,
    }


def _link(reading: Reading, world: PageSources) -> dict[str, str]:
    one, note = reading
    return {
        "text": code(printable(clip(note.text, _LONGEST))),
        "link": world.register.link(one.path, note.line_start, note.line_end),
    }
