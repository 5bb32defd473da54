"""Which definition a call means, where imports, types or paths lead to it; none where they do not.

An unsure target is none: a method is looked up in the class that its variable, field or result is
written to have, a path through its modules.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import islice

from rlm_ci.source.imports.file_lookup import folder_of
from rlm_ci.source.uses.file_calls import MACRO, FileCalls
from rlm_ci.source.uses.references import BY_FOLDER, Definition
from rlm_ci.source.uses.source_files import CALLABLE, CLASSES, TAKES, SourceFiles, is_door, stem
from rlm_ci.source.uses.written_types import parameters, read_type, returned, shape
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from rlm_ci.source import Import, Outline, Symbol
    from rlm_ci.source.import_graph import ImportGraph
    from rlm_ci.source.uses.file_calls import CallSite

_CONSTRUCTORS = ("__init__", "constructor", "__construct", "initialize")
_SELVES = frozenset(("self", "this", "cls", "Self", "super", "parent", "static"))
#: Languages in which a class sees its members without a word before them.
_IMPLICIT = frozenset(("C#", "C++", "Java", "Ruby"))
_BASES = re.compile(
    r"\(([^()]*)\)|\b(?:extends|implements)\s+([\w.$:<>,\s]+?)(?=\s*(?:$|\bimplements\b))"
    r"|\s<\s*([\w:]+)|\s:\s*(?:public\s+)?([\w:]+)"
)
_ARGUMENTS = re.compile(r"<[^<>]*>")
#: Between the names of a class that an import writes.
_PARTS = re.compile(r"[.\\]")
_DEFAULT = re.compile(r"export\s+default\b")
#: Bases of Python that make a class an interface.
_ABSTRACT = frozenset(("ABC", "Protocol"))
#: What gives the same value again, in Rust, or the value that is wrapped.
_AGAIN = frozenset(("as_mut", "as_ref", "borrow", "borrow_mut", "clone", "to_owned"))
_UNWRAPS = frozenset(("expect", "unwrap", "unwrap_or_default"))
#: Doors and base classes in a row that are followed.
_FAR = 4
#: Base classes of a class that are looked at, and what is left out of a search that goes round.
_WIDE = 6


class CallTargets(Value):
    """What a call means: one definition, or all that it may be.

    Of several, ``interface`` is the method that they implement; None for forms of one function.
    """

    definitions: tuple[Definition, ...] = ()
    interface: Definition | None = None


NONE = CallTargets()


class _Value(Value):
    """What an expression is: an instance of a class or the class, or a module of some files.

    ``is_wrapped``: only once it is unwrapped.
    """

    path: str = ""
    name: str = ""
    files: tuple[str, ...] = ()
    is_wrapped: bool = False


class CallResolver(SourceFiles):
    """The definitions of ``outlines``, by path, found from calls.

    ``calls`` gives what a file calls and says of types: asked of files that are led through.
    """

    def __init__(
        self,
        outlines: Mapping[str, Outline],
        graph: ImportGraph,
        calls: Callable[[str], FileCalls] = lambda _path: FileCalls(),
    ) -> None:
        super().__init__(outlines, graph, calls)
        self._meant: dict[tuple[str, str], list[Definition]] = {}
        self._bases: dict[tuple[str, str], list[Definition]] = {}
        #: Fields whose type is being looked up: one may be made of itself.
        self._asked: set[tuple[str, str]] = set()

    def targets(self, caller: Definition, site: CallSite) -> CallTargets:
        """What ``site``, in ``caller``, calls; nothing for what the repository does not define."""
        path, name, chain = caller.path, site.name, site.chain
        if chain is None:
            return NONE
        if not chain:
            definitions = self._beside(caller, name) or self._bare(path, name)
        elif chain[0] == MACRO:
            definitions = [
                definition
                for definition in self._bare(path, name)
                if definition.symbol.kind == "macro"
            ]
        else:
            definitions = self._of(self._value(caller, chain), name)
        if chain[:1] != (MACRO,):
            definitions = [
                definition for definition in definitions if definition.symbol.kind != "macro"
            ]
        return self._called(definitions, site)

    def definition_named(self, path: str, name: str) -> Definition | None:
        """The function or class ``name`` (``Class.method``, too) that a file gives."""
        outer, _, last = name.rpartition(".")
        top = Definition.of((path, _nobody()))
        definitions = self._of(self._value(top, tuple(outer.split("."))), last) if outer else []
        definitions = definitions if outer else self._bare(path, last)
        callables = [
            definition
            for definition in map(self._constructor, definitions)
            if definition.symbol.kind in CALLABLE
        ]
        return callables[0] if callables else None

    def _called(self, definitions: Sequence[Definition], site: CallSite) -> CallTargets:
        """The targets among what a name means: a form of a function, or what implements it."""
        targets = [
            definition
            for definition in map(self._constructor, definitions)
            if definition.symbol.kind in CALLABLE
        ]
        if not targets:
            return NONE
        language = self.language(targets[0].path)
        if len(targets) > 1 and self.family(targets[0].path) == "JavaScript":
            targets = targets[-1:]  # the others are its types
        if len(targets) > 1 and site.arguments >= 0 and language in ("C#", "C++", "Java"):
            fitting = [
                definition for definition in targets if _takes(definition.symbol, site.arguments)
            ]
            targets = fitting or targets
        if len(targets) > 1:
            is_unsure = language == "Rust" and "." in targets[0].symbol.name  # of several traits
            return NONE if is_unsure else CallTargets(tuple(targets))
        return self._implemented(targets[0])

    def _constructor(self, definition: Definition) -> Definition:
        """The constructor of a class; any other definition itself."""
        if definition.symbol.kind not in CLASSES:
            return definition
        by_name = self.symbols(definition.path)
        last = definition.symbol.name.rpartition(".")[2]
        names = (f"{definition.symbol.name}.{name}" for name in (*_CONSTRUCTORS, last))
        symbols = next((by_name[name] for name in names if name in by_name), None)
        return (
            definition
            if symbols is None or len(symbols) > 1
            else Definition.of((definition.path, symbols[0]))
        )

    # ── what a name means ──

    def _bare(self, path: str, name: str) -> list[Definition]:
        """What a name alone means in a file: its own, an imported one, or one of its folder."""
        if (path, name) not in self._meant:
            self._meant[path, name] = self._looked_up(path, name)
        return self._meant[path, name]

    def _looked_up(self, path: str, name: str) -> list[Definition]:
        language = self.language(path)
        if language == "Rust":
            return self._at(*self.rust.lookup(path, [name]))
        if language == "Go":
            return self._in(self.siblings(path), name)
        if name in self.symbols(path):
            return self._in([path], name)
        taken = self.taken(path).get(name)
        if taken is not None and taken.name:
            files = self.files_of(path, taken.module)
            if taken.name == "default":
                given = [
                    definition
                    for definition in self._every(files)
                    if _DEFAULT.match(definition.symbol.signature)
                ]
                names = [(path, self.taken(path).get("default")) for path in files]
                later = (self._bare(path, name.name) for path, name in names if name is not None)
                return given or next(later, [])
            return self._in(files, taken.name) or self._reexported(files, taken.name, _FAR, set())
        definitions = self._reexported([path], name, _FAR, set()) if language not in TAKES else []
        if not definitions and language in BY_FOLDER:
            definitions = self._in(self.siblings(path), name)
        return definitions

    def _every(self, files: Iterable[str]) -> Iterator[Definition]:
        for path in files:
            for symbols in self.symbols(path).values():
                yield from (Definition.of((path, symbol)) for symbol in symbols)

    def _beside(self, caller: Definition, name: str) -> list[Definition]:
        """A member of the classes around, where a language needs no word before it."""
        owner = caller.symbol.name.rpartition(".")[0]
        while owner and self.language(caller.path) in _IMPLICIT:
            definitions = self._member(caller.path, owner, name, _FAR)
            if definitions:
                return definitions
            owner = owner.rpartition(".")[0]
        return []

    def _reexported(
        self, paths: Iterable[str], name: str, further: int, seen: set[tuple[str, str]]
    ) -> list[Definition]:
        """What files import under ``name``, also through files that pass it on; each once."""
        for path in paths if further else ():
            if (path, name) in seen:
                continue
            seen.add((path, name))
            for line in self.imports(path):
                original = _original(line, name)
                if not original:
                    continue
                targets = self.targets_of(path, line)
                if self.language(path) == "Python":  # ``from shop import sell`` is of a module
                    last = line.module.rpartition(".")[2]
                    targets = [
                        target
                        for target in targets
                        if stem(target) in (last, "") or stem(target) != original
                    ]
                definitions = self._in(targets, original)
                if not definitions and not line.names:  # a class within a class
                    definitions = self._in(targets, ".".join(_PARTS.split(line.module)[-2:]))
                definitions = definitions or self._reexported(targets, original, further - 1, seen)
                if definitions:
                    return definitions
        return []

    def _in(self, paths: Iterable[str], name: str) -> list[Definition]:
        """The definitions of a name in the first file that has any; of a package, in all of it."""
        definitions: list[Definition] = []
        for path in paths:
            symbols = self.symbols(path).get(name, ())
            definitions += [Definition.of((path, symbol)) for symbol in symbols]
            if definitions and self.language(path) != "Go":
                break
        return definitions

    def _at(self, path: str, name: str) -> list[Definition]:
        """What is defined under a qualified name in a file of Rust; methods may be elsewhere."""
        if not path or not name:
            return []
        definitions = self._in([path], name)
        owner, _, last = name.rpartition(".")
        return definitions or (self._member(path, owner, last, _FAR) if owner else [])

    # ── what an expression is ──

    def _value(self, caller: Definition, chain: Sequence[str]) -> _Value | None:
        value = self._first(caller, chain[0])
        for element in chain[1:]:
            value = self._next(value, element) if value is not None else None
        return value

    def _first(self, caller: Definition, element: str) -> _Value | None:
        path = caller.path
        name = element.removesuffix("?").removesuffix("()")
        if element.startswith(":"):
            value = self._typed(path, element[1:].removesuffix("?"), caller)
        elif name in _SELVES:
            owner = caller.symbol.name.rpartition(".")[0]
            if name in ("super", "parent"):
                above = next(iter(self._above(path, owner)), None)
                value = _Value(above.path, above.symbol.name) if above is not None else None
            else:
                value = _Value(path, owner) if owner else None
        elif self.language(path) == "Rust":
            names = ["crate" if part == "$crate" else part for part in name.split("::")]
            if names[0] == "Self":
                owner = caller.symbol.name.rpartition(".")[0]
                definitions = self._at(path, ".".join([owner, *names[1:]])) if owner else []
            else:
                where, inner = self.rust.lookup(path, names)
                if where and not inner:
                    return _Value(files=(where,))
                definitions = self._at(where, inner)
            value = self._result(definitions, is_called="()" in element)
        else:
            definitions = self._bare(path, name)
            if definitions:
                value = self._result(definitions, is_called="()" in element)
            else:
                value = self._own_field(caller, name) if "()" not in element else None
                value = value or self._module(path, name)
                if value is None and "()" in element:
                    value = self._result(self._beside(caller, name), is_called=True)
        return _open(value, element)

    def _next(self, value: _Value, element: str) -> _Value | None:
        name = element.removesuffix("?").removesuffix("()")
        if "()" in element and value.name:
            if value.is_wrapped and name in _UNWRAPS:
                return value.replace(is_wrapped=False)
            if name in _AGAIN and self.language(value.path) == "Rust":
                return value
        definitions = self._of(value, name)
        if definitions:
            after = self._result(definitions, is_called="()" in element, within=value)
        elif value.name and not value.is_wrapped and "()" not in element:
            after = self._field(value.path, value.name, name, _FAR)
        elif value.files and not value.is_wrapped:
            after = self._inner_module(value, name)
        else:
            after = None
        return _open(after, element)

    def _of(self, value: _Value | None, name: str) -> list[Definition]:
        """What ``name`` means of a value."""
        if value is None or value.is_wrapped:
            return []
        if value.name:
            return self._member(value.path, value.name, name, _FAR)
        language = self.language(value.files[0])
        if language == "Rust":
            return self._at(*self.rust.lookup(value.files[0], ["self", name]))
        return self._in(value.files, name) or self._reexported(value.files, name, _FAR, set())

    def _result(
        self, definitions: Sequence[Definition], *, is_called: bool, within: _Value | None = None
    ) -> _Value | None:
        """What a definition, or a call of it, is."""
        if len(definitions) != 1:
            texts = (
                {self._returned(definition) for definition in definitions} if is_called else set()
            )
            if len(texts) != 1:
                return None
        definition = definitions[0]
        if definition.symbol.kind in CLASSES:
            return _Value(definition.path, definition.symbol.name)
        if not is_called:
            return None
        text, owner = self._returned(definition), definition.symbol.name.rpartition(".")[0]
        if within is not None and within.name and text in ("Self", "this", "&Self", "&mut Self"):
            return within
        text = re.sub(r"\bSelf\b", owner.rpartition(".")[2], text) if owner else text
        return self._typed(definition.path, text, definition) if text else None

    def _returned(self, definition: Definition) -> str:
        name = definition.symbol.name.rpartition(".")[2]
        return returned(definition.symbol.signature, name, self.language(definition.path))

    def _typed(self, path: str, text: str, around: Definition) -> _Value | None:
        """The class of the repository that a type in a file is."""
        written = read_type(text, self.language(path))
        if not written.name:
            return None
        name, value = written.name, None
        if self.language(path) == "Rust":
            names = name.split("::")
            owner = around.symbol.name.rpartition(".")[0]
            definitions = self._at(*self.rust.lookup(path, names))
            if names == ["Self"]:
                definitions = self._in([path], owner)
        else:
            outer, _, last = name.rpartition(".")
            definitions = self._bare(path, last)
            if outer:
                definitions = self._of(
                    self._value(around.replace(path=path), outer.split(".")), last
                )
            elif not definitions:  # a class within the classes around
                inner = around.symbol.name
                while inner and not definitions:
                    definitions = self._in([path], f"{inner}.{last}")
                    inner = inner.rpartition(".")[0]
        classes = [
            definition
            for definition in definitions
            if definition.symbol.kind in CLASSES - {"module"}
        ]
        if len(classes) == 1:
            definition = classes[0]
            value = _Value(definition.path, definition.symbol.name, is_wrapped=written.is_wrapped)
        return value

    def _own_field(self, caller: Definition, name: str) -> _Value | None:
        owner = caller.symbol.name.rpartition(".")[0]
        while owner and self.language(caller.path) in _IMPLICIT:
            value = self._field(caller.path, owner, name, _FAR)
            if value is not None:
                return value
            owner = owner.rpartition(".")[0]
        return None

    def _field(self, path: str, owner: str, name: str, further: int) -> _Value | None:
        """What a field of a class, or of one that it is made from, is written to be."""
        if not further:
            return None
        chain = self.calls(path).fields.get(f"{owner}.{name}", ())
        symbols = self.symbols(path).get(owner, ())
        key = path, f"{owner}.{name}"
        if chain and symbols and key not in self._asked:
            inside = symbols[0].replace(name=f"{owner}.")
            self._asked.add(key)
            try:
                return self._value(Definition.of((path, inside)), chain)
            finally:
                self._asked.remove(key)
        if chain or chain is None:
            return None
        above = (self._field(definition.path, definition.symbol.name, name, further - 1)
                 for definition in self._above(path, owner))  # fmt: skip
        return next((value for value in above if value is not None), None)

    def _module(self, path: str, name: str) -> _Value | None:
        """The files of a module that a file imports under a name."""
        language = self.language(path)
        taken = self.taken(path).get(name)
        if taken is not None:
            files = self.files_of(path, taken.module) if not taken.name else []
            return _Value(files=tuple(self.package(files))) if files else None
        for line in self.imports(path) if language not in TAKES or language == "Go" else ():
            bound = _binds(line, name, language)
            if not bound:
                continue
            targets = self.targets_of(path, line)
            inside = [target for target in targets if stem(target) == bound.rpartition(".")[2]]
            inside = inside or (targets if language == "Go" else [])
            return _Value(files=tuple(self.package(inside))) if inside else None
        return None

    def _inner_module(self, value: _Value, name: str) -> _Value | None:
        """A module within a package of Python that its files import, or of Rust."""
        path = value.files[0]
        if self.language(path) == "Rust":
            where, inner = self.rust.lookup(path, ["self", name])
            return _Value(files=(where,)) if where and not inner else None
        if self.language(path) == "Python" and is_door(path):
            beside = f"{folder_of(path)}/{name}"
            files = [
                file for file in (f"{beside}.py", f"{beside}/__init__.py") if file in self.outlines
            ]
            return _Value(files=tuple(files)) if files else self._module(path, name)
        return None

    # ── classes ──

    def _member(self, path: str, owner: str, name: str, further: int) -> list[Definition]:
        """A method of a class, or of the nearest that it is made from."""
        if not owner or not further:
            return []
        where = [path]
        if self.language(path) == "Go":
            where = self.siblings(path)
        elif self.language(path) == "Rust":
            where = self.crate_files(path, owner)
        definitions = self._in(where, f"{owner}.{name}")
        if definitions:
            return definitions
        for definition in self._above(path, owner):
            definitions = self._member(definition.path, definition.symbol.name, name, further - 1)
            if definitions:
                return definitions
        return []

    def _above(self, path: str, owner: str) -> list[Definition]:
        """The classes that a class says it is made from, and what is embedded in it."""
        if (path, owner) not in self._bases:
            self._bases[path, owner] = []  # for classes that are made from each other
            self._bases[path, owner] = list(self._made_from(path, owner))
        return self._bases[path, owner]

    def _made_from(self, path: str, owner: str) -> Iterator[Definition]:
        symbols = self.symbols(path).get(owner, ())
        symbol = symbols[0] if symbols else _nobody()
        around = Definition.of((path, symbol))
        names: Iterable[str] = ()
        if symbol.kind not in ("function", "method"):
            names = base_names(symbol.signature)
        language = self.language(path)
        if language == "Go":
            names = self.calls(path).embedded.get(owner, ())
        elif language == "Rust":
            names = ()
        for base in islice(names, _WIDE):
            value = self._typed(path, base, around)
            if value is not None and (value.path, value.name) != (path, owner):
                every = self.symbols(value.path).get(value.name, ())
                yield from (Definition.of((value.path, namesake)) for namesake in every[:1])

    def _implemented(self, definition: Definition) -> CallTargets:
        """The method itself, or, where an interface declares it, what implements it."""
        owner = definition.symbol.name.rpartition(".")[0]
        symbols = self.symbols(definition.path).get(owner, ())
        if not symbols or not self._is_abstract(definition, symbols[0]):
            return CallTargets((definition,))
        name = definition.symbol.name.rpartition(".")[2]
        below = self._below(Definition.of((definition.path, symbols[0])))
        definitions = [method for cls in below for method in self._in_class(cls, name)]
        return CallTargets(tuple(definitions) or (definition,), definition if definitions else None)

    def _is_abstract(self, definition: Definition, owner: Symbol) -> bool:
        if owner.kind in ("interface", "trait"):
            return True
        if self.language(definition.path) == "Python":
            return any(base.rpartition(".")[2] in _ABSTRACT for base in base_names(owner.signature))
        return "abstract" in definition.symbol.signature.partition("(")[0].split()

    def _in_class(self, definition: Definition, name: str) -> list[Definition]:
        files = (
            self.siblings(definition.path)
            if self.language(definition.path) == "Go"
            else [definition.path]
        )
        return self._in(files, f"{definition.symbol.name}.{name}")

    def _below(self, above: Definition) -> list[Definition]:
        """The classes that are made from one, or have all methods of an interface of Go."""
        if self.language(above.path) == "Go":
            return self._structural(above)
        if self.language(above.path) == "Rust":
            return self._of_trait(above)
        below: dict[tuple[str, str], Definition] = {}
        waiting = [above]
        for definition in waiting:  # which grows
            for other in self._derived.get(definition.symbol.name.rpartition(".")[2], ()):
                key = (other.path, other.symbol.name)
                base = (definition.path, definition.symbol.name)
                bases = {(base.path, base.symbol.name) for base in self._above(*key)}
                if key not in below and base in bases:
                    below[key] = other
                    waiting.append(other)
        return list(below.values())

    def _of_trait(self, trait: Definition) -> list[Definition]:
        """The types of Rust that have a trait, each where it has it."""
        place = trait.path, trait.symbol.name
        definitions = []
        for path in (path for paths in self.by_crate.values() for path in paths):
            around = Definition.of((path, _nobody()))
            for name, texts in self.calls(path).embedded.items():
                values = (self._typed(path, text, around) for text in texts)
                if any(value is not None and (value.path, value.name) == place for value in values):
                    definitions.append(Definition.of((path, _nobody().replace(name=name))))
        return definitions

    def _structural(self, interface: Definition) -> list[Definition]:
        """The types of Go that have all methods of an interface, as they are declared there."""
        needed = self._asked_for(interface, _FAR)
        return [
            definition
            for (folder, owner), methods in (self.methods_of_go.items() if needed else ())
            if needed.keys() <= methods.keys()
            and all(shape(needed[name], name) == shape(methods[name], name) for name in needed)
            for definition in self._in(self.folders.get((folder, "Go"), ()), owner)[:1]
            if definition.symbol.kind not in ("interface", "function")
        ]

    def _asked_for(self, interface: Definition, further: int) -> dict[str, str]:
        """The heads of all methods of an interface of Go; none if one that is in it is foreign."""
        path, owner = interface.path, interface.symbol.name
        folder = self.methods_of_go.get((folder_of(path), owner), {})
        methods = dict(folder)
        for text in self.calls(path).embedded.get(owner, ()):
            if text == "error":
                methods["Error"] = "Error() string"
                continue
            value = self._typed(path, text, interface) if further else None
            every = self.symbols(value.path).get(value.name, ()) if value is not None else ()
            inner = [Definition.of((value.path, symbol)) for symbol in every if value is not None]
            more = self._asked_for(inner[0], further - 1) if inner else {}
            if not more:
                return {}
            methods |= more
        return methods

    @cached_property
    def _derived(self) -> dict[str, list[Definition]]:
        """Classes by the last names of what they say they are made from."""
        by_base: dict[str, list[Definition]] = {}
        for path in sorted(self.outlines):
            for symbol in self.outlines[path].symbols:
                if symbol.kind in ("class", "struct", "interface", "enum"):
                    for base in base_names(symbol.signature):
                        definition = Definition.of((path, symbol))
                        by_base.setdefault(re.split(r"[.:]", base)[-1], []).append(definition)
        return by_base


def _open(value: _Value | None, element: str) -> _Value | None:
    """A value once it is unwrapped; what is not wrapped has no ``?``, but may be awaited."""
    if value is not None and element.endswith("?"):
        return value.replace(is_wrapped=False)
    return value


def _nobody() -> Symbol:
    """Code that is in no definition."""
    from rlm_ci.source import Symbol

    return Symbol("module", "", 1, 1, is_public=False)


def _takes(symbol: Symbol, arguments: int) -> bool:
    few, many = parameters(symbol.signature, symbol.name.rpartition(".")[2])
    return few <= arguments and (many < 0 or arguments <= many)


def _original(line: Import, name: str) -> str:
    """The name that an import gives under ``name``; "" if it gives none of that."""
    if not line.names and not line.called:  # in Java and PHP, of a class
        return name if name[:1].isupper() and _PARTS.split(line.module)[-1] == name else ""
    for local, original in zip(line.called or line.names, line.names, strict=False):
        if local == name:
            return original
    return name if "*" in line.names else ""


def _binds(line: Import, first: str, language: str) -> str:
    """The module that an import calls ``first``; "" for another."""
    if line.names:
        return _original(line, first) if "*" not in line.names else ""
    if first in line.called or line.module == first:
        return line.module
    last = line.module.rstrip("/").rpartition("/")[2]
    if language == "Go" and re.fullmatch(r"v\d+", last):
        last = line.module.rpartition("/")[0].rpartition("/")[2]
    return last if language == "Go" and last in (first, f"go-{first}") else ""


def base_names(signature: str) -> Iterator[str]:
    """The classes that a class says it is made from."""
    bare = signature
    while _ARGUMENTS.search(bare):
        bare = _ARGUMENTS.sub("", bare)
    for match in _BASES.finditer(bare):
        text = next((group for group in match.groups() if group), "")
        for part in text.split(","):
            if re.fullmatch(r"[\w.:$]+", name := part.strip()):
                yield name.replace("::", ".")
