"""The public names of a file, as the page of its module lists them."""

from __future__ import annotations

from rlm_ci.text.neutralise import code
from rlm_ci.text.printable import printable
from rlm_ci.wiki.pages.layout import CONTAINERS, api, told
from rlm_ci.wiki.pages.wording import listed, sentence, signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rlm_ci.source import Symbol
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.citations import CitationRegister
    from rlm_ci.wiki.pages.layout import Given, Module

#: Names that are listed of one file, members of one class, values of either.
_NAMES, _MEMBERS, _VALUES = 120, 40, 30


def linked(
    names: Sequence[tuple[str, FileFacts, int]], most: int, register: CitationRegister
) -> str:
    """Names with their places; only what is shown is a claim."""
    shown = [
        f"{code(printable(name))} {_link(one, number, register)}"
        for name, one, number in names[:most]
    ]
    return listed(shown, most, len(names))


def listing(
    one: FileFacts, module: Module, given: Given, register: CitationRegister
) -> dict[str, Any] | None:
    """What the page of a module lists of a file; None where that is nothing."""
    shown = one.path.removeprefix(f"{module.folder}/") if module.folder else one.path
    symbols = api(one, module.folder, given)
    if not symbols:
        return None
    rows: list[dict[str, Any]] = []
    holders: dict[str, dict[str, Any]] = {}
    names: list[tuple[str, FileFacts, int]] = []
    words: set[str] = set()
    inhabited = {
        symbol.name.rpartition(".")[0]
        for _, symbol in symbols
        if symbol.kind not in ("constant", "variable")
    }
    for number, symbol in symbols:
        outer = symbol.name.rpartition(".")[0]
        if symbol.kind in ("constant", "variable"):
            if outer in holders:
                holders[outer]["values"].append((symbol.name.rpartition(".")[2], one, number))
            else:
                names.append((told(one, symbol.name), one, number))
                words.add(f"{symbol.kind}s")
            continue
        if len(rows) == _NAMES:
            break
        if outer in holders and symbol.name not in inhabited:
            members = holders[outer]["members"]
            if len(members) < _MEMBERS:
                members.append(_row(one, number, symbol, register))
            else:
                holders[outer]["others"].append((symbol.name.rpartition(".")[2], one, number))
            continue
        row = _row(one, number, symbol, register)
        row["within"] = code(printable(told(one, outer))) if outer else ""
        if symbol.kind in CONTAINERS:
            holders[symbol.name] = row
        rows.append(row)
    for row in rows:
        row["more"] = len(row["others"])
        row["rest"] = linked(row["others"], _NAMES, register)
        row["holds"] = linked(row["values"], _VALUES, register)
    return {
        "file": code(printable(shown)),
        "rows": rows,
        "more": _left(symbols, rows, names),
        "constants": linked(names, _VALUES, register),
        "constants_are": " and ".join(sorted(words)).capitalize(),
    }


def _left(
    symbols: Sequence[object], rows: Sequence[dict[str, Any]], names: Sequence[object]
) -> int:
    if len(rows) < _NAMES:
        return 0
    inner: list[int] = [len(row["members"]) + row["more"] for row in rows]
    shown = len(rows) + sum(inner) + len(names)
    return max(0, len(symbols) - shown)


def _row(one: FileFacts, number: int, symbol: Symbol, register: CitationRegister) -> dict[str, Any]:
    return {
        "signature": signature(symbol.signature or f"{symbol.kind} {symbol.name}"),
        "doc": sentence(symbol.doc) if symbol.doc else "",
        "link": _link(one, number, register),
        "within": "",
        "members": [],
        "others": [],
        "values": [],
    }


def _link(one: FileFacts, number: int, register: CitationRegister) -> str:
    return register.link(one.path, *one.heads[number])
