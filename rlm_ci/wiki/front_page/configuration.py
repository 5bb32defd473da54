"""What configures a program from outside: the environment variables that it reads, and where."""

from __future__ import annotations

from rlm_ci.text.neutralise import clip, code
from rlm_ci.text.printable import printable

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
