"""The first page, as its template sees it: what a newcomer needs, in about two screens.

The life of the main command is told by the first steps of the flow that says most.
"""

from __future__ import annotations

import re

from rlm_ci.text.neutralise import code, prose
from rlm_ci.wiki.facts.call_flows import FUNCTION, TOP
from rlm_ci.wiki.facts.commands import TEXTS
from rlm_ci.wiki.facts.note import Statement
from rlm_ci.wiki.facts.readme import is_readme, listed, sentence
from rlm_ci.wiki.front_page.configuration import brief
from rlm_ci.wiki.front_page.parts import part_rows
from rlm_ci.wiki.front_page.project_commands import agreed_commands
from rlm_ci.wiki.front_page.registries import example_tests, registries, routes
from rlm_ci.wiki.pages.facts_page import unparsed
from rlm_ci.wiki.pages.flow_page import flow_names, when
from rlm_ci.wiki.pages.layout import shown_name
from rlm_ci.wiki.pages.module_page import sentence_groups
from rlm_ci.wiki.update.state import WHOLE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.source.uses.references import Definition
    from rlm_ci.wiki.facts.call_flows import CallFlow
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.module_page import PageSources


#: Lines of the list; steps from which on a flow of an entry point says something; commands that
#: are named.
_LINES, _ENOUGH, _NAMED = 7, 3, 8


def main_flow(world: PageSources) -> dict[str, Any]:
    """The flow's name, its lines, and how many steps stand on the page of flows alone.

    Where it chooses between commands, the lines go on with the longest of these.
    """
    flow = _main(world)
    if flow is None:
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
    entries = [flow for flow in world.flows if flow.starts[0].kind in ("script", "main")]
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
_ADDS = re.compile(r"(?i)\b(?:add|new|creat|writ|implement|extend)")
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
    chapters.sort(key=lambda statement: not _ADDS.search(statement.text))
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
        "registries": registries(world),
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
    said = [(path, about) for _, path in tops if (about := _introduced(files[path])) is not None]
    statements = [pair for pair in said if is_readme(pair[0])][:1]
    manifests = [pair for pair in said if not is_readme(pair[0])][:1]
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
