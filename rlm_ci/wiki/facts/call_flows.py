"""Where a program begins, and how a call flows from there: what each step calls and raises.

All flows go down level by level together, so that a level's files are read at once.
"""

from __future__ import annotations

import posixpath
import re

from rlm_ci.source import Symbol
from rlm_ci.source.imports.file_lookup import folder_of
from rlm_ci.source.uses.branches import ALT, around, branches
from rlm_ci.source.uses.call_sites import file_calls
from rlm_ci.source.uses.call_targets import CallResolver
from rlm_ci.source.uses.file_calls import COMMON, EXPRESSION, MACRO, FileCalls
from rlm_ci.source.uses.references import CALL, Definition, uses
from rlm_ci.values import Row, Value
from rlm_ci.wiki.facts.file_facts import without_secrets
from rlm_ci.wiki.pages.paths import is_aside, is_beside, is_test

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rlm_ci.source import EntryPoint, Outline
    from rlm_ci.source.import_graph import ImportGraph
    from rlm_ci.source.uses.branches import Branch
    from rlm_ci.source.uses.file_calls import CallSite, RaiseSite
    from rlm_ci.wiki.facts.file_facts import FileFacts

    Read = Callable[[Sequence[str]], Mapping[str, bytes]]


#: The kind of a start that others call, and of the code of a file outside of its definitions.
FUNCTION, TOP = "function", "top"
_KINDS = ("script", "main", "command", "route")
_SCRIPT = re.compile(r"([\w.]+):([\w.]+)")
#: Names that the standards for servers give to what they hand over.
_SERVED = re.compile(r"\bself,\s*(environ|scope)\b[^,]*,\s*(?:start_response|receive)\b")
#: Of the most used, those before the first of other folders, and such folders.
_EARLY = 3
#: Languages whose scripts run from their first line on.
_SCRIPTS = frozenset(("JavaScript", "Python", "Ruby", "TypeScript"))
#: Where a build writes, and what it writes from.
_BUILT = re.compile(r"^(?:\./)?(?:dist|lib|build|out)/")
_SUFFIXES = ("", ".js", ".ts", ".mjs", ".cjs", ".mts", ".tsx", "/index.js", "/index.ts")


class FlowStart(Row):
    """A definition from which a flow begins, and the lines that say so.

    ``uses`` is how often a FUNCTION is called, in so many files.
    """

    kind: str
    name: str
    path: str
    line_start: int
    line_end: int
    at: Definition
    uses: int = 0
    files: int = 0


def entry_starts(
    files: Mapping[str, FileFacts], program: Iterable[str], resolver: CallResolver
) -> list[FlowStart]:
    """The entry points whose definitions are known, scripts first, in order of their files."""
    inside = sorted(program)
    manifests = {path for path, file in files.items() if _is_manifest(file)}
    starts: list[FlowStart] = []
    for path in [*sorted(manifests), *inside]:
        for entry in files[path].outline.entries:
            if entry.kind not in _KINDS:
                continue
            if path in manifests:
                at = _scripted(path, entry, inside, resolver, files)
            else:
                at = definition_around(files[path], entry)
            if at is not None:
                lines = entry.line_start, entry.line_end
                starts.append(FlowStart(entry.kind, entry.name, path, *lines, at))
        starts += _served(files[path]) if path not in manifests else ()
    return sorted(
        starts, key=lambda start: (_KINDS.index(start.kind), start.path, start.line_start)
    )


def used_starts(
    candidates: Iterable[Definition],
    paths: Sequence[str],
    contents: Mapping[str, bytes],
    files: Mapping[str, FileFacts],
) -> list[FlowStart]:
    """Those of ``candidates`` that ``paths`` call, the most used first, of each folder one early.

    Calls are counted by name, so a name that two of them have is left out, and one that values of
    the language have comes last.
    """
    by_name: dict[str, list[Definition]] = {}
    for at in candidates:
        by_name.setdefault(at.symbol.name.rpartition(".")[2], []).append(at)
    single = {name: inner[0] for name, inner in by_name.items() if len(inner) == 1}
    counts = dict.fromkeys(single, 0)
    for path in paths:
        for _, word, kind in uses(files[path].outline, contents[path]):
            if kind == CALL and word in single and single[word].path != path:
                counts[word] += 1
    called = sorted((name for name, number in counts.items() if number),
                    key=lambda name: (name in COMMON, -counts[name], name))  # fmt: skip
    first: dict[str, str] = {}
    for name in called:
        first.setdefault(folder_of(single[name].path), name)
    order = dict.fromkeys((*called[:_EARLY], *list(first.values())[:_EARLY], *called))
    return [_start(FUNCTION, single[name], counts[name], len(paths)) for name in order]


