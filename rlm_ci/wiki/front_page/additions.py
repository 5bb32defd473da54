"""How another of a kind is added: what there is, where it is registered, what all of it has.

What is listed, switched over or decorated comes from ``surface.registries``; classes that are made
from one of the program's are found by their heads.
"""

from __future__ import annotations

import re

from rlm_ci.source.python.names import is_class
from rlm_ci.source.uses.references import BY_FOLDER, Definition
from rlm_ci.source.uses.written_types import returned
from rlm_ci.text.neutralise import code, prose
from rlm_ci.values import Value
from rlm_ci.wiki.facts.note import REGISTRY, CodeNote
from rlm_ci.wiki.facts.readme import ADDS, listed
from rlm_ci.wiki.front_page.class_families import (
    CLASSES,
    IMPLEMENTS,
    MANY,
    class_families,
    classes_above,
    lineage,
)
from rlm_ci.wiki.front_page.routes import TestFiles
from rlm_ci.wiki.pages.layout import shown_name
from rlm_ci.wiki.pages.paths import folder_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlm_ci.source import Symbol
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.front_page.class_families import ClassesAbove
    from rlm_ci.wiki.pages.module_page import PageSources


#: Rows of the table; names of members, and of what they have, that are shown; tests of an example.
_ROWS, _SHOWN, _TESTS, _FEW = 8, 8, 2, 3
_MANIFESTS = ("pyproject.toml", "setup.cfg")
_VALUES = frozenset(("constant", "variable"))
_KINDS = CLASSES | _VALUES | {"function"}
#: What chooses by a text, or makes members one after the other, has no name: how it is shown.
_CHOSEN = {
    "match": "what is chosen in",
    "switch": "what is chosen in",
    "new": "what is made in",
    "the default export": "the default export",
}
#: The type that is written behind the name of a function that is a value.
_TYPE = re.compile(r"\b\w+:\s*([A-Z]\w*)")


class _Member(Value):
    """One of the things that are registered: a file, or a ``symbol`` of it."""

    file_facts: FileFacts
    symbol: Symbol | None = None
    #: What the interface asks for that a function returns.
    required_names: frozenset[str] = frozenset()
    #: What a class has from its bases.
    base_names: frozenset[str] = frozenset()

    def is_class(self) -> bool:
        return self.symbol is not None and self.symbol.kind in CLASSES

    def is_enum(self) -> bool:
        return self.symbol is not None and self.symbol.kind == "enum"

    def names(self) -> set[str]:
        """What a user of the member may ask of it."""
        every = self.file_facts.outline.symbols
        if self.required_names:
            return set(self.required_names)
        if self.symbol is None:
            return {symbol.name for symbol in every if "." not in symbol.name and symbol.is_public}
        outer = f"{self.symbol.name}."
        inner = (
            symbol.name.removeprefix(outer) for symbol in every if symbol.name.startswith(outer)
        )
        return {name for name in inner if not name.startswith("_") and "." not in name}


class _Addition(Value):
    """What another can be added to: ``shown`` names it, ``names`` are those of its members.

    ``left_names`` are what a class leaves to those that are made from it; none of a list.
    """

    file_facts: FileFacts
    note: CodeNote
    shown: str
    names: tuple[str, ...]
    members: tuple[_Member, ...]
    left_names: tuple[str, ...] = ()
    is_family: bool = False


