"""The first page, as its template sees it: what a newcomer needs, in about two screens.

The life of the main command is told by the first steps of the flow that says most. The parts of a
program are its modules by folder, the heaviest first.
"""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.text.neutralise import code, prose
from rlm_ci.text.printable import count
from rlm_ci.values import Value
from rlm_ci.wiki.facts.call_flows import FUNCTION, TOP
from rlm_ci.wiki.facts.commands import TEXTS
from rlm_ci.wiki.facts.note import Statement
from rlm_ci.wiki.facts.readme import ADDS, is_readme, listed, sentence
from rlm_ci.wiki.front_page.additions import additions
from rlm_ci.wiki.front_page.configuration import brief
from rlm_ci.wiki.front_page.project_commands import agreed_commands
from rlm_ci.wiki.front_page.routes import example_tests, routes
from rlm_ci.wiki.pages.flow_page import flow_names, when
from rlm_ci.wiki.pages.layout import shown_name
from rlm_ci.wiki.pages.module_page import (
    documenting,
    main_definition,
    sentence_groups,
    summary,
    unparsed,
)
from rlm_ci.wiki.pages.paths import title_of
from rlm_ci.wiki.update.state import WHOLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.source.uses.references import Definition
    from rlm_ci.wiki.facts.call_flows import CallFlow
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.layout import Module
    from rlm_ci.wiki.pages.module_page import PageSources


#: The parts that are shown: more modules than this are put together by folder.
MOST = 9
#: Parts that are only named; files from which on a pattern is one, and names that show it.
_OTHERS, _FILES, _SHOWN = 12, 3, 3


class ProgramPart(Value):
    """Modules below one folder, which is ``key``; or one module, whose key that is."""

    key: str
    modules: tuple[Module, ...]

    @property
    def lines(self) -> int:
        return sum(_module_lines(module) for module in self.modules)


def parts_of(modules: Sequence[Module]) -> list[ProgramPart]:
    """The parts by folder, the heaviest first.

    A folder is parted further while there are few parts, or while it holds more than half of all.
    """
    groups: dict[str, tuple[Module, ...]] = {"": tuple(modules)}
    total = sum(map(_module_lines, modules))
    while True:
        for key in sorted(groups, key=lambda key: (-sum(map(_module_lines, groups[key])), key)):
            inner = _children(key, groups[key])
            is_most = 2 * sum(map(_module_lines, groups[key])) > total
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


def _module_lines(module: Module) -> int:
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
    return rows, listed([_page(part, world) for part in parts[MOST:]], _OTHERS)


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
    return purpose_of_files(files, part.key, world) or _contents(files, world)


def _contents(files: Sequence[FileFacts], world: PageSources) -> str:
    """What files without a public name are: where a program begins, or so many of a language."""
    starts = [
        (file, entry)
        for file in files
        for entry in file.outline.entries
        if entry.kind in _BEGINS_AT
    ]
    if starts:
        file, entry = min(starts, key=lambda pair: pair[0].path)
        link = world.register.link(file.path, entry.line_start, entry.line_start, cell=True)
        return f"where a program begins: {link}"
    largest = max(files, key=lambda file: (file.outline.lines, file.path))
    languages = sorted({file.outline.language for file in files})
    what = f"{count(len(files), 'file')} of {listed(languages, len(languages))}"
    link = world.register.file(largest.path, cell=True)
    return f"{what} without public names{', the largest' if files[1:] else ':'} {link}"


