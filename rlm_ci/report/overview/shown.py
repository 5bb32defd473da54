"""The overview as a template sees it: neutral texts of one surface, within limits."""

from __future__ import annotations

from collections import Counter

from rlm_ci.report.findings import Location
from rlm_ci.report.overview.changes import ADDED, CHANGED, MOVED, REMOVED
from rlm_ci.report.overview.drawing import drawing
from rlm_ci.text import neutralise
from rlm_ci.text.mermaid import DiagramBox, flowchart
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from rlm_ci.report.links import Links
    from rlm_ci.report.overview.changes import (
        Area,
        DependencyChange,
        Dependent,
        Migration,
        ModelWords,
        NameChange,
        Overview,
        PermissionChange,
        SaidLines,
        SaidSentence,
    )
    from rlm_ci.report.surface import Surface

#: Lines before the fold, under the heading, one line of numbers, and one of a model.
LEAD = 9
#: Names in the lead.
_NAMES = 5
#: Packages, permissions and migrations in the lead.
_ITEMS = 3
#: Characters of a name, and of what is said of one.
_NAME, _NOTE, _SAID = 100, 300, 400
_COUNTS = ((REMOVED, "removed"), (CHANGED, "changed"), (MOVED, "moved"), (ADDED, "added"))


class OverviewView:
    """Makes views of one overview for one surface."""

    def __init__(self, overview: Overview, surface: Surface, links: Links) -> None:
        self._overview = overview
        self._surface = surface
        self._links = links

    def build(self, most: int) -> dict[str, Any]:
        """The variables of a template, with at most ``most`` items of a list."""
        overview, lead = self._overview, self._lead()
        return {
            # A review alone has only what a model says.
            "headline": self._surface.text(self._headline()) if overview.areas else "",
            "said": self._said(overview.said, LEAD - len(lead), most) if overview.said else None,
            "lead": [
                {"breaking": breaking, "text": self._surface.text(line)}
                for breaking, line in lead
            ],
            "names": [self._name(one) for one in overview.names[:most]],
            "names_more": max(0, sum(
                overview.counts.get(change, 0) for change, _ in _COUNTS
            ) - len(overview.names[:most])),
            "retyped": self._retyped(),
            "dependencies": [self._dependency(one) for one in overview.dependencies[:most]],
            "dependencies_more": max(0, len(overview.dependencies) - most),
            "permissions": [
                self._surface.text(permission(one)) for one in overview.permissions[:most]
            ],
            "migrations": [
                self._surface.text(migration(one)) for one in overview.migrations[:most]
            ],
            "dependents": self._dependents() if most else [],
            "drawing": drawing(overview.dependents, self._surface.code)
            if most and overview.dependents
            else None,
            "diagram": diagram(overview.dependents) if most and overview.dependents else "",
            "areas": [self._area(one) for one in overview.areas[:most]],
            "areas_more": max(0, len(overview.areas) - most),
            "limits": [self._surface.text(neutralise.clip(one, _NOTE)) for one in overview.limits],
        }  # fmt: skip

    def _said(self, said: ModelWords, room: int, most: int) -> dict[str, Any]:
        """What a model says; ``room`` is the number of lines before the fold."""
        remarks = neutralise.clip(_remarks(said), _NOTE)
        if not most:
            if said.groups:
                remarks = f"{remarks}; " if remarks else ""
                remarks += "no room here for what it says of the files"
            about = tuple(one.replace(lines=()) for one in said.about)
            said = said.replace(about=about, groups=())
        groups = [self._sentence(one) for one in said.groups]
        return {
            "model": self._surface.code(_short(said.model)) if said.model else "",
            "about": [self._sentence(one) for one in said.about],
            "groups": groups[:room],
            "folded": groups[room:],
            "remarks": self._surface.text(remarks) if remarks else None,
        }

    def _sentence(self, one: SaidSentence) -> dict[str, Any]:
        return {
            "text": self._surface.text(neutralise.clip(one.text, _SAID)),
            "files": [self._surface.code(_last(path)) for path in one.files],
            "places": [self._lines(place) for place in one.lines],
        }

    def _lines(self, one: SaidLines) -> dict[str, Any]:
        end = f"-{one.line_end}" if one.line_end != one.line_start else ""
        place = Location(one.path, one.line_start, one.line_end, one.side)
        return {
            "place": self._surface.code(f"{_last(one.path)}:{one.line_start}{end}"),
            "url": self._links.place(place),
            "old": one.side == "old",
        }

    def _headline(self) -> str:
        """All names in numbers."""
        counts = self._overview.counts
        told = [f"{counts[change]:,} {word}" for change, word in _COUNTS if counts.get(change)]
        total = sum(counts.get(change, 0) for change, _ in _COUNTS)
        files = sum(one.files for one in self._overview.areas)
        text = count(files, "file")
        if total:
            text += f"; {count(total, 'public name')}: {', '.join(told)}"
        breaking = counts.get("breaking", 0)
        return f"{text}; {breaking:,} breaking" if breaking else text

    def _lead(self) -> list[tuple[bool, str]]:
        """What a reviewer must know first, in at most LEAD lines, and whether it is breaking."""
        names = [one for one in self._overview.names if one.breaking or one.outside]
        lines = [(one.breaking, sentence(one)) for one in names[:_NAMES]]
        if names[_NAMES:]:
            told = f"{count(len(names) - _NAMES, 'more name')} with callers, or breaking"
            lines.append((False, told))
        overview = self._overview
        for noun, items in (
            (
                "dependencies",
                # An action may be of several workflows.
                [
                    *dict.fromkeys(
                        dependency(one) for one in overview.dependencies if one.direct or one.script
                    )
                ],
            ),
            ("new permissions", [permission(one) for one in overview.permissions]),
            ("migrations", [migration(one) for one in overview.migrations]),
        ):
            if items:
                more = f" and {len(items) - _ITEMS:,} more" if items[_ITEMS:] else ""
                lines.append((False, f"{noun}: {'; '.join(items[:_ITEMS])}{more}"))
        return lines[:LEAD]

    def _name(self, one: NameChange) -> dict[str, Any]:
        side = "old" if one.change == REMOVED else "new"
        place = Location(one.path, one.line, one.line, side)
        return {
            "name": self._surface.code(_short(one.name)),
            "change": one.change,
            "kind": self._surface.cell(neutralise.clip(one.kind, 40)),
            "breaking": one.breaking,
            "exported": one.exported,
            "text": self._surface.cell(_said(one).removeprefix("is ")),
            "place": self._surface.code(f"{one.path}:{one.line}"),
            "url": self._links.place(place),
            "callers": self._surface.cell(callers_told(one)),
            "caller_places": [
                {
                    "place": self._surface.code(f"{caller.path}:{caller.line}"),
                    "url": self._links.place(
                        Location(caller.path, caller.line, caller.line, "old")
                    ),
                    "within": self._surface.code(_short(caller.within)) if caller.within else None,
                    "in_change": caller.in_change,
                }
                for caller in one.callers[:5]
            ],
            "callers_more": max(0, (one.caller_count or 0) - len(one.callers[:5])),
        }

    def _dependency(self, one: DependencyChange) -> dict[str, Any]:
        return {
            "name": self._surface.code(_short(one.name)),
            "change": one.change,
            "path": self._surface.code(one.path),
            "before": self._surface.code(neutralise.clip(one.before, _NAME)) if one.before else "",
            "after": self._surface.code(neutralise.clip(one.after, _NAME)) if one.after else "",
            "kind": self._surface.cell(kind_of(one)),
            "script": one.script,
        }

    def _dependents(self) -> list[dict[str, Any]]:
        """Each changed file or folder, with those that import it."""
        sources: dict[str, list[str]] = {}
        for one in self._overview.dependents:
            sources.setdefault(one.target, []).append(one.source)
        return [
            {"target": self._surface.code(target),
             "sources": [self._surface.code(source) for source in leaning]}
            for target, leaning in sources.items()
        ]  # fmt: skip

    def _area(self, one: Area) -> dict[str, Any]:
        return {
            "path": self._surface.code(one.path or "(top level)"),
            "files": f"{one.files:,}",
            "added": f"{one.added:,}",
            "deleted": f"{one.deleted:,}",
        }

    def _retyped(self) -> str:
        number = self._overview.counts.get("retyped", 0)
        return f"{count(number, 'more name')} only with other annotations" if number else ""