def _start(kind: str, at: Definition, uses: int = 0, files: int = 0) -> FlowStart:
    """A start whose lines are those of its definition."""
    symbol = at.symbol
    lines = symbol.line_start, symbol.line_end
    return FlowStart(kind, symbol.name, at.path, *lines, at, uses, files)


def _served(facts: FileFacts) -> Iterator[FlowStart]:
    """The methods of a file by which a server of WSGI or ASGI calls an application."""
    for symbol in facts.outline.symbols:
        match = _SERVED.search(symbol.signature)
        if match and symbol.name.endswith(".__call__"):
            name = f"{'WSGI' if match[1] == 'environ' else 'ASGI'} {symbol.name}"
            yield _start("route", Definition(facts.path, symbol)).replace(name=name)


def _is_manifest(facts: FileFacts) -> bool:
    if "/" in facts.path and (is_test(facts.path) or is_beside(facts.path) or is_aside(facts.path)):
        return False
    name = facts.path.rpartition("/")[2]
    scripts = any(entry.kind == "script" for entry in facts.outline.entries)
    return scripts and name in ("pyproject.toml", "setup.cfg", "setup.py", "package.json")


def _scripted(
    path: str, entry: EntryPoint, program: Sequence[str], resolver: CallResolver,
    files: Mapping[str, FileFacts],
) -> Definition | None:  # fmt: skip
    """The definition that an entry of a manifest runs; None if it is not known."""
    if path.endswith("package.json"):
        target = _of_package(path, entry.runs, program, files) if entry.runs else None
        return None if target is None else top_of(files[target], 1, files[target].outline.lines)
    match = _SCRIPT.match(entry.runs)
    if match is None:
        return None
    inner = match[1].replace(".", "/")
    ends = (f"{inner}.py", f"{inner}/__init__.py")
    fitting = [
        file for file in program if file in ends or file.endswith(tuple(f"/{w}" for w in ends))
    ]
    folder = folder_of(path)
    fitting.sort(key=lambda file: (not file.startswith(folder), file.count("/"), file))
    definitions = (resolver.definition_named(file, match[2]) for file in fitting)
    return next(filter(None, definitions), None)


def _of_package(
    path: str, target: str, program: Sequence[str], files: Mapping[str, FileFacts]
) -> str | None:
    """The source file that ``bin`` of a ``package.json`` names, or the one script of that name."""
    sources = set(program)
    stem = target.rpartition(".")[0] if target.endswith((".js", ".mjs", ".cjs")) else target
    names = [target, *(f"{base}{suffix}" for base in (target, stem) for suffix in _SUFFIXES)]
    names += [_BUILT.sub("src/", name) for name in names if _BUILT.match(name)]
    every = (posixpath.normpath(posixpath.join(folder_of(path), name)) for name in names)
    exact = next((source for source in every if source in sources), None)
    last = stem.rpartition("/")[2]
    alike = [
        source
        for source in program
        if source.rpartition("/")[2].partition(".")[0] == last
        and any(entry.kind == "script" for entry in files[source].outline.entries)
    ]
    return exact or (alike[0] if len(alike) == 1 else None)


def definition_around(facts: FileFacts, entry: EntryPoint) -> Definition | None:
    """The function that an entry point is, or the code at the top of its file."""
    for symbol in facts.outline.symbols:
        is_callable = symbol.kind in ("function", "method")
        if (
            is_callable
            and symbol.line_start <= entry.line_start
            and symbol.line_end == entry.line_end
        ):
            return Definition.of((facts.path, symbol))
    if entry.kind == "script" and facts.outline.language in _SCRIPTS:
        return top_of(facts, 1, facts.outline.lines)
    return top_of(facts, entry.line_start, entry.line_end) if entry.kind == "main" else None


