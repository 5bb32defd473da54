"""The page "How a call flows": which flows it has, and how its template sees them."""

from __future__ import annotations

from rlm_ci.source.uses.branches import LOOP
from rlm_ci.text.mermaid import DiagramFrame, Message, sequence
from rlm_ci.text.neutralise import code, prose
from rlm_ci.text.printable import count
from rlm_ci.wiki.facts.call_flows import (
    FUNCTION,
    TOP,
    CallFlows,
    entry_starts,
    public_functions,
    used_starts,
)
from rlm_ci.wiki.facts.readme import listed, sentence
from rlm_ci.wiki.pages.citations import QUOTED, contents
from rlm_ci.wiki.pages.layout import api, shown_name
from rlm_ci.wiki.pages.module_page import sentence_groups
from rlm_ci.wiki.prose.shown_sources import flow_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.source.import_graph import ImportGraph
    from rlm_ci.source.uses.branches import Branch
    from rlm_ci.source.uses.file_calls import RaiseSite
    from rlm_ci.source.uses.references import Definition
    from rlm_ci.wiki.facts.call_flows import CallFlow, FlowCall, FlowStart, FlowStep
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.layout import PageLayout
    from rlm_ci.wiki.pages.module_page import PageSources

NAME = "flows.md"
#: Flows of entry points, of commands that one of them chooses between, and of public functions.
_ENTRIES, _COMMANDS, _FUNCTIONS = 8, 8, 6
#: Files, and bytes of them, in which calls of public functions are counted.
_COUNTED, _BYTES = 120, 512 << 10
#: Flows that the first page names.
_NAMED = 4
#: Errors of a step in the diagram; participants and steps of one; branches around a call.
_DRAWN, _PARTICIPANTS, _STEPS, _AROUND = 2, 6, 12, 2
#: How starts are called.
_WORDS = {"script": "command", "main": "start of", "command": "subcommand", "route": "route",
          FUNCTION: "function"}  # fmt: skip


def call_flows(
    files: Mapping[str, FileFacts], layout: PageLayout, graph: ImportGraph, corpus: Corpus
) -> tuple[CallFlow, ...]:
    """The flows of entry points, then of the most used public names that are no step of these."""
    walks = call_walks(files, layout, graph, corpus)
    starts = entry_starts(files, layout.owner, walks.resolver)[: 2 * _ENTRIES]
    commands = walks.dispatched(starts)[:_COMMANDS]
    flows = [*walks.of(starts)[:_ENTRIES], *walks.of(commands)]
    public = public_functions(
        (facts.path, symbol)
        for module in layout.modules
        for facts in module.files
        for _, symbol in api(facts, module.folder, layout.exported_names) or ()
    )
    paths = _users(layout, corpus)
    starts = used_starts(public, paths, walks.read(paths), files)[: 4 * _FUNCTIONS]
    shown = {_flow_key(step.at) for flow in flows for step in flow.steps}
    used: list[CallFlow] = []
    for flow in walks.of(starts):
        if _flow_key(flow.steps[0].at) not in shown and len(used) < _FUNCTIONS:
            shown |= {_flow_key(step.at) for step in flow.steps}
            used.append(flow)
    return (*flows, *used)


def call_walks(
    files: Mapping[str, FileFacts], layout: PageLayout, graph: ImportGraph, corpus: Corpus
) -> CallFlows:
    """Walks through the program, in which no call is followed yet."""
    corpus_files = {file.path: file for file in corpus.files}

    def read(paths: Sequence[str]) -> dict[str, bytes]:
        files = [corpus_files[path] for path in paths if path in corpus_files]
        return {file.path: content for file, content in contents(corpus, files)}

    outlines = {path: files[path].outline for path in sorted(layout.owner)}
    outlines |= {path: facts.outline for path, facts in files.items() if _is_crate(path)}
    return CallFlows(files, outlines, graph, read)


def _is_crate(path: str) -> bool:
    return path.rpartition("/")[2] == "Cargo.toml"


def _flow_key(at: Definition) -> tuple[str, str]:
    return at.path, at.symbol.name


def _users(layout: PageLayout, corpus: Corpus) -> list[str]:
    """The files in which calls are counted: examples and tests, then the program, within limits."""
    groups = (layout.beside, layout.tests)
    users = [facts.path for group in groups for inner in group.values() for facts in inner]
    sizes = {file.path: file.size for file in corpus.files}
    counted: list[str] = []
    room = _BYTES
    for path in [*sorted(users), *sorted(layout.owner)]:
        room -= sizes.get(path, _BYTES)
        if room < 0 or len(counted) == _COUNTED:
            break
        counted.append(path)
    return counted


def flow_names(flows: Sequence[CallFlow]) -> str:
    """The starts of flows, for the first page; "" without any."""
    return listed([code(flow.starts[0].name) for flow in flows], _NAMED)


def flow_page(world: PageSources) -> list[dict[str, Any]]:
    """The flows as the template sees them: texts that are neutral already, and links."""
    return [_flow(flow, world) for flow in world.flows]


def _flow(flow: CallFlow, world: PageSources) -> dict[str, Any]:
    first = flow.starts[0]
    name = _shown(flow.steps[0].at, world) if first.kind == FUNCTION else first.name
    diagram, undrawn = _diagram(flow, world)
    return {
        "title": f"{_WORDS[first.kind]} {code(name)}",
        "starts": [_start(start, world) for start in flow.starts],
        "said": sentence_groups(world.prose.get(flow_key(flow), ()), world),
        "diagram": diagram,
        "undrawn": count(undrawn, "step") if undrawn else "",
        "steps": [_step(step, world) for step in flow.steps],
        "left": count(flow.left, "definition") if flow.left else "",
    }