def _remarks(said: ModelWords) -> str:
    """Why there are no sentences or no more of them, and which are of an earlier review."""
    told = [said.note] if said.note else []
    if said.dropped:
        left_out = "its quote was" if said.dropped == 1 else "their quotes were"
        told.append(f"{count(said.dropped, 'sentence')} dropped: {left_out} not found")
    since = Counter(one.since[:12] for one in (*said.about, *said.groups) if one.since)
    told += [
        f"{count(number, 'sentence')} carried from `{commit}`, as what it rests on is unchanged"
        if number == 1
        else f"{number} sentences carried from `{commit}`, as what they rest on is unchanged"
        for commit, number in since.items()
    ]
    return "; ".join(told)


def sentence(one: NameChange) -> str:
    """A change of a name, and who is left with it, on one line; names are in backticks."""
    told = callers_told(one)
    where = f" (`{_short(one.path)}`)" if one.kind != "module" else ""
    return f"`{_short(one.name)}`{where} {_said(one)}" + (f"; {told}" if told else "")


def callers_told(one: NameChange) -> str:
    """``4 callers, 2 not in this change``; "" where nobody looked."""
    if one.caller_count is None:
        return ""
    if not one.caller_count:
        return "no callers"
    number = ("up to " if one.by_name else "") + count(one.caller_count, "caller")
    if 0 < one.outside < one.caller_count:
        return f"{number}, {one.outside:,} not in this change"
    several = "" if one.caller_count == 1 else "none " if one.outside else "all "
    return f"{number}, {several or ('not ' if one.outside else '')}in this change"