def top_of(facts: FileFacts, line_start: int, line_end: int) -> Definition | None:
    """The code of some lines outside of definitions, as a definition; None of an empty file."""
    if line_end < line_start or not facts.outline.lines:
        return None
    row = (TOP, facts.path, line_start, line_end, False, "", "", 0, 0)
    return Definition.of((facts.path, Symbol.of(row)))


def public_functions(rows: Iterable[tuple[str, Symbol]]) -> Iterator[Definition]:
    """The functions, classes and methods among public names, whose calls can be told by name."""
    for path, symbol in rows:
        outer, _, last = symbol.name.rpartition(".")
        if symbol.kind in ("function", "class", "method") and not (outer and last in COMMON):
            yield Definition.of((path, symbol))


#: Levels below the start, steps of a flow, and calls and raises of a step that are shown.
DEEPEST, STEPS, CALLS, RAISES = 4, 16, 12, 4


#: Commands from which on a statement chooses between them, and a condition that names one.
_SEVERAL = 3
_CHOSEN = re.compile(
    r"[\w.()\[\]'\"-]+\s*(?:===?|is)\s*(?:['\"]([\w:.-]+)['\"].*|(?:\w+(?:::|\.))+(\w+)\W?.*|([a-z][\w-]*))"
)


class FlowCall(Value):
    """A call of a step: ``name``, and ``definitions``, what it means.

    The name is as it is written, with the class of a variable if that is known. Several definitions
    implement ``interface``, or are forms of one function. ``step`` is the number of its step, 0 for
    none. ``branches`` are around all its calls in the step, the outermost first.
    """

    line: int
    name: str
    definitions: tuple[Definition, ...]
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
        self.nodes: dict[Definition, _Node] = {self.root.at: self.root}
        self.front = [self.root]
        self.left: set[Definition] = set()


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
        self._apart: set[tuple[Definition, Definition]] = set()
        self._bodies: dict[Definition, tuple[list[FlowCall], tuple[RaiseSite, ...], int]] = {}

    def _file(self, path: str) -> FileCalls:
        self._load([path])
        return self._calls.get(path, FileCalls())

    def of(self, starts: Sequence[FlowStart]) -> list[CallFlow]:
        """The flows from ``starts`` that have a second step, in that order.

        Public names that lead no further than to a second step come last. Starts at one
        definition are one flow; what only calls the start of another is left out.
        """
        groups: dict[Definition, list[FlowStart]] = {}
        for start in starts:
            groups.setdefault(start.at, []).append(start)
        growing = [_Growing(tuple(inner)) for inner in groups.values()]
        for level in range(DEEPEST + 1):
            self._load({node.at.path for flow in growing for node in flow.front})
            for flow in growing:
                self._grow(flow, is_last=level == DEEPEST)
        heads = {flow.root.at for flow in growing}
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
            called = [call.definitions[0] for call in body if len(call.definitions) == 1]
            self._load({at.path for at in called})
            for at in (start.at, *called):
                arms = _arms(self._read_body(at))
                if len(arms) < _SEVERAL:
                    continue
                for name, call in arms.items():
                    target = call.definitions[0]
                    self._apart.add((at, target))
                    title = f"{start.name} {name}" if start.kind == "script" else name
                    lines = call.line, call.line
                    flow_starts.append(FlowStart("command", title, at.path, *lines, target))
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
                yield from self.resolver.targets(at, site).definitions if at is not None else ()

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
        callees: dict[Definition, _Node] = {}
        for node in front:
            node.calls, node.raises, node.outside = self._body(node.at)
            for call in node.calls:
                if len(call.definitions) != 1 or (callee := call.definitions[0]) in flow.nodes:
                    continue
                if (node.at, callee) in self._apart:
                    node.parted += 1  # which has a flow of its own
                else:
                    callees.setdefault(callee, node)
        chosen = set() if is_last else self._weighty(callees, STEPS - len(flow.nodes))
        for callee, node in callees.items():
            if callee not in chosen:
                flow.left.add(callee)
                continue
            below = _Node(callee, node)
            flow.nodes[callee] = below
            node.below.append(below)
            flow.front.append(below)

    def _weighty(self, callees: Mapping[Definition, _Node], room: int) -> set[Definition]:
        """Those that are followed: of too many those that do most, half of them of one caller."""
        self._load({callee.path for callee in callees})
        weights = {callee: self._weight(callee) for callee in callees}
        chosen: set[Definition] = set()
        taken: dict[int, int] = {}
        for callee in sorted(callees, key=lambda callee: (-weights[callee], *_place(callee))):
            node = id(callees[callee])
            if len(chosen) < room and taken.get(node, 0) < (room + 1) // 2:
                chosen.add(callee)
                taken[node] = taken.get(node, 0) + 1
        return chosen

    def _weight(self, at: Definition) -> int:
        """The lines of a definition, and of what it calls: one that hands on counts as that."""
        calls, *_ = self._body(at)
        below = {call.definitions[0] for call in calls if len(call.definitions) == 1}
        return sum(map(_length, (at, *below)))

    def _body(self, at: Definition) -> tuple[list[FlowCall], tuple[RaiseSite, ...], int]:
        """What a definition calls and raises, and how many calls lead to nothing of the program."""
        if at not in self._bodies:
            calls, raises = self._inside(at)
            flow_calls, outside = self._resolved(at, calls)
            self._bodies[at] = flow_calls, raises, outside
        return self._bodies[at]

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
        seen: dict[tuple[Definition, ...], FlowCall] = {}
        inside = [branch for branch in self._branches.get(at.path, ()) if _holds(at, branch)]
        for site in calls:
            targets = self.resolver.targets(at, site)
            key = targets.definitions
            outside += not key
            if not key or key == (at,):
                continue
            enclosing = around(inside, site.line)
            if key in seen:  # what is around one of them alone is no condition of all
                call = seen[key]
                shared = tuple(branch for branch in call.branches if branch in enclosing)
                seen[key] = call.replace(branches=shared)
                continue
            base = "…" if site.base == EXPRESSION else site.base
            name = f"{base}.{site.name}" if base and base != MACRO else site.name
            seen[key] = FlowCall(
                site.line, name, targets.definitions, targets.interface, 0, enclosing
            )
        return list(seen.values()), outside


