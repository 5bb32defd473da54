"""Which definition a call means, by names, imports and classes; several where they do not tell."""

from __future__ import annotations

import re
from itertools import islice

from rlm_ci.source.imports.file_lookup import folder_of
from rlm_ci.source.uses.call_sites import EXPRESSION
from rlm_ci.source.uses.references import BY_FOLDER, Definition
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rlm_ci.source import Import, Outline, Symbol
    from rlm_ci.source.import_graph import ImportGraph
    from rlm_ci.source.uses.call_sites import CallSite

_CALLABLE = frozenset(("function", "method", "class", "struct", "enum", "macro"))
_CLASSES = frozenset(("class", "struct", "enum", "interface", "trait", "type", "module"))
_CONSTRUCTORS = ("__init__", "constructor", "__construct", "initialize", "new")
_SELVES = frozenset(("self", "this", "cls", "Self", "super", "parent", "static"))
#: Languages that call each other.
_FAMILIES = {"TypeScript": "JavaScript", "TSX": "JavaScript", "C++": "C"}
_DOORS = frozenset(("__init__", "index", "mod", "lib"))
_RECEIVER = re.compile(r"func\s*\(\s*(\w+)\s")
_BASES = re.compile(
    r"\(([^()]*)\)|\bextends\s+([\w.$:]+)|\s<\s*([\w:]+)|\s:\s*(?:public\s+)?([\w:]+)"
)
#: Doors and base classes in a row that are followed.
_FAR = 4
#: Base classes of a class that are looked at.
_WIDE = 6
#: More methods of one name say nothing.
_MOST = 8
#: Methods of the languages' own values: by such a name alone, nothing is known.
COMMON = frozenset((
    "add", "append", "apply", "bind", "call", "capitalize", "casefold", "catch", "center",
    "clear", "clone", "close", "concat", "copy", "count", "debug", "decode", "delete",
    "difference", "discard", "encode", "endswith", "entries", "error", "every", "exec", "exists",
    "expandtabs", "extend", "filter", "find", "flush", "forEach", "format", "fromkeys", "get",
    "has", "includes", "index", "info", "insert", "intersection", "isalnum", "isalpha", "isdigit",
    "islower", "isspace", "isupper", "items", "iter", "join", "keys", "len", "length", "ljust",
    "log", "lower", "lstrip", "map", "match", "next", "open", "parse", "partition", "pop",
    "popitem", "print", "push", "read", "readline", "reduce", "remove", "removeprefix",
    "removesuffix", "replace", "reverse", "rfind", "rindex", "rjust", "rpartition", "rsplit",
    "rstrip", "run", "seek", "send", "set", "setdefault", "shift", "slice", "some", "sort",
    "splice", "split", "splitlines", "start", "startswith", "stop", "strip", "swapcase", "test",
    "then", "title", "toString", "translate", "trim", "union", "unwrap", "update", "upper",
    "values", "warn", "warning", "write", "zfill",
))  # fmt: skip


class CallTargets(Value):
    """What a call may mean. ``is_sure``: names and imports lead to it, not its name alone."""

    found: tuple[Definition, ...] = ()
    is_sure: bool = False


NONE = CallTargets()