def dependency(one: DependencyChange) -> str:
    """A package, its versions, and what is special about it, on one line."""
    sides = (one.before, one.after)
    if one.change == CHANGED:  # a side without a version takes any
        sides = (one.before or "any", one.after or "any")
    versions = " → ".join(f"`{_short(text)}`" for text in sides if text)
    if one.change == MOVED:
        versions = f"now {kind_of(one)}"
    word = "" if one.change == CHANGED else f"{one.change} "
    script = "; runs a script at installation" if one.script else ""
    return f"{word}`{_short(one.name)}` {versions}".rstrip() + script


def kind_of(one: DependencyChange) -> str:
    """What a package is needed for."""
    if not one.direct:
        return "indirect"
    return neutralise.clip(printable(one.group).replace("`", "'"), 40) or "direct"


def permission(one: PermissionChange) -> str:
    """A permission of a workflow's token."""
    where = f"`{_short(one.path)}`" + (f", job `{_short(one.job)}`" if one.job else "")
    if one.scope == "default":
        return f"{where} no longer names any: the repository's settings count"
    before = f", was `{_short(one.before)}`" if one.before else ""
    return f"`{_short(one.scope)}: {_short(one.after)}` in {where}{before}"


def migration(one: Migration) -> str:
    return f"`{_short(one.path)}`" + ("" if one.change == ADDED else f" ({one.change})")


def diagram(found: Sequence[Dependent]) -> str:
    """Who imports what the change touches, as a fenced block of Markdown."""
    touched = dict.fromkeys(one.target for one in found)
    boxes = [
        DiagramBox(one, neutralise.clip(one, 40), "this change" if one in touched else "")
        for one in dict.fromkeys([*(one.source for one in found), *touched])
    ]
    return flowchart(boxes, [(one.source, one.target) for one in found])


def _said(one: NameChange) -> str:
    if one.change == REMOVED:
        return "is no longer exported" if one.kind == "import" else "is removed"
    if one.change == ADDED:
        return "is new"
    notes = _listed(neutralise.clip(note, _NOTE // 2) for note in one.notes[:3])
    more = f" and {len(one.notes) - 3} more" if one.notes[3:] else ""
    return ("moved " if one.change == MOVED and one.kind != "module" else "") + notes + more


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _last(path: str) -> str:
    return path if len(path) <= _NAME else f"…{path[1 - _NAME :]}"


def _short(name: str) -> str:
    """A name that cannot end a span of code."""
    return neutralise.clip(printable(name).replace("`", "'"), _NAME)
