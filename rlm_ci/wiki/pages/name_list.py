"""The public names of a file, as the page of its module lists them."""

from __future__ import annotations

from rlm_ci.text.neutralise import code
from rlm_ci.values import Row
from rlm_ci.wiki.facts.readme import listed, sentence, signature
from rlm_ci.wiki.pages.layout import CONTAINERS, api, shown_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from rlm_ci.source import Symbol
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.citations import CitationRegister
    from rlm_ci.wiki.pages.layout import Given, Module

#: Lines of a file's list that are shown at once; the others are folded.
_SHOWN = 12


class NameLimit(Row):
    """How many names are listed: ``minimum``, one more each ``step`` lines, ``maximum`` at most."""

    minimum: int
    step: int
    maximum: int

    def at(self, lines: int) -> int:
        return min(self.maximum, self.minimum + lines // self.step)


#: Names of a file, members of a class, and values of either, with their signatures or links.
_NAMES, _MEMBERS, _VALUES = NameLimit(13, 60, 60), NameLimit(3, 100, 20), NameLimit(6, 50, 30)
#: Names of a file or a class that are listed without a signature.
_OTHERS = 40


def linked(
    names: Sequence[tuple[str, FileFacts, Symbol]], limit: int, register: CitationRegister
) -> str:
    """Names that lead to their places; only what is shown is a claim."""
    shown = [
        register.linked_name(code(name), facts.path, *facts.head_of(symbol))
        for name, facts, symbol in names[:limit]
    ]
    return listed(shown, limit, len(names))


def _name_words(names: Sequence[tuple[str, FileFacts, Symbol]]) -> str:
    return listed([code(name) for name, _, _ in names], _OTHERS)


def listing(
    facts: FileFacts, module: Module, options: Given, register: CitationRegister
) -> dict[str, Any] | None:
    """What the page of a module lists of a file; None where that is nothing."""
    shown = facts.path.removeprefix(f"{module.folder}/") if module.folder else facts.path
    symbols = api(facts, module.folder, options)
    if not symbols:
        return None
    rows: list[dict[str, Any]] = []
    others: list[tuple[str, FileFacts, Symbol]] = []
    room, values = (limit.at(facts.outline.lines) for limit in (_NAMES, _VALUES))
    holders: dict[str, dict[str, Any]] = {}
    names: list[tuple[str, FileFacts, Symbol]] = []
    words: set[str] = set()
    inhabited = {
        symbol.name.rpartition(".")[0]
        for _, symbol in symbols
        if symbol.kind not in ("constant", "variable")
    }
    for _, symbol in symbols:
        outer = symbol.name.rpartition(".")[0]
        if symbol.kind in ("constant", "variable"):
            if outer in holders:
                holders[outer]["values"].append((symbol.name.rpartition(".")[2], facts, symbol))
            else:
                names.append((shown_name(facts, symbol.name), facts, symbol))
                words.add(f"{symbol.kind}s")
            continue
        if outer in holders and symbol.name not in inhabited:
            holder = holders[outer]
            if len(holder["members"]) < _MEMBERS.at(holder["lines"]):
                holder["members"].append(_row(facts, symbol, register))
            else:
                holder["others"].append((symbol.name.rpartition(".")[2], facts, symbol))
            continue
        if len(rows) == room:
            others.append((shown_name(facts, symbol.name), facts, symbol))
            continue
        row = _row(facts, symbol, register)
        row["within"] = code(shown_name(facts, outer)) if outer else ""
        if symbol.kind in CONTAINERS:
            holders[symbol.name] = row
        rows.append(row)
    for row in rows:
        row["rest"] = _name_words(row["others"])
        # What has methods is not known by its fields.
        fields = () if row["members"] else row["values"]
        row["holds"] = linked(fields, _VALUES.at(row["lines"]), register)
    return {
        "file": code(shown),
        **_folded(rows, len(others)),
        "rest": _name_words(others),
        "constants": linked(names, values, register),
        "constants_are": " and ".join(sorted(words)).capitalize(),
        "path": code(facts.path),
    }


def _folded(rows: Sequence[dict[str, Any]], others: int) -> dict[str, Any]:
    """The rows to show, and those to fold: of a long list, members and what follows a dozen."""
    inner = sum(len(row["members"]) + len(row["others"]) for row in rows)
    # A fold takes a line of its own.
    if len(rows) + inner + others <= _SHOWN + 1:
        return {"rows": rows, "folded": (), "more": 0}
    first = rows[:_SHOWN]
    within = [
        {**row, "signature": row["name"], "within": "", "doc": "", "holds": ""}
        for row in first
        if row["members"]
    ]
    return {
        "rows": [{**row, "members": (), "rest": ""} for row in first],
        "folded": [*within, *rows[_SHOWN:]],
        "more": len(rows) - len(first) + inner + others,
    }


def _row(facts: FileFacts, symbol: Symbol, register: CitationRegister) -> dict[str, Any]:
    text = signature(symbol.signature or f"{symbol.kind} {symbol.name}")
    return {
        "signature": register.linked_name(text, facts.path, *facts.head_of(symbol)),
        "doc": sentence(symbol.doc) if symbol.doc else "",
        "within": "",
        "name": code(shown_name(facts, symbol.name)),
        "lines": symbol.line_end - symbol.line_start + 1,
        "members": [],
        "others": [],
        "values": [],
    }
