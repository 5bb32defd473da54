"""Classes of the program that are made from one of its classes, interfaces or traits."""

from __future__ import annotations

import re

from rlm_ci.source.uses.call_targets import base_names
from rlm_ci.source.uses.references import BY_FOLDER, Definition
from rlm_ci.source.uses.source_files import stem
from rlm_ci.values import Value
from rlm_ci.wiki.facts.note import REGISTRY, THROWS
from rlm_ci.wiki.pages.paths import folder_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.module_page import PageSources

    ClassesAbove = Mapping[Definition, Sequence[Definition]]

#: Kinds of what is made from another, and of what another is made from.
CLASSES = frozenset(("class", "enum", "struct"))
_BASES = CLASSES | {"interface", "trait"}
#: Classes from which on a family is one that is added to, and, even if nothing is left to them.
_FEW, MANY = 3, 8
#: What a method raises that is left to the classes below.
_LEFT = re.compile(r"(?:\w+\.)?NotImplemented(?:Error|Exception)?")
#: How a note begins that says which type of Rust has a trait.
IMPLEMENTS = "impl "
_ERROR = re.compile(r"(?:Error|Exception|Warning|Failure)$")


class ClassFamily(Value):
    """The ``members`` name ``base`` in their heads; ``left_names`` are left to them by it."""

    base: Definition
    members: tuple[Definition, ...]
    left_names: tuple[str, ...]


def classes_above(world: PageSources) -> dict[Definition, list[Definition]]:
    """What each class of the program is made from, as far as that is a class of the program."""
    by_name: dict[str, list[Definition]] = {}
    for file in world.program:
        for symbol in file.outline.symbols:
            if symbol.kind in _BASES and not file.is_generated:
                last = symbol.name.rpartition(".")[2]
                by_name.setdefault(last, []).append(Definition.of((file.path, symbol)))
    above: dict[Definition, list[Definition]] = {}
    for at in (at for definitions in by_name.values() for at in definitions):
        bases = (_base(at, text, by_name, world) for text in base_names(at.symbol.signature))
        above[at] = [base for base in bases if base is not None]
    for at, trait in _implemented(by_name, world):
        above[at].append(trait)
    return above


def class_families(above: ClassesAbove, world: PageSources) -> list[ClassFamily]:
    """The families of a few members and more, the largest first; none of errors.

    A member from which a family is made is none that one adds.
    """
    below: dict[Definition, list[Definition]] = {}
    for at, bases in above.items():
        for base in bases:
            below.setdefault(base, []).append(at)
    families = [
        ClassFamily(
            base,
            tuple(
                sorted(
                    (at for at in members if len(below.get(at, ())) < _FEW),
                    key=lambda at: (at.path, at.symbol.line_start),
                )
            ),
            tuple(_left_names(base, above, world)),
        )
        for base, members in below.items()
        if not _ERROR.search(base.symbol.name)
    ]
    families = [family for family in families if len(family.members) >= _FEW]
    return sorted(families, key=lambda family: (-len(family.members), family.base.path))


def lineage(at: Definition, above: ClassesAbove) -> Iterator[Definition]:
    """A class, and what it is made from, the nearest first."""
    waiting, seen = [at], {at}
    for definition in waiting:  # which grows
        yield definition
        fresh = [base for base in above.get(definition, ()) if base not in seen]
        seen.update(fresh)
        waiting += fresh


def _base(
    at: Definition, text: str, by_name: Mapping[str, Sequence[Definition]], world: PageSources
) -> Definition | None:
    """The class that ``text`` means in the head of another; None where that is not certain."""
    facts = world.files[at.path]
    language = facts.outline.language
    same = [
        other
        for other in by_name.get(text.rpartition(".")[2], ())
        if other != at and world.files[other.path].outline.language == language
    ]
    if language == "Ruby":  # from the innermost module outwards
        scope = at.symbol.name.split(".")[:-1]
        names = [".".join([*scope[:length], text]) for length in range(len(scope), -1, -1)]
        inside = (other for name in names for other in same if other.symbol.name == name)
        return next(inside, None)
    nearest = [other for other in same if other.path == at.path]
    if not nearest:
        nearest = [other for other in same if _is_imported(text, other.path, facts, world)]
    return nearest[0] if len(nearest) == 1 else None


def _is_imported(text: str, path: str, facts: FileFacts, world: PageSources) -> bool:
    """Whether a file sees the class ``text`` of another: by its folder, or by an import of it."""
    language, folder = facts.outline.language, folder_of(path)
    if language in BY_FOLDER and folder_of(facts.path) == folder:
        return True
    if path not in {edge.target for edge in world.graph.internal.get(facts.path, ())}:
        return False
    first = text.partition(".")[0]
    ends = {stem(path), folder.rpartition("/")[2]}
    for line in facts.outline.imports:
        parts = re.split(r"[./:\\]+", re.sub(r"\.[cm]?[jt]sx?$", "", line.module))
        if first in (*line.called, *line.names, parts[-1]) and ends & {parts[-1], *line.names}:
            return True
    return False


def _implemented(
    by_name: Mapping[str, Sequence[Definition]], world: PageSources
) -> Iterator[tuple[Definition, Definition]]:
    """The types of Rust, each with a trait of the program that its own file says it has."""
    for file, note in world.noted(REGISTRY):
        if not note.text.startswith(IMPLEMENTS):
            continue
        trait, name = note.text.removeprefix(IMPLEMENTS), note.detail
        traits = [at for at in by_name.get(trait, ()) if at.symbol.kind == "trait"]
        types = [at for at in by_name.get(name, ()) if at.path == file.path]
        seen = {called for line in file.outline.imports for called in (*line.names, *line.called)}
        is_seen = trait in seen or "*" in seen or any(at.path == file.path for at in traits)
        if len(traits) == len(types) == 1 and is_seen:
            yield types[0], traits[0]


def _left_names(base: Definition, above: ClassesAbove, world: PageSources) -> Iterator[str]:
    """The methods that a base, or one of its own bases, leaves to the classes below."""
    done: set[str] = set()
    for at in lineage(base, above):
        facts = world.files[at.path]
        left = {
            note.within
            for note in facts.notes
            if note.kind == THROWS and _LEFT.fullmatch(note.detail)
        }
        left |= {note.text for note in facts.notes if note.kind == "abstract"}
        outer = f"{at.symbol.name}."
        for symbol in facts.outline.symbols:
            name = symbol.name.removeprefix(outer)
            if symbol.kind != "method" or name == symbol.name or name in done:
                continue
            done.add(name)
            is_abstract = "abstract" in symbol.signature.partition("(")[0].split()
            if at.symbol.kind in ("interface", "trait") or is_abstract or symbol.name in left:
                yield name
