"""How a call flows: the steps from an entry point on, each with what it calls and raises.

All flows go down level by level together, so that a level's files are read at once.
"""

from __future__ import annotations

import re

from rlm_ci.source.uses.branches import ALT, around, branches
from rlm_ci.source.uses.call_sites import file_calls
from rlm_ci.source.uses.call_targets import CallResolver
from rlm_ci.source.uses.file_calls import EXPRESSION, MACRO, FileCalls
from rlm_ci.source.uses.references import Definition
from rlm_ci.values import Row, Value
from rlm_ci.wiki.facts.entry_targets import TOP, FlowStart, top_of
from rlm_ci.wiki.facts.file_facts import without_secrets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rlm_ci.source import Outline
    from rlm_ci.source.import_graph import ImportGraph
    from rlm_ci.source.uses.branches import Branch
    from rlm_ci.source.uses.file_calls import CallSite, RaiseSite
    from rlm_ci.wiki.facts.entry_targets import Read
    from rlm_ci.wiki.facts.file_facts import FileFacts

#: Levels below the start, steps of a flow, and calls and raises of a step that are shown.
DEEPEST, STEPS, CALLS, RAISES = 4, 16, 12, 4


#: Commands from which on a statement chooses between them, and a condition that names one.
_SEVERAL = 3
_CHOSEN = re.compile(
    r"[\w.()\[\]'\"-]+\s*(?:===?|is)\s*(?:['\"]([\w:.-]+)['\"].*|(?:\w+(?:::|\.))+(\w+)\W?.*|([a-z][\w-]*))"
)


class FlowCall(Value):
    """A call of a step: ``name``, and ``found``, what it means.

    The name is as it is written, with the class of a variable if that is known. Several definitions
    implement ``interface``, or are forms of one function. ``step`` is the number of its step, 0 for
    none. ``branches`` are around all its calls in the step, the outermost first.
    """

    line: int
    name: str
    found: tuple[Definition, ...]
    interface: Definition | None = None
    step: int = 0
    branches: tuple[Branch, ...] = ()


class FlowStep(Value):
    """A definition that runs, called by the step ``caller`` (0: by nobody that is known).

    ``more`` counts calls of the program that are not shown, ``outside`` those that lead out of it
    or could not be resolved.
    """

    number: int
    caller: int
    at: Definition
    calls: tuple[FlowCall, ...]
    raises: tuple[RaiseSite, ...]
    more: int = 0
    outside: int = 0


class CallFlow(Value):
    """The steps from ``starts`` on, which are one definition; ``left``: definitions not shown."""

    starts: tuple[FlowStart, ...]
    steps: tuple[FlowStep, ...]
    left: int = 0


class _FlowKey(Row):
    """What a definition is known by in a flow."""

    path: str
    line: int
    name: str


class _Node:
    """A definition in a flow that is still growing."""

    def __init__(self, at: Definition, above: _Node | None) -> None:
        self.at = at
        self.above = above
        self.below: list[_Node] = []
        self.calls: list[FlowCall] = []
        self.raises: tuple[RaiseSite, ...] = ()
        self.outside = 0
        self.number = 0
        self.parted = 0


class _Growing:
    """A flow that grows by a level at a time."""

    def __init__(self, starts: tuple[FlowStart, ...]) -> None:
        self.starts = starts
        self.root = _Node(starts[0].at, None)
        self.known: dict[_FlowKey, _Node] = {_flow_key(self.root.at): self.root}
        self.front = [self.root]
        self.left: set[_FlowKey] = set()


