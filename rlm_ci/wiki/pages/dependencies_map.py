"""How modules lean on each other and on packages: the graph of files, seen from the pages."""

from __future__ import annotations

from rlm_ci.text.mermaid import DiagramBox, flowchart
from rlm_ci.values import Row, Value
from rlm_ci.wiki.pages.citations import CitedPlace
from rlm_ci.wiki.pages.paths import folder_of, title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.source.import_graph import ImportGraph
    from rlm_ci.wiki.pages.layout import Module, PageLayout

#: Boxes before and after a module in the diagram of its imports.
_NEAR = 6
#: Characters of a name in a box.
_LABEL = 40
#: What can be imported, and is no package.
_NO_PACKAGES = frozenset(("__future__", "_typeshed"))
#: Arrows that even a small map may have.
_FEW = 18
#: The key of all modules together in ``ModuleDependencies.packages``.
ALL = "\0"


class UsedPackage(Row):
    """A package from outside, or of the language: its first import, and the number of all."""

    package: str
    place: CitedPlace
    count: int
    is_standard: bool


class ModuleDependencies(Value):
    """For each module, those that it imports and that import it, with the first line that does.

    ``weights`` counts the imports between two; ``packages`` are by module, and under ``ALL``.
    """

    out: Mapping[str, Mapping[str, CitedPlace]]
    into: Mapping[str, Mapping[str, CitedPlace]]
    weights: Mapping[tuple[str, str], int]
    packages: Mapping[str, tuple[UsedPackage, ...]]


def surroundings(layout: PageLayout, graph: ImportGraph) -> ModuleDependencies:
    out: dict[str, dict[str, CitedPlace]] = {}
    into: dict[str, dict[str, CitedPlace]] = {}
    weights: dict[tuple[str, str], int] = {}
    keys = {module.key for module in layout.modules}
    for path in sorted(layout.owner):
        key = layout.owner[path].key
        for edge in graph.internal.get(path, ()):
            module = layout.owner.get(edge.target)
            if module is None or module.key == key:
                continue
            # An import of a Go package means all of its files.
            other = module.folder if module.is_shared and module.folder in keys else module.key
            if other == key:
                continue
            cited_place = CitedPlace(path, edge.line, edge.line)
            out.setdefault(key, {}).setdefault(other, cited_place)
            into.setdefault(other, {}).setdefault(key, cited_place)
            weights[key, other] = weights.get((key, other), 0) + 1
    return ModuleDependencies(out, into, weights, _packages(layout, graph))


def _packages(layout: PageLayout, graph: ImportGraph) -> Mapping[str, tuple[UsedPackage, ...]]:
    by_key: dict[str, dict[tuple[str, bool], list[CitedPlace]]] = {}
    for path in sorted(layout.owner):
        for use in graph.external.get(path, ()):
            for key in (layout.owner[path].key, ALL) if use.package not in _NO_PACKAGES else ():
                places = by_key.setdefault(key, {}).setdefault((use.package, use.is_standard), [])
                places.append(CitedPlace(path, use.line, use.line))
    return {
        key: tuple(
            UsedPackage(name, places[0], len(places), is_standard)
            for (name, is_standard), places in sorted(inner.items())
        )
        for key, inner in by_key.items()
    }


def neighbourhood(module: Module, around: ModuleDependencies) -> str:
    """The module between those that lean on it and those that it leans on; "" where none do."""
    hub = module.key
    weights = around.weights
    before = sorted(around.into.get(hub, ()), key=lambda key: (-weights[key, hub], key))[:_NEAR]
    after = sorted(around.out.get(hub, ()), key=lambda key: (-weights[hub, key], key))[:_NEAR]
    if not before and not after:
        return ""
    keys = dict.fromkeys([*sorted(before), hub, *sorted(after)])
    boxes = [DiagramBox(key, title_of(key)) for key in keys]
    arrows = [(key, hub) for key in sorted(before)] + [(hub, key) for key in sorted(after)]
    return flowchart(boxes, arrows)


class DependencyDiagram(Value):
    """A diagram, "" where there is nothing to draw, and what it leaves out."""

    diagram: str = ""
    boxes_left: int = 0
    arrows_left: int = 0


def architecture(
    layout: PageLayout, around: ModuleDependencies, parts: Mapping[str, str], shown: Sequence[str]
) -> DependencyDiagram:
    """The map of ``shown`` parts and of what they import, the heaviest arrows first.

    ``parts`` has the part of each module.
    """
    # Within a package of Go nothing is imported: the package is what others lean on.
    packages = {
        module.key: module.folder
        for module in layout.modules
        if module.is_shared and module.folder in parts
    }
    standing = {key: parts[packages.get(key, key)] for key in parts}
    weights: dict[tuple[str, str], int] = {}
    for (source, target), weight in around.weights.items():
        pair = standing[source], standing[target]
        if pair[0] != pair[1]:
            weights[pair] = weights.get(pair, 0) + weight
    linked = {key for pair in weights for key in pair}
    keys = sorted(linked.intersection(shown))
    if not keys:
        return DependencyDiagram()
    boxes = [_box(key, _group(key, keys)) for key in keys]
    heavy = sorted(weights, key=lambda pair: (-weights[pair], pair))
    inside = [pair for pair in heavy if set(pair) <= set(keys)]
    arrows = drawn(inside, max(_FEW, 2 * len(keys)))
    left_out = len(set(standing.values())) - len(keys)
    return DependencyDiagram(flowchart(boxes, sorted(arrows)), left_out, len(inside) - len(arrows))


def drawn(pairs: Sequence[tuple[str, str]], limit: int) -> list[tuple[str, str]]:
    """The heaviest first, but before them the heaviest that begins, and that ends, at each box."""
    chosen: dict[tuple[str, str], None] = {}
    for side in (0, 1):
        seen: set[str] = set()
        for pair in pairs:
            if pair[side] not in seen:
                seen.add(pair[side])
                chosen[pair] = None
    ordered = list(chosen) if len(chosen) <= limit else [pair for pair in pairs if pair in chosen]
    return list(dict.fromkeys([*ordered, *pairs]))[:limit]


def _box(key: str, group: str) -> DiagramBox:
    """In a frame, what follows its name; outside of one all of it, or its end."""
    short = key.rpartition("/")[2] if group else key
    while len(short) > _LABEL and "/" in short:
        short = short.partition("/")[2]
    title = title_of(key)
    return DiagramBox(key, short if group else title if short == key else f"…/{short}", group)


def _group(key: str, shown: list[str]) -> str:
    for folder in (key, folder_of(key)):
        if folder and sum(folder_of(other) == folder for other in shown) > 1:
            return folder
    return ""
