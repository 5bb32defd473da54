"""The life of the main command in a few lines: the first steps of the flow that says most."""

from __future__ import annotations

from rlm_ci.text.neutralise import code
from rlm_ci.text.printable import printable
from rlm_ci.wiki.facts.entry_targets import FUNCTION, TOP
from rlm_ci.wiki.pages.layout import told
from rlm_ci.wiki.pages.wording import sentence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.source.uses.references import Definition
    from rlm_ci.wiki.facts.call_flows import CallFlow
    from rlm_ci.wiki.pages.module_page import PageSources

#: Lines of the list; steps from which on a flow of an entry point says something.
_LINES, _ENOUGH = 7, 3


def main_flow(world: PageSources) -> dict[str, Any]:
    """The flow's name, its lines, and how many steps stand on the page of flows alone."""
    flow = _main(world)
    if flow is None:
        return {"life": [], "life_of": "", "life_more": 0}
    depths: dict[int, int] = {0: -1}
    for step in flow.steps:
        depths[step.number] = depths[step.caller] + 1
    ranked = sorted(flow.steps, key=lambda step: (depths[step.number], step.number))[:_LINES]
    chosen = {step.number for step in ranked}
    shown = {step.number: _name(step.at, world) for step in flow.steps}
    lines = []
    for step in flow.steps:
        if step.number in chosen:
            by = f", called by {shown[step.caller]}" if step.caller else ""
            doc = f" — {sentence(step.at.symbol.doc)}" if step.at.symbol.doc else ""
            raises = ", ".join(code(printable(one.name)) for one in step.raises[:2])
            ends = f" Raises {raises}." if raises else ""
            lines.append(f"{shown[step.number]}{by} {_link(step.at, world)}{doc}{ends}")
    first = flow.starts[0]
    is_named = first.kind != FUNCTION
    return {
        "life": lines,
        "life_of": code(printable(first.name)) if is_named else shown[1],
        "life_more": len(flow.steps) - len(lines),
    }


def _main(world: PageSources) -> CallFlow | None:
    """Of the flows of commands that with the most steps, else the first of a public name."""
    entries = [one for one in world.flows if one.starts[0].kind in ("script", "main")]
    entries = [one for one in entries if len(one.steps) >= _ENOUGH]
    names = {one.project.lower() for one in world.files.values() if one.project}
    entries.sort(key=lambda one: (one.starts[0].name.lower() not in names, -len(one.steps)))
    return next(iter((*entries, *world.flows)), None)


def _name(at: Definition, world: PageSources) -> str:
    if at.symbol.kind == TOP:
        return f"the code of {code(printable(at.path))}"
    return code(printable(told(world.files[at.path], at.symbol.name)))


def _link(at: Definition, world: PageSources) -> str:
    """The head of a definition: what the step says is said there."""
    one = world.files[at.path]
    for known, lines in zip(one.outline.symbols, one.heads, strict=True):
        if (known.name, known.line_start) == (at.symbol.name, at.symbol.line_start):
            return world.register.link(at.path, *lines)
    return world.register.link(at.path, at.symbol.line_start, at.symbol.line_start)
