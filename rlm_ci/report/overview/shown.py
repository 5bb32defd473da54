"""The overview as a template sees it: neutral texts of one surface, within limits, and a picture.

Importers stand on the left, changed files on the right. The template gets boxes and lines with
their places, and writes the elements itself.
"""

from __future__ import annotations

from collections import Counter
from statistics import fmean

from rlm_ci.report.findings import Location
from rlm_ci.report.overview.changes import ADDED, CHANGED, MOVED, REMOVED
from rlm_ci.text import neutralise
from rlm_ci.text.mermaid import DiagramBox, flowchart
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from rlm_ci.report.links import Links, Surface
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


#: Sizes in pixels: a box, the distance from one to the next below it, the gap between the sides.
_WIDTH, _HEIGHT, _STEP, _GAP = 330, 26, 34, 140
#: Characters of a path that a box has room for.
_ROOM = 38


def drawing(dependents: Sequence[Dependent], code: Callable[[str], Any]) -> dict[str, Any]:
    """Its size, boxes and lines; ``code`` makes a path harmless."""
    changed = list(dict.fromkeys(dependent.target for dependent in dependents))
    importers = _ordered(dependents, changed)
    height = max(len(changed), len(importers)) * _STEP
    right = _WIDTH + _GAP
    left_of = _rows(importers, height)
    right_of = _rows(changed, height)
    return {
        "width": right + _WIDTH,
        "height": height,
        "box": {"width": _WIDTH, "height": _HEIGHT},
        "boxes": [
            {"x": x, "y": y, "text": code(_tail(path)), "changed": path in right_of}
            for x, rows in ((0, left_of), (right, right_of))
            for path, y in rows.items()
        ],
        "lines": [
            _line(left_of[edge.source] + _HEIGHT // 2, right_of[edge.target] + _HEIGHT // 2)
            for edge in dependents
        ],
        "tips": [
            f"M{right - 7},{y + _HEIGHT // 2 - 4} l7,4 l-7,4 z" for y in right_of.values()
        ],
    }  # fmt: skip


def _ordered(dependents: Sequence[Dependent], changed: Sequence[str]) -> list[str]:
    """The importers beside what they import, so that few lines cross."""
    places: dict[str, list[int]] = {}
    for dependent in dependents:
        places.setdefault(dependent.source, []).append(changed.index(dependent.target))
    return sorted(places, key=lambda source: fmean(places[source]))


def _rows(paths: Sequence[str], height: int) -> dict[str, int]:
    """The upper edge of each box; the shorter side stands in the middle."""
    first = (height - len(paths) * _STEP) // 2 + (_STEP - _HEIGHT) // 2
    return {path: first + number * _STEP for number, path in enumerate(paths)}


def _line(start: int, end: int) -> str:
    middle = _WIDTH + _GAP // 2
    return f"M{_WIDTH},{start} C{middle},{start} {middle},{end} {_WIDTH + _GAP - 6},{end}"


def _tail(path: str) -> str:
    return path if len(path) <= _ROOM else f"…{path[1 - _ROOM :]}"


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

    def build(self, room: int) -> dict[str, Any]:
        """The variables of a template, with at most ``room`` items of a list."""
        overview, lead = self._overview, self._lead()
        words = overview.said
        return {
            # A review alone has only what a model says.
            "headline": self._surface.text(self._headline()) if overview.areas else "",
            "said": self._model_words(words, LEAD - len(lead), room) if words else None,
            "lead": [
                {"breaking": breaking, "text": self._surface.text(line)}
                for breaking, line in lead
            ],
            "names": [self._name(name) for name in overview.names[:room]],
            "names_more": max(0, sum(
                overview.counts.get(change, 0) for change, _ in _COUNTS
            ) - len(overview.names[:room])),
            "retyped": self._retyped(),
            "dependencies": [
                self._dependency(change) for change in overview.dependencies[:room]
            ],
            "dependencies_more": max(0, len(overview.dependencies) - room),
            "permissions": [
                self._surface.text(permission(change)) for change in overview.permissions[:room]
            ],
            "migrations": [
                self._surface.text(migration(change)) for change in overview.migrations[:room]
            ],
            "dependents": self._dependents() if room else [],
            "drawing": drawing(overview.dependents, self._surface.code)
            if room and overview.dependents
            else None,
            "diagram": diagram(overview.dependents) if room and overview.dependents else "",
            "areas": [self._area(area) for area in overview.areas[:room]],
            "areas_more": max(0, len(overview.areas) - room),
            "limits": [
                self._surface.text(neutralise.clip(limit, _NOTE)) for limit in overview.limits
            ],
        }  # fmt: skip

    def _model_words(self, words: ModelWords, room: int, limit: int) -> dict[str, Any]:
        """What a model says; ``room`` is the number of lines before the fold."""
        remarks = neutralise.clip(_remarks(words), _NOTE)
        if not limit:
            if words.groups:
                remarks = f"{remarks}; " if remarks else ""
                remarks += "no room here for what it says of the files"
            about = tuple(sentence.replace(lines=()) for sentence in words.about)
            words = words.replace(about=about, groups=())
        groups = [self._sentence(group) for group in words.groups]
        return {
            "model": self._surface.code(_short(words.model)) if words.model else "",
            "about": [self._sentence(sentence) for sentence in words.about],
            "groups": groups[:room],
            "folded": groups[room:],
            "remarks": self._surface.text(remarks) if remarks else None,
        }

    def _sentence(self, sentence: SaidSentence) -> dict[str, Any]:
        return {
            "text": self._surface.text(neutralise.clip(sentence.text, _SAID)),
            "files": [self._surface.code(_last(path)) for path in sentence.files],
            "places": [self._lines(line) for line in sentence.lines],
        }

    def _lines(self, lines: SaidLines) -> dict[str, Any]:
        end = f"-{lines.line_end}" if lines.line_end != lines.line_start else ""
        location = Location(lines.path, lines.line_start, lines.line_end, lines.side)
        return {
            "place": self._surface.code(f"{_last(lines.path)}:{lines.line_start}{end}"),
            "url": self._links.address_of(location),
            "old": lines.side == "old",
        }

    def _headline(self) -> str:
        """All names in numbers."""
        counts = self._overview.counts
        amounts = [f"{counts[change]:,} {word}" for change, word in _COUNTS if counts.get(change)]
        total = sum(counts.get(change, 0) for change, _ in _COUNTS)
        files = sum(area.files for area in self._overview.areas)
        text = count(files, "file")
        if total:
            text += f"; {count(total, 'public name')}: {', '.join(amounts)}"
        breaking = counts.get("breaking", 0)
        return f"{text}; {breaking:,} breaking" if breaking else text

    def _lead(self) -> list[tuple[bool, str]]:
        """What a reviewer must know first, in at most LEAD lines, and whether it is breaking."""
        names = [name for name in self._overview.names if name.breaking or name.outside]
        lines = [(name.breaking, sentence(name)) for name in names[:_NAMES]]
        if names[_NAMES:]:
            line = f"{count(len(names) - _NAMES, 'more name')} with callers, or breaking"
            lines.append((False, line))
        overview = self._overview
        for noun, items in (
            (
                "dependencies",
                # An action may be of several workflows.
                [
                    *dict.fromkeys(
                        dependency(change)
                        for change in overview.dependencies
                        if change.direct or change.script
                    )
                ],
            ),
            ("new permissions", [permission(change) for change in overview.permissions]),
            ("migrations", [migration(change) for change in overview.migrations]),
        ):
            if items:
                more = f" and {len(items) - _ITEMS:,} more" if items[_ITEMS:] else ""
                lines.append((False, f"{noun}: {'; '.join(items[:_ITEMS])}{more}"))
        return lines[:LEAD]

    def _name(self, change: NameChange) -> dict[str, Any]:
        side = "old" if change.change == REMOVED else "new"
        location = Location(change.path, change.line, change.line, side)
        return {
            "name": self._surface.code(_short(change.name)),
            "change": change.change,
            "kind": self._surface.cell(neutralise.clip(change.kind, 40)),
            "breaking": change.breaking,
            "exported": change.exported,
            "text": self._surface.cell(_change_words(change).removeprefix("is ")),
            "place": self._surface.code(f"{change.path}:{change.line}"),
            "url": self._links.address_of(location),
            "callers": self._surface.cell(callers_told(change)),
            "caller_places": [
                {
                    "place": self._surface.code(f"{caller.path}:{caller.line}"),
                    "url": self._links.address_of(
                        Location(caller.path, caller.line, caller.line, "old")
                    ),
                    "within": self._surface.code(_short(caller.within)) if caller.within else None,
                    "in_change": caller.in_change,
                }
                for caller in change.callers[:5]
            ],
            "callers_more": max(0, (change.caller_count or 0) - len(change.callers[:5])),
        }

    def _dependency(self, change: DependencyChange) -> dict[str, Any]:
        return {
            "name": self._surface.code(_short(change.name)),
            "change": change.change,
            "path": self._surface.code(change.path),
            "before": self._surface.code(neutralise.clip(change.before, _NAME))
            if change.before
            else "",
            "after": self._surface.code(neutralise.clip(change.after, _NAME))
            if change.after
            else "",
            "kind": self._surface.cell(kind_of(change)),
            "script": change.script,
        }

    def _dependents(self) -> list[dict[str, Any]]:
        """Each changed file or folder, with those that import it."""
        sources: dict[str, list[str]] = {}
        for dependent in self._overview.dependents:
            sources.setdefault(dependent.target, []).append(dependent.source)
        return [
            {"target": self._surface.code(target),
             "sources": [self._surface.code(source) for source in leaning]}
            for target, leaning in sources.items()
        ]  # fmt: skip

    def _area(self, area: Area) -> dict[str, Any]:
        return {
            "path": self._surface.code(area.path or "(top level)"),
            "files": f"{area.files:,}",
            "added": f"{area.added:,}",
            "deleted": f"{area.deleted:,}",
        }

    def _retyped(self) -> str:
        number = self._overview.counts.get("retyped", 0)
        return f"{count(number, 'more name')} only with other annotations" if number else ""


def _remarks(words: ModelWords) -> str:
    """Why there are no sentences or no more of them, and which are of an earlier review."""
    remarks = [words.note] if words.note else []
    if words.dropped:
        left_out = "its quote was" if words.dropped == 1 else "their quotes were"
        remarks.append(f"{count(words.dropped, 'sentence')} dropped: {left_out} not found")
    since = Counter(phrase.since[:12] for phrase in (*words.about, *words.groups) if phrase.since)
    remarks += [
        f"{count(number, 'sentence')} carried from `{commit}`, as what it rests on is unchanged"
        if number == 1
        else f"{number} sentences carried from `{commit}`, as what they rest on is unchanged"
        for commit, number in since.items()
    ]
    return "; ".join(remarks)


def sentence(change: NameChange) -> str:
    """A change of a name, and who is left with it, on one line; names are in backticks."""
    callers = callers_told(change)
    where = f" (`{_short(change.path)}`)" if change.kind != "module" else ""
    return f"`{_short(change.name)}`{where} {_change_words(change)}" + (
        f"; {callers}" if callers else ""
    )


def callers_told(change: NameChange) -> str:
    """``4 callers, 2 not in this change``; "" where nobody looked."""
    if change.caller_count is None:
        return ""
    if not change.caller_count:
        return "no callers"
    number = ("up to " if change.by_name else "") + count(change.caller_count, "caller")
    if 0 < change.outside < change.caller_count:
        return f"{number}, {change.outside:,} not in this change"
    several = "" if change.caller_count == 1 else "none " if change.outside else "all "
    return f"{number}, {several or ('not ' if change.outside else '')}in this change"


def dependency(change: DependencyChange) -> str:
    """A package, its versions, and what is special about it, on one line."""
    sides = (change.before, change.after)
    if change.change == CHANGED:  # a side without a version takes any
        sides = (change.before or "any", change.after or "any")
    versions = " → ".join(f"`{_short(text)}`" for text in sides if text)
    if change.change == MOVED:
        versions = f"now {kind_of(change)}"
    word = "" if change.change == CHANGED else f"{change.change} "
    script = "; runs a script at installation" if change.script else ""
    return f"{word}`{_short(change.name)}` {versions}".rstrip() + script


def kind_of(change: DependencyChange) -> str:
    """What a package is needed for."""
    if not change.direct:
        return "indirect"
    return neutralise.clip(printable(change.group).replace("`", "'"), 40) or "direct"


def permission(change: PermissionChange) -> str:
    """A permission of a workflow's token."""
    where = f"`{_short(change.path)}`" + (f", job `{_short(change.job)}`" if change.job else "")
    if change.scope == "default":
        return f"{where} no longer names any: the repository's settings count"
    before = f", was `{_short(change.before)}`" if change.before else ""
    return f"`{_short(change.scope)}: {_short(change.after)}` in {where}{before}"


def migration(change: Migration) -> str:
    return f"`{_short(change.path)}`" + ("" if change.change == ADDED else f" ({change.change})")


def diagram(dependents: Sequence[Dependent]) -> str:
    """Who imports what the change touches, as a fenced block of Markdown."""
    touched = dict.fromkeys(dependent.target for dependent in dependents)
    boxes = [
        DiagramBox(path, neutralise.clip(path, 40), "this change" if path in touched else "")
        for path in dict.fromkeys([*(dependent.source for dependent in dependents), *touched])
    ]
    return flowchart(boxes, [(dependent.source, dependent.target) for dependent in dependents])


def _change_words(change: NameChange) -> str:
    if change.change == REMOVED:
        return "is no longer exported" if change.kind == "import" else "is removed"
    if change.change == ADDED:
        return "is new"
    notes = _listed(neutralise.clip(note, _NOTE // 2) for note in change.notes[:3])
    more = f" and {len(change.notes) - 3} more" if change.notes[3:] else ""
    return ("moved " if change.change == MOVED and change.kind != "module" else "") + notes + more


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _last(path: str) -> str:
    return path if len(path) <= _NAME else f"…{path[1 - _NAME :]}"


def _short(name: str) -> str:
    """A name that cannot end a span of code."""
    return neutralise.clip(printable(name).replace("`", "'"), _NAME)
