"""The parts of a program of many modules, the heaviest first, and how they work together."""

from __future__ import annotations

from rlm_ci.text.neutralise import prose
from rlm_ci.values import Value
from rlm_ci.wiki.pages.layout import api
from rlm_ci.wiki.pages.module_page import documenting, main_names, summary
from rlm_ci.wiki.pages.paths import title_of
from rlm_ci.wiki.pages.wording import listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.citations import CitedPlace
    from rlm_ci.wiki.pages.layout import Module
    from rlm_ci.wiki.pages.module_page import PageSources

#: The parts that are shown: more modules than this are put together by folder.
MOST = 9
#: Parts that one is said to use, and those that are only named.
_USED, _NAMED = 3, 24


class ProgramPart(Value):
    """Modules below one folder, which is ``key``; or one module, whose key that is."""

    key: str
    modules: tuple[Module, ...]

    @property
    def lines(self) -> int:
        return sum(_lines(module) for module in self.modules)


def parts_of(modules: Sequence[Module]) -> list[ProgramPart]:
    """The parts by folder, the heaviest first.

    A folder is parted further while there are few parts, or while it holds more than half of all.
    """
    groups: dict[str, tuple[Module, ...]] = {"": tuple(modules)}
    total = sum(map(_lines, modules))
    while True:
        for key in sorted(groups, key=lambda key: (-sum(map(_lines, groups[key])), key)):
            inner = _children(key, groups[key])
            is_most = 2 * sum(map(_lines, groups[key])) > total
            if inner and (len(groups) - 1 + len(inner) <= MOST or is_most):
                del groups[key]
                groups.update(inner)
                break
        else:
            break
    found = [ProgramPart(key, inner) for key, inner in groups.items()]
    return sorted(found, key=lambda part: (-part.lines, part.key))


def _children(key: str, modules: tuple[Module, ...]) -> dict[str, tuple[Module, ...]]:
    """The modules of a part by the next folder; {} where it has none."""
    found: dict[str, tuple[Module, ...]] = {}
    start = len(key) + 1 if key else 0
    for module in modules:
        rest = module.key[start:].partition("/")[0]
        child = f"{key}/{rest}" if key and rest else rest or key
        found[child] = (*found.get(child, ()), module)
    return found if found.keys() != {key} else {}


def _lines(module: Module) -> int:
    return sum(one.outline.lines for one in module.files)


class PartTable(Value):
    """The rows of the parts, the names of those without a row, and the part of each module.

    ``shown`` are the keys of parts that a diagram has.
    """

    rows: list[dict[str, str]]
    smaller: str
    owner: Mapping[str, str]
    shown: tuple[str, ...]


def part_table(world: PageSources) -> PartTable:
    """The parts of many modules; of a few, each is one, and needs no row besides its own."""
    modules = world.layout.modules
    if len(modules) <= MOST:
        keys = [module.key for module in modules]
        return PartTable([], "", dict(zip(keys, keys, strict=True)), tuple(keys))
    parts = parts_of(modules)
    owner = {module.key: part.key for part in parts for module in part.modules}
    pages = {part.key: _page(part, world) for part in parts}
    used = _used(owner, pages, world)
    rows = [
        {
            "title": pages[part.key],
            "doc": _doc(part, world),
            "modules": f"{len(part.modules):,}",
            "lines": f"{part.lines:,}",
            "uses": used.get(part.key, ""),
        }
        for part in parts[:MOST]
    ]
    smaller = listed([pages[part.key] for part in parts[MOST:]], _NAMED)
    return PartTable(rows, smaller, owner, tuple(part.key for part in parts[:MOST]))


def _used(owner: Mapping[str, str], pages: Mapping[str, str], world: PageSources) -> dict[str, str]:
    """From which others each part with a row imports, with the first import."""
    weights: dict[tuple[str, str], int] = {}
    first: dict[tuple[str, str], CitedPlace] = {}
    for (source, target), weight in world.around.weights.items():
        pair = owner[source], owner[target]
        if pair[0] != pair[1]:
            weights[pair] = weights.get(pair, 0) + weight
            place = world.around.out[source][target]
            first[pair] = min(place, first.get(pair, place), key=tuple)
    found: dict[str, list[tuple[str, str]]] = {}
    shown = list(pages)[:MOST]
    # What has a row says more than what everything imports.
    for pair in sorted(weights, key=lambda pair: (pair[1] not in shown, -weights[pair], pair)):
        found.setdefault(pair[0], []).append(pair)
    return {
        key: listed(
            [
                f"{pages[pair[1]]} ({world.register.named('import', *first[pair])})"
                for pair in pairs[:_USED]
            ],
            _USED,
            len(pairs),
        )
        for key, pairs in found.items()
        if key in shown
    }


def _page(part: ProgramPart, world: PageSources) -> str:
    """A link to the page of the part, or to that of its first module."""
    keys = {module.key for module in part.modules}
    key = part.key if part.key in keys else min(keys)
    return f"[{prose(title_of(part.key), cell=True)}](modules/{world.names[key]}.md)"


def _doc(part: ProgramPart, world: PageSources) -> str:
    files = [one for module in part.modules if module.folder == part.key for one in module.files]
    files = files or [one for module in part.modules for one in module.files]
    one = documenting(files, part.key)
    if one is not None:
        return summary(one, world)
    return main_names(_named(part.modules, world), world)


def _named(modules: Iterable[Module], world: PageSources) -> list[FileFacts]:
    given = world.layout.given
    return [one for module in modules for one in module.files if api(one, module.folder, given)]