class CallResolver:
    """The definitions of ``outlines``, by path, found from calls."""

    def __init__(self, outlines: Mapping[str, Outline], graph: ImportGraph) -> None:
        self._outlines = outlines
        self._graph = graph
        self._own: dict[str, dict[str, Symbol]] = {}
        self._methods: dict[tuple[str, str], list[Definition]] = {}
        self._folders: dict[tuple[str, str], list[str]] = {}
        self._meant: dict[tuple[str, str], list[Definition]] = {}
        for path in sorted(outlines):
            family = self._family(path)
            self._folders.setdefault((folder_of(path), family), []).append(path)
            for symbol in outlines[path].symbols:
                outer, _, last = symbol.name.rpartition(".")
                if outer and symbol.kind in _CALLABLE:
                    one = Definition.of((path, symbol))
                    self._methods.setdefault((family, last), []).append(one)

    def targets(self, caller: Definition, site: CallSite) -> CallTargets:
        """What ``site``, in ``caller``, calls; nothing for what the repository does not define."""
        path, (base, name) = caller.path, (site.base, site.name)
        if not base:
            return self._sure(self._bare(path, name) or self._beside(caller, name))
        if name.startswith("#"):  # private to a class, whatever stands before the dot
            own = self._symbols(path).values()
            inner = [Definition.of((path, one)) for one in own if one.name.endswith(f".{name}")]
            return self._sure(inner) if len(inner) == 1 else CallTargets(tuple(inner))
        if self._is_self(caller, base):
            owner = caller.symbol.name.rpartition(".")[0]
            skips = base in ("super", "parent")
            found = self._member(path, owner, name, _FAR, inherits=skips)
            return self._sure(found) if found else self._guess(path, name)
        found, is_known = self._through(path, base, name)
        # A class that is not found is another project's.
        is_class = self._language(path) != "Go" and base.rpartition(".")[2][:1].isupper()
        if found or is_known or is_class:
            return self._sure(found)
        return self._guess(path, name)

    def named(self, path: str, name: str) -> Definition | None:
        """The function or class ``name`` (``Class.method``, too) that a file gives."""
        outer, _, last = name.rpartition(".")
        found = self._through(path, outer, last)[0] if outer else self._bare(path, last)
        sure = self._sure(found).found
        return sure[0] if sure else None

    # ── where a name leads ──

    def _sure(self, found: list[Definition]) -> CallTargets:
        called = [one for one in map(self._made, found) if one.symbol.kind in _CALLABLE]
        return CallTargets(tuple(called[:1]), is_sure=True) if called else NONE

    def _made(self, one: Definition) -> Definition:
        """The constructor of a class; any other definition itself."""
        if one.symbol.kind not in _CLASSES:
            return one
        own = self._symbols(one.path)
        last = one.symbol.name.rpartition(".")[2]
        names = (f"{one.symbol.name}.{name}" for name in (*_CONSTRUCTORS, last))
        made = next((own[name] for name in names if name in own), None)
        return one if made is None else Definition.of((one.path, made))

    def _bare(self, path: str, name: str) -> list[Definition]:
        """What a name alone means in a file: its own, an imported one, or one of its folder."""
        if (path, name) not in self._meant:
            self._meant[path, name] = self._looked_up(path, name)
        return self._meant[path, name]

    def _looked_up(self, path: str, name: str) -> list[Definition]:
        own = self._symbols(path)
        if name in own:
            return [Definition.of((path, own[name]))]
        found = self._given([path], name, _FAR, set())
        if not found and self._language(path) in BY_FOLDER:
            found = self._in(self._near(path), name)
        return found

    def _beside(self, caller: Definition, name: str) -> list[Definition]:
        """A method of the same class, where a language needs no word before it."""
        owner = caller.symbol.name.rpartition(".")[0]
        if not owner or self._family(caller.path) in ("Python", "JavaScript", "Go", "Rust"):
            return []
        return self._member(caller.path, owner, name, _FAR)

    def _given(
        self, paths: Iterable[str], name: str, further: int, seen: set[tuple[str, str]]
    ) -> list[Definition]:
        """What files import under ``name``, also through files that pass it on; each once."""
        for path in paths if further else ():
            if (path, name) in seen:
                continue
            seen.add((path, name))
            for line in self._imports(path):
                original = _original(line, name)
                if not original:
                    continue
                targets = self._targets(path, line)
                found = self._in(targets, original)
                found = found or self._given(targets, original, further - 1, seen)
                if found:
                    return found
        return []

    def _in(self, paths: Iterable[str], name: str) -> list[Definition]:
        for path in paths:
            symbol = self._symbols(path).get(name)
            if symbol is not None:
                return [Definition.of((path, symbol))]
        return []

    def _through(
        self, path: str, base: str, name: str, further: int = _FAR
    ) -> tuple[list[Definition], bool]:
        """What ``base.name`` means; whether what stands before the dot is known."""
        if base == EXPRESSION:
            return [], False
        first, _, rest = base.partition(".")
        holder = self._bare(path, base if base in self._symbols(path) else first)
        if holder and holder[0].symbol.kind in _CLASSES:
            one, inner = holder[0], f".{rest}" if rest else ""
            return self._member(one.path, f"{one.symbol.name}{inner}", name, further), True
        is_known = False
        for line in self._imports(path):
            bound = _binds(line, first, base, self._language(path))
            if not bound:
                continue
            is_known = True
            targets = self._targets(path, line)
            inside = [one for one in targets if _stem(one) == bound.rpartition(".")[2]] or targets
            wanted = f"{rest}.{name}" if rest and bound != base else name
            every = [*inside, *(near for one in inside for near in self._siblings(one))]
            found = self._in(every, wanted) or self._given(inside, name, _FAR, set())
            if found:
                return found, True
        if not is_known and self._language(path) == "Rust":
            last = base.rpartition(".")[2]
            inside = [one.target for one in self._graph.internal.get(path, ())]
            found = self._in((one for one in inside if _stem(one) == last), name)
            return found, bool(found)
        return [], is_known

    def _member(
        self, path: str, owner: str, name: str, further: int, *, inherits: bool = False
    ) -> list[Definition]:
        """A method of a class, or of one that it is made from; ``inherits``: of those alone."""
        if not owner or not further:
            return []
        if not inherits:
            found = self._in([path, *self._siblings(path)], f"{owner}.{name}")
            if found:
                return found
        symbol = self._symbols(path).get(owner)
        for base in islice(_bases(symbol.signature) if symbol is not None else (), _WIDE):
            outer, _, last = base.rpartition(".")
            above = self._bare(path, last)
            if outer:
                above = self._through(path, outer, last, further - 1)[0]
            for one in above[:1]:
                if (one.path, one.symbol.name) != (path, owner):
                    found = self._member(one.path, one.symbol.name, name, further - 1)
                    if found:
                        return found
        return []

    def _guess(self, path: str, name: str) -> CallTargets:
        """The methods of that name in files that this one imports, and in its own."""
        if name in COMMON:
            return NONE
        found = self._methods.get((self._family(path), name), [])
        edges = [one.target for one in self._graph.internal.get(path, ())]
        further = [one.target for near in edges for one in self._graph.internal.get(near, ())]
        near = {path, *edges, *further}
        near |= {one for inner in sorted(near) for one in self._siblings(inner)}
        reached = [one for one in found if one.path in near]
        return CallTargets(tuple(reached)) if len(reached) <= _MOST else NONE

    # ── files ──

    def _symbols(self, path: str) -> dict[str, Symbol]:
        if path not in self._own and path in self._outlines:
            every = self._outlines[path].symbols
            wanted = _CALLABLE | _CLASSES
            self._own[path] = {one.name: one for one in reversed(every) if one.kind in wanted}
        return self._own.get(path, {})

    def _imports(self, path: str) -> tuple[Import, ...]:
        return self._outlines[path].imports if path in self._outlines else ()

    def _targets(self, path: str, line: Import) -> list[str]:
        """The files of an import: the graph keeps the first line alone that leads to a file."""
        edges = self._graph.internal.get(path, ())
        exact = [one.target for one in edges if one.line == line.line]
        last = re.split(r"[./:]+", line.module.rstrip("/"))[-1]
        names = {last, line.module.rstrip("/").rpartition("/")[2], *line.names}
        return exact or [one.target for one in edges if _stem(one.target) in names]

    def _near(self, path: str) -> list[str]:
        return self._folders.get((folder_of(path), self._family(path)), [])

    def _siblings(self, path: str) -> list[str]:
        return self._near(path) if self._language(path) in BY_FOLDER else []

    def _language(self, path: str) -> str:
        return self._outlines[path].language if path in self._outlines else ""

    def _family(self, path: str) -> str:
        language = self._language(path)
        return _FAMILIES.get(language, language)

    def _is_self(self, caller: Definition, base: str) -> bool:
        if base in _SELVES:
            return True
        receiver = _RECEIVER.match(caller.symbol.signature)
        return receiver is not None and receiver[1] == base


