"""The outline of a source file: its definitions, imports and entry points, without running it."""

from __future__ import annotations

from sys import intern

from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

#: States of an outline: parsed without errors, parsed around errors, not parsed.
PARSED = "parsed"
PARTLY = "partly"
UNPARSED = "unparsed"


class Symbol(Row):
    """A definition. ``name`` is qualified within the file (``Reader.close``).

    ``kind`` is one of class, function, method, constant, variable, type, interface, enum, struct,
    trait, module, macro. Lines are 1-based, inclusive, decorators included; ``signature`` is the
    head on one line, as it is written; ``doc`` the first paragraph of its documentation, with
    its lines, 0 without documentation.
    """

    kind: str
    name: str
    line_start: int
    line_end: int
    is_public: bool
    signature: str = ""
    doc: str = ""
    doc_start: int = 0
    doc_end: int = 0


class Import(Row):
    """An import as it is written: ``module`` is the imported module, ``names`` are taken from it.

    ``level`` is how many folders up a relative import begins, 0 for an absolute one. ``called``
    are the names in this file, if any of them has another name here.
    """

    module: str
    names: tuple[str, ...]
    line: int
    level: int = 0
    called: tuple[str, ...] = ()


class EntryPoint(Row):
    """Where a program begins: ``kind`` is main, script, action, command, route, test or task.

    The kind package is a name by which other programs import the package. ``runs`` is the command,
    the file or the ``module:function`` that a manifest gives a script or a task.
    """

    kind: str
    name: str
    line_start: int
    line_end: int
    runs: str = ""


class Outline(Row):
    """One file: ``doc`` is the first paragraph of its own documentation, at these lines.

    ``exported`` are the names in ``__all__``, sorted; () without it. In other languages it has the
    names of other modules that the file exports again; ``*`` for all of a module.
    """

    path: str
    language: str
    state: str
    lines: int
    doc: str = ""
    doc_start: int = 0
    doc_end: int = 0
    symbols: tuple[Symbol, ...] = ()
    imports: tuple[Import, ...] = ()
    entries: tuple[EntryPoint, ...] = ()
    exported: tuple[str, ...] = ()

    @classmethod
    def of_json(cls, record: Sequence[Any]) -> Outline:
        """Read an outline from its JSON list."""
        *head, symbols, imports, entries, exported = record
        # Interned: there may be a hundred thousand outlines, of few languages.
        head[1:3] = map(intern, head[1:3])
        return cls.of(
            (
                *head,
                tuple(map(Symbol.of, symbols)),
                tuple(
                    Import.of((module, tuple(names), line, level, tuple(called)))
                    for module, names, line, level, called in imports
                ),
                tuple(map(EntryPoint.of, entries)),
                tuple(exported),
            )
        )