def additions(world: PageSources) -> list[dict[str, str]]:
    """A row for each list whose members all are of the program, and for each family of classes.

    Those with the most come first. A family that a list has is that list.
    """
    above = classes_above(world)
    every = list(_listed(above, world))
    listed_symbols = {member.symbol for addition in every for member in addition.members}
    for family in class_families(above, world):
        members = [_Member(world.files[at.path], at.symbol) for at in family.members]
        is_listed = 2 * len(listed_symbols & {at.symbol for at in family.members}) >= len(members)
        if (family.left_names or len(members) >= MANY) and not is_listed:
            base, symbol = world.files[family.base.path], family.base.symbol
            first, last = base.head_of(symbol)
            name = shown_name(base, symbol.name)
            note = CodeNote(REGISTRY, first, last, "", symbol.name)
            names = tuple(at.symbol.name.rpartition(".")[2] for at in family.members)
            every.append(
                _Addition(
                    base,
                    note,
                    code(name, cell=True),
                    names,
                    tuple(members),
                    family.left_names,
                    is_family=True,
                )
            )
    every.sort(
        key=lambda addition: (
            -len(addition.names), addition.file_facts.path, addition.note.line_start
        )
    )  # fmt: skip
    tests = TestFiles(world)
    return [_row(addition, world, tests) for addition in every[:_ROWS]]


def _listed(above: ClassesAbove, world: PageSources) -> Iterator[_Addition]:
    """What the program lists; neither plain values, nor what is not certain to be its own."""
    registered = list(_registered(world))
    definitions = _definitions(world) if registered else {}
    for file, note in registered:
        members = tuple(_members(file, note, world, definitions))
        is_typed = is_class(note.text.partition(": ")[2])
        if members and (is_typed or not _are_values(members)):
            if all(member.is_class() for member in members):
                members = tuple(_with_bases(member, above, world) for member in members)
        elif members or not _is_table(note, world):
            continue
        shown = _CHOSEN.get(note.text, "") or code(note.text.partition(": ")[0], cell=True)
        if note.within and note.text in _CHOSEN:
            shown = f"{shown} {code(shown_name(file, note.within), cell=True)}"
        yield _Addition(file, note, shown, tuple(note.detail.split(", ")), members)


def _with_bases(member: _Member, above: ClassesAbove, world: PageSources) -> _Member:
    """A class, with the names that it has from its bases."""
    if member.symbol is None:
        return member
    at = Definition.of((member.file_facts.path, member.symbol))
    bases = [_Member(world.files[base.path], base.symbol) for base in lineage(at, above)]
    return member.replace(base_names=frozenset().union(*(base.names() for base in bases[1:])))


def _are_values(members: Sequence[_Member]) -> bool:
    return all(member.symbol is not None and member.symbol.kind in _VALUES for member in members)


def _left(addition: _Addition) -> str:
    """What a base leaves to its members: of those names what all of them have, if any."""
    every = dict.fromkeys(addition.left_names)
    names = [name for name in every if all(name in member.names() for member in addition.members)]
    return listed([code(name, cell=True) for name in names or every], _SHOWN) if every else ""


def _registered(world: PageSources) -> Iterator[tuple[FileFacts, CodeNote]]:
    """The lists of the program; what decorators of one name register is one list."""
    decorated: dict[str, list[tuple[FileFacts, CodeNote]]] = {}
    for file, note in world.noted(REGISTRY):
        if note.text.startswith(IMPLEMENTS):
            continue
        if note.text.startswith("@"):
            decorated.setdefault(note.text, []).append((file, note))
        else:
            yield file, note
    manifests = [path for path in world.files if path.endswith(_MANIFESTS)]
    for path in sorted(path for path in manifests if path not in world.layout.owner):
        notes = world.files[path].notes
        yield from ((world.files[path], note) for note in notes if note.kind == REGISTRY)
    for rows in decorated.values():
        names = [
            f"{_stem(file.path)}.{name}" for file, note in rows for name in note.detail.split(", ")
        ]
        if len(names) >= _FEW:
            yield rows[0][0], rows[0][1].replace(detail=", ".join(names))


def _is_table(note: CodeNote, world: PageSources) -> bool:
    """Whether the rows are what a macro of the program gets."""
    return note.text.endswith("!") and any(
        symbol.kind == "macro" and symbol.name == note.text[:-1]
        for path in world.layout.owner
        for symbol in world.files[path].outline.symbols
    )


