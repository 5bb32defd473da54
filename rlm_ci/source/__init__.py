"""What can be known of source code without running it: the outline of one file."""

from __future__ import annotations

from sys import intern

from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

#: How well a file was understood: without an error, around errors, not at all.
PARSED = "parsed"
PARTLY = "partly"
UNPARSED = "unparsed"


class Symbol(Row):
    """A definition. ``name`` is qualified within the file (``Reader.close``).

    ``kind`` is one of class, function, method, constant, variable, type, interface, enum, struct,
    trait, module, macro. Lines are 1-based, inclusive, decorators included; ``signature`` is the
    head on one line, as it is written; ``doc`` the first paragraph of its documentation, with
    the lines where that stands, 0 where there is none.
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
    """An import as it is written: ``module`` is the text of what is imported, ``names`` from it.

    ``level`` is how many folders up a relative one begins, 0 for an absolute one. ``called``
    is what the names are called here, where one of them is called otherwise than there.
    """

    module: str
    names: tuple[str, ...]
    line: int
    level: int = 0
    called: tuple[str, ...] = ()


class EntryPoint(Row):
    """Where something begins to run: ``kind`` is main, script, command, route, test or task.

    Or it is package: what a program that imports the package by this name enters it by.
    """

    kind: str
    name: str
    line_start: int
    line_end: int


class Outline(Row):
    """One file: ``doc`` is the first paragraph of its own documentation, at these lines.

    ``exported`` is what ``__all__`` lists, sorted; () where there is none. Elsewhere it is what the
    file passes on of others, by the names that it gives it; ``*`` for all of some.
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
        """One from the list that JSON makes of it."""
        *head, symbols, imports, entries, exported = record
        # There may be one for each of a hundred thousand files, of few languages.
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