def _original(line: Import, name: str) -> str:
    """The name that an import gives under ``name``; "" if it gives none of that."""
    for here, there in zip(line.called or line.names, line.names, strict=False):
        if here == name:
            return there
    return name if "*" in line.names else ""


def _binds(line: Import, first: str, base: str, language: str) -> str:
    """The module that an import calls ``first``, or ``base`` as a whole; "" for another."""
    if line.names:
        if "*" not in line.names:
            return _original(line, first)
        # The name of ``* as name`` is not known: most often it is that of the file.
        last = line.module.rpartition("/")[2].partition(".")[0]
        return last if line.called and last == first else ""
    if first in line.called or line.module in (base, first):
        return line.module
    last = line.module.rstrip("/").rpartition("/")[2]
    if language == "Go" and re.fullmatch(r"v\d+", last):
        last = line.module.rpartition("/")[0].rpartition("/")[2]
    return last if language == "Go" and last in (first, f"go-{first}") else ""


def _stem(path: str) -> str:
    folder, _, name = path.rpartition("/")
    stem = name.partition(".")[0]
    return folder.rpartition("/")[2] if stem in _DOORS else stem


def _bases(signature: str) -> Iterator[str]:
    """The classes that a class says it is made from."""
    for match in _BASES.finditer(signature):
        text = next((group for group in match.groups() if group), "")
        for one in text.split(","):
            if re.fullmatch(r"[\w.:$]+", name := one.strip()):
                yield name.replace("::", ".")