def _definitions(world: PageSources) -> Mapping[str, list[_Member]]:
    """What a list may have as a member, by its last name: classes, functions, values."""
    by_name: dict[str, list[_Member]] = {}
    for file in world.program:
        for symbol in file.outline.symbols:
            if symbol.kind in _KINDS and (symbol.kind in CLASSES or "." not in symbol.name):
                last = symbol.name.rpartition(".")[2]
                by_name.setdefault(last, []).append(_Member(file, symbol))
    return by_name


def _members(
    facts: FileFacts, note: CodeNote, world: PageSources, definitions: Mapping[str, list[_Member]]
) -> list[_Member]:
    """The members of a list, all definitions or all modules; none if one is not certain."""
    origins = {
        called: f"{line.module.rpartition('.')[2]}.{name}"
        for line in facts.outline.imports
        for called, name in zip(line.called, line.names, strict=False)
    }
    written = (origins.get(name, name) for name in note.detail.split(", "))
    names = [re.split(r"::|\.|:", name) for name in written]
    edges = world.graph.internal.get(facts.path, ())
    paths = {edge.target for edge in edges} | {facts.path}
    folder = folder_of(facts.path)
    is_package = facts.outline.language in BY_FOLDER
    members = []
    for parts in names:
        stem = parts[-2] if len(parts) > 1 else ""
        outer = [member for member in definitions.get(stem, ()) if member.file_facts.path in paths]
        if len(outer) == 1 and outer[0].is_enum():  # its variant; others may have that name, too
            members.append(outer[0])
            continue
        same = _made_type(parts[-1], facts, world, definitions) or definitions.get(parts[-1], [])
        same = [member for member in same if _stem(member.file_facts.path) == stem] or same
        if not stem:
            same = [
                member
                for member in same
                if member.file_facts.path in paths
                or (is_package and folder_of(member.file_facts.path) == folder)
            ]
        classes = [member for member in same if member.is_class()]
        same = classes if len(same) > 1 and classes else same
        if not same:
            same = [member for member in outer if member.is_class()]
        if len(same) == 1:
            members.append(same[0])
    if len(members) == len(names):
        return members
    files = [
        world.files[path] for path in sorted(paths - {facts.path}) if path in world.layout.owner
    ]
    by_stem: dict[str, list[FileFacts]] = {}
    for file in files:
        by_stem.setdefault(_stem(file.path), []).append(file)
    modules = [by_stem.get(parts[-1], []) or by_stem.get(parts[0], []) for parts in names]
    if not all(len(inner) == 1 for inner in modules):
        return []
    return [_Member(inner[0]) for inner in modules]


def _made_type(
    name: str, facts: FileFacts, world: PageSources, classes: Mapping[str, list[_Member]]
) -> list[_Member]:
    """The type that a function of the same package of Go returns, or the function itself."""
    folder = folder_of(facts.path)
    if facts.outline.language != "Go":
        return []
    file_facts = [
        world.files[path] for path in sorted(world.layout.owner) if folder_of(path) == folder
    ]
    pairs = [(file, symbol) for file in file_facts for symbol in file.outline.symbols]
    makers = [(file, symbol) for file, symbol in pairs if symbol.name == name]
    text = returned(makers[0][1].signature, name, "Go").lstrip("*") if len(makers) == 1 else ""
    methods = [
        symbol.name.removeprefix(f"{text}.")
        for _, symbol in pairs
        if text and symbol.name.startswith(f"{text}.")
    ]
    is_interface = any(symbol.name == text and symbol.kind == "interface" for _, symbol in pairs)
    if is_interface and methods:
        return [_Member(*makers[0], frozenset(methods))]
    return [
        member for member in classes.get(text, []) if folder_of(member.file_facts.path) == folder
    ]


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def _row(addition: _Addition, world: PageSources, tests: TestFiles) -> dict[str, str]:
    note, members, facts = addition.note, addition.members, addition.file_facts
    names = [code(name, cell=True) for name in addition.names]
    guide = next(_guides(note, world), "")
    where = world.register.link(facts.path, note.line_start, note.line_end, cell=True)
    row = {
        "what": f"{guide}{addition.shown}: {listed(names, _SHOWN)}",
        "where": f"made from {where}" if addition.is_family else where,
        "have": "a row as the others",
        "example": "the shortest row",
        "tests": tests.cell(facts, _TESTS),
    }
    if not members:
        return row
    is_apart = len({member.file_facts.path for member in members}) == len(members)
    complete = [member for member in members if member.names().issuperset(addition.left_names)]
    example = min(
        complete or members,
        key=lambda member: (_size(member, is_apart=is_apart), member.file_facts.path),
    )
    first, last = (1, example.file_facts.outline.lines)
    if example.symbol is not None and not is_apart:
        first, last = example.symbol.line_start, example.symbol.line_end
    return row | {
        "have": _left(addition) or _alike(members, note.text.partition(": ")[2], facts, world),
        "example": world.register.link(example.file_facts.path, first, last, cell=True),
        "tests": tests.cell(example.file_facts, _TESTS),
    }