class CallFlows:
    """Flows through ``files``; ``read`` returns the contents of paths that it knows."""

    def __init__(
        self,
        files: Mapping[str, FileFacts],
        outlines: Mapping[str, Outline],
        graph: ImportGraph,
        read: Read,
    ) -> None:
        """``outlines`` are those of the files whose definitions count, by path."""
        self._files = files
        self.resolver = CallResolver(outlines, graph, self._file)
        self.read = read
        self._calls: dict[str, FileCalls] = {}
        self._branches: dict[str, tuple[Branch, ...]] = {}
        self._apart: set[tuple[_FlowKey, _FlowKey]] = set()
        self._bodies: dict[_FlowKey, tuple[list[FlowCall], tuple[RaiseSite, ...], int]] = {}

    def _file(self, path: str) -> FileCalls:
        self._load([path])
        return self._calls.get(path, FileCalls())

    def of(self, starts: Sequence[FlowStart]) -> list[CallFlow]:
        """The flows from ``starts`` that have a second step, in that order.

        Public names that lead no further than to a second step come last. Starts at one
        definition are one flow; what only calls the start of another is left out.
        """
        groups: dict[_FlowKey, list[FlowStart]] = {}
        for start in starts:
            groups.setdefault(_flow_key(start.at), []).append(start)
        growing = [_Growing(tuple(inner)) for inner in groups.values()]
        for level in range(DEEPEST + 1):
            self._load({node.at.path for flow in growing for node in flow.front})
            for flow in growing:
                self._grow(flow, is_last=level == DEEPEST)
        heads = {_flow_key(flow.root.at) for flow in growing}
        flows = [
            _finished(flow) for flow in growing if flow.root.below and not _leads_on(flow, heads)
        ]
        return sorted(flows, key=lambda flow: bool(flow.starts[0].uses) and len(flow.steps) == 2)

    def dispatched(self, starts: Iterable[FlowStart]) -> list[FlowStart]:
        """A start for each command that the function at a start chooses between, or one it calls.

        From then on, flows do not follow these from there: each has a flow of its own.
        """
        flow_starts: list[FlowStart] = []
        for start in starts:
            body = self._read_body(start.at)
            called = [call.found[0] for call in body if len(call.found) == 1]
            self._load({at.path for at in called})
            for at in (start.at, *called):
                arms = _arms(self._read_body(at))
                if len(arms) < _SEVERAL:
                    continue
                for name, call in arms.items():
                    target = call.found[0]
                    self._apart.add((_flow_key(at), _flow_key(target)))
                    title = f"{start.name} {name}" if start.kind == "script" else name
                    row = ("command", title, at.path, call.line, call.line, target, 0, 0)
                    flow_starts.append(FlowStart.of(row))
                break
        by_function = {flow_start.at: flow_start for flow_start in reversed(flow_starts)}
        return sorted(
            by_function.values(), key=lambda flow_start: (-_length(flow_start.at), flow_start.name)
        )

    def called(self, path: str, first: int, last: int) -> Iterator[Definition]:
        """The definitions of the program that calls in these lines mean."""
        self._load([path])
        facts = self._files[path]
        for site in self._calls[path].calls:
            if first <= site.line <= last:
                around = [
                    symbol for symbol in facts.outline.symbols
                    if symbol.kind in ("function", "method")
                    and symbol.line_start <= site.line <= symbol.line_end
                ]  # fmt: skip
                inner = max(around, key=lambda symbol: symbol.line_start, default=None)
                at = Definition(path, inner) if inner else top_of(facts, 1, facts.outline.lines)
                yield from self.resolver.targets(at, site).found if at is not None else ()

    def _read_body(self, at: Definition) -> list[FlowCall]:
        self._load([at.path])
        return self._body(at)[0]

    def _load(self, paths: Iterable[str]) -> None:
        unread = sorted(path for path in paths if path not in self._calls)
        for path, content in self.read(unread).items():
            bare = without_secrets(content)
            self._calls[path] = file_calls(path, bare)
            self._branches[path] = branches(path, bare)
        self._calls.update(dict.fromkeys(set(unread) - self._calls.keys(), FileCalls()))

    def _grow(self, flow: _Growing, *, is_last: bool) -> None:
        front, flow.front = flow.front, []
        callees: dict[_FlowKey, tuple[_Node, FlowCall]] = {}
        for node in front:
            node.calls, node.raises, node.outside = self._body(node.at)
            for call in node.calls:
                if len(call.found) != 1 or (callee := _flow_key(call.found[0])) in flow.known:
                    continue
                if (_flow_key(node.at), callee) in self._apart:
                    node.parted += 1  # which has a flow of its own
                else:
                    callees.setdefault(callee, (node, call))
        chosen = set() if is_last else self._weighty(callees, STEPS - len(flow.known))
        for callee, (node, call) in callees.items():
            if callee not in chosen:
                flow.left.add(callee)
                continue
            below = _Node(call.found[0], node)
            flow.known[callee] = below
            node.below.append(below)
            flow.front.append(below)

    def _weighty(
        self, callees: Mapping[_FlowKey, tuple[_Node, FlowCall]], room: int
    ) -> set[_FlowKey]:
        """Those that are followed: of too many those that do most, half of them of one caller."""
        self._load({callee.path for callee in callees})
        weights = {callee: self._weight(call.found[0]) for callee, (_, call) in callees.items()}
        chosen: set[_FlowKey] = set()
        taken: dict[int, int] = {}
        for callee in sorted(callees, key=lambda callee: (-weights[callee], callee)):
            node = id(callees[callee][0])
            if len(chosen) < room and taken.get(node, 0) < (room + 1) // 2:
                chosen.add(callee)
                taken[node] = taken.get(node, 0) + 1
        return chosen

    def _weight(self, at: Definition) -> int:
        """The lines of a definition, and of what it calls: one that hands on counts as that."""
        calls, *_ = self._body(at)
        below = {_flow_key(call.found[0]): call.found[0] for call in calls if len(call.found) == 1}
        return sum(map(_length, (at, *below.values())))

    def _body(self, at: Definition) -> tuple[list[FlowCall], tuple[RaiseSite, ...], int]:
        """What a definition calls and raises, and how many calls lead to nothing of the program."""
        key = _flow_key(at)
        if key not in self._bodies:
            calls, raises = self._inside(at)
            flow_calls, outside = self._resolved(at, calls)
            self._bodies[key] = flow_calls, raises, outside
        return self._bodies[key]

    def _inside(self, at: Definition) -> tuple[list[CallSite], tuple[RaiseSite, ...]]:
        """The calls and raises in the lines of a definition that belong to no other within."""
        calls_of_file = self._calls.get(at.path, FileCalls())
        first, last = at.symbol.line_start, at.symbol.line_end
        others = [
            (symbol.line_start, symbol.line_end)
            for symbol in self._files[at.path].outline.symbols
            if symbol.kind in ("function", "method", "class", "struct")
            and (symbol.line_start, symbol.name) != (first, at.symbol.name)
            and first <= symbol.line_start
            and symbol.line_end <= last
        ]

        def is_own(line: int) -> bool:
            is_there = first <= line <= last
            return is_there and not any(start <= line <= end for start, end in others)

        calls = [call for call in calls_of_file.calls if is_own(call.line)]
        return calls, tuple(site for site in calls_of_file.raises if is_own(site.line))

    def _resolved(self, at: Definition, calls: Iterable[CallSite]) -> tuple[list[FlowCall], int]:
        """The first call of each definition of the program, in order; the number of others."""
        outside = 0
        seen: dict[tuple[_FlowKey, ...], FlowCall] = {}
        inside = [branch for branch in self._branches.get(at.path, ()) if _holds(at, branch)]
        for site in calls:
            targets = self.resolver.targets(at, site)
            key = tuple(map(_flow_key, targets.found))
            outside += not key
            if not key or key == (_flow_key(at),):
                continue
            enclosing = around(inside, site.line)
            if key in seen:  # what is around one of them alone is no condition of all
                call = seen[key]
                shared = tuple(branch for branch in call.branches if branch in enclosing)
                seen[key] = call.replace(branches=shared)
                continue
            base = "…" if site.base == EXPRESSION else site.base
            name = f"{base}.{site.name}" if base and base != MACRO else site.name
            seen[key] = FlowCall(site.line, name, targets.found, targets.interface, 0, enclosing)
        return list(seen.values()), outside