def _place(at: Definition) -> tuple[str, int, str]:
    return at.path, at.symbol.line_start, at.symbol.name


def _length(definition: Definition) -> int:
    return definition.symbol.line_end - definition.symbol.line_start


def _arms(calls: Sequence[FlowCall]) -> dict[str, FlowCall]:
    """The longest call in each arm of the statement that chooses between most commands, by name."""
    groups: dict[int, dict[str, FlowCall]] = {}
    for call in calls:
        branch = next((branch for branch in call.branches if branch.kind == ALT), None)
        name = _chosen_name(branch.text) if branch is not None else ""
        if branch is None or not name or len(call.definitions) != 1:
            continue
        arms = groups.setdefault(branch.group, {})
        if name not in arms or _length(arms[name].definitions[0]) < _length(call.definitions[0]):
            arms[name] = call
    best = max(groups.values(), key=len, default={})
    targets = {flow_call.definitions[0] for flow_call in best.values()}
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


def _leads_on(flow: _Growing, heads: set[Definition]) -> bool:
    """Whether code at the top of a file does nothing but call the start of another flow."""
    root = flow.root
    called = {definition for call in root.calls for definition in call.definitions}
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
        callee = flow.nodes.get(call.definitions[0]) if len(call.definitions) == 1 else None
        calls.append(call.replace(step=callee.number) if callee is not None else call)
    # What has a step of its own is never left out, and else what is longest.
    ranked = sorted(
        calls, key=lambda flow_call: (not flow_call.step, -_length(flow_call.definitions[0]))
    )
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