def purpose_of_files(files: Sequence[FileFacts], folder: str, world: PageSources) -> str:
    """What files are for, with the place that says it: a sentence, a pattern, or a definition.

    "" where nothing of that is found.
    """
    facts = documenting(files, folder)
    if facts is not None:
        return summary(facts, world)
    described = world.introduction(folder)
    return described or _pattern(files, world) or main_definition(files, world)


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
    alike = [file for file in full if _stem(file) in tops[file.path] and not _is_rule(file)]
    if shared:
        names = sorted(shared, key=lambda name: (-counts[name], name))
        first = next(file for file in full if names[0] in tops[file.path])
        others = [code(name, cell=True) for name in names[1:_SHOWN]]
        shown = [_defined(first, names[0], world), *others]
        claim = f"{counts[names[0]]} of {len(full)} files define"
        return f"{claim} {listed(shown, len(shown), len(names))}"
    if len(alike) >= enough:
        shown = [_defined(file, _stem(file), world) for file in alike[:_SHOWN]]
        claim = f"{len(alike)} of {len(full)} files define what they are named after:"
        return f"{claim} {listed(shown, len(shown), len(alike))}"
    return ""


def _defined(facts: FileFacts, name: str, world: PageSources) -> str:
    symbol = next(symbol for symbol in facts.outline.symbols if symbol.name == name)
    text = code(name, cell=True)
    return world.register.linked_name(text, facts.path, *facts.head_of(symbol))


def _is_rule(facts: FileFacts) -> bool:
    """Whether its language wants a file to be called like what it defines."""
    return facts.outline.language in ("Java", "C#", "PHP")


def _stem(facts: FileFacts) -> str:
    return facts.path.rpartition("/")[2].partition(".")[0]


#: Lines of the list; steps from which on a flow of an entry point says something; commands that
#: are named.
_LINES, _ENOUGH, _NAMED = 7, 3, 8


#: Kinds of entry points at which a program begins.
_BEGINS_AT = ("main", "script")


def main_flow(world: PageSources) -> dict[str, Any]:
    """The flow's name, its lines, and how many steps stand on the page of flows alone.

    Where it chooses between commands, the lines go on with the longest of these.
    """
    flow = _main(world)
    is_foreign = (
        flow is not None
        and flow.starts[0].kind == FUNCTION
        and any(
            entry.kind in _BEGINS_AT for file in world.program for entry in file.outline.entries
        )
    )
    if flow is None or is_foreign:  # a function in its place says nothing of the program
        return {"life": [], "life_of": "", "life_more": 0}
    first = flow.starts[0]
    commands = _commands(flow, world)
    lines = _lines(flow, 1 if commands else _LINES, world)
    shown, every = len(lines), len(flow.steps)
    if commands:
        in_order = sorted(commands, key=lambda call_flow: call_flow.starts[0].line_start)
        links = [_command(call_flow, world) for call_flow in in_order[:_NAMED]]
        lines.append(f"chooses a command: {listed(links, len(links), len(commands))}")
        longest = commands[0]
        name = code(longest.starts[0].name)
        inner = _lines(longest, _LINES - len(lines), world)
        lines += [f"{name}: {inner[0]}", *inner[1:]]
        shown, every = shown + len(inner), every + len(longest.steps)
    is_named = first.kind != FUNCTION
    return {
        "life": lines,
        "life_of": code(first.name) if is_named else _name(flow.steps[0].at, world),
        "life_more": every - shown,
    }


def _commands(flow: CallFlow, world: PageSources) -> list[CallFlow]:
    """The flows of commands between which a step of this one chooses, the longest first."""
    places = {(step.at.path, call.line) for step in flow.steps for call in step.calls}
    return [
        call_flow
        for call_flow in world.flows
        if call_flow.starts[0].kind == "command"
        and (call_flow.starts[0].path, call_flow.starts[0].line_start) in places
    ]


def _command(flow: CallFlow, world: PageSources) -> str:
    start = flow.starts[0]
    name = code(start.name.rpartition(" ")[2])
    return world.register.linked_name(name, start.path, start.line_start, start.line_end)