def _alike(members: Sequence[_Member], of_type: str, facts: FileFacts, world: PageSources) -> str:
    """What all members have: names, what their type asks for, or parameters."""
    symbols = [member.symbol for member in members if member.symbol is not None]
    names: list[str] = []
    if of_type:
        outer = f"{of_type}."
        folder = folder_of(facts.path)
        paths = [path for path in sorted(world.layout.owner) if folder_of(path) == folder]
        names = [
            symbol.name.removeprefix(outer)
            for path in paths
            for symbol in world.files[path].outline.symbols
            if symbol.kind == "method" and symbol.name.startswith(outer)
        ]
    elif len(set(symbols)) == 1:
        return f"a variant of {code(symbols[0].name, cell=True)}"
    elif all(
        member.is_class() or member.symbol is None or member.required_names for member in members
    ):
        names = sorted(set.intersection(*(member.names() for member in members))) or sorted(
            set.intersection(*(member.names() | member.base_names for member in members))
        )
    functions = [symbol for symbol in symbols if symbol.kind == "function"]
    types = [_TYPE.search(symbol.signature.partition("=")[0]) for symbol in functions]
    written = {match[1] if match else "" for match in types}
    heads = set(map(_parameters, functions))
    if not names and functions and len(functions) == len(members):
        if len(written) == 1 and "" not in written:
            return f"the type {code(written.pop(), cell=True)}"
        is_one = len(heads) == 1
        return (
            f"the parameters {code(heads.pop(), cell=True)}" if is_one else
            "each is a function with parameters of its own"
        )  # fmt: skip
    shown = listed([code(name, cell=True) for name in names], _SHOWN) if names else ""
    if of_type:
        shown = f" with {shown}" if shown else ""
        return f"the type {code(of_type, cell=True)}{shown}"
    kinds = {symbol.kind for symbol in symbols}
    return shown or (f"each is a {kinds.pop()}" if len(kinds) == 1 else "names of their own")


def _parameters(symbol: Symbol) -> str:
    """The parameters of a function, as they are written."""
    _, bracket, tail = symbol.signature.partition("(")
    return f"({tail.partition(')')[0]})" if bracket else ""


def _size(member: _Member, *, is_apart: bool) -> int:
    """Lines of a member; of its file, where each has one of its own."""
    if member.symbol is None or is_apart:
        return member.file_facts.outline.lines
    return member.symbol.line_end - member.symbol.line_start + 1


def _guides(note: CodeNote, world: PageSources) -> Iterator[str]:
    """The chapter of a guide that says how one more is added, as a link."""
    words = {word.removesuffix("s") for word in re.findall(r"[a-z]{4,}", note.text.lower())}
    for path in sorted(world.files):
        for chapter in world.files[path].chapters:
            text = chapter.text.lower()
            if ADDS.search(text) and any(word in text for word in words - {"register"}):
                shown = prose(chapter.text, cell=True)
                link = world.register.linked_name(shown, path, chapter.line_start, chapter.line_end)
                yield f"{link}; "