def _start(flow_start: FlowStart, world: PageSources) -> str:
    if flow_start.kind == FUNCTION:
        where = f"{count(flow_start.files, 'file')} that were counted"
        return f"A public name; {count(flow_start.uses, 'call')} by that name in the {where}."
    link = world.register.link(
        flow_start.path, flow_start.line_start, min(flow_start.line_end, flow_start.line_start + 11)
    )
    return f"Begins as {prose(flow_start.kind)} {code(flow_start.name)} {link}"


def _step(step: FlowStep, world: PageSources) -> dict[str, Any]:
    symbol, path = step.at.symbol, step.at.path
    name = code(_shown(step.at, world))
    return {
        "number": step.number,
        "name": name,
        "doc": sentence(symbol.doc) if symbol.doc else "",
        "link": _link(step.at, world),
        "rows": [
            *(_call(call, path, world) for call in step.calls),
            *(_raise(raise_site, path, world) for raise_site in step.raises),
        ],
        "more": count(step.more, "more call") if step.more else "",
        "outside": f"{step.outside:,}" if step.outside else "",
    }


def _raise(raise_site: RaiseSite, path: str, world: PageSources) -> str:
    link = world.register.link(path, raise_site.line, raise_site.line)
    return f"raises {code(raise_site.name)} {link}"


def _call(call: FlowCall, path: str, world: PageSources) -> str:
    link = world.register.link(path, call.line, call.line)
    text = f"{when(call.branches, path, world)}calls {code(call.name)}"
    if len(call.definitions) == 1 and call.step:
        text = f"{text} (step {call.step})"
        of = call.interface and f", for {_defined(call.interface, world)}"
        return f"{text} {link}{of or ''}"
    if len(call.definitions) == 1 and call.interface is None:
        return f"{text} {link}: {_defined(call.definitions[0], world)}"
    every = ", ".join(_defined(definition, world) for definition in call.definitions)
    if call.interface is None:
        return f"{text} {link}, one of {len(call.definitions)} forms: {every}"
    declared = _defined(call.interface, world)
    return f"{text} {link}: {declared}, by one of {len(call.definitions)}: {every}"


def _defined(at: Definition, world: PageSources) -> str:
    return f"{code(_shown(at, world))} {_link(at, world)}"


def when(branches: Sequence[Branch], path: str, world: PageSources) -> str:
    """The conditions and loops around a call, each as a link to its line."""
    shown = []
    for branch in branches[-_AROUND:]:
        is_word = branch.kind == LOOP or branch.text.startswith(("else", "on "))
        text = world.register.linked_name(code(branch.text), path, branch.line, branch.line)
        shown.append(text if is_word else f"if {text}")
    return f"{', '.join(shown)}: " if shown else ""


def _link(at: Definition, world: PageSources) -> str:
    """All lines of a definition, so that any change of them is seen; of a long one its head."""
    symbol = at.symbol
    start, end = symbol.line_start, symbol.line_end
    if end - start >= QUOTED or symbol.kind in ("class", "struct"):
        start, end = world.files[at.path].head_of(symbol)
    return world.register.link(at.path, start, end)


def _shown(at: Definition, world: PageSources) -> str:
    if at.symbol.kind == TOP:
        return at.path
    return shown_name(world.files[at.path], at.symbol.name)


def _diagram(flow: CallFlow, world: PageSources) -> tuple[str, int]:
    """Who calls whom, within what branches, and how many steps have no room in the diagram.

    A participant is a class, or a file of functions.
    """
    calls = {call.step: call for step in flow.steps for call in step.calls if call.step}
    frames: dict[int, tuple[DiagramFrame, ...]] = {}
    drawn: dict[int, str] = {0: ""}
    messages: list[Message] = []
    for step in flow.steps:
        name = _participant(step.at, world)
        names = {*drawn.values(), name}
        if step.caller not in drawn or len(names) > _PARTICIPANTS or len(messages) == _STEPS:
            continue
        branches = calls[step.number].branches if step.caller and step.number in calls else ()
        around = frames.get(step.caller, ())
        frames[step.number] = around + tuple(_frame(branch, step.caller) for branch in branches)
        errors = ", ".join(raise_site.name for raise_site in step.raises[:_DRAWN])
        messages.append(
            Message(
                drawn[step.caller],
                name,
                _message(step, world),
                f"raises {errors}" if errors else "",
                frames[step.number],
            )
        )
        drawn[step.number] = name
    return sequence(messages), len(flow.steps) - len(messages)


def _frame(branch: Branch, caller: int) -> DiagramFrame:
    return DiagramFrame(branch.kind, f"{caller}:{branch.group}", branch.text)


def _message(step: FlowStep, world: PageSources) -> str:
    shown = _shown(step.at, world)
    return shown if step.at.symbol.kind == TOP else f"{_last(shown)}()"


def _last(name: str) -> str:
    return name.replace("::", ".").rpartition(".")[2]


def _participant(at: Definition, world: PageSources) -> str:
    owner = "" if at.symbol.kind == TOP else _shown(at, world).rpartition(".")[0]
    short = "/".join(at.path.split("/")[-2:])
    return f"{owner} in {short}" if owner else short