def _lines(flow: CallFlow, limit: int, world: PageSources) -> list[str]:
    """The steps nearest to the beginning, in the order in which they are called."""
    depths: dict[int, int] = {0: -1}
    for step in flow.steps:
        depths[step.number] = depths[step.caller] + 1
    ranked = sorted(flow.steps, key=lambda step: (depths[step.number], step.number))[:limit]
    chosen = {step.number for step in ranked}
    shown = {step.number: _name(step.at, world) for step in flow.steps}
    calls = {call.step: (step.at.path, call) for step in flow.steps for call in step.calls}
    lines = []
    for step in flow.steps:
        if step.number not in chosen:
            continue
        by, condition = "", ""
        if step.caller:
            by = f", called by {shown[step.caller]}"
            path, call = calls.get(step.number, ("", None))
            condition = when(call.branches[-1:], path, world) if call is not None else ""
        doc = f" — {sentence(step.at.symbol.doc)}" if step.at.symbol.doc else ""
        raises = ", ".join(dict.fromkeys(code(site.name) for site in step.raises[:2]))
        ends = f" Raises {raises}." if raises else ""
        lines.append(f"{condition}{shown[step.number]}{by} {_link(step.at, world)}{doc}{ends}")
    return lines


def _main(world: PageSources) -> CallFlow | None:
    """Of the flows of commands that with the most steps, else the first of a public name."""
    entries = [flow for flow in world.flows if flow.starts[0].kind in _BEGINS_AT]
    entries = [entry for entry in entries if len(entry.steps) >= _ENOUGH]
    names = {file.project.lower() for file in world.files.values() if file.project}
    entries.sort(key=lambda flow: (flow.starts[0].name.lower() not in names, -len(flow.steps)))
    return next(iter((*entries, *world.flows)), None)


def _name(at: Definition, world: PageSources) -> str:
    if at.symbol.kind == TOP:
        return f"the code of {code(at.path)}"
    return code(shown_name(world.files[at.path], at.symbol.name))


def _link(at: Definition, world: PageSources) -> str:
    """The head of a definition: what the step says is said there."""
    return world.register.link(at.path, *world.files[at.path].head_of(at.symbol))


#: Documents for whoever uses or changes the project, in this order; LICENSE and the like say
#: nothing of the program.
_KNOWN = ("readme", "contributing", "hacking", "development", "architecture", "design", "security",
          "changelog", "changes", "history")  # fmt: skip
#: Where longer documentation begins.
_BEGINS = re.compile(r"(?:docs?|documentation)/(?:source/|src/|content/)?(?:index|readme|intro\w*)")
_MOST, _CHAPTERS = 6, 5
#: Headings of chapters on how to do something.
_TEACHES = re.compile(
    r"(?i)\b(?:add|adding|new|creat|writ|implement|extend|support|tests?|testing|set ?up"
    r"|setting|build|building|develop|debug|release|releasing|architecture|structure|layout|organi[sz])"
)


def own_docs(world: PageSources) -> list[str]:
    """A link for each document, the README first."""
    documents = []
    for path, file in world.files.items():
        stem, _, suffix = path.lower().rpartition(".")
        stem, suffix = (stem, suffix) if stem else (suffix, "txt")
        stem = stem.removeprefix(".github/").removeprefix("docs/")
        if suffix not in TEXTS or not file.outline.lines:
            continue
        if stem in _KNOWN:
            documents.append((_KNOWN.index(stem), path))
        elif _BEGINS.fullmatch(path.lower().rpartition(".")[0]):
            documents.append((1, path))
    return [_linked(path, world) for _, path in sorted(documents)[:_MOST]]


def _linked(path: str, world: PageSources) -> str:
    """A document, and the chapters of a guide that say how something is added or run."""
    link = world.register.file(path)
    chapters = [chapter for chapter in world.files[path].chapters if _TEACHES.search(chapter.text)]
    chapters.sort(key=lambda statement: not ADDS.search(statement.text))
    shown = [
        world.register.linked_name(prose(chapter.text), path, chapter.line_start, chapter.line_end)
        for chapter in chapters[:_CHAPTERS]
    ]
    return f"{link}: {', '.join(shown)}" if shown else link