def _flow_key(at: Definition) -> _FlowKey:
    return _FlowKey.of((at.path, at.symbol.line_start, at.symbol.name))


def _length(definition: Definition) -> int:
    return definition.symbol.line_end - definition.symbol.line_start


def _arms(calls: Sequence[FlowCall]) -> dict[str, FlowCall]:
    """The longest call in each arm of the statement that chooses between most commands, by name."""
    groups: dict[int, dict[str, FlowCall]] = {}
    for call in calls:
        branch = next((branch for branch in call.branches if branch.kind == ALT), None)
        name = _chosen_name(branch.text) if branch is not None else ""
        if branch is None or not name or len(call.found) != 1:
            continue
        arms = groups.setdefault(branch.group, {})
        if name not in arms or _length(arms[name].found[0]) < _length(call.found[0]):
            arms[name] = call
    best = max(groups.values(), key=len, default={})
    targets = {_flow_key(flow_call.found[0]) for flow_call in best.values()}
    return best if len(targets) == len(best) else {}


def _chosen_name(text: str) -> str:
    """The text or the member of an enumeration that a condition compares with; "" for neither."""
    match = _CHOSEN.fullmatch(text)
    return (match[1] or match[2] or match[3] or "") if match else ""


def _holds(at: Definition, branch: Branch) -> bool:
    """Whether a branch is in the lines of a definition, and not around them."""
    symbol = at.symbol
    first = symbol.line_start + (symbol.kind == TOP)  # a main guard is no condition
    return first <= branch.group and branch.line_end <= symbol.line_end


def _leads_on(flow: _Growing, heads: set[_FlowKey]) -> bool:
    """Whether code at the top of a file does nothing but call the start of another flow."""
    root = flow.root
    called = {_flow_key(definition) for call in root.calls for definition in call.found}
    return root.at.symbol.kind == TOP and len(called) == 1 and called <= heads


def _finished(flow: _Growing) -> CallFlow:
    """The flow with its steps in the order in which they are called first."""
    order: list[_Node] = []
    waiting = [flow.root]
    while waiting:
        node = waiting.pop()
        order.append(node)
        node.number = len(order)
        waiting += node.below[::-1]
    return CallFlow(flow.starts, tuple(_step(node, flow) for node in order), len(flow.left))


def _step(node: _Node, flow: _Growing) -> FlowStep:
    calls = []
    for call in node.calls:
        callee = flow.known.get(_flow_key(call.found[0])) if len(call.found) == 1 else None
        calls.append(call.replace(step=callee.number) if callee is not None else call)
    # What has a step of its own is never left out, and else what is longest.
    ranked = sorted(calls, key=lambda flow_call: (not flow_call.step, -_length(flow_call.found[0])))
    ranked = ranked[: max(CALLS, len(node.below) + node.parted)]
    shown = [flow_call for flow_call in calls if any(flow_call is chosen for chosen in ranked)]
    return FlowStep(
        node.number,
        node.above.number if node.above is not None else 0,
        node.at,
        tuple(shown),
        node.raises[:RAISES],
        len(calls) - len(shown),
        node.outside,
    )
