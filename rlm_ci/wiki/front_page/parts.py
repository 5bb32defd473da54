"""The parts of a program, the heaviest first, and what each is for."""

from __future__ import annotations

from collections import Counter

from rlm_ci.text.neutralise import code, prose
from rlm_ci.values import Value
from rlm_ci.wiki.facts.readme import is_readme, listed, sentence
from rlm_ci.wiki.pages.module_page import documenting, main_definition, summary
from rlm_ci.wiki.pages.paths import folder_of, title_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.layout import Module
    from rlm_ci.wiki.pages.module_page import PageSources

#: The parts that are shown: more modules than this are put together by folder.
MOST = 9
#: Parts that are only named; files from which on a pattern is one, and names that show it.
_NAMED, _FILES, _SHOWN = 12, 3, 3


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
    parts = [ProgramPart(key, inner) for key, inner in groups.items()]
    return sorted(parts, key=lambda part: (-part.lines, part.key))


def _children(key: str, modules: tuple[Module, ...]) -> dict[str, tuple[Module, ...]]:
    """The modules of a part by the next folder; {} where it has none."""
    children: dict[str, tuple[Module, ...]] = {}
    start = len(key) + 1 if key else 0
    for module in modules:
        folder = module.key[start:].partition("/")[0]
        child = f"{key}/{folder}" if key and folder else folder or key
        children[child] = (*children.get(child, ()), module)
    return children if children.keys() != {key} else {}


def _lines(module: Module) -> int:
    return sum(file.outline.lines for file in module.files)


def drawn_parts(modules: Sequence[Module]) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """The part of each module, by their keys, and the parts that a diagram has."""
    parts = _shown_parts(modules)
    owner = {module.key: part.key for part in parts for module in part.modules}
    return owner, tuple(part.key for part in parts[:MOST])


def part_rows(world: PageSources) -> tuple[list[dict[str, str]], str]:
    """A row for each of the largest parts, and the names of the others."""
    parts = _shown_parts(world.layout.modules)
    rows = [{"title": _page(part, world), "doc": _doc(part, world)} for part in parts[:MOST]]
    return rows, listed([_page(part, world) for part in parts[MOST:]], _NAMED)


def _shown_parts(modules: Sequence[Module]) -> list[ProgramPart]:
    """The parts of many modules; of a few, each is one."""
    if len(modules) > MOST:
        return parts_of(modules)
    parts = [ProgramPart(module.key, (module,)) for module in modules]
    return sorted(parts, key=lambda part: (-part.lines, part.key))


def _page(part: ProgramPart, world: PageSources) -> str:
    """A link to the page of the part, or to that of its first module."""
    keys = {module.key for module in part.modules}
    key = part.key if part.key in keys else min(keys)
    return f"[{prose(title_of(part.key), cell=True)}](modules/{world.names[key]}.md)"


def _doc(part: ProgramPart, world: PageSources) -> str:
    files = [file for module in part.modules if module.folder == part.key for file in module.files]
    files = files or [file for module in part.modules for file in module.files]
    return purpose_of_files(files, part.key, world)


def purpose_of_files(files: Sequence[FileFacts], folder: str, world: PageSources) -> str:
    """What files are for, with the place that says it: a sentence, a pattern, or a definition.

    "" where nothing of that is found.
    """
    facts = documenting(files, folder)
    if facts is not None:
        return summary(facts, world)
    describing = (
        (not is_readme(path), path)
        for path, file in world.files.items()
        if folder and file.about is not None and folder_of(path) == folder
    )
    _, readme = min(describing, default=(True, ""))
    about = world.files[readme].about if readme else None
    if about is not None:
        link = world.register.link(readme, about.line_start, about.line_end, cell=True)
        return f"{sentence(about.text, cell=True)} {link}"
    return _pattern(files, world) or main_definition(files, world)


def _pattern(files: Sequence[FileFacts], world: PageSources) -> str:
    """What most of the files define alike, or each by its own name; "" where they do not."""
    tops = {
        file.path: [
            symbol.name
            for symbol in file.outline.symbols
            if "." not in symbol.name and symbol.kind in ("function", "class", "struct")
        ]
        for file in files
    }
    full = [file for file in files if tops[file.path]]
    enough = max(_FILES, len(full) // 2 + 1)
    counts = Counter(name for facts in full for name in set(tops[facts.path]) - {"main"})
    shared = [name for name, number in counts.most_common() if number >= enough]
    facts = [
        file_facts
        for file_facts in full
        if _stem(file_facts) in tops[file_facts.path] and not _is_rule(file_facts)
    ]
    if shared:
        names = sorted(shared, key=lambda name: (-counts[name], name))
        first = next(file_facts for file_facts in full if names[0] in tops[file_facts.path])
        others = [code(name, cell=True) for name in names[1:_SHOWN]]
        shown = [_defined(first, names[0], world), *others]
        claim = f"{counts[names[0]]} of {len(full)} files define"
        return f"{claim} {listed(shown, len(shown), len(names))}"
    if len(facts) >= enough:
        shown = [_defined(file_facts, _stem(file_facts), world) for file_facts in facts[:_SHOWN]]
        claim = f"{len(facts)} of {len(full)} files define what they are named after:"
        return f"{claim} {listed(shown, len(shown), len(facts))}"
    return ""


def _defined(facts: FileFacts, name: str, world: PageSources) -> str:
    number = next(at for at, symbol in enumerate(facts.outline.symbols) if symbol.name == name)
    text = code(name, cell=True)
    return world.register.linked_name(text, facts.path, *facts.heads[number])


def _is_rule(facts: FileFacts) -> bool:
    """Whether its language wants a file to be called like what it defines."""
    return facts.outline.language in ("Java", "C#", "PHP")


def _stem(facts: FileFacts) -> str:
    return facts.path.rpartition("/")[2].partition(".")[0]