#: Characters of the introduction, where it has several sentences.
_INTRODUCTION = 260
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`])")
#: How the documentation of a package of Go begins.
_OF_PACKAGE = re.compile(r"(?:Package|Command) [\w-]+ \w")
#: Letters by which words are the same, and words that say nothing of a project.
_STEM = 6
_COMMON = {
    "about", "also", "based", "build", "built", "easy", "fast", "from", "have", "into",
    "library", "more", "package", "program", "project", "python", "rust", "simple", "small",
    "that", "their", "them", "they", "this", "tool", "used", "uses", "using", "very", "what",
    "when", "where", "which", "with", "without", "your", "javascript", "typescript", "ruby",
    "java", "golang", "node",
}  # fmt: skip
#: What a model said of its sentences about the whole.
_HELD = "they follow from its sentences about the linked lines"


def overview(world: PageSources) -> dict[str, Any]:
    parts, others = part_rows(world)
    return {
        "about": _about(world.files, world),
        "said": sentence_groups(world.prose.get(WHOLE, ()), world, _HELD),
        "commands": agreed_commands(world, example_tests(world)),
        **main_flow(world),
        "flows": flow_names(world.flows),
        "parts": parts,
        "parts_others": others,
        "tasks": routes(world),
        "configuration": brief(world),
        "additions": additions(world),
        "docs": own_docs(world),
        "unparsed": unparsed(world.program),
        "is_part": world.outside is not None,
        "is_empty": not world.layout.modules,
    }


def _about(files: Mapping[str, FileFacts], world: PageSources) -> dict[str, str] | None:
    """The beginning of README; where that is not about the project, what its manifest says first.

    It is about the project if it has its name, or a word of the manifest's description.
    """
    tops = sorted((not path.lower().endswith(".md"), path) for path in files if "/" not in path)
    introduced = [
        (path, about) for _, path in tops if (about := _introduced(files[path])) is not None
    ]
    statements = [pair for pair in introduced if is_readme(pair[0])][:1]
    manifests = [pair for pair in introduced if not is_readme(pair[0])][:1]
    if not statements or (manifests and not _is_about(statements[0][1], manifests[0][1], files)):
        statements = [*manifests, *statements]
    if not statements:
        return None
    links = [world.register.link(path, at.line_start, at.line_end) for path, at in statements]
    return {"text": _beginning(statements[0][1].text), "link": ", ".join(links)}


def _is_about(readme: Statement, manifest: Statement, files: Mapping[str, FileFacts]) -> bool:
    """Whether a README begins with the project that a manifest describes."""
    text = _SENTENCE.split(readme.text, maxsplit=1)[0]
    names = "|".join(re.escape(file.project) for file in files.values() if file.project)
    if readme.text.rstrip().endswith(":"):  # it says what follows
        return False
    is_named = bool(names) and re.search(rf"(?i)(?<!\w)(?:{names})(?!\w)", text) is not None
    return is_named or bool(_terms(text) & _terms(manifest.text))


def _introduced(file: FileFacts) -> Statement | None:
    """How a README or a manifest, or the documentation of a package of Go, describes it all."""
    outline = file.outline
    if file.about is None and outline.language == "Go" and _OF_PACKAGE.match(outline.doc):
        return Statement(outline.doc, outline.doc_start, outline.doc_end)
    return file.about


def _terms(text: str) -> set[str]:
    """The words that say what a text is about, by their beginnings."""
    words = re.findall(r"[a-z0-9]{4,}", text.lower())
    return {word[:_STEM] for word in words if word not in _COMMON}


def _beginning(text: str) -> str:
    """As many of the first sentences as a reader takes in at once."""
    sentences = _SENTENCE.split(text)
    shown = sentences[0]
    for other in sentences[1:]:
        if len(shown) + len(other) >= _INTRODUCTION:
            break
        shown = f"{shown} {other}"
    return prose(shown)
